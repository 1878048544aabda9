//! The VMAs of a recorded process: what its passes scanned and skipped, put together.
//!
//! ```text
//!   passes of the kernel   scans A, skips B      scans A, skips B, C      skips B, C
//!   VMAs                   A ─────────────────────────┤    B ──────────────────┤    C        ├──────────┤
//! ```
//!
//! Threads map and unmap memory while they run, such as the stacks of their signals. A VMA is there from the first pass that
//! met it to the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mm::numa::features::NumaFeatures;
use mm::numa::scan::policy::{SkipReason, VmaTraits, note_access};
use mm::numa::scan::{MmScan, NumabState, Vmas};

use super::recording::Decision;

const PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;

struct RecordedVma {
    span: Range<u64>,
    /// When passes met it first and last, microseconds.
    met: (u64, u64),
    traits: VmaTraits,
    record: Option<NumabState>,
    /// The last sequence in which it was scanned to its end, when the pass began.
    prev_scan_seq: Option<i32>,
}

impl RecordedVma {
    fn new(span: Range<u64>, traits: VmaTraits) -> RecordedVma {
        RecordedVma { span, met: (u64::MAX, 0), traits, record: None, prev_scan_seq: None }
    }

    fn contains(&self, range: &Range<u64>) -> bool {
        self.span.start <= range.start && range.end <= self.span.end
    }

    /// Whether it was there while a pass lasted.
    fn is_there(&self, pass: &Range<u64>) -> bool {
        self.met.0 <= pass.end && pass.start <= self.met.1
    }
}

/// What of a pass agrees.
#[derive(Default)]
pub struct Verdicts {
    /// For each range of either side, whether the other has it in the same place.
    pub ranges: Vec<bool>,
    /// For each skip of either side, likewise.
    pub skips: Vec<bool>,
}

/// The VMAs of a process, in the order of addresses.
pub struct RecordedVmas {
    vmas: Vec<RecordedVma>,
    scanned: Vec<(Range<u64>, u64)>,
    skipped: Vec<(u64, u64)>,
    own_scanned: Vec<Range<u64>>,
    own_skipped: Vec<(u64, u64)>,
    now: u64,
    /// From the first to the last event of the pass, microseconds.
    pass: Range<u64>,
    /// Where what the kernel met first in the pass ends, a VMA or a range.
    first_end: Option<u64>,
    /// Where the kernel stopped, unless it went through all VMAs.
    stopped_at: Option<u64>,
}

/// The VMAs that the passes of `threads` met, each of which may change so many pages.
pub fn vmas_of(threads: &[u32], decisions: &[Decision], scan_pages: u64) -> RecordedVmas {
    let own = || decisions.iter().filter(|decision| threads.contains(&decision.tid));
    let span =
        |decision: &Decision, start: &str, end: &str| Some(decision.field(start)?..decision.field(end)?);
    let mut vmas: Vec<RecordedVma> = Vec::new();
    for decision in own().filter(|decision| decision.event == "sched_skip_vma_numa") {
        let Some(span) = span(decision, "vm_start", "vm_end") else { continue };
        let reason = decision.field("reason").map(|reason| reason as usize);
        let reason = reason.and_then(|reason| SkipReason::ALL.get(reason).copied());
        let traits = VmaTraits {
            suitable: reason != Some(SkipReason::Unsuitable),
            read_only_file: reason == Some(SkipReason::SharedRo),
            accessible: reason != Some(SkipReason::Inaccessible),
        };
        if !vmas.iter().any(|vma| vma.span == span) {
            vmas.push(RecordedVma::new(span, traits));
        }
    }
    let mut ranges: Vec<Range<u64>> = own()
        .filter(|decision| decision.event == "cpn")
        .filter_map(|decision| span(decision, "start", "end"))
        .filter(|range| !vmas.iter().any(|vma| vma.contains(range)))
        .collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let ends = ends(own(), scan_pages);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end || range.start == last.end && !ends.contains(&last.end) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    vmas.extend(joined.into_iter().map(|span| RecordedVma::new(span, VmaTraits::ANONYMOUS)));
    vmas.sort_by_key(|vma| vma.span.start);
    for decision in own() {
        let met = span(decision, "vm_start", "vm_end").or_else(|| span(decision, "start", "end"));
        let narrowest = met.and_then(|met| {
            let around = vmas.iter_mut().filter(|vma| vma.contains(&met));
            around.min_by_key(|vma| vma.span.end - vma.span.start)
        });
        if let Some(vma) = narrowest {
            vma.met = (vma.met.0.min(decision.time), vma.met.1.max(decision.time));
        }
    }
    RecordedVmas {
        vmas,
        scanned: Vec::new(),
        skipped: Vec::new(),
        own_scanned: Vec::new(),
        own_skipped: Vec::new(),
        now: 0,
        pass: 0..0,
        first_end: None,
        stopped_at: None,
    }
}

