//! Spinlocks in virtual time: whoever comes waits for those who have it then, not for those who come later.
//!
//! ```text
//!   cpu 3  ──── arrives ─────── spins ───────┐ hand-over ┌── holds ──┐
//!   cpu 7  ─ arrives ── spins ──┐ hand-over ┌── holds ───┘           │
//!   cpu 1  ────── holds ────────┘                                     until
//! ```
//!
//! CPUs begin their steps in the order of virtual time (see [`crate::cpu_queue`]), so mostly the order of arrival *is*
//! the queue. But a step may take the lock several times with other work in between, as reclaim does for each batch, and
//! all of its sections are there before anybody who is further behind acts. So a lock remembers when it is held, not
//! only when it is held for the last time:
//!
//! ```text
//!   cpu 1, one step   ┌ holds ┐      works      ┌ holds ┐      works      ┌ holds ┐
//!   cpu 3, afterwards              arrives ┌ holds ┐
//! ```
//!
//! A section that is there stands: who arrives before it and would not be done by then waits for its end. Two overlap
//! only if an interrupt makes one longer than it was to be. What ended before the time of the CPU that is furthest
//! behind ([`Machine::earliest`]) is forgotten.
//!
//! As in a queued spinlock (`kernel/locking/qspinlock.c`), a waiter spins on a line of its own: a hand-over costs the
//! transfer of that line and of the lock word. An uncontended lock costs the transfer of the lock word from its last
//! owner.

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

/// Sections without a gap between them.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: Time,
    until: Time,
    /// Of the last section.
    owner: Cpu,
}

/// What who has acquired the lock has got so far.
#[derive(Clone, Copy, Debug)]
struct Granted {
    from: Time,
    wait: Time,
    contended: bool,
}

/// A spinlock in virtual time.
#[derive(Clone, Debug, Default)]
pub struct SpinLock {
    /// When it is held, as far as anybody may still come; in order, with gaps in between.
    runs: Vec<Run>,
    /// Who had it last before that.
    before: Option<Cpu>,
    granted: Option<Granted>,
    statistics: LockStatistics,
}

impl SpinLock {
    /// Whether somebody holds it at `now`: what a trylock finds.
    #[inline]
    pub fn is_held(&self, now: Time) -> bool {
        self.held_at(now).is_some()
    }

    /// Whom a CPU that comes at `now` gets it from.
    #[inline]
    pub fn owner_before(&self, now: Time) -> Option<Cpu> {
        self.run_at(now).map(|run| run.owner).or(self.before)
    }

    /// How long a cache line takes to `cpu` from whoever had the lock before it.
    #[inline]
    pub fn line_to<C: Category>(&self, machine: &Machine<C>, cpu: Cpu) -> Time {
        let owner = self.owner_before(machine.now(cpu));
        owner.map_or(Time::ZERO, |owner| machine.line_transfer(owner, cpu))
    }

    /// How many runs begin at `now` or before. Hardly anybody comes before the last one.
    #[inline]
    fn begun(&self, now: Time) -> usize {
        self.runs.iter().rposition(|run| run.from <= now).map_or(0, |last| last + 1)
    }

    #[inline]
    fn run_at(&self, now: Time) -> Option<Run> {
        self.runs[..self.begun(now)].last().copied()
    }

    #[inline]
    fn held_at(&self, now: Time) -> Option<Run> {
        self.run_at(now).filter(|run| run.until > now)
    }

    /// Forgets what ended by `time`: nobody comes before.
    fn forget(&mut self, time: Time) {
        let ended = self.runs.iter().take_while(|run| run.until <= time).count();
        if let Some(last) = self.runs.drain(..ended).next_back() {
            self.before = Some(last.owner);
        }
    }

    /// Waits for the lock; the time goes to `waiting`. Returns the wait so far, to which [`SpinLock::hold`] may add.
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

    /// Spins until the end of a run and is handed the lock.
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

    /// Holds the lock, just acquired, for `hold`, then releases it; the time goes to `holding`. Where a section that is there
    /// already leaves too little room, it waits for that first, which goes to `waiting`.
    pub fn hold<C: Category>(
        &mut self,
        machine: &mut Machine<C>,
        cpu: Cpu,
        hold: Time,
        [waiting, holding]: [C; 2],
    ) {
        let mut granted = self.granted.take().expect("who holds a lock has acquired it");
        while let Some(&next) = self.runs.get(self.begun(granted.from))
            && next.from < machine.now(cpu) + machine.in_turns(cpu, hold)
        {
            self.wait_for(machine, cpu, next, waiting, &mut granted);
        }
        machine.charge(cpu, holding, hold);
        self.insert(Run { from: granted.from, until: machine.now(cpu), owner: cpu });
        let s = &mut self.statistics;
        s.acquisitions += 1;
        s.contended += u64::from(granted.contended);
        s.wait += granted.wait;
        s.longest_wait = s.longest_wait.max(granted.wait);
        s.hold += hold;
    }

    /// Remembers a section; it and those that it touches are one run.
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

    /// What happened here so far.
    pub fn statistics(&self) -> LockStatistics {
        self.statistics
    }
}
