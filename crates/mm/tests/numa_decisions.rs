//! What NUMA scanning decides, variant by variant: small address spaces, known passes, exact answers.

use machine::{Cpu, Node};
use mm::Series;
use mm::jiffies::{TICK_NS, jiffies};
use mm::numa::cpupid::Cpupid;
use mm::numa::features::{AccessingPids, NumaFeatures};
use mm::numa::migrate::policy::{
    Fault, FaultFlags, GroupUse, Mempolicy, Mode, Nodes, may_migrate, misplaced,
};
use mm::numa::placement::policy::{Join, Other, join};
use mm::numa::placement::{CountedFault, FaultedMm, TaskClock, TaskNuma};
use mm::numa::scan::policy::{self, Budget, MetVma, Scanner, SkipReason, VmaTraits, pid_bit};
use mm::numa::scan::{MmScan, NumabState, Vmas, pass};
use mm::numa::{Rules, Tasks};
use mm::sysctl::NumaSettings;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

const MIB: u64 = 1 << 20;
const ANONYMOUS: MetVma = MetVma { start: 0, traits: VmaTraits::ANONYMOUS };
const VARIANTS: [&str; 12] = [
    "numa-base",
    "vma-scanning-1",
    "vma-scanning-2",
    "vma-scanning-3",
    "vma-scanning-4",
    "partial-vmas-4",
    "partial-vmas-5",
    "partial-vmas-6",
    "numa-6.8",
    "numa-6.12",
    "numa-6.12.117",
    "numa-6.19",
];

fn features(name: &str) -> NumaFeatures {
    Series::NUMA.variant(name).unwrap().features.numa
}

/// An address space in which a scan changes all PTEs, unless a VMA is marked otherwise.
#[derive(Clone)]
struct Space {
    scan: MmScan,
    vmas: Vec<(Range<u64>, VmaTraits, Option<NumabState>, bool)>,
    now: u64,
    scanned: Vec<Range<u64>>,
    traced: Vec<(u64, SkipReason)>,
    threads: i32,
    /// Whether the allocation of a `numab_state` fails.
    no_memory: bool,
}

impl Space {
    /// Makes VMAs of so many MiB each, a MiB apart and full of pages.
    fn of(mib: &[u64]) -> Space {
        let mut at = MIB;
        let vmas = mib.iter().map(|mib| {
            let span = at..at + mib * MIB;
            at = span.end + MIB;
            (span, VmaTraits::ANONYMOUS, None, true)
        });
        Space {
            scan: MmScan::default(),
            vmas: vmas.collect(),
            now: 1000,
            scanned: Vec::new(),
            traced: Vec::new(),
            no_memory: false,
            threads: 3,
        }
    }

    fn at(&mut self, start: u64) -> &mut (Range<u64>, VmaTraits, Option<NumabState>, bool) {
        self.vmas.iter_mut().find(|vma| vma.0.start == start).unwrap()
    }

    /// Runs a pass by thread `pid`. Returns the number of pages scanned in each VMA.
    fn pass(&mut self, f: &NumaFeatures, settings: &NumaSettings, pid: u32) -> Vec<u64> {
        (self.scanned, self.traced) = (Vec::new(), Vec::new());
        let scanner = Scanner { pid, nr_threads: self.threads, started: self.now, forced: false };
        let mut scan = self.scan;
        let mut own = self.clone();
        pass(Rules::own(f, settings), &mut scan, scanner, &mut own);
        *self = Space { scan, ..own };
        let within = |span: &Range<u64>| {
            let ranges = self.scanned.iter().filter(|range| span.contains(&range.start));
            ranges.map(|range| (range.end - range.start) >> 12).sum()
        };
        self.vmas.iter().map(|(span, ..)| within(span)).collect()
    }

    /// The VMAs that have an end of one of `ranges` as their end.
    fn ended_by(&self, ranges: &[Range<u64>]) -> Vec<usize> {
        let ended = |vma: &usize| ranges.iter().any(|range| range.end == self.vmas[*vma].0.end);
        (0..self.vmas.len()).filter(ended).collect()
    }

    fn touch(&mut self, f: &NumaFeatures, vma: usize, pid: u32) {
        policy::note_access(f, &mut self.vmas[vma].2, pid);
    }
}

impl Vmas for Space {
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)> {
        let vma = self.vmas.iter().find(|vma| vma.0.end > address)?;
        Some((vma.0.clone(), vma.1))
    }
    fn record(&mut self, start: u64) -> &mut Option<NumabState> {
        &mut self.at(start).2
    }
    fn can_allocate_record(&mut self) -> bool {
        !self.no_memory
    }
    fn change_prot(&mut self, start: u64, range: Range<u64>) -> u64 {
        let full = self.at(start).3;
        self.scanned.push(range.clone());
        if full { (range.end - range.start) >> 12 } else { 0 }
    }
    fn now(&self) -> u64 {
        self.now
    }
    fn traced(&mut self, start: u64, reason: SkipReason) {
        self.traced.push((start, reason));
    }
}

/// Passes of 16 MiB, and delays of 100 ms, which are 25 jiffies.
fn settings() -> NumaSettings {
    NumaSettings { scan_size_mb: 16, scan_delay_ms: 100, ..NumaSettings::default() }
}

#[test]
fn the_first_pass_is_the_same_everywhere() {
    for name in VARIANTS {
        let mut space = Space::of(&[6, 4, 20]);
        let pages = space.pass(&features(name), &settings(), 7);
        // 6 and 4 MiB, then 6 more of the third VMA: 16 MiB, rounded up to a multiple of 2 MiB in address.
        assert_eq!(pages, [1536, 1024, 1792], "{name}");
        assert_eq!(space.scan.scan_offset, space.vmas[2].0.start + 7 * MIB, "{name}");
        assert_eq!(space.scan.scan_seq, 0, "{name}");
    }
}

