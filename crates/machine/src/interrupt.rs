//! Pending inter-processor interrupts, and the time they take from the CPU that they interrupt.
//!
//! ```text
//!   charge 10          runs ───────────┐ handler ┌───── runs on        an interrupt is taken when the clock of its
//!                                      ▼█████████│                     CPU passes `arrival`; what was charged
//!   clock      0                    arrival         10 + cost          ends later by the handler's cost
//!
//!   wait until 10      idles ──────────┐ handler ┌ idles ┐             waiting goes on around it: only a handler
//!                                      ▼█████████│       │             that is not done by then makes it longer
//!   clock      0                    arrival              10
//! ```
//!
//! Each CPU has a slot for its next interrupt beside its clock, so that testing whether one is due is a
//! single comparison. Others queue behind it in order of arrival. The next interrupt is always later than the
//! clock, because whatever advances a clock handles the interrupts it passes. So the end of a piece of work
//! does not depend on whether it is charged in one go or in parts.
//!
//! A CPU that ran ahead on private state may have passed the arrival already: it handles the interrupt at
//! once.
//!
//! The clock of an idle CPU does not advance by itself. As CPUs act in the order of virtual time, no CPU can
//! wake it any more before the time of one that sends it an interrupt, so what arrived until then is settled
//! first (`Clock::settle`), up to a timer of its own. So an idle CPU has at most a few interrupts pending,
//! however many it receives.

use crate::account::{Account, Category};
use crate::costs::Costs;
use crate::time::Time;

/// An inter-processor interrupt that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt<C> {
    /// When it reaches its target.
    pub arrival: Time,
    /// Time that it takes from the target.
    pub cost: Time,
    /// The category that the target's time is charged to.
    pub category: C,
}

/// A CPU's clock and its pending interrupts, in one cache line. `account` is always that CPU's.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Clock<C> {
    /// The CPU's virtual time.
    pub now: Time,
    /// The next interrupt, later than `now`; it arrives at [`Time::NEVER`] if there is none.
    pub next: Interrupt<C>,
    /// Further interrupts, the last to arrive first.
    later: Vec<Interrupt<C>>,
    /// When the handler of the interrupt sent last ends.
    handled: Time,
    /// When an idle CPU starts to work by itself.
    pub wakes: Time,
}

impl<C: Category> Clock<C> {
    const NONE: Interrupt<C> = Interrupt { arrival: Time::NEVER, cost: Time::ZERO, category: C::IDLE };

    /// A clock at zero without pending interrupts.
    pub fn new() -> Self {
        Clock {
            now: Time::ZERO,
            next: Self::NONE,
            later: Vec::new(),
            handled: Time::ZERO,
            wakes: Time::NEVER,
        }
    }

    /// Charges `duration`, then handles what has arrived by then. Handlers may advance the clock past further
    /// arrivals, which are handled too.
    #[inline]
    pub fn charge(&mut self, account: &mut Account, category: C, duration: Time) {
        account.add(category, self.now, duration);
        self.now += duration;
        while self.now >= self.next.arrival {
            let taken = self.next;
            self.next = self.later.pop().unwrap_or(Self::NONE);
            account.add(taken.category, self.now, taken.cost);
            self.now += taken.cost;
        }
    }

    /// Charges the time up to `until`, except for what interrupts take of it.
    #[inline]
    pub fn wait_until(&mut self, account: &mut Account, category: C, until: Time) {
        while self.now < until {
            self.charge(account, category, until.min(self.next.arrival) - self.now);
        }
    }

    /// Lets an idle CPU idle up to each interrupt that arrives by `time`, or until it wakes, and handles it.
    /// Nothing else may happen to the CPU before `time` any more.
    #[inline]
    pub fn settle(&mut self, account: &mut Account, time: Time) {
        let time = time.min(self.wakes);
        while self.next.arrival <= time {
            self.charge(account, C::IDLE, self.next.arrival - self.now);
        }
    }

    /// When an interrupt sent at `sent` arrives here. An idle CPU must wake up first, unless another pending
    /// interrupt wakes it.
    #[inline]
    pub fn arrival(&self, busy: bool, sent: Time, costs: &Costs) -> Time {
        let delivered = sent + costs.ipi_deliver;
        if busy || self.now > sent || self.wakes <= sent {
            delivered
        } else if self.next.arrival == Time::NEVER {
            delivered + costs.ipi_wake
        } else {
            delivered.max(self.next.arrival)
        }
    }

    /// When a handler that takes `cost` ends, for an interrupt that arrives at `arrival`. Handlers run one
    /// after the other, in the order in which the interrupts were sent.
    #[inline]
    pub fn handled(&mut self, arrival: Time, cost: Time) -> Time {
        self.handled = self.handled.max(arrival) + cost;
        self.handled
    }

    /// Adds an interrupt, or handles it at once if the clock has passed its arrival.
    #[inline]
    pub fn deliver(&mut self, account: &mut Account, interrupt: Interrupt<C>) {
        if interrupt.arrival <= self.now {
            self.charge(account, interrupt.category, interrupt.cost);
        } else if self.next.arrival == Time::NEVER {
            self.next = interrupt;
        } else {
            self.queue(interrupt);
        }
    }

    /// Inserts an interrupt. The order of equal arrivals does not matter, as their sum is the same.
    fn queue(&mut self, mut interrupt: Interrupt<C>) {
        if interrupt.arrival < self.next.arrival {
            std::mem::swap(&mut interrupt, &mut self.next);
        }
        let place = self.later.partition_point(|other| other.arrival > interrupt.arrival);
        self.later.insert(place, interrupt);
    }
}
