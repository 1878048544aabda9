//! Who decides about a pageset: [`policy`], or where a kernel tree has the function, that.
//!
//! ```text
//!   Pageset, ZonePressure ─► PcpState ─► nr_pcp_high, compiled from a tree ─► PcpState ─► Pageset, and the answer
//!                    └─────► policy::nr_pcp_high, where there is none ────────────────────────►┘
//! ```
//!
//! What the mechanics ask are the methods of [`PcpDecisions`]; they have the names of the policy's functions. A tree's function
//! works on a copy, so what is nonsense is noticed before it is anywhere. `free_pcppages_bulk` does nothing there but note how much it
//! was to free and lower `count`, as the pages would; here `count` is as before and the mechanics move pages.

use super::policy::{self, BulkFree, Pageset, ZonePressure};
use crate::decisions::{PcpDecisions, PcpState, PcpZoneState, Rule, nonsense};
use crate::features::Features;
use machine::PageSize;

/// What the vmstat worker gives back of a pageset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decayed {
    /// Pages to give back.
    pub pages: i32,
    /// How many of them at a time.
    pub portion: i32,
    /// Whether there is more to do at the next tick.
    pub more: bool,
}

/// A zone, for the size of its pagesets.
#[derive(Clone, Copy, Debug)]
pub struct ZoneSize {
    /// How large its pages are.
    pub page_size: PageSize,
    /// Managed pages.
    pub managed: u64,
    /// The low watermark.
    pub low: u64,
    /// CPUs of its node.
    pub local_cpus: u64,
    /// CPUs of the machine.
    pub online_cpus: u64,
}

/// More blocks than this no refill takes: 32 times the largest batch of any release.
const MOST_BLOCKS: i32 = 1 << 16;

impl PcpDecisions {
    /// How many blocks of `order` to fetch from the zone when a list is empty.
    pub fn nr_pcp_alloc(&self, p: &mut Pageset, f: &Features, zone: ZonePressure, order: u8) -> i32 {
        let Rule::Tree(decide) = self.nr_pcp_alloc else {
            return policy::nr_pcp_alloc(p, f, zone, order);
        };
        let asked = PcpState { order: order.into(), ..state_of(p, zone) };
        let answered = ask("nr_pcp_alloc", decide, asked);
        if answered.answer < 1 {
            nonsense("nr_pcp_alloc", &asked, &answered, "an empty list is filled with no block");
        }
        if answered.answer > MOST_BLOCKS {
            nonsense("nr_pcp_alloc", &asked, &answered, "no refill takes so many blocks");
        }
        enter(p, &answered);
        answered.answer
    }

    fn nr_pcp_high(&self, p: &mut Pageset, f: &Features, zone: ZonePressure, free_high: bool) -> i32 {
        let Rule::Tree(decide) = self.nr_pcp_high else {
            return policy::nr_pcp_high(p, f, zone, free_high);
        };
        let asked = PcpState { free_high: free_high.into(), ..state_of(p, zone) };
        let answered = ask("nr_pcp_high", decide, asked);
        enter(p, &answered);
        answered.answer
    }

    fn nr_pcp_free(&self, p: &mut Pageset, f: &Features, high: i32, free_high: bool) -> i32 {
        let Rule::Tree(decide) = self.nr_pcp_free else {
            return policy::nr_pcp_free(p, f, high, free_high);
        };
        let asked = PcpState {
            asked_high: high,
            free_high: free_high.into(),
            ..state_of(p, ZonePressure::default())
        };
        let answered = ask("nr_pcp_free", decide, asked);
        enter(p, &answered);
        answered.answer
    }

    #[inline]
    fn frees_by_tree(&self) -> bool {
        self.nr_pcp_high.is_of_tree()
            | self.nr_pcp_free.is_of_tree()
            | self.free_unref_page_commit.is_of_tree()
    }

    /// Enters a freed block of `order` and says whether pages go back to the zone.
    #[inline]
    pub fn note_free(
        &self,
        p: &mut Pageset,
        f: &Features,
        zone: ZonePressure,
        order: u8,
    ) -> Option<BulkFree> {
        if self.frees_by_tree() {
            self.note_free_by_tree(p, f, zone, order)
        } else {
            policy::note_free(p, f, zone, order)
        }
    }

    fn note_free_by_tree(
        &self,
        p: &mut Pageset,
        f: &Features,
        zone: ZonePressure,
        order: u8,
    ) -> Option<BulkFree> {
        if let Rule::Tree(commit) = self.free_unref_page_commit {
            // A tree does not say why it drains; which counter that is for is told by the own rule.
            let free_high = policy::enter_free(&mut p.clone(), f, order);
            let due = commit_by_tree(commit, p, zone, order);
            return due.map(|due| BulkFree { free_high, ..due });
        }
        let free_high = policy::enter_free(p, f, order);
        let high = self.nr_pcp_high(p, f, zone, free_high);
        (p.count >= high).then(|| {
            let pages = self.nr_pcp_free(p, f, high, free_high);
            BulkFree { pages, portion: policy::bulk_free_portion(p, f, pages), free_high }
        })
    }

