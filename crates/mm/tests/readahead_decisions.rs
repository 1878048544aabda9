//! How much is read ahead: tables worked out by hand, a slow model of the whole, and invariants.

use std::collections::BTreeSet;

use machine::{Costs, Cpu, Machine, Topology};
use mm::address_space::memory::Touch;
use mm::address_space::{self, Backing, MmId, VmFlags, Vpn};
use mm::filemap::Read;
use mm::folio::FolioId;
use mm::lruvec::LruList;
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::readahead::policy::{
    FileRaState, ReadaheadFeatures, Window, fault_around_hits, folio_order, initial_size, maps_whole_folios,
    marked_folio, next_size,
};
use mm::readahead::{Advice, FAULT_AROUND_BYTES, OpenFileId};
use mm::xarray::FileId;
use mm::{Category, Event, MemoryManager, Series, Settings};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

const RELEASES: [&str; 6] =
    ["mainline-6.1", "pcp-base", "mainline-6.10", "mainline-6.11", "mainline-6.15", "mainline-6.18"];

fn features(variant: &str) -> ReadaheadFeatures {
    Series::PCP.variant(variant).unwrap().features.readahead
}

#[test]
fn windows_begin_small_and_grow() {
    let initial = |request| initial_size(request, 32);
    assert_eq!([1, 2, 3, 4, 5, 8, 9, 32, 33].map(initial), [4, 4, 8, 8, 16, 16, 32, 32, 32]);
    let grow = |size| next_size(size, 32);
    assert_eq!([1, 2, 4, 8, 16, 17, 32, 64].map(grow), [4, 4, 8, 16, 32, 32, 32, 32]);
    // A window of 8 MiB.
    assert_eq!([1, 64, 65, 512, 513].map(|request| initial_size(request, 2048)), [4, 256, 256, 1024, 2048]);
}

const fn window(start: u32, pages: u32, lookahead: u32) -> Window {
    Window { start, pages, lookahead, order: 0 }
}

/// A read that makes no window does not change the state.
#[test]
fn what_is_in_memory_before_a_random_read_decides() {
    for variant in RELEASES {
        let f = features(variant);
        let miss = |index, request, cached: u32| {
            let mut ra = FileRaState { prev_end: Some(9000), ..FileRaState::new(32, 320) };
            let window = ra.on_miss(&f, index, request, |most| cached.min(most));
            (window, ra.size)
        };
        // No more pages before it than requested: a random read.
        assert_eq!(miss(1000, 8, 8), (window(1000, 8, 0), 0), "{variant}");
        assert_eq!(miss(1000, 8, 0), (window(1000, 8, 0), 0));
        // One page more is the trail of a stream: as much again is read, with the marker on the last page.
        assert_eq!(miss(1000, 8, 9), (window(1000, 17, 1), 17));
        assert_eq!(miss(1000, 1, 2), (window(1000, 3, 1), 3));
        // At most a window.
        assert_eq!(miss(1000, 8, 30), (window(1000, 32, 1), 32));
        // 32 pages are looked at, and one of them is taken for the gap.
        assert_eq!(miss(1000, 31, 100), (window(1000, 31, 0), 0));
        assert_eq!(miss(1000, 30, 100), (window(1000, 32, 1), 32));
        // The pages before it reach back to the beginning of the file: twice as many are read.
        assert_eq!(miss(5, 2, 5), (window(5, 12, 1), 12));
        assert_eq!(miss(32, 2, 32), (window(32, 32, 1), 32));
    }
}

