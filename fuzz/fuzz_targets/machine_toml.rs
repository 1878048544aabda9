//! Any text is a machine profile or an error; an accepted one has a shape and memory that add up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Cpu, Machine, Node, Profile};
use mm::Category;
use mm::memory_map::memory_layout_of;

fuzz_target!(|text: &str| {
    let Ok(profile) = Profile::parse(text) else { return };
    let topology = profile.topology();
    let _ = (topology.last_level_slice(), topology.sum_of_cache_slices());
    let last = Cpu((topology.cpus() - 1) as u16);
    assert!(topology.node(last).0 < topology.nodes);
    let machine = Machine::<Category>::new(topology.clone(), profile.costs());
    let _ = (topology.sibling(last), machine.line_transfer(Cpu(0), last));
    for node in 0..topology.nodes {
        assert_eq!(topology.nodes_by_distance(Node(node)).len(), topology.nodes as usize);
        let _ = (machine.memory_line(last, Node(node)), machine.stream_alone(last, Node(node), 1));
    }
    let mib = profile.topology.memory_mib_per_node;
    let memory = memory_layout_of(profile.page_size, topology.nodes, mib);
    for range in &memory {
        assert!(range.managed <= range.present && range.present <= range.spanned.len() as u64, "{range:?}");
    }
    let installed = profile.page_size.pages_of_mib(mib) * u64::from(topology.nodes);
    assert!(memory.iter().map(|range| range.managed).sum::<u64>() <= installed, "more than the profile says");
});
