//! Memory bandwidth of several nodes: how long moving data takes while other CPUs do so too.
//!
//! ```text
//!   CPU ── its own rate ──► controller of its node                       all CPUs share the controller of a node
//!    └──── a lower one ───► link node 0 ─► 1 ──► controller of node 1    and the link between two nodes
//! ```
//!
//! A CPU that streams through memory takes the longest of three times: its own, until the memory controller
//! has served it, and until the link has. Controllers and links serve all requests in turns, so CPUs that ask
//! for more than the bandwidth wait for each other in the order of virtual time, and a request for a page
//! among requests for megabytes is done after a page of each. Caches are not modelled here: streamed data are
//! assumed to be larger than they are.
//!
//! Each controller and each link has rates of its own (`links.rs`). A way of two hops is one server, not two:
//! traffic of other nodes over the same wires does not slow it down.

use crate::Machine;
use crate::account::Category;
use crate::costs::Costs;
use crate::links::{self, Way};
use crate::time::Time;
use crate::topology::{Cpu, Node, Topology};

/// A server of page requests: a memory controller or a link.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Service time of one page.
    each: Time,
    /// When it has served all requests so far.
    free: Time,
    /// Pages of the largest request since it was last free.
    largest: u64,
}

impl Server {
    fn new(each: Time) -> Server {
        Server { each, free: Time::ZERO, largest: 0 }
    }

    /// Serves `pages` pages. Returns when they are done.
    #[inline]
    fn serve(&mut self, now: Time, pages: u64) -> Time {
        let backlog = self.free.saturating_sub(now);
        self.largest = if backlog == Time::ZERO { pages } else { self.largest.max(pages) };
        let own = self.each * pages;
        self.free = now + backlog + own;
        // Of a backlog of larger requests, a share in turns goes first.
        now + backlog.fraction(pages, self.largest.max(1)) + own
    }
}

/// The memory controllers, and the links between nodes.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    nodes: usize,
    controllers: Vec<Server>,
    /// By node of the CPU, then by node of the memory.
    ways: Vec<Way>,
    links: Vec<Server>,
}

impl Traffic {
    pub(crate) fn new(topology: &Topology, costs: &Costs) -> Traffic {
        let nodes = || (0..topology.nodes).map(Node);
        let way = |from| move |memory| Way::between(topology, costs, from, memory);
        let ways: Vec<Way> = nodes().flat_map(|from| nodes().map(way(from))).collect();
        Traffic {
            nodes: topology.nodes.into(),
            controllers: nodes()
                .map(|node| Server::new(links::controller_page(topology, costs, node)))
                .collect(),
            links: ways.iter().map(|way| Server::new(way.link_page)).collect(),
            ways,
        }
    }

    #[inline]
    fn place(&self, from: Node, memory: Node) -> usize {
        from.index() * self.nodes + memory.index()
    }

    /// Moves `pages` pages. Returns when they are done.
    #[inline]
    fn serve(&mut self, now: Time, from: Node, memory: Node, pages: u64) -> Time {
        let end = self.controllers[memory.index()].serve(now, pages);
        if from == memory {
            return end;
        }
        let link = self.place(from, memory);
        end.max(self.links[link].serve(now, pages))
    }
}

impl<C: Category> Machine<C> {
    #[inline]
    fn way(&self, cpu: Cpu, node: Node) -> &Way {
        &self.traffic.ways[self.traffic.place(self.node(cpu), node)]
    }

    /// Time for `cpu` to load one cache line from the memory of `node`.
    #[inline]
    pub fn memory_line(&self, cpu: Cpu, node: Node) -> Time {
        self.way(cpu, node).memory_line
    }

    /// Time for `cpu` to load one cache line from the memory of its own node.
    #[inline]
    pub fn own_memory_line(&self, cpu: Cpu) -> Time {
        self.memory_line(cpu, self.node(cpu))
    }

    /// Time for `cpu` to stream through `pages` pages of `node` while no other CPU uses its memory.
    #[inline]
    pub fn stream_alone(&self, cpu: Cpu, node: Node, pages: u64) -> Time {
        self.stretched(cpu, self.way(cpu, node).stream_page * pages)
    }

