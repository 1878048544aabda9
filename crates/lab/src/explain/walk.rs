//! The walk from one kernel to another, release by release, and which step of it moved a metric most.
//!
//! ```text
//!   6.6   6.7   6.8   6.9   6.10   6.11   6.12        for kbuild
//!    │     │     ║     │     │       ║      ║           ║ changes nothing that can act: the same kernel as before
//!    ├ 1 ──┴─ 2 ───────┴─ 3 ─┘                          three steps to search
//!    │
//!    └─ 6.7 ─┴─ 6.8 to 6.12 ───────────────┘            what is printed, with all seeds: the step that was found, and the rest
//! ```
//!
//! The search is one seed's ([`bisect::search`]), the first with which the metric differs between both ends.

use super::acting::CannotAct;
use super::bisect;
use super::measurements::Measurements;
use super::players::{Grain, Player, Sides};
use super::{ExplainError, Question, Releases, Search, Stage};
use sim::metric::Metric;
use std::collections::BTreeSet;

/// Kernels from an old to a new one.
pub(super) struct Walk {
    /// With all releases between two releases.
    kernels: Vec<String>,
    /// The places of those that differ from the one before in what can act.
    distinct: Vec<usize>,
    is_of_releases: bool,
}

/// What moved a metric most.
pub(super) struct Found {
    /// The walk in parts: the first and last kernel of each and those between. Empty if it is not one of releases.
    pub parts: Vec<Vec<String>>,
    pub search: Option<Search>,
    /// None if nothing moved.
    pub change: Option<FoundChange>,
}

/// The change that moved a metric most.
pub(super) struct FoundChange {
    /// The kernels of the step that it is part of.
    pub step: Vec<String>,
    pub by: Player,
    /// The kernels before and after it.
    pub without: String,
    pub with: String,
}

impl Found {
    /// The kernels that are to be run with all seeds.
    pub fn kernels(&self) -> Vec<String> {
        let of_parts = self.parts.iter().flat_map(|part| part.iter().take(1).chain(part.last()));
        let of_change = self.change.iter().flat_map(|change| [&change.without, &change.with]);
        of_parts.chain(of_change).cloned().collect()
    }
}

impl Walk {
    pub fn new<E: From<ExplainError>>(sides: &Sides, measurements: &mut Measurements<E>) -> Result<Walk, E> {
        let (from, to) = (&sides.from.name, &sides.to.name);
        let releases = bisect::releases(from, to);
        let between = releases.get(1..releases.len().saturating_sub(1)).unwrap_or_default();
        let between = between.iter().map(|release| release.to_string());
        let kernels: Vec<String> = [from.clone()].into_iter().chain(between).chain([to.clone()]).collect();
        let mut distinct = vec![0];
        for at in 1..kernels.len() {
            if measurements.runs_as(&kernels[at])? != measurements.runs_as(&kernels[at - 1])? {
                distinct.push(at);
            }
        }
        Ok(Walk { kernels, distinct, is_of_releases: !releases.is_empty() })
    }

    /// The old and the new kernel.
    pub fn ends(&self) -> [&str; 2] {
        [&self.kernels[0], &self.kernels[self.kernels.len() - 1]]
    }

    /// The releases that change nothing that can act.
    pub fn same_as_before(&self) -> Vec<String> {
        let is_same = |at: &usize| self.is_of_releases && !self.distinct.contains(at);
        (0..self.kernels.len()).filter(is_same).map(|at| self.kernels[at].clone()).collect()
    }

    /// The step and, in it, the change that moved a metric most.
    pub fn find<E: From<ExplainError>>(
        &self,
        question: &Question,
        metric: &Metric,
        cannot_act: &CannotAct,
        measurements: &mut Measurements<E>,
    ) -> Result<Found, E> {
        let (step, parts, search) = match question.releases {
            Releases::Every => {
                let step = self.longest_step(metric, measurements)?;
                (step, self.kernels.windows(2).map(<[String]>::to_vec).collect(), None)
            }
            Releases::Searched => {
                let (step, search) = self.search(question, metric, measurements)?;
                (step, self.parts(step), search)
            }
        };
        let change = match step {
            Some(at) => {
                let step = &self.kernels[at - 1..=at];
                let sides = question.between(&step[0], &step[1], Grain::Change)?;
                find_change(question, metric, (step, &sides), cannot_act, measurements)?
            }
            None => None,
        };
        let of_releases = |parts| if self.is_of_releases { parts } else { Vec::new() };
        Ok(Found { parts: of_releases(parts), search: search.filter(|_| self.is_of_releases), change })
    }

