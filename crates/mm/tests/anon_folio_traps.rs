//! What is easy to get wrong about large anonymous folios: one thing in each test.

mod reclaim_machine;
mod swap_host;

use machine::{Node, Time};
use mm::address_space::{Advice, Backing, MmId, Pte, VmFlags};
use mm::allocator::request::Effort;
use mm::huge_memory::policy::Disabled;
use mm::huge_memory::stats::MthpStat;
use mm::memory::Unmapped;
use mm::numa::migrate::policy::{Mempolicy, Mode, Nodes};
use mm::{Event, MigrateType, Pfn, Placement, Request};
use proptest::prelude::*;
use swap_host::{CPU, Host};

/// A process with 512 pages mapped, in a memcg of its own.
fn host(variant: &str, thp_anon: &str) -> Host {
    Host::without_swap(variant, thp_anon, 512)
}

impl Host {
    fn store_as(&mut self, process: MmId, page: u64) {
        self.mm.enter(&mut self.machine, CPU).touch(process, self.start + page, true).unwrap();
        self.mm.validate(0);
    }

    fn store(&mut self, page: u64) {
        self.store_as(self.process, page);
    }

    fn drop_pages(&mut self, pages: std::ops::Range<u64>) {
        let pages = self.start + pages.start..self.start + pages.end;
        self.mm.enter(&mut self.machine, CPU).madvise_dontneed(self.process, pages);
        self.mm.validate(0);
    }

    /// The order of the folio that has a page, or `None` if the page is not mapped.
    fn order(&self, page: u64) -> Option<u8> {
        self.mm
            .parts
            .address_spaces
            .pte(self.process, self.start + page)
            .folio()
            .map(|id| self.mm.parts.lrus.folio_order(id))
    }

    /// Allocates all free blocks of an order and of larger ones.
    fn take_blocks(&mut self, order: u8) -> Vec<(Pfn, u8)> {
        let mut taken = Vec::new();
        for (order, node) in (order..=10).rev().flat_map(|order| [(order, Node(0)), (order, Node(1))]) {
            let request = Request::new(order, MigrateType::Movable, Placement::Bind(node));
            let request = Request { effort: Effort::LIGHT, ..request };
            while let Some(pfn) = self.mm.enter(&mut self.machine, CPU).alloc(&request) {
                taken.push((pfn, order));
            }
        }
        taken
    }
}

#[test]
fn first_touch_decides() {
    let mut host = host("folios-6.12", "64K:always");
    let taken = host.take_blocks(4);
    host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start + 3, true).unwrap();
    assert_eq!((host.order(3), host.stat(4, MthpStat::AnonFaultFallback)), (Some(0), 1));
    taken.into_iter().for_each(|(pfn, order)| host.mm.enter(&mut host.machine, CPU).free(pfn, order));
    host.store(4);
    assert_eq!(host.order(4), Some(0), "a mapped page blocks its window");
    assert_eq!(host.stat(4, MthpStat::AnonFaultFallback), 1, "an order that does not fit is not a fallback");
    host.drop_pages(0..16);
    host.store(4);
    assert_eq!(host.order(4), Some(4));
}

#[test]
fn a_fault_may_count_several_fallbacks() {
    let mut host = host("folios-6.12", "16K,32K,64K:always");
    let taken = host.take_blocks(2);
    for page in [0, 16, 32] {
        host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start + page, true).unwrap();
    }
    assert_eq!([2, 3, 4].map(|order| host.stat(order, MthpStat::AnonFaultFallback)), [3, 3, 3]);
    assert_eq!(host.mm.counters().get(Event::Pgfault), 3);
    host.mm.validate(taken.iter().map(|&(_, order)| 1 << order).sum());
}

/// A process with a VMA that is aligned to huge pages.
fn huge_host(thp_anon: &str) -> Host {
    let mut host = host("folios-6.12", thp_anon);
    host.start =
        host.mm.enter(&mut host.machine, CPU).mmap(host.process, 1024, Backing::Anonymous, VmFlags::PRIVATE);
    assert_eq!(host.start % 512, 0);
    host
}

/// Unmaps the pages of a VMA and returns what that met.
fn unmap(host: &mut Host, process: MmId, pages: u64) -> Unmapped {
    let pages = host.start..host.start + pages;
    host.mm.enter(&mut host.machine, CPU).madvise_dontneed(process, pages)
}

