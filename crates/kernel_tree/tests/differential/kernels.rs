//! Kernel sources on this machine, and the twin's kernels that they should be the same as.

use mm::{Features, Variant};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A kernel's sources.
pub struct Kernel {
    pub root: PathBuf,
    /// As the twin calls it.
    pub release: &'static str,
    pub features: Features,
}

/// Releases that there is something to compare with.
const RELEASES: [&str; 2] = ["6.1", "6.12"];

/// All that are found; says where none is.
pub fn all() -> Vec<Kernel> {
    let kernels: Vec<Kernel> = roots().iter().filter_map(|root| kernel(root)).collect();
    if kernels.is_empty() {
        say(
            "SKIPPED: no kernel sources of 6.1 or 6.12; set MMTWIN_KERNEL_SOURCES=DIR[:DIR], or unpack Debian's linux-source-6.12 in /usr/src",
        );
    }
    kernels
}

/// Says something whatever becomes of the test; `cargo test` keeps what is printed.
#[allow(clippy::explicit_write)]
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "differential: {line}");
}

fn roots() -> Vec<PathBuf> {
    if let Some(asked) = std::env::var_os("MMTWIN_KERNEL_SOURCES") {
        let roots: Vec<PathBuf> = std::env::split_paths(&asked).collect();
        for root in &roots {
            assert!(
                root.join("Makefile").is_file(),
                "MMTWIN_KERNEL_SOURCES: {} is no kernel tree",
                root.display()
            );
        }
        return roots;
    }
    let Ok(entries) = std::fs::read_dir("/usr/src") else { return Vec::new() };
    let of_debian = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("linux-source-"))
    };
    entries.flatten().map(|entry| entry.path()).filter(of_debian).collect()
}

fn kernel(root: &Path) -> Option<Kernel> {
    let makefile = std::fs::read_to_string(root.join("Makefile")).ok()?;
    let number = |name: &str| {
        let line = makefile.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once('=')?.1.trim().to_string())
    };
    let version = format!("{}.{}", number("VERSION")?, number("PATCHLEVEL")?);
    let release = RELEASES.into_iter().find(|release| *release == version)?;
    let features = Variant::of_release(release)?.features;
    Some(Kernel { root: root.to_path_buf(), release, features })
}
