//! Every function that reads untrusted bytes has a fuzz target.
//!
//! ```text
//!   crates/*/src/**.rs ──► functions that open, unpack or parse ──┐
//!                                                                 ├── must be equal
//!   fuzz/readers.toml  ──► functions and their fuzz targets ──────┘
//!                                              └─► fuzz/fuzz_targets/*.rs, all of them listed
//! ```
//!
//! Readers are recognised by their source text, see [`OPENING`] and [`PARSING`]. A new or removed reader
//! fails this test until fuzz/readers.toml names its target, or the reason why it needs none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that open or unpack a file, or parse a document.
const OPENING: [&str; 14] = [
    "File::open(",
    "fs::read(",
    "read_to_string(",
    "toml::from_str",
    "serde_json::from_str",
    "serde_json::from_slice",
    "serde_json::from_reader",
    "DeTable::parse(",
    "Decoder::new(",
    "Decoder::with_buffer(",
    "Reader::from_reader(",
    "Footer::read(",
    "TableReader::new(",
    "ParquetMetaDataReader::",
];

/// Prefixes of names of functions that parse bytes or text.
const PARSING: [&str; 6] = ["parse", "decode", "from_str", "from_bytes", "from_reader", "load"];

/// Types of parameters that carry bytes or text.
const CONTENT: [&str; 5] = ["&str", "&'a str", "[u8]", "Bytes", "Read"];

/// The section of fuzz/readers.toml for readers without a target, by reason.
const NONE: &str = "none";

/// Function names by file.
type Readers = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The source files of a crate, without tests.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

fn readers(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut readers = BTreeSet::new();
    let mut function = String::new();
    let mut lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        let declared = line.split_once("fn ").map(|(_, rest)| rest).filter(|_| is_declaration(line));
        if let Some(rest) = declared {
            function = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let mut signature = rest.to_string();
            while !signature.contains(['{', ';']) {
                let Some(more) = lines.next() else { break };
                signature += more;
            }
            let taken = signature.split("->").next().unwrap();
            let is_parser = PARSING.iter().any(|name| function.starts_with(name))
                && CONTENT.iter().any(|content| taken.contains(content));
            if is_parser {
                readers.insert(function.clone());
            }
        }
        if OPENING.iter().any(|call| line.contains(call)) {
            readers.insert(function.clone());
        }
    }
    readers
}

fn is_declaration(line: &str) -> bool {
    let words = line.trim_start().split(' ');
    let mut words = words.skip_while(|word| word.starts_with("pub") || ["const", "unsafe"].contains(word));
    words.next() == Some("fn") || line.trim_start().starts_with("pub(") && line.contains(") fn ")
}

/// The readers in fuzz/readers.toml: by target, and by the reason why there is none.
fn listed() -> (BTreeMap<String, Readers>, BTreeMap<String, Readers>) {
    let text = fs::read_to_string(root().join("fuzz/readers.toml")).unwrap();
    let mut document: toml::Table = text.parse().unwrap();
    let none = document.remove(NONE).unwrap().try_into().unwrap();
    (document.try_into().unwrap(), none)
}

fn targets() -> BTreeSet<String> {
    let targets = fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap();
    targets.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string()).collect()
}

#[test]
fn every_reader_is_listed() {
    let root = root();
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let directory = entry.unwrap().path().join("src");
        if directory.is_dir() {
            sources(&directory, &mut files);
        }
    }
    let mut found = Readers::new();
    for file in files {
        let readers = readers(&fs::read_to_string(&file).unwrap());
        if !readers.is_empty() {
            found.insert(file.strip_prefix(&root).unwrap().to_str().unwrap().into(), readers);
        }
    }
    let (fed, none) = listed();
    let all = |of: &Readers| -> BTreeSet<String> {
        of.iter().flat_map(|(file, names)| names.iter().map(move |name| format!("{file}: {name}"))).collect()
    };
    let (found, listed) = (all(&found), fed.values().chain(none.values()).flat_map(all).collect());
    let (missing, gone): (Vec<_>, Vec<_>) =
        (found.difference(&listed).collect(), listed.difference(&found).collect());
    assert!(missing.is_empty(), "fuzz/readers.toml has no word of {missing:#?}");
    assert!(gone.is_empty(), "fuzz/readers.toml lists what reads nothing any more: {gone:#?}");
}

#[test]
fn every_target_is_there_and_has_a_reader_and_seeds() {
    let targets = targets();
    let fed: BTreeSet<String> = listed().0.into_keys().collect();
    assert_eq!(fed, targets, "targets, and those that feed a reader");
    let run = fs::read_to_string(root().join("fuzz/run")).unwrap();
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for target in &targets {
        assert!(manifest.contains(&format!("name = \"{target}\"\n")), "fuzz/Cargo.toml lacks {target}");
        let seeds = root().join("fuzz/seeds").join(target);
        let has_seeds = fs::read_dir(seeds).is_ok_and(|mut entries| entries.next().is_some());
        assert!(has_seeds || run.contains(&format!("\n{target}) seeds=")), "{target} begins without seeds");
    }
}

#[test]
fn a_new_reader_is_seen() {
    let readers = |source: &str| readers(source).into_iter().collect::<Vec<_>>();
    assert_eq!(
        readers("pub fn size(path: &Path) -> u64 {\n    let text = fs::read_to_string(path);\n}\n"),
        ["size"]
    );
    assert_eq!(
        readers("pub(super) fn parse_list(\n    text: &str,\n) -> Option<u8> {\n    None\n}\n"),
        ["parse_list"]
    );
    assert_eq!(readers("    fn from_str(text: &str) -> Result<X, ()> {\n"), ["from_str"]);
    assert!(readers("/// parse(text: &str)\nfn write(text: &str) {\n    let parse = 1;\n}\n").is_empty());
}
