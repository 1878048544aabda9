//! Where the struct pages of each node's memory are, and gigantic pages of a whole machine.

use machine::{Cpu, Machine, Node, Profile};
use mm::memory_map::{MemoryRange, memory_layout};
use mm::{Event, MemoryManager, MigrateType, Pfn, Placement, Request, Series, Settings};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

const SECTION: u64 = 32_768;
/// 1 GiB.
const GIGANTIC: u8 = 18;

/// Frames of the struct pages of `pages` pages and of those frames themselves, found by trying.
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
            prop_assert!(range.span.start >= end, "ranges overlap");
            end = range.memmap.end.max(range.span.end);
        }
        for node in 0..nodes {
            let own = node_of(&ranges, node);
            let (last, lower) = own.split_last().unwrap();
            prop_assert!(lower.iter().all(|range| range.memmap.is_empty()));
            let start = u64::from(own[0].span.start);
            prop_assert_eq!(start, start / SECTION * SECTION + u64::from(node == 0), "nodes start at a section");
            prop_assert_eq!(own.iter().map(|range| range.span.len() as u64).sum::<u64>(), pages - u64::from(node == 0));
            prop_assert!(own.windows(2).all(|pair| pair[0].span.end == pair[1].span.start));
            let map = &last.memmap;
            prop_assert!(map.start % 512 == 0 && map.start - last.span.end < 512);
            let mapped = u64::from(map.start) - start / SECTION * SECTION;
            prop_assert_eq!(map.len() as u64, frames(mapped));
            // Zones are cut at 16 MiB and 4 GiB of memory as it would be numbered without maps.
            let without_maps = start - start % SECTION - u64::from(node) * pages;
            for range in lower {
                let until = u64::from(range.span.end) - without_maps;
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
    assert_eq!(u64::from(ranges.last().unwrap().span.end), 2 * 256 * mib);
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
    // With its maps, this much memory makes the second node start at a multiple of 1 GiB.
    let (mut machine, mut mm) = boot(15_100);
    let normal = mm.zones().iter().rfind(|zone| zone.node == Node(1)).unwrap();
    let (managed, span) = (normal.managed, normal.buddy.span());
    let mut held = Vec::new();
    for node in [0, 1, 1] {
        let pfn = mm.alloc_at_boot(GIGANTIC, Node(node)).unwrap();
        assert_eq!(mm.zones()[mm.zone_of(pfn)].node, Node(node));
        held.push(pfn);
    }
    assert!(held[2] < held[1], "boot hands out memory from the top");
    assert_eq!(machine.now(Cpu(0)), machine::Time::ZERO, "boot costs nothing");
    mm.validate(3 << GIGANTIC);
    let first = mm.alloc_contig(&mut machine, Cpu(0), GIGANTIC, Node(1)).unwrap();
    assert_eq!(first, span.start);
    assert!(machine.now(Cpu(0)) > machine::Time::ZERO);
    held.push(first);
    // One page in use spoils the run that it is in; a page in a pageset does not.
    let request = Request::new(0, MigrateType::Movable, Placement::Bind(Node(1)));
    let page = mm.alloc(&mut machine, Cpu(5), &request).unwrap();
    let rest =
        std::iter::from_fn(|| mm.alloc_contig(&mut machine, Cpu(0), GIGANTIC, Node(1))).collect::<Vec<_>>();
    assert!(rest.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(rest.iter().all(|pfn| pfn >> GIGANTIC != page >> GIGANTIC));
    held.extend(rest);
    mm.validate((held.len() as u64) << GIGANTIC | 1);
    mm.free(&mut machine, Cpu(5), page, 0);
    let spoilt = mm.alloc_contig(&mut machine, Cpu(0), GIGANTIC, Node(1));
    assert_eq!(spoilt, Some(page >> GIGANTIC << GIGANTIC));
    held.extend(spoilt);
    let freed = mm.counters().get(Event::Pgfree);
    for &pfn in &held {
        mm.free_contig(&mut machine, Cpu(0), pfn, GIGANTIC);
    }
    assert_eq!(mm.counters().get(Event::Pgfree) - freed, (held.len() as u64) << GIGANTIC);
    mm.validate(0);
    let normal = mm.zones().iter().rfind(|zone| zone.node == Node(1)).unwrap();
    assert_eq!((normal.managed, normal.buddy.free_pages()), (managed, managed));
}
