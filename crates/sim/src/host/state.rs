//! How memory was before a run: pages of the kernel that cannot be moved, spread over pageblocks in weeks.
//!
//! ```text
//!   pageblocks of free memory    □□□□□□□□    at boot: movable, all pages free
//!                                □▨□□▨□▨□    unmovable_blocks of them, at random, are unmovable
//!                                 ▪▫▫▪▫▪     unmovable_share of their pages are in use, at random places, to the end
//! ```
//!
//! While memory is full, allocations that cannot be moved fall back to movable pageblocks and claim them
//! (`__rmqueue_fallback`); most of the pages go again, one is left in many. /proc/pagetypeinfo counts what is left, under "Number of
//! blocks type". No huge page can be made of such a block. What reclaim could shrink of it is not told apart.

use crate::System;
use machine::profile::Figure;
use machine::{Cpu, Node};
use mm::allocator::request::Effort;
use mm::memory_map::ZoneType;
use mm::{MigrateType, Pfn, Placement, Request};
use rand::seq::{SliceRandom, index};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;
use workload::keys::SHARE;

workload::keys! {
    /// How memory was before the run.
    pub struct MemoryState {
        /// Part of the pageblocks of memory that is not held whose pages cannot be moved. /proc/pagetypeinfo says it under "Number of
        /// blocks type": unmovable and reclaimable ones of all.
        pub unmovable_blocks: Figure => SHARE,
        /// Part of the pages of such a pageblock that are in use, at random places and at least one. The free pages of these types in
        /// /proc/pagetypeinfo are the rest.
        pub unmovable_share: Figure => SHARE,
    }
}

/// Who runs before the programs do.
const BOOT_CPU: Cpu = Cpu(0);

impl MemoryState {
    /// All figures and their keys.
    pub(super) fn figures_mut(&mut self) -> [(String, &mut Figure); 2] {
        [
            ("unmovable_blocks".into(), &mut self.unmovable_blocks),
            ("unmovable_share".into(), &mut self.unmovable_share),
        ]
    }

    /// Puts the pages of the kernel where they stay to the end, and returns them.
    pub(super) fn make(&self, system: &mut System, random: &mut Pcg64Mcg) -> Vec<Pfn> {
        let pages = system.mm.parts.allocator.geometry().pageblock_nr_pages();
        let mut all = take_free_pageblocks(system, MigrateType::Movable);
        all.shuffle(random);
        let chosen = (all.len() as f64 * self.unmovable_blocks.value).round() as usize;
        let (chosen, others) = all.split_at(chosen);
        chosen.iter().for_each(|&start| free_pages(system, start..start + pages));
        drain_pagesets(system);
        // Nothing else is free.
        let unmovable = take_free_pageblocks(system, MigrateType::Unmovable);
        others.iter().for_each(|&start| free_pages(system, start..start + pages));
        let in_use = ((f64::from(pages) * self.unmovable_share.value).round() as usize).max(1);
        let mut kept = Vec::new();
        for start in unmovable {
            let mut free_from = start;
            let mut places = index::sample(random, pages as usize, in_use).into_vec();
            places.sort_unstable();
            for pfn in places.into_iter().map(|place| start + place as u32) {
                free_pages(system, free_from..pfn);
                kept.push(pfn);
                free_from = pfn + 1;
            }
            free_pages(system, free_from..start + pages);
        }
        drain_pagesets(system);
        kept
    }
}

/// Takes all pageblocks that are free, below the watermarks too.
fn take_free_pageblocks(system: &mut System, migrate_type: MigrateType) -> Vec<Pfn> {
    let order = system.mm.parts.allocator.geometry().pageblock_order;
    let mut taken = Vec::new();
    for node in (0..system.machine.topology.nodes).map(Node) {
        let request = Request::new(order, migrate_type, Placement::Bind(node));
        let effort = Effort { memalloc: true, ..Effort::LIGHT };
        let request = Request { effort, highest: ZoneType::Normal, ..request };
        while let Some(pfn) = system.alloc(BOOT_CPU, &request) {
            taken.push(pfn);
        }
    }
    taken
}

/// Leaves nothing that was freed in pagesets.
fn drain_pagesets(system: &mut System) {
    system.mm.enter(&mut system.machine, BOOT_CPU).drain_all_pages();
}

/// Frees pages that follow each other, in the largest aligned blocks.
fn free_pages(system: &mut System, pages: Range<Pfn>) {
    let mut at = pages.start;
    while at < pages.end {
        let order = (pages.end - at).ilog2().min(at.trailing_zeros());
        system.free(BOOT_CPU, at, order as u8);
        at += 1 << order;
    }
}
