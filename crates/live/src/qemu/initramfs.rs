//! The initramfs of the guest.
//!
//! ```text
//!   /init                        this program, which recognises the argument `guest`
//!   /usr/lib/.../libc.so.6 ...   the libraries that are mapped into it, at the same paths as on the host
//!   /lib64/ld-linux-x86-64.so.2  the dynamic loader, at the path that the program names
//!   /brd.ko, /disk               the module of a RAM disk, and the contents of that disk
//!   /mine.toml                   what else a boot is given
//! ```
//!
//! An archive in cpio's "newc" format, sorted by name and without times, so that equal files give equal
//! bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::newc::{Builder, ModeFileType, trailer};

use super::{KernelFiles, QemuError, file_error, find, output};

/// Path of the module in the archive, without the extension that says whether it is compressed.
pub const MODULE: &str = "/brd";
/// Path of the disk image in the archive.
pub const DISK: &str = "/disk";
/// Size of the disk. Sparse files take little of it.
pub const DISK_KIB: u64 = 8 << 10;

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A file that init finds in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFile {
    /// Its path there.
    pub path: PathBuf,
    pub content: String,
}

/// Writes the archive; `given` are files that this boot needs besides.
pub fn write(kernel: &KernelFiles, given: &[GivenFile], path: &Path) -> Result<(), QemuError> {
    let mut files = BTreeMap::new();
    let program = std::env::current_exe().map_err(file_error(Path::new("/proc/self/exe")))?;
    for library in libraries(&program)? {
        if library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")) {
            files.insert(PathBuf::from(LOADER), library.clone());
        }
        files.insert(library.clone(), library);
    }
    files.insert("/init".into(), program);
    files.insert(MODULE.into(), kernel.brd.clone());
    let disk = path.with_extension("disk");
    make_disk(&disk)?;
    files.insert(DISK.into(), disk);

    let error = file_error(path);
    let mut archive = std::io::BufWriter::new(fs::File::create(path).map_err(&error)?);
    let mut number = 0;
    let mut entry = |name: &Path, kind: ModeFileType, content: &[u8]| {
        number += 1;
        let name = name.strip_prefix("/").unwrap_or(name).to_string_lossy();
        let entry = Builder::new(&name).ino(number).mode(0o755).set_mode_file_type(kind);
        let mut entry = entry.write(&mut archive, content.len() as u32);
        entry.write_all(content).and_then(|()| entry.finish().map(|_| ())).map_err(&error)
    };
    let directories = files.keys().flat_map(|name| name.ancestors().skip(1));
    let directories: BTreeSet<&Path> = directories.filter(|path| path.parent().is_some()).collect();
    for directory in directories {
        entry(directory, ModeFileType::Directory, &[])?;
    }
    for (name, source) in &files {
        entry(name, ModeFileType::Regular, &fs::read(source).map_err(file_error(source))?)?;
    }
    for file in given {
        entry(&file.path, ModeFileType::Regular, file.content.as_bytes())?;
    }
    trailer(archive).and_then(|mut archive| archive.flush()).map_err(error)
}

/// The shared libraries that are mapped into this process.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>, QemuError> {
    let maps = "/proc/self/maps";
    let text = fs::read_to_string(maps).map_err(file_error(Path::new(maps)))?;
    let mapped = text.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    Ok(mapped.filter(|path| path != program && path.to_string_lossy().contains(".so")).collect())
}

/// Creates an empty ext4 file system that is identical every time.
fn make_disk(path: &Path) -> Result<(), QemuError> {
    fs::write(path, "").map_err(file_error(path))?;
    let mut command = Command::new(find("mke2fs", "e2fsprogs")?);
    command.env("E2FSPROGS_FAKE_TIME", "1704067200").args([
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^has_journal",
        "-m",
        "0",
    ]);
    let same = "00000000-0000-4000-8000-000000000001";
    command.args(["-U", same, "-E", &format!("hash_seed={same},lazy_itable_init=0")]);
    output(command.arg(path).arg(format!("{DISK_KIB}k"))).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn contents(bytes: &[u8]) -> BTreeMap<String, u32> {
        let mut rest = bytes;
        let mut entries = BTreeMap::new();
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            entries.insert(reader.entry().name().to_string(), reader.entry().file_size());
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn an_archive_has_all_that_init_needs_and_is_the_same_every_time() {
        let place = tempfile::tempdir().unwrap();
        let brd = place.path().join("brd.ko");
        fs::write(&brd, "module").unwrap();
        let kernel = KernelFiles { package: "some".into(), vmlinuz: brd.clone(), brd };
        let archives = ["a", "b"].map(|name| {
            let path = place.path().join(name);
            let given = GivenFile { path: "/mine.toml".into(), content: "kind".into() };
            match write(&kernel, &[given], &path) {
                Err(error @ QemuError::Missing { .. }) => {
                    eprintln!("skipped: {error}");
                    None
                }
                result => {
                    result.unwrap();
                    Some(fs::read(path).unwrap())
                }
            }
        });
        let [Some(a), Some(b)] = archives else { return };
        assert!(a == b, "two archives of the same files differ");
        let contents = contents(&a);
        assert_eq!(contents["brd"], 6);
        assert_eq!(contents["mine.toml"], 4);
        assert_eq!(contents["disk"], (DISK_KIB << 10) as u32);
        assert!(contents["init"] > 100_000);
        let libraries = libraries(&std::env::current_exe().unwrap()).unwrap();
        for library in &libraries {
            assert!(contents.contains_key(library.strip_prefix("/").unwrap().to_str().unwrap()));
        }
        assert!(libraries.is_empty() || contents.contains_key("lib64/ld-linux-x86-64.so.2"));
    }
}
