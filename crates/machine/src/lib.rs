//! What hardware costs.
//!
//! A simulated machine is a set of CPUs, each with a clock of its own, that pay for what they do:
//! time passes only when something is charged to it, and every picosecond is charged to a category.
//!
//! ```text
//!   profile (TOML, every figure with its source)
//!      │
//!      ├── topology   sockets, nodes, cores, SMT threads, caches; how far apart two CPUs are
//!      ├── costs      what one unit of work takes on this machine
//!      │
//!   Machine ── clocks    one per CPU, in virtual time
//!           ── accounts  where each CPU's time went
//!
//!   SpinLock      first come, first served; a hand-over costs the way between two CPUs
//!   CpuQueue      who acts next: always the CPU that is furthest behind
//!   CacheModel    which pages a last-level cache still holds
//! ```
//!
//! This crate does not know that a memory manager exists. It has no I/O, no threads, no randomness of its
//! own and no clock but the virtual one, and it builds for `wasm32-unknown-unknown`.

pub mod account;
pub mod cache;
pub mod costs;
pub mod cpu_queue;
pub mod lock;
pub mod profile;
pub mod time;
pub mod topology;

pub use account::{Accounts, Category};
pub use cache::CacheModel;
pub use costs::Costs;
pub use cpu_queue::CpuQueue;
pub use lock::{LockStatistics, SpinLock};
pub use profile::{Profile, ProfileError};
pub use time::Time;
pub use topology::{Cpu, Distance, Node, Topology};

/// A machine that is switched on: its shape, its prices, a clock for each CPU and the books.
#[derive(Clone, Debug)]
pub struct Machine<C: Category> {
    /// Who is where.
    pub topology: Topology,
    /// What work takes.
    pub costs: Costs,
    /// Where time went.
    pub accounts: Accounts<C>,
    clocks: Vec<Time>,
    busy: Vec<bool>,
    places: Vec<Place>,
}

/// Where a CPU is, looked up instead of computed in hot paths.
#[derive(Clone, Copy, Debug)]
struct Place {
    core: u16,
    socket: u16,
    node: Node,
    sibling: Option<Cpu>,
}

impl<C: Category> Machine<C> {
    /// Switches on a machine with all clocks at zero and no CPU busy.
    pub fn new(topology: Topology, costs: Costs) -> Self {
        let cpus = topology.cpus();
        let place = |cpu| Place {
            core: topology.core(cpu),
            socket: topology.socket(cpu),
            node: topology.node(cpu),
            sibling: topology.sibling(cpu),
        };
        Machine {
            places: topology.all_cpus().map(place).collect(),
            accounts: Accounts::new(cpus),
            clocks: vec![Time::ZERO; cpus],
            busy: vec![false; cpus],
            topology,
            costs,
        }
    }

    /// The virtual time that `cpu` has reached.
    #[inline]
    pub fn now(&self, cpu: Cpu) -> Time {
        self.clocks[cpu.index()]
    }

    /// Lets `cpu` spend `duration` on `category`.
    #[inline]
    pub fn charge(&mut self, cpu: Cpu, category: C, duration: Time) {
        self.clocks[cpu.index()] += duration;
        self.accounts.add(cpu, category, duration);
    }

    /// Lets `cpu` do nothing until `until`; earlier times change nothing.
    pub fn idle_until(&mut self, cpu: Cpu, until: Time) {
        let now = self.now(cpu);
        if until > now {
            self.charge(cpu, C::IDLE, until - now);
        }
    }

    /// Says whether `cpu` has a task to run; an SMT sibling feels it.
    pub fn set_busy(&mut self, cpu: Cpu, busy: bool) {
        self.busy[cpu.index()] = busy;
    }

    /// Whether `cpu` has a task to run.
    #[inline]
    pub fn is_busy(&self, cpu: Cpu) -> bool {
        self.busy[cpu.index()]
    }

    /// How long `work` takes on `cpu` now: longer while an SMT sibling competes for the core.
    #[inline]
    pub fn stretched(&self, cpu: Cpu, work: Time) -> Time {
        match self.places[cpu.index()].sibling {
            Some(sibling) if self.busy[sibling.index()] => work.scale(self.costs.smt_slowdown),
            _ => work,
        }
    }

    /// The node whose memory is local to `cpu`.
    #[inline]
    pub fn node(&self, cpu: Cpu) -> Node {
        self.places[cpu.index()].node
    }

    /// What it takes to move one cache line from `from`'s caches to `to`.
    #[inline]
    pub fn line_transfer(&self, from: Cpu, to: Cpu) -> Time {
        let (a, b) = (self.places[from.index()], self.places[to.index()]);
        let distance = if from == to {
            Distance::SameCpu
        } else if a.core == b.core {
            Distance::SameCore
        } else if a.socket == b.socket {
            Distance::SameSocket
        } else {
            Distance::OtherSocket
        };
        self.costs.line_transfer[distance as usize]
    }
}
