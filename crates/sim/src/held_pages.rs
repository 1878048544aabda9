//! Memory that is taken from the start, or by what devices store in memory: RAM disks and zram.

use crate::block_io::BlockIo;
use crate::{Boot, RunError, System};
use machine::{Cpu, Node};
use mm::allocator::request::Effort;
use mm::{MigrateType, Pfn, Placement, Request};

/// Pages that are set aside.
pub(crate) struct HeldPages {
    pages: Vec<Pfn>,
    /// How many of them stay to the end.
    lasting: u64,
}

impl HeldPages {
    /// Sets aside pages that stay to the end: `of_files` for RAM disks, and `in_use` by what is not modelled, in blocks as far as there are
    /// some.
    pub fn new(boot: &Boot, system: &mut System, of_files: u64, in_use: u64) -> Result<HeldPages, RunError> {
        let topology = &system.machine.topology;
        let nodes = (0..topology.nodes_with_cpus()).map(Node);
        let cpus: Vec<Cpu> = nodes.filter_map(|node| topology.cpus_of(node).into_iter().next()).collect();
        let lasting = of_files + in_use - hold_blocks(system, &cpus, in_use);
        let mut held = HeldPages { pages: Vec::new(), lasting };
        held.hold(system, &cpus, lasting, Effort::LIGHT);
        if (held.pages.len() as u64) < lasting {
            let mib = system.mm.parts.allocator.page_size().mib_of_pages(of_files + in_use) as u64;
            return Err(RunError::TooLarge { mib, machine: boot.machine.name.clone() });
        }
        Ok(held)
    }

    /// Sets aside pages that somebody has allocated, to the end.
    pub fn keep(&mut self, pages: Vec<Pfn>) {
        self.lasting += pages.len() as u64;
        self.pages.extend(pages);
    }

    /// Sets aside pages until there are `wanted` in all, or no more are free: of the nodes of `cpus` in turn.
    fn hold(&mut self, system: &mut System, cpus: &[Cpu], wanted: u64, effort: Effort) {
        let request = Request { effort, ..Request::new(0, MigrateType::Unmovable, Placement::Local) };
        while (self.pages.len() as u64) < wanted {
            let cpu = cpus[self.pages.len() % cpus.len()];
            match system.alloc(cpu, &request) {
                Some(pfn) => self.pages.push(pfn),
                None => break,
            }
        }
    }

    /// Sets aside as much memory as the contents of zram or a RAM disk for swap take, now that `cpu` has written or freed some.
    pub fn follow_swap(&mut self, system: &mut System, cpu: Cpu, io: &BlockIo) {
        let Some(bytes) = io.memory_of_swap(system) else { return };
        let wanted = self.lasting + bytes.div_ceil(system.mm.parts.allocator.page_size().bytes());
        // zram and brd are written to by reclaim.
        self.hold(system, &[cpu], wanted, Effort::OF_RECLAIM);
        while self.pages.len() as u64 > wanted
            && let Some(pfn) = self.pages.pop()
        {
            system.free(cpu, pfn, 0);
        }
    }
}

/// Sets aside up to `wanted` pages to the end, of the nodes of `cpus` in turn and in the largest blocks: what fills a large machine are
/// huge pages of guests, heaps and pools. Compaction looks at each once and moves none. Returns how many pages they are.
fn hold_blocks(system: &mut System, cpus: &[Cpu], wanted: u64) -> u64 {
    let order = system.mm.parts.allocator.geometry().max_page_order;
    let request = Request::new(order, MigrateType::Movable, Placement::Local);
    let request = Request { effort: Effort::LIGHT, ..request };
    let turns = cpus.iter().cycle().take((wanted >> order) as usize);
    let blocks = turns.map_while(|&cpu| system.alloc_lasting(cpu, &request));
    (blocks.count() as u64) << order
}
