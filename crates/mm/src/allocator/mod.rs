//! The page allocator: zones with their free lists and pagesets, and compaction.
//!
//! ```text
//!   request ─► page_alloc   which zones, in which order, down to which watermark? (policy.rs)
//!                  │
//!                  ├─► pcp   the CPU's private stock; pcp/policy.rs decides how much it holds
//!                  │    │ refill, bulk free
//!                  └─► zone  free lists (buddy), watermarks, one lock
//!                        ▲
//!                        └── compaction   larger blocks out of fragmented memory
//! ```
//!
//! This part knows page frames, never what is in them: no folio, no mapping, no file.

mod boot;
pub mod buddy;
pub mod compaction;
pub mod fault_injection;
pub mod memory_map;
pub mod page;
pub mod page_alloc;
pub mod pcp;
pub mod policy;
pub mod request;
pub mod vmstat;
pub mod watermark;
pub mod zone;

use crate::allocator::compaction::KcompactdState;
use crate::allocator::fault_injection::Injection;
use crate::allocator::page::Geometry;
use crate::allocator::zone::Zone;
use crate::features::Features;
use crate::sysctl::Settings;
use machine::Time;

/// Zones with their buddy lists and pagesets, and the zonelists of each node.
#[derive(Clone, Debug)]
pub struct PageAllocator {
    geometry: Geometry,
    zones: Vec<Zone>,
    /// Zonelist of each node: indices into `zones`, in the order in which allocations from that node try
    /// them.
    zonelists: Vec<Vec<usize>>,
    /// The zones of each node, highest first.
    own_zones: Vec<Vec<usize>>,
    min_free_kbytes: u64,
    local_cpus: Vec<u64>,
    online_cpus: u64,
    kcompactds: Vec<KcompactdState>,
    /// Until when a CPU drains all pagesets (`pcpu_drain_mutex`).
    draining_until: Time,
    lets_faults_reschedule: bool,
    /// Whether a page fault has left its allocation for other threads to run.
    need_resched: bool,
    failslab: Injection,
}

impl PageAllocator {
    /// From now on a page fault fails where direct reclaim has freed memory and others have taken it, instead of reclaiming again at
    /// once. A kernel calls `cond_resched()` there; for whom a fault is one step, that is the chance to let others run. A fault that
    /// fails is to be tried again if [`Self::take_need_resched`] says so.
    pub fn let_faults_reschedule(&mut self) {
        self.lets_faults_reschedule = true;
    }

    /// Whether the page fault under way has failed only to let others run.
    pub(crate) fn needs_resched(&self) -> bool {
        self.need_resched
    }

    /// Whether a page fault has failed only to let others run, since this was asked last.
    pub fn take_need_resched(&mut self) -> bool {
        std::mem::take(&mut self.need_resched)
    }

    /// Fixes `batch` and `high` (pages) of all pagesets, as a kernel under test may do.
    pub(crate) fn force_pagesets(&mut self, features: &Features, batch: i32, high: i32) {
        for zone in &mut self.zones {
            zone.set_pagesets(features, batch, high, high);
        }
    }

    /// Whether fault injection makes this slab allocation fail (`should_failslab`).
    pub(crate) fn should_failslab(&mut self, settings: &Settings) -> bool {
        self.failslab.fails(settings.failslab)
    }

    /// Checks the invariants of every zone and panics with the one that is broken. Returns the free pages,
    /// those in pagesets and in the hands of compaction included, and the managed pages.
    pub(crate) fn validate(&self, features: &Features) -> (u64, u64) {
        self.zones.iter().for_each(|zone| zone.validate(features));
        let isolated: u64 = self.zones.iter().map(|zone| zone.compaction.isolated).sum();
        (self.free_pages() + self.pages_in_pagesets() + isolated, self.totalram_pages())
    }
}
