//! Operations of a process.

use mm::MigrateType;

/// One step of a process; 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes without allocating or freeing.
    Run { nanoseconds: u32 },
    /// Makes `count` allocations of one order and migratetype, evenly spaced.
    Allocate {
        /// Order of each block.
        order: u8,
        migrate_type: MigrateType,
        /// Number of allocations.
        count: u32,
        /// CPU time of all of them, including the program's own work in between.
        nanoseconds: u32,
    },
    /// Frees `count` of the process's own allocations, in the order in which they were allocated.
    Free {
        /// Number of the first one; the process's first allocation is 0.
        first: u32,
        /// Number of allocations freed.
        count: u32,
        /// CPU time of all frees.
        nanoseconds: u32,
    },
    /// Frees blocks that another process allocated, or that were allocated before the recording.
    FreeShared {
        /// Order of each block.
        order: u8,
        /// Number of blocks.
        count: u32,
        /// CPU time of all frees.
        nanoseconds: u32,
    },
}

impl Operation {
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
