//! Per-size counters of large folios: the files of `transparent_hugepage/hugepages-<size>kB/stats`.
//!
//! In the kernel: `enum mthp_stat_item` in include/linux/huge_mm.h.

use super::features::ThpFiles;
use crate::address_space::AddressSpaces;
use crate::allocator::page::NR_PAGE_ORDERS;
use machine::PageSize;

macro_rules! statistics {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal since $since:ident),* $(,)?) => {
        /// A counter that exists for each order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum MthpStat { $($(#[doc = $doc])+ $variant),* }

        impl MthpStat {
            pub const ALL: &'static [MthpStat] = &[$(MthpStat::$variant),*];

            /// The name of the sysfs file.
            pub fn name(self) -> &'static str {
                match self { $(MthpStat::$variant => $name),* }
            }

            /// The kernel that added it.
            pub fn since(self) -> ThpFiles {
                match self { $(MthpStat::$variant => ThpFiles::$since),* }
            }

            /// What the counter counts, in a line.
            pub fn description(self) -> &'static str {
                match self { $(MthpStat::$variant => concat!($($doc),+).trim_ascii()),* }
            }
        }
    };
}

impl MthpStat {
    /// Path of the counter's file for an order, below `transparent_hugepage/`.
    pub fn file(self, page_size: PageSize, order: u8) -> String {
        format!("hugepages-{}kB/stats/{}", page_size.kib() << order, self.name())
    }

    /// Whether the counter is a current number rather than a sum of events.
    fn is_gauge(self) -> bool {
        matches!(self, MthpStat::NrAnon | MthpStat::NrAnonPartiallyMapped)
    }
}

statistics! {
    /// Folios of the size allocated by page faults.
    AnonFaultAlloc = "anon_fault_alloc" since V6_10,
    /// Page faults that wanted a folio of the size and fell back to smaller ones.
    AnonFaultFallback = "anon_fault_fallback" since V6_10,
    /// Page faults that fell back because the memory cgroup had no room for a folio of the size.
    AnonFaultFallbackCharge = "anon_fault_fallback_charge" since V6_10,
    /// Page faults that could have had a folio of the size, but not beside a full window
    /// (`anon_beside_full`).
    AnonFaultDeclined = "anon_fault_declined" since V6_10,
    /// Folios of the size swapped out whole.
    Swpout = "swpout" since V6_10,
    /// Folios of the size split before swap-out because swap had no room for them in one piece.
    SwpoutFallback = "swpout_fallback" since V6_10,
    /// Folios of the size stored in zswap.
    Zswpout = "zswpout" since V6_13,
    /// Folios of the size swapped in whole.
    Swpin = "swpin" since V6_13,
    /// Swap-ins that wanted a folio of the size and fell back to smaller ones.
    SwpinFallback = "swpin_fallback" since V6_14,
    /// Swap-ins that fell back because the memory cgroup had no room for a folio of the size.
    SwpinFallbackCharge = "swpin_fallback_charge" since V6_14,
    /// Shared-memory folios of the size allocated by page faults: none, as shared memory uses single pages.
    ShmemAlloc = "shmem_alloc" since V6_11,
    /// Page faults on shared memory that wanted a folio of the size and fell back.
    ShmemFallback = "shmem_fallback" since V6_11,
    /// Page faults on shared memory that fell back because the memory cgroup had no room for a folio of the
    /// size.
    ShmemFallbackCharge = "shmem_fallback_charge" since V6_11,
    /// Folios of the size that were split.
    Split = "split" since V6_11,
    /// Folios of the size whose split failed.
    SplitFailed = "split_failed" since V6_11,
    /// Folios of the size put on the deferred split queue.
    SplitDeferred = "split_deferred" since V6_11,
    /// Anonymous folios of the size that exist.
    NrAnon = "nr_anon" since V6_12,
    /// Anonymous folios of the size that are partially mapped.
    NrAnonPartiallyMapped = "nr_anon_partially_mapped" since V6_12,
    /// Folios of the size allocated by khugepaged.
    CollapseAlloc = "collapse_alloc" since V7_2,
    /// Allocations of khugepaged for the size that failed.
    CollapseAllocFailed = "collapse_alloc_failed" since V7_2,
    /// Ranges that khugepaged did not collapse for too many swap PTEs.
    CollapseExceedSwapPte = "collapse_exceed_swap_pte" since V7_2,
    /// Ranges that khugepaged did not collapse for too many empty PTEs.
    CollapseExceedNonePte = "collapse_exceed_none_pte" since V7_2,
    /// Ranges that khugepaged did not collapse for too many shared pages.
    CollapseExceedSharedPte = "collapse_exceed_shared_pte" since V7_2,
}

const KINDS: usize = MthpStat::ALL.len();

/// The counters of all orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MthpStats([[i64; KINDS]; NR_PAGE_ORDERS]);

impl MthpStats {
    /// A counter of an order; 0 for orders that anonymous folios do not have.
    pub fn get(&self, order: u8, stat: MthpStat) -> i64 {
        self.0.get(usize::from(order)).map_or(0, |counts| counts[stat as usize])
    }

    /// Adds `n` to a counter. Orders 0 and 1 are not counted.
    #[inline]
    pub(crate) fn add(&mut self, order: u8, stat: MthpStat, n: i64) {
        if order >= 2 {
            self.0[usize::from(order)][stat as usize] += n;
        }
    }

    /// The difference to `earlier`; gauges keep their current value.
    pub fn since(&self, earlier: &MthpStats) -> MthpStats {
        let mut difference = self.clone();
        for (order, stat, before) in earlier.iter().filter(|(_, stat, _)| !stat.is_gauge()) {
            difference.add(order, stat, -before);
        }
        difference
    }

    /// Every counter with its order, smallest order first; 0 for orders that do not exist with this page
    /// size.
    pub fn iter(&self) -> impl Iterator<Item = (u8, MthpStat, i64)> + use<'_> {
        (2..NR_PAGE_ORDERS as u8).flat_map(move |order| {
            MthpStat::ALL.iter().map(move |&stat| (order, stat, self.get(order, stat)))
        })
    }
}

impl AddressSpaces {
    pub fn mthp_stats(&self) -> &MthpStats {
        &self.mthp_stats
    }

    /// Adds `change` to a counter of an order (`count_mthp_stat`, `mod_mthp_stat`).
    #[inline]
    pub(crate) fn count_mthp_stat(&mut self, order: u8, stat: MthpStat, change: i64) {
        self.mthp_stats.add(order, stat, change);
    }
}
