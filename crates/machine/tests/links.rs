//! Links: which table a way to memory takes its figures from, and the errors for wrong tables.

use machine::links::{Link, WayCosts};
use machine::{Category, Costs, Cpu, Machine, Node, NumaCosts, Profile, Time, Topology};
use proptest::prelude::*;
use std::collections::BTreeMap;

const E7: &str = include_str!("../../../machines/e7-8895-8s.toml");
const NUMA_256: &str = include_str!("../../../machines/numa-256.toml");
const TIERED: &str = include_str!("../../../machines/tiered-2n.toml");

#[derive(Clone, Copy, Debug)]
struct Busy;

impl Category for Busy {
    const COUNT: usize = 1;
    const IDLE: Busy = Busy;
    fn index(self) -> usize {
        0
    }
}

fn figure(value: f64) -> String {
    format!("{{ value = {value:?}, source = \"made up\" }}")
}

/// The first CPU of a node; all nodes with CPUs have equally many.
fn first_cpu(machine: &Machine<Busy>, node: u8) -> Cpu {
    machine.topology.cpus_of(Node(node))[0]
}

/// Nanoseconds for a line, and for a page that one CPU streams.
fn way(machine: &Machine<Busy>, from: u8, memory: u8) -> [f64; 2] {
    let cpu = first_cpu(machine, from);
    let (line, page) = (machine.memory_line(cpu, Node(memory)), machine.stream_alone(cpu, Node(memory), 1));
    [line, page].map(|time| time.picoseconds() as f64 / 1000.0)
}

fn machine(text: &str) -> Machine<Busy> {
    let profile = Profile::parse(text).unwrap();
    Machine::new(profile.topology(), profile.costs())
}

/// Four sockets in a ring and a node without CPUs.
fn ring() -> String {
    NUMA_256
        .replace("sockets = 2", "sockets = 4")
        .replace("cores_per_socket = 64", "cores_per_socket = 2")
        .replace("\nnodes = 2", "\nnodes = 5\nmemory_only_nodes = 1")
        .replace(
            "node_distances = [[10, 32], [32, 10]]",
            "node_distances = [[10, 20, 30, 20, 40], [20, 10, 20, 30, 50], [30, 20, 10, 20, 50], \
             [20, 30, 20, 10, 40], [40, 50, 50, 40, 10]]",
        )
}

#[test]
fn a_pair_goes_before_a_distance_and_that_before_what_is_general() {
    let plain = machine(&ring());
    let text = format!(
        "{}\n[links.distance-30]\nmemory_line_ns = {}\nstream_gb_per_second = {}\n\
         [links.node1-node3]\nmemory_line_ns = {}\n",
        ring(),
        figure(400.0),
        figure(4.0),
        figure(500.0)
    );
    let linked = machine(&text);
    for (from, memory) in [(0, 2), (2, 0)] {
        assert_eq!(way(&linked, from, memory), [400.0, 1024.0]);
    }
    for (from, memory) in [(1, 3), (3, 1)] {
        assert_eq!(way(&linked, from, memory), [500.0, 1024.0], "what a pair leaves open is its distance's");
    }
    for (from, memory) in [(0, 0), (3, 3), (0, 1), (1, 0), (3, 0), (2, 4)] {
        assert_eq!(way(&linked, from, memory), way(&plain, from, memory), "{from} to {memory}");
    }
}

#[test]
fn a_node_has_figures_of_its_own() {
    let text = format!(
        "{}\n[memory.node1]\nmemory_line_ns = {}\n[memory.node4]\nmemory_line_ns = {}\nstream_gb_per_second = {}\n\
         [links.distance-40]\nmemory_line_ns = {}\n[links.node2-node4]\nmemory_line_ns = {}\n",
        ring(),
        figure(90.0),
        figure(300.0),
        figure(8.0),
        figure(333.0),
        figure(350.0)
    );
    let (plain, own) = (machine(&ring()), machine(&text));
    assert_eq!(way(&own, 1, 1)[0], 90.0);
    assert_eq!(own.own_memory_line(first_cpu(&own, 1)), Time::from_nanoseconds(90));
    assert_eq!(way(&own, 0, 1), way(&plain, 0, 1), "to others it is as far as before");
    assert_eq!(
        way(&own, 0, 4),
        [300.0, 512.0],
        "a node without CPUs is so far from all, whatever its distance"
    );
    assert_eq!(way(&own, 1, 4), [300.0, 512.0]);
    assert_eq!(way(&own, 2, 4), [350.0, 512.0], "except from one");
}

