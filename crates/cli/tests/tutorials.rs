//! The tutorials: every command of theirs is run, in order, in a directory with the files that its reader makes, and prints what the page
//! shows.

use std::path::Path;

#[test]
fn tutorials_show_what_is_printed() {
    if std::process::Command::new("cc").arg("--version").output().is_err() {
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
