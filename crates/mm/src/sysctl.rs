//! Settings under their kernel names, with the kernel's defaults, bounds and errors.
//!
//! Everything a setting is, is said in [`SETTINGS`]; help texts, checks and `/proc`-like listings come from there.

use crate::address_space::huge_memory::features::ThpFiles;
use crate::address_space::huge_memory::settings::{ThpSettings, show_number, write_number};
use crate::allocator::fault_injection::FaultAttr;
use machine::{PageSize, WrongValue};
use strsim::jaro_winkler;
use thiserror::Error;

/// A setting that can be given as `--set NAME=VALUE`.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The kernel's name.
    pub name: &'static str,
    /// Default as the kernel prints it; "computed" where it depends on the machine.
    pub default: &'static str,
    /// What values the kernel takes.
    pub accepts: &'static str,
    /// What it does, in a line.
    pub description: &'static str,
    apply: Apply,
}

/// How a value is read and taken; whether it is one that the kernel takes.
#[derive(Clone, Copy, Debug)]
enum Apply {
    /// A number.
    Number(fn(&mut Settings, u64) -> bool),
    /// Numbers separated by spaces.
    Numbers(fn(&mut Settings, &[u64]) -> bool),
    /// As it is.
    Text(fn(&mut Settings, &str) -> bool),
    /// A file of `transparent_hugepage`, which can be read too.
    File { write: fn(&mut ThpSettings, &str) -> bool, show: fn(&ThpSettings) -> String },
    /// The file of so many KiB there, which says where faults make folios of that size.
    Size(u64),
}

impl Apply {
    fn apply(self, settings: &mut Settings, value: &str) -> bool {
        match self {
            Apply::Number(apply) => value.trim().parse().is_ok_and(|number| apply(settings, number)),
            Apply::Numbers(apply) => {
                let numbers: Result<Vec<u64>, _> = value.split_whitespace().map(str::parse).collect();
                numbers.is_ok_and(|numbers| apply(settings, &numbers))
            }
            Apply::Text(apply) => apply(settings, value),
            Apply::File { write, .. } => write(&mut settings.transparent_hugepage, value),
            Apply::Size(kib) => {
                let thp = &mut settings.transparent_hugepage;
                thp.order_of(kib << 10).is_some_and(|order| thp.write_mode(order, value))
            }
        }
    }
}

impl Setting {
    /// Whether kernels with pages of this size have it: not every size of folios is a multiple of every page.
    pub fn exists(&self, page_size: PageSize) -> bool {
        match self.apply {
            Apply::Size(kib) => ThpSettings::new(page_size).order_of(kib << 10).is_some(),
            _ => true,
        }
    }

    /// Whether it is that of one size of folios.
    pub(crate) fn is_of_size(&self) -> bool {
        matches!(self.apply, Apply::Size(_))
    }

    /// What reading its file gives, where it is a file of `transparent_hugepage`.
    pub fn show(&self, settings: &Settings) -> Option<String> {
        let thp = &settings.transparent_hugepage;
        match self.apply {
            Apply::File { show, .. } => Some(show(thp)),
            Apply::Size(kib) => thp.order_of(kib << 10).map(|order| thp.show_mode(order)),
            _ => None,
        }
    }
}

/// Values of all settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
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
    /// `tlb_single_page_flush_ceiling`: flushes of more kernel pages than this flush everything.
    pub tlb_single_page_flush_ceiling: u64,
    /// `zswap_ever_enabled`: zswap was on once and holds nothing.
    pub zswap_ever_enabled: bool,
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
            tlb_single_page_flush_ceiling: 33,
            zswap_ever_enabled: false,
            numa: NumaSettings::default(),
            fail_page_alloc: FaultAttr::default(),
            failslab: FaultAttr::default(),
        }
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

/// Smallest fraction that `vm.percpu_pagelist_high_fraction` takes besides 0.
pub const MIN_PERCPU_PAGELIST_HIGH_FRACTION: u64 = 8;

