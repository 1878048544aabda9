//! zswap, against what a kernel did with the same pages, and release by release.

mod reclaim_machine;
mod swap_host;

use machine::{Costs, Machine, Node, Time, Topology};
use mm::address_space::{Backing, MmId, VmFlags};
use mm::memcontrol::{Memcg, MemcgFile, MemcgStep};
use mm::memory_map::MemoryRange;
use mm::zswap::{Compressor, ShrinkWork};
use mm::{Category, Event, MemoryManager, Series, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;
use swap_host::{CPU, Host};

/// A machine whose programs' pages compress to a number of bytes each, with a process in a memory cgroup.
struct Compressing {
    machine: Machine<Category>,
    mm: MemoryManager,
    memcg: Memcg,
    process: MmId,
    start: u64,
}

impl Compressing {
    /// With so many pages of memory and of swap on a disk, of which the process maps `pages`, all in memory.
    fn new(variant: &str, memory: u64, pages: u64, bytes: u32) -> Compressing {
        Compressing::with_swap(variant, memory, pages, bytes, None)
    }

    /// The same with swap that takes this time for a page, if it writes at once.
    fn with_swap(variant: &str, memory: u64, pages: u64, bytes: u32, at_once: Option<Time>) -> Compressing {
        let topology = Topology::of_nodes(1, 2);
        let range = MemoryRange::all_free(Node(0), ZoneType::Normal, 1 << 20..(1 << 20) + memory as u32);
        let mut settings = Settings::default();
        for (name, value) in [
            ("zswap.enabled", "1"),
            ("zswap.max_pool_percent", "1"),
            ("transparent_hugepage/enabled", "never"),
        ] {
            settings.set(name, value).unwrap();
        }
        let features = Series::PCP.variant(variant).unwrap().features;
        let mut mm = MemoryManager::new(&topology, &[range], features, settings, Pcg64Mcg::new(1));
        let mut machine = Machine::new(topology, Costs::FREE);
        let (compress, decompress) = (Time::from_nanoseconds(5000), Time::from_nanoseconds(2000));
        mm.parts.zswap.set_compressor(Compressor { compress, decompress, bytes: 1500 });
        mm.parts.swap.swapon(memory, at_once);
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        let process = mm.parts.create_mm(memcg);
        mm.parts.address_spaces.set_compressed_bytes(process, vec![bytes]);
        let start = mm.enter(&mut machine, CPU).mmap(process, pages, Backing::Anonymous, VmFlags::PRIVATE);
        let mut host = Compressing { machine, mm, memcg, process, start };
        host.store(0..pages);
        host
    }

    fn store(&mut self, pages: Range<u64>) {
        for page in pages {
            let touch = self.mm.enter(&mut self.machine, CPU).touch(self.process, self.start + page, true);
            touch.unwrap();
            self.end_io();
        }
    }

    /// Ends what the device does.
    fn end_io(&mut self) {
        self.mm.parts.end_swap_reads();
        for id in self.mm.parts.page_cache.take_submitted_writes() {
            self.mm.enter(&mut self.machine, CPU).end_write(id);
        }
    }

    /// Reclaims some pages of the process.
    fn reclaim(&mut self, pages: u64) {
        let mut kernel = self.mm.enter(&mut self.machine, CPU);
        let mut write = kernel.begin_memcg_write(self.memcg, MemcgFile::Reclaim, 4096 * pages);
        while let MemcgStep::Again = self.mm.enter(&mut self.machine, CPU).step_memcg_write(&mut write) {
            self.end_io();
        }
    }

    /// Reclaims until the pool refuses a page.
    fn fill(&mut self) {
        while !self.mm.parts.zswap.take_shrink_request() {
            let left = self.mm.parts.address_spaces.mm(self.process).rss();
            assert!(left > 0, "the pool has room for all pages");
            self.reclaim(1);
        }
    }

    /// Lets the worker run once.
    fn shrink(&mut self) {
        let mut work = ShrinkWork::default();
        while work.step(&mut self.mm.enter(&mut self.machine, CPU)) {}
        self.end_io();
    }

    fn count(&self, event: Event) -> u64 {
        self.mm.counters().get(event)
    }

    fn pool_kib(&self) -> u64 {
        4 * self.mm.parts.zswap.pool_pages()
    }
}

/// Linux 6.18.44 with 24,684,092 KiB and `max_pool_percent` at 1: a process's pages that lzo compresses to 2213 bytes were paged out
/// in order. From /proc/meminfo, /proc/vmstat and the runs of `shrink_worker` that ftrace saw.
#[test]
fn a_full_pool_is_written_back_as_by_the_recorded_kernel() {
    // Swap that writes at once is reclaimed page by page, as MADV_PAGEOUT does.
    let mut host = Compressing::with_swap("mainline-6.18", 24_684_092 / 4, 160_000, 2213, Some(Time::ZERO));
    host.fill();
    assert_eq!((host.count(Event::Zswpout), host.pool_kib()), (113_125, 246_840));
    // Each run passes over fifteen entries that are referenced, and one end of the memory cgroups.
    let mut runs = 0;
    while host.count(Event::Zswpwb) == 0 {
        host.shrink();
        runs += 1;
    }
    assert_eq!((runs, host.count(Event::Zswpwb), host.pool_kib()), (7542, 11_319, 222_144));
    host.fill();
    assert_eq!((host.count(Event::Zswpout), host.pool_kib()), (124_444, 246_840));
    host.shrink();
    assert_eq!((host.count(Event::Zswpwb), host.pool_kib()), (22_638, 222_144));
    host.mm.validate(0);
    host.store(0..160_000);
    assert_eq!(host.pool_kib(), 0, "all pages are in memory again");
    host.mm.validate(0);
}

/// What each release writes back in the first run of its worker.
#[test]
fn the_worker_of_each_release() {
    // Of 10,000 pages the pool may have 100: 34 zspages of 3 pages with 8 pages of 1500 bytes each, and then 90.
    for (variant, first) in [
        ("mainline-6.1", 1),
        ("mainline-6.5", 32),
        ("mainline-6.8", 32),
        ("mainline-6.11", 32),
        ("mainline-6.12", 0),
        ("mainline-6.18", 0),
    ] {
        let mut host = Compressing::new(variant, 10_000, 1000, 1500);
        host.fill();
        host.shrink();
        let stored = host.count(Event::Zswpout);
        assert_eq!((stored, host.count(Event::Zswpwb)), (265, first), "{variant}");
        host.mm.validate(0);
    }
}

/// A page that is loaded leaves the pool from 6.9 on. If it is clean it is reclaimed without being compressed again before.
#[test]
fn a_load_takes_the_page_out_of_the_pool_from_6_9_on() {
    for (variant, stored) in [("mainline-6.8", 1), ("mainline-6.9", 0)] {
        let mut host = Compressing::new(variant, 10_000, 1, 1500);
        host.reclaim(1);
        assert_eq!(host.mm.parts.zswap.stored_pages(), 1, "{variant}");
        let touch = host.mm.enter(&mut host.machine, CPU).touch(host.process, host.start, false);
        assert!(touch.is_ok());
        assert_eq!((host.count(Event::Zswpin), host.count(Event::Pswpin)), (1, 0), "{variant}");
        assert_eq!(host.mm.parts.zswap.stored_pages(), stored, "{variant}");
        host.reclaim(1);
        assert_eq!(host.count(Event::Zswpout), 2 - stored, "{variant}");
        host.mm.validate(0);
    }
}

/// Pages that do not compress, by release and by `memory.zswap.writeback`.
#[test]
fn what_does_not_compress_goes_to_the_device_before_6_18() {
    for (variant, writeback, in_zswap) in
        [("mainline-6.17", true, 0), ("mainline-6.18", true, 100), ("mainline-6.18", false, 0)]
    {
        let mut host = Compressing::new(variant, 100_000, 100, 4200);
        host.mm.parts.lrus.memcg_mut(host.memcg).zswap_writeback = writeback;
        host.reclaim(100);
        assert_eq!(host.mm.parts.zswap.stored_pages(), in_zswap, "{variant}, writeback {writeback}");
        assert_eq!(host.mm.parts.zswap.pool_pages(), in_zswap);
        host.mm.validate(0);
    }
}

/// `memory.zswap.max` counts bytes, and 0 lets no page in.
#[test]
fn a_memory_cgroup_has_no_more_than_its_limit() {
    for (limit, stored) in [(0, 0), (10, 28)] {
        let mut host = Compressing::new("mainline-6.18", 100_000, 100, 1500);
        host.mm.parts.lrus.memcg_mut(host.memcg).zswap_max = limit;
        host.reclaim(100);
        // 28 pages take 10.25 pages of memory.
        assert_eq!(host.mm.parts.zswap.stored_pages(), stored, "{limit} pages");
        host.mm.validate(0);
    }
}

/// Large folios are stored whole from 6.13 on.
#[test]
fn large_folios_are_compressed_from_6_13_on() {
    for (variant, stored) in [("mainline-6.12", 0), ("mainline-6.13", 64)] {
        let mut host = Host::new(variant, "64K", 64, 4096, false);
        host.mm.set("zswap.enabled", "1").unwrap();
        let compressor = Compressor { compress: Time::ZERO, decompress: Time::ZERO, bytes: 1500 };
        host.mm.parts.zswap.set_compressor(compressor);
        host.mm.set("zswap.max_pool_percent", "50").unwrap();
        host.store_to_all();
        host.swap_out();
        assert_eq!(host.mm.parts.zswap.stored_pages(), stored, "{variant}");
        host.store_to_all();
        assert_eq!(host.mm.parts.zswap.stored_pages(), 0, "{variant}");
    }
}
