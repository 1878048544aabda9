//! Costs of one unit of work on a machine, in virtual time.
//!
//! These are the figures of a [`crate::Profile`] without their sources, in the form that hot paths use.

use crate::blocks::BlockCosts;
use crate::links::{Link, WayCosts};
use crate::time::Time;
use crate::topology::{Distance, Node};
use std::collections::BTreeMap;

/// Unit costs of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Moving one cache line from one CPU's cache to another's, by [`Distance`].
    pub line_transfer: [Time; Distance::COUNT],
    /// Sending one IPI: the sender's cost per target (the interrupt command register).
    pub ipi_send: Time,
    /// What the hypervisor adds to sending one IPI, as each write of that register traps; zero on bare metal.
    pub ipi_trap: Time,
    /// From the end of sending until the handler starts on a target that is awake.
    pub ipi_deliver: Time,
    /// Entry, generic part of the handler and exit on the target; in a virtual machine including VM exits.
    pub ipi_receive: Time,
    /// Extra delay of an idle target: leaving a C-state, or scheduling a halted virtual CPU.
    pub ipi_wake: Time,
    /// Flushing one CPU's TLB, global entries included.
    pub tlb_flush_all: Time,
    /// Flushing one page from the TLB: INVLPG.
    pub tlb_flush_page: Time,
    /// Page walks of a busy CPU after its TLB was flushed.
    pub tlb_refill: Time,
    /// One flush broadcast by hardware (INVLPGB and TLBSYNC); `None` if the machine has no such instruction.
    pub invlpgb: Option<Time>,
    /// Loading one cache line from memory without prefetching: of the CPU's own node, of another node.
    pub memory_line: [Time; 2],
    /// Fixed cost of a section under a shared spinlock: interrupts off and on, lock, counters.
    pub lock_section: Time,
    /// Unlinking one block from a free list and preparing it, with its lines in the local cache.
    pub list_take: Time,
    /// Linking one block into a free list and checking its buddy, with the lines in the local cache.
    pub list_put: Time,
    /// Linking or unlinking an entry whose lines this CPU has just touched, counters included.
    pub list_move: Time,
    /// Relative spread (standard deviation of the logarithm) of a locked section that takes blocks.
    pub take_spread: f64,
    /// Relative spread of a locked section that puts blocks back.
    pub put_spread: f64,
    /// Clearing a page.
    pub page_clear: Time,
    /// Copying a page that is in the cache.
    pub page_copy: Time,
    /// Extra time of a copy if the target's lines, 64 in 4 KiB, come from memory.
    pub page_miss: Time,
    /// A minor page fault, without clearing the page or taking it from a zone.
    pub page_fault: Time,
    /// Unmapping and freeing one page, without returning it to a zone.
    pub page_unmap: Time,
    /// One order-0 kernel allocation through the CPU's pageset, private part.
    pub page_alloc: Time,
    /// One order-0 free through the CPU's pageset, private part.
    pub page_free: Time,
    /// Initialising one struct page (64 bytes) of a compound page, its line coming from memory.
    pub struct_page_init: Time,
    /// Initialising one struct page of a gigantic page at boot, in memory that was never used.
    pub boot_struct_page_init: Time,
    /// Checking one struct page of a compound page when it is freed, its line coming from memory.
    pub struct_page_free: Time,
    /// Rewriting one page-table entry, with its share of the walk.
    pub pte_write: Time,
    /// Waiting for an RCU grace period (`synchronize_rcu`); not CPU time.
    pub grace_period: Time,
    /// A system call that sends or receives one message, without its copies.
    pub socket_call: Time,
    /// Factor by which work is longer while the SMT sibling is busy (1 = no effect).
    pub smt_slowdown: f64,
    /// Factor by which this machine runs compiled code faster than the machine that recorded a workload.
    pub speed: f64,
    /// Costs of file pages, swap and reclaim; `None` if the profile has none.
    pub paging: Option<PagingCosts>,
    /// Costs of memory on several nodes; `None` if the profile has none.
    pub numa: Option<NumaCosts>,
    /// Costs that depend on block size; `None` if the profile has none.
    pub blocks: Option<BlockCosts>,
    /// Costs of some links that differ from [`Costs::memory_line`] and [`Costs::numa`].
    pub links: BTreeMap<Link, WayCosts>,
    /// Costs of some nodes' memory that differ from [`Costs::memory_line`] and [`Costs::numa`].
    pub memory: BTreeMap<Node, WayCosts>,
}

