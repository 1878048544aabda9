//! Memory that is short: every allocation of a resize made to fail, one at a time and at random. No page is lost, and
//! everything that must hold does.

mod hugetlb_machine;

use hugetlb_machine::{Host, WRITER, features};
use mm::hugetlb::policy::PoolCounters;
use mm::{Event, MigrateType, Placement, Request, Series};
use proptest::prelude::*;

/// Pages of the pool that is grown and shrunk.
const PAGES: u64 = 130;

fn end_of(host: &mut Host, case: &str, boot: i64) {
    host.mm.set("fail_page_alloc/nth", "0").unwrap();
    host.mm.set("fail_page_alloc/ppm", "0").unwrap();
    // What could not be restored is surplus now and leaves once it is asked for as persistent.
    let pages = host.mm.hugetlb().hstates()[0].counters().nr;
    host.resize(pages);
    host.resize(0);
    let pool = host.mm.hugetlb().hstates()[0].counters();
    assert_eq!(pool, PoolCounters::default(), "{case}");
    assert_eq!(host.memmap(), boot, "{case}: every struct page has a frame of its own again");
    assert_eq!(host.mm.hugetlb().nr_optimized(), 0, "{case}");
}

#[test]
fn every_single_allocation_may_fail() {
    for variant in Series::HUGETLB.variants() {
        let fresh = Host::new(variant.features, 2, 1024);
        let boot = fresh.memmap();
        let mut whole = fresh.clone();
        whole.resize(PAGES);
        whole.resize(0);
        let allocations = whole.mm.hugetlb().nr_allocations();
        let optimizes = variant.name != "patch6";
        assert!(allocations >= if optimizes { PAGES * 9 } else { PAGES }, "{}: {allocations}", variant.name);
        for nth in 1..=allocations {
            let case = format!("{}, allocation {nth} of {allocations}", variant.name);
            let mut host = fresh.clone();
            host.mm.set("fail_page_alloc/nth", &nth.to_string()).unwrap();
            host.resize(PAGES);
            let grown = host.mm.hugetlb().hstates()[0].counters();
            assert!(grown.nr + 1 >= PAGES.min(nth - 1) && grown.free == grown.nr, "{case}: {grown:?}");
            host.resize(0);
            let left = host.mm.hugetlb().hstates()[0].counters();
            assert_eq!((left.nr, left.free), (left.surplus, left.surplus), "{case}: {left:?}");
            assert!(left.nr <= 1, "{case}: {left:?}");
            end_of(&mut host, &case, boot);
        }
    }
}

/// As merged: what was restored before memory ran out is freed first, then the rest is tried again.
#[test]
fn a_failure_in_the_middle_gives_memory_back_and_goes_on() {
    let mut host = Host::new(features("mainline-6.7"), 1, 4096);
    host.resize(100);
    let nth = host.mm.hugetlb().nr_allocations() + 30 * 7 + 1;
    host.mm.set("fail_page_alloc/nth", &nth.to_string()).unwrap();
    let shrunk = host.resize(0);
    assert_eq!((shrunk.flushes(), shrunk.holds()), ((2, 0), 30 + 1 + 2));
    assert_eq!(host.mm.hugetlb().hstates()[0].counters(), PoolCounters::default());
}

/// Takes all memory but `pages`.
fn take_all_but(host: &mut Host, pages: u64) -> Vec<(u32, u8)> {
    let mut held = Vec::new();
    for order in [10, 9, 3, 0] {
        let mut request = Request::new(order, MigrateType::Unmovable, Placement::Local);
        request.reserves = mm::watermark::Reserves { oom: true, ..Default::default() };
        while let Some(pfn) = host.mm.alloc(&mut host.machine, WRITER, &request) {
            held.push((pfn, order));
        }
    }
    let mut free = 0;
    while free < pages
        && let Some((pfn, order)) = held.pop()
    {
        host.mm.free(&mut host.machine, WRITER, pfn, order);
        free += 1 << order;
    }
    held
}

#[test]
fn with_no_memory_at_all_pages_stay_as_surplus() {
    let mut host = Host::new(features("mainline-6.7"), 1, 4096);
    host.resize(100);
    take_all_but(&mut host, 0);
    let before = host.mm.counters().clone();
    host.mm.write(&mut host.machine, WRITER, "vm.nr_hugepages", "0").unwrap();
    let counted = host.mm.counters().since(&before);
    let flushes = counted.get(Event::TlbFlushAll) + counted.get(Event::TlbFlushKernelRange);
    assert_eq!((flushes, counted.get(Event::HugetlbLockHolds)), (0, 100 + 2));
    let pool = &host.mm.hugetlb().hstates()[0];
    assert_eq!(pool.counters(), PoolCounters { nr: 100, free: 100, surplus: 100 });
    assert_eq!(pool.max, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_writes_keeps_every_page(
        variant in proptest::sample::select(Series::HUGETLB.variants().map(|v| v.name).collect::<Vec<_>>()),
        writes in proptest::collection::vec((0..6u8, 0..200u64), 1..12),
        ppm in prop_oneof![Just(0u64), Just(1000), Just(50_000), Just(500_000)],
    ) {
        let mut host = Host::new(features(variant), 2, 1024);
        let boot = host.memmap();
        host.mm.set("fail_page_alloc/ppm", &ppm.to_string()).unwrap();
        for (file, value) in writes {
            match file {
                0..=2 => { host.resize(value); }
                3 => { host.write("node1/hugepages-2048kB/nr_hugepages", value); }
                4 => { host.write("vm.nr_overcommit_hugepages", value); }
                _ => { host.write("vm.hugetlb_optimize_vmemmap", value % 2); }
            }
        }
        end_of(&mut host, variant, boot);
    }
}
