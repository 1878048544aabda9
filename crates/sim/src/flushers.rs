//! Flushers on the CPUs of a simulation: each on one that is idle when it is woken, or else where it was woken, taking turns with
//! the threads there.
//!
//! ```text
//!   running   ┌─ in line for a slot: the first gets the next one, and goes to the end of the line with it
//!             ▼
//!   flusher, flusher, flusher ──► slots of the device ──► request done ──► its folios are clean
//!                             (4, 8, 16 or all)                        or those of its extent, with the last of its requests
//! ```
//!
//! Flushers have few requests under way at a time, so that others need not wait for long behind them, but for a second after a
//! task that writes was held back (`block/blk-wbt.c`: `calc_wb_limits`, of a depth of 16 requests; `get_limit`). Where that is off,
//! in kernels without `CONFIG_BLK_WBT` or by `queue/wbt_lat_usec`, they have all that the queue holds, and who writes next waits
//! behind them. Who finds no slot waits in line (`block/blk-rq-qos.c`: `rq_qos_wait`).

use crate::System;
use machine::{Cpu, Time};
use mm::folio::FolioId;
use mm::writeback::{Flush, Flusher};

/// Requests of flushers that are under way at most, if nobody waits for memory.
const WB_BACKGROUND: usize = 4;
/// The same while reclaim waits for what is written.
const WB_NORMAL: usize = 8;
/// The same while tasks are held back that make pages dirty (`RWB_DEF_DEPTH`).
const DEPTH: usize = 16;

/// Folios whose writeback ends at the same time.
#[derive(Default)]
pub(super) struct Written {
    pub folios: Vec<FolioId>,
    pub at: Time,
}

/// A flusher at work.
struct Running {
    flusher: Flusher,
    cpu: Cpu,
    /// What it has submitted of an extent that it has not submitted all of.
    extent: Written,
}

/// Flushers that run, and what they have submitted.
#[derive(Default)]
pub(super) struct Flushers {
    /// Who waits for longest is the first.
    running: Vec<Running>,
    /// When requests that are under way complete, the next one first.
    under_way: Vec<Time>,
}

impl Flushers {
    /// Starts those that have something to do at `now`, as `cpu` sees it.
    pub fn wake(&mut self, system: &mut System, cpu: Cpu, now: Time) {
        while let Some(flusher) = system.mm.parts.page_cache.start_flusher(now) {
            let idle = system.machine.topology.all_cpus().find(|&cpu| !system.is_busy(cpu));
            let cpu = idle.unwrap_or(cpu);
            self.running.push(Running { flusher, cpu, extent: Written::default() });
            system.wake(cpu, now);
        }
    }

    /// Whether any runs.
    pub fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// When a flusher on `cpu` may go on; never if none is there.
    pub fn ready_at(&self, system: &System, cpu: Cpu) -> Time {
        let now = system.machine.now(cpu);
        let own = (0..self.running.len()).filter(|&place| self.running[place].cpu == cpu);
        own.map(|place| self.slot_at(system, place, now)).min().unwrap_or(Time::NEVER)
    }

    /// When there is a slot for the flusher at this place in line, as it looks at `now`.
    fn slot_at(&self, system: &System, place: usize, now: Time) -> Time {
        let settings = system.mm.settings();
        let most = match settings.wbt_lat_usec {
            0 => settings.nr_requests as usize,
            _ if system.mm.parts.page_cache.has_recent_wait(now) => DEPTH,
            _ if self.running[place].flusher.is_urgent() => WB_NORMAL,
            _ => WB_BACKGROUND,
        };
        // Those in front take a slot each.
        match (self.under_way.len() + place).checked_sub(most) {
            None => Time::ZERO,
            // Behind more of them than there are slots, it looks again when all have been free.
            Some(freed) => self.under_way.get(freed).or(self.under_way.last()).copied().unwrap_or_default(),
        }
    }

    /// Has the flusher on `cpu` choose a request, if one is there and may; requests have `most` pages at most.
    pub fn step(&mut self, system: &mut System, cpu: Cpu, most: u64) {
        let now = system.machine.now(cpu);
        let done = self.under_way.partition_point(|&completion| completion <= now);
        self.under_way.drain(..done);
        let is_ready =
            |&place: &usize| self.running[place].cpu == cpu && self.slot_at(system, place, now) <= now;
        let Some(place) = (0..self.running.len()).find(is_ready) else { return };
        let mut running = self.running.remove(place);
        if running.flusher.step(&mut system.mm.enter(&mut system.machine, cpu), most) == Flush::Done {
            // Everybody behind it moves up.
            self.running[place..].iter().for_each(|other| system.wake(other.cpu, now));
        } else {
            self.running.push(running);
        }
    }

    /// Notes when the request completes that was chosen last, of these folios; those whose writeback ends with it are returned.
    pub fn submitted(&mut self, folios: Vec<FolioId>, completion: Time) -> Written {
        let place = self.under_way.partition_point(|&other| other <= completion);
        self.under_way.insert(place, completion);
        let Some(Running { flusher, extent, .. }) = self.running.last_mut() else {
            return Written { folios, at: completion };
        };
        extent.folios.extend(folios);
        extent.at = extent.at.max(completion);
        if flusher.ends_writeback() { std::mem::take(extent) } else { Written::default() }
    }
}
