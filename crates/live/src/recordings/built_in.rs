//! The recordings that are part of the program, so that it can be judged by them wherever it is installed.
//!
//! ```text
//!   data/recordings ── build.rs ──► the program ── unpacked ──► $XDG_CACHE_HOME/mmtwin/recordings-HASH ──► whoever reads recordings
//! ```
//!
//! They are read as files, as recordings of somebody else are. What is in the cache is compared with what the program has each time, and
//! written again where it differs.

use crate::places::{self, PlaceError};
use std::io::Write;
use std::path::{Path, PathBuf};
use workload::output::{Existing, Output, OutputError, directory_of};

include!(concat!(env!("OUT_DIR"), "/recordings.rs"));

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum BuiltInError {
    #[error("{0}; or name a directory of recordings with --recordings DIR")]
    Place(#[from] PlaceError),
    #[error("{0}; or name a directory of recordings with --recordings DIR")]
    Output(#[from] OutputError),
}

/// The directory that has them.
pub fn directory() -> Result<PathBuf, BuiltInError> {
    let directory = places::cache()?.join(format!("recordings-{HASH}"));
    for (name, bytes) in FILES {
        put(&directory.join(name), bytes)?;
    }
    Ok(directory)
}

/// Writes a file unless it is there with these contents. Whoever reads it meanwhile sees the old or the new one whole.
fn put(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let failed = |source| OutputError::Io { path: path.into(), source };
    std::fs::create_dir_all(directory_of(path)).map_err(failed)?;
    let mut file = Output::at(path, Existing::Replace)?.create()?;
    file.write_all(bytes).map_err(failed)?;
    file.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::default_directory;

    #[test]
    fn they_are_those_of_the_source_tree() {
        assert!(FILES.len() > 100, "{}", FILES.len());
        for (name, bytes) in FILES {
            assert!(std::fs::read(default_directory().join(name)).unwrap() == *bytes, "{name}");
        }
    }

    #[test]
    fn what_differs_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        for there in [None, Some("other"), Some("right")] {
            if let Some(there) = there {
                std::fs::write(&path, there).unwrap();
            }
            put(&path, b"right").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"right");
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }
}
