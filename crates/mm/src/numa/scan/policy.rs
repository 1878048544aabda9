//! Decisions of NUMA scanning: when a task scans, which VMAs, and how much.
//!
//! ```text
//!   tick     has the task run for a period since the last?       ── no ─► nothing
//!   claim    is the address space due, and is no other thread scanning?  ── no ─► nothing
//!   decide   for each VMA, in this order:
//!            D1 unsuitable  D2 shared_ro  D3 inaccessible        ── yes ─► skip
//!            D4 no scan state: allocate one; if that fails       ── skip
//!            D5 too young                                        ── yes ─► skip
//!            D6 the windows are rotated                          (partial-vmas-4 and later)
//!            D8 scanned in this sequence                         ── yes ─► skip, the next pass starts behind it
//!            D9 no hint fault of this thread                     ── yes ─► skip, unless forced
//!            D10 the windows are rotated                         (vma-scanning-3, -4)
//!   range    up to the budget, rounded up to 2 MiB, not past the VMA
//! ```
//!
//! Times are jiffies unless their names end in `_ms`. Jiffies are compared strictly: a VMA is too young while
//! now < next_scan, windows rotate once now > reset_at. Pure functions of small states. In the kernel:
//! `task_tick_numa`, `task_numa_work`, `vma_is_accessed`, `task_scan_min`, `task_scan_max`, `task_scan_start`
//! in kernel/sched/fair.c.

use super::{MmScan, NumabState};
use crate::counters::Event;
use crate::jiffies::jiffies;
use crate::numa::Rules;
use crate::numa::features::{AccessingPids, FolioTest, NumaFeatures};
use crate::numa::migrate::policy::Nodes;
use crate::sysctl::NumaSettings;
use machine::PageSize;

/// Upper bound of the scan rate, MB per second (`MAX_SCAN_WINDOW`).
const MAX_SCAN_WINDOW: u64 = 2560;
/// Scan delays between two rotations of the windows (`VMA_PID_RESET_PERIOD`).
const DELAYS_BETWEEN_TURNS: u64 = 4;
/// How many times the pages that a pass may change it may walk.
const VIRTUAL_PAGES: i64 = 8;
/// A range ends at a multiple of this, or with the VMA.
const HPAGE_SIZE: u64 = 2 << 20;
/// NUMA balancing is modelled for this page size only.
pub(crate) const PAGE_SHIFT: u32 = PageSize::Kib4.shift();

/// Hint faults of a group of tasks, and the number of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSharing {
    /// Number of tasks (`refcount` of the group).
    pub refs: u64,
    /// Faults on pages that other threads touched too, all nodes.
    pub shared: u64,
    /// Faults on pages of one thread, all nodes.
    pub private: u64,
}

impl GroupSharing {
    /// Stretches a period, the more the group shares the longer.
    fn stretch(self, period: u64) -> u64 {
        period.wrapping_mul(self.refs).wrapping_mul(self.shared + 1) / (self.private + self.shared + 1)
    }
}

/// Bounds of a task's scan period, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPeriods {
    /// `task_scan_min`.
    pub min: u32,
    /// `task_scan_max`.
    pub max: u32,
    /// `task_scan_start`.
    pub start: u32,
}

/// Bounds of the scan period for a task whose address space has `rss` resident pages. In one period all of it
/// is scanned, in as many passes as that takes.
pub fn scan_periods(settings: &NumaSettings, rss: u64, group: Option<GroupSharing>) -> ScanPeriods {
    let pages = scan_pages(settings) as u64;
    // Rounded up with a bit mask, so there are fewer windows if their size is no power of two.
    let windows = (((rss.max(1) - 1) | (pages - 1)) + 1) / pages;
    let passes_a_second = (MAX_SCAN_WINDOW / settings.scan_size_mb).max(1);
    let min = (1000 / passes_a_second).max(settings.scan_period_min_ms / windows);
    let max = settings.scan_period_max_ms / windows;
    let stretched = |period: u64| group.map_or(period, |group| period.max(group.stretch(period)));
    ScanPeriods { min: min as u32, max: stretched(max).max(min) as u32, start: stretched(min) as u32 }
}

