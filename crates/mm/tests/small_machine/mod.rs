//! A machine with two nodes, two CPUs each and a few hundred MiB in four zones.

use machine::topology::{Cache, SharedBy};
use machine::{Machine, Node, Profile, Topology};
use mm::page_alloc::MemoryRange;
use mm::{Category, Features, MemoryManager, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

/// Boots it.
pub fn boot(features: Features) -> (Machine<Category>, MemoryManager) {
    let topology = Topology {
        sockets: 2,
        cores_per_socket: 2,
        threads_per_core: 1,
        nodes: 2,
        node_distances: vec![vec![10, 20], vec![20, 10]],
        caches: vec![Cache { level: 3, bytes: 32 << 20, shared_by: SharedBy::Socket }],
    };
    let range = |node, kind, span| MemoryRange { node: Node(node), kind, span };
    let memory = [
        range(0, ZoneType::Dma, 1..1024),
        range(0, ZoneType::Dma32, 4096..4096 + 10_000),
        range(0, ZoneType::Normal, 1 << 20..(1 << 20) + 60_000),
        range(1, ZoneType::Normal, (1 << 20) + 61_440..(1 << 20) + 90_000),
    ];
    let costs = Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).unwrap().costs();
    let mm = MemoryManager::new(&topology, &memory, features, Settings::default(), Pcg64Mcg::new(1));
    (Machine::new(topology, costs), mm)
}
