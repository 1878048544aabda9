//! What threads do with pages: of files, of their memory, and of the kernel for them.

use super::{Host, Progress};
use crate::System;
use crate::block_io::Wait;
use crate::host::report::Call;
use crate::host::threads::{Doing, Role, Running, Slot, Thread};
use crate::mapping::SPAN;
use crate::memory_access::{Access, Span};
use machine::{Cpu, Time};
use mm::address_space::{MmId, Vpn};
use mm::allocator::request::OutOfMemory;
use mm::{Category, Event, Pfn, Placement, Request};
use std::ops::Range;
use workload::operation::{Extent, Operation};

/// Pages of a thread that are freed before others may take the locks: as many as leave the LRU lists each time their lock is taken.
const RELEASED: u64 = 32;
/// How long a thread waits before it looks again for a block that another has to allocate or free first.
const BLOCK_WAIT: Time = Time::from_nanoseconds(1000);
/// Most pages that the kernel allocates or frees for a thread before its CPU looks at something else.
const KERNEL_PAGES: usize = 64;

impl Host<'_> {
    /// Reads pages of a file; what is not cached has to be waited for.
    pub(super) fn read(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        doing: Doing,
    ) -> Result<Progress, OutOfMemory> {
        let Operation::Read { file, index, pages } = doing.operation else { return Ok(Progress::Goes) };
        self.threads[thread].doing = Some(doing);
        let Thread { program, ref role, process, .. } = self.threads[thread];
        let Role::Thread(number) = *role else { return Ok(Progress::Goes) };
        let open = self.programs[program].files[file as usize].descriptor(number);
        let reader = (self.processes[process].memcg, open);
        self.begin_call(system, cpu, thread);
        let filled = self.io.read(system, cpu, reader, index..index + u64::from(pages))?;
        self.threads[thread].doing = None;
        self.end_call(system, cpu, thread, (Call::Read, filled));
        Ok(self.threads[thread].reads.add(filled).map_or(Progress::Goes, Progress::Waits))
    }

    /// Overwrites the remaining pages of a file, until the thread has to wait. Memory may run out at any page.
    pub(super) fn write(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        Doing { operation, done }: Doing,
    ) -> Result<Progress, OutOfMemory> {
        let Operation::Write { file, index, pages } = operation else { return Ok(Progress::Goes) };
        if done == 0 {
            self.begin_call(system, cpu, thread);
            self.io.begin_write_call(system, cpu);
        }
        let Thread { program, process, .. } = self.threads[thread];
        let (memcg, file) = (self.processes[process].memcg, self.programs[program].files[file as usize].id);
        for page in done..pages {
            self.threads[thread].doing = Some(Doing { operation, done: page });
            let dirtier = &mut self.threads[thread].dirtier;
            let waits = self.io.write(system, cpu, (memcg, file, index + u64::from(page)), dirtier)?;
            let is_last = page + 1 == pages;
            self.threads[thread].doing = (!is_last).then_some(Doing { operation, done: page + 1 });
            if is_last {
                self.end_call(system, cpu, thread, (Call::Write, waits));
            }
            if let Some(wait) = waits {
                return Ok(Progress::Waits(wait));
            }
            self.end_delay(system, cpu, thread);
        }
        Ok(Progress::Goes)
    }

    /// Lets a thread access some pages of an area, counted from its start in pages of 4 KiB.
    pub(super) fn begin_access(
        &mut self,
        thread: usize,
        area: u32,
        parts: Range<u64>,
        (access, extent): (Access, Extent),
    ) {
        let parts = self.page_size.pages_of_parts(parts);
        let start = self.area(thread, area).start;
        let own = &mut self.threads[thread];
        own.span = Span { pages: start + parts.start..start + parts.end, access, extent };
        own.area = area as usize;
    }

    /// Goes on with the pages that a thread accesses.
    pub(super) fn access(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
    ) -> Result<Progress, OutOfMemory> {
        if !system.may_share(cpu) {
            return Ok(Progress::NotYet);
        }
        let mm = self.mm_of(thread);
        let own = &mut self.threads[thread];
        let span = &mut own.span;
        let access = span.access;
        if span.extent != Extent::Nothing {
            let from = span.pages.start;
            let faults = self.accesses.advance(system, cpu, mm, span);
            if own.touched.len() <= own.area {
                own.touched.resize(own.area + 1, 0);
            }
            own.touched[own.area] += span.pages.start - from;
            let Some(page) = faults else { return Ok(Progress::Goes) };
            let waits = self.touch_page(system, cpu, thread, (mm, page), access.is_write())?;
            return Ok(waits.map_or(Progress::Goes, Progress::Waits));
        }
        for page in span.pages.clone() {
            let waits = self.touch_page(system, cpu, thread, (mm, page), access.is_write())?;
            if waits.is_none() || !self.io.is_retried((mm, page)) {
                self.threads[thread].span.pages.start = page + 1;
            }
            if let Some(wait) = waits {
                return Ok(Progress::Waits(wait));
            }
            self.end_delay(system, cpu, thread);
        }
        Ok(Progress::Goes)
    }

    /// Accesses a page of a thread's process, if there is one. Returns the wait for it, if there is one.
    pub(super) fn touch(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        page: Option<Vpn>,
        access: Access,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let Some(page) = page else { return Ok(None) };
        let mm = self.mm_of(thread);
        if system.mm.parts.address_spaces.pte(mm, page).lets(access.is_write()) {
            return Ok(None);
        }
        self.touch_page(system, cpu, thread, (mm, page), access.is_write())
    }

    /// Touches a page. Returns the wait for it, if there is one.
    pub(super) fn touch_page(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        place: (MmId, Vpn),
        write: bool,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let (began, faults) = (system.machine.now(cpu), system.mm.counters().get(Event::Pgfault));
        let touched = self.io.touch(system, cpu, place, write);
        let own = &mut self.threads[thread];
        if touched.is_err() || system.mm.counters().get(Event::Pgfault) > faults {
            own.call_began.get_or_insert(began);
        }
        let waits = touched?;
        if own.call_began.is_some() && !(waits.is_some() && self.io.is_retried(place)) {
            self.end_call(system, cpu, thread, (Call::PageFault, waits));
        }
        Ok(waits)
    }

    /// Notes that a thread asks the kernel for something, unless it does so once more.
    fn begin_call(&mut self, system: &System, cpu: Cpu, thread: usize) {
        self.threads[thread].call_began.get_or_insert(system.machine.now(cpu));
    }

    /// Notes that what a thread has asked for is done, once it has waited for it.
    fn end_call(&mut self, system: &System, cpu: Cpu, thread: usize, (call, waits): (Call, Option<Wait>)) {
        let own = &mut self.threads[thread];
        if let Some(began) = own.call_began.take() {
            let end = waits.map_or(system.machine.now(cpu), |wait| wait.until);
            self.reports.call(own.program, call, end.saturating_sub(began));
        }
    }

    /// Frees some of the pages that a thread gives back, up to where others may take the locks in between, and notes what is left. Returns
    /// whether there is something.
    pub(super) fn release(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (doing, pages): (Doing, Range<Vpn>),
    ) -> bool {
        let mm = self.mm_of(thread);
        let from = pages.start + u64::from(doing.done);
        // A huge page is freed as a whole.
        let at_once = match system.mm.parts.address_spaces.is_pmd_mapped(mm, from) {
            true => SPAN,
            false => RELEASED,
        };
        let until = pages.end.min((from + 1).next_multiple_of(at_once));
        if from < until {
            self.io.release(system, cpu, mm, from..until);
        }
        let goes_on = until < pages.end;
        let done = until.saturating_sub(pages.start) as u32;
        self.threads[thread].doing = goes_on.then_some(Doing { done, ..doing });
        goes_on
    }

    /// Accesses the used pages of a thread's stack, and its process's data if threads use it, up to one that it has to wait for.
    pub(super) fn use_at_hand(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let Thread { program, process, ref role, stack, .. } = self.threads[thread];
        let (Role::Thread(number), Some(stack)) = (role, stack) else { return Ok(None) };
        let Running { layout: Some(layout), ref generator, .. } = self.programs[program] else {
            return Ok(None);
        };
        let uses_data = layout.uses_data() || generator.uses_data(*number);
        let data = self.processes[process].data.filter(|_| uses_data);
        let task = self.scheduler.task(thread);
        for page in layout.stack_used(stack).chain(data) {
            if let Some(wait) = self.touch(system, cpu, thread, Some(page), Access::Write)? {
                return Ok(Some(wait));
            }
            system.mm.parts.note_touched(task, page, 1);
        }
        self.migrate_who_wants(system);
        Ok(None)
    }

    /// Has the kernel allocate some of the blocks that a thread needs of it, and notes what is left.
    pub(super) fn alloc_pages(&mut self, system: &mut System, cpu: Cpu, thread: usize, doing: Doing) {
        let Operation::AllocPages { order, migrate_type, blocks } = doing.operation else { return };
        let request = Request::new(order, migrate_type, self.placement_of(thread));
        let own = &mut self.threads[thread];
        let held = &mut own.kernel_pages[order as usize];
        let before = held.len();
        let until = before + ((blocks - doing.done) as usize).min(KERNEL_PAGES);
        while held.len() < until {
            let wanted = until - held.len();
            if order == 0 && system.alloc_private(cpu, &request, wanted, held) > 0 {
                continue;
            }
            match system.alloc(cpu, &request) {
                Some(pfn) => held.push(pfn),
                None => break,
            }
        }
        let taken = held.len() - before;
        let done = doing.done + taken as u32;
        let goes_on = held.len() == until && done < blocks;
        own.doing = goes_on.then_some(Doing { done, ..doing });
        let time = system.machine.costs.page_alloc * taken as u64;
        system.machine.work(cpu, Category::Program, time);
    }

    /// Has the kernel allocate a block that a thread's program knows by number, once it has freed the one before.
    pub(super) fn alloc_block(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        doing: Doing,
    ) -> Progress {
        let Operation::AllocBlock { block, order, migrate_type } = doing.operation else {
            return Progress::Goes;
        };
        let request = Request::new(order, migrate_type, self.placement_of(thread));
        let slot = self.slot_of(thread, block);
        if matches!(slot, Slot::Block(..)) {
            return self.wait_for_block(system, cpu, thread, doing);
        }
        *slot = Slot::allocate(system, cpu, &request);
        system.machine.work(cpu, Category::Program, system.machine.costs.page_alloc);
        Progress::Goes
    }

    /// Has the kernel free the block of a number, once it is allocated.
    pub(super) fn free_block(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        doing: Doing,
    ) -> Progress {
        let Operation::FreeBlock { block } = doing.operation else { return Progress::Goes };
        match std::mem::take(self.slot_of(thread, block)) {
            Slot::Empty => self.wait_for_block(system, cpu, thread, doing),
            Slot::NoMemory => Progress::Goes,
            Slot::Block(pfn, order) => {
                system.free(cpu, pfn, order);
                system.machine.work(cpu, Category::Program, system.machine.costs.page_free);
                Progress::Goes
            }
        }
    }

    fn slot_of(&mut self, thread: usize, block: u32) -> &mut Slot {
        let blocks = &mut self.programs[self.threads[thread].program].blocks;
        let number = block as usize;
        if blocks.len() <= number {
            blocks.resize(number + 1, Slot::Empty);
        }
        &mut blocks[number]
    }

    /// Lets a thread look again a little later, when another may have done with a block what it should have done before.
    fn wait_for_block(&mut self, system: &System, cpu: Cpu, thread: usize, doing: Doing) -> Progress {
        self.threads[thread].doing = Some(doing);
        Progress::Waits(Wait { until: system.machine.now(cpu) + BLOCK_WAIT, cause: None })
    }

    /// Has the kernel free some of the blocks that it has allocated for a thread. Returns whether there are more.
    pub(super) fn free_pages(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> bool {
        let blocks = &mut self.threads[thread].kernel_pages;
        let Some(order) = blocks.iter().position(|held| !held.is_empty()) else { return false };
        let held = &mut blocks[order];
        let freed = held.len().min(KERNEL_PAGES);
        let mut freeing: Vec<Pfn> = held.split_off(held.len() - freed);
        while let Some(&pfn) = freeing.last() {
            match system.free_private(cpu, if order == 0 { &freeing } else { &[] }) {
                0 => {
                    system.free(cpu, pfn, order as u8);
                    freeing.pop();
                }
                done => drop(freeing.drain(..done)),
            }
        }
        let time = system.machine.costs.page_free * freed as u64;
        system.machine.work(cpu, Category::Program, time);
        self.threads[thread].kernel_pages.iter().any(|held| !held.is_empty())
    }

    /// Where the kernel allocates pages for a thread.
    fn placement_of(&self, thread: usize) -> Placement {
        self.programs[self.threads[thread].program].placement()
    }
}
