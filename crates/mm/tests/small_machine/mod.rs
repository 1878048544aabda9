//! A machine with two nodes, two CPUs each and a few hundred MiB in four zones.

use machine::topology::{Cache, SharedBy};
use machine::{Machine, Node, Profile, Topology};
use mm::memory_map::MemoryRange;
use mm::{Category, Features, MemoryManager, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

/// Boots the machine.
pub fn boot(features: Features) -> (Machine<Category>, MemoryManager) {
    let topology = Topology {
        caches: vec![Cache { level: 3, bytes: 32 << 20, shared_by: SharedBy::Socket }],
        ..Topology::of_nodes(2, 2)
    };
    let range =
        |node, kind, span, memmap| MemoryRange { memmap, ..MemoryRange::all_free(Node(node), kind, span) };
    let normal = |from: u32, to: u32| (1 << 20) + from..(1 << 20) + to;
    let memory = [
        range(0, ZoneType::Dma, 1..1024, 0..0),
        range(0, ZoneType::Dma32, 4096..4096 + 10_000, 0..0),
        range(0, ZoneType::Normal, normal(0, 60_000), normal(60_416, 61_440)),
        range(1, ZoneType::Normal, normal(61_440, 90_000), normal(90_112, 90_624)),
    ];
    let costs = Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).unwrap().costs();
    let mm = MemoryManager::new(&topology, &memory, features, Settings::default(), Pcg64Mcg::new(1));
    (Machine::new(topology, costs), mm)
}