const INT_MAX: u64 = i32::MAX as u64;
const UINT_MAX: u64 = u32::MAX as u64;
const LONG_MAX: u64 = i64::MAX as u64;

fn assign(place: &mut u64, value: u64, allowed: std::ops::RangeInclusive<u64>) -> bool {
    let fits = allowed.contains(&value);
    if fits {
        *place = value;
    }
    fits
}

/// Sets a limit of dirty pages, which takes the place of the same in the other unit.
fn limit_dirty(place: &mut u64, value: u64, allowed: std::ops::RangeInclusive<u64>, other: &mut u64) -> bool {
    let before = *place;
    let fits = assign(place, value, allowed);
    if *place != before {
        *other = 0;
    }
    fits
}

/// A file of `transparent_hugepage`: with what reads and writes it, a number, or the mode of a size.
macro_rules! thp_file {
    ($name:expr, $default:literal, $accepts:literal, $description:expr, $write:expr, $show:expr) => {
        Setting {
            name: $name,
            default: $default,
            accepts: $accepts,
            description: $description,
            apply: Apply::File { write: $write, show: $show },
        }
    };
    ($name:literal, $default:literal, $accepts:literal, $description:literal, $allowed:expr => $($field:ident).+) => {
        thp_file!(
            concat!("transparent_hugepage/", $name),
            $default,
            $accepts,
            $description,
            |thp, value| write_number(&mut thp.$($field).+, value, $allowed),
            |thp| show_number(thp.$($field).+)
        )
    };
    (max_ptes $name:ident, $default:literal, $description:literal) => {
        thp_file!(
            concat!("transparent_hugepage/khugepaged/", stringify!($name)),
            $default,
            "0 to 511 (to 2047 with pages of 16 KiB, to 8191 of 64 KiB)",
            $description,
            |thp, value| thp.write_max_ptes(value, |khugepaged| &mut khugepaged.$name),
            |thp| show_number(thp.khugepaged.$name)
        )
    };
}

