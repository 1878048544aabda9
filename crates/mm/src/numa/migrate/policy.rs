//! What the kernel decides about a page when somebody takes a hint fault on it: is it misplaced, and may it follow?
//!
//! ```text
//!   misplaced    policy of the VMA or task ─► a node, or stay
//!   filter       preferred node unknown, or early, and nobody or the same thread was here     ─► yes
//!                the last thread here ran on another node than the destination                ─► no    (two stages)
//!                the same thread, or no group                                                  ─► yes
//!                the group runs three times as much there as here                              ─► yes
//!                it runs more there for the memory it has there                                ─► yes, else no
//! ```
//!
//! Under the default policy a local fault is not asked about, so it does not refresh who was there last. Pure functions of
//! small states. In the kernel: `mpol_misplaced` in mm/mempolicy.c, `should_numa_migrate_memory` in kernel/sched/fair.c,
//! `numa_migrate_prep` in mm/memory.c.

use crate::counters::Event;
use crate::numa::cpupid::Cpupid;
use crate::numa::features::NumaFeatures;
use machine::Node;

/// A group must run so many times more on a node before that counts (`ACTIVE_NODE_FRACTION`).
pub const ACTIVE_NODE_FRACTION: u64 = 3;

/// A set of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes(pub u64);

impl Nodes {
    /// One node.
    pub fn of(node: Node) -> Nodes {
        Nodes(1 << node.0)
    }

    /// Those of a list.
    pub fn of_all(nodes: &[u8]) -> Nodes {
        Nodes(nodes.iter().fold(0, |set, &node| set | Nodes::of(Node(node)).0))
    }

    /// Whether `node` is one of them.
    pub fn has(self, node: Node) -> bool {
        self.0 >> node.0 & 1 != 0
    }

    /// Whether there is only one.
    pub fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Whose turn it is if they take turns.
    pub fn on_turn(self, turn: u64) -> Option<Node> {
        self.iter().nth(turn.checked_rem(self.0.count_ones().into())? as usize)
    }

    /// The nearest of them, `distances` being those from where one is (`SLIT`).
    pub fn nearest(self, distances: &[u8]) -> Option<Node> {
        self.iter().min_by_key(|node| distances[node.index()])
    }

    /// The first of them.
    pub fn first(self) -> Option<Node> {
        self.iter().next()
    }

    fn iter(self) -> impl Iterator<Item = Node> {
        (0..64).map(Node).filter(move |&node| self.has(node))
    }
}

/// Which nodes a policy names (`MPOL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// These first.
    Preferred(Nodes),
    /// The one where the thread runs.
    Local,
    /// These only.
    Bind(Nodes),
    /// These first, the nearest of them.
    PreferredMany(Nodes),
    /// One after the other, folio by folio.
    Interleave(Nodes),
}

/// A memory policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mempolicy {
    /// Its nodes.
    pub mode: Mode,
    /// `MPOL_F_MOF`: pages migrate on hint faults.
    pub migrate_on_fault: bool,
    /// `MPOL_F_MORON`: they go where the thread runs, if the filter lets them.
    pub migrate_on_referencing_node: bool,
}

impl Mempolicy {
    /// That of a thread on `node` which set none.
    pub fn default_on(node: Node) -> Mempolicy {
        Mempolicy {
            mode: Mode::Preferred(Nodes::of(node)),
            migrate_on_fault: true,
            migrate_on_referencing_node: true,
        }
    }
}

/// Whether the kernel looks at a hint fault on a folio of `pages` pages: up to 6.9 not at one on a large folio that single
/// entries map.
pub fn is_looked_at(f: &NumaFeatures, pages: u64, is_huge_entry: bool) -> bool {
    pages == 1 || is_huge_entry || f.large_folios
}

/// Whether a folio that has moved keeps who touched it last. From fast to slow memory or back it does not, as the one keeps a
/// time instead; in 6.12 it never does.
pub fn keeps_cpupid(f: &NumaFeatures, changes_tier: bool) -> bool {
    f.migration_keeps_cpupid && !changes_tier
}

/// Whether a thread that finds a page on its way elsewhere lets the page table's lock go between its look at the entry and making
/// it accessible again. In 6.1 it does to try to move the page (`tries`); in 6.12 it takes the page off its list under the lock.
pub fn lets_lock_go(f: &NumaFeatures, tries: bool) -> bool {
    tries && !f.isolates_under_lock
}

/// Of which order what has a turn is where nodes take turns: since 6.7 the folio, before, a page of it.
pub fn turn_order(f: &NumaFeatures, folio_order: u8) -> u8 {
    if f.folios_take_turns { folio_order } else { 0 }
}

/// What counts pages that move up because fast memory has room to spare; nothing did before 6.18.
pub fn unlimited_candidates(f: &NumaFeatures) -> Option<Event> {
    f.counts_unlimited_promotions.then_some(Event::PgpromoteCandidateNrl)
}

