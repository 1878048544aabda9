//! Topology of a machine: sockets, nodes, cores, threads and caches.
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
    /// Index into per-CPU arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node(pub u8);

impl Node {
    /// Index into per-node arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Distance between two CPUs, as a cache line travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Distance {
    /// The same CPU.
    SameCpu = 0,
    /// The SMT sibling in the same core.
    SameCore = 1,
    /// Another core with the same last-level cache.
    SameSocket = 2,
    /// A core of another socket.
    OtherSocket = 3,
}

impl Distance {
    /// Number of distances.
    pub const COUNT: usize = 4;
}

/// The CPUs that share one instance of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedBy {
    /// The threads of one core.
    Core,
    /// All threads of one socket.
    Socket,
}

/// A level of data or unified caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2 or 3.
    pub level: u8,
    /// Size of one instance, bytes.
    pub bytes: u64,
    /// The CPUs that share an instance.
    pub shared_by: SharedBy,
}

/// How busy CPUs share an emulator that runs them in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnShares {
    /// The busy CPUs; all others are idle.
    pub busy: Vec<Cpu>,
    /// Each busy CPU's share of the time.
    pub shares: Vec<f64>,
}

/// Upper bound of the number of nodes: node sets have 64 bits.
pub const MAX_NODES: u8 = 64;
/// Distance of a node to itself (`LOCAL_DISTANCE`).
const LOCAL_DISTANCE: u8 = 10;
/// Distance between nodes if firmware reports none (`REMOTE_DISTANCE`).
const REMOTE_DISTANCE: u8 = 20;

/// Whether the kernel would accept this distance table from firmware (`slit_valid` in
/// drivers/acpi/numa/srat.c): it is square, with 10 from each node to itself and more to the others.
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

/// The topology of a machine: equal sockets, equal cores, and nodes spread evenly over them.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Processor packages.
    pub sockets: u16,
    /// Cores per socket.
    pub cores_per_socket: u16,
    /// SMT threads per core: 1 or 2.
    pub threads_per_core: u16,
    /// Number of NUMA nodes, at most [`MAX_NODES`]. Those with CPUs come first and are spread evenly over the
    /// sockets.
    pub nodes: u8,
    /// How many of them have memory but no CPU: slower memory behind a link.
    pub memory_only_nodes: u8,
    /// Distance table of the firmware (SLIT): 10 = local.
    pub node_distances: Vec<Vec<u8>>,
    /// If CPUs are emulated one after the other: each busy CPU's share of the time, which depends on the
    /// order of their turns and on when they tick. Sets of busy CPUs without an entry share equally. Empty if
    /// CPUs run at the same time.
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

    /// Nodes of one socket with `cores_per_socket` cores each, all at the same distance; no caches.
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

    /// The core that `cpu` is a thread of, numbered over the whole machine.
    #[inline]
    pub fn core(&self, cpu: Cpu) -> u16 {
        cpu.0 % self.cores()
    }

    #[inline]
    pub fn socket(&self, cpu: Cpu) -> u16 {
        self.core(cpu) / self.cores_per_socket
    }

    /// The node that `cpu` belongs to.
    #[inline]
    pub fn node(&self, cpu: Cpu) -> Node {
        let cores_per_node = (self.cores() / u16::from(self.nodes_with_cpus())).max(1);
        Node((self.core(cpu) / cores_per_node) as u8)
    }

    /// Number of nodes with CPUs, which are the first ones.
    #[inline]
    pub fn nodes_with_cpus(&self) -> u8 {
        self.nodes - self.memory_only_nodes
    }

    /// Whether a node has memory but no CPU.
    #[inline]
    pub fn is_memory_only(&self, node: Node) -> bool {
        node.0 >= self.nodes_with_cpus()
    }

    /// The CPUs of `node`, in order.
    pub fn cpus_of(&self, node: Node) -> Vec<Cpu> {
        self.all_cpus().filter(|&cpu| self.node(cpu) == node).collect()
    }

    /// The SMT sibling of `cpu`, if it has one.
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

    /// One CPU's share of the last-level cache, bytes.
    pub fn last_level_slice(&self) -> u64 {
        self.caches.last().map_or(0, |cache| cache.bytes / self.sharers(cache))
    }

    /// One CPU's share of all data and unified caches added up, bytes.
    pub fn sum_of_cache_slices(&self) -> u64 {
        self.caches.iter().map(|cache| cache.bytes / self.sharers(cache)).sum()
    }

    /// Size of one last-level cache, bytes.
    pub fn last_level_bytes(&self) -> u64 {
        self.caches.last().map_or(0, |cache| cache.bytes)
    }

    /// The nodes in the order in which `node` prefers them: itself, then by distance, ties by the next higher
    /// number (`mm/page_alloc.c: find_next_best_node`).
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
