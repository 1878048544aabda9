//! How often TLBs are flushed, hugetlb_lock is taken and pages are moved, for every variant and several sizes
//! of pools: exact numbers from the definition of each variant.

mod hugetlb_machine;

use hugetlb_machine::{Host, features};
use mm::Event;

/// Sizes of pools: below, at and above the 64 pages whose struct pages one PMD maps.
const SIZES: [u64; 5] = [1, 63, 64, 65, 130];

/// TLB flushes (all, ranges) for growing by n pages with s splits, and for shrinking to none.
type Flushes = fn(n: u64, s: u64) -> [(u64, u64); 2];
/// Acquisitions of hugetlb_lock for growing by n pages, and for shrinking to none.
type Holds = fn(n: u64) -> [u64; 2];

const VARIANTS: &[(&str, Flushes, Holds)] = &[
    ("hugetlb-base", |n, s| [(s, n), (0, n)], |n| [3 * n + 2, n + 2]),
    ("patch5", |n, s| [(s, n), (0, n)], |n| [3 * n + 2, 3]),
    ("patch6", |_, _| [(0, 0), (0, 0)], |n| [n + 4, 2]),
    ("patch7", |n, s| [(s, n), (0, n)], |n| [n + 4, 3]),
    ("patch8", |n, s| [(s, n), (0, n)], |n| [n + 4, 3]),
    ("patch9", |n, s| [(s, n), (0, n)], |n| [n + 4, 3]),
    ("patch10-v3", |n, s| [(s + 1, n), (0, n)], |n| [n + 4, 3]),
    ("patch10", |n, _| [(1, n), (0, n)], |n| [n + 4, 3]),
    ("patch11-v3", |n, s| [(s + 2, 0), (0, n)], |n| [n + 4, 3]),
    ("patch11", |n, _| [(2, 0), (0, n)], |n| [n + 4, 3]),
    ("patch12-v3", |_, s| [(s + 3, 0), (1, 0)], |n| [n + 4, 3]),
    ("patch12", |_, _| [(3, 0), (1, 0)], |n| [n + 4, 3]),
    ("mainline-6.7", |_, _| [(2, 0), (1, 0)], |n| [n + 4, 3]),
    ("mainline-6.11", |_, _| [(2, 0), (1, 0)], |n| [n + 4, 3]),
    ("mainline-6.18", |_, _| [(2, 0), (1, 0)], |n| [n + 4, 3]),
];

#[test]
fn flushes_and_holds_of_every_variant() {
    for (variant, flushes, holds) in VARIANTS {
        for n in SIZES {
            let mut host = Host::new(features(variant), 1, 8192);
            let mut all_splits = 0;
            for round in ["first", "second"] {
                let case = format!("{variant}, {n} pages, {round}");
                let grown = host.resize(n);
                let splits = grown.get(Event::VmemmapPmdSplits);
                let shrunk = host.resize(0);
                assert_eq!([grown.flushes(), shrunk.flushes()], flushes(n, splits), "{case}: flushes");
                assert_eq!([grown.holds(), shrunk.holds()], holds(n), "{case}: holds");
                let cpus = host.machine.topology.cpus() as u64;
                for counted in [&grown, &shrunk] {
                    let (all, ranges) = counted.flushes();
                    assert_eq!(counted.get(Event::TlbRemoteCalls), (all + ranges) * (cpus - 1), "{case}");
                }
                let optimizes = *variant != "patch6";
                let saved = if optimizes { 7 * n as i64 } else { 0 };
                assert_eq!((grown.memmap, shrunk.memmap), (-saved, saved), "{case}: struct pages");
                all_splits += splits;
                assert_eq!(host.mm.parts.hugetlb.vmemmap.nr_split_sections(), all_splits, "{case}");
                if round == "first" {
                    assert_eq!(splits >= n.div_ceil(64), optimizes, "{case}: {splits} splits");
                }
            }
        }
    }
}

#[test]
fn pages_of_a_pool_of_130() {
    for variant in ["hugetlb-base", "patch12", "mainline-6.7", "mainline-6.18"] {
        let mut host = Host::new(features(variant), 1, 8192);
        let grown = host.resize(130);
        assert_eq!(grown.get(Event::VmemmapPmdSplits), 3, "{variant}");
        assert_eq!(
            grown.get(Event::VmemmapPagesAllocated),
            3 + 130,
            "{variant}: page tables and copies of heads"
        );
        assert_eq!(grown.get(Event::VmemmapPagesFreed), 130 * 8, "{variant}");
        assert_eq!(grown.get(Event::HtlbBuddyAllocSuccess), 130);
        let shrunk = host.resize(0);
        assert_eq!(shrunk.get(Event::VmemmapPagesAllocated), 130 * 7, "{variant}");
        assert_eq!(shrunk.get(Event::VmemmapPagesFreed), 0, "{variant}");
        // The page that was freed last is taken first.
        let again = host.resize(1);
        assert_eq!(
            (again.get(Event::VmemmapPmdSplits), again.memmap),
            (0, -7),
            "{variant}: a split is for ever"
        );
    }
}

