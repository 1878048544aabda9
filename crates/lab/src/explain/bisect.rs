//! Bisections: which step of a walk from one kernel to another moved a metric.
//!
//! ```text
//!   6.6 ── 6.7 ── 6.8 ── 6.9 ── 6.10 ── 6.11 ── 6.12       releases: every one is run, the longest step counts
//!           │
//!   6.6 ── a ── a+b ── a+b+c ── ... ── 6.7                  changes of that step, one after the other, in the order in which they
//!                       └─ halved: the half that moved the metric more is halved again
//! ```
//!
//! As `git bisect` does, halving follows one change and assumes that it moves the metric more than all others of its half together;
//! shares do not assume that. What it finds is how far the metric moves when that change joins those before it.

use mm::Variant;
use mm::series::RELEASES;

/// The releases from one kernel to another, both included; nothing if one of them is no release, or only another name of one.
pub fn releases(from: &str, to: &str) -> Vec<&'static str> {
    let (Some(from), Some(to)) = (release(from), release(to)) else { return Vec::new() };
    let names = |range: std::ops::RangeInclusive<usize>| RELEASES[range].iter().map(|(release, _)| *release);
    if from <= to { names(from..=to).collect() } else { names(to..=from).rev().collect() }
}

/// Which release a kernel is, by name or as a variant.
fn release(name: &str) -> Option<usize> {
    let variant = Variant::of_release(name).map_or(name, |variant| variant.name);
    RELEASES.iter().position(|(_, known)| *known == variant)
}

/// The place of the longest of some steps; the first of those that are equally long.
pub fn longest(steps: &[f64]) -> Option<usize> {
    let longer = |best: usize, at: usize| if steps[at].abs() > steps[best].abs() { at } else { best };
    (0..steps.len()).reduce(longer)
}

/// Halves a walk of so many steps until one is left, always keeping the half that moves `value` more. `value` is that of a place:
/// place 0 is where the walk begins, place `steps` where it ends.
pub fn halve<E>(steps: usize, value: &mut dyn FnMut(usize) -> Result<f64, E>) -> Result<usize, E> {
    let (mut begin, mut end) = (0, steps);
    while end - begin > 1 {
        let middle = begin.midpoint(end);
        let at_middle = value(middle)?;
        let (first, second) = (at_middle - value(begin)?, value(end)? - at_middle);
        if first.abs() >= second.abs() { end = middle } else { begin = middle }
    }
    Ok(begin)
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
        assert_eq!(longest(&[]), None);
    }

    proptest! {
        /// One jump in a walk that is level elsewhere is found in so many looks.
        #[test]
        fn a_jump_is_found(steps in 1_usize..100, jump in 0_usize..100, by in -5.0..5.0_f64) {
            let jump = jump % steps;
            let mut looked = 0;
            let mut value = |place: usize| {
                looked += 1;
                Ok::<f64, Infallible>(if place > jump { by } else { 0.0 })
            };
            let Ok(found) = halve(steps, &mut value);
            prop_assert_eq!(found, if by == 0.0 { 0 } else { jump });
            prop_assert!(looked <= 3 * (usize::BITS - steps.leading_zeros()) as usize);
        }
    }
}
