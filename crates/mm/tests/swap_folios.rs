//! Large folios that are swapped out and in, kernel by kernel.

mod reclaim_machine;
mod swap_host;

use mm::address_space::{Backing, VmFlags};
use mm::huge_memory::features::FolioFeatures;
use mm::huge_memory::orders::Orders;
use mm::huge_memory::policy::{splits_before_swap, swap_orders};
use mm::huge_memory::stats::MthpStat;
use mm::memory::Touch;
use mm::swapfile::policy::{ClusterSearch, Place, search};
use mm::vmscan::policy::{DEFAULT_SEEKS, SlabScan};
use mm::{Event, Series};
use proptest::prelude::*;
use swap_host::{CPU, Host};

/// Of four folios of 64 KiB, how many are swapped out whole, how many are split for it, and how many are
/// swapped in whole from zram and from a disk.
fn there_and_back(variant: &str) -> [i64; 4] {
    let mut counts = [0; 4];
    for zram in [true, false] {
        let mut host = Host::new(variant, "64K", 64, 4096, zram);
        host.store_to_all();
        assert_eq!(host.stat(4, MthpStat::AnonFaultAlloc), 4);
        host.swap_out();
        counts[0] = host.stat(4, MthpStat::Swpout);
        counts[1] = host.stat(4, MthpStat::Split);
        host.store_to_all();
        assert_eq!(host.count(Event::Pswpin), 64, "each page comes back once");
        counts[2 + usize::from(!zram)] = host.stat(4, MthpStat::Swpin);
        host.mm.enter(&mut host.machine, CPU).exit_mm(host.process);
        host.mm.validate(0);
        assert_eq!((host.mm.parts.swap.used(), host.stat(4, MthpStat::NrAnon)), (0, 0));
    }
    counts
}

#[test]
fn who_swaps_large_folios_whole() {
    assert_eq!(there_and_back("folios-v9-64k"), [0, 4, 0, 0], "all folios are split");
    assert_eq!(there_and_back("mainline-6.10"), [4, 0, 0, 0], "they are swapped in page by page");
    for variant in ["mainline-6.12", "mainline-6.18", "folios-7.2"] {
        assert_eq!(there_and_back(variant), [4, 0, 4, 0], "whole, but not from a disk: {variant}");
    }
}

#[test]
fn a_fault_brings_all_of_a_folio() {
    for (variant, cached) in [("mainline-6.12", 0), ("folios-7.2", 0), ("mainline-6.10", 0)] {
        let mut host = Host::new(variant, "64K", 64, 4096, true);
        host.store_to_all();
        host.swap_out();
        assert!(matches!(host.touch(21, false), Touch::ReadSwap(_)));
        let pages = if variant == "mainline-6.10" { 1 } else { 16 };
        assert_eq!(
            (host.mm.parts.address_spaces.mm(host.process).rss(), host.count(Event::Pgmajfault)),
            (pages, 1),
            "{variant}"
        );
        assert_eq!(host.mm.parts.swap.used(), 64 - pages + cached, "{variant}");
        assert_eq!(host.touch(16, false) == Touch::Mapped, pages == 16, "{variant}");
        host.mm.validate(0);
    }
}

/// Each store to a page that is swapped in alone leaves a hole in swap, and no 16 contiguous entries are
/// free.
#[test]
fn without_a_row_of_entries_folios_are_split() {
    let mut host = Host::new("mainline-6.12", "64K", 512, 512, true);
    host.mm.set("transparent_hugepage/hugepages-64kB/enabled", "never").unwrap();
    host.store_to_all();
    host.swap_out();
    assert_eq!(host.mm.parts.swap.free(), 0);
    for page in (0..512).step_by(2) {
        host.touch(page, true);
        let pages = host.start + page..host.start + page + 1;
        host.mm.enter(&mut host.machine, CPU).madvise_dontneed(host.process, pages);
    }
    assert_eq!(host.mm.parts.swap.free(), 256);
    host.mm.set("transparent_hugepage/hugepages-64kB/enabled", "always").unwrap();
    let more =
        host.mm.enter(&mut host.machine, CPU).mmap(host.process, 64, Backing::Anonymous, VmFlags::PRIVATE);
    for page in more..more + 64 {
        host.mm.enter(&mut host.machine, CPU).touch(host.process, page, true).unwrap();
    }
    assert_eq!(host.stat(4, MthpStat::NrAnon), 4);
    host.swap_out();
    let fallbacks = host.stat(4, MthpStat::SwpoutFallback);
    assert_eq!((fallbacks, host.stat(4, MthpStat::Swpout), host.stat(4, MthpStat::Split)), (4, 0, 4));
}

