//! Who is where: sockets, nodes, cores, threads and caches.
//!
//! ```text
//!   socket 0 = node 0                     socket 1 = node 1
//!   ┌──────────────────────────┐          ┌──────────────────────────┐
//!   │ core 0    core 1   ...   │          │ core 56   ...            │
//!   │ 0  112    1  113         │          │ 56 168                   │      CPU numbers as Linux gives
//!   │ L1 L2     L1 L2          │          │                          │      them: first threads first
//!   │        L3                │          │        L3                │
//!   └──────────────────────────┘          └──────────────────────────┘
//! ```

use serde::{Deserialize, Serialize};

/// A logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cpu(pub u16);

impl Cpu {
    /// For indexing per-CPU arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node(pub u8);

impl Node {
    /// For indexing per-node arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How far a cache line travels between two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Distance {
    /// The same CPU: the line is there.
    SameCpu = 0,
    /// The other thread of the same core.
    SameCore = 1,
    /// Another core that shares the last-level cache.
    SameSocket = 2,
    /// Another socket.
    OtherSocket = 3,
}

impl Distance {
    /// How many distances there are.
    pub const COUNT: usize = 4;
}

/// Which CPUs share one instance of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedBy {
    /// The threads of one core.
    Core,
    /// All threads of one socket.
    Socket,
}

/// A data or unified cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2 or 3.
    pub level: u8,
    /// Bytes of one instance.
    pub bytes: u64,
    /// Who shares an instance.
    pub shared_by: SharedBy,
}

/// How the CPUs that are busy share an emulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnShares {
    /// The CPUs that are busy; all others are idle.
    pub busy: Vec<Cpu>,
    /// What part of the time each of them has.
    pub shares: Vec<f64>,
}

/// The most nodes that a machine has: sets of them are 64 bits.
pub const MAX_NODES: u8 = 64;
/// How far firmware says that a node is from itself (`LOCAL_DISTANCE`).
const LOCAL_DISTANCE: u8 = 10;
/// How far the kernel takes nodes to be from each other where firmware says nothing (`REMOTE_DISTANCE`).
const REMOTE_DISTANCE: u8 = 20;

/// Whether the kernel would take this table of distances from firmware (`slit_valid` in drivers/acpi/numa/srat.c): as many rows
/// as columns, 10 from each node to itself and more to all others.
pub fn is_distance_table(distances: &[Vec<u8>]) -> bool {
    let is_right = |from: usize, to: usize, distance: u8| match from == to {
        true => distance == LOCAL_DISTANCE,
        false => distance > LOCAL_DISTANCE,
    };
    distances.iter().enumerate().all(|(from, row)| {
        row.len() == distances.len()
            && row.iter().enumerate().all(|(to, &distance)| is_right(from, to, distance))
    })
}

/// The shape of a machine: equal sockets, equal cores, one node a socket or one for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Processor packages.
    pub sockets: u16,
    /// Cores of one socket.
    pub cores_per_socket: u16,
    /// SMT threads of one core: 1 or 2.
    pub threads_per_core: u16,
    /// NUMA nodes, [`MAX_NODES`] at most; those with CPUs come first and are spread evenly over the sockets.
    pub nodes: u8,
    /// How many of them have memory and no CPU: slower memory behind a link.
    pub memory_only_nodes: u8,
    /// Distance table as firmware gives it: 10 = local.
    pub node_distances: Vec<Vec<u8>>,
    /// Where CPUs are emulated, one after the other: what part of the time each of the busy ones has, which depends on the order of
    /// their turns and on when they tick. CPUs that are busy in a set which has no entry have equal parts. None where CPUs run at
    /// the same time.
    pub turn_shares: Vec<TurnShares>,
    /// Data and unified caches, nearest first.
    pub caches: Vec<Cache>,
}

impl Topology {
    /// One CPU, one node, no caches.
    pub fn single() -> Topology {
        Topology {
            sockets: 1,
            cores_per_socket: 1,
            threads_per_core: 1,
            nodes: 1,
            memory_only_nodes: 0,
            node_distances: vec![vec![LOCAL_DISTANCE]],
            turn_shares: Vec::new(),
            caches: Vec::new(),
        }
    }

