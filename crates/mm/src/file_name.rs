//! Names of the kernel's files: how they are written here, and which of them do something when they are written.
//!
//! ```text
//!   /proc/sys/vm/swappiness                                             vm.swappiness
//!   /sys/kernel/mm/transparent_hugepage/enabled                         transparent_hugepage/enabled
//!   /sys/module/zswap/parameters/enabled                                zswap.enabled
//!   /sys/devices/system/node/node1/hugepages/hugepages-2048kB/demote    node1/hugepages-2048kB/demote
//!   /sys/fs/cgroup/system.slice/database/memory.high                    database/memory.high
//! ```

use std::borrow::Cow;

/// Files that do something when they are written, with the default size of huge pages or none.
pub(crate) const TRIGGERS: [&str; 5] = [
    "vm.nr_hugepages",
    "vm.nr_hugepages_mempolicy",
    "vm.nr_overcommit_hugepages",
    "vm.compact_memory",
    "vm.drop_caches",
];

/// Files of the pool of huge pages of one size. A node has the first alone, and the smallest size has no `demote`.
pub(crate) const OF_POOLS: [&str; 4] =
    ["nr_hugepages", "nr_hugepages_mempolicy", "nr_overcommit_hugepages", "demote"];

/// Directories of files whose names begin with what is behind them.
const DIRECTORIES: [&str; 5] = [
    "/sys/kernel/mm/hugepages/",
    "/sys/kernel/mm/",
    "/sys/kernel/debug/sched/",
    "/sys/kernel/debug/",
    "/sys/devices/system/node/",
];

/// The name that is used here for a file with a whole path. Other names are as they should be.
pub fn short(name: &str) -> Cow<'_, str> {
    if let Some(sysctl) = name.strip_prefix("/proc/sys/") {
        return sysctl.replacen('/', ".", 1).into();
    }
    if let Some(parameter) = name.strip_prefix("/sys/module/") {
        return parameter.replacen("/parameters/", ".", 1).into();
    }
    if let Some(device) = name.strip_prefix("/sys/block/") {
        return device.split_once('/').map_or(device, |(_, file)| file).into();
    }
    if let Some(cgroup) = name.strip_prefix("/sys/fs/cgroup/") {
        // Cgroups are known by their own names, not by those above them.
        let from = cgroup.rmatch_indices('/').nth(1).map_or(0, |(slash, _)| slash + 1);
        return cgroup[from..].into();
    }
    let in_directory = DIRECTORIES.iter().find_map(|directory| name.strip_prefix(directory));
    in_directory.map_or(name.into(), |file| file.replacen("/hugepages/", "/", 1).into())
}

/// Whether a name is that of a file which is no setting: a write to it does something.
pub(crate) fn is_trigger(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    TRIGGERS.contains(&name)
        || name.contains("hugepages-") && OF_POOLS.contains(&file)
        || name.starts_with("node") && file == "compact"
        || name.contains('/') && file.starts_with("memory.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SETTINGS;

    #[test]
    fn paths_of_a_running_kernel_are_names() {
        for (path, name) in [
            ("/proc/sys/vm/swappiness", "vm.swappiness"),
            ("/proc/sys/vm/drop_caches", "vm.drop_caches"),
            ("/proc/sys/kernel/numa_balancing", "kernel.numa_balancing"),
            ("/sys/kernel/mm/lru_gen/min_ttl_ms", "lru_gen/min_ttl_ms"),
            (
                "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
                "transparent_hugepage/khugepaged/defrag",
            ),
            (
                "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
                "transparent_hugepage/hugepages-64kB/enabled",
            ),
            ("/sys/kernel/debug/sched/numa_balancing/scan_size_mb", "numa_balancing/scan_size_mb"),
            ("/sys/module/zswap/parameters/enabled", "zswap.enabled"),
            ("/sys/block/nvme0n1/queue/read_ahead_kb", "queue/read_ahead_kb"),
        ] {
            assert_eq!(short(path), name);
            assert!(is_trigger(name) || SETTINGS.iter().any(|setting| setting.name == name), "{name}");
        }
        for (path, name) in [
            ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "hugepages-2048kB/nr_hugepages"),
            (
                "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
                "node1/hugepages-2048kB/nr_hugepages",
            ),
            ("/sys/devices/system/node/node0/compact", "node0/compact"),
            ("/sys/fs/cgroup/system.slice/database/memory.high", "database/memory.high"),
            ("/sys/fs/cgroup/database/memory.reclaim", "database/memory.reclaim"),
        ] {
            assert_eq!(short(path), name);
            assert!(is_trigger(name), "{name}");
        }
    }

    #[test]
    fn names_stay_as_they_are() {
        for setting in SETTINGS {
            assert_eq!(short(setting.name), setting.name);
            assert!(!is_trigger(setting.name), "{}", setting.name);
        }
        for name in ["", "/", "/sys/fs/cgroup/", "/sys/fs/cgroup/memory.high", "/sys/block/", "/proc/sys/"] {
            assert!(short(name).len() <= name.len());
        }
    }
}