/// Trap 19: a folio that was split once is swapped in as single pages, unless its entries happen to be
/// contiguous again.
#[test]
fn large_folios_get_fewer() {
    for variant in ["mainline-6.12", "mainline-6.18", "folios-7.2"] {
        let mut host = Host::new(variant, "64K", 512, 1024, true);
        host.store_to_all();
        assert_eq!(host.large(), 512);
        for cycle in 0..6 {
            let pages = host.start + 37 * cycle..host.start + 37 * cycle + 3;
            host.mm.enter(&mut host.machine, CPU).madvise_dontneed(host.process, pages);
            host.swap_out();
            host.store_to_all();
            assert!(host.large() < 512, "{variant}, cycle {cycle}");
        }
    }
}

/// Maps all pages writable, without storing to them.
fn populate(host: &mut Host) {
    for page in host.start..host.start + host.pages {
        host.mm.enter(&mut host.machine, CPU).populate(host.process, page).unwrap();
    }
}

/// Completes the reads that the device was asked for. Returns the number of folios.
fn read_from_swap(host: &mut Host) -> usize {
    let (mut request, mut folios) = (Vec::new(), 0);
    while host.mm.parts.swap.take_submitted_swap_read(&mut request) {
        folios += request.len();
        request.drain(..).for_each(|id| host.mm.parts.lrus.end_read(id));
    }
    folios
}

/// Trap 18: from 6.12 on, a folio of zeroes is swapped out and in without I/O, and is not counted in pswpout
/// and pswpin.
#[test]
fn zeroes_are_neither_written_nor_read() {
    for (variant, zram) in
        [("mainline-6.10", true), ("mainline-6.12", true), ("folios-7.2", true), ("folios-7.2", false)]
    {
        let mut host = Host::new(variant, "64K", 64, 4096, zram);
        populate(&mut host);
        host.touch(21, true);
        host.swap_out();
        let zeroes = if variant == "mainline-6.10" { 0 } else { 48 };
        assert_eq!(host.stat(4, MthpStat::Swpout), (64 - zeroes) / 16, "{variant}");
        assert_eq!(
            (host.count(Event::SwpoutZero), host.mm.parts.swap.used()),
            (zeroes as u64, 64),
            "{variant}"
        );
        let together = if zram && zeroes > 0 { 16 } else { 1 };
        let read_before = host.count(Event::Pswpin);
        let touch = host.touch(40, false);
        assert!(matches!(touch, Touch::ReadSwap(_)), "{variant}: {touch:?}");
        assert_eq!(read_from_swap(&mut host) == 0, zeroes > 0, "{variant}");
        assert_eq!(
            (host.mm.parts.address_spaces.mm(host.process).rss(), host.count(Event::Pgmajfault)),
            (together, 1),
            "{variant}"
        );
        if zeroes > 0 {
            // There is readahead from a disk, of zeroes too.
            assert_eq!(host.count(Event::SwpinZero), if zram { 16 } else { 8 }, "{variant}");
            assert_eq!((host.count(Event::Pswpin), host.stat(4, MthpStat::Swpin)), (read_before, 0));
        }
        host.touch(21, false);
        assert!(read_from_swap(&mut host) > 0, "this one was stored to: {variant}");
        // Once it has been stored to, it is written like any other folio.
        host.touch(40, true);
        host.swap_out();
        host.touch(40, false);
        assert!(read_from_swap(&mut host) > 0, "{variant}");
        host.mm.enter(&mut host.machine, CPU).exit_mm(host.process);
        host.mm.validate(0);
    }
}

/// Trap 20: zswap cannot swap in large folios, so once it has been on, no kernel swaps any in. They are still
/// swapped out whole.
#[test]
fn after_zswap_was_on_single_pages_come_back() {
    for variant in ["mainline-6.12", "mainline-6.18", "folios-7.2"] {
        for (ever_enabled, whole) in [("0", 4), ("1", 0)] {
            let mut host = Host::new(variant, "64K", 64, 4096, true);
            host.mm.set("zswap_ever_enabled", ever_enabled).unwrap();
            host.store_to_all();
            host.swap_out();
            host.store_to_all();
            let counts =
                [MthpStat::Swpout, MthpStat::Swpin, MthpStat::SwpinFallback].map(|stat| host.stat(4, stat));
            assert_eq!((counts, host.count(Event::Pswpin)), ([4, whole, 0], 64), "{variant}, {ever_enabled}");
            assert_eq!(host.large(), 16 * whole as u64);
        }
    }
}

#[test]
fn what_cannot_come_back_whole_comes_in_smaller_folios() {
    for (variant, counted) in [("mainline-6.12", 0), ("mainline-6.18", 1), ("folios-7.2", 1)] {
        let counts = |host: &Host| {
            [MthpStat::Swpin, MthpStat::SwpinFallback, MthpStat::SwpinFallbackCharge]
                .map(|stat| host.stat(4, stat))
        };
        let mut host = Host::new(variant, "64K", 64, 4096, true);
        host.store_to_all();
        host.swap_out();
        // The memcg has room for fewer pages.
        host.mm.parts.lrus.memcg_mut(host.memcg).max = 8;
        host.touch(0, false);
        assert_eq!(counts(&host), [0, counted, counted], "{variant}");
        host.mm.parts.lrus.memcg_mut(host.memcg).max = 4096;
        host.touch(16, false);
        assert_eq!(counts(&host), [1, counted, counted], "{variant}");
    }
}