#[test]
fn pages_of_a_folio_are_unmapped_at_once_since_6_9() {
    let all = |variant, thp_anon| {
        let mut host = host(variant, thp_anon);
        (0..64).for_each(|page| host.store(page));
        let process = host.process;
        unmap(&mut host, process, 64)
    };
    let single = Unmapped { first: 64, ..Unmapped::default() };
    let one_by_one = Unmapped { first: 4, one_by_one: 60, ..Unmapped::default() };
    let at_once = Unmapped { first: 4, at_once: 60, ..Unmapped::default() };
    assert_eq!([all("folios-base", ""), all("folios-6.12", "64K:never")], [single; 2]);
    assert_eq!([all("folios-v2", ""), all("folios-6.8", "64K:always")], [one_by_one; 2]);
    // The first version already did what 6.9 did again.
    assert_eq!([all("folios-v1", ""), all("folios-6.12", "64K:always")], [at_once; 2]);
}

#[test]
fn a_copied_page_ends_what_is_unmapped_at_once() {
    let mut host = host("folios-6.12", "64K:always");
    host.store(0);
    let child = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
    host.store_as(child, 5);
    let unmapped = unmap(&mut host, child, 512);
    assert_eq!(unmapped, Unmapped { first: 3, at_once: 13, ..Unmapped::default() });
    assert_eq!(unmapped.pages(), 16);
}

#[test]
fn a_huge_page_has_one_entry_to_unmap() {
    let mut host = huge_host("2M:always");
    host.store(0);
    let process = host.process;
    let unmapped = unmap(&mut host, process, 1024);
    assert_eq!(unmapped, Unmapped { first: 1, huge: 511, ..Unmapped::default() });
    let costs = &host.machine.costs;
    assert_eq!(unmapped.cost(costs), costs.page_unmap * 512, "without sizes all pages cost the same");
}

#[test]
fn a_huge_page_that_is_not_to_be_had_counts_at_its_order_and_at_smaller_ones() {
    let mut host = huge_host("64K,2M:always");
    let taken = host.take_blocks(4);
    host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start, true).unwrap();
    let fallbacks = [9, 4].map(|order| host.stat(order, MthpStat::AnonFaultFallback));
    assert_eq!((fallbacks, host.count(Event::ThpFaultFallback), host.order(0)), ([1, 1], 1, Some(0)));
    assert_eq!(host.count(Event::ThpFaultFallbackCharge), 0);
    taken.into_iter().for_each(|(pfn, order)| host.mm.enter(&mut host.machine, CPU).free(pfn, order));
    // There is a page table by now, so there is no huge page.
    host.store(16);
    assert_eq!((host.order(16), host.stat(9, MthpStat::AnonFaultFallback)), (Some(4), 1));
    // The memcg has no room for a huge page.
    host.mm.parts.lrus.memcg_mut(host.memcg).max = 200;
    host.store(512);
    let fallbacks = [9, 4].map(|order| host.stat(order, MthpStat::AnonFaultFallbackCharge));
    assert_eq!((fallbacks, host.count(Event::ThpFaultFallbackCharge), host.order(512)), ([1, 0], 1, Some(4)));
    assert_eq!((host.stat(9, MthpStat::AnonFaultFallback), host.count(Event::ThpFaultFallback)), (2, 2));
}

#[test]
fn a_huge_page_that_loses_a_part_waits_to_be_split() {
    let mut host = huge_host("2M:always");
    host.store(7);
    host.drop_pages(0..16);
    assert_eq!((host.order(20), host.count(Event::ThpDeferredSplitPage)), (Some(9), 1));
    assert_eq!(host.stat(9, MthpStat::SplitDeferred), 1);
}

