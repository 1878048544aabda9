//! Memory of several nodes: how long moving data takes while others do it too.
//!
//! ```text
//!   CPU ── its own rate ──► controller of its node                       everybody on a node shares its controller
//!    └──── a lower one ───► link node 0 ─► 1 ──► controller of node 1    and every way between two nodes
//! ```
//!
//! A CPU that streams through memory takes the longest of three: what it needs by itself, when the memory controller has
//! served it, and when the link has. Controllers and links serve all that ask in turns, so those that ask for more than
//! there is wait for each other, in the order of virtual time, and who asks for a page among those that ask for megabytes is
//! through after a page of each. Caches are not modelled here: what is streamed through is taken to be larger than they are.

use crate::Machine;
use crate::account::Category;
use crate::costs::NumaCosts;
use crate::time::Time;
use crate::topology::{Cpu, Node};

/// What serves pages, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    /// When it has served what it was asked for.
    free: Time,
    /// Pages of the largest request since it was free.
    largest: u64,
}

impl Server {
    /// Serves `pages` pages that take `each`; when that is done.
    #[inline]
    fn serve(&mut self, now: Time, each: Time, pages: u64) -> Time {
        let backlog = self.free.saturating_sub(now);
        self.largest = if backlog == Time::ZERO { pages } else { self.largest.max(pages) };
        let own = each * pages;
        self.free = now + backlog + own;
        // Of a backlog of larger requests, as much goes first as comes in turn.
        now + backlog.fraction(pages, self.largest.max(1)) + own
    }
}

/// The memory controllers, and the ways from one node to another.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    nodes: usize,
    controllers: Vec<Server>,
    /// By node of the CPU, then by node of the memory.
    links: Vec<Server>,
}

impl Traffic {
    pub(crate) fn new(nodes: usize) -> Traffic {
        Traffic {
            nodes,
            controllers: vec![Server::default(); nodes],
            links: vec![Server::default(); nodes * nodes],
        }
    }

    /// Moves `pages` pages; when they have been.
    #[inline]
    fn serve(
        &mut self,
        costs: &NumaCosts,
        now: Time,
        from: Node,
        memory: Node,
        slow: bool,
        pages: u64,
    ) -> Time {
        let share = if slow { costs.slow_node_page } else { costs.node_page };
        let end = self.controllers[memory.index()].serve(now, share, pages);
        if from == memory {
            return end;
        }
        let link = &mut self.links[from.index() * self.nodes + memory.index()];
        end.max(link.serve(now, costs.link_page, pages))
    }
}

impl<C: Category> Machine<C> {
    /// How long `cpu` takes to stream through `pages` pages of 4 KiB in `node`'s memory, beginning now. Others see that the
    /// memory was busy, so `cpu` must be the one furthest behind.
    pub fn stream(&mut self, cpu: Cpu, node: Node, pages: u64) -> Time {
        let costs = self.costs.numa();
        let (own, now) = (self.node(cpu), self.now(cpu));
        let slow = self.topology.is_memory_only(node);
        let alone = match (own == node, slow) {
            (true, _) => costs.stream_page,
            (false, false) => costs.remote_stream_page,
            (false, true) => costs.slow_stream_page,
        };
        let served = self.traffic.serve(&costs, now, own, node, slow, pages);
        self.stretched(cpu, alone * pages).max(served - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Costs, Topology};

    #[derive(Clone, Copy, Debug)]
    struct Busy;

    impl Category for Busy {
        const COUNT: usize = 2;
        const IDLE: Busy = Busy;
        fn index(self) -> usize {
            0
        }
    }

    /// Two nodes of four CPUs, and one of memory alone.
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
        // A hundredth of 3 x 100 pages of 40 ns, and its own; alone it takes 100 ns.
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
}
