//! Memory shortage: every allocation of a resize is made to fail, one at a time and at random. No page is
//! lost, and all invariants hold.

mod hugetlb_machine;

use hugetlb_machine::{Host, WRITER, features};
use mm::hugetlb::Use;
use mm::hugetlb::folio::Folio;
use mm::hugetlb::policy::PoolCounters;
use mm::{Event, MigrateType, Placement, Request, Series};
use proptest::prelude::*;

/// Pages that the pool grows to before it shrinks.
const PAGES: u64 = 130;

fn end_of(host: &mut Host, case: &str, boot: i64) {
    host.mm.set("fail_page_alloc/nth", "0").unwrap();
    host.mm.set("fail_page_alloc/ppm", "0").unwrap();
    // Pages whose vmemmap could not be restored are surplus now; they are freed once they have been made
    // persistent again.
    let pages = host.mm.parts.hugetlb.hstates()[0].counters().nr;
    host.resize(pages);
    host.resize(0);
    let pool = host.mm.parts.hugetlb.hstates()[0].counters();
    assert_eq!(pool, PoolCounters::default(), "{case}");
    assert_eq!(host.memmap(), boot, "{case}: every struct page has a frame of its own again");
    assert_eq!(host.mm.parts.hugetlb.nr_optimized(), 0, "{case}");
}

#[test]
fn every_single_allocation_may_fail() {
    for variant in Series::HUGETLB.variants() {
        let fresh = Host::new(variant.features, 2, 1024);
        let boot = fresh.memmap();
        let mut whole = fresh.clone();
        whole.resize(PAGES);
        whole.resize(0);
        let allocations = whole.mm.parts.hugetlb.nr_allocations();
        let optimizes = variant.name != "patch6";
        assert!(allocations >= if optimizes { PAGES * 9 } else { PAGES }, "{}: {allocations}", variant.name);
        for nth in 1..=allocations {
            let case = format!("{}, allocation {nth} of {allocations}", variant.name);
            let mut host = fresh.clone();
            host.mm.set("fail_page_alloc/nth", &nth.to_string()).unwrap();
            host.resize(PAGES);
            let grown = host.mm.parts.hugetlb.hstates()[0].counters();
            assert!(grown.nr + 1 >= PAGES.min(nth - 1) && grown.free == grown.nr, "{case}: {grown:?}");
            host.resize(0);
            let left = host.mm.parts.hugetlb.hstates()[0].counters();
            assert_eq!((left.nr, left.free), (left.surplus, left.surplus), "{case}: {left:?}");
            assert!(left.nr <= 1, "{case}: {left:?}");
            end_of(&mut host, &case, boot);
        }
    }
}

/// As merged: pages that were restored before memory ran out are freed first, then the others are tried
/// again.
#[test]
fn a_failure_in_the_middle_gives_memory_back_and_goes_on() {
    let mut host = Host::new(features("mainline-6.7"), 1, 4096);
    host.resize(100);
    let nth = host.mm.parts.hugetlb.nr_allocations() + 30 * 7 + 1;
    host.mm.set("fail_page_alloc/nth", &nth.to_string()).unwrap();
    let shrunk = host.resize(0);
    assert_eq!((shrunk.flushes(), shrunk.holds()), ((2, 0), 30 + 1 + 2));
    assert_eq!(host.mm.parts.hugetlb.hstates()[0].counters(), PoolCounters::default());
}

/// Allocates all memory except `pages` pages.
fn take_all_but(host: &mut Host, pages: u64) -> Vec<(u32, u8)> {
    let mut held = Vec::new();
    for order in [10, 9, 3, 0] {
        let mut request = Request::new(order, MigrateType::Unmovable, Placement::Local);
        request.reserves = mm::watermark::Reserves { oom: true, ..Default::default() };
        while let Some(pfn) = host.mm.enter(&mut host.machine, WRITER).alloc(&request) {
            held.push((pfn, order));
        }
    }
    let mut free = 0;
    while free < pages
        && let Some((pfn, order)) = held.pop()
    {
        host.mm.enter(&mut host.machine, WRITER).free(pfn, order);
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
    let write = host.mm.begin_write("vm.nr_hugepages", "0").unwrap();
    host.mm.enter(&mut host.machine, WRITER).finish_write(write);
    let counted = host.mm.counters().since(&before);
    let flushes = counted.get(Event::TlbFlushAll) + counted.get(Event::TlbFlushKernelRange);
    assert_eq!((flushes, counted.get(Event::HugetlbLockHolds)), (0, 100 + 2));
    let pool = &host.mm.parts.hugetlb.hstates()[0];
    assert_eq!(pool.counters(), PoolCounters { nr: 100, free: 100, surplus: 100 });
    assert_eq!(pool.max, 0);
}

/// An operation on pools.
#[derive(Clone, Debug)]
enum Step {
    Resize(u64),
    ResizeNode(u64),
    ResizeGigantic(u64),
    Demote(u64),
    Overcommit(u64),
    Optimize(bool),
    Reserve(u64),
    Unreserve(u64),
    Take { reserved: bool },
    Put { which: usize, again: bool },
    Temporary,
    DeferredWork,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..200u64).prop_map(Step::Resize),
        2 => (0..200u64).prop_map(Step::ResizeNode),
        1 => (0..3u64).prop_map(Step::ResizeGigantic),
        1 => (0..3u64).prop_map(Step::Demote),
        2 => (0..50u64).prop_map(Step::Overcommit),
        2 => any::<bool>().prop_map(Step::Optimize),
        2 => (0..30u64).prop_map(Step::Reserve),
        1 => (0..30u64).prop_map(Step::Unreserve),
        3 => any::<bool>().prop_map(|reserved| Step::Take { reserved }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, again)| Step::Put { which, again }),
        1 => Just(Step::Temporary),
        1 => Just(Step::DeferredWork),
    ]
}

