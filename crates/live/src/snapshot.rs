//! The state of the running kernel's memory manager, as the text of its files in /proc.
//!
//! The text is stored because it is the evidence: it can be parsed again when a parser learns more, and
//! compared with the text that the twin renders for its own kernel.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use workload::trace::{Cache, Snapshot};

/// The sysctls that affect the page allocator and its per-CPU lists.
pub const SETTINGS: [&str; 6] = [
    "vm.percpu_pagelist_high_fraction",
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
    "vm.watermark_boost_factor",
    "vm.stat_interval",
    "vm.lowmem_reserve_ratio",
];

/// Reads the files of a [`Snapshot`]. `zoneinfo`, which has the per-CPU lists, is read last, so that it is
/// the closest to what is recorded afterwards. A file that does not exist or cannot be read gives an empty
/// text.
pub fn snapshot() -> Snapshot {
    let text = |name: &str| fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default();
    let meminfo = text("meminfo");
    let vmstat = text("vmstat");
    let pagetypeinfo = text("pagetypeinfo");
    let buddyinfo = text("buddyinfo");
    let zoneinfo = text("zoneinfo");
    Snapshot { zoneinfo, vmstat, buddyinfo, pagetypeinfo, meminfo }
}

/// The value of each of [`SETTINGS`] that this kernel has.
pub fn settings() -> BTreeMap<String, String> {
    SETTINGS
        .iter()
        .filter_map(|name| {
            let path = Path::new("/proc/sys").join(name.replace('.', "/"));
            Some((name.to_string(), fs::read_to_string(path).ok()?.trim().to_string()))
        })
        .collect()
}

/// The value in a file: where it lists all values, such as `always [madvise] never`, the one in brackets.
pub(crate) fn chosen(text: &str) -> &str {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(word, _)| word)
}

/// The kernel release, as in `uname -r`.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// The CPU caches in sysfs; a cache that several CPUs share is listed once.
pub fn caches() -> Vec<Cache> {
    let mut caches = Vec::new();
    for cpu in directories(Path::new("/sys/devices/system/cpu"), "cpu").unwrap_or_default() {
        for index in directories(&cpu.join("cache"), "index").unwrap_or_default() {
            let text =
                |name: &str| fs::read_to_string(index.join(name)).unwrap_or_default().trim().to_string();
            caches.push(Cache {
                level: text("level").parse().unwrap_or(0),
                kind: text("type"),
                size: text("size"),
                shared_cpu_list: text("shared_cpu_list"),
            });
        }
    }
    caches.sort();
    caches.dedup();
    caches
}

/// Subdirectories whose names are `prefix` and a number.
fn directories(parent: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
        found.extend(number.map(|_| entry.path()));
    }
    Ok(found)
}

/// Number of CPUs in a range such as `3` or `0-7`.
pub(crate) fn cpus_in_range(range: &str) -> u64 {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match range.split_once('-') {
        Some((first, last)) => {
            number(last).zip(number(first)).map_or(0, |(last, first)| last.saturating_sub(first) + 1)
        }
        None => u64::from(number(range).is_some()),
    }
}
