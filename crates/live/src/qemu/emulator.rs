//! The QEMU program: the installed one, or a newer one from Debian's packages.
//!
//! ```text
//!   one CPU          the installed qemu-system-x86_64
//!   several CPUs     the same if it is new enough, else cache/qemu/SUITE/, unpacked but not installed:
//!                      the packages that apt would install for it on this machine, including firmware and libraries
//! ```
//!
//! apt verifies downloads by the signed lists of the archive. Checksums of all files are then stored, and
//! verified before the program is run again.
//!
//! With deterministic time, older versions let one CPU run on while it waits for another one to start: 7.2
//! took minutes without result, 10.0 takes milliseconds.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{Apt, download};
use super::{Cache, QemuError, find, output};

const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// The first version known to work with several CPUs and deterministic time.
const SEVERAL_CPUS: u32 = 10;
/// The suite that has a newer QEMU, for machines with an older one.
const SUITE: &str = "bookworm-backports";
/// Directories of firmware within the packages.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// A QEMU program, and the directories of its libraries and firmware if it is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    program: PathBuf,
    firmware: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Emulator {
    /// A QEMU for machines with `cpus` CPUs; it may be unpacked into `cache`.
    pub fn find(cpus: u16, cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<Emulator, QemuError> {
        let installed = find(PROGRAM, PACKAGE).map(|program| Emulator {
            program,
            firmware: Vec::new(),
            libraries: Vec::new(),
        });
        if cpus == 1 {
            return installed;
        }
        if let Ok(emulator) = installed
            && emulator.major_version()? >= SEVERAL_CPUS
        {
            return Ok(emulator);
        }
        let root = cache.directory("qemu")?.join(SUITE);
        let unpacked = Emulator::unpacked(&root);
        // An unpacked QEMU may lack a library that was installed when it was unpacked, but is not any more.
        if Cache::check(&root).is_err() || unpacked.major_version().is_err() {
            Emulator::unpack(&root, cache, progress)?;
        }
        unpacked.major_version().map(|_| unpacked)
    }

    /// The QEMU that is unpacked in `root`.
    fn unpacked(root: &Path) -> Emulator {
        let under = |places: [&str; 2]| places.iter().map(|place| root.join(place)).collect();
        Emulator {
            program: root.join("usr/bin").join(PROGRAM),
            firmware: under(FIRMWARE),
            libraries: under(LIBRARIES),
        }
    }

    /// Unpacks the packages that this machine would have to install, and replaces `root`.
    fn unpack(root: &Path, cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<(), QemuError> {
        progress("looking for a newer QEMU in Debian's archive");
        let apt = Apt::open(cache)?;
        let new = cache.unfinished()?;
        for package in apt.would_install(PACKAGE, SUITE)? {
            progress(&format!("downloading {package}"));
            download(&apt, &package, new.path(), cache)?;
        }
        cache.keep(new.path(), root)
    }

    /// A command that runs QEMU, and is killed with this process.
    pub fn command(&self) -> Result<Command, QemuError> {
        let mut command = Command::new(find("setpriv", "util-linux")?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        self.firmware.iter().for_each(|place| {
            command.arg("-L").arg(place);
        });
        if let Ok(libraries) = std::env::join_paths(&self.libraries)
            && !libraries.is_empty()
        {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        Ok(command)
    }

    fn major_version(&self) -> Result<u32, QemuError> {
        let text = output(self.command()?.arg("--version"))?;
        major(&text).ok_or_else(|| QemuError::Failed {
            program: PROGRAM.into(),
            message: "its version is not in its output".into(),
        })
    }
}

fn major(text: &str) -> Option<u32> {
    text.split_once("version ")?.1.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(major("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"), Some(10));
        assert_eq!(major("QEMU emulator version 7.2.22"), Some(7));
        assert_eq!(major("something else"), None);
    }
}
