//! What a comparison has to allow for, because no tracepoint shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that happened in the kernel without an event of its own, or that the twin does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `alloc_pages_bulk` took pages from a list; unit: blocks.
    BulkAllocation,
    /// A free in an interrupt found its CPU's list lock held and went to the buddy lists; unit: blocks.
    FreePastHeldLock,
    /// An allocation in an interrupt found the lock held and was served from the buddy lists; unit: blocks.
    AllocationPastHeldLock,
    /// An interrupt came between an operation on the lists and its event; unit: operations.
    InterruptBeforeEvent,
    /// A page was on the list of another type than its pageblock seemed to have; unit: blocks.
    UnknownPageblockType,
    /// A block was on a list without having been seen to get there: the recorder missed a free or a refill in an
    /// interrupt, or the kernel has no event for it; unit: blocks.
    MissedEvent,
    /// A block was allocated from the lists that the twin did not have there; unit: blocks.
    UnknownOrigin,
    /// A whole pageblock was claimed from another type, which shows as `extfrag` alone; unit: blocks.
    ClaimedBlock,
    /// Another CPU's lists were drained; unit: blocks.
    RemoteDrain,
    /// The state that was recorded, or that a refill's size shows, was not the twin's, which took it over; unit: states.
    StateTakenOver,
    /// Blocks were moved so that the twin's lists are the kernel's again; unit: blocks.
    ListsCorrected,
    /// The kernel had fewer pages on its lists than the twin, and how many was not known until it drained them; unit: bulk
    /// frees of the twin that are not judged.
    UnknownCount,
    /// What was on the lists at the start is not known, nor can they be emptied; unit: base pages.
    UnknownStartingLists,
    /// How much of the vmemmap earlier writes had split is not known: the page tables are those of the trace; unit:
    /// page tables.
    EarlierSplits,
    /// The recording program touched memory of its own among that of the case; unit: page faults.
    RecorderFaults,
    /// The kernel counts for the whole machine, where other programs ran; unit: by how much the counters differ.
    OtherPrograms,
    /// Which pages kswapd reclaims and which the reader depends on their speed: they ran side by side, and in the twin take
    /// turns; unit: by how much the counters differ.
    KswapdBesideReader,
    /// An emulated CPU does not set an accessed bit again while it has the translation cached; unit: by how much the
    /// counters differ.
    EmulatedAccessedBits,
    /// Folios of 64 pages and more have no nodes of their own in the kernel's tree of a file, and in the twin's they do; unit:
    /// by how much the counters differ.
    NodesOfLargeFolios,
    /// Other processes moved the machine's counters in too many runs of a case; unit: cases.
    Disturbed,
}

impl Cause {
    /// In words, for people.
    pub fn description(self) -> &'static str {
        match self {
            Cause::BulkAllocation => "blocks taken by the bulk interface, which has no event",
            Cause::FreePastHeldLock => "frees past the lists, whose lock the interrupted context held",
            Cause::AllocationPastHeldLock => {
                "allocations past the lists, whose lock the interrupted context held"
            }
            Cause::InterruptBeforeEvent => "interrupts between an operation and its event",
            Cause::UnknownPageblockType => "blocks of pageblocks whose type no event shows",
            Cause::MissedEvent => "blocks that came to a list without any event",
            Cause::UnknownOrigin => "blocks allocated from the lists without having been seen there",
            Cause::ClaimedBlock => "pageblocks claimed from another type, shown by one event instead of two",
            Cause::RemoteDrain => "blocks drained from another CPU's lists",
            Cause::StateTakenOver => "states taken over from the recording after a difference",
            Cause::ListsCorrected => "blocks moved to make the lists the kernel's again",
            Cause::UnknownCount => {
                "bulk frees not judged, as the kernel's count was not known until its next one"
            }
            Cause::UnknownStartingLists => "pages on the lists at the start, of unknown type",
            Cause::EarlierSplits => {
                "page tables taken from the trace, as earlier splits of vmemmap are not known"
            }
            Cause::OtherPrograms => "more or less in counters of the whole machine, where other programs ran",
            Cause::KswapdBesideReader => {
                "more or less in counters of who reclaims, which depend on the speed of kswapd and reader"
            }
            Cause::EmulatedAccessedBits => {
                "more or less in counters of accessed bits, which emulation sets late"
            }
            Cause::NodesOfLargeFolios => "nodes of large folios of files, counted in the twin alone",
            Cause::RecorderFaults => "page faults of the recording program's own memory, which do not count",
            Cause::Disturbed => "cases that others disturbed, whose counters are not compared",
        }
    }

    /// Whether a counter that has this cause says nothing about the twin.
    pub fn rules_out_comparison(self) -> bool {
        matches!(self, Cause::OtherPrograms | Cause::KswapdBesideReader | Cause::EmulatedAccessedBits)
    }
}

/// Causes and how often each occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Causes(BTreeMap<Cause, u64>);

impl Causes {
    /// Counts `n` more.
    pub fn add(&mut self, cause: Cause, n: u64) {
        if n > 0 {
            *self.0.entry(cause).or_default() += n;
        }
    }

    /// How often `cause` occurred.
    pub fn get(&self, cause: Cause) -> u64 {
        self.0.get(&cause).copied().unwrap_or(0)
    }

    /// Those that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> {
        self.0.iter().map(|(&cause, &n)| (cause, n))
    }
}
