//! What moved a metric between two kernels: the release, the change, and the share of everything that differs.
//!
//! ```text
//!   6.6 ────────────────────────── 6.12        build time: 206 s ─► 150 s
//!    │  releases (walk.rs)           │          6.7 moved it most, and which of its changes did    (bisect.rs)
//!    │                               │
//!    ├─ + pcp  ─► 151 s              │          each player alone on the old kernel            (players.rs)
//!    │             151 s ─► 206 s ◄ - pcp       each taken away from the new one
//!    └─ sets of players, orders ─────┘          shares that add up to the difference   (game.rs, shapley.rs)
//! ```
//!
//! A difference of two kernels is a game: its players are what changed, a set of players is the old kernel with their changes, and its
//! worth is the metric that this kernel measures. Alone and taken away are the two ends of what a player can do. A share is the average
//! over all orders in which the changes could have been merged, and shares add up to the whole difference, which the other two do not
//! where changes replace or need one another.
//!
//! **Which runs.** Every run costs seconds, so none is made for what can be known without it, and only what is printed with an interval
//! is run with all seeds:
//!
//! | what is asked | seeds |
//! |---|---|
//! | what cannot act in this scenario (acting.rs) | no run |
//! | who changes nothing; which release, and which of its changes, moved the metric most | one |
//! | both kernels, that release and that change; each player's effects and share | all |
//!
//! **Who changes nothing.** Every player more doubles the sets. So each that can act is tried alone on the old kernel with the first
//! seed. Those after which all metrics, times and counters are the same to the last bit are then put into the old kernel together and
//! taken away from the new one together, with the same seed. If these are the same as without, the players are idle: their share is
//! zero, and they leave the game. If not, those stay idle of which this seed says the same when they are taken away one by one. Whoever
//! does something only in a kernel in between, or only with another seed, is taken for idle; what it does there is then part of others'
//! shares, which still add up, as both ends are kernels that were run.
//!
//! **Intervals.** A share is computed for each seed by itself, and its interval is that of a mean over pairs of the same seed, as
//! `compare` has it ([`crate::statistics`]). Where orders are drawn, each seed draws its own, so that the interval covers what
//! the drawn orders leave open too. Everything is relative to the old kernel's mean, so that shares, steps and the whole difference can
//! be added.

mod acting;
pub(crate) mod bisect;
mod game;
mod measurements;
mod players;
pub mod shapley;
mod walk;

pub use measurements::Make;
pub use players::{FeatureChange, Grain, Player};

use crate::results::Record;
use crate::scenario::{Scenario, ScenarioError};
use crate::statistics::{Change, Method};
use acting::{CannotAct, SameKernels};
use game::Game;
use machine::Profile;
use measurements::{Measurements, with_all_seeds};
use players::{Side, Sides};
use schemars::JsonSchema;
use serde::Serialize;
use shapley::Players;
use sim::metric::Metric;
use sim::{Run, TreeKernel, name_and_features};
use std::collections::BTreeMap;
use thiserror::Error;
use walk::Walk;

/// Two kernels in a scenario, and what is asked about them.
#[derive(Clone, Debug)]
pub struct Question {
    pub scenario: Scenario,
    pub machine: Profile,
    /// Settings in addition to the scenario's.
    pub changes: BTreeMap<String, String>,
    /// Kernel trees that either side takes decisions from, by name.
    pub trees: BTreeMap<String, TreeKernel>,
    /// The old kernel.
    pub from: String,
    /// The new kernel.
    pub to: String,
    /// What a player is.
    pub grain: Grain,
    /// Metrics of the scenario.
    pub metrics: Vec<Metric>,
    /// Seeds, the same for every kernel.
    pub seeds: Vec<u64>,
    /// How many orders are drawn with each seed where there are many players.
    pub orders: usize,
    /// Which releases between two releases are run.
    pub releases: Releases,
}