#[test]
fn there_is_one_huge_page_of_zeroes() {
    let mut host = huge_host("2M:always");
    let read = |host: &mut Host, process, page| {
        host.mm.enter(&mut host.machine, CPU).touch(process, host.start + page, false).unwrap();
        host.mm.validate(0);
    };
    let made =
        |host: &Host| [Event::ThpZeroPageAlloc, Event::ThpZeroPageAllocFailed].map(|event| host.count(event));
    let taken = host.take_blocks(9);
    host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start, false).unwrap();
    assert_eq!((made(&host), host.count(Event::ThpFaultFallback)), ([0, 1], 1), "the zero page instead");
    assert_eq!(host.mm.parts.address_spaces.pte(host.process, host.start + 1), Pte::NONE);
    taken.into_iter().for_each(|(pfn, order)| host.mm.enter(&mut host.machine, CPU).free(pfn, order));
    let free = host.mm.parts.allocator.free_pages();
    let process = host.process;
    read(&mut host, process, 512);
    assert_eq!(
        (
            made(&host),
            free - host.mm.parts.allocator.free_pages(),
            host.mm.parts.address_spaces.mm(host.process).rss()
        ),
        ([1, 1], 512, 0)
    );
    // Later reads map the same huge zero folio.
    let other = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
    read(&mut host, other, 600);
    let third = host.mm.parts.create_mm(host.memcg);
    host.mm.enter(&mut host.machine, CPU).mmap_fixed(
        third,
        host.start,
        1024,
        Backing::Anonymous,
        VmFlags::PRIVATE,
    );
    read(&mut host, third, 0);
    assert_eq!(made(&host), [1, 1]);
    // It stays as long as one of the processes lives, and then until memory runs short.
    for process in [host.process, other] {
        host.mm.enter(&mut host.machine, CPU).exit_mm(process);
    }
    let all_that_is_to_be_had = |host: &mut Host| {
        let request = Request::new(0, MigrateType::Movable, Placement::Local);
        let alloc = || host.mm.enter(&mut host.machine, CPU).alloc(&request);
        let taken: Vec<Pfn> = std::iter::from_fn(alloc).collect();
        taken.iter().for_each(|&pfn| host.mm.enter(&mut host.machine, CPU).free(pfn, 0));
        host.mm.validate(0);
        taken.len()
    };
    let with_it = all_that_is_to_be_had(&mut host);
    host.mm.enter(&mut host.machine, CPU).exit_mm(third);
    assert!(all_that_is_to_be_had(&mut host) >= with_it + 500, "{with_it} with it");
    assert_eq!(made(&host), [1, 1]);
}

#[test]
fn inherit_follows_the_knob_for_what_is_to_come() {
    let mut host = host("folios-6.12", "32K:always;64K:inherit");
    let orders = ["always", "never", "always"].into_iter().enumerate().map(|(window, knob)| {
        host.mm.set("transparent_hugepage/enabled", knob).unwrap();
        let page = 16 * window as u64;
        host.store(page);
        host.order(page).unwrap()
    });
    assert_eq!(orders.collect::<Vec<_>>(), [4, 3, 4], "the knob at never turns off inherit, not always");
    assert_eq!([0, 16, 32].map(|page| host.order(page).unwrap()), [4, 3, 4], "folios keep their order");
}

#[test]
fn memory_that_is_not_touched_counts_and_is_young() {
    let mut host = host("folios-6.12", "64K:always");
    host.store(20);
    assert_eq!(
        (
            host.mm.parts.address_spaces.mm(host.process).rss(),
            host.mm.parts.lrus.nr_lru().iter().sum::<u64>()
        ),
        (16, 16)
    );
    let bits = Pte::YOUNG.with(Pte::WRITE);
    assert!((16..32).all(|page| host.mm.parts.address_spaces.pte(host.process, host.start + page).has(bits)));
    assert!(host.mm.parts.address_spaces.pte(host.process, host.start + 20).has(Pte::STORED));
    assert!(
        !host.mm.parts.address_spaces.pte(host.process, host.start + 21).has(Pte::STORED),
        "it is all zeroes"
    );
}

#[test]
fn unmapping_a_part_frees_nothing_until_it_is_split() {
    let mut host = host("folios-6.12", "64K:always");
    (0..64).for_each(|page| host.store(page));
    let folio_pages = |host: &Host| host.mm.parts.lrus.nr_lru().iter().sum::<u64>();
    host.drop_pages(5..6);
    host.drop_pages(16..31);
    host.drop_pages(32..48);
    assert_eq!(
        (host.mm.parts.address_spaces.mm(host.process).rss(), folio_pages(&host)),
        (64 - 32, 48),
        "a whole one is freed at once"
    );
    let count = |host: &Host, stat| host.stat(4, stat);
    assert_eq!(count(&host, MthpStat::SplitDeferred), 2);
    assert_eq!(count(&host, MthpStat::NrAnonPartiallyMapped), 2);
    // It stays partially mapped even once all of its addresses are mapped again, as some of them map other
    // folios.
    host.store(5);
    assert_eq!(count(&host, MthpStat::NrAnonPartiallyMapped), 2);
    // The memcg may not use more than it does: reclaim splits the folio before it gives up.
    host.mm.parts.lrus.memcg_mut(host.memcg).max = 1;
    let _ = host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start + 100, true);
    (0..90).for_each(|page| {
        _ = host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start + 101 + page, true)
    });
    host.mm.validate(0);
    assert_eq!((count(&host, MthpStat::Split), count(&host, MthpStat::NrAnonPartiallyMapped)), (2, 0));
    assert!((0..5).chain(6..16).chain([31]).all(|page| host.order(page) == Some(0)));
}

