//! A machine so small that memory runs short at once: two nodes, two CPUs each, 8,500 pages in three zones.
//! With larger base pages it has more of them, as a huge page has more of them too.

use machine::{Costs, Machine, Node, PageSize, Topology};
use mm::memory_map::{MemoryRange, memory_layout};
use mm::page::{Geometry, PMD_ORDER};
use mm::{Category, MemoryManager, Settings, Variant, ZoneType};
use rand_pcg::Pcg64Mcg;

/// CPUs of the machine.
pub const CPUS: u16 = 4;

/// Boots a variant with its settings. Nothing costs any time.
#[allow(dead_code)]
pub fn boot(variant: &Variant) -> (Machine<Category>, MemoryManager) {
    boot_machine(variant, 2, PageSize::Kib4)
}

/// Like `boot`, but with all CPUs on the first `nodes` nodes.
#[allow(dead_code)]
pub fn boot_with_cpus_on(nodes: u8, variant: &Variant) -> (Machine<Category>, MemoryManager) {
    boot_machine(variant, nodes, PageSize::Kib4)
}

/// Like `boot`, but with base pages of this size, and as much memory, counted in huge pages, as with 4 KiB.
#[allow(dead_code)]
pub fn boot_with(variant: &Variant, page_size: PageSize) -> (Machine<Category>, MemoryManager) {
    boot_machine(variant, 2, page_size)
}

/// Like `boot_with_cpus_on`, but with struct pages in frames of their own, which huge pages can free.
#[allow(dead_code)]
pub fn boot_with_memmap(
    nodes: u8,
    mib_per_node: u64,
    variant: &Variant,
) -> (Machine<Category>, MemoryManager) {
    boot_memory(variant, nodes, PageSize::Kib4, &memory_layout(2, mib_per_node))
}

fn boot_machine(variant: &Variant, nodes: u8, page_size: PageSize) -> (Machine<Category>, MemoryManager) {
    let more = Geometry::of(page_size).hpage_pmd_nr() - (1 << PMD_ORDER);
    let range = |node, kind, span| MemoryRange::all_free(Node(node), kind, span);
    let memory = [
        range(0, ZoneType::Dma32, 4096..5596),
        range(0, ZoneType::Normal, 1 << 20..(1 << 20) + 4000 + more),
        range(1, ZoneType::Normal, (1 << 20) + 4096 + more..(1 << 20) + 7096 + 2 * more),
    ];
    boot_memory(variant, nodes, page_size, &memory)
}

fn boot_memory(
    variant: &Variant,
    nodes: u8,
    page_size: PageSize,
    memory: &[MemoryRange],
) -> (Machine<Category>, MemoryManager) {
    let topology = Topology {
        sockets: nodes.into(),
        memory_only_nodes: 2 - nodes,
        ..Topology::of_nodes(2, CPUS / u16::from(nodes))
    };
    let mut settings = Settings::new(page_size);
    let own = variant.settings.iter().filter(|(name, _)| mm::sysctl::exists(name, page_size));
    for &(name, value) in own.chain(&[("transparent_hugepage/enabled", "never")]) {
        settings.set(name, value).unwrap();
    }
    let mm = MemoryManager::new(&topology, memory, variant.features, settings, Pcg64Mcg::new(1));
    (Machine::new(topology, Costs::FREE), mm)
}
