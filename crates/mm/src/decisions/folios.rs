//! What a tree may decide about large folios of anonymous memory: how large a folio a fault gets, and whether khugepaged makes a huge page
//! out of small ones.
//!
//! In the kernel: `alloc_anon_folio` in mm/memory.c with what it asks (`thp_vma_allowable_orders`, `vma_thp_gfp_mask` in
//! mm/huge_memory.c), `thp_vma_suitable_orders` in include/linux/huge_mm.h and `hpage_collapse_scan_pmd` in mm/khugepaged.c. Longer
//! functions are asked whole: allocations succeed or fail as the record says, and a collapse is recorded instead of done.

use super::rule::{Rule, flat};

flat! {
    /// A VMA of anonymous memory and orders of folios for a fault in it (include/linux/huge_mm.h).
    pub struct ThpWindowState as "mmtwin_thp_window" {
        /// `vma->vm_start`.
        pub vm_start: u64,
        /// `vma->vm_end`.
        pub vm_end: u64,
        /// Asked: the address of the fault.
        pub addr: u64,
        /// Asked: orders, a bit each.
        pub orders: u64,
        /// Answered: orders from the largest on whose folio is inside of the VMA.
        pub answer: u64,
    }
}

flat! {
    /// A fault on an empty PTE of a VMA of anonymous memory. Orders are a bit each.
    pub struct AnonFolioState as "mmtwin_anon_folio" {
        /// `vma->vm_start`.
        pub vm_start: u64,
        /// `vma->vm_end`.
        pub vm_end: u64,
        /// `vma->vm_flags`: 0x20000000 and 0x40000000 as `madvise` said, 0x1000 registered with a userfaultfd, 0x18100 the stack of a
        /// program during exec.
        pub vm_flags: u64,
        /// Asked: the address of the fault.
        pub addr: u64,
        /// `PR_SET_THP_DISABLE` of the process.
        pub thp_disabled: i32,
        /// `transparent_hugepage/enabled`: 0 always, 1 madvise, 2 never.
        pub enabled: i32,
        /// `transparent_hugepage/defrag`: 0 always, 1 defer, 2 defer+madvise, 3 madvise, 4 never.
        pub defrag: i32,
        /// Orders whose `hugepages-<size>kB/enabled` is always.
        pub orders_always: u64,
        /// Orders that are madvise.
        pub orders_madvise: u64,
        /// Orders that are inherit.
        pub orders_inherit: u64,
        /// PTEs of the fault's page table that are not empty, a bit each.
        pub populated: [u64; 8],
        /// Orders of which no block is free.
        pub no_block: u64,
        /// Orders that the memory cgroup has no room for.
        pub no_room: u64,
        /// Answered: the order of the folio, -1 for none.
        pub answer: i32,
        /// Answered: how hard the allocator tries for a large folio: 0x400 reclaims directly, 0x800 wakes kswapd, 0x10000 gives up after
        /// one try.
        pub gfp: u32,
        /// Answered: orders that an allocation was tried of.
        pub tried: u64,
        /// Answered: orders that were counted as a fallback (`anon_fault_fallback`).
        pub fallbacks: u64,
        /// Answered: orders that were counted as one for lack of room (`anon_fault_fallback_charge`).
        pub charge_fallbacks: u64,
    }
}

impl AnonFolioState {
    /// `VM_HUGEPAGE`.
    pub const HUGEPAGE: u64 = 0x2000_0000;
    /// `VM_NOHUGEPAGE`.
    pub const NOHUGEPAGE: u64 = 0x4000_0000;
    /// `VM_UFFD_WP`.
    pub const USERFAULT: u64 = 0x1000;
    /// A stack that exec will move: it grows down and has the marks of both ways of readahead.
    pub const TEMPORARY_STACK: u64 = 0x1_8100;
    /// The order of the largest folio that a page table maps.
    pub const LARGEST: u8 = 8;
}

flat! {
    /// A range of a huge page's size that khugepaged looks at (mm/khugepaged.c). The folio of each page is of order 0.
    pub struct ScanPmdState as "mmtwin_scan_pmd" {
        /// What is in the directory: 0 a page table, 1 nothing, 2 a huge page.
        pub pmd: i32,
        /// Whether the VMA is registered with a userfaultfd.
        pub userfault: i32,
        /// `khugepaged/max_ptes_none`.
        pub max_ptes_none: u32,
        /// `khugepaged/max_ptes_swap`.
        pub max_ptes_swap: u32,
        /// `khugepaged/max_ptes_shared`.
        pub max_ptes_shared: u32,
        /// The PTEs: 0 is empty, 1 a page, 2 a swap entry, 4 with 1 the zero page. Of a page: 8 writable, 0x10 young, 0x20 anonymous, 0x40 on
        /// an LRU list, 0x80 locked, 0x100 mapped elsewhere too, 0x200 held by somebody, 0x400 its folio referenced, 0x800 its folio young,
        /// 0x1000 in the swap cache.
        pub entries: [u32; 512],
        /// Answered: `enum scan_result`, the success of a scan counting as that of a collapse.
        pub answer: i32,
        /// Answered for a collapse: pages accessed lately.
        pub referenced: i32,
        /// Answered for a collapse: swap entries.
        pub unmapped: i32,
    }
}

/// Who makes each decision about large folios of a fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct FolioDecisions {
    /// How hard the allocator tries for a large folio.
    pub vma_thp_gfp_mask: Rule<AnonFolioState>,
    /// The order of the folio that a fault gets.
    pub alloc_anon_folio: Rule<AnonFolioState>,
}
