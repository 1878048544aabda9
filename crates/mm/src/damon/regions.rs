//! The regions of memory that DAMON watches, one behind the other.
//!
//! ```text
//!   pages    0            40      64                 128
//!            │ cold        │ hot   │ cold             │
//!   sample        ▲           ▲             ▲            one page of each, at random
//!   merge    those whose counts differ little become one
//!   split    each into two or three, at random: the next aggregation shows whether they differ
//! ```
//!
//! In the kernel: `damon_merge_regions_of`, `damon_split_regions_of` in mm/damon/core.c.

use super::policy::{are_alike, first_part, next_threshold, parts_of_each};
use crate::Pfn;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use std::ops::Range;

/// Pages that are taken to be accessed alike (`struct damon_region`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub place: Range<Pfn>,
    /// The page that is looked at in this sample.
    pub sampled: Pfn,
    /// In how many samples of this aggregation an access was seen.
    pub nr_accesses: u64,
    /// The same of the aggregation before.
    last_nr_accesses: u64,
    /// For how many aggregations `nr_accesses` has hardly changed.
    pub age: u64,
}

impl Region {
    fn new(place: Range<Pfn>) -> Region {
        Region { sampled: place.start, place, nr_accesses: 0, last_nr_accesses: 0, age: 0 }
    }

    pub fn pages(&self) -> u64 {
        u64::from(self.place.end - self.place.start)
    }

    /// Cuts the region after so many pages, and returns the rest.
    fn split_off(&mut self, pages: u64) -> Region {
        let at = self.place.start + pages as Pfn;
        let rest = Region { place: at..self.place.end, ..self.clone() };
        self.place.end = at;
        rest
    }

    /// Takes in the region behind it: counts and ages become means by length.
    fn absorb(&mut self, right: &Region) {
        let (left, more) = (self.pages(), right.pages());
        let mean = |mine: u64, other: u64| (mine * left + other * more) / (left + more);
        self.nr_accesses = mean(self.nr_accesses, right.nr_accesses);
        self.age = mean(self.age, right.age);
        self.place.end = right.place.end;
    }
}

/// The regions of one range of memory, in order.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    all: Vec<Region>,
    /// How many there were when they were last to be divided.
    before_split: u64,
}

impl std::ops::Index<usize> for Regions {
    type Output = Region;
    fn index(&self, index: usize) -> &Region {
        &self.all[index]
    }
}

impl std::ops::IndexMut<usize> for Regions {
    fn index_mut(&mut self, index: usize) -> &mut Region {
        &mut self.all[index]
    }
}

