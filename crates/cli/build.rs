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
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_default();
    println!("cargo:rustc-env=MMTWIN_COMMIT={commit}");
    let built_of = if commit.is_empty() { "no git checkout" } else { &commit };
    println!("cargo:rustc-env=MMTWIN_VERSION={} (built of {built_of})", env!("CARGO_PKG_VERSION"));
    println!("cargo:rerun-if-changed=build.rs");
    // Every commit and checkout appends a line to the reflog.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
}