    /// How many order-0 frees in a row, at most `frees`, may only lengthen a list under no zone pressure: of a tree it is not known
    /// before it is asked.
    #[inline]
    pub fn plain_frees(&self, p: &Pageset, f: &Features, zone: ZonePressure, frees: usize) -> usize {
        match zone {
            _ if !self.frees_by_tree() => policy::plain_frees(p, f, zone, frees),
            ZonePressure { reclaim_active: false, below_high: false } => frees,
            _ => 0,
        }
    }

    /// Enters as many of `frees` order-0 frees as only lengthen a list; how many that were.
    #[inline]
    pub fn note_plain_frees(&self, p: &mut Pageset, f: &Features, zone: ZonePressure, frees: usize) -> usize {
        if self.frees_by_tree() {
            return self.note_plain_frees_by_tree(p, f, zone, frees);
        }
        let plain = policy::plain_frees(p, f, zone, frees);
        policy::note_plain_frees(p, f, plain);
        plain
    }

    fn note_plain_frees_by_tree(
        &self,
        p: &mut Pageset,
        f: &Features,
        zone: ZonePressure,
        frees: usize,
    ) -> usize {
        if let Rule::Tree(commit) = self.free_unref_page_commit {
            return commit_plain_by_tree(commit, p, zone, frees);
        }
        for entered in 0..frees {
            let before = *p;
            if self.note_free_by_tree(p, f, zone, 0).is_some() {
                *p = before;
                return entered;
            }
        }
        frees
    }

    /// One tick of the vmstat worker: lowers a grown `high`.
    pub fn decay(&self, p: &mut Pageset, f: &Features) -> Decayed {
        let Rule::Tree(decide) = self.decay_pcp_high else {
            let (pages, more) = policy::decay(p, f);
            return Decayed { pages, portion: policy::decay_portion(p, f, pages), more };
        };
        let asked = state_of(p, ZonePressure::default());
        let answered = ask("decay_pcp_high", decide, asked);
        enter(p, &answered);
        Decayed { pages: answered.drained, portion: answered.first_drain, more: answered.answer != 0 }
    }

    /// `batch` for a zone of `managed` pages.
    pub fn zone_batchsize(&self, page_size: PageSize, managed: u64) -> i32 {
        let Rule::Tree(decide) = self.zone_batchsize else {
            return policy::zone_batchsize(page_size, managed);
        };
        let mut state =
            PcpZoneState { managed, page_shift: page_size.shift() as i32, ..PcpZoneState::default() };
        let asked = state;
        decide(&mut state);
        if !(0..=1 << 20).contains(&state.answer) {
            nonsense("zone_batchsize", &asked, &state, "no batch is negative or as large as a zone");
        }
        // The caller of the kernel's function sees to that.
        state.answer.max(1)
    }

    /// `high_min` and `high_max` of a zone's pagesets, with `vm.percpu_pagelist_high_fraction` at `fraction`.
    pub fn high_bounds(&self, f: &Features, zone: &ZoneSize, fraction: u64, batch: i32) -> (i32, i32) {
        let (least, most) = policy::high_fractions(f, fraction);
        (self.zone_highsize(zone, least, batch), self.zone_highsize(zone, most, batch))
    }

    fn zone_highsize(&self, zone: &ZoneSize, fraction: u64, batch: i32) -> i32 {
        let Rule::Tree(decide) = self.zone_highsize else {
            let total = policy::high_total(fraction, zone.low, zone.managed);
            return policy::zone_highsize(total, zone.local_cpus, zone.online_cpus, batch);
        };
        let asked = PcpZoneState {
            managed: zone.managed,
            low: zone.low,
            page_shift: zone.page_size.shift() as i32,
            local_cpus: zone.local_cpus as i32,
            online_cpus: zone.online_cpus as i32,
            batch,
            high_fraction: fraction.min(i32::MAX as u64) as i32,
            ..PcpZoneState::default()
        };
        let mut state = asked;
        decide(&mut state);
        if state.answer < 0 {
            nonsense("zone_highsize", &asked, &state, "no list has less than no page");
        }
        state.answer
    }
}

fn commit_by_tree(
    commit: extern "C" fn(&mut PcpState),
    p: &mut Pageset,
    zone: ZonePressure,
    order: u8,
) -> Option<BulkFree> {
    let asked = PcpState { order: order.into(), ..state_of(p, zone) };
    let answered = ask("free_unref_page_commit", commit, asked);
    let count = asked.count + (1 << order);
    if answered.count + answered.drained != count {
        nonsense("free_unref_page_commit", &asked, &answered, "count is not what was there and came");
    }
    enter(p, &answered);
    p.count = count;
    (answered.drains > 0).then_some(BulkFree {
        pages: answered.drained,
        portion: answered.first_drain,
        free_high: false,
    })
}

