//! Allocation requests: order, migrate type, placement and effort (`gfp_t`).

use crate::allocator::memory_map::ZoneType;
use crate::allocator::page::MigrateType;
use crate::allocator::watermark::Reserves;
use machine::Node;

/// The largest order that is not costly to allocate (`PAGE_ALLOC_COSTLY_ORDER`).
pub const PAGE_ALLOC_COSTLY_ORDER: u8 = 3;

/// The nodes that an allocation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The node of the allocating CPU first, then others by distance.
    Local,
    /// This node only (`numactl -m`, `__GFP_THISNODE`).
    Bind(Node),
    /// This node first, then others by distance.
    Prefer(Node),
}

/// How hard an allocation tries (`gfp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// It may reclaim directly (`__GFP_DIRECT_RECLAIM`).
    pub direct: bool,
    /// It wakes kswapd (`__GFP_KSWAPD_RECLAIM`).
    pub wakes: bool,
    /// It gives up after one try (`__GFP_NORETRY`).
    pub no_retry: bool,
    /// It goes on for a costly order as long as reclaim helps, and may fail then (`__GFP_RETRY_MAYFAIL`).
    pub retry_may_fail: bool,
    /// Reclaim itself asks (`PF_MEMALLOC`): it may take the last pages, and is charged beyond limits.
    pub memalloc: bool,
    /// A page fault asks, which may let others run and come again (`PageAllocator::let_faults_reschedule`).
    pub of_fault: bool,
}

impl Effort {
    /// Tries everything, as `GFP_KERNEL` does.
    pub const ORDINARY: Effort = Effort { direct: true, wakes: true, ..Effort::LIGHT };
    /// Tries everything for a page fault.
    pub const OF_FAULT: Effort = Effort { of_fault: true, ..Effort::ORDINARY };
    /// Takes what is on the free lists, without reclaim and without waking kswapd.
    pub const LIGHT: Effort = Effort {
        direct: false,
        wakes: false,
        no_retry: false,
        retry_may_fail: false,
        memalloc: false,
        of_fault: false,
    };
    /// What reclaim needs to go on.
    pub const OF_RECLAIM: Effort = Effort { wakes: true, memalloc: true, ..Effort::LIGHT };
}

/// A request for one block of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// log2 of the number of pages.
    pub order: u8,
    pub migrate_type: MigrateType,
    /// The highest zone that it may use (`gfp_zone`).
    pub highest: ZoneType,
    pub placement: Placement,
    pub reserves: Reserves,
    pub effort: Effort,
}

impl Request {
    /// A request that may sleep and reclaim. Movable memory may come from every zone, other memory from zones
    /// up to Normal.
    pub fn new(order: u8, migrate_type: MigrateType, placement: Placement) -> Request {
        let highest = if migrate_type == MigrateType::Movable { ZoneType::Movable } else { ZoneType::Normal };
        let (reserves, effort) = (Reserves::default(), Effort::ORDINARY);
        Request { order, migrate_type, highest, placement, reserves, effort }
    }

    /// What the first pass heeds of it: the low watermark alone. The slow path lets it use reserves (`gfp_to_alloc_flags`).
    #[inline]
    pub(crate) fn of_fast_path(&self) -> Request {
        Request { reserves: Reserves::default(), ..*self }
    }

    /// Whether this is an atomic high-order allocation, which has pageblocks reserved for it
    /// (`ALLOC_HIGHATOMIC`).
    pub(crate) fn is_high_atomic(&self) -> bool {
        self.order > 0 && self.reserves.min_reserve && self.reserves.non_block
    }
}

/// No memory is left, and reclaim frees none. While devices write pages back, the task waits for them and
/// retries; otherwise the OOM killer kills a process (`oom_kill`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;
