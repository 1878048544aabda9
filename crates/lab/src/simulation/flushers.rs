//! Flushers on the CPUs of a simulation: each on one that is idle when it is woken, or else where it was woken, taking turns with
//! the threads there.
//!
//! Flushers have few requests under way at a time, so that others need not wait for long behind them
//! (`block/blk-wbt.c`: `calc_wb_limits`, of a depth of 16 requests). Where that is off, in kernels without `CONFIG_BLK_WBT` or by
//! `queue/wbt_lat_usec`, they have all that the queue holds, and who writes next waits behind them.

use super::system::System;
use machine::{Cpu, Time};
use mm::writeback::{Flush, Flusher};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests of flushers that are under way at most, if nobody waits for memory.
const WB_BACKGROUND: usize = 4;
/// The same while reclaim waits for what is written.
const WB_NORMAL: usize = 8;

/// Flushers that run, and what they have submitted.
#[derive(Default)]
pub(super) struct Flushers {
    running: Vec<(Flusher, Cpu)>,
    /// When requests that are under way complete.
    under_way: BinaryHeap<Reverse<Time>>,
}

impl Flushers {
    /// Starts those that have something to do at `now`, as `cpu` sees it.
    pub fn wake(&mut self, system: &mut System, cpu: Cpu, now: Time) {
        while let Some(flusher) = system.mm.start_flusher(now) {
            let idle = system.machine.topology.all_cpus().find(|&cpu| !system.is_busy(cpu));
            let at = idle.unwrap_or(cpu);
            self.running.push((flusher, at));
            system.wake(at, now);
        }
    }

    /// Whether any runs.
    pub fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Notes when a request completes that was submitted after [`Flushers::step`].
    pub fn submitted(&mut self, completion: Time) {
        self.under_way.push(Reverse(completion));
    }

    /// When a flusher on `cpu` may go on; never if none is there.
    pub fn ready_at(&self, system: &System, cpu: Cpu) -> Time {
        let own = self.running.iter().filter(|(_, at)| *at == cpu);
        own.map(|(flusher, _)| self.slot_at(system, flusher)).min().unwrap_or(Time::NEVER)
    }

    /// When it may submit a request.
    fn slot_at(&self, system: &System, flusher: &Flusher) -> Time {
        let settings = system.mm.settings();
        let most = match settings.wbt_lat_usec {
            0 => settings.nr_requests as usize,
            _ if flusher.is_urgent() => WB_NORMAL,
            _ => WB_BACKGROUND,
        };
        match self.under_way.peek() {
            Some(&Reverse(earliest)) if self.under_way.len() >= most => earliest,
            _ => Time::ZERO,
        }
    }

    /// Has the flusher on `cpu` submit a request, if one is there and may; requests have `most` pages at most.
    pub fn step(&mut self, system: &mut System, cpu: Cpu, most: u64) {
        let now = system.machine.now(cpu);
        while self.under_way.peek().is_some_and(|&Reverse(completion)| completion <= now) {
            self.under_way.pop();
        }
        let ready = |(flusher, at): &(Flusher, Cpu)| *at == cpu && self.slot_at(system, flusher) <= now;
        let Some(index) = self.running.iter().position(ready) else { return };
        if self.running[index].0.step(&mut system.mm, now, most) == Flush::Done {
            self.running.remove(index);
        }
    }
}
