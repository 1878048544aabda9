//! Directories that belong to the user who runs this, and to nobody else.
//!
//! ```text
//!   $XDG_CACHE_HOME/mmtwin, or ~/.cache/mmtwin      downloads, what emulated kernels did          cache
//!   /run/mmtwin, or $XDG_RUNTIME_DIR/mmtwin         what is to be put back if this is killed      runtime
//! ```
//!
//! What is in them is believed, even run, and that often by root. So nobody else may have put it there: the directory is the
//! user's and open to nobody else, and each directory above it is the user's or root's, and others can write to none, as ssh wants
//! it of its keys. A directory like /tmp, in which all can write but only remove what is theirs, may be above. Without a home there
//! is no cache: a place that all can write to is none.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Nothing says where the user's directories are.
    #[error(
        "neither HOME nor XDG_CACHE_HOME is set to an absolute path; set XDG_CACHE_HOME to a directory of your own"
    )]
    NoHome,
    /// Somebody else could have put there what is in it.
    #[error(
        "{}: it belongs to user {owner}, and this runs as user {user}; who owns it could plant what is run from there; \
         {remedy}", .path.display()
    )]
    Foreign {
        /// The directory, or one above.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who is asking.
        user: u32,
        /// What to do.
        remedy: &'static str,
    },
    /// The same.
    #[error(
        "{}: others can write to it (mode {mode:04o}), and could plant what is run from there; `chmod go-w` it",
        .path.display()
    )]
    Writable {
        /// The directory, or one above.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be made or looked at.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Where downloads are kept. It is there afterwards.
pub fn cache() -> Result<PathBuf, PlaceError> {
    own(&path_of_cache()?, "set XDG_CACHE_HOME to a directory of your own")
}

fn path_of_cache() -> Result<PathBuf, PlaceError> {
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let place = absolute("XDG_CACHE_HOME").or_else(home);
    place.map(|place| place.join("mmtwin")).ok_or(PlaceError::NoHome)
}

/// Where it is noted what is to be put back. It need not be there.
pub(crate) fn runtime() -> Result<PathBuf, PlaceError> {
    if geteuid().is_root() {
        return Ok("/run/mmtwin".into());
    }
    match absolute("XDG_RUNTIME_DIR") {
        Some(place) => Ok(place.join("mmtwin")),
        None => Ok(path_of_cache()?.join("run")),
    }
}

/// The path that an environment variable holds; others are not to be heeded, says the XDG Base Directory Specification.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Says where `place` really is, if it is there and the user's own.
pub(crate) fn check(place: &Path, remedy: &'static str) -> Result<PathBuf, PlaceError> {
    let at = |path: &Path, source| PlaceError::Io { path: path.to_path_buf(), source };
    let place = place.canonicalize().map_err(|source| at(place, source))?;
    for (number, path) in place.ancestors().enumerate() {
        let metadata = fs::symlink_metadata(path).map_err(|source| at(path, source))?;
        check_one(path, &metadata, geteuid().as_raw(), number == 0, remedy)?;
    }
    Ok(place)
}

/// The same for one that is made if it is not there.
pub(crate) fn own(place: &Path, remedy: &'static str) -> Result<PathBuf, PlaceError> {
    let failed = |source| PlaceError::Io { path: place.to_path_buf(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(failed)?;
    check(place, remedy)
}

/// Gives a file or directory another name, and has that on the disk when it returns.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    match to.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Whether nobody but `user`, and root, can change what is in a directory; one above it may be root's.
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
        // As /tmp is.
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
            error.contains(&format!("belongs to user {owner}, and this runs as user {other}")),
            "{error}"
        );
        assert!(error.ends_with("use another"), "{error}");
        // Above it, what is root's is as good.
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
