//! NUMA balancing: whether a page follows its thread, as `numa/migrate/` has it, and which node suits a group, as
//! `numa/placement/policy.rs` has it.
//!
//! Every node has memory and, where pages are moved, eight CPUs. Statistics of a group stay below 2^30, so that products do not wrap.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use machine::Node;
use mm::Features;
use mm::decisions::{Decisions, GroupNodesState, MOST_NODES, NumaMigrateState, Rule};
use mm::numa::cpupid::Cpupid;
use mm::numa::migrate::policy::{Fault, GroupUse, Nodes, may_migrate};
use mm::numa::migrate::promotion::{NodePromotion, latency};
use mm::numa::placement::policy::{Links, TopologyType, preferred_group_node};
use mm::numa::placement::{FaultStats, Kind};
use mm::sysctl::NumaSettings;

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<NumaMigrateState>, own| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: fault, own, known: &[] })
    };
    vec![
        case(
            "should_numa_migrate_memory",
            |d| d.judged.should_numa_migrate_memory,
            |_, s| s.answer = migrates(s).into(),
        ),
        case("numa_promotion_adjust_threshold", |d| d.judged.numa_promotion_adjust_threshold, adjust),
        Case::from(Both {
            name: "preferred_group_nid",
            releases: Span::ALL,
            rule: |d| d.judged.preferred_group_nid,
            draw: group,
            own: preferred,
            known: &[],
        }),
    ]
}

/// CPUs of the machine, eight of each node.
const CPUS: usize = 64;
/// How many steps of a threshold there are up to twice the default.
const STEPS: i64 = 16;

fn fault(draw: &mut Draw) -> NumaMigrateState {
    let pid = draw.number(1, 1 << 22, &[255]);
    let destination = draw.number(0, MOST_NODES as i64 - 1, &[]);
    let source = (destination + draw.number(1, MOST_NODES as i64 - 1, &[])) % MOST_NODES as i64;
    let cpu = if draw.flag() { destination * 8 } else { draw.number(0, 8191, &[CPUS as i64, 8191]) };
    let low_bits = if draw.flag() { pid & 255 } else { draw.number(0, 255, &[255]) };
    let faults = |draw: &mut Draw| [0; 2].map(|_: u64| draw.number(0, 1 << 30, &[0]) as u64);
    let now = draw.number(0, u32::MAX.into(), &[1000]);
    let before =
        |draw: &mut Draw, edge: i64| (now as u32).wrapping_sub(draw.number(0, 1 << 21, &[edge]) as u32);
    let hot_threshold = draw.number(STEPS, 100_000, &[1000]);
    let step = hot_threshold * 2 / STEPS;
    let tiering = draw.flag();
    let from_slow_memory = draw.flag();
    // In slow memory a page says when it was scanned.
    let scanned = before(draw, hot_threshold) as i64 & Cpupid::UNSET.bits() as i64;
    let rate_limit = draw.number(0, 1 << 20, &[0, 65_536]);
    let scan_period_max = draw.number(1, 600_000, &[60_000]);
    let candidates = draw.number(0, 1 << 40, &[]);
    let of_period = (rate_limit << 8) * scan_period_max / 1000;
    let edges = [of_period, of_period * 9 / 10, of_period * 11 / 10];
    NumaMigrateState {
        pid: pid as i32,
        preferred_nid: if draw.flag() { -1 } else { draw.number(0, MOST_NODES as i64 - 1, &[]) } as i32,
        scan_seq: draw.number(0, 64, &[4]) as i32,
        has_group: draw.flag().into(),
        cpu_faults: faults(draw),
        memory_faults: faults(draw),
        source: source as i32,
        destination: destination as i32,
        last_cpupid: if tiering && from_slow_memory { scanned } else { cpu << 8 | low_bits } as i32,
        tiering: tiering.into(),
        from_slow_memory: from_slow_memory.into(),
        free_space_enough: (draw.number(0, 3, &[]) == 3).into(),
        nr_pages: 1 << draw.number(0, 9, &[]),
        now: now as u32,
        hot_threshold: hot_threshold as u32,
        rate_limit: rate_limit as u32,
        scan_period_max: scan_period_max as u32,
        threshold: if draw.flag() { 0 } else { step * draw.number(1, STEPS, &[1, STEPS]) } as u32,
        threshold_start: before(draw, scan_period_max),
        rate_start: before(draw, 1000),
        threshold_candidates: (candidates - draw.number(0, candidates, &edges)) as u64,
        rate_candidates: (candidates - draw.number(0, candidates, &[rate_limit << 8])) as u64,
        candidates: candidates as u64,
        answer: 0,
    }
}

