//! What is asked of the page allocator: how many pages, what for, from where, and how hard it may try (`gfp_t`).

use crate::allocator::memory_map::ZoneType;
use crate::allocator::page::MigrateType;
use crate::allocator::watermark::Reserves;
use machine::Node;

/// The largest order that the allocator treats as cheap (`PAGE_ALLOC_COSTLY_ORDER`).
pub const PAGE_ALLOC_COSTLY_ORDER: u8 = 3;

/// Where memory for a request may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The node of the CPU first, then others by distance.
    Local,
    /// This node only (`numactl -m`, `__GFP_THISNODE`).
    Bind(Node),
    /// This node first, then others by distance.
    Prefer(Node),
}

/// How far a request goes (`gfp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// It reclaims itself (`__GFP_DIRECT_RECLAIM`).
    pub direct: bool,
    /// It wakes kswapd (`__GFP_KSWAPD_RECLAIM`).
    pub wakes: bool,
    /// Once is enough (`__GFP_NORETRY`).
    pub no_retry: bool,
}

impl Effort {
    /// As far as it takes.
    pub const ORDINARY: Effort = Effort { direct: true, wakes: true, no_retry: false };
    /// What the free lists have, and no further.
    pub const LIGHT: Effort = Effort { direct: false, wakes: false, no_retry: false };
}

/// A request for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// log2 of its pages.
    pub order: u8,
    /// What it is for.
    pub migrate_type: MigrateType,
    /// The highest zone that it may use.
    pub highest: ZoneType,
    /// Where it may come from.
    pub placement: Placement,
    /// How far it may go below the minimum watermark.
    pub reserves: Reserves,
    /// How far it goes.
    pub effort: Effort,
}

impl Request {
    /// An ordinary request that may sleep: user memory may use every zone, kernel memory none above Normal.
    pub fn new(order: u8, migrate_type: MigrateType, placement: Placement) -> Request {
        let highest = if migrate_type == MigrateType::Movable { ZoneType::Movable } else { ZoneType::Normal };
        let (reserves, effort) = (Reserves::default(), Effort::ORDINARY);
        Request { order, migrate_type, highest, placement, reserves, effort }
    }

    /// Atomic high-order requests have pageblocks of their own (`ALLOC_HIGHATOMIC`).
    pub(crate) fn is_high_atomic(&self) -> bool {
        self.order > 0 && self.reserves.min_reserve && self.reserves.non_block
    }
}

/// No memory is left that reclaim could free: while devices write pages, the task waits for them and tries again; if none
/// does, a process is killed (`oom_kill`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;
