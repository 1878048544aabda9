//! Pools as their files show them: surplus, counts of nodes, cursors, refused writes, pages in use.

mod hugetlb_machine;

use hugetlb_machine::{Host, WRITER, features};
use machine::Node;
use mm::Event;
use mm::hugetlb::Use;
use mm::hugetlb::policy::PoolCounters;
use mm::write::WriteError;

fn pool(host: &Host) -> PoolCounters {
    host.mm.parts.hugetlb.hstates()[0].counters()
}

fn of_node(host: &Host, node: u8) -> u64 {
    host.mm.parts.hugetlb.hstates()[0].counters_of(Node(node)).nr
}

/// Ten pages, of which six are in use and one of the others is reserved.
fn half_used() -> Host {
    let mut host = Host::new(features("mainline-6.18"), 1, 4096);
    host.resize(10);
    for _ in 0..6 {
        host.mm.enter(&mut host.machine, WRITER).take_huge_page(0, Use::Unreserved).unwrap();
    }
    host.mm.enter(&mut host.machine, WRITER).reserve_huge_pages(0, 1).unwrap();
    host
}

#[test]
fn shrinking_below_what_is_used_makes_surplus() {
    let mut host = half_used();
    host.resize(2);
    assert_eq!(pool(&host), PoolCounters { nr: 7, free: 1, surplus: 5 });
    assert_eq!(host.mm.parts.hugetlb.hstates()[0].max, 2, "the sysctl shows what was asked for");
    host.resize(6);
    assert_eq!(pool(&host), PoolCounters { nr: 7, free: 1, surplus: 1 }, "nothing is allocated");
}

#[test]
fn a_write_to_a_node_leaves_the_others() {
    let mut host = Host::new(features("mainline-6.18"), 2, 4096);
    host.write("node0/hugepages-2048kB/nr_hugepages", 6);
    host.write("node1/hugepages-2048kB/nr_hugepages", 4);
    let (outcome, _) = host.write("node1/hugepages-2048kB/nr_hugepages", 2);
    assert_eq!((of_node(&host, 0), of_node(&host, 1)), (6, 2));
    assert_eq!(outcome.unwrap().wanted, 8);
}

#[test]
fn nodes_take_turns() {
    let mut host = Host::new(features("hugetlb-base"), 2, 4096);
    host.resize(5);
    assert_eq!((of_node(&host, 0), of_node(&host, 1)), (3, 2));
    assert_eq!(host.mm.parts.hugetlb.hstates()[0].next_to_alloc, Node(1));
    host.resize(0);
    assert_eq!(host.mm.parts.hugetlb.hstates()[0].next_to_free, Node(1));
}

#[test]
fn more_than_there_is_gives_what_there_is() {
    for variant in ["hugetlb-base", "patch12", "mainline-6.18"] {
        let mut host = Host::new(features(variant), 2, 1024);
        let (outcome, _) = host.write("vm.nr_hugepages", 1_000_000);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.wanted, 1_000_000);
        assert!((700..1024).contains(&outcome.reached), "{variant}: {outcome:?}");
        assert_eq!(host.mm.parts.hugetlb.hstates()[0].max, outcome.reached);
        host.resize(0);
        assert_eq!(pool(&host), PoolCounters::default(), "{variant}");
    }
}

#[test]
fn a_count_that_overflows_a_node_grows_until_memory_ends() {
    let mut host = Host::new(features("mainline-6.18"), 2, 1024);
    host.resize(4);
    let (outcome, _) = host.write("node1/hugepages-2048kB/nr_hugepages", u64::MAX);
    assert!(outcome.unwrap().wanted > u64::MAX - 8);
    assert_eq!(of_node(&host, 0), 2);
    assert!(of_node(&host, 1) > 300);
}

#[test]
fn growth_that_finds_nothing_flushes_an_empty_list() {
    let mut host = Host::new(features("mainline-6.18"), 1, 1024);
    // Growth frees struct pages, which makes memory for more growth.
    while host.resize(1_000_000).get(Event::HtlbBuddyAllocSuccess) > 0 {}
    let again = host.resize(1_000_000);
    assert_eq!((again.flushes(), again.holds()), ((2, 0), 3));
}

