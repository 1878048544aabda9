//! The build hash: a hash of all sources that determine the result of a run.
//!
//! ```text
//!   Cargo.lock                                     versions of libraries
//!   crates/{machine,mm,workload,sim,lab}: Cargo.toml, src/   the simulation
//!   data/*, machines/*, scenarios/*                files compiled in
//!            │
//!            └─ path and content of each file, sorted by path ─► 32 hexadecimal digits
//! ```
//!
//! Paths are relative to the repository, so the hash does not depend on the place of a checkout, the host,
//! the build profile or the kind of program. It does depend on every edit of these files, committed or not.
//! Directories within `data/` have recordings that the twin is compared with, which no run depends on. The
//! build script computes the hash, and a test computes it for a copied tree.

use std::fs;
use std::io;
use std::path::Path;
use twox_hash::XxHash3_128;

/// Single files that are hashed.
const FILES: &[&str] = &[
    "Cargo.lock",
    "crates/machine/Cargo.toml",
    "crates/mm/Cargo.toml",
    "crates/workload/Cargo.toml",
    "crates/sim/Cargo.toml",
    "crates/lab/Cargo.toml",
];

/// Directories that are hashed with all subdirectories.
pub const TREES: &[&str] = &[
    "crates/machine/src",
    "crates/mm/src",
    "crates/workload/src",
    "crates/sim/src",
    "crates/lab/src",
    "machines",
    "scenarios",
];

/// Directories whose files are hashed, without subdirectories.
const DIRECTORIES: &[&str] = &["data"];

/// Paths of all hashed files, relative to the repository at `root`, sorted.
pub fn files(root: &Path) -> io::Result<Vec<String>> {
    let mut files: Vec<String> = FILES.iter().map(|file| file.to_string()).collect();
    for tree in TREES {
        enter(root, tree, Counted::WholeTree, &mut files)?;
    }
    for directory in DIRECTORIES {
        enter(root, directory, Counted::FilesOnly, &mut files)?;
    }
    files.sort();
    Ok(files)
}

/// What of a directory counts.
#[derive(Clone, Copy)]
enum Counted {
    WholeTree,
    FilesOnly,
}

fn enter(root: &Path, directory: &str, counted: Counted, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Backup and swap files of editors.
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        let path = format!("{directory}/{name}");
        match (entry.file_type()?.is_dir(), counted) {
            (true, Counted::WholeTree) => enter(root, &path, counted, files)?,
            (true, Counted::FilesOnly) => {}
            (false, _) => files.push(path),
        }
    }
    Ok(())
}

/// The build hash of the repository at `root`.
pub fn hash(root: &Path) -> io::Result<String> {
    let mut hash = XxHash3_128::new();
    for file in files(root)? {
        let content = fs::read(root.join(&file))?;
        for part in [file.as_bytes(), &content] {
            hash.write(&(part.len() as u64).to_le_bytes());
            hash.write(part);
        }
    }
    Ok(format!("{:032x}", hash.finish_128()))
}