#[test]
fn hops_of_the_eight_sockets_have_prices() {
    let e7 = machine(E7);
    for from in 0..8 {
        let lines: Vec<f64> = (0..8).map(|memory| way(&e7, from, memory)[0]).collect();
        assert_eq!(lines[usize::from(from)], 135.0);
        let of = |ns: f64| lines.iter().filter(|&&line| line == ns).count();
        assert_eq!((of(197.0), of(270.0)), (3, 4), "{lines:?}");
    }
    let tiered = machine(TIERED);
    assert!(way(&tiered, 0, 1)[0] > tiered.costs.memory_line[1].picoseconds() as f64 / 1000.0);
}

#[test]
fn figures_of_links_can_be_listed_and_moved() {
    let text = format!(
        "{}\n[links.node0-node2]\nlink_gb_per_second = {}\n[memory.node4]\nnode_gb_per_second = {}\n",
        ring(),
        figure(5.0),
        figure(7.0)
    );
    let mut profile = Profile::parse(&text).unwrap();
    assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile.clone()));
    for (key, value) in
        [("links.node0-node2.link_gb_per_second", 5.0), ("memory.node4.node_gb_per_second", 7.0)]
    {
        assert!(profile.figures().iter().any(|(name, figure)| name == key && figure.value == value));
        profile.figure_mut(key).unwrap().value = 2.0;
    }
    assert_eq!(profile.figure_mut("links.node0-node3.link_gb_per_second"), None);
    let costs = profile.costs();
    let page = Some(Time::from_nanoseconds(2048));
    assert_eq!(costs.links[&Link::Nodes(Node(0), Node(2))].shared_page, page);
    assert_eq!(costs.memory[&Node(4)].shared_page, page);
}

/// The error for a profile with the lines `more` appended; its line number is relative to them.
fn refused(profile: &str, more: &str) -> String {
    let text = format!("{}\n{more}\n", profile.trim_end());
    let first = profile.trim_end().lines().count();
    let error = Profile::parse(&text).expect_err(more).to_string();
    (1..=more.lines().count()).fold(error, |error, line| {
        // There are two forms, this crate's and the parser's.
        let [own, parser] = ["line ", "at line "].map(|at| format!("{at}{}", first + line));
        error.replacen(&parser, &format!("at line +{line}"), 1).replacen(&own, &format!("line +{line}"), 1)
    })
}

#[test]
fn tables_that_say_nothing_about_a_machine_are_refused() {
    let line = format!("memory_line_ns = {}", figure(300.0));
    let of = |table: &str| refused(&ring(), &format!("[{table}]\n{line}"));
    assert_eq!(
        of("links.distance-21"),
        "line +1: links.distance-21: no CPU has memory so far away; distances in topology.node_distances are 20, \
         30, 40, 50"
    );
    assert_eq!(
        of("links.node0-node5"),
        "line +1: links.node0-node5: no CPU is on one of these nodes and memory on the other; nodes are node0 to \
         node4, those with CPUs node0 to node3"
    );
    assert_eq!(of("memory.node5"), "line +1: memory.node5: there is no such node; they are node0 to node4");
    for table in
        ["links.node2-node2", "links.node3-node0", "links.distance-020", "links.distance-256", "links.2"]
    {
        let error = of(table);
        assert!(
            error.contains("at line +1") && error.contains(&format!("{table}: expected a distance such as")),
            "{error}"
        );
    }
    let error = of("memory.2");
    assert!(
        error.contains("at line +1") && error.contains("memory.2: expected a node such as node0"),
        "{error}"
    );
    let single = include_str!("../../../machines/i7-9700.toml");
    let error = refused(single, &format!("[links.distance-20]\n{line}"));
    assert_eq!(error, "line +1: links.distance-20: a machine of one node has no links; leave this out");
}