/// Trap 14: a VMA whose `numab_state` cannot be allocated is skipped in each pass, without a tracepoint, and
/// accesses to it are not recorded. Its delay and its first sequences begin when the record is allocated.
#[test]
fn a_vma_without_a_record_is_passed_over() {
    for name in VARIANTS {
        let f = features(name);
        let mut space = Space::of(&[6]);
        space.no_memory = true;
        for pass in 1..=5 {
            let scanned = space.pass(&f, &settings(), 7)[0] > 0;
            assert_eq!((scanned, space.scan.scan_seq), (name == "numa-base", pass), "{name}");
            space.touch(&f, 0, 7);
            space.now += jiffies(10_000);
        }
        assert!(space.vmas[0].2.is_none() && space.traced.is_empty(), "{name}");
        if name == "numa-base" {
            continue;
        }
        space.no_memory = false;
        assert_eq!(space.pass(&f, &settings(), 7), [0], "{name}");
        let record = space.vmas[0].2.expect("the record can be allocated");
        assert_eq!((record.pids, record.start_scan_seq), ([0; 2], 5), "{name}");
        assert_eq!(record.next_scan, space.now + jiffies(100), "{name}");
        assert_eq!(space.traced.last().map(|&(_, reason)| reason), Some(SkipReason::ScanDelay), "{name}");
        // A record that exists needs no memory.
        space.no_memory = true;
        space.touch(&f, 0, 7);
        space.now += jiffies(100);
        assert_eq!(space.pass(&f, &settings(), 7), [1536], "{name}");
    }
}

#[test]
fn what_cannot_be_scanned_is_skipped_for_the_first_reason() {
    let of = |suitable, read_only_file, accessible| VmaTraits { suitable, read_only_file, accessible };
    let traits =
        [of(false, true, false), of(true, true, false), of(true, false, false), VmaTraits::ANONYMOUS];
    let reasons = [SkipReason::Unsuitable, SkipReason::SharedRo, SkipReason::Inaccessible];
    for name in VARIANTS {
        let mut space = Space::of(&[1, 1, 1, 1]);
        space.vmas.iter_mut().zip(traits).for_each(|(vma, traits)| vma.1 = traits);
        assert_eq!(space.pass(&features(name), &settings(), 7), [0, 0, 0, 256], "{name}");
        let traced: Vec<SkipReason> = space.traced.iter().map(|(_, reason)| *reason).collect();
        assert_eq!(traced, reasons, "{name}");
        assert_eq!(space.scan.scan_seq, 1, "{name}: the end was reached");
    }
}

/// One pass over a VMA for each path through the decisions, in the tenth sequence of a process with three
/// threads.
#[test]
fn each_kernel_takes_its_way_through_the_decisions() {
    const BEGUN: usize = 0;
    const UNSUITABLE: usize = 1;
    const READ_ONLY: usize = 2;
    const FORBIDDEN: usize = 3;
    const YOUNG: usize = 4;
    const TOUCHED: usize = 5;
    const UNTOUCHED: usize = 6;
    const COMPLETED: usize = 7;
    const IDLE: usize = 8;
    const NEWBORN: usize = 9;
    const TURNED: usize = 10;
    use SkipReason::{IgnorePid, Inaccessible, PidInactive, ScanDelay, SeqCompleted, SharedRo, Unsuitable};

    let never = [(UNSUITABLE, Unsuitable), (READ_ONLY, SharedRo), (FORBIDDEN, Inaccessible)];
    let young = [&never[..], &[(YOUNG, ScanDelay)]].concat();
    // From vma-scanning-2 on, VMAs that the thread did not touch are skipped too; partial-vmas-5 finishes the
    // one among them that was begun.
    let first = |begun: &[(usize, SkipReason)], then: &[usize]| {
        let inactive = then.iter().map(|&vma| (vma, PidInactive));
        begun.iter().chain(&young).copied().chain(inactive).collect::<Vec<_>>()
    };
    let ignored = first(&[(BEGUN, IgnorePid)], &[UNTOUCHED]);
    let completed = [&ignored[..], &[(COMPLETED, SeqCompleted)]].concat();
    let after = |then: &[(usize, SkipReason)]| [&completed[..], then].concat();
    let by_force = |then: &[usize]| after(&then.iter().map(|&vma| (vma, PidInactive)).collect::<Vec<_>>());
    let left_alone = first(&[(BEGUN, PidInactive)], &[UNTOUCHED, IDLE, NEWBORN]);
    let turned_first = first(&[(BEGUN, PidInactive)], &[UNTOUCHED, IDLE, NEWBORN, TURNED]);
    // The forced sweep begins behind the VMAs that were completed, and gets to those that this pass has
    // scanned already.
    let revisited = after(&[(TURNED, PidInactive), (IDLE, SeqCompleted), (NEWBORN, SeqCompleted)]);
    let touched = vec![TOUCHED, COMPLETED, TURNED];
    let all = vec![BEGUN, TOUCHED, UNTOUCHED, COMPLETED, IDLE, NEWBORN, TURNED];
    let expected = [
        (
            "numa-base",
            never.to_vec(),
            vec![BEGUN, YOUNG, TOUCHED, UNTOUCHED, COMPLETED, IDLE, NEWBORN, TURNED],
        ),
        ("vma-scanning-1", young.clone(), all),
        ("vma-scanning-2", left_alone.clone(), touched.clone()),
        ("vma-scanning-3", left_alone.clone(), touched.clone()),
        ("vma-scanning-4", left_alone, touched),
        // The bit was in the older window, which is dropped before it is tested.
        ("partial-vmas-4", turned_first, vec![TOUCHED, COMPLETED]),
        (
            "partial-vmas-5",
            first(&[(BEGUN, IgnorePid)], &[UNTOUCHED, IDLE, NEWBORN, TURNED]),
            vec![BEGUN, TOUCHED, COMPLETED],
        ),
        ("partial-vmas-6", by_force(&[IDLE, NEWBORN, TURNED]), vec![BEGUN, TOUCHED, IDLE]),
        ("numa-6.8", by_force(&[IDLE, TURNED]), vec![BEGUN, TOUCHED, NEWBORN, IDLE]),
        ("numa-6.12", revisited.clone(), vec![BEGUN, TOUCHED, IDLE, NEWBORN, TURNED]),
        ("numa-6.12.117", revisited.clone(), vec![BEGUN, TOUCHED, IDLE, NEWBORN, TURNED]),
        ("numa-6.19", revisited, vec![BEGUN, TOUCHED, IDLE, NEWBORN, TURNED]),
    ];
    assert_eq!(expected.each_ref().map(|(name, ..)| *name), VARIANTS);
    for (name, traced, scanned) in expected {
        let f = features(name);
        let mut space = Space::of(&[1; 11]);
        space.scan =
            MmScan { scan_seq: 10, scan_offset: space.vmas[BEGUN].0.start + MIB / 2, ..MmScan::default() };
        let of = |suitable, read_only_file, accessible| VmaTraits { suitable, read_only_file, accessible };
        space.vmas[UNSUITABLE].1 = of(false, false, true);
        space.vmas[READ_ONLY].1 = of(true, true, true);
        space.vmas[FORBIDDEN].1 = of(true, false, false);
        let bit = f.accessing_pids.map_or(0, |pids| pid_bit(pids, 7));
        let old =
            NumabState { next_scan: 0, pids: [0; 2], reset_at: 9999, prev_scan_seq: 9, start_scan_seq: 2 };
        for (vma, record) in [
            (BEGUN, old),
            (TOUCHED, NumabState { pids: [0, bit], ..old }),
            (UNTOUCHED, old),
            (COMPLETED, NumabState { pids: [0, bit], prev_scan_seq: 10, ..old }),
            (IDLE, NumabState { prev_scan_seq: 6, ..old }),
            (NEWBORN, NumabState { start_scan_seq: 9, ..old }),
            (TURNED, NumabState { pids: [bit, 0], reset_at: 999, ..old }),
        ] {
            space.vmas[vma].2 = Some(record);
        }
        let number = |address: u64| space.vmas.iter().position(|vma| vma.0.contains(&address)).unwrap();
        let mut after = space.clone();
        after.pass(&f, &settings(), 7);
        let met: Vec<_> = after.traced.iter().map(|&(start, reason)| (number(start), reason)).collect();
        assert_eq!(met, traced, "{name}");
        let scans: Vec<_> = after.scanned.iter().map(|range| number(range.start)).collect();
        assert_eq!(scans, scanned, "{name}");
        // Only a forced scan does not end a sequence.
        assert_eq!(after.scan.scan_seq, if f.once_a_sequence { 10 } else { 11 }, "{name}");
    }
}

