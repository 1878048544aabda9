//! Address spaces against a slow model: a plain list of what each page of each process holds. After any
//! sequence of mapping, storing, forking, protecting and exiting, two pages are one folio exactly if the list
//! says that they hold the same thing, and VMAs say of every page what the list says.

mod reclaim_machine;

use machine::{Cpu, Machine};
use mm::address_space::{Backing, MmId, Pte, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::xarray::FileId;
use mm::{Category, MemoryManager, Series};
use proptest::prelude::*;
use reclaim_machine::boot;
use std::collections::BTreeMap;

/// The pages that processes use; they span three page tables.
const FIRST: Vpn = 500;
const PAGES: u64 = 530;

#[derive(Clone, Debug)]
enum Step {
    Map { process: usize, from: u64, pages: u64, what: What },
    Unmap { process: usize, from: u64, pages: u64 },
    DontNeed { process: usize, from: u64, pages: u64 },
    Protect { process: usize, from: u64, pages: u64, write: bool },
    Touch { process: usize, from: u64, pages: u64, write: bool },
    Fork { process: usize },
    Exit { process: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Anonymous,
    PrivateFile,
    SharedFile,
}

fn step() -> impl Strategy<Value = Step> {
    let part = (0..5usize, 0..PAGES, 1..60u64);
    let what = prop_oneof![Just(What::Anonymous), Just(What::PrivateFile), Just(What::SharedFile)];
    prop_oneof![
        3 => (part.clone(), what).prop_map(|((process, from, pages), what)| Step::Map { process, from, pages, what }),
        1 => part.clone().prop_map(|(process, from, pages)| Step::Unmap { process, from, pages }),
        1 => part.clone().prop_map(|(process, from, pages)| Step::DontNeed { process, from, pages }),
        2 => (part.clone(), any::<bool>())
            .prop_map(|((process, from, pages), write)| Step::Protect { process, from, pages, write }),
        8 => (part, any::<bool>())
            .prop_map(|((process, from, pages), write)| Step::Touch { process, from, pages, write }),
        2 => (0..5usize).prop_map(|process| Step::Fork { process }),
        1 => (0..5usize).prop_map(|process| Step::Exit { process }),
    ]
}

/// The content of a page of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Nothing,
    Zeroes,
    /// This page of the file.
    File(u64),
    /// The result of the store with this number, the first that gave the page a copy of its own.
    Own(u64),
}

#[derive(Clone, Copy, Debug)]
struct Page {
    what: What,
    /// The page of the file that is mapped here.
    of_file: u64,
    write: bool,
    holds: Holds,
}

type Model = BTreeMap<Vpn, Page>;

struct Host {
    mm: MemoryManager,
    machine: Machine<Category>,
    file: FileId,
    processes: Vec<(MmId, Model)>,
    stores: u64,
}

const CPU: Cpu = Cpu(0);

impl Host {
    fn new() -> Host {
        let (machine, mut mm) = boot(Series::RECLAIM.variant("mainline-6.18").unwrap());
        let file = mm.parts.page_cache.open_file();
        let processes = vec![(mm.parts.create_mm(Memcg::ROOT), Model::new())];
        Host { mm, machine, file, processes, stores: 0 }
    }

    fn run(&mut self, step: &Step) {
        let Host { mm, machine, file, processes, stores } = self;
        let living = processes.len();
        let pages = |from: u64, pages: u64| FIRST + from..FIRST + (from + pages).min(PAGES);
        match *step {
            Step::Map { process, from, pages: count, what } => {
                let (id, model) = &mut processes[process % living];
                let range = pages(from, count);
                // Each mapping of the file maps those pages of it that have the indices of the process's
                // pages.
                let backing = Backing::File(*file, range.start as u32);
                let (backing, flags) = match what {
                    What::Anonymous => (Backing::Anonymous, VmFlags::PRIVATE),
                    What::PrivateFile => (backing, VmFlags::PRIVATE),
                    What::SharedFile => (backing, VmFlags::PRIVATE.or(VmFlags::SHARED)),
                };
                mm.enter(machine, CPU).mmap_fixed(*id, range.start, range.end - range.start, backing, flags);
                for page in range {
                    model.insert(page, Page { what, of_file: page, write: true, holds: Holds::Nothing });
                }
            }
            Step::Unmap { process, from, pages: count } => {
                let (id, model) = &mut processes[process % living];
                mm.enter(machine, CPU).munmap(*id, pages(from, count));
                model.retain(|page, _| !pages(from, count).contains(page));
            }
            Step::DontNeed { process, from, pages: count } => {
                let (id, model) = &mut processes[process % living];
                mm.enter(machine, CPU).madvise_dontneed(*id, pages(from, count));
                model.range_mut(pages(from, count)).for_each(|(_, page)| page.holds = Holds::Nothing);
            }
            Step::Protect { process, from, pages: count, write } => {
                let (id, model) = &mut processes[process % living];
                let rights = if write { VmFlags::PRIVATE } else { VmFlags::READ };
                mm.parts.mprotect(*id, pages(from, count), rights);
                model.range_mut(pages(from, count)).for_each(|(_, page)| page.write = write);
            }
            Step::Touch { process, from, pages: count, write } => {
                let process = process % living;
                for at in pages(from, count) {
                    let Some(&page) = processes[process].1.get(&at) else { continue };
                    let write = write && page.write;
                    let touch = mm.enter(machine, CPU).touch(processes[process].0, at, write).unwrap();
                    if let Touch::ReadFile(id) = touch {
                        mm.parts.lrus.end_read(id);
                    }
                    let shared = |(_, model): &&(MmId, Model)| {
                        matches!(page.holds, Holds::Own(_))
                            && model.get(&at).map(|p| p.holds) == Some(page.holds)
                    };
                    let owners = processes.iter().filter(shared).count();
                    let holds = match (page.what, page.holds, write) {
                        (What::SharedFile, _, _) => Holds::File(page.of_file),
                        (_, Holds::Own(own), true) if owners == 1 => Holds::Own(own),
                        (_, _, true) => {
                            *stores += 1;
                            Holds::Own(*stores)
                        }
                        (What::Anonymous, Holds::Nothing, false) => Holds::Zeroes,
                        (What::PrivateFile, Holds::Nothing, false) => Holds::File(page.of_file),
                        (_, held, false) => held,
                    };
                    processes[process].1.get_mut(&at).unwrap().holds = holds;
                }
            }
            Step::Fork { process } if living < 5 => {
                let (id, model) = &processes[process % living];
                let child = mm.enter(machine, CPU).fork_mm(*id);
                let model = model.clone();
                processes.push((child, model));
            }
            Step::Exit { process } if living > 1 => {
                let (id, _) = processes.swap_remove(process % living);
                mm.enter(machine, CPU).exit_mm(id);
            }
            Step::Fork { .. } | Step::Exit { .. } => {}
        }
    }

    /// Panics if a PTE, a folio or a VMA differs from the list.
    fn check(&self) {
        let mut folios = BTreeMap::new();
        for (id, model) in &self.processes {
            let space = self.mm.parts.address_spaces.mm(*id);
            for at in FIRST..FIRST + PAGES {
                let vma = space.vmas.find(at);
                let Some(page) = model.get(&at) else {
                    assert_eq!(vma, None, "page {at} of {id:?}");
                    continue;
                };
                let vma = vma.unwrap_or_else(|| panic!("page {at} of {id:?} is mapped: {page:?}"));
                assert_eq!(vma.flags.has(VmFlags::WRITE), page.write, "page {at} of {id:?}: {vma:?}");
                assert_eq!(vma.flags.has(VmFlags::SHARED), page.what == What::SharedFile, "{vma:?}");
                assert_eq!(vma.is_private(), page.what != What::SharedFile, "{vma:?}");
                let entry = self.mm.parts.address_spaces.pte(*id, at);
                let writable = entry.has(Pte::WRITE);
                assert!(!writable || page.write, "page {at} of {id:?}: {entry:?}, {page:?}");
                match page.holds {
                    // A child maps zeroes and file pages by faults of its own.
                    Holds::Nothing | Holds::Zeroes | Holds::File(_) if entry == Pte::NONE => {}
                    Holds::Zeroes => assert_eq!(entry, Pte::ZERO),
                    Holds::Nothing => panic!("nothing was touched at page {at} of {id:?}: {entry:?}"),
                    holds @ (Holds::File(_) | Holds::Own(_)) => {
                        let folio = entry.folio().unwrap_or_else(|| panic!("{holds:?} at {at}: {entry:?}"));
                        assert_eq!(*folios.entry(holds).or_insert(folio), folio, "{holds:?} is one folio");
                    }
                }
            }
        }
        let mut distinct: Vec<_> = folios.values().collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), folios.len(), "different things are different folios: {folios:?}");
        for (id, _) in &self.processes {
            let areas: Vec<_> = self.mm.parts.address_spaces.mm(*id).vmas.iter().collect();
            for pair in areas.windows(2) {
                let equal = pair[0].end == pair[1].start
                    && pair[0].flags == pair[1].flags
                    && pair[0].backing == Backing::Anonymous
                    && pair[1].backing == Backing::Anonymous;
                assert!(!equal, "equal neighbours are one area: {pair:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hold_what_processes_stored(steps in proptest::collection::vec(step(), 1..50)) {
        let mut host = Host::new();
        for step in &steps {
            host.run(step);
            host.check();
            host.mm.validate(0);
        }
        for (id, _) in host.processes.drain(..) {
            host.mm.enter(&mut host.machine, CPU).exit_mm(id);
        }
        host.mm.validate(0);
    }
}

/// Each process of a chain of forks exits once its child runs: the last one still has all that they stored.
#[test]
fn outlive_those_they_were_copied_from() {
    let mut host = Host::new();
    host.run(&Step::Map { process: 0, from: 0, pages: 40, what: What::Anonymous });
    host.run(&Step::Touch { process: 0, from: 0, pages: 40, write: true });
    for _ in 0..3 {
        host.run(&Step::Fork { process: host.processes.len() - 1 });
    }
    for _ in 0..3 {
        host.run(&Step::Exit { process: 0 });
        host.check();
        host.mm.validate(0);
    }
    let (last, _) = host.processes[0];
    assert_eq!(host.mm.parts.address_spaces.mm(last).anon_pages(), 40);
}
