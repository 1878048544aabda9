//! How long things take: histograms of the sections under a zone's lock and of whole allocations, and the
//! spread that real machines add to them.
//!
//! A section takes longer or shorter than its parts add up to, because of what else goes on in the core and
//! the memory system. That is modelled as one lognormal factor with mean 1 for the whole section; its width is
//! a figure of the machine profile (0 = none).

use hdrhistogram::Histogram;
use machine::Time;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;

/// Latency records of a kernel.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Time under a zone's lock while blocks are taken, picoseconds.
    pub take: Histogram<u64>,
    /// Time under a zone's lock while blocks are put back, picoseconds.
    pub put: Histogram<u64>,
    /// Time of an allocation that had to go to a zone, waits included, picoseconds.
    pub slow_alloc: Histogram<u64>,
    noise: Pcg64Mcg,
}

/// Longest time that is told apart from longer ones: 100 s in picoseconds.
const LONGEST: u64 = 100_000_000_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds and digits are allowed")
}

impl Latencies {
    /// Empty records; `noise` is the stream that spreads come from.
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

    /// The real length of a section that takes blocks, recorded.
    pub fn take_section(&mut self, time: Time, spread: f64) -> Time {
        let time = self.spread(time, spread);
        self.take.saturating_record(time.picoseconds());
        time
    }

    /// The real length of a section that puts blocks back, recorded.
    pub fn put_section(&mut self, time: Time, spread: f64) -> Time {
        let time = self.spread(time, spread);
        self.put.saturating_record(time.picoseconds());
        time
    }
}
