//! Distance of memory: latency of a line and rate of a page, by node of the CPU and node of the memory.
//!
//! ```text
//!   from node 0 to           general figures            tables that override them, first match first
//!     node 0, its own        memory_line_ns, ...        [memory.node0]
//!     node 1, a hop          remote_memory_line_ns, ... [links.node0-node1] ► [links.distance-21]
//!     node 2, two hops       the same                   [links.node0-node2] ► [links.distance-31]
//!     node 3, without CPUs   the same, slow_*           [links.node0-node3] ► [memory.node3] ► [links.distance-40]
//! ```
//!
//! A profile has one figure for local memory and one for all other nodes, which is right for two sockets.
//! Tables of links override these for all links of a distance, or between two nodes in both directions.
//! Tables of memory override them for one node: its controller, and its distance from its own CPUs, or from
//! all CPUs if it has none. A table names a distance or nodes that the machine has, and gives those figures
//! that are known.
//!
//! A distance only selects a table. It is no price: firmware reports 20, 21 or 32 for the same other socket,
//! and the kernel compares distances without computing with them. So changing `node_distances` changes what
//! the kernel chooses, and changing links changes what that costs.
//!
//! A machine looks all this up once, when it is created (`Way::between`).

use crate::costs::Costs;
use crate::page_size::PageSize;
use crate::profile::{Figure, cost_figures};
use crate::time::Time;
use crate::topology::{Node, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The links that a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Link {
    /// `distance-21`: all links from a node with CPUs to another node at this distance.
    Distance(u8),
    /// `node0-node3`: the link between two nodes in both directions; the lower node comes first.
    Nodes(Node, Node),
}

impl Link {
    /// The link between two nodes.
    fn of(one: Node, other: Node) -> Link {
        Link::Nodes(one.min(other), one.max(other))
    }

    /// Whether a machine has such a link.
    pub(crate) fn is_of(self, topology: &Topology) -> bool {
        match self {
            Link::Distance(distance) => ways(topology).any(|(.., of)| of == distance),
            Link::Nodes(..) => ways(topology).any(|(from, memory, _)| Link::of(from, memory) == self),
        }
    }

    /// Why a machine has no such link, and which it has; for an error message.
    pub(crate) fn remedy(self, topology: &Topology) -> String {
        let distances: BTreeSet<u8> = ways(topology).map(|(.., distance)| distance).collect();
        let distances: Vec<String> = distances.into_iter().map(|distance| distance.to_string()).collect();
        match self {
            _ if distances.is_empty() => "a machine of one node has no links; leave this out".into(),
            Link::Distance(_) => format!(
                "no CPU has memory so far away; distances in topology.node_distances are {}",
                distances.join(", ")
            ),
            Link::Nodes(..) => format!(
                "no CPU is on one of these nodes and memory on the other; nodes are node0 to node{}, those with CPUs \
                 node0 to node{}",
                topology.nodes - 1,
                topology.nodes_with_cpus() - 1
            ),
        }
    }
}

/// The links from nodes with CPUs to other nodes, with the distance that firmware reports.
fn ways(topology: &Topology) -> impl Iterator<Item = (Node, Node, u8)> {
    let with_cpus = (0..topology.nodes_with_cpus()).map(Node);
    let to = |from: Node| {
        (0..topology.nodes).map(Node).filter(move |&memory| memory != from).map(move |to| (from, to))
    };
    let distance = |from: Node, to: Node| topology.node_distances[from.index()][to.index()];
    with_cpus.flat_map(to).map(move |(from, to)| (from, to, distance(from, to)))
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Link::Distance(distance) => write!(f, "distance-{distance}"),
            Link::Nodes(one, other) => write!(f, "{}-{}", MemoryOf(*one), MemoryOf(*other)),
        }
    }
}

impl From<Link> for String {
    fn from(link: Link) -> String {
        link.to_string()
    }
}

impl TryFrom<String> for Link {
    type Error = String;

    fn try_from(text: String) -> Result<Link, String> {
        let link = match text.strip_prefix("distance-") {
            Some(distance) => distance.parse().ok().map(Link::Distance),
            None => text.split_once('-').and_then(|(one, other)| {
                let [one, other] = [one, other].map(|node| MemoryOf::try_from(node.to_string()).ok());
                Some(Link::Nodes(one?.0, other?.0)).filter(|_| one < other)
            }),
        };
        // Each link has one name only, so that no table can be given twice.
        link.filter(|link| link.to_string() == text).ok_or(format!(
            "links.{text}: expected a distance such as distance-21, or two nodes such as node0-node3, the lower one first"
        ))
    }
}

/// The node that a table of memory is about: `node2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemoryOf(pub Node);

impl fmt::Display for MemoryOf {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "node{}", self.0.0)
    }
}

