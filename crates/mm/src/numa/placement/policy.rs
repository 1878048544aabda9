//! What the kernel learns from hint faults: where a thread's memory is, with whom it shares, and how fast to scan.
//!
//! ```text
//!   fault ─► buffers (MEMBUF, CPUBUF), locality            a sequence ends
//!                                                               │
//!            mem := mem/2 + membuf         ◄────────────────────┤    half of what was known, and what is new
//!            cpu := cpu/2 + cpubuf · share of time run          │
//!            preferred node := the one with most mem            │
//!            scan period: longer if private or local, else shorter
//! ```
//!
//! Pure functions of small states. In the kernel: `task_numa_placement`, `task_numa_group`, `update_task_scan_period`,
//! `preferred_group_nid`, `score_nearby_nodes` in kernel/sched/fair.c.

use super::{FaultStats, Kind, TaskNuma};
use crate::numa::features::NumaFeatures;
use crate::numa::migrate::policy::{ACTIVE_NODE_FRACTION, Nodes};
use crate::numa::scan::policy::ScanPeriods;
use machine::Node;

/// From a node to itself.
const LOCAL_DISTANCE: u8 = 10;
/// Parts of a period (`NUMA_PERIOD_SLOTS`).
const PERIOD_SLOTS: u64 = 10;
/// From so many tenths on, faults are mostly local, or mostly private (`NUMA_PERIOD_THRESHOLD`).
const PERIOD_THRESHOLD: u64 = 7;
/// Time that a task has run, of this, counts when it is placed first (`LOAD_AVG_MAX`).
pub const LOAD_AVG_MAX: u64 = 47742;

/// How a task changes its period, and whether the whole address space waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodUpdate {
    /// The new period, ms.
    pub period: u32,
    /// The next pass of any thread is put off by a period.
    pub puts_off_scan: bool,
    /// What was counted since the last update is forgotten.
    pub clears_locality: bool,
}

/// Hint faults of a task since its period was updated, in pages (`numa_faults_locality`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// On another node than the task.
    pub remote: u64,
    /// On the same, or within the nodes that its group is active on.
    pub local: u64,
    /// That should have moved and did not.
    pub failed: u64,
}

/// The new scan period of a task, given what the last sequence added to what is known of it (`new`).
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
    let period = (i64::from(period) + slots * slot).clamp(bounds.min.into(), bounds.max.into());
    PeriodUpdate { period: period as u32, puts_off_scan: false, clears_locality: true }
}

/// A task's placement: its statistics are brought up to date, and so are its group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decayed {
    /// Most faults were on memory of this node, if there were any.
    pub best: Option<Node>,
    /// New faults on pages that others had touched.
    pub shared: u64,
    /// New faults on the task's own.
    pub private: u64,
}

/// Halves what is known of a task and adds what is new. It ran for `runtime` of `period`.
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

/// Whether a group runs on a node: a third of what it runs where it runs most (`numa_is_active_node`).
pub fn is_active(cpu_faults: u64, max_cpu_faults: u64) -> bool {
    cpu_faults * ACTIVE_NODE_FRACTION > max_cpu_faults
}

/// Nodes that a group is active on, and the most faults of threads on one node (`numa_group_count_active_nodes`).
pub fn active_nodes(group: &FaultStats) -> (usize, u64) {
    let most = group.nodes().map(|node| group.cpu(node)).max().unwrap_or(0);
    (group.nodes().filter(|&node| is_active(group.cpu(node), most)).count(), most)
}

/// The other task that a fault hints at: it runs where the last one ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its PID ends as the one that is remembered.
    pub matches: bool,
    /// Its group, if it has one: its age (lower is older) and how many tasks it has.
    pub group: Option<(u64, usize)>,
    /// It shares the address space.
    pub same_mm: bool,
}

/// What becomes of a task's group after a fault on a page that somebody else had touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Nothing; the fault counts as shared.
    Stay,
    /// Nothing; the fault counts as private: only the PIDs look alike.
    LooksAlike,
    /// It joins the other's.
    Join,
}

/// Whether a task of a group of this age and size joins `other`'s (`task_numa_group`). The kernel compares addresses of
/// groups of equal size; here the younger one joins the older.
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

/// How nodes are linked (`sched_numa_topology_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyType {
    /// All as far from each other, or there are two distances only.
    Direct,
    /// Some are reached through others, which run tasks themselves.
    GluelessMesh,
    /// Some are reached through nodes that serve others alike.
    Backplane,
}

/// How far nodes are from each other, and how those that threads can run on are linked. Nodes with memory
/// only are not part of the scheduler's topology.
#[derive(Clone, Debug)]
pub struct Links {
    /// From each node to each (`SLIT`).
    pub distances: Vec<Vec<u8>>,
    /// Nodes that threads can run on.
    pub with_cpus: Nodes,
    /// Distances between those, the shortest first (`sched_domains_numa_distance`).
    levels: Vec<u8>,
    kind: TopologyType,
}

impl Links {
    /// Those of a machine with this table of distances, some of whose nodes may have memory only.
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

    /// Which kind they are.
    pub fn kind(&self) -> TopologyType {
        self.kind
    }

    /// `sched_max_numa_distance`.
    fn farthest(&self) -> u8 {
        self.levels.last().copied().unwrap_or(LOCAL_DISTANCE)
    }
}

/// Which kind links of `nodes` are, between which there are these distances (`init_numa_topology_type`).
fn topology_type(nodes: &[usize], levels: &[u8], distances: &[Vec<u8>]) -> TopologyType {
    let Some(&farthest) = levels.last().filter(|_| levels.len() > 2) else { return TopologyType::Direct };
    let mut pairs = nodes.iter().flat_map(|&a| nodes.iter().map(move |&b| (a, b)));
    let Some((a, b)) = pairs.find(|&(a, b)| distances[a][b] >= farthest) else { return TopologyType::Direct };
    let between = |&c: &usize| distances[a][c] < farthest && distances[b][c] < farthest;
    if nodes.iter().any(between) { TopologyType::GluelessMesh } else { TopologyType::Backplane }
}

/// Faults on memory near a node, the nearer the more they count (`score_nearby_nodes`). `reach`: how far the search that
/// asks goes.
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

/// The node that a group's memory is best placed around (`preferred_group_nid`), given the one with most of it.
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

/// What part of all faults, in thousandths, were on memory of a node and near it (`task_weight`, `group_weight`).
pub fn weight(stats: &FaultStats, node: Node, reach: u8, links: &Links) -> u64 {
    let faults = |node| stats.memory(node);
    let here = faults(node) + nearby_faults(faults, node, reach, links);
    (here * 1000).checked_div(stats.total).unwrap_or(0)
}

/// Narrows the search from the farthest distance to the nearest: of the nodes left, the one around which the group has most
/// memory within that distance keeps its neighbourhood.
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
