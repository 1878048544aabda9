//! Processes whose mappings were recorded: they change and touch their address spaces where the recording says, fork and wait.
//!
//! ```text
//!   parent   ── fork ──────── wait ·················· goes on
//!                 │                                  ▲ wake_parent
//!   child         └─ copy of the address space ── exit
//! ```

use super::{Doing, Host, Progress, Thread};
use crate::System;
use crate::block_io::Wait;
use machine::Cpu;
use mm::allocator::request::OutOfMemory;
use mm::slub::Since;
use mm::{Category, Event};
use workload::mappings::{self, Change};

impl Host<'_> {
    /// Does a row of a recording, up to a page that it has to wait for.
    pub(super) fn recorded(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        Doing { operation, done }: Doing,
        change: &Change,
    ) -> Result<Progress, OutOfMemory> {
        let write = match change.operation {
            mappings::Operation::Load => false,
            mappings::Operation::Store => true,
            _ => {
                self.change_mappings(system, cpu, thread, change);
                return Ok(Progress::Goes);
            }
        };
        for page in u64::from(done)..change.pages {
            let at = |page: u64| Doing { operation, done: page as u32 };
            self.threads[thread].doing = Some(at(page));
            let waits = self.touch_recorded(system, cpu, thread, change.page + page, write)?;
            self.threads[thread].doing = (page + 1 < change.pages).then(|| at(page + 1));
            if let Some(wait) = waits {
                return Ok(Progress::Waits(wait));
            }
        }
        Ok(Progress::Goes)
    }

    fn change_mappings(&mut self, system: &mut System, cpu: Cpu, thread: usize, change: &Change) {
        let mm = self.mm_of(thread);
        let mut kernel = system.mm.enter(&mut system.machine, cpu);
        let own = &mut self.processes[self.threads[thread].process];
        let unmapped = own.recorded.map(&mut kernel, mm, change);
        let cost = unmapped.cost(&system.machine.costs);
        system.machine.charge(cpu, Category::PageFree, cost);
    }

    /// Touches a recorded page for the first time. Returns the wait for it, if there is one.
    fn touch_recorded(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        recorded: u64,
        write: bool,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let mm = self.mm_of(thread);
        let mut kernel = system.mm.enter(&mut system.machine, cpu);
        let own = &mut self.processes[self.threads[thread].process];
        let Some(page) = own.recorded.page_to_touch(&mut kernel, mm, (recorded, write)) else {
            return Ok(None);
        };
        let faults = system.mm.counters().get(Event::Pgfault);
        let waits = self.touch_page(system, cpu, thread, (mm, page), write)?;
        if system.mm.counters().get(Event::Pgfault) == faults {
            // It came with the folio of an earlier fault.
            let folio = system.mm.parts.address_spaces.pte(mm, page).folio();
            let pages = folio.map_or(1, |folio| 1 << system.mm.parts.lrus.folio_order(folio));
            system.machine.charge(cpu, Category::CacheMiss, system.machine.costs.first_use(pages));
        }
        if write {
            self.processes[self.threads[thread].process].recorded.note_store(recorded);
        }
        Ok(waits)
    }

    /// Starts a process of the program with a copy of the thread's address space, for which the kernel keeps as much as for the parent's.
    pub(super) fn fork(&mut self, system: &mut System, cpu: Cpu, thread: usize, child: u32) {
        let Thread { program, process, .. } = self.threads[thread];
        let number = self.programs[program].first_process + child as usize;
        let now = system.machine.now(cpu);
        let mm = system.mm.enter(&mut system.machine, cpu).fork_mm(self.mm_of(thread));
        let task = self.add_task(system, program, mm, now);
        let [parent, own] =
            self.processes.get_disjoint_mut([process, number]).expect("no process is its own child");
        own.recorded.fork(&parent.recorded);
        let only = *own.threads.first().expect("each process has a thread");
        for since in [Since::Fork, Since::Exec] {
            self.keep_of_process(system, cpu, only, since);
        }
        self.begin_process(system, cpu, only, (mm, task));
    }

    /// Waits until a process of the program has exited.
    pub(super) fn wait_for(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        doing: Doing,
        child: u32,
    ) -> Progress {
        let number = self.programs[self.threads[thread].program].first_process + child as usize;
        if self.processes[number].mm.is_none() {
            return Progress::Goes;
        }
        // Who is woken looks again.
        self.threads[thread].doing = Some(doing);
        self.processes[number].awaited_by = Some((thread, cpu));
        self.sleep(system, cpu, thread)
    }

    /// Wakes who waits for a process, if that has exited.
    pub(super) fn wake_parent(&mut self, system: &mut System, cpu: Cpu, process: usize) {
        let own = &mut self.processes[process];
        if own.mm.is_some() {
            return;
        }
        let Some((thread, place)) = own.awaited_by.take() else { return };
        self.wake_at(system, cpu, thread, place);
    }

    /// No child wakes the threads of a process that is killed.
    pub(super) fn forget_parent(&mut self, process: usize) {
        for child in &mut self.processes {
            child.awaited_by.take_if(|(thread, _)| self.threads[*thread].process == process);
        }
    }
}