/// Which releases between two releases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Releases {
    /// Those that a search for the one that moved a metric most comes by, with one seed.
    Searched,
    /// Every one with every seed.
    Every,
}

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// A kernel or setting is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is nothing to explain.
    #[error(
        "--from {from} and --to {to} are the same kernel: no feature differs; `mmtwin list features` says which releases differ in what"
    )]
    NothingDiffers { from: String, to: String },
    /// The scenario does not show a metric.
    #[error("--metric {metric}: {scenario} does not have this metric; it has {}", metrics.join(", "))]
    NoMetric { metric: String, scenario: String, metrics: Vec<String> },
}

/// What runs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Both kernels, and each player alone.
    Kernels,
    /// Players that seem to change nothing, together.
    Idle,
    /// The releases between the two kernels.
    Releases,
    /// The changes of a release.
    Changes,
    /// Sets of players, for shares.
    Shares,
}

impl Stage {
    /// The stage in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Kernels => "kernels",
            Stage::Idle => "idle ones",
            Stage::Releases => "releases",
            Stage::Changes => "changes",
            Stage::Shares => "shares",
        }
    }
}

/// How shares were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// From all sets of players.
    Exact,
    /// From so many orders, drawn for each seed.
    Sampled { orders: usize },
}

/// What moved metrics between two kernels.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Answer {
    pub from: String,
    pub to: String,
    /// What a player is.
    pub by: Grain,
    /// Seeds, paired between kernels.
    pub seeds: Vec<u64>,
    /// How intervals were made.
    pub method: Method,
    pub sharing: Sharing,
    /// Distinct runs, those that were known before included.
    pub runs: usize,
    /// Players of mechanisms that cannot act in this scenario; they were not run.
    pub cannot_act: Vec<Player>,
    /// Players that change nothing at all with the first seed.
    pub idle: Vec<Player>,
    /// Releases that change nothing that can act in this scenario; they are the release before.
    pub releases_that_cannot_act: Vec<String>,
    /// An explanation for each metric.
    pub explanations: Vec<Explanation>,
    /// The runs of both kernels.
    #[serde(skip)]
    pub ends: Vec<Record>,
}

/// What moved a metric. Changes are relative to the old kernel.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Explanation {
    pub metric: Metric,
    /// Its mean in the old kernel.
    pub from: f64,
    /// Its mean in the new kernel.
    pub to: f64,
    /// The whole difference.
    pub change: Change,
    /// From release to release, or over several of which none is the one that moved it most; empty if the kernels are not both releases.
    pub steps: Vec<Step>,
    /// How the release was found; none if every one was run with every seed, or if the kernels are not both releases.
    pub search: Option<Search>,
    /// The change that moved it most, in the release that did; none if nothing moved.
    pub most: Option<Most>,
    /// The players that are not idle, those with the largest share first.
    pub players: Vec<Effect>,
}

/// From one kernel to another.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Step {
    pub from: String,
    pub to: String,
    /// The kernels after the first one, up to the last one.
    pub kernels: Vec<String>,
    pub change: Change,
}

/// A search for the release that moved a metric most.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Search {
    /// The seed that it was made with.
    pub seed: u64,
    /// The releases that were run.
    pub run: Vec<String>,
    /// How many there are that differ in what can act.
    pub of: usize,
}

/// The change that moved a metric most, as a bisection finds it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Most {
    /// The step from one release to the next that moved it most; from the old kernel to the new one if they are not both releases.
    pub step: Step,
    /// What moved it most in that step, one or several features that need each other.
    pub by: Player,
    /// How far it moved when that joined what comes before it in the list of features.
    pub change: Change,
}

/// What a player does to a metric.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Effect {
    #[serde(flatten)]
    pub player: Player,
    /// Its change alone, on the old kernel.
    pub alone: Change,
    /// What happens to the new kernel without its change.
    pub taken_away: Change,
    /// Its share of the whole difference.
    pub share: Change,
    /// The part of the whole difference that this is; none if there is no difference.
    pub part: Option<f64>,
    /// The p-value of the share, adjusted for all shares together (Holm); none with fewer than three seeds.
    pub adjusted_p_value: Option<f64>,
}

