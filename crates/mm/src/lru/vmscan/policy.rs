//! What reclaim decides, except for what only the multi-gen LRU decides.
//!
//! ```text
//!   how much     sizes, costs, swappiness, protection ─► pages of each list to scan
//!   which        flags and accessed bits of a folio   ─► reclaimed, kept, or activated
//!   enough?      sizes of active and inactive lists   ─► is the inactive one too short?
//! ```
//!
//! Pure functions. In the kernel: `inactive_is_low`, `get_scan_count`, `shrink_lruvec`,
//! `folio_check_references`, `should_continue_reclaim` in mm/vmscan.c.

use crate::features::Features;
use crate::lru::folio::FolioFlags;
use crate::lru::lruvec::LruList;
use crate::lru::mglru;
use crate::lru::mmzone::LruType;
use crate::lru::vmscan::features::{
    GenFeatures, Lru, Placement, ProactiveBatch, ReclaimFeatures, RefsScheme,
};
use machine::PageSize;

/// Pages that are isolated at a time (`SWAP_CLUSTER_MAX`).
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// The most folios of unwanted zones that one isolation skips (`SWAP_CLUSTER_MAX_SKIPPED`).
pub const SWAP_CLUSTER_MAX_SKIPPED: u64 = SWAP_CLUSTER_MAX << 10;
/// The priority that reclaim begins with: size / 2^priority pages of a list are scanned.
pub const DEF_PRIORITY: u8 = 12;
/// Whether an inactive list is so short that active folios should be deactivated (`inactive_is_low`). The
/// share of inactive pages that is enough falls with the square root of the total: a half of 1 MB, a quarter
/// of 1 GB, a tenth of 10 GB.
pub fn inactive_is_low(page_size: PageSize, inactive: u64, active: u64) -> bool {
    let gigabytes = (inactive + active) / page_size.pages_of_mib(1024);
    let ratio = if gigabytes > 0 { (10 * gigabytes).isqrt() } else { 1 };
    inactive * ratio < active
}

/// How a scan is divided between anonymous and file pages (`enum scan_balance`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanBalance {
    /// The same share of both types.
    Equal,
    /// Shares by what reclaim of each type has cost.
    Fract {
        /// Weights of anonymous and of file pages.
        fraction: [u64; 2],
    },
    /// Only anonymous pages.
    Anon,
    /// Only file pages.
    File,
}

#[derive(Clone, Copy, Debug)]
pub struct BalanceState {
    /// Whether anonymous pages can be swapped out or demoted.
    pub can_reclaim_anon: bool,
    /// Whether this is reclaim for the limit of a memory cgroup.
    pub cgroup_reclaim: bool,
    /// `vm.swappiness`.
    pub swappiness: u64,
    /// From 12 down to 0.
    pub priority: u8,
    /// Whether there are hardly any file pages left.
    pub file_is_tiny: bool,
    /// Whether there are many inactive file pages.
    pub cache_trim_mode: bool,
    /// What reclaim of each type has cost lately, indexed by type.
    pub cost: [u64; 2],
}

/// When the statistics of memory cgroups are flushed before reclaim reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsFlush {
    /// If enough has changed (`mem_cgroup_flush_stats`).
    IfMuchChanged,
    /// If the last flush is two intervals ago (`mem_cgroup_flush_stats_ratelimited`).
    IfLate,
}

/// When the classic LRU flushes statistics (`prepare_scan_control`): from 6.12 on it reads counters that may
/// be seconds old.
pub fn stats_flush(f: &ReclaimFeatures) -> StatsFlush {
    if f.reads_late_stats { StatsFlush::IfLate } else { StatsFlush::IfMuchChanged }
}

/// Whether scanned or reclaimed pages are also counted by who reclaims, kswapd or direct reclaim. For the
/// limit of a memory cgroup (`for_cgroup`) they are from 7.1 on.
pub fn counts_by_reclaimer(f: &ReclaimFeatures, for_cgroup: bool) -> bool {
    !for_cgroup || f.counts_cgroup_reclaim
}

/// Pages that a write to memory.reclaim asks reclaim for, with so many left (`memory_reclaim`). Reclaim takes 32 at least.
pub fn proactive_batch(f: &ReclaimFeatures, left: u64) -> u64 {
    match f.proactive_batch {
        ProactiveBatch::Whole => left,
        ProactiveBatch::SwapClusterMax => left.min(SWAP_CLUSTER_MAX),
        ProactiveBatch::Quarter => left / 4,
    }
}

/// The state of a run of kswapd.
#[derive(Clone, Copy, Debug)]
pub struct KswapdRun {
    /// The priority of the next step.
    pub priority: u8,
    /// Pages reclaimed by this run.
    pub reclaimed: u64,
    /// Whether nothing was reclaimed while only file pages were scanned, as there were many inactive ones.
    pub cache_trim_failed: bool,
    /// Whether the run has been started again without `cache_trim_mode` already.
    pub without_cache_trim: bool,
    /// Whether watermarks were boosted when the run began.
    pub boosted: bool,
}

