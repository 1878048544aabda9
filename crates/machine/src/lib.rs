//! The simulated hardware: what it costs, and where time goes.
//!
//! A simulated machine is a set of CPUs with a clock each. Time passes on a CPU only when something is
//! charged to it, and every picosecond is charged to a category.
//!
//! ```text
//!   profile (TOML, every figure with its source)
//!      │
//!      ├── topology   sockets, nodes, cores, SMT threads, caches; how far apart two CPUs are
//!      ├── memblock   where memory is, and what is reserved before a page allocator gets the rest
//!      ├── costs      the cost of one unit of work on this machine
//!      │
//!   Machine ── clocks    one per CPU, in virtual time; interrupts on their way to it
//!           ── accounts  where each CPU's time went, and when, if a timeline is asked for
//!           ── tlb       TLB shootdowns, by IPIs or by hardware broadcast
//!           ── memory    bandwidth of memory controllers and of links between nodes (links)
//!           ── blocks    clearing, using and translating memory, by block size
//!
//!   SpinLock      held by one CPU at a time; a hand-over costs line transfers between two CPUs
//!   CpuQueue      which CPU acts next: always the one that is furthest behind
//!   CacheModel    which pages a last-level cache still holds
//!   Device        a disk, a RAM disk or zram: when a request completes
//! ```
//!
//! This crate does not know that a memory manager exists. It has no I/O, no threads, no randomness of its
//! own and no clock but the virtual one, and it builds for `wasm32-unknown-unknown`.

pub mod account;
pub mod blocks;
pub mod cache;
pub mod costs;
pub mod cpu_queue;
pub mod interrupt;
pub mod links;
pub mod lock;
pub mod memblock;
pub mod memory;
pub mod page_size;
pub mod profile;
pub mod storage;
pub mod time;
pub mod timeline;
pub mod tlb;
pub mod topology;
pub mod wrong_value;

pub use account::{Accounts, Category};
pub use blocks::BlockCosts;
pub use cache::CacheModel;
pub use costs::{Costs, NumaCosts, PagingCosts};
pub use cpu_queue::CpuQueue;
pub use interrupt::Interrupt;
pub use lock::{LockStatistics, SpinLock};
pub use memblock::{Memblock, ZoneType};
pub use page_size::PageSize;
pub use profile::{Profile, ProfileError};
pub use storage::{Device, Direction};
pub use time::Time;
pub use timeline::Timeline;
pub use tlb::Flush;
pub use topology::{Cpu, Distance, Node, Topology, TurnShares};
pub use wrong_value::WrongValue;

use interrupt::Clock;

/// Length of a round when CPUs take turns: how often a CPU gets its turn. Measured: with four busy CPUs on
/// Linux 6.12.95, CPUs 2 and 3 begin 937 and 913 runs of recorded hint faults per second.
const ROUND: Time = Time::from_nanoseconds(1_000_000);

/// A running machine: topology, costs, and the clock and accounts of each CPU.
#[derive(Clone, Debug)]
pub struct Machine<C: Category> {
    pub topology: Topology,
    pub costs: Costs,
    pub accounts: Accounts<C>,
    clocks: Vec<Clock<C>>,
    busy: Vec<bool>,
    earliest: Option<Time>,
    /// By CPU, if they take turns: the factor by which work is stretched now.
    turns: Vec<f64>,
    places: Vec<Place>,
    traffic: memory::Traffic,
}

/// The place of a CPU in the topology, cached for hot paths.
#[derive(Clone, Copy, Debug)]
struct Place {
    cpu: Cpu,
    core: u16,
    socket: u16,
    node: Node,
    sibling: Option<Cpu>,
}

impl Place {
    #[inline]
    fn distance(&self, other: &Place) -> Distance {
        if self.cpu == other.cpu {
            Distance::SameCpu
        } else if self.core == other.core {
            Distance::SameCore
        } else if self.socket == other.socket {
            Distance::SameSocket
        } else {
            Distance::OtherSocket
        }
    }
}

impl<C: Category> Machine<C> {
    /// A machine with all clocks at zero and no CPU busy. Memory costs are looked up here: changing them in
    /// `costs` later has no effect.
    pub fn new(topology: Topology, costs: Costs) -> Self {
        let cpus = topology.cpus();
        let place = |cpu| Place {
            cpu,
            core: topology.core(cpu),
            socket: topology.socket(cpu),
            node: topology.node(cpu),
            sibling: topology.sibling(cpu),
        };
        Machine {
            places: topology.all_cpus().map(place).collect(),
            accounts: Accounts::new(cpus),
            clocks: vec![Clock::new(); cpus],
            busy: vec![false; cpus],
            earliest: None,
            turns: vec![1.0; if topology.turn_shares.is_empty() { 0 } else { cpus }],
            traffic: memory::Traffic::new(&topology, &costs),
            topology,
            costs,
        }
    }

    /// The virtual time of `cpu`.
    #[inline]
    pub fn now(&self, cpu: Cpu) -> Time {
        self.clocks[cpu.index()].now
    }

    /// Sets the clock of the CPU that is furthest behind: no CPU acts before it any more.
    #[inline]
    pub fn set_earliest(&mut self, time: Time) {
        self.earliest = Some(time);
    }

    /// The time before which no CPU acts any more, if it is known.
    #[inline]
    pub fn earliest(&self) -> Option<Time> {
        self.earliest
    }

