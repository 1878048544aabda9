//! What threads do with the areas of their process: map and unmap them, free pages of them, and read how large they are together.

use super::Host;
use crate::System;
use crate::host::threads::{Doing, Role, Thread};
use crate::mapping::{map_again, map_apart, map_near, pages_of, unmap};
use machine::Cpu;
use mm::address_space::Vpn;
use std::ops::Range;
use workload::operation::{Operation, Place, Statm};

impl Host<'_> {
    /// Maps or unmaps areas of a thread's process, or frees pages of them.
    pub(super) fn change_areas(&mut self, system: &mut System, cpu: Cpu, thread: usize, doing: Doing) {
        match doing.operation {
            Operation::Release { area, first, pages } => {
                let part = self.part_of(thread, area, first..first.saturating_add(pages));
                self.release(system, cpu, thread, (doing, part));
            }
            Operation::Map { area } => {
                let area = self.area(thread, area);
                if !self.release(system, cpu, thread, (doing, area.clone())) {
                    map_again(system, cpu, self.mm_of(thread), area);
                }
            }
            Operation::Mmap { area, pages, place } => self.mmap(system, cpu, thread, (area, pages, place)),
            Operation::Munmap { area } => {
                let pages = self.area(thread, area);
                if !self.release(system, cpu, thread, (doing, pages.clone())) {
                    unmap(system, cpu, self.mm_of(thread), pages);
                    self.processes[self.threads[thread].process].areas.remove(area);
                }
            }
            _ => {}
        }
    }

    fn mmap(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (number, pages, place): (u32, u64, Place),
    ) {
        let mm = self.mm_of(thread);
        let pages = pages_of(self.page_size, pages);
        let area = match place {
            Place::Apart => map_apart(system, mm, pages),
            Place::Behind { gap, aligned } => {
                let alignment = if aligned { pages.next_power_of_two() } else { 1 };
                map_near(system, cpu, mm, (gap.into(), alignment, pages))
            }
        };
        self.processes[self.threads[thread].process].areas.add(number, area.clone());
        self.folio_windows.mapped(system, (cpu, &area), &self.programs, &self.processes);
    }

    /// Tells a program how large the process of its thread is.
    pub(super) fn read_statm(&mut self, system: &System, thread: usize) {
        let resident = system.mm.parts.address_spaces.mm(self.mm_of(thread)).rss();
        let Thread { program, process, ref role, .. } = self.threads[thread];
        let Role::Thread(number) = *role else { return };
        let parts = self.page_size.parts();
        let statm = Statm { size: self.processes[process].areas.pages() * parts, resident: resident * parts };
        self.programs[program].generator.read_statm(number, statm);
    }

    pub(super) fn area(&self, thread: usize, area: u32) -> Range<Vpn> {
        self.processes[self.threads[thread].process].areas.get(area)
    }

    /// Some pages of an area, counted from its start in pages of 4 KiB, as far as it has them.
    fn part_of(&self, thread: usize, area: u32, parts: Range<u64>) -> Range<Vpn> {
        let Range { start, end } = self.area(thread, area);
        let part = self.page_size.pages_of_parts(parts);
        start + part.start..end.min(start.saturating_add(part.end))
    }
}
