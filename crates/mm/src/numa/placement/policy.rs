//! Decisions of NUMA placement: a thread's preferred node, its group, and its scan period.
//!
//! ```text
//!   fault ─► buffers (MEMBUF, CPUBUF), locality            a sequence ends
//!                                                               │
//!            mem := mem/2 + membuf         ◄────────────────────┤    half of the old faults, plus the new ones
//!            cpu := cpu/2 + cpubuf · share of time run          │
//!            preferred node := the one with most mem            │
//!            scan period: longer if private or local, else shorter
//! ```
//!
//! Pure functions of small states. In the kernel: `task_numa_placement`, `task_numa_group`,
//! `update_task_scan_period`, `preferred_group_nid`, `score_nearby_nodes` in kernel/sched/fair.c.

use super::{FaultStats, Kind, TaskNuma};
use crate::numa::features::NumaFeatures;
use crate::numa::migrate::policy::{ACTIVE_NODE_FRACTION, Nodes};
use crate::numa::scan::policy::ScanPeriods;
use machine::Node;

/// Distance of a node to itself (`LOCAL_DISTANCE`).
const LOCAL_DISTANCE: u8 = 10;
/// Slots that a scan period is divided into (`NUMA_PERIOD_SLOTS`).
const PERIOD_SLOTS: u64 = 10;
/// Tenths of faults from which a task counts as mostly local, or mostly private (`NUMA_PERIOD_THRESHOLD`).
const PERIOD_THRESHOLD: u64 = 7;
/// Upper bound of the decayed run time that a task's first placement uses (`LOAD_AVG_MAX`).
pub const LOAD_AVG_MAX: u64 = 47742;

/// An update of a task's scan period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodUpdate {
    /// The new scan period, ms.
    pub period: u32,
    /// The next pass of the whole address space is delayed by a period.
    pub puts_off_scan: bool,
    /// The locality statistics are reset.
    pub clears_locality: bool,
}

/// Hint faults of a task since its scan period was updated, in pages (`numa_faults_locality`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// On pages of other nodes.
    pub remote: u64,
    /// On pages of the task's node, or within the active nodes of its group.
    pub local: u64,
    /// Failed migrations.
    pub failed: u64,
}

/// The new scan period of a task (`update_task_scan_period`). `new` has the faults of the last sequence.
pub fn update_period(
    f: &NumaFeatures,
    period: u32,
    period_max: u32,
    bounds: ScanPeriods,
    locality: Locality,
    new: &Decayed,
) -> PeriodUpdate {
    let &Decayed { shared, private, .. } = new;
    if locality.local + shared == 0 || locality.failed > 0 {
        return PeriodUpdate {
            period: period_max.min(period << 1),
            puts_off_scan: true,
            clears_locality: f.loc_clear,
        };
    }
    let slot = i64::from(period.div_ceil(PERIOD_SLOTS as u32));
    let tenths = |part: u64, whole: u64| part * PERIOD_SLOTS / whole.max(1);
    let local = tenths(locality.local, locality.local + locality.remote);
    let private = tenths(private, private + shared);
    let above = |ratio: u64| (ratio - PERIOD_THRESHOLD).max(1) as i64;
    let slots = if private >= PERIOD_THRESHOLD {
        above(private)
    } else if local >= PERIOD_THRESHOLD {
        above(local)
    } else {
        -((PERIOD_THRESHOLD - local.max(private)) as i64)
    };
    // The kernel's sum has no sign: one below 0, which only periods of less than 21 ms come to, is as long as it gets.
    let period = period.wrapping_add((slots * slot) as u32).clamp(bounds.min, bounds.max);
    PeriodUpdate { period, puts_off_scan: false, clears_locality: true }
}

/// The result of decaying a task's statistics at its placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decayed {
    /// The node with most faults, if there were any.
    pub best: Option<Node>,
    /// New faults on pages that other threads touched too.
    pub shared: u64,
    /// New faults on private pages.
    pub private: u64,
}

