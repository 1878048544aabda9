//! What reclaim decides, but for what the multi-gen LRU decides by itself.
//!
//! ```text
//!   how much     sizes, costs, swappiness, protection ─► pages of each list to scan
//!   which        flags and accessed bits of a folio   ─► out, kept, or back among the active ones
//!   enough?      sizes of active and inactive lists   ─► is the inactive one too short?
//! ```
//!
//! Pure functions. In the kernel: `inactive_is_low`, `get_scan_count`, `shrink_lruvec`, `folio_check_references`,
//! `should_continue_reclaim` in mm/vmscan.c.

use crate::features::Features;
use crate::lru::folio::FolioFlags;
use crate::lru::lruvec::LruList;
use crate::lru::mglru;
use crate::lru::mmzone::LruType;
use crate::lru::vmscan::features::{GenFeatures, Lru, Placement, ReclaimFeatures, RefsScheme};
use machine::PageSize;

/// Pages that are isolated at a time (`SWAP_CLUSTER_MAX`).
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// Pages of zones that no memory is wanted of, of which an isolation passes over so many at most.
pub const SWAP_CLUSTER_MAX_SKIPPED: u64 = SWAP_CLUSTER_MAX << 10;
/// The priority that reclaim begins with; a list is scanned by its length divided by two to this power.
pub const DEF_PRIORITY: u8 = 12;
/// Whether a list of inactive pages is so short that active ones should be deactivated (`inactive_is_low`). The share
/// that is enough falls with the square root of the size: a half of 1 MB, a quarter of 1 GB, a tenth of 10 GB...
pub fn inactive_is_low(page_size: PageSize, inactive: u64, active: u64) -> bool {
    let gigabytes = (inactive + active) / page_size.pages_of_mib(1024);
    let ratio = if gigabytes > 0 { (10 * gigabytes).isqrt() } else { 1 };
    inactive * ratio < active
}

/// What of a lruvec is scanned (`enum scan_balance`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanBalance {
    /// Both types alike.
    Equal,
    /// Both, by what reclaiming each has cost.
    Fract {
        /// Weights of anonymous pages and of files.
        fraction: [u64; 2],
    },
    /// Anonymous pages only.
    Anon,
    /// Files only.
    File,
}

/// What [`scan_balance`] looks at.
#[derive(Clone, Copy, Debug)]
pub struct BalanceState {
    /// Anonymous pages can go somewhere.
    pub can_reclaim_anon: bool,
    /// Reclaim is for a memory cgroup's limit.
    pub cgroup_reclaim: bool,
    /// `vm.swappiness`.
    pub swappiness: u64,
    /// From 12 down to 0.
    pub priority: u8,
    /// Hardly any files are left.
    pub file_is_tiny: bool,
    /// There are many files that nobody uses.
    pub cache_trim_mode: bool,
    /// What reclaim of each type has cost lately.
    pub cost: [u64; 2],
}

/// When statistics of memory cgroups are brought up to date before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsFlush {
    /// Where enough has changed to be worth it (`mem_cgroup_flush_stats`).
    IfMuchChanged,
    /// Where that has not been done for two intervals (`mem_cgroup_flush_stats_ratelimited`).
    IfLate,
}

/// When the classic LRU does so (`prepare_scan_control`): from 6.12 on it reads what may be seconds old.
pub fn stats_flush(f: &ReclaimFeatures) -> StatsFlush {
    if f.reads_late_stats { StatsFlush::IfLate } else { StatsFlush::IfMuchChanged }
}

/// Whether pages that were looked at or freed also count as those of kswapd or of direct reclaim: what a memory cgroup's limit has
/// reclaimed (`for_cgroup`) does so from 7.1 on.
pub fn counts_by_reclaimer(f: &ReclaimFeatures, for_cgroup: bool) -> bool {
    !for_cgroup || f.counts_cgroup_reclaim
}

/// Where a run of kswapd is.
#[derive(Clone, Copy, Debug)]
pub struct KswapdRun {
    /// The priority that comes next.
    pub priority: u8,
    /// Pages that it has freed.
    pub reclaimed: u64,
    /// It left anonymous pages alone because there are many inactive pages of files, and got nowhere.
    pub cache_trim_failed: bool,
    /// It has begun again for that before.
    pub without_cache_trim: bool,
    /// Watermarks were boosted when it began.
    pub boosted: bool,
}

/// Whether kswapd begins once more, and leaves anonymous pages alone no longer (`balance_pgdat`): from 6.9 on, once it is through with
/// all priorities.
pub fn begins_without_cache_trim(f: &ReclaimFeatures, run: &KswapdRun) -> bool {
    let in_vain = run.priority == 0 && run.reclaimed == 0;
    f.retries_without_cache_trim && in_vain && run.cache_trim_failed && !run.without_cache_trim
}

/// How often reclaim is tried before it is given up: by a charge or an allocation, and by kswapd (`MAX_RECLAIM_RETRIES`).
pub const MAX_RECLAIM_RETRIES: u32 = 16;

