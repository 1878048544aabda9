//! Compaction on a machine whose memory has been fragmented.

mod reclaim_machine;

use machine::{Cpu, Machine, Node};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::Effort;
use mm::huge_memory::stats::MthpStat;
use mm::memcontrol::Memcg;
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
    assert!(mm.counters().get(Event::PgmigrateSuccess) > 0);
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
    assert!(!mm.enter(&mut machine, CPU).kcompactd(Node(0)) && woken(&mm) == 0, "nobody woke it");
    let waking = Effort { wakes: true, ..Effort::LIGHT };
    assert_eq!(mm.enter(&mut machine, CPU).alloc(&request(7, waking)), None);
    let mut kswapd = mm.enter(&mut machine, CPU).start_kswapd(Node(0)).expect("kswapd is first");
    while kswapd.step(&mut mm.enter(&mut machine, CPU)) {}
    assert!(mm.enter(&mut machine, CPU).kcompactd(Node(0)) && woken(&mm) == 1);
    assert!(mm.enter(&mut machine, CPU).alloc(&request(7, Effort::LIGHT)).is_some());
}

#[test]
fn pages_of_the_kernel_stand_in_the_way() {
    let made = |pinned| {
        let Scattered { mut machine, mut mm, unmovable, .. } = scattered("folios-base", pinned);
        mm.set("vm.compaction_proactiveness", "100").unwrap();
        let before = mm.parts.allocator.fragmentation_score(Node(0));
        let ran = mm.enter(&mut machine, CPU).proactive_compaction(Node(0));
        mm.validate(unmovable.len() as u64);
        (ran, before, mm.parts.allocator.fragmentation_score(Node(0)))
    };
    let (free, pinned) = (made(0), made(12));
    assert!(free.0 && free.1 > 50 && free.2 < 30, "{free:?}");
    assert!(pinned.2 > free.2, "{free:?} {pinned:?}");
}

#[test]
fn large_folios_move_whole() {
    let Scattered { mut machine, mut mm, process, start, .. } = scattered("folios-v9-below-2m", 0);
    let large = |mm: &MemoryManager| {
        let stats = mm.parts.address_spaces.mthp_stats();
        (2..9).map(|order| stats.get(order, MthpStat::NrAnon)).collect::<Vec<_>>()
    };
    // The remains of large folios are split, so that there is something to compact.
    for page in (0..8000).step_by(64) {
        let _ = mm.enter(&mut machine, CPU).touch(process, start + page, true);
    }
    mm.set("vm.compaction_proactiveness", "100").unwrap();
    let before = large(&mm);
    mm.enter(&mut machine, CPU).proactive_compaction(Node(0));
    mm.enter(&mut machine, CPU).proactive_compaction(Node(1));
    mm.validate(0);
    assert_eq!(large(&mm), before);
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
            mm.enter(&mut machine, CPU).kcompactd(Node(0));
            mm.validate(held);
        }
        prop_assert_eq!(mm.parts.address_spaces.mm(process).rss(), rss);
    }
}