/// The metric that is explained if none is asked for: the scenario's first that has a better direction, or else its first.
pub fn own_metric(scenario: &Scenario) -> Option<Metric> {
    let any = || scenario.metrics.iter().find_map(|name| Metric::find(name));
    scenario.directed_metrics().next().or_else(any)
}

impl Question {
    /// The run of a kernel with a seed.
    fn run(&self, kernel: &str, seed: u64) -> Result<Run, ExplainError> {
        let tree = self.trees.get(name_and_features(kernel).0);
        Ok(self.scenario.run_of(kernel, tree, seed, &self.machine, &self.changes)?)
    }

    /// Refuses a run that lacks a metric.
    fn check_metrics(&self, record: &Record) -> Result<(), ExplainError> {
        match self.metrics.iter().find(|metric| !record.metrics.contains_key(metric.name)) {
            Some(metric) => Err(self.no_metric(metric.name, |name| record.metrics.contains_key(name))),
            None => Ok(()),
        }
    }

    fn no_metric(&self, metric: &str, has: impl Fn(&str) -> bool) -> ExplainError {
        let metrics = self.scenario.metrics.iter().filter(|name| has(name)).cloned().collect();
        ExplainError::NoMetric { metric: metric.into(), scenario: self.scenario.name.clone(), metrics }
    }

    /// Both kernels and what differs; checks everything that can be checked before the first run.
    fn sides(&self) -> Result<Sides, ExplainError> {
        for metric in &self.metrics {
            if !self.scenario.metrics.iter().any(|name| name == metric.name) {
                return Err(self.no_metric(metric.name, |_| true));
            }
        }
        let sides = self.between(&self.from, &self.to, self.grain)?;
        if sides.players.is_empty() {
            return Err(ExplainError::NothingDiffers { from: self.from.clone(), to: self.to.clone() });
        }
        Ok(sides)
    }

    /// The kernel that has a name.
    fn side(&self, name: &str) -> Result<Side, ScenarioError> {
        Side::of(&self.scenario, &self.trees, name)
    }

    fn between(&self, from: &str, to: &str, grain: Grain) -> Result<Sides, ExplainError> {
        Ok(Sides::new(self.side(from)?, self.side(to)?, grain))
    }

    /// What cannot act in either kernel.
    fn cannot_act(&self, sides: &Sides) -> Result<CannotAct, ExplainError> {
        let seed = self.seeds.first().copied().unwrap_or_default();
        let [from, to] = [self.run(&sides.from.name, seed)?, self.run(&sides.to.name, seed)?];
        Ok(CannotAct::of([&from, &to]))
    }