/// Costs of moving data between CPUs and the memory of several nodes, and of NUMA balancing.
///
/// ```text
///   scan            per entry: pte_protect; then a TLB shootdown (ipi_*, tlb_*)
///   hint fault      hint_fault; and if the page migrates: page_migrate, page_alloc, a stream from one node to the other
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumaCosts {
    /// One CPU alone, streaming through a page of its own node.
    pub stream_page: Time,
    /// One CPU alone, streaming through a page of another node.
    pub remote_stream_page: Time,
    /// A page of one node, all CPUs together.
    pub node_page: Time,
    /// A page of another node, all CPUs of a node together.
    pub link_page: Time,
    /// [`NumaCosts::stream_page`] for a node without CPUs.
    pub slow_stream_page: Time,
    /// [`NumaCosts::node_page`] for a node without CPUs.
    pub slow_node_page: Time,
    /// Making one PTE PROT_NONE, including its share of the walk and a look at the struct page
    /// (`change_pte_range`).
    pub pte_protect: Time,
    /// A NUMA hint fault (`do_numa_page`), without migration.
    pub hint_fault: Time,
    /// Migrating a page to another node, without allocating, copying and flushing: isolating it, unmapping
    /// and remapping it (`migrate_misplaced_folio`).
    pub page_migrate: Time,
    /// Time between two threads that a program starts one after the other (`pthread_create`).
    pub thread_start: Time,
    /// The scheduler's tick on a CPU that runs a program, without the NUMA balancing in it
    /// (`tick_sched_handle`).
    pub tick: Time,
}

impl NumaCosts {
    /// All costs zero, for tests that compare counts and not times.
    pub const FREE: NumaCosts = NumaCosts {
        stream_page: Time::ZERO,
        remote_stream_page: Time::ZERO,
        node_page: Time::ZERO,
        link_page: Time::ZERO,
        slow_stream_page: Time::ZERO,
        slow_node_page: Time::ZERO,
        pte_protect: Time::ZERO,
        hint_fault: Time::ZERO,
        page_migrate: Time::ZERO,
        thread_start: Time::ZERO,
        tick: Time::ZERO,
    };
}

/// Unit costs of file pages, swap and reclaim: CPU time only, without the device, without copies
/// ([`Costs::page_copy`]), and without allocating and freeing the page. A page is 4 KiB.
///
/// ```text
///   read, hit    file_read_call + per page: file_lookup, page_copy
///   read, miss   file_read_call + per page: file_insert; per request: io_submit, the device's own part,
///                               and of a disk task_switch and io_complete; then as a hit
///   write        file_read_call + per page: file_write, page_copy, and file_insert if it was not cached;
///                flushers: per request as a miss
///   reclaim      per page: lru_scan, rmap_walk for each mapping
///                and if it is evicted: pte_unmap for each mapping, swap_out if anonymous, file_remove
///   swap-in      page_fault + swap_in; per request as a miss
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagingCosts {
    /// A read system call: entry, exit, file position and permission check, up to the first page look-up.
    pub file_read_call: Time,
    /// Looking a page up in a file's xarray, taking a reference, `folio_mark_accessed`, dropping the
    /// reference.
    pub file_lookup: Time,
    /// Writing to a page of a file: the file system's `write_begin` and `write_end`, dirtying the page,
    /// without block allocation.
    pub file_write: Time,
    /// Adding a page to a file's xarray and to a folio batch, including reading the shadow entry of a
    /// refault.
    pub file_insert: Time,
    /// Removing a page from a file or the swap cache and storing its shadow entry (`__remove_mapping`).
    pub file_remove: Time,
    /// Building a request and passing it through the block layer (`submit_bio`), without the device's driver.
    pub io_submit: Time,
    /// A disk's interrupt, and waking the task that waits for the page; other devices are done when the call
    /// returns.
    pub io_complete: Time,
    /// Switching away from a task that waits for a disk, and back to it.
    pub task_switch: Time,
    /// Reclaim of one page: isolating it, checking it, and putting it back or going on with it, its struct
    /// page coming from memory.
    pub lru_scan: Time,
    /// Looking up one mapping of a page through rmap, and testing and clearing the accessed bit
    /// (`folio_referenced`).
    pub rmap_walk: Time,
    /// Removing one mapping (`try_to_unmap`), including its share of a batched TLB flush.
    pub pte_unmap: Time,
    /// Allocating a swap entry for a page and adding the page to the swap cache.
    pub swap_out: Time,
    /// Looking a page up in the swap cache, freeing its swap entry, charging it; in addition to a page fault.
    pub swap_in: Time,
    /// One PTE in a page-table walk that ages an address space (`walk_pte_range`), including its share of the
    /// upper levels.
    pub pte_scan: Time,
    /// A page that compaction's migrate scanner looks at in passing (`isolate_migratepages_block`); one that it takes costs
    /// `lru_scan` besides.
    pub compact_scan: Time,
}

