//! Other kernels than the one that runs here, in emulation: Debian's, booted by QEMU with nothing but this very program.
//!
//! ```text
//!   apt, dpkg ── packages ──► vmlinuz, brd.ko ─┐
//!   this program, its libraries ── initramfs ──┴─► machine: qemu-system-x86_64, software emulation
//!                                                   │ first serial line: the console
//!   files that the guest made ◄────── second ───────┘ guest: mounts, a disk in memory, what was asked for
//! ```
//!
//! **Nothing is installed.** Packages are downloaded by apt with lists and folders of its own, which are in the user's cache
//! directory, and only the kernel and one module are kept of them, with their hashes. The guest needs no other package: its init is this
//! program, with the shared libraries that are mapped into it here.
//!
//! **A run repeats bit for bit.** Time is the number of executed instructions (`-icount`), each of the same length, and nothing
//! of the host is visible: same kernel, program, QEMU and arguments, same bits. Counts and placement mean something in
//! emulation, speed does not.
//!
//! Results go through a serial line as text, because shared memory of a device would have to be mapped.

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
pub use machine::{GuestFile, Machine};
pub use packages::{KERNELS, Kernel, KernelFiles};

/// Why a kernel cannot be emulated; says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// Nobody can tell who put there what would be run.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// What is left behind could not be removed.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A program is not there.
    #[error("there is no {program}; install Debian's package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A program failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// The program.
        program: String,
        /// What it said last.
        message: String,
    },
    /// No package has the kernel.
    #[error(
        "no package has Linux {release}: apt knows no archive of Debian's, or that has no {prefix}*-cloud-amd64 any more; \
         put its vmlinuz and brd.ko into {}, with what `sha256sum vmlinuz brd.ko > {SUMS}` writes there", .directory.display(),
        SUMS = checksums::SUMS
    )]
    NoPackage {
        /// The release.
        release: &'static str,
        /// How the package's name begins.
        prefix: &'static str,
        /// Where the files would be found.
        directory: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The guest did not do what was asked for.
    #[error("the guest: {message}; its console is in {}", .console.display())]
    Guest {
        /// What it said, or that it said nothing.
        message: String,
        /// Its console.
        console: PathBuf,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Says which file an error is about.
fn file_error(path: &Path) -> impl Fn(io::Error) -> QemuError {
    let path = path.to_path_buf();
    move |source| QemuError::File { path: path.clone(), source }
}

/// Where `program` is, also where only root looks. What is in the current directory is not taken for it.
fn find(program: &'static str, package: &'static str) -> Result<PathBuf, QemuError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let places = places.filter(|place| place.is_absolute());
    let mut found = places.map(|place| place.join(program)).filter(|path| path.is_file());
    found.next().ok_or(QemuError::Missing { program, package })
}

/// Runs a command to its end and gives what it printed.
fn output(command: &mut Command) -> Result<String, QemuError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(file_error(Path::new(&program)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let message = text.trim().lines().last().unwrap_or("it said nothing").to_string();
    Err(QemuError::Failed { program, message })
}

/// Where downloads are kept, and what emulated kernels did. It is the user's own ([`places::cache`]), and what is run from there is
/// what was put there (`checksums.rs`).
pub struct Cache {
    root: PathBuf,
    guard: Guard,
}

impl Cache {
    /// Finds it, or makes it.
    pub fn open() -> Result<Cache, QemuError> {
        Ok(Cache { root: places::cache()?, guard: Guard::take()? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// A directory in it, which is made if it is not there.
    fn directory(&self, name: &str) -> Result<PathBuf, QemuError> {
        Ok(places::own(&self.root.join(name), "remove it")?)
    }

    /// A directory in it that is removed whatever happens, for what is not complete.
    fn unfinished(&self) -> Result<TemporaryDirectory, QemuError> {
        self.guard.directory(&self.root).map_err(file_error(&self.root))
    }

    /// Puts a complete directory in the place of another, with the hashes of all that is in it.
    pub(crate) fn keep(&self, complete: &Path, place: &Path) -> Result<(), QemuError> {
        checksums::note(complete).map_err(file_error(complete))?;
        if place.exists() {
            fs::remove_dir_all(place).map_err(file_error(place))?;
        }
        places::rename(complete, place).map_err(file_error(place))
    }

    /// Whether a directory in it is the user's own and has what was put there.
    pub(crate) fn check(place: &Path) -> Result<(), String> {
        let place = places::check(place, "remove it").map_err(|error| error.to_string())?;
        checksums::check(&place)
    }
}
