//! Which points of a space are tried, and with how many seeds: everything that is decided before the first run.
//!
//! ```text
//!   axes ─► design: grid, zip or draws ─► points, each a value of every key
//!   points ─► rungs ─► who runs with how many seeds, over which part of the virtual time
//!
//!   grid, zip, random          halving of 64 points with 8 seeds
//!   ─────────────────          ─────────────────────────────────
//!   all points, all seeds      64 points   seed 1        a quarter of the time, if that can be
//!                              16          seeds 1, 2
//!                               4          seeds 1 to 8
//! ```
//!
//! Successive halving (Jamieson and Talwalkar, 2016) with a quarter that goes on: the default is in every rung, as what all others are
//! compared with, and seeds are the same for all points, so that one seed tells much. Of 64 points with 8 seeds it runs 64 + 16 + 24 runs
//! rather than 512.

use super::SweepError;
use super::space::Axis;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How points are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// All combinations of values.
    #[default]
    Grid,
    /// The first values of all keys together, then the second ones, and so on.
    Zip,
    /// Points drawn from the space, each as likely as another.
    Random,
    /// Successive halving: all points with one seed, the best quarter with more, and so on.
    Halving,
}

impl Method {
    pub const ALL: [Method; 4] = [Method::Grid, Method::Zip, Method::Random, Method::Halving];

    /// The method in a word.
    pub fn name(self) -> &'static str {
        match self {
            Method::Grid => "grid",
            Method::Zip => "zip",
            Method::Random => "random",
            Method::Halving => "halving",
        }
    }
}

/// How many points there are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Values into which a range is split.
    pub points: usize,
    /// Points that are drawn; `None`: as many as the method has of its own.
    pub samples: Option<usize>,
}

/// Points that [`Method::Random`] draws if nobody says how many.
const SAMPLES: usize = 20;

/// The most points of a sweep.
pub const MOST_POINTS: usize = 100_000;

/// The generator that draws points has a seed of its own, so the same sweep has the same points.
const SEED: u64 = 0x7377_6565_7000;

/// The points of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The values of each key.
    pub values: Vec<Vec<String>>,
    /// The points, each the position of a value of every key; no point is there twice.
    pub points: Vec<Vec<usize>>,
}

impl Design {
    /// The points of a space by a method.
    pub fn new(axes: &[Axis], method: Method, size: Size) -> Result<Design, SweepError> {
        for (at, axis) in axes.iter().enumerate() {
            if axes[..at].iter().any(|earlier| earlier.key == axis.key) {
                return Err(SweepError::RepeatedKey { key: axis.key.clone() });
            }
        }
        if axes.is_empty() {
            return Err(SweepError::NoSpace);
        }
        let draws = match (method, size.samples) {
            (Method::Random, samples) => Some(samples.unwrap_or(SAMPLES)),
            (Method::Halving, samples) => samples,
            (Method::Grid | Method::Zip, None) => None,
            (Method::Grid | Method::Zip, Some(_)) => {
                return Err(SweepError::NoSamples { method: method.name() });
            }
        };
        if let Some(samples) = draws {
            return Ok(draw(axes, samples));
        }
        let values: Result<Vec<Vec<String>>, SweepError> =
            axes.iter().map(|axis| axis.values(size.points)).collect();
        let values = values?;
        let points = if method == Method::Zip { zip(axes, &values)? } else { grid(&values)? };
        Ok(Design { values, points })
    }
}

fn grid(values: &[Vec<String>]) -> Result<Vec<Vec<usize>>, SweepError> {
    let count = values.iter().try_fold(1usize, |count, values| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > MOST_POINTS) {
        return Err(SweepError::TooManyPoints { of: values.iter().map(Vec::len).collect() });
    }
    let mut points: Vec<Vec<usize>> = vec![Vec::new()];
    for values in values {
        let longer = |point: &Vec<usize>| {
            let point = point.clone();
            (0..values.len()).map(move |value| [&point[..], &[value]].concat())
        };
        points = points.iter().flat_map(longer).collect();
    }
    Ok(points)
}

fn zip(axes: &[Axis], values: &[Vec<String>]) -> Result<Vec<Vec<usize>>, SweepError> {
    let counts: BTreeSet<usize> = values.iter().map(Vec::len).collect();
    match counts.into_iter().collect::<Vec<_>>()[..] {
        [count] => Ok((0..count).map(|at| vec![at; values.len()]).collect()),
        _ => {
            let of = axes.iter().zip(values);
            let of: Vec<String> =
                of.map(|(axis, values)| format!("{} has {}", axis.key, values.len())).collect();
            Err(SweepError::Unequal { of: of.join(", ") })
        }
    }
}

/// Draws points until there are enough, or no more come.
fn draw(axes: &[Axis], samples: usize) -> Design {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let most = axes.iter().try_fold(1usize, |all, axis| all.checked_mul(axis.count()?));
    let samples = samples.min(most.unwrap_or(usize::MAX)).min(MOST_POINTS);
    let mut values: Vec<Vec<String>> = vec![Vec::new(); axes.len()];
    let (mut points, mut known) = (Vec::new(), BTreeSet::new());
    for _ in 0..samples.saturating_mul(100) {
        if points.len() == samples {
            break;
        }
        let drawn =
            axes.iter().zip(&mut values).map(|(axis, values)| position(values, axis.draw(&mut random)));
        let point: Vec<usize> = drawn.collect();
        if known.insert(point.clone()) {
            points.push(point);
        }
    }
    Design { values, points }
}

