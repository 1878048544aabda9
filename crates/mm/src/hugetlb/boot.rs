//! Huge pages allocated at boot (`hugepagesz=1G hugepages=16` on the kernel's command line, here the setting
//! `hugepages-1048576kB/boot`).
//!
//! ```text
//!   2 MiB   from the buddy allocator        one thread; since 6.9 two per node; since 6.15 one per four CPUs
//!           thread ─► takes a share of the count ─► allocates round robin ─► optimises its list ─► into the pool ─► next share
//!   1 GiB   from memblock, top down, round robin, by one thread; then prepared, since 6.9 by one thread per node
//!           struct pages: all are initialised; since 6.7 not those that HVO frees (since 6.15 boot makes vmemmap optimised)
//! ```
//!
//! Threads run at the same time, each on a CPU of its own, and contend for the zones' locks and hugetlb_lock.
//! Not modelled: since 6.18 a thread that finds no memory prepares what it has at once; here the next round
//! does.
//! In the kernel: `hugetlb_hstate_alloc_pages`, `hugetlb_pages_alloc_boot`, `gather_bootmem_prealloc`,
//! `prep_and_add_bootmem_folios` in mm/hugetlb.c; `padata_do_multithreaded` in kernel/padata.c.

use super::ORDERS;
use super::folio::{Folio, is_gigantic};
use super::policy::{self, BootVmemmap, BootWorkers, take_turn};
use super::prepare::Preparing;
use crate::account::Category;
use crate::allocator::request::Placement;
use crate::kernel::Kernel;
use machine::{Cpu, Node, Topology};
use std::collections::VecDeque;

/// A thread that fills a pool at boot.
struct BootThread {
    cpu: Cpu,
    /// The next node in turn.
    next_node: Node,
    doing: Doing,
}

enum Doing {
    /// About to take a share of the job.
    Idle,
    /// The pages allocated so far, and the number wanted.
    Allocating(Vec<Folio>, u64),
    Preparing(Preparing),
    Done,
}

/// The work that the threads share (`struct padata_mt_job`).
enum Job {
    /// Number of pages left to allocate, and the share that a thread takes at once.
    Allocate { remaining: u64, share: u64 },
    /// Gigantic pages to be prepared, one list for each node.
    Prepare(Vec<Vec<Folio>>),
}

impl Kernel<'_> {
    /// Fills all pools as the boot settings ask, gigantic pages first. Must run before anything else.
    pub fn boot_huge_pages(&mut self) {
        for (order, count) in ORDERS.into_iter().zip(self.on.settings.boot_huge_pages).rev() {
            if count > 0 {
                self.fill_pool_at_boot(order, count);
            }
        }
    }

    fn fill_pool_at_boot(&mut self, order: u8, count: u64) {
        let h = self.parts.hugetlb.hstate_of(order);
        let f = self.on.features.hugetlb;
        if is_gigantic(order) {
            let lists = self.gigantic_at_boot(order, h, count);
            self.run_boot_threads(h, lists.len() as u64, Job::Prepare(lists));
        } else {
            let nodes = self.parts.allocator.nodes_with_memory().len() as u64;
            let cpus = self.on.machine.topology.cpus() as u64;
            let threads = policy::boot_threads(&f, nodes, cpus, self.on.settings.hugepage_alloc_threads);
            loop {
                let before = self.parts.hugetlb.hstates[h].counters().persistent();
                let remaining = count - before;
                let share = (remaining / threads).max(1);
                let job = Job::Allocate { remaining, share };
                self.run_boot_threads(h, threads.min(remaining), job);
                let filled = self.parts.hugetlb.hstates[h].counters().persistent();
                let optimizes = self.on.settings.hugetlb_optimize_vmemmap;
                if !policy::fills_again(&f, optimizes, before, filled, count) {
                    break;
                }
            }
        }
        let hstate = &mut self.parts.hugetlb.hstates[h];
        hstate.max = hstate.counters().persistent();
    }

    /// Runs a job on several threads, the first on this CPU, the others on CPUs of the nodes in turn, and
    /// waits for all of them.
    fn run_boot_threads(&mut self, h: usize, threads: u64, mut job: Job) {
        let nodes = self.parts.allocator.nodes_with_memory();
        let next_node = self.parts.hugetlb.hstates[h].next_to_alloc;
        let began = self.on.machine.now(self.on.cpu);
        let mut threads: Vec<BootThread> = cpus_by_turns(&self.on.machine.topology, self.on.cpu, threads)
            .into_iter()
            .map(|cpu| BootThread { cpu, next_node, doing: Doing::Idle })
            .collect();
        for thread in &threads {
            self.on.machine.idle_until(thread.cpu, began);
        }
        // The thread furthest behind goes on, so that threads contend for locks as they would.
        while let Some(thread) = threads
            .iter_mut()
            .filter(|thread| !matches!(thread.doing, Doing::Done))
            .min_by_key(|thread| self.on.machine.now(thread.cpu))
        {
            let cpu = thread.cpu;
            thread.step(&mut self.on_cpu(cpu), h, &nodes, &mut job);
        }
        if policy::boot_workers(&self.on.features.hugetlb) == BootWorkers::BootingThread {
            self.parts.hugetlb.hstates[h].next_to_alloc = threads[0].next_node;
        }
        let end = threads.iter().map(|thread| self.on.machine.now(thread.cpu)).max();
        self.on.machine.idle_until(self.on.cpu, end.unwrap_or(began));
    }

    /// Initialises the struct pages of a list of gigantic pages, and returns what is left to do until they
    /// are in the pool.
    fn prepare_gigantic(&mut self, h: usize, folios: Vec<Folio>) -> Doing {
        let f = self.on.features.hugetlb;
        for &folio in &folios {
            let made = policy::struct_pages_at_boot(&f, folio.pages(), self.should_optimize(folio));
            self.on.machine.charge(
                self.on.cpu,
                Category::HugePagePrep,
                self.on.machine.costs.boot_struct_page_init * made,
            );
        }
        let optimizes = self.on.settings.hugetlb_optimize_vmemmap;
        if policy::boot_vmemmap(&f, optimizes) == BootVmemmap::Optimized {
            self.adopt_optimized(&folios);
            folios.chunks(1).for_each(|folio| self.add_to_pool(h, folio));
            return Doing::Idle;
        }
        Doing::Preparing(match policy::boot_workers(&f) {
            BootWorkers::BootingThread => Preparing::new(self, h, folios),
            BootWorkers::Threads => Preparing::list(self, h, folios).entering_each(),
        })
    }

    /// Gigantic pages whose vmemmap boot made in optimised form: no frame is replaced. The tails only become
    /// read-only, which takes one TLB flush.
    fn adopt_optimized(&mut self, folios: &[Folio]) {
        for &folio in folios {
            if self.should_optimize(folio) {
                self.adopt_vmemmap(folio);
            }
        }
        self.flush_all();
    }

    /// Allocates gigantic pages from memblock; returns one list, or one for each node.
    fn gigantic_at_boot(&mut self, order: u8, h: usize, count: u64) -> Vec<Vec<Folio>> {
        let nodes = self.parts.allocator.nodes_with_memory();
        let of_boot = |kernel: &mut Kernel, node| {
            Some(Folio { pfn: kernel.parts.allocator.alloc_at_boot(order, node)?, order })
        };
        let mut folios: Vec<Folio> =
            (0..count).map_while(|_| self.alloc_by_turns(h, &nodes, of_boot)).collect();
        for &folio in &folios {
            self.parts.hugetlb.held += folio.pages();
            self.parts.hugetlb.note_fresh(folio);
        }
        if policy::boot_workers(&self.on.features.hugetlb) == BootWorkers::BootingThread {
            return vec![folios];
        }
        folios.sort_by_key(|folio| self.parts.allocator.node_of(folio.pfn));
        let by_node = folios
            .chunk_by(|a, b| self.parts.allocator.node_of(a.pfn) == self.parts.allocator.node_of(b.pfn));
        by_node.map(<[Folio]>::to_vec).collect()
    }
}

