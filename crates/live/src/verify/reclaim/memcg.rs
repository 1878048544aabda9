//! A temporary memory cgroup, in version 1 or 2 of the interface.
//!
//! ```text
//!             directory                        limit                    counters
//!   v1        /sys/fs/cgroup/memory/mmtwin-X   memory.limit_in_bytes    memory.stat, only refaults
//!   v2        /sys/fs/cgroup/mmtwin-X          memory.max               memory.stat, all of reclaim
//! ```
//!
//! A guard ([`crate::rollback`]) removes it even if this process is killed.

use crate::notice::say;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mm::memcontrol::MemcgFile;
use workload::access::PAGE_SIZE;

use crate::rollback::Guard;

/// The mounted cgroup hierarchy that has the memory controller.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    root: PathBuf,
    limit: &'static str,
}

/// A memory cgroup that is removed when dropped.
#[derive(Debug)]
pub struct MemoryCgroup {
    path: PathBuf,
}

impl Hierarchy {
    /// Finds it in the list of mounts.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn find() -> Result<Hierarchy, String> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let with_memory = |root: &Path| {
            let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
            enabled.split_whitespace().any(|controller| controller == "memory")
        };
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, root, kind, options, ..] = fields[..] else { continue };
            let root = PathBuf::from(root);
            if kind == "cgroup" && options.split(',').any(|option| option == "memory") {
                return Ok(Hierarchy { root, limit: "memory.limit_in_bytes" });
            }
            if kind == "cgroup2" && with_memory(&root) {
                return Ok(Hierarchy { root, limit: "memory.max" });
            }
        }
        Err("no memory cgroups: mount a hierarchy with the memory controller, or write +memory to its \
             cgroup.subtree_control"
            .into())
    }

    /// Whether its cgroups have a file like this; version 1 has the limit alone, by another name.
    pub fn has(&self, file: MemcgFile) -> bool {
        file == MemcgFile::Max || self.limit == MemcgFile::Max.name()
    }

    /// Creates a cgroup with a limit of `max` pages, or without.
    pub fn create(&self, guard: &Guard, max: Option<u64>) -> io::Result<MemoryCgroup> {
        let group = MemoryCgroup { path: guard.kernel_directory(&self.root)? };
        if let Some(max) = max {
            fs::write(group.path.join(self.limit), (max * PAGE_SIZE).to_string())?;
        }
        Ok(group)
    }
}

impl MemoryCgroup {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The counters in memory.stat.
    pub fn statistics(&self) -> io::Result<BTreeMap<String, u64>> {
        let text = fs::read_to_string(self.path.join(STATISTICS))?;
        let counters = text.lines().filter_map(|line| line.split_once(' '));
        Ok(counters.filter_map(|(name, value)| Some((name.into(), value.parse().ok()?))).collect())
    }
}

pub const STATISTICS: &str = "memory.stat";

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            say(format_args!("cannot remove {}: {error}; remove it with rmdir", self.path.display()));
        }
    }
}
