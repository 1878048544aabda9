//! Sweeps: which values of settings to choose for a fleet, what they gain for certain, and what they cost.
//!
//! ```text
//!   file.rs, command line                                    how it goes on
//!     fleet   workloads x machines, weights      fleet.rs    ┌──────────────────────────────────────────┐
//!     over    keys with ranges and lists         space.rs ──►│ plan.rs  points, rungs: seeds for each    │
//!     goals, constraints                         goals.rs    └───────────────────┬──────────────────────┘
//!                                                                                ▼
//!   results directory ◄── runs, long ones first (queue.rs), a shard of them ◄── tasks of a rung ◄─┐
//!        │                                                                       │                │ the best go on
//!        └──► measurements.rs ──────────────────────────────────────────────► gains ──────────────┘
//!                                                                                │ the best point
//!                                                                                ▼
//!   other seeds, of the default and that point only ──► recommendation.rs ──► answer, sysctl file (on_machine.rs)
//! ```
//!
//! Whoever tries a hundred points and takes the best has been lucky with it: on the seeds that chose it, it looks better than it is. So seeds
//! are of two kinds. Seeds 1 to N choose; the gain that is told, with its interval, comes from the seeds after them, on which only the
//! default and the chosen point run (a held-out sample). If the gain is not there on those, the recommendation is to keep the default.
//!
//! Everything is a function of results: which points there are, which go on, which is chosen. So nothing is noted but the runs themselves,
//! each in its file in the results directory. A sweep that was killed goes on where it was when the same command is given again, any number
//! of processes may each make a shard of the runs, and all of them come to the same answer, bit by bit. If the runs of a stage are not all
//! there, because other shards have not made theirs, there is no answer yet.
//!
//! What it does not do: it sets nothing on any machine, and it searches no space but the one that was given. Its gains are those of the twin;
//! the answer says what the scenarios were checked against, and what to measure to refute it.

mod effects;
mod error;
pub mod file;
pub mod fleet;
pub mod goals;
mod measurements;
pub mod on_machine;
pub mod plan;
pub mod queue;
mod recommendation;
pub mod space;

pub use effects::Effect;
pub use error::SweepError;
pub use measurements::{Measured, Task};
pub use recommendation::{
    Answer, ConstraintResult, Cost, GoalResult, Holds, MemberResult, MemberSummary, PointResult,
    Recommendation, Trial, Verdict, Why,
};

use crate::scenario::ScenarioError;
use fleet::Fleet;
use goals::{Constraint, Direction, Goal, Measure, Pairs, gains, measure};
use measurements::{Cell, Measurements};
use plan::{Design, Method, Rung, Time, rungs};
use sim::Run;
use sim::metric::Metric;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// A sweep to be made; [`Sweep::check`] says whether it can be.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub fleet: Fleet,
    pub design: Design,
    pub method: Method,
    /// What is to become better.
    pub goals: Vec<Goal>,
    pub constraints: Vec<Constraint>,
    /// Seeds 1 to this number choose.
    pub seeds: u32,
    /// As many seeds after those say what the choice gains.
    pub held_out: u32,
    /// The least relative change that matters.
    pub at_least: f64,
    /// Whether the first rung of halving may run a part of the virtual time.
    pub shorten: Shorten,
}

/// Whether runs of the first rung may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shorten {
    IfPossible,
    Never,
}

/// What runs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A rung of the search, from 1 on, of so many.
    Search { rung: usize, of: usize },
    /// The default and the chosen point with other seeds.
    HeldOut,
}

impl Stage {
    /// What the display says before each run.
    pub fn name(self) -> String {
        match self {
            Stage::Search { of: 1, .. } => "search".into(),
            Stage::Search { rung, of } => format!("search {rung}/{of}"),
            Stage::HeldOut => "held out".into(),
        }
    }
}

/// Runs that a stage takes, at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub stage: Stage,
    /// The runs where they are known before others have ended; of later stages one of each member stands for all.
    pub tasks: Vec<Task>,
    pub runs: usize,
}

/// Makes runs and returns what they measured in their order; none if some of them are for other shards to make.
pub type Make<'a, E> = dyn FnMut(Stage, &[Task]) -> Result<Option<Vec<Measured>>, E> + 'a;

/// How good a point is on some seeds.
#[derive(Clone, Debug, PartialEq)]
struct Judged {
    /// Of each goal, the mean gain of the fleet.
    gains: Vec<f64>,
    /// How far constraints are violated, in sum.
    violation: f64,
    /// Values that differ from the default, in sum over the members.
    changed: usize,
}

/// Runs so far, and who makes more.
struct Making<'s, 'm, E> {
    sweep: &'s Sweep,
    measurements: Measurements,
    make: &'m mut Make<'m, E>,
}

