//! Writes of the operator to files of the kernel, step by step, so that others run in between.

use super::{Host, Progress};
use crate::System;
use crate::host::events::{CameTo, Moved};
use crate::host::threads::Writing;
use crate::host::{Target, Written};
use machine::Cpu;
use mm::memcontrol::{MemcgStep, MemcgWrite};

impl Host<'_> {
    /// Begins a write to a file of the kernel.
    pub(super) fn begin_write(&mut self, system: &mut System, cpu: Cpu, thread: usize, number: usize) {
        self.writes_begun = number + 1;
        let now = system.machine.now(cpu);
        let Written { file, value, to } = &self.writes[number];
        let on_cpu = self.reports.cpu_time(system, cpu, self.threads[thread].program);
        self.events.begin_write((now, on_cpu), file, value);
        let write = match *to {
            Target::Cgroup { cgroup, file, bytes } => {
                let mut kernel = system.mm.enter(&mut system.machine, cpu);
                Ok(Writing::Cgroup(kernel.begin_memcg_write(self.memcgs[cgroup], file, bytes)))
            }
            Target::Kernel => {
                self.pools.begin(system, now);
                system.mm.begin_write(file, value).map(Writing::Kernel)
            }
        };
        match write {
            Ok(write) => self.threads[thread].write = Some(write),
            Err(error) => self.refused = Some(error.into()),
        }
    }

    /// Goes on with a write: one page, one flush, one hold of a lock, one call of reclaim.
    pub(super) fn step_write(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> Progress {
        if !system.may_share(cpu) {
            return Progress::NotYet;
        }
        let before = Moved::by_now(system);
        let ended = match self.threads[thread].write.take() {
            Some(Writing::Kernel(mut write)) => {
                if !system.mm.enter(&mut system.machine, cpu).step_write(&mut write) {
                    self.threads[thread].write = Some(Writing::Kernel(write));
                    None
                } else {
                    system.look_for_peaks();
                    Some(self.pools.end(system, &write, system.machine.now(cpu)).unwrap_or_default())
                }
            }
            Some(Writing::Cgroup(write)) => self.step_memcg_write(system, cpu, thread, write),
            None => None,
        };
        self.events.step_write(before, Moved::by_now(system));
        if let Some(came_to) = ended {
            let on_cpu = self.reports.cpu_time(system, cpu, self.threads[thread].program);
            self.events.end_write((Some(system.machine.now(cpu)), on_cpu), came_to);
        }
        Progress::Goes
    }

    /// Goes on with a write to a file of a cgroup. Returns what it came to, if that was all.
    fn step_memcg_write(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        mut write: MemcgWrite,
    ) -> Option<CameTo> {
        let problem = match system.mm.enter(&mut system.machine, cpu).step_memcg_write(&mut write) {
            MemcgStep::Done => Some(None),
            MemcgStep::Short => Some(Some("nothing more to reclaim (EAGAIN)")),
            MemcgStep::Again => None,
            MemcgStep::Kill(kill) => {
                self.kill(system, cpu, &kill);
                None
            }
        };
        let Some(problem) = problem else {
            self.threads[thread].write = Some(Writing::Cgroup(write));
            return None;
        };
        let (asked, reached) = write.reclaimed().unzip();
        Some(CameTo { asked, reached, problem })
    }
}