/// Contiguous entries of zeroes and of data are not swapped in as one folio.
#[test]
fn a_row_of_entries_is_zeroes_or_is_not() {
    for variant in ["mainline-6.12", "mainline-6.18", "folios-7.2"] {
        let mut host = Host::new(variant, "32K", 64, 4096, true);
        populate(&mut host);
        // In units of 64 KiB: zeroes and data, zeroes, data.
        for page in [8, 32, 40] {
            host.touch(page, true);
        }
        host.swap_out();
        host.mm.set("transparent_hugepage/hugepages-64kB/enabled", "always").unwrap();
        let pages_after = |host: &mut Host, page| {
            let before = host.mm.parts.address_spaces.mm(host.process).rss();
            host.touch(page, false);
            host.mm.parts.address_spaces.mm(host.process).rss() - before
        };
        let pages = [0, 8, 16, 32].map(|page| pages_after(&mut host, page));
        assert_eq!(pages, [8, 8, 16, 16], "{variant}");
        host.mm.validate(0);
    }
}

/// A folio of 2 MiB takes a whole cluster, in every kernel.
#[test]
fn huge_pages_take_whole_clusters() {
    for variant in ["folios-v9-2m", "mainline-6.10", "mainline-6.12", "folios-7.2"] {
        for (swap, whole) in [(4096, 1), (512, 0)] {
            let mut host = Host::new(variant, "2M", 512, swap, true);
            if whole == 0 {
                // A single entry of another page occupies the cluster.
                let other = host.mm.enter(&mut host.machine, CPU).mmap(
                    host.process,
                    1,
                    Backing::Anonymous,
                    VmFlags::PRIVATE,
                );
                host.mm.enter(&mut host.machine, CPU).touch(host.process, other, true).unwrap();
                host.swap_out();
            }
            host.store_to_all();
            host.press(64);
            let out = (host.count(Event::ThpSwpout), host.count(Event::ThpSwpoutFallback));
            assert_eq!(out, (whole, 1 - whole), "{variant} with {swap} pages of swap");
        }
    }
}

/// The pages of a huge page that were never stored to are freed when memory runs short; the others keep their
/// content.
#[test]
fn underused_huge_pages_are_split() {
    let split = |variant: &str, max_ptes_none: &str, shrink: &str, stored: u64| {
        let mut host = Host::new(variant, "2M", 512, 0, true);
        host.mm.set("transparent_hugepage/khugepaged/max_ptes_none", max_ptes_none).unwrap();
        host.mm.set("transparent_hugepage/shrink_underused", shrink).unwrap();
        (0..stored).for_each(|page| _ = host.touch(page * 7 % 512, true));
        assert_eq!(host.mm.parts.address_spaces.mm(host.process).rss(), 512);
        host.press(64);
        let split = (host.count(Event::ThpUnderusedSplitPage), host.count(Event::ThpSplitPage));
        assert!(split.0 == split.1 && split.0 == host.stat(9, MthpStat::Split) as u64);
        let rss = host.mm.parts.address_spaces.mm(host.process).rss();
        for page in 0..512 {
            host.touch(page, false);
        }
        assert_eq!(
            host.mm.parts.address_spaces.mm(host.process).rss(),
            rss,
            "pages of zeroes are there for reading"
        );
        (split.0, rss)
    };
    assert_eq!(split("mainline-6.18", "409", "1", 100), (1, 100));
    assert_eq!(split("mainline-6.18", "409", "1", 102), (1, 102));
    assert_eq!(split("mainline-6.18", "409", "1", 103), (0, 512), "409 pages of zeroes are not too many");
    assert_eq!(split("mainline-6.18", "0", "1", 511), (1, 511));
    assert_eq!(split("mainline-6.18", "511", "1", 1), (0, 512), "511 turns it off");
    assert_eq!(
        split("mainline-6.18", "409", "0", 1),
        (0, 512),
        "who was not watched from the start is left alone"
    );
    assert_eq!(split("folios-v9-2m", "409", "1", 1), (0, 512), "before 6.12 nobody looked");
}