/// Does a step. `used` are the pages that programs have, and how they got them. A program uses a reservation
/// only if there is one.
fn apply(host: &mut Host, step: &Step, used: &mut Vec<(Folio, Use)>) {
    let Host { machine, mm } = host;
    match *step {
        Step::Resize(count) => drop(host.resize(count)),
        Step::ResizeNode(count) => drop(host.write("node1/hugepages-2048kB/nr_hugepages", count)),
        Step::ResizeGigantic(count) => drop(host.write("hugepages-1048576kB/nr_hugepages", count)),
        Step::Demote(count) => drop(host.write("hugepages-1048576kB/demote", count)),
        Step::Overcommit(count) => drop(host.write("vm.nr_overcommit_hugepages", count)),
        Step::Optimize(on) => drop(host.write("vm.hugetlb_optimize_vmemmap", u8::from(on))),
        Step::Reserve(n) => drop(mm.enter(machine, WRITER).reserve_huge_pages(0, n)),
        Step::Unreserve(n) => mm.enter(machine, WRITER).unreserve_huge_pages(0, n),
        Step::Take { reserved } => {
            let reserved = reserved && mm.parts.hugetlb.hstates()[0].resv > 0;
            let how = if reserved { Use::Reserved } else { Use::Unreserved };
            used.extend(mm.enter(machine, WRITER).take_huge_page(0, how).map(|folio| (folio, how)));
        }
        Step::Put { which, again } => {
            if !used.is_empty() {
                let (folio, how) = used.swap_remove(which % used.len());
                // A reservation is restored only if the page that it was used for stays in the pool.
                let stays = mm.parts.hugetlb.hstates()[0].counters().surplus == 0;
                mm.enter(machine, WRITER).put_huge_page(folio, again && stays && how == Use::Reserved);
            }
        }
        Step::Temporary => {
            let page = mm.enter(machine, WRITER).take_temporary_huge_page(0);
            used.extend(page.map(|folio| (folio, Use::Unreserved)));
        }
        Step::DeferredWork => mm.enter(machine, WRITER).run_deferred_work(),
    }
    host.mm.validate(0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_steps_keeps_every_page(
        variant in proptest::sample::select(Series::HUGETLB.variants().map(|v| v.name).collect::<Vec<_>>()),
        steps in proptest::collection::vec(step(), 1..30),
        ppm in prop_oneof![Just(0u64), Just(1000), Just(50_000), Just(500_000)],
    ) {
        let mut host = Host::new(features(variant), 2, 2048);
        let boot = host.memmap();
        host.mm.set("fail_page_alloc/ppm", &ppm.to_string()).unwrap();
        let mut used = Vec::new();
        for step in &steps {
            apply(&mut host, step, &mut used);
        }
        host.mm.set("fail_page_alloc/ppm", "0").unwrap();
        host.mm.enter(&mut host.machine, WRITER).unreserve_huge_pages(0, u64::MAX);
        for (folio, _) in used {
            host.mm.enter(&mut host.machine, WRITER).put_huge_page(folio, false);
        }
        host.mm.enter(&mut host.machine, WRITER).run_deferred_work();
        let gigantic = host.mm.parts.hugetlb.hstates()[1].counters().nr;
        host.write("hugepages-1048576kB/nr_hugepages", gigantic);
        host.write("hugepages-1048576kB/nr_hugepages", 0);
        end_of(&mut host, variant, boot);
    }
}

#[test]
fn compaction_passes_over_hugetlb_pages() {
    let mut host = Host::new(features("hugetlb-base"), 2, 1024);
    // The vmemmap pages that were freed remain, one by one.
    host.mm.set("vm.min_free_kbytes", "1024").unwrap();
    let counted = host.resize(2000);
    let pool = host.mm.parts.hugetlb.hstates()[0].counters();
    assert!((900..2000).contains(&pool.nr), "{pool:?}");
    let (scanned, stalls) =
        (counted.events.get(Event::CompactMigrateScanned), counted.events.get(Event::CompactStall));
    // Little else is left in the zones, so a pass looks at each huge page at most once, and not at its 512
    // base pages.
    assert!(stalls > 0 && scanned > 0, "{stalls} stalls");
    assert!(scanned <= stalls * pool.nr, "{scanned} scanned in {stalls} stalls");
}
