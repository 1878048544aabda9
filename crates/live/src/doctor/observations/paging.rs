//! Observations of reclaim, nodes, folios, swap and cgroups, which are more than a counter.

use crate::doctor::window::{Cgroup, Window, percent};
use crate::snapshot::chosen;

/// Older kernels have one counter for both kinds of pages.
const REFAULT_FILE: [&str; 2] = ["workingset_refault_file", "workingset_refault"];
const STEAL: [&str; 4] = ["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"];
const SCAN: [&str; 4] = ["pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive"];

pub fn refault_file(window: &Window) -> Option<f64> {
    window.rate(&REFAULT_FILE)
}

/// Pages that reclaim took. Counters by who reclaims leave out reclaim of cgroups in most releases, those by kind of page do not.
fn taken(window: &Window) -> Option<f64> {
    window.growth(&["pgsteal_anon", "pgsteal_file"]).or_else(|| window.growth(&STEAL))
}

fn looked_at(window: &Window) -> Option<f64> {
    window.growth(&["pgscan_anon", "pgscan_file"]).or_else(|| window.growth(&SCAN))
}

pub fn stolen(window: &Window) -> Option<f64> {
    Some(taken(window)? / window.seconds)
}

pub fn scanned(window: &Window) -> Option<f64> {
    Some(looked_at(window)? / window.seconds)
}

/// Pages taken of those looked at.
pub fn efficiency(window: &Window) -> Option<f64> {
    percent(taken(window)?, looked_at(window)?)
}

/// Refaults by page taken.
pub fn refault_share(window: &Window) -> Option<f64> {
    let back =
        window.growth(&["workingset_refault_anon", "workingset_refault_file", "workingset_refault"])?;
    percent(back, taken(window)?)
}

/// The age of the oldest generation, of all cgroups and nodes: lines of generations have their number and their age in milliseconds first.
pub fn oldest_generation(window: &Window) -> Option<f64> {
    let text = window.end.files.text("sys/kernel/debug/lru_gen")?;
    let ages = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next()?.parse::<u64>().ok()?;
        words.next()?.parse::<u64>().ok()
    });
    ages.max().map(|age| age as f64 / 1000.0)
}

fn nodes(window: &Window, path: &str) -> Option<f64> {
    let list = window.end.files.text(path)?;
    let ranges = list.split(',').filter(|range| !range.is_empty());
    Some(ranges.fold(0, |sum: u64, range| sum.saturating_add(crate::snapshot::cpus_in_range(range))) as f64)
}

pub fn online_nodes(window: &Window) -> Option<f64> {
    nodes(window, "sys/devices/system/node/online")
}

pub fn memory_only_nodes(window: &Window) -> Option<f64> {
    Some((online_nodes(window)? - nodes(window, "sys/devices/system/node/has_cpu")?).max(0.0))
}

/// Memory of the process that is spread most, beyond its first node.
pub fn process_spread(window: &Window) -> Option<f64> {
    let maps = window.end.files.between("proc/", "/numa_maps");
    let spread = maps.filter_map(|(_, text)| {
        let mut by_node = std::collections::BTreeMap::<&str, f64>::new();
        for line in text.lines() {
            let words = line.split_whitespace().filter_map(|word| word.split_once('='));
            let size = words.clone().find(|(key, _)| *key == "kernelpagesize_kB");
            let kib: f64 = size.and_then(|(_, kib)| kib.parse().ok()).unwrap_or(4.0);
            for (node, pages) in words.filter(|(key, _)| key.starts_with('N')) {
                *by_node.entry(node).or_default() += kib * pages.parse::<f64>().unwrap_or(0.0);
            }
        }
        let most = by_node.values().copied().fold(0.0, f64::max);
        let all: f64 = by_node.values().sum();
        percent(all - most, all)
    });
    spread.reduce(f64::max)
}

/// Sizes of folios below the huge page, or others, that are not `never`.
pub fn enabled_sizes(window: &Window) -> Option<f64> {
    let files = window.end.files.between("sys/kernel/mm/transparent_hugepage/hugepages-", "kB/enabled");
    let modes: Vec<&str> = files.map(|(_, text)| chosen(text)).collect();
    let inherits = window.word("sys/kernel/mm/transparent_hugepage/enabled")?;
    let is_on = |mode: &&&str| match **mode {
        "inherit" => inherits != "never",
        mode => mode != "never",
    };
    (!modes.is_empty()).then(|| modes.iter().filter(is_on).count() as f64)
}

/// Of the size whose faults failed most often.
pub fn worst_size_fallback(window: &Window) -> Option<f64> {
    let made = window.growth_by_size("anon_fault_alloc");
    let failed = window.growth_by_size("anon_fault_fallback");
    let shares = failed.iter().filter_map(|(size, failed)| {
        let (_, made) = made.iter().find(|(of, _)| of == size)?;
        // A handful of faults says nothing about a size.
        (failed + made >= 100.0).then(|| 100.0 * failed / (failed + made))
    });
    shares.reduce(f64::max)
}

