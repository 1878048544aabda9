//! When flushers write, what they write first, and which tasks they make wait.

mod reclaim_machine;

use machine::{Cpu, Machine, Time};
use mm::memcontrol::Memcg;
use mm::writeback::{Dirtier, Flush};
use mm::xarray::FileId;
use mm::{Category, MemoryManager, Series};
use proptest::prelude::*;

const CPU: Cpu = Cpu(0);

struct Host {
    machine: Machine<Category>,
    mm: MemoryManager,
    task: Dirtier,
    /// Files and first pages of folios in the order in which they were written to the device.
    written: Vec<(FileId, u32)>,
}

fn seconds(seconds: u64) -> Time {
    Time::from_nanoseconds(seconds * 1_000_000_000)
}

impl Host {
    /// Half of about 8,500 pages may be dirty; flushers write from a quarter of that on.
    fn new() -> Host {
        let (machine, mut mm) = reclaim_machine::boot(Series::RECLAIM.variant("mainline-6.18").unwrap());
        mm.set("vm.dirty_ratio", "50").unwrap();
        mm.set("vm.dirty_background_ratio", "12").unwrap();
        let task = Dirtier::new(mm.parts.allocator.page_size());
        Host { machine, mm, task, written: Vec::new() }
    }

    /// Writes pages of a file, all at the same time. If the task has to pause, returns the number of pages
    /// written by then and the end of the pause.
    fn write(&mut self, memcg: Memcg, file: FileId, pages: std::ops::Range<u32>) -> Option<(u32, Time)> {
        for page in pages {
            let write = self.mm.enter(&mut self.machine, CPU).write_page(memcg, file, page).unwrap();
            let now = self.machine.now(CPU);
            let waits = self.mm.enter(&mut self.machine, CPU).balance_dirty_pages_ratelimited(
                &mut self.task,
                file,
                write.dirtied,
                now,
            );
            if let Some(until) = waits {
                return Some((page, until));
            }
        }
        None
    }

    fn wait(&mut self, time: Time) {
        self.machine.charge(CPU, Category::Program, time);
    }

    /// Runs the flushers that have something to do, with a fast device. Returns the number of folios that
    /// they have written.
    fn flush(&mut self, most: u64) -> usize {
        let before = self.written.len();
        while let Some(mut flusher) = self.mm.parts.page_cache.start_flusher(self.machine.now(CPU)) {
            // The file of an extent that has not been submitted completely.
            let mut begun: Option<FileId> = None;
            while flusher.step(&mut self.mm.enter(&mut self.machine, CPU), most) == Flush::Request {
                let writes = self.mm.parts.page_cache.take_submitted_writes();
                assert!(!writes.is_empty() && writes.len() as u64 <= most);
                let (file, _) = self.mm.parts.page_of_folio(writes[0]);
                assert!(begun.is_none_or(|begun| begun == file));
                begun = (!flusher.ends_writeback()).then_some(file);
                for id in writes {
                    self.written.push(self.mm.parts.page_of_folio(id));
                    self.mm.enter(&mut self.machine, CPU).end_write(id);
                }
            }
            assert_eq!(begun, None);
        }
        self.mm.validate(0);
        self.written.len() - before
    }
}

#[test]
fn what_has_been_dirty_for_long_is_written() {
    let mut host = Host::new();
    let [old, young] = [(); 2].map(|()| host.mm.parts.page_cache.open_file());
    host.write(Memcg::ROOT, old, 0..40);
    assert_eq!(host.flush(32), 0, "the interval is not over");
    host.wait(seconds(5));
    assert_eq!(host.flush(32), 0, "the flusher runs, but no file is old enough");
    host.wait(seconds(20));
    host.write(Memcg::ROOT, young, 0..30);
    assert_eq!((host.flush(32), host.mm.parts.page_cache.nr_dirty()), (0, 70));
    host.wait(seconds(10));
    assert_eq!(
        (host.flush(32), host.mm.parts.page_cache.nr_dirty()),
        (40, 30),
        "30 s and more after the first page"
    );
    host.wait(seconds(25));
    assert_eq!((host.flush(32), host.mm.parts.page_cache.nr_dirty()), (30, 0));
    host.wait(seconds(100));
    assert!(
        host.mm.parts.page_cache.start_flusher(host.machine.now(CPU)).is_none(),
        "nothing is dirty, and nobody looks"
    );
}

/// On 6.18.44 with a background limit of 602 thousand pages, the flusher of a device that had been idle did
/// not write at 51 thousand dirty pages, and did at 128 thousand.
#[test]
fn an_idle_device_begins_with_an_eighth_of_the_background_limit() {
    let mut host = Host::new();
    let file = host.mm.parts.page_cache.open_file();
    let eighth = host.mm.parts.dirty_thresholds(host.mm.settings()).0 as u32 / 8;
    host.write(Memcg::ROOT, file, 0..eighth + 10);
    assert_eq!(host.flush(32), 0, "no task has been checked, so no flusher is woken");
    host.wait(seconds(5));
    assert!(host.flush(32) > 0);
}

#[test]
fn nobody_looks_for_old_pages_if_the_interval_is_0() {
    let mut host = Host::new();
    host.mm.set("vm.dirty_writeback_centisecs", "0").unwrap();
    let file = host.mm.parts.page_cache.open_file();
    host.write(Memcg::ROOT, file, 0..100);
    host.wait(seconds(1000));
    assert!(host.mm.parts.page_cache.start_flusher(host.machine.now(CPU)).is_none());
}