/// Pages that a pass may change.
fn scan_pages(settings: &NumaSettings) -> i64 {
    (settings.scan_size_mb << (20 - PAGE_SHIFT)) as i64
}

/// The effect of a scheduler tick on a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The new `node_stamp`, ns of CPU time.
    pub node_stamp: u64,
    /// Whether the scan period is reset to its initial value.
    pub restarts_period: bool,
    /// Whether the task scans before it returns to user mode.
    pub queues_work: bool,
}

/// A tick while a task has run for `runtime` ns; `None` if nothing is due. Scanning is triggered by CPU time:
/// a sleeping task does not scan.
pub fn tick(node_stamp: u64, period_ms: u32, runtime: u64, now: u64, next_scan: u64) -> Option<Tick> {
    let period = u64::from(period_ms) * 1_000_000;
    (runtime > node_stamp + period).then_some(Tick {
        node_stamp: node_stamp + period,
        restarts_period: node_stamp == 0,
        queues_work: now >= next_scan,
    })
}

/// Whether a move to another node resets the task's scan period (`update_scan_period`): yes, unless it moves
/// to its preferred node, or from one that is not its preferred node.
pub fn restarts_period_on_move(
    task_scan_seq: i32,
    to_preferred: bool,
    preferred: bool,
    from_preferred: bool,
) -> bool {
    task_scan_seq == 0 || !(to_preferred || preferred && !from_preferred)
}

/// Whether a pass over an address space is due. The first one is after a delay.
pub fn is_due(mm: &mut MmScan, settings: &NumaSettings, now: u64) -> bool {
    if mm.next_scan == 0 {
        mm.next_scan = now + jiffies(settings.scan_delay_ms);
    }
    now >= mm.next_scan
}

/// Keeps other threads from scanning for a period (the compare-and-swap of `numa_next_scan`).
pub fn claim(mm: &mut MmScan, period_ms: u32, now: u64) {
    mm.next_scan = now + jiffies(u64::from(period_ms));
}

/// Whether a task with this cpuset scans at all: since 6.16 not if it allows a single memory node, because no
/// page could migrate.
pub fn scans(f: &NumaFeatures, mems_allowed: Option<Nodes>) -> bool {
    !(f.skips_single_node_cpusets && mems_allowed.is_some_and(Nodes::is_one))
}

/// Whether a pass that has reached the end starts again and scans the first VMA it may, touched or not. With
/// VMAs scanned once a sequence (partial-vmas-6), a sequence in which all were `skipped_inactive` would
/// otherwise scan nothing.
pub fn forces_one(f: &NumaFeatures, scanner: &Scanner, skipped_inactive: bool) -> bool {
    f.once_a_sequence && skipped_inactive && !scanner.forced
}

/// The traits of a VMA for the decisions D1 to D3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmaTraits {
    /// Its pages can migrate: no I/O memory, hugetlb or special mapping, and its policy migrates on faults,
    /// which that of shared memory does only if it was set.
    pub suitable: bool,
    /// A read-only file mapping, such as a library, which many processes share.
    pub read_only_file: bool,
    /// It may be read, written or executed.
    pub accessible: bool,
}

impl VmaTraits {
    /// The traits of private writable memory.
    pub const ANONYMOUS: VmaTraits = VmaTraits { suitable: true, read_only_file: false, accessible: true };
}

/// Why a VMA is skipped, or is not (`enum numa_vmaskip_reason`, in its order).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// D1.
    Unsuitable,
    /// D2.
    SharedRo,
    /// D3.
    Inaccessible,
    /// D4, D5.
    ScanDelay,
    /// D9.
    PidInactive,
    /// partial-vmas-5: the thread took no hint fault in the VMA, but an earlier pass scanned part of it; it
    /// is scanned.
    IgnorePid,
    /// D8.
    SeqCompleted,
}