    /// Nodes of one socket each with so many cores, all equally far from each other; no caches.
    pub fn of_nodes(nodes: u8, cores_per_socket: u16) -> Topology {
        let distance = |from, to| if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
        let row = |from| (0..nodes).map(|to| distance(from, to)).collect();
        Topology {
            sockets: nodes.into(),
            cores_per_socket,
            nodes,
            node_distances: (0..nodes).map(row).collect(),
            ..Topology::single()
        }
    }

    /// Number of logical CPUs.
    pub fn cpus(&self) -> usize {
        self.sockets as usize * self.cores_per_socket as usize * self.threads_per_core as usize
    }

    /// All logical CPUs in order.
    pub fn all_cpus(&self) -> impl Iterator<Item = Cpu> + Clone + use<> {
        (0..self.cpus() as u16).map(Cpu)
    }

    fn cores(&self) -> u16 {
        self.sockets * self.cores_per_socket
    }

    /// The core that `cpu` is a thread of, counted over the whole machine.
    #[inline]
    pub fn core(&self, cpu: Cpu) -> u16 {
        cpu.0 % self.cores()
    }

    /// The socket of `cpu`.
    #[inline]
    pub fn socket(&self, cpu: Cpu) -> u16 {
        self.core(cpu) / self.cores_per_socket
    }

    /// The node whose memory is local to `cpu`.
    #[inline]
    pub fn node(&self, cpu: Cpu) -> Node {
        let cores_per_node = (self.cores() / u16::from(self.nodes_with_cpus())).max(1);
        Node((self.core(cpu) / cores_per_node) as u8)
    }

    /// How many nodes have CPUs: the first ones.
    #[inline]
    pub fn nodes_with_cpus(&self) -> u8 {
        self.nodes - self.memory_only_nodes
    }

    /// Whether a node has memory and no CPU.
    #[inline]
    pub fn is_memory_only(&self, node: Node) -> bool {
        node.0 >= self.nodes_with_cpus()
    }

    /// The CPUs whose local node is `node`, in order.
    pub fn cpus_of(&self, node: Node) -> Vec<Cpu> {
        self.all_cpus().filter(|&cpu| self.node(cpu) == node).collect()
    }

    /// The other thread of the same core, where there is one.
    #[inline]
    pub fn sibling(&self, cpu: Cpu) -> Option<Cpu> {
        if self.threads_per_core < 2 {
            return None;
        }
        let cores = self.cores();
        Some(Cpu(if cpu.0 < cores { cpu.0 + cores } else { cpu.0 - cores }))
    }

    fn sharers(&self, cache: &Cache) -> u64 {
        match cache.shared_by {
            SharedBy::Core => self.threads_per_core.into(),
            SharedBy::Socket => u64::from(self.threads_per_core) * u64::from(self.cores_per_socket),
        }
    }

    /// One CPU's share of the last-level cache, in bytes.
    pub fn last_level_slice(&self) -> u64 {
        self.caches.last().map_or(0, |cache| cache.bytes / self.sharers(cache))
    }

    /// One CPU's share of all data and unified caches added up, in bytes.
    pub fn sum_of_cache_slices(&self) -> u64 {
        self.caches.iter().map(|cache| cache.bytes / self.sharers(cache)).sum()
    }

    /// Bytes of one last-level cache.
    pub fn last_level_bytes(&self) -> u64 {
        self.caches.last().map_or(0, |cache| cache.bytes)
    }

    /// The nodes in the order in which `node` prefers them: itself, then by distance, ties by the next
    /// higher number (`mm/page_alloc.c: find_next_best_node`).
    pub fn nodes_by_distance(&self, node: Node) -> Vec<Node> {
        let own = node.index();
        let mut order: Vec<usize> = (0..self.nodes as usize).collect();
        order.sort_by_key(|&other| {
            let after = (other + self.nodes as usize - own) % self.nodes as usize;
            (other != own, self.node_distances[own][other], after)
        });
        order.into_iter().map(|n| Node(n as u8)).collect()
    }
}
