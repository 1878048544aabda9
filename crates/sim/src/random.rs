//! Random numbers of a run, in independent streams: drawing more from one stream does not change the others.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Name of a stream of random numbers; streams with different names are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stream {
    /// Variation of the length of critical sections.
    SectionSpread = 1,
    /// Choice of CPUs by the scheduler.
    Placement = 2,
    /// Choice of recorded processes.
    Demand = 3,
    /// Where memory was fragmented before.
    State = 4,
}

/// The generator of a stream. Variants of one seed have the same streams and so see the same demand.
pub(crate) fn stream(seed: u64, stream: Stream, index: u64) -> Pcg64Mcg {
    // The state must be odd, so its lowest bit carries no information.
    let state = u128::from(index << 8 | stream as u64) << 64 | u128::from(seed) << 1;
    // Adjacent seeds must not give adjacent states.
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
        let names = [Stream::SectionSpread, Stream::Placement, Stream::Demand, Stream::State];
        let mut first = BTreeSet::new();
        for (seed, index) in (0..16).flat_map(|seed| (0..4).map(move |index| (seed, index))) {
            for name in names {
                assert!(first.insert(stream(seed, name, index).next_u64()), "{seed}, {name:?}, {index}");
            }
        }
    }
}