/// A parent that stores to a page of a PMD-mapped folio gets a copy. The page is then mapped only by the PMD
/// of the child, and by nobody once the child has exited.
#[test]
fn a_page_that_only_a_huge_entry_of_another_mapped_is_lost_with_it() {
    for variant in [
        "folios-base",
        "folios-v2",
        "folios-v3",
        "mainline-6.1",
        "mainline-6.8",
        "mainline-6.12",
        "mainline-6.18",
        "folios-7.2",
    ] {
        let mut host = Host::without_swap(variant, "", 1024);
        host.mm.set("transparent_hugepage/enabled", "always").unwrap();
        let place = host.start.next_multiple_of(512) - host.start;
        host.store(place);
        assert_eq!(host.order(place), Some(9), "{variant}");
        let child = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
        host.store(place + 1);
        let waiting =
            |host: &Host| host.mm.parts.address_spaces.mthp_stats().get(9, MthpStat::NrAnonPartiallyMapped);
        assert_eq!(waiting(&host), 0, "{variant}: the child maps all of it");
        host.mm.enter(&mut host.machine, CPU).exit_mm(child);
        host.mm.validate(0);
        assert_eq!(waiting(&host), 1, "{variant}");
        assert_eq!(host.mm.counters().get(Event::ThpDeferredSplitPage), 1, "{variant}");
    }
}

#[test]
fn after_fork_a_store_copies_one_page() {
    let mut host = host("folios-6.12", "64K:always");
    (0..16).for_each(|page| host.store(page));
    let child = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
    host.store(3);
    assert_eq!((host.order(3), host.order(4)), (Some(0), Some(4)));
    assert_eq!(host.stat(4, MthpStat::NrAnonPartiallyMapped), 0, "the child has the page");
    host.store_as(child, 3);
    assert_eq!(host.stat(4, MthpStat::NrAnonPartiallyMapped), 1, "no process maps page 3 now");
    host.mm.enter(&mut host.machine, CPU).exit_mm(child);
    host.mm.validate(0);
    assert_eq!(host.stat(4, MthpStat::NrAnon), 1);
}

#[test]
fn areas_cut_later_give_smaller_folios() {
    let mut host = host("folios-6.12", "16K,32K,64K:always");
    (0..32).for_each(|page| host.store(page));
    let first = host.start..host.start + 20;
    host.mm.parts.mprotect(host.process, first, VmFlags::PRIVATE.or(VmFlags::EXEC));
    assert_eq!(host.order(19), Some(4), "a folio stays whole when its VMA is split across it");
    host.drop_pages(0..32);
    for (page, order) in [(0, 4), (16, 2), (20, 2), (24, 3)] {
        host.store(page);
        assert_eq!(host.order(page), Some(order), "page {page}");
    }
}

/// Trap 16: with interleaving, a folio takes one turn of a node, so the larger folios are, the coarser the
/// layout is.
#[test]
fn the_turn_of_a_node_is_a_folio() {
    let layout = |sizes: &str, from: u64| {
        let mut host = host("folios-6.12", sizes);
        let mode = Mode::Interleave(Nodes(0b11));
        let policy = Mempolicy { mode, migrate_on_fault: false, migrate_on_referencing_node: false };
        host.mm.parts.address_spaces.mbind(host.process, host.start + from..host.start + 512, Some(policy));
        (from..from + 80).for_each(|page| host.store(page));
        let node = |page: u64| {
            let pages = host.start + page..host.start + page + 1;
            host.mm.parts.pages_by_node(host.process, pages).iter().position(|&pages| pages > 0).unwrap()
        };
        let nodes: Vec<usize> = (from..from + 80).map(node).collect();
        let turns: Vec<usize> = nodes.chunk_by(|a, b| a == b).map(<[usize]>::len).collect();
        (nodes[0], turns, host.mm.counters().get(Event::NumaInterleave))
    };
    assert_eq!(layout("2M:never", 0), (0, vec![1; 80], 80));
    assert_eq!(layout("64K:always", 0), (0, vec![16; 5], 5));
    // Single pages up to the first window of 64 KiB; turns of folios are counted from the start of the VMA.
    let (first, turns, counted) = layout("64K:always", 6);
    assert_eq!((first, &turns[..10], counted), (0, &[1; 10][..], 10 + 5));
    assert_eq!(
        turns[10..14],
        [16; 4],
        "the window at page 16 has turn 0, as the area begins in the one before"
    );
    let (first, turns, _) = layout("32K,64K:always", 8);
    assert_eq!((first, &turns[..]), (1, &[8, 16, 16, 16, 16, 8][..]), "32 KiB count turns of 32 KiB");
}