/// Where VMAs end, as ranges stopped there that had pages left for more.
fn ends<'a>(decisions: impl Iterator<Item = &'a Decision>, scan_pages: u64) -> BTreeSet<u64> {
    let mut ends = BTreeSet::new();
    // Of each thread: the pages that its pass has left, and its last range.
    let mut passes: BTreeMap<u32, (u64, Range<u64>)> = BTreeMap::new();
    for decision in decisions {
        let (left, range) = passes.entry(decision.tid).or_default();
        let field = |name: &str| decision.field(name).unwrap_or(0);
        match decision.event.as_str() {
            "work" => *left = scan_pages,
            "cpn" => {
                *range = field("start")..field("end");
                let limit = range.start.saturating_add(left.saturating_mul(PAGE));
                if range.end < limit.checked_next_multiple_of(HUGE_PAGE).unwrap_or(u64::MAX) {
                    ends.insert(range.end);
                }
            }
            "cpnret" if field("n") > 0 => {
                *left = left.saturating_sub(range.end.saturating_sub(range.start) / PAGE);
            }
            _ => {}
        }
    }
    ends
}

impl RecordedVmas {
    /// A thread took a hint fault. Of VMAs that were at that place one after the other, all know it.
    pub fn touched(&mut self, f: &NumaFeatures, page: u64, pid: u32) {
        let address = page << 12;
        for vma in self.vmas.iter_mut().filter(|vma| vma.span.contains(&address)) {
            note_access(f, &mut vma.record, pid);
        }
    }

    /// A pass begins that did `events`.
    pub fn begin(&mut self, events: Vec<Decision>, now: u64) {
        self.now = now;
        let times = || events.iter().map(|event| event.time);
        self.pass = times().min().unwrap_or(0)..times().max().unwrap_or(0);
        let end = |event: &Decision| event.field("vm_end").or_else(|| event.field("end"));
        self.first_end = events.first().and_then(end);
        (self.scanned, self.skipped, self.stopped_at) = (Vec::new(), Vec::new(), None);
        (self.own_scanned, self.own_skipped) = (Vec::new(), Vec::new());
        for vma in &mut self.vmas {
            vma.prev_scan_seq = vma.record.map(|record| record.prev_scan_seq);
        }
        for event in events {
            let field = |name: &str| event.field(name).unwrap_or(0);
            match event.event.as_str() {
                "cpn" => {
                    self.scanned.push((field("start")..field("end"), 0));
                    self.stopped_at = Some(field("end"));
                }
                "cpnret" => {
                    if let Some(last) = self.scanned.last_mut() {
                        last.1 = field("n");
                    }
                }
                _ => {
                    self.skipped.push((field("vm_start"), field("reason")));
                    self.stopped_at = None;
                }
            }
        }
    }

    /// The pass has ended. Unless it is there as a whole, what the twin does beyond the kernel's last event is not judged.
    pub fn end(&mut self, is_whole: bool) -> Verdicts {
        let pairs = |kernel: usize, twin: usize, equal: &dyn Fn(usize) -> bool| -> Vec<bool> {
            let judged = if is_whole { kernel.max(twin) } else { kernel };
            (0..judged).map(|at| at < kernel.min(twin) && equal(at)).collect()
        };
        let ranges = pairs(self.scanned.len(), self.own_scanned.len(), &|at| {
            self.scanned[at].0 == self.own_scanned[at]
        });
        let skips = match self.skipped.len() {
            0 => Vec::new(),
            kernel => pairs(kernel, self.own_skipped.len(), &|at| self.skipped[at] == self.own_skipped[at]),
        };
        Verdicts { ranges, skips }
    }

    /// The pass that has ended scanned other ranges than the kernel's did, so that from here on the kernel's count: which VMAs
    /// it has scanned to their ends in this sequence, and where it stopped. `before` is the state when the pass began, `after`
    /// what the twin made of it.
    ///
    /// The kernel begins a sequence where no VMA ends after `numa_scan_offset`, which shows in a first event before it. It ends
    /// one with a pass whose last event is a skip: a pass that stops does so at the end of a range.
    pub fn take_over(&mut self, before: MmScan, after: &mut MmScan) {
        let is_new = self.first_end.is_some_and(|end| end <= before.scan_offset);
        let scan_seq = before.scan_seq + i32::from(is_new);
        let seq_completed = SkipReason::SeqCompleted as u64;
        for vma in self.vmas.iter_mut() {
            let Some(record) = &mut vma.record else { continue };
            record.prev_scan_seq = vma.prev_scan_seq.unwrap_or(scan_seq - 1);
            let is_skipped = self.skipped.contains(&(vma.span.start, seq_completed));
            if is_skipped || self.scanned.iter().any(|(range, _)| range.end == vma.span.end) {
                record.prev_scan_seq = scan_seq;
            }
        }
        *after = match self.stopped_at {
            Some(scan_offset) => MmScan { scan_offset, scan_seq, ..*after },
            None => MmScan { scan_offset: 0, scan_seq: scan_seq + 1, ..*after },
        };
    }
}

