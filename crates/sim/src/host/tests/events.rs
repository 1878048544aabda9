//! What happens at a time is in the outcome, with its time and its cause.

use super::*;
use crate::run_event::FileWrite;

/// The writes of the operator, with when they began and how long they took.
fn writes(outcome: &Outcome) -> Vec<(&FileWrite, f64, Option<f64>)> {
    let writes = outcome.events.iter().filter_map(|event| match &event.what {
        Happening::Write(write) => Some((write, event.seconds, event.took_seconds)),
        _ => None,
    });
    writes.collect()
}

/// The longest stalls with their program and causes.
fn stalls(outcome: &Outcome) -> Vec<(&str, f64, Vec<&str>)> {
    let stalls = outcome.events.iter().filter_map(|event| match &event.what {
        Happening::MemoryStall { program, causes } => {
            let sum: f64 = causes.values().sum();
            assert!((event.took_seconds.unwrap() - sum).abs() < 1e-9, "{event:?}");
            Some((&**program, event.seconds, causes.keys().map(String::as_str).collect()))
        }
        _ => None,
    });
    stalls.collect()
}

#[test]
fn each_write_says_what_came_of_it() {
    let events = "[[events]]\nmilliseconds = 700\nwrite = 'vm.drop_caches=1'\n\
                  [[events]]\nmilliseconds = 700\nwrite = 'vm.compact_memory=1'\n\
                  [[events]]\nmilliseconds = 800\nwrite = 'vm.nr_hugepages=64'\n\
                  [[events]]\nmilliseconds = 900\nwrite = 'vm.swappiness=10'\n";
    let outcome = outcome_of("6.12", &[], &[reader("files", 512, "").as_str(), events].concat());
    let writes = writes(&outcome);
    let [(drop, dropped_at, drop_took), (compact, compacted_at, _), (pool, pool_at, _), (swappiness, ..)] =
        writes[..]
    else {
        panic!("{writes:?}");
    };
    assert_eq!((&*drop.file, &*drop.value, dropped_at), ("vm.drop_caches", "1", 0.7));
    assert!(drop.dropped_mib > 40.0, "{drop:?}");
    // Readers read on meanwhile.
    let drop_took = drop_took.unwrap();
    assert!(0.0 < drop.cpu_seconds && drop.cpu_seconds <= drop_took, "{drop:?} in {drop_took} s");
    assert!(
        (compacted_at - dropped_at - drop_took).abs() < 1e-3,
        "a write begins when that before it has ended"
    );
    let migrated = outcome.counters.get(Event::PgmigrateSuccess) as f64 / 256.0;
    assert_eq!(compact.migrated_mib + pool.migrated_mib, migrated);
    assert_eq!((pool_at, pool.asked, pool.reached), (0.8, Some(64), Some(64)));
    assert_eq!((swappiness.asked, swappiness.migrated_mib, swappiness.dropped_mib), (None, 0.0, 0.0));
}

#[test]
fn memory_reclaim_says_how_much_there_was() {
    let of = |keys: &str| {
        let outcome = limited("6.12", keys, &[(700, "small/memory.reclaim=8M")]);
        let (write, ..) = writes(&outcome)[0];
        (write.asked.unwrap(), write.reached.unwrap(), write.problem.clone())
    };
    let (asked, reached, problem) = of("");
    assert!(asked == 2048 && reached >= 2048 && problem.is_none(), "{reached}");
    let (asked, reached, problem) = of("swap_max_mib = 0");
    assert!((asked, reached) == (2048, 0) && problem.unwrap().contains("EAGAIN"), "{reached}");
}

#[test]
fn the_longest_memory_stalls_of_each_program_say_why() {
    let free = limited("6.12", "", &[]);
    assert_eq!(stalls(&free), []);
    let stuck = limited("6.12", "high_mib = 64\nswap_max_mib = 0", &[]);
    let of_writers = stalls(&stuck);
    assert_eq!(of_writers.len(), 5, "so many are kept");
    for (program, began, causes) in of_writers {
        // Two seconds is as long as memory.high puts to sleep at once.
        assert!(program == "memory" && began >= 0.5 && causes == ["memory.high"], "{began}, {causes:?}");
    }
    let max = limited("6.12", "max_mib = 64", &[]);
    let swapping = stalls(&max);
    assert!(
        swapping
            .iter()
            .all(|(_, _, causes)| causes.iter().all(|cause| ["memory.max", "refault"].contains(cause))),
        "{swapping:?}"
    );
}

#[test]
fn kswapd_gives_up_where_nothing_is_left() {
    // Anonymous memory of two nodes is full, and there is no swap left.
    let programs = writer("memory", 2200 / 4, "");
    let outcome = outcome_of("6.12", &[("vm.swappiness", "0")], &programs);
    let gave_up = outcome.events.iter().filter(|event| matches!(event.what, Happening::KswapdGaveUp { .. }));
    assert!(gave_up.count() > 0, "{:?}", outcome.events);
}

/// The slowest transaction of a program: how long it took, was queued, and was delayed by each cause.
fn slowest(outcome: &Outcome, name: &str) -> (f64, f64, BTreeMap<String, f64>) {
    let slowest = outcome.events.iter().find_map(|event| match &event.what {
        Happening::SlowestTransaction { program, queued_seconds, delays } if program == name => {
            Some((event.took_seconds.unwrap(), *queued_seconds, delays.clone()))
        }
        _ => None,
    });
    slowest.unwrap_or_else(|| panic!("{:?}", outcome.events))
}

#[test]
fn the_slowest_transaction_says_what_it_waited_for() {
    let outcome = outcome_of("6.12", &[], &reader("files", 600, ""));
    let (took, queued, delays) = slowest(&outcome, "files");
    // A histogram keeps three digits.
    let longest = outcome.programs[0].latency_us["max"] / 1e6;
    assert!((took - longest).abs() < 2e-3 * longest, "{took} s, {longest} s");
    assert!(
        queued == 0.0 && delays["device"] > 0.25 * took && delays["device"] < took,
        "{delays:?} in {took} s"
    );
    // More requests than a thread can answer are queued behind each other.
    let busy = "[[programs]]\nname = 'busy'\n[programs.program]\nkind = 'service'\nthreads = 1\nfirst_cpu = 0\n\
                requests_per_second = { value = 2000.0, source = 'made up' }\n\
                work_us = { value = 600.0, source = 'made up' }\n\
                work_spread = { value = 0.0, source = 'made up' }\npages = 1\n";
    let (took, queued, delays) = slowest(&outcome_of("6.12", &[], busy), "busy");
    assert!(took > 0.1 && (took - queued - 600e-6).abs() < 1e-4, "{took} s, queued {queued} s, {delays:?}");
}
