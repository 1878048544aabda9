//! Snapshot tests of the commands' output: the files in cmd/.

#[test]
fn commands() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
