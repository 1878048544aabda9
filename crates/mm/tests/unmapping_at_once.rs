//! Unmapping many pages at once gives the same result as one after the other: pages are freed in batches,
//! which must not show but for how often the locks of lruvecs are taken, which costs nothing here.

mod small_machine;

use machine::{Cpu, Machine, Time};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::pcp::NR_PCP_LISTS;
use mm::{Category, Counters, MemoryManager, MigrateType, Placement, Request, Series};
use proptest::prelude::*;
use std::ops::Range;

const CPU: Cpu = Cpu(0);

/// Pages of anonymous memory, fewer than a huge page has; pages of a file follow.
const ANON: u64 = 300;
const PAGES: u64 = 400;

#[derive(Clone)]
struct Host {
    machine: Machine<Category>,
    mm: MemoryManager,
    process: MmId,
    start: Vpn,
}

impl Host {
    fn new(variant: &str, limit: u64) -> Host {
        let (mut machine, mut mm) = small_machine::boot(Series::FOLIOS.variant(variant).unwrap().features);
        machine.costs.lock_section = Time::ZERO;
        mm.parts.swap.swapon(1000, Some(Time::ZERO));
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = limit;
        let process = mm.parts.create_mm(memcg);
        let file = Backing::File(mm.parts.page_cache.open_file(), 0);
        let start = mm.enter(&mut machine, CPU).mmap(process, ANON, Backing::Anonymous, VmFlags::PRIVATE);
        mm.enter(&mut machine, CPU).mmap_fixed(process, start + ANON, PAGES - ANON, file, VmFlags::PRIVATE);
        Host { machine, mm, process, start }
    }

    fn touch(&mut self, page: u64, write: bool) {
        let touch = self.mm.enter(&mut self.machine, CPU).touch(self.process, self.start + page, write);
        if let Ok(Touch::ReadFile(id)) = touch {
            self.mm.parts.lrus.end_read(id);
        }
        self.mm.parts.end_swap_reads();
    }

    fn unmap(&mut self, pages: Range<u64>) -> u64 {
        let pages = self.start + pages.start..self.start + pages.end;
        self.mm.enter(&mut self.machine, CPU).madvise_dontneed(self.process, pages).pages()
    }

    /// The counters, the time, the free pages of each list, and the pages that are allocated next.
    fn state(mut self) -> (Counters, Time, Vec<Vec<u32>>, Vec<u32>) {
        self.mm.validate(0);
        let (counters, now) = (self.mm.counters().clone(), self.machine.now(CPU));
        let of_cpu = self.mm.parts.allocator.zones().iter().map(|zone| &zone.pagesets[CPU.index()]);
        let lists =
            of_cpu.flat_map(|p| (0..NR_PCP_LISTS).map(|index| p.list(index).iter().copied().collect()));
        let lists = lists.collect();
        let request = Request::new(0, MigrateType::Movable, Placement::Local);
        let next = (0..500).map_while(|_| self.mm.enter(&mut self.machine, CPU).alloc(&request)).collect();
        (counters, now, lists, next)
    }
}

proptest! {
    #[test]
    fn as_one_after_the_other(
        variant in prop::sample::select(vec!["folios-base", "mainline-6.10", "mainline-6.18"]),
        touches in prop::collection::vec((0..PAGES, any::<bool>()), 1..800),
        limit in 80..600u64,
        locked in prop::option::of(0..ANON),
        child in any::<bool>(),
        first in 0..PAGES,
        pages in 1..PAGES,
    ) {
        let mut host = Host::new(variant, limit);
        let half = touches.len() / 2;
        for (number, &(page, write)) in touches.iter().enumerate() {
            if number == half {
                if let Some(page) = locked {
                    let pages = host.start + page..host.start + (page + 20).min(ANON);
                    _ = host.mm.enter(&mut host.machine, CPU).mlock(host.process, pages);
                }
                if child {
                    host.mm.enter(&mut host.machine, CPU).fork_mm(host.process);
                }
            }
            host.touch(page, write);
        }
        let mut other = host.clone();
        let unmapped = first..(first + pages).min(PAGES);
        let at_once = host.unmap(unmapped.clone());
        let one_by_one: u64 = unmapped.map(|page| other.unmap(page..page + 1)).sum();
        prop_assert_eq!(at_once, one_by_one);
        prop_assert!(host.state() == other.state());
    }
}