impl SkipReason {
    /// All reasons, in the kernel's order.
    pub const ALL: [SkipReason; 7] = [
        SkipReason::Unsuitable,
        SkipReason::SharedRo,
        SkipReason::Inaccessible,
        SkipReason::ScanDelay,
        SkipReason::PidInactive,
        SkipReason::IgnorePid,
        SkipReason::SeqCompleted,
    ];

    /// The name in the tracepoint `sched_skip_vma_numa`.
    pub fn name(self) -> &'static str {
        match self {
            SkipReason::Unsuitable => "unsuitable",
            SkipReason::SharedRo => "shared_ro",
            SkipReason::Inaccessible => "inaccessible",
            SkipReason::ScanDelay => "scan_delay",
            SkipReason::PidInactive => "pid_inactive",
            SkipReason::IgnorePid => "ignore_pid_inactive",
            SkipReason::SeqCompleted => "seq_completed",
        }
    }

    /// The counter of this reason.
    pub fn event(self) -> Event {
        match self {
            SkipReason::Unsuitable => Event::NumaSkipUnsuitable,
            SkipReason::SharedRo => Event::NumaSkipSharedRo,
            SkipReason::Inaccessible => Event::NumaSkipInaccessible,
            SkipReason::ScanDelay => Event::NumaSkipScanDelay,
            SkipReason::PidInactive => Event::NumaSkipPidInactive,
            SkipReason::IgnorePid => Event::NumaIgnorePidInactive,
            SkipReason::SeqCompleted => Event::NumaSkipSeqCompleted,
        }
    }
}

/// A scan pass, as decisions about VMAs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanner {
    /// PID of the scanning thread, in the initial namespace.
    pub pid: u32,
    /// Number of threads of its process.
    pub nr_threads: i32,
    /// Jiffy at which the pass began.
    pub started: u64,
    /// The second sweep of a pass, for which accesses do not matter.
    pub forced: bool,
}

/// The decision about a VMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The VMA is scanned.
    Scan,
    /// The VMA is scanned although this thread took no hint fault in it, because an earlier pass scanned part
    /// of it.
    ScanBegun,
    /// The VMA is skipped.
    Skip(SkipReason),
}

/// Whether the VMA needs a scan state (D4).
pub fn wants_record(f: &NumaFeatures, vma: VmaTraits) -> bool {
    f.vma_scan_delay && unfit(vma).is_none()
}

/// Why a VMA is never scanned (D1 to D3).
fn unfit(vma: VmaTraits) -> Option<SkipReason> {
    match vma {
        VmaTraits { suitable: false, .. } => Some(SkipReason::Unsuitable),
        VmaTraits { read_only_file: true, .. } => Some(SkipReason::SharedRo),
        VmaTraits { accessible: false, .. } => Some(SkipReason::Inaccessible),
        _ => None,
    }
}

/// A VMA in a scan pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetVma {
    /// Its start address.
    pub start: u64,
    pub traits: VmaTraits,
}

/// Decides about one VMA and updates its scan state.
pub fn decide(
    rules: Rules,
    vma: MetVma,
    record: &mut Option<NumabState>,
    mm: &MmScan,
    scanner: &Scanner,
    now: u64,
) -> Decision {
    let Rules { features: f, settings, .. } = rules;
    if let Some(reason) = unfit(vma.traits) {
        return Decision::Skip(reason);
    }
    if !f.vma_scan_delay {
        return Decision::Scan;
    }
    let record = record.get_or_insert_with(|| new_record(settings, mm, scanner));
    if mm.scan_seq != 0 && now < record.next_scan {
        return Decision::Skip(SkipReason::ScanDelay);
    }
    let has_windows = f.accessing_pids.is_some_and(AccessingPids::has_windows);
    let turns = has_windows && mm.scan_seq != 0 && now > record.reset_at;
    if turns && f.turns_windows_first {
        turn_windows(settings, record);
    }
    if f.once_a_sequence && record.prev_scan_seq == mm.scan_seq {
        return Decision::Skip(SkipReason::SeqCompleted);
    }
    let access = match f.accessing_pids {
        Some(pids) if !scanner.forced => rules.access(pids, vma.start, record, mm, scanner),
        _ => Decision::Scan,
    };
    if turns && !f.turns_windows_first && access == Decision::Scan {
        turn_windows(settings, record);
    }
    access
}