#[test]
fn neighbours_of_the_last_read_are_sequential() {
    for variant in RELEASES {
        let miss = |prev_end, index, request| {
            let mut ra = FileRaState { prev_end, ..FileRaState::new(32, 320) };
            ra.on_miss(&features(variant), index, request, |_| 0)
        };
        assert_eq!(miss(None, 0, 1), window(0, 4, 3), "{variant}");
        assert_eq!(miss(Some(1000), 1000, 1), window(1000, 4, 3));
        assert_eq!(miss(Some(999), 1000, 1), window(1000, 4, 3));
        assert_eq!(miss(Some(998), 1000, 1), window(1000, 1, 0));
        assert_eq!(miss(Some(1001), 1000, 1), window(1000, 1, 0));
        assert_eq!(miss(None, 1000, 1), window(1000, 1, 0));
        // Longer than a window, but no longer than the device takes at once: that is the window.
        assert_eq!(miss(None, 1000, 100), window(1000, 100, 0));
        // Longer than both: half of the window is left at the marker.
        assert_eq!(miss(None, 1000, 500), window(1000, 320, 160));
        assert_eq!(miss(None, 1000, 32), window(1000, 32, 0));
    }
}

#[test]
fn releases_differ_where_streams_are_disturbed() {
    let after =
        FileRaState { start: 100, size: 8, async_size: 8, prev_end: Some(5), ..FileRaState::new(32, 320) };
    for (variant, at_end, gap, cached_all) in [
        ("mainline-6.1", window(108, 32, 16), window(214, 30, 30), Some(window(232, 32, 32))),
        ("pcp-base", window(108, 32, 16), window(214, 30, 30), Some(window(232, 32, 32))),
        ("mainline-6.10", window(108, 32, 16), window(214, 30, 30), Some(window(232, 32, 32))),
        ("mainline-6.11", window(108, 1, 0), window(214, 30, 30), None),
        ("mainline-6.18", window(108, 1, 0), window(214, 30, 30), None),
    ] {
        let f = features(variant);
        // A miss where the last window ended, by another reader. A window of 16 pages would begin with its
        // own marker.
        assert_eq!(after.clone().on_miss(&f, 108, 1, |_| 0), at_end, "{variant}");
        // A marker of another window: the window begins at the first missing page.
        assert_eq!(after.clone().on_marker(&f, 200, 0, 1, |_| 13), Some(gap), "{variant}");
        assert_eq!(after.clone().on_marker(&f, 200, 0, 1, |most| most), cached_all, "{variant}");
        // The marker of the window that the open file knows.
        assert_eq!(
            after.clone().on_marker(&f, 100, 0, 1, |_| panic!()),
            Some(window(108, 16, 16)),
            "{variant}"
        );
    }
    // From 6.17 on, odd windows end at a multiple of four, unless nothing would be left.
    let odd = FileRaState { start: 101, size: 4, async_size: 3, ..FileRaState::new(32, 320) };
    let next = |variant, mut ra: FileRaState| ra.on_marker(&features(variant), ra.start + 1, 0, 1, |_| 0);
    assert_eq!(next("mainline-6.15", odd), Some(window(105, 8, 8)));
    assert_eq!(next("mainline-6.18", odd), Some(window(105, 7, 7)));
}

#[test]
fn advice_and_limits() {
    let f = features("mainline-6.18");
    let mut ra = FileRaState { random: true, ..FileRaState::new(32, 320) };
    assert_eq!(ra.on_miss(&f, 0, 500, |_| 32), window(0, 320, 0));
    let mut none = FileRaState::new(0, 320);
    assert_eq!(none.on_miss(&f, 0, 500, |_| 32), window(0, 1, 0));
    assert_eq!(none.on_marker(&f, 0, 0, 500, |_| 32), None);
}

#[test]
fn faults_read_around_until_they_miss_too_often() {
    let f = features("mainline-6.18");
    let mut ra = FileRaState::new(32, 320);
    assert_eq!(ra.on_fault_miss(&f, 1000), Some(window(984, 32, 8)));
    assert_eq!(ra.on_fault_miss(&f, 3), Some(window(0, 32, 8)));
    for _ in 0..98 {
        assert!(ra.on_fault_miss(&f, 1000).is_some());
    }
    assert_eq!(ra.on_fault_miss(&f, 1000), None);
    ra.on_fault_hit();
    assert_eq!(ra.on_fault_miss(&f, 1000), None);
    ra.on_fault_hit();
    ra.on_fault_hit();
    assert!(ra.on_fault_miss(&f, 1000).is_some());
}

