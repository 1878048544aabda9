//! NUMA scan passes: a part of the address space is made PROT_NONE, so that hint faults show which threads
//! touch it.
//!
//! ```text
//!   mm    next_scan ── scan_seq ── scan_offset
//!                                      │
//!   VMAs  ├─ text ─┤ ├──── heap ──────┼▒▒▒▒▒▒▒▒▒▒▒┤ ├─ stack ─┤        ▒ PROT_NONE after this pass
//!           skip                      └── budget ─►
//!   end of the last VMA: scan_seq + 1, scan_offset = 0
//! ```
//!
//! [`policy`] decides about each VMA; the page-table walk is behind the trait [`Vmas`]. In the kernel:
//! `task_numa_work` in kernel/sched/fair.c.

mod address_space;
pub mod policy;

use super::Rules;
use policy::{Budget, Decision, MetVma, Scanner, SkipReason, VmaTraits};
use std::ops::Range;

/// The scan state of an address space (`numa_*` in `struct mm_struct`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmScan {
    /// Jiffy before which no pass starts; 0 if not set yet (`numa_next_scan`).
    pub next_scan: u64,
    /// Address at which the next pass starts (`numa_scan_offset`).
    pub scan_offset: u64,
    /// Number of complete scans (`numa_scan_seq`).
    pub scan_seq: i32,
}

impl MmScan {
    /// Lets the next pass start at the beginning (`reset_ptenuma_scan`).
    fn reset(&mut self) {
        self.scan_seq = self.scan_seq.wrapping_add(1);
        self.scan_offset = 0;
    }
}

/// The scan state of a VMA (`struct vma_numab_state`). Which fields are used depends on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumabState {
    /// Jiffy before which the VMA is not scanned.
    pub next_scan: u64,
    /// Bits of the PIDs that took hint faults: in the previous window, and in this one (`pids_active`).
    pub pids: [u64; 2],
    /// Jiffy at which the windows are rotated (`pids_active_reset`).
    pub reset_at: u64,
    /// The last sequence in which the VMA was scanned to its end.
    pub prev_scan_seq: i32,
    /// The sequence in which the scanner met the VMA.
    pub start_scan_seq: i32,
}

/// The VMAs of an address space, as a scan pass uses them. A VMA is identified by its start address.
pub trait Vmas {
    /// The address range and traits of the first VMA that ends after `address`.
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)>;
    /// The scan state of the VMA at `start`.
    fn record(&mut self, start: u64) -> &mut Option<NumabState>;
    /// Whether a scan state can be allocated. It always can, unless fault injection makes it fail.
    fn can_allocate_record(&mut self) -> bool {
        true
    }
    /// Makes a range of the VMA at `start` PROT_NONE (`change_prot_numa`). Returns the number of changed
    /// pages.
    fn change_prot(&mut self, start: u64, range: Range<u64>) -> u64;
    /// The current jiffy; time passes during a scan.
    fn now(&self) -> u64;
    /// Called with what the tracepoint `sched_skip_vma_numa` reports about the VMA at `start`.
    fn traced(&mut self, start: u64, reason: SkipReason);
}

/// A scan pass over an address space that the caller has claimed.
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

/// Goes through the VMAs once. Returns where it stopped, if before the end, and whether it skipped VMAs as
/// inactive.
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
            // The VMA is skipped without a trace event.
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