fn new_record(settings: &NumaSettings, mm: &MmScan, scanner: &Scanner) -> NumabState {
    let next_scan = scanner.started + jiffies(settings.scan_delay_ms);
    NumabState {
        next_scan,
        pids: [0; 2],
        reset_at: next_scan + between_turns(settings),
        prev_scan_seq: mm.scan_seq.wrapping_sub(1),
        start_scan_seq: mm.scan_seq,
    }
}

fn between_turns(settings: &NumaSettings) -> u64 {
    jiffies(DELAYS_BETWEEN_TURNS * settings.scan_delay_ms)
}

/// Rotates the windows. The next rotation is one period later, so the state of a VMA that was not visited for
/// long catches up by one rotation per visit.
fn turn_windows(settings: &NumaSettings, record: &mut NumabState) {
    record.reset_at += between_turns(settings);
    record.pids = [record.pids[1], 0];
}

/// Whether a thread may scan a VMA (`vma_is_accessed`).
pub fn access(
    f: &NumaFeatures,
    pids: AccessingPids,
    start: u64,
    record: &NumabState,
    mm: &MmScan,
    scanner: &Scanner,
) -> Decision {
    let born = if f.sequences_of_the_vma { record.start_scan_seq } else { 0 };
    if mm.scan_seq.wrapping_sub(born) < 2 {
        return Decision::Scan;
    }
    if (record.pids[0] | record.pids[1]) & pid_bit(pids, scanner.pid) != 0 {
        return Decision::Scan;
    }
    if f.finishes_begun_vmas && mm.scan_offset > start {
        return Decision::ScanBegun;
    }
    if f.revisits_idle_vmas && mm.scan_seq > record.prev_scan_seq.wrapping_add(scanner.nr_threads) {
        return Decision::Scan;
    }
    Decision::Skip(SkipReason::PidInactive)
}

/// The bit of a PID in a VMA's `pids_active` words.
pub fn pid_bit(pids: AccessingPids, pid: u32) -> u64 {
    let bit = match pids {
        AccessingPids::OneWord | AccessingPids::TwoWindows => pid % u64::BITS,
        AccessingPids::TwoWindowsHashed => pid.wrapping_mul(GOLDEN_RATIO_32) >> (u32::BITS - 6),
    };
    1 << bit
}

/// The multiplier of `hash_32`.
const GOLDEN_RATIO_32: u32 = 0x61C8_8647;

/// Notes a hint fault of a thread in a VMA (`vma_set_access_pid_bit`).
pub fn note_access(f: &NumaFeatures, record: &mut Option<NumabState>, pid: u32) {
    if let (Some(pids), Some(record)) = (f.accessing_pids, record) {
        record.pids[1] |= pid_bit(pids, pid);
    }
}

/// The properties of a folio and its PTE that scanning reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedFolio {
    /// A PMD entry maps a whole huge page.
    pub huge_entry: bool,
    /// The mapping is private.
    pub private_mapping: bool,
    /// Other processes map the folio too.
    pub shared: bool,
    /// The folio is in a CPU's folio batch.
    pub in_batch: bool,
    /// The folio is in the page cache.
    pub is_file: bool,
    /// The folio is in the swap cache.
    pub in_swap_cache: bool,
    /// The folio has several pages.
    pub is_large: bool,
    /// The folio is dirty.
    pub dirty: bool,
    /// It is on the node of the address space's only thread.
    pub with_its_thread: bool,
}

