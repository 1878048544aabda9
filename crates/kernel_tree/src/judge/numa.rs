//! NUMA balancing: how often a task's memory is scanned, as `numa/scan/policy.rs` and `numa/placement/policy.rs` have it.
//!
//! Settings are those that the kernel takes; group statistics stay below 2^40, so that products do not wrap. A fault is local or remote, and
//! private or shared, so both make the same sum: otherwise the kernel would divide by zero.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use super::features::accessing_pids;
use mm::Features;
use mm::decisions::{Decisions, NumaScanState, Rule, VmaAccessState};
use mm::numa::placement::policy::{Decayed, Locality, update_period};
use mm::numa::scan::policy::{Decision, GroupSharing, ScanPeriods, Scanner, access, scan_periods};
use mm::numa::scan::{MmScan, NumabState};
use mm::sysctl::NumaSettings;

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<NumaScanState>, own| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: task, own, known: KNOWN })
    };
    vec![
        case("task_scan_min", |d| d.numa.task_scan_min, |_, s| s.answer = periods(s).min),
        case("task_scan_max", |d| d.numa.task_scan_max, |_, s| s.answer = periods(s).max),
        case("task_scan_start", |d| d.numa.task_scan_start, |_, s| s.answer = periods(s).start),
        Case::from(Both {
            name: "vma_is_accessed",
            releases: Span::since(6, 4),
            rule: |d| d.numa.vma_is_accessed,
            draw: vma,
            own: may_scan,
            known: &[],
        }),
        case("update_task_scan_period", |d| d.numa.update_task_scan_period, next_period),
    ]
}

const KNOWN: &[Known<NumaScanState>] = &[Known {
    releases: Span::only(6, 12),
    when: |s| s.locality[1] + s.shared == 0 || s.locality[2] > 0,
    why: "6.12.117 clears the locality of faults in any case (e81ee0630837), as the variant numa-6.12.117 does; 6.12 does not yet",
}];

fn task(draw: &mut Draw) -> NumaScanState {
    let mut state = NumaScanState {
        scan_size_mb: draw.number(1, 1 << 16, &[256, 2560]) as u32,
        scan_period_min_ms: draw.number(1, 60_000, &[1000]) as u32,
        scan_period_max_ms: draw.number(1, 600_000, &[60_000]) as u32,
        has_group: draw.flag().into(),
        rss: draw.number(0, 1 << 32, &[0, 65_536]) as u64,
        group_refs: draw.number(1, 4096, &[]) as u64,
        group_shared: draw.number(0, 1 << 30, &[]) as u64,
        group_private: draw.number(0, 1 << 30, &[]) as u64,
        scan_period_max: draw.number(1000, 600_000, &[60_000]) as u32,
        locality: [0; 3].map(|_: u64| draw.number(0, 1 << 20, &[0]) as u64),
        ..NumaScanState::default()
    };
    let faults = state.locality[0] + state.locality[1];
    state.private = draw.number(0, faults as i64, &[0, faults as i64]) as u64;
    state.shared = faults - state.private;
    if draw.flag() {
        state.locality[2] = 0;
    }
    // A task begins with no less than its shortest period.
    let ScanPeriods { min, .. } = periods(&state);
    state.scan_period = min + draw.number(0, 60_000, &[]) as u32;
    state
}

fn vma(draw: &mut Draw) -> VmaAccessState {
    let scan_seq = draw.number(0, 1000, &[]);
    VmaAccessState {
        scan_seq: scan_seq as i32,
        start_scan_seq: draw.number(0, scan_seq, &[scan_seq - 2]) as i32,
        prev_scan_seq: draw.number(-1, scan_seq, &[scan_seq - 8]) as i32,
        nr_threads: draw.number(1, 64, &[8]) as i32,
        pid: draw.number(1, 1 << 22, &[]) as i32,
        // Some threads of 64.
        pids_active: [0; 2]
            .map(|_: u64| 1 << draw.number(0, 63, &[]) | draw.number(0, i64::MAX, &[0]) as u64),
        scan_offset: draw.number(0, 1 << 47, &[1 << 30]) as u64,
        vm_start: draw.number(0, 1 << 47, &[1 << 30]) as u64,
        ..VmaAccessState::default()
    }
}

fn may_scan(f: &Features, s: &mut VmaAccessState) {
    let record = NumabState {
        next_scan: 0,
        pids: s.pids_active,
        reset_at: 0,
        prev_scan_seq: s.prev_scan_seq,
        start_scan_seq: s.start_scan_seq,
    };
    let mm = MmScan { next_scan: 0, scan_offset: s.scan_offset, scan_seq: s.scan_seq };
    let scanner = Scanner { pid: s.pid as u32, nr_threads: s.nr_threads, started: 0, forced: false };
    let decision = access(&f.numa, accessing_pids(f), s.vm_start, &record, &mm, &scanner);
    s.answer = (!matches!(decision, Decision::Skip(_))).into();
    s.ignores_pid = (decision == Decision::ScanBegun).into();
}

fn periods(s: &NumaScanState) -> ScanPeriods {
    let settings = NumaSettings {
        scan_size_mb: s.scan_size_mb.into(),
        scan_period_min_ms: s.scan_period_min_ms.into(),
        scan_period_max_ms: s.scan_period_max_ms.into(),
        ..mm::Settings::default().numa
    };
    let group = GroupSharing { refs: s.group_refs, shared: s.group_shared, private: s.group_private };
    scan_periods(&settings, s.rss, (s.has_group != 0).then_some(group))
}

fn next_period(f: &Features, s: &mut NumaScanState) {
    let [remote, local, failed] = s.locality;
    let new = Decayed { best: None, shared: s.shared, private: s.private };
    let locality = Locality { remote, local, failed };
    let update = update_period(&f.numa, s.scan_period, s.scan_period_max, periods(s), locality, &new);
    s.scan_period = update.period;
    s.puts_off_scan = update.puts_off_scan.into();
    if update.clears_locality {
        s.locality = [0; 3];
    }
}