/// Three passes of one thread over two VMAs of a MiB each that fit into one pass. In the third pass the
/// second VMA is new, or older than the delay, or touched by another thread only.
#[test]
fn delay_and_accesses() {
    // Name; pages of the new VMA scanned at once, after the delay, and once the process is at sequence 3.
    let expected = [
        ("numa-base", [256, 256, 256]),
        ("vma-scanning-1", [0, 256, 256]),
        ("vma-scanning-2", [0, 0, 0]),
        ("vma-scanning-3", [0, 0, 0]),
        ("vma-scanning-4", [0, 0, 0]),
        ("partial-vmas-4", [0, 0, 0]),
        ("partial-vmas-5", [0, 0, 0]),
        ("partial-vmas-6", [0, 256, 256]),
        ("numa-6.8", [0, 256, 256]),
        ("numa-6.12", [0, 256, 256]),
        ("numa-6.12.117", [0, 256, 256]),
        ("numa-6.19", [0, 256, 256]),
    ];
    for (name, expected) in expected {
        let f = features(name);
        let mut space = Space::of(&[1, 1]);
        // Two sequences of a process that has only the first VMA.
        let second = space.vmas.pop().unwrap();
        for _ in 0..2 {
            space.pass(&f, &settings(), 7);
            space.touch(&f, 0, 7);
            space.now += 10;
        }
        assert_eq!(space.scan.scan_seq, 2, "{name}");
        // Enough time has passed for a scan in every kernel.
        space.now += jiffies(100);
        space.vmas.push(second);
        let mut pages = Vec::new();
        for _ in 0..3 {
            space.touch(&f, 0, 7);
            pages.push(space.pass(&f, &settings(), 7)[1]);
            space.now += jiffies(100);
        }
        assert_eq!(pages[..2], expected[..2], "{name}");
        // By force, as no other VMA is left; before partial-vmas-6 there is no forced scan.
        let later = (0..3).map(|_| space.pass(&f, &settings(), 7)[1]).max().unwrap();
        assert_eq!(later, expected[2], "{name}");
    }
}

#[test]
fn before_m6_a_vma_that_was_not_touched_is_never_scanned_again() {
    for (name, comes_back) in [
        ("vma-scanning-2", false),
        ("vma-scanning-4", false),
        ("partial-vmas-5", false),
        ("partial-vmas-6", true),
        ("numa-6.12", true),
    ] {
        let f = features(name);
        let mut space = Space::of(&[1]);
        let mut scanned = 0;
        for _ in 0..20 {
            scanned = space.pass(&f, &settings(), 7)[0];
            space.now += jiffies(1000);
        }
        assert_eq!(scanned > 0, comes_back, "{name}");
    }
}

#[test]
fn windows_turn_before_the_test_or_after_it() {
    for (name, passes_with_bit) in
        [("vma-scanning-3", 3), ("vma-scanning-4", 3), ("partial-vmas-4", 2), ("partial-vmas-5", 2)]
    {
        let f = features(name);
        let mut space = Space::of(&[1]);
        for _ in 0..2 {
            space.pass(&f, &settings(), 7);
            space.now += jiffies(100);
        }
        space.touch(&f, 0, 7);
        // Enough time for the windows to turn at every pass.
        space.now += jiffies(10_000);
        let passes = (0..10).take_while(|_| space.pass(&f, &settings(), 7)[0] > 0).count();
        assert_eq!(passes + 1, passes_with_bit, "{name}");
    }
}

#[test]
fn times_are_compared_strictly() {
    let f = features("partial-vmas-4");
    let settings = settings();
    let scanner = Scanner { pid: 7, nr_threads: 1, started: 1000, forced: false };
    let mm = MmScan { scan_seq: 1, ..MmScan::default() };
    let mut record = None;
    let mut decide = |now: u64| {
        let decision = policy::decide(Rules::own(&f, &settings), ANONYMOUS, &mut record, &mm, &scanner, now);
        (decision, record.unwrap())
    };
    assert_eq!(decide(1000).0, policy::Decision::Skip(SkipReason::ScanDelay));
    assert_eq!(decide(1024).0, policy::Decision::Skip(SkipReason::ScanDelay));
    let (decision, record) = decide(1025);
    assert_eq!((decision, record.reset_at), (policy::Decision::Scan, 1125));
    assert_eq!(decide(1125).1.reset_at, 1125, "not yet");
    assert_eq!(decide(1126).1.reset_at, 1225, "the window advances by one period, not to now");
    assert_eq!(decide(9999).1.reset_at, 1325, "a visit turns the windows once");
}

