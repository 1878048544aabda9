//! mlock, and what it means for large folios (trap 15 among others).

mod reclaim_machine;
mod swap_host;

use machine::Time;
use mm::Event;
use mm::address_space::VmFlags;
use mm::huge_memory::stats::MthpStat;
use mm::lruvec::LruList;
use swap_host::{CPU, Host};

/// The pages of a process's memory whose folios are mlocked.
fn locked(host: &Host) -> Vec<u64> {
    let is_locked = |page: &u64| {
        let id = host.mm.parts.address_spaces.pte(host.process, host.start + page).folio();
        id.is_some_and(|id| host.mm.parts.lrus.is_mlocked(id))
    };
    (0..host.pages).filter(is_locked).collect()
}

fn mlock(host: &mut Host, pages: std::ops::Range<u64>) {
    let pages = host.start + pages.start..host.start + pages.end;
    host.mm.enter(&mut host.machine, CPU).mlock(host.process, pages).unwrap();
    host.mm.validate(0);
}

fn munlock(host: &mut Host, pages: std::ops::Range<u64>) {
    let pages = host.start + pages.start..host.start + pages.end;
    host.mm.enter(&mut host.machine, CPU).munlock(host.process, pages);
    host.mm.validate(0);
}

fn in_memory(host: &Host) -> Vec<u64> {
    let is_mapped =
        |page: &u64| host.mm.parts.address_spaces.pte(host.process, host.start + page).folio().is_some();
    (0..host.pages).filter(is_mapped).collect()
}

/// Reclaims as much of the memcg as it can. The classic LRU reads statistics to find out whether its inactive
/// lists are too short, so they are flushed before each pass: no time passes here in which they would be.
fn press_hard(host: &mut Host) {
    for _ in 0..4 {
        host.mm.parts.lrus.flush_stats(Time::ZERO);
        host.press(1);
    }
}

/// Pages in mlocked folios, and the counters of pages that were mlocked, moved to the unevictable list, and
/// moved off it again.
fn counted(host: &Host) -> [u64; 4] {
    let events = [Event::UnevictablePgsMlocked, Event::UnevictablePgsCulled, Event::UnevictablePgsRescued];
    let [mlocked, culled, rescued] = events.map(|event| host.count(event));
    [host.mm.parts.address_spaces.nr_mlock(), mlocked, culled, rescued]
}

#[test]
fn locked_areas_get_large_folios() {
    for variant in ["folios-v9-64k", "mainline-6.12", "folios-7.2"] {
        let mut host = Host::new(variant, "64K", 64, 4096, true);
        mlock(&mut host, 0..40);
        assert_eq!(host.stat(4, MthpStat::AnonFaultAlloc), 2, "the third would not lie inside: {variant}");
        assert_eq!(locked(&host), (0..40).collect::<Vec<_>>());
        assert_eq!(counted(&host), [40, 40, 32, 0], "single pages wait in a batch");
        host.store_to_all();
        host.press(1);
        assert_eq!(host.mm.parts.lrus.nr_lru()[LruList::Unevictable as usize], 40);
        assert_eq!(in_memory(&host), (0..40).collect::<Vec<_>>(), "{variant}");
    }
}

/// Trap 15: a large folio is mlocked only if the VMA has all of it.
#[test]
fn a_folio_is_locked_only_if_it_lies_wholly_inside() {
    for (variant, lru_gen) in
        [("mainline-6.10", "0"), ("mainline-6.12", "7"), ("folios-7.2", "0"), ("folios-7.2", "7")]
    {
        let mut host = Host::new(variant, "64K", 64, 4096, true);
        host.mm.set("lru_gen/enabled", lru_gen).unwrap();
        host.store_to_all();
        mlock(&mut host, 8..40);
        assert_eq!(locked(&host), (16..32).collect::<Vec<_>>(), "{variant}");
        assert_eq!(counted(&host), [16, 16, 16, 0]);
        press_hard(&mut host);
        // Of the first folio, the pages before the lock have been evicted. The third folio is locked from its
        // first page on.
        assert_eq!(in_memory(&host), (8..48).collect::<Vec<_>>(), "{variant}");
        assert_eq!((host.large(), host.stat(4, MthpStat::Split)), (40, 0), "none was split: {variant}");
        munlock(&mut host, 8..40);
        assert_eq!(counted(&host), [0, 16, 16, 16]);
        press_hard(&mut host);
        assert_eq!(in_memory(&host), [], "{variant}");
    }
}

#[test]
fn unlocking_or_unmapping_a_part_unlocks_the_folio() {
    for unmap in [false, true] {
        let mut host = Host::new("mainline-6.12", "64K", 64, 4096, true);
        mlock(&mut host, 0..64);
        match unmap {
            true => {
                let page = host.start + 20;
                host.mm.enter(&mut host.machine, CPU).munmap(host.process, page..page + 1);
                host.mm.validate(0);
            }
            false => munlock(&mut host, 20..21),
        }
        let others: Vec<u64> = (0..16).chain(32..64).collect();
        assert_eq!(locked(&host), others);
        assert_eq!(host.count(Event::UnevictablePgsMunlocked), 16);
        // Once the folio is split, its pages are mlocked one by one. Reclaim splits only folios that are
        // partially mapped.
        host.press(1);
        let again: Vec<u64> = (0..64).filter(|&page| page != 20).collect();
        assert_eq!((locked(&host) == again, host.stat(4, MthpStat::Split)), (unmap, unmap.into()));
    }
}

/// A fault does not check whether the `VM_LOCKED` VMA has all of a large folio that it maps.
#[test]
fn what_comes_back_from_swap_is_locked_when_reclaim_meets_it() {
    let mut host = Host::new("mainline-6.12", "64K", 64, 4096, true);
    host.store_to_all();
    host.swap_out();
    mlock(&mut host, 0..64);
    assert_eq!((host.stat(4, MthpStat::Swpin), host.mm.parts.address_spaces.nr_mlock()), (4, 0));
    host.press(1);
    assert_eq!((in_memory(&host).len(), counted(&host)), (64, [64, 64, 64, 0]));
    // Single pages are mlocked at once.
    let mut host = Host::new("mainline-6.12", "64K", 64, 4096, false);
    host.store_to_all();
    host.swap_out();
    mlock(&mut host, 0..64);
    assert_eq!((host.stat(4, MthpStat::Swpin), host.mm.parts.address_spaces.nr_mlock()), (0, 64));
}

#[test]
fn locked_huge_pages_are_not_split_for_their_zeroes() {
    let split = |lock: bool| {
        let mut host = Host::new("mainline-6.18", "2M", 512, 0, true);
        host.mm.set("transparent_hugepage/khugepaged/max_ptes_none", "409").unwrap();
        host.touch(7, true);
        if lock {
            mlock(&mut host, 0..512);
        }
        host.press(64);
        (host.count(Event::ThpUnderusedSplitPage), host.mm.parts.address_spaces.mm(host.process).rss())
    };
    assert_eq!((split(false), split(true)), ((1, 1), (0, 512)));
}

#[test]
fn a_child_has_nothing_locked() {
    let mut host = Host::new("mainline-6.12", "64K", 64, 4096, true);
    mlock(&mut host, 0..32);
    let child = host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
    assert!(host.mm.parts.address_spaces.mm(child).vmas.iter().all(|vma| !vma.flags.has(VmFlags::LOCKED)));
    // The copy is the parent's, and mlocked; the folio that it leaves is the child's, and not mlocked.
    host.touch(3, true);
    host.mm.validate(0);
    assert_eq!(locked(&host), [&[3][..], &(16..32).collect::<Vec<_>>()].concat());
}
