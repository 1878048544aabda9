//! The values of all settings, with the kernel's defaults.
//!
//! Fields that belong together stand in a struct of their own, as the parts of the memory manager that read them do.

use crate::address_space::huge_memory::settings::ThpSettings;
use crate::allocator::fault_injection::FaultAttr;
use crate::damon::policy::DamonReclaimSettings;
use crate::memparse::memparse;
use crate::slub::policy::SLAB_MAX_ORDER;
use crate::zswap::policy::ZswapSettings;
use machine::PageSize;

/// Values of all settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `mem`: memory that the kernel uses, bytes; all that the machine has if nobody limits it.
    pub mem: Option<u64>,
    /// `vm.percpu_pagelist_high_fraction`: 0, or the part of a zone that all its pagesets may hold, at least 8.
    pub percpu_pagelist_high_fraction: u64,
    /// `vm.min_free_kbytes` if the user has set it.
    pub min_free_kbytes: Option<u64>,
    /// `vm.watermark_scale_factor`, in 1/10000 of a zone.
    pub watermark_scale_factor: u64,
    /// `vm.watermark_boost_factor`, in 1/10000 of the high watermark.
    pub watermark_boost_factor: u64,
    /// `vm.stat_interval`, seconds.
    pub stat_interval: u64,
    /// `vm.lowmem_reserve_ratio` of DMA, DMA32, Normal and Movable; 0 reserves nothing.
    pub lowmem_reserve_ratio: [u64; 4],
    /// `vm.swappiness`: what swapping costs against reading files again, 0 to 200 of 200.
    pub swappiness: u64,
    /// `lru_gen/enabled`: the multi-gen LRU, where the kernel has one.
    pub lru_gen: LruGenSettings,
    /// `lru_gen/min_ttl_ms`: generations younger than this are not evicted.
    pub lru_gen_min_ttl_ms: u64,
    /// `vm.dirty_*`: how much may be written and not on its device yet, and for how long.
    pub dirty: DirtySettings,
    /// `vm.page-cluster`: log2 of the pages that are read from swap at a time at most.
    pub page_cluster: u64,
    /// `swap/vma_ra_enabled`: what is read ahead from swap lies together in an area, not on the device.
    pub vma_ra_enabled: bool,
    /// `queue/read_ahead_kb`: the longest window that is read ahead, KiB.
    pub read_ahead_kb: u64,
    /// `queue/max_sectors_kb`: the largest request of a device, KiB.
    pub max_sectors_kb: u64,
    /// `queue/wbt_lat_usec`: 0 if nobody holds flushers back at their device.
    pub wbt_lat_usec: u64,
    /// `queue/nr_requests`: requests that a device's queue holds.
    pub nr_requests: u64,
    /// `vm.extfrag_threshold`: fragmentation index, of 1000, above which compaction is worth it.
    pub extfrag_threshold: u64,
    /// `vm.compaction_proactiveness`, percent.
    pub compaction_proactiveness: u64,
    /// `transparent_hugepage/`: large anonymous folios.
    pub transparent_hugepage: ThpSettings,
    /// `vm.hugetlb_optimize_vmemmap`: pages that enter a pool from now on give back most of their vmemmap.
    pub hugetlb_optimize_vmemmap: bool,
    /// `hugepages-2048kB/boot` and `hugepages-1048576kB/boot`: pages that pools get while the machine boots.
    pub boot_huge_pages: [u64; 2],
    /// `hugepage_alloc_threads`: threads that allocate them, 0 for as many as the kernel thinks best.
    pub hugepage_alloc_threads: u64,
    /// `slab_max_order`: the largest order of a slab, but where one object needs more.
    pub slab_max_order: u8,
    /// `slab_min_objects`: objects that a slab should have, 0 for what suits the number of CPUs.
    pub slab_min_objects: u32,
    /// `tlb_single_page_flush_ceiling`: flushes of more kernel pages than this flush everything.
    pub tlb_single_page_flush_ceiling: u64,
    /// `zswap.*`: pages in swap that are kept compressed in memory.
    pub zswap: ZswapSettings,
    /// `zswap_ever_enabled`: zswap was on once and holds nothing.
    pub zswap_ever_enabled: bool,
    /// `damon_reclaim.*`: what has not been accessed for long is paged out before memory runs short.
    pub damon_reclaim: DamonReclaimSettings,
    /// NUMA balancing.
    pub numa: NumaSettings,
    /// `fail_page_alloc/nth` and `ppm`: which allocations for huge pages and their vmemmap fail.
    pub fail_page_alloc: FaultAttr,
    /// `failslab/nth` and `ppm`: which small allocations fail.
    pub failslab: FaultAttr,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new(PageSize::default())
    }
}

