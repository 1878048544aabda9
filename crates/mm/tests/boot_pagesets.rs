//! What real kernels set up at boot, and after each write to vm.percpu_pagelist_high_fraction, on 15
//! machines.
//!
//! tests/data/boot-RELEASE.txt were read from Debian kernels in QEMU: for each machine (CPUs x MiB of each
//! node) the managed pages, high, batch and, if /proc/zoneinfo prints them, high_min and high_max of each
//! zone.

use machine::topology::{Cache, SharedBy};
use machine::{Node, Topology};
use mm::Series;
use mm::huge_memory::settings::{Enabled, ThpSettings};
use mm::memory_map::MemoryRange;
use mm::{MemoryManager, Pfn, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

struct ZoneLine {
    node: u8,
    kind: ZoneType,
    managed: u32,
    high: i32,
    batch: i32,
    high_min: Option<i32>,
    high_max: Option<i32>,
}

struct Boot {
    cpus_of_nodes: Vec<u16>,
    mib: u64,
    min_free_kbytes: u64,
    /// The zones for each value of the fraction.
    zones: Vec<(u64, Vec<ZoneLine>)>,
}

fn zone_line(line: &str) -> ZoneLine {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| {
        words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)?.parse().ok())
    };
    let kind = ZoneType::ALL.into_iter().find(|kind| kind.name() == words[3]).unwrap();
    ZoneLine {
        node: words[1].trim_end_matches(',').parse().unwrap(),
        kind,
        managed: after("managed").unwrap() as u32,
        high: after("high").unwrap(),
        batch: after("batch").unwrap(),
        high_min: after("high_min"),
        high_max: after("high_max"),
    }
}

fn boots(text: &str) -> Vec<Boot> {
    let mut boots: Vec<Boot> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("### nodes ") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let nodes: Vec<(u16, u64)> = words[0]
                .split(',')
                .map(|node| node.split_once('x').unwrap())
                .map(|(cpus, mib)| (cpus.parse().unwrap(), mib.parse().unwrap()))
                .collect();
            boots.push(Boot {
                cpus_of_nodes: nodes.iter().map(|node| node.0).collect(),
                mib: nodes.iter().map(|node| node.1).sum(),
                min_free_kbytes: words.last().unwrap().parse().unwrap(),
                zones: Vec::new(),
            });
        } else if let Some(rest) = line.strip_prefix("== percpu_pagelist_high_fraction=") {
            let fraction = rest.split_whitespace().next().unwrap().parse().unwrap();
            boots.last_mut().unwrap().zones.push((fraction, Vec::new()));
        } else if line.starts_with("Node") {
            boots.last_mut().unwrap().zones.last_mut().unwrap().1.push(zone_line(line));
        }
    }
    boots
}

/// Boots the twin of a machine with `fraction`.
fn twin(boot: &Boot, variant: &str, zones: &[ZoneLine], fraction: u64) -> MemoryManager {
    let nodes = boot.cpus_of_nodes.len() as u8;
    let topology = Topology {
        caches: vec![Cache { level: 3, bytes: 16 << 20, shared_by: SharedBy::Socket }],
        ..Topology::of_nodes(nodes, boot.cpus_of_nodes[0])
    };
    let mut start: Pfn = 1;
    let memory: Vec<MemoryRange> = zones
        .iter()
        .map(|zone| {
            let span = start..start + zone.managed;
            start = span.end.next_multiple_of(1024);
            MemoryRange::all_free(Node(zone.node), zone.kind, span)
        })
        .collect();
    let settings = Settings {
        percpu_pagelist_high_fraction: fraction,
        // Huge pages are off on machines with up to 512 MiB.
        transparent_hugepage: ThpSettings {
            enabled: if boot.mib > 512 { Enabled::Madvise } else { Enabled::Never },
            ..ThpSettings::default()
        },
        ..Settings::default()
    };
    let features = Series::PCP.variant(variant).unwrap().features;
    MemoryManager::new(&topology, &memory, features, settings, Pcg64Mcg::new(1))
}

/// Whether the twin is within `percent` of the kernel. At boot the kernel computes with the pages that are
/// managed at that moment, and frees its own init code and data only later.
fn near(twin: i64, kernel: i64, percent: i64) -> bool {
    (twin - kernel).abs() * 100 <= kernel.abs() * percent
}

fn check(release: &str, variant: &str, text: &str) {
    let mut checked = 0;
    for boot in boots(text) {
        for (fraction, zones) in &boot.zones {
            let twin = twin(&boot, variant, zones, *fraction);
            let what =
                format!("{release}, {:?} CPUs, {} MiB, fraction {fraction}", boot.cpus_of_nodes, boot.mib);
            let min_free = twin.parts.allocator.min_free_kbytes() as i64;
            assert!(
                near(min_free, boot.min_free_kbytes as i64, if boot.mib > 512 { 0 } else { 4 }),
                "{what}: min_free_kbytes {min_free}, kernel {}",
                boot.min_free_kbytes
            );
            for (zone, kernel) in twin.parts.allocator.zones().iter().zip(zones) {
                let what = format!("{what}, node {} {}", kernel.node, kernel.kind.name());
                assert_eq!(zone.batch, kernel.batch, "{what}: batch");
                let fixed = *fraction > 0;
                let bound = |name: &str, twin: i32, kernel: i32| {
                    // Init code and data are a larger part of a small machine.
                    let percent = if boot.mib > 512 { 2 } else { 8 };
                    let close = near(twin.into(), kernel.into(), percent) || (twin - kernel).abs() <= 2;
                    let right = if fixed { twin == kernel } else { close };
                    assert!(right, "{what}: {name} {twin}, kernel {kernel}");
                };
                if let (Some(high_min), Some(high_max)) = (kernel.high_min, kernel.high_max) {
                    bound("high_min", zone.high_min, high_min);
                    bound("high_max", zone.high_max, high_max);
                    checked += 1;
                } else if release == "6.1" {
                    bound("high", zone.pagesets[0].tuning.high, kernel.high);
                    checked += 1;
                } else {
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 100, "only {checked} zones were checked");
}

#[test]
fn before_auto_tuning() {
    check("6.1", "mainline-6.1", include_str!("data/boot-6.1.txt"));
}

#[test]
fn with_auto_tuning() {
    check("6.12", "mainline-6.10", include_str!("data/boot-6.12.txt"));
}

#[test]
fn with_bounds_in_zoneinfo() {
    check("6.18", "mainline-6.18", include_str!("data/boot-6.18.txt"));
}