impl RecordedVmas {
    fn at(&mut self, start: u64) -> &mut RecordedVma {
        let pass = &self.pass;
        let found = self.vmas.iter_mut().find(|vma| vma.span.start == start && vma.is_there(pass));
        found.expect("the pass found it")
    }
}

impl Vmas for RecordedVmas {
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)> {
        let vma = self.vmas.iter().find(|vma| vma.span.end > address && vma.is_there(&self.pass))?;
        Some((vma.span.clone(), vma.traits))
    }

    fn record(&mut self, start: u64) -> &mut Option<NumabState> {
        &mut self.at(start).record
    }

    fn change_prot(&mut self, _start: u64, range: Range<u64>) -> u64 {
        let recorded = self.scanned.iter().find(|(scanned, _)| *scanned == range);
        let changed = recorded.map_or(0, |(_, changed)| *changed);
        self.own_scanned.push(range);
        changed
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn traced(&mut self, start: u64, reason: SkipReason) {
        self.own_skipped.push((start, reason as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(event: &str, fields: &[(&str, u64)]) -> Decision {
        let fields = fields.iter().map(|&(name, value)| (name.to_string(), value));
        Decision::new(0, 0, 7, event, fields)
    }

    /// Two VMAs meet at a boundary of 2 MiB. A range that ends there with pages left is the last of its VMA; one that has
    /// used them up says nothing.
    #[test]
    fn neighbours_are_told_apart_by_ranges_that_stop_early() {
        let range =
            |start: u64, end: u64| decision("cpn", &[("start", start * HUGE_PAGE), ("end", end * HUGE_PAGE)]);
        let (work, changed) = (decision("work", &[]), decision("cpnret", &[("n", 1)]));
        let spans = |decisions: &[&Decision]| -> Vec<(u64, u64)> {
            let decisions: Vec<Decision> = decisions.iter().map(|&decision| decision.clone()).collect();
            let vmas = vmas_of(&[7], &decisions, 2 * HUGE_PAGE / PAGE).vmas;
            vmas.iter().map(|vma| (vma.span.start / HUGE_PAGE, vma.span.end / HUGE_PAGE)).collect()
        };
        assert_eq!(spans(&[&work, &range(8, 10), &changed, &work, &range(10, 11)]), [(8, 11)]);
        assert_eq!(spans(&[&work, &range(8, 9), &changed, &range(9, 10), &changed]), [(8, 9), (9, 10)]);
        assert_eq!(spans(&[&work, &range(8, 9), &range(9, 11), &changed]), [(8, 9), (9, 11)]);
    }

    /// The kernel scans the first of two VMAs and stops; the twin scans both. The second is not done then, and the sequence goes on.
    #[test]
    fn after_a_pass_that_differs_the_kernel_counts() {
        let cpn = |at: u64| decision("cpn", &[("start", at * HUGE_PAGE), ("end", (at + 1) * HUGE_PAGE)]);
        let mut vmas = vmas_of(&[7], &[cpn(8), cpn(12)], HUGE_PAGE / PAGE);
        let record =
            NumabState { next_scan: 0, pids: [0; 2], reset_at: 0, prev_scan_seq: 3, start_scan_seq: 0 };
        vmas.vmas.iter_mut().for_each(|vma| vma.record = Some(record));
        vmas.begin(vec![cpn(8)], 0);
        for vma in [8, 12] {
            vmas.change_prot(vma * HUGE_PAGE, vma * HUGE_PAGE..(vma + 1) * HUGE_PAGE);
            vmas.record(vma * HUGE_PAGE).as_mut().unwrap().prev_scan_seq = 4;
        }
        assert_eq!(vmas.end(true).ranges, [true, false]);
        let before = MmScan { next_scan: 1, scan_offset: 0, scan_seq: 4 };
        let mut after = MmScan { scan_seq: 5, ..before };
        vmas.take_over(before, &mut after);
        assert_eq!(after, MmScan { scan_offset: 9 * HUGE_PAGE, ..before });
        let done: Vec<i32> = vmas.vmas.iter().map(|vma| vma.record.unwrap().prev_scan_seq).collect();
        assert_eq!(done, [4, 3]);
    }
}
