//! Spinlocks, first come, first served.
//!
//! ```text
//!   cpu 3  ──── arrives ─────── spins ───────┐ hand-over ┌── holds ──┐
//!   cpu 7  ─ arrives ── spins ──┐ hand-over ┌── holds ───┘           │
//!   cpu 1  ────── holds ────────┘                                     free_at
//! ```
//!
//! CPUs reach a lock in the order of virtual time (see [`crate::cpu_queue`]), so the order of arrival *is* the
//! queue, and a lock needs to remember only when it becomes free and who had it last. As in a queued spinlock
//! (`kernel/locking/qspinlock.c`), a waiter spins on a line of its own: a hand-over costs the transfer of that
//! line and of the lock word. An uncontended lock costs the transfer of the lock word from its last owner.

use crate::Machine;
use crate::account::Category;
use crate::time::Time;
use crate::topology::Cpu;

/// What happened at a lock, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStatistics {
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often somebody else had it.
    pub contended: u64,
    /// Time spent spinning, hand-overs included.
    pub wait: Time,
    /// Time spent holding it.
    pub hold: Time,
    /// The part of `wait` in which lines travelled from the last owner.
    pub handover: Time,
    /// The longest single wait.
    pub longest_wait: Time,
}

/// A FIFO spinlock in virtual time.
#[derive(Clone, Debug, Default)]
pub struct SpinLock {
    free_at: Time,
    owner: Option<Cpu>,
    statistics: LockStatistics,
}

impl SpinLock {
    /// Whether somebody holds it at `now`: what a trylock finds.
    #[inline]
    pub fn is_held(&self, now: Time) -> bool {
        self.free_at > now
    }

    /// Who had it last.
    pub fn last_owner(&self) -> Option<Cpu> {
        self.owner
    }

    /// Waits for the lock; the time goes to `waiting`. Returns the wait.
    pub fn acquire<C: Category>(&mut self, machine: &mut Machine<C>, cpu: Cpu, waiting: C) -> Time {
        let now = machine.now(cpu);
        let line = self.owner.map_or(Time::ZERO, |owner| machine.line_transfer(owner, cpu));
        let contended = self.is_held(now);
        let handover = if contended { line * 2 } else { line };
        if contended {
            machine.wait_until(cpu, waiting, self.free_at);
        }
        machine.charge(cpu, waiting, handover);
        let wait = self.free_at.saturating_sub(now) + handover;
        let s = &mut self.statistics;
        s.acquisitions += 1;
        s.contended += u64::from(contended);
        s.wait += wait;
        s.handover += handover;
        s.longest_wait = s.longest_wait.max(wait);
        wait
    }

    /// Holds the lock, just acquired, for `hold`, then releases it; the time goes to `holding`.
    pub fn hold<C: Category>(&mut self, machine: &mut Machine<C>, cpu: Cpu, hold: Time, holding: C) {
        machine.charge(cpu, holding, hold);
        self.free_at = machine.now(cpu);
        self.owner = Some(cpu);
        self.statistics.hold += hold;
    }

    /// What happened here so far.
    pub fn statistics(&self) -> LockStatistics {
        self.statistics
    }
}
