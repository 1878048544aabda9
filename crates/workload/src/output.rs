//! Output files that the user asked for.
//!
//! ```text
//!   at the path now                     on writing
//!   nothing                             a new file, which appears only when it is complete
//!   a regular file                      replaced by the complete new file with --force; refused otherwise
//!   a symbolic link                     decided by its target; the link stays
//!   a pipe, a character device          written to: a FIFO, /dev/null, /dev/full
//!   this program's standard output      written to, whatever it is: /dev/stdout
//!   a directory, a socket, a disk       refused
//!
//!   create   .mmtwin-x7Tq.partial in the same directory, under a random name that nobody can have planted
//!   finish   fsync ──► rename to the path ──► fsync of the directory
//! ```
//!
//! A symbolic link or FIFO in a directory that everybody can write to, such as /tmp, is refused if another
//! user put it there. The kernel's `fs.protected_symlinks` and `fs.protected_fifos` do the same for open(2),
//! but not for rename(2).
//!
//! Partial files are locked (`flock`) while they are written. A partial file without a lock was left by a
//! process that was killed; [`remove_abandoned`] removes those of a directory.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::NamedTempFile;

/// Prefix and suffix of the names of partial files.
const PREFIX: &str = ".mmtwin-";
const SUFFIX: &str = ".partial";

/// How many symbolic links are followed in a row; the kernel's limit (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// Why an output file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A file exists and may not be replaced.
    #[error("{} exists; choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// The directory of the output file does not exist.
    #[error("{}: no directory {}; make it, or write elsewhere", .path.display(), .directory.display())]
    NoDirectory {
        /// The output file.
        path: PathBuf,
        directory: PathBuf,
    },
    /// The path is something that can be neither written to nor replaced.
    #[error("{} is {kind}; choose another name", .path.display())]
    Kind {
        /// The output file.
        path: PathBuf,
        /// What is at the path, for example "a directory".
        kind: &'static str,
    },
    /// Another user put a link or FIFO into a directory that everybody can write to.
    #[error(
        "{} is {kind} of user {owner} in a directory to which everybody can write; remove it, or write elsewhere",
        .path.display()
    )]
    Planted {
        path: PathBuf,
        /// What is at the path, for example "a FIFO".
        kind: &'static str,
        /// The uid of the owner.
        owner: u32,
    },
    /// A system call failed.
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// What to do about a file that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep the file and refuse to write.
    Keep,
    /// Replace it once the new file is complete.
    Replace,
}

/// A path that was checked to be writable. Nothing has been changed on disk yet.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    existing: Existing,
    destination: Destination,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    /// A regular file, existing or not; the last component of the path is not a symbolic link.
    File(PathBuf),
    /// A pipe or character device.
    Stream,
    StandardOutput,
}

impl Output {
    /// Checks that `path` can be written to.
    pub fn at(path: impl Into<PathBuf>, existing: Existing) -> Result<Output, OutputError> {
        let path = path.into();
        let destination = destination(&path)?;
        match &destination {
            Destination::File(target)
                if existing == Existing::Keep && fs::symlink_metadata(target).is_ok() =>
            {
                Err(OutputError::Exists(path))
            }
            _ => Ok(Output { path, existing, destination }),
        }
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file that will be written, or `None` for a stream.
    pub fn file(&self) -> Option<&Path> {
        match &self.destination {
            Destination::File(target) => Some(target),
            Destination::Stream | Destination::StandardOutput => None,
        }
    }

    /// Whether the output is this program's standard output.
    pub fn is_standard_output(&self) -> bool {
        self.destination == Destination::StandardOutput
    }

    /// Starts writing. A file at the path stays until [`OutputFile::finish`]. Opening a FIFO blocks until it
    /// has a reader.
    pub fn create(&self) -> Result<OutputFile, OutputError> {
        let failed = |source| OutputError::Io { path: self.path.clone(), source };
        let sink = match &self.destination {
            Destination::File(target) => Sink::File(partial_file(directory_of(target)).map_err(failed)?),
            Destination::Stream => {
                let file = OpenOptions::new().write(true).open(&self.path).map_err(failed)?;
                match stream_problem(&file.metadata().map_err(failed)?) {
                    None => Sink::Stream(file),
                    Some(kind) => return Err(OutputError::Kind { path: self.path.clone(), kind }),
                }
            }
            Destination::StandardOutput => {
                Sink::Stream(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?.into())
            }
        };
        Ok(OutputFile { output: self.clone(), sink, bytes: 0 })
    }
}

/// An output being written. If it is dropped before [`finish`](Self::finish), the file at its path stays as
/// it was.
#[derive(Debug)]
pub struct OutputFile {
    output: Output,
    sink: Sink,
    bytes: u64,
}

#[derive(Debug)]
enum Sink {
    File(NamedTempFile),
    Stream(File),
}

impl OutputFile {
    /// The path as it was given.
    pub fn path(&self) -> &Path {
        self.output.path()
    }

