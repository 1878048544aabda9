//! Compares residency and counters of the kernel and the twin.
//!
//! The order of evictions is compared by the stays that ended in both:
//!
//! ```text
//!   evictions of the kernel    a b c d e f g
//!   position in the twin       2 1 3 9 4 5 -     `-`: not evicted there
//!   longest ascending part       1 3   4 5       4 of 7 are in order
//! ```
//!
//! So a page that is out of place counts once, and does not shift the others. Reclaim takes [`BATCH`] pages
//! at a time, and the kernel's order within a batch depends on when per-CPU batches are flushed; so the order
//! is also compared with the twin's evictions counted in batches.

use std::collections::{BTreeMap, BTreeSet};

use workload::access::sequences::Operation;

use super::residency::{Batch, Residency, Stay};
use crate::verify::{Causes, Entry};

/// Number of pages that reclaim isolates at a time (`SWAP_CLUSTER_MAX`).
const BATCH: u32 = 32;

/// How many accesses and evictions of a case agree, and its counters. If decisions are compared one by one,
/// the kernel's value is the number of decisions and the twin's value the number of those that agree.
/// Counters are compared if both have them.
pub fn entries(
    case: &str,
    operations: &[Operation],
    kernel: (&Residency, &BTreeMap<String, u64>),
    twin: (&Residency, &BTreeMap<String, u64>),
) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |counter: &str, kernel: u64, twin: u64| {
        entries.push(Entry::new(case, counter, kernel, twin, Causes::default()));
    };
    let (in_kernel, in_twin) = (kernel.0, twin.0);
    let [of_file, anon] = in_kernel.misses(operations);
    let [of_file_twin, anon_twin] = in_twin.misses(operations);
    add("misses", of_file, of_file_twin);
    if anon + anon_twin > 0 {
        add("misses of anonymous pages", anon, anon_twin);
    }
    let right = in_kernel.hits.iter().zip(&in_twin.hits).filter(|(kernel, twin)| kernel == twin);
    add("accesses, hit or miss", in_kernel.hits.len() as u64, right.count() as u64);
    let brought = in_kernel.pages_brought();
    if brought != of_file {
        add("pages brought in", brought, in_twin.pages_brought());
        let by_twin: BTreeSet<Stay> = in_twin.stays.iter().copied().collect();
        let alike = in_kernel.stays.iter().filter(|stay| by_twin.contains(stay));
        add("folios, brought in by the same access", in_kernel.stays.len() as u64, alike.count() as u64);
    }
    let evicted = in_kernel.evictions.len() as u64;
    add("evictions", evicted, in_twin.evictions.len() as u64);
    if evicted > 0 {
        add("evictions, in order", evicted, in_order(in_kernel, in_twin, 1));
        add("evictions, in order of batches", evicted, in_order(in_kernel, in_twin, BATCH));
    }
    if let (Some(batches), Some(of_twin)) = (&in_kernel.batches, &in_twin.batches) {
        let of_twin: BTreeSet<Batch> = of_twin.iter().copied().collect();
        let alike = batches.iter().filter(|batch| of_twin.contains(batch));
        add("batches of evictions, when and how many", batches.len() as u64, alike.count() as u64);
    }
    for (name, &count) in kernel.1 {
        if let Some(&count_twin) = twin.1.get(name)
            && count + count_twin > 0
        {
            add(name, count, count_twin);
        }
    }
    entries
}

