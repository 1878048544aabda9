//! Nodes at different distances: the topology type, which memory counts as near, and the preferred node of a
//! group of tasks. Exact answers on small machines, as in kernel/sched/topology.c and kernel/sched/fair.c.

use machine::Node;
use mm::numa::migrate::policy::Nodes;
use mm::numa::placement::policy::{Links, TopologyType, nearby_faults, preferred_group_node, weight};
use mm::numa::placement::{FaultStats, Kind};

/// Makes a table of distances from its upper triangle, row by row.
fn symmetric(upper: &[&[u8]]) -> Vec<Vec<u8>> {
    let nodes = upper.len() + 1;
    let mut distances = vec![vec![10; nodes]; nodes];
    for (a, row) in upper.iter().enumerate() {
        for (b, &distance) in (a + 1..nodes).zip(*row) {
            (distances[a][b], distances[b][a]) = (distance, distance);
        }
    }
    distances
}

/// The links of a machine whose nodes all have CPUs.
fn links(distances: Vec<Vec<u8>>) -> Links {
    let nodes = Nodes((1 << distances.len()) - 1);
    Links::new(distances, nodes)
}

fn flat() -> Vec<Vec<u8>> {
    symmetric(&[&[20, 20, 20], &[20, 20], &[20]])
}

/// Four nodes, each linked to two others.
fn ring() -> Vec<Vec<u8>> {
    symmetric(&[&[20, 30, 20], &[20, 30], &[20]])
}

/// Four nodes in a row.
fn row() -> Vec<Vec<u8>> {
    symmetric(&[&[20, 30, 40], &[20, 30], &[20]])
}

/// Two boards with two pairs of nodes each, connected by a backplane.
fn boards() -> Vec<Vec<u8>> {
    symmetric(&[
        &[20, 30, 30, 40, 40, 40, 40],
        &[30, 30, 40, 40, 40, 40],
        &[20, 40, 40, 40, 40],
        &[40, 40, 40, 40],
        &[20, 30, 30],
        &[30, 30],
        &[20],
    ])
}

/// One node behind a backplane, and three in a row.
fn one_and_three() -> Vec<Vec<u8>> {
    symmetric(&[&[30, 30, 30], &[20, 30], &[20]])
}

/// One node behind a backplane, and four others, of which the third in the table is next to each of the other
/// three.
fn one_and_star() -> Vec<Vec<u8>> {
    symmetric(&[&[30, 30, 30, 30], &[20, 30, 30], &[20, 20], &[30]])
}

/// Two nodes with CPUs, each with a node of slow memory.
fn tiered() -> Vec<Vec<u8>> {
    symmetric(&[&[21, 17, 28], &[28, 17], &[28]])
}

/// The first pair of nodes at the largest distance decides; with two distances all nodes are directly linked.
#[test]
fn machines_are_told_apart_by_what_lies_between_the_farthest_nodes() {
    use TopologyType::{Backplane, Direct, GluelessMesh};
    for (name, distances, kind) in [
        ("one node", vec![vec![10]], Direct),
        ("all as near as at home", vec![vec![10; 4]; 4], Direct),
        ("flat", flat(), Direct),
        ("ring", ring(), GluelessMesh),
        ("row", row(), GluelessMesh),
        ("two pairs", symmetric(&[&[20, 30, 30], &[30, 30], &[20]]), Backplane),
        ("boards", boards(), Backplane),
        // There is a node between the two ends of the row, but the first pair at the largest distance is
        // another one.
        ("one and three", one_and_three(), Backplane),
        // A node that is as far from one end as the ends are from each other is not between them.
        ("a side as long", symmetric(&[&[30, 20], &[30]]), Backplane),
    ] {
        assert_eq!(links(distances).kind(), kind, "{name}");
    }
}

/// Nodes without CPUs are not part of the scheduler's topology, however far they are: two nodes with CPUs are
/// directly linked, and the others are never preferred.
#[test]
fn nodes_without_cpus_are_left_out() {
    assert_eq!(links(tiered()).kind(), TopologyType::GluelessMesh, "if all nodes had CPUs");
    let links = Links::new(tiered(), Nodes::of_all(&[0, 1]));
    assert_eq!(links.kind(), TopologyType::Direct);
    assert_eq!(nearby_faults(|_| 100, Node(0), 28, &links), 0);

    // A ring and the boards with some nodes of memory only, on which most of the memory is used.
    let on_ring = Links::new(ring(), Nodes::of_all(&[0, 1, 2]));
    assert_eq!(on_ring.kind(), TopologyType::GluelessMesh);
    assert_eq!(preferred_group_node(&group(&[0, 0, 0, 90]), Node(2), &on_ring), Node(0), "45 nearby");
    assert_eq!(nearby_faults(|node| [0, 0, 0, 90][node.index()], Node(0), 30, &on_ring), 45);
    let on_boards = Links::new(boards(), Nodes::of_all(&[0, 1, 2, 4, 5, 6]));
    assert_eq!(on_boards.kind(), TopologyType::Backplane);
    let used = group(&[10, 0, 0, 90, 20, 0, 0, 0]);
    assert_eq!(preferred_group_node(&used, Node(4), &on_boards), Node(4));
}

