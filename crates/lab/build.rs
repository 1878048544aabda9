//! Sets the build hash of the library, which is part of the identity of every run.

#[path = "build/source_hash.rs"]
mod source_hash;

use source_hash::TREES;
use std::path::Path;

fn main() {
    // As it is when the script runs: a checkout that was moved or copied with its target directory keeps the compiled script.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    let root = Path::new(&package).join("../..");
    let sources = "the sources that decide a result, beside crates/lab";
    println!("cargo:rustc-env=MMTWIN_BUILD={}", source_hash::hash(&root).expect(sources));
    // Trees are watched as directories, for new and removed files; of other directories only the listed files
    // are watched.
    let alone = source_hash::files(&root).expect(sources);
    let alone = alone.iter().filter(|file| !TREES.iter().any(|tree| file.starts_with(tree)));
    for place in alone.map(String::as_str).chain(TREES.iter().copied()) {
        println!("cargo:rerun-if-changed={}", root.join(place).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/source_hash.rs");
}
