//! Who acts next: the runnable CPU that is furthest behind in virtual time; among equals, the lowest number.
//!
//! ```text
//!   cpu 0 ────────────●                 clocks; ● = where each CPU stands
//!   cpu 1 ─────●                        next() is cpu 1; it may run ahead on what only it owns,
//!   cpu 2 ──────────────────●           but touches shared state only while it is the furthest behind
//! ```
//!
//! So everything shared happens in the order of virtual time, and nothing depends on the host.

use crate::time::Time;
use crate::topology::Cpu;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The runnable CPUs, by virtual time.
#[derive(Clone, Debug, Default)]
pub struct CpuQueue {
    heap: BinaryHeap<Reverse<(Time, Cpu)>>,
}

impl CpuQueue {
    /// Makes `cpu` runnable from `time` on. It must not be in the queue already.
    pub fn push(&mut self, time: Time, cpu: Cpu) {
        self.heap.push(Reverse((time, cpu)));
    }

    /// Takes out the CPU that is furthest behind.
    pub fn pop(&mut self) -> Option<(Time, Cpu)> {
        self.heap.pop().map(|Reverse(next)| next)
    }

    /// The time of the CPU that is furthest behind, [`Time::NEVER`] when none is runnable.
    #[inline]
    pub fn earliest(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((time, _))| *time)
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
    }
}