#[test]
fn a_vma_begun_is_finished_by_any_thread_from_m5_on() {
    for (name, goes_on) in [
        ("vma-scanning-4", false),
        ("partial-vmas-4", false),
        ("partial-vmas-5", true),
        ("partial-vmas-6", true),
        ("numa-6.8", true),
    ] {
        let f = features(name);
        let mut space = Space::of(&[40]);
        for _ in 0..6 {
            space.pass(&f, &settings(), 7);
            space.now += jiffies(100);
        }
        assert_eq!(space.scan.scan_seq, 2, "{name}: three passes a sequence");
        space.touch(&f, 0, 7);
        let own = space.pass(&f, &settings(), 7)[0];
        assert_eq!(own, 4352, "{name}: 16 MiB, and what the start is off");
        let others = space.pass(&f, &settings(), 8);
        assert_eq!(others[0] > 0, goes_on, "{name}");
        let ignored = space.traced.iter().any(|(_, reason)| *reason == SkipReason::IgnorePid);
        assert_eq!(ignored, goes_on, "{name}");
    }
}

#[test]
fn the_forced_sweep_scans_one_vma_that_nobody_touched() {
    let f = features("partial-vmas-6");
    let mut space = Space::of(&[1, 1, 1]);
    for _ in 0..2 {
        space.pass(&f, &settings(), 7);
        space.now += jiffies(100);
    }
    let passes: Vec<Vec<u64>> = (0..4).map(|_| space.pass(&f, &settings(), 7)).collect();
    assert_eq!(passes, [[256, 0, 0], [0, 256, 0], [0, 0, 256], [256, 0, 0]]);
    assert_eq!(space.scan.scan_seq, 3, "nothing was left: a new sequence began within the pass");
}

#[test]
fn pids_share_bits() {
    let bits = |pids: AccessingPids, step: u32| {
        (0..64).map(|pid| pid_bit(pids, pid * step)).fold(0u64, |all, bit| all | bit).count_ones()
    };
    assert_eq!(bits(AccessingPids::OneWord, 1), 64);
    assert_eq!(bits(AccessingPids::TwoWindows, 64), 1);
    assert_eq!(bits(AccessingPids::TwoWindowsHashed, 1), 55);
    assert!(bits(AccessingPids::TwoWindowsHashed, 64) > 30);
}

#[test]
fn periods_follow_from_memory_and_settings() {
    let defaults = NumaSettings::default();
    let periods = |rss_mib: u64| policy::scan_periods(&defaults, rss_mib * 256, None);
    assert_eq!((periods(0).min, periods(0).max), (1000, 60_000), "a process without memory has one window");
    assert_eq!((periods(1024).min, periods(1024).max), (250, 15_000));
    assert_eq!(periods(1 << 20).min, 100, "no faster than 2560 MB/s");
    assert_eq!(periods(1 << 20).max, 100, "the longest period is not below the shortest");
    // By bits, 250 MiB would be two windows of 100 MiB and a rest, not three.
    let hundred = NumaSettings { scan_size_mb: 100, ..defaults };
    assert_eq!(policy::scan_periods(&hundred, 250 * 256, None).min, 500);
    // Recorded in an emulated machine: 64 MiB and some pages, 16 MiB a pass.
    let recorded =
        NumaSettings { scan_period_min_ms: 100, scan_period_max_ms: 1000, scan_size_mb: 16, ..defaults };
    let periods = policy::scan_periods(&recorded, 64 * 256 + 100, None);
    assert_eq!((periods.min, periods.max), (20, 200));
    let group = policy::GroupSharing { refs: 2, shared: 100, private: 0 };
    let periods = policy::scan_periods(&recorded, 64 * 256 + 100, Some(group));
    assert_eq!((periods.start, periods.max), (40, 400));
}

/// Passes of changing threads over changing VMAs, drawn at random.
#[derive(Clone, Debug)]
struct History {
    mib: Vec<u64>,
    steps: Vec<(u32, u8, u16)>,
}

fn histories() -> impl Strategy<Value = History> {
    let steps = prop::collection::vec((0..4u32, any::<u8>(), 0..600u16), 1..60);
    (prop::collection::vec(1..24u64, 1..6), steps).prop_map(|(mib, steps)| History { mib, steps })
}

/// The pages that each pass scanned, and the sequence after it. Threads touch the VMAs in `touched`, before
/// the pass.
fn play(
    history: &History,
    f: &NumaFeatures,
    settings: &NumaSettings,
    touches_all: bool,
) -> Vec<(Vec<u64>, i32)> {
    let mut space = Space::of(&history.mib);
    let mut passes = Vec::new();
    for &(thread, touched, later) in &history.steps {
        for vma in 0..space.vmas.len() {
            if touches_all || touched >> vma & 1 != 0 {
                space.touch(f, vma, thread);
            }
        }
        let pages = space.pass(f, settings, thread);
        passes.push((pages, space.scan.scan_seq));
        space.now += u64::from(later);
    }
    passes
}

#[test]
fn a_vma_met_in_a_later_sequence_waits_unless_there_is_no_delay() {
    for (delay, scanned) in [(100, false), (0, true)] {
        let settings = NumaSettings { scan_delay_ms: delay, ..settings() };
        let f = features("vma-scanning-1");
        let scanner = Scanner { pid: 7, nr_threads: 1, started: 1000, forced: false };
        let decide = |scan_seq: i32, now: u64| {
            let mm = MmScan { scan_seq, ..MmScan::default() };
            let mut record = None;
            let decision =
                policy::decide(Rules::own(&f, &settings), ANONYMOUS, &mut record, &mm, &scanner, now);
            (decision == policy::Decision::Scan, record.unwrap().next_scan)
        };
        // The delay counts from the start of the pass, although time has advanced since.
        assert_eq!(decide(1, 1003), (scanned, 1000 + jiffies(delay)));
        assert!(decide(0, 1003).0, "there is no delay in the first sequence");
    }
}

#[test]
fn p2_never_forgets() {
    let f = features("vma-scanning-2");
    let mut space = Space::of(&[1]);
    space.pass(&f, &settings(), 7);
    space.touch(&f, 0, 7);
    for _ in 0..100 {
        space.now += jiffies(10_000);
        assert_eq!(space.pass(&f, &settings(), 7), [256]);
    }
}

/// A fork resets the sequence of the process but not the records of VMAs, whose sequence numbers can be
/// larger then.
#[test]
fn records_survive_a_sequence_that_starts_over() {
    let mut space = Space::of(&[1, 1]);
    let f = features("numa-6.12");
    for _ in 0..6 {
        space.pass(&f, &settings(), 7);
        space.now += jiffies(100);
    }
    let [first, second] = [0, 1].map(|vma| space.vmas[vma].2.unwrap());
    assert!(first.prev_scan_seq > 0 && second.prev_scan_seq > 0);
    space.scan.scan_seq = 0;
    // The process is before the record's first sequence: the VMA is treated as new.
    assert_eq!(space.pass(&f, &settings(), 8), [256, 256]);
    // The same number by coincidence.
    space.scan = MmScan { scan_seq: 1, ..MmScan::default() };
    space.vmas[0].2.as_mut().unwrap().prev_scan_seq = 1;
    assert_eq!(space.pass(&f, &settings(), 8)[0], 0);
    assert!(space.traced.iter().any(|(_, reason)| *reason == SkipReason::SeqCompleted));
}

