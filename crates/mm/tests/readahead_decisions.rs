//! How much is read ahead: tables worked out by hand, a slow model of the whole, and invariants.

use std::collections::BTreeSet;

use machine::{Costs, Cpu, Machine, Topology};
use mm::address_space::{self, Backing, MmId, VmFlags, Vpn};
use mm::filemap::Read;
use mm::folio::FolioId;
use mm::lruvec::LruList;
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::readahead::policy::{
    FileRaState, ReadaheadFeatures, Window, folio_order, initial_size, marked_folio, next_size,
};
use mm::readahead::{Advice, OpenFileId};
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

/// Touches pages of a mapping of the file. Returns the faults that read, each with the pages that came in.
fn touch(host: &mut Host, mapping: (MmId, Vpn), pages: impl Iterator<Item = u32>) -> Vec<(u32, Vec<u32>)> {
    let Host { mm, machine, .. } = host;
    let mut folios = Vec::new();
    let mut came = Vec::new();
    for page in pages {
        mm.enter(machine, Cpu(0)).touch(mapping.0, mapping.1 + u64::from(page), false).unwrap();
        while mm.parts.page_cache.take_submitted_read(&mut folios) {
            came.push((page, folios.iter().map(|&id| mm.parts.page_of_folio(id).1).collect()));
            folios.drain(..).for_each(|id| mm.parts.lrus.end_read(id));
        }
    }
    came
}

#[test]
fn faults_read_around_and_behind_as_they_are_advised() {
    let mapped = |advice: address_space::Advice| {
        let mut host = host("pcp-base", &[Advice::Normal], false);
        let (file, open) = (host.file, host.descriptors[0]);
        let mm = host.mm.parts.create_mm(Memcg::ROOT);
        let start = host.mm.enter(&mut host.machine, Cpu(0)).mmap(
            mm,
            FILE_PAGES.into(),
            Backing::File(file, 0),
            VmFlags::READ,
        );
        host.mm.enter(&mut host.machine, Cpu(0)).madvise(mm, start..start + u64::from(FILE_PAGES), advice);
        // A single page, as long as no open file is known for the mapping.
        host.mm.enter(&mut host.machine, Cpu(0)).touch(mm, start + 599, false).unwrap();
        assert!(
            host.mm.parts.page_cache.files().nr_folios() == 1
                && !host.mm.parts.page_cache.take_submitted_read(&mut Vec::new())
        );
        host.mm.parts.page_cache.map_through(open);
        (host, (mm, start))
    };
    let (mut normal, mapping) = mapped(address_space::Advice::Normal);
    // Around page 300, with the marker eight pages from the end; then window after window.
    let came = touch(&mut normal, mapping, 300..350);
    assert_eq!(
        came,
        [(300, run(284, 315)), (308, run(316, 347)), (316, run(348, 379)), (348, run(380, 411))]
    );
    normal.mm.validate(0);

    let (mut random, mapping) = mapped(address_space::Advice::Random);
    assert_eq!(touch(&mut random, mapping, 300..303), []);
    assert_eq!(random.mm.parts.page_cache.files().nr_folios(), 4);

    let (mut sequential, mapping) = mapped(address_space::Advice::Sequential);
    // No page has been read before, and none before it is in memory: the request is a window.
    let came = touch(&mut sequential, mapping, 300..340);
    assert_eq!(came, [(300, run(300, 331)), (332, run(332, 363))]);
}

/// Readahead with sets, and with no state except what the kernel's comments describe.
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
