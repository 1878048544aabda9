//! Decisions of a hint fault about its page: whether it is misplaced, and whether it may migrate.
//!
//! ```text
//!   misplaced    policy of the VMA or task ─► a node, or stay
//!   filter       no preferred node or early, and cpupid unset or this thread's               ─► yes
//!                cpupid set, and its CPU is on another node than the destination              ─► no    (two stages)
//!                cpupid is this thread's, or the thread has no group                          ─► yes
//!                the group runs three times as much there as here                             ─► yes
//!                it runs more there relative to its memory there                              ─► yes, else no
//! ```
//!
//! Under the default policy, a local fault asks nothing, so it does not refresh the folio's cpupid. Pure
//! functions of small states. In the kernel: `mpol_misplaced` in mm/mempolicy.c, `should_numa_migrate_memory`
//! in kernel/sched/fair.c, `numa_migrate_prep` in mm/memory.c.

use crate::counters::Event;
use crate::numa::cpupid::Cpupid;
use crate::numa::features::NumaFeatures;
use crate::set_bits::set_bits;
use machine::Node;

/// How many times more a group must run on a node for that to count (`ACTIVE_NODE_FRACTION`).
pub const ACTIVE_NODE_FRACTION: u64 = 3;

/// A set of nodes (`nodemask_t`), as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes(pub u64);

impl Nodes {
    /// The set of one node.
    pub fn of(node: Node) -> Nodes {
        Nodes(1 << node.0)
    }

    /// The set of the listed nodes.
    pub fn of_all(nodes: &[u8]) -> Nodes {
        Nodes(nodes.iter().fold(0, |set, &node| set | Nodes::of(Node(node)).0))
    }

    pub fn has(self, node: Node) -> bool {
        self.0 >> node.0 & 1 != 0
    }

    /// Whether the set has exactly one node.
    pub fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    /// The node on turn when nodes are interleaved; `turn` is the interleave index.
    pub fn on_turn(self, turn: u64) -> Option<Node> {
        self.iter().nth(turn.checked_rem(self.0.count_ones().into())? as usize)
    }

    /// The nearest of the nodes, by a row of the SLIT.
    pub fn nearest(self, distances: &[u8]) -> Option<Node> {
        self.iter().min_by_key(|node| distances[node.index()])
    }

    /// The node with the lowest number.
    pub fn first(self) -> Option<Node> {
        self.iter().next()
    }

    fn iter(self) -> impl Iterator<Item = Node> {
        set_bits(self.0).map(|node| Node(node as u8))
    }
}

/// Mode and nodes of a memory policy (`MPOL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `MPOL_PREFERRED`: these nodes first.
    Preferred(Nodes),
    /// `MPOL_LOCAL`: the thread's node.
    Local,
    /// `MPOL_BIND`: only these nodes.
    Bind(Nodes),
    /// `MPOL_PREFERRED_MANY`: the nearest of these nodes first.
    PreferredMany(Nodes),
    /// `MPOL_INTERLEAVE`: one node after the other, by folio.
    Interleave(Nodes),
}

/// A memory policy (`struct mempolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mempolicy {
    pub mode: Mode,
    /// `MPOL_F_MOF`: pages migrate on hint faults.
    pub migrate_on_fault: bool,
    /// `MPOL_F_MORON`: pages migrate to the node of the thread, if the filter allows it.
    pub migrate_on_referencing_node: bool,
}

impl Mempolicy {
    /// The policy of a thread on `node` that has set none.
    pub fn default_on(node: Node) -> Mempolicy {
        Mempolicy {
            mode: Mode::Preferred(Nodes::of(node)),
            migrate_on_fault: true,
            migrate_on_referencing_node: true,
        }
    }
}

/// Whether the kernel handles a hint fault on a folio of `pages` pages: up to 6.9 not on a PTE-mapped large
/// folio.
pub fn is_looked_at(f: &NumaFeatures, pages: u64, is_huge_entry: bool) -> bool {
    pages == 1 || is_huge_entry || f.large_folios
}

/// Whether the entries of a folio that has migrated do not allow stores, so that the next one takes a fault.
pub fn loses_write_permission(f: &NumaFeatures) -> bool {
    !f.saved_write
}

/// Whether a folio remembers who touched it after a store to it has made it migrate: only the fault of an entry
/// that is not huge (`wp_page_reuse`) forgets it.
pub fn is_remembered_after_store(f: &NumaFeatures, is_huge_entry: bool) -> bool {
    !loses_write_permission(f) || is_huge_entry
}

