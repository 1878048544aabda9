//! Invariants of the page allocator after every step of random demand, on a small machine with two nodes and
//! four zones, for every variant: pages are conserved, no page is on two lists, free buddies have merged,
//! counters and lists agree.

mod small_machine;

use machine::{Cpu, Node};
use mm::Kernel;
use mm::page::{MAX_PAGE_ORDER, PAGEBLOCK_ORDER};
use mm::watermark::{Mark, Reserves};
use mm::{Event, Features, MemoryManager, MigrateType, Pfn, Placement, Request, Series, Zone, ZoneType};
use proptest::prelude::*;
use small_machine::boot;
use std::ops::Range;

/// CPUs of the machine.
const CPUS: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    Alloc { cpu: u16, order: u8, migrate_type: usize, bound: Option<u8>, atomic: bool, times: usize },
    Free { cpu: u16, which: usize, times: usize },
    Vmstat { cpu: u16 },
    DrainAll { cpu: u16 },
    Set { name: &'static str, value: &'static str },
    Reclaim { node: u8, active: bool },
    FreeReserved { cpu: u16, node: u8, times: usize },
    AllocContig { cpu: u16, order: u8, node: u8 },
}

/// The frames of the struct pages of `node` that no step has freed yet.
fn memmap(mm: &MemoryManager, node: u8) -> Range<Pfn> {
    let mut maps = mm.parts.allocator.zones().iter().filter(|zone| zone.node == Node(node)).map(Zone::memmap);
    maps.find(|map| !map.is_empty()).expect("a map of this node")
}