impl Regions {
    /// The whole of `place` as one region, in which nothing has been seen.
    pub fn new(place: Range<Pfn>) -> Regions {
        Regions { all: vec![Region::new(place)], before_split: 0 }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Region> + Clone {
        self.all.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Region> {
        self.all.iter_mut()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Cuts a region after so many pages: the rest is the next one.
    pub fn split_at(&mut self, index: usize, pages: u64) {
        let rest = self.all[index].split_off(pages);
        self.all.insert(index + 1, rest);
    }

    /// Pages of all of them.
    pub fn pages(&self) -> u64 {
        self.all.iter().map(Region::pages).sum()
    }

    /// Chooses a page of each to be looked at.
    pub fn choose_samples(&mut self, random: &mut Pcg64Mcg) {
        for region in &mut self.all {
            region.sampled = region.place.start + (random.next_u64() % region.pages()) as Pfn;
        }
    }

    /// Notes which have hardly changed since the last aggregation, and merges those that are alike, the more of them the more there are
    /// (`kdamond_merge_regions`). A region has at most `limit` pages then, and there are at most `most` regions if that is possible.
    pub fn merge(&mut self, samples: u64, limit: u64, most: u64) {
        let most_accesses = self.all.iter().map(|region| region.nr_accesses).max().unwrap_or(0);
        let mut threshold = most_accesses / 10;
        for region in &mut self.all {
            let changed = region.nr_accesses.abs_diff(region.last_nr_accesses) > threshold;
            region.age = if changed { 0 } else { region.age + 1 };
        }
        loop {
            self.all.dedup_by(|right, left| {
                let merges = are_alike(left, right, threshold, limit);
                if merges {
                    left.absorb(right);
                }
                merges
            });
            match next_threshold(threshold, samples) {
                Some(next) if self.all.len() as u64 > most => threshold = next,
                _ => break,
            }
        }
    }

    /// Begins the next aggregation.
    pub fn reset(&mut self) {
        for region in &mut self.all {
            region.last_nr_accesses = std::mem::take(&mut region.nr_accesses);
        }
    }

    /// Divides all, unless there are many already.
    pub fn split(&mut self, most: u64, random: &mut Pcg64Mcg) {
        let regions = self.all.len() as u64;
        let parts = parts_of_each(regions, self.before_split, most);
        if parts == 1 {
            return;
        }
        self.before_split = regions;
        let mut divided = Vec::with_capacity(self.all.len() * parts as usize);
        for mut region in self.all.drain(..) {
            let at = divided.len();
            for _ in 1..parts {
                if let Some(first) = first_part(region.pages(), 1 + random.next_u64() % 9) {
                    divided.insert(at, region.split_off(first));
                }
            }
            divided.insert(at, region);
        }
        self.all = divided;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_pcg::rand_core::SeedableRng;

    /// Whether they lie one behind the other and fill `place`.
    fn fill(regions: &Regions, place: Range<Pfn>) -> bool {
        let ends = regions.iter().map(|region| region.place.end);
        let starts: Vec<Pfn> = regions.iter().map(|region| region.place.start).collect();
        let expected: Vec<Pfn> =
            std::iter::once(place.start).chain(ends.clone()).take(starts.len()).collect();
        starts == expected
            && ends.last() == Some(place.end)
            && regions.iter().all(|region| region.pages() > 0)
    }

    proptest! {
        #[test]
        fn whatever_is_merged_and_split_fills_memory(
            end in 1u32..100_000,
            counts in proptest::collection::vec(0u64..=20, 1..40),
            most in 10u64..200,
            seed in any::<u64>(),
        ) {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut regions = Regions::new(0..end);
            for round in 0..20 {
                regions.choose_samples(&mut random);
                prop_assert!(regions.iter().all(|region| region.place.contains(&region.sampled)));
                for (at, region) in regions.iter_mut().enumerate() {
                    region.nr_accesses = counts[(at + round) % counts.len()];
                }
                let limit = u64::from(end).div_ceil(10);
                let before = regions.len();
                regions.merge(20, limit, most);
                prop_assert!(regions.len() <= before && fill(&regions, 0..end));
                regions.reset();
                regions.split(most, &mut random);
                prop_assert!(fill(&regions, 0..end), "{regions:?}");
                prop_assert!(regions.len() as u64 <= (3 * most).max(before as u64));
            }
        }
    }

    #[test]
    fn what_is_accessed_alike_becomes_one_and_ages() {
        let mut regions = Regions::new(0..100);
        regions.split_at(0, 40);
        regions.split_at(1, 20);
        for (region, nr_accesses) in regions.iter_mut().zip([20, 19, 0]) {
            region.nr_accesses = nr_accesses;
        }
        regions.merge(20, 100, 10);
        let places: Vec<_> =
            regions.iter().map(|region| (region.place.clone(), region.nr_accesses)).collect();
        assert_eq!(places, [(0..60, 19), (60..100, 0)]);
        let ages: Vec<u64> = regions.iter().map(|region| region.age).collect();
        assert_eq!(ages, [0, 1], "the last one has been as quiet before");
    }

    #[test]
    fn the_same_seed_divides_in_the_same_places() {
        let divided = |seed| {
            let (mut regions, mut random) = (Regions::new(0..1000), Pcg64Mcg::seed_from_u64(seed));
            (0..4).for_each(|_| regions.split(100, &mut random));
            regions.iter().map(|region| region.place.end).collect::<Vec<_>>()
        };
        assert_eq!(divided(1), divided(1));
        assert_ne!(divided(1), divided(2));
    }
}
