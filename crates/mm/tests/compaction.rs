//! Compaction on a machine whose memory has been fragmented.

mod reclaim_machine;

use machine::{Cpu, Machine, Node};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::Effort;
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::watermark::Mark;
use mm::{Category, Event, MemoryManager, MigrateType, Pfn, Placement, Request, Series};
use proptest::prelude::*;

const CPU: Cpu = Cpu(0);

struct Scattered {
    machine: Machine<Category>,
    mm: MemoryManager,
    process: MmId,
    start: Vpn,
    unmovable: Vec<Pfn>,
}

/// Fills the machine with single pages and frees three quarters of them, scattered; every `pinned`th page is
/// an unmovable page of the kernel.
fn scattered(variant: &str, pinned: usize) -> Scattered {
    let variant = Series::FOLIOS.variant(variant).unwrap();
    let (mut machine, mut mm) = reclaim_machine::boot(variant);
    mm.set("vm.min_free_kbytes", "128").unwrap();
    let process = mm.parts.create_mm(Memcg::ROOT);
    let start = mm.enter(&mut machine, CPU).mmap(process, 8000, Backing::Anonymous, VmFlags::PRIVATE);
    let mut unmovable = Vec::new();
    let mut pages = Vec::new();
    for page in 0..8000 {
        if pinned > 0 && page % pinned == 0 {
            let request = Request::new(0, MigrateType::Unmovable, Placement::Local);
            unmovable.extend(mm.enter(&mut machine, CPU).alloc(&request));
        }
        if mm.parts.allocator.free_pages() < 300
            || mm.enter(&mut machine, CPU).touch(process, start + page as u64, true).is_err()
        {
            break;
        }
        pages.push(start + page as u64);
    }
    for page in pages {
        if page.wrapping_mul(0x9E37_79B9) >> 7 & 3 != 0 {
            mm.enter(&mut machine, CPU).madvise_dontneed(process, page..page + 1);
        }
    }
    mm.enter(&mut machine, CPU).drain_all_pages();
    mm.validate(unmovable.len() as u64);
    Scattered { machine, mm, process, start, unmovable }
}

fn blocks(mm: &MemoryManager, order: u8) -> u64 {
    (0..mm.parts.allocator.zones().len())
        .map(|z| mm.parts.allocator.free_blocks(z)[usize::from(order)..].iter().sum::<u64>())
        .sum()
}

fn request(order: u8, effort: Effort) -> Request {
    Request { effort, ..Request::new(order, MigrateType::Movable, Placement::Local) }
}

#[test]
fn a_request_that_may_wait_gets_a_block() {
    let Scattered { mut machine, mut mm, process, start, .. } = scattered("folios-base", 0);
    let rss = mm.parts.address_spaces.mm(process).rss();
    let before = blocks(&mm, 7);
    let taken =
        (0..).take_while(|_| mm.enter(&mut machine, CPU).alloc(&request(7, Effort::LIGHT)).is_some()).count();
    assert_eq!(mm.counters().get(Event::CompactStall), 0, "light requests do not compact");
    let more =
        (0..8).take_while(|_| mm.enter(&mut machine, CPU).alloc(&request(7, Effort::ORDINARY)).is_some());
    let more = more.count();
    assert!(more >= 4, "{before} free, {taken} taken, {more} made");
    let counts = [Event::CompactSuccess, Event::CompactFail].map(|event| mm.counters().get(event));
    assert!(counts[0] > 0 && counts[0] <= more as u64, "{counts:?}");
    assert_eq!(counts[0] + counts[1], mm.counters().get(Event::CompactStall));
    assert_eq!(mm.parts.address_spaces.mm(process).rss(), rss, "nothing was reclaimed");
    mm.validate((taken + more) as u64 * 128);
    let page = (start..).find(|&page| mm.parts.address_spaces.pte(process, page).folio().is_some()).unwrap();
    mm.enter(&mut machine, CPU).madvise_dontneed(process, page..page + 8000);
    mm.validate((taken + more) as u64 * 128);
}

#[test]
fn who_may_not_wait_wakes_kcompactd() {
    let Scattered { mut machine, mut mm, .. } = scattered("folios-base", 0);
    let woken = |mm: &MemoryManager| mm.counters().get(Event::KcompactdWake);
    while mm.enter(&mut machine, CPU).alloc(&request(7, Effort::LIGHT)).is_some() {}
    assert!(!mm.enter(&mut machine, CPU).run_kcompactd(Node(0)) && woken(&mm) == 0, "nobody woke it");
    let waking = Effort { wakes: true, ..Effort::LIGHT };
    assert_eq!(mm.enter(&mut machine, CPU).alloc(&request(7, waking)), None);
    let mut kswapd = mm.enter(&mut machine, CPU).start_kswapd(Node(0)).expect("kswapd is first");
    while kswapd.step(&mut mm.enter(&mut machine, CPU)) {}
    assert!(mm.enter(&mut machine, CPU).run_kcompactd(Node(0)) && woken(&mm) == 1);
    assert!(mm.enter(&mut machine, CPU).alloc(&request(7, Effort::LIGHT)).is_some());
}

