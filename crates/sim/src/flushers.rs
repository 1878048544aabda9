//! Flushers (writeback kworkers) on simulated CPUs. A flusher runs on a CPU that is idle when it is woken, or
//! else on the CPU that woke it, in turn with the threads there.
//!
//! ```text
//!   running   ┌─ queue for slots: the first flusher gets the next slot and goes to the end of the queue
//!             ▼
//!   flusher, flusher, flusher ──► slots of the device ──► request done ──► its folios are clean, or, with the
//!                             (4, 8, 16 or all)                        last request of an extent, those of the extent
//! ```
//!
//! Writeback throttling limits how many requests of flushers are in flight, so that other requests need not
//! wait long behind them. The limit is higher for a second after a writing task was throttled
//! (`block/blk-wbt.c`: `calc_wb_limits` for a depth of 16 requests; `get_limit`). If it is off, in kernels
//! without `CONFIG_BLK_WBT` or by `queue/wbt_lat_usec`, flushers may fill the whole queue, and later writers
//! wait behind them. A flusher without a slot waits in a queue (`block/blk-rq-qos.c`: `rq_qos_wait`).

use crate::System;
use machine::{Cpu, Time};
use mm::folio::FolioId;
use mm::writeback::{Flush, Flusher};

/// Limit of flusher requests in flight while nobody waits for memory.
const WB_BACKGROUND: usize = 4;
/// Limit while reclaim waits for writeback.
const WB_NORMAL: usize = 8;
/// Limit while tasks that dirty pages are throttled (`RWB_DEF_DEPTH`).
pub(super) const DEPTH: usize = 16;

/// Folios whose writeback ends at the same time.
#[derive(Default)]
pub(super) struct Written {
    pub folios: Vec<FolioId>,
    pub at: Time,
}

/// A running flusher.
struct Running {
    flusher: Flusher,
    cpu: Cpu,
    /// What it has submitted of an extent that is not yet submitted completely.
    extent: Written,
}

/// The running flushers and their requests in flight.
#[derive(Default)]
pub(super) struct Flushers {
    /// In the order of their queue for slots.
    running: Vec<Running>,
    /// Completion times of the requests in flight, earliest first.
    under_way: Vec<Time>,
}

impl Flushers {
    /// Starts the flushers that have work at `now`, the time of `cpu`.
    pub fn wake(&mut self, system: &mut System, cpu: Cpu, now: Time) {
        while let Some(flusher) = system.mm.parts.page_cache.start_flusher(now) {
            let idle = system.machine.topology.all_cpus().find(|&cpu| !system.is_busy(cpu));
            let cpu = idle.unwrap_or(cpu);
            self.running.push(Running { flusher, cpu, extent: Written::default() });
            system.wake(cpu, now);
        }
    }

    /// Whether a flusher is on `cpu`, running or waiting.
    pub fn are_on(&self, cpu: Cpu) -> bool {
        self.running.iter().any(|running| running.cpu == cpu)
    }

    pub fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// When a flusher on `cpu` can go on; `Time::NEVER` if there is none.
    pub fn ready_at(&self, system: &System, cpu: Cpu) -> Time {
        let now = system.machine.now(cpu);
        let own = (0..self.running.len()).filter(|&place| self.running[place].cpu == cpu);
        own.map(|place| self.slot_at(system, place, now)).min().unwrap_or(Time::NEVER)
    }

    /// When the flusher at this place in the queue gets a slot, as far as is known at `now`.
    fn slot_at(&self, system: &System, place: usize, now: Time) -> Time {
        let settings = system.mm.settings();
        let most = match settings.wbt_lat_usec {
            0 => settings.nr_requests as usize,
            _ if system.mm.parts.page_cache.has_recent_wait(now) => DEPTH,
            _ if self.running[place].flusher.is_urgent() => WB_NORMAL,
            _ => WB_BACKGROUND,
        };
        // Each flusher in front takes a slot.
        match (self.under_way.len() + place).checked_sub(most) {
            None => Time::ZERO,
            // With more flushers in front than slots, it checks again once all current requests are done.
            Some(freed) => self.under_way.get(freed).or(self.under_way.last()).copied().unwrap_or_default(),
        }
    }

    /// Lets a flusher on `cpu` that has a slot choose its next request, of at most `most` pages.
    pub fn step(&mut self, system: &mut System, cpu: Cpu, most: u64) {
        let now = system.machine.now(cpu);
        let done = self.under_way.partition_point(|&completion| completion <= now);
        self.under_way.drain(..done);
        let is_ready =
            |&place: &usize| self.running[place].cpu == cpu && self.slot_at(system, place, now) <= now;
        let Some(place) = (0..self.running.len()).find(is_ready) else { return };
        let mut running = self.running.remove(place);
        if running.flusher.step(&mut system.mm.enter(&mut system.machine, cpu), most) == Flush::Done {
            // All flushers behind it move up.
            self.running[place..].iter().for_each(|other| system.wake(other.cpu, now));
        } else {
            self.running.push(running);
        }
    }

    /// Notes that the request chosen last, with these folios, completes at `completion`. Returns the folios
    /// whose writeback ends with it.
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
