//! Latency histograms: sections under a zone's lock, and whole allocations; and the random spread that makes
//! these sections as uneven as on real machines.
//!
//! The length of a section varies on a real machine with whatever else runs in the core and the memory
//! system. The model multiplies the whole section by one lognormal factor of mean 1. Its width (sigma of the
//! logarithm) is a figure of the machine profile; 0 means no spread.

use hdrhistogram::Histogram;
use machine::Time;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;

#[derive(Clone, Debug)]
pub struct Latencies {
    /// Hold times of zone->lock while blocks are taken, picoseconds.
    pub take: Histogram<u64>,
    /// Hold times of zone->lock while blocks are put back, picoseconds.
    pub put: Histogram<u64>,
    /// Latency of allocations that had to go to a zone, lock waits included, picoseconds.
    pub slow_alloc: Histogram<u64>,
    noise: Pcg64Mcg,
}

/// Upper bound of the histograms: 100 s in picoseconds. Longer times count as this one.
const LONGEST: u64 = 100_000_000_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds and digits are allowed")
}

impl Latencies {
    /// Empty histograms. `noise` is the random stream that spreads are drawn from.
    pub fn new(noise: Pcg64Mcg) -> Latencies {
        Latencies { take: histogram(), put: histogram(), slow_alloc: histogram(), noise }
    }

    fn spread(&mut self, time: Time, spread: f64) -> Time {
        if spread == 0.0 {
            return time;
        }
        match LogNormal::new(-spread * spread / 2.0, spread) {
            Ok(factor) => time.scale(factor.sample(&mut self.noise)),
            Err(_) => time,
        }
    }

    /// Spreads and records the length of a section that takes blocks; returns the spread length.
    pub fn take_section(&mut self, time: Time, spread: f64) -> Time {
        let time = self.spread(time, spread);
        self.take.saturating_record(time.picoseconds());
        time
    }

    /// Spreads and records the length of a section that puts blocks back; returns the spread length.
    pub fn put_section(&mut self, time: Time, spread: f64) -> Time {
        let time = self.spread(time, spread);
        self.put.saturating_record(time.picoseconds());
        time
    }
}
