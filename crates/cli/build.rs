//! Gives the command the commit that it is built from, to be shown with results. It decides none of them, and the library
//! that does is not built again because of it.

use std::path::Path;
use std::process::Command;

/// What git prints, if there is git and a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

fn main() {
    println!("cargo:rustc-env=MMTWIN_COMMIT={}", git(&["rev-parse", "HEAD"]).unwrap_or_default());
    println!("cargo:rerun-if-changed=build.rs");
    // Commits and checkouts each add a line to it.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
}
