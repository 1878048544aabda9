//! The VMAs of a process besides the areas of its program, and the order of all of them in its address space.
//!
//! ```text
//!   from_libraries   data │ stacks of threads │ areas │ vdso
//!   fixed_areas      data │ heap │ areas │ start │ stacks of threads │ vdso │ first stack    ─► addresses
//! ```
//!
//! This is little memory, but it matters to scan passes. They start at the lowest address, and a range in
//! which a single PTE changes is charged in full, so the VMAs in front determine where each pass through the
//! areas begins and ends. Pages in these VMAs are also often in the LRU batch of a CPU that does not fill it,
//! where they cannot be migrated; since 6.10 that doubles the scan period. The vdso has no page that can be
//! scanned, so no thread ever faults there. Since 6.7 it is what a pass scans by force once the rest is done:
//! a useless pass in each sequence, as recordings of 6.12.95 show.

use super::threads::OpenFiles;
use crate::System;
use crate::mapping::{SPAN, map, map_apart, map_behind, pages_of};
use machine::Cpu;
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::readahead::FAULT_AROUND_BYTES;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use workload::operation::Process;

/// Pages of a thread's stack, 8 MiB.
const STACK: u64 = 2048;

/// Pages of data and heap of a process at the start; this many were scanned in each recorded process on
/// 6.12.95.
const DATA: u64 = 10;

/// The order of VMAs in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLayout {
    /// Dynamically linked: the C library maps areas and then, below them, stacks.
    #[default]
    FromLibraries,
    /// A static program that maps its areas at low addresses, as the recorded ones do.
    FixedAreas,
}

workload::no_numbers!(ProcessLayout);

/// A part of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Data or heap. The first thread touches `used` pages at the start, and `later` ones when it starts the
    /// other threads.
    Own { pages: u64, used: u64, later: u64 },
    /// Pages that are touched during startup only, and are inaccessible afterwards.
    Start(u64),
    /// The areas of the program.
    Areas,
    /// The stacks of the threads that the first one starts.
    Stacks,
    /// The stack of the first thread, which touches `used` pages before anything else.
    FirstStack { pages: u64, used: u64 },
    /// The vdso: kernel code mapped into processes for system calls that need no mode switch.
    Vdso,
}

/// Pages of the vdso.
const VDSO: u64 = 2;

/// What a process has mapped at its start.
#[derive(Default)]
pub(super) struct Mapped {
    /// The page of data that all threads use, if it has any.
    pub data: Option<Vpn>,
    /// Of each thread that the first one starts, the lowest page; none where stacks are left out.
    pub stacks: Vec<Vpn>,
    /// The areas of its program.
    pub areas: Vec<Range<Vpn>>,
    /// What the first thread touches before it has started the others, in order.
    pub touches: Vec<Range<Vpn>>,
    /// What nobody can access afterwards.
    pub start: Range<Vpn>,
}

/// Maps a process of a program without anything besides its areas.
pub(super) fn map_areas_alone(system: &mut System, mm: MmId, process: &Process) -> Mapped {
    let areas = map_areas(system, mm, process);
    let touches = if process.touched { areas.clone() } else { Vec::new() };
    Mapped { areas, touches, ..Mapped::default() }
}

/// Maps a file whole, to load from it, as the dynamic linker maps code. Pages are read ahead and mapped around faults.
pub(super) fn map_file(system: &mut System, mm: MmId, file: &OpenFiles) -> Range<Vpn> {
    system.mm.parts.map_through(file.descriptor(0), FAULT_AROUND_BYTES);
    let flags = VmFlags::READ.or(VmFlags::EXEC);
    let start =
        system.mm.enter(&mut system.machine, Cpu(0)).mmap(mm, file.pages, Backing::File(file.id, 0), flags);
    start..start + file.pages
}

fn map_areas(system: &mut System, mm: MmId, process: &Process) -> Vec<Range<Vpn>> {
    let page_size = system.mm.parts.allocator.page_size();
    let area = |&parts: &u64| {
        let map = if process.apart { map_apart } else { map };
        map(system, mm, pages_of(page_size, parts))
    };
    process.areas.iter().map(area).collect()
}

