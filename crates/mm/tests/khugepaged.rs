//! What khugepaged collapses, and when.

mod reclaim_machine;

use machine::{Cpu, Machine, PageSize, Time};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::huge_memory::khugepaged::policy::{
    EntryState, Found, ScanResult, collapse_windows, is_used, limits, scan,
};
use mm::huge_memory::orders::Orders;
use mm::huge_memory::settings::{Khugepaged, ThpSettings};
use mm::huge_memory::stats::MthpStat;
use mm::memcontrol::Memcg;
use mm::{Category, Event, MemoryManager, Series};
use proptest::prelude::*;

const CPU: Cpu = Cpu(0);

struct Host {
    machine: Machine<Category>,
    mm: MemoryManager,
    process: MmId,
    start: Vpn,
}

impl Host {
    /// A process with so many pages mapped, of which `stored` are in single pages, as huge pages are enabled
    /// only after that.
    fn new(variant: &str, pages: u64, stored: impl IntoIterator<Item = u64>) -> Host {
        let (mut machine, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant(variant).unwrap());
        let process = mm.parts.create_mm(Memcg::ROOT);
        let start = mm.enter(&mut machine, CPU).mmap(process, pages, Backing::Anonymous, VmFlags::PRIVATE);
        let mut host = Host { machine, mm, process, start };
        stored.into_iter().for_each(|page| host.store(page));
        host.mm.set("transparent_hugepage/enabled", "madvise").unwrap();
        assert_eq!(host.mm.khugepaged_due(), Time::NEVER, "no VMA wants huge pages yet");
        host.mm.enter(&mut host.machine, CPU).madvise(process, start..start + pages, Advice::HugePage);
        assert_eq!(host.mm.khugepaged_due(), Time::ZERO);
        host
    }

    fn store(&mut self, page: u64) {
        self.mm.enter(&mut self.machine, CPU).touch(self.process, self.start + page, true).unwrap();
    }

    fn set(&mut self, file: &str, value: u64) {
        self.mm.set(&format!("transparent_hugepage/khugepaged/{file}"), &value.to_string()).unwrap();
    }

    /// Runs khugepaged to the end of its round. Returns when it continues.
    fn round(&mut self) -> Time {
        let now = self.machine.now(CPU);
        while self.mm.khugepaged_due() <= now {
            self.mm.enter(&mut self.machine, CPU).khugepaged();
            self.mm.validate(0);
        }
        self.mm.khugepaged_due()
    }

    fn count(&self, event: Event) -> u64 {
        self.mm.counters().get(event)
    }

    fn pages_by_order(&self, order: usize) -> u64 {
        self.mm.parts.anon_pages_by_order(self.process)[order]
    }

    fn rss(&self) -> u64 {
        self.mm.parts.address_spaces.mm(self.process).rss()
    }
}

const SECONDS: fn(u64) -> Time = |seconds| Time::from_nanoseconds(seconds * 1_000_000_000);

#[test]
fn small_pages_become_a_huge_one() {
    let mut host = Host::new("folios-6.8", 1024, (0..1024).step_by(2));
    assert_eq!(host.round(), SECONDS(10), "it sleeps at the end of a round");
    assert_eq!((host.pages_by_order(9), host.rss()), (1024, 1024));
    assert_eq!(host.mm.parts.address_spaces.khugepaged_state().pages_collapsed, 2);
    assert_eq!(host.mm.parts.address_spaces.khugepaged_state().full_scans, 1);
    assert_eq!((host.count(Event::ThpCollapseAlloc), host.count(Event::ThpCollapseAllocFailed)), (2, 0));
    assert_eq!(host.mm.parts.address_spaces.mthp_stats().get(9, MthpStat::NrAnon), 2);
}

/// A page in a batch of another CPU cannot be collapsed, so a round begins with draining the batches of all
/// CPUs.
#[test]
fn pages_in_the_batches_of_other_cpus_are_collapsed() {
    let mut host = Host::new("folios-6.8", 512, 0..511);
    let page = host.start + 511;
    host.mm.enter(&mut host.machine, Cpu(1)).touch(host.process, page, true).unwrap();
    host.round();
    assert_eq!(host.mm.parts.address_spaces.khugepaged_state().pages_collapsed, 1);
}

