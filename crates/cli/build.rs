//! Passes the commit to the command, which stores it with results. It has no effect on results, and the
//! library that makes them is not rebuilt when it changes.

use std::path::Path;
use std::process::Command;

/// The output of git, or `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

fn main() {
    println!("cargo:rustc-env=MMTWIN_COMMIT={}", git(&["rev-parse", "HEAD"]).unwrap_or_default());
    println!("cargo:rerun-if-changed=build.rs");
    // Every commit and checkout appends a line to the reflog.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
}
