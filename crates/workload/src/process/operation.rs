//! What a process does.

use mm::MigrateType;

/// A step of a process; 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes.
    Run {
        /// CPU time.
        nanoseconds: u32,
    },
    /// Makes `count` allocations of one kind, evenly spaced.
    Allocate {
        /// log2 of the pages of each.
        order: u8,
        /// What they are for.
        migrate_type: MigrateType,
        /// How many.
        count: u32,
        /// CPU time for all of them together, the program's own work in between included.
        nanoseconds: u32,
    },
    /// Frees own allocations.
    Free {
        /// The first of them: 0 is the process's first allocation.
        first: u32,
        /// How many, in the order in which they were allocated.
        count: u32,
        /// CPU time for all of them together.
        nanoseconds: u32,
    },
    /// Frees pages that another process allocated, or that were there before.
    FreeShared {
        /// log2 of the pages of each.
        order: u8,
        /// How many.
        count: u32,
        /// CPU time for all of them together.
        nanoseconds: u32,
    },
}

impl Operation {
    /// CPU time of the step.
    pub fn nanoseconds(self) -> u32 {
        match self {
            Operation::Run { nanoseconds }
            | Operation::Allocate { nanoseconds, .. }
            | Operation::Free { nanoseconds, .. }
            | Operation::FreeShared { nanoseconds, .. } => nanoseconds,
        }
    }
}

const _: () = assert!(size_of::<Operation>() <= 16);
