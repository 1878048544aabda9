//! `--machine this`: a profile of the machine that mmtwin runs on.
//!
//! The topology, and whether a hypervisor is present, is read from /sys and /proc. Costs are not measured:
//! they come from built-in profiles, and the source of each value says so.

use crate::failure::Failure;
use anyhow::{Context, anyhow};
use lab::scenario::{THIS_MACHINE, load_machine};
use machine::profile::{CacheFigure, TopologyFigures};
use machine::topology::SharedBy;
use machine::{Memblock, Profile};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The built-in profile that most costs are taken from.
const COSTS_OF: &str = "icl-server";
/// The profile that devices and the costs of paging are taken from.
const DEVICES_OF: &str = "epyc-7k62-vm";
/// The profile that the costs of several NUMA nodes are taken from.
const NUMA_OF: &str = "numa-256";
/// The profiles that the costs per block size are taken from, for AMD CPUs and for others: they differ in how
/// much memory one TLB entry covers.
const BLOCKS_OF: [&str; 2] = ["milan-vm-252", "i7-9700"];

pub fn profile() -> Result<Profile, Failure> {
    let devices = borrowed(DEVICES_OF)?;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let [of_amd, of_others] = BLOCKS_OF;
    let profile = Profile {
        name: THIS_MACHINE.into(),
        description: format!("this machine; costs of {COSTS_OF}, devices of {DEVICES_OF}"),
        blocks: borrowed(if is_of_amd(&cpuinfo) { of_amd } else { of_others })?.blocks,
        topology: topology(&cpuinfo)?,
        paging: devices.paging,
        devices: devices.devices,
        numa: borrowed(NUMA_OF)?.numa,
        memblock: memblock(),
        // The bandwidths of another machine's links and nodes would not fit this one's.
        links: BTreeMap::new(),
        memory: BTreeMap::new(),
        ..borrowed(COSTS_OF)?
    };
    // A profile read from /sys gets the same checks as one read from a file.
    profile.check().context("--machine this: the shape of this machine is not modelled")?;
    Ok(profile)
}

/// Loads a profile and notes in the source of every value that it was not measured here.
fn borrowed(name: &str) -> Result<Profile, Failure> {
    let mut profile = load_machine(name)?;
    let keys: Vec<String> = profile.figures().into_iter().map(|(key, _)| key).collect();
    for key in keys {
        if let Some(figure) = profile.figure_mut(&key) {
            figure.source = format!("not measured on this machine; {name}: {}", figure.source);
        }
    }
    Ok(profile)
}

fn topology(cpuinfo: &str) -> Result<TopologyFigures, anyhow::Error> {
    let mut sockets = BTreeSet::new();
    let mut cores = BTreeSet::new();
    let mut threads = 0u16;
    for cpu in online("/sys/devices/system/cpu/online")? {
        let read = |name: &str| -> Result<i64, anyhow::Error> {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
            let text = fs::read_to_string(&path).with_context(|| path.clone())?;
            text.trim().parse().with_context(|| format!("{path}: {}", text.trim()))
        };
        let socket = read("physical_package_id")?;
        sockets.insert(socket);
        cores.insert((socket, read("core_id")?));
        threads += 1;
    }
    let nodes = online("/sys/devices/system/node/online").unwrap_or_else(|_| vec![0]);
    let with_cpus = online("/sys/devices/system/node/has_cpu").map_or(nodes.len(), |nodes| nodes.len());
    let distances = nodes.iter().enumerate().map(|(at, &node)| distances(node, at, nodes.len())).collect();
    let count = |n: usize| u16::try_from(n).context("more than 65535 of a kind");
    Ok(TopologyFigures {
        source: "/sys/devices/system of this machine".into(),
        sockets: count(sockets.len())?,
        cores_per_socket: count(cores.len() / sockets.len().max(1))?,
        threads_per_core: threads / count(cores.len().max(1))?,
        virtualized: runs_under_hypervisor(cpuinfo),
        turn_shares: Vec::new(),
        nodes: u8::try_from(nodes.len()).context("more than 255 nodes")?,
        memory_only_nodes: nodes.len().saturating_sub(with_cpus) as u8,
        node_distances: distances,
        memory_mib_per_node: memory_mib()? / nodes.len().max(1) as u64,
        caches: caches(),
    })
}