#[test]
fn folios_fit_where_they_are() {
    let orders = |variant, most, indices: std::ops::Range<u32>| {
        let (mut index, mut orders) = (indices.start, Vec::new());
        while index < indices.end {
            let order = folio_order(&features(variant), most, index, indices.end);
            orders.push(order);
            index += 1 << order;
        }
        assert_eq!(index, indices.end);
        orders
    };
    for variant in RELEASES {
        assert_eq!(orders(variant, 2, 0..16), [2, 2, 2, 2], "{variant}");
        assert_eq!(orders(variant, 5, 0..32), [5]);
        assert_eq!(orders(variant, 4, 24..64), [3, 4, 4]);
        assert_eq!(orders(variant, 0, 5..8), [0, 0, 0]);
    }
    // Folios of two pages exist since 6.9.
    assert_eq!(orders("mainline-6.10", 4, 7..35), [0, 3, 4, 1, 0]);
    assert_eq!(orders("pcp-base", 4, 7..35), [0, 3, 4, 0, 0, 0]);
    assert_eq!(orders("mainline-6.18", 5, 2..16), [1, 2, 3]);
    assert_eq!(orders("mainline-6.1", 5, 2..16), [0, 0, 2, 3]);
    // A marker that falls inside of a folio.
    let marked = |variant| [13, 16, 17].map(|page| marked_folio(&features(variant), page, 2));
    assert_eq!((marked("pcp-base"), marked("mainline-6.10")), ([16, 16, 20], [12, 16, 16]));
}

/// The orders of windows, first of a miss, then of one marker after the other, each on the folio that the
/// window has at that place.
#[test]
fn folios_grow_with_each_marker() {
    let orders = |variant, max_order, ra_pages| {
        let f = features(variant);
        let mut ra = FileRaState { max_order, ..FileRaState::new(ra_pages, 320) };
        let mut window = ra.on_miss(&f, 0, 1, |_| 0);
        let mut orders = vec![window.order];
        for _ in 0..7 {
            let marker = window.start + window.pages - window.lookahead;
            let marked = marked_folio(&f, marker, window.order);
            window = ra.on_marker(&f, marked, window.order, 1, |_| panic!()).unwrap();
            orders.push(window.order);
        }
        orders
    };
    assert_eq!(orders("pcp-base", 9, 2048), [2, 4, 6, 8, 9, 9, 9, 9]);
    assert_eq!(orders("mainline-6.18", 9, 2048), [0, 2, 4, 6, 8, 8, 9, 9]);
    // Windows of 32 pages have no larger folios.
    assert_eq!(orders("mainline-6.15", 9, 32), [2, 3, 4, 5, 5, 5, 5, 5]);
    assert_eq!(orders("mainline-6.18", 9, 32), [0, 2, 2, 3, 3, 4, 4, 5], "as recorded on XFS");
    for variant in RELEASES {
        assert_eq!(orders(variant, 0, 2048), [0; 8], "{variant}: no large folios");
    }
}

/// A machine with one file that is open several times.
struct Host {
    file: FileId,
    mm: MemoryManager,
    machine: Machine<Category>,
    descriptors: Vec<OpenFileId>,
}

const FILE_PAGES: u32 = 600;

fn host(variant: &str, advice: &[Advice], large_folios: bool) -> Host {
    let topology = Topology::single();
    let features = Series::PCP.variant(variant).unwrap().features;
    let noise = Pcg64Mcg::new(1);
    let mut mm = MemoryManager::new(&topology, &memory_layout(1, 64), features, Settings::default(), noise);
    let file = mm.parts.page_cache.open_file();
    if large_folios {
        mm.parts.page_cache.set_large_folios(file);
    }
    let open = |&advice: &Advice| {
        let open = mm.open(file, FILE_PAGES);
        mm.fadvise(open, advice);
        open
    };
    let descriptors = advice.iter().map(open).collect();
    Host { file, mm, machine: Machine::new(topology, Costs::FREE), descriptors }
}

