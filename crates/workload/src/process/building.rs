//! Collects the operations of one process from its events.
//!
//! To keep profiles small, two things are dropped: pauses shorter than [`JOINED_NANOSECONDS`] between
//! allocations of one order and migratetype, and the order of up to [`GATHERED_FREES`] frees of one order and
//! migratetype in a row. Counts, the order of runs of different kinds, and CPU time are exact.

use super::operation::Operation;
use super::profile::Process;
use super::summary::{Runs, Summary, allocation_name};
use super::units::Family;
use mm::MigrateType;
use mm::page::NR_PAGE_ORDERS;

/// Consecutive allocations of one order and migratetype with less CPU time than this between them are one
/// operation. A compiler allocates a page every 27 us on average, so ten times that ends a burst.
const JOINED_NANOSECONDS: u64 = 250_000;

/// Most frees of one order and migratetype in a row that are sorted by allocation: about as many pages as an
/// unmap gathers before it frees them (`MAX_GATHER_BATCH`, mm/mmu_gather.c). They reach the zone one pageset
/// batch at a time in any order.
const GATHERED_FREES: usize = 512;

/// The owner of a live block: which process allocated it, and the number of that allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub process: u32,
    pub allocation: u32,
    pub order: u8,
    pub migrate_type: MigrateType,
}

/// A process whose events are being collected.
#[derive(Default)]
pub(super) struct Building {
    pub process: Process,
    pub family: Family,
    /// Total CPU time.
    pub nanoseconds: u64,
    /// Number of allocations so far, which is the number of the next one.
    pub allocated: u32,
    /// CPU time since the last operation.
    pending: u64,
    /// Numbers of own allocations freed in a row, all of one order and migratetype, and the CPU time they
    /// took.
    gathered: Vec<u32>,
    gathered_kind: Option<(u8, MigrateType)>,
    gathered_nanoseconds: u64,
    allocations: [[u64; MigrateType::COUNT]; NR_PAGE_ORDERS],
    freed_own_pages: u64,
    freed_shared_pages: u64,
    events: u64,
    runs: Runs,
}

impl Building {
    /// A newly forked process with the pid `task`.
    pub fn new(task: i32, family: Family) -> Building {
        Building { process: Process { task, ..Process::default() }, family, ..Building::default() }
    }

    /// Adds CPU time.
    pub fn spend(&mut self, nanoseconds: u64) {
        self.nanoseconds += nanoseconds;
        self.pending += nanoseconds;
    }

    /// Takes the CPU time since the last operation; a long pause becomes a `Run` operation instead.
    fn take_pending(&mut self) -> u32 {
        if self.pending < JOINED_NANOSECONDS {
            return std::mem::take(&mut self.pending) as u32;
        }
        self.run();
        0
    }

    fn run(&mut self) {
        while self.pending > 0 {
            let nanoseconds = u32::try_from(self.pending).unwrap_or(u32::MAX);
            self.process.operations.push(Operation::Run { nanoseconds });
            self.pending -= u64::from(nanoseconds);
        }
    }

    /// Adds an allocation of a block.
    pub fn allocate(&mut self, new_order: u8, new_type: MigrateType) {
        self.release_gathered();
        self.events += 1;
        self.runs.allocate(1);
        self.allocated = self.allocated.saturating_add(1);
        self.allocations[usize::from(new_order)][new_type as usize] += 1;
        let spent = self.take_pending();
        if let Some(Operation::Allocate { order, migrate_type, count, nanoseconds }) =
            self.process.operations.last_mut()
            && (*order, *migrate_type) == (new_order, new_type)
            && let Some(sum) = nanoseconds.checked_add(spent)
        {
            *count += 1;
            *nanoseconds = sum;
            return;
        }
        let operation =
            Operation::Allocate { order: new_order, migrate_type: new_type, count: 1, nanoseconds: spent };
        self.process.operations.push(operation);
    }

    /// Adds a free of one of the process's own allocations.
    pub fn free(&mut self, owner: Owner) {
        self.events += 1;
        self.runs.free(1);
        self.freed_own_pages += 1 << owner.order;
        let kind = (owner.order, owner.migrate_type);
        let pauses = self.pending >= JOINED_NANOSECONDS;
        if pauses || self.gathered_kind != Some(kind) || self.gathered.len() == GATHERED_FREES {
            self.release_gathered();
        }
        self.gathered_nanoseconds += u64::from(self.take_pending());
        self.gathered_kind = Some(kind);
        self.gathered.push(owner.allocation);
    }

    /// Adds a free of a block that another process allocated.
    pub fn free_shared(&mut self, new_order: u8) {
        self.release_gathered();
        self.events += 1;
        self.runs.free(1);
        self.freed_shared_pages += 1 << new_order;
        let spent = self.take_pending();
        if let Some(Operation::FreeShared { order, count, nanoseconds }) = self.process.operations.last_mut()
            && *order == new_order
            && let Some(sum) = nanoseconds.checked_add(spent)
        {
            *count += 1;
            *nanoseconds = sum;
            return;
        }
        self.process.operations.push(Operation::FreeShared {
            order: new_order,
            count: 1,
            nanoseconds: spent,
        });
    }

    /// Turns the gathered frees into one operation for each run of consecutive allocations.
    fn release_gathered(&mut self) {
        let mut left = std::mem::take(&mut self.gathered_nanoseconds);
        let mut frees = std::mem::take(&mut self.gathered);
        frees.sort_unstable();
        let mut remaining = frees.len() as u64;
        for run in frees.chunk_by(|a, b| a + 1 == *b) {
            let share = left * run.len() as u64 / remaining;
            left -= share;
            remaining -= run.len() as u64;
            let (first, count) = (run[0], run.len() as u32);
            self.process.operations.push(Operation::Free { first, count, nanoseconds: share as u32 });
        }
        frees.clear();
        self.gathered = frees;
        self.gathered_kind = None;
    }

    /// Ends the process, at its exit or at the end of the recording.
    pub fn end(&mut self) {
        self.release_gathered();
        self.run();
    }

    /// Adds the process's demand to the summary of its kind.
    pub fn add_to(&mut self, sum: &mut Summary, runs: &mut Runs) {
        sum.processes += 1;
        sum.cpu_seconds += self.nanoseconds as f64 / 1e9;
        sum.operations += self.events;
        sum.freed_own_pages += self.freed_own_pages;
        sum.freed_shared_pages += self.freed_shared_pages;
        for (order, by_type) in (0..).zip(self.allocations) {
            for (migrate_type, count) in MigrateType::ALL.into_iter().zip(by_type) {
                if count > 0 {
                    sum.allocated_pages += count << order;
                    *sum.allocations.entry(allocation_name(order, migrate_type)).or_default() += count;
                }
            }
        }
        runs.append(std::mem::take(&mut self.runs));
    }
}
