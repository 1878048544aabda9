//! The script that `mmtwin completions bash` prints has bash complete names.

use std::process::Command;

fn bash(script: &str) -> String {
    let output =
        Command::new("bash").args(["--norc", "-c", script, "bash", env!("CARGO_BIN_EXE_mmtwin")]).output();
    let output = output.expect("bash, which the rules of this repository need too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// What bash would propose for the last of these words.
fn proposed(words: &[&str]) -> String {
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    bash(&format!(
        r#"source <("$1" completions bash)
        COMP_WORDS=({}) COMP_CWORD={} COMP_TYPE=9
        _clap_complete_mmtwin mmtwin "{last}" "{before}" 2>/dev/null
        echo "${{COMPREPLY[*]}}""#,
        words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" "),
        words.len() - 1
    ))
}

#[test]
fn bash_completes_what_is_declared() {
    assert_eq!(proposed(&["mmtwin", "compare", "kbuild-j"]), "kbuild-j224");
    assert_eq!(proposed(&["mmtwin", "compare", "kbuild", "--machine", "spr-s"]), "spr-server");
    assert_eq!(proposed(&["mmtwin", "run", "kbuild", "--set", "vm.swapp"]), "vm.swappiness=");
    assert_eq!(proposed(&["mmtwin", "compl"]), "completions");
    assert_eq!(proposed(&["mmtwin", "compare", "no-such-thing"]), "");
}

#[test]
fn a_shell_that_there_is_not_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_mmtwin")).args(["completions", "tcsh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("bash") && error.contains("fish"), "{error}");
}