/// The sequences since a VMA was last scanned are compared as signed numbers with the current number of
/// threads.
#[test]
fn a_vma_comes_up_again_after_as_many_sequences_as_threads() {
    let f = features("numa-6.12");
    let settings = settings();
    for (prev, threads, seq, scanned) in
        [(5, 3, 8, false), (5, 3, 9, true), (5, 1, 7, true), (i32::MAX, 1, 9, true), (-1, 3, 2, false)]
    {
        let mm = MmScan { scan_seq: seq, ..MmScan::default() };
        let record =
            NumabState { next_scan: 0, pids: [0; 2], reset_at: 9999, prev_scan_seq: prev, start_scan_seq: 0 };
        let scanner = Scanner { pid: 7, nr_threads: threads, started: 1000, forced: false };
        let decision =
            policy::decide(Rules::own(&f, &settings), ANONYMOUS, &mut Some(record), &mm, &scanner, 1000);
        assert_eq!(decision == policy::Decision::Scan, scanned, "{prev} {threads} {seq}");
    }
}

#[test]
fn what_is_completed_is_left_behind() {
    let f = features("partial-vmas-6");
    let mut space = Space::of(&[1, 1, 1]);
    let seq = space.scan.scan_seq;
    space.pass(&f, &settings(), 7);
    space.scan.scan_seq = seq;
    for vma in &mut space.vmas[..2] {
        vma.2.as_mut().unwrap().prev_scan_seq = seq;
    }
    space.vmas[2].2.as_mut().unwrap().prev_scan_seq = seq - 1;
    // The budget ends in the last VMA: the offset is there, not in front of the completed VMAs.
    space.vmas[2].0.end += 40 * MIB;
    assert_eq!(space.pass(&f, &settings(), 7)[..2], [0, 0]);
    assert!(space.scan.scan_offset > space.vmas[1].0.end);
    assert_eq!(space.traced.iter().filter(|(_, reason)| *reason == SkipReason::SeqCompleted).count(), 2);
}

/// Trap 10: a VMA that is completed in a sequence moves the offset behind itself at once, and there the
/// forced sweep begins. It does not go back to untouched VMAs in front, and if nothing is left behind, a new
/// sequence begins.
#[test]
fn a_forced_sweep_begins_behind_what_was_completed() {
    const UNTOUCHED: i32 = 1;
    const COMPLETED: i32 = 2;
    let passes: [(&[i32], &[u64], i32); 4] = [
        (&[UNTOUCHED, UNTOUCHED], &[256, 0], 2),
        (&[UNTOUCHED, COMPLETED, UNTOUCHED], &[0, 0, 256], 2),
        (&[UNTOUCHED, COMPLETED, UNTOUCHED, COMPLETED, UNTOUCHED], &[0, 0, 0, 0, 256], 2),
        (&[UNTOUCHED, UNTOUCHED, COMPLETED], &[256, 0, 0], 3),
    ];
    for name in ["partial-vmas-6", "numa-6.8", "numa-6.12", "numa-6.19"] {
        for (records, pages, seq) in passes {
            let mut space = Space::of(&vec![1; records.len()]);
            space.scan = MmScan { scan_seq: 2, ..MmScan::default() };
            for (vma, &prev_scan_seq) in space.vmas.iter_mut().zip(records) {
                let (reset_at, start_scan_seq) = (9999, 0);
                let pids = [0; 2];
                vma.2 = Some(NumabState { next_scan: 0, pids, reset_at, prev_scan_seq, start_scan_seq });
            }
            assert_eq!(space.pass(&features(name), &settings(), 7), pages, "{name}, {records:?}");
            let scanned = pages.iter().position(|&pages| pages > 0).unwrap();
            assert_eq!(space.scan.scan_offset, space.vmas[scanned].0.end, "{name}, {records:?}");
            assert_eq!(space.scan.scan_seq, seq, "{name}, {records:?}");
        }
    }
}

/// Trap 11: over VMAs in which nothing changes, a pass walks eight times as many pages as it may change, in
/// ranges of the latter size. A full VMA ends the pass as if there had been no empty ones.
#[test]
fn a_pass_walks_eight_times_its_pages_of_empty_space() {
    for name in VARIANTS {
        let f = features(name);
        let mut space = Space::of(&[400]);
        space.vmas[0].3 = false;
        // Ranges of 16 MiB: the first begins a MiB behind a multiple of 2 MiB and ends at one.
        assert_eq!(space.pass(&f, &settings(), 7), [8 * 4096 + 256], "{name}");
        assert_eq!(space.pass(&f, &settings(), 7), [8 * 4096], "{name}");
        assert_eq!(space.scan.scan_offset, 258 * MIB, "{name}");

        // VMAs of an odd number of pages: the last range is as long as the others, though only one page is
        // left of the budget.
        let mut space = Space::of(&[127, 40, 40]);
        space.vmas[0].0.end += MIB - 4096;
        space.vmas[..2].iter_mut().for_each(|vma| vma.3 = false);
        assert_eq!(space.pass(&f, &settings(), 7), [8 * 4096 - 1, 4352, 0], "{name}");

        let mut space = Space::of(&[100, 40]);
        space.vmas[0].3 = false;
        assert_eq!(space.pass(&f, &settings(), 7), [25_600, 4096], "{name}");
    }
}

#[test]
fn a_pass_that_finds_nothing_takes_its_turn() {
    let settings = NumaSettings::default();
    let mut mm = MmScan { next_scan: 100, ..MmScan::default() };
    assert!(!policy::is_due(&mut mm, &settings, 99));
    assert!(policy::is_due(&mut mm, &settings, 100));
    policy::claim(&mut mm, 1000, 100);
    assert_eq!(mm.next_scan, 350, "no other thread begins a pass within a period");
    assert!(!policy::is_due(&mut mm, &settings, 349));
}

