//! What hardware costs.
//!
//! A simulated machine is a set of CPUs, each with a clock of its own, that pay for what they do:
//! time passes only when something is charged to it, and every picosecond is charged to a category.
//!
//! ```text
//!   profile (TOML, every figure with its source)
//!      │
//!      ├── topology   sockets, nodes, cores, SMT threads, caches; how far apart two CPUs are
//!      ├── memblock   where memory lies, and what is held before a page allocator gets the rest
//!      ├── costs      what one unit of work takes on this machine
//!      │
//!   Machine ── clocks    one per CPU, in virtual time; interrupts on their way to it
//!           ── accounts  where each CPU's time went
//!           ── tlb       flushing every CPU's translations, by interrupts or by hardware
//!           ── memory    bandwidth of nodes and of the ways between them; which of them costs what: links
//!           ── blocks    clearing, using and translating memory by the size of its blocks
//!
//!   SpinLock      held by one CPU at a time; a hand-over costs the way between two CPUs
//!   CpuQueue      who acts next: always the CPU that is furthest behind
//!   CacheModel    which pages a last-level cache still holds
//!   Device        a disk, a RAM disk or zram: when what was submitted is done
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
pub use tlb::Flush;
pub use topology::{Cpu, Distance, Node, Topology, TurnShares};
pub use wrong_value::WrongValue;

use interrupt::Clock;

/// After how long a CPU has its turn again where they take turns. Measured: while four are busy on Linux 6.12.95, CPUs 2 and
/// 3 begin 937 and 913 runs of recorded hint faults a second.
const ROUND: Time = Time::from_nanoseconds(1_000_000);

/// A machine that is switched on: its shape, its prices, a clock for each CPU and the books.
#[derive(Clone, Debug)]
pub struct Machine<C: Category> {
    /// Who is where.
    pub topology: Topology,
    /// What work takes.
    pub costs: Costs,
    /// Where time went.
    pub accounts: Accounts<C>,
    clocks: Vec<Clock<C>>,
    busy: Vec<bool>,
    earliest: Option<Time>,
    /// By CPU, where they take turns: how many times as long work takes now.
    turns: Vec<f64>,
    places: Vec<Place>,
    traffic: memory::Traffic,
}

