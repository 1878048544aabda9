//! The changes that CONTRIBUTING.md describes are complete, and its numbers are right.
//!
//! ```text
//!   CONTRIBUTING.md ─► blocks of `diff` ─┐
//!   crates/machine, crates/mm ───────────┴─► a changed copy ─► its test of pagesets is built and passes
//! ```
//!
//! A hunk is located by its lines alone, which must occur exactly once in the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The test that the page adds a line to.
const TEST: &str = "decay_of_a_grown_pageset";

/// The content of files by path within the workspace.
type Files = BTreeMap<String, String>;

/// A hunk: lines of a file, and the lines that replace them.
#[derive(Debug, PartialEq)]
struct Hunk {
    file: String,
    before: String,
    after: String,
}

/// The hunks of all blocks of `diff` in a page.
fn hunks(page: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let (mut file, mut indent) = (String::new(), None);
    for line in page.lines() {
        if let Some(at) = line.find("```") {
            indent = (line[at..].trim_end() == "```diff").then_some(at);
            continue;
        }
        let Some(line) = indent.map(|at| line.get(at..).unwrap_or("")) else { continue };
        if let Some(name) = line.strip_prefix("--- ") {
            file = name.to_string();
        } else if line == "@@" {
            hunks.push(Hunk { file: file.clone(), before: String::new(), after: String::new() });
        } else {
            let hunk = hunks.last_mut().expect("@@ before the lines of a hunk");
            let (sign, text) = line.split_at(line.len().min(1));
            if sign != "+" {
                hunk.before += &format!("{text}\n");
            }
            if sign != "-" {
                hunk.after += &format!("{text}\n");
            }
        }
    }
    hunks
}

fn apply(files: &mut Files, hunk: &Hunk) -> Result<(), String> {
    let text = files.get_mut(&hunk.file).ok_or(format!("there is no {}", hunk.file))?;
    let whole_lines = format!("\n{text}");
    let before = format!("\n{}", hunk.before);
    match whole_lines.matches(&before).count() {
        1 => {
            *text = whole_lines.replacen(&before, &format!("\n{}", hunk.after), 1).split_off(1);
            Ok(())
        }
        count => Err(format!("{} has this {count} times:\n{}", hunk.file, hunk.before)),
    }
}

fn collect(root: &Path, path: &str, files: &mut Files) {
    if root.join(path).is_dir() {
        for entry in fs::read_dir(root.join(path)).unwrap() {
            collect(root, &format!("{path}/{}", entry.unwrap().file_name().to_str().unwrap()), files);
        }
    } else {
        files.insert(path.to_string(), fs::read_to_string(root.join(path)).unwrap());
    }
}

/// A workspace of `machine` and `mm` with the test of pagesets, without what only other tests need.
fn sources(root: &Path) -> Files {
    let mut files = Files::new();
    let paths = [
        "Cargo.toml",
        "Cargo.lock",
        "crates/machine/Cargo.toml",
        "crates/machine/src",
        "crates/mm/Cargo.toml",
        "crates/mm/src",
        "crates/mm/tests/pageset_decisions.rs",
    ];
    for path in paths {
        collect(root, path, &mut files);
    }
    for package in ["crates/machine/Cargo.toml", "crates/mm/Cargo.toml"] {
        let manifest = files.get_mut(package).unwrap();
        manifest.truncate(manifest.find("[dev-dependencies]").unwrap());
    }
    let manifest = files.get_mut("Cargo.toml").unwrap();
    let kept = manifest
        .lines()
        .filter(|line| !line.starts_with("members =") && !line.starts_with("default-members ="));
    let kept = kept.take_while(|line| !line.starts_with("[profile"));
    *manifest =
        kept.collect::<Vec<_>>().join("\n").replace("[workspace]", "[workspace]\nmembers = [\"crates/m*\"]");
    files
}

/// Writes files into a directory. Files whose content is the same keep their time, so that cargo does not
/// build them again.
fn write(directory: &Path, files: &Files) {
    let mut old = Files::new();
    if directory.is_dir() {
        for path in ["Cargo.toml", "Cargo.lock", "crates"] {
            collect(directory, path, &mut old);
        }
    }
    for path in old.keys().filter(|path| !files.contains_key(*path)) {
        fs::remove_file(directory.join(path)).unwrap();
    }
    for (path, text) in files.iter().filter(|(path, text)| old.get(*path) != Some(text)) {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Runs the test in a directory. Returns whether it passes, and the output of cargo.
fn passes(directory: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO"))
        .args([
            "test",
            "--offline",
            "-p",
            "mm",
            "--test",
            "pageset_decisions",
            "--config",
            "profile.dev.debug=false",
        ])
        .args(["--", "--exact", TEST])
        .env("CARGO_TARGET_DIR", directory.join("target"))
        .current_dir(directory)
        .output()
        .unwrap();
    let told =
        [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    (output.status.success() && told.contains("1 passed"), told)
}

#[test]
fn a_heuristic_takes_what_the_page_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    assert!(!page.contains("```rust"), "CONTRIBUTING.md: code that is no `diff` is not tried");
    let mut files = sources(&root);
    let hunks = hunks(&page);
    assert!(hunks.iter().any(|hunk| hunk.after.contains("assert_eq!")), "no example adds an assertion");
    for hunk in hunks {
        apply(&mut files, &hunk).unwrap_or_else(|error| panic!("CONTRIBUTING.md: {error}"));
    }
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("contributing");
    write(&copy, &files);
    let (passes, told) = passes(&copy);
    assert!(passes, "{told}");
}

#[test]
fn hunks_are_put_where_their_lines_are() {
    let page = "1. Text:\n\n   ```diff\n   --- a.rs\n   @@\n    b\n\n   -c\n   +d\n   @@\n   +x\n    y\n   ```\n\n```console\n$ z\n```\n";
    let hunk = |before: &str, after: &str| Hunk {
        file: "a.rs".to_string(),
        before: before.to_string(),
        after: after.to_string(),
    };
    assert_eq!(hunks(page), [hunk("b\n\nc\n", "b\n\nd\n"), hunk("y\n", "x\ny\n")]);
    let mut files = Files::from([("a.rs".to_string(), "a\nb\n\nc\nay\ny\n".to_string())]);
    for hunk in hunks(page) {
        apply(&mut files, &hunk).unwrap();
    }
    assert_eq!(files["a.rs"], "a\nb\n\nd\nay\nx\ny\n");
    assert_eq!(apply(&mut files, &hunk("c\n", "")).unwrap_err(), "a.rs has this 0 times:\nc\n");
}
