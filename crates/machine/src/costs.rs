//! What one unit of work takes on a machine, in virtual time.
//!
//! These are the figures of a [`crate::Profile`], without their sources, in the form the hot paths want.

use crate::blocks::BlockCosts;
use crate::links::{Link, WayCosts};
use crate::time::Time;
use crate::topology::{Distance, Node};
use std::collections::BTreeMap;

/// Unit costs of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// One cache line from one CPU's cache to another's, by [`Distance`].
    pub line_transfer: [Time; Distance::COUNT],
    /// Sending one inter-processor interrupt: one target's share of the interrupt command register, in the sender.
    pub ipi_send: Time,
    /// What the hypervisor adds to sending one, as each write of that register traps; zero on bare metal.
    pub ipi_trap: Time,
    /// From the end of sending until the target's handler starts, the target being awake.
    pub ipi_deliver: Time,
    /// Entry, generic part of the handler and exit, in the target; in a virtual machine with the exits.
    pub ipi_receive: Time,
    /// How much later an idle target starts: leaving a C-state, or a halted virtual CPU being scheduled.
    pub ipi_wake: Time,
    /// Flushing all of one CPU's translations, global ones too.
    pub tlb_flush_all: Time,
    /// Flushing the translation of one page: INVLPG.
    pub tlb_flush_page: Time,
    /// Page walks of a busy CPU after all its translations were flushed.
    pub tlb_refill: Time,
    /// One flush broadcast by hardware (INVLPGB and TLBSYNC); none where the machine has no such instruction.
    pub invlpgb: Option<Time>,
    /// One cache line from memory that nothing has fetched ahead: of the CPU's own node, of another node.
    pub memory_line: [Time; 2],
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
    /// Clearing a page.
    pub page_clear: Time,
    /// Copying a page that caches hold.
    pub page_copy: Time,
    /// What a copy takes longer when the target's lines, 64 in 4 KiB, come from memory.
    pub page_miss: Time,
    /// A minor page fault without clearing and without taking the page from a zone.
    pub page_fault: Time,
    /// Unmapping and giving back one page without returning it to a zone.
    pub page_unmap: Time,
    /// One order-0 kernel allocation through the CPU's pageset, private part.
    pub page_alloc: Time,
    /// One order-0 free through the CPU's pageset, private part.
    pub page_free: Time,
    /// Preparing one struct page (64 bytes) of a compound page at allocation, its line coming from memory.
    pub struct_page_init: Time,
    /// Making one struct page of a gigantic page while the machine boots, in memory that nobody has used yet.
    pub boot_struct_page_init: Time,
    /// Checking one struct page of a compound page at free, its line coming from memory.
    pub struct_page_free: Time,
    /// Rewriting one page-table entry, with its share of the walk.
    pub pte_write: Time,
    /// Waiting for RCU readers (`synchronize_rcu`); not CPU time.
    pub grace_period: Time,
    /// A system call that sends or receives one message, without its copies.
    pub socket_call: Time,
    /// How much longer work takes while the SMT sibling is busy (1 = no effect).
    pub smt_slowdown: f64,
    /// How much faster this machine runs compiled code than the machine that recorded a workload.
    pub speed: f64,
    /// What file pages, swapped pages and reclaim cost; none where the profile does not say.
    pub paging: Option<PagingCosts>,
    /// What memory of several nodes costs; none where the profile does not say.
    pub numa: Option<NumaCosts>,
    /// What the size of a block of memory changes; nothing where the profile does not say.
    pub blocks: Option<BlockCosts>,
    /// What differs, on some ways between nodes, from [`Costs::memory_line`] and [`Costs::numa`].
    pub links: BTreeMap<Link, WayCosts>,
    /// The same of some nodes' memory.
    pub memory: BTreeMap<Node, WayCosts>,
}

