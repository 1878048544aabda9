//! What becomes of the `numab_state` of a VMA when the VMA is split, call by call and kernel by kernel.
//!
//! ```text
//!   mprotect, madvise, mbind, mlock,      │     │ part │     │     the part keeps it, the rest has a new one
//!   userfaultfd
//!   munmap   to 6.5                       │     │      │     │     the VMA before the hole keeps it
//!            from 6.6 on                  │     │      │     │     neither keeps it
//! ```
//!
//! In the kernel: callers of `split_vma` and `__split_vma` with `new_below` in mm/mprotect.c, mm/madvise.c,
//! mm/mempolicy.c, mm/mlock.c and fs/userfaultfd.c of 6.1 and 6.6, `vma_modify` of 6.7 and 6.12,
//! `do_vmi_align_munmap` of 6.4 and 6.6, `vms_gather_munmap_vmas` of 6.12.

mod reclaim_machine;

use machine::{Cpu, Machine, Node, Time};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::numa::migrate::policy::{Mempolicy, Mode, Nodes};
use mm::{Category, MemoryManager, Series, Variant};
use reclaim_machine::boot;
use std::ops::Range;

struct Process {
    machine: Machine<Category>,
    mm: MemoryManager,
    space: MmId,
}

/// Ranges of pages count from this one.
const FIRST: Vpn = 1024;

impl Process {
    /// A process with VMAs, which passes have met one after the other.
    fn with(variant: &str, areas: &[(Range<Vpn>, VmFlags)]) -> Process {
        let of_series = Series::NUMA.variant(variant);
        let (mut machine, mut mm) = boot(of_series.or_else(|| Variant::of_release(variant)).unwrap());
        for name in ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms"] {
            mm.set(&format!("numa_balancing/{name}"), "8").unwrap();
        }
        let space = mm.parts.create_mm(Memcg::ROOT);
        let now = machine.now(Cpu(0));
        let task = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100, None);
        mm.enter(&mut machine, Cpu(0)).switch_task(Some(task));
        let mut process = Process { machine, mm, space };
        for (pages, flags) in areas {
            process.map(pages, *flags);
            while process.record(pages.start).is_none() {
                process.tick();
            }
        }
        process
    }

    fn map(&mut self, pages: &Range<Vpn>, flags: VmFlags) {
        let Process { machine, mm, space } = self;
        let length = pages.end - pages.start;
        mm.enter(machine, Cpu(0)).mmap_fixed(*space, FIRST + pages.start, length, Backing::Anonymous, flags);
    }

    fn tick(&mut self) {
        let later = self.machine.now(Cpu(0)) + Time::from_nanoseconds(8_000_000);
        self.machine.wait_until(Cpu(0), Category::Program, later);
        self.mm.enter(&mut self.machine, Cpu(0)).numa_tick();
    }

    /// When the VMA was first to be scanned, which identifies its record.
    fn record(&self, page: Vpn) -> Option<u64> {
        self.mm.parts.address_spaces.mm(self.space).vmas.numab(FIRST + page).map(|record| record.next_scan)
    }

    fn records(&self) -> Vec<(Range<Vpn>, Option<u64>)> {
        let areas = self
            .mm
            .parts
            .address_spaces
            .mm(self.space)
            .vmas
            .iter()
            .map(|vma| vma.start - FIRST..vma.end - FIRST);
        areas.map(|pages| (pages.clone(), self.record(pages.start))).collect()
    }
}

/// A system call that changes something about pages.
type Call = fn(&mut Process, Range<Vpn>);

const CHANGES: [(&str, Call); 5] = [
    ("mprotect", |process, pages| process.mm.parts.mprotect(process.space, pages, VmFlags::READ)),
    ("madvise", |process, pages| {
        process.mm.enter(&mut process.machine, Cpu(0)).madvise(process.space, pages, Advice::Random)
    }),
    ("mbind", |process, pages| {
        let mode = Mode::Bind(Nodes::of(Node(1)));
        let policy = Mempolicy { mode, migrate_on_fault: true, migrate_on_referencing_node: false };
        process.mm.parts.address_spaces.mbind(process.space, pages, Some(policy));
    }),
    ("mlock", |process, pages| {
        process.mm.enter(&mut process.machine, Cpu(0)).mlock(process.space, pages).unwrap();
    }),
    ("userfaultfd", |process, pages| {
        process.mm.parts.address_spaces.userfaultfd_register(process.space, pages)
    }),
];