    /// Renames the finished file to its path. Returns the number of bytes written.
    pub fn finish(self) -> Result<u64, OutputError> {
        let OutputFile { output, sink, bytes } = self;
        let failed = |source| OutputError::Io { path: output.path.clone(), source };
        let (Sink::File(file), Some(target)) = (sink, output.file()) else { return Ok(bytes) };
        file.as_file().sync_all().map_err(failed)?;
        let named = match (output.existing, fs::symlink_metadata(target)) {
            (Existing::Keep, _) => file.persist_noclobber(target),
            (Existing::Replace, Ok(now)) if !now.is_file() => {
                return Err(OutputError::Kind { path: output.path.clone(), kind: kind(&now) });
            }
            (Existing::Replace, _) => file.persist(target),
        };
        match named {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(OutputError::Exists(output.path.clone()));
            }
            Err(error) => return Err(failed(error.error)),
        }
        File::open(directory_of(target)).and_then(|directory| directory.sync_all()).map_err(failed)?;
        Ok(bytes)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.sink {
            Sink::File(file) => file.write(bytes),
            Sink::Stream(file) => file.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes `bytes` to `path`, replacing a file that may be there.
pub fn write(path: impl Into<PathBuf>, bytes: &[u8]) -> Result<(), OutputError> {
    let mut file = Output::at(path, Existing::Replace)?.create()?;
    file.write_all(bytes).map_err(|source| OutputError::Io { path: file.path().to_path_buf(), source })?;
    file.finish().map(|_| ())
}

/// Removes the partial files in `directory` that killed processes of this user left. Returns their paths.
pub fn remove_abandoned(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if !(name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            continue;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        // The file has been removed meanwhile, or cannot be opened and so is not ours.
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(entry.path()) else { continue };
        let metadata = file.metadata()?;
        let is_own = metadata.is_file() && metadata.uid() == geteuid().as_raw();
        if is_own && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_file(entry.path())?;
            removed.push(entry.path());
        }
    }
    removed.sort();
    Ok(removed)
}

/// Creates a locked partial file in `directory`.
fn partial_file(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = tempfile::Builder::new()
            .prefix(PREFIX)
            .suffix(SUFFIX)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)?;
        match flock(&file, FlockOperation::LockExclusive) {
            // On a file system without locks, no partial file is taken for abandoned either.
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {}
            Err(error) => return Err(error.into()),
        }
        // Before it was locked, another process may have removed it as abandoned.
        if file.as_file().metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

fn destination(path: &Path) -> Result<Destination, OutputError> {
    let failed = |source| OutputError::Io { path: path.to_path_buf(), source };
    let target = without_links(path)?;
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = directory_of(&target);
            if !directory.is_dir() {
                let (path, directory) = (path.to_path_buf(), directory.to_path_buf());
                return Err(OutputError::NoDirectory { path, directory });
            }
            return Ok(Destination::File(target));
        }
        Err(error) => return Err(failed(error)),
    };
    let standard_output =
        io::stdout().as_fd().try_clone_to_owned().and_then(|out| File::from(out).metadata());
    let is_standard_output =
        standard_output.is_ok_and(|out| (out.dev(), out.ino()) == (metadata.dev(), metadata.ino()));
    if metadata.is_file() && !is_standard_output {
        // A file open as /dev/fd/N may have been unlinked.
        let named = fs::symlink_metadata(&target).map_err(failed)?;
        return match (named.dev(), named.ino()) == (metadata.dev(), metadata.ino()) {
            true => Ok(Destination::File(target)),
            false => Err(OutputError::Kind { path: path.to_path_buf(), kind: "a file without a name" }),
        };
    }
    let kind = match is_standard_output {
        true => io::stdout().is_terminal().then_some("a terminal"),
        false => stream_problem(&metadata),
    };
    if let Some(kind) = kind {
        return Err(OutputError::Kind { path: path.to_path_buf(), kind });
    }
    if metadata.file_type().is_fifo() {
        refuse_planted(&target, &metadata, "a FIFO")?;
    }
    Ok(if is_standard_output { Destination::StandardOutput } else { Destination::Stream })
}

