//! Aging: beginning new generations, and moving what was used to the youngest.
//!
//! ```text
//!   walk     for each mm of the memcg:  PTE young?  ─► cleared, its folio into the youngest generation
//!   then     oldest generation of a type that has four of them ─► into the next;  max_seq + 1
//! ```
//!
//! A promoted folio stays on its list; eviction moves it when it gets there. Page tables that were not used,
//! or of which little was used, are skipped ([`super::bloom`]). In the kernel: `try_to_inc_max_seq`,
//! `inc_max_seq`, `inc_min_seq`, `walk_mm`, `folio_update_gen`, `lru_gen_look_around` in mm/vmscan.c.

use super::bloom::suitable_to_scan;
use super::policy::{self, MIN_NR_GENS, evictable_types};
use crate::account::Category;
use crate::address_space::{Mappings, MmId, Pte, TableId, VmFlags, Vma};
use crate::allocator::memory_map::ZoneType;
use crate::kernel::Kernel;
use crate::lru::folio::{FolioFlags, FolioId, Folios, LruvecId};
use crate::lru::lruvec::{ByTier, Lruvec, generation, type_of};
use crate::lru::mmzone::{LruType, MAX_NR_GENS};
use crate::lru::vmscan::ScanControl;
use crate::lru::vmscan::features::GenFeatures;
use crate::lru::workingset::policy::{TierCounts, carry_over, folio_refs, tier};
use machine::Time;
use smallvec::SmallVec;
use std::ops::Range;

/// PTEs that the rmap walk looks at around a young one, itself included (`BITS_PER_LONG`).
const LOOK_AROUND: usize = 64;