/// Whether kswapd starts again at the first priority without `cache_trim_mode`, once it has gone through all
/// priorities and reclaimed nothing (`balance_pgdat`): from 6.9 on.
pub fn begins_without_cache_trim(f: &ReclaimFeatures, run: &KswapdRun) -> bool {
    let in_vain = run.priority == 0 && run.reclaimed == 0;
    f.retries_without_cache_trim && in_vain && run.cache_trim_failed && !run.without_cache_trim
}

/// How often a charge, an allocation or kswapd tries reclaim in vain before it gives up
/// (`MAX_RECLAIM_RETRIES`).
pub const MAX_RECLAIM_RETRIES: u32 = 16;

/// Whether kswapd leaves a node to direct reclaim after `failures` runs in a row that reclaimed nothing
/// (`kswapd_failures`).
#[inline]
pub fn is_hopeless(failures: u32) -> bool {
    failures >= MAX_RECLAIM_RETRIES
}

/// Whether a run that ends now counts as a failure: it reclaimed nothing, and since 6.19 no watermark was boosted either.
pub fn was_in_vain(f: &Features, run: &KswapdRun) -> bool {
    run.reclaimed == 0 && (f.boosted_runs_fail || !run.boosted)
}

/// How a scan is divided between anonymous and file pages (`get_scan_count`).
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

/// The effective protection of a memcg that uses `usage` pages and has `setting`, which is memory.low or
/// memory.min (`effective_protection`). `parent_effective` is that of its parent, which uses `parent_usage`,
/// and `siblings_protected` is the sum of what all children of the parent claim. cgroup2 is mounted with
/// `memory_recursiveprot`, as systemd does.
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
        // The children claim more than the parent has: each gets its share.
        return share(parent_effective, protected, siblings_protected);
    }
    let (unclaimed, unprotected) = (parent_effective - siblings_protected, usage - protected);
    if unclaimed == 0 || unprotected == 0 || parent_usage <= siblings_protected {
        return protected;
    }
    // The rest goes to all children, in proportion to their unprotected usage.
    protected + share(unclaimed, unprotected, parent_usage - siblings_protected)
}

/// Whether nothing can be reclaimed before flushers have written: all pages that were `taken` are dirty, and
/// none is under writeback.
pub fn is_all_dirty(dirty: u64, taken: u64) -> bool {
    dirty > 0 && dirty == taken
}

/// The cost of having reclaimed pages of one type: `io` pages were written or read again, and `rotated` pages
/// scanned in vain.
pub fn reclaim_cost(f: &ReclaimFeatures, io: u64, rotated: u64) -> u64 {
    if f.rotations_cost { io * SWAP_CLUSTER_MAX + rotated } else { io }
}

/// Whether reclaim stops at the memcg where it has enough, and the next call goes on from there. kswapd never does, nor does a call
/// that has found nothing that way.
pub fn walks_in_part(f: &ReclaimFeatures, kswapd: bool, full_walk: bool) -> bool {
    f.incremental_iteration && !kswapd && !full_walk
}

/// The protection of a memcg against one reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Pages that memory.low or memory.min protects.
    pub pages: u64,
    /// Whether memory.low protects more of them than memory.min does.
    pub by_low: bool,
}

/// What protects a memcg with the effective protections `low` and `min`; `None` if it has neither. `reclaims_low`: memory.low has kept
/// an earlier round from reclaiming anything, so only memory.min still counts.
pub fn protection(low: u64, min: u64, reclaims_low: bool) -> Option<Protection> {
    let by_low = low > min && !reclaims_low;
    (low.max(min) > 0).then_some(Protection { pages: if by_low { low } else { min }, by_low })
}

/// Pages of a list of `size` that may be scanned at priority 0 if the memcg uses `usage` pages. Where there is any protection, they are
/// no fewer than a batch, whatever is on the list.
pub fn unprotected(size: u64, protection: Option<Protection>, usage: u64) -> u64 {
    let Some(Protection { pages, .. }) = protection else { return size };
    let usage = usage.max(pages);
    let scan = size - (u128::from(size) * u128::from(pages) / (u128::from(usage) + 1)) as u64;
    scan.max(SWAP_CLUSTER_MAX)
}