impl Host {
    /// Reads pages and returns the requests that go to the device.
    fn read(&mut self, descriptor: usize, index: u32, pages: u32) -> Vec<Vec<u32>> {
        let Host { mm, machine, descriptors, .. } = self;
        let mut request = mm.parts.page_cache.begin_read(Memcg::ROOT, descriptors[descriptor], index, pages);
        let (mut requests, mut folios): (Vec<Vec<u32>>, Vec<FolioId>) = (Vec::new(), Vec::new());
        let mut at = index;
        while let Some(read) = mm.enter(machine, Cpu(0)).read_next(&mut request).unwrap() {
            let (Read::Hit(id) | Read::Miss(id)) = read;
            let first = mm.parts.page_of_folio(id).1;
            assert!((first..first + (1 << mm.parts.lrus.folio_order(id))).contains(&at));
            at += 1;
            while mm.parts.page_cache.take_submitted_read(&mut folios) {
                requests.push(folios.iter().map(|&id| mm.parts.page_of_folio(id).1).collect());
                for id in folios.drain(..) {
                    assert!(mm.parts.lrus.is_locked(id), "locked until the device has filled it");
                    mm.parts.lrus.end_read(id);
                }
            }
        }
        assert_eq!(at, FILE_PAGES.min(index + pages));
        requests
    }
}

fn run(first: u32, last: u32) -> Vec<u32> {
    (first..=last).collect()
}

#[test]
fn a_stream_is_read_ahead_window_by_window() {
    let mut host = host("pcp-base", &[Advice::Normal], false);
    let mut came: Vec<(u32, Vec<Vec<u32>>)> = Vec::new();
    for index in 0..100 {
        let requests = host.read(0, index, 1);
        if !requests.is_empty() {
            came.push((index, requests));
        }
    }
    let expected =
        [(0, 0, 3), (1, 4, 11), (4, 12, 27), (12, 28, 59), (28, 60, 91), (60, 92, 123), (92, 124, 155)];
    let expected = expected.map(|(index, first, last)| (index, vec![run(first, last)]));
    assert_eq!(came, expected);
    assert_eq!(host.mm.counters().get(Event::ReadaheadPages), 155);
}

#[test]
fn requests_end_where_pages_are_in_memory_and_at_the_end_of_the_file() {
    let mut host = host("pcp-base", &[Advice::Random, Advice::Normal], false);
    host.read(0, 20, 2);
    assert_eq!(host.read(1, 16, 8), [run(16, 19), run(22, 23)]);
    // A request that is larger than a window: 100 pages from 560 on are wanted, 40 exist; half of them would
    // be left at the marker.
    assert_eq!(host.read(1, 560, 100), [run(560, 599)]);
    assert_eq!(host.read(1, 560, 100), Vec::<Vec<u32>>::new());
}

#[test]
fn the_rest_of_a_request_looked_sequential_until_6_5() {
    for (variant, second) in [("mainline-6.1", run(101, 116)), ("pcp-base", run(101, 107))] {
        let mut host = host(variant, &[Advice::Normal], false);
        host.read(0, 300, 1);
        assert_eq!(host.read(0, 100, 1), [run(100, 100)]);
        host.read(0, 400, 1);
        // The first page is in memory, the seven behind it are not.
        assert_eq!(host.read(0, 100, 8), [second], "{variant}");
    }
}

/// A read counts as one access to a folio, however many of its pages it reads, and a read that continues in
/// the folio is no new access.
#[test]
fn reads_of_one_folio_are_one_use() {
    let mut host = host("pcp-base", &[Advice::Normal, Advice::Normal], true);
    host.mm.set("lru_gen/enabled", "0").unwrap();
    let active = |host: &mut Host| {
        host.mm.enter(&mut host.machine, Cpu(0)).lru_add_drain_all();
        host.mm.parts.lrus.nr_lru()[LruList::ActiveFile as usize]
    };
    // Pages 4 to 7 come as one folio, which has the marker.
    assert_eq!(host.read(0, 0, 4), [[0, 4]]);
    assert_eq!(host.read(0, 4, 1), [[8, 16]]);
    // First the same descriptor continues in the first folio, then another descriptor reads it.
    host.read(0, 5, 3);
    assert_eq!(active(&mut host), 0);
    host.read(1, 5, 3);
    assert_eq!(active(&mut host), 4);
    host.mm.validate(0);
}