/// Enters as many of `frees` order-0 frees as give nothing back, in one call: most pages that a build frees are such.
fn commit_plain_by_tree(
    commit: extern "C" fn(&mut PcpState),
    p: &mut Pageset,
    zone: ZonePressure,
    frees: usize,
) -> usize {
    let asked = PcpState { frees: frees as i32, ..state_of(p, zone) };
    let answered = ask("free_unref_page_commit", commit, asked);
    if answered.count != asked.count + answered.entered || !(0..=asked.frees).contains(&answered.entered) {
        nonsense("free_unref_page_commit", &asked, &answered, "count is not what was there and came");
    }
    enter(p, &answered);
    p.count = answered.count;
    answered.entered as usize
}

/// Asks a tree's function and checks what no pageset can be.
fn ask(function: &str, decide: extern "C" fn(&mut PcpState), asked: PcpState) -> PcpState {
    let mut answered = asked;
    decide(&mut answered);
    let factors = [answered.alloc_factor, answered.free_factor];
    if answered.answer < 0 || answered.high < 0 || answered.drained < 0 {
        nonsense(function, &asked, &answered, "a number of pages is negative");
    }
    if factors.iter().any(|factor| !(0..i32::BITS as i32).contains(factor)) {
        nonsense(function, &asked, &answered, "a factor shifts by more than there are bits");
    }
    answered
}

fn state_of(p: &Pageset, zone: ZonePressure) -> PcpState {
    PcpState {
        count: p.count,
        high: p.high,
        high_min: p.high_min,
        high_max: p.high_max,
        batch: p.batch,
        free_factor: p.free_factor.into(),
        alloc_factor: p.alloc_factor.into(),
        free_count: p.free_count,
        prev_free_high_order: p.prev_free_high_order.into(),
        free_high_batch: p.free_high_batch.into(),
        reclaim_active: zone.reclaim_active.into(),
        below_high: zone.below_high.into(),
        ..PcpState::default()
    }
}

/// Enters what a decision changed; `count` changes with the pages only.
fn enter(p: &mut Pageset, answered: &PcpState) {
    p.high = answered.high;
    p.free_factor = answered.free_factor as u8;
    p.alloc_factor = answered.alloc_factor as u8;
    p.free_count = answered.free_count;
    p.prev_free_high_order = answered.prev_free_high_order != 0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern "C" fn always_two(state: &mut PcpState) {
        state.answer = 2;
    }

    extern "C" fn nothing(state: &mut PcpState) {
        state.answer = 0;
    }

    /// `nr_pcp_high` as 6.12 has it where a zone is under no pressure and blocks are of order 0.
    extern "C" fn grown_high(s: &mut PcpState) {
        s.high = s.high.max(s.high_min).min(s.high_max);
        s.answer = s.high;
        if s.count >= s.high && s.high < s.free_count + s.batch && s.high_min != s.high_max {
            s.high = (s.free_count + s.batch).max(s.high_min).min(s.high_max);
        }
    }

    fn pageset() -> Pageset {
        Pageset { high: 400, high_min: 252, high_max: 800, batch: 63, ..Pageset::default() }
    }

    #[test]
    fn a_trees_function_decides_where_there_is_one() {
        let f = Features::MAINLINE_6_12;
        let zone = ZonePressure::default();
        let of_tree = PcpDecisions { nr_pcp_alloc: Rule::Tree(always_two), ..PcpDecisions::default() };
        assert_eq!(of_tree.nr_pcp_alloc(&mut pageset(), &f, zone, 0), 2);
        assert_eq!(PcpDecisions::default().nr_pcp_alloc(&mut pageset(), &f, zone, 0), 63);
    }

    #[test]
    #[should_panic = "nr_pcp_alloc of the kernel tree: an empty list is filled with no block"]
    fn an_answer_that_cannot_be_ends_the_run_with_function_and_state() {
        let of_tree = PcpDecisions { nr_pcp_alloc: Rule::Tree(nothing), ..PcpDecisions::default() };
        of_tree.nr_pcp_alloc(&mut pageset(), &Features::MAINLINE_6_12, ZonePressure::default(), 0);
    }

    proptest! {
        /// Many frees at once are as many single ones, whoever decides.
        #[test]
        fn plain_frees_of_a_tree_are_those_of_the_policy(count in 0..900i32, free_count in 0..2000i32, frees in 0..900usize) {
            let f = Features::MAINLINE_6_12;
            let zone = ZonePressure::default();
            let of_tree = PcpDecisions { nr_pcp_high: Rule::Tree(grown_high), ..PcpDecisions::default() };
            let own = PcpDecisions::default();
            let mut ours = Pageset { count, free_count, ..pageset() };
            let mut theirs = ours;
            let plain = own.note_plain_frees(&mut ours, &f, zone, frees);
            prop_assert_eq!(of_tree.note_plain_frees(&mut theirs, &f, zone, frees), plain);
            prop_assert_eq!(ours, theirs);
        }
    }
}
