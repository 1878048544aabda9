//! What a verification comes to: how many numbers are exact, how many within the mechanism's bound, and which is worst.
//!
//! ```text
//!   number of the kernel, of the twin ─► exact │ within what the mechanism allows │ outside ─► exit code 1
//!                                        └─ numbers that only explain others, or that other programs have a part in,
//!                                           have no bound
//! ```

use crate::number::percent;
use live::verify::Entry;
use live::verify::numa::RIGHT_DECISIONS;
use live::verify::reclaim::{Lru, RIGHT_ACCESSES, tolerance};
use serde::Serialize;

/// How far the twin's numbers of a mechanism may be off.
pub struct Bound {
    /// As a part of the kernel's number; none for one that only explains others.
    of: fn(&Entry) -> Option<f64>,
    /// The same in words; none where all must be exact.
    words: fn() -> Option<String>,
}

/// What of pagesets may differ: how they are at some moment is inferred where no tracepoint shows it.
const PAGESETS: f64 = 0.03;

/// What of pages that reclaim looked at may differ.
const SCANNED: f64 = 0.03;
/// What of evictions of the multi-gen LRU may come in another order, and of their batches at another time or in another number.
const OUT_OF_ORDER: f64 = 0.05;

/// How rows end that count samples or runs of the twin between the least and the most of the kernel's.
const SPREAD: &str = " within the spread";

impl Bound {
    /// Nothing may differ.
    pub const EXACT: Bound = Bound { of: |_| Some(0.0), words: || None };
    /// What [`PAGESETS`] says.
    pub const PCP: Bound = Bound { of: |_| Some(PAGESETS), words: || Some(whole_percent(PAGESETS)) };
    /// Misses and evictions by kind of lists, and accesses; docs/src/reference/verify-reclaim.md says why of each of the others that it
    /// has no bound.
    pub const RECLAIM: Bound = Bound {
        of: |entry| {
            let lru = if entry.case.ends_with("multi-gen") { Lru::MultiGen } else { Lru::Classic };
            match entry.counter.as_str() {
                "misses" | "misses of anonymous pages" | "evictions" | "pgsteal_file" => Some(tolerance(lru)),
                "accesses, hit or miss" => Some(1.0 - RIGHT_ACCESSES),
                "pgscan_file" => Some(SCANNED),
                counter if counter.contains("of evictions") || counter.starts_with("evictions, ") => {
                    Some(OUT_OF_ORDER).filter(|_| lru == Lru::MultiGen)
                }
                _ => None,
            }
        },
        words: || {
            let [classic, multi_gen] = [Lru::Classic, Lru::MultiGen].map(|lru| whole_percent(tolerance(lru)));
            let accesses = whole_percent(1.0 - RIGHT_ACCESSES);
            let [scanned, order] = [SCANNED, OUT_OF_ORDER].map(whole_percent);
            Some(format!(
                "{classic} of misses and evictions ({multi_gen} with the multi-gen LRU, {order} of their order), {scanned} of \
                 what is scanned and {accesses} of accesses"
            ))
        },
    };
    /// Decisions, and samples that may not be outside the spread of the kernel's. What both have counted in the end, and
    /// what one run of a kernel has in emulation, chance decides.
    pub const NUMA: Bound = Bound {
        of: |entry| match entry.counter.as_str() {
            counter if counter.ends_with(SPREAD) => Some(0.0),
            counter if counter.contains(", in the end") || counter.contains(", after ") => None,
            _ => Some(1.0 - RIGHT_DECISIONS),
        },
        words: || {
            Some(format!("{} of decisions and the spread of samples", whole_percent(1.0 - RIGHT_DECISIONS)))
        },
    };
}

fn whole_percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// How many numbers are how close, and which is the worst.
#[derive(Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Numbers that have a bound.
    pub compared: usize,
    /// Those that are the kernel's.
    pub exact: usize,
    /// Others within the bound.
    pub within: usize,
    /// Those that are not.
    pub outside: usize,
    /// The bound in words; none where all must be exact.
    pub bound: Option<String>,
    /// What is furthest off of those outside, else of those within.
    pub worst: Option<String>,
    /// Numbers without a bound.
    pub explaining: usize,
}

