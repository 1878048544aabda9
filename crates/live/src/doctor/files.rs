//! The files of /proc and /sys that a diagnosis reads, as text, at one moment.
//!
//! ```text
//!   / ──────────────┐
//!                   ├─► Files: text by path, such as proc/vmstat; what is there but cannot be read, with the reason
//!   DIR/begin ──────┘
//! ```
//!
//! The running kernel and a saved tree are read by the same function, from another root. What none of [`FILES`] matches is never
//! opened, nothing is written, and nothing that is not a regular file is opened. Of `numa_maps` only the counts of pages by node are
//! kept: paths of files that a process maps concern nobody.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Which files are read; a `*` stands for any name of a directory, or for a part of one.
pub const FILES: [&str; 61] = [
    "proc/zoneinfo",
    "proc/vmstat",
    "proc/meminfo",
    "proc/buddyinfo",
    "proc/swaps",
    "proc/pressure/memory",
    "proc/pressure/io",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
    "proc/sys/vm/percpu_pagelist_high_fraction",
    "proc/sys/vm/min_free_kbytes",
    "proc/sys/vm/watermark_scale_factor",
    "proc/sys/vm/watermark_boost_factor",
    "proc/sys/vm/stat_interval",
    "proc/sys/vm/lowmem_reserve_ratio",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_bytes",
    "proc/sys/vm/dirty_expire_centisecs",
    "proc/sys/vm/dirty_writeback_centisecs",
    "proc/sys/vm/page-cluster",
    "proc/sys/vm/extfrag_threshold",
    "proc/sys/vm/compaction_proactiveness",
    "proc/sys/vm/nr_hugepages",
    "proc/sys/vm/hugetlb_optimize_vmemmap",
    "proc/[0-9]/numa_maps",
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/online",
    "sys/devices/system/node/has_cpu",
    "sys/devices/system/node/node*/numastat",
    "sys/kernel/mm/lru_gen/enabled",
    "sys/kernel/mm/lru_gen/min_ttl_ms",
    "sys/kernel/debug/lru_gen",
    "sys/kernel/mm/swap/vma_ra_enabled",
    "sys/kernel/mm/numa/demotion_enabled",
    "sys/kernel/mm/cma/*/alloc_pages_fail",
    "sys/kernel/mm/hugepages/hugepages-*/nr_hugepages",
    "sys/kernel/mm/hugepages/hugepages-*/free_hugepages",
    "sys/kernel/mm/hugepages/hugepages-*/resv_hugepages",
    "sys/kernel/mm/hugepages/hugepages-*/surplus_hugepages",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/transparent_hugepage/use_zero_page",
    "sys/kernel/mm/transparent_hugepage/shrink_underused",
    "sys/kernel/mm/transparent_hugepage/hugepages-*/enabled",
    "sys/kernel/mm/transparent_hugepage/hugepages-*/stats/anon_fault_alloc",
    "sys/kernel/mm/transparent_hugepage/hugepages-*/stats/anon_fault_fallback",
    "sys/kernel/mm/transparent_hugepage/hugepages-*/stats/nr_anon",
    "sys/kernel/mm/transparent_hugepage/hugepages-*/stats/nr_anon_partially_mapped",
    "sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
    "sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
    "sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs",
    "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
    "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_swap",
    "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_shared",
    "sys/block/*/queue/read_ahead_kb",
    "sys/block/*/queue/wbt_lat_usec",
    "sys/block/*/queue/nr_requests",
];

/// The files of a memory cgroup: of version 2, and of version 1.
pub const CGROUP_FILES: [&str; 8] = [
    "memory.current",
    "memory.max",
    "memory.high",
    "memory.events",
    "memory.pressure",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.failcnt",
];

/// What is read in between: what tells states apart that come and go.
pub const BETWEEN: [&str; 1] = ["proc/zoneinfo"];

const CGROUPS: &str = "sys/fs/cgroup";
/// Directories below which cgroups are looked for: a service, its parts and their parts, below the controller's name.
const CGROUP_DEPTH: usize = 4;
/// Cgroups that are read at most; a host with thousands of containers has one diagnosis all the same.
pub const MOST_CGROUPS: usize = 256;
/// Processes whose `numa_maps` is read at most: it makes the kernel walk their page tables.
const MOST_PROCESSES: usize = 8;
/// The most that is read of a file: zoneinfo of 1,024 CPUs and 8 nodes.
const LONGEST: u64 = 8 << 20;

/// Files by their path below the root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    pub texts: BTreeMap<String, String>,
    /// What is there and cannot be read, with what the kernel said.
    pub unreadable: BTreeMap<String, String>,
    /// Whether there are more cgroups than are read.
    pub more_cgroups: bool,
}

impl Files {
    /// Reads all files below `root`.
    pub fn read(root: &Path) -> Files {
        let mut files = Files::default();
        for pattern in FILES {
            match pattern.strip_prefix("proc/[0-9]/") {
                Some(name) => files.processes(root, name),
                None => files.matching(root, "", pattern),
            }
        }
        files.cgroups(root, CGROUPS, CGROUP_DEPTH, &mut 0);
        files
    }

    /// Reads what is looked at in between.
    pub fn read_between(root: &Path) -> Files {
        let mut files = Files::default();
        BETWEEN.iter().for_each(|path| files.add(root, path));
        files
    }

