//! What the closed loop counts, and the entries that it becomes.

use crate::verify::{Agreement, Cause, Causes, Entry};

/// Agreement, decision by decision.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Refills, and how many of them the twin sized exactly.
    pub refills: Agreement,
    /// Base pages refilled: the kernel's, the twin's.
    pub refilled: [u64; 2],
    /// Bulk frees, and how many had the twin's length exactly.
    pub bulk_frees: Agreement,
    /// Base pages drained: the kernel's, the twin's.
    pub drained: [u64; 2],
    /// Blocks drained, and how many of them in the twin's order: after the blocks before them.
    pub drained_in_order: Agreement,
    /// Blocks drained, and how many were in the twin's bulk free at some place.
    pub drained_in_burst: Agreement,
    /// Recorded states, and how many were the twin's in every field.
    pub states: Agreement,
    /// Recorded states in which a field differed.
    pub differing_fields: [u64; Field::ALL.len()],
    /// What was inferred.
    pub causes: Causes,
}

/// A field of `struct per_cpu_pages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `count`
    Count,
    /// `high`
    High,
    /// `free_count`
    FreeCount,
    /// `alloc_factor`
    AllocFactor,
    /// `flags`
    Flags,
}

impl Field {
    /// All fields.
    pub const ALL: [Field; 5] =
        [Field::Count, Field::High, Field::FreeCount, Field::AllocFactor, Field::Flags];

    fn name(self) -> &'static str {
        ["count", "high", "free_count", "alloc_factor", "flags"][self as usize]
    }
}

impl Tally {
    /// The entries of one case. Where decisions are compared one by one, the kernel's number is that of all
    /// decisions and the twin's that of the exact ones.
    pub fn entries(&self, case: &str) -> Vec<Entry> {
        let mut entries = self.decisions(case);
        entries.push(Entry::new(case, "states", self.states.all, self.states.exact, self.causes.clone()));
        for (field, &differing) in Field::ALL.iter().zip(&self.differing_fields) {
            if differing > 0 {
                let counter = format!("states, {}", field.name());
                let all = self.states.all;
                entries.push(Entry::new(case, counter, all, all - differing, Causes::default()));
            }
        }
        entries
    }

    /// The entries that need no recorded states.
    pub fn decisions(&self, case: &str) -> Vec<Entry> {
        let only = |wanted: &[Cause]| {
            let mut causes = Causes::default();
            wanted.iter().for_each(|&cause| causes.add(cause, self.causes.get(cause)));
            causes
        };
        let refill_causes = || {
            use Cause::*;
            only(&[AllocationPastHeldLock, BulkAllocation, ClaimedBlock, StateTakenOver])
        };
        let drain_causes = || {
            use Cause::*;
            only(&[
                FreePastHeldLock,
                InterruptBeforeEvent,
                UnknownPageblockType,
                RemoteDrain,
                ListsCorrected,
                UnknownCount,
            ])
        };
        let agreement = |counter: &str, agreement: Agreement, causes: Causes| {
            Entry::new(case, counter, agreement.all, agreement.exact, causes)
        };
        vec![
            agreement("refill sizes", self.refills, refill_causes()),
            Entry::new(
                case,
                "refilled pages, decision by decision",
                self.refilled[0],
                self.refilled[1],
                refill_causes(),
            ),
            agreement("bulk free lengths", self.bulk_frees, drain_causes()),
            Entry::new(
                case,
                "drained pages, decision by decision",
                self.drained[0],
                self.drained[1],
                drain_causes(),
            ),
            agreement("drained page frames, in order", self.drained_in_order, drain_causes()),
            agreement("drained page frames, any order", self.drained_in_burst, drain_causes()),
        ]
    }
}
