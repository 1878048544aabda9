//! Spinlocks in virtual time: a CPU waits for sections that are earlier in virtual time, not for those that
//! were merely simulated before.
//!
//! ```text
//!   cpu 3  ──── arrives ─────── spins ───────┐ hand-over ┌── holds ──┐
//!   cpu 7  ─ arrives ── spins ──┐ hand-over ┌── holds ───┘           │
//!   cpu 1  ────── holds ────────┘                                     until
//! ```
//!
//! CPUs begin their steps in the order of virtual time (see [`crate::cpu_queue`]), so mostly the order of
//! arrival *is* the queue. But a step may take the lock several times with other work in between, as reclaim
//! does for each batch, and all of its sections are simulated before any CPU that is further behind acts. So
//! a lock remembers all times at which it is held, not only the last one:
//!
//! ```text
//!   cpu 1, one step   ┌ holds ┐      works      ┌ holds ┐      works      ┌ holds ┐
//!   cpu 3, afterwards              arrives ┌ holds ┐
//! ```
//!
//! Sections do not move once simulated: a CPU that arrives before one and would not finish in time waits for
//! its end. Two sections overlap only if an interrupt lengthens one. Sections that ended before the time of
//! the CPU that is furthest behind ([`Machine::earliest`]) are forgotten.
//!
//! As in a queued spinlock (`kernel/locking/qspinlock.c`), a waiter spins on a cache line of its own: a
//! hand-over costs the transfer of that line and of the lock word. An uncontended lock costs the transfer of
//! the lock word from its last owner.

use crate::Machine;
use crate::account::Category;
use crate::time::Time;
use crate::timeline::{LockId, Section};
use crate::topology::Cpu;

/// Statistics of a lock, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStatistics {
    /// Number of acquisitions.
    pub acquisitions: u64,
    /// Number of acquisitions that found it held.
    pub contended: u64,
    /// Time spent spinning, hand-overs included.
    pub wait: Time,
    /// Time spent holding it.
    pub hold: Time,
    /// The part of `wait` that was spent on transferring cache lines from the last owner.
    pub handover: Time,
    /// The longest single wait.
    pub longest_wait: Time,
}

/// Adjacent sections without a gap between them.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: Time,
    until: Time,
    /// The owner of the last section.
    owner: Cpu,
}

/// An acquisition whose section has not been held yet.
#[derive(Clone, Copy, Debug)]
struct Granted {
    from: Time,
    wait: Time,
    contended: bool,
}

/// A spinlock in virtual time.
#[derive(Clone, Debug, Default)]
pub struct SpinLock {
    /// When the lock is held, as far as a CPU may still arrive then; in order, with gaps between.
    runs: Vec<Run>,
    /// The last owner before those.
    before: Option<Cpu>,
    granted: Option<Granted>,
    statistics: LockStatistics,
    /// Which of those with the same category of waiting, for a timeline.
    number: Option<u32>,
}

impl SpinLock {
    /// A lock that timelines show, by its number among those with the same category of waiting.
    pub fn numbered(number: u32) -> SpinLock {
        SpinLock { number: Some(number), ..SpinLock::default() }
    }

    /// Whether the lock is held at `now`, as a trylock finds it.
    #[inline]
    pub fn is_held(&self, now: Time) -> bool {
        self.held_at(now).is_some()
    }

    /// The CPU that a CPU arriving at `now` gets the lock from.
    #[inline]
    pub fn owner_before(&self, now: Time) -> Option<Cpu> {
        self.run_at(now).map(|run| run.owner).or(self.before)
    }

    /// Time to transfer a cache line to `cpu` from the lock's previous owner.
    #[inline]
    pub fn line_to<C: Category>(&self, machine: &Machine<C>, cpu: Cpu) -> Time {
        let owner = self.owner_before(machine.now(cpu));
        owner.map_or(Time::ZERO, |owner| machine.line_transfer(owner, cpu))
    }

    /// Number of runs that begin at or before `now`. CPUs rarely arrive before the last one, but a long step of one CPU, such as
    /// compaction of a zone, may leave thousands.
    #[inline]
    fn begun(&self, now: Time) -> usize {
        match self.runs.last() {
            Some(last) if now < last.from => self.runs.partition_point(|run| run.from <= now),
            _ => self.runs.len(),
        }
    }

