//! A slab cache: which slab an object comes from, and when a slab is given back.

use super::policy;
use crate::allocator::page::Pfn;
use machine::{Cpu, Node};
use std::collections::VecDeque;

/// Number of a slab within its cache; a slab that was given back leaves its number to another.
pub type SlabId = u32;

/// How a cache's slabs are laid out, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of an object, with what aligns it.
    pub size: u32,
    /// Order of a slab, as far as there are such blocks.
    pub order: u8,
    /// Order of a slab where there are none: that of one object.
    pub min_order: u8,
    /// Bytes of a page.
    page_bytes: u64,
    cpu_partial_slabs: usize,
    min_partial: usize,
}

impl Layout {
    /// Slabs of objects of `size` bytes with at least `min_objects`, up to `max_order` where one object fits.
    pub fn new(size: u32, min_objects: u32, max_order: u8, page_bytes: u64) -> Layout {
        let order = policy::slab_order(size, min_objects, max_order, page_bytes);
        let objects = ((page_bytes << order) / u64::from(size)) as u32;
        Layout {
            size,
            order,
            min_order: policy::get_order(size.into(), page_bytes),
            page_bytes,
            cpu_partial_slabs: policy::cpu_partial_slabs(size, objects, page_bytes),
            min_partial: policy::min_partial(size),
        }
    }

    /// Slabs with free objects that a CPU keeps.
    pub fn cpu_partial_slabs(&self) -> usize {
        self.cpu_partial_slabs
    }

    /// Slabs that a node keeps though they are empty.
    pub fn min_partial(&self) -> usize {
        self.min_partial
    }

    /// Objects in a slab of an order.
    pub fn objects(&self, order: u8) -> u32 {
        ((self.page_bytes << order) / u64::from(self.size)) as u32
    }
}

/// Where a slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A CPU takes objects from it (`frozen`).
    Active,
    /// On a CPU's list of slabs with free objects.
    CpuPartial,
    /// On a node's list of slabs with free objects.
    NodePartial,
    /// Nowhere, as no object of it is free.
    Full,
    /// Given back; its number is unused.
    Gone,
}

/// A block of pages, divided into objects.
#[derive(Clone, Copy, Debug)]
struct Slab {
    pfn: Pfn,
    order: u8,
    node: Node,
    /// Objects that it has room for.
    objects: u32,
    /// Those that are free, but for those that the CPU which takes objects from it has for itself.
    free: u32,
    place: Place,
}

/// What a CPU has at hand (`struct kmem_cache_cpu`).
#[derive(Clone, Debug, Default)]
struct CpuSlab {
    active: Option<SlabId>,
    /// Free objects of it that no other CPU sees.
    freelist: u32,
    /// Slabs with free objects, the latest last.
    partial: Vec<SlabId>,
}

/// A block of pages that a cache does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discarded {
    pub pfn: Pfn,
    pub order: u8,
}

/// A slab cache (`struct kmem_cache`).
#[derive(Clone, Debug)]
pub struct KmemCache {
    layout: Layout,
    slabs: Vec<Slab>,
    unused: Vec<SlabId>,
    cpus: Vec<CpuSlab>,
    /// Of each node, slabs with free objects.
    nodes: Vec<VecDeque<SlabId>>,
}

