//! The user's private directories for downloads and for rollback notes.
//!
//! ```text
//!   $XDG_CACHE_HOME/mmtwin, or ~/.cache/mmtwin      downloads, recordings of emulated kernels    cache
//!   /run/mmtwin, or $XDG_RUNTIME_DIR/mmtwin         rollback notes                               runtime
//! ```
//!
//! Files in them are trusted and even executed, often by root. So nobody else may be able to write there: the
//! directory belongs to the user with no access for others, and each directory above it belongs to the user
//! or root and is not writable by others, as ssh requires for its keys. A sticky directory such as /tmp may
//! be above it. Without a home directory there is no cache, because a world-writable place is no substitute.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The environment does not say where the user's directories are.
    #[error(
        "neither HOME nor XDG_CACHE_HOME is set to an absolute path; set XDG_CACHE_HOME to a directory of your own"
    )]
    NoHome,
    /// Somebody else owns the directory or one above it, and could have put files there.
    #[error(
        "{}: it belongs to user {owner}, and mmtwin runs as user {user}; its owner could plant programs there; \
         {remedy}", .path.display()
    )]
    Foreign {
        /// The directory, or one above it.
        path: PathBuf,
        owner: u32,
        user: u32,
        /// What the user can do about it.
        remedy: &'static str,
    },
    /// Others can write to the directory or to one above it.
    #[error(
        "{}: others can write to it (mode {mode:04o}), and could plant programs there; run `chmod go-w` on it",
        .path.display()
    )]
    Writable {
        /// The directory, or one above it.
        path: PathBuf,
        mode: u32,
    },
    /// The directory cannot be created or its owner and mode cannot be read.
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The directory for downloads; created if it does not exist.
pub fn cache() -> Result<PathBuf, PlaceError> {
    own(&path_of_cache()?, "set XDG_CACHE_HOME to a directory of your own")
}

fn path_of_cache() -> Result<PathBuf, PlaceError> {
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let place = absolute("XDG_CACHE_HOME").or_else(home);
    place.map(|place| place.join("mmtwin")).ok_or(PlaceError::NoHome)
}

/// The path of the directory for rollback notes; it may not exist.
pub(crate) fn runtime() -> Result<PathBuf, PlaceError> {
    if geteuid().is_root() {
        return Ok("/run/mmtwin".into());
    }
    match absolute("XDG_RUNTIME_DIR") {
        Some(place) => Ok(place.join("mmtwin")),
        None => Ok(path_of_cache()?.join("run")),
    }
}

/// An environment variable that holds an absolute path; the XDG Base Directory Specification says to ignore
/// relative ones.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The canonical path of `place`, if it exists and nobody else can write there.
pub(crate) fn check(place: &Path, remedy: &'static str) -> Result<PathBuf, PlaceError> {
    let at = |path: &Path, source| PlaceError::Io { path: path.to_path_buf(), source };
    let place = place.canonicalize().map_err(|source| at(place, source))?;
    for (number, path) in place.ancestors().enumerate() {
        let metadata = fs::symlink_metadata(path).map_err(|source| at(path, source))?;
        check_one(path, &metadata, geteuid().as_raw(), number == 0, remedy)?;
    }
    Ok(place)
}

/// Like [`check`], but creates the directory if it does not exist.
pub(crate) fn own(place: &Path, remedy: &'static str) -> Result<PathBuf, PlaceError> {
    let failed = |source| PlaceError::Io { path: place.to_path_buf(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(failed)?;
    check(place, remedy)
}

/// Renames a file or directory, and syncs the parent directory to disk.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    match to.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Checks that nobody but `user` and root can change the contents of a directory. Directories above the
/// private one may belong to root.
fn check_one(
    path: &Path,
    metadata: &Metadata,
    user: u32,
    is_itself: bool,
    remedy: &'static str,
) -> Result<(), PlaceError> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if owner != user && (is_itself || owner != 0) {
        return Err(PlaceError::Foreign { path: path.to_path_buf(), owner, user, remedy });
    }
    let others_cannot_replace = !is_itself && mode & STICKY != 0;
    if mode & GROUP_OR_OTHERS_WRITE != 0 && !others_cannot_replace {
        return Err(PlaceError::Writable { path: path.to_path_buf(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_made_for_its_user_alone() {
        let above = tempfile::tempdir().unwrap();
        let place = own(&above.path().join("a/b"), "").unwrap();
        for made in [&*place, place.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
        }
        assert_eq!(own(&place, "").unwrap(), place);
    }

    #[test]
    fn what_others_can_write_to_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let middle = above.path().join("middle");
        let place = own(&middle.join("place"), "").unwrap();
        for (path, mode) in [(&place, 0o770), (&place, 0o1777), (&middle, 0o702), (&middle, 0o720)] {
            set_mode(path, mode);
            let error = own(&place, "").unwrap_err();
            assert!(matches!(&error, PlaceError::Writable { path: found, .. } if found == path), "{error}");
            assert!(error.to_string().contains(&format!("mode {mode:04o}")), "{error}");
            set_mode(path, 0o700);
        }
        // The mode of /tmp.
        set_mode(&middle, 0o1777);
        own(&place, "").unwrap();
    }

    #[test]
    fn what_is_somebody_elses_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(place.path()).unwrap();
        let (owner, other) = (metadata.uid(), metadata.uid() + 1);
        check_one(place.path(), &metadata, owner, true, "").unwrap();
        let error = check_one(place.path(), &metadata, other, true, "use another").unwrap_err().to_string();
        assert!(
            error.contains(&format!("belongs to user {owner}, and mmtwin runs as user {other}")),
            "{error}"
        );
        assert!(error.ends_with("use another"), "{error}");
        // For a directory above the private one, root is as good an owner as the user.
        let root = fs::metadata("/").unwrap();
        check_one(Path::new("/"), &root, 1000, false, "").unwrap();
        assert!(check_one(Path::new("/"), &root, 1000, true, "").is_err());
    }

    #[test]
    fn a_symbolic_link_is_judged_by_where_it_leads() {
        let above = tempfile::tempdir().unwrap();
        let (open, link) = (above.path().join("open"), above.path().join("link"));
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(
            matches!(own(&link, ""), Err(PlaceError::Writable { path, .. }) if path == open.canonicalize().unwrap())
        );
    }
}
