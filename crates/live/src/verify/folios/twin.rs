//! Runs the cases in the twin.

use std::convert::Infallible;
use std::ops::Range;

use machine::{Costs, Cpu, Machine, Node};
use mm::address_space::{self, Backing, MmId, Pte, VmFlags};
use mm::memcontrol::Memcg;
use mm::memory_map::MemoryRange;
use mm::page::PMD_ORDER;
use mm::{Category, Event, Features, MemoryManager, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

use super::case::{self, Case, Configuration};
use super::outcome::{Mapped, Statistics, layout};
use super::script::{Memory, Process};
use crate::verify::pcp::replay::topology;

/// Physical memory, 128 MiB: no case needs more.
const MEMORY: Range<u32> = 1 << 20..(1 << 20) + (1 << 15);

const CPU: Cpu = Cpu(0);

/// Start of the VMA before its offset, in pages: a 2 MiB boundary.
const START: u64 = 4 << 9;

/// A twin with a process, and the child that it may fork.
pub struct TwinMemory {
    machine: Machine<Category>,
    mm: MemoryManager,
    parent: MmId,
    child: Option<MmId>,
    /// The pages of the VMA.
    area: Range<u64>,
}

impl TwinMemory {
    /// A twin that has just booted.
    pub fn new(features: Features) -> TwinMemory {
        let topology = topology(1, 1);
        let range = MemoryRange::all_free(Node(0), ZoneType::Normal, MEMORY);
        let random = Pcg64Mcg::new(1);
        let mut mm = MemoryManager::new(&topology, &[range], features, Settings::default(), random);
        let parent = mm.parts.create_mm(Memcg::ROOT);
        // Counts are compared, not times.
        let machine = Machine::new(topology, Costs::FREE);
        TwinMemory { machine, mm, parent, child: None, area: 0..0 }
    }

    fn id(&self, process: Process) -> MmId {
        match process {
            Process::Parent => self.parent,
            Process::Child => self.child.expect("a child was forked"),
        }
    }

    /// The number of faults during `something`.
    fn faults_of(&mut self, something: impl FnOnce(&mut TwinMemory)) -> u64 {
        let before = self.mm.counters().get(Event::Pgfault);
        something(self);
        self.mm.counters().get(Event::Pgfault) - before
    }

    fn mapped(&self, process: Process, page: u64) -> Mapped {
        let entry = self.mm.parts.address_spaces.pte(self.id(process), page);
        match entry.folio() {
            None if entry == Pte::NONE => Mapped::None,
            None if entry == Pte::ZERO => Mapped::Zeroes,
            None => Mapped::Swap,
            Some(id) => {
                let order = self.mm.parts.lrus.folio_order(id);
                Mapped::Page { folio: id.index() as u64, order, index: page % (1 << order) }
            }
        }
    }
}

impl Memory for TwinMemory {
    type Error = Infallible;

    fn configure(&mut self, configuration: &Configuration) -> Result<(), Infallible> {
        for (file, value) in configuration.files() {
            let taken = self.mm.set(&format!("transparent_hugepage/{file}"), value);
            assert!(taken.is_ok(), "kernels accept {file} = {value}");
        }
        Ok(())
    }

    fn map(&mut self, case: &Case, populate: bool) -> Result<u64, Infallible> {
        let start = START + case.offset;
        self.area = start..start + case.pages;
        let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE);
        self.mm.enter(&mut self.machine, CPU).mmap_fixed(self.parent, start, case.pages, backing, flags);
        let advice = match case.advice {
            case::Advice::None => None,
            case::Advice::Huge => Some(address_space::Advice::HugePage),
            case::Advice::NoHuge => Some(address_space::Advice::NoHugePage),
        };
        if let Some(advice) = advice {
            self.mm.enter(&mut self.machine, CPU).madvise(self.parent, self.area.clone(), advice);
        }
        if !populate {
            return Ok(0);
        }
        Ok(self.faults_of(|twin| {
            for page in twin.area.clone() {
                let touched = twin.mm.enter(&mut twin.machine, CPU).populate(twin.parent, page);
                assert!(touched.is_ok(), "no case needs more memory than there is");
            }
        }))
    }

    fn touch(&mut self, process: Process, pages: &[u64], write: bool) -> Result<u64, Infallible> {
        let id = self.id(process);
        Ok(self.faults_of(|twin| {
            for page in pages {
                let touched = twin.mm.enter(&mut twin.machine, CPU).touch(id, twin.area.start + page, write);
                assert!(touched.is_ok(), "no case needs more memory than there is");
            }
        }))
    }

    fn lock(&mut self) -> Result<u64, Infallible> {
        Ok(self.faults_of(|twin| {
            let locked = twin.mm.enter(&mut twin.machine, CPU).mlock(twin.parent, twin.area.clone());
            assert!(locked.is_ok(), "no case needs more memory than there is");
        }))
    }

    fn drop_pages(&mut self, pages: Range<u64>) -> Result<(), Infallible> {
        let pages = self.area.start + pages.start..self.area.start + pages.end;
        self.mm.enter(&mut self.machine, CPU).madvise_dontneed(self.parent, pages);
        Ok(())
    }

    fn split(&mut self, pages: u64) -> Result<(), Infallible> {
        let first = self.area.start..self.area.start + pages;
        self.mm.parts.mprotect(self.parent, first, VmFlags::PRIVATE.or(VmFlags::EXEC));
        Ok(())
    }

    fn fork(&mut self) -> Result<(), Infallible> {
        self.child = Some(self.mm.enter(&mut self.machine, CPU).fork_mm(self.parent));
        Ok(())
    }

    fn exit(&mut self) -> Result<(), Infallible> {
        let child = self.child.take().expect("a child was forked");
        self.mm.enter(&mut self.machine, CPU).exit_mm(child);
        Ok(())
    }

    fn layout(&mut self, process: Process) -> Result<String, Infallible> {
        let pages: Vec<Mapped> = self.area.clone().map(|page| self.mapped(process, page)).collect();
        Ok(layout(&pages))
    }

    fn smaps(&mut self) -> Result<(u64, bool), Infallible> {
        let vma = self
            .mm
            .parts
            .address_spaces
            .mm(self.parent)
            .vmas
            .find(self.area.start)
            .expect("the VMA is mapped");
        let present = |&page: &u64| self.mm.parts.address_spaces.pte(self.parent, page).folio().is_some();
        let rss = 4 * vma.pages().filter(present).count() as u64;
        Ok((rss, self.mm.is_thp_eligible(self.parent, self.area.start)))
    }

    fn statistics(&mut self) -> Result<Statistics, Infallible> {
        let all = self.mm.parts.address_spaces.mthp_stats().iter().filter(|&(order, ..)| order <= PMD_ORDER);
        Ok(all.map(|(order, stat, count)| ((4 << order, stat.name().to_string()), count)).collect())
    }
}