impl Kernel<'_> {
    /// Walks page tables and begins generation `max_seq` + 1 (`try_to_inc_max_seq`). Returns whether it did;
    /// here it always does.
    pub(super) fn try_to_inc_max_seq(
        &mut self,
        id: LruvecId,
        f: &GenFeatures,
        swappiness: u64,
        sc: &mut ScanControl,
    ) -> bool {
        sc.mm_walk |= self.on.settings.lru_gen.mm_walk;
        let entries = self.walk_page_tables(id, f, swappiness);
        self.on.machine.charge(
            self.on.cpu,
            Category::Reclaim,
            self.on.machine.costs.paging().pte_scan * entries,
        );
        let now = self.on.machine.now(self.on.cpu);
        let lruvec = &mut self.parts.lrus.lruvecs[id];
        for lru_type in LruType::ALL.into_iter().rev() {
            if lruvec.generations.count(lru_type) == MAX_NR_GENS {
                inc_min_seq(&mut self.parts.lrus.folios, lruvec, f, lru_type, swappiness);
            }
        }
        lruvec.advance_active();
        // Jiffies are the same on all CPUs; here the step of another one may have ended later than this one does.
        let before = lruvec.generations.timestamps[generation(lruvec.generations.max_seq)];
        lruvec.generations.max_seq += 1;
        let youngest = generation(lruvec.generations.max_seq);
        lruvec.generations.timestamps[youngest] = now.max(before);
        true
    }

    /// Looks at the PTEs around those in `young`, which the rmap walk of folio `id` has found young, and
    /// promotes their folios (`lru_gen_look_around`). If this reclaim does not walk page tables (`walks`),
    /// they are promoted through a batch.
    pub(in crate::lru) fn lru_gen_look_around(
        &mut self,
        id: FolioId,
        f: &GenFeatures,
        young: &Mappings,
        walks: bool,
    ) {
        let of = self.parts.lrus.folios[id].lruvec;
        for &met in young {
            let table = &self.parts.address_spaces.page_tables[met.table()];
            let page = table.first + met.place() as u64;
            let vma =
                self.parts.address_spaces.mms[table.mm].vmas.find(page).expect("a VMA contains each PTE");
            let within = vma.start.saturating_sub(table.first) as usize
                ..(vma.end - table.first).min(self.parts.allocator.geometry().ptrs_per_pte() as u64) as usize;
            let places = around(met.place(), within);
            // The PTE that the rmap walk met is one of them.
            let (total, mut young) = (places.len(), 1);
            let mut later: SmallVec<[FolioId; LOOK_AROUND]> = SmallVec::new();
            let lruvec = &mut self.parts.lrus.lruvecs[of];
            let youngest = generation(lruvec.generations.max_seq);
            for entry in self.parts.address_spaces.page_tables[met.table()].entries_mut(places) {
                let Some(other) = entry.folio() else { continue };
                if other == id || self.parts.lrus.folios[other].lruvec != of || !entry.take(Pte::YOUNG) {
                    continue;
                }
                young += 1;
                if walks {
                    promote(&mut self.parts.lrus.folios, lruvec, f, other);
                    continue;
                }
                let flags = &mut self.parts.lrus.folios.flags[other];
                if policy::on_young_entry_nearby(f, flags, youngest) {
                    later.push(other);
                }
            }
            if suitable_to_scan(total, young) {
                lruvec.generations.filters.update(lruvec.generations.max_seq, met.table().index());
            }
            if policy::promotes_at_once(f, later.len()) {
                later.iter().for_each(|&other| promote(&mut self.parts.lrus.folios, lruvec, f, other));
                continue;
            }
            for other in later {
                self.folio_activate(other);
            }
        }
    }

    /// Walks the page tables of the memcg's mms and promotes the folios whose PTEs are young (`walk_mm`).
    /// Returns the number of PTEs looked at.
    fn walk_page_tables(&mut self, id: LruvecId, f: &GenFeatures, swappiness: u64) -> u64 {
        if !self.on.settings.lru_gen.mm_walk {
            return 0;
        }
        let (memcg, node) = (self.parts.lrus.lruvecs[id].memcg, self.parts.lrus.lruvecs[id].node);
        let bit = 1 << (u32::from(node.0) % u64::BITS);
        let types = evictable_types(swappiness);
        // After the first mm that this node has not walked before, all page tables of the mms that follow are
        // walked: they are new too.
        let (mut is_first, mut force_scan) = (true, false);
        let mut entries = 0;
        let all: Vec<MmId> = self
            .parts
            .address_spaces
            .mms
            .iter()
            .filter(|(_, space)| space.memcg == memcg)
            .map(|(mm, _)| mm)
            .collect();
        for mm in all {
            let space = &mut self.parts.address_spaces.mms[mm];
            force_scan |= space.walked & bit == 0;
            space.walked |= bit;
            if !force_scan && space.ran & bit == 0 {
                continue;
            }
            space.ran &= !bit;
            let generations = &mut self.parts.lrus.lruvecs[id].generations;
            if std::mem::take(&mut is_first) {
                generations.filters.reset(generations.max_seq + 1);
            }
            let space = &self.parts.address_spaces.mms[mm];
            let seen = space.vmas.iter().filter(|vma| self.is_walked(vma) && types.contains(&vma.lru_type()));
            let tables: Vec<(TableId, Range<usize>)> =
                seen.flat_map(|vma| space.directory.tables(vma.pages())).collect();
            for areas in tables.chunk_by(|(table, _), (next, _)| table == next) {
                entries += self.walk_pte_range(id, f, areas, force_scan);
            }
        }
        entries
    }

    /// Walks one page table in the ranges `areas` of its VMAs, unless the table was not used, or the Bloom
    /// filter says that it was not worth it last time (`walk_pmd_range`, `walk_pte_range`). Returns the
    /// number of PTEs that are present.
    fn walk_pte_range(
        &mut self,
        id: LruvecId,
        f: &GenFeatures,
        areas: &[(TableId, Range<usize>)],
        force_scan: bool,
    ) -> u64 {
        let Some(&(number, _)) = areas.first() else { return 0 };
        let table = &mut self.parts.address_spaces.page_tables[number];
        let is_huge = table.is_huge();
        let lruvec = &mut self.parts.lrus.lruvecs[id];
        let seq = lruvec.generations.max_seq;
        if !is_huge {
            if self.on.settings.lru_gen.nonleaf_young && !std::mem::take(&mut table.young) {
                return 0;
            }
            if policy::asks_bloom_filter(f, force_scan)
                && !lruvec.generations.filters.test(seq, number.index())
            {
                return 0;
            }
        }
        let (mut total, mut present, mut young) = (0, 0, 0);
        for (_, places) in areas {
            total += places.len();
            for entry in table.entries_mut(places.clone()) {
                let Some(folio) = entry.folio() else { continue };
                present += 1;
                if entry.has(Pte::YOUNG) && self.parts.lrus.folios[folio].lruvec == id {
                    entry.clear(Pte::YOUNG);
                    young += 1;
                    promote(&mut self.parts.lrus.folios, lruvec, f, folio);
                }
            }
        }
        if !is_huge && suitable_to_scan(total, young) {
            lruvec.generations.filters.update(seq + 1, number.index());
        }
        present
    }

    /// Whether the accessed bits of a VMA are looked at (the opposite of `should_skip_vma`).
    fn is_walked(&self, vma: &Vma) -> bool {
        self.has_recency(vma.flags) && !vma.flags.has(VmFlags::LOCKED)
    }
}