/// From 6.9 on, if a fault may reclaim for a large folio, a memcg at its limit makes room for it.
#[test]
fn a_group_at_its_limit_may_reclaim_for_a_large_folio() {
    let made = |variant: &str, defrag: &str| {
        let mut host = host(variant, "64K:always");
        host.mm.set("transparent_hugepage/defrag", defrag).unwrap();
        host.mm.parts.swap.swapon(4096, Some(Time::ZERO));
        host.mm.parts.lrus.memcg_mut(host.memcg).max = 256;
        (0..512).for_each(|page| host.store(page));
        (host.stat(4, MthpStat::AnonFaultAlloc), host.stat(4, MthpStat::AnonFaultFallbackCharge) > 0)
    };
    assert_eq!(made("mainline-6.18", "always"), (32, false));
    let (folios, fell_back) = made("mainline-6.18", "madvise");
    assert!((16..32).contains(&folios) && fell_back, "{folios}");
}

/// Trap 21: a large folio is one item of a list, but a scan counts all its pages.
#[test]
fn a_scan_counts_the_pages_of_a_folio() {
    // With the classic LRU, the first scan activates all folios, as several PTEs of each were young; 6.12
    // would read the statistics of that only seconds later.
    for (variant, lru_gen, least) in [("mainline-6.11", "0", 32), ("folios-6.12", "7", 64)] {
        // Pages scanned and reclaimed when a memcg at its limit needs one page more.
        let reclaimed = |sizes: &str| {
            let mut host = host(variant, sizes);
            host.mm.parts.swap.swapon(4096, Some(Time::ZERO));
            host.mm.set("lru_gen/enabled", lru_gen).unwrap();
            (0..512).for_each(|page| host.store(page));
            host.mm.parts.lrus.flush_stats(Time::ZERO);
            host.mm.parts.lrus.memcg_mut(host.memcg).max = 512;
            let other = host.mm.parts.create_mm(host.memcg);
            let page =
                host.mm.enter(&mut host.machine, CPU).mmap(other, 1, Backing::Anonymous, VmFlags::PRIVATE);
            host.mm.enter(&mut host.machine, CPU).touch(other, page, true).unwrap();
            host.mm.validate(0);
            [Event::PgscanAnon, Event::PgstealAnon].map(|event| host.count(event))
        };
        for (sizes, folio) in [("64K:always", 16), ("512K:always", 128)] {
            let [scanned, freed] = reclaimed(sizes);
            assert_eq!((scanned % folio, freed), (0, folio.max(least)), "{sizes}, lru_gen {lru_gen}");
        }
        assert!((least..2 * least).contains(&reclaimed("2M:never")[1]));
    }
}

/// Trap 11: pages that a fault maps around the one that was touched are as warm as that one, and take memory
/// from others.
#[test]
fn untouched_pages_of_a_folio_take_memory_from_touched_ones() {
    let swapped = |sizes: &str| {
        let mut host = host("folios-6.12", sizes);
        host.mm.parts.swap.swapon(4096, Some(Time::ZERO));
        host.mm.parts.lrus.memcg_mut(host.memcg).max = 128;
        // One page of each window, several times.
        (0..4).flat_map(|_| (0..512).step_by(16)).for_each(|page| host.store(page));
        [Event::Pswpout, Event::Pswpin].map(|event| host.count(event))
    };
    assert_eq!(swapped("2M:never"), [0, 0], "32 pages fit");
    let [out, back] = swapped("64K:always");
    assert!(out > 0 && back > 0, "32 folios do not: {out} out, {back} back");
}

