//! Virtual time: whole picoseconds in 64 bits, which lasts 213 days.
//!
//! Picoseconds, because unit costs such as 1.7 ns per page must add up over billions of pages without
//! rounding; whole numbers, because results must be identical on every host.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A point in virtual time, or a duration, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of every simulation.
    pub const ZERO: Time = Time(0);
    /// The shortest time.
    pub const PICOSECOND: Time = Time(1);
    /// Later than any event.
    pub const NEVER: Time = Time(u64::MAX);

    pub const fn from_nanoseconds(nanoseconds: u64) -> Time {
        Time(nanoseconds * 1000)
    }

    /// From nanoseconds, rounded to the nearest picosecond; negative values become zero.
    pub fn from_nanoseconds_f64(nanoseconds: f64) -> Time {
        Time((nanoseconds * 1000.0).round().max(0.0) as u64)
    }

    pub fn from_seconds(seconds: f64) -> Time {
        Time::from_nanoseconds_f64(seconds * 1e9)
    }

    pub const fn picoseconds(self) -> u64 {
        self.0
    }

    pub fn nanoseconds(self) -> f64 {
        self.0 as f64 / 1e3
    }

    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `self - other`, or zero if that would be negative.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// `self * factor`, rounded to the nearest picosecond.
    #[inline]
    pub fn scale(self, factor: f64) -> Time {
        // `f64::round` is a function call on most machines.
        let exact = self.0 as f64 * factor;
        let whole = exact as u64;
        Time(whole + u64::from(exact - whole as f64 >= 0.5))
    }

    /// `self * numerator / denominator`, rounded down.
    #[inline]
    pub const fn fraction(self, numerator: u64, denominator: u64) -> Time {
        match self.0.checked_mul(numerator) {
            Some(product) => Time(product / denominator),
            None => Time((self.0 as u128 * numerator as u128 / denominator as u128) as u64),
        }
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0 * times)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ps if ps < 1_000_000 => write!(f, "{:.1} ns", self.nanoseconds()),
            ps if ps < 1_000_000_000 => write!(f, "{:.2} µs", self.nanoseconds() / 1e3),
            ps if ps < 1_000_000_000_000 => write!(f, "{:.2} ms", self.nanoseconds() / 1e6),
            _ => write!(f, "{:.3} s", self.seconds()),
        }
    }
}