/// Whether a PTE becomes PROT_NONE. Up to 6.18 every PMD mapping does. A page of a private mapping is left
/// alone if it has any other reference (up to 6.9), or if another address space maps it (6.10 and later).
#[inline]
pub fn takes_hint(f: &NumaFeatures, folio: &MappedFolio) -> bool {
    if folio.huge_entry && f.folio_test != FolioTest::SharersAlsoHuge {
        return true;
    }
    let referenced = match f.folio_test {
        FolioTest::References => {
            folio.shared || folio.in_batch || folio.is_file || folio.in_swap_cache || folio.is_large
        }
        FolioTest::Sharers | FolioTest::SharersAlsoHuge => folio.shared,
    };
    let stays = folio.private_mapping && (referenced || folio.with_its_thread);
    !(stays || folio.is_file && folio.dirty)
}

/// The budget of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Pages left for ranges in which something changed.
    pub pages: i64,
    /// Pages left for all ranges.
    pub virtual_pages: i64,
}

impl Budget {
    /// The budget of a new pass.
    pub fn new(settings: &NumaSettings) -> Budget {
        let pages = scan_pages(settings);
        Budget { pages, virtual_pages: VIRTUAL_PAGES * pages }
    }

    /// The end of the range that starts at `start`, in a VMA that ends at `vma_end`.
    pub fn range_end(&self, start: u64, vma_end: u64) -> u64 {
        (start + ((self.pages as u64) << PAGE_SHIFT)).next_multiple_of(HPAGE_SIZE).min(vma_end)
    }

    /// Charges a walked range; the whole range counts, however little of it changed.
    pub fn charge(&mut self, range: std::ops::Range<u64>, changed: u64) {
        let pages = ((range.end - range.start) >> PAGE_SHIFT) as i64;
        if changed > 0 {
            self.pages -= pages;
        }
        self.virtual_pages -= pages;
    }

    /// Whether the pass ends.
    pub fn is_spent(&self) -> bool {
        self.pages <= 0 || self.virtual_pages <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_entries_take_hints_depends_on_who_else_refers_to_the_folio() {
        let private = MappedFolio { private_mapping: true, ..MappedFolio::default() };
        let cases = [
            (private, [true; 3]),
            (MappedFolio { with_its_thread: true, ..private }, [false; 3]),
            (MappedFolio { with_its_thread: true, ..MappedFolio::default() }, [true; 3]),
            (MappedFolio { shared: true, ..private }, [false; 3]),
            (MappedFolio { shared: true, ..MappedFolio::default() }, [true; 3]),
            (MappedFolio { in_batch: true, ..private }, [false, true, true]),
            (MappedFolio { is_large: true, ..private }, [false, true, true]),
            (MappedFolio { is_file: true, ..private }, [false, true, true]),
            (MappedFolio { is_file: true, dirty: true, ..MappedFolio::default() }, [false; 3]),
            (MappedFolio { huge_entry: true, shared: true, ..private }, [true, true, false]),
        ];
        for (folio, expected) in cases {
            let kernels =
                [NumaFeatures::MAINLINE_6_8, NumaFeatures::MAINLINE_6_10, NumaFeatures::MAINLINE_6_19];
            assert_eq!(kernels.map(|f| takes_hint(&f, &folio)), expected, "{folio:?}");
        }
    }

    #[test]
    fn a_task_with_one_node_does_not_scan_since_6_16() {
        let allowed = [None, Some(Nodes(0b1)), Some(Nodes(0b11))];
        assert_eq!(allowed.map(|nodes| scans(&NumaFeatures::MAINLINE_6_12, nodes)), [true, true, true]);
        assert_eq!(allowed.map(|nodes| scans(&NumaFeatures::MAINLINE_6_16, nodes)), [true, false, true]);
    }
}
