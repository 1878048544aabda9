//! The VMAs of a recorded process: what its passes scanned and skipped, put together.

use std::ops::Range;

use mm::numa::features::NumaFeatures;
use mm::numa::scan::policy::{SkipReason, VmaTraits, note_access};
use mm::numa::scan::{NumabState, Vmas};

use super::recording::Decision;

struct RecordedVma {
    span: Range<u64>,
    traits: VmaTraits,
    record: Option<NumabState>,
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
}

/// The VMAs that the passes of `threads` met.
pub fn vmas_of(threads: &[u32], decisions: &[Decision]) -> RecordedVmas {
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
            vmas.push(RecordedVma { span, traits, record: None });
        }
    }
    let mut ranges: Vec<Range<u64>> = own()
        .filter(|decision| decision.event == "cpn")
        .filter_map(|decision| span(decision, "start", "end"))
        .filter(|range| !vmas.iter().any(|vma| vma.span.start <= range.start && range.end <= vma.span.end))
        .collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    vmas.extend(joined.into_iter().map(|span| RecordedVma {
        span,
        traits: VmaTraits::ANONYMOUS,
        record: None,
    }));
    vmas.sort_by_key(|vma| vma.span.start);
    RecordedVmas {
        vmas,
        scanned: Vec::new(),
        skipped: Vec::new(),
        own_scanned: Vec::new(),
        own_skipped: Vec::new(),
        now: 0,
    }
}

impl RecordedVmas {
    /// A thread took a hint fault.
    pub fn touched(&mut self, f: &NumaFeatures, page: u64, pid: u32) {
        let address = page << 12;
        if let Some(vma) = self.vmas.iter_mut().find(|vma| vma.span.contains(&address)) {
            note_access(f, &mut vma.record, pid);
        }
    }

    /// A pass begins that did `events`.
    pub fn begin(&mut self, events: Vec<Decision>, now: u64) {
        self.now = now;
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

    /// The pass has ended.
    pub fn end(&mut self) -> Verdicts {
        let pairs = |kernel: usize, twin: usize, equal: &dyn Fn(usize) -> bool| -> Vec<bool> {
            (0..kernel.max(twin)).map(|at| at < kernel.min(twin) && equal(at)).collect()
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
        self.vmas.iter_mut().find(|vma| vma.span.start == start).expect("the pass found it")
    }
}

impl Vmas for RecordedVmas {
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)> {
        let vma = self.vmas.iter().find(|vma| vma.span.end > address)?;
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
