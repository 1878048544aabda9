//! Checksums of all files in a directory: `SHA256SUMS`, in the format of `sha256sum`.
//!
//! ```text
//!   9f86d081884c7d65...  usr/bin/qemu-system-x86_64
//!   60303ae22b998861...  usr/lib/x86_64-linux-gnu/libslirp.so.0       a symbolic link has the hash of its target path
//! ```
//!
//! The file is written once the contents are known to be correct, and checked each time before they are used.
//! A file that is missing from it is an error like a file that has changed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub const SUMS: &str = "SHA256SUMS";

/// Writes the checksums of all files below `directory`.
pub fn note(directory: &Path) -> io::Result<()> {
    let sums = sums(directory)?;
    let mut file = File::create_new(directory.join(SUMS))?;
    for (path, sum) in sums {
        writeln!(file, "{sum}  {path}")?;
    }
    file.sync_all()
}

/// Checks all files below `directory` against their checksums.
///
/// # Errors
///
/// The first file that differs, is missing, or has no checksum.
pub fn check(directory: &Path) -> Result<(), String> {
    let path = directory.join(SUMS);
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(at)?;
    let mut noted = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        // The separator is " *" for files that `sha256sum` read in binary mode.
        let parts = line.split_once("  ").or_else(|| line.split_once(" *"));
        let (sum, name) = parts.ok_or_else(|| {
            format!("{}, line {number}: expected a hash, two spaces and a name", path.display())
        })?;
        noted.insert(name.trim_start_matches("./").to_string(), sum.to_ascii_lowercase());
    }
    for (name, sum) in sums(directory).map_err(at)? {
        let file = directory.join(&name);
        match noted.remove(&name) {
            None => return Err(format!("{}: {SUMS} has no hash of it", file.display())),
            Some(noted) if noted != sum => {
                return Err(format!("{}: its hash is {sum}, not {noted} as in {SUMS}", file.display()));
            }
            Some(_) => {}
        }
    }
    match noted.first_key_value() {
        Some((name, _)) => Err(format!("{}: the file is missing", directory.join(name).display())),
        None => Ok(()),
    }
}

/// The hash of each file below `directory`, except `SHA256SUMS` itself.
fn sums(directory: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut sums = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(inner) = pending.pop() {
        for entry in fs::read_dir(directory.join(&inner))? {
            let entry = entry?;
            let name = inner.join(entry.file_name());
            let kind = entry.file_type()?;
            let mut hash = Sha256::new();
            if kind.is_dir() {
                pending.push(name);
                continue;
            } else if kind.is_symlink() {
                hash.update(fs::read_link(entry.path())?.as_os_str().as_bytes());
            } else if kind.is_file() {
                let (mut file, mut piece) = (File::open(entry.path())?, vec![0; 1 << 16]);
                loop {
                    match file.read(&mut piece)? {
                        0 => break,
                        length => hash.update(&piece[..length]),
                    }
                }
            } else {
                return Err(io::Error::other(format!("{} is not a regular file", entry.path().display())));
            }
            let name = name.to_str().filter(|name| !name.contains('\n'));
            let name =
                name.ok_or_else(|| io::Error::other("the name of a file is not UTF-8, or has a line break"))?;
            if name != SUMS {
                let sum = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                sums.insert(name.to_string(), sum);
            }
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("usr")).unwrap();
        fs::write(at("usr/program"), "program").unwrap();
        fs::write(at("other"), "").unwrap();
        std::os::unix::fs::symlink("usr/program", at("link")).unwrap();
        note(directory.path()).unwrap();
        directory
    }

    #[test]
    fn what_was_not_touched_passes() {
        let directory = noted();
        check(directory.path()).unwrap();
        let text = fs::read_to_string(directory.path().join(SUMS)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  other";
        assert!(text.lines().any(|line| line == empty), "{text}");
        // The formats of `sha256sum ./*` and `sha256sum --binary`.
        fs::write(directory.path().join(SUMS), text.replace("  other", " *./other")).unwrap();
        check(directory.path()).unwrap();
    }

    #[test]
    fn what_was_changed_added_or_removed_is_named() {
        let wrong = |change: &dyn Fn(&Path), expected: &str| {
            let directory = noted();
            change(directory.path());
            let error = check(directory.path()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        wrong(&|at| fs::write(at.join("usr/program"), "Program").unwrap(), "usr/program: its hash is");
        wrong(&|at| fs::write(at.join("usr/library"), "").unwrap(), "usr/library: SHA256SUMS has no hash");
        wrong(&|at| fs::remove_file(at.join("other")).unwrap(), "other: the file is missing");
        wrong(&|at| fs::remove_file(at.join(SUMS)).unwrap(), "SHA256SUMS: ");
        wrong(&|at| fs::write(at.join(SUMS), "nonsense").unwrap(), "line 1: expected a hash");
        wrong(
            &|at| {
                fs::remove_file(at.join("link")).unwrap();
                std::os::unix::fs::symlink("/tmp/program", at.join("link")).unwrap();
            },
            "link: its hash is",
        );
    }
}
