//! Spinlocks in virtual time: a CPU waits for those that asked for the lock before it, not for those that were merely
//! simulated before.
//!
//! ```text
//!   cpu 3  ──── asks ────────── spins ───────┐ hand-over ┌── holds ──┐
//!   cpu 7  ─ asks ──── spins ───┐ hand-over ┌── holds ───┘           │
//!   cpu 1  ────── holds ────────┘                                     until
//! ```
//!
//! CPUs begin their steps in the order of virtual time (see [`crate::cpu_queue`]), so mostly the order of
//! calls *is* the queue. But a step may take the lock several times, as reclaim does for each batch and a drain for each
//! pageset, and all of its sections are simulated before any CPU that is further behind acts. So a lock remembers all
//! times at which it is held, not only the last one, and who comes later has the turn that a queue would give it:
//!
//! ```text
//!   cpu 1, one step          ┌ holds ┐┌ holds ┐  works  ┌ holds ┐
//!   cpu 3, afterwards          asks
//!
//!   cpu 3                        spins┌ holds ┐
//!   cpu 1, moved             ┌ holds ┐  spins  ┌ holds ┐works   ┌ holds ┐
//! ```
//!
//! Sections of CPUs that asked later move back as far as they have to, and the clocks of those CPUs by as much. What such a CPU
//! did afterwards stays where it was simulated, so its later sections come too early by what it is late; nothing of the time
//! that it holds or waits for the lock is lost. A timeline shows sections where they were at first. Sections that ended
//! before the time of the CPU that is furthest behind ([`Machine::earliest`]) are forgotten.
//!
//! As in a queued spinlock (`kernel/locking/qspinlock.c`), who asks first has the lock first, and a waiter spins on a
//! cache line of its own: a hand-over costs the transfer of that line and of the lock word. An uncontended lock costs the
//! transfer of the lock word from its last owner.

use crate::Machine;
use crate::account::Category;
use crate::interrupt::Interrupt;
use crate::time::Time;
use crate::timeline::{LockId, Section};
use crate::topology::Cpu;
use std::collections::VecDeque;

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

/// How many sections that move at once are kept apart. Of those behind them, what follows each other is kept as one.
const ALONE: usize = 32;

/// A section under the lock: over, under way, or still to come for CPUs that are further behind. Or several of one CPU that
/// follow each other at once, as when compaction isolates free pageblocks by the thousand.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// When its owner began to wait.
    asked: Time,
    /// When the lock was free for it: the later of `asked` and the end of the section before.
    from: Time,
    until: Time,
    owner: Cpu,
    /// How many sections it is.
    sections: u64,
}

impl Held {
    /// Leaves the sections that who asks at `asked` has to wait for, and takes off the others. Sections that follow each other are
    /// taken to be of the same length.
    fn split_off(&mut self, asked: Time) -> Option<Held> {
        if self.sections == 1 {
            return None;
        }
        let each = (self.until - self.from).fraction(1, self.sections);
        let begun = asked.saturating_sub(self.from).picoseconds().checked_div(each.picoseconds())? + 1;
        if begun >= self.sections {
            return None;
        }
        let from = self.from + each * begun;
        let rest = Held { asked: from, from, sections: self.sections - begun, ..*self };
        (self.until, self.sections) = (from, begun);
        Some(rest)
    }
}

/// An acquisition whose section has not been held yet.
#[derive(Clone, Copy, Debug)]
struct Granted {
    /// How many of the sections come before it.
    place: usize,
    asked: Time,
    from: Time,
    wait: Time,
    contended: bool,
}

/// A CPU whose sections were moved back.
struct Late {
    owner: Cpu,
    by: Time,
    /// When the last of the sections that were moved ends.
    until: Time,
}

