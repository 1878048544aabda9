//! What the kernel keeps of processes in slabs ([`mm::slub`]): allocated where they are forked and where they execute a program, freed where
//! they end.
//!
//! ```text
//!   the parent's CPU       fork   task_struct, signals, files, pid
//!   the process's CPU      exec   mm_struct, VMAs, anon_vmas, open files
//!   where it ends          exit   mm_struct and what came with it, page tables, task_struct and what came with that
//! ```

use super::Host;
use crate::System;
use crate::host::threads::{Process, Thread};
use machine::Cpu;
use mm::slub::Since;

impl Host<'_> {
    /// Frees what the kernel has for a thread, and with the last thread of a process what it keeps of that. What belongs to the address space
    /// goes at once, page tables and the task itself go later, through RCU.
    pub(super) fn release_task(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        self.free_of_process(system, cpu, thread, Since::Exec);
        while self.free_pages(system, cpu, thread) {}
        self.free_of_process(system, cpu, thread, Since::Fork);
    }

    fn free_of_process(&mut self, system: &mut System, cpu: Cpu, thread: usize, since: Since) {
        let Process { alive, ref mut objects, .. } = self.processes[self.threads[thread].process];
        if alive == 0 {
            system.mm.enter(&mut system.machine, cpu).free_of_process(since, objects);
        }
    }

    /// Has the kernel allocate what it keeps of a thread's process since it was forked, or since it executed its program.
    pub(super) fn keep_of_process(&mut self, system: &mut System, cpu: Cpu, thread: usize, since: Since) {
        let Thread { program, process, .. } = self.threads[thread];
        let placement = self.programs[program].placement();
        let objects = &mut self.processes[process].objects;
        system.mm.enter(&mut system.machine, cpu).alloc_of_process(since, placement, objects);
    }
}