/// The PTEs of a table that are looked at around `entry`: [`LOOK_AROUND`] of them, half before it, but none
/// outside its VMA, which has the places `within`.
fn around(entry: usize, within: Range<usize>) -> Range<usize> {
    let last_start = within.end.saturating_sub(LOOK_AROUND);
    let start = entry.saturating_sub(LOOK_AROUND / 2).min(last_start).max(within.start);
    start..within.end.min(start + LOOK_AROUND)
}

/// Promotes a folio whose PTE was young, if the kernel does so at its first access.
fn promote(folios: &mut Folios, lruvec: &mut Lruvec, f: &GenFeatures, id: FolioId) {
    if policy::on_young_entry(f, &mut folios.flags[id]) {
        promote_to_youngest(folios, lruvec, id);
    }
}

fn promote_to_youngest(folios: &mut Folios, lruvec: &mut Lruvec, id: FolioId) {
    let flags = &mut folios.flags[id];
    let Some(old) = flags.generation() else { return };
    let youngest = generation(lruvec.generations.max_seq);
    if old != youngest {
        flags.set_generation(Some(youngest));
        let (lru_type, zone, pages) = (type_of(*flags), flags.zone(), flags.nr_pages());
        lruvec.update_generation_size(lru_type, zone, pages, Some(old), Some(youngest));
    }
}

/// Moves a folio of the oldest generation to the next one, unless it has been promoted meanwhile
/// (`folio_inc_gen`). Returns the generation that it is in then, modulo 4.
pub(super) fn inc_gen(folios: &mut Folios, lruvec: &mut Lruvec, f: &GenFeatures, id: FolioId) -> usize {
    let flags = &mut folios.flags[id];
    let lru_type = type_of(*flags);
    let oldest = generation(lruvec.generations.min_seq[lru_type as usize]);
    let before = flags.generation().unwrap_or(oldest);
    let next = policy::inc_gen(f, flags, oldest);
    if next != before {
        let (zone, pages) = (flags.zone(), flags.nr_pages());
        lruvec.update_generation_size(lru_type, zone, pages, Some(oldest), Some(next));
    }
    next
}

/// Counts the pages of a folio that is kept although it was in the oldest generation.
pub(super) fn note_protection(protected: &mut ByTier, f: &GenFeatures, flags: FolioFlags) {
    let tier = tier_of(f, flags);
    protected[type_of(flags) as usize][tier as usize] += flags.nr_pages();
}

pub(super) fn tier_of(f: &GenFeatures, flags: FolioFlags) -> u8 {
    tier(f, folio_refs(f, policy::folio_use(flags)), flags.has(FolioFlags::WORKINGSET))
}