/// How many of the kernel's evictions are in the same order in the twin, with the twin's evictions counted in
/// batches of `batch`.
fn in_order(kernel: &Residency, twin: &Residency, batch: u32) -> u64 {
    let place: BTreeMap<Stay, u32> = twin.evicted().zip((0u32..).map(|number| number / batch)).collect();
    // For each length, the lowest position at which an ascending part of that length can end.
    let mut ends: Vec<u32> = Vec::new();
    for number in kernel.evicted().filter_map(|stay| place.get(&stay).copied()) {
        let length = ends.partition_point(|&end| end <= number);
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    ends.len() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sim::readahead::FileFolio;

    use super::super::residency::{batches, stays_of_folios};
    use super::*;

    /// The residency of 100 accesses to different pages, all of which miss.
    fn residency(evictions: &[u32]) -> Residency {
        let operations: Vec<Operation> = (0..100).map(Operation::Read).collect();
        Residency::new(&operations, vec![false; 100], None, evictions).unwrap()
    }

    #[test]
    fn the_picture_above() {
        let kernel = residency(&[0, 1, 2, 3, 4, 5, 6]);
        let twin = residency(&[1, 0, 2, 4, 5, 90, 91, 92, 3]);
        assert_eq!(in_order(&kernel, &twin, 1), 4);
        assert_eq!(in_order(&kernel, &kernel, 1), 7);
    }

    #[test]
    fn within_a_batch_order_does_not_matter() {
        let kernel = residency(&(0..64).collect::<Vec<_>>());
        let backwards: Vec<u32> = (0..32).rev().chain((32..64).rev()).collect();
        assert_eq!(in_order(&kernel, &residency(&backwards), BATCH), 64);
        assert_eq!(in_order(&kernel, &residency(&backwards), 1), 2);
    }

    /// By definition: tries all parts, and takes the longest that ascends.
    fn by_definition(places: &[u32]) -> u64 {
        let parts = (0..1u32 << places.len()).map(|part| {
            let chosen: Vec<u32> =
                (0..places.len()).filter(|&at| part >> at & 1 != 0).map(|at| places[at]).collect();
            if chosen.is_sorted() { chosen.len() } else { 0 }
        });
        parts.max().unwrap_or(0) as u64
    }

    proptest! {
        #[test]
        fn the_longest_part_is_found(
            kernel in Just((0..10u32).collect::<Vec<_>>()).prop_shuffle(),
            twin in Just((0..10u32).collect::<Vec<_>>()).prop_shuffle(),
            known in 0..10usize,
            batch in 1..4u32,
        ) {
            let place = |stay: &u32| twin[..known].iter().position(|of_twin| of_twin == stay);
            let places: Vec<u32> = kernel.iter().filter_map(place).map(|place| place as u32 / batch).collect();
            let found = in_order(&residency(&kernel), &residency(&twin[..known]), batch);
            prop_assert_eq!(found, by_definition(&places));
        }
    }

    #[test]
    fn a_case_agrees_with_itself_and_a_difference_shows() {
        let mut operations = vec![Operation::Read(0); 99];
        operations.push(Operation::AnonLoad(0));
        let ended = |evictions: &[u32]| {
            let residency = Residency::new(&operations, vec![false; 100], None, &[]).unwrap();
            let batches = Some(batches(vec![evictions.len() as u32; evictions.len()]));
            Residency { evictions: evictions.to_vec(), batches, ..residency }
        };
        let kernel = ended(&[3, 4]);
        let counters = BTreeMap::from([("pgscan_file".to_string(), 2), ("pgrefill".to_string(), 0)]);
        let same = entries("case", &operations, (&kernel, &counters), (&kernel, &counters));
        assert!(same.iter().all(|entry| entry.case == "case" && entry.error == Some(0.0)), "{same:?}");
        let names: Vec<&str> = same.iter().map(|entry| entry.counter.as_str()).collect();
        let expected = ["misses", "misses of anonymous pages", "accesses, hit or miss", "evictions"];
        let batches = "batches of evictions, when and how many";
        let orders = ["evictions, in order", "evictions, in order of batches", batches, "pgscan_file"];
        assert_eq!(names, [&expected[..], &orders[..]].concat());

        let mut twin = ended(&[4, 3, 5]);
        twin.hits[7] = true;
        let other = entries("case", &operations, (&kernel, &counters), (&twin, &BTreeMap::new()));
        let numbers: Vec<(u64, u64)> = other.iter().map(|entry| (entry.kernel, entry.twin)).collect();
        assert_eq!(numbers, [(99, 98), (1, 1), (100, 99), (2, 3), (2, 1), (2, 2), (1, 0)]);
    }

    #[test]
    fn folios_that_were_read_ahead_count_where_they_came_in() {
        let operations = [0, 2].map(Operation::Read);
        let brought = |second: u8| {
            let folio = |index, order| FileFolio { index, order };
            let stays = stays_of_folios([&[folio(0, 0), folio(1, 0)][..], &[folio(4, second)]]);
            Residency::new(&operations, vec![false, true], Some(stays), &[1, 4]).unwrap()
        };
        let nothing = BTreeMap::new();
        let found = entries("case", &operations, (&brought(2), &nothing), (&brought(1), &nothing));
        let rows: Vec<(&str, u64, u64)> =
            found.iter().map(|entry| (entry.counter.as_str(), entry.kernel, entry.twin)).collect();
        let expected = [
            ("misses", 1, 1),
            ("accesses, hit or miss", 2, 2),
            ("pages brought in", 6, 4),
            ("folios, brought in by the same access", 3, 2),
            ("evictions", 2, 2),
            ("evictions, in order", 2, 1),
            ("evictions, in order of batches", 2, 1),
        ];
        assert_eq!(rows, expected);
    }
}
