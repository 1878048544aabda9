//! A memcg with one process, with or without swap, for tests.

use crate::reclaim_machine;
use machine::{Cpu, Machine, Time};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::huge_memory::stats::MthpStat;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::{Category, Event, MemoryManager, Series};

/// The CPU that everything runs on.
pub const CPU: Cpu = Cpu(0);

/// A memcg with one process.
pub struct Host {
    pub machine: Machine<Category>,
    pub mm: MemoryManager,
    pub memcg: Memcg,
    pub process: MmId,
    /// The first page of the process's mapping.
    pub start: Vpn,
    /// Number of pages of the mapping.
    pub pages: u64,
}

#[allow(dead_code)]
impl Host {
    /// A process with so many pages mapped, with folios of `sizes` at "always", and with `swap` pages of swap
    /// on zram or a disk.
    pub fn new(variant: &str, sizes: &str, pages: u64, swap: u64, zram: bool) -> Host {
        let mut host = Host::without_swap(variant, &format!("{sizes}:always"), pages);
        host.mm.parts.swap.swapon(swap, zram.then_some(Time::ZERO));
        host
    }

    /// Like `new`, but without swap, and with `thp_anon` as written there; empty for no large folios.
    pub fn without_swap(variant: &str, thp_anon: &str, pages: u64) -> Host {
        let (mut machine, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant(variant).unwrap());
        if !thp_anon.is_empty() {
            mm.set("thp_anon", thp_anon).unwrap();
        }
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        let process = mm.parts.create_mm(memcg);
        let start = mm.enter(&mut machine, CPU).mmap(process, pages, Backing::Anonymous, VmFlags::PRIVATE);
        Host { machine, mm, memcg, process, start, pages }
    }

    pub fn touch(&mut self, page: u64, write: bool) -> Touch {
        self.mm.enter(&mut self.machine, CPU).touch(self.process, self.start + page, write).unwrap()
    }

    /// Stores to all pages, whether they are swapped out or not.
    pub fn store_to_all(&mut self) {
        (0..self.pages).for_each(|page| _ = self.touch(page, true));
        self.mm.validate(0);
    }

    /// Reclaims from the memcg until it has `pages` pages, as far as that is possible.
    pub fn press(&mut self, pages: u64) {
        let before = self.mm.parts.lrus.memcg(self.memcg).max;
        self.mm.parts.lrus.memcg_mut(self.memcg).max = pages;
        let other = self.mm.parts.create_mm(self.memcg);
        let start =
            self.mm.enter(&mut self.machine, CPU).mmap(other, 160, Backing::Anonymous, VmFlags::PRIVATE);
        self.mm.enter(&mut self.machine, CPU).madvise(other, start..start + 160, Advice::NoHugePage);
        for page in start..start + 160 {
            let _ = self.mm.enter(&mut self.machine, CPU).touch(other, page, true);
            for id in self.mm.parts.page_cache.take_submitted_writes() {
                self.mm.enter(&mut self.machine, CPU).end_write(id);
            }
        }
        self.mm.enter(&mut self.machine, CPU).exit_mm(other);
        self.mm.parts.lrus.memcg_mut(self.memcg).max = before;
        self.mm.validate(0);
    }

    /// Swaps out all of the process's memory.
    pub fn swap_out(&mut self) {
        self.press(1);
        assert_eq!(self.mm.parts.address_spaces.mm(self.process).rss(), 0, "all is swapped out");
    }

    pub fn stat(&self, order: u8, stat: MthpStat) -> i64 {
        self.mm.parts.address_spaces.mthp_stats().get(order, stat)
    }

    pub fn count(&self, event: Event) -> u64 {
        self.mm.counters().get(event)
    }

    /// Pages of the process in folios of 64 KiB.
    pub fn large(&self) -> u64 {
        self.mm.parts.anon_pages_by_order(self.process)[4]
    }
}
