//! Causes of differences that a comparison allows for, because no tracepoint shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use serde::{Deserialize, Serialize};

/// Something that happened in the kernel without an event, or that the twin does not model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `alloc_pages_bulk` took pages from a list; unit: blocks.
    BulkAllocation,
    /// A free in an interrupt found the lock of its CPU's lists held, and went to the buddy lists; unit:
    /// blocks.
    FreePastHeldLock,
    /// An allocation in an interrupt found that lock held, and was served from the buddy lists; unit: blocks.
    AllocationPastHeldLock,
    /// An interrupt arrived between an operation on the lists and its event; unit: operations.
    InterruptBeforeEvent,
    /// A page was on the list of a migratetype other than the one its pageblock seemed to have; unit: blocks.
    UnknownPageblockType,
    /// A block was on a list although no event had put it there: the recorder missed a free or refill in an
    /// interrupt, or the kernel has no event for it; unit: blocks.
    MissedEvent,
    /// A block was allocated from the lists, but was not on the twin's lists; unit: blocks.
    UnknownOrigin,
    /// A whole pageblock was claimed for another migratetype, which only the `extfrag` event shows; unit:
    /// blocks.
    ClaimedBlock,
    /// The lists of another CPU were drained; unit: blocks.
    RemoteDrain,
    /// The twin's state differed from the recorded one, or from the one that a refill's size implies, and was
    /// replaced by it; unit: states.
    StateTakenOver,
    /// Blocks were moved so that the twin's lists match the kernel's again; unit: blocks.
    ListsCorrected,
    /// The kernel had fewer pages on its lists than the twin, and how many was not known until it drained
    /// them; unit: bulk frees of the twin that are not compared.
    UnknownCount,
    /// The pages on the lists at the start are not known, and the lists cannot be drained; unit: pages of 4
    /// KiB.
    UnknownStartingLists,
    /// How many PMDs of the vmemmap earlier writes had split is not known, so the number of page tables is
    /// taken from the trace; unit: page tables.
    EarlierSplits,
    /// The recording program touched memory of its own in addition to that of the case; unit: page faults.
    RecorderFaults,
    /// The kernel counts for the whole machine, on which other programs ran; unit: the difference of the
    /// counters.
    OtherPrograms,
    /// Which pages kswapd reclaims and which the reader reclaims depends on their speed: they run
    /// concurrently, but take turns in the twin; unit: the difference of the counters.
    KswapdBesideReader,
    /// An emulated CPU does not set the accessed bit again while the translation is in its TLB; unit: the
    /// difference of the counters.
    EmulatedAccessedBits,
    /// In the kernel, folios of 64 pages and more have no xarray nodes of their own in the file's tree, and
    /// in the twin they do; unit: the difference of the counters.
    NodesOfLargeFolios,
    /// Other processes changed the machine's counters in too many runs of a case; unit: cases.
    Disturbed,
}

impl Cause {
    /// A description for the report.
    pub fn description(self) -> &'static str {
        match self {
            Cause::BulkAllocation => "blocks taken by alloc_pages_bulk, which has no event",
            Cause::FreePastHeldLock => {
                "frees that bypassed the lists, whose lock the interrupted context held"
            }
            Cause::AllocationPastHeldLock => {
                "allocations that bypassed the lists, whose lock the interrupted context held"
            }
            Cause::InterruptBeforeEvent => "interrupts between an operation and its event",
            Cause::UnknownPageblockType => "blocks of pageblocks whose migratetype no event shows",
            Cause::MissedEvent => "blocks that were put on a list without an event",
            Cause::UnknownOrigin => "blocks allocated from the lists that no event had put there",
            Cause::ClaimedBlock => {
                "pageblocks claimed from another migratetype, shown by one event instead of two"
            }
            Cause::RemoteDrain => "blocks drained from another CPU's lists",
            Cause::StateTakenOver => "states copied from the recording after a difference",
            Cause::ListsCorrected => "blocks moved so that the lists match the kernel's again",
            Cause::UnknownCount => {
                "bulk frees not compared, because the kernel's count was not known until its next one"
            }
            Cause::UnknownStartingLists => "pages on the lists at the start, of unknown migratetype",
            Cause::EarlierSplits => {
                "page tables taken from the trace, because earlier splits of the vmemmap are not known"
            }
            Cause::OtherPrograms => {
                "difference in counters of the whole machine, on which other programs ran"
            }
            Cause::KswapdBesideReader => {
                "difference in direct and kswapd reclaim, which depends on the speed of kswapd and the reader"
            }
            Cause::EmulatedAccessedBits => {
                "difference in counters of accessed bits, which emulation sets late"
            }
            Cause::NodesOfLargeFolios => "xarray nodes of large file folios, counted only in the twin",
            Cause::RecorderFaults => "page faults in the recording program's own memory, not counted",
            Cause::Disturbed => "cases disturbed by other processes, whose counters are not compared",
        }
    }

    /// Whether a counter with this cause says nothing about the twin.
    pub fn rules_out_comparison(self) -> bool {
        matches!(self, Cause::OtherPrograms | Cause::KswapdBesideReader | Cause::EmulatedAccessedBits)
    }
}

/// Causes and how often each occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Causes(BTreeMap<Cause, u64>);

impl Causes {
    /// Adds `n` occurrences.
    pub fn add(&mut self, cause: Cause, n: u64) {
        if n > 0 {
            *self.0.entry(cause).or_default() += n;
        }
    }

    pub fn get(&self, cause: Cause) -> u64 {
        self.0.get(&cause).copied().unwrap_or(0)
    }

    /// The causes that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> {
        self.0.iter().map(|(&cause, &n)| (cause, n))
    }
}
