//! Placeholder with the interface of the page cache in the twin: a FIFO, which no kernel has. It must not be merged.

use mm::{Counters, Features, Settings};
pub use workload::access::sequences::Operation;

/// The machine, the kernel and the memory cgroup in which accesses are replayed.
pub struct Setup<'a> {
    /// The kernel.
    pub features: &'a Features,
    /// Bytes of the machine.
    pub memory: u64,
    /// Its CPUs.
    pub cpus: usize,
    /// Its settings.
    pub settings: Settings,
    /// Pages that the memory cgroup may hold; none: global reclaim.
    pub memcg_max: Option<u64>,
    /// Pages of swap.
    pub swap_pages: u64,
    /// Accesses between two readings of memory.stat; 0: it is never read.
    pub stat_reads: u32,
}

/// What came of each access.
pub struct Outcome {
    /// Whether the page of each access was resident just before it.
    pub hits: Vec<bool>,
    /// File pages removed from the page cache, in order.
    pub evicted: Vec<u32>,
    /// The access that was served when each was evicted.
    pub evicted_at: Vec<u32>,
    /// pgscan..., workingset_... by their names in /proc/vmstat.
    pub counters: Counters,
}

/// Replays accesses.
pub fn replay(setup: &Setup, operations: &[Operation], progress: &mut dyn FnMut(u64)) -> Outcome {
    let most = setup.memcg_max.unwrap_or(setup.memory / 4096) as usize;
    let mut resident = std::collections::HashSet::new();
    let mut queue = std::collections::VecDeque::new();
    let mut outcome = Outcome {
        hits: Vec::with_capacity(operations.len()),
        evicted: Vec::new(),
        evicted_at: Vec::new(),
        counters: Counters::default(),
    };
    for (access, operation) in (0u32..).zip(operations) {
        let page = match *operation {
            Operation::AnonLoad(page) | Operation::AnonStore(page) => (true, page),
            Operation::Read(page) | Operation::MapLoad(page) | Operation::Write(page) => (false, page),
        };
        let hit = !resident.insert(page);
        outcome.hits.push(hit);
        if !hit {
            if queue.len() == most {
                let gone: (bool, u32) = queue.pop_front().unwrap_or_default();
                resident.remove(&gone);
                if !gone.0 {
                    outcome.evicted.push(gone.1);
                    outcome.evicted_at.push(access);
                }
            }
            queue.push_back(page);
        }
        progress(u64::from(access));
    }
    outcome
}
