//! What a process has besides the areas of its program, and in which order it all lies.
//!
//! ```text
//!   from_libraries   data │ stacks of threads │ areas │ vdso
//!   fixed_areas      data │ heap │ areas │ start │ stacks of threads │ vdso │ first stack    ─► addresses
//! ```
//!
//! That is little memory, but scan passes go from the lowest address on, and a range in which one page changes is charged in full:
//! what lies in front decides where each pass through the areas begins and ends. And it is often in the batch of a CPU
//! that adds no more to it, where it cannot be migrated: from 6.10 on that doubles the scan period. The vdso has no page that can
//! be scanned, so no thread is ever seen there, and from 6.7 on it is what a pass scans by force when the rest was done: a pass
//! for nothing in each sequence, as recordings of 6.12.95 show.

use mm::address_space::Vpn;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Pages of data and heap of a process that has begun: as many were scanned in each recorded process on 6.12.95.
pub(super) const DATA: u64 = 10;

/// In which order the parts of a process lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLayout {
    /// The C library maps areas and then, below them, stacks.
    #[default]
    FromLibraries,
    /// A static program maps its areas at low addresses, as the recorded ones did.
    FixedAreas,
}

/// A part of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Pages, of which the first thread touches some, and some more when it starts the other threads.
    Own { pages: u64, used: u64, later: u64 },
    /// Pages that it touches to start, and that nobody can touch any more then.
    Start(u64),
    /// The areas of the program.
    Areas,
    /// The stacks of all threads that the first one starts.
    Stacks,
    /// The stack of the first one, of which it touches some pages before anything else.
    FirstStack { pages: u64, used: u64 },
    /// The kernel's code for system calls that need no kernel.
    Vdso,
}

/// Pages of the vdso.
pub(super) const VDSO: u64 = 2;

impl ProcessLayout {
    /// All parts, from the lowest address on. Data comes first; threads use its first page.
    pub(super) fn parts(self) -> &'static [Part] {
        use Part::*;
        match self {
            ProcessLayout::FromLibraries => &[Own { pages: DATA, used: DATA, later: 0 }, Stacks, Areas, Vdso],
            // Sizes and used pages as recorded: data without initial values, heap, the first stack. That 16 pages are left from
            // the start is an assumption: with it, what was seen on 6.1 not to be scanned, as it is in a CPU's
            // batch, are the stacks of all threads but the first, and what is used of the heap last.
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

    /// Whether threads use their process's data whatever they do, as calls of shared libraries find their functions there. A static
    /// program that goes through memory uses it only where it compares the time with what is there.
    pub(super) fn uses_data(self) -> bool {
        self == ProcessLayout::FromLibraries
    }

    /// The pages that a thread uses of its stack.
    pub(super) fn stack_used(self, stack: Range<Vpn>) -> Range<Vpn> {
        let used = match self {
            ProcessLayout::FromLibraries => 2,
            ProcessLayout::FixedAreas => 1,
        };
        stack.end - used..stack.end
    }
}
