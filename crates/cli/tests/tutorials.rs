//! The tutorials: every command of theirs is run, in order, in a directory with the files that its reader makes, and prints what the page
//! shows.
//!
//! `TRYCMD=overwrite cargo test --release -p mmtwin --test tutorials` writes what is printed into the pages; `...` and `[..]` of blocks that
//! changed have to be put back.

// Who runs the tests reads it.
#![allow(clippy::print_stderr)]

use std::path::Path;
use std::process::Command;

#[test]
fn tutorials_show_what_is_printed() {
    let is_missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    if let Some(program) = ["cc", "/bin/cat", "/usr/bin/python3"].iter().find(|program| is_missing(program)) {
        eprintln!("SKIPPED: no {program}; tutorials are not tested");
        return;
    }
    // Without the kernel trees that whoever runs the test has added.
    let cache = tempfile::tempdir().expect("a directory for temporary files");
    let cases = trycmd::TestCases::new();
    cases.env("XDG_CACHE_HOME", cache.path().to_string_lossy()).env("COLUMNS", "100");
    for (name, program) in [("cat", "/bin/cat"), ("python3", "/usr/bin/python3")] {
        cases.register_bin(name, Path::new(program));
    }
    cases.case("tests/tutorials/*.md");
}
