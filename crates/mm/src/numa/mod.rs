//! NUMA balancing: finding out which node's memory a thread uses, and bringing the two together.
//!
//! ```text
//!   tick ─► scan pass        some of the address space becomes PROT_NONE        scan
//!              │
//!   access ─► hint fault     who touches this page, from where?                 migrate
//!              │    └─► the page follows, if the filter lets it
//!              └─► statistics ─► the node that suits the thread,                placement
//!                                how soon to scan again
//! ```
//!
//! Nobody tells the kernel which thread uses which memory. So it takes away access to a bit of memory now and then, and
//! looks who comes to get it back: a hint fault costs a microsecond and names a thread, a CPU and a page. From these it
//! learns two things: where a page should be ([`migrate`]) and where a thread should run ([`placement`]). Scanning costs
//! too, and most of what the patches in [`features`] argue about is which of it is worth that ([`scan`]).
//!
//! In the kernel: kernel/sched/fair.c, mm/memory.c (`do_numa_page`), mm/mprotect.c (`change_prot_numa`), mm/mempolicy.c;
//! versions 6.1 to 7.2.

pub mod cpupid;
pub mod features;
pub mod migrate;
pub mod placement;
pub mod scan;

use machine::Node;
use placement::{Group, TaskId, TaskNuma};

/// Ticks of a second (`CONFIG_HZ`), as Debian and most others configure it.
pub const HZ: u64 = 250;
/// A tick.
pub const TICK_NS: u64 = 1_000_000_000 / HZ;

/// Jiffies of a time, rounded up (`msecs_to_jiffies`).
pub const fn jiffies(ms: u64) -> u64 {
    ms.div_ceil(1000 / HZ)
}

/// All threads that NUMA balancing knows, and their groups.
#[derive(Clone, Debug)]
pub struct Tasks {
    tasks: Vec<TaskNuma>,
    groups: Vec<Group>,
    distances: Vec<Vec<u8>>,
}

impl Tasks {
    /// None yet, on a machine with this table of distances.
    pub fn new(distances: Vec<Vec<u8>>) -> Tasks {
        Tasks { tasks: Vec::new(), groups: Vec::new(), distances }
    }

    fn nodes(&self) -> usize {
        self.distances.len()
    }

    /// A task is born.
    pub fn add(&mut self, task: TaskNuma) -> TaskId {
        self.tasks.push(task);
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// What is known of a task.
    pub fn get(&self, task: TaskId) -> &TaskNuma {
        &self.tasks[task.0 as usize]
    }

    /// What is known of a task.
    pub fn get_mut(&mut self, task: TaskId) -> &mut TaskNuma {
        &mut self.tasks[task.0 as usize]
    }

    /// The scheduler prefers another node for a task than its placement said, as it found no room there, or room elsewhere.
    pub fn set_preferred(&mut self, task: TaskId, node: Node) {
        self.get_mut(task).preferred = Some(node);
    }
}
