//! TLBs of all CPUs, and the cost of flushing a kernel mapping from them.
//!
//! A CPU flushes only its own TLB. To flush all of them, the kernel runs a function on every CPU by IPIs and
//! waits for the last (`kernel/smp.c: smp_call_function_many_cond`, called through `on_each_cpu` by
//! `arch/x86/mm/tlb.c: flush_tlb_all` and `flush_tlb_kernel_range`; Linux 6.6):
//!
//! ```text
//!   initiator  queue, send │ queue, send │ queue, send │ own flush ├──────── waits ────────┤
//!                          └─ deliver ┐  └─ deliver ┐  └─ deliver, wake ┐                  ▲
//!   target 1   works ─────────────────┤ receive, flush ├ works, refills  │                  │ last
//!   target 2   works ───────────────────────────────┤ receive, flush ├───────── works       │ acknowledgement
//!   target 3   idle ────────────────────────────────────────────────────┤ receive, flush ├──┘ idle
//! ```
//!
//! The initiator pays for one target after the other, so the length of a broadcast grows with the number of
//! CPUs, while targets work at the same time. If the CPU can broadcast a flush itself (INVLPGB and TLBSYNC,
//! used by Linux 6.15 and later on AMD), no CPU is interrupted.
//!
//! Whether to flush everything or single pages is the kernel's decision (its limit is 33 pages), not made
//! here.

use crate::Machine;
use crate::account::Category;
use crate::interrupt::Interrupt;
use crate::time::Time;
use crate::timeline::Shootdown;
use crate::topology::Cpu;

/// What to flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The whole TLB, global entries included.
    All,
    /// Single pages, one INVLPG each.
    Range {
        /// Number of pages of 4 KiB.
        pages: u64,
    },
}

impl<C: Category> Machine<C> {
    /// Runs a function that takes `work` on every CPU and waits for the last one (`on_each_cpu` with `wait`).
    /// Busy targets lose `refill` in addition, afterwards. The initiator's time is charged to `initiating`,
    /// the targets' to `interrupted`.
    ///
    /// The initiator must be the CPU that is furthest behind.
    pub fn call_on_each_cpu(
        &mut self,
        initiator: Cpu,
        work: Time,
        refill: Time,
        initiating: C,
        interrupted: C,
    ) {
        self.call_on_cpus(initiator, |_| true, work, refill, initiating, interrupted);
    }

    /// Like [`Machine::call_on_each_cpu`], on the initiator and the CPUs selected by `targets`.
    fn call_on_cpus(
        &mut self,
        initiator: Cpu,
        targets: impl Fn(Cpu) -> bool,
        work: Time,
        refill: Time,
        initiating: C,
        interrupted: C,
    ) {
        let Machine { clocks, accounts, busy, places, costs, .. } = self;
        let (start, here) = (clocks[initiator.index()].now, places[initiator.index()]);
        let (mut now, mut last) = (start, start);
        let is_noted = accounts.timeline().is_some();
        let mut noted = Vec::new();
        for place in places.iter().filter(|place| place.cpu != initiator && targets(place.cpu)) {
            // The call queue's line comes to the initiator; call data and acknowledgement go to the target
            // and back.
            let line = costs.line_transfer[here.distance(place) as usize];
            now += line + costs.ipi_send + costs.ipi_trap;
            let own = &mut clocks[initiator.index()];
            if now >= own.next.arrival {
                own.charge(&mut accounts.of(initiator), initiating, now - own.now);
                now = own.now;
            }
            let (clock, mut account) = (&mut clocks[place.cpu.index()], accounts.of(place.cpu));
            let busy = busy[place.cpu.index()];
            if !busy {
                clock.settle(&mut account, start);
            }
            let arrival = clock.arrival(busy, now, costs);
            let handler = costs.ipi_receive + work + line * 2;
            last = last.max(clock.handled(arrival, handler) + line);
            if is_noted {
                noted.push((place.cpu, arrival));
            }
            let cost = if busy { handler + refill } else { handler };
            clock.deliver(&mut account, Interrupt { arrival, cost, category: interrupted });
        }
        self.charge(initiator, initiating, now - self.now(initiator) + work);
        self.wait_until(initiator, initiating, last);
        let until = self.now(initiator);
        if let Some(timeline) = self.accounts.timeline()
            && !noted.is_empty()
        {
            let category = initiating.index() as u32;
            timeline.shoot_down(Shootdown { initiator, category, from: start, until, targets: noted });
        }
    }

    /// What a flush takes on each CPU, and what a busy one loses afterwards.
    fn flush_cost(&self, flush: Flush) -> (Time, Time) {
        match flush {
            Flush::All => (self.costs.tlb_flush_all, self.costs.tlb_refill),
            Flush::Range { pages } => (self.costs.tlb_flush_page * pages, Time::ZERO),
        }
    }

    /// Flushes kernel translations of every CPU by interrupts (`flush_tlb_all`, `flush_tlb_kernel_range`).
    pub fn flush_kernel_tlb(&mut self, initiator: Cpu, flush: Flush, initiating: C, interrupted: C) {
        let (work, refill) = self.flush_cost(flush);
        self.call_on_each_cpu(initiator, work, refill, initiating, interrupted);
    }

    /// Flushes translations of an address space: the initiator's own, and by interrupts those of the CPUs that are `targets`,
    /// as they run its threads (`flush_tlb_mm_range`).
    pub fn flush_tlb_of(
        &mut self,
        initiator: Cpu,
        targets: impl Fn(Cpu) -> bool,
        flush: Flush,
        initiating: C,
        interrupted: C,
    ) {
        let (work, refill) = self.flush_cost(flush);
        self.call_on_cpus(initiator, targets, work, refill, initiating, interrupted);
    }

    /// Flushes them by hardware, without interrupts; does nothing and returns `false` if the machine cannot.
    pub fn flush_kernel_tlb_by_hardware(&mut self, initiator: Cpu, initiating: C) -> bool {
        let Some(broadcast) = self.costs.invlpgb else { return false };
        self.charge(initiator, initiating, broadcast);
        true
    }
}