/// Gives up the oldest generation of a type and moves its folios to the next (`inc_min_seq`).
fn inc_min_seq(
    folios: &mut Folios,
    lruvec: &mut Lruvec,
    f: &GenFeatures,
    lru_type: LruType,
    swappiness: u64,
) {
    if evictable_types(swappiness).contains(&lru_type) {
        let min_seq = lruvec.generations.min_seq[lru_type as usize];
        for zone in 0..ZoneType::COUNT {
            let list = lruvec.generations.list(min_seq, lru_type, zone);
            folios.prefetch_tail(list);
            while let Some(id) = folios.tail(list) {
                folios.prefetch_next(list);
                let flags = folios.flags[id];
                let next = inc_gen(folios, lruvec, f, id);
                folios.move_to_tail(lruvec.generations.list_of(next, lru_type, zone), id);
                if policy::is_protected_by_aging(f, flags) {
                    note_protection(&mut lruvec.generations.protected, f, flags);
                }
            }
        }
    }
    reset_ctrl_pos(lruvec, f, lru_type);
    lruvec.generations.min_seq[lru_type as usize] += 1;
}

/// Moves the counters of a generation that is given up into the averages of its type (`reset_ctrl_pos`).
fn reset_ctrl_pos(lruvec: &mut Lruvec, f: &GenFeatures, lru_type: LruType) {
    let current = tier_counts(lruvec, lru_type);
    let generations = &mut lruvec.generations;
    let which = lru_type as usize;
    for (average, current) in generations.average[which].iter_mut().zip(current) {
        *average = carry_over(f, *average, current);
    }
    generations.evicted[which] = Default::default();
    generations.refaulted[which] = Default::default();
    generations.protected[which] = Default::default();
}

/// The counters of a type's oldest generation, by tier. Before 6.14 no page of the first tier is ever
/// protected.
fn tier_counts(lruvec: &Lruvec, lru_type: LruType) -> [TierCounts; 4] {
    let generations = &lruvec.generations;
    let which = lru_type as usize;
    std::array::from_fn(|tier| TierCounts {
        refaulted: generations.refaulted[which][tier],
        total: generations.evicted[which][tier] + generations.protected[which][tier],
    })
}

/// The counters of both types' oldest generations with the averages of those before, by tier
/// (`read_ctrl_pos`).
pub(super) fn positions(lruvec: &Lruvec) -> [[TierCounts; 4]; 2] {
    LruType::ALL.map(|lru_type| {
        let mut counts = tier_counts(lruvec, lru_type);
        for (counts, average) in counts.iter_mut().zip(lruvec.generations.average[lru_type as usize]) {
            counts.refaulted += average.refaulted;
            counts.total += average.total;
        }
        counts
    })
}

/// Gives up oldest generations that are empty; returns whether there was one (`try_to_inc_min_seq`).
pub(super) fn try_to_inc_min_seq(
    folios: &Folios,
    lruvec: &mut Lruvec,
    f: &GenFeatures,
    swappiness: u64,
) -> bool {
    let before = lruvec.generations.min_seq;
    let max_seq = lruvec.generations.max_seq;
    let types = evictable_types(swappiness);
    let mut now = before;
    for &lru_type in types {
        let is_empty = |seq: u64| {
            let list = |zone| lruvec.generations.list(seq, lru_type, zone);
            (0..ZoneType::COUNT).all(|zone| folios.is_list_empty(list(zone)))
        };
        let oldest = &mut now[lru_type as usize];
        while *oldest + MIN_NR_GENS <= max_seq && is_empty(*oldest) {
            *oldest += 1;
        }
    }
    now = policy::couple_min_seq(f, before, now, max_seq, swappiness);
    let mut moved = false;
    for &lru_type in types {
        let which = lru_type as usize;
        if now[which] != before[which] {
            reset_ctrl_pos(lruvec, f, lru_type);
            lruvec.generations.min_seq[which] = now[which];
            moved = true;
        }
    }
    moved
}

/// When generation `seq` began.
pub(crate) fn birth_of_oldest(lruvec: &Lruvec, seq: u64) -> Time {
    lruvec.generations.timestamps[generation(seq)]
}
