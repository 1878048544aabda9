//! Files of the kernel that do something when they are written: compaction of nodes, and dropping of caches.

mod reclaim_machine;

use machine::{Cpu, Machine};
use mm::address_space::{Backing, VmFlags};
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::write::WriteError;
use mm::xarray::FileId;
use mm::{Category, Event, MemoryManager, Series, Variant};

const CPU: Cpu = Cpu(0);
/// Pageblock order with pages of 4 KiB.
const HUGE: usize = 9;

struct Host {
    machine: Machine<Category>,
    mm: MemoryManager,
}

impl Host {
    fn new(variant: &Variant) -> Host {
        let (machine, mm) = reclaim_machine::boot(variant);
        Host { machine, mm }
    }

    fn write(&mut self, file: &str, value: &str) {
        let write = self.mm.begin_write(file, value).unwrap_or_else(|error| panic!("{error}"));
        self.mm.enter(&mut self.machine, CPU).finish_write(write);
        self.mm.validate(0);
    }

    fn read(&mut self, file: FileId, pages: std::ops::Range<u32>) {
        for page in pages {
            let read = self.mm.enter(&mut self.machine, CPU).read_page(Memcg::ROOT, file, page, Access::New);
            if let Read::Miss(id) = read.unwrap() {
                self.mm.parts.lrus.end_read(id);
            }
        }
    }

    fn is_cached(&self, file: FileId, page: u32) -> bool {
        self.mm.parts.page_cache.files().folio(file, page).is_some()
    }

    /// Free blocks of 2 MiB on each node.
    fn huge_blocks(&self) -> [u64; 2] {
        let zones = self.mm.parts.allocator.zones().iter().enumerate();
        let mut blocks = [0; 2];
        for (z, zone) in zones {
            blocks[zone.node.index()] += self.mm.parts.allocator.free_blocks(z)[HUGE..].iter().sum::<u64>();
        }
        blocks
    }

    /// Free memory of each node, in blocks of 2 MiB.
    fn huge_pages_free(&self) -> [u64; 2] {
        let mut pages = [0; 2];
        for zone in self.mm.parts.allocator.zones() {
            pages[zone.node.index()] += zone.free_pages() as u64 >> HUGE;
        }
        pages
    }

    /// Maps nearly all memory and unmaps three of four pages, scattered.
    fn fragment(&mut self) {
        self.mm.set("vm.min_free_kbytes", "128").unwrap();
        let process = self.mm.parts.create_mm(Memcg::ROOT);
        let start =
            self.mm.enter(&mut self.machine, CPU).mmap(process, 7000, Backing::Anonymous, VmFlags::PRIVATE);
        for page in start..start + 7000 {
            self.mm.enter(&mut self.machine, CPU).touch(process, page, true).expect("memory is free");
        }
        for page in (start..start + 7000).filter(|page| page.wrapping_mul(0x9E37_79B9) >> 7 & 3 != 0) {
            self.mm.enter(&mut self.machine, CPU).madvise_dontneed(process, page..page + 1);
        }
        self.mm.enter(&mut self.machine, CPU).drain_all_pages();
    }
}

#[test]
fn compact_memory_compacts_all_zones() {
    for variant in ["6.1", "6.12", "7.2"].map(|release| Variant::of_release(release).unwrap()) {
        let mut host = Host::new(variant);
        host.fragment();
        let before = host.huge_blocks();
        host.write("node1/compact", "1");
        let one = host.huge_blocks();
        assert_eq!(one[0], before[0], "{}", variant.name);
        assert!(before[1] < one[1] && one[1] + 2 >= host.huge_pages_free()[1], "{}: {one:?}", variant.name);
        host.write("vm.compact_memory", "1");
        let all = host.huge_blocks();
        // Two zones.
        assert!(before[0] < all[0] && all[0] + 4 >= host.huge_pages_free()[0], "{}: {all:?}", variant.name);
        assert_eq!(all[1], one[1], "{}", variant.name);
        // Nobody asked for a block, and nothing failed.
        let counted = host.mm.counters();
        assert_eq!(counted.get(Event::CompactStall), 0);
        assert!(counted.get(Event::CompactMigrateScanned) > 0);
    }
}