/// A spinlock in virtual time.
#[derive(Clone, Debug, Default)]
pub struct SpinLock {
    /// When the lock is held, as far as a CPU may still arrive then; in the order in which it was asked for, none overlapping another.
    sections: VecDeque<Held>,
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
        self.begun_by(now).is_some_and(|section| section.until > now)
    }

    /// The CPU that a CPU arriving at `now` gets the lock from.
    #[inline]
    pub fn owner_before(&self, now: Time) -> Option<Cpu> {
        self.begun_by(now).map(|section| section.owner).or(self.before)
    }

    /// Time to transfer a cache line to `cpu` from the lock's previous owner.
    #[inline]
    pub fn line_to<C: Category>(&self, machine: &Machine<C>, cpu: Cpu) -> Time {
        let owner = self.owner_before(machine.now(cpu));
        owner.map_or(Time::ZERO, |owner| machine.line_transfer(owner, cpu))
    }

    /// The last section that begins at or before `now`. CPUs rarely arrive before the last one, but a long step of one CPU,
    /// such as compaction of a zone, may leave thousands.
    #[inline]
    fn begun_by(&self, now: Time) -> Option<Held> {
        match self.sections.back() {
            Some(last) if now < last.from => {
                let begun = self.sections.partition_point(|section| section.from <= now);
                begun.checked_sub(1).map(|last| self.sections[last])
            }
            last => last.copied(),
        }
    }

    /// Forgets sections that ended by `time`, before which no CPU arrives any more.
    fn forget(&mut self, time: Time) {
        while self.sections.front().is_some_and(|section| section.until <= time) {
            self.before = self.sections.pop_front().map(|ended| ended.owner);
        }
    }

    /// Waits for the lock, charging the time to `waiting`. Returns the wait.
    pub fn acquire<C: Category>(&mut self, machine: &mut Machine<C>, cpu: Cpu, waiting: C) -> Time {
        let asked = machine.now(cpu);
        self.forget(machine.earliest().map_or(asked, |earliest| earliest.min(asked)));
        let place = match self.sections.back() {
            Some(last) if asked < last.asked => {
                self.sections.partition_point(|section| section.asked <= asked)
            }
            _ => self.sections.len(),
        };
        if let Some(before) = place.checked_sub(1)
            && let Some(rest) = self.sections[before].split_off(asked)
        {
            self.sections.insert(place, rest);
        }
        let before = place.checked_sub(1).map(|before| self.sections[before]);
        let mut granted = Granted { place, asked, from: asked, wait: Time::ZERO, contended: false };
        let line = match before.filter(|before| before.until > asked) {
            Some(before) => {
                granted.from = before.until;
                granted.wait = before.until - asked;
                granted.contended = true;
                machine.wait_until(cpu, waiting, before.until);
                machine.line_transfer(before.owner, cpu) * 2
            }
            None => {
                let owner = before.map(|before| before.owner).or(self.before);
                owner.map_or(Time::ZERO, |owner| machine.line_transfer(owner, cpu))
            }
        };
        machine.charge(cpu, waiting, line);
        granted.wait += line;
        self.statistics.handover += line;
        self.granted = Some(granted);
        granted.wait
    }

    /// Holds the lock, just acquired, for `hold`, then releases it; charges the time to `holding`. Who asked later, but was
    /// simulated before, waits longer: that is charged to `waiting`.
    pub fn hold<C: Category>(
        &mut self,
        machine: &mut Machine<C>,
        cpu: Cpu,
        hold: Time,
        [waiting, holding]: [C; 2],
    ) {
        let Granted { place, asked, from, wait, contended } =
            self.granted.take().expect("hold follows acquire");
        let held_from = machine.now(cpu);
        machine.charge(cpu, holding, hold);
        let until = machine.now(cpu);
        self.sections.insert(place, Held { asked, from, until, owner: cpu, sections: 1 });
        if let (Some(number), Some(timeline)) = (self.number, machine.accounts.timeline()) {
            let arrived = held_from.saturating_sub(wait);
            let id = LockId { waiting: waiting.index() as u32, number };
            timeline.hold(id, Section { cpu, arrived, from: held_from, until });
        }
        let s = &mut self.statistics;
        s.acquisitions += 1;
        s.contended += u64::from(contended);
        s.wait += wait;
        s.longest_wait = s.longest_wait.max(wait);
        s.hold += hold;
        for Late { owner, by, .. } in self.move_back(place) {
            self.statistics.wait += by;
            machine.interrupt(owner, Interrupt { arrival: from, cost: by, category: waiting });
        }
    }

    /// Moves sections behind the one at `place` back as far as needed. Returns who is late.
    fn move_back(&mut self, place: usize) -> Vec<Late> {
        let mut moved: Vec<Late> = Vec::new();
        let Held { mut asked, until: mut free, .. } = self.sections[place];
        // What is behind `last` and before `next` has become part of `last`.
        let (mut last, mut next) = (place, place + 1);
        while let Some(&(mut section)) = self.sections.get(next) {
            let shift = free.saturating_sub(section.from);
            if shift == Time::ZERO && asked <= section.asked {
                break;
            }
            let waited = section.from > section.asked;
            section.from += shift;
            section.until += shift;
            free = section.until;
            match moved.iter_mut().find(|late| late.owner == section.owner) {
                // It asks again when it is done with what was moved before.
                Some(late) => asked = asked.max(std::mem::replace(&mut late.until, free)),
                // Gaps take up part of the shift from one section to the next, so an owner's first is moved most.
                None => moved.push(Late { owner: section.owner, by: shift, until: free }),
            }
            asked = asked.max(section.asked);
            section.asked = asked;
            let s = &mut self.statistics;
            s.contended += u64::from(!waited && section.from > asked);
            s.longest_wait = s.longest_wait.max(section.from - asked);
            next += 1;
            let before = &mut self.sections[last];
            if last > place + ALONE && before.owner == section.owner && before.until == section.from {
                (before.until, before.sections) = (section.until, before.sections + section.sections);
            } else {
                last += 1;
                self.sections[last] = section;
            }
        }
        if last + 1 < next {
            self.sections.drain(last + 1..next);
        }
        moved
    }

    pub fn statistics(&self) -> LockStatistics {
        self.statistics
    }
}