#[test]
fn figures_of_links_are_checked() {
    let of = |more: &str| refused(&ring(), more);
    assert_eq!(
        of("[links.distance-20]"),
        "line +1: links.distance-20: give memory_line_ns, stream_gb_per_second or link_gb_per_second"
    );
    assert_eq!(
        of("[memory.node0]"),
        "line +1: memory.node0: give memory_line_ns, stream_gb_per_second or node_gb_per_second"
    );
    assert_eq!(
        of(&format!("[links.distance-20]\nstream_gb_per_second = {}", figure(0.0))),
        "line +2: links.distance-20.stream_gb_per_second = 0: at least 0.001"
    );
    assert_eq!(
        of("[links.distance-20]\nmemory_line_ns = { value = 9.0, source = ' ' }"),
        "line +2: links.distance-20.memory_line_ns: a figure needs a source; say which measurement, baseline row or \
         datasheet 9 comes from"
    );
    let rate = format!("[memory.node0]\nnode_gb_per_second = {}", figure(5.0));
    assert_eq!(
        refused(E7, &rate),
        "line +2: memory.node0.node_gb_per_second = 5: a rate is of use only with [numa]; add that, or leave this out"
    );
    let unknown = of("[links.distance-20]\nlatency_ns = 5.0");
    assert!(unknown.contains("at line +2") && unknown.contains("unknown field `latency_ns`"), "{unknown}");
    let table = format!("[links.distance-20]\nmemory_line_ns = {}\n", figure(5.0));
    let twice = of(&format!("{table}{table}"));
    assert!(twice.contains("at line +3") && twice.contains("duplicate"), "{twice}");
}

proptest! {
    /// Without tables there is one figure for local memory, one for other nodes, and one for nodes without
    /// CPUs.
    #[test]
    fn without_tables_figures_are_general(
        with_cpus in 1u8..6,
        slow in 0u8..3,
        distances in prop::collection::vec(10u8..255, 64),
        ns in [1u64..9000, 1..9000, 1..9000, 1..9000, 1..9000],
        stray in any::<bool>(),
    ) {
        let nodes = with_cpus + slow;
        let row = |from: u8| (0..nodes).map(|to| distances[usize::from(from * 8 + to)]).collect();
        let topology = Topology {
            sockets: u16::from(with_cpus),
            nodes,
            memory_only_nodes: slow,
            node_distances: (0..nodes).map(row).collect(),
            ..Topology::single()
        };
        let [line, remote_line, stream_page, remote_stream_page, slow_stream_page] =
            ns.map(Time::from_nanoseconds);
        let numa = NumaCosts { stream_page, remote_stream_page, slow_stream_page, ..NumaCosts::FREE };
        // Tables that do not apply change nothing either: a machine may be given another topology.
        let stray = stray.then_some((Link::Distance(9), WayCosts { memory_line: Some(Time::ZERO), ..WayCosts::default() }));
        let links = BTreeMap::from_iter(stray);
        let costs = Costs { memory_line: [line, remote_line], numa: Some(numa), links, ..Costs::FREE };
        let machine: Machine<Busy> = Machine::new(topology, costs);
        for cpu in machine.topology.all_cpus() {
            for memory in (0..nodes).map(Node) {
                let own = machine.node(cpu) == memory;
                prop_assert_eq!(machine.memory_line(cpu, memory), if own { line } else { remote_line });
                let page = match (own, machine.topology.is_memory_only(memory)) {
                    (true, _) => stream_page,
                    (_, false) => remote_stream_page,
                    (_, true) => slow_stream_page,
                };
                prop_assert_eq!(machine.stream_alone(cpu, memory, 3), page * 3);
            }
        }
    }
}
