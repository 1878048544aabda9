//! Snapshot tests of the commands' output: the files in cmd/.

#[test]
fn commands() {
    // Without the kernel trees that whoever runs the test has added.
    let cache = tempfile::tempdir().expect("a directory for temporary files");
    trycmd::TestCases::new().env("XDG_CACHE_HOME", cache.path().to_string_lossy()).case("tests/cmd/*.trycmd");
}