impl Settings {
    /// The defaults of a kernel with pages of this size.
    pub fn new(page_size: PageSize) -> Settings {
        Settings {
            mem: None,
            percpu_pagelist_high_fraction: 0,
            min_free_kbytes: None,
            watermark_scale_factor: 10,
            watermark_boost_factor: 15_000,
            stat_interval: 1,
            lowmem_reserve_ratio: [256, 256, 32, 0],
            swappiness: 60,
            lru_gen: LruGenSettings::default(),
            lru_gen_min_ttl_ms: 0,
            dirty: DirtySettings::default(),
            page_cluster: 3,
            vma_ra_enabled: true,
            read_ahead_kb: 128,
            max_sectors_kb: 1280,
            wbt_lat_usec: 2000,
            nr_requests: 256,
            extfrag_threshold: 500,
            compaction_proactiveness: 20,
            transparent_hugepage: ThpSettings::new(page_size),
            hugetlb_optimize_vmemmap: false,
            boot_huge_pages: [0; 2],
            hugepage_alloc_threads: 0,
            slab_max_order: SLAB_MAX_ORDER,
            slab_min_objects: 0,
            tlb_single_page_flush_ceiling: 33,
            zswap: ZswapSettings::default(),
            zswap_ever_enabled: false,
            damon_reclaim: DamonReclaimSettings::default(),
            numa: NumaSettings::default(),
            fail_page_alloc: FaultAttr::default(),
            failslab: FaultAttr::default(),
        }
    }

    /// Takes `mem=` of the kernel command line; false if it is no size (`parse_memopt`, `early_mem`).
    pub(super) fn boot_with_memory(&mut self, size: &str) -> bool {
        let bytes = memparse(size).filter(|&bytes| bytes > 0);
        self.mem = bytes.or(self.mem);
        bytes.is_some()
    }

    /// The size of pages, which a kernel is built for.
    pub fn page_size(&self) -> PageSize {
        self.transparent_hugepage.page_size
    }
}

/// What the multi-gen LRU makes use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruGenSettings {
    /// Bit 0: it is used at all.
    pub enabled: bool,
    /// Bit 1: page tables are walked when a generation begins.
    pub mm_walk: bool,
    /// Bit 2: tables whose own entry was not used are passed over, as x86 tells.
    pub nonleaf_young: bool,
}

impl Default for LruGenSettings {
    fn default() -> Self {
        LruGenSettings { enabled: true, mm_walk: true, nonleaf_young: true }
    }
}

/// Settings of dirty pages of files. A limit in bytes takes the place of one in per cent, and the other way round; the one that
/// is not in force is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtySettings {
    /// `vm.dirty_background_ratio`: flushers write from here on, per cent of what could be dirty.
    pub dirty_background_ratio: u64,
    /// `vm.dirty_background_bytes`.
    pub dirty_background_bytes: u64,
    /// `vm.dirty_ratio`: no more may be dirty, per cent of what could be.
    pub dirty_ratio: u64,
    /// `vm.dirty_bytes`.
    pub dirty_bytes: u64,
    /// `vm.dirty_expire_centisecs`: what has been dirty for longer is written in any case.
    pub dirty_expire_centisecs: u64,
    /// `vm.dirty_writeback_centisecs`: how often that is looked for; 0 never.
    pub dirty_writeback_centisecs: u64,
}

impl Default for DirtySettings {
    fn default() -> Self {
        DirtySettings {
            dirty_background_ratio: 10,
            dirty_background_bytes: 0,
            dirty_ratio: 20,
            dirty_bytes: 0,
            dirty_expire_centisecs: 3000,
            dirty_writeback_centisecs: 500,
        }
    }
}

/// Settings of NUMA balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumaSettings {
    /// `kernel.numa_balancing` has bit 0: threads and their memory are brought together.
    pub balancing: bool,
    /// `kernel.numa_balancing` has bit 1: what is hot in slow memory is promoted.
    pub tiering: bool,
    /// `numa_balancing/scan_delay_ms`: CPU time before a new process is scanned, and time before a new VMA is.
    pub scan_delay_ms: u64,
    /// `numa_balancing/scan_period_min_ms`: the least CPU time in which all of an address space is scanned.
    pub scan_period_min_ms: u64,
    /// `numa_balancing/scan_period_max_ms`: the most.
    pub scan_period_max_ms: u64,
    /// `numa_balancing/scan_size_mb`: how much of it one pass scans.
    pub scan_size_mb: u64,
    /// `numa_balancing/hot_threshold_ms`: a page of slow memory touched so soon after a scan is hot.
    pub hot_threshold_ms: u64,
    /// `kernel.numa_balancing_promote_rate_limit_MBps`.
    pub promote_rate_limit_mbps: u64,
    /// `numa/demotion_enabled`: reclaim of fast memory moves pages to slow memory.
    pub demotion: bool,
}

impl Default for NumaSettings {
    fn default() -> Self {
        NumaSettings {
            balancing: true,
            tiering: false,
            scan_delay_ms: 1000,
            scan_period_min_ms: 1000,
            scan_period_max_ms: 60_000,
            scan_size_mb: 256,
            hot_threshold_ms: 1000,
            promote_rate_limit_mbps: 65_536,
            demotion: false,
        }
    }
}