/// Touches pages of a mapping of the file, each until it is mapped; for each, the pages that came in.
fn touch(
    host: &mut Host,
    mapping: (MmId, Vpn),
    write: bool,
    pages: impl IntoIterator<Item = u32>,
) -> Vec<(u32, Vec<u32>)> {
    let Host { mm, machine, .. } = host;
    let mut folios = Vec::new();
    let mut came = Vec::new();
    for page in pages {
        let at = mapping.1 + u64::from(page);
        let touch = mm.enter(machine, Cpu(0)).touch(mapping.0, at, write).unwrap();
        while mm.parts.page_cache.take_submitted_read(&mut folios) {
            came.push((page, folios.iter().map(|&id| mm.parts.page_of_folio(id).1).collect()));
            folios.drain(..).for_each(|id| mm.parts.lrus.end_read(id));
        }
        if let Touch::Retry(_) = touch {
            assert_ne!(mm.enter(machine, Cpu(0)).retry_touch(mapping.0, at, write).unwrap(), Touch::Mapped);
            assert!(!mm.parts.page_cache.take_submitted_read(&mut folios), "nothing is read twice");
        }
        assert_eq!(mm.enter(machine, Cpu(0)).touch(mapping.0, at, write).unwrap(), Touch::Mapped);
    }
    came
}

/// Length of a file that is mapped.
const MAPPED_PAGES: u32 = 6000;

/// A host of a kernel with the file mapped, as is advised.
fn mapped(variant: &str, advice: address_space::Advice, fault_around_bytes: u64) -> (Host, (MmId, Vpn)) {
    map(host(variant, &[Advice::Normal], false), advice, fault_around_bytes)
}

/// Has the file of a host mapped, as is advised.
fn map(mut host: Host, advice: address_space::Advice, fault_around_bytes: u64) -> (Host, (MmId, Vpn)) {
    let (file, open) = (host.file, host.mm.open(host.file, MAPPED_PAGES));
    let mm = host.mm.parts.create_mm(Memcg::ROOT);
    let start = host.mm.enter(&mut host.machine, Cpu(0)).mmap(
        mm,
        MAPPED_PAGES.into(),
        Backing::File(file, 0),
        VmFlags::PRIVATE,
    );
    host.mm.enter(&mut host.machine, Cpu(0)).madvise(mm, start..start + u64::from(MAPPED_PAGES), advice);
    // Alone until it is known through what.
    let touched = host.mm.enter(&mut host.machine, Cpu(0)).touch(mm, start + 599, false).unwrap();
    let Touch::ReadFile(id) = touched else { panic!("{touched:?}") };
    assert!(
        host.mm.parts.page_cache.files().nr_folios() == 1
            && !host.mm.parts.page_cache.take_submitted_read(&mut Vec::new())
    );
    host.mm.parts.lrus.end_read(id);
    host.mm.parts.map_through(open, fault_around_bytes);
    (host, (mm, start))
}

#[test]
fn faults_read_around_and_behind_as_they_are_advised() {
    let page_by_page = |advice| mapped("pcp-base", advice, 4096);
    let (mut normal, mapping) = page_by_page(address_space::Advice::Normal);
    // Around 300, with the marker eight pages from the end; then window after window.
    let came = touch(&mut normal, mapping, false, 300..350);
    assert_eq!(
        came,
        [(300, run(284, 315)), (308, run(316, 347)), (316, run(348, 379)), (348, run(380, 411))]
    );
    normal.mm.validate(0);

    let (mut random, mapping) = page_by_page(address_space::Advice::Random);
    let came = touch(&mut random, mapping, false, 300..303);
    assert_eq!(came, [(300, vec![300]), (301, vec![301]), (302, vec![302])]);

    let (mut sequential, mapping) = page_by_page(address_space::Advice::Sequential);
    // Nothing was read before, and nothing is in memory before it: what is asked for is a window.
    let came = touch(&mut sequential, mapping, false, 300..340);
    assert_eq!(came, [(300, run(300, 331)), (332, run(332, 363))]);
}

