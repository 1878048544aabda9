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

use mm::address_space::Vpn;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Pages of data and heap of a process at the start; this many were scanned in each recorded process on
/// 6.12.95.
pub(super) const DATA: u64 = 10;

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

/// A part of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
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
pub(super) const VDSO: u64 = 2;

impl ProcessLayout {
    /// All parts in order of address. Data comes first; threads use its first page.
    pub(super) fn parts(self) -> &'static [Part] {
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

    /// The pages of its stack that a thread uses.
    pub(super) fn stack_used(self, stack: Range<Vpn>) -> Range<Vpn> {
        let used = match self {
            ProcessLayout::FromLibraries => 2,
            ProcessLayout::FixedAreas => 1,
        };
        stack.end - used..stack.end
    }
}
