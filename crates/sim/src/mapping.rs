//! Private anonymous memory of processes, where programs ask for it: next to what is mapped already, or apart from it, and on which
//! node its pages are allocated.
//!
//! ```text
//!   map             ├─ earlier ─┤├─ pages ─┤              the kernel merges adjacent VMAs
//!   map_behind      ├─ earlier ─┤   room   ├─ pages ─┤
//!   map_apart       the same with a page table's range as room
//!   map_near        ├─ earlier ─┤ gap ├─ pages ─┤                      in the page table of what is before it, if that has room
//! ```

use crate::System;
use machine::{Cpu, Node, PageSize};
use mm::Category;
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::memory::Unmapped;
use mm::numa::migrate::policy::{Mempolicy, Mode, Nodes};
use mm::numa::placement::TaskId;
use std::ops::Range;

/// Pages that a page table maps.
pub(crate) const SPAN: u64 = 512;

/// Maps private anonymous memory.
pub(crate) fn map(system: &mut System, mm: MmId, pages: u64) -> Range<Vpn> {
    let start =
        system.mm.enter(&mut system.machine, Cpu(0)).mmap(mm, pages, Backing::Anonymous, VmFlags::PRIVATE);
    start..start + pages
}

/// Maps an area that is not adjacent to any other.
pub(crate) fn map_apart(system: &mut System, mm: MmId, pages: u64) -> Range<Vpn> {
    map_behind(system, mm, SPAN, pages)
}

/// Maps an area with `room` unmapped pages in front of it, which start with the first page of a page table.
pub(crate) fn map_behind(system: &mut System, mm: MmId, room: u64, pages: u64) -> Range<Vpn> {
    let Range { start, end } = map(system, mm, room + pages);
    system.mm.enter(&mut system.machine, Cpu(0)).munmap(mm, start..start + room);
    start + room..end
}

/// Maps an area `gap` pages behind all others, or at the next multiple of `alignment` behind that.
pub(crate) fn map_near(
    system: &mut System,
    cpu: Cpu,
    mm: MmId,
    (gap, alignment, pages): (u64, u64, u64),
) -> Range<Vpn> {
    let end = system.mm.parts.address_spaces.mm(mm).vmas.end().max(SPAN);
    let start = (end + gap).next_multiple_of(alignment);
    let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE);
    system.mm.enter(&mut system.machine, cpu).mmap_fixed(mm, start, pages, backing, flags);
    start..start + pages
}

/// Unmaps an area.
pub(crate) fn unmap(system: &mut System, cpu: Cpu, mm: MmId, area: Range<Vpn>) {
    let unmapped = system.mm.enter(&mut system.machine, cpu).munmap(mm, area);
    pay_for(system, cpu, &unmapped);
}

/// Maps an area anew at the same address, without pages (`mmap(MAP_FIXED)`).
pub(crate) fn map_again(system: &mut System, cpu: Cpu, mm: MmId, Range { start, end }: Range<Vpn>) {
    let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE);
    let unmapped =
        system.mm.enter(&mut system.machine, cpu).mmap_fixed(mm, start, end - start, backing, flags);
    pay_for(system, cpu, &unmapped);
}

/// Lets `cpu` spend what unmapping these pages takes.
pub(crate) fn pay_for(system: &mut System, cpu: Cpu, unmapped: &Unmapped) {
    let cost = unmapped.cost(&system.machine.costs);
    system.machine.work(cpu, Category::PageFree, cost);
}

/// Binds new memory of a task to a node, or lifts that (`set_mempolicy`: MPOL_BIND, MPOL_DEFAULT).
pub(crate) fn bind(system: &mut System, task: TaskId, node: Option<Node>) {
    let policy = node.map(|node| Mempolicy {
        mode: Mode::Bind(Nodes::of(node)),
        migrate_on_fault: false,
        migrate_on_referencing_node: false,
    });
    system.mm.parts.numa.set_mempolicy(task, policy);
}

/// Converts demand in pages of 4 KiB to pages of this size.
pub(crate) fn pages_of(page_size: PageSize, parts: u64) -> u64 {
    page_size.pages_of_parts(0..parts).end
}