#[test]
fn a_load_maps_what_is_filled_and_unmarked_in_its_64_kib() {
    let (mut host, (mm, start)) = mapped("pcp-base", address_space::Advice::Normal, FAULT_AROUND_BYTES);
    let is_mapped = |host: &Host, page: u32| {
        host.mm.parts.address_spaces.pte(mm, start + u64::from(page)).folio().is_some()
    };
    // 284 to 315 come in, with the marker on 308; 288 to 303 are around it.
    assert_eq!(touch(&mut host, (mm, start), false, [300]), [(300, run(284, 315))]);
    let around: Vec<u32> = (0..MAPPED_PAGES).filter(|&page| is_mapped(&host, page)).collect();
    assert_eq!(around, [run(288, 303), vec![599]].concat());
    // The marked one is not, until it faults itself; then those that were read ahead just now are too.
    assert_eq!(touch(&mut host, (mm, start), false, [304]), []);
    assert!(is_mapped(&host, 307) && !is_mapped(&host, 308) && is_mapped(&host, 315));
    assert_eq!(touch(&mut host, (mm, start), false, [308]), [(308, run(316, 347))]);
    assert!(
        !is_mapped(&host, 287) && !is_mapped(&host, 316) && is_mapped(&host, 319) == is_mapped(&host, 318)
    );
    // An access that is mapped already faults no more, and one that is retried has faulted once.
    assert_eq!(host.mm.counters().get(Event::Pgfault), 4);
    // A store maps its own page.
    assert_eq!(touch(&mut host, (mm, start), true, [700]), [(700, run(684, 715))]);
    assert!(!is_mapped(&host, 699) && !is_mapped(&host, 701));
    host.mm.validate(0);
}

#[test]
fn reading_around_ends_with_stores_that_miss_and_not_with_loads() {
    let apart = || (0..120).map(|n| n * 40);
    let whole = |came: &[(u32, Vec<u32>)]| {
        came.iter().filter(|(page, pages)| pages.contains(page) && pages.len() > 1).count()
    };
    let (mut host, mapping) = mapped("pcp-base", address_space::Advice::Normal, FAULT_AROUND_BYTES);
    assert_eq!(whole(&touch(&mut host, mapping, false, apart())), 120);
    let (mut host, mapping) = mapped("pcp-base", address_space::Advice::Normal, FAULT_AROUND_BYTES);
    let came = touch(&mut host, mapping, true, apart());
    assert_eq!((whole(&came), came.last()), (100, Some(&(4760, vec![4760]))));
    // 20 misses over 100. A load makes up for as many as it finds pages around it: 15, and the one with the marker.
    assert_eq!(touch(&mut host, mapping, false, [801]), []);
    assert_eq!(touch(&mut host, mapping, true, [5000, 5040]), [(5000, vec![5000]), (5040, vec![5040])]);
    assert_eq!(touch(&mut host, mapping, false, [1201]), []);
    assert_eq!(touch(&mut host, mapping, true, [5080]), [(5080, run(5064, 5095))]);
}

#[test]
fn what_is_populated_is_mapped_before_it_is_there() {
    let (mut host, (mm, start)) = mapped("pcp-base", address_space::Advice::Normal, FAULT_AROUND_BYTES);
    let at = start + 300;
    let filled = host.mm.enter(&mut host.machine, Cpu(0)).mlock(mm, at..at + 1).unwrap();
    assert!(filled.len() == 1 && host.mm.parts.lrus.is_locked(filled[0]));
    assert!(host.mm.parts.address_spaces.pte(mm, at).folio().is_some());
    let mut folios = Vec::new();
    assert!(host.mm.parts.page_cache.take_submitted_read(&mut folios) && folios.contains(&filled[0]));
    folios.drain(..).for_each(|id| host.mm.parts.lrus.end_read(id));
    host.mm.validate(0);
}

