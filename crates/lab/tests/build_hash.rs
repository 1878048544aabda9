//! Tests that the build hash identifies the sources of results, wherever they are.

#[path = "../build/source_hash.rs"]
mod source_hash;

use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A copy of the same sources in another place.
fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in source_hash::files(&root()).unwrap() {
        let to = copy.path().join(&file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(root().join(&file), to).unwrap();
    }
    copy
}

#[test]
fn the_same_sources_have_one_hash_wherever_they_are() {
    let hash = source_hash::hash(&root()).unwrap();
    assert_eq!(hash, lab::results::Program::this("").build, "the build script's");
    let copy = copy();
    assert_eq!(source_hash::hash(copy.path()).unwrap(), hash);
    // Files of editors, and recordings that the twin is compared with, change nothing.
    fs::write(copy.path().join("crates/mm/src/.policy.rs.swp"), "").unwrap();
    fs::create_dir(copy.path().join("data/recordings")).unwrap();
    fs::write(copy.path().join("data/recordings/of.csv"), "").unwrap();
    assert_eq!(source_hash::hash(copy.path()).unwrap(), hash);
}

#[test]
fn an_edit_that_may_change_a_result_gives_another_hash() {
    let copy = copy();
    let hash = || source_hash::hash(copy.path()).unwrap();
    let mut seen = vec![hash()];
    for file in [
        "crates/mm/src/allocator/pcp/policy.rs",
        "crates/machine/src/lock.rs",
        "crates/workload/src/lib.rs",
        "crates/sim/src/system.rs",
        "crates/lab/src/scenario.rs",
        "crates/mm/Cargo.toml",
        "Cargo.lock",
        "data/kbuild.profile",
        "machines/numa-256.toml",
        "scenarios/kbuild.toml",
    ] {
        let path = copy.path().join(file);
        let mut content = fs::read(&path).unwrap();
        content.push(b'\n');
        fs::write(&path, content).unwrap();
        assert!(!seen.contains(&hash()), "{file}");
        seen.push(hash());
    }
    fs::rename(copy.path().join("machines/qemu-2n.toml"), copy.path().join("machines/qemu-8n.toml")).unwrap();
    assert!(!seen.contains(&hash()), "a file with another name");
}

/// Finds the files that sources compile in, and checks that each of them is hashed.
#[test]
fn everything_that_is_built_in_is_hashed() {
    let hashed = source_hash::files(&root()).unwrap();
    // Published tables that predictions are compared with; no run depends on them.
    let decides_nothing = "data/published/seed-tables.toml";
    let mut found = 0;
    for file in hashed.iter().filter(|file| file.ends_with(".rs") && !file.contains("tests")) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        for (at, _) in text.match_indices("include_bytes!(").chain(text.match_indices("include_str!(")) {
            let Some(name) = text[at..].split_once('(').and_then(|(_, rest)| rest.strip_prefix('"')) else {
                continue;
            };
            let name = name.split('"').next().unwrap();
            let place = within(&Path::new(file).parent().unwrap().join(name));
            assert!(place == decides_nothing || hashed.contains(&place), "{file} has {place} built in");
            found += 1;
        }
    }
    assert!(found >= 7, "{found}");
}

/// A path with its `..` resolved.
fn within(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(parts.pop()),
            component => parts.push(component.as_os_str().to_str().unwrap()),
        }
    }
    parts.join("/")
}
