//! What one unit of work takes on a machine, in virtual time.
//!
//! These are the figures of a [`crate::Profile`], without their sources, in the form the hot paths want.

use crate::time::Time;
use crate::topology::Distance;

/// Unit costs of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// One cache line from one CPU's cache to another's, by [`Distance`].
    pub line_transfer: [Time; Distance::COUNT],
    /// Fixed part of a path that takes a contended-by-design lock: interrupts off and on, lock, counters.
    pub lock_section: Time,
    /// Unlinking one block from a free list and preparing it, its lines being local.
    pub list_take: Time,
    /// Linking one block into a free list and looking for its neighbour, lines being local.
    pub list_put: Time,
    /// Linking or unlinking an entry whose own lines this CPU has just touched, counters included.
    pub list_move: Time,
    /// Relative spread (standard deviation of the logarithm) of a locked section that takes blocks.
    pub take_spread: f64,
    /// The same for one that puts blocks back.
    pub put_spread: f64,
    /// Clearing 4 KiB.
    pub page_clear: Time,
    /// Copying 4 KiB that caches hold.
    pub page_copy: Time,
    /// What a copy takes longer when the target's 64 lines come from memory.
    pub page_miss: Time,
    /// A minor page fault without clearing and without taking the page from a zone.
    pub page_fault: Time,
    /// Unmapping and giving back one page without returning it to a zone.
    pub page_unmap: Time,
    /// A system call that sends or receives one message, without its copies.
    pub socket_call: Time,
    /// How much longer work takes while the SMT sibling is busy (1 = no effect).
    pub smt_slowdown: f64,
    /// How much faster this machine runs compiled code than the machine that recorded a workload.
    pub speed: f64,
}
