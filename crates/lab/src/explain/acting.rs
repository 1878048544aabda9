//! What can act in a scenario, which is known without a run.
//!
//! ```text
//!   numa01           readahead                    none of its programs has files
//!                    hugetlb, zswap, damon        nobody fills pools, or switches it on: neither players nor
//!                                                 releases that changed only these are run
//! ```
//!
//! The rule is the one by which `compare` says that a feature changes nothing in a scenario ([`crate::applicable_features`]): a
//! mechanism that nothing of the workload has to do with, or that a setting switches off. It has to hold for both kernels.

use super::players::{Player, Side, mechanism};
use crate::applicable_features::why_without_effect;
use crate::scenario::ScenarioError;
use mm::features::by_name::Feature;
use sim::Run;
use std::collections::BTreeMap;

/// Mechanisms that cannot act between two kernels.
pub struct CannotAct {
    features: Vec<Feature>,
}

impl CannotAct {
    /// What cannot act in the runs of both kernels.
    pub fn of(runs: [&Run; 2]) -> CannotAct {
        let cannot = |feature: &Feature| {
            runs.iter().all(|run| why_without_effect(mechanism(&feature.path), run).is_some())
        };
        CannotAct { features: Feature::all().into_iter().filter(cannot).collect() }
    }

    /// Whether this is so of all that a player changes.
    pub fn has(&self, player: &Player) -> bool {
        let cannot = |path: &str| self.features.iter().any(|feature| feature.path == path);
        player.is_of_features() && player.changes.iter().all(|change| cannot(&change.feature))
    }

    /// A kernel with the features of `like` wherever they cannot act.
    fn reduced(&self, mut kernel: Side, like: &Side) -> Side {
        for Feature { path, .. } in &self.features {
            if let Some(word) = like.features.word(path) {
                // What is refused stays as it is, and the kernel is one of its own.
                drop(kernel.features.set(path, &word));
            }
        }
        kernel
    }
}

/// Kernels by name, each under the first name of those that cannot be told apart.
pub struct SameKernels<'a> {
    cannot_act: &'a CannotAct,
    like: &'a Side,
    /// What is left of each kernel that is run.
    distinct: Vec<Side>,
    /// The name that a name is run under.
    runs_as: BTreeMap<String, String>,
}

impl<'a> SameKernels<'a> {
    /// Nothing yet; features that cannot act are compared as if they were those of `like`.
    pub fn new(cannot_act: &'a CannotAct, like: &'a Side) -> SameKernels<'a> {
        SameKernels { cannot_act, like, distinct: Vec::new(), runs_as: BTreeMap::new() }
    }

    /// The name that a kernel is run under; `side` finds it by name.
    pub fn admit(
        &mut self,
        name: &str,
        side: impl Fn(&str) -> Result<Side, ScenarioError>,
    ) -> Result<&str, ScenarioError> {
        if !self.runs_as.contains_key(name) {
            let reduced = self.cannot_act.reduced(side(name)?, self.like);
            let same = self.distinct.iter().find(|other| other.is_the_same(&reduced));
            let runs_as = same.map_or_else(|| reduced.name.clone(), |same| same.name.clone());
            if same.is_none() {
                self.distinct.push(reduced);
            }
            self.runs_as.insert(name.into(), runs_as);
        }
        Ok(&self.runs_as[name])
    }

    /// The name that a kernel is run under, if it was asked for.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.runs_as.get(name).map(String::as_str)
    }
}