#[test]
fn what_the_kernel_refuses() {
    let mut host = Host::new(features("mainline-6.18"), 2, 1024);
    let mut refused = |file: &str, value: &str| host.mm.begin_write(file, value).err();
    let invalid = |file: &str, value: &str| {
        Some(WriteError::Invalid {
            file: file.into(),
            value: value.into(),
            takes: "a number of pages, 0 and more",
        })
    };
    let sysfs = "hugepages-2048kB/nr_hugepages";
    // The answers of a 6.18 kernel.
    for value in ["-5", "abc", "99999999999999999999999", ""] {
        assert_eq!(refused("vm.nr_hugepages", value), invalid("vm.nr_hugepages", value));
    }
    assert_eq!(refused("vm.nr_hugepages", "1 2"), None, "a sysctl takes the first number");
    for value in ["-5", "abc", "1 2", ""] {
        assert_eq!(refused(sysfs, value), invalid(sysfs, value));
    }
    let large = "99999999999999999999999";
    assert_eq!(refused(sysfs, large), Some(WriteError::Range { file: sysfs.into(), value: large.into() }));
    for file in
        ["node2/hugepages-2048kB/nr_hugepages", "hugepages-4kB/nr_hugepages", "hugepages-2048kB/demote"]
    {
        assert!(matches!(refused(file, "1"), Some(WriteError::NoFile { .. })), "{file}");
    }
    assert!(matches!(refused("vm.nr_hugepage", "1"), Some(WriteError::NoFile { .. })));
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        file in "(vm\\.|node[0-9]{0,4}/|hugepages-)?[a-zA-Z0-9_/.-]{0,40}|(node[01]/)?hugepages-2048kB/nr_hugepages|vm\\.(drop_caches|compact_memory)|node[0-9]/compact",
        value in "\\PC{0,30}|-?[0-9]{0,25}",
    ) {
        let mut host = Host::new(features("mainline-6.18"), 2, 1024);
        if let Err(error) = host.mm.begin_write(&file, &value) {
            let text = error.to_string();
            proptest::prop_assert!(text.contains(&file), "{text}");
        }
    }
}

#[test]
fn promises_bring_surplus_pages_and_take_them_away() {
    let mut host = Host::new(features("mainline-6.18"), 1, 4096);
    host.resize(2);
    assert!(host.mm.enter(&mut host.machine, WRITER).reserve_huge_pages(0, 5).is_err(), "no overcommit");
    host.write("vm.nr_overcommit_hugepages", 3);
    host.mm.enter(&mut host.machine, WRITER).reserve_huge_pages(0, 5).unwrap();
    assert_eq!(pool(&host), PoolCounters { nr: 5, free: 5, surplus: 3 });
    assert!(host.mm.enter(&mut host.machine, WRITER).reserve_huge_pages(0, 1).is_err());
    assert!(
        host.mm.enter(&mut host.machine, WRITER).take_huge_page(0, Use::Unreserved).is_err(),
        "all are promised"
    );
    let page = host.mm.enter(&mut host.machine, WRITER).take_huge_page(0, Use::Reserved).unwrap();
    host.mm.enter(&mut host.machine, WRITER).put_huge_page(page, false);
    host.mm.enter(&mut host.machine, WRITER).unreserve_huge_pages(0, 4);
    host.resize(2);
    assert_eq!(pool(&host), PoolCounters { nr: 2, free: 2, surplus: 0 });
    host.mm.validate(0);
}

#[test]
fn a_gigantic_page_becomes_512_small_ones() {
    for variant in ["hugetlb-base", "mainline-6.18"] {
        let mut host = Host::new(features(variant), 1, 8192);
        host.write("hugepages-1048576kB/nr_hugepages", 2);
        let (outcome, _) = host.write("hugepages-1048576kB/demote", 1);
        assert_eq!(outcome.unwrap().reached, 1, "{variant}");
        assert_eq!(pool(&host).free, 512, "{variant}");
        assert_eq!(host.mm.parts.hugetlb.hstates()[1].counters().free, 1);
        assert_eq!(host.mm.parts.hugetlb.nr_optimized(), 513, "{variant}");
        let (outcome, _) = host.write("hugepages-1048576kB/demote", 5);
        assert_eq!(outcome.unwrap().reached, 1, "{variant}: only what there is");
        host.resize(0);
        assert_eq!(host.memmap(), Host::new(features(variant), 1, 8192).memmap(), "{variant}");
    }
}

#[test]
fn parts_of_a_gigantic_page_enter_the_pool_in_steps() {
    for (variant, at_once) in
        [("hugetlb-base", 1), ("patch12", 1), ("mainline-6.11", 1), ("mainline-6.12", 512)]
    {
        let mut host = Host::new(features(variant), 1, 8192);
        host.write("hugepages-1048576kB/nr_hugepages", 1);
        let mut write = host.mm.begin_write("hugepages-1048576kB/demote", "1").unwrap();
        let mut entered = Vec::new();
        loop {
            let before = pool(&host).free;
            let done = host.mm.enter(&mut host.machine, WRITER).step_write(&mut write);
            entered.push(pool(&host).free - before);
            if done {
                break;
            }
        }
        entered.retain(|&pages| pages > 0);
        assert_eq!(entered, vec![at_once; 512 / at_once as usize], "{variant}");
    }
}

