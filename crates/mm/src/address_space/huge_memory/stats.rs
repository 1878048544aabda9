//! What the kernel counts of each size: the files of `transparent_hugepage/hugepages-<size>kB/stats`.
//!
//! In the kernel: `enum mthp_stat_item` in include/linux/huge_mm.h.

use super::features::ThpFiles;
use crate::address_space::AddressSpaces;
use crate::allocator::page::NR_PAGE_ORDERS;
use machine::PageSize;

macro_rules! statistics {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal since $since:ident),* $(,)?) => {
        /// Something that is counted of each order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum MthpStat { $($(#[doc = $doc])+ $variant),* }

        impl MthpStat {
            /// All of them.
            pub const ALL: &'static [MthpStat] = &[$(MthpStat::$variant),*];

            /// The name of the file.
            pub fn name(self) -> &'static str {
                match self { $(MthpStat::$variant => $name),* }
            }

            /// The kernel that it came with.
            pub fn since(self) -> ThpFiles {
                match self { $(MthpStat::$variant => ThpFiles::$since),* }
            }

            /// What it counts, in a line.
            pub fn description(self) -> &'static str {
                match self { $(MthpStat::$variant => concat!($($doc),+).trim_ascii()),* }
            }
        }
    };
}

impl MthpStat {
    /// The file of an order, below `transparent_hugepage/`.
    pub fn file(self, page_size: PageSize, order: u8) -> String {
        format!("hugepages-{}kB/stats/{}", page_size.kib() << order, self.name())
    }

    /// Whether it says how many there are, not how many there have been.
    fn is_gauge(self) -> bool {
        matches!(self, MthpStat::NrAnon | MthpStat::NrAnonPartiallyMapped)
    }
}

statistics! {
    /// Folios that faults made.
    AnonFaultAlloc = "anon_fault_alloc" since V6_10,
    /// Faults that wanted one and did not get it.
    AnonFaultFallback = "anon_fault_fallback" since V6_10,
    /// Those among them whose memory cgroup had no room for it.
    AnonFaultFallbackCharge = "anon_fault_fallback_charge" since V6_10,
    /// Faults that had room for one, but not beside a full window (`anon_beside_full`).
    AnonFaultDeclined = "anon_fault_declined" since V6_10,
    /// Folios swapped out whole.
    Swpout = "swpout" since V6_10,
    /// Folios that were split because swap had no room for them.
    SwpoutFallback = "swpout_fallback" since V6_10,
    /// Folios that zswap took whole: none, as there is no zswap.
    Zswpout = "zswpout" since V6_13,
    /// Folios swapped in whole.
    Swpin = "swpin" since V6_13,
    /// Swapped-in folios that were not to be had in this size.
    SwpinFallback = "swpin_fallback" since V6_14,
    /// Those among them whose memory cgroup had no room for it.
    SwpinFallbackCharge = "swpin_fallback_charge" since V6_14,
    /// Folios of shared memory that faults made: none, as it is in single pages.
    ShmemAlloc = "shmem_alloc" since V6_11,
    /// Faults of shared memory that wanted one and did not get it.
    ShmemFallback = "shmem_fallback" since V6_11,
    /// Those among them whose memory cgroup had no room for it.
    ShmemFallbackCharge = "shmem_fallback_charge" since V6_11,
    /// Folios that were split.
    Split = "split" since V6_11,
    /// Folios that could not be split.
    SplitFailed = "split_failed" since V6_11,
    /// Folios put on the list of those to be split.
    SplitDeferred = "split_deferred" since V6_11,
    /// Anonymous folios that there are.
    NrAnon = "nr_anon" since V6_12,
    /// Those among them that are not mapped whole.
    NrAnonPartiallyMapped = "nr_anon_partially_mapped" since V6_12,
    /// Folios that khugepaged made.
    CollapseAlloc = "collapse_alloc" since V7_2,
    /// Folios that khugepaged did not get.
    CollapseAllocFailed = "collapse_alloc_failed" since V7_2,
    /// Places where it made none because too much was in swap.
    CollapseExceedSwapPte = "collapse_exceed_swap_pte" since V7_2,
    /// Places where it made none because too little was there.
    CollapseExceedNonePte = "collapse_exceed_none_pte" since V7_2,
    /// Places where it made none because too much was shared.
    CollapseExceedSharedPte = "collapse_exceed_shared_pte" since V7_2,
}

const KINDS: usize = MthpStat::ALL.len();

/// The counters of all orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MthpStats([[i64; KINDS]; NR_PAGE_ORDERS]);

impl MthpStats {
    /// A counter of an order; 0 for orders that anonymous memory does not have.
    pub fn get(&self, order: u8, stat: MthpStat) -> i64 {
        self.0.get(usize::from(order)).map_or(0, |counts| counts[stat as usize])
    }

    /// Counts `n` more. Single pages are not counted.
    #[inline]
    pub(crate) fn add(&mut self, order: u8, stat: MthpStat, n: i64) {
        if order >= 2 {
            self.0[usize::from(order)][stat as usize] += n;
        }
    }

    /// What was counted since `earlier`, and how many there are now of what there may be more or less of.
    pub fn since(&self, earlier: &MthpStats) -> MthpStats {
        let mut difference = self.clone();
        for (order, stat, before) in earlier.iter().filter(|(_, stat, _)| !stat.is_gauge()) {
            difference.add(order, stat, -before);
        }
        difference
    }

    /// Every counter with its order, smallest order first; 0 for orders that kernels with pages of this size do not have.
    pub fn iter(&self) -> impl Iterator<Item = (u8, MthpStat, i64)> + use<'_> {
        (2..NR_PAGE_ORDERS as u8).flat_map(move |order| {
            MthpStat::ALL.iter().map(move |&stat| (order, stat, self.get(order, stat)))
        })
    }
}

impl AddressSpaces {
    /// What was counted of each size.
    pub fn mthp_stats(&self) -> &MthpStats {
        &self.mthp_stats
    }

    /// Counts for folios of an order (`count_mthp_stat`, `mod_mthp_stat`).
    #[inline]
    pub(crate) fn count_mthp_stat(&mut self, order: u8, stat: MthpStat, change: i64) {
        self.mthp_stats.add(order, stat, change);
    }
}
