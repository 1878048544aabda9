//! A scan pass: part of an address space is made inaccessible, so that threads show what they touch.
//!
//! ```text
//!   mm    next_scan ── scan_seq ── scan_offset
//!                                      │
//!   VMAs  ├─ text ─┤ ├──── heap ──────┼▒▒▒▒▒▒▒▒▒▒▒┤ ├─ stack ─┤        ▒ PROT_NONE after this pass
//!           skip                      └── budget ─►
//!   end of the last VMA: scan_seq + 1, scan_offset = 0
//! ```
//!
//! [`policy`] decides about each VMA; what walks page tables is behind [`Vmas`]. In the kernel: `task_numa_work` in
//! kernel/sched/fair.c.

mod address_space;
pub mod policy;

use super::Rules;
use policy::{Budget, Decision, MetVma, Scanner, SkipReason, VmaTraits};
use std::ops::Range;

/// What is known of scanning an address space (`struct mm_struct`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmScan {
    /// Not before this time, jiffies; 0 is not set yet.
    pub next_scan: u64,
    /// Where the next pass starts, an address.
    pub scan_offset: u64,
    /// How often all of it was scanned.
    pub scan_seq: i32,
}

impl MmScan {
    /// The next pass starts all over (`reset_ptenuma_scan`).
    fn reset(&mut self) {
        self.scan_seq = self.scan_seq.wrapping_add(1);
        self.scan_offset = 0;
    }
}

/// What is known of scanning a VMA (`struct vma_numab_state`); which fields count depends on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumabState {
    /// Not before this time, jiffies.
    pub next_scan: u64,
    /// Who touched it: in the window before, and in this one.
    pub pids: [u64; 2],
    /// When the windows turn, jiffies.
    pub reset_at: u64,
    /// The last sequence in which it was scanned to its end.
    pub prev_scan_seq: i32,
    /// The sequence in which the scanner met it.
    pub start_scan_seq: i32,
}

/// The VMAs of an address space, as a pass needs them. Each is known by the address that it starts at.
pub trait Vmas {
    /// Addresses and traits of the first one that ends behind `address`.
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)>;
    /// The record of the one at `start`.
    fn record(&mut self, start: u64) -> &mut Option<NumabState>;
    /// Whether there is memory for a record. The kernel has it but where a test wants it to fail.
    fn can_allocate_record(&mut self) -> bool {
        true
    }
    /// Makes a range of the one at `start` PROT_NONE; how many entries changed (`change_prot_numa`).
    fn change_prot(&mut self, start: u64, range: Range<u64>) -> u64;
    /// The time, jiffies; it goes on during a pass.
    fn now(&self) -> u64;
    /// Is told what `sched_skip_vma_numa` tells of the one at `start`.
    fn traced(&mut self, start: u64, reason: SkipReason);
}

/// A pass over an address space, which the caller has claimed.
pub fn pass(rules: Rules, mm: &mut MmScan, mut scanner: Scanner, vmas: &mut impl Vmas) {
    let mut budget = Budget::new(rules.settings);
    loop {
        let (stopped_at, skipped_inactive) = sweep(rules, mm, &scanner, &mut budget, vmas);
        match stopped_at {
            Some(address) => mm.scan_offset = address,
            None if policy::forces_one(rules.features, &scanner, skipped_inactive) => {
                scanner.forced = true;
                continue;
            }
            None => mm.reset(),
        }
        return;
    }
}

/// Goes through the VMAs once; where it stopped, if before the end, and whether VMAs were skipped for want of accesses.
fn sweep(
    rules: Rules,
    mm: &mut MmScan,
    scanner: &Scanner,
    budget: &mut Budget,
    vmas: &mut impl Vmas,
) -> (Option<u64>, bool) {
    let mut skipped_inactive = false;
    let mut start = mm.scan_offset;
    let mut next = vmas.first_ending_after(start);
    if next.is_none() {
        mm.reset();
        start = 0;
        next = vmas.first_ending_after(start);
    }
    while let Some((span, traits)) = next {
        next = vmas.first_ending_after(span.end);
        let (vma, now) = (span.start, vmas.now());
        let is_there = !policy::wants_record(rules.features, traits) || vmas.record(vma).is_some();
        if !is_there && !vmas.can_allocate_record() {
            // Passed over, and nobody is told.
            continue;
        }
        let met = MetVma { start: vma, traits };
        match policy::decide(rules, met, vmas.record(vma), mm, scanner, now) {
            Decision::Skip(reason) => {
                vmas.traced(vma, reason);
                skipped_inactive |= reason == SkipReason::PidInactive;
                if reason == SkipReason::SeqCompleted {
                    mm.scan_offset = span.end;
                }
                continue;
            }
            Decision::ScanBegun => vmas.traced(vma, SkipReason::IgnorePid),
            Decision::Scan => {}
        }
        start = start.max(span.start);
        loop {
            let end = budget.range_end(start, span.end);
            let changed = vmas.change_prot(vma, start..end);
            budget.charge(start..end, changed);
            start = end;
            if budget.is_spent() {
                return (Some(start), skipped_inactive);
            }
            if start == span.end {
                break;
            }
        }
        if let Some(record) = vmas.record(vma) {
            record.prev_scan_seq = mm.scan_seq;
        }
        if scanner.forced {
            return (Some(start), skipped_inactive);
        }
    }
    (None, skipped_inactive)
}