/// From 6.10 on, each demotion waits for RCU grace periods: one for a page that is restored, one for each
/// page that it is split into. From 6.12 on there is one of each kind for all pages of a node.
#[test]
fn demotion_in_batches_waits_less_often() {
    for (variant, waits) in
        [("mainline-6.9", 0), ("mainline-6.10", 4 * 513), ("mainline-6.11", 4 * 513), ("mainline-6.12", 4)]
    {
        let mut host = Host::new(features(variant), 2, 8192);
        host.write("hugepages-1048576kB/nr_hugepages", 6);
        let before = host.mm.counters().get(Event::GracePeriods);
        let (outcome, _) = host.write("hugepages-1048576kB/demote", 4);
        assert_eq!(outcome.unwrap().reached, 4, "{variant}");
        assert_eq!(host.mm.counters().get(Event::GracePeriods) - before, waits, "{variant}");
        let pools: Vec<u64> = host.mm.parts.hugetlb.hstates().iter().map(|h| h.max).collect();
        assert_eq!(pools, [4 * 512, 2], "{variant}");
        host.mm.validate(0);
    }
}

#[test]
fn more_than_there_is_ends_where_memory_ends() {
    for variant in ["hugetlb-base", "mainline-6.9", "mainline-6.15", "mainline-6.18"] {
        let mut host = Host::new(features(variant), 2, 1024);
        host.mm.set("hugepages-2048kB/boot", &u64::MAX.to_string()).unwrap();
        host.mm.set("hugepage_alloc_threads", &u64::MAX.to_string()).unwrap();
        host.mm.enter(&mut host.machine, WRITER).boot_huge_pages();
        let pages = pool(&host).nr;
        assert!((900..=1024).contains(&pages), "{variant}: {pages}");
        host.mm.validate(0);
    }
}

/// Before 6.9 boot moves the cursor of the pool; later each thread has a cursor of its own.
#[test]
fn growth_goes_on_at_the_node_where_boot_ended() {
    for (variant, order, next) in [
        ("mainline-6.7", "2048", 1),
        ("mainline-6.7", "1048576", 1),
        ("mainline-6.9", "2048", 0),
        ("mainline-6.9", "1048576", 1),
    ] {
        let mut host = Host::new(features(variant), 2, 8192);
        host.mm.set(&format!("hugepages-{order}kB/boot"), "3").unwrap();
        host.mm.enter(&mut host.machine, WRITER).boot_huge_pages();
        let h = usize::from(order != "2048");
        assert_eq!(host.mm.parts.hugetlb.hstates()[h].next_to_alloc, Node(next), "{variant}, {order}");
    }
}

#[test]
fn pages_of_boot_time() {
    for (variant, threads) in [
        ("hugetlb-base", 1),
        ("patch12", 1),
        ("mainline-6.7", 1),
        ("mainline-6.9", 4),
        ("mainline-6.10", 4),
        ("mainline-6.15", 4),
        ("mainline-6.18", 4),
    ] {
        let mut host = Host::new(features(variant), 2, 8192);
        host.mm.set("hugepages-2048kB/boot", "100").unwrap();
        // 4 threads are two for each node. A quarter of the CPUs, the later default, would be fewer on this
        // machine.
        host.mm.set("hugepage_alloc_threads", "4").unwrap();
        host.mm.set("hugepages-1048576kB/boot", "4").unwrap();
        host.mm.enter(&mut host.machine, WRITER).boot_huge_pages();
        assert_eq!(
            host.mm.parts.hugetlb.hstates().iter().map(|h| h.max).collect::<Vec<_>>(),
            [100, 4],
            "{variant}"
        );
        // Each of four threads begins its 25 pages at the first node.
        let expected = if threads == 4 { (52, 48) } else { (50, 50) };
        assert_eq!((of_node(&host, 0), of_node(&host, 1)), expected, "{variant}");
        assert_eq!(host.mm.parts.hugetlb.nr_optimized(), 104, "{variant}");
        host.mm.validate(0);
        host.resize(0);
        host.write("hugepages-1048576kB/nr_hugepages", 0);
        assert_eq!(host.mm.parts.hugetlb.nr_optimized(), 0, "{variant}");
    }
}
