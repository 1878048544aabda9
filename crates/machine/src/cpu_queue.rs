//! Scheduling order of the simulated CPUs: the runnable CPU that is furthest behind in virtual time acts
//! next; among equals, the one with the lowest number.
//!
//! ```text
//!   cpu 0 ────────────●                 clocks; ● = where each CPU stands
//!   cpu 1 ─────●                        next() is cpu 1; it may run ahead on private state,
//!   cpu 2 ──────────────────●           but touches shared state only while it is the furthest behind
//! ```
//!
//! So shared state changes in the order of virtual time, and nothing depends on the host.
//!
//! The queue is a tournament tree: CPUs meet in pairs, whichever is further behind goes on to the next round,
//! and the winner of the last round acts next. Moving a CPU replays its own rounds, eight with 256 CPUs:
//!
//! ```text
//!                  1: cpu 1
//!           2: cpu 1      3: cpu 2          node n is between 2n and 2n + 1
//!        cpu 0   cpu 1  cpu 2   -
//! ```
//!
//! An acting CPU stays in the tree until it is pushed again, which mostly happens at once: then its rounds
//! are played once instead of twice. The earliest time of the others is the best of those it beat.

use crate::time::Time;
use crate::topology::Cpu;

/// The runnable CPUs, by virtual time.
#[derive(Clone, Debug)]
pub struct CpuQueue {
    /// Winners of all rounds, from index 1 on. The second half are the CPUs themselves, at [`Time::NEVER`] if
    /// not runnable.
    rounds: Vec<(Time, Cpu)>,
    /// The CPU taken out last, which is still in `rounds` as the earliest.
    acting: Option<Cpu>,
    /// The earliest time of all CPUs but the acting one.
    earliest: Time,
}

impl Default for CpuQueue {
    fn default() -> CpuQueue {
        CpuQueue { rounds: Vec::new(), acting: None, earliest: Time::NEVER }
    }
}

impl CpuQueue {
    /// Makes `cpu` runnable at `time`, replacing its previous time if it had one.
    #[inline]
    pub fn push(&mut self, time: Time, cpu: Cpu) {
        if cpu.index() >= self.rounds.len() / 2 {
            self.grow(cpu.index() + 1);
        }
        self.set(time, cpu);
        if self.acting == Some(cpu) {
            self.acting = None;
        }
        self.earliest = match self.acting {
            Some(acting) => self.earliest_but(acting),
            None => self.rounds[1].0,
        };
    }

    /// Takes out the CPU that is furthest behind.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Cpu)> {
        if let Some(cpu) = self.acting.take() {
            self.set(Time::NEVER, cpu);
        }
        let (time, cpu) = *self.rounds.get(1)?;
        self.earliest = self.earliest_but(cpu);
        if time == Time::NEVER {
            return None;
        }
        self.acting = Some(cpu);
        Some((time, cpu))
    }

    /// The time of the CPU that is furthest behind; [`Time::NEVER`] if none is runnable.
    #[inline]
    pub fn earliest(&self) -> Time {
        self.earliest
    }

    /// Replays the rounds of `cpu`.
    #[inline]
    fn set(&mut self, time: Time, cpu: Cpu) {
        let mut place = self.rounds.len() / 2 + cpu.index();
        self.rounds[place] = (time, cpu);
        while place > 1 {
            place /= 2;
            let (left, right) = (self.rounds[2 * place], self.rounds[2 * place + 1]);
            self.rounds[place] = if right.0 < left.0 { right } else { left };
        }
    }

    /// The earliest time of the CPUs that the overall winner beat.
    #[inline]
    fn earliest_but(&self, winner: Cpu) -> Time {
        let mut place = self.rounds.len() / 2 + winner.index();
        let mut earliest = Time::NEVER;
        while place > 1 {
            earliest = earliest.min(self.rounds[place ^ 1].0);
            place /= 2;
        }
        earliest
    }

    fn grow(&mut self, cpus: usize) {
        // At least two leaves, so that the root is not a CPU.
        let half = cpus.next_power_of_two().max(2);
        let before = std::mem::take(&mut self.rounds);
        self.rounds = (0..2 * half).map(|place| (Time::NEVER, Cpu((place % half) as u16))).collect();
        for &(time, cpu) in before.iter().skip(before.len() / 2) {
            self.set(time, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pops_in_order_of_time_then_number(times in proptest::collection::vec(0u64..50, 1..60)) {
            let mut queue = CpuQueue::default();
            for (cpu, &time) in times.iter().enumerate() {
                queue.push(Time::from_nanoseconds(time), Cpu(cpu as u16));
            }
            let mut expected: Vec<_> = times.iter().enumerate().map(|(cpu, &t)| (t, cpu as u16)).collect();
            expected.sort();
            for (time, cpu) in expected {
                prop_assert_eq!(queue.earliest(), Time::from_nanoseconds(time));
                prop_assert_eq!(queue.pop(), Some((Time::from_nanoseconds(time), Cpu(cpu))));
            }
            prop_assert_eq!(queue.earliest(), Time::NEVER);
        }

        #[test]
        fn a_cpu_that_is_moved_is_at_its_new_time_only(
            moves in proptest::collection::vec((0u64..50, 0u16..40, any::<bool>()), 1..200)
        ) {
            let (mut queue, mut expected) = (CpuQueue::default(), std::collections::BTreeMap::new());
            for (time, cpu, pops) in moves {
                let time = Time::from_nanoseconds(time);
                queue.push(time, Cpu(cpu));
                expected.insert(cpu, time);
                let next = expected.iter().map(|(&cpu, &time)| (time, cpu)).min().unwrap();
                prop_assert_eq!(queue.earliest(), next.0);
                if pops {
                    prop_assert_eq!(queue.pop(), Some((next.0, Cpu(next.1))));
                    expected.remove(&next.1);
                }
            }
        }
    }
}
