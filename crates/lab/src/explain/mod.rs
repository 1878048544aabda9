//! What moved a metric between two kernels: the release, the change, and the share of everything that differs.
//!
//! ```text
//!   6.6 ────────────────────────── 6.12        build time: 206 s ─► 150 s
//!    │  releases (bisect.rs)         │          6.7 moved it most; halving its changes finds which
//!    │                               │
//!    ├─ + pcp  ─► 151 s              │          each player alone on the old kernel            (players.rs)
//!    │             151 s ─► 206 s ◄ - pcp       each taken away from the new one
//!    └─ sets of players, orders ─────┘          shares that add up to the difference           (shapley.rs)
//! ```
//!
//! A difference of two kernels is a game: its players are what changed, a set of players is the old kernel with their changes, and its
//! worth is the metric that this kernel measures. Alone and taken away are the two ends of what a player can do. A share is the average
//! over all orders in which the changes could have been merged, and shares add up to the whole difference, which the other two do not
//! where changes replace or need one another.
//!
//! **Who changes nothing.** Most of what changed between two kernels a scenario never gets to see, and every player more doubles the
//! sets. So each is tried alone with the first seed. Those after which all metrics, times and counters are the same to the last bit are
//! then put into the old kernel together and taken away from the new one together, with every seed. If these are the same as without,
//! the players are idle: their share is zero, and they leave the game. If not, those stay idle of which the first seed says the same
//! when they are taken away one by one. What a set in the middle does is not tried; whoever does something only there, beside some
//! players and without others, is taken for idle.
//!
//! **Intervals.** A share is computed for each seed by itself, and its interval is that of a mean over pairs of the same seed, as
//! `compare` has it ([`crate::statistics`]). Where orders are drawn, each seed draws its own, so that the interval covers what
//! the drawn orders leave open too. Everything is relative to the old kernel's mean, so that shares, steps and the whole difference can
//! be added.

mod bisect;
mod measurements;
mod players;
pub mod shapley;

pub use measurements::Make;
pub use players::{FeatureChange, Grain, Player};

use crate::results::Record;
use crate::scenario::{Scenario, ScenarioError};
use crate::statistics::{Change, Method, holm, mean};
use machine::Profile;
use measurements::{Measurements, moved_by};
use players::{Side, Sides};
use schemars::JsonSchema;
use serde::Serialize;
use shapley::Players;
use sim::metric::{Better, Metric};
use sim::{Run, TreeKernel, name_and_features};
use std::collections::BTreeMap;
use thiserror::Error;

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
    /// The releases between the two kernels.
    Releases,
    /// Each player alone on the old kernel.
    Alone,
    /// Players that seem to change nothing, together.
    Idle,
    /// Sets of players, for shares.
    Shares,
    /// Halving the changes of a release.
    Halving,
}

impl Stage {
    /// The stage in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Releases => "releases",
            Stage::Alone => "each alone",
            Stage::Idle => "idle ones",
            Stage::Shares => "shares",
            Stage::Halving => "halving",
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
    /// Players that change nothing at all.
    pub idle: Vec<Player>,
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
    /// From release to release; empty if the kernels are not both releases.
    pub steps: Vec<Step>,
    /// The change that moved it most, in the release that did; none if nothing moved.
    pub most: Option<Most>,
    /// The players that are not idle, those with the largest share first.
    pub players: Vec<Effect>,
}