#[test]
fn pages_of_the_kernel_stand_in_the_way() {
    let made = |pinned| {
        let Scattered { mut machine, mut mm, unmovable, .. } = scattered("folios-base", pinned);
        mm.set("vm.compaction_proactiveness", "100").unwrap();
        let before = mm.parts.allocator.fragmentation_score(Node(0));
        let ran = mm.enter(&mut machine, CPU).run_proactive_compaction(Node(0));
        mm.validate(unmovable.len() as u64);
        (ran, before, mm.parts.allocator.fragmentation_score(Node(0)))
    };
    // Fewer pages of the kernel are kept together by mobility, and nothing stands in the way.
    let (free, pinned) = (made(0), made(2));
    assert!(free.0 && free.1 > 50 && free.2 < 30, "{free:?}");
    assert!(pinned.2 > free.2, "{free:?} {pinned:?}");
}

/// Fills the machine with folios of 64 KiB, frees three quarters of them, scattered, and compacts all memory. Returns where those that are
/// left lie before and after.
fn places_of_large_folios(variant: &str) -> [Vec<Pfn>; 2] {
    let (mut machine, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant(variant).unwrap());
    mm.set("vm.min_free_kbytes", "128").unwrap();
    mm.set("transparent_hugepage/hugepages-64kB/enabled", "always").unwrap();
    let process = mm.parts.create_mm(Memcg::ROOT);
    let start = mm.enter(&mut machine, CPU).mmap(process, 6400, Backing::Anonymous, VmFlags::PRIVATE);
    let firsts: Vec<Vpn> = (start..start + 6400).step_by(16).collect();
    for &first in &firsts {
        mm.enter(&mut machine, CPU).touch(process, first, true).expect("memory is free");
    }
    let (left, freed): (Vec<Vpn>, Vec<Vpn>) =
        firsts.into_iter().partition(|first| first.wrapping_mul(0x9E37_79B9) >> 7 & 3 == 0);
    for first in freed {
        mm.enter(&mut machine, CPU).madvise_dontneed(process, first..first + 16);
    }
    let places = |mm: &MemoryManager| {
        let folios = left.iter().map(|&first| mm.parts.address_spaces.pte(process, first).folio().unwrap());
        folios.map(|id| (mm.parts.lrus.folio_order(id), mm.parts.lrus.folio_pfn(id))).collect::<Vec<_>>()
    };
    let before = places(&mm);
    let write = mm.begin_write("vm.compact_memory", "1").unwrap();
    mm.enter(&mut machine, CPU).finish_write(write);
    mm.validate(0);
    [before, places(&mm)].map(|places| {
        assert!(places.iter().all(|&(order, _)| order == 4));
        places.into_iter().map(|(_, pfn)| pfn).collect()
    })
}

#[test]
fn large_folios_move_whole_since_6_9() {
    let [before, after] = places_of_large_folios("folios-6.8");
    assert_eq!(before, after);
    let [before, after] = places_of_large_folios("folios-6.12");
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!(moved > before.len() / 4, "{moved} of {}", before.len());
}

/// Memory that the kernel holds scattered pages of and nobody else: there are no blocks, and none can be made. Returns how many pages it
/// holds.
fn held_by_the_kernel() -> (Machine<Category>, MemoryManager, u64) {
    held_by_the_kernel_but(|_, pfn| pfn % 4 != 1)
}

/// Memory that the kernel holds but for the pages that `is_free`.
fn held_by_the_kernel_but(
    is_free: impl Fn(&MemoryManager, Pfn) -> bool,
) -> (Machine<Category>, MemoryManager, u64) {
    let (mut machine, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant("folios-base").unwrap());
    let effort = Effort { memalloc: true, ..Effort::LIGHT };
    let unmovable = Request { effort, ..Request::new(0, MigrateType::Unmovable, Placement::Local) };
    let pages: Vec<Pfn> = std::iter::from_fn(|| mm.enter(&mut machine, CPU).alloc(&unmovable)).collect();
    let (freed, kept): (Vec<Pfn>, Vec<Pfn>) = pages.into_iter().partition(|&pfn| is_free(&mm, pfn));
    freed.into_iter().for_each(|pfn| mm.enter(&mut machine, CPU).free(pfn, 0));
    mm.enter(&mut machine, CPU).drain_all_pages();
    mm.validate(kept.len() as u64);
    (machine, mm, kept.len() as u64)
}