impl Verdict {
    /// The verdict on these numbers.
    pub fn new(entries: &[Entry], bound: &Bound) -> Verdict {
        let size = |entry: &Entry| entry.error.map_or(f64::INFINITY, f64::abs);
        let comparable = entries.iter().filter(|entry| entry.is_comparable());
        let judged: Vec<(&Entry, f64)> =
            comparable.filter_map(|entry| Some((entry, (bound.of)(entry)?))).collect();
        let is_outside = |entry: &Entry, allowed: f64| entry.kernel != entry.twin && size(entry) > allowed;
        let exact = judged.iter().filter(|(entry, _)| entry.kernel == entry.twin).count();
        let outside = judged.iter().filter(|(entry, allowed)| is_outside(entry, *allowed)).count();
        let off = judged.iter().filter(|(entry, _)| entry.kernel != entry.twin);
        let worst = off.max_by(|(a, in_a), (b, in_b)| {
            is_outside(a, *in_a).cmp(&is_outside(b, *in_b)).then(size(a).total_cmp(&size(b)))
        });
        Verdict {
            compared: judged.len(),
            exact,
            within: judged.len() - exact - outside,
            outside,
            bound: (bound.words)(),
            worst: worst.map(|(e, _)| format!("{}, {}, {}", e.case, e.counter, difference(e.error))),
            explaining: entries.len() - judged.len(),
        }
    }

    /// In a sentence.
    pub fn sentence(&self) -> String {
        let noun = if self.compared == 1 { "number" } else { "numbers" };
        let mut text = format!("{} {noun} compared: {} exact", self.compared, self.exact);
        if let Some(bound) = &self.bound {
            text += &format!(", {} within {bound}", self.within);
        }
        text += &format!(", {} outside", self.outside);
        if let Some(worst) = &self.worst {
            text += &format!("; furthest off: {worst}");
        }
        if self.explaining > 0 {
            text += &format!("; {} more have no bound", self.explaining);
        }
        text
    }
}

/// How far the twin is off.
pub fn difference(error: Option<f64>) -> String {
    match error {
        Some(0.0) => "exact".into(),
        Some(error) => {
            let sign = if error > 0.0 { "+" } else { "" };
            let text = if error.abs() >= 0.001 { percent(error) } else { format!("{:.4} %", 100.0 * error) };
            format!("{sign}{text}")
        }
        None => "kernel has 0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use live::verify::{Cause, Causes};

    fn entry(case: &str, counter: &str, kernel: u64, twin: u64) -> Entry {
        Entry::new(case, counter, kernel, twin, Causes::default())
    }

    #[test]
    fn the_verdict_names_what_is_furthest_off() {
        let sentence = |entries: &[Entry], bound| Verdict::new(entries, bound).sentence();
        let same = [entry("case", "a", 0, 0), entry("case", "b", 7, 7)];
        assert_eq!(sentence(&same, &Bound::EXACT), "2 numbers compared: 2 exact, 0 outside");
        let off = [entry("case", "a", 100, 100), entry("case", "b", 100, 98), entry("case", "c", 100, 104)];
        assert_eq!(
            sentence(&off, &Bound::PCP),
            "3 numbers compared: 1 exact, 1 within 3 %, 1 outside; furthest off: case, c, +4.0 %"
        );
        let unknown = [entry("case", "b", 100, 50), entry("case", "c", 0, 1)];
        assert_eq!(
            sentence(&unknown, &Bound::EXACT),
            "2 numbers compared: 0 exact, 2 outside; furthest off: case, c, kernel has 0"
        );
    }

    #[test]
    fn bounds_are_those_of_the_lists_and_of_what_is_counted() {
        let misses = |case| Verdict::new(&[entry(case, "misses", 100, 102)], &Bound::RECLAIM).outside;
        assert_eq!((misses("zipf-classic"), misses("zipf-multi-gen")), (1, 0));
        let outside = |case, counter| {
            let verdict = Verdict::new(&[entry(case, counter, 100, 50)], &Bound::RECLAIM);
            (verdict.outside, verdict.explaining)
        };
        for counter in
            ["evictions", "pgscan_file", "evictions, in order", "batches of evictions, when and how many"]
        {
            assert_eq!(outside("zipf-multi-gen", counter), (1, 0), "{counter}");
        }
        assert_eq!(outside("zipf-classic", "evictions, in order"), (0, 1));
        assert_eq!(outside("zipf-classic", "pgactivate"), (0, 1));
        let mut busy = entry("case", "d", 5, 50);
        busy.causes.add(Cause::OtherPrograms, 45);
        let busy = Verdict::new(&[busy], &Bound::EXACT);
        assert_eq!((busy.compared, busy.outside, busy.explaining), (0, 0, 1));
        let samples = entry("numa01", "numa_pte_updates, samples within the spread", 95, 94);
        assert_eq!(Verdict::new(&[samples], &Bound::NUMA).outside, 1);
        assert_eq!(Verdict::new(&[entry("numa01", "filter's answer", 100, 99)], &Bound::NUMA).outside, 0);
    }
}