/// Maps stacks of threads, each with a guard page below, starting `offset` pages after the start of a page
/// table's range. The C library maps from the top down, so the first thread's stack is the highest.
fn map_stacks(system: &mut System, mm: MmId, count: usize, offset: u64) -> Vec<Vpn> {
    let each = STACK + 1;
    let all = map_behind(system, mm, offset, each * count as u64);
    let guards: Vec<Vpn> = all.step_by(each as usize).collect();
    guards.iter().for_each(|&guard| system.mm.parts.mprotect(mm, guard..guard + 1, VmFlags::default()));
    guards.into_iter().rev().map(|guard| guard + 1).collect()
}

impl ProcessLayout {
    /// As a scenario names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            ProcessLayout::FromLibraries => "from_libraries",
            ProcessLayout::FixedAreas => "fixed_areas",
        }
    }

    /// Maps a process with `threads` threads besides the first. `chance` draws a number below its argument: where stacks begin.
    ///
    /// The first thread touches its own stack, data and heap, the areas if the program does so, and the top of each stack, where the
    /// descriptor of its thread is.
    pub(super) fn map(
        self,
        system: &mut System,
        mm: MmId,
        (process, threads): (&Process, usize),
        mut chance: impl FnMut(u64) -> u64,
    ) -> Mapped {
        let mut mapped = Mapped::default();
        let (mut first, mut touched, mut later_used) = (Vec::new(), Vec::new(), Vec::new());
        for &part in self.parts() {
            match part {
                Part::Own { pages, used, later } => {
                    let own = map(system, mm, pages).start;
                    mapped.data.get_or_insert(own);
                    touched.push(own..own + used);
                    later_used.push(own + used..own + used + later);
                }
                Part::FirstStack { pages, used } => {
                    let own = map(system, mm, pages).start;
                    first.push(own..own + used);
                }
                Part::Start(pages) => {
                    mapped.start = map(system, mm, pages);
                    touched.push(mapped.start.clone());
                }
                Part::Areas => mapped.areas = map_areas(system, mm, process),
                Part::Vdso => {
                    let flags = VmFlags::READ.or(VmFlags::EXEC);
                    system.mm.enter(&mut system.machine, Cpu(0)).mmap(mm, VDSO, Backing::Anonymous, flags);
                }
                Part::Stacks => mapped.stacks = map_stacks(system, mm, threads, chance(SPAN)),
            }
        }
        if process.touched {
            touched.extend(mapped.areas.iter().cloned());
        }
        let tops = mapped.stacks.iter().map(|stack| stack + STACK - 1..stack + STACK);
        mapped.touches = first.into_iter().chain(touched).chain(tops).chain(later_used).collect();
        mapped
    }

    /// Maps a process that replaces another (`execve`): its data and the stack of its only thread.
    pub(super) fn map_executed(system: &mut System, mm: MmId, mut chance: impl FnMut(u64) -> u64) -> Mapped {
        let stacks = map_stacks(system, mm, 1, chance(SPAN));
        let data = map(system, mm, DATA).start;
        Mapped { stacks, data: Some(data), ..Mapped::default() }
    }

    /// All parts in order of address. Data comes first; threads use its first page.
    fn parts(self) -> &'static [Part] {
        use Part::*;
        match self {
            ProcessLayout::FromLibraries => &[Own { pages: DATA, used: DATA, later: 0 }, Stacks, Areas, Vdso],
            // Sizes and used pages as recorded: data without initial values, heap, the first stack. The 16
            // pages left from startup are an assumption. With it, the pages that were not scanned on 6.1,
            // because they are in the LRU batch of a CPU, are the stacks of all threads but the first, and
            // the last used pages of the heap.
            ProcessLayout::FixedAreas => &[
                Own { pages: 678, used: 5, later: 0 },
                Own { pages: 34, used: 2, later: 3 },
                Areas,
                Start(16),
                Stacks,
                Vdso,
                FirstStack { pages: 33, used: 2 },
            ],
        }
    }

    /// Whether threads always use their process's data: calls into shared libraries look up functions there.
    /// A static program that streams through memory uses its data only where it compares the time with a
    /// value in it.
    pub(super) fn uses_data(self) -> bool {
        self == ProcessLayout::FromLibraries
    }

    /// The pages that a thread uses of its stack, whose lowest page is given.
    pub(super) fn stack_used(self, stack: Vpn) -> Range<Vpn> {
        let used = match self {
            ProcessLayout::FromLibraries => 2,
            ProcessLayout::FixedAreas => 1,
        };
        stack + STACK - used..stack + STACK
    }
}
