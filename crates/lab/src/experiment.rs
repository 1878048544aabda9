//! Experiments: one scenario with several variants, and the same seeds for each.
//!
//! ```text
//!               seed 1   seed 2   seed 3
//!   base          ▪        ▪        ▪       each ▪ is one run: one thread, its own random streams
//!   patch1        ▪        ▪        ▪       a ▪ that is in the results already is not run again
//!   patch9        ▪        ▪        ▪       each core takes the next ▪ until none is left
//! ```
//!
//! A run depends on nothing but its own description, so neither the number of threads nor the order in which
//! runs end affects results.

pub mod varied;

use crate::results::{Record, Results, ResultsError};
use crate::scenario::{Scenario, ScenarioError, load_machine};
use machine::Profile;
use mm::series::Variant;
use rayon::prelude::*;
use sim::outcome::Outcome;
use sim::progress::RunProgress;
use sim::{Run, RunError, TreeKernel, name_and_features};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;
use varied::{Arm, Varied};

/// A scenario with the choices of the user.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub scenario: Scenario,
    pub machine: Profile,
    /// Variants; the others are compared with the first.
    pub variants: Vec<String>,
    /// The seeds are 1 to this number.
    pub seeds: u32,
    /// Settings in addition to the scenario's.
    pub changes: BTreeMap<String, String>,
    /// What else differs between arms.
    pub varied: Vec<Varied>,
    /// Kernel trees that variants take decisions from, by the name that variants call them by.
    pub trees: BTreeMap<String, TreeKernel>,
}

/// Why an experiment is invalid or failed.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The scenario or one of the choices is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A variant is named twice.
    #[error("variant {name} is named twice; name each variant once")]
    RepeatedVariant {
        /// The variant.
        name: String,
    },
    /// Two names of one kernel.
    #[error("{other} and {name} are the same kernel, which would run twice; name one of them")]
    SameKernel {
        /// One name.
        name: String,
        /// The name before it.
        other: String,
    },
    /// A key is varied twice.
    #[error("--vary {key}: given twice; give all values of a key at once, as in {key}=V1,V2")]
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// Nothing to run.
    #[error("nothing to run; name at least one variant and one seed")]
    Nothing,
    /// The scenario's name could not be used in tables and queries.
    #[error("name = {name:?}: a scenario's name may only have letters, digits, - and _")]
    Name { name: String },
    /// Results cannot be read or written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A run failed.
    #[error("{}, {}, seed {}: {error}", run.scenario, run.variant, run.seed)]
    Run { run: Box<Run>, error: Box<RunError> },
    /// A run failed an assertion of the twin.
    #[error("{}, {}, seed {}: the twin contradicts itself: {text}; please report it with the scenario", run.scenario, run.variant, run.seed)]
    Contradiction {
        run: Box<Run>,
        /// Text of the assertion.
        text: String,
    },
    /// Threads cannot be started.
    #[error("cannot start {jobs} threads: {text}")]
    Threads {
        /// Number of threads.
        jobs: usize,
        /// The system's error.
        text: String,
    },
}

/// Progress of a sweep.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The run was in the results already.
    Known(&'a Run),
    /// The run begins; its progress is in the second value.
    Begun(&'a Run, &'a RunProgress),
    /// The run has ended and is stored.
    Made(&'a Record),
}

/// The function that makes runs: [`sim::run_noting`], or a cheap one in tests.
pub type Simulate<'a> = dyn Fn(&Run, &RunProgress) -> Result<Outcome, RunError> + Sync + 'a;

/// The function that has another process make a run and store its result.
pub type Elsewhere<'a> = dyn Fn(&Run) -> Result<(), RunError> + Sync + 'a;

impl Experiment {
    /// The experiment of a built-in scenario or a scenario file; with the scenario's number of seeds if
    /// `seeds` is `None`.
    pub fn of(scenario: &str, seeds: Option<u32>) -> Result<Experiment, ScenarioError> {
        let scenario = Scenario::load(scenario)?;
        Ok(Experiment {
            machine: load_machine(&scenario.machine)?,
            variants: scenario.variants.clone(),
            seeds: seeds.unwrap_or(scenario.seeds),
            changes: BTreeMap::new(),
            varied: Vec::new(),
            trees: BTreeMap::new(),
            scenario,
        })
    }

    /// The kernel tree that a variant takes decisions from, if it takes any.
    fn tree(&self, variant: &str) -> Option<&TreeKernel> {
        self.trees.get(name_and_features(variant).0)
    }

    /// A variant by the name of the kernel that a release is, and its features.
    fn kernel<'a>(&self, variant: &'a str) -> (&'a str, Option<&'a str>) {
        let (name, features) = name_and_features(variant);
        let of_release = if self.trees.contains_key(name) { None } else { Variant::of_release(name) };
        (of_release.map_or(name, |variant| variant.name), features)
    }

    /// What runs with each seed: every variant with every combination of varied values. The first arm is what others are compared
    /// with.
    pub fn arms(&self) -> Result<Vec<Arm>, ExperimentError> {
        for (index, variant) in self.variants.iter().enumerate() {
            let name = self.scenario.present_name(variant);
            for earlier in &self.variants[..index] {
                let other = self.scenario.present_name(earlier);
                if other == name {
                    return Err(ExperimentError::RepeatedVariant { name: name.into() });
                }
                if self.kernel(other) == self.kernel(name) {
                    let (name, other) = (name.into(), other.into());
                    return Err(ExperimentError::SameKernel { name, other });
                }
            }
        }
        for (index, Varied { key, .. }) in self.varied.iter().enumerate() {
            if self.varied[..index].iter().any(|earlier| earlier.key == *key) {
                return Err(ExperimentError::RepeatedKey { key: key.clone() });
            }
        }
        let base = Arm {
            name: String::new(),
            scenario: self.scenario.clone(),
            machine: self.machine.clone(),
            variant: String::new(),
            changes: self.changes.clone(),
            levels: Vec::new(),
        };
        Ok(varied::arms(&base, &self.variants, &self.varied)?)
    }

    /// All runs, by arm, then seed; checks everything that can be checked before the first run.
    pub fn runs(&self) -> Result<Vec<Run>, ExperimentError> {
        check_name(&self.scenario)?;
        if self.variants.is_empty() || self.seeds == 0 {
            return Err(ExperimentError::Nothing);
        }
        let mut runs = Vec::new();
        for arm in self.arms()? {
            for seed in 1..=u64::from(self.seeds) {
                let tree = self.tree(&arm.variant);
                runs.push(arm.scenario.run_of(&arm.variant, tree, seed, &arm.machine, &arm.changes)?);
            }
        }
        Ok(runs)
    }

    /// Makes the runs that `results` does not have, on `jobs` threads, and stores each as it ends. Returns
    /// the records of all runs in the order of [`Experiment::runs`].
    pub fn sweep(
        &self,
        results: &Results,
        jobs: usize,
        simulate: &Simulate,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<Record>, ExperimentError> {
        let elsewhere = |run: &Run| Err(RunError::NoDecisions { variant: run.variant.clone() });
        self.sweep_beside(results, jobs, simulate, &elsewhere, progress)
    }

    /// Like [`Experiment::sweep`]; runs that take decisions from a kernel tree are made by `elsewhere`, which stores each in
    /// `results` itself.
    pub fn sweep_beside(
        &self,
        results: &Results,
        jobs: usize,
        simulate: &Simulate,
        elsewhere: &Elsewhere,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<Record>, ExperimentError> {
        make_all(&self.runs()?, results, jobs, &Makers { simulate, elsewhere }, progress)
    }
}

/// Refuses a scenario whose name could not be used in tables and queries.
pub fn check_name(scenario: &Scenario) -> Result<(), ExperimentError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if scenario.name.is_empty() || !scenario.name.chars().all(allowed) {
        return Err(ExperimentError::Name { name: scenario.name.clone() });
    }
    Ok(())
}

/// Who makes runs.
pub struct Makers<'a> {
    pub simulate: &'a Simulate<'a>,
    /// Makes those that take decisions from a kernel tree, and stores each in the results itself.
    pub elsewhere: &'a Elsewhere<'a>,
}

