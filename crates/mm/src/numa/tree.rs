//! Who decides how often a thread scans, and which VMAs: the policies of [`super::scan`] and [`super::placement`], or where a kernel tree has
//! the function, that.
//!
//! ```text
//!   settings, resident pages, group ─► NumaScanState ──► task_scan_min, ..., compiled from a tree ─► periods
//!   pids of a VMA, sequences ────────► VmaAccessState ─► vma_is_accessed ──────────────────────────► scan or skip
//! ```
//!
//! `update_task_scan_period` of a tree has `task_scan_min` and `task_scan_max` of that tree in it, whoever answers those otherwise.

use super::Rules;
use super::features::AccessingPids;
use super::placement::policy::{Decayed, Locality, PeriodUpdate, update_period};
use super::scan::policy::{self, Decision, GroupSharing, ScanPeriods, Scanner, SkipReason};
use super::scan::{MmScan, NumabState};
use crate::decisions::{NumaScanState, Rule, VmaAccessState};

/// A task whose scan period is updated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanningTask {
    /// Resident pages of its address space.
    pub(crate) rss: u64,
    /// What its group shares, if it is in one.
    pub(crate) sharing: Option<GroupSharing>,
    /// Its scan period, ms.
    pub(crate) period: u32,
    /// Its longest period (`numa_scan_period_max`).
    pub(crate) period_max: u32,
    /// Its faults since the last update.
    pub(crate) locality: Locality,
}