/// Where a CPU is, looked up instead of computed in hot paths.
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
    /// Switches on a machine with all clocks at zero and no CPU busy. What memory of which node costs is looked up now:
    /// changing it in `costs` later changes nothing.
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

    /// The virtual time that `cpu` has reached.
    #[inline]
    pub fn now(&self, cpu: Cpu) -> Time {
        self.clocks[cpu.index()].now
    }

    /// Says that whoever is furthest behind has come to `time`: nobody will act before.
    #[inline]
    pub fn set_earliest(&mut self, time: Time) {
        self.earliest = Some(time);
    }

    /// Before when nobody acts any more, if somebody says so.
    #[inline]
    pub fn earliest(&self) -> Option<Time> {
        self.earliest
    }

    /// Lets `cpu` work for `duration` on `category`, longer where CPUs take turns; interrupts that arrive meanwhile come on
    /// top.
    #[inline]
    pub fn charge(&mut self, cpu: Cpu, category: C, duration: Time) {
        let duration = self.in_turns(cpu, duration);
        self.clocks[cpu.index()].charge(self.accounts.of(cpu), category, duration);
    }

    /// How long `duration` takes on `cpu` where CPUs take turns.
    #[inline]
    pub(crate) fn in_turns(&self, cpu: Cpu, duration: Time) -> Time {
        if self.takes_turns() { duration.scale(self.turns[cpu.index()]) } else { duration }
    }

    /// Lets `cpu` spend the time until `until` on `category`, except for what interrupts take of it; earlier times
    /// change nothing. The last handler may take longer than `until`.
    #[inline]
    pub fn wait_until(&mut self, cpu: Cpu, category: C, until: Time) {
        self.clocks[cpu.index()].wait_until(self.accounts.of(cpu), category, until);
    }

    /// Sends `interrupt` to `target`, which handles it when its clock passes the arrival.
    #[inline]
    pub fn interrupt(&mut self, target: Cpu, interrupt: Interrupt<C>) {
        self.clocks[target.index()].deliver(self.accounts.of(target), interrupt);
    }

    /// Lets `cpu` do nothing until `until`, interrupts apart; earlier times change nothing.
    pub fn idle_until(&mut self, cpu: Cpu, until: Time) {
        self.wait_until(cpu, C::IDLE, until);
    }

    /// `cpu` has a task to run; an SMT sibling feels it.
    pub fn set_busy(&mut self, cpu: Cpu) {
        self.busy[cpu.index()] = true;
        self.forget_wakeup(cpu);
    }

    /// `cpu` has nothing to run.
    pub fn set_idle(&mut self, cpu: Cpu) {
        self.busy[cpu.index()] = false;
        self.forget_wakeup(cpu);
    }

    /// What `cpu` slept for is over, or comes to nothing, as it has become busy or idle.
    fn forget_wakeup(&mut self, cpu: Cpu) {
        self.clocks[cpu.index()].wakes = Time::NEVER;
        if self.takes_turns() {
            self.share_turns();
        }
    }

    /// How much longer work takes on each CPU, as others have their turns meanwhile.
    fn share_turns(&mut self) {
        let busy = self.busy.iter().filter(|&&busy| busy).count();
        self.turns.fill(busy.max(1) as f64);
        let are_these = |of: &[Cpu]| of.len() == busy && of.iter().all(|cpu| self.busy[cpu.index()]);
        let known = self.topology.turn_shares.iter().find(|known| are_these(&known.busy));
        for (cpu, share) in known.into_iter().flat_map(|known| known.busy.iter().zip(&known.shares)) {
            self.turns[cpu.index()] = 1.0 / share;
        }
    }

    /// Says that `cpu` has nothing to run until `until`.
    pub fn sleep_until(&mut self, cpu: Cpu, until: Time) {
        self.set_idle(cpu);
        self.clocks[cpu.index()].wakes = until;
    }

    /// When `cpu`, which has nothing to run, begins to work by itself; [`Time::NEVER`] if it does not.
    #[inline]
    pub fn wakes(&self, cpu: Cpu) -> Time {
        self.clocks[cpu.index()].wakes
    }

    /// Whether `cpu` has a task to run.
    #[inline]
    pub fn is_busy(&self, cpu: Cpu) -> bool {
        self.busy[cpu.index()]
    }

    /// Whether CPUs are emulated one after the other ([`Topology::turn_shares`]).
    #[inline]
    pub fn takes_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// How long others have their turns, if `cpu` lost its own between two times; nothing if it did not, or if CPUs run at the same
    /// time.
    pub fn turn_lost(&self, cpu: Cpu, from: Time, until: Time) -> Option<Time> {
        let longer = *self.turns.get(cpu.index())?;
        let round = |time: Time| time.picoseconds() / ROUND.picoseconds();
        (longer > 1.0 && round(from) < round(until)).then(|| ROUND - ROUND.scale(1.0 / longer))
    }

    /// How long `work` takes on `cpu` now: longer while an SMT sibling competes for the core.
    #[inline]
    pub fn stretched(&self, cpu: Cpu, work: Time) -> Time {
        match self.places[cpu.index()].sibling {
            Some(sibling) if self.busy[sibling.index()] => work.scale(self.costs.smt_slowdown),
            _ => work,
        }
    }

    /// Lets `cpu` do work that takes longer while an SMT sibling competes for the core.
    #[inline]
    pub fn work(&mut self, cpu: Cpu, category: C, work: Time) {
        self.charge(cpu, category, self.stretched(cpu, work));
    }

    /// The node whose memory is local to `cpu`.
    #[inline]
    pub fn node(&self, cpu: Cpu) -> Node {
        self.places[cpu.index()].node
    }

    /// What it takes to move one cache line from `from`'s caches to `to`.
    #[inline]
    pub fn line_transfer(&self, from: Cpu, to: Cpu) -> Time {
        let distance = self.places[from.index()].distance(&self.places[to.index()]);
        self.costs.line_transfer[distance as usize]
    }
}
