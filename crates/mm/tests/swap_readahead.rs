//! What swap readahead reads, compared with Linux 6.18.44: seven orders of touching 1024 pages that are
//! swapped out, by address and by entry.

mod reclaim_machine;

use machine::{Cpu, Machine};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::folio::FolioId;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::{Category, Event, MemoryManager, Series};

const CPU: Cpu = Cpu(0);
const PAGES: u64 = 1024;
/// The first page of a page table.
const START: Vpn = 1 << 20;

struct Host {
    machine: Machine<Category>,
    mm: MemoryManager,
    memcg: Memcg,
    process: MmId,
}

impl Host {
    /// 1024 pages that are swapped out to a disk in order, their entries aligned as they were when Linux was
    /// recorded.
    fn new(by_address: bool) -> Host {
        (0..400).find_map(|before| Host::behind(by_address, before)).expect("one aligns them")
    }

    /// Like `new`, but behind the entries of another process, which had `before` pages and has exited. `None`
    /// if that does not align the entries.
    fn behind(by_address: bool, before: u64) -> Option<Host> {
        let (machine, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant("mainline-6.18").unwrap());
        mm.set("swap/vma_ra_enabled", if by_address { "1" } else { "0" }).unwrap();
        mm.parts.swap.swapon(4096, None);
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        let other = mm.parts.create_mm(memcg);
        let mut host = Host { machine, mm, memcg, process: other };
        if before > 0 {
            host.store(other, START, before);
        }
        host.swap_out();
        // The first page table walk looks at the whole of a new address space, so pages are swapped out in
        // order.
        let process = host.mm.parts.create_mm(memcg);
        host.process = process;
        host.store(process, START, PAGES);
        host.swap_out();
        host.mm.enter(&mut host.machine, CPU).exit_mm(other);
        let entry = |page| host.mm.parts.address_spaces.pte(process, START + page).swap_entry();
        let first = entry(0).expect("it is swapped out");
        let in_order = (0..PAGES).all(|page| entry(page) == Some(page as u32 + first));
        (in_order && first % 64 == 1).then_some(host)
    }

    fn store(&mut self, process: MmId, start: Vpn, pages: u64) {
        let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE);
        self.mm.enter(&mut self.machine, CPU).mmap_fixed(process, start, pages, backing, flags);
        for page in start..start + pages {
            self.mm.enter(&mut self.machine, CPU).touch(process, page, true).unwrap();
        }
    }

    /// Swaps out everything else, as another process of the memcg needs all memory.
    fn swap_out(&mut self) {
        self.mm.parts.lrus.memcg_mut(self.memcg).max = 1;
        let other = self.mm.parts.create_mm(self.memcg);
        let start =
            self.mm.enter(&mut self.machine, CPU).mmap(other, 160, Backing::Anonymous, VmFlags::PRIVATE);
        for page in start..start + 160 {
            let _ = self.mm.enter(&mut self.machine, CPU).touch(other, page, true);
            for id in self.mm.parts.page_cache.take_submitted_writes() {
                self.mm.enter(&mut self.machine, CPU).end_write(id);
            }
        }
        self.mm.enter(&mut self.machine, CPU).exit_mm(other);
        self.mm.parts.lrus.memcg_mut(self.memcg).max = u64::MAX;
        self.mm.validate(0);
    }

    fn load(&mut self, page: u64) -> Touch {
        self.mm.enter(&mut self.machine, CPU).touch(self.process, START + page, false).unwrap()
    }

    /// Takes the requests that wait for the disk.
    fn requests(&mut self) -> Vec<Vec<FolioId>> {
        let mut requests = Vec::new();
        let mut folios = Vec::new();
        while self.mm.parts.swap.take_submitted_swap_read(&mut folios) {
            requests.push(std::mem::take(&mut folios));
        }
        requests
    }
}

#[test]
fn reads_what_linux_reads() {
    let recording = include_str!("data/swap_readahead.csv");
    let mut traces = 0;
    for line in recording.lines().filter(|line| !line.starts_with('#')) {
        let [how, pattern, pages, columns @ ..] = &line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let mut host = Host::new(*how == "address");
        let pages: Vec<u64> = pages.split(' ').map(|page| page.parse().unwrap()).collect();
        // By entry, the history is one for all of swap, and its state before the recording is not known: some
        // misses far from each other make it irrelevant, 40 in the recording and some more here.
        let known = if *how == "address" { 0 } else { 40 };
        if known > 0 {
            let is_far = |&page: &u64| pages.iter().all(|other| (other + 1) / 8 != (page + 1) / 8);
            (519..PAGES).step_by(8).filter(is_far).step_by(2).for_each(|page| _ = host.load(page));
        }
        let events = [Event::Pswpin, Event::SwapRa, Event::SwapRaHit];
        let mut before = events.map(|event| host.mm.counters().get(event));
        let (mut found, mut recorded) = (Vec::new(), Vec::new());
        for (touch, &page) in pages.iter().enumerate() {
            host.load(page);
            host.mm.parts.end_swap_reads();
            let after = events.map(|event| host.mm.counters().get(event));
            found.push(std::array::from_fn(|i| after[i] - before[i]));
            recorded
                .push(std::array::from_fn::<u64, 3, _>(|i| u64::from(columns[i].as_bytes()[touch] - b'0')));
            before = after;
        }
        let differs = (known..found.len()).find(|&touch| found[touch] != recorded[touch]);
        assert_eq!(differs, None, "by {how}, {pattern}: {:?}", differs.map(|at| (found[at], recorded[at])));
        host.mm.validate(0);
        traces += 1;
    }
    assert_eq!(traces, 14);
}

#[test]
fn what_lies_together_is_one_request() {
    let mut host = Host::new(true);
    let Touch::ReadSwap(first) = host.load(0) else { panic!("it is in swap") };
    // Four pages of a window of eight are before the VMA.
    let requests = host.requests();
    assert_eq!(requests.iter().map(Vec::len).collect::<Vec<_>>(), [5]);
    assert_eq!(requests[0][0], first);
    // The next page is being read, and a fault on it waits for that.
    assert_eq!(host.load(1), Touch::AwaitSwap(requests[0][1]));
    assert!(requests[0].iter().all(|&id| host.mm.parts.lrus.is_locked(id)) && host.requests().is_empty());
    requests[0].iter().for_each(|&id| host.mm.parts.lrus.end_read(id));
    assert_eq!((host.load(2), host.load(1)), (Touch::Minor, Touch::Mapped));
    host.mm.validate(0);
}

#[test]
fn what_is_read_for_nobody_comes_free() {
    let mut host = Host::new(true);
    host.load(100);
    host.mm.enter(&mut host.machine, CPU).exit_mm(host.process);
    host.mm.validate(0);
    assert_eq!(host.mm.parts.swap.used(), 7, "pages read ahead are still being read");
    host.mm.parts.end_swap_reads();
    host.swap_out();
    assert_eq!(host.mm.parts.swap.used(), 0);
}

#[test]
fn a_page_at_a_time() {
    let mut host = Host::new(true);
    host.mm.set("vm.page-cluster", "0").unwrap();
    (0..20).for_each(|page| assert!(matches!(host.load(page), Touch::ReadSwap(_))));
    assert_eq!((host.mm.counters().get(Event::SwapRa), host.requests().len()), (0, 20));
}