/// Halves the statistics of a task and its group and adds the last sequence. The task ran for `runtime` out
/// of `period`.
pub fn decay(task: &mut TaskNuma, mut group: Option<&mut FaultStats>, runtime: u64, period: u64) -> Decayed {
    let faults_seen = task.locality.remote + task.locality.local;
    let weight = (runtime << 16) / (period + 1);
    let stats = task.faults.as_mut().expect("a task is placed because it took faults");
    let mut decayed = Decayed { best: None, shared: 0, private: 0 };
    let mut most = 0;
    for node in stats.nodes() {
        let mut here = 0;
        for private in [false, true] {
            let memory = stats.get(Kind::Memory, node, private);
            let new = stats.take(Kind::MemoryBuffer, node, private);
            let ran = weight.wrapping_mul(stats.take(Kind::CpuBuffer, node, private)) / (faults_seen + 1);
            *(if private { &mut decayed.private } else { &mut decayed.shared }) += new;
            let memory_change = new.wrapping_sub(memory / 2);
            let cpu_change = ran.wrapping_sub(stats.get(Kind::Cpu, node, private) / 2);
            stats.add(Kind::Memory, node, private, memory_change);
            stats.add(Kind::Cpu, node, private, cpu_change);
            here += stats.get(Kind::Memory, node, private);
            if let Some(group) = &mut group {
                group.add(Kind::Memory, node, private, memory_change);
                group.add(Kind::Cpu, node, private, cpu_change);
            }
        }
        let here = group.as_ref().map_or(here, |group| group.memory(node));
        if here > most {
            most = here;
            decayed.best = Some(node);
        }
    }
    decayed
}

/// Whether a group is active on a node: it runs there more than a third of what it runs on its main node
/// (`numa_is_active_node`).
pub fn is_active(cpu_faults: u64, max_cpu_faults: u64) -> bool {
    cpu_faults * ACTIVE_NODE_FRACTION > max_cpu_faults
}

/// The number of nodes that a group is active on, and the most weighted faults on one node
/// (`numa_group_count_active_nodes`).
pub fn active_nodes(group: &FaultStats) -> (usize, u64) {
    let most = group.nodes().map(|node| group.cpu(node)).max().unwrap_or(0);
    (group.nodes().filter(|&node| is_active(group.cpu(node), most)).count(), most)
}

/// The other task that a fault points to: it runs on the CPU in the folio's last cpupid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its PID matches the cpupid.
    pub matches: bool,
    /// Its group, if it has one: age (lower is older) and number of tasks.
    pub group: Option<(u64, usize)>,
    /// It shares the address space.
    pub same_mm: bool,
}

/// What a fault on a page last touched by another task does to the task's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The task stays in its group; the fault counts as shared.
    Stay,
    /// The task stays in its group; the fault counts as private, as only the PIDs look alike.
    LooksAlike,
    /// The task joins the other's group.
    Join,
}

/// Whether a task in a group of this age and size joins the group of `other` (`task_numa_group`). Between
/// groups of equal size the kernel compares addresses; here the younger joins the older.
pub fn join(own: (u64, usize), other: &Other, shared_mapping: bool) -> Join {
    let Some(group) = other.group.filter(|group| other.matches && group.0 != own.0) else {
        return Join::Stay;
    };
    let (own_age, own_tasks) = own;
    let (age, tasks) = group;
    if own_tasks > tasks || own_tasks == tasks && own_age < age {
        Join::Stay
    } else if other.same_mm || shared_mapping {
        Join::Join
    } else {
        Join::LooksAlike
    }
}

/// Type of the NUMA topology (`sched_numa_topology_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyType {
    /// All nodes are directly connected, or there are only two distances.
    Direct,
    /// Some nodes are reached through others, which have CPUs.
    GluelessMesh,
    /// Some nodes are reached through controllers, which serve all nodes of a group alike.
    Backplane,
}

/// Distances and topology type of the nodes with CPUs. Nodes with memory only are not part of the scheduler's
/// topology.
#[derive(Clone, Debug)]
pub struct Links {
    /// Distance table (`SLIT`).
    pub distances: Vec<Vec<u8>>,
    /// The nodes with CPUs.
    pub with_cpus: Nodes,
    /// The distances between those, shortest first (`sched_domains_numa_distance`).
    pub levels: Vec<u8>,
    kind: TopologyType,
}

impl Links {
    /// The links of a machine with this distance table and these nodes with CPUs.
    pub fn new(distances: Vec<Vec<u8>>, with_cpus: Nodes) -> Links {
        let nodes: Vec<usize> =
            (0..distances.len()).filter(|&node| with_cpus.has(Node(node as u8))).collect();
        let mut levels: Vec<u8> = nodes
            .iter()
            .flat_map(|&a| nodes.iter().map(move |&b| (a, b)))
            .map(|(a, b)| distances[a][b])
            .collect();
        levels.sort_unstable();
        levels.dedup();
        let kind = topology_type(&nodes, &levels, &distances);
        Links { distances, with_cpus, levels, kind }
    }