#[test]
fn the_part_that_changes_is_the_area_that_was_there() {
    for (name, call) in CHANGES {
        for variant in ["vma-scanning-4", "numa-6.8", "numa-6.19"] {
            for (part, expected) in [
                (0..10, vec![(0..10, true), (10..30, false)]),
                (20..30, vec![(0..20, false), (20..30, true)]),
                (10..20, vec![(0..10, false), (10..20, true), (20..30, false)]),
                (0..30, vec![(0..30, true)]),
            ] {
                let mut process = Process::with(variant, &[(0..30, VmFlags::PRIVATE)]);
                let record = process.record(0);
                call(&mut process, FIRST + part.start..FIRST + part.end);
                let expected: Vec<_> =
                    expected.into_iter().map(|(pages, has)| (pages, record.filter(|_| has))).collect();
                assert_eq!(process.records(), expected, "{name} of {part:?} in {variant}");
                // The same call again changes nothing, and splits nothing.
                call(&mut process, FIRST + part.start..FIRST + part.end);
                assert_eq!(process.records(), expected, "{name} of {part:?} in {variant}, again");
            }
        }
    }
}

#[test]
fn what_munmap_leaves_is_new_but_for_the_start_until_6_5() {
    for (variant, keeps_start) in [
        ("vma-scanning-1", true),
        ("vma-scanning-4", true),
        ("6.4", true),
        ("6.5", true),
        ("6.6", false),
        ("partial-vmas-4", false),
        ("numa-6.8", false),
        ("numa-6.19", false),
    ] {
        for (part, expected) in [
            (0..10, vec![(10..30, false)]),
            (20..30, vec![(0..20, keeps_start)]),
            (10..20, vec![(0..10, keeps_start), (20..30, false)]),
        ] {
            let mut process = Process::with(variant, &[(0..30, VmFlags::PRIVATE)]);
            let record = process.record(0);
            let Process { machine, mm, space } = &mut process;
            mm.enter(machine, Cpu(0)).munmap(*space, FIRST + part.start..FIRST + part.end);
            let expected: Vec<_> =
                expected.into_iter().map(|(pages, has)| (pages, record.filter(|_| has))).collect();
            assert_eq!(process.records(), expected, "{part:?} in {variant}");
        }
        // Memory that is mapped in the hole again merges with the VMA before it, and that with the VMA
        // behind.
        let mut process = Process::with(variant, &[(0..30, VmFlags::PRIVATE)]);
        let record = process.record(0);
        process.map(&(10..20), VmFlags::PRIVATE);
        assert_eq!(process.records(), [(0..30, record.filter(|_| keeps_start))], "{variant}");
    }
}

/// If the changed part becomes equal to the neighbouring VMA, that one grows and nothing is split: both keep
/// their records.
#[test]
fn a_border_that_moves_is_no_cut() {
    for (part, rights, expected) in
        [(30..40, VmFlags::PRIVATE, [0..40, 40..60]), (20..30, VmFlags::READ, [0..20, 20..60])]
    {
        let mut process = Process::with("numa-6.12", &[(0..30, VmFlags::PRIVATE), (30..60, VmFlags::READ)]);
        let records = [0, 30].map(|page| process.record(page));
        assert_ne!(records[0], records[1]);
        process.mm.parts.mprotect(process.space, FIRST + part.start..FIRST + part.end, rights);
        let [first, second] = expected;
        assert_eq!(process.records(), [(first, records[0]), (second, records[1])]);
    }
}

/// A child has VMAs of its own (`dup_mmap`), and a new program has none of the old one's.
#[test]
fn neither_fork_nor_exec_hands_anything_on() {
    let mut process = Process::with("numa-6.12", &[(0..30, VmFlags::PRIVATE)]);
    let record = process.record(0);
    let Process { machine, mm, space } = &mut process;
    let child = mm.enter(machine, Cpu(0)).fork_mm(*space);
    assert!(mm.parts.address_spaces.mm(child).vmas.numab(FIRST).is_none());
    assert_eq!(process.records(), [(0..30, record)]);
    let Process { machine, mm, space } = &mut process;
    mm.enter(machine, Cpu(0)).exit_mm(*space);
    let program = mm.parts.create_mm(Memcg::ROOT);
    mm.enter(machine, Cpu(0)).mmap_fixed(program, FIRST, 30, Backing::Anonymous, VmFlags::PRIVATE);
    assert!(mm.parts.address_spaces.mm(program).vmas.numab(FIRST).is_none());
}