/// What the file is, if it cannot be written to as a stream.
fn stream_problem(metadata: &Metadata) -> Option<&'static str> {
    let there = metadata.file_type();
    (!there.is_fifo() && !there.is_char_device()).then(|| kind(metadata))
}

fn kind(metadata: &Metadata) -> &'static str {
    let there = metadata.file_type();
    match () {
        () if there.is_dir() => "a directory",
        () if there.is_socket() => "a socket",
        () if there.is_block_device() => "a block device",
        () if there.is_fifo() => "a FIFO",
        () if there.is_char_device() => "a character device",
        () if there.is_symlink() => "a symbolic link",
        () => "a file",
    }
}

/// Follows the symbolic links that `path` ends in.
fn without_links(path: &Path) -> Result<PathBuf, OutputError> {
    let mut target = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&target) {
            Ok(metadata) if metadata.is_symlink() => {
                refuse_planted(&target, &metadata, "a symbolic link")?;
                let to = fs::read_link(&target)
                    .map_err(|source| OutputError::Io { path: target.clone(), source })?;
                target = directory_of(&target).join(to);
            }
            _ => return Ok(target),
        }
    }
    let source = Errno::LOOP.into();
    Err(OutputError::Io { path: path.to_path_buf(), source })
}

/// Refuses a file that another user put into a directory that everybody can write to (sticky, such as /tmp),
/// unless that user owns the directory.
fn refuse_planted(path: &Path, metadata: &Metadata, kind: &'static str) -> Result<(), OutputError> {
    const STICKY_AND_OTHERS_WRITE: u32 = 0o1002;
    let Ok(directory) = fs::metadata(directory_of(path)) else { return Ok(()) };
    let owner = metadata.uid();
    let is_everybodys = directory.mode() & STICKY_AND_OTHERS_WRITE == STICKY_AND_OTHERS_WRITE;
    if is_everybodys && owner != geteuid().as_raw() && owner != directory.uid() {
        return Err(OutputError::Planted { path: path.to_path_buf(), kind, owner });
    }
    Ok(())
}