/// In a mesh memory counts less the farther it is, rounded down for each node; on a backplane it counts in
/// full if it is nearer than the search reaches. The farthest nodes never count, nor does the node itself
/// (`score_nearby_nodes`).
#[test]
fn memory_near_a_node_counts() {
    const MEMORY: [u64; 8] = [100, 200, 301, 400, 500, 600, 700, 800];
    for (name, distances, node, reach, faults) in [
        ("flat", flat(), 0, 20, 0),
        ("flat", flat(), 3, 10, 0),
        ("ring", ring(), 0, 30, 100 + 200),
        ("ring", ring(), 1, 30, 50 + 150),
        ("ring, whatever the reach", ring(), 1, 20, 50 + 150),
        // The largest distance is 30 more than the local one; 20 and 10 of that remain.
        ("row", row(), 0, 40, 133 + 100),
        ("row", row(), 1, 40, 66 + 200 + 133),
        ("boards", boards(), 0, 40, 200 + 301 + 400),
        ("boards", boards(), 0, 30, 200),
        ("boards", boards(), 0, 20, 0),
        ("boards", boards(), 6, 40, 500 + 600 + 800),
        ("boards", boards(), 6, 30, 800),
        ("boards, no reach is long enough", boards(), 6, 255, 500 + 600 + 800),
    ] {
        let links = links(distances);
        let near = nearby_faults(|node| MEMORY[node.index()], Node(node), reach, &links);
        assert_eq!(near, faults, "{name}: node {node}, reach {reach}");
        // With the node's own faults, in thousandths of all.
        let of_all = group(&MEMORY[..links.distances.len()]);
        let thousandths = (faults + MEMORY[usize::from(node)]) * 1000 / of_all.total;
        assert_eq!(weight(&of_all, Node(node), reach, &links), thousandths, "{name}: node {node}");
    }
}

/// Faults of a group on the memory of each node, some shared and some private.
fn group(memory: &[u64]) -> FaultStats {
    let mut faults = FaultStats::new(memory.len());
    for (node, &pages) in memory.iter().enumerate() {
        let node = Node(node as u8);
        faults.add(Kind::Memory, node, false, pages / 3);
        faults.add(Kind::Memory, node, true, pages - pages / 3);
    }
    faults
}

/// The preferred node of a group, given the node with most of its faults (`preferred_group_nid`): that node
/// if all are directly linked; in a mesh the node with most faults on it and near it; on a backplane one of
/// the nodes of the board with most faults.
#[test]
fn a_group_is_at_home_amid_its_memory() {
    for (name, distances, memory, most, home) in [
        ("flat", flat(), &[10, 0, 30, 20][..], 2, 2),
        ("flat: it is not asked where there is more", flat(), &[10, 0, 30, 20], 0, 0),
        ("flat: nothing is known", flat(), &[0; 4], 3, 3),
        ("ring: by itself", ring(), &[0, 0, 90, 0], 2, 2),
        ("ring: between two halves", ring(), &[100, 20, 100, 0], 0, 1),
        ("ring: as much, so the first", ring(), &[0, 100, 0, 100], 1, 0),
        ("ring: one side has less", ring(), &[0, 100, 0, 99], 1, 1),
        ("ring: nothing is known", ring(), &[0; 4], 3, 3),
        ("boards: the one node", boards(), &[0, 0, 0, 0, 0, 0, 0, 7], 7, 7),
        // 110 against 100; then 60 against 50; then the first of two equal ones.
        ("boards: the fuller board", boards(), &[50, 0, 30, 30, 100, 0, 0, 0], 4, 2),
        ("boards: the fuller pair", boards(), &[50, 11, 30, 30, 100, 0, 0, 0], 4, 0),
        ("boards: within the pair", boards(), &[0, 0, 30, 31, 60, 0, 0, 0], 4, 3),
        ("boards: as much, so the first", boards(), &[0, 0, 0, 60, 60, 0, 0, 0], 4, 3),
        ("boards: nothing is known", boards(), &[0; 8], 5, 5),
        // A node that has been counted with one neighbour is not counted with the next.
        ("one and three", one_and_three(), &[0, 10, 10, 15], 3, 1),
        ("one and three", one_and_three(), &[0, 10, 10, 21], 3, 3),
        ("one and three", one_and_three(), &[22, 10, 10, 21], 0, 0),
        // Nor does it join nodes that are next to it but not next to each other.
        ("one and star", one_and_star(), &[0, 10, 8, 10, 10], 1, 1),
    ] {
        let links = links(distances);
        assert_eq!(preferred_group_node(&group(memory), Node(most), &links), Node(home), "{name} {memory:?}");
    }
}
