//! Inter-processor interrupts that are on their way, and the time that they take from whoever they hit.
//!
//! ```text
//!   charge 10          runs ───────────┐ handler ┌───── runs on        an interrupt is taken when the clock of its
//!                                      ▼█████████│                     CPU passes `arrival`; what was charged
//!   clock      0                    arrival         10 + cost          ends later by what the handler costs
//!
//!   wait until 10      idles ──────────┐ handler ┌ idles ┐             waiting goes on around it: only a handler
//!                                      ▼█████████│       │             that is not done by then makes it longer
//!   clock      0                    arrival              10
//! ```
//!
//! Each CPU has a slot for the next interrupt, beside its clock: whether one is due is a single comparison. Others
//! queue behind it in the order of arrival. The next interrupt always lies ahead of the clock, because whatever
//! moves a clock takes what it passed; so the end of a piece of work does not depend on how it is charged,
//! in one go or in many.
//!
//! A CPU that ran ahead on what only it owns has passed the arrival already: it pays at once.
//!
//! Nobody moves the clock of a CPU without work. As CPUs act in the order of virtual time, nothing can wake it any
//! more before the time of whoever sends it something new, and what arrived there until then is settled first
//! (`Clock::settle`), up to a timer of its own. So a parked CPU has at most a few interrupts waiting, however many it gets.

use crate::account::Category;
use crate::costs::Costs;
use crate::time::Time;

/// An interrupt that has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt<C> {
    /// When it reaches its target.
    pub arrival: Time,
    /// What it takes from the target.
    pub cost: Time,
    /// What the target's time goes to.
    pub category: C,
}

/// A CPU's clock and what is on its way to it: one cache line. `account` is always that CPU's part of the books.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Clock<C> {
    /// The virtual time that the CPU has reached.
    pub now: Time,
    /// The next interrupt, later than `now`; it arrives at [`Time::NEVER`] when there is none.
    pub next: Interrupt<C>,
    /// Those behind `next`, the last to arrive first.
    later: Vec<Interrupt<C>>,
    /// When the handler of the interrupt that was sent last is through.
    handled: Time,
    /// When a CPU without work begins to work by itself.
    pub wakes: Time,
}

impl<C: Category> Clock<C> {
    const NONE: Interrupt<C> = Interrupt { arrival: Time::NEVER, cost: Time::ZERO, category: C::IDLE };

    /// A clock at zero with nothing on its way.
    pub fn new() -> Self {
        Clock {
            now: Time::ZERO,
            next: Self::NONE,
            later: Vec::new(),
            handled: Time::ZERO,
            wakes: Time::NEVER,
        }
    }

    /// Spends `duration`, then handles what has arrived by then; handlers may carry the clock past more of it.
    #[inline]
    pub fn charge(&mut self, account: &mut [Time], category: C, duration: Time) {
        self.now += duration;
        account[category.index()] += duration;
        while self.now >= self.next.arrival {
            let taken = self.next;
            self.next = self.later.pop().unwrap_or(Self::NONE);
            self.now += taken.cost;
            account[taken.category.index()] += taken.cost;
        }
    }

    /// Spends the time until `until`, except for what interrupts take of it.
    #[inline]
    pub fn wait_until(&mut self, account: &mut [Time], category: C, until: Time) {
        while self.now < until {
            self.charge(account, category, until.min(self.next.arrival) - self.now);
        }
    }

    /// Lets a CPU without work idle to each interrupt that arrives by `time`, or until it wakes, and handle it. Nothing
    /// else may happen to it before `time` any more.
    #[inline]
    pub fn settle(&mut self, account: &mut [Time], time: Time) {
        let time = time.min(self.wakes);
        while self.next.arrival <= time {
            self.charge(account, C::IDLE, self.next.arrival - self.now);
        }
    }

    /// When something sent at `sent` gets here. An idle CPU must wake up first, unless something else is on its way
    /// and wakes it.
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

    /// When a handler that takes `cost` for what arrives at `arrival` is through: they run one after the other, in
    /// the order in which they were sent.
    #[inline]
    pub fn handled(&mut self, arrival: Time, cost: Time) -> Time {
        self.handled = self.handled.max(arrival) + cost;
        self.handled
    }

    /// Adds an interrupt, or handles it at once if the clock has passed its arrival.
    #[inline]
    pub fn deliver(&mut self, account: &mut [Time], interrupt: Interrupt<C>) {
        if interrupt.arrival <= self.now {
            self.charge(account, interrupt.category, interrupt.cost);
        } else if self.next.arrival == Time::NEVER {
            self.next = interrupt;
        } else {
            self.queue(interrupt);
        }
    }

    /// Puts it among the others. Equal arrivals in any order: the sum is the same.
    fn queue(&mut self, mut interrupt: Interrupt<C>) {
        if interrupt.arrival < self.next.arrival {
            std::mem::swap(&mut interrupt, &mut self.next);
        }
        let place = self.later.partition_point(|other| other.arrival > interrupt.arrival);
        self.later.insert(place, interrupt);
    }
}