/// The parent directory of `path`, or `.` if it has none.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, Mode, mknodat};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut file = Output::at(&path, Existing::Replace).unwrap().create().unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(file);
        assert_eq!((fs::read(&path).unwrap(), names(directory.path())), (b"old".to_vec(), vec!["a".into()]));
        write(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(directory.path())), (b"new".to_vec(), vec!["a".into()]));
        let error = Output::at(&path, Existing::Keep).unwrap_err().to_string();
        assert!(error.ends_with("a exists; choose another name, or replace it with --force"), "{error}");
        // The file appeared while the new one was being written.
        let other = directory.path().join("b");
        let file = Output::at(&other, Existing::Keep).unwrap().create().unwrap();
        fs::write(&other, "theirs").unwrap();
        assert!(matches!(file.finish(), Err(OutputError::Exists(_))));
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
    }

    #[test]
    fn links_stay_and_lead_to_what_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        symlink("b", at("link")).unwrap();
        symlink(at("link"), at("link to link")).unwrap();
        for content in [b"1", b"2"] {
            write(at("link to link"), content).unwrap();
            assert_eq!(fs::read(at("b")).unwrap(), content);
        }
        assert_eq!(names(directory.path()), ["b", "link", "link to link"]);
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert!(matches!(Output::at(at("link"), Existing::Keep), Err(OutputError::Exists(_))));
        symlink("loop", at("loop")).unwrap();
        assert!(matches!(Output::at(at("loop"), Existing::Replace), Err(OutputError::Io { .. })));
        symlink("/dev/null", at("null")).unwrap();
        write(at("null"), b"x").unwrap();
        assert_eq!(fs::read_link(at("null")).unwrap(), Path::new("/dev/null"));
    }

    #[test]
    fn pipes_and_devices_are_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for existing in [Existing::Keep, Existing::Replace] {
            let path = fifo.clone();
            let reader = std::thread::spawn(move || fs::read(path).unwrap());
            let output = Output::at(&fifo, existing).unwrap();
            assert_eq!(output.file(), None);
            let mut file = output.create().unwrap();
            file.write_all(b"through").unwrap();
            assert_eq!(file.finish().unwrap(), 7);
            assert_eq!(reader.join().unwrap(), b"through");
        }
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        write("/dev/null", b"x").unwrap();
        let full = write("/dev/full", b"x").unwrap_err();
        assert!(full.to_string().starts_with("/dev/full: No space left on device"), "{full}");
        for device in ["/dev/null", "/dev/full"] {
            assert!(fs::symlink_metadata(device).unwrap().file_type().is_char_device());
        }
    }

    #[test]
    fn other_things_are_refused_by_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| write(path, b"x").unwrap_err().to_string();
        assert!(refusal(directory.path()).ends_with(" is a directory; choose another name"));
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(refusal(&socket).ends_with(" is a socket; choose another name"));
        let nowhere = directory.path().join("no/where");
        assert!(refusal(&nowhere).contains("where: no directory "), "{}", refusal(&nowhere));
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(refusal(&file.join("below")).contains("below: "));
        assert_eq!(names(directory.path()), ["file", "socket"]);
    }

    #[test]
    fn what_others_plant_is_not_followed() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give files to other users");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(1000), Some(1000)).unwrap();
        let error = write(&link, b"x").unwrap_err().to_string();
        assert!(
            error.contains("is a symbolic link of user 1000 in a directory to which everybody"),
            "{error}"
        );
        let fifo = directory.path().join("fifo");
        mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::chown(&fifo, Some(1000), Some(1000)).unwrap();
        assert!(matches!(write(&fifo, b"x"), Err(OutputError::Planted { kind: "a FIFO", .. })));
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        // In other directories only its owner can have made the link.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        write(&link, b"x").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"x");
    }

    #[test]
    fn what_a_killed_process_was_writing_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut written = Output::at(at("a"), Existing::Keep).unwrap().create().unwrap();
        fs::write(at(".mmtwin-0000.partial"), "half").unwrap();
        fs::write(at("mine.partial"), "whole").unwrap();
        symlink(at("mine.partial"), at(".mmtwin-1111.partial")).unwrap();
        assert_eq!(remove_abandoned(directory.path()).unwrap(), [at(".mmtwin-0000.partial")]);
        written.write_all(b"whole").unwrap();
        written.finish().unwrap();
        assert_eq!(names(directory.path()), [".mmtwin-1111.partial", "a", "mine.partial"]);
        let mut text = String::new();
        File::open(at("a")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "whole");
    }
}