impl Rules<'_> {
    /// Bounds of the scan period of a task.
    pub(crate) fn scan_periods(&self, rss: u64, sharing: Option<GroupSharing>) -> ScanPeriods {
        let own = policy::scan_periods(self.settings, rss, sharing);
        let d = self.decisions;
        ScanPeriods {
            min: self.period(d.task_scan_min, own.min, rss, sharing),
            max: self.period(d.task_scan_max, own.max, rss, sharing),
            start: self.period(d.task_scan_start, own.start, rss, sharing),
        }
    }

    fn period(&self, rule: Rule<NumaScanState>, own: u32, rss: u64, sharing: Option<GroupSharing>) -> u32 {
        let Rule::Tree(decide) = rule else { return own };
        let mut state = self.state(rss, sharing);
        decide(&mut state);
        state.answer
    }

    /// The period until a task scans again, in view of its faults in the last sequence.
    pub(crate) fn update_period(&self, task: &ScanningTask, new: &Decayed) -> PeriodUpdate {
        let &ScanningTask { rss, sharing, period, period_max, locality } = task;
        let Rule::Tree(decide) = self.decisions.update_task_scan_period else {
            let bounds = self.scan_periods(rss, sharing);
            return update_period(self.features, period, period_max, bounds, locality, new);
        };
        let mut state = NumaScanState {
            scan_period: period,
            scan_period_max: period_max,
            locality: [locality.remote, locality.local, locality.failed],
            shared: new.shared,
            private: new.private,
            ..self.state(rss, sharing)
        };
        decide(&mut state);
        PeriodUpdate {
            period: state.scan_period,
            puts_off_scan: state.puts_off_scan != 0,
            clears_locality: state.locality == [0; 3],
        }
    }

    fn state(&self, rss: u64, sharing: Option<GroupSharing>) -> NumaScanState {
        let group = sharing.unwrap_or(GroupSharing { refs: 0, shared: 0, private: 0 });
        NumaScanState {
            scan_size_mb: self.settings.scan_size_mb as u32,
            scan_period_min_ms: self.settings.scan_period_min_ms as u32,
            scan_period_max_ms: self.settings.scan_period_max_ms as u32,
            has_group: sharing.is_some().into(),
            rss,
            group_refs: group.refs,
            group_shared: group.shared,
            group_private: group.private,
            ..NumaScanState::default()
        }
    }

    /// Whether a thread may scan a VMA that begins at `start`, as far as it matters who used it.
    pub(crate) fn access(
        &self,
        pids: AccessingPids,
        start: u64,
        record: &NumabState,
        mm: &MmScan,
        scanner: &Scanner,
    ) -> Decision {
        let Rule::Tree(decide) = self.decisions.vma_is_accessed else {
            return policy::access(self.features, pids, start, record, mm, scanner);
        };
        let mut state = VmaAccessState {
            scan_seq: mm.scan_seq,
            start_scan_seq: record.start_scan_seq,
            prev_scan_seq: record.prev_scan_seq,
            nr_threads: scanner.nr_threads,
            pid: scanner.pid as i32,
            pids_active: record.pids,
            scan_offset: mm.scan_offset,
            vm_start: start,
            ..VmaAccessState::default()
        };
        decide(&mut state);
        match (state.answer != 0, state.ignores_pid != 0) {
            (true, true) => Decision::ScanBegun,
            (true, false) => Decision::Scan,
            (false, _) => Decision::Skip(SkipReason::PidInactive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::NumaDecisions;
    use crate::numa::features::NumaFeatures;
    use crate::sysctl::NumaSettings;

    extern "C" fn by_size(state: &mut NumaScanState) {
        state.answer = state.rss as u32 + state.scan_size_mb + state.group_refs as u32;
    }

    extern "C" fn doubles(state: &mut NumaScanState) {
        state.scan_period = 2 * state.scan_period + state.locality[0] as u32;
        state.locality[1] = 0;
        state.puts_off_scan = 1;
    }

    extern "C" fn of_thread_7(state: &mut VmaAccessState) {
        state.answer = (state.pid == 7).into();
        state.ignores_pid = (state.scan_offset > state.vm_start).into();
    }

    #[test]
    fn a_tree_is_asked_about_what_it_has_a_function_for() {
        let decisions = NumaDecisions { task_scan_max: Rule::Tree(by_size), ..NumaDecisions::OWN };
        let settings = NumaSettings::default();
        let own = Rules::own(&NumaFeatures::MAINLINE_6_12, &settings);
        let rules = Rules { decisions: &decisions, ..own };
        let group = GroupSharing { refs: 3, shared: 1, private: 1 };
        let expected = ScanPeriods { max: 1000 + 256 + 3, ..own.scan_periods(1000, Some(group)) };
        assert_eq!(rules.scan_periods(1000, Some(group)), expected);
    }

    #[test]
    fn what_a_tree_leaves_of_the_counts_says_whether_they_are_forgotten() {
        let decisions = NumaDecisions { update_task_scan_period: Rule::Tree(doubles), ..NumaDecisions::OWN };
        let settings = NumaSettings::default();
        let rules = Rules { decisions: &decisions, ..Rules::own(&NumaFeatures::MAINLINE_6_12, &settings) };
        let new = Decayed { best: None, shared: 0, private: 0 };
        let update = |remote| {
            let locality = Locality { remote, local: 5, failed: 0 };
            let task = ScanningTask { rss: 1, sharing: None, period: 1000, period_max: 60_000, locality };
            rules.update_period(&task, &new)
        };
        assert_eq!(update(0), PeriodUpdate { period: 2000, puts_off_scan: true, clears_locality: true });
        assert_eq!(update(4), PeriodUpdate { period: 2004, puts_off_scan: true, clears_locality: false });
    }

    #[test]
    fn a_vma_that_a_tree_lets_nobody_scan_is_skipped_as_inactive() {
        let decisions = NumaDecisions { vma_is_accessed: Rule::Tree(of_thread_7), ..NumaDecisions::OWN };
        let settings = NumaSettings::default();
        let rules = Rules { decisions: &decisions, ..Rules::own(&NumaFeatures::MAINLINE_6_12, &settings) };
        let record =
            NumabState { next_scan: 0, pids: [0; 2], reset_at: 0, prev_scan_seq: 0, start_scan_seq: 0 };
        let access = |pid, scan_offset| {
            let scanner = Scanner { pid, nr_threads: 1, started: 0, forced: false };
            let mm = MmScan { scan_offset, ..MmScan::default() };
            rules.access(AccessingPids::TwoWindowsHashed, 4096, &record, &mm, &scanner)
        };
        assert_eq!(access(7, 0), Decision::Scan);
        assert_eq!(access(7, 8192), Decision::ScanBegun);
        assert_eq!(access(8, 8192), Decision::Skip(SkipReason::PidInactive));
    }
}