#[test]
fn without_optimisation_growth_still_flushes_twice() {
    for (variant, grow) in [
        ("hugetlb-base-hvo-off", 0),
        ("patch6", 0),
        ("patch9", 0),
        ("patch12-hvo-off", 3),
        ("mainline-6.7", 2),
        ("mainline-6.18", 2),
    ] {
        let mut host = Host::new(features(variant), 1, 8192);
        host.write("vm.hugetlb_optimize_vmemmap", 0);
        let (grown, shrunk) = (host.resize(65), host.resize(0));
        assert_eq!(grown.flushes(), (grow, 0), "{variant}");
        let shrink = u64::from(variant == "patch12-hvo-off");
        assert_eq!((shrunk.flushes(), shrunk.holds()), ((shrink, 0), 2), "{variant}");
        assert_eq!((grown.memmap, shrunk.memmap), (0, 0), "{variant}");
    }
}

/// Recorded on a 6.18 kernel: one optimised page, then two more with the sysctl off, then none.
#[test]
fn a_mixed_pool_restores_what_was_optimised() {
    let mut host = Host::new(features("mainline-6.18"), 1, 8192);
    host.resize(1);
    host.write("vm.hugetlb_optimize_vmemmap", 0);
    let grown = host.resize(3);
    assert_eq!((grown.flushes(), grown.memmap), ((2, 0), 0));
    let shrunk = host.resize(0);
    assert_eq!((shrunk.flushes(), shrunk.memmap, shrunk.holds()), ((1, 0), 7, 3));
}

#[test]
fn the_same_size_again_takes_locks_and_flushes_nothing() {
    for (variant, flushes) in [("hugetlb-base", 0), ("mainline-6.7", 0), ("mainline-6.18", 0), ("patch12", 1)]
    {
        let mut host = Host::new(features(variant), 1, 8192);
        host.resize(8);
        let again = host.resize(8);
        assert_eq!((again.flushes(), again.holds()), ((flushes, 0), 2), "{variant}");
    }
}

/// 9 broadcasts of do_sync_core on a 6.18 kernel for the first and the last optimised page, none in between.
#[test]
fn the_first_and_the_last_optimised_page_patch_code() {
    let mut host = Host::new(features("mainline-6.18"), 1, 8192);
    let patched: Vec<u64> =
        [16, 516, 16, 0].map(|count| host.resize(count).get(Event::CodePatchBroadcasts)).to_vec();
    assert_eq!(patched, [9, 0, 0, 9]);
}

#[test]
fn a_gigantic_page() {
    for (variant, grow, shrink) in
        [("hugetlb-base", 9, 1), ("patch12", 3, 1), ("mainline-6.7", 2, 1), ("mainline-6.18", 2, 1)]
    {
        let mut host = Host::new(features(variant), 1, 8192);
        let (outcome, grown) = host.write("hugepages-1048576kB/nr_hugepages", 1);
        assert_eq!(outcome.unwrap().reached, 1, "{variant}");
        assert_eq!(grown.get(Event::VmemmapPmdSplits), 8, "{variant}");
        assert_eq!(
            grown.get(Event::VmemmapPagesAllocated),
            8 + 1,
            "{variant}: page tables and a copy of the head"
        );
        assert_eq!(grown.get(Event::VmemmapPagesFreed), 4096, "{variant}");
        assert_eq!((grown.flushes(), grown.memmap), ((grow, 0), -4095), "{variant}");
        let (_, shrunk) = host.write("hugepages-1048576kB/nr_hugepages", 0);
        assert_eq!((shrunk.flushes(), shrunk.memmap), ((shrink, 0), 4095), "{variant}");
    }
}

#[test]
fn where_the_cpu_can_flushes_are_broadcast_by_hardware() {
    for (variant, interrupts) in [("mainline-6.11", true), ("mainline-6.18", false)] {
        let mut host = Host::new(features(variant), 1, 8192);
        host.machine.costs.invlpgb = Some(machine::Time::from_nanoseconds(1000));
        let (grown, shrunk) = (host.resize(65), host.resize(0));
        assert_eq!((grown.flushes(), shrunk.flushes()), ((2, 0), (1, 0)), "{variant}");
        let called = grown.get(Event::TlbRemoteCalls) + shrunk.get(Event::TlbRemoteCalls);
        assert_eq!(called, if interrupts { 3 * 3 } else { 0 }, "{variant}");
    }
}

#[test]
fn surplus_pages_leave_later_and_one_by_one() {
    let mut host = Host::new(features("mainline-6.18"), 1, 8192);
    host.resize(5);
    let folios: Vec<_> = (0..5)
        .map(|_| {
            host.mm
                .enter(&mut host.machine, hugetlb_machine::WRITER)
                .take_huge_page(0, mm::hugetlb::Use::Unreserved)
                .unwrap()
        })
        .collect();
    let shrunk = host.resize(0);
    assert_eq!((shrunk.flushes(), shrunk.memmap), ((0, 0), 0), "pages in use stay");
    let pool = host.mm.parts.hugetlb.hstates()[0].counters();
    assert_eq!((pool.nr, pool.surplus, pool.free), (5, 5, 0));
    let before = host.mm.counters().clone();
    for folio in folios {
        host.mm.enter(&mut host.machine, hugetlb_machine::WRITER).put_huge_page(folio, false);
    }
    assert_eq!(host.mm.counters().since(&before).get(Event::TlbFlushKernelRange), 0);
    assert_eq!(host.mm.parts.hugetlb.nr_deferred(), 5);
    let written = host.resize(0);
    assert_eq!(
        (written.flushes(), written.memmap),
        ((0, 5), 35),
        "a resize frees them first, each with its flush"
    );
    assert_eq!(host.mm.parts.hugetlb.nr_deferred(), 0);
}
