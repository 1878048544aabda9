//! Finding tracefs, or mounting it for as long as it is needed.

use std::fs;
use std::io::{
    self,
    ErrorKind::{NotFound, ResourceBusy},
};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::INSTANCE_PREFIX;

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
    /// A file of tracefs cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The mounted tracing file system. If it had to be mounted, dropping this unmounts it.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    mounted_here: bool,
}

impl Tracefs {
    /// Finds tracefs, or mounts it at `/sys/kernel/tracing`.
    pub fn open() -> Result<Tracefs, TracefsError> {
        if !rustix::process::geteuid().is_root() {
            return Err(TracefsError::NotRoot);
        }
        for place in PLACES {
            if Path::new(place).join("instances").is_dir() {
                return Ok(Tracefs { root: place.into(), mounted_here: false });
            }
        }
        mount("tracefs", PLACES[0], "tracefs", MountFlags::empty(), None)
            .map_err(|error| TracefsError::Missing { source: error.into() })?;
        Ok(Tracefs { root: PLACES[0].into(), mounted_here: true })
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes the instances of recorders that are gone. Returns their names.
    pub fn remove_stale_instances(&self) -> Result<Vec<String>, TracefsError> {
        let instances = self.root.join("instances");
        let error = |source| TracefsError::File { path: instances.clone(), source };
        let mut removed = Vec::new();
        for entry in fs::read_dir(&instances).map_err(error)? {
            let name = entry.map_err(error)?.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix(INSTANCE_PREFIX).and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                let path = instances.join(&name);
                match fs::remove_dir(&path) {
                    Ok(()) => removed.push(name),
                    // Removed by somebody else, or somebody reads in it: either way not ours to insist on.
                    Err(error) if matches!(error.kind(), NotFound | ResourceBusy) => {}
                    Err(source) => return Err(TracefsError::File { path, source }),
                }
            }
        }
        removed.sort();
        Ok(removed)
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.mounted_here {
            // Busy only if somebody else began to use it: then it is theirs.
            let _ = unmount(&self.root, UnmountFlags::empty());
        }
    }
}