/// A new thread is supposed to wait for some scan periods. The kernel confuses units: what remains is two
/// ticks, and a period as long as the delay.
#[test]
fn a_new_thread_scans_after_two_ticks() {
    let settings = NumaSettings::default();
    let parent = TaskNuma::new(1, &settings);
    let bounds = policy::scan_periods(&settings, 0, None);
    let thread = TaskNuma::new_thread(2, &settings, &parent, bounds, 100);
    assert_eq!(thread.node_stamp, 2 * TICK_NS + 60_000, "60,000 ms as nanoseconds");
    assert_eq!(thread.scan_period, 1000);
    let tick = |runtime| policy::tick(thread.node_stamp, thread.scan_period, runtime, 0, 0);
    assert_eq!(tick(thread.node_stamp + 1_000_000_000), None);
    assert!(!tick(thread.node_stamp + 1_000_000_001).unwrap().restarts_period, "it is not its first");
}

fn two_nodes() -> Tasks {
    Tasks::new(vec![vec![10, 20], vec![20, 10]], Nodes::of_all(&[0, 1]))
}

/// A thread cannot have a preferred node without CPUs: the nearest node with CPUs takes its place.
#[test]
fn a_thread_is_at_home_where_it_can_run() {
    let distances = vec![vec![10, 40, 20], vec![40, 10, 30], vec![20, 30, 10]];
    for (with_cpus, home) in [(&[0, 1, 2][..], 2), (&[0, 1], 0), (&[1], 1)] {
        let (f, settings) = (features("numa-6.12"), NumaSettings::default());
        let mut tasks = Tasks::new(distances.clone(), Nodes::of_all(with_cpus));
        let task = tasks.add(TaskNuma::new(7, &settings));
        let mut mm = MmScan::default();
        let (last, cpu_node, flags) = (Cpupid::UNSET, Node(1), FaultFlags::default());
        let fault = CountedFault { last, node: Node(2), cpu_node, pages: 1, flags };
        for now in [1000, 2000] {
            let at = TaskClock { now, now_ns: now * TICK_NS, runtime_ns: now * TICK_NS, load_sum: 0 };
            tasks.fault(
                Rules::own(&f, &settings),
                task,
                at,
                &fault,
                None,
                FaultedMm { scan: &mut mm, rss: 4096 },
            );
            mm.scan_seq += 1;
        }
        assert_eq!(tasks.get(task).preferred, Some(Node(home)), "{with_cpus:?}");
    }
}

/// A large folio is one hint fault but counts with all its pages; one that cannot be migrated delays the
/// scans of its whole process.
#[test]
fn pages_are_counted_and_failures_slow_the_process() {
    let (f, settings) = (features("numa-6.12"), NumaSettings::default());
    let rules = Rules::own(&f, &settings);
    for (flags, next_scan) in [(FaultFlags::MIGRATED, 7), (FaultFlags::MIGRATE_FAIL, 1000 + jiffies(2000))] {
        let mut tasks = two_nodes();
        let task = tasks.add(TaskNuma::new(7, &settings));
        let mut mm = MmScan { next_scan: 7, ..MmScan::default() };
        let fault = CountedFault { last: Cpupid::UNSET, node: Node(1), cpu_node: Node(0), pages: 16, flags };
        let at = |now| TaskClock { now, now_ns: now * TICK_NS, runtime_ns: now * TICK_NS, load_sum: 0 };
        tasks.fault(rules, task, at(999), &fault, None, FaultedMm { scan: &mut mm, rss: 4096 });
        let own = tasks.get(task);
        assert_eq!((own.locality.remote, own.locality.local), (16, 0));
        assert_eq!(own.locality.failed, if flags == FaultFlags::MIGRATED { 0 } else { 16 });
        // The sequence ends, and the next fault runs `task_numa_placement`.
        mm.scan_seq = 1;
        let local = CountedFault { flags: FaultFlags::FAULT_LOCAL, cpu_node: Node(1), ..fault };
        tasks.get_mut(task).locality.local = 1;
        tasks.fault(rules, task, at(1000), &local, None, FaultedMm { scan: &mut mm, rss: 4096 });
        assert_eq!(mm.next_scan, next_scan);
        assert_eq!(tasks.get(task).preferred, Some(Node(1)));
    }
}

/// A failed migration doubles the scan period. In kernels that do not forget the failure, it doubles at each
/// placement from then on, though all pages migrate, until it is at its maximum; in the others, it adapts to
/// the faults.
#[test]
fn a_failure_that_is_not_forgotten_slows_a_thread_for_good() {
    for (name, periods) in
        [("numa-6.12", [2000, 4000, 8000, 15_000, 15_000]), ("numa-6.12.117", [2000, 2600, 3380, 4394, 5714])]
    {
        let (f, settings) = (features(name), NumaSettings::default());
        let mut tasks = two_nodes();
        let task = tasks.add(TaskNuma::new(7, &settings));
        let mut mm = MmScan::default();
        let mut fault = |mm: &mut MmScan, flags, now| {
            let at = TaskClock { now, now_ns: now * TICK_NS, runtime_ns: now * TICK_NS, load_sum: 0 };
            let fault =
                CountedFault { last: Cpupid::UNSET, node: Node(0), cpu_node: Node(0), pages: 1, flags };
            // A GiB takes four passes, so the longest period is 15 s.
            tasks.fault(
                Rules::own(&f, &settings),
                task,
                at,
                &fault,
                None,
                FaultedMm { scan: mm, rss: 4 << 16 },
            );
            tasks.get(task).scan_period
        };
        fault(&mut mm, FaultFlags::MIGRATE_FAIL, 1000);
        let mut period = |number: u64| {
            fault(&mut mm, FaultFlags::FAULT_LOCAL, 10_000 * number);
            mm.scan_seq += 1;
            // The fault that runs the placement counts for the next sequence.
            fault(&mut mm, FaultFlags::FAULT_LOCAL, 10_000 * number + 5000)
        };
        assert_eq!([1, 2, 3, 4, 5].map(&mut period), periods, "{name}");
    }
}

/// Between groups of equal size, age decides, where the kernel compares addresses; a task never leaves a
/// larger group.
#[test]
fn a_younger_group_joins_an_older_one() {
    let other = |group| Other { matches: true, group: Some(group), same_mm: true };
    assert_eq!(join((2, 1), &other((1, 1)), false), Join::Join);
    assert_eq!(join((1, 1), &other((2, 1)), false), Join::Stay);
    assert_eq!(join((1, 1), &other((2, 2)), false), Join::Join);
    assert_eq!(join((2, 3), &other((1, 2)), false), Join::Stay);
    let elsewhere = Other { same_mm: false, ..other((1, 1)) };
    assert_eq!(join((2, 1), &elsewhere, false), Join::LooksAlike);
    assert_eq!(join((2, 1), &elsewhere, true), Join::Join);
    assert_eq!(join((2, 1), &Other { matches: false, ..other((1, 1)) }, true), Join::Stay);
}