impl KmemCache {
    pub fn new(layout: Layout, cpus: usize, nodes: usize) -> KmemCache {
        KmemCache {
            layout,
            slabs: Vec::new(),
            unused: Vec::new(),
            cpus: vec![CpuSlab::default(); cpus],
            nodes: vec![VecDeque::new(); nodes],
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Pages of all slabs.
    pub fn pages(&self) -> u64 {
        self.present().map(|slab| 1u64 << slab.order).sum()
    }

    fn present(&self) -> impl Iterator<Item = &Slab> {
        self.slabs.iter().filter(|slab| slab.place != Place::Gone)
    }

    /// Takes an object for a CPU: from its own slab, from one of those that it keeps, or from one that the nearest of `nodes` has
    /// (`___slab_alloc`). Returns its slab; `None` if the cache has no free object within reach, so that it needs another slab.
    pub fn alloc(&mut self, cpu: Cpu, nodes: impl FnOnce() -> Vec<Node>) -> Option<SlabId> {
        if self.cpus[cpu.index()].freelist == 0 && !self.refill(cpu, nodes) {
            return None;
        }
        let own = &mut self.cpus[cpu.index()];
        own.freelist -= 1;
        own.active
    }

    /// Gives a CPU the free objects of some slab. Returns whether there was one.
    fn refill(&mut self, cpu: Cpu, nodes: impl FnOnce() -> Vec<Node>) -> bool {
        if let Some(active) = self.cpus[cpu.index()].active {
            if self.slabs[active as usize].free > 0 {
                self.activate(cpu, active);
                return true;
            }
            self.slabs[active as usize].place = Place::Full;
            self.cpus[cpu.index()].active = None;
        }
        let next = self.cpus[cpu.index()].partial.pop().or_else(|| self.get_partial(cpu, &nodes()));
        if let Some(slab) = next {
            self.activate(cpu, slab);
        }
        next.is_some()
    }

    /// Hands all free objects of a slab to a CPU (`get_freelist`).
    fn activate(&mut self, cpu: Cpu, id: SlabId) {
        let slab = &mut self.slabs[id as usize];
        let own = &mut self.cpus[cpu.index()];
        slab.place = Place::Active;
        (own.active, own.freelist) = (Some(id), std::mem::take(&mut slab.free));
    }

    /// Takes a slab off the list of the first of `nodes`, or off that of another that has more than it keeps (`get_partial`). The kernel
    /// leaves others alone in 23 of 1024 cases (`remote_node_defrag_ratio`), by the clock; here it never does.
    fn get_partial(&mut self, cpu: Cpu, nodes: &[Node]) -> Option<SlabId> {
        let (&first, others) = nodes.split_first()?;
        let has_many = |node: &&Node| self.nodes[node.index()].len() > self.layout.min_partial;
        let from = match self.nodes[first.index()].is_empty() {
            true => *others.iter().find(has_many)?,
            false => first,
        };
        let taken = self.nodes[from.index()].pop_front();
        // Some more for the CPU to keep.
        for _ in 0..=self.layout.cpu_partial_slabs / 2 {
            let Some(more) = self.nodes[from.index()].pop_front() else { break };
            self.slabs[more as usize].place = Place::CpuPartial;
            self.cpus[cpu.index()].partial.push(more);
        }
        taken
    }

    /// Takes an object of a new slab, from which the CPU goes on to take some. The page allocator may have let others use the CPU
    /// meanwhile; the slab that it took from then is put away (`deactivate_slab`), which may come to a block that is not needed.
    pub fn alloc_from_new(
        &mut self,
        cpu: Cpu,
        (pfn, order, node): (Pfn, u8, Node),
    ) -> (SlabId, Option<Discarded>) {
        let discarded = self.deactivate(cpu);
        let objects = self.layout.objects(order);
        let slab = Slab { pfn, order, node, objects, free: objects, place: Place::Active };
        let id = self.add(slab);
        self.activate(cpu, id);
        self.cpus[cpu.index()].freelist -= 1;
        (id, discarded)
    }

    /// Adds a slab of which so many objects are free and all others in use already, at the end of its node's list.
    pub fn add_partial(&mut self, node: Node, free: u32) -> SlabId {
        let order = self.layout.order;
        let place = if free > 0 { Place::NodePartial } else { Place::Full };
        let id = self.add(Slab { pfn: 0, order, node, objects: self.layout.objects(order), free, place });
        if free > 0 {
            self.nodes[node.index()].push_back(id);
        }
        id
    }

    /// Gives a slab its number.
    fn add(&mut self, slab: Slab) -> SlabId {
        match self.unused.pop() {
            Some(id) => {
                self.slabs[id as usize] = slab;
                id
            }
            None => {
                self.slabs.push(slab);
                self.slabs.len() as SlabId - 1
            }
        }
    }

    /// Puts the slab away that a CPU takes objects from.
    fn deactivate(&mut self, cpu: Cpu) -> Option<Discarded> {
        let own = &mut self.cpus[cpu.index()];
        let (active, freelist) = (own.active.take()?, std::mem::take(&mut own.freelist));
        let slab = &mut self.slabs[active as usize];
        slab.free += freelist;
        if slab.free > 0 {
            return self.put_on_node(active);
        }
        slab.place = Place::Full;
        None
    }

    /// Gives an object back to its slab (`__slab_free`). Returns blocks that the cache does without now.
    pub fn free(&mut self, cpu: Cpu, id: SlabId) -> Vec<Discarded> {
        let own = &mut self.cpus[cpu.index()];
        if own.active == Some(id) {
            own.freelist += 1;
            return Vec::new();
        }
        let slab = &mut self.slabs[id as usize];
        slab.free += 1;
        let is_empty = slab.free == slab.objects;
        match slab.place {
            Place::Full => self.put_cpu_partial(cpu, id),
            Place::NodePartial if is_empty => self.discard_empty(id).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Keeps a slab that was full on a CPU's list. If that has as many as it may, they all go to their nodes first.
    fn put_cpu_partial(&mut self, cpu: Cpu, id: SlabId) -> Vec<Discarded> {
        let own = &mut self.cpus[cpu.index()];
        let drained = match own.partial.len() >= self.layout.cpu_partial_slabs {
            true => std::mem::take(&mut own.partial),
            false => Vec::new(),
        };
        own.partial.push(id);
        self.slabs[id as usize].place = Place::CpuPartial;
        drained.into_iter().rev().filter_map(|slab| self.put_on_node(slab)).collect()
    }

    /// Puts a slab on its node's list, or gives it back if it is empty and the node has enough (`__put_partials`).
    fn put_on_node(&mut self, id: SlabId) -> Option<Discarded> {
        let slab = &mut self.slabs[id as usize];
        let list = &mut self.nodes[slab.node.index()];
        if slab.free == slab.objects && list.len() >= self.layout.min_partial {
            return Some(self.discard(id));
        }
        slab.place = Place::NodePartial;
        list.push_back(id);
        None
    }

    /// Gives a slab back that has become empty on its node's list, if the node has enough.
    fn discard_empty(&mut self, id: SlabId) -> Option<Discarded> {
        let list = &mut self.nodes[self.slabs[id as usize].node.index()];
        if list.len() < self.layout.min_partial {
            return None;
        }
        list.retain(|&other| other != id);
        Some(self.discard(id))
    }

    fn discard(&mut self, id: SlabId) -> Discarded {
        let slab = &mut self.slabs[id as usize];
        slab.place = Place::Gone;
        self.unused.push(id);
        Discarded { pfn: slab.pfn, order: slab.order }
    }

    /// Panics if a slab is not where it should be.
    pub fn validate(&self) {
        for slab in self.present() {
            assert!(slab.free <= slab.objects, "{slab:?}");
            let has_free = matches!(slab.place, Place::CpuPartial | Place::NodePartial);
            assert!(slab.place == Place::Active || has_free == (slab.free > 0), "{slab:?}");
        }
        let on_lists = |place: Place| self.slabs.iter().filter(|slab| slab.place == place).count();
        let active = self.cpus.iter().filter(|own| own.active.is_some()).count();
        assert_eq!(active, on_lists(Place::Active), "each CPU takes objects from a slab of its own");
        let of_cpus: usize = self.cpus.iter().map(|own| own.partial.len()).sum();
        assert_eq!(of_cpus, on_lists(Place::CpuPartial), "slabs that CPUs keep");
        let of_nodes: usize = self.nodes.iter().map(VecDeque::len).sum();
        assert_eq!(of_nodes, on_lists(Place::NodePartial), "slabs that nodes keep");
        assert_eq!(self.unused.len(), on_lists(Place::Gone), "slabs that were given back");
    }
}