/// Trap 17: in a memcg at its limit, a fault reclaims for each order before it falls back to the next, from
/// 6.9 on. In 6.8 it had chosen the order by then, and was out of memory.
#[test]
fn falling_back_in_a_full_group_takes_scans() {
    let fault = |variant: &str, sizes: &str, swap_max: u64| {
        let mut host = host(variant, sizes);
        host.mm.set("transparent_hugepage/defrag", "always").unwrap();
        host.mm.parts.swap.swapon(4096, Some(Time::ZERO));
        host.mm.parts.lrus.memcg_mut(host.memcg).max = 392;
        (0..384).for_each(|page| host.store(page));
        host.mm.parts.lrus.memcg_mut(host.memcg).swap_max = swap_max;
        let before = host.count(Event::PgscanAnon);
        let place = host.start + 384;
        let made = host.mm.enter(&mut host.machine, CPU).touch(host.process, place, true).is_ok();
        (made.then(|| host.order(384).unwrap()), host.count(Event::PgscanAnon) - before)
    };
    let all = "256K,512K:always";
    for variant in ["folios-6.8", "folios-6.12", "mainline-6.18"] {
        let (order, scans) = fault(variant, all, 4096);
        assert!(order == Some(7) && scans > 0, "{variant}: reclaim makes room");
        assert_eq!(fault(variant, "2M:never", 64), (Some(0), 0), "{variant}: there is room for a page");
    }
    assert_eq!(fault("folios-6.8", all, 64).0, None);
    for variant in ["folios-6.12", "mainline-6.18"] {
        let (order, scans) = fault(variant, all, 64);
        assert!(order == Some(6) && scans > 0, "{variant}: {order:?} after {scans}");
    }
}

/// In 7.2, if the deferred split queue of a memcg cannot be allocated, a fault gets a single page, which does
/// not count as a fallback; the next fault tries again.
#[test]
fn a_group_without_a_list_of_splits_gets_single_pages() {
    for (variant, orders) in [("folios-7.2", [0, 3, 4]), ("mainline-7.0", [4, 4, 4])] {
        let mut host = host(variant, "32K,64K:always");
        host.mm.set("failslab/nth", "1").unwrap();
        let made = [3, 8, 16].map(|page| {
            host.store(page);
            host.order(page).unwrap()
        });
        assert_eq!(made, orders, "{variant}");
        let sum = |stat| host.stat(3, stat) + host.stat(4, stat);
        assert_eq!((sum(MthpStat::NrAnon), sum(MthpStat::AnonFaultFallback)), (2, 0), "{variant}");
    }
    // The root memcg has its queue from boot on.
    let mut host = host("folios-7.2", "64K:always");
    host.mm.set("failslab/nth", "1").unwrap();
    let root = host.mm.parts.create_mm(mm::memcontrol::Memcg::ROOT);
    let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE);
    host.mm.enter(&mut host.machine, CPU).mmap_fixed(root, host.start, 64, backing, flags);
    host.store_as(root, 0);
    assert_eq!(host.mm.parts.address_spaces.mm(root).rss(), 16);
}

/// Up to v4 a PTE marked by userfaultfd gets a single page and ends the windows beside it. From v5 on, a
/// registered VMA has single pages only.
#[test]
fn pages_that_a_userfaultfd_protects_come_alone() {
    let orders = |variant: &str, marked: std::ops::Range<u64>| {
        let mut host = host(variant, "");
        let pages = |pages: &std::ops::Range<u64>| host.start + pages.start..host.start + pages.end;
        let (all, marked) = (pages(&(0..512)), pages(&marked));
        host.mm.set("transparent_hugepage/enabled", "madvise").unwrap();
        host.mm.parts.address_spaces.userfaultfd_register(host.process, all);
        host.mm.parts.address_spaces.userfaultfd_writeprotect(host.process, marked);
        [5, 0, 8, 16].map(|page| {
            host.store(page);
            host.order(page).unwrap()
        })
    };
    for variant in ["folios-v1", "folios-v2", "folios-v3", "folios-v4"] {
        assert_eq!(orders(variant, 0..0)[3], 4, "{variant}: registered, nothing protected");
    }
    for variant in ["folios-v1", "folios-v2"] {
        assert_eq!(orders(variant, 4..8), [0, 2, 3, 4], "{variant}");
    }
    assert_eq!(orders("folios-v4", 4..8), [0, 0, 3, 4], "v4 has no order below 3");
    for variant in ["folios-v5", "folios-v9-64k-32k-16k", "folios-6.12"] {
        assert_eq!(orders(variant, 4..8), [0; 4], "{variant}");
    }
    // Without registration there is nothing to protect.
    let mut host = host("folios-v2", "");
    host.mm.parts.address_spaces.userfaultfd_writeprotect(host.process, host.start..host.start + 16);
    host.store(3);
    assert_eq!(host.order(3), Some(4));
}