impl BootThread {
    /// One step: a page, a flush or a hold of the lock.
    fn step(&mut self, kernel: &mut Kernel, h: usize, nodes: &[Node], job: &mut Job) {
        self.doing = match std::mem::replace(&mut self.doing, Doing::Done) {
            Doing::Idle => match job {
                Job::Allocate { remaining: 0, .. } => Doing::Done,
                Job::Allocate { remaining, share } => {
                    let wanted = (*share).min(*remaining);
                    *remaining -= wanted;
                    self.next_node = nodes[0];
                    Doing::Allocating(Vec::new(), wanted)
                }
                Job::Prepare(lists) => match lists.pop() {
                    Some(folios) => kernel.prepare_gigantic(h, folios),
                    None => Doing::Done,
                },
            },
            Doing::Allocating(mut folios, wanted) => {
                let fresh = nodes.iter().find_map(|_| {
                    let node = take_turn(nodes, &mut self.next_node);
                    kernel.alloc_fresh(h, Placement::Bind(node))
                });
                let is_short = fresh.is_none();
                folios.extend(fresh);
                if let Job::Allocate { remaining, .. } = job
                    && is_short
                {
                    // No other thread would find memory either.
                    *remaining = 0;
                }
                if is_short || folios.len() as u64 == wanted {
                    Doing::Preparing(Preparing::new(kernel, h, folios))
                } else {
                    Doing::Allocating(folios, wanted)
                }
            }
            Doing::Preparing(mut preparing) => {
                if preparing.step(kernel) {
                    Doing::Idle
                } else {
                    Doing::Preparing(preparing)
                }
            }
            Doing::Done => Doing::Done,
        };
    }
}

/// CPUs for `threads` threads, or as many as there are: `first`, then one of each further node in turn.
fn cpus_by_turns(topology: &Topology, first: Cpu, threads: u64) -> Vec<Cpu> {
    let mut nodes: Vec<VecDeque<Cpu>> =
        (0..topology.nodes_with_cpus()).map(|node| topology.cpus_of(Node(node)).into()).collect();
    nodes.iter_mut().for_each(|cpus| cpus.retain(|&cpu| cpu != first));
    let next = usize::from(topology.node(first).0 + 1) % nodes.len();
    nodes.rotate_left(next);
    let most = (threads.max(1) as usize).min(topology.cpus());
    let mut cpus = vec![first];
    while cpus.len() < most {
        cpus.extend(nodes.iter_mut().filter_map(VecDeque::pop_front));
    }
    cpus.truncate(most);
    cpus
}