/// Whether kswapd leaves a node to direct reclaim after so many runs in vain in succession (`kswapd_failures`).
#[inline]
pub fn is_hopeless(failures: u32) -> bool {
    failures >= MAX_RECLAIM_RETRIES
}

/// Whether a run that ends here counts as one in vain: until 6.18 only if no watermark was boosted.
pub fn was_in_vain(f: &Features, run: &KswapdRun) -> bool {
    run.reclaimed == 0 && (f.boosted_runs_fail || !run.boosted)
}

/// How anonymous pages and files share a scan.
pub fn scan_balance(s: &BalanceState) -> ScanBalance {
    if !s.can_reclaim_anon || s.cgroup_reclaim && s.swappiness == 0 {
        return ScanBalance::File;
    }
    if s.priority == 0 && s.swappiness > 0 {
        return ScanBalance::Equal;
    }
    if s.file_is_tiny {
        return ScanBalance::Anon;
    }
    if s.cache_trim_mode {
        return ScanBalance::File;
    }
    let total = s.cost[0] + s.cost[1];
    let [anon, file] = s.cost.map(|cost| total + cost);
    let all = anon + file;
    let swappiness = s.swappiness.min(mglru::policy::MAX_SWAPPINESS);
    ScanBalance::Fract {
        fraction: [
            swappiness * (all + 1) / (anon + 1),
            (mglru::policy::MAX_SWAPPINESS - swappiness) * (all + 1) / (file + 1),
        ],
    }
}

/// What `setting`, memory.low or memory.min of a group that uses `usage`, protects of it, if `parent_effective` is what
/// protects its parent, which uses `parent_usage`, and the parent's groups claim `siblings_protected` together
/// (`effective_protection`; cgroup2 mounted with `memory_recursiveprot`, as systemd does).
pub fn effective_protection(
    usage: u64,
    parent_usage: u64,
    setting: u64,
    parent_effective: u64,
    siblings_protected: u64,
) -> u64 {
    let share =
        |of: u64, part: u64, whole: u64| (u128::from(of) * u128::from(part) / u128::from(whole)) as u64;
    let protected = usage.min(setting);
    if siblings_protected > parent_effective {
        // They claim more than there is: each gets its part.
        return share(parent_effective, protected, siblings_protected);
    }
    let (unclaimed, unprotected) = (parent_effective - siblings_protected, usage - protected);
    if unclaimed == 0 || unprotected == 0 || parent_usage <= siblings_protected {
        return protected;
    }
    // What nobody claims goes to all, by what they use besides.
    protected + share(unclaimed, unprotected, parent_usage - siblings_protected)
}

/// Whether nothing can go before flushers have written: all that was `taken` is dirty, and nobody is writing it.
pub fn is_all_dirty(dirty: u64, taken: u64) -> bool {
    dirty > 0 && dirty == taken
}

/// What it costs to have reclaimed pages of one type: `io` pages were written, or read again, and `rotated` looked at in
/// vain.
pub fn reclaim_cost(f: &ReclaimFeatures, io: u64, rotated: u64) -> u64 {
    if f.rotations_cost { io * SWAP_CLUSTER_MAX + rotated } else { io }
}

/// What may be scanned of `size` pages at priority 0; `protected` is the part of their group's `usage` that memory.low or
/// memory.min protects.
pub fn unprotected(size: u64, protected: u64, usage: u64) -> u64 {
    if protected == 0 {
        return size;
    }
    let usage = usage.max(protected);
    let scan = size - (u128::from(size) * u128::from(protected) / (u128::from(usage) + 1)) as u64;
    scan.max(SWAP_CLUSTER_MAX)
}

/// Pages of a list of `size` pages to scan; see [`unprotected`].
pub fn scan_count(
    balance: ScanBalance,
    lru_type: LruType,
    size: u64,
    priority: u8,
    protected: u64,
    usage: u64,
) -> u64 {
    let scan = unprotected(size, protected, usage) >> priority;
    match (balance, lru_type) {
        (ScanBalance::Equal, _) | (ScanBalance::Anon, LruType::Anon) | (ScanBalance::File, LruType::File) => {
            scan
        }
        (ScanBalance::Fract { fraction }, _) => {
            (u128::from(scan) * u128::from(fraction[lru_type as usize])
                / u128::from((fraction[0] + fraction[1]).max(1))) as u64
        }
        (ScanBalance::Anon, LruType::File) | (ScanBalance::File, LruType::Anon) => 0,
    }
}

/// After enough has been reclaimed: what is left to scan, so that both types have been scanned in proportion. None if
/// one type is done, and so is the scan.
pub fn proportional_rest(rest: [u64; 4], targets: [u64; 4]) -> Option<[u64; 4]> {
    let [inactive_anon, active_anon, inactive_file, active_file] =
        LruList::EVICTABLE.map(|list| list as usize);
    let file = rest[inactive_file] + rest[active_file];
    let anon = rest[inactive_anon] + rest[active_anon];
    if file == 0 || anon == 0 {
        return None;
    }
    let (small, large, smaller) = if file > anon {
        ([inactive_anon, active_anon], [inactive_file, active_file], anon)
    } else {
        ([inactive_file, active_file], [inactive_anon, active_anon], file)
    };
    let percentage = smaller * 100 / (targets[small[0]] + targets[small[1]] + 1);
    let mut left = [0; 4];
    for list in large {
        let scanned = targets[list] - rest[list];
        left[list] = (targets[list] * (100 - percentage) / 100).saturating_sub(scanned);
    }
    Some(left)
}