#[test]
fn a_round_is_so_many_entries() {
    let mut host = Host::new("folios-6.8", 512 * 6, (0..6).map(|huge| huge * 512));
    host.set("pages_to_scan", 1024);
    for collapsed in [2, 4] {
        let due = host.round();
        host.machine.idle_until(CPU, due);
        assert_eq!(host.mm.parts.address_spaces.khugepaged_state().pages_collapsed, collapsed);
    }
    host.set("scan_sleep_millisecs", 3);
    let now = host.machine.now(CPU);
    assert_eq!(host.round(), now + Time::from_nanoseconds(3_000_000));
}

#[test]
fn limits_of_what_is_collapsed() {
    let collapsed = |stored: u64, none: u64| {
        let mut host = Host::new("folios-6.8", 512, 0..stored);
        host.set("max_ptes_none", none);
        host.round();
        (
            host.mm.parts.address_spaces.khugepaged_state().pages_collapsed,
            host.count(Event::ThpScanExceedNonePte),
        )
    };
    assert_eq!(
        [(1, 511), (412, 100), (411, 100), (512, 0)].map(|(stored, none)| collapsed(stored, none)),
        [(1, 0), (1, 0), (0, 1), (1, 0)]
    );
    let shared = |most: u64| {
        let mut host = Host::new("folios-6.8", 512, 0..512);
        let child = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
        (0..200).for_each(|page| host.store(page));
        host.set("max_ptes_shared", most);
        host.round();
        let child_rss = host.mm.parts.address_spaces.mm(child).rss();
        (
            host.mm.parts.address_spaces.khugepaged_state().pages_collapsed,
            child_rss,
            host.count(Event::ThpScanExceedSharePte),
        )
    };
    // 312 of the parent's pages are shared with the child, and all except 200 of the child's.
    assert_eq!(shared(312), (2, 512, 0));
    assert_eq!(shared(311), (0, 512, 2));
}

/// Swapped-out pages are read in first, if there are not too many of them and at least half of all pages are
/// young.
#[test]
fn what_is_in_swap_comes_back_first() {
    for (out, most, result) in [(16, 64, (1, 512, 0)), (65, 64, (0, 447, 1)), (300, 400, (0, 212, 0))] {
        let mut host = Host::new("folios-6.8", 512, 0..512);
        host.mm.parts.swap.swapon(4096, Some(Time::ZERO));
        host.set("max_ptes_swap", most);
        let memcg = host.mm.parts.lrus.create_memcg(Memcg::ROOT);
        let process = host.mm.parts.create_mm(memcg);
        let start =
            host.mm.enter(&mut host.machine, CPU).mmap(process, 512, Backing::Anonymous, VmFlags::PRIVATE);
        host.mm.enter(&mut host.machine, CPU).munmap(host.process, host.start..host.start + 512);
        (host.process, host.start) = (process, start);
        host.mm.enter(&mut host.machine, CPU).madvise(process, start..start + 512, Advice::NoHugePage);
        (0..512).for_each(|page| host.store(page));
        // Another process of the memcg takes memory from it and exits.
        let swapped = |host: &Host| 512 - host.rss();
        let other = host.mm.parts.create_mm(memcg);
        let place =
            host.mm.enter(&mut host.machine, CPU).mmap(other, 1024, Backing::Anonymous, VmFlags::PRIVATE);
        host.mm.enter(&mut host.machine, CPU).madvise(other, place..place + 1024, Advice::NoHugePage);
        host.mm.parts.lrus.memcg_mut(memcg).max = host.mm.parts.lrus.memcg(memcg).current;
        for page in place.. {
            if swapped(&host) >= out {
                break;
            }
            host.mm.enter(&mut host.machine, CPU).touch(other, page, true).unwrap();
        }
        host.mm.enter(&mut host.machine, CPU).exit_mm(other);
        host.mm.parts.lrus.memcg_mut(memcg).max = u64::MAX;
        // Exactly so many pages are swapped out; the others are young.
        for page in 0..512 {
            let is_out = host.mm.parts.address_spaces.pte(process, start + page).swap_entry().is_some();
            if !is_out || swapped(&host) > out {
                host.store(page);
            }
        }
        assert_eq!(swapped(&host), out);
        host.mm.enter(&mut host.machine, CPU).madvise(process, start..start + 512, Advice::HugePage);
        host.round();
        let state = host.mm.parts.address_spaces.khugepaged_state().pages_collapsed;
        assert_eq!((state, host.rss(), host.count(Event::ThpScanExceedSwapPte)), result, "{out} in swap");
    }
}

