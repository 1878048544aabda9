//! zswap under programs, cgroups for each copy, and services that start and end.

use super::{figure, outcome_of, writer};
use crate::metric;
use crate::outcome::Outcome;
use mm::Event;

/// Services that fill 40 MiB each and serve from 8 of them, with these keys of their cgroup and of each.
fn services(copies: u32, cgroup: &str, keys: &str) -> String {
    format!(
        "[[cgroups]]\nname = 'sandbox'\nmax_mib = 64\n{cgroup}\n[[programs]]\nname = 'sandbox'\ncgroup = 'sandbox'\ncopies = {copies}\n\
         [programs.program]\nkind = 'service'\nthreads = 1\nrequests_per_second = {}\nwork_us = {}\nwork_spread = {}\npages = 0\n\
         memory_mib = 40\nused_mib = 8\n{keys}\n",
        figure(50.0),
        figure(100.0),
        figure(0.5)
    )
}

fn count(outcome: &Outcome, event: Event) -> u64 {
    outcome.counters.get(event)
}

#[test]
fn each_copy_may_have_a_cgroup_of_its_own() {
    let own = outcome_of("6.18", &[], &services(2, "per_copy = true", ""));
    let swapped = |outcome: &Outcome| outcome.get(metric::SWAP_USED).unwrap();
    assert_eq!((swapped(&own), count(&own, Event::OomKill)), (0.0, 0));
    let shared = outcome_of("6.18", &[], &services(2, "", ""));
    assert!(swapped(&shared) > 10.0, "together they exceed the 64 MiB");
}

#[test]
fn a_service_that_has_served_all_its_requests_gives_its_memory_back() {
    // Pages of 40 MiB of each.
    let all = 4 * 40 * 256;
    let run = |keys: &str| outcome_of("6.18", &[], &services(4, "per_copy = true", keys));
    let (stays, ends) = (run(""), run("requests = 50"));
    assert!(count(&stays, Event::Pgfree) < all, "{}", count(&stays, Event::Pgfree));
    // A second of requests, in half of which nothing is counted yet.
    assert!(count(&ends, Event::Pgfree) >= all, "{} of {all}", count(&ends, Event::Pgfree));
    assert!(ends.get(metric::MEM_USED) < stays.get(metric::MEM_USED));
    assert!(ends.programs[0].transactions <= 4 * 50, "{}", ends.programs[0].transactions);
}

#[test]
fn copies_may_start_one_after_the_other() {
    let served = |keys: &str| {
        let programs =
            services(4, "per_copy = true", "").replace("copies = 4", &format!("copies = 4\n{keys}"));
        outcome_of("6.18", &[], &programs).programs[0].transactions
    };
    // The last of four starts after three quarters of the 2 s.
    let (together, spread) = (served(""), served("start_spread_milliseconds = 2000"));
    assert!(spread * 10 < together * 8, "{spread} of {together}");
}

/// A heap that is larger than its limit, on zram or in zswap before it.
fn heap(zswap: &[(&str, &str)]) -> Outcome {
    let programs =
        format!("[[cgroups]]\nname = 'small'\nmax_mib = 24\n{}", writer("heap", 12, "cgroup = 'small'"));
    outcome_of("6.18", zswap, &programs)
}

#[test]
fn zswap_takes_what_would_be_written_and_gives_it_back() {
    let (device, zswap) = (heap(&[]), heap(&[("zswap.enabled", "1")]));
    assert_eq!(count(&device, Event::Zswpout), 0);
    assert!(count(&zswap, Event::Zswpin) > 1000 && count(&zswap, Event::Zswpout) > 1000);
    assert!(count(&zswap, Event::Pswpout) < count(&device, Event::Pswpout) / 100);
    assert!(zswap.get(metric::ZSWAP).unwrap() < zswap.get(metric::ZSWAPPED).unwrap());
    // The compressed pages are charged to the cgroup, which can keep fewer others.
    let full = heap(&[("zswap.enabled", "1"), ("zswap.max_pool_percent", "0")]);
    assert_eq!(count(&full, Event::Zswpout), 0, "there is no room for a page");
    assert!(count(&full, Event::Pswpout) > 1000);
}

#[test]
fn runs_with_zswap_repeat() {
    let settings = [("zswap.enabled", "1"), ("zswap.max_pool_percent", "1"), ("zswap.shrinker_enabled", "1")];
    assert_eq!(heap(&settings), heap(&settings));
}