/// The position of a value among others, which it joins if it is new.
fn position(values: &mut Vec<String>, value: String) -> usize {
    values.iter().position(|other| *other == value).unwrap_or_else(|| {
        values.push(value);
        values.len() - 1
    })
}

/// Which part of a scenario's virtual time runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Time {
    #[default]
    Whole,
    Quarter,
}

/// A step of the search: so many points with seeds 1 to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    pub points: usize,
    pub seeds: u32,
    pub time: Time,
}

/// Of the points of a rung one in so many goes on.
const GOES_ON: usize = 4;

/// The steps of a search of so many points that ends with `seeds` for each that is left.
pub fn rungs(method: Method, points: usize, seeds: u32, first: Time) -> Vec<Rung> {
    let last = |points| Rung { points, seeds, time: Time::Whole };
    if method != Method::Halving {
        return vec![last(points)];
    }
    let (mut rungs, mut left, mut own) = (Vec::new(), points, 1);
    while own < seeds && left > GOES_ON {
        let time = if rungs.is_empty() { first } else { Time::Whole };
        rungs.push(Rung { points: left, seeds: own, time });
        left = left.div_ceil(GOES_ON);
        own *= 2;
    }
    rungs.push(last(left));
    rungs
}

/// A part of the runs, for one of several processes or machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 on.
    pub part: usize,
    pub of: usize,
}

impl Shard {
    /// Whether it makes the run at this place of a stage. Neighbours go to different shards, so each gets its part of long runs.
    pub fn has(&self, at: usize) -> bool {
        at % self.of == self.part - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let expected = || "expected PART/OF with 1 <= PART <= OF, for example 17/200".to_string();
        let (part, of) = text.split_once('/').ok_or_else(expected)?;
        let shard =
            Shard { part: part.parse().map_err(|_| expected())?, of: of.parse().map_err(|_| expected())? };
        if (1..=shard.of).contains(&shard.part) { Ok(shard) } else { Err(expected()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: Size = Size { points: 3, samples: None };

    fn axes(texts: &[&str]) -> Vec<Axis> {
        texts.iter().map(|text| Axis::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_grid_has_all_combinations_and_a_zip_the_diagonal() {
        let axes = axes(&["vm.swappiness=0..200", "vm.page-cluster=0,3,5"]);
        let grid = Design::new(&axes, Method::Grid, SIZE).unwrap();
        assert_eq!((grid.points.len(), &grid.points[1]), (9, &vec![0, 1]));
        let zip = Design::new(&axes, Method::Zip, SIZE).unwrap();
        assert_eq!(zip.points, [[0, 0], [1, 1], [2, 2]]);
    }

    #[test]
    fn what_is_no_design_is_an_error() {
        let of =
            |texts: &[&str], method, size| Design::new(&axes(texts), method, size).unwrap_err().to_string();
        assert!(of(&[], Method::Grid, SIZE).contains("--over"));
        assert!(of(&["vm.swappiness=1", "vm.swappiness=2"], Method::Grid, SIZE).contains("given twice"));
        let unequal = of(&["vm.swappiness=1,2", "vm.page-cluster=0"], Method::Zip, SIZE);
        assert!(unequal.contains("vm.swappiness has 2, vm.page-cluster has 1"), "{unequal}");
        let samples = Size { samples: Some(3), ..SIZE };
        assert!(of(&["vm.swappiness=1,2"], Method::Grid, samples).contains("random"));
        let many = ["vm.swappiness=0..200:1", "vm.dirty_ratio=0..100:1", "vm.page-cluster=0..31:1"];
        assert!(of(&many, Method::Grid, SIZE).contains("random"));
    }

    #[test]
    fn draws_are_different_points_and_the_same_every_time() {
        let axes = axes(&["vm.swappiness=0..200", "vm.page-cluster=0,3"]);
        let size = Size { samples: Some(30), ..SIZE };
        let design = Design::new(&axes, Method::Random, size).unwrap();
        assert_eq!(design, Design::new(&axes, Method::Random, size).unwrap());
        assert_eq!(design.points.iter().collect::<BTreeSet<_>>().len(), 30);
        let few = Design::new(&axes[1..], Method::Random, size).unwrap();
        assert_eq!(few.points.len(), 2, "there are no more");
    }

    #[test]
    fn halving_takes_a_quarter_of_the_runs() {
        let rungs = rungs(Method::Halving, 64, 8, Time::Quarter);
        let all: Vec<_> = rungs.iter().map(|rung| (rung.points, rung.seeds)).collect();
        assert_eq!(all, [(64, 1), (16, 2), (4, 8)]);
        assert_eq!((rungs[0].time, rungs[1].time), (Time::Quarter, Time::Whole));
    }

    #[test]
    fn shards_are_parts_of_a_whole() {
        assert_eq!("17/200".parse(), Ok(Shard { part: 17, of: 200 }));
        for text in ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", ""] {
            assert!(text.parse::<Shard>().unwrap_err().contains("17/200"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_run_is_in_one_shard(of in 1usize..50, at in 0usize..1000) {
            let shards = (1..=of).filter(|&part| Shard { part, of }.has(at)).count();
            prop_assert_eq!(shards, 1);
        }

        #[test]
        fn halving_ends_with_all_seeds_and_never_grows(points in 1usize..500, seeds in 1u32..40) {
            let rungs = rungs(Method::Halving, points, seeds, Time::Whole);
            prop_assert_eq!(rungs[0].points, points);
            prop_assert_eq!(rungs[rungs.len() - 1].seeds, seeds);
            prop_assert!(rungs.windows(2).all(|pair| pair[0].points >= pair[1].points && pair[0].seeds < pair[1].seeds));
        }
    }
}