/// "Early" refers to the task's own sequence number, which it copies at its placement.
#[test]
fn early_faults_bring_pages_at_once() {
    let at = |task_scan_seq, preferred| Fault {
        pid: 7,
        last: Cpupid::UNSET,
        last_node: None,
        destination: Node(1),
        preferred,
        task_scan_seq,
        group: Some(GroupUse { cpu_source: 9, cpu_destination: 1, memory_source: 1, memory_destination: 9 }),
        from_slow_memory: false,
    };
    assert!(may_migrate(&at(4, Some(Node(1)))));
    assert!(!may_migrate(&at(5, Some(Node(1)))));
    assert!(may_migrate(&at(5, None)), "no node is preferred yet");
    // A task of another node was the last: it takes two faults in a row.
    let second = |node| Fault { last: Cpupid::new(Cpu(3), 8), last_node: Some(Node(node)), ..at(9, None) };
    assert!(!may_migrate(&Fault { group: None, ..second(0) }));
    assert!(may_migrate(&Fault { group: None, ..second(1) }));
}

/// The VMAs that were scanned to their ends in each sequence, and the number of sequences that are over. All
/// VMAs are older than the delay when the first sequence ends, and windows turn much later.
fn completed(history: &History, f: &NumaFeatures) -> (Vec<BTreeSet<usize>>, usize) {
    let settings = NumaSettings { scan_delay_ms: 4000, ..settings() };
    let mut space = Space::of(&history.mib);
    let mut completed = vec![BTreeSet::new(); 2 * history.steps.len() + 20];
    let first = history.steps[0].0;
    while space.scan.scan_seq == 0 {
        space.pass(f, &settings, first);
        completed[0].extend(space.ended_by(&space.scanned));
    }
    space.now += jiffies(4000);
    for &(thread, touched, later) in &history.steps {
        for vma in 0..space.vmas.len() {
            if touched >> vma & 1 != 0 {
                space.touch(f, vma, thread);
            }
        }
        let before = space.scan;
        space.pass(f, &settings, thread);
        // A pass that starts behind the last VMA begins the next sequence; a forced scan may begin another
        // one.
        let wraps = space.vmas.last().unwrap().0.end <= before.scan_offset;
        let seq = before.scan_seq as usize + usize::from(wraps);
        let again = space.scanned.iter().position(|range| !wraps && range.start < before.scan_offset);
        let (now, next) = space.scanned.split_at(again.unwrap_or(space.scanned.len()));
        completed[seq].extend(space.ended_by(now));
        completed[seq + 1].extend(space.ended_by(next));
        space.now += u64::from(later);
    }
    (completed, space.scan.scan_seq as usize)
}

/// From partial-vmas-6 on, VMAs that a thread touched are completed first, and a pass that meets a completed
/// one continues behind it. Untouched VMAs in front get a forced scan, the first two before the sequence is
/// over: the third waits forever, or until its age counts (numa-6.12). If another thread that has touched it
/// scans now and then, it is scanned in every kernel.
#[test]
fn what_was_touched_hides_what_lies_in_front_of_it() {
    const HIDDEN: usize = 2;
    const TOUCHED: usize = 3;
    for (name, scanned_by_one, scanned_by_two) in [
        ("vma-scanning-4", [false, false, false, true], [false, false, true, true]),
        ("partial-vmas-6", [true, true, false, true], [true; 4]),
        ("numa-6.8", [true, true, false, true], [true; 4]),
        ("numa-6.12", [true; 4], [true; 4]),
    ] {
        for (threads, expected) in [(1, scanned_by_one), (2, scanned_by_two)] {
            let f = features(name);
            let mut space = Space::of(&[1; 4]);
            let mut scanned = [false; 4];
            for pass in 0..60 {
                space.touch(&f, TOUCHED, 7);
                space.touch(&f, HIDDEN, 8);
                let pages = space.pass(&f, &settings(), if threads == 2 && pass % 5 == 0 { 8 } else { 7 });
                if pass >= 20 {
                    scanned.iter_mut().zip(pages).for_each(|(scanned, pages)| *scanned |= pages > 0);
                }
                space.now += jiffies(100);
            }
            assert_eq!(scanned, expected, "{name}, {threads} threads");
        }
    }
}