    #[inline]
    fn run_at(&self, now: Time) -> Option<Run> {
        self.runs[..self.begun(now)].last().copied()
    }

    #[inline]
    fn held_at(&self, now: Time) -> Option<Run> {
        self.run_at(now).filter(|run| run.until > now)
    }

    /// Forgets runs that ended by `time`, before which no CPU arrives any more.
    fn forget(&mut self, time: Time) {
        let ended = self.runs.iter().take_while(|run| run.until <= time).count();
        if let Some(last) = self.runs.drain(..ended).next_back() {
            self.before = Some(last.owner);
        }
    }

    /// Waits for the lock, charging the time to `waiting`. Returns the wait so far; [`SpinLock::hold`] may
    /// add to it.
    pub fn acquire<C: Category>(&mut self, machine: &mut Machine<C>, cpu: Cpu, waiting: C) -> Time {
        let now = machine.now(cpu);
        self.forget(machine.earliest().map_or(now, |earliest| earliest.min(now)));
        let mut granted = Granted { from: now, wait: Time::ZERO, contended: false };
        match self.held_at(now) {
            Some(run) => self.wait_for(machine, cpu, run, waiting, &mut granted),
            None => {
                let line = self.line_to(machine, cpu);
                machine.charge(cpu, waiting, line);
                granted.wait = line;
                self.statistics.handover += line;
            }
        }
        self.granted = Some(granted);
        granted.wait
    }

    /// Spins until the end of a run and takes the lock over.
    fn wait_for<C: Category>(
        &mut self,
        machine: &mut Machine<C>,
        cpu: Cpu,
        run: Run,
        waiting: C,
        granted: &mut Granted,
    ) {
        let spun = run.until.saturating_sub(machine.now(cpu));
        let handover = machine.line_transfer(run.owner, cpu) * 2;
        machine.wait_until(cpu, waiting, run.until);
        machine.charge(cpu, waiting, handover);
        self.statistics.handover += handover;
        granted.wait += spun + handover;
        granted.from = run.until;
        granted.contended = true;
    }

    /// Holds the lock, just acquired, for `hold`, then releases it; charges the time to `holding`. If a later
    /// section leaves too little room, waits for its end first, charging that to `waiting`.
    pub fn hold<C: Category>(
        &mut self,
        machine: &mut Machine<C>,
        cpu: Cpu,
        hold: Time,
        [waiting, holding]: [C; 2],
    ) {
        let mut granted = self.granted.take().expect("hold follows acquire");
        let mut later = self.begun(granted.from);
        while let Some(&next) = self.runs.get(later)
            && next.from < machine.now(cpu) + machine.in_turns(cpu, hold)
        {
            self.wait_for(machine, cpu, next, waiting, &mut granted);
            // There is a gap before the next one, so it begins later than this one ends.
            later += 1;
        }
        let from = machine.now(cpu);
        machine.charge(cpu, holding, hold);
        let until = machine.now(cpu);
        self.insert(Run { from: granted.from, until, owner: cpu });
        if let (Some(number), Some(timeline)) = (self.number, machine.accounts.timeline()) {
            let arrived = from.saturating_sub(granted.wait);
            let id = LockId { waiting: waiting.index() as u32, number };
            timeline.hold(id, Section { cpu, arrived, from, until });
        }
        let s = &mut self.statistics;
        s.acquisitions += 1;
        s.contended += u64::from(granted.contended);
        s.wait += granted.wait;
        s.longest_wait = s.longest_wait.max(granted.wait);
        s.hold += hold;
    }

    /// Inserts a section, merging it with the runs that it touches.
    fn insert(&mut self, mut section: Run) {
        let first = self.runs.partition_point(|run| run.until < section.from);
        let behind = self.runs.partition_point(|run| run.from <= section.until);
        for run in &self.runs[first..behind] {
            section.from = section.from.min(run.from);
            if run.until > section.until {
                (section.until, section.owner) = (run.until, run.owner);
            }
        }
        self.runs.splice(first..behind, [section]);
    }

    pub fn statistics(&self) -> LockStatistics {
        self.statistics
    }
}
