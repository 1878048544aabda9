//! Objects of processes, and the blocks of pages of which their slabs are made.

use super::cache::{Discarded, Layout, SlabId};
use super::{OF_PROCESS, Object, Since};
use crate::account::Category;
use crate::allocator::request::{Effort, Placement, Request};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::{MigrateType, Pfn};

impl Kernel<'_> {
    /// Allocates what the kernel keeps of a process `since` it was forked or executed a program, into `objects`. An object for which there is
    /// no memory is left out. May take locks, so the CPU must be the one furthest behind.
    pub fn alloc_of_process(&mut self, since: Since, placement: Placement, objects: &mut Vec<Object>) {
        for (number, kind) in OF_PROCESS.iter().enumerate().filter(|(_, kind)| kind.since == since) {
            objects.extend((0..kind.count).map_while(|_| self.kmem_cache_alloc(number, placement)));
        }
    }

    /// Frees those of a process's `objects` that the kernel kept `since` it was forked or executed its program.
    pub fn free_of_process(&mut self, since: Since, objects: &mut Vec<Object>) {
        let cpu = self.on.cpu;
        for Object { cache, slab } in objects.extract_if(.., |object| object.kind().since == since) {
            let discarded = self.parts.slabs.caches[usize::from(cache)].free(cpu, slab);
            discarded.into_iter().for_each(|slab| self.discard_slab(slab));
        }
    }

    fn kmem_cache_alloc(&mut self, number: usize, placement: Placement) -> Option<Object> {
        let cpu = self.on.cpu;
        let node = self.on.preferred_node(placement);
        let Kernel { parts, .. } = self;
        let slab_cache = &mut parts.slabs.caches[number];
        let min_order = slab_cache.layout().min_order;
        let nodes = || parts.allocator.nodes_for(node, &slab_request(min_order, placement));
        let slab = match slab_cache.alloc(cpu, nodes) {
            Some(slab) => slab,
            None => self.alloc_from_new_slab(number, placement)?,
        };
        Some(Object { cache: number as u8, slab })
    }

    /// Takes an object of a new slab (`new_slab`).
    fn alloc_from_new_slab(&mut self, number: usize, placement: Placement) -> Option<SlabId> {
        let cpu = self.on.cpu;
        let layout = *self.parts.slabs.caches[number].layout();
        let (pfn, order) = self.allocate_slab(&layout, placement)?;
        self.on.counters.add(Event::AllocSlab, 1);
        self.on.machine.work(cpu, Category::Program, self.on.machine.costs.page_alloc);
        let allocator = &self.parts.allocator;
        let node = allocator.zones()[allocator.zone_of(pfn)].node;
        let (slab, discarded) = self.parts.slabs.caches[number].alloc_from_new(cpu, (pfn, order, node));
        discarded.into_iter().for_each(|slab| self.discard_slab(slab));
        Some(slab)
    }

    /// Takes a block for a slab: of the order that the cache wants if one is free, else of the smallest order that holds an object, however hard
    /// that is to come by.
    fn allocate_slab(&mut self, layout: &Layout, placement: Placement) -> Option<(Pfn, u8)> {
        if layout.order > layout.min_order {
            let request = slab_request(layout.order, placement);
            if let Some(pfn) = self.alloc(&Request { effort: Effort::LIGHT, ..request }) {
                return Some((pfn, layout.order));
            }
        }
        let pfn = self.alloc(&slab_request(layout.min_order, placement))?;
        Some((pfn, layout.min_order))
    }

    fn discard_slab(&mut self, Discarded { pfn, order }: Discarded) {
        self.on.counters.add(Event::FreeSlab, 1);
        self.on.machine.work(self.on.cpu, Category::Program, self.on.machine.costs.page_free);
        self.free(pfn, order);
    }
}

fn slab_request(order: u8, placement: Placement) -> Request {
    Request::new(order, MigrateType::Unmovable, placement)
}