/// Where a page belongs that is touched from `this` node and is on `folio`; none: it stays. `turn` says whose turn it is
/// where nodes take turns. `filter` answers for the destination it is given, and is asked only where the policy leaves it
/// to who touches the page.
pub fn misplaced(
    policy: &Mempolicy,
    this: Node,
    folio: Node,
    turn: u64,
    distances: &[Vec<u8>],
    filter: impl FnOnce(Node) -> bool,
) -> Option<Node> {
    if !policy.migrate_on_fault {
        return None;
    }
    let referencing = policy.migrate_on_referencing_node;
    let mut target = match policy.mode {
        Mode::Preferred(nodes) if nodes.has(folio) => return None,
        Mode::Preferred(nodes) => nodes.first()?,
        Mode::Local => this,
        Mode::Interleave(nodes) => nodes.on_turn(turn)?,
        Mode::Bind(nodes) | Mode::PreferredMany(nodes) if referencing => {
            if !nodes.has(this) {
                return None;
            }
            this
        }
        Mode::Bind(nodes) | Mode::PreferredMany(nodes) => {
            if nodes.has(folio) {
                return None;
            }
            nodes.nearest(&distances[this.index()])?
        }
    };
    if referencing {
        target = this;
        if !filter(target) {
            return None;
        }
    }
    (target != folio).then_some(target)
}

/// Faults of a group of tasks on two nodes, by where its threads ran and where its memory was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// Weighted faults of threads that ran on the source.
    pub cpu_source: u64,
    /// The same for the destination.
    pub cpu_destination: u64,
    /// Faults on memory of the source.
    pub memory_source: u64,
    /// The same for the destination.
    pub memory_destination: u64,
}

/// What the filter knows of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The thread.
    pub pid: u32,
    /// Who was there last.
    pub last: Cpupid,
    /// The node of the CPU in `last`; none if it is no CPU of this machine.
    pub last_node: Option<Node>,
    /// Where the page would go.
    pub destination: Node,
    /// The thread's preferred node.
    pub preferred: Option<Node>,
    /// The thread's copy of the sequence number.
    pub task_scan_seq: i32,
    /// The thread's group.
    pub group: Option<GroupUse>,
    /// The page is on a node of slow memory, and memory tiering is off.
    pub from_slow_memory: bool,
}

/// How many sequences of a task are early.
const EARLY_SEQUENCES: i32 = 4;

/// Whether a page may follow (`should_numa_migrate_memory` without tiering).
pub fn may_migrate(fault: &Fault) -> bool {
    let same_thread = fault.last.matches(fault.pid);
    let nobody = fault.last.is_pid_unset();
    if fault.from_slow_memory && fault.last_node.is_none() {
        return false;
    }
    let early = fault.preferred.is_none() || fault.task_scan_seq <= EARLY_SEQUENCES;
    if early && (nobody || same_thread) {
        return true;
    }
    if !nobody && fault.last_node != Some(fault.destination) {
        return false;
    }
    let Some(group) = fault.group else { return true };
    same_thread
        || group.cpu_destination > group.cpu_source * ACTIVE_NODE_FRACTION
        || group.cpu_destination * group.memory_source * 3 > group.cpu_source * group.memory_destination * 4
}

/// What a hint fault was (`TNF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultFlags(pub u8);

impl FaultFlags {
    /// The page moved.
    pub const MIGRATED: FaultFlags = FaultFlags(1);
    /// Read-only memory: who shares it is no group.
    pub const NO_GROUP: FaultFlags = FaultFlags(2);
    /// Several address spaces share it.
    pub const SHARED: FaultFlags = FaultFlags(4);
    /// The page was on the thread's node.
    pub const FAULT_LOCAL: FaultFlags = FaultFlags(8);
    /// It should have moved, and did not.
    pub const MIGRATE_FAIL: FaultFlags = FaultFlags(16);

    /// Whether `flag` is set.
    #[inline]
    pub fn has(self, flag: FaultFlags) -> bool {
        self.0 & flag.0 != 0
    }

    /// With `flag`, if `condition` holds.
    #[inline]
    pub fn with(self, flag: FaultFlags, condition: bool) -> FaultFlags {
        if condition { FaultFlags(self.0 | flag.0) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_on_large_folios_count_if_the_entry_is_huge_or_the_kernel_new() {
        let looked = |f: NumaFeatures| {
            [(1, false), (16, false), (512, true)].map(|(pages, huge)| is_looked_at(&f, pages, huge))
        };
        assert_eq!(looked(NumaFeatures::R67), [true, false, true]);
        assert_eq!(looked(NumaFeatures::R610), [true, true, true]);
    }

    #[test]
    fn a_folio_that_moves_keeps_who_touched_it_within_its_tier() {
        let keeps = |f: NumaFeatures| [false, true].map(|changes_tier| keeps_cpupid(&f, changes_tier));
        assert_eq!(keeps(NumaFeatures::R610), [true, false]);
        assert_eq!(keeps(NumaFeatures::Y612), [false, false]);
    }
}