/// The file of a size of folios; in the end, with which pages there is none.
macro_rules! thp_size {
    ($kib:literal kB, $default:literal $(, $not:literal)?) => {
        Setting {
            name: concat!("transparent_hugepage/hugepages-", $kib, "kB/enabled"),
            default: $default,
            accepts: "always, inherit, madvise or never",
            description: concat!("where faults make folios of ", $kib, " KiB" $(, "; not with pages of ", $not)?),
            apply: Apply::Size($kib),
        }
    };
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "vm.percpu_pagelist_high_fraction",
        default: "0",
        accepts: "0 (auto-tuned), or 8 and more",
        description: "part of a zone that its per-CPU pagesets may hold together; setting it ends auto-tuning",
        apply: Apply::Number(|s, value| {
            (value == 0 || value >= MIN_PERCPU_PAGELIST_HIGH_FRACTION)
                && assign(&mut s.percpu_pagelist_high_fraction, value, 0..=INT_MAX)
        }),
    },
    Setting {
        name: "vm.min_free_kbytes",
        default: "computed",
        accepts: "0 to 2147483647",
        description: "memory that stays free for those who cannot wait, kB",
        apply: Apply::Number(|s, value| {
            s.min_free_kbytes = Some(value);
            value <= INT_MAX
        }),
    },
    Setting {
        name: "vm.watermark_scale_factor",
        default: "10",
        accepts: "1 to 3000",
        description: "distance between watermarks, in 1/10000 of a zone",
        apply: Apply::Number(|s, value| assign(&mut s.watermark_scale_factor, value, 1..=3000)),
    },
    Setting {
        name: "vm.watermark_boost_factor",
        default: "15000",
        accepts: "0 to 2147483647",
        description: "how far fragmentation may raise watermarks, in 1/10000 of the high mark; 0 disables",
        apply: Apply::Number(|s, value| assign(&mut s.watermark_boost_factor, value, 0..=INT_MAX)),
    },
    Setting {
        name: "vm.stat_interval",
        default: "1",
        accepts: "1 to 2147483647",
        description: "seconds between two runs of a CPU's vmstat worker, which also lowers pcp->high",
        apply: Apply::Number(|s, value| assign(&mut s.stat_interval, value, 1..=INT_MAX)),
    },
    Setting {
        name: "vm.lowmem_reserve_ratio",
        default: "256 256 32 0",
        accepts: "four numbers separated by spaces, for DMA, DMA32, Normal and Movable; 0 reserves nothing",
        description: "what part of the zones above a zone keeps in reserve from their requests",
        apply: Apply::Numbers(|s, values| match values.try_into() {
            Ok(ratios) => {
                s.lowmem_reserve_ratio = ratios;
                true
            }
            Err(_) => false,
        }),
    },
    Setting {
        name: "vm.swappiness",
        default: "60",
        accepts: "0 to 200",
        description: "how dear reading files again is against swapping: 100 is alike, 0 swaps in an emergency only",
        apply: Apply::Number(|s, value| assign(&mut s.swappiness, value, 0..=200)),
    },
    Setting {
        name: "lru_gen/enabled",
        default: "7",
        accepts: "0 (classic LRU) to 7: 1 the multi-gen LRU, 2 walks of page tables, 4 accessed bits of tables",
        description: "which LRU is used, in kernels that have the multi-gen LRU, and how it finds what was used",
        apply: Apply::Number(|s, value| {
            s.lru_gen.enabled = value & 1 != 0;
            s.lru_gen.mm_walk = value & 2 != 0;
            s.lru_gen.nonleaf_young = value & 4 != 0;
            value <= 7
        }),
    },
    Setting {
        name: "lru_gen/min_ttl_ms",
        default: "0",
        accepts: "0 and more",
        description: "how long the working set is kept from eviction, ms; without enough other memory a process is killed",
        apply: Apply::Number(|s, value| assign(&mut s.lru_gen_min_ttl_ms, value, 0..=INT_MAX)),
    },
    Setting {
        name: "vm.dirty_background_ratio",
        default: "10",
        accepts: "0 to 100",
        description: "dirty pages of files above which flushers write, per cent of free memory and pages of files",
        apply: Apply::Number(|s, value| {
            limit_dirty(
                &mut s.dirty.dirty_background_ratio,
                value,
                0..=100,
                &mut s.dirty.dirty_background_bytes,
            )
        }),
    },
    Setting {
        name: "vm.dirty_background_bytes",
        default: "0",
        accepts: "1 and more; vm.dirty_background_ratio is 0 then",
        description: "the limit of vm.dirty_background_ratio in bytes",
        apply: Apply::Number(|s, value| {
            limit_dirty(
                &mut s.dirty.dirty_background_bytes,
                value,
                1..=LONG_MAX,
                &mut s.dirty.dirty_background_ratio,
            )
        }),
    },
    Setting {
        name: "vm.dirty_ratio",
        default: "20",
        accepts: "0 to 100",
        description: "dirty pages of files at which writers stand still, per cent of the same; halfway from the other limit they slow down",
        apply: Apply::Number(|s, value| {
            limit_dirty(&mut s.dirty.dirty_ratio, value, 0..=100, &mut s.dirty.dirty_bytes)
        }),
    },
    Setting {
        name: "vm.dirty_bytes",
        default: "0",
        accepts: "two pages and more; vm.dirty_ratio is 0 then",
        description: "the limit of vm.dirty_ratio in bytes",
        apply: Apply::Number(|s, value| {
            let least = 2 * s.page_size().bytes();
            limit_dirty(&mut s.dirty.dirty_bytes, value, least..=LONG_MAX, &mut s.dirty.dirty_ratio)
        }),
    },
    Setting {
        name: "vm.dirty_expire_centisecs",
        default: "3000",
        accepts: "0 to 2147483647",
        description: "how long a file may be dirty before flushers write it in any case, 1/100 s",
        apply: Apply::Number(|s, value| assign(&mut s.dirty.dirty_expire_centisecs, value, 0..=INT_MAX)),
    },
    Setting {
        name: "vm.dirty_writeback_centisecs",
        default: "500",
        accepts: "0 (never) to 2147483647",
        description: "how often flushers look for such files, 1/100 s",
        apply: Apply::Number(|s, value| assign(&mut s.dirty.dirty_writeback_centisecs, value, 0..=INT_MAX)),
    },
    Setting {
        name: "vm.page-cluster",
        default: "3",
        accepts: "0 (a page at a time) to 31",
        description: "how much is read from swap at a time at most, log2 of the pages; devices that read at once read a page",
        apply: Apply::Number(|s, value| assign(&mut s.page_cluster, value, 0..=31)),
    },
    Setting {
        name: "swap/vma_ra_enabled",
        default: "1",
        accepts: "0 or 1",
        description: "what is read ahead from swap lies together in memory (1), or on the device, as with rotating disks (0)",
        apply: Apply::Number(|s, value| {
            s.vma_ra_enabled = value == 1;
            value <= 1
        }),
    },
    Setting {
        name: "queue/read_ahead_kb",
        default: "128",
        accepts: "0 (a page at a time) to 1048576",
        description: "the longest window that is read ahead of a program, of all devices with files, KiB",
        apply: Apply::Number(|s, value| assign(&mut s.read_ahead_kb, value, 0..=1 << 20)),
    },
    Setting {
        name: "queue/max_sectors_kb",
        default: "1280",
        accepts: "4 to 1048576",
        description: "up to how much is read at once of a request that is longer than a window, KiB",
        apply: Apply::Number(|s, value| assign(&mut s.max_sectors_kb, value, 4..=1 << 20)),
    },
    Setting {
        name: "queue/wbt_lat_usec",
        default: "2000",
        accepts: "0 (off, as in kernels without CONFIG_BLK_WBT), or any other number (on)",
        description: "whether flushers have no more than 4 requests under way, 8 while reclaim waits, 16 while writers do (blk-wbt)",
        apply: Apply::Number(|s, value| assign(&mut s.wbt_lat_usec, value, 0..=u64::MAX)),
    },
    Setting {
        name: "queue/nr_requests",
        default: "256",
        accepts: "1 to 65536",
        description: "how many requests flushers have under way where queue/wbt_lat_usec is 0",
        apply: Apply::Number(|s, value| assign(&mut s.nr_requests, value, 1..=1 << 16)),
    },
    Setting {
        name: "vm.extfrag_threshold",
        default: "500",
        accepts: "0 to 1000",
        description: "fragmentation index above which a failing request compacts rather than reclaims",
        apply: Apply::Number(|s, value| assign(&mut s.extfrag_threshold, value, 0..=1000)),
    },
    Setting {
        name: "vm.compaction_proactiveness",
        default: "20",
        accepts: "0 (off) to 100",
        description: "how scattered free memory may be before kcompactd compacts of its own accord, percent",
        apply: Apply::Number(|s, value| assign(&mut s.compaction_proactiveness, value, 0..=100)),
    },
    Setting {
        name: "zswap_ever_enabled",
        default: "0",
        accepts: "0 or 1",
        description: "zswap, itself not modelled, was on once and held nothing: no large folio comes back from swap as one",
        apply: Apply::Number(|s, value| {
            s.zswap_ever_enabled = value != 0;
            value <= 1
        }),
    },
    thp_file!(
        "transparent_hugepage/enabled",
        "madvise",
        "always, madvise or never",
        "where faults and khugepaged make huge pages; sizes whose file says inherit follow it",
        |thp, value| thp.write_enabled(value),
        |thp| thp.show_enabled()
    ),
    thp_file!(
        "transparent_hugepage/defrag",
        "madvise",
        "always, defer, defer+madvise, madvise or never",
        "which faults reclaim and compact for a large folio, or wake those who do",
        |thp, value| thp.write_defrag(value),
        |thp| thp.show_defrag()
    ),
    thp_file!("use_zero_page", "1", "0 or 1", "whether reading maps a huge page of zeroes that all share", 0..=1 => use_zero_page),
    thp_file!("shrink_underused", "1", "0 or 1", "whether huge pages that are mostly zero are split when memory is short", 0..=1 => shrink_underused),
    thp_size!(16 kB, "never", "16 and 64 KiB"),
    thp_size!(32 kB, "never", "16 and 64 KiB"),
    thp_size!(64 kB, "never", "64 KiB"),
    thp_size!(128 kB, "never", "64 KiB"),
    thp_size!(256 kB, "never"),
    thp_size!(512 kB, "never"),
    thp_size!(1024 kB, "never"),
    thp_size!(2048 kB, "inherit (never with larger pages)"),
    thp_size!(4096 kB, "never", "4 KiB"),
    thp_size!(8192 kB, "never", "4 KiB"),
    thp_size!(16384 kB, "never", "4 KiB"),
    thp_size!(32768 kB, "inherit (never with pages of 64 KiB)", "4 KiB"),
    thp_size!(65536 kB, "never", "4 and 16 KiB"),
    thp_size!(131072 kB, "never", "4 and 16 KiB"),
    thp_size!(262144 kB, "never", "4 and 16 KiB"),
    thp_size!(524288 kB, "inherit", "4 and 16 KiB"),
    thp_file!("khugepaged/defrag", "1", "0 or 1", "whether khugepaged reclaims and compacts for a huge page", 0..=1 => khugepaged.defrag),
    thp_file!("khugepaged/pages_to_scan", "4096", "1 to 4294967295", "pages that khugepaged scans in a round", 1..=u32::MAX => khugepaged.pages_to_scan),
    thp_file!("khugepaged/scan_sleep_millisecs", "10000", "0 to 4294967295", "pause between two rounds, ms", 0..=u32::MAX => khugepaged.scan_sleep_millisecs),
    thp_file!("khugepaged/alloc_sleep_millisecs", "60000", "0 to 4294967295", "pause after khugepaged got no huge page, ms", 0..=u32::MAX => khugepaged.alloc_sleep_millisecs),
    thp_file!(max_ptes max_ptes_none, "511", "of 512 entries, how many may have nothing and be collapsed all the same; more zeroes make a huge page underused"),
    thp_file!(max_ptes max_ptes_swap, "64", "how many of them may be swapped out"),
    thp_file!(max_ptes max_ptes_shared, "256", "how many of them may be shared by processes"),
    thp_file!("anon_beside_full", "0", "0 or 1", "whether faults make large folios only beside windows of the same size that are full; not in mainline", 0..=1 => anon_beside_full),
    Setting {
        name: "thp_anon",
        default: "",
        accepts: "sizes with modes, such as 16K-64K:always;2M:inherit",
        description: "modes of all sizes at boot (kernel command line); sizes not named are at never",
        apply: Apply::Text(|s, value| s.transparent_hugepage.boot_thp_anon(value)),
    },
    Setting {
        name: "flexthp_unhinted_max",
        default: "65536",
        accepts: "a power of two from 4096 to 2097152 (with larger pages, from a page to a huge page)",
        description: "largest folio without MADV_HUGEPAGE in version 3 of the series, bytes (kernel command line)",
        apply: Apply::Number(|s, value| s.transparent_hugepage.boot_flexthp_unhinted_max(value)),
    },
    Setting {
        name: "vm.hugetlb_optimize_vmemmap",
        default: "0",
        accepts: "0 (off), or any other number (on)",
        description: "whether huge pages that enter a pool from now on give back most of their vmemmap",
        apply: Apply::Number(|s, value| {
            s.hugetlb_optimize_vmemmap = value != 0;
            true
        }),
    },
    Setting {
        name: "hugepages-2048kB/boot",
        default: "0",
        accepts: "0 and more",
        description: "huge pages that boot allocates (kernel command line: hugepagesz=2M hugepages=N)",
        apply: Apply::Number(|s, value| assign(&mut s.boot_huge_pages[0], value, 0..=u64::MAX)),
    },
    Setting {
        name: "hugepages-1048576kB/boot",
        default: "0",
        accepts: "0 and more",
        description: "gigantic pages that boot allocates (kernel command line: hugepagesz=1G hugepages=N)",
        apply: Apply::Number(|s, value| assign(&mut s.boot_huge_pages[1], value, 0..=u64::MAX)),
    },
    Setting {
        name: "hugepage_alloc_threads",
        default: "0 (one for four CPUs)",
        accepts: "0 and more",
        description: "threads that allocate huge pages of boot time from 6.15 on (kernel command line)",
        apply: Apply::Number(|s, value| assign(&mut s.hugepage_alloc_threads, value, 0..=u64::MAX)),
    },
    Setting {
        name: "tlb_single_page_flush_ceiling",
        default: "33",
        accepts: "0 and more",
        description: "the largest range, in pages, that is flushed page by page from translation caches",
        apply: Apply::Number(|s, value| assign(&mut s.tlb_single_page_flush_ceiling, value, 0..=INT_MAX)),
    },
    Setting {
        name: "kernel.numa_balancing",
        default: "1",
        accepts: "0 (off), 1 (placement), 2 (memory tiering) or 3 (both)",
        description: "whether threads and memory are brought together, and hot pages of slow memory promoted",
        apply: Apply::Number(|s, value| {
            (s.numa.balancing, s.numa.tiering) = (value & 1 != 0, value & 2 != 0);
            value <= 3
        }),
    },
    Setting {
        name: "numa_balancing/scan_delay_ms",
        default: "1000",
        accepts: "0 to 4294967295",
        description: "CPU time before a new process is scanned and, from 6.4 on, time before a new VMA is",
        apply: Apply::Number(|s, value| assign(&mut s.numa.scan_delay_ms, value, 0..=UINT_MAX)),
    },
    Setting {
        name: "numa_balancing/scan_period_min_ms",
        default: "1000",
        accepts: "0 to 4294967295",
        description: "the least CPU time of a thread in which the whole address space is scanned",
        apply: Apply::Number(|s, value| assign(&mut s.numa.scan_period_min_ms, value, 0..=UINT_MAX)),
    },
    Setting {
        name: "numa_balancing/scan_period_max_ms",
        default: "60000",
        accepts: "0 to 4294967295",
        description: "the most CPU time of a thread in which the whole address space is scanned",
        apply: Apply::Number(|s, value| assign(&mut s.numa.scan_period_max_ms, value, 0..=UINT_MAX)),
    },
    Setting {
        name: "numa_balancing/scan_size_mb",
        default: "256",
        accepts: "1 to 4294967295",
        description: "how much of an address space one pass scans",
        apply: Apply::Number(|s, value| assign(&mut s.numa.scan_size_mb, value, 1..=UINT_MAX)),
    },
    Setting {
        name: "numa_balancing/hot_threshold_ms",
        default: "1000",
        accepts: "0 to 4294967295",
        description: "a page of slow memory is hot if it is touched so soon after it was scanned",
        apply: Apply::Number(|s, value| assign(&mut s.numa.hot_threshold_ms, value, 0..=UINT_MAX)),
    },
    Setting {
        name: "kernel.numa_balancing_promote_rate_limit_MBps",
        default: "65536",
        accepts: "0 to 4294967295",
        description: "how much memory may be promoted, MB/s from each node",
        apply: Apply::Number(|s, value| assign(&mut s.numa.promote_rate_limit_mbps, value, 0..=UINT_MAX)),
    },
    Setting {
        name: "numa/demotion_enabled",
        default: "0",
        accepts: "0 or 1",
        description: "whether reclaim of nodes with CPUs moves pages to nodes without",
        apply: Apply::Number(|s, value| {
            s.numa.demotion = value == 1;
            value <= 1
        }),
    },
    Setting {
        name: "fail_page_alloc/nth",
        default: "0",
        accepts: "0 (none), or the number of an allocation, counted from 1",
        description: "which allocation for huge pages and their vmemmap fails",
        apply: Apply::Number(|s, value| assign(&mut s.fail_page_alloc.nth, value, 0..=u64::MAX)),
    },
    Setting {
        name: "fail_page_alloc/ppm",
        default: "0",
        accepts: "0 to 1000000",
        description: "how many of a million allocations for huge pages and their vmemmap fail, at random",
        apply: Apply::Number(|s, value| assign(&mut s.fail_page_alloc.ppm, value, 0..=1_000_000)),
    },
    Setting {
        name: "failslab/nth",
        default: "0",
        accepts: "0 (none), or the number of an allocation, counted from 1",
        description: "which allocation of a VMA's record of NUMA scanning, or of a memory cgroup's list of folios to be split (7.2), fails",
        apply: Apply::Number(|s, value| assign(&mut s.failslab.nth, value, 0..=u64::MAX)),
    },
    Setting {
        name: "failslab/ppm",
        default: "0",
        accepts: "0 to 1000000",
        description: "how many of a million of these allocations fail, at random",
        apply: Apply::Number(|s, value| assign(&mut s.failslab.ppm, value, 0..=1_000_000)),
    },
];

