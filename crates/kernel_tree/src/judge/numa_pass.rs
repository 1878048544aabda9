//! NUMA balancing: a scan pass, which VMAs it skips for which reason and how far it gets, as `numa/scan/` has it.
//!
//! Up to six VMAs, most of them private memory, some as nobody scans them; a scan stops at any of them and begins in the middle of one or
//! behind all. The thread is not exiting, and nobody else holds the lock of the address space or sets up a VMA's scan state meanwhile.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use mm::Features;
use mm::decisions::{Decisions, MOST_VMAS, ScanPassState};
use mm::jiffies::TICK_NS;
use mm::numa::Rules;
use mm::numa::scan::policy::{Scanner, SkipReason, VmaTraits, claim, is_due, scan_periods};
use mm::numa::scan::{MmScan, NumabState, Vmas, pass};
use mm::sysctl::NumaSettings;
use std::ops::Range;

pub fn cases() -> Vec<Case> {
    let case = |releases, draw, own| {
        let rule = |d: &Decisions| d.judged.task_numa_work;
        Case::from(Both { name: "task_numa_work", releases, rule, draw, own, known: &[] })
    };
    vec![case(Span::until(6, 3), thread_without_states, work_untraced), case(Span::since(6, 4), thread, work)]
}

/// Pages of 4 KiB.
const PAGE_SHIFT: u32 = 12;
const READ: u64 = 1;
const WRITE: u64 = 2;
const EXEC: u64 = 4;
const HUGETLB: u64 = 0x40_0000;
const MIXEDMAP: u64 = 0x1000_0000;

/// Yes in one case of four.
fn seldom(draw: &mut Draw) -> bool {
    draw.one_of([false, false, false, true])
}

fn thread(draw: &mut Draw) -> ScanPassState {
    let now = draw.number(1, 1 << 32, &[1000]);
    let scan_delay_ms = draw.number(0, 1 << 17, &[0, 1000]);
    let is_late = draw.one_of([false, true, true, true]);
    let next_scan =
        if is_late { draw.number(0, now, &[0, now]) } else { draw.number(0, now + 1000, &[0, now]) };
    let mut state = ScanPassState {
        now: now as u64,
        next_scan: next_scan as u64,
        scan_seq: draw.number(0, 1000, &[0, 1, 2]) as i32,
        pid: draw.number(1, 1 << 22, &[]) as i32,
        nr_threads: draw.number(1, 64, &[8]) as i32,
        scan_period: draw.number(0, 600_000, &[0, 1000]) as u32,
        scan_period_max: draw.number(0, 600_000, &[60_000]) as u32,
        scan_delay_ms: scan_delay_ms as u32,
        scan_size_mb: draw.number(1, 1 << 10, &[1, 2, 256]) as u32,
        scan_period_min_ms: draw.number(1, 60_000, &[1000]) as u32,
        scan_period_max_ms: draw.number(1, 600_000, &[60_000]) as u32,
        rss: draw.number(0, 1 << 32, &[0, 65_536]) as u64,
        failing_requests: if seldom(draw) { draw.number(0, 63, &[1]) as u32 } else { 0 },
        vmas: draw.number(0, MOST_VMAS as i64, &[1, 3]) as i32,
        ..ScanPassState::default()
    };
    let mut end = draw.number(1, 1 << 12, &[512]);
    let mut bounds = vec![0];
    for at in 0..state.vmas as usize {
        let start = end + draw.number(0, 1 << 12, &[0, 512]);
        end = start + draw.number(1, 1 << 15, &[512, 1024, 2048]);
        bounds.extend([start, end]);
        (state.vm_start[at], state.vm_end[at]) = (bytes(start), bytes(end));
        state.populated_to[at] =
            if seldom(draw) { bytes(draw.number(start, end, &[start])) } else { bytes(end) };
        vma(draw, &mut state, at);
    }
    state.scan_offset = bytes(draw.number(0, end + 1, &bounds));
    state
}

/// Before 6.4, VMAs have no scan state.
fn thread_without_states(draw: &mut Draw) -> ScanPassState {
    let none = ScanPassState::default();
    ScanPassState {
        has_state: none.has_state,
        state_next_scan: none.state_next_scan,
        pids_active_reset: none.pids_active_reset,
        pids_before: none.pids_before,
        pids_now: none.pids_now,
        start_scan_seq: none.start_scan_seq,
        prev_scan_seq: none.prev_scan_seq,
        ..thread(draw)
    }
}

fn bytes(pages: i64) -> u64 {
    (pages as u64) << PAGE_SHIFT
}

/// What a VMA is, and what earlier passes know of it.
fn vma(draw: &mut Draw, state: &mut ScanPassState, at: usize) {
    let is_odd = seldom(draw);
    let is = |draw: &mut Draw, flag| if is_odd && draw.flag() { flag } else { 0 };
    let rights = draw.one_of([READ | WRITE, READ, 0, READ | WRITE | EXEC, READ | EXEC, WRITE, EXEC]);
    let special = is(draw, HUGETLB) | is(draw, MIXEDMAP);
    state.vm_flags[at] = if is_odd { rights | special } else { READ | WRITE };
    state.migratable[at] = (is(draw, 1) == 0).into();
    state.migrates_on_fault[at] = (is(draw, 1) == 0).into();
    state.special[at] = is(draw, 1) as i32;
    state.file[at] = is(draw, 1) as i32;
    state.has_state[at] = (!seldom(draw)).into();
    if state.has_state[at] == 0 {
        return;
    }
    let (now, seq) = (state.now as i64, state.scan_seq.into());
    let turn = (i64::from(state.scan_delay_ms) + 3) / 4 * 4;
    state.state_next_scan[at] = if seldom(draw) { draw.number(0, now + 1000, &[now]) as u64 } else { 0 };
    state.pids_active_reset[at] = draw.number(0, now + 1000, &[now, now - turn]) as u64;
    let some = |draw: &mut Draw| 1 << draw.number(0, 63, &[]) | draw.number(0, i64::MAX, &[0]) as u64;
    state.pids_before[at] = some(draw);
    state.pids_now[at] = if draw.flag() { some(draw) } else { 0 };
    state.start_scan_seq[at] = draw.number(0, seq, &[seq - 1, seq - 2]) as i32;
    let idle = seq - i64::from(state.nr_threads);
    state.prev_scan_seq[at] = draw.number(-1, seq, &[seq, seq - 1, idle]) as i32;
}