/// What kcompactds scan if they are woken for a block that cannot be made.
fn scanned_in_vain(machine: &mut Machine<Category>, mm: &mut MemoryManager) -> u64 {
    let before = mm.counters().get(Event::CompactMigrateScanned);
    let waking = Effort { wakes: true, ..Effort::LIGHT };
    assert_eq!(mm.enter(machine, CPU).alloc(&request(7, waking)), None);
    for node in [Node(0), Node(1)] {
        mm.enter(machine, CPU).run_kswapd(node);
        mm.enter(machine, CPU).run_kcompactd(node);
    }
    mm.counters().get(Event::CompactMigrateScanned) - before
}

#[test]
fn what_has_been_scanned_is_passed_over_until_an_allocation_has_failed() {
    let (mut machine, mut mm, held) = held_by_the_kernel();
    let first = scanned_in_vain(&mut machine, &mut mm);
    assert!(first > 1000, "{first}");
    // After two failures three attempts are deferred, the fourth is not.
    let next: u64 = (0..6).map(|_| scanned_in_vain(&mut machine, &mut mm)).sum();
    assert_eq!(next, 0);
    for _ in 0..8 {
        assert_eq!(mm.enter(&mut machine, CPU).alloc(&request(7, Effort::ORDINARY)), None);
    }
    // An allocation has been through the whole zone; kswapd sleeps, and what has free pages counts again.
    let again: u64 = (0..70).map(|_| scanned_in_vain(&mut machine, &mut mm)).sum();
    assert!(again > 1000, "{again}");
    mm.validate(held);
}

#[test]
fn what_cannot_begin_is_no_compaction() {
    let compactions = |is_free: fn(&MemoryManager, Pfn) -> bool| {
        let (mut machine, mut mm, held) = held_by_the_kernel_but(is_free);
        assert_eq!(mm.enter(&mut machine, CPU).alloc(&request(7, Effort::ORDINARY)), None);
        mm.validate(held);
        [Event::CompactStall, Event::CompactFail].map(|event| mm.counters().get(event))
    };
    assert_eq!(compactions(|_, _| false), [0, 0], "no zone has free pages to move others to");
    // Zone 1 is the first of three that the request tries, so what the others come to is known later.
    let in_first = |mm: &MemoryManager, pfn: Pfn| mm.parts.allocator.zone_of(pfn) == 1 && pfn % 4 != 1;
    assert_eq!(compactions(in_first), [2, 2], "one zone of three has");
}

#[test]
fn blocks_that_stay_in_use_are_not_scanned() {
    let scanned = |lasting: bool| {
        let (mut machine, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant("folios-base").unwrap());
        let block = request(9, Effort::LIGHT);
        let mut taken = 0;
        loop {
            let mut kernel = mm.enter(&mut machine, CPU);
            let block = if lasting { kernel.alloc_lasting(&block) } else { kernel.alloc(&block) };
            taken += match block {
                Some(_) => 512,
                None => break,
            };
        }
        assert!(taken > 4096, "{taken}");
        mm.set("vm.compaction_proactiveness", "100").unwrap();
        mm.enter(&mut machine, CPU).run_proactive_compaction(Node(0));
        mm.validate(taken);
        mm.counters().get(Event::CompactMigrateScanned)
    };
    let (single, whole) = (scanned(false), scanned(true));
    assert!(single >= whole + 2048, "{single} pages, and {whole}");
}

#[test]
fn allocations_do_not_compact_what_is_deferred() {
    let (mut machine, mut mm, held) = held_by_the_kernel();
    let mut deferrals = Vec::new();
    for _ in 0..4 {
        assert_eq!(mm.enter(&mut machine, CPU).alloc(&request(7, Effort::ORDINARY)), None);
        let deferral = mm.parts.allocator.zones()[1].compaction.deferral;
        deferrals.push((deferral.considered, deferral.shift));
    }
    // Each compacts twice, the second time with migration that waits: only then does a failure defer.
    assert_eq!(deferrals, [(0, 1), (0, 2), (2, 2), (0, 3)]);
    mm.validate(held);
}