/// Why a setting was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingError {
    /// No such setting.
    #[error("{name}: no such setting; most like it: {}", most_like_setting(name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// It can be read only.
    #[error("{name}: permission denied (EACCES): it can be read only")]
    ReadOnly {
        /// The file.
        name: String,
    },
    /// Only later kernels have it.
    #[error("{name}: no such file (ENOENT) in this kernel; it came with {since}")]
    NoFile {
        /// The file.
        name: String,
        /// The kernel.
        since: ThpFiles,
    },
    /// Kernels with pages of this size have no such file.
    #[error("{name}: no such file (ENOENT) with pages of {} KiB; there are {}", page_size.kib(), sizes(*page_size))]
    NoSize {
        /// The setting.
        name: &'static str,
        /// The size of pages.
        page_size: PageSize,
    },
    /// The kernel would say EINVAL.
    #[error("{} = {}: invalid argument (EINVAL); it takes {}", .0.key, .0.value, .0.expected)]
    Invalid(WrongValue),
}

/// Whether kernels with pages of this size have a setting of this name, or there is none of it at all.
pub fn exists(name: &str, page_size: PageSize) -> bool {
    SETTINGS.iter().find(|setting| setting.name == name).is_none_or(|setting| setting.exists(page_size))
}

fn sizes(page_size: PageSize) -> String {
    let sizes = SETTINGS.iter().filter(|s| matches!(s.apply, Apply::Size(_)) && s.exists(page_size));
    sizes.map(|setting| setting.name).collect::<Vec<_>>().join(", ")
}