    /// Where the step ends that moves a metric most, of all steps with all seeds.
    fn longest_step<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        measurements: &mut Measurements<E>,
    ) -> Result<Option<usize>, E> {
        measurements.need(Stage::Releases, &self.kernels)?;
        let means: Vec<f64> = self.kernels.iter().map(|kernel| measurements.mean(metric, kernel)).collect();
        let steps: Vec<f64> = means.windows(2).map(|step| step[1] - step[0]).collect();
        Ok(bisect::longest(&steps).map(|longest| longest + 1))
    }

    /// Where the step ends that a search finds.
    fn search<E: From<ExplainError>>(
        &self,
        question: &Question,
        metric: &Metric,
        measurements: &mut Measurements<E>,
    ) -> Result<(Option<usize>, Option<Search>), E> {
        let Some(seed) = telling_seed(question, metric, self.ends(), measurements) else {
            return Ok((None, None));
        };
        let mut run: BTreeSet<usize> = BTreeSet::new();
        let mut values = |places: &[usize]| {
            let places: Vec<usize> = places.iter().map(|&place| self.distinct[place]).collect();
            run.extend(&places);
            values(
                metric,
                Stage::Releases,
                places.iter().map(|&at| self.kernels[at].clone()),
                seed,
                measurements,
            )
        };
        let found = bisect::search(self.distinct.len() - 1, &mut values)?;
        let run = run.into_iter().map(|at| self.kernels[at].clone()).collect();
        let search = Search { seed, run, of: self.distinct.len() };
        Ok((found.map(|step| self.distinct[step + 1]), Some(search)))
    }

    /// The walk in parts: before a step, the step, and after it; all of it if no step was found.
    fn parts(&self, step: Option<usize>) -> Vec<Vec<String>> {
        let last = self.kernels.len() - 1;
        let mut bounds = vec![0];
        bounds.extend(step.iter().flat_map(|&at| [at - 1, at]));
        bounds.push(last);
        bounds.dedup();
        bounds.windows(2).map(|part| self.kernels[part[0]..=part[1]].to_vec()).collect()
    }
}

/// The first seed with which two kernels are known to measure different values.
fn telling_seed<E: From<ExplainError>>(
    question: &Question,
    metric: &Metric,
    kernels: [&str; 2],
    measurements: &Measurements<E>,
) -> Option<u64> {
    question.seeds.iter().copied().find(|&seed| measurements.differ(metric, kernels, seed))
}

/// A metric of kernels with a seed.
fn values<E: From<ExplainError>>(
    metric: &Metric,
    stage: Stage,
    kernels: impl Iterator<Item = String> + Clone,
    seed: u64,
    measurements: &mut Measurements<E>,
) -> Result<Vec<f64>, E> {
    measurements.need_each(stage, kernels.clone().map(|kernel| (kernel, seed)))?;
    Ok(kernels.map(|kernel| measurements.value(metric, &kernel, seed)).collect())
}

/// Which change of a step moves a metric most when the changes are made one after the other.
fn find_change<E: From<ExplainError>>(
    question: &Question,
    metric: &Metric,
    (step, sides): (&[String], &Sides),
    cannot_act: &CannotAct,
    measurements: &mut Measurements<E>,
) -> Result<Option<FoundChange>, E> {
    let ends = [step[0].as_str(), step[1].as_str()];
    let Some(seed) = telling_seed(question, metric, ends, measurements) else { return Ok(None) };
    let acts = |&player: &usize| !cannot_act.has(&sides.players[player]);
    let acting: Vec<usize> = sides.all().iter().filter(acts).collect();
    let kernel = |place: usize| sides.kernel(acting[..place].iter().copied().collect());
    let mut values = |places: &[usize]| {
        values(metric, Stage::Changes, places.iter().map(|&place| kernel(place)), seed, measurements)
    };
    let found = bisect::search(acting.len(), &mut values)?;
    Ok(found.map(|at| FoundChange {
        step: step.to_vec(),
        by: sides.players[acting[at]].clone(),
        without: kernel(at),
        with: kernel(at + 1),
    }))
}
