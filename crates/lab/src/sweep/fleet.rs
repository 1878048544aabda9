//! The fleet of a sweep: workloads on machines, each with a weight, and what a point of the space is for each of them.
//!
//! ```text
//!   point    vm.swappiness=60   transparent_hugepage/enabled=never   vm.stat_interval=10
//!   kbuild        ─ default           ─ not heeded                        10              ─► arm [(2, 1)]
//!   redis         ─ default                never                        ─ not heeded      ─► arm [(1, 0)]
//! ```
//!
//! On a real machine every member of a fleet gets a setting, whether its workload heeds it or not. So what a member does not heed, and what is
//! its default anyway, is left out of its arm: points that are the same for a member have the same arm there, and its runs are made once.

use super::SweepError;
use super::goals::Constraint;
use super::plan::Time;
use crate::experiment::varied::{Arm, Level, Varied, arms};
use crate::scenario::{Scenario, ScenarioError};
use machine::Profile;
use mm::SETTINGS;
use sim::boot::default_settings;
use sim::metric::Metric;
use sim::{Run, TreeKernel, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// A workload on a machine with a kernel.
#[derive(Clone, Debug)]
pub struct Member {
    /// What tables call it; no two members have the same.
    pub name: String,
    pub scenario: Scenario,
    pub machine: Profile,
    pub variant: String,
    /// The kernel tree that the variant takes decisions from, if it takes any.
    pub tree: Option<TreeKernel>,
    /// Settings in addition to the scenario's.
    pub changes: BTreeMap<String, String>,
    /// How much it counts, against the other members.
    pub weight: f64,
}

/// What a member runs with: the value, by its position, of each key (by its position) that makes a difference to it.
pub type Levels = Vec<(usize, usize)>;

impl Member {
    /// How many recordings there are, if seeds select one and chance has no other part: seeds from 1 to that number.
    pub fn recordings(&self) -> Option<usize> {
        self.scenario.workload.recordings()
    }

    /// Whether every seed is the same run: there is one recording, and of traces alone no cost of the machine has a spread.
    pub(super) fn is_one_recording(&self) -> bool {
        let costs = &self.machine.costs;
        let has_spread = costs.take_spread.value != 0.0 || costs.put_spread.value != 0.0;
        self.recordings() == Some(1) || self.scenario.workload.is_of_traces() && !has_spread
    }

    /// Refuses a member that cannot run as it is.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.run(&[], 1, Time::Whole).map(|_| ())
    }

    /// The run of this member with some values of keys.
    fn run(&self, varied: &[Varied], seed: u64, time: Time) -> Result<Run, ScenarioError> {
        let mut scenario = self.scenario.clone();
        if time == Time::Quarter {
            shorten(&mut scenario.workload);
        }
        let base = Arm {
            name: String::new(),
            scenario,
            machine: self.machine.clone(),
            variant: String::new(),
            changes: self.changes.clone(),
            levels: Vec::new(),
        };
        let arms = arms(&base, std::slice::from_ref(&self.variant), varied)?;
        let arm = arms.first().unwrap_or(&base);
        arm.scenario.run_of(&arm.variant, self.tree.as_ref(), seed, &arm.machine, &arm.changes)
    }

    /// The value of a setting by default, as it is written to its file; none of other keys.
    fn default_of(&self, key: &str, default: &Run) -> Option<String> {
        let setting = SETTINGS.iter().find(|setting| setting.name == key)?;
        let own = default.settings.get(key).cloned();
        own.or_else(|| setting.value(&default_settings(&self.machine)))
    }
}

fn shorten(workload: &mut Workload) {
    workload.milliseconds = (workload.milliseconds / 4).max(1);
}

/// The members, and what each value of each key is for them.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub members: Vec<Member>,
    axes: Vec<Varied>,
    /// By member, key and value: whether it is another run than the default.
    differs: Vec<Vec<Vec<bool>>>,
    /// By member and key: the default of a setting.
    defaults: Vec<Vec<Option<String>>>,
    /// By member: whether every seed is the same run.
    is_one_recording: Vec<bool>,
    /// Of every program: that no more of its processes are killed than by default.
    no_more_kills: Vec<Constraint>,
}

/// For the programs of all members, each once.
fn no_more_kills(members: &[Member]) -> Vec<Constraint> {
    let kills = members.iter().flat_map(|member| member.scenario.kills());
    let by_name: BTreeMap<&str, Metric> = kills.map(|metric| (metric.name, metric)).collect();
    by_name.into_values().map(Constraint::no_more).collect()
}

