//! Bisections: which step of a walk from one kernel to another moved a metric.
//!
//! ```text
//!   6.6 ── 6.7 ── 6.8 ── 6.9 ── 6.10 ── 6.11 ── 6.12       releases
//!    └──────── -23 ──┘└──── -4 ───┘└───── 0 ─────┘          three parts of about the same length
//!    └ -23 ┘└─ 0 ──┘                                       the part that moved the metric most is divided again
//!     found                                                it is one step, and no other part moved it further
//!
//!   6.6 ── a ── a+b ── a+b+c ── ... ── 6.7                  the changes of that step likewise, in the order of their list
//! ```
//!
//! As `git bisect` does, [`search`] looks at a few places of many. It goes on with whichever part moves the metric most, wherever that
//! part is, and ends when that part is a single step. So it does not depend on one step being larger than all others together. What it
//! cannot see is a step that a later one of the same part takes back: the part as a whole did not move. Three parts rather than two,
//! because both places between them can be run at the same time.

use mm::Variant;
use mm::series::RELEASES;
use std::collections::BTreeMap;

/// How many parts a part of a walk is divided into.
const PARTS: usize = 3;

/// The releases from one kernel to another, both included; nothing if one of them is no release, or only another name of one.
pub fn releases(from: &str, to: &str) -> Vec<&'static str> {
    let (Some(from), Some(to)) = (release(from), release(to)) else { return Vec::new() };
    let names = |range: std::ops::RangeInclusive<usize>| RELEASES[range].iter().map(|(release, _)| *release);
    if from <= to { names(from..=to).collect() } else { names(to..=from).rev().collect() }
}

/// Which release a kernel is, by name or as a variant.
pub(crate) fn release(name: &str) -> Option<usize> {
    let variant = Variant::of_release(name).map_or(name, |variant| variant.name);
    RELEASES.iter().position(|(_, known)| *known == variant)
}

/// The place of the longest of some steps; the first of those that are equally long, and none if all have no length.
pub fn longest(steps: &[f64]) -> Option<usize> {
    let longer = |best: usize, at: usize| if steps[at].abs() > steps[best].abs() { at } else { best };
    (0..steps.len()).reduce(longer).filter(|&longest| steps[longest] != 0.0)
}

/// The values of a metric at some places of a walk.
type Values<'a, E> = dyn FnMut(&[usize]) -> Result<Vec<f64>, E> + 'a;

/// The single step of a walk of so many that moves a value most, as far as parts that end at the places looked at tell; none if the
/// value is the same at both ends. `values` are those of some places: place 0 is where the walk begins, place `steps` where it ends.
pub fn search<E>(steps: usize, values: &mut Values<E>) -> Result<Option<usize>, E> {
    let mut known: BTreeMap<usize, f64> = BTreeMap::new();
    let mut ahead = if steps == 0 { Vec::new() } else { vec![0, steps] };
    loop {
        known.extend(ahead.iter().copied().zip(values(&ahead)?));
        let places: Vec<(usize, f64)> = known.iter().map(|(&place, &value)| (place, value)).collect();
        let parts: Vec<f64> = places.windows(2).map(|part| part[1].1 - part[0].1).collect();
        let Some(part) = longest(&parts) else { return Ok(None) };
        let (begin, end) = (places[part].0, places[part + 1].0);
        if end - begin == 1 {
            return Ok(Some(begin));
        }
        ahead =
            (1..PARTS).map(|cut| begin + (end - begin) * cut / PARTS).filter(|&cut| cut > begin).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    #[test]
    fn releases_are_between_two_forth_and_back() {
        assert_eq!(releases("6.6", "6.9"), ["6.6", "6.7", "6.8", "6.9"]);
        assert_eq!(releases("6.7", "pcp-base"), ["6.7", "6.6"]);
        assert_eq!(releases("6.12.95-amd64", "mainline-6.13"), ["6.12", "6.13"]);
        assert!(releases("6.6", "patch9").is_empty());
        assert!(releases("6.6", "6.12:mglru.tiers=off").is_empty());
    }

    #[test]
    fn the_longest_step_may_go_down() {
        assert_eq!(longest(&[1.0, -5.0, 5.0]), Some(1));
        assert_eq!(longest(&[0.0, 0.0]), None);
        assert_eq!(longest(&[]), None);
    }

    /// The step that is found in a walk with these values, and how many places were looked at.
    fn found(walk: &[f64]) -> (Option<usize>, usize) {
        let mut looked = 0;
        let mut values = |places: &[usize]| {
            looked += places.len();
            Ok::<_, Infallible>(places.iter().map(|&place| walk[place]).collect())
        };
        let Ok(found) = search(walk.len() - 1, &mut values);
        (found, looked)
    }

    #[test]
    fn a_part_of_many_small_steps_does_not_hide_a_large_one() {
        // The first two parts move by 6 each in steps of 2; the third by 5 at once.
        let walk = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 12.0, 17.0, 17.0];
        assert_eq!(found(&walk).0, Some(7));
    }

    #[test]
    fn a_step_that_is_taken_back_is_not_seen() {
        assert_eq!(found(&[0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 0.0, 0.0, 0.0, 1.0]).0, Some(8));
        assert_eq!(found(&[3.0, 9.0, 3.0]).0, None);
        assert_eq!(found(&[3.0]).0, None);
    }

    proptest! {
        /// One jump in a walk that is level elsewhere is found in two looks for each time that the walk can be divided by three.
        #[test]
        fn a_jump_is_found(steps in 1_usize..100, jump in 0_usize..100, by in -5.0..5.0_f64) {
            let jump = jump % steps;
            let walk: Vec<f64> = (0..=steps).map(|place| if place > jump { by } else { 0.0 }).collect();
            let (found, looked) = found(&walk);
            prop_assert_eq!(found, (by != 0.0).then_some(jump));
            prop_assert!(looked <= 2 + 2 * (steps as f64).log(3.0).ceil() as usize, "{looked}");
        }

        /// Where a metric only ever goes one way, the step found is the longest of all.
        #[test]
        fn nothing_hides_in_a_walk_that_goes_one_way(steps in proptest::collection::vec(0.0..9.0_f64, 1..40)) {
            let mut walk = vec![0.0];
            for step in &steps {
                walk.push(walk[walk.len() - 1] + step);
            }
            let step = found(&walk).0.map(|found| steps[found]);
            let most = steps.iter().copied().fold(0.0, f64::max);
            prop_assert!((step.unwrap_or(0.0) - most).abs() < 1e-9);
        }
    }
}