#[test]
fn kcompactd_drains_pagesets_if_it_fails() {
    let (mut machine, mut mm, held) = held_by_the_kernel();
    let page = mm.enter(&mut machine, CPU).alloc(&request(0, Effort::LIGHT)).unwrap();
    mm.enter(&mut machine, CPU).free(page, 0);
    assert!(mm.parts.allocator.pages_in_pagesets() > 0);
    scanned_in_vain(&mut machine, &mut mm);
    assert_eq!(mm.parts.allocator.pages_in_pagesets(), 0);
    mm.validate(held);
}

#[test]
fn kcompactd_can_be_left_between_steps() {
    let Scattered { mut machine, mut mm, unmovable, .. } = scattered("folios-base", 40);
    mm.set("vm.compaction_proactiveness", "100").unwrap();
    let score = mm.parts.allocator.fragmentation_score(Node(0));
    let mut kcompactd = mm.enter(&mut machine, CPU).start_proactive_compaction(Node(0)).unwrap();
    let (mut steps, mut taken) = (0, unmovable.len() as u64);
    while kcompactd.step(&mut mm.enter(&mut machine, CPU)) {
        steps += 1;
        // An allocation compacts the same zone in between.
        if steps == 5 && mm.enter(&mut machine, CPU).alloc(&request(9, Effort::ORDINARY)).is_some() {
            taken += 1 << 9;
        }
        mm.validate(taken);
    }
    assert!(steps > 3 && mm.parts.allocator.fragmentation_score(Node(0)) < score);
    let mut again = mm.enter(&mut machine, CPU).start_proactive_compaction(Node(1)).unwrap();
    mm.parts.allocator.begin_reclaim(Node(1));
    let before = mm.counters().get(Event::PgmigrateSuccess);
    let rest = (0..).take_while(|_| again.step(&mut mm.enter(&mut machine, CPU))).count();
    assert!(rest < 10, "it gives way to kswapd: {rest} steps");
    assert!(mm.enter(&mut machine, CPU).start_proactive_compaction(Node(1)).is_none());
    assert!(mm.counters().get(Event::PgmigrateSuccess) - before < 1000);
    mm.parts.allocator.end_reclaim(Node(1));
}

/// Memory is full of a file that can be reclaimed, and of scattered pages of the kernel.
#[test]
fn who_may_try_again_reclaims_from_the_node_it_wants_until_compaction_has_room() {
    let got = |effort: Effort| {
        let (mut machine, mut mm, _) = held_by_the_kernel();
        mm.set("vm.min_free_kbytes", "2048").unwrap();
        let file = mm.parts.page_cache.open_file();
        for page in 0..9000 {
            let read = mm.enter(&mut machine, CPU).read_page(Memcg::ROOT, file, page, Access::New);
            if let Ok(Read::Miss(id)) = read {
                mm.parts.lrus.end_read(id);
            }
        }
        mm.enter(&mut machine, CPU).drain_all_pages();
        let free = |mm: &MemoryManager| {
            mm.parts.allocator.zones()[0].free_pages() + mm.parts.allocator.zones()[1].free_pages()
        };
        let (before, stolen) = (free(&mm), mm.counters().get(Event::PgstealDirect));
        let request = Request { effort, ..Request::new(4, MigrateType::Movable, Placement::Bind(Node(1))) };
        assert_eq!(mm.enter(&mut machine, CPU).alloc(&request), None, "pages of the kernel are everywhere");
        assert_eq!(free(&mm), before, "the other node has nothing to do with it");
        let zone = &mm.parts.allocator.zones()[2];
        (
            zone.free_pages() as u64 > zone.wmark(Mark::Low) + 32,
            mm.counters().get(Event::PgstealDirect) - stolen,
        )
    };
    let once = got(Effort::ORDINARY);
    let hard = got(Effort { retry_may_fail: true, ..Effort::ORDINARY });
    assert!(!once.0 && once.1 > 0, "{once:?}");
    assert!(hard.0 && hard.1 > once.1, "{hard:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn compaction_loses_nothing(pinned in 0usize..40, orders in prop::collection::vec(1u8..10, 1..12)) {
        let Scattered { mut machine, mut mm, process, unmovable, .. } = scattered("folios-v9-64k-32k-16k", pinned);
        let (mut held, rss) = (unmovable.len() as u64, mm.parts.address_spaces.mm(process).rss());
        for order in orders {
            if mm.enter(&mut machine, CPU).alloc(&request(order, Effort { no_retry: true, ..Effort::ORDINARY })).is_some() {
                held += 1 << order;
            }
            mm.enter(&mut machine, CPU).run_kcompactd(Node(0));
            mm.validate(held);
        }
        prop_assert_eq!(mm.parts.address_spaces.mm(process).rss(), rss);
    }
}