#[test]
fn drop_caches_drops_what_is_clean_and_mapped_nowhere() {
    for variant in Series::RECLAIM.variants() {
        let mut host = Host::new(variant);
        let file = host.mm.parts.page_cache.open_file();
        host.read(file, 0..200);
        let held = host.mm.parts.page_cache.files().folio(file, 7).unwrap();
        host.mm.parts.lrus.hold(held);
        host.mm.enter(&mut host.machine, CPU).write_page(Memcg::ROOT, file, 8).unwrap();
        let process = host.mm.parts.create_mm(Memcg::ROOT);
        let backing = Backing::File(file, 0);
        let start = host.mm.enter(&mut host.machine, CPU).mmap(process, 200, backing, VmFlags::default());
        host.mm.enter(&mut host.machine, CPU).touch(process, start + 100, false).unwrap();
        let mapped: Vec<u32> = (0..200)
            .filter(|&page| {
                host.mm.parts.address_spaces.pte(process, start + u64::from(page)).folio().is_some()
            })
            .collect();
        assert!(mapped.contains(&100));
        host.mm.enter(&mut host.machine, CPU).lru_add_drain_all();
        host.write("vm.drop_caches", "2");
        assert!((0..200).all(|page| host.is_cached(file, page)), "{}", variant.name);
        host.write("vm.drop_caches", "1");
        for page in 0..200 {
            let stays = page == 7 || page == 8 || mapped.contains(&page);
            assert_eq!(host.is_cached(file, page), stays, "{}: page {page}", variant.name);
        }
        let counted = host.mm.counters();
        assert_eq!((counted.get(Event::DropPagecache), counted.get(Event::DropSlab)), (1, 1));
    }
}

#[test]
fn what_is_dropped_does_not_refault() {
    for variant in Series::RECLAIM.variants() {
        let mut host = Host::new(variant);
        let file = host.mm.parts.page_cache.open_file();
        // More than there is memory: some are evicted and leave shadow entries.
        host.read(file, 0..9000);
        host.write("vm.drop_caches", "3");
        assert_eq!(host.mm.parts.page_cache.files().workingset_nodes(), 0, "{}", variant.name);
        let before = host.mm.counters().get(Event::WorkingsetRefaultFile);
        host.read(file, 0..2000);
        assert_eq!(host.mm.counters().get(Event::WorkingsetRefaultFile), before, "{}", variant.name);
    }
}

#[test]
fn before_6_6_what_is_in_folio_batches_stays() {
    for (release, stays) in [("6.1", true), ("6.5", true), ("6.6", false), ("6.12", false)] {
        let mut host = Host::new(Variant::of_release(release).unwrap());
        let file = host.mm.parts.page_cache.open_file();
        host.read(file, 0..5);
        host.write("vm.drop_caches", "1");
        assert_eq!(host.is_cached(file, 0), stays, "{release}");
    }
}

/// The answers of a 6.18 kernel; 6.1 takes any number for `vm.compact_memory`.
#[test]
fn values_that_are_refused() {
    let mut host = Host::new(Variant::of_release("6.18").unwrap());
    for (file, value) in [("vm.compact_memory", "1 7"), ("node0/compact", "7"), ("vm.drop_caches", "4")] {
        host.write(file, value);
    }
    for (file, value) in [
        ("vm.compact_memory", "0"),
        ("vm.compact_memory", "x"),
        ("vm.drop_caches", "0"),
        ("vm.drop_caches", "5"),
        ("vm.drop_caches", ""),
    ] {
        let refused = host.mm.begin_write(file, value);
        assert!(matches!(refused, Err(WriteError::Invalid { .. })), "{file} = {value}: {refused:?}");
        assert_eq!(host.mm.check_write(file, value).err(), refused.err());
    }
    for parameter in ["mem", "thp_anon", "hugepages-2048kB/boot", "hugepage_alloc_threads"] {
        let refused = host.mm.check_write(parameter, "1").unwrap_err().to_string();
        assert!(refused.contains("it is of the kernel's command line"), "{refused}");
    }
    let missing = host.mm.check_write("node2/compact", "1").unwrap_err().to_string();
    assert_eq!(missing, "node2/compact: no such file or directory (ENOENT): the machine has node0 to node1");
}