/// How many names are proposed for one that there is not.
const PROPOSED: usize = 3;

/// The settings whose names are most like one that is none of them, which may lack its directory.
pub(crate) fn most_like_setting(name: &str) -> String {
    let directory = &name[..name.len() - file(name).len()];
    let lacks_directory =
        directory.is_empty() || !SETTINGS.iter().any(|setting| setting.name.starts_with(directory));
    let likeness = |other: &str| match jaro_winkler(name, other) {
        _ if file(other) == name => 1.0,
        whole if lacks_directory => whole.max(jaro_winkler(name, file(other))),
        whole => whole,
    };
    first_by(likeness, SETTINGS.iter().map(|setting| setting.name))
}

/// A name without its first directory.
fn file(name: &str) -> &str {
    name.split_once(['/', '.']).map_or(name, |(_, file)| file)
}

/// Those of some names that are most like one that is none of them.
pub fn most_like<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    first_by(|other| jaro_winkler(name, other), names)
}

fn first_by<'a>(likeness: impl Fn(&str) -> f64, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.into_iter().map(|other| (likeness(other), other)).collect();
    names.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    names.iter().take(PROPOSED).map(|&(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// From here on a name is taken for another one, misspelt.
const MISSPELT: f64 = 0.8;

/// "(do you mean that one?)", if one of few names is much like one that is none of them.
pub fn meant<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let like = names.into_iter().map(|other| (jaro_winkler(name, other), other));
    let like = like.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(likeness, _)| *likeness >= MISSPELT);
    like.map_or(String::new(), |(_, other)| format!(" (do you mean {other}?)"))
}