#[test]
fn a_marker_behind_the_end_of_the_file_is_nowhere_where_there_are_large_folios() {
    let last = MAPPED_PAGES - 1;
    for (variant, large, has_marker) in
        [("mainline-6.18", true, false), ("mainline-6.18", false, true), ("pcp-base", false, true)]
    {
        let host = host(variant, &[Advice::Normal], large);
        let (mut host, (mm, start)) = map(host, address_space::Advice::Normal, FAULT_AROUND_BYTES);
        assert_eq!(touch(&mut host, (mm, start), false, [last]), [(last, run(last - 16, last))]);
        // What is in its 64 KiB and has no marker is mapped.
        let marked = start + u64::from(MAPPED_PAGES) - 8;
        assert_eq!(
            host.mm.parts.address_spaces.pte(mm, marked).folio().is_none(),
            has_marker,
            "{variant}, {large}"
        );
        assert!(host.mm.parts.address_spaces.pte(mm, marked + 1).folio().is_some());
    }
}

#[test]
fn folios_are_mapped_whole_unless_the_file_ends_with_the_first() {
    let whole = |variant, first| maps_whole_folios(&features(variant), &first, 64);
    assert!(whole("mainline-6.18", 16..32) && !whole("mainline-6.17", 16..32));
    assert!(whole("mainline-6.18", 60..63) && !whole("mainline-6.18", 32..64));
}

#[test]
fn a_store_that_meets_a_marker_makes_up_for_two_misses_since_6_7() {
    // 100 misses, of which the first has its marker on 308 and reads up to 315.
    let apart = |host: &mut Host, mapping| {
        touch(host, mapping, true, (0..100).map(|n| 300 + n * 40));
        touch(host, mapping, true, [308, 4500, 4540]).iter().filter(|(_, pages)| pages.len() > 1).count()
    };
    for (variant, windows) in [("pcp-base", 2), ("mainline-6.7", 3)] {
        let (mut host, mapping) = mapped(variant, address_space::Advice::Normal, FAULT_AROUND_BYTES);
        assert_eq!(apart(&mut host, mapping), windows, "{variant}");
    }
}

#[test]
fn some_hits_make_up_for_no_miss() {
    let mut ra = FileRaState { mmap_miss: 5, ..FileRaState::new(32, 32) };
    ra.on_locked_hit(&features("mainline-6.18"));
    assert_eq!(ra.mmap_miss, 5);
    ra.on_locked_hit(&features("mainline-6.17"));
    ra.on_fault_hit();
    assert_eq!(ra.mmap_miss, 3);
    ra.on_fault_around(16);
    assert_eq!(ra.mmap_miss, 0);
    let hits = |variant: &str, is_refault| fault_around_hits(&features(variant), 16, is_refault);
    assert_eq!(
        [hits("mainline-6.9", true), hits("mainline-6.10", true), hits("mainline-6.10", false)],
        [16, 0, 16]
    );
}

/// Readahead with sets and no state but what the kernel's comments say that it has.
struct Model {
    f: ReadaheadFeatures,
    cached: BTreeSet<u32>,
    marked: BTreeSet<u32>,
    states: Vec<FileRaState>,
}

impl Model {
    fn fetch(&mut self, window: Window) -> Vec<u32> {
        let end = (window.start + window.pages).min(FILE_PAGES);
        let missing: Vec<u32> = (window.start..end).filter(|page| !self.cached.contains(page)).collect();
        let mark = end as i64 - i64::from(window.lookahead);
        self.marked.extend(missing.iter().filter(|&&page| i64::from(page) == mark));
        self.cached.extend(&missing);
        missing
    }