    pub fn kind(&self) -> TopologyType {
        self.kind
    }

    /// `sched_max_numa_distance`.
    pub fn farthest(&self) -> u8 {
        self.levels.last().copied().unwrap_or(LOCAL_DISTANCE)
    }
}

/// The topology type of `nodes`, given the distances between them (`init_numa_topology_type`).
fn topology_type(nodes: &[usize], levels: &[u8], distances: &[Vec<u8>]) -> TopologyType {
    let Some(&farthest) = levels.last().filter(|_| levels.len() > 2) else { return TopologyType::Direct };
    let mut pairs = nodes.iter().flat_map(|&a| nodes.iter().map(move |&b| (a, b)));
    let Some((a, b)) = pairs.find(|&(a, b)| distances[a][b] >= farthest) else { return TopologyType::Direct };
    let between = |&c: &usize| distances[a][c] < farthest && distances[b][c] < farthest;
    if nodes.iter().any(between) { TopologyType::GluelessMesh } else { TopologyType::Backplane }
}

/// Faults on memory near a node, weighted by distance (`score_nearby_nodes`). `reach` is the largest distance
/// of the search that asks.
pub fn nearby_faults(faults: impl Fn(Node) -> u64, node: Node, reach: u8, links: &Links) -> u64 {
    if links.kind == TopologyType::Direct {
        return 0;
    }
    let max = links.farthest();
    let mut score = 0;
    for (other, &distance) in links.distances[node.index()].iter().enumerate() {
        let far = links.kind == TopologyType::Backplane && distance >= reach;
        if other == node.index() || distance >= max || far {
            continue;
        }
        let faults = faults(Node(other as u8));
        score += match links.kind {
            TopologyType::GluelessMesh => {
                faults * u64::from(max - distance) / u64::from(max - LOCAL_DISTANCE)
            }
            _ => faults,
        };
    }
    score
}

/// The node that suits a group best (`preferred_group_nid`), given the one with most of its memory.
pub fn preferred_group_node(group: &FaultStats, best: Node, links: &Links) -> Node {
    match links.kind {
        TopologyType::Direct => best,
        TopologyType::GluelessMesh => {
            let weight = |node| weight(group, node, links.farthest(), links);
            let chosen =
                |best: (u64, Node), node| if weight(node) > best.0 { (weight(node), node) } else { best };
            let nodes = group.nodes().filter(|&node| links.with_cpus.has(node));
            nodes.fold((0, best), chosen).1
        }
        TopologyType::Backplane => most_used_neighbourhood(group, best, links),
    }
}

/// Share of all faults that were on memory of a node or near it, in thousandths (`task_weight`,
/// `group_weight`).
pub fn weight(stats: &FaultStats, node: Node, reach: u8, links: &Links) -> u64 {
    let faults = |node| stats.memory(node);
    let here = faults(node) + nearby_faults(faults, node, reach, links);
    (here * 1000).checked_div(stats.total).unwrap_or(0)
}

/// Narrows the search from the largest distance to the smallest: of the remaining nodes, those within that
/// distance of each other and with most of the group's memory are kept.
fn most_used_neighbourhood(group: &FaultStats, best: Node, links: &Links) -> Node {
    let mut left: Vec<Node> = group.nodes().filter(|&node| links.with_cpus.has(node)).collect();
    let mut chosen = best;
    for &reach in links.levels.iter().skip(1).rev() {
        let mut most = 0;
        let mut neighbourhood: Vec<Node> = Vec::new();
        let mut taken: Vec<Node> = Vec::new();
        for &a in left.iter() {
            if taken.contains(&a) {
                continue;
            }
            let near: Vec<Node> = left
                .iter()
                .copied()
                .filter(|&b| links.distances[a.index()][b.index()] < reach && !taken.contains(&b))
                .collect();
            let faults: u64 = near.iter().map(|&node| group.memory(node)).sum();
            taken.extend(&near);
            if faults > most {
                most = faults;
                neighbourhood = near;
                chosen = a;
            }
        }
        if most == 0 {
            break;
        }
        left = neighbourhood;
    }
    chosen
}
