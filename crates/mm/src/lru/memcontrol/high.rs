//! memory.high: a task whose memory cgroup is above it reclaims on its way back to its program, and sleeps if that does not help.
//!
//! ```text
//!   charge of a batch, above memory.high ─► the task's pages over high    more than a batch of them: reclaim at once
//!                                                    │ return to the program
//!                                                    ▼
//!                                   reclaim as many ─► still far above? again, then sleep
//! ```
//!
//! Nothing is killed: a group above memory.high goes on, slower. In the kernel: `mem_cgroup_handle_over_high` and `reclaim_high` in
//! mm/memcontrol.c. Left out: memory.swap.high. What khugepaged charges counts for the
//! task on its CPU; in the kernel it is noted for khugepaged, which never returns to a program.

use super::policy::{high_delay, overage};
use super::{Memcg, Memcgs};
use crate::delayacct::Cause;
use crate::jiffies::TICK_NS;
use crate::kernel::{Kernel, Parts};
use crate::lru::vmscan::policy::{MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use machine::{Cpu, Time};

impl Memcgs {
    /// How far a memcg, or one above it, is over memory.high (`mem_find_max_overage`).
    fn overage(&self, memcg: Memcg) -> u64 {
        let groups = self.and_above(memcg).filter(|&group| group != Memcg::ROOT).map(|group| self.get(group));
        groups.map(|group| overage(group.current, group.high)).max().unwrap_or(0)
    }

    /// Pages that the task on a CPU has been charged while its memcg was over memory.high.
    pub(crate) fn pages_over_high(&self, cpu: Cpu) -> u64 {
        self.over_high[cpu.index()].pages
    }
}

impl Parts {
    /// Whether the task on `cpu` has something to do or to sleep for because of memory.high.
    #[inline]
    pub fn is_over_high(&self, cpu: Cpu) -> bool {
        let owed = self.lrus.memcgs.over_high[cpu.index()];
        owed.pages > 0 || owed.sleep > 0
    }
}

impl Kernel<'_> {
    /// Returns to the program of a task in `memcg`. Returns how long the task sleeps before.
    pub fn return_over_high(&mut self, memcg: Memcg) -> Time {
        self.handle_over_high(memcg);
        let jiffies = std::mem::take(&mut self.parts.lrus.memcgs.over_high[self.on.cpu.index()].sleep);
        Time::from_nanoseconds(jiffies * TICK_NS)
    }

    /// Reclaims what the task has been charged over memory.high, and notes how long it has to sleep
    /// (`mem_cgroup_handle_over_high`).
    pub(crate) fn handle_over_high(&mut self, memcg: Memcg) {
        let cpu = self.on.cpu.index();
        let pages = std::mem::take(&mut self.parts.lrus.memcgs.over_high[cpu].pages);
        if pages == 0 {
            return;
        }
        let (mut wanted, mut retries) = (pages, MAX_RECLAIM_RETRIES);
        loop {
            let reclaimed = self.reclaim_high(memcg, wanted);
            let sleep = high_delay(pages, self.parts.lrus.memcgs.overage(memcg));
            if sleep == 0 {
                return;
            }
            if reclaimed == 0 {
                if retries == 0 {
                    self.parts.lrus.memcgs.over_high[cpu].sleep += sleep;
                    return;
                }
                retries -= 1;
            }
            wanted = SWAP_CLUSTER_MAX;
        }
    }

    /// Reclaims from a memcg and those above it that are over their memory.high (`reclaim_high`).
    fn reclaim_high(&mut self, memcg: Memcg, pages: u64) -> u64 {
        let groups: Vec<Memcg> = self.parts.lrus.memcgs.and_above(memcg).collect();
        let mut reclaimed = 0;
        for group in groups.into_iter().filter(|&group| group != Memcg::ROOT) {
            if self.parts.lrus.memcgs.get(group).is_over_high() {
                reclaimed += self.delays_task(Cause::MemoryHigh, |kernel| {
                    kernel.try_to_free_mem_cgroup_pages(group, pages)
                });
            }
        }
        reclaimed
    }
}

#[cfg(test)]
mod tests {
    use crate::address_space::{Backing, VmFlags};
    use crate::memcontrol::Memcg;
    use crate::memory_map::memory_layout;
    use crate::{Category, MemoryManager, Settings, Variant};
    use machine::{Costs, Cpu, Machine, Time, Topology};
    use rand_pcg::Pcg64Mcg;

    /// A task takes what it owes for memory.high along: the next one on its CPU does not pay for it.
    #[test]
    fn each_task_owes_for_itself() {
        let topology = Topology::single();
        let features = Variant::of_release("6.12").unwrap().features;
        let memory = memory_layout(1, 256);
        let mut mm = MemoryManager::new(&topology, &memory, features, Settings::default(), Pcg64Mcg::new(0));
        let mut machine: Machine<Category> = Machine::new(topology, Costs::FREE);
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).high = 0;
        let space = mm.parts.create_mm(memcg);
        let mut kernel = mm.enter(&mut machine, Cpu(0));
        let [above, other] = [1, 2].map(|pid| kernel.add_task(Time::ZERO, space, pid, None));
        let start = kernel.mmap(space, 1, Backing::Anonymous, VmFlags::PRIVATE);
        kernel.switch_task(Some(above));
        kernel.touch(space, start, true).unwrap();
        assert!(kernel.parts.is_over_high(Cpu(0)));
        kernel.switch_task(Some(other));
        assert!(!kernel.parts.is_over_high(Cpu(0)));
        kernel.switch_task(None);
        kernel.switch_task(Some(above));
        assert!(kernel.parts.is_over_high(Cpu(0)));
    }
}
