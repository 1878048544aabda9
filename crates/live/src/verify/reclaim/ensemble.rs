//! Cases of DAMON_RECLAIM: the same in several boots, and with as many seeds in the twin.
//!
//! ```text
//!   kernel   boots    each draws other pages to look at     misses, evictions, regions ──► mean, spread
//!   twin     seeds    the same                                                         ──► mean, spread
//! ```
//!
//! DAMON looks at pages that it chooses at random, so no single decision of the kernel can be held against one of the twin, and counts of
//! single boots differ by more than anything that is to be judged. Means over boots are compared.

use std::collections::BTreeMap;

use crate::verify::{Causes, Entry};

/// What follows the name of a case and precedes the number of boots.
pub const MEAN_OF: &str = ", mean of ";

/// The counters of one boot and of one seed.
type Pair = [BTreeMap<String, u64>; 2];

/// The boots of all cases, by the name of the case in the report.
#[derive(Default)]
pub struct Ensemble(BTreeMap<String, Vec<Pair>>);

impl Ensemble {
    pub fn add(&mut self, case: String, kernel: &BTreeMap<String, u64>, twin: BTreeMap<String, u64>) {
        self.0.entry(case).or_default().push([kernel.clone(), twin]);
    }

    /// The means of all counters that both have.
    pub fn entries(&self) -> Vec<Entry> {
        let of_case = |(case, pairs): (&String, &Vec<Pair>)| {
            let case = format!("{case}{MEAN_OF}{}", pairs.len());
            let names = pairs[0][0].keys().filter(|name| pairs[0][1].contains_key(*name));
            let entry = |name: &String| {
                let mean = |which: usize| of(pairs, which, name).iter().sum::<u64>() / pairs.len() as u64;
                Entry::new(&case, name, mean(0), mean(1), Causes::default())
            };
            names.map(entry).filter(|entry| entry.kernel + entry.twin > 0).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_case).collect()
    }
}

/// A counter of all boots (0) or seeds (1).
fn of(pairs: &[Pair], which: usize, name: &str) -> Vec<u64> {
    pairs.iter().map(|pair| pair[which].get(name).copied().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_what_both_count_are_compared() {
        let counters =
            |misses: u64| BTreeMap::from([("misses".to_string(), misses), ("none".to_string(), 0)]);
        let mut ensemble = Ensemble::default();
        for (kernel, twin) in [(10, 20), (30, 30)] {
            let mut kernel = counters(kernel);
            kernel.insert("of the kernel".into(), 7);
            ensemble.add("a".into(), &kernel, counters(twin));
        }
        let entries = ensemble.entries();
        let rows: Vec<_> = entries
            .iter()
            .map(|entry| (entry.case.as_str(), entry.counter.as_str(), entry.kernel, entry.twin))
            .collect();
        assert_eq!(rows, [("a, mean of 2", "misses", 20, 25)]);
    }
}
