//! The program that emulates: the machine's own, or a newer one out of Debian's packages.
//!
//! ```text
//!   one CPU          qemu-system-x86_64 as it is installed
//!   several          the same if it is new enough, or else cache/qemu/SUITE/, unpacked and not installed:
//!                      the packages that apt would install for it on this machine, firmware and libraries among them
//! ```
//!
//! apt checks what it downloads by the signed lists of the archive. Hashes of all files are noted then, and checked before the program is
//! run again.
//!
//! In deterministic time, older versions let one CPU run on while it waits for another to start: 7.2 was still at that after
//! minutes, 10.0 needs milliseconds.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{Apt, download};
use super::{Cache, QemuError, find, output};

const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// The first version that is known to run several CPUs.
const SEVERAL_CPUS: u32 = 10;
/// Where a newer one is, for machines whose own is older, and its packages.
const SUITE: &str = "bookworm-backports";
/// Where packages have the firmware, and libraries.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// A program that emulates machines, and what it needs that is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    program: PathBuf,
    firmware: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Emulator {
    /// One for machines with so many CPUs; it may be kept in `cache`.
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
        // One that was unpacked before may miss a library that was installed then.
        if Cache::check(&root).is_err() || unpacked.major_version().is_err() {
            Emulator::unpack(&root, cache, progress)?;
        }
        unpacked.major_version().map(|_| unpacked)
    }

    /// The one that is unpacked in `root`.
    fn unpacked(root: &Path) -> Emulator {
        let under = |places: [&str; 2]| places.iter().map(|place| root.join(place)).collect();
        Emulator {
            program: root.join("usr/bin").join(PROGRAM),
            firmware: under(FIRMWARE),
            libraries: under(LIBRARIES),
        }
    }

    /// Unpacks what this machine would have to install, in place of what is in `root`.
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

    /// A call of it, which ends when this process is killed.
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
        major(&text)
            .ok_or_else(|| QemuError::Failed { program: PROGRAM.into(), message: "it has no version".into() })
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