    /// The text of a file without the white space around it.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(|text| text.trim())
    }

    /// The paths that begin and end so, each with what is in between.
    pub fn between<'a>(
        &'a self,
        begin: &'a str,
        end: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        let paths =
            self.texts.range(begin.to_string()..).take_while(move |(path, _)| path.starts_with(begin));
        paths
            .filter_map(move |(path, text)| Some((path.strip_prefix(begin)?.strip_suffix(end)?, text.trim())))
    }

    fn add(&mut self, root: &Path, path: &str) {
        match text_of(&root.join(path)) {
            Ok(Some(text)) => {
                self.texts
                    .insert(path.into(), if path.ends_with("numa_maps") { nodes_only(&text) } else { text });
            }
            Ok(None) => {}
            Err(error) => {
                self.unreadable.insert(path.into(), error.kind().to_string());
            }
        }
    }

    fn matching(&mut self, root: &Path, done: &str, rest: &str) {
        let (component, rest) = match rest.split_once('/') {
            Some((component, rest)) => (component, Some(rest)),
            None => (rest, None),
        };
        let names = match component.contains('*') {
            false => vec![component.to_string()],
            true => directories(&root.join(done), |name| is_matched(component, name)),
        };
        for name in names {
            let path = if done.is_empty() { name } else { format!("{done}/{name}") };
            match rest {
                Some(rest) => self.matching(root, &path, rest),
                None => self.add(root, &path),
            }
        }
    }

    /// Reads a file of the processes that have it, where memory has several nodes: elsewhere all of it is on one.
    fn processes(&mut self, root: &Path, name: &str) {
        if directories(&root.join("sys/devices/system/node"), |name| name.starts_with("node")).len() < 2 {
            return;
        }
        let ids = directories(&root.join("proc"), |name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let resident = |id: &String| {
            let path = root.join("proc").join(id).join("statm");
            let text = text_of(&path).ok().flatten().unwrap_or_default();
            text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0)
        };
        let mut ids: Vec<(u64, String)> = ids.into_iter().map(|id| (resident(&id), id)).collect();
        ids.sort_by(|a, b| b.cmp(a));
        for (_, id) in ids.into_iter().take(MOST_PROCESSES) {
            self.add(root, &format!("proc/{id}/{name}"));
        }
    }

    fn cgroups(&mut self, root: &Path, directory: &str, depth: usize, read: &mut usize) {
        if *read >= MOST_CGROUPS {
            self.more_cgroups = true;
            return;
        }
        *read += 1;
        for name in CGROUP_FILES {
            self.add(root, &format!("{directory}/{name}"));
        }
        if depth > 0 {
            for name in directories(&root.join(directory), |_| true) {
                self.cgroups(root, &format!("{directory}/{name}"), depth - 1, read);
            }
        }
    }
}

/// Whether a path, or a part of one, is what a pattern with at most one `*` means.
pub(super) fn is_matched(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((begin, end)) => {
            path.len() >= begin.len() + end.len() && path.starts_with(begin) && path.ends_with(end)
        }
    }
}

/// The names of directories, in order; links to directories are some.
fn directories(of: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let wanted = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        (is_wanted(&name) && entry.path().is_dir()).then_some(name)
    });
    let mut names: Vec<String> = wanted.collect();
    names.sort();
    names
}

/// The text of a regular file; none if there is none.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    let is_absent =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        // A process or a cgroup that ended meanwhile.
        Err(error) if is_absent(&error) || error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lines of numa_maps with nothing but pages by node and the size of a page.
fn nodes_only(text: &str) -> String {
    let is_kept = |word: &&str| {
        word.starts_with("kernelpagesize_kB=")
            || word.strip_prefix('N').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let lines =
        text.lines().map(|line| line.split_whitespace().filter(is_kept).collect::<Vec<_>>().join(" "));
    lines.filter(|line| line.contains('N')).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn files_are_found_by_pattern_and_no_others() {
        let root = tree(&[
            ("proc/vmstat", "a 1\n"),
            ("proc/cmdline", "secret"),
            ("sys/devices/system/node/node0/numastat", "numa_hit 1\n"),
            ("sys/devices/system/node/node1/numastat", "numa_hit 2\n"),
            (
                "proc/17/numa_maps",
                "55d0 default file=/home/me/diary mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n",
            ),
            ("sys/fs/cgroup/system.slice/a.service/memory.events", "max 1\n"),
            ("sys/fs/cgroup/memory/own/memory.failcnt", "7\n"),
        ]);
        let files = Files::read(root.path());
        let paths: Vec<&str> = files.texts.keys().map(String::as_str).collect();
        let expected = [
            "proc/17/numa_maps",
            "proc/vmstat",
            "sys/devices/system/node/node0/numastat",
            "sys/devices/system/node/node1/numastat",
            "sys/fs/cgroup/memory/own/memory.failcnt",
            "sys/fs/cgroup/system.slice/a.service/memory.events",
        ];
        assert_eq!(paths, expected);
        assert_eq!(files.text("proc/17/numa_maps"), Some("N0=2 N1=1 kernelpagesize_kB=4"));
        let nodes: Vec<_> = files.between("sys/devices/system/node/node", "/numastat").collect();
        assert_eq!(nodes, [("0", "numa_hit 1"), ("1", "numa_hit 2")]);
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let root = tree(&[("proc/vmstat/inner", "")]);
        let fifo = std::ffi::CString::new(root.path().join("proc/meminfo").to_str().unwrap()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(Files::read(root.path()), Files::default());
    }
}