/// The physical memory ranges of the zones in /proc/zoneinfo; the default layout of a server if it cannot be
/// read.
fn memblock() -> Memblock {
    let text = fs::read_to_string("/proc/zoneinfo").unwrap_or_default();
    let zones = live::proc::parse_zoneinfo(&text).map(|info| info.spans()).unwrap_or_default();
    if zones.is_empty() {
        return Memblock::default();
    }
    Memblock { source: "/proc/zoneinfo of this machine".into(), zones, ..Memblock::default() }
}

/// Whether the CPU flags in /proc/cpuinfo include `hypervisor`.
fn runs_under_hypervisor(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Whether the vendor in /proc/cpuinfo is AMD.
fn is_of_amd(cpuinfo: &str) -> bool {
    let vendor = cpuinfo.lines().find_map(|line| line.strip_prefix("vendor_id"));
    vendor.is_some_and(|vendor| vendor.contains("AuthenticAMD"))
}

/// Reads a file with a list of numbers such as `0-3,8`.
fn online(path: &str) -> Result<Vec<u32>, anyhow::Error> {
    let text = fs::read_to_string(path).with_context(|| path.to_string())?;
    numbers(text.trim()).ok_or_else(|| anyhow!("{path}: {}: expected a list like 0-3,8", text.trim()))
}

fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        found.extend(first.parse().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(found)
}

/// The distances from `node`, which is number `at` of `nodes`. If sysfs has no table: LOCAL_DISTANCE (10) and
/// REMOTE_DISTANCE (20), as the kernel assumes then.
fn distances(node: u32, at: usize, nodes: usize) -> Vec<u8> {
    let text =
        fs::read_to_string(format!("/sys/devices/system/node/node{node}/distance")).unwrap_or_default();
    let read: Option<Vec<u8>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
    let assumed = || (0..nodes).map(|to| if to == at { 10 } else { 20 }).collect();
    read.filter(|row| row.len() == nodes).unwrap_or_else(assumed)
}

fn memory_mib() -> Result<u64, anyhow::Error> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(kib.ok_or_else(|| anyhow!("/proc/meminfo: no MemTotal"))? / 1024)
}

/// Data and unified caches of CPU 0, nearest first. A cache that several cores share counts as the socket's.
fn caches() -> Vec<CacheFigure> {
    let threads =
        fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").unwrap_or_default();
    let threads = numbers(threads.trim()).map_or(1, |list| list.len());
    let first = live::snapshot::caches().into_iter().filter(|cache| {
        cache.kind != "Instruction" && numbers(&cache.shared_cpu_list).is_some_and(|list| list.contains(&0))
    });
    first
        .filter_map(|cache| {
            let kib: u64 = cache.size.trim_end_matches('K').parse().ok()?;
            let sharers = numbers(&cache.shared_cpu_list)?.len();
            let shared_by =
                if cache.level >= 3 || sharers > threads { SharedBy::Socket } else { SharedBy::Core };
            Some(CacheFigure { level: cache.level, kib, shared_by })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendor_is_told_by_the_cpu() {
        assert!(is_of_amd("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: EPYC\n"));
        assert!(!is_of_amd("vendor_id\t: GenuineIntel\nmodel name\t: no AuthenticAMD\n"));
    }

    /// The costs per block size all come from one profile.
    #[test]
    fn this_machine_has_costs_of_blocks() {
        let profile = profile().unwrap();
        let sources: Vec<_> = profile.blocks.iter().flat_map(|blocks| blocks.entries()).collect();
        assert!(!sources.is_empty());
        assert!(sources.iter().all(|(_, figure)| figure.source.starts_with("not measured on this machine")));
    }

    #[test]
    fn a_hypervisor_is_a_flag_of_the_cpu() {
        assert!(runs_under_hypervisor("processor\t: 0\nflags\t\t: fpu x2apic hypervisor lahf_lm\n"));
        assert!(!runs_under_hypervisor("model name\t: hypervisor\nflags\t\t: fpu x2apic\n"));
        assert!(!runs_under_hypervisor(""));
    }

    #[test]
    fn lists_of_cpus_are_ranges_and_numbers() {
        assert_eq!(numbers("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(numbers("0"), Some(vec![0]));
        assert_eq!(numbers(""), None);
        assert_eq!(numbers("a-b"), None);
    }
}