    fn read(&mut self, descriptor: usize, index: u32, pages: u32) -> Vec<u32> {
        let f = self.f;
        let mut came = Vec::new();
        let last = index + pages;
        for page in index..last.min(FILE_PAGES) {
            if !self.cached.contains(&page) {
                let cached = self.cached.clone();
                let before = |most: u32| {
                    (0..most).take_while(|back| page > *back && cached.contains(&(page - 1 - back))).count()
                        as u32
                };
                let window = self.states[descriptor].on_miss(&f, page, last - page, before);
                came.extend(self.fetch(window));
                if self.cached.insert(page) {
                    came.push(page);
                }
            }
            if self.states[descriptor].ra_pages > 0 && self.marked.remove(&page) {
                let cached = self.cached.clone();
                let after =
                    |most: u32| (0..most).take_while(|on| cached.contains(&(page + 1 + on))).count() as u32;
                if let Some(window) = self.states[descriptor].on_marker(&f, page, 0, last - page, after) {
                    came.extend(self.fetch(window));
                }
            }
            if f.position_moves_within_request {
                self.states[descriptor].prev_end = Some(page + 1);
            }
        }
        self.states[descriptor].prev_end = Some(last.min(FILE_PAGES));
        came
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_page_cache_does_what_the_model_does(
        variant in proptest::sample::select(&RELEASES[..]),
        reads in proptest::collection::vec(
            (0..3usize, 0..FILE_PAGES, prop_oneof![Just(1u32), 1..12u32, 1..200u32], 1..5u32), 1..60)
    ) {
        let mut host = host(variant, &[Advice::Normal, Advice::Sequential, Advice::Random], false);
        let states = vec![
            FileRaState::new(32, 320),
            FileRaState::new(64, 320),
            FileRaState { random: true, ..FileRaState::new(32, 320) },
        ];
        let mut model = Model { f: features(variant), cached: BTreeSet::new(), marked: BTreeSet::new(), states };
        for (descriptor, index, pages, times) in reads {
            for round in 0..times {
                let index = index + round * pages;
                if index < FILE_PAGES {
                    let came = host.read(descriptor, index, pages).concat();
                    prop_assert_eq!(came, model.read(descriptor, index, pages));
                }
            }
        }
        host.mm.validate(0);
    }

    /// Under memory pressure every read succeeds, each page is read once, and all invariants hold.
    #[test]
    fn memory_runs_short_in_the_middle_of_windows(
        variant in proptest::sample::select(&RELEASES[..]),
        // Enough for two windows, whose pages may all be locked.
        limit in 130..300u64,
        large_folios in any::<bool>(),
        reads in proptest::collection::vec((0..2usize, 0..FILE_PAGES - 40, 1..40u32), 1..200)
    ) {
        let mut host = host(variant, &[Advice::Normal, Advice::Sequential], large_folios);
        let group = host.mm.parts.lrus.create_memcg(Memcg::ROOT);
        host.mm.parts.lrus.memcg_mut(group).max = limit;
        let mut folios = Vec::new();
        for (descriptor, index, pages) in reads {
            let mut request = host.mm.parts.page_cache.begin_read(group, host.descriptors[descriptor], index, pages);
            let mut at = index;
            while let Ok(Some(Read::Hit(id) | Read::Miss(id))) =
                host.mm.enter(&mut host.machine, Cpu(0)).read_next(&mut request)
            {
                let first = host.mm.parts.page_of_folio(id).1;
                let pages = 1 << host.mm.parts.lrus.folio_order(id);
                prop_assert!(first.is_multiple_of(pages) && (first..first + pages).contains(&at), "{} at {}", at, first);
                prop_assert!(first + pages <= FILE_PAGES && (large_folios || pages == 1));
                at += 1;
                while host.mm.parts.page_cache.take_submitted_read(&mut folios) {
                    folios.drain(..).for_each(|id| host.mm.parts.lrus.end_read(id));
                }
            }
            prop_assert!(at == index + pages, "{} of {}", at - index, pages);
        }
        host.mm.validate(0);
    }
}
