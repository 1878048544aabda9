//! All settings, each declared once: name, kind, bounds, unit, scale, release, part of the memory manager, meaning.
//!
//! Bounds and release are those of the kernel's own tables: `vm_table` and `kern_table` (kernel/sysctl.c and mm/*.c), the files of
//! `transparent_hugepage` (mm/huge_memory.c, mm/khugepaged.c), `lru_gen` (mm/vmscan.c), `queue` (block/blk-sysfs.c),
//! `numa_balancing` in debugfs (kernel/sched/debug.c), the parameters of modules (mm/zswap.c, mm/damon/reclaim.c); read in 6.1.192 and
//! 6.12.117 where [`Since::Oldest`] says so.

use super::{Kind, Limit, Place, Scale, Setting, Settings, Since, Subsystem, Unit};
use crate::address_space::huge_memory::settings::{Defrag, Enabled, Mode};
use crate::series::Known;

/// Smallest fraction that `vm.percpu_pagelist_high_fraction` takes besides 0.
pub const MIN_PERCPU_PAGELIST_HIGH_FRACTION: u64 = 8;

const INT_MAX: u64 = i32::MAX as u64;
const UINT_MAX: u64 = u32::MAX as u64;
const LONG_MAX: u64 = i64::MAX as u64;

/// A field that holds a number, or a switch that is 0 or 1.
macro_rules! number {
    ($($field:ident).+ as $type:ty) => {
        Place::Number {
            get: |settings| Some(u64::from(settings.$($field).+)),
            set: |settings, value| settings.$($field).+ = value as $type,
        }
    };
    ($($field:ident).+ is on) => {
        Place::Number {
            get: |settings| Some(u64::from(settings.$($field).+)),
            set: |settings, value| settings.$($field).+ = value != 0,
        }
    };
    ($field:ident[$at:literal]) => {
        Place::Number {
            get: |settings| Some(settings.$field[$at]),
            set: |settings, value| settings.$field[$at] = value,
        }
    };
    ($($field:ident).+) => { number!($($field).+ as u64) };
}

/// A limit of dirty pages, which takes the place of the same limit in the other unit as soon as it changes.
macro_rules! dirty_limit {
    ($field:ident, instead of $other:ident) => {
        Place::Number {
            get: |settings| Some(settings.dirty.$field),
            set: |settings, value| {
                if settings.dirty.$field != value {
                    (settings.dirty.$field, settings.dirty.$other) = (value, 0);
                }
            },
        }
    };
}

/// A field that holds one of an enum's words.
macro_rules! word {
    ($($field:ident).+, $type:ty) => {
        Place::Word {
            get: |settings| settings.$($field).+ as usize,
            set: |settings, chosen| settings.$($field).+ = <$type>::ALL[chosen],
        }
    };
}

impl Setting {
    const fn new(name: &'static str, kind: Kind, place: Place) -> Setting {
        Setting {
            name,
            kind,
            unit: Unit::None,
            scale: Scale::Linear,
            since: Since::Oldest,
            acts_on: Subsystem::Zones,
            description: "",
            of_command_line: false,
            place,
        }
    }

    const fn unit(self, unit: Unit) -> Setting {
        Setting { unit, ..self }
    }

    const fn logarithmic(self) -> Setting {
        Setting { scale: Scale::Logarithmic, ..self }
    }

    const fn since(self, release: &'static str, known: Known) -> Setting {
        Setting { since: Since::Release(release, known), ..self }
    }

    const fn of_command_line(self) -> Setting {
        Setting { of_command_line: true, ..self }
    }

    const fn not_in_mainline(self) -> Setting {
        Setting { since: Since::Never, ..self }
    }

    const fn acts_on(self, acts_on: Subsystem, description: &'static str) -> Setting {
        Setting { acts_on, description, ..self }
    }
}

const fn integer(name: &'static str, least: u64, most: u64, place: Place) -> Setting {
    integer_and(name, least, most, &[], place)
}

const fn integer_and(
    name: &'static str,
    least: u64,
    most: u64,
    special: &'static [(u64, &'static str)],
    place: Place,
) -> Setting {
    Setting::new(name, Kind::Integer { least: Limit::At(least), most: Limit::At(most), special }, place)
}

const fn switch(name: &'static str, place: Place) -> Setting {
    integer(name, 0, 1, place)
}

