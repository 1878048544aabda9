//! Random numbers of a run, in streams: what draws more of one stream changes no other.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Names a stream of random numbers of a run; streams of different names are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stream {
    /// How long locked sections take beyond the sum of their parts.
    SectionSpread = 1,
    /// Where the scheduler puts processes.
    Placement = 2,
    /// Which recorded processes run.
    Demand = 3,
    /// When a service's requests arrive, and how much work they are.
    Arrivals = 4,
}

/// The generator of a run's stream; variants of one seed share the streams and so see the same demand.
pub(crate) fn stream(seed: u64, stream: Stream, index: u64) -> Pcg64Mcg {
    // A state is odd: the lowest bit says nothing.
    let state = u128::from(index << 8 | stream as u64) << 64 | u128::from(seed) << 1;
    // Neighbouring seeds must not give neighbouring states.
    let mut mixed = Pcg64Mcg::new(state);
    Pcg64Mcg::from_rng(&mut mixed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn each_seed_stream_and_index_has_numbers_of_its_own() {
        let names = [Stream::SectionSpread, Stream::Placement, Stream::Demand, Stream::Arrivals];
        let mut first = BTreeSet::new();
        for (seed, index) in (0..16).flat_map(|seed| (0..4).map(move |index| (seed, index))) {
            for name in names {
                assert!(first.insert(stream(seed, name, index).next_u64()), "{seed}, {name:?}, {index}");
            }
        }
    }
}