impl Fleet {
    /// Checks every value of every key for every member. `axes` are the keys with the values of a design.
    pub fn new(members: Vec<Member>, axes: Vec<Varied>) -> Result<Fleet, SweepError> {
        // On another machine seeds may matter.
        let is_machine_varied = axes.iter().any(|axis| axis.key.split('.').next() == Some("machine"));
        let is_one_recording =
            members.iter().map(|member| member.is_one_recording() && !is_machine_varied).collect();
        let no_more_kills = no_more_kills(&members);
        let (differs, defaults) = (Vec::new(), Vec::new());
        let mut fleet = Fleet { members, axes, differs, defaults, is_one_recording, no_more_kills };
        for member in &fleet.members {
            crate::experiment::check_name(&member.scenario)?;
            if let Some(axis) = fleet.axes.iter().find(|axis| member.changes.contains_key(&axis.key)) {
                return Err(SweepError::SetTwice { key: axis.key.clone() });
            }
            let default = member.run(&[], 1, Time::Whole)?;
            let defaults: Vec<_> =
                fleet.axes.iter().map(|axis| member.default_of(&axis.key, &default)).collect();
            let differs: Result<Vec<Vec<bool>>, SweepError> = fleet
                .axes
                .iter()
                .zip(&defaults)
                .map(|(axis, default)| differ(member, axis, default))
                .collect();
            fleet.differs.push(differs?);
            fleet.defaults.push(defaults);
        }
        for (at, axis) in fleet.axes.iter().enumerate() {
            if fleet.differs.iter().all(|member| member[at].iter().all(|differs| !differs)) {
                return Err(fleet.without_effect(axis));
            }
        }
        Ok(fleet)
    }

    /// Why no value of a key makes a difference to any member.
    fn without_effect(&self, axis: &Varied) -> SweepError {
        let refused = |member: &Member| {
            let first = axis.levels.first()?;
            member.run(&[one(axis, first)], 1, Time::Whole).err()
        };
        match self.members.iter().find_map(refused) {
            Some(error) => SweepError::Value { key: axis.key.clone(), error: Box::new(error.into()) },
            None => SweepError::OnlyDefault { key: axis.key.clone() },
        }
    }

    /// Whether every seed is the same run of a member.
    pub fn is_one_recording(&self, member: usize) -> bool {
        self.is_one_recording[member]
    }

    /// Of every program: that no more of its processes are killed than by default.
    pub(super) fn no_more_kills(&self) -> &[Constraint] {
        &self.no_more_kills
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.key.as_str())
    }

    /// The value of a key that a point has.
    pub fn value(&self, axis: usize, level: usize) -> &str {
        &self.axes[axis].levels[level].value
    }

    /// The default of a setting where all members have the same.
    pub fn default_of(&self, axis: usize) -> Option<&str> {
        let defaults: BTreeSet<Option<&str>> = self.defaults.iter().map(|of| of[axis].as_deref()).collect();
        match defaults.into_iter().collect::<Vec<_>>()[..] {
            [one] => one,
            _ => None,
        }
    }

    /// What a point is for a member.
    pub fn levels(&self, member: usize, point: &[usize]) -> Levels {
        let differs = |&(axis, level): &(usize, usize)| self.differs[member][axis][level];
        point.iter().copied().enumerate().filter(differs).collect()
    }

    /// The run of a member.
    pub fn run(&self, member: usize, levels: &Levels, seed: u64, time: Time) -> Result<Run, ScenarioError> {
        let varied: Vec<Varied> = levels
            .iter()
            .map(|&(axis, level)| one(&self.axes[axis], &self.axes[axis].levels[level]))
            .collect();
        self.members[member].run(&varied, seed, time)
    }

    /// A quarter of the virtual time where the results of all members are rates over it, or else the whole.
    pub fn shortest(&self) -> Time {
        let can = |member: &Member| member.run(&[], 1, Time::Quarter).is_ok();
        if self.members.iter().all(can) { Time::Quarter } else { Time::Whole }
    }
}

/// A key with its values of a design.
pub fn axis<E: From<ScenarioError> + From<SweepError>>(
    key: &str,
    values: &[String],
    load_machine: &dyn Fn(&str) -> Result<Profile, E>,
) -> Result<Varied, E> {
    match key {
        "scenario" => Err(SweepError::ScenarioIsNoKey.into()),
        _ => Varied::of(key, values, load_machine),
    }
}

/// A key with one value.
fn one(axis: &Varied, level: &Level) -> Varied {
    Varied { key: axis.key.clone(), levels: vec![level.clone()] }
}

/// By value of a key, whether it is another run than the default of a member. What a member does not heed is not.
fn differ(member: &Member, axis: &Varied, default: &Option<String>) -> Result<Vec<bool>, SweepError> {
    let differs = |level: &Level| match member.run(&[one(axis, level)], 1, Time::Whole) {
        Ok(_) => Ok(default.as_deref() != Some(level.value.as_str())),
        Err(ScenarioError::NotApplicable { .. }) => Ok(false),
        Err(ScenarioError::UnknownKey { .. }) if axis.key.starts_with("workload.") => Ok(false),
        Err(error) => Err(SweepError::Value { key: axis.key.clone(), error: Box::new(error.into()) }),
    };
    axis.levels.iter().map(differs).collect()
}