/// The VMAs of a record, with what the pass knows of each.
struct OfRecord<'a> {
    state: &'a mut ScanPassState,
    known: [Option<NumabState>; MOST_VMAS],
    /// Requests for a scan state that fail, the next one's bit the lowest.
    failing: u32,
}

fn work(f: &Features, s: &mut ScanPassState) {
    let settings = NumaSettings {
        scan_delay_ms: s.scan_delay_ms.into(),
        scan_size_mb: s.scan_size_mb.into(),
        scan_period_min_ms: s.scan_period_min_ms.into(),
        scan_period_max_ms: s.scan_period_max_ms.into(),
        ..mm::Settings::default().numa
    };
    let mut scan = MmScan { next_scan: s.next_scan, scan_offset: s.scan_offset, scan_seq: s.scan_seq };
    let due = is_due(&mut scan, &settings, s.now);
    if due && s.scan_period == 0 {
        let bounds = scan_periods(&settings, s.rss, None);
        (s.scan_period, s.scan_period_max) = (bounds.start, bounds.max);
    }
    if due {
        claim(&mut scan, s.scan_period, s.now);
        s.node_stamp = 2 * TICK_NS;
        let scanner = Scanner { pid: s.pid as u32, nr_threads: s.nr_threads, started: s.now, forced: false };
        let mut vmas = OfRecord::of(s);
        pass(Rules::own(&f.numa, &settings), &mut scan, scanner, &mut vmas);
        vmas.leave();
    }
    (s.next_scan, s.scan_offset, s.scan_seq) = (scan.next_scan, scan.scan_offset, scan.scan_seq);
}

/// Where no tracepoint tells of skips.
fn work_untraced(f: &Features, s: &mut ScanPassState) {
    work(f, s);
    s.skipped = ScanPassState::default().skipped;
}

impl OfRecord<'_> {
    fn of(state: &mut ScanPassState) -> OfRecord<'_> {
        let known = std::array::from_fn(|at| {
            (state.has_state[at] != 0).then(|| NumabState {
                next_scan: state.state_next_scan[at],
                pids: [state.pids_before[at], state.pids_now[at]],
                reset_at: state.pids_active_reset[at],
                prev_scan_seq: state.prev_scan_seq[at],
                start_scan_seq: state.start_scan_seq[at],
            })
        });
        OfRecord { failing: state.failing_requests, state, known }
    }

    fn leave(self) {
        let s = self.state;
        for (at, known) in self.known.iter().enumerate() {
            s.has_state[at] = known.is_some().into();
            let Some(known) = known else { continue };
            s.state_next_scan[at] = known.next_scan;
            [s.pids_before[at], s.pids_now[at]] = known.pids;
            s.pids_active_reset[at] = known.reset_at;
            s.prev_scan_seq[at] = known.prev_scan_seq;
            s.start_scan_seq[at] = known.start_scan_seq;
        }
    }

    fn of_start(&self, start: u64) -> usize {
        let mut starts = self.state.vm_start.iter();
        starts.position(|&other| other == start).expect("the pass was told of it")
    }

    fn traits(&self, at: usize) -> VmaTraits {
        let s = &*self.state;
        let flags = s.vm_flags[at];
        let may_migrate = s.migratable[at] != 0 && s.migrates_on_fault[at] != 0;
        VmaTraits {
            suitable: may_migrate && flags & (HUGETLB | MIXEDMAP) == 0,
            read_only_file: s.special[at] != 0 || s.file[at] != 0 && flags & (READ | WRITE) == READ,
            accessible: flags & (READ | WRITE | EXEC) != 0,
        }
    }
}

impl Vmas for OfRecord<'_> {
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)> {
        let s = &*self.state;
        let at = (0..s.vmas as usize).find(|&at| s.vm_end[at] > address)?;
        Some((s.vm_start[at]..s.vm_end[at], self.traits(at)))
    }

    fn record(&mut self, start: u64) -> &mut Option<NumabState> {
        let at = self.of_start(start);
        &mut self.known[at]
    }

    fn can_allocate_record(&mut self) -> bool {
        let fails = self.failing & 1 != 0;
        self.failing >>= 1;
        !fails
    }

    fn change_prot(&mut self, start: u64, range: Range<u64>) -> u64 {
        let at = self.of_start(start);
        self.state.ranges[at] += 1;
        self.state.scanned[at] += range.end - range.start;
        (range.start < self.state.populated_to[at]).into()
    }

    fn now(&self) -> u64 {
        self.state.now
    }

    fn traced(&mut self, start: u64, reason: SkipReason) {
        let number = SkipReason::ALL.iter().position(|other| *other == reason).unwrap_or_default();
        let at = self.of_start(start);
        self.state.skipped[at] |= 1 << number;
    }
}