    /// Makes all runs that the answer needs, by `make`.
    pub fn answer<'a, E: From<ExplainError>>(&'a self, make: &'a mut Make<'a, E>) -> Result<Answer, E> {
        let sides = self.sides()?;
        let cannot_act = self.cannot_act(&sides)?;
        let mut measurements = Measurements::new(self, SameKernels::new(&cannot_act, &sides.from), make);
        let cannot: Players = sides.all().iter().filter(|&at| cannot_act.has(&sides.players[at])).collect();
        let idle = self.idle(&sides, sides.all().but(cannot), &mut measurements)?;
        let game = Game::new(self, &sides, cannot.or(idle));
        let walk = Walk::new(&sides, &mut measurements)?;
        let mut found = Vec::new();
        for metric in &self.metrics {
            found.push(walk.find(self, metric, &cannot_act, &mut measurements)?);
        }
        let of_steps: Vec<String> = found.iter().flat_map(|found| found.kernels()).collect();
        let of_steps = with_all_seeds(self, &of_steps);
        measurements.need_each(Stage::Shares, game.runs().into_iter().chain(of_steps))?;
        let explained = self.metrics.iter().zip(&found);
        let explanations = explained
            .map(|(metric, found)| self.explain(metric, &game, &walk, found, &measurements))
            .collect();
        let of = |players: Players| players.iter().map(|player| sides.players[player].clone()).collect();
        let [from, to] = [sides.from.name.clone(), sides.to.name.clone()];
        Ok(Answer {
            by: self.grain,
            seeds: self.seeds.clone(),
            method: Method::of(self.seeds.len()),
            sharing: game.sharing(),
            runs: measurements.runs(),
            cannot_act: of(cannot),
            idle: of(idle),
            releases_that_cannot_act: walk.same_as_before(),
            explanations,
            ends: [&from, &to].into_iter().flat_map(|end| measurements.of_kernel(end)).collect(),
            from,
            to,
        })
    }

    /// Those of the `acting` players that change nothing at all with the first seed.
    fn idle<E: From<ExplainError>>(
        &self,
        sides: &Sides,
        acting: Players,
        measurements: &mut Measurements<E>,
    ) -> Result<Players, E> {
        let Some(&first) = self.seeds.first() else { return Ok(Players::NONE) };
        let (from, to) = (&sides.from.name, &sides.to.name);
        let alone = |player| sides.kernel(Players::NONE.with(player));
        let mut runs = with_all_seeds(self, &[from.clone(), to.clone()]);
        runs.extend(acting.iter().map(|player| (alone(player), first)));
        measurements.need_each(Stage::Kernels, runs)?;
        let does_nothing = |player: &usize| measurements.are_equal([from, &alone(*player)], first);
        let mut idle: Players = acting.iter().filter(does_nothing).collect();
        if change_nothing(idle, sides, first, measurements)? {
            return Ok(idle);
        }
        let without = |player| sides.kernel(sides.all().without(player));
        measurements.need_each(Stage::Idle, idle.iter().map(|player| (without(player), first)))?;
        idle = idle.iter().filter(|&player| measurements.are_equal([to, &without(player)], first)).collect();
        Ok(if change_nothing(idle, sides, first, measurements)? { idle } else { Players::NONE })
    }

    /// What a metric does between both kernels; all runs are there.
    fn explain<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        game: &Game,
        walk: &Walk,
        found: &walk::Found,
        measurements: &Measurements<E>,
    ) -> Explanation {
        let [from, to] = walk.ends();
        let step = |kernels: &[String]| Step {
            from: kernels[0].clone(),
            to: kernels[kernels.len() - 1].clone(),
            kernels: kernels[1..].to_vec(),
            change: measurements.moved(metric, from, [&kernels[0], &kernels[kernels.len() - 1]]),
        };
        let most = |change: &walk::FoundChange| Most {
            step: step(&change.step),
            by: change.by.clone(),
            change: measurements.moved(metric, from, [&change.without, &change.with]),
        };
        Explanation {
            metric: *metric,
            from: measurements.mean(metric, from),
            to: measurements.mean(metric, to),
            change: measurements.moved(metric, from, [from, to]),
            steps: found.parts.iter().map(|kernels| step(kernels)).collect(),
            search: found.search.clone(),
            most: found.change.as_ref().map(most),
            players: game.effects(metric, measurements),
        }
    }
}

/// Whether some players together change nothing in the old kernel, and nothing in the new one when they are taken away, with a seed.
fn change_nothing<E: From<ExplainError>>(
    players: Players,
    sides: &Sides,
    seed: u64,
    measurements: &mut Measurements<E>,
) -> Result<bool, E> {
    if players == Players::NONE {
        return Ok(true);
    }
    let (with, without) = (sides.kernel(players), sides.kernel(sides.all().but(players)));
    measurements.need_each(Stage::Idle, [&with, &without].map(|kernel| (kernel.clone(), seed)))?;
    let (from, to) = (&sides.from.name, &sides.to.name);
    Ok(measurements.are_equal([from, &with], seed) && measurements.are_equal([to, &without], seed))
}

#[cfg(test)]
mod tests;