impl PagingCosts {
    /// All costs zero, for tests that compare counts and not times.
    pub const FREE: PagingCosts = PagingCosts {
        file_read_call: Time::ZERO,
        file_lookup: Time::ZERO,
        file_write: Time::ZERO,
        file_insert: Time::ZERO,
        file_remove: Time::ZERO,
        io_submit: Time::ZERO,
        io_complete: Time::ZERO,
        task_switch: Time::ZERO,
        lru_scan: Time::ZERO,
        rmap_walk: Time::ZERO,
        pte_unmap: Time::ZERO,
        swap_out: Time::ZERO,
        swap_in: Time::ZERO,
        pte_scan: Time::ZERO,
        compact_scan: Time::ZERO,
    };
}

impl Costs {
    /// The costs of paging; zero if the profile has none.
    #[inline]
    pub fn paging(&self) -> PagingCosts {
        self.paging.unwrap_or(PagingCosts::FREE)
    }

    /// The costs of memory on several nodes; zero if the profile has none.
    #[inline]
    pub fn numa(&self) -> NumaCosts {
        self.numa.unwrap_or(NumaCosts::FREE)
    }

    /// All costs zero, for tests that compare counts and not times.
    pub const FREE: Costs = Costs {
        line_transfer: [Time::ZERO; Distance::COUNT],
        ipi_send: Time::ZERO,
        ipi_trap: Time::ZERO,
        ipi_deliver: Time::ZERO,
        ipi_receive: Time::ZERO,
        ipi_wake: Time::ZERO,
        tlb_flush_all: Time::ZERO,
        tlb_flush_page: Time::ZERO,
        tlb_refill: Time::ZERO,
        invlpgb: None,
        memory_line: [Time::ZERO; 2],
        lock_section: Time::ZERO,
        list_take: Time::ZERO,
        list_put: Time::ZERO,
        list_move: Time::ZERO,
        take_spread: 0.0,
        put_spread: 0.0,
        page_clear: Time::ZERO,
        page_copy: Time::ZERO,
        page_miss: Time::ZERO,
        page_fault: Time::ZERO,
        page_unmap: Time::ZERO,
        page_alloc: Time::ZERO,
        page_free: Time::ZERO,
        struct_page_init: Time::ZERO,
        boot_struct_page_init: Time::ZERO,
        struct_page_free: Time::ZERO,
        pte_write: Time::ZERO,
        grace_period: Time::ZERO,
        socket_call: Time::ZERO,
        smt_slowdown: 1.0,
        speed: 1.0,
        paging: None,
        numa: None,
        blocks: None,
        links: BTreeMap::new(),
        memory: BTreeMap::new(),
    };
}