impl<E: From<SweepError>> Making<'_, '_, E> {
    /// Has those of some runs made that are not there yet; false if some of them are for others to make.
    fn need(&mut self, stage: Stage, tasks: BTreeSet<Task>) -> Result<bool, E> {
        let tasks: Vec<Task> = tasks.into_iter().filter(|task| !self.measurements.has(task)).collect();
        if tasks.is_empty() {
            return Ok(true);
        }
        let Some(measured) = (self.make)(stage, &tasks)? else { return Ok(false) };
        for (task, measured) in tasks.into_iter().zip(measured) {
            self.sweep.check_metrics(task.member, &measured)?;
            self.measurements.add(task, measured);
        }
        Ok(true)
    }
}

impl Sweep {
    /// Refuses goals and constraints that no member, or not every member, can have.
    pub fn check(&self) -> Result<(), SweepError> {
        goals::check_together(&self.constraints)?;
        let scenarios = || self.fleet.members.iter().map(|member| &member.scenario);
        for goal in &self.goals {
            if let (Goal::Metric(metric, direction), true) =
                (goal, scenarios().all(|scenario| goal.of(scenario).is_none()))
            {
                let list = direction.list();
                return Err(SweepError::NoMember { list, metric: metric.name.into(), of: self.names() });
            }
        }
        for Constraint { metric, .. } in &self.constraints {
            if !scenarios().any(|scenario| scenario.may_measure(metric)) {
                let list = "constraints";
                return Err(SweepError::NoMember { list, metric: metric.name.into(), of: self.names() });
            }
        }
        for member in &self.fleet.members {
            if self.goals.iter().all(|goal| goal.of(&member.scenario).is_none()) {
                return Err(SweepError::NoGoal { member: member.name.clone() });
            }
        }
        Ok(())
    }

    fn names(&self) -> String {
        self.fleet.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The run of a task.
    pub fn run(&self, task: &Task) -> Result<Run, ScenarioError> {
        self.fleet.run(task.member, &task.levels, task.seed, task.time)
    }

    /// The metrics of a member that an answer needs.
    pub fn wanted(&self, member: usize) -> BTreeSet<&'static str> {
        let scenario = &self.fleet.members[member].scenario;
        let others = scenario.directed_metrics().chain(scenario.kills());
        self.needed(member).chain(others).map(|metric| metric.name).collect()
    }

    /// Constraints that nobody has to ask for: a setting under which more processes are killed is no gain, unless somebody says of a
    /// program how many may be.
    fn implied(&self) -> impl Iterator<Item = &Constraint> {
        let is_asked =
            |metric: &Metric| self.constraints.iter().any(|asked| asked.metric.name == metric.name);
        self.fleet.no_more_kills().iter().filter(move |constraint| !is_asked(&constraint.metric))
    }

    /// What goals and constraints of a member are about.
    fn needed(&self, member: usize) -> impl Iterator<Item = Metric> {
        let scenario = &self.fleet.members[member].scenario;
        let goals = self.goals.iter().filter_map(|goal| goal.of(scenario)).map(|(metric, _)| metric);
        let limits = self.constraints.iter().map(|constraint| constraint.metric);
        goals.chain(limits.filter(|metric| scenario.may_measure(metric)))
    }

