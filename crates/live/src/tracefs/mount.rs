//! Finding tracefs, or mounting it for as long as it is needed.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use crate::rollback::{Guard, GuardError};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Why tracefs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// Only root may trace.
    #[error("recording needs root (it uses the kernel's tracepoints); run it with sudo")]
    NotRoot,
    /// The kernel has no tracefs.
    #[error(
        "this kernel has no tracefs at /sys/kernel/tracing ({source}); it needs CONFIG_EVENT_TRACING, and a \
         container needs the host's tracefs (--privileged -v /sys/kernel/tracing:/sys/kernel/tracing)"
    )]
    Missing {
        /// What mounting it said.
        source: io::Error,
    },
    /// What tracing changes could not be put back.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A file of tracefs cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The mounted tracing file system, with a guard over all that is done in it. If it had to be mounted, that unmounts it.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    guard: Guard,
}

impl Tracefs {
    /// Finds tracefs, or mounts it at `/sys/kernel/tracing`.
    pub fn open() -> Result<Tracefs, TracefsError> {
        if !rustix::process::geteuid().is_root() {
            return Err(TracefsError::NotRoot);
        }
        Tracefs::with(Guard::take()?)
    }

    /// The same in an emulated machine.
    pub fn of_guest() -> Result<Tracefs, TracefsError> {
        Tracefs::with(Guard::of_guest())
    }

    fn with(guard: Guard) -> Result<Tracefs, TracefsError> {
        for place in PLACES {
            if Path::new(place).join("instances").is_dir() {
                return Ok(Tracefs { root: place.into(), guard });
            }
        }
        guard.mount(Path::new(PLACES[0]))?;
        mount("tracefs", PLACES[0], "tracefs", MountFlags::empty(), None)
            .map_err(|error| TracefsError::Missing { source: error.into() })?;
        Ok(Tracefs { root: PLACES[0].into(), guard })
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What puts back all that is changed, also beside tracing.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}