fn settings(s: &NumaMigrateState) -> NumaSettings {
    NumaSettings {
        scan_period_max_ms: s.scan_period_max.into(),
        hot_threshold_ms: s.hot_threshold.into(),
        promote_rate_limit_mbps: s.rate_limit.into(),
        ..mm::Settings::default().numa
    }
}

fn with_promotion<R>(s: &mut NumaMigrateState, decide: impl FnOnce(&mut NodePromotion) -> R) -> R {
    let mut node = NodePromotion {
        rate_start: s.rate_start,
        rate_candidates: s.rate_candidates,
        threshold_start: s.threshold_start,
        threshold_candidates: s.threshold_candidates,
        threshold: s.threshold,
        candidates: s.candidates,
    };
    let answer = decide(&mut node);
    (s.rate_start, s.rate_candidates) = (node.rate_start, node.rate_candidates);
    (s.threshold_start, s.threshold_candidates) = (node.threshold_start, node.threshold_candidates);
    (s.threshold, s.candidates) = (node.threshold, node.candidates);
    answer
}

fn adjust(_: &Features, s: &mut NumaMigrateState) {
    let (settings, now, limit) = (settings(s), s.now, u64::from(s.rate_limit) << 8);
    with_promotion(s, |node| node.adjust_threshold(&settings, now, limit));
}

/// From slow memory by heat, if tiers are told apart; else by who used the page last.
fn migrates(s: &mut NumaMigrateState) -> bool {
    let last = Cpupid::from_bits(s.last_cpupid as u32);
    if s.tiering != 0 && s.from_slow_memory != 0 {
        let (settings, now, pages, has_room) = (settings(s), s.now, s.nr_pages, s.free_space_enough != 0);
        return with_promotion(s, |node| {
            if has_room {
                node.unlimited();
            }
            has_room || node.may_promote(&settings, now, latency(now, last.bits()), pages)
        });
    }
    let group = GroupUse {
        cpu_source: s.cpu_faults[0],
        cpu_destination: s.cpu_faults[1],
        memory_source: s.memory_faults[0],
        memory_destination: s.memory_faults[1],
    };
    may_migrate(&Fault {
        pid: s.pid as u32,
        last,
        last_node: last.is_valid(CPUS).then(|| Node((last.cpu().0 / 8) as u8)),
        destination: Node(s.destination as u8),
        preferred: (s.preferred_nid >= 0).then_some(Node(s.preferred_nid as u8)),
        task_scan_seq: s.scan_seq,
        group: (s.has_group != 0).then_some(group),
        from_slow_memory: s.from_slow_memory != 0,
    })
}

/// Nodes at up to four distances. The topology's type follows from these.
fn group(draw: &mut Draw) -> GroupNodesState {
    let nodes = draw.number(2, MOST_NODES as i64, &[]) as usize;
    let mut state = GroupNodesState {
        nodes: nodes as i32,
        nid: draw.number(0, nodes as i64 - 1, &[]) as i32,
        with_cpus: draw.number(1, (1 << nodes) - 1, &[(1 << nodes) - 1]) as u64,
        ..GroupNodesState::default()
    };
    for a in 0..nodes {
        state.distances[a * MOST_NODES + a] = 10;
        for b in 0..a {
            let distance = draw.one_of([16, 20, 24, 32]);
            state.distances[a * MOST_NODES + b] = distance;
            state.distances[b * MOST_NODES + a] = distance;
        }
        state.faults[a] = draw.number(0, 1 << 30, &[0]) as u64;
    }
    let links = links(&state);
    state.topology = match links.kind() {
        TopologyType::Direct => 0,
        TopologyType::GluelessMesh => 1,
        TopologyType::Backplane => 2,
    };
    state.max_distance = links.farthest().into();
    for &level in &links.levels {
        state.levels[usize::from(level) / 64] |= 1 << (level % 64);
    }
    state
}

fn links(s: &GroupNodesState) -> Links {
    let nodes = s.nodes as usize;
    let row = |a: usize| (0..nodes).map(|b| s.distances[a * MOST_NODES + b] as u8).collect();
    Links::new((0..nodes).map(row).collect(), Nodes(s.with_cpus))
}

fn preferred(_: &Features, s: &mut GroupNodesState) {
    let nodes = s.nodes as usize;
    let mut group = FaultStats::new(nodes);
    for node in 0..nodes {
        group.add(Kind::Memory, Node(node as u8), false, s.faults[node]);
    }
    s.answer = preferred_group_node(&group, Node(s.nid as u8), &links(s)).0.into();
}