    /// Time for `cpu` to stream through `pages` pages of `node`, starting now. This occupies the memory for
    /// other CPUs, so `cpu` must be the one furthest behind.
    pub fn stream(&mut self, cpu: Cpu, node: Node, pages: u64) -> Time {
        let (own, now) = (self.node(cpu), self.now(cpu));
        let served = self.traffic.serve(now, own, node, pages);
        self.stream_alone(cpu, node, pages).max(served - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumaCosts;
    use crate::links::{Link, WayCosts};
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct Busy;

    impl Category for Busy {
        const COUNT: usize = 2;
        const IDLE: Busy = Busy;
        fn index(self) -> usize {
            0
        }
    }

    /// Two nodes of four CPUs, and one with memory only.
    fn machine() -> Machine<Busy> {
        let topology = Topology {
            sockets: 2,
            cores_per_socket: 4,
            nodes: 3,
            memory_only_nodes: 1,
            node_distances: vec![vec![10, 20, 40], vec![20, 10, 40], vec![40, 40, 10]],
            ..Topology::single()
        };
        let ns = Time::from_nanoseconds;
        let numa = NumaCosts {
            stream_page: ns(100),
            remote_stream_page: ns(200),
            node_page: ns(40),
            link_page: ns(150),
            slow_stream_page: ns(400),
            slow_node_page: ns(300),
            ..NumaCosts::FREE
        };
        Machine::new(topology, Costs { numa: Some(numa), ..Costs::FREE })
    }

    #[test]
    fn one_alone_takes_its_own_time() {
        let mut machine = machine();
        assert_eq!(machine.stream(Cpu(0), Node(0), 10), Time::from_nanoseconds(1000));
        let mut machine = self::machine();
        assert_eq!(machine.stream(Cpu(0), Node(1), 10), Time::from_nanoseconds(2000));
        assert_eq!(machine.stream(Cpu(0), Node(2), 10), Time::from_nanoseconds(4000));
    }

    #[test]
    fn many_share_the_controller_or_the_link() {
        let mut machine = machine();
        let local: Vec<Time> = (0..4).map(|cpu| machine.stream(Cpu(cpu), Node(0), 100)).collect();
        assert_eq!(local.last(), Some(&Time::from_nanoseconds(16_000)), "4 x 100 pages of 40 ns");
        let mut machine = self::machine();
        let remote: Vec<Time> = (0..4).map(|cpu| machine.stream(Cpu(cpu), Node(1), 100)).collect();
        assert_eq!(remote.last(), Some(&Time::from_nanoseconds(60_000)), "4 x 100 pages of 150 ns");
        assert_eq!(
            machine.stream(Cpu(4), Node(0), 100),
            Time::from_nanoseconds(20_000),
            "the other way is free"
        );
    }

    #[test]
    fn a_page_among_megabytes_waits_for_a_page_of_each() {
        let mut machine = machine();
        for cpu in 0..3 {
            machine.stream(Cpu(cpu), Node(0), 100);
        }
        // A hundredth of 3 x 100 pages of 40 ns, plus its own; alone it takes 100 ns.
        assert_eq!(machine.stream(Cpu(3), Node(0), 1), Time::from_nanoseconds(160));
        assert_eq!(machine.stream(Cpu(3), Node(0), 100), Time::from_nanoseconds(301 * 40 + 4000));
    }

    #[test]
    fn cpus_are_on_the_nodes_that_have_some() {
        let machine = machine();
        let nodes: Vec<u8> = machine.topology.all_cpus().map(|cpu| machine.node(cpu).0).collect();
        assert_eq!(nodes, [0, 0, 0, 0, 1, 1, 1, 1]);
        assert!(machine.topology.cpus_of(Node(2)).is_empty());
    }

    /// Three nodes of four CPUs in a ring, with slower links between some.
    fn ring(links: &[(Link, WayCosts)]) -> Machine<Busy> {
        let topology = Topology::of_nodes(3, 4);
        let numa = machine().costs.numa;
        let ns = Time::from_nanoseconds;
        let costs = Costs {
            memory_line: [ns(100), ns(200)],
            links: links.iter().copied().collect(),
            numa,
            ..Costs::FREE
        };
        Machine::new(topology, costs)
    }

    fn dear(line: u64, stream: u64, shared: u64) -> WayCosts {
        let [memory_line, stream_page, shared_page] =
            [line, stream, shared].map(|ns| Some(Time::from_nanoseconds(ns)));
        WayCosts { memory_line, stream_page, shared_page }
    }

    /// When each CPU's request is done; each request is a number of pages by a CPU from a node's memory.
    fn ends(mut machine: Machine<Busy>, requests: &[(u16, u8)], pages: u64) -> Vec<Time> {
        for &(cpu, node) in requests {
            let took =
                machine.stream(Cpu(cpu), Node(node), pages) + machine.memory_line(Cpu(cpu), Node(node));
            machine.charge(Cpu(cpu), Busy, took);
        }
        machine.topology.all_cpus().map(|cpu| machine.now(cpu)).collect()
    }

    #[test]
    fn a_crowd_on_one_link_leaves_the_others_free() {
        let mut machine = ring(&[(Link::Nodes(Node(0), Node(1)), dear(300, 250, 600))]);
        let crowd: Vec<Time> = (0..4).map(|cpu| machine.stream(Cpu(cpu), Node(1), 100)).collect();
        assert_eq!(crowd.last(), Some(&Time::from_nanoseconds(240_000)), "4 x 100 pages of 600 ns");
        // The controller of node 1 is done after 400 pages of 40 ns; alone, a page takes 200 ns.
        assert_eq!(machine.stream(Cpu(8), Node(1), 100), Time::from_nanoseconds(20_000), "from node 2");
        assert_eq!(machine.stream(Cpu(0), Node(2), 100), Time::from_nanoseconds(20_000), "to node 2");
        assert_eq!(machine.stream(Cpu(4), Node(0), 100), Time::from_nanoseconds(60_000), "the other way");
    }

    #[test]
    fn a_controller_has_a_rate_of_its_own() {
        let mut costs = ring(&[]).costs;
        costs.memory.insert(
            Node(1),
            WayCosts { shared_page: Some(Time::from_nanoseconds(400)), ..WayCosts::default() },
        );
        let mut machine: Machine<Busy> = Machine::new(ring(&[]).topology, costs);
        let last = |machine: &mut Machine<Busy>, node: u8| {
            let first = u16::from(node) * 4;
            (first..first + 4).map(|cpu| machine.stream(Cpu(cpu), Node(node), 100)).max()
        };
        assert_eq!(last(&mut machine, 0), Some(Time::from_nanoseconds(16_000)));
        assert_eq!(last(&mut machine, 1), Some(Time::from_nanoseconds(160_000)));
    }

    proptest! {
        /// Of equal requests: where they are not, one that finds a link still busy waits in turn, and not behind all of a
        /// larger one, as it would if the link had just become free in between.
        #[test]
        fn a_dearer_link_makes_no_run_shorter(
            requests in prop::collection::vec((0u16..12, 0u8..3), 1..60),
            pages in 1u64..50,
            figures in [1u64..2000, 1..2000, 1..2000],
            more in [0u64..2000, 0..2000, 0..2000],
            link in prop_oneof![Just(Link::Distance(20)), Just(Link::Nodes(Node(0), Node(2)))],
        ) {
            let [line, stream, shared] = figures;
            let cheap = ends(ring(&[(link, dear(line, stream, shared))]), &requests, pages);
            let dear = dear(line + more[0], stream + more[1], shared + more[2]);
            let dear = ends(ring(&[(link, dear)]), &requests, pages);
            for (cheap, dear) in cheap.iter().zip(&dear) {
                prop_assert!(cheap <= dear, "{cheap:?} {dear:?}");
            }
            let crosses = requests.iter().any(|&(cpu, node)| {
                let from = (cpu / 4) as u8;
                from != node && (link == Link::Distance(20) || from + node == 2)
            });
            let differs = cheap != dear;
            prop_assert!(differs == crosses || crosses && more[0] == 0);
        }
    }
}
