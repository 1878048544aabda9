//! Files that are there whole or not at all.
//!
//! ```text
//!   DIR/.mmtwin-a8Xk2p    written, fsync
//!        └─ rename ─► DIR/NAME, fsync of DIR
//! ```
//!
//! The first name is random and new, so no process meets another's file or follows a link that somebody has planted. After a
//! crash of the machine the file is there as it was written: its content is on disk before it has its name, and the name is
//! before anybody is told of it.

use super::ResultsError;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How names of files begin that are being written.
pub(super) const UNFINISHED: &str = ".mmtwin-";

/// The directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Makes sure that names in `directory` outlast a crash.
pub(super) fn sync_directory(directory: &Path) -> Result<(), ResultsError> {
    fs::File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(|error| ResultsError::io(directory, error))
}

/// Makes a directory and those that it is in, where they are missing.
pub(super) fn make_directory(directory: &Path) -> Result<(), ResultsError> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory_of(directory);
    if parent != directory {
        make_directory(parent)?;
    }
    match fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists || !directory.is_dir() => {
            Err(ResultsError::io(directory, error))
        }
        _ => sync_directory(parent),
    }
}

/// Writes what `fill` does and gives it `path`'s name. A regular file of that name is replaced, anything else is not.
pub(super) fn write(
    path: &Path,
    fill: impl FnOnce(&mut fs::File) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    let io = |error: io::Error| ResultsError::io(path, error);
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(ResultsError::Foreign { path: path.into() });
    }
    let directory = directory_of(path);
    make_directory(directory)?;
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(io)?;
    fill(file.as_file_mut())?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    sync_directory(directory)
}