#[test]
fn above_the_background_limit_flushers_write_down_to_it() {
    let mut host = Host::new();
    let file = host.mm.parts.page_cache.open_file();
    assert_eq!(host.write(Memcg::ROOT, file, 0..1500), None, "no task is throttled halfway to the limit");
    let (background, limit) = host.mm.parts.dirty_thresholds(host.mm.settings());
    let dirty = host.mm.parts.page_cache.nr_dirty();
    assert!(dirty > background && dirty < (background + limit) / 2, "{background} < {dirty} < {limit}");
    host.flush(64);
    assert!(
        host.mm.parts.page_cache.nr_dirty() <= background,
        "{} of {background}",
        host.mm.parts.page_cache.nr_dirty()
    );
    // Slices are written whole: 1024 pages while the device counts as slow.
    assert_eq!(host.written.len() % 1024, host.written.len() - 1024);
    let pages: Vec<u32> = host.written.iter().map(|&(_, page)| page).collect();
    assert!(pages.is_sorted(), "in the order of the file");
}

#[test]
fn files_take_turns() {
    let mut host = Host::new();
    host.mm.set("vm.dirty_background_ratio", "49").unwrap();
    let files = [(); 2].map(|()| host.mm.parts.page_cache.open_file());
    for file in files {
        host.write(Memcg::ROOT, file, 0..1100);
    }
    host.mm.parts.page_cache.wakeup_flusher_threads();
    assert_eq!(host.flush(u64::MAX), 2200);
    let turns: Vec<FileId> = host.written.chunk_by(|a, b| a.0 == b.0).map(|turn| turn[0].0).collect();
    assert_eq!(turns, [files[0], files[1], files[0], files[1]], "1024 pages each, then the rest");
}

#[test]
fn a_group_waits_for_its_own_limit() {
    let mut host = Host::new();
    let small = host.mm.parts.lrus.create_memcg(Memcg::ROOT);
    host.mm.parts.lrus.memcg_mut(small).max = 1000;
    let (own, other) = (host.mm.parts.page_cache.open_file(), host.mm.parts.page_cache.open_file());
    let (held_back, until) = host.write(small, own, 0..1000).expect("half of its 1000 pages may be dirty");
    assert!((310..=500).contains(&held_back), "from halfway between 12 and 50 per cent on: {held_back}");
    assert!(until > host.machine.now(CPU));
    host.task = Dirtier::new(host.mm.parts.allocator.page_size());
    assert_eq!(host.write(Memcg::ROOT, other, 0..700), None, "the machine has room");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// All that is dirty is written once if everything is asked for, each file from its start or from where
    /// its last writeback ended, in requests of neighbouring pages. Whether blocks are chosen then or have
    /// been chosen before, no extent is left incomplete.
    #[test]
    fn all_that_is_dirty_is_written_once(
        writes in proptest::collection::vec((0..3usize, 0..900u32, 1..120u32), 1..30),
        new in any::<[bool; 3]>(),
        most in 1..200u64,
    ) {
        let mut host = Host::new();
        host.mm.set("vm.dirty_background_ratio", "50").unwrap();
        host.mm.set("vm.dirty_ratio", "100").unwrap();
        let files = [(); 3].map(|()| host.mm.parts.page_cache.open_file());
        for (file, _) in files.into_iter().zip(new).filter(|(_, new)| *new) {
            host.mm.parts.page_cache.set_delayed_allocation(file);
        }
        let mut dirty = std::collections::BTreeSet::new();
        for &(file, from, pages) in &writes {
            host.write(Memcg::ROOT, files[file], from..from + pages);
            dirty.extend((from..from + pages).map(|page| (files[file].0, page)));
        }
        prop_assert_eq!(host.mm.parts.page_cache.nr_dirty(), dirty.len() as u64);
        host.mm.parts.page_cache.wakeup_flusher_threads();
        host.flush(most);
        let mut written: Vec<(u32, u32)> = host.written.iter().map(|&(file, page)| (file.0, page)).collect();
        written.sort();
        prop_assert_eq!(written, dirty.into_iter().collect::<Vec<_>>());
        // The writeback of each file continues where it ended, and from the start of the file up to there.
        for &(file, from, pages) in &writes {
            host.write(Memcg::ROOT, files[file], from + 50..from + 50 + pages);
        }
        host.mm.parts.page_cache.wakeup_flusher_threads();
        host.flush(most);
        prop_assert_eq!(host.mm.parts.page_cache.nr_dirty(), 0);
    }
}

/// With delayed allocation, the writeback of an extent's pages ends with its last request; pages that are
/// written again have blocks already.
#[test]
fn new_pages_are_written_extent_by_extent() {
    let mut host = Host::new();
    let file = host.mm.parts.page_cache.open_file();
    host.mm.parts.page_cache.set_delayed_allocation(file);
    let requests = |host: &mut Host| {
        host.mm.parts.page_cache.wakeup_flusher_threads();
        let mut flusher = host.mm.parts.page_cache.start_flusher(host.machine.now(CPU)).unwrap();
        let mut requests = Vec::new();
        while flusher.step(&mut host.mm.enter(&mut host.machine, CPU), 32) == Flush::Request {
            let writes = host.mm.parts.page_cache.take_submitted_writes();
            requests.push((writes.len(), flusher.ends_writeback()));
            writes.into_iter().for_each(|id| host.mm.enter(&mut host.machine, CPU).end_write(id));
        }
        requests
    };
    host.write(Memcg::ROOT, file, 0..50);
    host.write(Memcg::ROOT, file, 60..70);
    assert_eq!(requests(&mut host), [(32, false), (18, true), (10, true)]);
    // The hole from 50 to 60 is new, the pages around it are not.
    host.write(Memcg::ROOT, file, 40..65);
    assert_eq!(requests(&mut host), [(10, true), (10, true), (5, true)]);
}