/// Whether a thread that finds the page being migrated releases the page-table lock between checking the PTE
/// and making it accessible again. In 6.1 it does if it `tries` to migrate the page; 6.12 isolates the page
/// under the lock.
pub fn lets_lock_go(f: &NumaFeatures, tries: bool) -> bool {
    tries && !f.isolates_under_lock
}

/// The order that interleaving counts in: since 6.7 that of the folio, before that of a page.
pub fn turn_order(f: &NumaFeatures, folio_order: u8) -> u8 {
    if f.folios_take_turns { folio_order } else { 0 }
}

/// The event that counts pages promoted because fast memory has room to spare; `None` before 6.18.
pub fn unlimited_candidates(f: &NumaFeatures) -> Option<Event> {
    f.counts_unlimited_promotions.then_some(Event::PgpromoteCandidateNrl)
}

/// The node that a page should be on (`mpol_misplaced`) if a thread on node `this` touches it and it is on
/// node `folio`; `None` if it stays. `turn` is the interleave index. `filter` is asked about the destination
/// only if the policy leaves the node to the thread that touches the page.
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

/// Faults of a group of tasks on two nodes, by the node of the threads and by the node of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// Weighted faults of threads that ran on the source node.
    pub cpu_source: u64,
    /// Weighted faults of threads that ran on the destination node.
    pub cpu_destination: u64,
    /// Faults on memory of the source node.
    pub memory_source: u64,
    /// Faults on memory of the destination node.
    pub memory_destination: u64,
}

/// What the filter knows of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The thread's PID.
    pub pid: u32,
    /// The folio's last cpupid.
    pub last: Cpupid,
    /// The node of the CPU in `last`; `None` if it is no CPU of this machine.
    pub last_node: Option<Node>,
    /// The node that the page would migrate to.
    pub destination: Node,
    pub preferred: Option<Node>,
    /// The thread's copy of `numa_scan_seq`.
    pub task_scan_seq: i32,
    /// How the thread's group uses the two nodes.
    pub group: Option<GroupUse>,
    /// The page is in slow memory, and memory tiering is off.
    pub from_slow_memory: bool,
}

/// Number of early sequences of a task.
const EARLY_SEQUENCES: i32 = 4;

/// Whether a page may migrate (`should_numa_migrate_memory` without tiering).
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

/// Flags of a hint fault (`TNF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultFlags(pub u8);

impl FaultFlags {
    /// The page migrated.
    pub const MIGRATED: FaultFlags = FaultFlags(1);
    /// Read-only memory: threads that share it do not form a group.
    pub const NO_GROUP: FaultFlags = FaultFlags(2);
    /// Several address spaces share the page.
    pub const SHARED: FaultFlags = FaultFlags(4);
    /// The page was on the thread's node.
    pub const FAULT_LOCAL: FaultFlags = FaultFlags(8);
    /// The page should have migrated and did not.
    pub const MIGRATE_FAIL: FaultFlags = FaultFlags(16);

    #[inline]
    pub fn has(self, flag: FaultFlags) -> bool {
        self.0 & flag.0 != 0
    }

    /// Adds `flag` if `condition` holds.
    #[inline]
    pub fn with(self, flag: FaultFlags, condition: bool) -> FaultFlags {
        if condition { FaultFlags(self.0 | flag.0) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_nodes_are_gone_through_from_the_lowest_number_on() {
        let nodes = Nodes::of_all(&[63, 0, 5]);
        assert_eq!([0, 1, 2, 3].map(|turn| nodes.on_turn(turn).unwrap().0), [0, 5, 63, 0]);
        assert_eq!((nodes.first(), Nodes(0).first(), Nodes(0).on_turn(1)), (Some(Node(0)), None, None));
        let distances: Vec<u8> = (0..64).map(|node| if node < 5 { 20 } else { 10 }).collect();
        assert_eq!(nodes.nearest(&distances), Some(Node(5)));
    }

    #[test]
    fn faults_on_large_folios_count_if_the_entry_is_huge_or_the_kernel_new() {
        let looked = |f: NumaFeatures| {
            [(1, false), (16, false), (512, true)].map(|(pages, huge)| is_looked_at(&f, pages, huge))
        };
        assert_eq!(looked(NumaFeatures::MAINLINE_6_8), [true, false, true]);
        assert_eq!(looked(NumaFeatures::MAINLINE_6_10), [true, true, true]);
    }

    #[test]
    fn a_store_makes_a_migrated_page_forget_who_touched_it_unless_its_entry_is_huge() {
        let remembered =
            |f: NumaFeatures| [false, true].map(|is_huge| is_remembered_after_store(&f, is_huge));
        assert_eq!(remembered(NumaFeatures::MAINLINE_6_1), [true, true]);
        assert_eq!(remembered(NumaFeatures::BASE), [false, true]);
    }
}
