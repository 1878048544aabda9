//! Verification on Debian's kernels in emulation: which of them can be booted, and a boot for each case.
//!
//! ```text
//!   for each kernel, for each case
//!     boot it (qemu) with this program as init, which records the case and sends the files
//!     they stay in the user's cache directory, one directory a case; the twin is judged by them
//! ```
//!
//! A boot that was made before is not made again, unless it is asked for: kernels in emulation do the same each time. So what was
//! interrupted goes on where it stopped. A kernel or case that cannot be had is skipped, and the report says why.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Report, VerifyError, failed};
use crate::qemu::{Cache, Emulator, KERNELS, Kernel, KernelFiles, Machine, QemuError};
use crate::record::interruption::Interruption;

/// What leads this program to what it does as init of an emulated machine; a mechanism and the words of a [`Boot`] follow.
pub const GUEST: &str = "guest";

/// This program inside an emulated machine, and the word that leads it to something else.
pub(super) fn words_in_guest(word: &str) -> [String; 2] {
    ["/init".into(), word.into()]
}

/// Opens what a boot of a kernel has left in a directory, and says what it is called.
pub type Open<R> = fn(&Boot, &Kernel, &Path) -> Result<(String, R), VerifyError>;

/// What is booted of a mechanism.
pub struct Boots<R> {
    /// The machine.
    pub machine: Machine,
    /// What is recorded on each kernel, in a boot each.
    pub boots: Vec<Boot>,
    /// Opens what a boot has left.
    pub open: Open<R>,
}

/// One boot of each kernel.
pub struct Boot {
    /// For people.
    pub name: String,
    /// Where its files are kept: a directory for many boots, and one for this.
    pub place: [String; 2],
    /// What tells init what to do.
    pub words: Vec<&'static str>,
}

/// What it takes to boot kernels on a machine.
pub(super) struct Emulation {
    machine: Machine,
    cache: Cache,
    interruption: Interruption,
    /// Boots that were made before are made again.
    fresh: bool,
    /// Boots that were not made again.
    reused: usize,
}

/// A kernel to boot, and what boots it.
pub(super) struct Bootable {
    /// Which it is.
    pub kernel: Kernel,
    files: KernelFiles,
    emulator: Emulator,
}

impl Emulation {
    /// Of kernels on `machine`; looks for nothing yet but the cache. `fresh`: what is there is made again.
    pub fn open(machine: Machine, fresh: bool) -> Result<Emulation, VerifyError> {
        let cache = Cache::open()?;
        let interruption = Interruption::watch().map_err(|source| failed("signals", source))?;
        Ok(Emulation { machine, cache, interruption, fresh, reused: 0 })
    }

    /// The kernels that can be booted; why others cannot goes to the notes of `report`.
    pub fn kernels(&self, report: &mut Report, progress: &mut dyn FnMut(&str)) -> Vec<Bootable> {
        let emulator = match Emulator::find(self.machine.cpus, &self.cache, progress) {
            Ok(emulator) => emulator,
            Err(error) => {
                report.notes.push(format!("nothing was emulated: {error}"));
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for kernel in KERNELS {
            match kernel.files(&self.cache, progress) {
                Ok(files) => found.push(Bootable { kernel, files, emulator: emulator.clone() }),
                Err(error) => {
                    report.notes.push(format!("Linux {} was skipped: {error}", kernel.release));
                }
            }
        }
        found
    }

    /// Where the files of a boot are left.
    pub fn place(&self, bootable: &Bootable, boot: &Boot) -> PathBuf {
        let [directory, case] = &boot.place;
        self.cache.path().join(directory).join(&bootable.files.package).join(case)
    }

    /// Boots a kernel for one case, with `words` for init, and leaves its files in `place`, if they are not there. Whether they
    /// are now; if not, the notes of `report` say why.
    pub fn boot(
        &mut self,
        bootable: &Bootable,
        words: &[&str],
        place: &Path,
        report: &mut Report,
    ) -> Result<bool, VerifyError> {
        if !self.fresh && Cache::check(place).is_ok() {
            self.reused += 1;
            return Ok(true);
        }
        match self.try_boot(bootable, words, place) {
            Ok(()) => Ok(true),
            Err(QemuError::Interrupted) => Err(VerifyError::Interrupted),
            Err(error) => {
                report.notes.push(format!("{} was skipped: {error}", place.display()));
                Ok(false)
            }
        }
    }

    fn try_boot(&self, bootable: &Bootable, words: &[&str], place: &Path) -> Result<(), QemuError> {
        let io = |source| QemuError::File { path: place.to_path_buf(), source };
        // A directory of the right name is complete.
        let unfinished = place.with_extension("unfinished");
        if unfinished.is_dir() {
            fs::remove_dir_all(&unfinished).map_err(io)?;
        }
        fs::create_dir_all(&unfinished).map_err(io)?;
        let console = unfinished.join("console.txt");
        let Bootable { files, emulator, .. } = bootable;
        for file in
            self.machine.run(emulator, files, words, &console, &self.cache, &|| self.interruption.asked())?
        {
            fs::write(unfinished.join(file.name), file.content).map_err(io)?;
        }
        self.cache.keep(&unfinished, place)
    }

    /// Says in `report` how many boots were not made again.
    pub fn note_reused(&self, report: &mut Report) {
        if self.reused > 0 {
            let cache = self.cache.path().display();
            report.notes.push(format!(
                "{} boots had been made before and were not made again, see {cache}; --fresh makes them again",
                self.reused
            ));
        }
    }
}