/// Makes those of `runs` that `results` does not have, on `jobs` threads, and stores each as it ends. Returns all records in the
/// order of the runs.
pub fn make_all(
    runs: &[Run],
    results: &Results,
    jobs: usize,
    makers: &Makers,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Record>, ExperimentError> {
    let made = |run: &Run| make_or_get(run, results, makers, progress);
    each(runs.len(), jobs, &|at| made(&runs[at]))
}

/// The record of a run: from `results`, or made and stored there.
pub fn make_or_get(
    run: &Run,
    results: &Results,
    makers: &Makers,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Record, ExperimentError> {
    let described = results.describe(run)?;
    if let Some(record) = results.get(&described)? {
        results.share(&described)?;
        progress(Progress::Known(run));
        return Ok(record);
    }
    let run_progress = RunProgress::default();
    progress(Progress::Begun(run, &run_progress));
    let failed = |error| ExperimentError::Run { run: Box::new(run.clone()), error: Box::new(error) };
    let record = match run.tree {
        None => results.keep(&described, &make_one(run, &run_progress, makers.simulate)?)?,
        Some(_) => {
            (makers.elsewhere)(run).map_err(failed)?;
            let gone = || failed(RunError::Process("its process ended without a result".into()));
            results.stored(&described)?.ok_or_else(gone)?
        }
    };
    results.share(&described)?;
    progress(Progress::Made(&record));
    Ok(record)
}

/// Does so many pieces of work on `jobs` threads, each of which takes the next piece, so that the first are done first. Returns what
/// they come to in their order. If some fail, it returns the error of the first of them, whatever threads were faster: pieces before a
/// failed one are done to their end, and pieces after it are not begun.
pub fn each<T: Send>(
    pieces: usize,
    jobs: usize,
    work: &(dyn Fn(usize) -> Result<T, ExperimentError> + Sync),
) -> Result<Vec<T>, ExperimentError> {
    let first_failed = AtomicUsize::new(usize::MAX);
    let piece = |at| {
        if at > first_failed.load(Ordering::Relaxed) {
            return None;
        }
        let result = work(at);
        if result.is_err() {
            first_failed.fetch_min(at, Ordering::Relaxed);
        }
        Some((at, result))
    };
    let mut done: Vec<(usize, Result<T, ExperimentError>)> =
        threads(jobs, pieces)?.install(|| (0..pieces).par_bridge().filter_map(piece).collect());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A pool of `jobs` threads, but no more than there are pieces of work.
pub fn threads(jobs: usize, pieces: usize) -> Result<rayon::ThreadPool, ExperimentError> {
    let jobs = jobs.min(pieces);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build();
    pool.map_err(|error| ExperimentError::Threads { jobs, text: error.to_string() })
}

/// Makes one run. A failed assertion becomes an error, so that the other runs go on.
pub(crate) fn make_one(
    run: &Run,
    progress: &RunProgress,
    simulate: &Simulate,
) -> Result<Outcome, ExperimentError> {
    let boxed = || Box::new(run.clone());
    match catch_unwind(AssertUnwindSafe(|| simulate(run, progress))) {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => Err(ExperimentError::Run { run: boxed(), error: Box::new(error) }),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(ExperimentError::Contradiction { run: boxed(), text: text.unwrap_or_default() })
        }
    }
}

#[cfg(test)]
mod tests;
