//! What a tree may decide about a zone's free blocks, as records of plain numbers: which other type serves a request, and how far below
//! a watermark a request may go.
//!
//! In the kernel: `can_steal_fallback`, `find_suitable_fallback`, `boost_watermark` and `__zone_watermark_ok` in mm/page_alloc.c (6.1 to
//! 6.12). Migrate types have the kernel's numbers: 0 unmovable, 1 movable, 2 reclaimable, 3 reserved for atomic requests.

use super::rule::flat;

flat! {
    /// A request whose own migrate type has no block, and the free list of one order.
    pub struct FallbackState as "mmtwin_fallback" {
        /// Asked: the order of the list.
        pub order: i32,
        /// Asked: the migrate type of the request.
        pub migratetype: i32,
        /// Asked of `find_suitable_fallback`: whether a type counts only if its pageblock may be claimed.
        pub only_stealable: i32,
        /// Answered by `find_suitable_fallback`: whether the pageblock may be claimed.
        pub can_steal: i32,
        /// Of each migrate type, how many blocks of the order are free.
        pub nr_free: [u64; 4],
        /// Answered: a migrate type or -1, or whether a pageblock may be claimed.
        pub answer: i32,
    }
}

flat! {
    /// A zone and the request that is held against one of its watermarks.
    pub struct ZoneMarkState as "mmtwin_zone_mark" {
        /// `zone_managed_pages`.
        pub managed: u64,
        /// `zone->_watermark[WMARK_HIGH]`.
        pub high: u64,
        /// `zone->watermark_boost`, which `boost_watermark` raises.
        pub boost: u64,
        /// Asked of `boost_watermark`: `vm.watermark_boost_factor`.
        pub boost_factor: i32,
        /// Asked of `__zone_watermark_ok`: the order of the request.
        pub order: i32,
        /// Asked: the watermark, in pages.
        pub mark: u64,
        /// Asked: pages of the zone that requests for higher zones leave alone.
        pub lowmem_reserve: u64,
        /// Asked: free pages, which may be fewer than none while others take them.
        pub free_pages: i64,
        /// Free pages that are reserved for atomic requests of high order.
        pub free_highatomic: u64,
        /// Asked: `ALLOC_MIN_RESERVE`.
        pub min_reserve: i32,
        /// Asked: `ALLOC_NON_BLOCK`.
        pub non_block: i32,
        /// Asked: `ALLOC_OOM`.
        pub oom: i32,
        /// Asked: `ALLOC_HIGHATOMIC`.
        pub highatomic: i32,
        /// Of each order, which migrate types have a free block: bit 0 stands for unmovable memory.
        pub free_types: [u32; 11],
        /// Answered: whether the watermark was boosted, or whether the request may go ahead.
        pub answer: i32,
    }
}