fn features() -> impl Strategy<Value = Features> {
    let all: Vec<Features> = Series::PCP.variants().map(|variant| variant.features).collect();
    proptest::sample::select(all)
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS;
    let order = prop_oneof![8 => Just(0u8), 3 => 1..=3u8, 1 => Just(9u8), 1 => 0..=MAX_PAGE_ORDER];
    let bound = prop_oneof![3 => Just(None), 1 => (0..2u8).prop_map(Some)];
    let times = prop_oneof![3 => 1..5usize, 2 => 1..400usize];
    let settings = prop_oneof![
        Just(("vm.percpu_pagelist_high_fraction", "8")),
        Just(("vm.percpu_pagelist_high_fraction", "100")),
        Just(("vm.percpu_pagelist_high_fraction", "0")),
        Just(("vm.min_free_kbytes", "2000")),
        Just(("vm.watermark_scale_factor", "200")),
        Just(("vm.watermark_boost_factor", "0")),
    ];
    prop_oneof![
        6 => (cpu.clone(), order, 0..3usize, bound, any::<bool>(), times.clone()).prop_map(
            |(cpu, order, migrate_type, bound, atomic, times)| Step::Alloc { cpu, order, migrate_type, bound, atomic, times }
        ),
        5 => (cpu.clone(), any::<usize>(), times).prop_map(|(cpu, which, times)| Step::Free { cpu, which, times }),
        1 => cpu.clone().prop_map(|cpu| Step::Vmstat { cpu }),
        1 => cpu.clone().prop_map(|cpu| Step::DrainAll { cpu }),
        1 => settings.prop_map(|(name, value)| Step::Set { name, value }),
        1 => (0..2u8, any::<bool>()).prop_map(|(node, active)| Step::Reclaim { node, active }),
        1 => (cpu.clone(), 0..2u8, 1..400usize).prop_map(|(cpu, node, times)| Step::FreeReserved { cpu, node, times }),
        1 => (cpu, MAX_PAGE_ORDER..14, 0..2u8).prop_map(|(cpu, order, node)| Step::AllocContig { cpu, order, node }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hold_after_every_step(features in features(), steps in proptest::collection::vec(step(), 1..60)) {
        let (mut machine, mut mm) = boot(features);
        let mut held: Vec<(Pfn, u8)> = Vec::new();
        let mut maps = [memmap(&mm, 0), memmap(&mm, 1)];
        let mut set_aside = vec![false; mm.parts.allocator.zones().len()];
        for step in &steps {
            match *step {
                Step::Alloc { cpu, order, migrate_type, bound, atomic, times } => {
                    let placement = bound.map_or(Placement::Local, |node| Placement::Bind(Node(node)));
                    let mut request = Request::new(order, MigrateType::ALL[migrate_type], placement);
                    request.reserves = Reserves { min_reserve: atomic, non_block: atomic, oom: false };
                    request.effort.direct &= !atomic;
                    for _ in 0..times {
                        let Some(pfn) = mm.enter(&mut machine, Cpu(cpu)).alloc(&request) else { break };
                        prop_assert_eq!(pfn % (1 << order), 0, "a block is aligned to its size");
                        let zone = &mm.parts.allocator.zones()[mm.parts.allocator.zone_of(pfn)];
                        if let Some(node) = bound {
                            prop_assert_eq!(zone.node, Node(node), "a bound request stays on its node");
                        }
                        held.push((pfn, order));
                    }
                }
                Step::Free { cpu, which, times } => {
                    for _ in 0..times.min(held.len()) {
                        let (pfn, order) = held.swap_remove(which % held.len());
                        free(&mut mm.enter(&mut machine, Cpu(cpu)), pfn, order);
                    }
                }
                Step::Vmstat { cpu } => {
                    let before: Vec<i32> = highs(&mm, cpu);
                    mm.enter(&mut machine, Cpu(cpu)).vmstat_update();
                    for (before, after) in before.iter().zip(highs(&mm, cpu)) {
                        prop_assert!(after <= *before || features.auto_tuning.is_some() && after <= 4 * 63.max(*before));
                    }
                }
                Step::DrainAll { cpu } => {
                    mm.enter(&mut machine, Cpu(cpu)).drain_all_pages();
                    prop_assert_eq!(mm.parts.allocator.pages_in_pagesets(), 0);
                }
                Step::Set { name, value } => mm.set(name, value).unwrap(),
                Step::Reclaim { node, active: true } => mm.parts.allocator.begin_reclaim(Node(node)),
                Step::Reclaim { node, active: false } => mm.parts.allocator.end_reclaim(Node(node)),
                Step::FreeReserved { cpu, node, times } => {
                    for pfn in maps[usize::from(node)].by_ref().take(times) {
                        let zone = mm.parts.allocator.zone_of(pfn);
                        let before = (mm.parts.allocator.zones()[zone].managed, mm.parts.allocator.zones()[zone].marks, mm.counters().get(Event::Pgfree));
                        mm.enter(&mut machine, Cpu(cpu)).free_reserved(pfn);
                        let zone = &mm.parts.allocator.zones()[zone];
                        prop_assert_eq!(zone.node, Node(node));
                        let after = (zone.managed, zone.marks, mm.counters().get(Event::Pgfree));
                        prop_assert_eq!((before.0 + 1, before.1, before.2 + 1), after);
                    }
                }
                Step::AllocContig { cpu, order, node } => {
                    if let Some(pfn) = mm.enter(&mut machine, Cpu(cpu)).alloc_contig(order, Node(node)) {
                        let run = pfn..pfn + (1 << order);
                        let zone = &mm.parts.allocator.zones()[mm.parts.allocator.zone_of(pfn)];
                        prop_assert_eq!((pfn % (1 << order), zone.node), (0, Node(node)));
                        prop_assert!(run.end <= zone.buddy.span().end, "the run leaves its zone");
                        let users = held.iter().map(|&(pfn, order)| pfn..pfn + (1 << order)).chain(maps.iter().cloned());
                        for used in users {
                            prop_assert!(used.end <= run.start || run.end <= used.start, "{:?} is in use", used);
                        }
                        held.push((pfn, order));
                    }
                }
            }
            mm.validate(held.iter().map(|&(_, order)| 1u64 << order).sum());
            for (set_aside, zone) in set_aside.iter_mut().zip(mm.parts.allocator.zones()) {
                *set_aside |= zone.nr_reserved_highatomic > 0;
                prop_assert!(zone.wmark(Mark::Min) <= zone.wmark(Mark::Low));
                prop_assert!(zone.high_min <= zone.high_max);
            }
        }
        // Once everything is freed and drained, the free blocks are those from after boot, except for the
        // types of pageblocks.
        for (pfn, order) in held {
            free(&mut mm.enter(&mut machine, Cpu(0)), pfn, order);
        }
        mm.enter(&mut machine, Cpu(0)).drain_all_pages();
        let (mut machine, mut fresh) = boot(features);
        for (node, unfreed) in maps.iter().enumerate() {
            for pfn in memmap(&fresh, node as u8).start..unfreed.start {
                fresh.enter(&mut machine, Cpu(0)).free_reserved(pfn);
            }
        }
        fresh.enter(&mut machine, Cpu(0)).drain_all_pages();
        for ((zone, fresh), set_aside) in mm.parts.allocator.zones().iter().zip(fresh.parts.allocator.zones()).zip(set_aside) {
            prop_assert_eq!(zone.buddy.free_pages(), fresh.buddy.free_pages());
            // A pageblock set aside for atomic requests does not merge with its neighbour, and does not when
            // it is given back either. Below the order of pageblocks, types are no barrier to merging.
            let orders = if set_aside { 0..=PAGEBLOCK_ORDER - 1 } else { 0..=MAX_PAGE_ORDER };
            for order in orders {
                prop_assert_eq!(zone.buddy.nr_free(order), fresh.buddy.nr_free(order), "order {}", order);
            }
        }
    }

    /// Many requests in one call do the same as many single ones.
    #[test]
    fn private_paths_are_many_single_ones(
        features in features(),
        runs in proptest::collection::vec((0..CPUS, 1..300usize, any::<bool>()), 1..40),
    ) {
        let (mut machine, mut many) = boot(features);
        let (mut other_machine, mut single) = boot(features);
        let request = Request::new(0, MigrateType::Movable, Placement::Local);
        let mut held: Vec<Pfn> = Vec::new();
        for (cpu, pages, give) in runs {
            let cpu = Cpu(cpu);
            if give {
                let from = held.len().saturating_sub(pages);
                let mut run = &held[from..];
                while !run.is_empty() {
                    let done = many.enter(&mut machine, cpu).free_private(run);
                    run[..done].iter().for_each(|&pfn| single.enter(&mut other_machine, cpu).free(pfn, 0));
                    run = &run[done..];
                    if let Some((&pfn, rest)) = run.split_first() {
                        many.enter(&mut machine, cpu).free(pfn, 0);
                        single.enter(&mut other_machine, cpu).free(pfn, 0);
                        run = rest;
                    }
                }
                held.truncate(from);
            } else {
                let mut left = pages;
                while left > 0 {
                    let mut got = Vec::new();
                    many.enter(&mut machine, cpu).alloc_private(&request, left, &mut got);
                    if got.is_empty() {
                        match many.enter(&mut machine, cpu).alloc(&request) {
                            Some(pfn) => got.push(pfn),
                            None => break,
                        }
                    }
                    for &pfn in &got {
                        prop_assert_eq!(single.enter(&mut other_machine, cpu).alloc(&request), Some(pfn));
                    }
                    left -= got.len();
                    held.extend(got);
                }
            }
            for (a, b) in many.parts.allocator.zones().iter().zip(single.parts.allocator.zones()) {
                for (a, b) in a.pagesets.iter().zip(&b.pagesets) {
                    prop_assert_eq!(a.tuning, b.tuning);
                }
            }
            prop_assert_eq!(many.counters(), single.counters());
        }
    }
}

fn free(kernel: &mut Kernel, pfn: Pfn, order: u8) {
    if order > MAX_PAGE_ORDER {
        kernel.free_contig(pfn, order);
    } else {
        kernel.free(pfn, order);
    }
}

fn highs(mm: &MemoryManager, cpu: u16) -> Vec<i32> {
    mm.parts.allocator.zones().iter().map(|zone| zone.pagesets[usize::from(cpu)].tuning.high).collect()
}

#[test]
fn zones_are_used_highest_first_and_lower_ones_keep_a_reserve() {
    let (mut machine, mut mm) = boot(Series::PCP.variants().last().unwrap().features);
    let request = Request::new(0, MigrateType::Unmovable, Placement::Bind(Node(0)));
    let mut kinds = Vec::new();
    while let Some(pfn) = mm.enter(&mut machine, Cpu(0)).alloc(&request) {
        let kind = mm.parts.allocator.zones()[mm.parts.allocator.zone_of(pfn)].kind;
        if kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
    }
    assert_eq!(kinds.first(), Some(&ZoneType::Normal));
    assert!(kinds.contains(&ZoneType::Dma32), "{kinds:?}");
    let dma = &mm.parts.allocator.zones()[0];
    assert!(
        dma.exact_free_pages() as u64 >= dma.lowmem_reserve[ZoneType::Normal as usize].min(dma.managed) / 2
    );
}
