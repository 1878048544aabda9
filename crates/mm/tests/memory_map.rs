//! Where the struct pages of each node are, and gigantic pages of a whole machine.

use machine::memblock::{Layout, ZoneSpan};
use machine::{Cpu, Machine, Memblock, Node, PageSize, Profile};
use mm::memory_map::{MemoryRange, booted_memory, memory_layout};
use mm::{Event, MemoryManager, MigrateType, Pfn, Placement, Request, Series, Settings, ZoneType};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

const SECTION: u64 = 32_768;
/// The order of a page of 1 GiB.
const GIGANTIC: u8 = 18;

/// Frames of the struct pages of `pages` pages and of these frames themselves, found by trying.
fn frames(pages: u64) -> u64 {
    (0u64..).find(|sections| pages + 512 * sections <= SECTION * sections).unwrap() * 512
}

fn node_of(ranges: &[MemoryRange], node: u8) -> Vec<&MemoryRange> {
    ranges.iter().filter(|range| range.node == Node(node)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn maps_hold_a_struct_page_for_each_page_and_change_no_zone(nodes in 1..9u8, mib in 64..600_000u64) {
        let ranges = memory_layout(nodes, mib);
        let pages = mib * 256;
        let mut end: Pfn = 0;
        for range in &ranges {
            prop_assert!(range.free.start >= end, "ranges overlap");
            end = range.memmap.end.max(range.free.end);
        }
        for node in 0..nodes {
            let own = node_of(&ranges, node);
            let (last, lower) = own.split_last().unwrap();
            prop_assert!(lower.iter().all(|range| range.memmap.is_empty()));
            let start = u64::from(own[0].free.start);
            prop_assert_eq!(start, start / SECTION * SECTION + u64::from(node == 0), "nodes start at a section");
            prop_assert_eq!(own.iter().map(|range| range.free.len() as u64).sum::<u64>(), pages - u64::from(node == 0));
            prop_assert!(own.windows(2).all(|pair| pair[0].free.end == pair[1].free.start));
            let map = &last.memmap;
            prop_assert!(map.start % 512 == 0 && map.start - last.free.end < 512);
            let mapped = u64::from(map.start) - start / SECTION * SECTION;
            prop_assert_eq!(map.len() as u64, frames(mapped));
            // Zone boundaries are at 16 MiB and 4 GiB of memory as it would be numbered without memory maps.
            let without_maps = start - start % SECTION - u64::from(node) * pages;
            for range in lower {
                let until = u64::from(range.free.end) - without_maps;
                prop_assert!([1 << 12, 1 << 20].contains(&until), "a zone ends at page {}", until);
            }
        }
    }
}

#[test]
fn there_is_no_map_where_page_numbers_do_not_reach_it() {
    let mib = (1 << 23) - 1;
    let ranges = memory_layout(2, mib);
    assert!(ranges.iter().all(|range| range.memmap.is_empty()));
    assert_eq!(u64::from(ranges.last().unwrap().free.end), 2 * 256 * mib);
}

fn boot(mib_per_node: u64) -> (Machine<mm::Category>, MemoryManager) {
    let profile = Profile::parse(include_str!("../../../machines/intel-2s-128.toml")).unwrap();
    let topology = profile.topology();
    let memory = memory_layout(topology.nodes, mib_per_node);
    let features = Series::PCP.variants().last().unwrap().features;
    let mm = MemoryManager::new(&topology, &memory, features, Settings::default(), Pcg64Mcg::new(1));
    (Machine::new(topology, profile.costs()), mm)
}

#[test]
fn boot_takes_gigantic_pages_from_the_end_and_later_ones_come_from_the_start() {
    // With its memory map, this much memory makes the second node start at a multiple of 1 GiB.
    let (mut machine, mut mm) = boot(15_100);
    let normal = mm.parts.allocator.zones().iter().rfind(|zone| zone.node == Node(1)).unwrap();
    let (managed, span) = (normal.managed, normal.buddy.span());
    let mut held = Vec::new();
    for node in [0, 1, 1] {
        let pfn = mm.parts.allocator.alloc_at_boot(GIGANTIC, Node(node)).unwrap();
        assert_eq!(mm.parts.allocator.zones()[mm.parts.allocator.zone_of(pfn)].node, Node(node));
        held.push(pfn);
    }
    assert!(held[2] < held[1], "boot hands out memory from the top");
    assert_eq!(machine.now(Cpu(0)), machine::Time::ZERO, "boot costs nothing");
    mm.validate(3 << GIGANTIC);
    let first = mm.enter(&mut machine, Cpu(0)).alloc_contig(GIGANTIC, Node(1)).unwrap();
    assert_eq!(first, span.start);
    assert!(machine.now(Cpu(0)) > machine::Time::ZERO);
    held.push(first);
    // A page in use spoils the run that it is in; a page in a pageset does not.
    let request = Request::new(0, MigrateType::Movable, Placement::Bind(Node(1)));
    let page = mm.enter(&mut machine, Cpu(5)).alloc(&request).unwrap();
    let rest = std::iter::from_fn(|| mm.enter(&mut machine, Cpu(0)).alloc_contig(GIGANTIC, Node(1)))
        .collect::<Vec<_>>();
    assert!(rest.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(rest.iter().all(|pfn| pfn >> GIGANTIC != page >> GIGANTIC));
    held.extend(rest);
    mm.validate((held.len() as u64) << GIGANTIC | 1);
    mm.enter(&mut machine, Cpu(5)).free(page, 0);
    let spoilt = mm.enter(&mut machine, Cpu(0)).alloc_contig(GIGANTIC, Node(1));
    assert_eq!(spoilt, Some(page >> GIGANTIC << GIGANTIC));
    held.extend(spoilt);
    let freed = mm.counters().get(Event::Pgfree);
    for &pfn in &held {
        mm.enter(&mut machine, Cpu(0)).free_contig(pfn, GIGANTIC);
    }
    assert_eq!(mm.counters().get(Event::Pgfree) - freed, (held.len() as u64) << GIGANTIC);
    mm.validate(0);
    let normal = mm.parts.allocator.zones().iter().rfind(|zone| zone.node == Node(1)).unwrap();
    assert_eq!((normal.managed, normal.buddy.free_pages()), (managed, managed));
}

/// Free memory after boot of a machine with so many nodes of so many MiB each.
fn booted(memblock: Memblock, page_size: PageSize, nodes: u8, mib: u64) -> Vec<MemoryRange> {
    let mut profile = Profile::parse(include_str!("../../../machines/intel-2s-128.toml")).unwrap();
    (profile.topology.nodes, profile.topology.memory_mib_per_node) = (nodes, mib);
    booted_memory(&Profile { memblock, page_size, ..profile })
}

/// A zone as /proc/zoneinfo showed it: node, zone, start_pfn, spanned, present, managed.
type Seen = (u8, ZoneType, Pfn, u64, u64, u64);

/// Machines whose /proc/zoneinfo was recorded: what QEMU 10 was started with for Debian's kernels 6.1.192,
/// 6.12.95 and 6.18.15, and a virtual machine of 24.5 GiB with 6.18.44 whose memory below 4 GiB ends at 3
/// GiB.
fn recorded() -> Vec<(&'static str, u64, u8, u64, Vec<Seen>)> {
    use ZoneType::{Dma, Dma32, Normal};
    let qemu = |name, mib, rest: &[Seen]| {
        let mut zones = vec![(0, Dma, 1, 4095, 3998, 3840)];
        zones.extend_from_slice(rest);
        (name, 128, rest.last().unwrap().0 + 1, mib, zones)
    };
    vec![
        qemu("6.1, 288 MiB", 288, &[(0, Dma32, 4096, 69_600, 69_600, 59_652)]),
        qemu("6.12, 288 MiB", 288, &[(0, Dma32, 4096, 69_600, 69_600, 58_434)]),
        qemu("6.18, 288 MiB", 288, &[(0, Dma32, 4096, 69_600, 69_600, 57_928)]),
        qemu("6.1, 1 GiB", 1024, &[(0, Dma32, 4096, 258_016, 258_016, 245_316)]),
        qemu("6.12, 1 GiB", 1024, &[(0, Dma32, 4096, 258_016, 258_016, 244_001)]),
        qemu("6.18, 1 GiB", 1024, &[(0, Dma32, 4096, 258_016, 258_016, 243_497)]),
        qemu("6.1, 2 GiB", 2048, &[(0, Dma32, 4096, 520_160, 520_160, 502_797)]),
        qemu("6.12, 2 GiB", 2048, &[(0, Dma32, 4096, 520_160, 520_160, 501_467)]),
        qemu("6.18, 2 GiB", 2048, &[(0, Dma32, 4096, 520_160, 520_160, 500_974)]),
        qemu(
            "6.1, 2 nodes",
            1024,
            &[(0, Dma32, 4096, 258_048, 258_048, 245_680), (1, Dma32, 262_144, 262_112, 262_112, 257_841)],
        ),
        qemu(
            "6.12, 2 nodes",
            1024,
            &[(0, Dma32, 4096, 258_048, 258_048, 244_361), (1, Dma32, 262_144, 262_112, 262_112, 257_832)],
        ),
        qemu(
            "6.18, 2 nodes",
            1024,
            &[(0, Dma32, 4096, 258_048, 258_048, 243_860), (1, Dma32, 262_144, 262_112, 262_112, 257_840)],
        ),
        (
            "6.18, 24 GiB",
            0,
            1,
            24 << 10,
            vec![
                (0, Dma, 1, 4095, 3998, 3840),
                (0, Dma32, 4096, 1_044_480, 782_336, 772_917),
                (0, Normal, 1 << 20, 5_505_024, 5_505_024, 5_394_266),
            ],
        ),
    ]
}

#[test]
fn zones_known_from_zoneinfo_are_those_of_the_machine() {
    for (name, _, nodes, _, zones) in recorded() {
        let spans = zones.iter().map(|&(node, zone, start_pfn, spanned, present, managed)| ZoneSpan {
            node: Node(node),
            zone,
            start_pfn,
            spanned: spanned as u32,
            present: present as u32,
            managed: managed as u32,
        });
        let memblock = Memblock { zones: spans.collect(), ..Memblock::default() };
        let memory = booted(memblock, PageSize::Kib4, nodes, 64);
        assert_eq!(seen(&memory), zones, "{name}");
        assert!(memory.iter().all(|range| range.free.len() as u64 <= range.managed), "{name}");
    }
}

/// Zones begin and end at the recorded pages. How much a kernel holds of them is one figure for all releases,
/// whose kernels have 31 to 39 MiB.
#[test]
fn zones_follow_from_where_memory_lies() {
    for (name, firmware_kib, nodes, mib, zones) in recorded() {
        let memblock = Memblock { below_4g_mib: 3072, firmware_kib, ..Memblock::default() };
        let memory = booted(memblock, PageSize::Kib4, nodes, mib);
        let twin = seen(&memory);
        let extent = |zones: &[Seen]| {
            zones.iter().map(|zone| (zone.0, zone.1, zone.2, zone.3, zone.4)).collect::<Vec<_>>()
        };
        assert_eq!(extent(&twin), extent(&zones), "{name}");
        assert_eq!(twin[0].5, 3840, "{name}: the first MiB is held");
        for (twin, kernel) in twin.iter().zip(&zones) {
            assert!(twin.5.abs_diff(kernel.5) <= 1300, "{name}: {twin:?} and {kernel:?}");
        }
    }
}

fn seen(memory: &[MemoryRange]) -> Vec<Seen> {
    let seen = memory.iter().map(|range| {
        let MemoryRange { node, kind, spanned, present, managed, .. } = range;
        (node.0, *kind, spanned.start, spanned.len() as u64, *present, *managed)
    });
    seen.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_free_is_managed_and_within_its_zone(
        arm64: bool,
        below_4g_mib in 64..4096_u64,
        firmware_kib in 0..30_000_u64,
        kernel_mib in 0..100_u64,
        nodes in 1..9_u8,
        mib in 64..300_000_u64,
        size in 0..3_usize,
    ) {
        let layout = if arm64 { Layout::Arm64 } else { Layout::Pc };
        let below_4g_mib = below_4g_mib.min(4096 - layout.start_mib());
        let memblock = Memblock { layout, below_4g_mib, firmware_kib, kernel_mib, ..Memblock::default() };
        let page_size = PageSize::ALL[size];
        let memory = booted(memblock, page_size, nodes, mib);
        let mut end = 0;
        for range in &memory {
            prop_assert!(range.spanned.start >= end, "{:?}", range);
            end = range.spanned.end;
            prop_assert!(range.spanned.start <= range.free.start && range.free.end <= range.spanned.end, "{:?}", range);
            prop_assert!(range.managed <= range.present && range.present <= range.spanned.len() as u64, "{:?}", range);
            prop_assert_eq!(range.free.len() as u64, range.managed);
            if !range.memmap.is_empty() {
                prop_assert!(range.free.end <= range.memmap.start && range.memmap.end <= end, "{:?}", range);
            }
        }
        let present: u64 = memory.iter().map(|range| range.present).sum();
        let installed = page_size.pages_of_mib(mib) * u64::from(nodes);
        prop_assert!(present <= installed && installed - present <= firmware_kib / 4 + 98, "{} of {}", present, installed);
        for node in 0..nodes {
            prop_assert!(memory.iter().any(|range| range.node == Node(node)));
        }
    }
}
