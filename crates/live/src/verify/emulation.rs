//! Verification by Debian's kernels in emulation: the kernels that can be booted, and one boot per case.
//!
//! ```text
//!   for each kernel, for each case
//!     boot it (qemu) with this program as init, which records the case and sends the files
//!     keep the files in the user's cache directory, one directory per case, and compare the twin with them
//! ```
//!
//! Recordings in the cache are reused unless the user asks for new ones, because a boot in emulation is
//! reproducible. So an interrupted verification continues where it stopped. A kernel or case that fails is
//! skipped, and the report says why.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Report, VerifyError, failed};
use crate::qemu::{Cache, Emulator, GivenFile, KERNELS, Kernel, KernelFiles, Machine, QemuError, Task};
use crate::record::interruption::Interruption;

/// The hidden subcommand for init of an emulated machine; a mechanism and the arguments of a [`Boot`] follow.
pub const GUEST: &str = "guest";

/// The command line of this program in an emulated machine with the subcommand `word`.
pub(super) fn words_in_guest(word: &str) -> [String; 2] {
    ["/init".into(), word.into()]
}

/// Opens the recording that a boot has left in a directory; also returns its name for the report.
pub type Open<R> = Box<dyn Fn(&Boot, &Kernel, &Path) -> Result<(String, R), VerifyError>>;

/// The boots of a mechanism.
pub struct Boots<R> {
    pub machine: Machine,
    /// What is recorded on each kernel, in one boot each.
    pub boots: Vec<Boot>,
    pub open: Open<R>,
}

/// One boot of each kernel.
pub struct Boot {
    /// Name in the report.
    pub name: String,
    /// Directory of the recording: one for many boots, and a subdirectory for this one.
    pub place: [String; 2],
    /// Arguments of init.
    pub words: Vec<String>,
    /// Files that init finds in the guest.
    pub given: Vec<GivenFile>,
    /// A release whose kernel lacks what it needs, and what that is.
    pub not_on: Option<(&'static str, &'static str)>,
}

/// Boots kernels on one kind of machine.
pub(super) struct Emulation {
    machine: Machine,
    cache: Cache,
    interruption: Interruption,
    /// Ignore the recordings in the cache.
    fresh: bool,
    /// Number of boots that were found in the cache.
    reused: usize,
}

/// A kernel that can be booted, with its files and the emulator.
pub(super) struct Bootable {
    pub kernel: Kernel,
    files: KernelFiles,
    emulator: Emulator,
}

impl Emulation {
    /// Prepares emulation on `machine`: opens the cache. `fresh` ignores the recordings in it.
    pub fn open(machine: Machine, fresh: bool) -> Result<Emulation, VerifyError> {
        let cache = Cache::open()?;
        let interruption = Interruption::watch().map_err(|source| failed("signals", source))?;
        Ok(Emulation { machine, cache, interruption, fresh, reused: 0 })
    }

    /// The kernels that can be booted; the reasons why others cannot are added to the notes of `report`.
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

    /// The directory for the recording of a boot.
    pub fn place(&self, bootable: &Bootable, boot: &Boot) -> PathBuf {
        let [directory, case] = &boot.place;
        self.cache.path().join(directory).join(&bootable.files.package).join(case)
    }

    /// Boots a kernel for one case, with `task` for init, and puts its files into `place`, unless they are there. Returns whether they are there now; if not, the notes of `report` have the reason.
    pub fn boot(
        &mut self,
        bootable: &Bootable,
        task: Task,
        place: &Path,
        report: &mut Report,
    ) -> Result<bool, VerifyError> {
        if !self.fresh && Cache::check(place).is_ok() {
            self.reused += 1;
            return Ok(true);
        }
        match self.try_boot(bootable, task, place) {
            Ok(()) => Ok(true),
            Err(QemuError::Interrupted) => Err(VerifyError::Interrupted),
            Err(error) => {
                report.notes.push(format!("{} was skipped: {error}", place.display()));
                Ok(false)
            }
        }
    }

    fn try_boot(&self, bootable: &Bootable, task: Task, place: &Path) -> Result<(), QemuError> {
        let io = |source| QemuError::File { path: place.to_path_buf(), source };
        // A directory without this extension is complete.
        let unfinished = place.with_extension("unfinished");
        if unfinished.is_dir() {
            fs::remove_dir_all(&unfinished).map_err(io)?;
        }
        fs::create_dir_all(&unfinished).map_err(io)?;
        let console = unfinished.join("console.txt");
        let Bootable { files, emulator, .. } = bootable;
        for file in
            self.machine.run(emulator, files, task, &console, &self.cache, &|| self.interruption.asked())?
        {
            fs::write(unfinished.join(file.name), file.content).map_err(io)?;
        }
        self.cache.keep(&unfinished, place)
    }

    /// Adds a note on how many recordings were reused.
    pub fn note_reused(&self, report: &mut Report) {
        if self.reused > 0 {
            let cache = self.cache.path().display();
            report
                .notes
                .push(format!("{} boots were reused from {cache}; --fresh repeats them", self.reused));
        }
    }
}
