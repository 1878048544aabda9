//! What kdamond knows, and how far it is.
//!
//! ```text
//!   Look ──► Check ──► ... ──► Check ──► PageOut, a portion of a region at a time ──► Check
//!    ▲                                                                                 │
//!    └── the marks do not let it work ◄────────────────────────────────────────────────┘
//! ```
//!
//! In the kernel: `struct damon_ctx` in include/linux/damon.h.

use super::policy::DamonReclaimSettings;
use super::quota::Quota;
use super::regions::Regions;
use crate::Pfn;
use machine::Time;
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Why DAMON_RECLAIM, which is switched on, has paged nothing out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It stays off: the kernel does not take its parameters.
    Refused,
    /// This kernel forgets what to page out.
    SchemeLost,
    /// Whenever it looked, more was free than its watermarks let it work with, or less.
    OutsideMarks,
}

/// What kdamond does next.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// Looks whether the marks let it work.
    Look,
    /// Asks which of the chosen pages have been accessed.
    Check,
    /// Pages out cold regions, those with a score of at least `least`, from the region `index` on.
    PageOut { least: u64, index: usize, under_way: Option<PagingOut> },
}

/// A region that is being paged out.
#[derive(Clone, Debug)]
pub(super) struct PagingOut {
    /// The pages that are left.
    pub(super) left: Range<Pfn>,
    /// Pages that have been reclaimed.
    pub(super) reclaimed: u64,
    /// How long it has taken so far.
    pub(super) took: Time,
}

/// DAMON_RECLAIM while it is switched on.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// As they were when it was switched on.
    pub(super) settings: DamonReclaimSettings,
    pub(super) regions: Regions,
    /// Most pages of a region (`damon_region_sz_limit`).
    pub(super) region_limit: u64,
    /// Whether the marks let it work when it last looked.
    pub(super) is_active: bool,
    /// Whether they ever have.
    pub(super) was_active: bool,
    pub(super) next: Next,
    pub(super) due: Time,
    /// Samples of this aggregation.
    pub(super) samples: u64,
    pub(super) quota: Quota,
}

/// DAMON_RECLAIM, switched on or off.
#[derive(Clone, Debug)]
pub struct Damon {
    pub(super) context: Option<Context>,
    /// Which pages are looked at, and where regions are divided.
    pub(super) random: Pcg64Mcg,
}

impl Damon {
    /// Switched off; `random` is a stream of its own.
    pub(crate) fn new(random: Pcg64Mcg) -> Damon {
        Damon { context: None, random }
    }

    /// Forgets all that it knows, as it is switched off.
    pub(crate) fn stop(&mut self) {
        self.context = None;
    }
}
