//! Groups of threads that share memory.
//!
//! ```text
//!   group 0   t0 t1 t2 t3  ──► its own area, random pages, `private_share` of all accesses
//!   group 1   t4 t5 t6 t7  ──► its own area
//!                │
//!                └───────────► the shared area, the rest of the accesses
//! ```
//!
//! SPECjbb is like this: the threads of a warehouse mostly use the objects of that warehouse, in one large
//! heap. A transaction accesses a number of random objects, each a cache line that is in no cache, and
//! computes. Whether the groups are one process or one process each decides which threads NUMA balancing
//! groups by their faults (`task_numa_group`).

use super::{Layout, Operation, Process, Threads};
use crate::demand::{MIB_PAGES, nanoseconds};
use crate::keys::{MIB, NANOSECONDS, PROCESSES, SHARE, THREADS, TIMES, Value};
use machine::WrongValue;
use machine::profile::Figure;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// Groups of threads, as in a scenario.
    pub struct Sharing {
        /// Number of groups.
        pub groups: u32 => PROCESSES,
        /// Threads of all groups together.
        pub threads: Threads => THREADS,
        /// Whether each group is a process of its own; otherwise all are one process.
        #[serde(default)]
        pub processes: bool,
        /// Memory of each group in MiB.
        pub mib: u64 => MIB,
        /// Memory that all groups of a process share, in MiB.
        #[serde(default)]
        pub shared_mib: u64 => MIB.or_none(),
        /// Share of accesses to the group's own memory, 0 to 1.
        pub private_share: Figure => SHARE,
        /// Share of accesses that store, 0 to 1.
        pub write_share: Figure => SHARE,
        /// Accesses per transaction.
        pub accesses: u32 => TIMES,
        /// CPU time of a transaction in nanoseconds.
        pub compute_ns: Figure => NANOSECONDS,
    }
}

impl Sharing {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.private_share.value < 1.0 && self.shared_mib == 0 {
            return Err(WrongValue::new("shared_mib", 0, "at least 1 if private_share is less than 1"));
        }
        Ok(())
    }

    pub(super) fn memory_mib(&self) -> u64 {
        let processes = if self.processes { self.groups } else { 1 };
        u64::from(self.groups) * self.mib + u64::from(processes) * self.shared_mib
    }

    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("private_share".into(), &mut self.private_share),
            ("write_share".into(), &mut self.write_share),
            ("compute_ns".into(), &mut self.compute_ns),
        ]
    }

    pub(super) fn start(&self, cpus: usize, random: impl Fn(u64) -> Pcg64Mcg) -> SharingThreads {
        let threads = self.threads.on(cpus).max(self.groups);
        let group_of = |thread: u32| (u64::from(thread) * u64::from(self.groups) / u64::from(threads)) as u32;
        let (own, shared) = (self.mib * MIB_PAGES, self.shared_mib * MIB_PAGES);
        // The shared area comes first.
        let areas = |groups: u32| {
            let own = std::iter::repeat_n(own, groups as usize);
            std::iter::once(shared.max(1)).chain(own).collect()
        };
        let process_of = |thread| if self.processes { group_of(thread) } else { 0 };
        let processes = match self.processes {
            true => vec![Process::new(areas(1)); self.groups as usize],
            false => vec![Process::new(areas(self.groups))],
        };
        let layout = Layout { processes, threads: (0..threads).map(process_of).collect() };
        let state = |thread: u32| SharingThread {
            area: if self.processes { 1 } else { 1 + group_of(thread) },
            left: self.accesses,
            computed: false,
            random: random(thread.into()),
        };
        SharingThreads {
            layout,
            pages: [shared, own],
            private_share: self.private_share.value,
            write_share: self.write_share.value,
            accesses: self.accesses,
            compute: nanoseconds(&self.compute_ns),
            threads: (0..threads).map(state).collect(),
        }
    }
}

#[derive(Clone, Debug)]
struct SharingThread {
    /// Index of its group's area.
    area: u32,
    /// Accesses left of the current transaction.
    left: u32,
    computed: bool,
    random: Pcg64Mcg,
}

/// Groups of threads, running.
#[derive(Clone, Debug)]
pub struct SharingThreads {
    layout: Layout,
    /// Pages of the shared area and of a group's area.
    pages: [u64; 2],
    private_share: f64,
    write_share: f64,
    accesses: u32,
    compute: u64,
    threads: Vec<SharingThread>,
}

impl SharingThreads {
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    pub(super) fn next(&mut self, thread: usize) -> Operation {
        let state = &mut self.threads[thread];
        if state.left == 0 {
            if !std::mem::replace(&mut state.computed, true) {
                return Operation::Compute { nanoseconds: self.compute };
            }
            state.left = self.accesses;
            state.computed = false;
            return Operation::TransactionEnd;
        }
        state.left -= 1;
        let own = state.random.random::<f64>() < self.private_share;
        let page = state.random.random_range(0..self.pages[usize::from(own)]);
        let write = state.random.random::<f64>() < self.write_share;
        Operation::Touch { area: if own { state.area } else { 0 }, page, write }
    }
}