/// From one kernel to the next.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Step {
    pub from: String,
    pub to: String,
    pub change: Change,
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
    let metrics: Vec<Metric> = scenario.metrics.iter().filter_map(|name| Metric::find(name)).collect();
    let directed = metrics.iter().find(|metric| metric.better != Better::Neutral);
    directed.or(metrics.first()).copied()
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

    fn between(&self, from: &str, to: &str, grain: Grain) -> Result<Sides, ExplainError> {
        let side = |name| Side::of(&self.scenario, &self.trees, name);
        Ok(Sides::new(side(from)?, side(to)?, grain))
    }

    /// The kernels from the old to the new one, with all releases between two releases.
    fn walk(&self, sides: &Sides) -> Vec<String> {
        let (from, to) = (&sides.from.name, &sides.to.name);
        let releases = bisect::releases(from, to);
        let between = releases.get(1..releases.len().saturating_sub(1)).unwrap_or_default();
        let between = between.iter().map(|release| release.to_string());
        [from.clone()].into_iter().chain(between).chain([to.clone()]).collect()
    }

    /// Makes all runs that the answer needs, by `make`.
    pub fn answer<'a, E: From<ExplainError>>(&'a self, make: &'a mut Make<'a, E>) -> Result<Answer, E> {
        let sides = self.sides()?;
        let mut measurements = Measurements::new(self, make);
        let walk = self.walk(&sides);
        measurements.need(Stage::Releases, &walk)?;
        let idle = self.idle(&sides, &mut measurements)?;
        let game = Game::new(self, &sides, idle);
        measurements.need_each(Stage::Shares, game.runs())?;
        let mut explanations = Vec::new();
        for metric in &self.metrics {
            explanations.push(self.explain(metric, &game, &walk, &mut measurements)?);
        }
        Ok(Answer {
            from: sides.from.name.clone(),
            to: sides.to.name.clone(),
            by: self.grain,
            seeds: self.seeds.clone(),
            method: Method::of(self.seeds.len()),
            sharing: game.sharing(),
            runs: measurements.runs(),
            idle: idle.iter().map(|player| sides.players[player].clone()).collect(),
            explanations,
            ends: [&sides.from.name, &sides.to.name]
                .into_iter()
                .flat_map(|end| measurements.of_kernel(end))
                .collect(),
        })
    }

    /// The players that change nothing at all.
    fn idle<E: From<ExplainError>>(
        &self,
        sides: &Sides,
        measurements: &mut Measurements<E>,
    ) -> Result<Players, E> {
        let Some(&first) = self.seeds.first() else { return Ok(Players::NONE) };
        let alone = |player| sides.kernel(Players::NONE.with(player));
        measurements.need_each(Stage::Alone, sides.all().iter().map(|player| (alone(player), first)))?;
        let (from, to) = (&sides.from.name, &sides.to.name);
        let does_nothing = |player: &usize| measurements.are_equal([from, &alone(*player)], first);
        let mut idle: Players = sides.all().iter().filter(does_nothing).collect();
        if self.change_nothing(idle, sides, measurements)? {
            return Ok(idle);
        }
        let without = |player| sides.kernel(sides.all().without(player));
        measurements.need_each(Stage::Idle, idle.iter().map(|player| (without(player), first)))?;
        idle = idle.iter().filter(|&player| measurements.are_equal([to, &without(player)], first)).collect();
        Ok(if self.change_nothing(idle, sides, measurements)? { idle } else { Players::NONE })
    }

    /// Whether some players together change nothing in the old kernel, and nothing in the new one when they are taken away.
    fn change_nothing<E: From<ExplainError>>(
        &self,
        players: Players,
        sides: &Sides,
        measurements: &mut Measurements<E>,
    ) -> Result<bool, E> {
        if players == Players::NONE {
            return Ok(true);
        }
        let (with, without) = (sides.kernel(players), sides.kernel(sides.all().but(players)));
        measurements.need(Stage::Idle, &[with.clone(), without.clone()])?;
        let (from, to) = (&sides.from.name, &sides.to.name);
        Ok(self.seeds.iter().all(|&seed| {
            measurements.are_equal([from, &with], seed) && measurements.are_equal([to, &without], seed)
        }))
    }

    fn explain<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        game: &Game,
        walk: &[String],
        measurements: &mut Measurements<E>,
    ) -> Result<Explanation, E> {
        let [from, to] = [&walk[0], &walk[walk.len() - 1]];
        let mut steps: Vec<Step> = walk
            .windows(2)
            .map(|pair| Step {
                from: pair[0].clone(),
                to: pair[1].clone(),
                change: measurements.moved(metric, from, [&pair[0], &pair[1]]),
            })
            .collect();
        let lengths: Vec<f64> = steps.iter().map(|step| step.change.difference).collect();
        let longest = bisect::longest(&lengths).filter(|&longest| lengths[longest] != 0.0);
        let most = match longest {
            Some(longest) => self.most(metric, steps[longest].clone(), from, measurements)?,
            None => None,
        };
        if bisect::releases(from, to).is_empty() {
            steps.clear();
        }
        Ok(Explanation {
            metric: *metric,
            from: measurements.mean(metric, from),
            to: measurements.mean(metric, to),
            change: measurements.moved(metric, from, [from, to]),
            steps,
            most,
            players: game.effects(metric, measurements),
        })
    }

    /// What moved a metric most in a step, found by halving its changes.
    fn most<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        step: Step,
        base: &str,
        measurements: &mut Measurements<E>,
    ) -> Result<Option<Most>, E> {
        let sides = self.between(&step.from, &step.to, Grain::Change)?;
        let kernel = |place: usize| sides.kernel(Players::all(place));
        let mut value = |place: usize| {
            measurements.need(Stage::Halving, &[kernel(place)])?;
            Ok::<f64, E>(measurements.mean(metric, &kernel(place)))
        };
        let found = bisect::halve(sides.players.len(), &mut value)?;
        let Some(by) = sides.players.get(found).cloned() else { return Ok(None) };
        let change = measurements.moved(metric, base, [&kernel(found), &kernel(found + 1)]);
        Ok(Some(Most { step, by, change }))
    }
}

