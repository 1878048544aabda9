//! Who decides: the twin's own policies, or functions compiled from a kernel tree.
//!
//! ```text
//!   kernel_tree ── a tree's C ─► shared object ─► Decisions ─► MemoryManager::deciding_by ─► on.decisions
//!                                                   ├─ pcp         Rule<PcpState>, Rule<PcpZoneState>
//!                                                   ├─ watermarks  Rule<WatermarkState>
//!                                                   ├─ lru_gen     Rule<LruGenState>
//!                                                   ├─ numa        Rule<NumaScanState>, Rule<VmaAccessState>
//!                                                   ├─ folios      Rule<AnonFolioState>
//!                                                   └─ judged      asked by tests only
//! ```
//!
//! Which functions a kernel has is decided when it is built and does not change afterwards. What is here is data: which decisions
//! there are, and for each of them the record that goes through it. How a record is filled from a pageset, and what the mechanics make
//! of its answer, is beside the mechanism's `policy.rs`. A record has the names and meanings of the kernel's fields; where a
//! function calls what moves pages, the record says afterwards what it called (`free_pcppages_bulk`: `drains` and the following
//! fields), and the mechanics do it.
//!
//! A function of a tree may answer what no kernel could. Whoever asks checks the answer ([`nonsense`]); such runs are made in a
//! process of their own, whose end is the report.

mod folios;
mod judged;
mod lru_gen;
mod numa;
mod pcp;
mod reclaim;
pub mod rule;
mod scan_pass;
mod watermark;
mod zone;

pub use folios::{AnonFolioState, FolioDecisions, ScanPmdState, ThpWindowState};
pub use judged::{
    DeferralState, FragmentationState, Judged, NextNodeState, ReadaheadState, ShadowState, SuitableState,
    SwapReadaheadState, WritebackState,
};
pub use lru_gen::{LruGenDecisions, LruGenState};
pub use numa::{GroupNodesState, MOST_NODES, NumaDecisions, NumaMigrateState, NumaScanState, VmaAccessState};
pub use pcp::{PcpDecisions, PcpState, PcpZoneState};
pub use reclaim::{ReferencesState, ScanCountState, TailFolioState};
pub use rule::{Field, Flat, Rule};
pub use scan_pass::{MOST_VMAS, ScanPassState};
pub use watermark::{MOST_ZONES, WatermarkState};
pub use zone::{FallbackState, ZoneMarkState};

/// Who makes each decision that a tree's function can make.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decisions {
    /// Decisions about per-CPU pagesets.
    pub pcp: PcpDecisions,
    /// The watermarks of all zones (`__setup_per_zone_wmarks`).
    pub watermarks: Rule<WatermarkState>,
    /// Decisions about the multi-gen LRU.
    pub lru_gen: LruGenDecisions,
    /// Decisions about scanning for NUMA balancing.
    pub numa: NumaDecisions,
    /// Decisions about large folios of a fault.
    pub folios: FolioDecisions,
    /// Functions that judge the twin's policies and decide nothing in a run.
    pub judged: Judged,
}

/// Ends the run because a tree's `function` answered what cannot be, with the state that it was asked about.
#[cold]
pub fn nonsense<S: Flat>(function: &str, asked: &S, answered: &S, why: &str) -> ! {
    panic!("{function} of the kernel tree: {why}\n  asked about: {asked:?}\n  answered:    {answered:?}");
}