impl Settings {
    /// Sets `name` to `value` as written to the file under /proc/sys; on error nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            return Err(SettingError::Unknown { name: name.into() });
        };
        if !setting.exists(self.page_size()) {
            return Err(SettingError::NoSize { name: setting.name, page_size: self.page_size() });
        }
        let mut changed = self.clone();
        if !setting.apply.apply(&mut changed, value) {
            return Err(SettingError::Invalid(WrongValue::new(setting.name, value, setting.accepts)));
        }
        *self = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_its_directory_is_recognised() {
        let like = most_like_setting("hugepages-8kB/enabled");
        assert!(like.split(", ").all(|name| name.starts_with("transparent_hugepage/hugepages-")), "{like}");
        assert!(most_like_setting("swappiness").starts_with("vm.swappiness"));
        let huge = most_like_setting("hugepages-2048kB/enabled");
        assert!(huge.starts_with("transparent_hugepage/hugepages-2048kB/enabled"), "{huge}");
        assert_eq!(meant("equilibriun", ["equilibrium", "pid-filter"]), " (do you mean equilibrium?)");
        assert_eq!(meant("hvo", ["pcp", "hugetlb"]), "");
    }

    #[test]
    fn keeps_the_kernel_s_bounds() {
        let mut settings = Settings::default();
        for (name, value, accepted) in [
            ("vm.percpu_pagelist_high_fraction", "0", true),
            ("vm.percpu_pagelist_high_fraction", "7", false),
            ("vm.percpu_pagelist_high_fraction", "8", true),
            ("vm.percpu_pagelist_high_fraction", "-1", false),
            ("vm.watermark_scale_factor", "0", false),
            ("vm.watermark_scale_factor", "3001", false),
            ("vm.watermark_scale_factor", "3000", true),
            ("vm.lowmem_reserve_ratio", "256 256 32", false),
            ("vm.lowmem_reserve_ratio", "256 256 64 0", true),
            ("vm.min_free_kbytes", "", false),
            ("vm.min_free_kbytes", "1 2", false),
            ("vm.swappy", "1", false),
            ("transparent_hugepage/enabled", "madvise", true),
            ("transparent_hugepage/enabled", "inherit", false),
            ("transparent_hugepage/hugepages-64kB/enabled", "inherit", true),
            ("transparent_hugepage/hugepages-8kB/enabled", "always", false),
            ("transparent_hugepage/defrag", "defer+madvise", true),
            ("transparent_hugepage/use_zero_page", "2", false),
            ("transparent_hugepage/khugepaged/max_ptes_none", "511", true),
            ("transparent_hugepage/khugepaged/max_ptes_none", "512", false),
            ("transparent_hugepage/khugepaged/pages_to_scan", "0", false),
            ("thp_anon", "64K:always", true),
            ("thp_anon", "8K:always", false),
        ] {
            let before = settings.clone();
            assert_eq!(settings.set(name, value).is_ok(), accepted, "{name}={value}");
            if !accepted {
                assert_eq!(settings, before, "{name}={value} must change nothing");
            }
        }
    }
}