    /// Charges `duration` to `category` on `cpu`, stretched if CPUs take turns. Interrupts that arrive
    /// meanwhile come on top.
    #[inline]
    pub fn charge(&mut self, cpu: Cpu, category: C, duration: Time) {
        let duration = self.in_turns(cpu, duration);
        self.clocks[cpu.index()].charge(&mut self.accounts.of(cpu), category, duration);
    }

    /// `duration`, stretched if CPUs take turns.
    #[inline]
    pub(crate) fn in_turns(&self, cpu: Cpu, duration: Time) -> Time {
        if self.takes_turns() { duration.scale(self.turns[cpu.index()]) } else { duration }
    }

    /// Charges the time up to `until` to `category` on `cpu`, except for what interrupts take of it. An
    /// earlier time has no effect. The last handler may run past `until`.
    #[inline]
    pub fn wait_until(&mut self, cpu: Cpu, category: C, until: Time) {
        self.clocks[cpu.index()].wait_until(&mut self.accounts.of(cpu), category, until);
    }

    /// Sends `interrupt` to `target`, which handles it when its clock passes the arrival.
    #[inline]
    pub fn interrupt(&mut self, target: Cpu, interrupt: Interrupt<C>) {
        self.clocks[target.index()].deliver(&mut self.accounts.of(target), interrupt);
    }

    /// Lets `cpu` idle until `until`, interrupts apart. An earlier time has no effect.
    pub fn idle_until(&mut self, cpu: Cpu, until: Time) {
        self.wait_until(cpu, C::IDLE, until);
    }

    /// Marks `cpu` as busy: it has a task to run, which slows its SMT sibling down.
    pub fn set_busy(&mut self, cpu: Cpu) {
        self.busy[cpu.index()] = true;
        self.forget_wakeup(cpu);
    }

    /// Marks `cpu` as idle.
    pub fn set_idle(&mut self, cpu: Cpu) {
        self.busy[cpu.index()] = false;
        self.forget_wakeup(cpu);
    }

    /// Cancels the wake-up of `cpu`, which has become busy or idle.
    fn forget_wakeup(&mut self, cpu: Cpu) {
        self.clocks[cpu.index()].wakes = Time::NEVER;
        if self.takes_turns() {
            self.share_turns();
        }
    }

    /// Recomputes how much work is stretched on each CPU that takes turns.
    fn share_turns(&mut self) {
        let busy = self.busy.iter().filter(|&&busy| busy).count();
        self.turns.fill(busy.max(1) as f64);
        let are_these = |of: &[Cpu]| of.len() == busy && of.iter().all(|cpu| self.busy[cpu.index()]);
        let known = self.topology.turn_shares.iter().find(|known| are_these(&known.busy));
        for (cpu, share) in known.into_iter().flat_map(|known| known.busy.iter().zip(&known.shares)) {
            self.turns[cpu.index()] = 1.0 / share;
        }
    }

    /// Marks `cpu` as idle until `until`.
    pub fn sleep_until(&mut self, cpu: Cpu, until: Time) {
        self.set_idle(cpu);
        self.clocks[cpu.index()].wakes = until;
    }

    /// When `cpu`, which is idle, starts to work by itself; [`Time::NEVER`] if it does not.
    #[inline]
    pub fn wakes(&self, cpu: Cpu) -> Time {
        self.clocks[cpu.index()].wakes
    }

    /// Whether `cpu` is busy.
    #[inline]
    pub fn is_busy(&self, cpu: Cpu) -> bool {
        self.busy[cpu.index()]
    }

    /// Whether CPUs are emulated one after the other ([`Topology::turn_shares`]).
    #[inline]
    pub fn takes_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// How long other CPUs had their turns if `cpu` lost its own between `from` and `until`. `None` if it did
    /// not, or if CPUs do not take turns.
    pub fn turn_lost(&self, cpu: Cpu, from: Time, until: Time) -> Option<Time> {
        let longer = *self.turns.get(cpu.index())?;
        let round = |time: Time| time.picoseconds() / ROUND.picoseconds();
        (longer > 1.0 && round(from) < round(until)).then(|| ROUND - ROUND.scale(1.0 / longer))
    }

    /// The length of `work` on `cpu` now, which is longer while its SMT sibling is busy.
    #[inline]
    pub fn stretched(&self, cpu: Cpu, work: Time) -> Time {
        if self.has_busy_sibling(cpu) { work.scale(self.costs.smt_slowdown) } else { work }
    }

    #[inline]
    fn has_busy_sibling(&self, cpu: Cpu) -> bool {
        self.places[cpu.index()].sibling.is_some_and(|sibling| self.busy[sibling.index()])
    }

    /// The work that `cpu` gets done in `time` from now on, which is less while its SMT sibling is busy.
    #[inline]
    pub fn work_within(&self, cpu: Cpu, time: Time) -> Time {
        if self.has_busy_sibling(cpu) { time.scale(1.0 / self.costs.smt_slowdown) } else { time }
    }

    /// Charges `work` to `category` on `cpu`, longer while its SMT sibling is busy.
    #[inline]
    pub fn work(&mut self, cpu: Cpu, category: C, work: Time) {
        self.charge(cpu, category, self.stretched(cpu, work));
    }

    /// The node that `cpu` belongs to.
    #[inline]
    pub fn node(&self, cpu: Cpu) -> Node {
        self.places[cpu.index()].node
    }

    /// Cost of moving a cache line from the caches of `from` to `to`.
    #[inline]
    pub fn line_transfer(&self, from: Cpu, to: Cpu) -> Time {
        let distance = self.places[from.index()].distance(&self.places[to.index()]);
        self.costs.line_transfer[distance as usize]
    }
}