proptest! {
    /// A VMA that was begun is the one in which the pass starts; no other VMA benefits.
    #[test]
    fn only_the_vma_begun_is_finished(history in histories(), variant in 0..VARIANTS.len()) {
        let f = features(VARIANTS[variant]);
        let mut space = Space::of(&history.mib);
        for &(thread, touched, later) in &history.steps {
            for vma in 0..space.vmas.len() {
                if touched >> vma & 1 != 0 {
                    space.touch(&f, vma, thread);
                }
            }
            let offset = space.scan.scan_offset;
            space.pass(&f, &settings(), thread);
            for (start, reason) in &space.traced {
                if *reason == SkipReason::IgnorePid {
                    let end = space.vmas.iter().find(|vma| vma.0.start == *start).unwrap().0.end;
                    prop_assert!(*start < offset && offset < end, "{start:#x} with the pass from {offset:#x}");
                }
            }
            space.now += u64::from(later);
        }
    }

    /// From partial-vmas-6 on, every VMA is completed in each sequence, even if nobody touches it, as long as
    /// there are passes. From numa-6.12 on, a VMA that is scanned because of its age can use up the budget
    /// before another one is forced, which then waits until it is as old.
    #[test]
    fn every_vma_is_completed_in_every_sequence(history in histories(), variant in 7..VARIANTS.len()) {
        let f = features(VARIANTS[variant]);
        let mut space = Space::of(&history.mib);
        let most = if f.revisits_idle_vmas { space.threads + 2 } else { 1 };
        // A VMA at whose end the budget ended is not marked as completed, so the test checks when the end was
        // reached.
        let mut reached = vec![0; space.vmas.len()];
        for &(thread, ..) in history.steps.iter().cycle().take(200) {
            space.pass(&f, &settings(), thread);
            let seq = space.scan.scan_seq;
            for (vma, reached) in space.vmas.iter().zip(&mut reached) {
                if space.scanned.iter().any(|range| range.end == vma.0.end) {
                    *reached = seq;
                }
                prop_assert!(seq - *reached <= most, "{:?} at {seq}", reached);
            }
            space.now += jiffies(100);
        }
    }

    /// Trap 20: a VMA that vma-scanning-4 completes in a sequence is completed by partial-vmas-6 too. This
    /// holds for a single scanning thread and as long as windows do not turn: partial-vmas-6 turns them at
    /// each visit, and the passes of one of its sequences are not by the same threads as those of
    /// vma-scanning-4, so the thread that touched a VMA may have no turn in it.
    #[test]
    fn m6_completes_what_p4_does(history in histories()) {
        let mut one = history;
        one.steps.iter_mut().for_each(|step| *step = (7, step.1, step.2 % 60));
        let [(p4, of_p4), (m6, of_m6)] = ["vma-scanning-4", "partial-vmas-6"].map(|name| completed(&one, &features(name)));
        for (seq, p4) in p4.iter().enumerate().take(of_p4.min(of_m6)) {
            prop_assert!(p4.is_subset(&m6[seq]), "sequence {seq}: {p4:?}, {:?}", m6[seq]);
        }
    }

    #[test]
    fn without_a_delay_p1_is_b0(history in histories()) {
        let settings = NumaSettings { scan_delay_ms: 0, ..settings() };
        prop_assert_eq!(play(&history, &features("numa-base"), &settings, false), play(&history, &features("vma-scanning-1"), &settings, false));
    }

    #[test]
    fn a_delay_never_adds_scans(history in histories()) {
        let sum = |name: &str| -> u64 {
            play(&history, &features(name), &settings(), false).iter().map(|(pages, _)| pages.iter().sum::<u64>()).sum()
        };
        prop_assert!(sum("vma-scanning-1") <= sum("numa-base"));
    }

    #[test]
    fn a_thread_that_touches_all_is_not_held_back(history in histories()) {
        let mut one = history;
        one.steps.iter_mut().for_each(|step| step.0 = 1);
        let p1 = play(&one, &features("vma-scanning-1"), &settings(), true);
        prop_assert_eq!(&p1, &play(&one, &features("vma-scanning-4"), &settings(), true));
        prop_assert_eq!(&p1, &play(&one, &features("vma-scanning-2"), &settings(), true));
    }

    #[test]
    fn hashing_changes_collisions_only(history in histories()) {
        // Four PIDs below 64 have different bits with and without hashing.
        prop_assert_eq!(play(&history, &features("vma-scanning-3"), &settings(), false), play(&history, &features("vma-scanning-4"), &settings(), false));
    }

    #[test]
    fn a_pass_keeps_to_its_budget_and_sequence(history in histories(), variant in 0..VARIANTS.len(), empty in any::<u8>()) {
        let f = features(VARIANTS[variant]);
        // Empty VMAs so large that a pass cannot walk all of them.
        let size = |(number, &mib): (usize, &u64)| if empty >> number & 1 == 0 { mib } else { 8 * mib };
        let mut space = Space::of(&history.mib.iter().enumerate().map(size).collect::<Vec<u64>>());
        for (number, vma) in space.vmas.iter_mut().enumerate() {
            vma.3 = empty >> number & 1 == 0;
        }
        let mut completed = vec![None; space.vmas.len()];
        for &(thread, touched, later) in &history.steps {
            for vma in 0..space.vmas.len() {
                if touched >> vma & 1 != 0 {
                    space.touch(&f, vma, thread);
                }
            }
            let before = space.scan.scan_seq;
            space.pass(&f, &settings(), thread);
            let full = |range: &&Range<u64>| space.vmas.iter().any(|vma| vma.3 && vma.0.contains(&range.start));
            let charged: u64 = space.scanned.iter().filter(full).map(|range| (range.end - range.start) >> 12).sum();
            prop_assert!(charged <= 4096 + 511, "{charged} pages");
            let walked: u64 = space.scanned.iter().map(|range| (range.end - range.start) >> 12).sum();
            // With one page of the budget left, the last range may be as long as the pages that may still
            // change.
            prop_assert!(walked < 8 * 4096 + 4096 + 511, "{walked} pages walked");
            let empty_only = space.scanned.iter().all(|range| !full(&range));
            let of_one_area = space.scanned.windows(2).all(|two| two[0].end == two[1].start);
            prop_assert!(!empty_only || !of_one_area || walked <= 8 * 4096 + 511, "{walked} pages of one");
            prop_assert!((0..=2).contains(&(space.scan.scan_seq - before)));
            if f.once_a_sequence {
                for (vma, completed) in space.vmas.iter().zip(&mut completed) {
                    let ended = space.scanned.iter().any(|range| vma.0.contains(&range.start) && range.end == vma.0.end);
                    if ended && space.scan.scan_seq == before {
                        prop_assert!(*completed != Some(before) || vma.2.unwrap().prev_scan_seq != before);
                        if vma.2.unwrap().prev_scan_seq == before {
                            *completed = Some(before);
                        }
                    }
                }
            }
            space.now += u64::from(later);
        }
    }

    #[test]
    fn the_budget_ends_where_2_mib_do(start in 0..1u64 << 30, pages in 1..5000i64, length in 1..1u64 << 30) {
        let budget = Budget { pages, virtual_pages: 8 * pages };
        let start = start & !4095;
        let end = budget.range_end(start, start + length);
        prop_assert!(end == start + length || end.is_multiple_of(2 * MIB));
        prop_assert!(end - start < ((pages as u64) << 12) + 2 * MIB);
    }
}

/// Interleaving uses the nodes of a policy in ascending order; a page that is on the node of its turn stays
/// there.
#[test]
fn nodes_take_turns() {
    let nodes = Nodes(0b1011);
    assert_eq!([0, 1, 2, 3, 7].map(|turn| nodes.on_turn(turn).map(|node| node.0)), [0, 1, 3, 0, 1].map(Some));
    assert_eq!(Nodes(0).on_turn(5), None);
    let policy = Mempolicy {
        mode: Mode::Interleave(nodes),
        migrate_on_fault: true,
        migrate_on_referencing_node: false,
    };
    let target = |turn, folio| {
        let distances = vec![vec![10; 4]; 4];
        misplaced(&policy, Node(2), Node(folio), turn, &distances, |_| unreachable!("nobody is asked"))
    };
    let moves = [(0, 0), (1, 0), (2, 0), (3, 3), (4, 1)].map(|(turn, folio)| target(turn, folio));
    assert_eq!(moves, [None, Some(Node(1)), Some(Node(3)), Some(Node(0)), None]);
}