/// What moving data between CPUs and the memory of several nodes costs, and what the kernel pays to look who uses which
/// memory.
///
/// ```text
///   scan            per entry: pte_protect; then a flush of other CPUs' translations (ipi_*, tlb_*)
///   hint fault      hint_fault; and if the page moves: page_migrate, page_alloc, a stream from one node to the other
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumaCosts {
    /// One CPU, alone, streaming through a page of its own node.
    pub stream_page: Time,
    /// The same of another node.
    pub remote_stream_page: Time,
    /// All CPUs together, a page of one node.
    pub node_page: Time,
    /// All CPUs of a node together, a page of one other node.
    pub link_page: Time,
    /// [`NumaCosts::stream_page`] of a node without CPUs.
    pub slow_stream_page: Time,
    /// [`NumaCosts::node_page`] of a node without CPUs.
    pub slow_node_page: Time,
    /// Making one page-table entry inaccessible, its share of the walk and a look at the page included
    /// (`change_pte_range`).
    pub pte_protect: Time,
    /// A page fault that finds who uses a page and makes it accessible again (`do_numa_page`), without migration.
    pub hint_fault: Time,
    /// Moving a page to another node, without allocating, copying and flushing: off its list, out of the page table and
    /// back (`migrate_misplaced_folio`).
    pub page_migrate: Time,
    /// Between two threads that a program starts one after the other (`pthread_create`).
    pub thread_start: Time,
    /// The scheduler's tick on a CPU that runs a program, without what NUMA balancing does in it (`tick_sched_handle`).
    pub tick: Time,
}

impl NumaCosts {
    /// A machine on which all this costs nothing, for whoever compares counts and not times.
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

/// Unit costs of file pages, of swapped pages and of reclaim: CPU time only, without what a device takes, without
/// copies ([`Costs::page_copy`]), and without allocating and freeing the page. A page is 4 KiB.
///
/// ```text
///   read, hit    file_read_call + per page: file_lookup, page_copy
///   read, miss   file_read_call + per page: file_insert; per request: io_submit, the device's own part,
///                               and of a disk task_switch and io_complete; then as a hit
///   write        file_read_call + per page: file_write, page_copy, and file_insert where it was not in memory;
///                flushers: per request as a miss
///   reclaim      per page: lru_scan, rmap_walk for each mapping
///                and of those that go: pte_unmap for each mapping, swap_out or nothing, file_remove
///   swap-in      page_fault + swap_in; per request as a miss
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagingCosts {
    /// A read system call: entry, exit, file position and permission, until the first page is looked up.
    pub file_read_call: Time,
    /// Finding a page in a file's xarray, taking a reference, `folio_mark_accessed`, dropping the reference.
    pub file_lookup: Time,
    /// Writing to a page of a file: the file system's `write_begin` and `write_end`, making it dirty, without finding room for it.
    pub file_write: Time,
    /// Adding a page to a file's xarray and to the LRU's batch; the shadow of a refault is read on the way.
    pub file_insert: Time,
    /// Taking a page out of a file or of the swap cache, its shadow taking its place (`__remove_mapping`).
    pub file_remove: Time,
    /// Building a request and taking it through the block layer (`submit_bio`), without the device's driver.
    pub io_submit: Time,
    /// A disk's interrupt, and waking who waits for the page; other devices are done when the call returns.
    pub io_complete: Time,
    /// Leaving the CPU to wait for a disk, and coming back.
    pub task_switch: Time,
    /// One page that reclaim takes off its list, looks at, and puts back or goes on with, its struct page coming
    /// from memory.
    pub lru_scan: Time,
    /// Looking up one mapping of a page from its struct page, and reading and clearing the accessed bit there
    /// (`folio_referenced`).
    pub rmap_walk: Time,
    /// Removing that mapping (`try_to_unmap`), its share of a batched flush of other CPUs' translations included.
    pub pte_unmap: Time,
    /// Giving a page a place in the swap area and adding it to the swap cache.
    pub swap_out: Time,
    /// Looking a page up in the swap cache, giving its place back, charging it; on top of a page fault.
    pub swap_in: Time,
    /// One page-table entry in a walk that ages a whole address space (`walk_pte_range`), its share of the upper
    /// levels included.
    pub pte_scan: Time,
}

impl PagingCosts {
    /// A machine on which paging costs nothing, for whoever compares counts and not times.
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
    };
}

impl Costs {
    /// What paging costs, or nothing where the profile does not say.
    #[inline]
    pub fn paging(&self) -> PagingCosts {
        self.paging.unwrap_or(PagingCosts::FREE)
    }

    /// What memory of several nodes costs, or nothing where the profile does not say.
    #[inline]
    pub fn numa(&self) -> NumaCosts {
        self.numa.unwrap_or(NumaCosts::FREE)
    }

    /// A machine on which nothing costs anything, for whoever compares counts and not times.
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