#[test]
fn who_is_split_before_swap_is_asked() {
    use ClusterSearch::{CurrentOrFree, FreeFirst, NonfullFirst, WholeClusters};
    for cluster_search in [WholeClusters, CurrentOrFree, FreeFirst, NonfullFirst] {
        let kernel = Series::FOLIOS.variant("m9").unwrap().features.folios;
        let f = FolioFeatures { cluster_search, ..kernel };
        assert!(splits_before_swap(&f, true, true) && splits_before_swap(&f, true, false));
        assert!(!splits_before_swap(&f, false, true), "a PMD-mapped folio is swapped out whole");
        assert_eq!(splits_before_swap(&f, false, false), cluster_search == WholeClusters);
    }
}

#[test]
fn who_looks_where() {
    use ClusterSearch::{CurrentOrFree, FreeFirst, NonfullFirst, WholeClusters};
    assert!((2..9).all(|order| search(WholeClusters, order).is_empty()));
    for kernel in [CurrentOrFree, FreeFirst, NonfullFirst] {
        assert!((0..=9).all(|order| search(kernel, order).contains(&Place::Free)));
        let last = |order| search(kernel, order).last().copied();
        assert!(
            [Some(Place::Steal), Some(Place::Anywhere)].contains(&last(0)),
            "a page finds any free entry"
        );
        assert!(
            (2..=9).all(|order| !search(kernel, order).contains(&Place::Steal)),
            "a folio keeps to its size"
        );
    }
    let nonfull_comes_first = |kernel| {
        let at = |place| search(kernel, 4).iter().position(|&other| other == place);
        at(Place::Nonfull) < at(Place::Free)
    };
    assert_eq!([FreeFirst, NonfullFirst].map(nonfull_comes_first), [false, true]);
}

proptest! {
    /// The first entry of a folio in swap is aligned like its first page in memory.
    #[test]
    fn sizes_that_may_come_back(page in 0u64..1 << 20, entry in 0u64..1 << 20, offset in 0u64..1 << 10) {
        for entry in [entry, page + offset * 16, page + 512 * offset, page + 8192 * offset] {
            let orders = swap_orders(Orders::range(2, 13), page, entry);
            for order in 0..=13 {
                let wanted = order >= 2 && page % (1 << order) == entry % (1 << order);
                prop_assert_eq!(orders.has(order), wanted, "order {}", order);
            }
        }
    }

    /// A shrinker scans, sooner or later, as many objects as all reclaims together ask for, and never more
    /// than twice as many as there are.
    #[test]
    fn what_a_shrinker_puts_off_is_not_lost(freeable in 1u64..3000, priorities in prop::collection::vec(0u8..=12, 1..40)) {
        let (mut deferred, mut asked, mut done) = (0, 0, 0);
        for priority in priorities {
            asked += (freeable >> priority) * 2;
            let mut slab = SlabScan::new(freeable, deferred, priority, Some(DEFAULT_SEEKS));
            let mut now = 0;
            while let Some(batch) = slab.batch() {
                slab.scanned(batch);
                now += batch;
            }
            prop_assert!(now <= 2 * freeable);
            done += now;
            deferred = slab.deferred();
            prop_assert!(done + deferred <= asked, "{} and {} of {}", done, deferred, asked);
            prop_assert!(done + deferred == asked || deferred == 2 * freeable || asked > 2 * freeable);
        }
    }
}

/// Pages on the lists of the LRU, where those in a batch are not yet.
fn on_lists(host: &Host) -> u64 {
    host.mm.parts.lrus.nr_lru().iter().sum()
}

/// 7.2 reads from zram through the swap cache, 6.12 past it, where a batch cannot be mistaken for another user of the page.
#[test]
fn a_store_to_a_page_in_the_swap_cache_drains_the_batches_of_its_cpu() {
    for (variant, write, expected) in
        [("folios-7.2", true, 1), ("folios-7.2", false, 0), ("mainline-6.12", true, 0)]
    {
        let mut host = Host::without_swap(variant, "", 64);
        host.mm.parts.swap.swapon(4096, Some(machine::Time::ZERO));
        host.store_to_all();
        host.swap_out();
        assert_eq!(on_lists(&host), 0);
        host.touch(0, write);
        assert_eq!(on_lists(&host), expected, "{variant}, write: {write}");
    }
}

/// A folio that a batch refers to could not be freed.
#[test]
fn unmapping_drains_the_batches_of_its_cpu() {
    for variant in ["mainline-6.12", "folios-7.2"] {
        for is_dropped in [true, false] {
            let mut host = Host::without_swap(variant, "", 64);
            (0..2).for_each(|page| _ = host.touch(page, true));
            assert_eq!(on_lists(&host), 0, "they wait in a batch");
            let (start, process) = (host.start, host.process);
            let mut kernel = host.mm.enter(&mut host.machine, CPU);
            let unmapped = match is_dropped {
                true => kernel.madvise_dontneed(process, start..start + 1),
                false => kernel.munmap(process, start..start + 1),
            };
            assert_eq!((unmapped.pages(), on_lists(&host)), (1, 1), "{variant}");
        }
    }
}