/// The mode of folios of so many KiB.
const fn mode_of_size(name: &'static str, kib: u64, description: &'static str) -> Setting {
    Setting::new(name, Kind::Choice(&Mode::WORDS), Place::ModeOfSize(kib))
        .since("6.8", Known::Mail)
        .acts_on(Subsystem::LargeFolios, description)
}

macro_rules! mode_of_size {
    ($kib:literal kB $(, $not:literal)?) => {
        mode_of_size(
            concat!("transparent_hugepage/hugepages-", $kib, "kB/enabled"),
            $kib,
            concat!("where faults make folios of ", $kib, " KiB" $(, "; not with pages of ", $not)?),
        )
    };
}

/// A file of khugepaged that counts entries of a page table that maps a huge page.
const fn max_ptes(name: &'static str, place: Place, description: &'static str) -> Setting {
    Setting::new(name, Kind::Integer { least: Limit::At(0), most: Limit::EntriesButOne, special: &[] }, place)
        .unit(Unit::Pages)
        .acts_on(Subsystem::LargeFolios, description)
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    Setting::new("mem", Kind::Text("a size, such as 512M or 4G"), Place::Text(Settings::boot_with_memory))
        .of_command_line()
        .acts_on(
            Subsystem::Zones,
            "memory that the kernel uses, as if the machine had no more (kernel command line); on machines of one node",
        ),
    integer_and(
        "vm.percpu_pagelist_high_fraction",
        MIN_PERCPU_PAGELIST_HIGH_FRACTION,
        INT_MAX,
        &[(0, "auto-tuned")],
        number!(percpu_pagelist_high_fraction),
    )
    .logarithmic()
    .acts_on(
        Subsystem::Zones,
        "part of a zone, as its reciprocal, that the zone's per-CPU pagesets may hold together; setting it ends auto-tuning",
    ),
    integer(
        "vm.min_free_kbytes",
        0,
        INT_MAX,
        Place::Number {
            get: |settings| settings.min_free_kbytes,
            set: |settings, value| settings.min_free_kbytes = Some(value),
        },
    )
    .unit(Unit::KiB)
    .logarithmic()
    .acts_on(Subsystem::Zones, "memory that stays free for allocations that cannot wait"),
    integer("vm.watermark_scale_factor", 1, 3000, number!(watermark_scale_factor))
        .unit(Unit::PerTenThousand)
        .logarithmic()
        .acts_on(Subsystem::Zones, "distance between two watermarks, of a zone's memory"),
    integer_and("vm.watermark_boost_factor", 0, INT_MAX, &[(0, "off")], number!(watermark_boost_factor))
        .unit(Unit::PerTenThousand)
        .acts_on(Subsystem::Zones, "how far fragmentation may raise watermarks, of the high watermark"),
    integer("vm.stat_interval", 1, INT_MAX, number!(stat_interval))
        .unit(Unit::Seconds)
        .logarithmic()
        .acts_on(
            Subsystem::VmstatWorkers,
            "time between two runs of a CPU's vmstat worker, which also lowers pcp->high",
        ),
    Setting::new(
        "vm.lowmem_reserve_ratio",
        Kind::List(&["DMA", "DMA32", "Normal", "Movable"]),
        Place::Numbers {
            get: |settings| &settings.lowmem_reserve_ratio,
            set: |settings, ratios| settings.lowmem_reserve_ratio.copy_from_slice(ratios),
        },
    )
    .acts_on(
        Subsystem::Zones,
        "part, as its reciprocal, of the zones above that a zone keeps in reserve from their requests; 0 reserves nothing",
    ),
    integer("vm.swappiness", 0, 200, number!(swappiness)).acts_on(
        Subsystem::Reclaim,
        "how expensive reading files again is against swapping: 100 means equally, 0 swaps in an emergency only",
    ),
    Setting::new(
        "lru_gen/enabled",
        Kind::Bits {
            zero: "the classic LRU",
            bits: &[
                (1, "the multi-gen LRU"),
                (2, "its walks of page tables"),
                (4, "accessed bits of page tables that map page tables"),
            ],
        },
        Place::Number {
            get: |settings| {
                let bits = settings.lru_gen;
                let (enabled, mm_walk, nonleaf_young) = (bits.enabled, bits.mm_walk, bits.nonleaf_young);
                Some(u64::from(enabled) | u64::from(mm_walk) << 1 | u64::from(nonleaf_young) << 2)
            },
            set: |settings, value| {
                settings.lru_gen.enabled = value & 1 != 0;
                settings.lru_gen.mm_walk = value & 2 != 0;
                settings.lru_gen.nonleaf_young = value & 4 != 0;
            },
        },
    )
    .acts_on(
        Subsystem::Reclaim,
        "which LRU is used, in kernels that have the multi-gen LRU, and how it finds what was used",
    ),
    integer("lru_gen/min_ttl_ms", 0, INT_MAX, number!(lru_gen_min_ttl_ms))
        .unit(Unit::Milliseconds)
        .logarithmic()
        .acts_on(
            Subsystem::Reclaim,
            "how long the working set is kept from eviction; without enough other memory a process is killed",
        ),
    integer(
        "vm.dirty_background_ratio",
        0,
        100,
        dirty_limit!(dirty_background_ratio, instead of dirty_background_bytes),
    )
    .unit(Unit::Percent)
    .acts_on(
        Subsystem::Writeback,
        "dirty pages of files above which flushers write, of free memory and pages of files",
    ),
    integer(
        "vm.dirty_background_bytes",
        1,
        LONG_MAX,
        dirty_limit!(dirty_background_bytes, instead of dirty_background_ratio),
    )
    .unit(Unit::Bytes)
    .logarithmic()
    .acts_on(
        Subsystem::Writeback,
        "the limit of vm.dirty_background_ratio in bytes; vm.dirty_background_ratio is 0 once it is set",
    ),
    integer("vm.dirty_ratio", 0, 100, dirty_limit!(dirty_ratio, instead of dirty_bytes))
        .unit(Unit::Percent)
        .acts_on(
            Subsystem::Writeback,
            "dirty pages of files at which writers stand still, of free memory and pages of files; halfway from the background limit they slow down",
        ),
    Setting::new(
        "vm.dirty_bytes",
        Kind::Integer { least: Limit::BasePages(2), most: Limit::At(LONG_MAX), special: &[] },
        dirty_limit!(dirty_bytes, instead of dirty_ratio),
    )
    .unit(Unit::Bytes)
    .logarithmic()
    .acts_on(Subsystem::Writeback, "the limit of vm.dirty_ratio in bytes; vm.dirty_ratio is 0 once it is set"),
    integer("vm.dirty_expire_centisecs", 0, INT_MAX, number!(dirty.dirty_expire_centisecs))
        .unit(Unit::Centiseconds)
        .logarithmic()
        .acts_on(Subsystem::Writeback, "how long a file may be dirty before flushers write it in any case"),
    integer_and(
        "vm.dirty_writeback_centisecs",
        0,
        INT_MAX,
        &[(0, "never")],
        number!(dirty.dirty_writeback_centisecs),
    )
    .unit(Unit::Centiseconds)
    .logarithmic()
    .acts_on(Subsystem::Writeback, "how often flushers look for files that have been dirty for too long"),
    integer_and("vm.page-cluster", 0, 31, &[(0, "a page at a time")], number!(page_cluster))
        .unit(Unit::Log2Pages)
        .acts_on(
            Subsystem::Swap,
            "how much is read from swap at a time at most; devices that read at once read a page",
        ),
    switch("swap/vma_ra_enabled", number!(vma_ra_enabled is on)).acts_on(
        Subsystem::Swap,
        "what is read ahead from swap lies together in memory (1), or on the device, as with rotating disks (0)",
    ),
    integer_and("queue/read_ahead_kb", 0, 1 << 20, &[(0, "a page at a time")], number!(read_ahead_kb))
        .unit(Unit::KiB)
        .logarithmic()
        .acts_on(
            Subsystem::Readahead,
            "the longest window that is read ahead of a program, of all devices with files",
        ),
    integer("queue/max_sectors_kb", 4, 1 << 20, number!(max_sectors_kb))
        .unit(Unit::KiB)
        .logarithmic()
        .acts_on(Subsystem::Readahead, "up to how much is read at once of a request that is longer than a window"),
    integer_and(
        "queue/wbt_lat_usec",
        0,
        u64::MAX,
        &[(0, "off, as in kernels without CONFIG_BLK_WBT")],
        number!(wbt_lat_usec),
    )
    .unit(Unit::Microseconds)
    .acts_on(
        Subsystem::Writeback,
        "whether flushers have no more than 4 requests under way, 8 while reclaim waits, 16 while writers do (blk-wbt)",
    ),
    integer("queue/nr_requests", 1, 1 << 16, number!(nr_requests))
        .unit(Unit::Requests)
        .logarithmic()
        .acts_on(
            Subsystem::Writeback,
            "how many requests flushers have under way where queue/wbt_lat_usec is 0",
        ),
    integer("vm.extfrag_threshold", 0, 1000, number!(extfrag_threshold))
        .unit(Unit::PerThousand)
        .acts_on(
            Subsystem::Compaction,
            "fragmentation index above which a failing request compacts rather than reclaims",
        ),
    integer_and(
        "vm.compaction_proactiveness",
        0,
        100,
        &[(0, "off")],
        number!(compaction_proactiveness),
    )
    .unit(Unit::Percent)
    .acts_on(
        Subsystem::Kcompactd,
        "how scattered free memory may be before kcompactd compacts of its own accord",
    ),
    switch("zswap.enabled", number!(zswap.enabled is on)).acts_on(
        Subsystem::Swap,
        "pages that are swapped out are compressed and kept in memory, as long as the pool has room (zswap)",
    ),
    integer("zswap.max_pool_percent", 0, 100, number!(zswap.max_pool_percent))
        .unit(Unit::Percent)
        .acts_on(Subsystem::Swap, "the most memory that zswap's pool takes, of all"),
    integer("zswap.accept_threshold_percent", 0, 100, number!(zswap.accept_threshold_percent))
        .unit(Unit::Percent)
        .acts_on(
            Subsystem::Swap,
            "how full a pool that was full may be to take pages again, of the most; so far it is written back",
        ),
    switch("zswap.shrinker_enabled", number!(zswap.shrinker_enabled is on)).since("6.8", Known::Source).acts_on(
        Subsystem::Swap,
        "pages of zswap's pool go to the device where memory is short, not only where the pool is full",
    ),
    switch("zswap_ever_enabled", number!(zswap_ever_enabled is on)).not_in_mainline().acts_on(
        Subsystem::Swap,
        "zswap was on once and holds nothing: no large folio comes back from swap as one",
    ),
    switch("damon_reclaim.enabled", number!(damon_reclaim.enabled is on)).acts_on(
        Subsystem::Damon,
        "memory that has not been accessed for long is paged out before it runs short (DAMON_RECLAIM)",
    ),
    integer("damon_reclaim.min_age", 0, LONG_MAX, number!(damon_reclaim.min_age))
        .unit(Unit::Microseconds)
        .acts_on(Subsystem::Damon, "for how long no access must have been seen in a region"),
    integer_and("damon_reclaim.quota_ms", 0, LONG_MAX, &[(0, "no limit")], number!(damon_reclaim.quota_ms))
        .unit(Unit::Milliseconds)
        .acts_on(Subsystem::Damon, "the longest that paging out may take in a window of the quota"),
    integer_and("damon_reclaim.quota_sz", 0, LONG_MAX, &[(0, "no limit")], number!(damon_reclaim.quota_sz))
        .unit(Unit::Bytes)
        .acts_on(Subsystem::Damon, "how much may be tried in a window of the quota"),
    integer(
        "damon_reclaim.quota_reset_interval_ms",
        0,
        LONG_MAX,
        number!(damon_reclaim.quota_reset_interval_ms),
    )
    .unit(Unit::Milliseconds)
    .acts_on(Subsystem::Damon, "how long a window of the quota is"),
    integer("damon_reclaim.wmarks_interval", 0, LONG_MAX, number!(damon_reclaim.wmarks.interval))
        .unit(Unit::Microseconds)
        .acts_on(Subsystem::Damon, "how often it looks at free memory while it does nothing"),
    integer("damon_reclaim.wmarks_high", 0, LONG_MAX, number!(damon_reclaim.wmarks.high))
        .unit(Unit::PerThousand)
        .acts_on(Subsystem::Damon, "with more memory free it does nothing, and stops"),
    integer("damon_reclaim.wmarks_mid", 0, LONG_MAX, number!(damon_reclaim.wmarks.mid))
        .unit(Unit::PerThousand)
        .acts_on(Subsystem::Damon, "with less memory free it begins"),
    integer("damon_reclaim.wmarks_low", 0, LONG_MAX, number!(damon_reclaim.wmarks.low))
        .unit(Unit::PerThousand)
        .acts_on(Subsystem::Damon, "with less memory free it leaves all to reclaim"),
    integer("damon_reclaim.sample_interval", 0, LONG_MAX, number!(damon_reclaim.sample_interval))
        .unit(Unit::Microseconds)
        .acts_on(Subsystem::Damon, "between two looks at a page of each region"),
    integer("damon_reclaim.aggr_interval", 1, LONG_MAX, number!(damon_reclaim.aggr_interval))
        .unit(Unit::Microseconds)
        .acts_on(Subsystem::Damon, "how long accesses of a region are counted before it is judged"),
    integer("damon_reclaim.min_nr_regions", 3, LONG_MAX, number!(damon_reclaim.min_nr_regions))
        .acts_on(Subsystem::Damon, "into how many regions memory is divided at least"),
    integer("damon_reclaim.max_nr_regions", 3, LONG_MAX, number!(damon_reclaim.max_nr_regions))
        .acts_on(Subsystem::Damon, "into how many regions memory is divided at most"),
    Setting::new(
        "transparent_hugepage/enabled",
        Kind::Choice(&Enabled::WORDS),
        word!(transparent_hugepage.enabled, Enabled),
    )
    .acts_on(
        Subsystem::LargeFolios,
        "where faults and khugepaged make huge pages; sizes whose file says inherit follow it",
    ),
    Setting::new(
        "transparent_hugepage/defrag",
        Kind::Choice(&Defrag::WORDS),
        word!(transparent_hugepage.defrag, Defrag),
    )
    .acts_on(
        Subsystem::LargeFolios,
        "which faults reclaim and compact for a large folio, or wake those who do",
    ),
    switch("transparent_hugepage/use_zero_page", number!(transparent_hugepage.use_zero_page is on)).acts_on(
        Subsystem::LargeFolios,
        "whether reading maps a huge page of zeroes that all processes share",
    ),
    switch("transparent_hugepage/shrink_underused", number!(transparent_hugepage.shrink_underused is on))
        .since("6.12", Known::Mail)
        .acts_on(
            Subsystem::LargeFolios,
            "whether huge pages that are mostly zero are split when memory is short",
        ),
    mode_of_size!(16 kB, "16 and 64 KiB"),
    mode_of_size!(32 kB, "16 and 64 KiB"),
    mode_of_size!(64 kB, "64 KiB"),
    mode_of_size!(128 kB, "64 KiB"),
    mode_of_size!(256 kB),
    mode_of_size!(512 kB),
    mode_of_size!(1024 kB),
    mode_of_size!(2048 kB),
    mode_of_size!(4096 kB, "4 KiB"),
    mode_of_size!(8192 kB, "4 KiB"),
    mode_of_size!(16384 kB, "4 KiB"),
    mode_of_size!(32768 kB, "4 KiB"),
    mode_of_size!(65536 kB, "4 and 16 KiB"),
    mode_of_size!(131072 kB, "4 and 16 KiB"),
    mode_of_size!(262144 kB, "4 and 16 KiB"),
    mode_of_size!(524288 kB, "4 and 16 KiB"),
    switch(
        "transparent_hugepage/khugepaged/defrag",
        number!(transparent_hugepage.khugepaged.defrag is on),
    )
    .acts_on(Subsystem::LargeFolios, "whether khugepaged reclaims and compacts for a huge page"),
    integer(
        "transparent_hugepage/khugepaged/pages_to_scan",
        1,
        UINT_MAX,
        number!(transparent_hugepage.khugepaged.pages_to_scan as u32),
    )
    .unit(Unit::Pages)
    .logarithmic()
    .acts_on(Subsystem::LargeFolios, "pages that khugepaged scans in a round"),
    integer(
        "transparent_hugepage/khugepaged/scan_sleep_millisecs",
        0,
        UINT_MAX,
        number!(transparent_hugepage.khugepaged.scan_sleep_millisecs as u32),
    )
    .unit(Unit::Milliseconds)
    .logarithmic()
    .acts_on(Subsystem::LargeFolios, "pause of khugepaged between two rounds"),
    integer(
        "transparent_hugepage/khugepaged/alloc_sleep_millisecs",
        0,
        UINT_MAX,
        number!(transparent_hugepage.khugepaged.alloc_sleep_millisecs as u32),
    )
    .unit(Unit::Milliseconds)
    .logarithmic()
    .acts_on(Subsystem::LargeFolios, "pause after khugepaged got no huge page"),
    max_ptes(
        "transparent_hugepage/khugepaged/max_ptes_none",
        number!(transparent_hugepage.khugepaged.max_ptes_none as u32),
        "how many entries of a huge page may have nothing and be collapsed all the same; more zeroes make a huge page underused",
    ),
    max_ptes(
        "transparent_hugepage/khugepaged/max_ptes_swap",
        number!(transparent_hugepage.khugepaged.max_ptes_swap as u32),
        "how many entries of a huge page may be swapped out and be collapsed all the same",
    ),
    max_ptes(
        "transparent_hugepage/khugepaged/max_ptes_shared",
        number!(transparent_hugepage.khugepaged.max_ptes_shared as u32),
        "how many entries of a huge page may be shared by processes and be collapsed all the same",
    ),
    switch("transparent_hugepage/anon_beside_full", number!(transparent_hugepage.anon_beside_full is on))
        .not_in_mainline()
        .acts_on(
            Subsystem::LargeFolios,
            "whether faults make large folios only beside windows of the same size that are full",
        ),
    Setting::new(
        "thp_anon",
        Kind::Text("sizes with modes, such as 16K-64K:always;2M:inherit"),
        Place::Text(|settings, value| settings.transparent_hugepage.boot_thp_anon(value)),
    )
    .since("6.12", Known::Mail)
    .of_command_line()
    .acts_on(
        Subsystem::LargeFolios,
        "modes of all sizes at boot (kernel command line); sizes that it does not name are at never",
    ),
    Setting::new(
        "flexthp_unhinted_max",
        Kind::PowerOfTwo { least: Limit::BasePages(1), most: Limit::HugePage },
        Place::Number {
            get: |settings| {
                let thp = &settings.transparent_hugepage;
                Some(thp.page_size.bytes() << thp.flexthp_unhinted_max)
            },
            set: |settings, value| settings.transparent_hugepage.boot_flexthp_unhinted_max(value),
        },
    )
    .unit(Unit::Bytes)
    .logarithmic()
    .not_in_mainline()
    .of_command_line()
    .acts_on(
        Subsystem::LargeFolios,
        "largest folio without MADV_HUGEPAGE in version 3 of the series (kernel command line)",
    ),
    integer_and(
        "vm.hugetlb_optimize_vmemmap",
        0,
        u64::MAX,
        &[(0, "off")],
        number!(hugetlb_optimize_vmemmap is on),
    )
    .acts_on(
        Subsystem::HugetlbPools,
        "whether huge pages that enter a pool from now on give back most of their vmemmap",
    ),
    integer("hugepages-2048kB/boot", 0, u64::MAX, number!(boot_huge_pages[0]))
        .unit(Unit::HugePages)
        .logarithmic()
        .of_command_line()
        .acts_on(
            Subsystem::HugetlbPools,
            "huge pages that boot allocates (kernel command line: hugepagesz=2M hugepages=N)",
        ),
    integer("hugepages-1048576kB/boot", 0, u64::MAX, number!(boot_huge_pages[1]))
        .unit(Unit::HugePages)
        .logarithmic()
        .of_command_line()
        .acts_on(
            Subsystem::HugetlbPools,
            "gigantic pages that boot allocates (kernel command line: hugepagesz=1G hugepages=N)",
        ),
    integer_and(
        "hugepage_alloc_threads",
        0,
        u64::MAX,
        &[(0, "one for four CPUs")],
        number!(hugepage_alloc_threads),
    )
    .unit(Unit::Threads)
    .logarithmic()
    .since("6.15", Known::Mail)
    .of_command_line()
    .acts_on(Subsystem::HugetlbPools, "threads that allocate huge pages of boot time (kernel command line)"),
    integer("slab_max_order", 0, 10, number!(slab_max_order as u8))
        .unit(Unit::Log2Pages)
        .of_command_line()
        .acts_on(
            Subsystem::Slabs,
            "the largest order of a slab, but where one object needs more (kernel command line; slub_max_order before 6.8)",
        ),
    integer_and("slab_min_objects", 0, 32767, &[(0, "4 for each doubling of CPUs")], number!(slab_min_objects as u32))
        .unit(Unit::Objects)
        .logarithmic()
        .of_command_line()
        .acts_on(
            Subsystem::Slabs,
            "objects that a slab should have (kernel command line; slub_min_objects before 6.8)",
        ),
    integer("tlb_single_page_flush_ceiling", 0, INT_MAX, number!(tlb_single_page_flush_ceiling))
        .unit(Unit::Pages)
        .logarithmic()
        .acts_on(
            Subsystem::TlbFlushes,
            "the largest range that is flushed page by page from translation caches",
        ),
    Setting::new(
        "kernel.numa_balancing",
        Kind::Bits { zero: "off", bits: &[(1, "placement"), (2, "memory tiering")] },
        Place::Number {
            get: |settings| Some(u64::from(settings.numa.balancing) | u64::from(settings.numa.tiering) << 1),
            set: |settings, value| {
                (settings.numa.balancing, settings.numa.tiering) = (value & 1 != 0, value & 2 != 0);
            },
        },
    )
    .acts_on(
        Subsystem::NumaBalancing,
        "whether threads and memory are brought together, and hot pages of slow memory promoted",
    ),
    integer("numa_balancing/scan_delay_ms", 0, UINT_MAX, number!(numa.scan_delay_ms))
        .unit(Unit::Milliseconds)
        .logarithmic()
        .acts_on(
            Subsystem::NumaBalancing,
            "CPU time before a new process is scanned and, from 6.4 on, time before a new VMA is",
        ),
    integer("numa_balancing/scan_period_min_ms", 0, UINT_MAX, number!(numa.scan_period_min_ms))
        .unit(Unit::Milliseconds)
        .logarithmic()
        .acts_on(
            Subsystem::NumaBalancing,
            "the least CPU time of a thread in which the whole address space is scanned",
        ),
    integer("numa_balancing/scan_period_max_ms", 0, UINT_MAX, number!(numa.scan_period_max_ms))
        .unit(Unit::Milliseconds)
        .logarithmic()
        .acts_on(
            Subsystem::NumaBalancing,
            "the most CPU time of a thread in which the whole address space is scanned",
        ),
    integer("numa_balancing/scan_size_mb", 1, UINT_MAX, number!(numa.scan_size_mb))
        .unit(Unit::MiB)
        .logarithmic()
        .acts_on(Subsystem::NumaBalancing, "how much of an address space one pass scans"),
    integer("numa_balancing/hot_threshold_ms", 0, UINT_MAX, number!(numa.hot_threshold_ms))
        .unit(Unit::Milliseconds)
        .logarithmic()
        .acts_on(
            Subsystem::NumaBalancing,
            "a page of slow memory is hot if it is touched so soon after it was scanned",
        ),
    integer(
        "kernel.numa_balancing_promote_rate_limit_MBps",
        0,
        UINT_MAX,
        number!(numa.promote_rate_limit_mbps),
    )
    .unit(Unit::MegabytesPerSecond)
    .logarithmic()
    .acts_on(Subsystem::NumaBalancing, "how much memory may be promoted, from each node"),
    switch("numa/demotion_enabled", number!(numa.demotion is on)).acts_on(
        Subsystem::Demotion,
        "whether reclaim of nodes with CPUs moves pages to nodes without",
    ),
    integer_and(
        "fail_page_alloc/nth",
        0,
        u64::MAX,
        &[(0, "none")],
        number!(fail_page_alloc.nth),
    )
    .unit(Unit::Allocations)
    .acts_on(
        Subsystem::FailPageAlloc,
        "which allocation for huge pages and their vmemmap fails, counted from 1",
    ),
    integer("fail_page_alloc/ppm", 0, 1_000_000, number!(fail_page_alloc.ppm))
        .unit(Unit::PerMillion)
        .logarithmic()
        .acts_on(
            Subsystem::FailPageAlloc,
            "how many allocations for huge pages and their vmemmap fail, at random",
        ),
    integer_and("failslab/nth", 0, u64::MAX, &[(0, "none")], number!(failslab.nth))
        .unit(Unit::Allocations)
        .acts_on(
            Subsystem::Failslab,
            "which allocation of a VMA's record of NUMA scanning, or of a memory cgroup's list of folios to be split (7.2), fails, counted from 1",
        ),
    integer("failslab/ppm", 0, 1_000_000, number!(failslab.ppm))
        .unit(Unit::PerMillion)
        .logarithmic()
        .acts_on(Subsystem::Failslab, "how many of the allocations of failslab/nth fail, at random"),
];