impl From<MemoryOf> for String {
    fn from(node: MemoryOf) -> String {
        node.to_string()
    }
}

impl TryFrom<String> for MemoryOf {
    type Error = String;

    fn try_from(text: String) -> Result<MemoryOf, String> {
        let node =
            text.strip_prefix("node").and_then(|node| node.parse().ok()).map(|node| MemoryOf(Node(node)));
        let node = node.filter(|node| node.to_string() == text);
        node.ok_or(format!("memory.{text}: expected a node such as node0"))
    }
}

cost_figures! {
    /// Figures of a link as written in a profile. Rates are in 10^9 bytes per second.
    LinkFigures
    required {}
    optional {
        /// Loading one cache line from memory at the other end, without prefetching.
        memory_line_ns,
        /// One CPU alone, streaming through memory at the other end.
        stream_gb_per_second,
        /// All CPUs of the node at one end together, from memory at the other end.
        link_gb_per_second,
    }
}

cost_figures! {
    /// Figures of one node's memory as written in a profile: for its own CPUs, or for all CPUs if it has
    /// none. Rates are in 10^9 bytes per second.
    MemoryFigures
    required {}
    optional {
        /// Loading one cache line without prefetching.
        memory_line_ns,
        /// One CPU alone, streaming.
        stream_gb_per_second,
        /// All CPUs of the machine together.
        node_gb_per_second,
    }
}

/// The figures of one table, in the form that a machine uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WayCosts {
    /// Loading one cache line without prefetching.
    pub memory_line: Option<Time>,
    /// One CPU alone, streaming through a page.
    pub stream_page: Option<Time>,
    /// A page, all CPUs together: those of a node over a link, or those of the machine from a node's memory.
    pub shared_page: Option<Time>,
}

impl WayCosts {
    fn new(
        line: &Option<Figure>,
        stream: &Option<Figure>,
        shared: &Option<Figure>,
        page: PageSize,
    ) -> WayCosts {
        let rate = |figure: &Option<Figure>| figure.as_ref().map(|rate| page.time_at(rate.value));
        WayCosts {
            memory_line: line.as_ref().map(|line| Time::from_nanoseconds_f64(line.value)),
            stream_page: rate(stream),
            shared_page: rate(shared),
        }
    }
}

impl LinkFigures {
    pub(crate) fn costs(&self, page: PageSize) -> WayCosts {
        WayCosts::new(&self.memory_line_ns, &self.stream_gb_per_second, &self.link_gb_per_second, page)
    }
}

impl MemoryFigures {
    pub(crate) fn costs(&self, page: PageSize) -> WayCosts {
        WayCosts::new(&self.memory_line_ns, &self.stream_gb_per_second, &self.node_gb_per_second, page)
    }
}

/// The way from the CPUs of one node to the memory of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    /// Loading one cache line.
    pub(crate) memory_line: Time,
    /// A page, one CPU alone.
    pub(crate) stream_page: Time,
    /// A page, all CPUs of the node together; zero for a node's own memory, which its controller limits.
    pub(crate) link_page: Time,
}

impl Way {
    /// The way from the CPUs of `from` to `memory`.
    pub(crate) fn between(topology: &Topology, costs: &Costs, from: Node, memory: Node) -> Way {
        let numa = costs.numa();
        let (is_own, is_slow) = (from == memory, topology.is_memory_only(memory));
        let of_node = costs.memory.get(&memory).filter(|_| is_own || is_slow);
        let link = |link: Link| costs.links.get(&link).filter(|_| !is_own);
        let distance = topology.node_distances[from.index()][memory.index()];
        let (pair, far) = (link(Link::of(from, memory)), link(Link::Distance(distance)));
        let first = |figure: fn(&WayCosts) -> Option<Time>| {
            [pair, of_node, far].into_iter().flatten().find_map(figure)
        };
        let general = match (is_own, is_slow) {
            (true, _) => numa.stream_page,
            (false, false) => numa.remote_stream_page,
            (false, true) => numa.slow_stream_page,
        };
        let link_page = [pair, far].into_iter().flatten().find_map(|link| link.shared_page);
        Way {
            memory_line: first(|table| table.memory_line).unwrap_or(costs.memory_line[usize::from(!is_own)]),
            stream_page: first(|table| table.stream_page).unwrap_or(general),
            link_page: if is_own { Time::ZERO } else { link_page.unwrap_or(numa.link_page) },
        }
    }
}

/// Time of a node's memory controller for one page, all CPUs together.
pub(crate) fn controller_page(topology: &Topology, costs: &Costs, node: Node) -> Time {
    let numa = costs.numa();
    let general = if topology.is_memory_only(node) { numa.slow_node_page } else { numa.node_page };
    costs.memory.get(&node).and_then(|memory| memory.shared_page).unwrap_or(general)
}