#[derive(Clone, Debug)]
enum Step {
    Touch { page: u64, write: bool },
    Drop { page: u64, pages: u64 },
    Fork,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u64..512, any::<bool>()).prop_map(|(page, write)| Step::Touch { page, write }),
        2 => (0u64..512, 1u64..40).prop_map(|(page, pages)| Step::Drop { page, pages }),
        1 => Just(Step::Fork),
    ];
    prop::collection::vec(step, 1..80)
}

/// What a process can see of a kernel: faults, memory by order, and what PTEs map.
fn seen(
    variant: &str,
    thp_anon: &str,
    prepare: impl Fn(&mut Host),
    steps: &[Step],
) -> (u64, Vec<u64>, Vec<Option<u8>>) {
    let mut host = host(variant, thp_anon);
    prepare(&mut host);
    for step in steps {
        match *step {
            Step::Touch { page, write } => {
                host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start + page, write).unwrap();
            }
            Step::Drop { page, pages } => host.drop_pages(page..(page + pages).min(512)),
            Step::Fork => {
                let child = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
                host.mm.enter(&mut host.machine, CPU).exit_mm(child);
            }
        }
    }
    host.mm.validate(0);
    let orders = (0..512).map(|page| host.order(page)).collect();
    let by_order = host.mm.parts.anon_pages_by_order(host.process).to_vec();
    (host.mm.counters().get(Event::Pgfault), by_order, orders)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A process that refuses large folios gets what it got before the series, and so does one on a kernel
    /// without an enabled size.
    #[test]
    fn refusing_is_as_before_the_series(steps in steps()) {
        let before = seen("folios-base", "", |_| {}, &steps);
        let area = |host: &Host| host.start..host.start + host.pages;
        for variant in ["folios-v3", "folios-v4", "folios-v5", "folios-v9-64k-32k-16k", "folios-v9-below-2m", "folios-6.12", "folios-7.2"] {
            let advised = |host: &mut Host| {
                let area = area(host);
                host.mm.enter(&mut host.machine, CPU).madvise(host.process, area, Advice::NoHugePage);
            };
            prop_assert_eq!(&before, &seen(variant, "", advised, &steps), "{}", variant);
            let disabled = |host: &mut Host| host.mm.parts.address_spaces.set_thp_disable(host.process, Disabled::Completely);
            prop_assert_eq!(&before, &seen(variant, "", disabled, &steps), "{}", variant);
            let unfinished = |host: &mut Host| {
                let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE.or(VmFlags::STACK_INCOMPLETE));
                let Host { machine, mm, process, start, pages, .. } = host;
                mm.enter(machine, CPU).mmap_fixed(*process, *start, *pages, backing, flags);
            };
            prop_assert_eq!(&before, &seen(variant, "", unfinished, &steps), "{}", variant);
        }
        for variant in ["folios-v5", "folios-v9-64k-32k-16k", "folios-v9-below-2m", "folios-6.12", "folios-7.2"] {
            let armed = |host: &mut Host| host.mm.parts.address_spaces.userfaultfd_register(host.process, area(host));
            prop_assert_eq!(&before, &seen(variant, "", armed, &steps), "{}", variant);
        }
        for variant in ["folios-v6", "folios-v9", "folios-6.8", "folios-6.12", "folios-7.2", "mainline-6.18"] {
            prop_assert_eq!(&before, &seen(variant, "2M:never", |_| {}, &steps), "{}", variant);
        }
    }

    /// With memory to spare, best fit from 64 KiB down makes the same folios as the list 64, 32 and 16 KiB.
    #[test]
    fn best_fit_is_a_list_where_memory_abounds(steps in steps()) {
        let v2 = seen("folios-v2", "", |_| {}, &steps);
        prop_assert_eq!(&v2, &seen("folios-v1", "", |_| {}, &steps));
        prop_assert_eq!(&v2, &seen("folios-v9-64k-32k-16k", "", |_| {}, &steps));
    }
}
