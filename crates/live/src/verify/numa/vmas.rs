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
use mm::numa::scan::{NumabState, Vmas};

use super::recording::Decision;

const PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;

struct RecordedVma {
    span: Range<u64>,
    /// When passes met it first and last, microseconds.
    met: (u64, u64),
    traits: VmaTraits,
    record: Option<NumabState>,
}

impl RecordedVma {
    fn new(span: Range<u64>, traits: VmaTraits) -> RecordedVma {
        RecordedVma { span, met: (u64::MAX, 0), traits, record: None }
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
        (self.scanned, self.skipped) = (Vec::new(), Vec::new());
        (self.own_scanned, self.own_skipped) = (Vec::new(), Vec::new());
        for event in events {
            let field = |name: &str| event.field(name).unwrap_or(0);
            match event.event.as_str() {
                "cpn" => self.scanned.push((field("start")..field("end"), 0)),
                "cpnret" => {
                    if let Some(last) = self.scanned.last_mut() {
                        last.1 = field("n");
                    }
                }
                _ => self.skipped.push((field("vm_start"), field("reason"))),
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

    /// Two VMAs meet at a boundary of 2 MiB. A range that ends there with pages left is the last of its VMA; one that has
    /// used them up says nothing.
    #[test]
    fn neighbours_are_told_apart_by_ranges_that_stop_early() {
        let decision = |event: &str, fields: &[(&str, u64)]| {
            let fields = fields.iter().map(|&(name, value)| (name.to_string(), value));
            Decision::new(0, 0, 7, event, fields)
        };
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
}
