//! Boots other kernels in emulation: Debian's kernels in QEMU, with nothing but this program as userspace.
//!
//! ```text
//!   apt, dpkg ── packages ──► vmlinuz, brd.ko ─┐
//!   this program, its libraries ── initramfs ──┴─► machine: qemu-system-x86_64, software emulation
//!                                                   │ first serial line: the console
//!   files that the guest creates ◄─── second ───────┘ guest: mounts, a RAM disk, the task
//! ```
//!
//! **Nothing is installed.** apt downloads packages with its own lists and directories below the user's cache directory;
//! only the kernel and one module are kept, with their checksums. The guest needs no other package: its init is this
//! program, with the shared libraries that are mapped into it on the host.
//!
//! **A run is reproducible bit for bit.** Time is the number of executed instructions (`-icount`), all of equal length, and
//! the guest sees nothing of the host: the same kernel, program, QEMU and arguments give the same bits. Counts and
//! placement are meaningful in emulation, speed is not.
//!
//! Results are sent as text over a serial line, because a shared-memory device would need a driver to map it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checksums;
use crate::places::{self, PlaceError};
use crate::rollback::{Guard, GuardError, TemporaryDirectory};

mod emulator;
pub mod guest;
mod initramfs;
mod machine;
mod packages;

pub use emulator::Emulator;
pub use initramfs::GivenFile;
pub use machine::{GuestFile, Machine, Task};
pub use packages::{KERNELS, Kernel, KernelFiles};

/// Why a kernel cannot be emulated; the message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// Another user could have put files where they would be executed from.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Files of an earlier run cannot be removed.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A required program is not installed.
    #[error("there is no {program}; install Debian's package {package}")]
    Missing {
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    #[error("{program} failed: {message}")]
    Failed {
        program: String,
        /// The last line of its output.
        message: String,
    },
    /// No archive has a package of the kernel.
    #[error(
        "no package has Linux {release}: apt has no Debian archive in its sources, or the archive no longer has {prefix}*-cloud-amd64; \
         put its vmlinuz and brd.ko into {}, with what `sha256sum vmlinuz brd.ko > {SUMS}` writes there", .directory.display(),
        SUMS = checksums::SUMS
    )]
    NoPackage {
        release: &'static str,
        /// Prefix of the package's name.
        prefix: &'static str,
        /// The directory into which the user can put the files.
        directory: PathBuf,
    },
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// The guest could not do its task.
    #[error("the guest: {message}; its console is in {}", .console.display())]
    Guest {
        /// The guest's error message.
        message: String,
        /// The file with the output of its console.
        console: PathBuf,
    },
    #[error("interrupted")]
    Interrupted,
}

/// Adds the path to an I/O error.
fn file_error(path: &Path) -> impl Fn(io::Error) -> QemuError {
    let path = path.to_path_buf();
    move |source| QemuError::File { path: path.clone(), source }
}

/// The path of `program`, also searched in the sbin directories, but not in the current directory.
fn find(program: &'static str, package: &'static str) -> Result<PathBuf, QemuError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let places = places.filter(|place| place.is_absolute());
    let mut found = places.map(|place| place.join(program)).filter(|path| path.is_file());
    found.next().ok_or(QemuError::Missing { program, package })
}

/// Runs a command and returns its stdout.
fn output(command: &mut Command) -> Result<String, QemuError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(file_error(Path::new(&program)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let message = text.trim().lines().last().unwrap_or("no output").to_string();
    Err(QemuError::Failed { program, message })
}

/// The cache of downloads and of recordings of emulated kernels. It is a private directory of the user
/// ([`places::cache`]), and files are checked against their checksums before they are executed
/// (`checksums.rs`).
pub struct Cache {
    root: PathBuf,
    guard: Guard,
}

impl Cache {
    /// Opens the cache, and creates it if it does not exist.
    pub fn open() -> Result<Cache, QemuError> {
        Ok(Cache { root: places::cache()?, guard: Guard::take()? })
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// A subdirectory; created if it does not exist.
    fn directory(&self, name: &str) -> Result<PathBuf, QemuError> {
        Ok(places::own(&self.root.join(name), "remove it")?)
    }

    /// A temporary subdirectory for incomplete files; always removed.
    fn unfinished(&self) -> Result<TemporaryDirectory, QemuError> {
        self.guard.directory(&self.root).map_err(file_error(&self.root))
    }

    /// Replaces the directory `place` by the complete one, with checksums of its files.
    pub(crate) fn keep(&self, complete: &Path, place: &Path) -> Result<(), QemuError> {
        checksums::note(complete).map_err(file_error(complete))?;
        if place.exists() {
            fs::remove_dir_all(place).map_err(file_error(place))?;
        }
        places::rename(complete, place).map_err(file_error(place))
    }

    /// Checks the owner of a directory and the checksums of its files.
    pub(crate) fn check(place: &Path) -> Result<(), String> {
        let place = places::check(place, "remove it").map_err(|error| error.to_string())?;
        checksums::check(&place)
    }
}