/// What accesses of a folio mean to reclaim (`enum folio_references`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// It goes.
    Reclaim,
    /// It goes unless it is dirty.
    ReclaimClean,
    /// It stays where it is.
    Keep,
    /// It becomes active.
    Activate,
}

/// Whether a folio stays before its page-table entries are looked at: until 6.13 a walk of page tables marks an isolated folio that
/// it sees in use (`shrink_folio_list`).
pub fn was_seen_in_use(lru: &Lru, flags: FolioFlags, mapped: bool) -> bool {
    match lru {
        Lru::Classic => false,
        Lru::MultiGen(f) => !f.types_apart && mapped && flags.has(FolioFlags::REFERENCED),
    }
}

/// Judges a folio that `young` page-table entries say was accessed, and updates its flags (`folio_check_references`). None
/// of them if it lies in an area in which memory stays: that one was not known to be locked yet.
pub fn check_references(lru: &Lru, flags: &mut FolioFlags, young: Option<u16>) -> References {
    let Some(young) = young else { return References::Activate };
    let file = !flags.has(FolioFlags::SWAPBACKED);
    match lru {
        Lru::MultiGen(f) if f.refs_scheme == RefsScheme::WorkingsetApart => match young {
            0 => References::Reclaim,
            _ if mapped_access(f, flags) => References::Activate,
            _ => References::Keep,
        },
        Lru::MultiGen(_) | Lru::Classic => {
            let referenced = flags.take(FolioFlags::REFERENCED);
            if young == 0 {
                return if referenced && file { References::ReclaimClean } else { References::Reclaim };
            }
            flags.set(FolioFlags::REFERENCED);
            let executable = flags.has(FolioFlags::EXECUTABLE) && file;
            if referenced || young > 1 || executable { References::Activate } else { References::Keep }
        }
    }
}

/// What an accessed bit does to a folio's flags from 6.14 on; whether that promotes it (`lru_gen_set_refs`).
pub fn mapped_access(f: &GenFeatures, flags: &mut FolioFlags) -> bool {
    if !flags.any(FolioFlags::REFERENCED | FolioFlags::WORKINGSET) {
        flags.set(FolioFlags::REFERENCED);
        flags.set_refs(0);
        return false;
    }
    if f.placement == Placement::Accessed && flags.refs() <= 1 {
        mglru::policy::mark_accessed(f, flags);
    } else {
        flags.set(FolioFlags::WORKINGSET);
        flags.clear(FolioFlags::REFERENCED);
        flags.set_refs(0);
    }
    true
}

/// Objects that a shrinker frees at a time (`SHRINK_BATCH`).
const SHRINK_BATCH: u64 = 128;
/// How dear it is to make an object of a shrinker again, unless it says otherwise (`DEFAULT_SEEKS`).
pub const DEFAULT_SEEKS: u64 = 2;

/// How many of its objects a shrinker looks at in one reclaim, and what it puts off (`do_shrink_slab`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabScan {
    freeable: u64,
    /// What was put off, with what this reclaim adds.
    owed: u64,
    left: u64,
    done: u64,
}

impl SlabScan {
    /// Of `freeable` objects, `deferred` having been put off before; `seeks`: how dear an object is, none if it is not.
    pub fn new(freeable: u64, deferred: u64, priority: u8, seeks: Option<u64>) -> SlabScan {
        let delta = match seeks {
            Some(seeks) => (freeable >> priority) * 4 / seeks,
            None => freeable / 2,
        };
        let left = ((deferred >> priority) + delta).min(2 * freeable);
        SlabScan { freeable, owed: deferred + delta, left, done: 0 }
    }

    /// How many to look at next; none if it is not worth it, or all are.
    pub fn batch(&self) -> Option<u64> {
        let goes_on = self.left > 0 && (self.left >= SHRINK_BATCH || self.left >= self.freeable);
        goes_on.then(|| self.left.min(SHRINK_BATCH))
    }

    /// So many were looked at.
    pub fn scanned(&mut self, objects: u64) {
        self.left -= objects;
        self.done += objects;
    }

    /// What is put off now.
    pub fn deferred(&self) -> u64 {
        self.owed.saturating_sub(self.done).min(2 * self.freeable)
    }
}

/// Free pages that compaction wants before it makes a block of `order` (`compact_gap`).
pub fn compact_gap(f: &ReclaimFeatures, order: u8) -> u64 {
    let gap = 2 << order;
    if f.caps_compact_gap { gap.min(SWAP_CLUSTER_MAX) } else { gap }
}
