//! Machines with pools of huge pages, and the counters of a write to their files.

use machine::topology::{Cache, SharedBy};
use machine::{Cpu, Machine, Profile, Topology};
use mm::hugetlb::write::WriteOutcome;
use mm::memory_map::memory_layout;
use mm::{Category, Counters, Event, Features, MemoryManager, Series, Settings};
use rand_pcg::Pcg64Mcg;

/// The CPU of the task that writes.
pub const WRITER: Cpu = Cpu(0);

/// A machine and its kernel.
#[derive(Clone)]
pub struct Host {
    pub machine: Machine<Category>,
    pub mm: MemoryManager,
}

pub fn features(variant: &str) -> Features {
    Series::HUGETLB.variant(variant).unwrap_or_else(|| panic!("{variant}")).features
}

impl Host {
    /// A machine with one socket of four CPUs on each node, with vmemmap optimisation on.
    pub fn new(features: Features, nodes: u8, mib_per_node: u64) -> Host {
        let topology = Topology {
            caches: vec![Cache { level: 3, bytes: 32 << 20, shared_by: SharedBy::Socket }],
            ..Topology::of_nodes(nodes, 4)
        };
        let costs = Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).unwrap().costs();
        let memory = memory_layout(nodes, mib_per_node);
        let mut settings = Settings::default();
        settings.set("vm.hugetlb_optimize_vmemmap", "1").unwrap();
        let mm = MemoryManager::new(&topology, &memory, features, settings, Pcg64Mcg::new(1));
        Host { machine: Machine::new(topology, costs), mm }
    }

    /// `echo value > file`. Returns the outcome and what it counted.
    pub fn write(&mut self, file: &str, value: impl ToString) -> (Option<WriteOutcome>, Counted) {
        let before = self.mm.counters().clone();
        let memmap = self.memmap();
        let write = self.mm.begin_write(file, &value.to_string()).unwrap();
        let outcome = self.mm.enter(&mut self.machine, WRITER).finish_write(write);
        let counted = Counted { events: self.mm.counters().since(&before), memmap: self.memmap() - memmap };
        self.mm.validate(0);
        self.check_frames();
        (outcome, counted)
    }

    /// `echo count > nr_hugepages`. Returns what it counted.
    pub fn resize(&mut self, count: u64) -> Counted {
        self.write("vm.nr_hugepages", count).1
    }

    /// Frames that hold struct pages.
    pub fn memmap(&self) -> i64 {
        let vmemmap = &self.mm.parts.hugetlb.vmemmap;
        vmemmap.nr_memmap_pages() + vmemmap.nr_memmap_boot_pages()
    }

    /// Panics unless every struct page has a frame and only optimised pages share frames: frames + 7 for each
    /// optimised page of 2 MiB = all frames of boot.
    fn check_frames(&self) {
        let vmemmap = &self.mm.parts.hugetlb.vmemmap;
        let split = vmemmap.nr_split_sections() * 512;
        let distinct = vmemmap.frames_of_split_sections().len() as u64;
        let gigantic = self.mm.parts.hugetlb.hstates()[1].counters();
        if gigantic.nr == 0 && self.mm.parts.hugetlb.nr_deferred() == 0 {
            assert_eq!(distinct + 7 * self.mm.parts.hugetlb.nr_optimized(), split);
        }
    }
}

/// The counters that a write has advanced; each test looks at some of them.
#[allow(dead_code)]
pub struct Counted {
    pub events: Counters,
    /// Change of the sum of `nr_memmap_pages` and `nr_memmap_boot_pages`.
    pub memmap: i64,
}

#[allow(dead_code)]
impl Counted {
    pub fn get(&self, event: Event) -> u64 {
        self.events.get(event)
    }

    /// TLB flushes of everything, and of ranges.
    pub fn flushes(&self) -> (u64, u64) {
        (self.get(Event::TlbFlushAll), self.get(Event::TlbFlushKernelRange))
    }

    pub fn holds(&self) -> u64 {
        self.get(Event::HugetlbLockHolds)
    }
}