/// Folios that are mapped in part, whose rest waits to be split off.
pub fn partially_mapped(window: &Window) -> Option<f64> {
    const BEGIN: &str = "sys/kernel/mm/transparent_hugepage/hugepages-";
    let sizes = window.end.files.between(BEGIN, "kB/stats/nr_anon_partially_mapped");
    let mib: Vec<f64> = sizes
        .filter_map(|(kib, count)| Some(kib.parse::<f64>().ok()? * count.parse::<f64>().ok()? / 1024.0))
        .collect();
    (!mib.is_empty()).then(|| mib.iter().sum())
}

/// Memory of struct pages that a pool would give back: all but one page of each huge page's (`vmemmap_dedup`).
pub fn vmemmap_of_pools(window: &Window) -> Option<f64> {
    // 64 bytes for each 4 KiB, in whole pages, of which one stays.
    let freed_kib = |kib: u64| ((kib / 4).saturating_mul(64) / 1024).saturating_sub(4) as f64;
    window.of_pools("nr_hugepages", freed_kib).map(|kib| kib / 1024.0)
}

/// Huge pages that nobody uses and nobody has reserved.
pub fn unused_in_pools(window: &Window) -> Option<f64> {
    let free = window.of_pools("free_hugepages", |kib| kib as f64 / 1024.0)?;
    Some((free - window.of_pools("resv_hugepages", |kib| kib as f64 / 1024.0)?).max(0.0))
}

fn areas(window: &Window) -> Option<&[crate::proc::SwapArea]> {
    window.end.files.texts.contains_key("proc/swaps").then_some(&window.end.swaps[..])
}

pub fn swap_size(window: &Window) -> Option<f64> {
    Some(areas(window)?.iter().map(|area| area.size_kib as f64 / 1024.0).sum())
}

pub fn swap_used(window: &Window) -> Option<f64> {
    let used: f64 = areas(window)?.iter().map(|area| area.used_kib as f64 / 1024.0).sum();
    percent(used, swap_size(window)?)
}

pub fn swap_in_memory(window: &Window) -> Option<f64> {
    Some(areas(window)?.iter().filter(|area| area.is_memory()).count() as f64)
}

/// Groups for which something holds; none where no group is seen.
fn groups(window: &Window, of: fn(&Cgroup) -> bool) -> Option<f64> {
    let groups = &window.cgroups;
    (!groups.is_empty()).then(|| groups.iter().filter(|group| of(group)).count() as f64)
}

pub fn groups_seen(window: &Window) -> Option<f64> {
    groups(window, |_| true)
}

pub fn groups_at_max(window: &Window) -> Option<f64> {
    groups(window, |group| group.at_max > 0)
}

pub fn groups_above_high(window: &Window) -> Option<f64> {
    groups(window, |group| group.above_high > 0)
}

pub fn groups_with_kills(window: &Window) -> Option<f64> {
    groups(window, lost_at_its_limit)
}

/// Whether a group lost a process because nothing was to be had below its limit: `oom_kill` alone counts kills for the machine too.
fn lost_at_its_limit(group: &Cgroup) -> bool {
    group.ooms > 0 && group.oom_kills > 0
}

/// Processes that were ended for the machine's memory. vmstat counts those of cgroups too, and a group's events those of groups below it.
pub fn kills_for_memory(window: &Window) -> Option<f64> {
    let all = window.growth(&["oom_kill"])?;
    let lost: Vec<&Cgroup> = window.cgroups.iter().filter(|group| lost_at_its_limit(group)).collect();
    let is_below = |group: &Cgroup, other: &Cgroup| {
        group.path.strip_prefix(&other.path).is_some_and(|rest| rest.starts_with('/'))
    };
    let highest = lost.iter().filter(|group| !lost.iter().any(|other| is_below(group, other)));
    let at_limits: u64 = highest.map(|group| group.oom_kills).sum();
    Some((all - at_limits as f64).max(0.0))
}

fn worst(window: &Window, of: impl Fn(&Cgroup) -> f64) -> Option<String> {
    let worst = window.cgroups.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
    (of(worst) > 0.0).then(|| worst.path.clone())
}

/// The group that lost most processes at its limit; of one and the group that it is in, the inner one.
pub fn group_with_most_kills(window: &Window) -> Option<String> {
    let lost = window.cgroups.iter().filter(|group| lost_at_its_limit(group));
    lost.max_by_key(|group| (group.oom_kills, group.path.len())).map(|group| group.path.clone())
}

/// The group that was at its limit most often.
pub fn group_most_at_max(window: &Window) -> Option<String> {
    worst(window, |group| group.at_max as f64)
}

/// The group that was above its high limit most often.
pub fn group_most_above_high(window: &Window) -> Option<String> {
    worst(window, |group| group.above_high as f64)
}

pub fn worst_group_pressure(window: &Window) -> Option<f64> {
    window.cgroups.iter().filter_map(|group| group.full_pressure).reduce(f64::max)
}

/// How near the fullest group with a limit is to it.
pub fn fullest_group(window: &Window) -> Option<f64> {
    let memory = window.mib("MemTotal")? * f64::from(1 << 20);
    // A limit above the machine's memory is none: version 1 writes "none" as a huge number.
    let limits =
        window.cgroups.iter().filter_map(|group| group.limit).filter(|(_, limit)| (*limit as f64) < memory);
    limits.filter_map(|(used, limit)| percent(used as f64, limit as f64)).reduce(f64::max)
}
