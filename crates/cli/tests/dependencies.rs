//! Every dependency has a licence that deny.toml allows, and requires no newer Rust than mmtwin promises.
//!
//! `cargo deny` checks the same and more, but takes minutes to build, so it is left to `make nightly`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The packages in Cargo.lock; needs no network, because this test was built from them.
fn packages() -> Vec<Value> {
    let rules = rules();
    let target = rules["graph"]["targets"][0].as_str().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", target])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().clone();
    assert!(packages.len() > 100, "{}", packages.len());
    packages
}

fn rules() -> toml::Table {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn strings(list: &toml::Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect()
}

/// Whether an SPDX licence expression is allowed: for each part joined by AND, one of its OR alternatives
/// must be. For expressions that mix AND and OR this is stricter than SPDX, never laxer.
fn is_allowed(licence: &str, allowed: &BTreeSet<&str>) -> bool {
    let licence = licence.replace(['(', ')'], "").replace('/', " OR ");
    let mut parts = licence.split(" AND ");
    parts.all(|part| part.split(" OR ").any(|name| allowed.contains(name.trim())))
}

#[test]
fn licences_and_sources_are_allowed() {
    let rules = rules();
    let allowed = strings(&rules["licenses"]["allow"]);
    assert!(
        is_allowed("(MIT OR GPL-3.0) AND Apache-2.0", &allowed) && !is_allowed("MIT AND GPL-3.0", &allowed)
    );
    let registries = strings(&rules["sources"]["allow-registry"]);
    let mut needed = BTreeSet::new();
    for package in packages() {
        let name = &package["name"];
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{name} has no licence"));
        assert!(is_allowed(licence, &allowed), "{name}: {licence} is not in deny.toml");
        needed.extend(allowed.iter().filter(|name| licence.contains(**name)).copied());
        if let Some(source) = package["source"].as_str() {
            let registry =
                source.strip_prefix("registry+").unwrap_or_else(|| panic!("{name}: from {source}"));
            assert!(registries.contains(registry), "{name}: {registry} is not in deny.toml");
        } else {
            let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
            assert!(
                manifest.starts_with(root().canonicalize().unwrap()),
                "{name}: from {}",
                manifest.display()
            );
        }
    }
    assert_eq!(needed, allowed, "deny.toml allows what nothing needs");
}

#[test]
fn no_crate_is_there_twice_without_a_reason() {
    let rules = rules();
    let skipped = rules["bans"]["skip"].as_array().unwrap();
    let skipped: BTreeSet<&str> = skipped.iter().map(|entry| entry["crate"].as_str().unwrap()).collect();
    let mut versions: BTreeMap<String, u32> = BTreeMap::new();
    for package in packages() {
        *versions.entry(package["name"].as_str().unwrap().into()).or_default() += 1;
    }
    let several = versions.iter().filter(|(_, count)| **count > 1).map(|(name, _)| name.as_str());
    assert_eq!(several.collect::<BTreeSet<_>>(), skipped, "deny.toml skips these");
}

#[test]
fn nothing_needs_a_newer_rust_than_is_promised() {
    let version = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let promised = version(env!("CARGO_PKG_RUST_VERSION"));
    for package in packages() {
        if let Some(needed) = package["rust_version"].as_str() {
            assert!(version(needed)[..2] <= promised[..2], "{} needs Rust {needed}", package["name"]);
        }
    }
}
