//! The summary of a verification: how many counters are exact, how many within the mechanism's bound, and
//! which is the furthest off.
//!
//! ```text
//!   kernel's and twin's counter ─► exact │ within the mechanism's bound │ outside ─► exit code 1
//!                                  └─ no bound: counters that only explain others, or that other programs
//!                                     on the machine contribute to
//! ```

use crate::number::percent;
use live::verify::{Bound, Entry};
use schemars::JsonSchema;
use serde::Serialize;

/// How many counters agree, and which is the furthest off.
#[derive(Debug, PartialEq, JsonSchema, Serialize)]
pub struct Verdict {
    /// Counters that have a bound.
    pub compared: usize,
    /// Counters that are equal.
    pub exact: usize,
    /// Counters that differ, but stay within the bound.
    pub within: usize,
    /// Counters that exceed the bound.
    pub outside: usize,
    /// The bound in words; `None` if all counters must be equal.
    pub bound: Option<String>,
    /// The counter that is furthest off, one outside the bound before one within it.
    pub worst: Option<String>,
    /// Counters without a bound.
    pub explaining: usize,
}

impl Verdict {
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

    /// The last line of the report.
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

/// The relative error of the twin in percent.
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
    use live::verify::{Cause, Causes, verification};
    use mm::Mechanism;

    fn bound(mechanism: Mechanism) -> Bound {
        verification(mechanism).bound
    }

    fn entry(case: &str, counter: &str, kernel: u64, twin: u64) -> Entry {
        Entry::new(case, counter, kernel, twin, Causes::default())
    }

    #[test]
    fn the_verdict_names_what_is_furthest_off() {
        let sentence = |entries: &[Entry], bound: Bound| Verdict::new(entries, &bound).sentence();
        let same = [entry("case", "a", 0, 0), entry("case", "b", 7, 7)];
        assert_eq!(sentence(&same, Bound::EXACT), "2 numbers compared: 2 exact, 0 outside");
        let off = [entry("case", "a", 100, 100), entry("case", "b", 100, 98), entry("case", "c", 100, 104)];
        assert_eq!(
            sentence(&off, bound(Mechanism::Pcp)),
            "3 numbers compared: 1 exact, 1 within 3 %, 1 outside; furthest off: case, c, +4.0 %"
        );
        let unknown = [entry("case", "b", 100, 50), entry("case", "c", 0, 1)];
        assert_eq!(
            sentence(&unknown, Bound::EXACT),
            "2 numbers compared: 0 exact, 2 outside; furthest off: case, c, kernel has 0"
        );
    }

    #[test]
    fn bounds_are_those_of_the_lists_and_of_what_is_counted() {
        let misses =
            |case| Verdict::new(&[entry(case, "misses", 100, 102)], &bound(Mechanism::Reclaim)).outside;
        assert_eq!((misses("zipf-classic"), misses("zipf-multi-gen")), (1, 0));
        let outside = |case, counter| {
            let verdict = Verdict::new(&[entry(case, counter, 100, 50)], &bound(Mechanism::Reclaim));
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
        assert_eq!(Verdict::new(&[samples], &bound(Mechanism::Numa)).outside, 1);
        assert_eq!(
            Verdict::new(&[entry("numa01", "filter's answer", 100, 99)], &bound(Mechanism::Numa)).outside,
            0
        );
    }
}
