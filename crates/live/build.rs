//! Lists the recordings of the source tree, so that they are in the program wherever it is installed.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

fn main() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it for build scripts");
    let top = Path::new(&package).join("../../data/recordings");
    let top = top.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", top.display()));
    // Cargo looks for changes in all that is below it.
    println!("cargo::rerun-if-changed={}", top.display());
    let mut files = Vec::new();
    collect(&top, &mut files).unwrap_or_else(|error| panic!("{}: {error}", top.display()));
    files.sort();
    let mut hash = Sha256::new();
    let mut list = String::new();
    for path in &files {
        let name = path.strip_prefix(&top).unwrap_or(path).to_str().expect("names of recordings are ASCII");
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        hash.update(name.as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
        writeln!(list, "    ({name:?}, include_bytes!({:?})),", path.display().to_string())
            .expect("writing to a string");
    }
    let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let source = format!(
        "/// Names below the directory, and contents.\npub const FILES: &[(&str, &[u8])] = &[\n{list}];\n\
         /// The start of a hash of them all.\npub const HASH: &str = {digest:?};\n"
    );
    let path = Path::new(&out).join("recordings.rs");
    std::fs::write(&path, source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Adds all files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