/// Pages to scan of a list of which `unprotected` pages may be scanned at priority 0.
pub fn scan_count(balance: ScanBalance, lru_type: LruType, unprotected: u64, priority: u8) -> u64 {
    let scan = unprotected >> priority;
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

/// The lists of a lruvec are shrunk in turn by the pages that were to be scanned, or until enough are reclaimed and both types were
/// scanned in proportion (`shrink_lruvec`).
#[derive(Clone, Debug)]
pub struct ListsInTurn {
    targets: [u64; 4],
    rest: [u64; 4],
    /// Pages that are enough; `None`: the targets are met however many are reclaimed.
    enough: Option<u64>,
    reclaimed: u64,
}

impl ListsInTurn {
    /// With the pages to scan of each list. `all_of_it`: however many are reclaimed, `wanted` or more.
    pub fn new(targets: [u64; 4], wanted: u64, all_of_it: bool) -> ListsInTurn {
        ListsInTurn { targets, rest: targets, enough: (!all_of_it).then_some(wanted), reclaimed: 0 }
    }

    /// Pages reclaimed so far.
    pub fn reclaimed(&self) -> u64 {
        self.reclaimed
    }

    /// Makes a turn, if there is another: `shrink` is asked for up to 32 pages of each list and says how many it reclaimed. Returns
    /// whether it made one.
    pub fn turn(&mut self, mut shrink: impl FnMut(LruList, u64) -> u64) -> bool {
        // It does not go on for active anonymous pages alone.
        let lists = [LruList::InactiveAnon, LruList::ActiveFile, LruList::InactiveFile];
        if lists.iter().all(|&list| self.rest[list as usize] == 0) {
            return false;
        }
        for list in LruList::EVICTABLE {
            let scan = self.rest[list as usize].min(SWAP_CLUSTER_MAX);
            if scan > 0 {
                self.rest[list as usize] -= scan;
                self.reclaimed += shrink(list, scan);
            }
        }
        if self.enough.is_some_and(|enough| self.reclaimed >= enough) {
            self.rest = proportional_rest(self.rest, self.targets).unwrap_or_default();
        }
        true
    }
}

/// Whether a reclaim scans all that its priority asks for, however much that reclaims: direct reclaim of a node at the first priority,
/// which is no reason to hurry (`proportional_reclaim`).
pub fn scans_all_of_it(for_cgroup: bool, kswapd: bool, priority: u8) -> bool {
    !for_cgroup && !kswapd && priority == DEF_PRIORITY
}

/// Once enough has been reclaimed: the pages of each list still to scan so that both types are scanned in
/// proportion, or `None` if one type is done, which ends the scan (`shrink_lruvec`). `targets` are the pages
/// that were to be scanned in all.
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

/// What reclaim does with a folio in view of its accesses (`enum folio_references`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// It is reclaimed.
    Reclaim,
    /// It is reclaimed unless it is dirty.
    ReclaimClean,
    /// It stays on its list.
    Keep,
    /// It is activated.
    Activate,
}

/// Whether a folio is kept before its PTEs are looked at: until 6.13 a page table walk of the multi-gen LRU
/// marks an isolated folio whose PTE it finds young (`shrink_folio_list`).
pub fn was_seen_in_use(lru: &Lru, flags: FolioFlags, mapped: bool) -> bool {
    match lru {
        Lru::Classic => false,
        Lru::MultiGen(f) => !f.types_apart && mapped && flags.has(FolioFlags::REFERENCED),
    }
}

/// Decides what to do with a folio that `young` PTEs say was accessed, and updates its flags
/// (`folio_check_references`). `young` is `None` if a `VM_LOCKED` VMA maps the folio, which was not mlocked
/// yet.
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

/// What an accessed bit does to the flags of a folio from 6.14 on (`lru_gen_set_refs`). Returns whether it
/// promotes the folio.
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
/// How expensive it is to make an object of a shrinker again, unless it says otherwise (`DEFAULT_SEEKS`).
pub const DEFAULT_SEEKS: u64 = 2;

/// How many objects a shrinker scans in one reclaim, and how many it defers to the next (`do_shrink_slab`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabScan {
    freeable: u64,
    /// Objects deferred before and added by this reclaim.
    owed: u64,
    left: u64,
    done: u64,
}

impl SlabScan {
    /// Computes the scan of a shrinker that has `freeable` objects and has deferred `deferred` of them
    /// before. `seeks` is the price of an object, or `None` if objects cost nothing.
    pub fn new(freeable: u64, deferred: u64, priority: u8, seeks: Option<u64>) -> SlabScan {
        let delta = match seeks {
            Some(seeks) => (freeable >> priority) * 4 / seeks,
            None => freeable / 2,
        };
        let left = ((deferred >> priority) + delta).min(2 * freeable);
        SlabScan { freeable, owed: deferred + delta, left, done: 0 }
    }

    /// How many objects to scan next; `None` if there are too few left to bother.
    pub fn batch(&self) -> Option<u64> {
        let goes_on = self.left > 0 && (self.left >= SHRINK_BATCH || self.left >= self.freeable);
        goes_on.then(|| self.left.min(SHRINK_BATCH))
    }

    /// Notes that `objects` were scanned.
    pub fn scanned(&mut self, objects: u64) {
        self.left -= objects;
        self.done += objects;
    }

    /// How many objects are deferred to the next reclaim (`nr_deferred`).
    pub fn deferred(&self) -> u64 {
        self.owed.saturating_sub(self.done).min(2 * self.freeable)
    }
}

/// Free pages that compaction wants before it makes a block of `order` (`compact_gap`).
pub fn compact_gap(f: &ReclaimFeatures, order: u8) -> u64 {
    let gap = 2 << order;
    if f.caps_compact_gap { gap.min(SWAP_CLUSTER_MAX) } else { gap }
}
