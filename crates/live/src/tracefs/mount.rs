//! Finds tracefs, or mounts it for as long as it is needed.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use crate::rollback::{Guard, GuardError};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Why tracefs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    #[error("recording needs root (it uses the kernel's tracepoints); run it with sudo")]
    NotRoot,
    #[error(
        "this kernel has no tracefs at /sys/kernel/tracing ({source}); it needs CONFIG_EVENT_TRACING, and a \
         container needs the host's tracefs (--privileged -v /sys/kernel/tracing:/sys/kernel/tracing)"
    )]
    Missing {
        /// The error of mounting it.
        source: io::Error,
    },
    /// The changes to tracing cannot be guarded.
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

/// A mounted tracefs, with a guard for all changes made in it. If it was mounted here, the guard unmounts it.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    guard: Guard,
}

impl Tracefs {
    /// Uses the tracefs that is mounted, or mounts it at `/sys/kernel/tracing`.
    pub fn open() -> Result<Tracefs, TracefsError> {
        if !rustix::process::geteuid().is_root() {
            return Err(TracefsError::NotRoot);
        }
        Tracefs::with(Guard::take()?)
    }

    /// Like [`Tracefs::open`], in an emulated machine.
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

    /// The mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The guard, which also undoes changes outside tracefs.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}