/// The game of the players that are not idle.
struct Game<'a> {
    question: &'a Question,
    sides: &'a Sides,
    idle: Players,
    active: Players,
    /// By seed; none if all sets are taken.
    orders: Option<Vec<Vec<Vec<usize>>>>,
}

impl<'a> Game<'a> {
    /// All sets are taken where that is no more than the orders that are asked for would come to.
    fn new(question: &'a Question, sides: &'a Sides, idle: Players) -> Game<'a> {
        let active = sides.all().but(idle);
        let count = active.count();
        let of_orders = question.orders.saturating_mul(count.saturating_sub(1)).saturating_add(2);
        let are_few = count < usize::BITS as usize && 1 << count <= of_orders;
        let draw = |&seed: &u64| shapley::orders(active, question.orders, seed);
        let orders = (!are_few).then(|| question.seeds.iter().map(draw).collect());
        Game { question, sides, idle, active, orders }
    }

    fn sharing(&self) -> Sharing {
        match self.orders {
            Some(_) => Sharing::Sampled { orders: self.question.orders },
            None => Sharing::Exact,
        }
    }

    /// The kernel of a set of players. Idle ones go with the majority, which makes its name shorter.
    fn kernel(&self, set: Players) -> String {
        let with_idle = 2 * set.count() > self.active.count() || set == self.active;
        self.sides.kernel(if with_idle { set.or(self.idle) } else { set })
    }

    /// All runs that the effects of players need.
    fn runs(&self) -> Vec<(String, u64)> {
        let ends =
            self.active.iter().flat_map(|player| [Players::NONE.with(player), self.active.without(player)]);
        let ends: Vec<Players> = ends.collect();
        let of_seed = |(at, &seed): (usize, &u64)| {
            let mut sets: Vec<Players> = ends.clone();
            match &self.orders {
                Some(orders) => sets.extend(shapley::sets(&orders[at])),
                None => sets.extend(self.active.subsets()),
            }
            sets.into_iter().map(|set| (self.kernel(set), seed)).collect::<Vec<_>>()
        };
        self.question.seeds.iter().enumerate().flat_map(of_seed).collect()
    }

    /// What each player does to a metric, the largest share first.
    fn effects<E: From<ExplainError>>(&self, metric: &Metric, measurements: &Measurements<E>) -> Vec<Effect> {
        let (from, to) = (&self.sides.from.name, &self.sides.to.name);
        let base = measurements.values(metric, from);
        let whole = measurements.mean(metric, to) - mean(&base);
        let shares = self.shares(metric, measurements);
        let mut effects: Vec<Effect> = self
            .active
            .iter()
            .enumerate()
            .map(|(at, player)| {
                let of_player: Vec<f64> = shares.iter().map(|of_seed| of_seed[at]).collect();
                let share = moved_by(&base, &of_player);
                let alone = self.kernel(Players::NONE.with(player));
                let without = self.kernel(self.active.without(player));
                Effect {
                    player: self.sides.players[player].clone(),
                    alone: measurements.moved(metric, from, [from, &alone]),
                    taken_away: measurements.moved(metric, from, [to, &without]),
                    share,
                    part: (whole != 0.0).then(|| share.difference / whole),
                    adjusted_p_value: None,
                }
            })
            .collect();
        let p_values: Option<Vec<f64>> = effects.iter().map(|effect| effect.share.p_value).collect();
        for (effect, adjusted) in effects.iter_mut().zip(p_values.iter().flat_map(|p_values| holm(p_values)))
        {
            effect.adjusted_p_value = Some(adjusted);
        }
        let size = |effect: &Effect| effect.share.difference.abs();
        effects.sort_by(|a, b| size(b).total_cmp(&size(a)));
        effects
    }

    /// The shares of all players, by seed.
    fn shares<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        measurements: &Measurements<E>,
    ) -> Vec<Vec<f64>> {
        let of_seed = |(at, &seed): (usize, &u64)| {
            let worth = |set: Players| measurements.value(metric, &self.kernel(set), seed);
            match &self.orders {
                Some(orders) => shapley::sampled(self.active, &orders[at], &worth),
                None => shapley::exact(self.active, &worth),
            }
        };
        self.question.seeds.iter().enumerate().map(of_seed).collect()
    }
}

#[cfg(test)]
mod tests;