#[test]
fn without_a_block_it_sleeps_for_longer_once_a_round() {
    let mut host = Host::new("folios-6.8", 512 * 4, (0..4).map(|huge| huge * 512));
    host.set("defrag", 0);
    // One page of each free block of order 9 is allocated.
    let mut taken = Vec::new();
    let request = mm::Request::new(9, mm::MigrateType::Movable, mm::Placement::Local);
    let request = mm::Request { effort: mm::allocator::request::Effort::LIGHT, ..request };
    for node in 0..2 {
        let request = mm::Request { placement: mm::Placement::Bind(machine::Node(node)), ..request };
        while let Some(pfn) = host.mm.enter(&mut host.machine, CPU).alloc(&request) {
            taken.push(pfn);
        }
    }
    let now = host.machine.now(CPU);
    while host.mm.khugepaged_due() <= now {
        host.mm.enter(&mut host.machine, CPU).khugepaged();
    }
    assert_eq!(host.mm.khugepaged_due(), now + SECONDS(60));
    assert_eq!(host.count(Event::ThpCollapseAllocFailed), 1);
    host.machine.idle_until(CPU, now + SECONDS(60));
    while host.mm.khugepaged_due() <= now + SECONDS(60) {
        host.mm.enter(&mut host.machine, CPU).khugepaged();
    }
    assert_eq!(host.count(Event::ThpCollapseAllocFailed), 2, "the second failure ends the round");
    assert_eq!(host.mm.khugepaged_due(), now + SECONDS(70));
    host.mm.validate(512 * taken.len() as u64);
    taken.into_iter().for_each(|pfn| host.mm.enter(&mut host.machine, CPU).free(pfn, 9));
    host.machine.idle_until(CPU, now + SECONDS(70));
    host.round();
    assert!(host.mm.parts.address_spaces.khugepaged_state().pages_collapsed > 0);
}

/// 7.2 makes folios of 64 KiB where there is too little for 2 MiB.
#[test]
fn smaller_folios_where_there_is_too_little() {
    for (variant, large) in [("folios-7.2", 32), ("folios-6.12", 0)] {
        let mut host = Host::new(variant, 512, (0..32).chain(64..70));
        for (order, kib) in [(4, 64), (9, 2048)] {
            let file = format!("transparent_hugepage/hugepages-{kib}kB/enabled");
            host.mm.set(&file, "always").unwrap();
            assert!(order < 10);
        }
        host.set("max_ptes_none", 0);
        host.round();
        assert_eq!(host.pages_by_order(4), large, "{variant}");
        assert_eq!(host.rss(), 38);
    }
    // The "creep": with `max_ptes_none` at 511, one page is enough for the largest order.
    let mut host = Host::new("folios-7.2", 512, [100]);
    host.round();
    assert_eq!(host.pages_by_order(9), 512);
}

fn settings(size: PageSize, max_ptes_none: u32) -> ThpSettings {
    let thp = ThpSettings::new(size);
    ThpSettings { khugepaged: Khugepaged { max_ptes_none, ..thp.khugepaged }, ..thp }
}