    /// Refuses a run that lacks what a goal or a constraint is about.
    fn check_metrics(&self, member: usize, measured: &Measured) -> Result<(), SweepError> {
        match self.needed(member).find(|metric| !measured.metrics.contains_key(metric.name)) {
            Some(metric) => Err(SweepError::NotMeasured {
                metric: metric.name.into(),
                member: self.fleet.members[member].name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The rungs of the search.
    fn rungs(&self) -> Vec<Rung> {
        let may_shorten = self.method == Method::Halving
            && self.shorten == Shorten::IfPossible
            && !self.constraints.iter().any(Constraint::is_absolute);
        let first = if may_shorten { self.fleet.shortest() } else { Time::Whole };
        rungs(self.method, self.design.points.len(), self.seeds, first)
    }

    fn seeds_held_out(&self) -> RangeInclusive<u64> {
        let first = u64::from(self.seeds) + 1;
        first..=u64::from(self.seeds) + u64::from(self.held_out)
    }

    /// What a point, or the default, is for a member.
    fn cell(&self, member: usize, point: Option<usize>, time: Time) -> Cell {
        let levels = point.map(|point| self.fleet.levels(member, &self.design.points[point]));
        let is_one = self.fleet.is_one_recording(member);
        Cell { member, levels: levels.unwrap_or_default(), time, is_one }
    }

    /// The runs of the default and of some points with some seeds.
    fn tasks(&self, points: &[usize], seeds: &RangeInclusive<u64>, time: Time) -> BTreeSet<Task> {
        let mut tasks = BTreeSet::new();
        for point in std::iter::once(None).chain(points.iter().copied().map(Some)) {
            for member in 0..self.fleet.members.len() {
                let cell = self.cell(member, point, time);
                tasks.extend(seeds.clone().map(|seed| cell.task(seed)));
            }
        }
        tasks
    }

    /// What the stages take at most, each the runs that those before it have not made.
    pub fn planned(&self) -> Vec<Planned> {
        let rungs = self.rungs();
        let all: Vec<usize> = (0..self.design.points.len()).collect();
        let mut planned: Vec<Planned> = Vec::new();
        for (at, rung) in rungs.iter().enumerate() {
            let stage = Stage::Search { rung: at + 1, of: rungs.len() };
            let known = match at.checked_sub(1).map(|before| rungs[before]) {
                Some(before) if before.time == rung.time => before.seeds,
                _ => 0,
            };
            let tasks = match at {
                0 => self.tasks(&all, &(1..=u64::from(rung.seeds)), rung.time).into_iter().collect(),
                _ => self.tasks(&[], &(1..=1), rung.time).into_iter().collect::<Vec<_>>(),
            };
            let runs = match at {
                0 => tasks.len(),
                _ => (rung.points + 1) * self.new_runs(known, rung.seeds),
            };
            planned.push(Planned { stage, tasks, runs });
        }
        let tasks = self.tasks(&[], &(1..=1), Time::Whole).into_iter().collect();
        let runs = 2 * self.new_runs(self.seeds, self.seeds + self.held_out);
        planned.push(Planned { stage: Stage::HeldOut, tasks, runs });
        planned
    }

    /// How many runs of a point seeds up to `to` add where those up to `from` are there: of a member that has one recording, every seed is the
    /// same run.
    fn new_runs(&self, from: u32, to: u32) -> usize {
        let of_member = |member| match self.fleet.is_one_recording(member) {
            true => usize::from(from == 0),
            false => (to - from) as usize,
        };
        (0..self.fleet.members.len()).map(of_member).sum()
    }

    /// The values of a goal's metric, of the default and of a point, for each member that has it.
    fn pairs(
        &self,
        measurements: &Measurements,
        goal: &Goal,
        point: Option<usize>,
        seeds: &RangeInclusive<u64>,
        time: Time,
    ) -> Vec<(usize, Pairs)> {
        let of_member = |member: usize| {
            let (metric, direction) = goal.of(&self.fleet.members[member].scenario)?;
            let values = |point| measurements.values(&self.cell(member, point, time), seeds, metric.name);
            let weight = self.fleet.members[member].weight;
            Some((member, Pairs { weight, direction, default: values(None)?, point: values(point)? }))
        };
        (0..self.fleet.members.len()).filter_map(of_member).collect()
    }

    /// How good a point is on some seeds; all its runs are there.
    fn judge(
        &self,
        all: &Measurements,
        point: Option<usize>,
        seeds: &RangeInclusive<u64>,
        time: Time,
    ) -> Judged {
        let gain = |goal: &Goal| {
            let pairs: Vec<Pairs> =
                self.pairs(all, goal, point, seeds, time).into_iter().map(|(_, of)| of).collect();
            crate::statistics::mean(&gains(&pairs, self.measure(goal, &pairs)))
        };
        let violations = self.limited(all, point, seeds, time).into_iter().map(|limited| limited.violation);
        let changed = (0..self.fleet.members.len()).map(|member| self.cell(member, point, time).levels.len());
        Judged {
            gains: self.goals.iter().map(gain).collect(),
            violation: violations.sum(),
            changed: changed.sum(),
        }
    }

    fn measure(&self, goal: &Goal, pairs: &[Pairs]) -> Measure {
        measure(goal, &pairs.iter().map(|of| of.default.clone()).collect::<Vec<_>>())
    }

    /// Every constraint for every member that has its metric, those that are implied where it is not 0.
    fn limited(
        &self,
        all: &Measurements,
        point: Option<usize>,
        seeds: &RangeInclusive<u64>,
        time: Time,
    ) -> Vec<Limited<'_>> {
        let mut limited = Vec::new();
        let asked = self.constraints.len();
        for (at, constraint) in self.constraints.iter().chain(self.implied()).enumerate() {
            for member in 0..self.fleet.members.len() {
                let mean = |point| {
                    let values =
                        all.values(&self.cell(member, point, time), seeds, constraint.metric.name)?;
                    Some(crate::statistics::mean(&values))
                };
                if let (Some(value), Some(default)) = (mean(point), mean(None))
                    && (at < asked || value != 0.0 || default != 0.0)
                {
                    let violation = constraint.violation(value, default);
                    limited.push(Limited { constraint, member, default, value, violation });
                }
            }
        }
        limited
    }

    /// Makes all runs that the answer needs, by `make`; none if some of them are for other shards to make.
    pub fn answer<'a, E: From<SweepError>>(&'a self, make: &'a mut Make<'a, E>) -> Result<Option<Answer>, E> {
        let mut making = Making { sweep: self, measurements: Measurements::default(), make };
        let rungs = self.rungs();
        let mut left: Vec<usize> = (0..self.design.points.len()).collect();
        let mut judged: Vec<Option<(Rung, Judged)>> = vec![None; left.len()];
        let mut of_first = Vec::new();
        for (at, rung) in rungs.iter().enumerate() {
            let seeds = 1..=u64::from(rung.seeds);
            let stage = Stage::Search { rung: at + 1, of: rungs.len() };
            if !making.need(stage, self.tasks(&left, &seeds, rung.time))? {
                return Ok(None);
            }
            for &point in &left {
                judged[point] =
                    Some((*rung, self.judge(&making.measurements, Some(point), &seeds, rung.time)));
            }
            let now: Vec<&Judged> = left.iter().filter_map(|&at| Some(&judged[at].as_ref()?.1)).collect();
            if at == 0 {
                of_first = now.iter().map(|judged| judged.gains.clone()).collect();
            }
            let order = best_first(&now);
            if let Some(next) = rungs.get(at + 1) {
                left = order.into_iter().take(next.points).map(|at| left[at]).collect();
                left.sort();
            }
        }
        let judged: Vec<(Rung, Judged)> = judged.into_iter().flatten().collect();
        let default = self.judge(&making.measurements, None, &(1..=u64::from(self.seeds)), Time::Whole);
        let choice = choose(&judged, &left, &default);
        if let Some(point) = choice.point
            && !making.need(Stage::HeldOut, self.tasks(&[point], &self.seeds_held_out(), Time::Whole))?
        {
            return Ok(None);
        }
        Ok(Some(self.conclude(&making.measurements, &of_first, &judged, &choice)))
    }
}

/// A constraint for a member, with the value that it has.
struct Limited<'s> {
    constraint: &'s Constraint,
    member: usize,
    /// The mean with the default.
    default: f64,
    value: f64,
    violation: f64,
}

/// The positions of points, those first that keep all constraints, with the best gains; of several goals those that no other dominates. Of
/// points that are as good, those first that change least: every value that is not the default has to be explained to somebody.
fn best_first(judged: &[&Judged]) -> Vec<usize> {
    let gains: Vec<Vec<f64>> = judged.iter().map(|judged| judged.gains.clone()).collect();
    let (front, merits) = (goals::front(&gains), goals::merits(&gains));
    let mut order: Vec<usize> = (0..judged.len()).collect();
    let violation = |at: usize| judged[at].violation;
    order.sort_by(|&a, &b| {
        let by_violation = violation(a).total_cmp(&violation(b));
        let by_gain = by_violation.then(front[b].cmp(&front[a])).then(merits[b].total_cmp(&merits[a]));
        by_gain.then(judged[a].changed.cmp(&judged[b].changed))
    });
    order
}

/// The point that the search chose, and which of those that were left no other dominates.
struct Choice {
    point: Option<usize>,
    /// The best, or if none keeps all constraints the one that misses them least.
    nearest: Option<usize>,
    why_none: Why,
    front: Vec<usize>,
}

/// Chooses among the points that are left after the last rung.
fn choose(judged: &[(Rung, Judged)], left: &[usize], default: &Judged) -> Choice {
    let allowed: Vec<usize> = left.iter().copied().filter(|&at| judged[at].1.violation == 0.0).collect();
    let of_allowed: Vec<&Judged> = allowed.iter().map(|&at| &judged[at].1).collect();
    let gains: Vec<Vec<f64>> = of_allowed.iter().map(|judged| judged.gains.clone()).collect();
    let is_on_front = goals::front(&gains);
    let front = allowed.iter().zip(is_on_front).filter(|(_, is)| *is).map(|(&at, _)| at).collect();
    let best = best_first(&of_allowed).first().map(|&at| allowed[at]);
    // Where the default breaks a constraint, something has to change even if it gains nothing.
    let must_change = default.violation > 0.0;
    let gains_something = |at: &usize| must_change || judged[*at].1.gains.iter().any(|gain| *gain > 0.0);
    let point = best.filter(gains_something);
    let why_none = if best.is_none() { Why::NoneAllowed } else { Why::NoneBetter };
    let of_left: Vec<&Judged> = left.iter().map(|&at| &judged[at].1).collect();
    let nearest = best_first(&of_left).first().map(|&at| left[at]);
    Choice { point, nearest, why_none, front }
}

/// Whether a difference of a metric, by its sign, is a gain.
fn is_gain(direction: Direction, difference: f64) -> bool {
    direction.sign() * difference > 0.0
}

#[cfg(test)]
mod tests;
