//! What the commands print, to the letter: see the files in cmd/.

#[test]
fn commands() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