#[test]
fn decisions_of_a_scan() {
    use EntryState::{None, Page, Swapped};
    let page = Page { young: true, shared: false, unfit: Option::None };
    let judge = |entries: &[(EntryState, usize)], none, swap, shared| {
        let all = entries.iter().flat_map(|&(entry, times)| std::iter::repeat_n(entry, times));
        scan(all, &mm::huge_memory::khugepaged::policy::Limits { none, swap, shared })
    };
    assert_eq!(judge(&[(None, 3), (page, 1)], 2, 0, 0), Err(ScanResult::ExceedNonePte));
    assert_eq!(judge(&[(Swapped, 2)], 0, 1, 0), Err(ScanResult::ExceedSwapPte));
    let shared = Page { young: false, shared: true, unfit: Option::None };
    assert_eq!(judge(&[(shared, 2)], 0, 0, 1), Err(ScanResult::ExceedSharedPte));
    let locked = |shared| Page { young: true, shared, unfit: Some(ScanResult::PageLock) };
    assert_eq!(judge(&[(page, 1), (locked(false), 1)], 0, 0, 0), Err(ScanResult::PageLock));
    assert_eq!(judge(&[(page, 1), (locked(true), 1)], 0, 0, 0), Err(ScanResult::ExceedSharedPte));
    let found = judge(&[(None, 3), (page, 2), (Swapped, 1), (shared, 1)], 511, 64, 256).unwrap();
    assert_eq!(found, Found { present: vec![0b101_1000], none: 3, swapped: 1, shared: 1, referenced: 2 });
    for size in PageSize::ALL {
        let pages = ThpSettings::new(size).hpage_pmd_nr();
        let used = |swapped, referenced| {
            is_used(&ThpSettings::new(size), &Found { swapped, referenced, ..found.clone() })
        };
        assert!(!used(1, 2) && used(0, 2) && !used(0, 0));
        assert!(used(1, pages / 2) && !used(1, pages / 2 - 1));
        let none = [pages - 1, 0, 100].map(|none| limits(&settings(size, none), 4).none);
        assert_eq!(none, [15, 0, 0]);
    }
}

/// The walk of 7.2 as it is written: from the largest order down, and on by the order that was collapsed or
/// given up.
fn windows_by_definition(
    orders: Orders,
    none: u32,
    present: &[bool],
    works: &dyn Fn(u8, u32) -> bool,
) -> Vec<(u8, u32)> {
    let huge = present.len().ilog2() as u8;
    fn halves(
        order: u8,
        at: u32,
        orders: Orders,
        none: u32,
        present: &[bool],
        works: &dyn Fn(u8, u32) -> bool,
        made: &mut Vec<(u8, u32)>,
    ) {
        let size = 1 << order;
        let pages = present[at as usize..(at + size) as usize].iter().filter(|&&there| there).count() as u32;
        let may_miss = match (order, none) {
            (order, none) if 1 << order == present.len() => none,
            (_, none) if none as usize == present.len() - 1 => size - 1,
            _ => 0,
        };
        if orders.has(order) && pages + may_miss >= size && works(order, at) {
            made.push((order, at));
        } else if order > 2 && !orders.below(order).is_empty() {
            halves(order - 1, at, orders, none, present, works, made);
            halves(order - 1, at + size / 2, orders, none, present, works, made);
        }
    }
    let mut made = Vec::new();
    halves(huge, 0, orders, none, present, works, &mut made);
    made
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The walk through windows amounts to halving: a window that is not collapsed as a whole is tried in its
    /// halves.
    #[test]
    fn windows_are_halved(
        size in prop::sample::select(PageSize::ALL.to_vec()),
        orders in prop::sample::subsequence((2..14u8).collect::<Vec<_>>(), 1..12),
        none in prop_oneof![Just(Some(0u32)), Just(None), Just(Some(300))],
        runs in prop::collection::vec((1..80usize, any::<bool>()), 1..60),
        fails in 1..12u32,
    ) {
        let pages = ThpSettings::new(size).hpage_pmd_nr();
        let none = none.unwrap_or(pages - 1);
        let orders = Orders::of(&orders).and(ThpSettings::new(size).all_anon());
        let mut present: Vec<bool> = runs.into_iter().flat_map(|(n, there)| std::iter::repeat_n(there, n)).collect();
        present.resize(pages as usize, true);
        let mut found = Found { present: vec![0; present.len() / 64], ..Found::default() };
        for (place, _) in present.iter().enumerate().filter(|(_, there)| **there) {
            found.present[place / 64] |= 1 << (place % 64);
        }
        let works = |order: u8, at: u32| !(u32::from(order) + at / 4).is_multiple_of(fails);
        let mut made = Vec::new();
        let (count, _) = collapse_windows(&settings(size, none), orders, &found, |order, at| {
            if works(order, at) {
                made.push((order, at));
                ScanResult::Succeed
            } else {
                ScanResult::PageLock
            }
        });
        prop_assert_eq!(count, made.len() as u64);
        prop_assert_eq!(made, windows_by_definition(orders, none, &present, &works));
    }
}
