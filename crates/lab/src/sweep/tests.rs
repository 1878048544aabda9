//! Sweeps over objectives whose truth is known: what is chosen, how far it can be trusted, and that it does not matter who made the runs.

use super::goals::Goal;
use super::on_machine::Chosen;
use super::plan::{Shard, Size};
use super::space::Axis;
use super::*;
use crate::experiment::varied::Varied;
use crate::results::Record;
use crate::scenario::{Scenario, load_machine};
use crate::statistics;
use fleet::{Levels, Member, axis};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use sim::host::HostProgram;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use twox_hash::XxHash64;
use workload::page_trace::PageTrace;
use workload::tasks::ProgramSpec;

fn member(scenario: &str, weight: f64) -> Member {
    let scenario = Scenario::load(scenario).unwrap();
    Member {
        name: scenario.name.clone(),
        machine: load_machine(&scenario.machine).unwrap(),
        variant: scenario.variants[0].clone(),
        tree: None,
        changes: BTreeMap::new(),
        weight,
        scenario,
    }
}

/// The keys of a design with their values.
fn axes(over: &[Axis], design: &Design) -> Result<Vec<Varied>, SweepError> {
    let of = |(over, values): (&Axis, &Vec<String>)| {
        axis::<SweepError>(&over.key, values, &|name| Ok(load_machine(name)?))
    };
    over.iter().zip(&design.values).map(of).collect()
}

fn sweep_of(members: Vec<Member>, over: &[&str], method: Method, seeds: u32) -> Sweep {
    let goal = Goal::parse("score", Direction::Maximize).unwrap();
    sweep_for(goal, members, over, method, seeds)
}

fn sweep_for(goal: Goal, members: Vec<Member>, over: &[&str], method: Method, seeds: u32) -> Sweep {
    let over: Vec<Axis> = over.iter().map(|text| Axis::parse(text).unwrap()).collect();
    let design = Design::new(&over, method, Size { points: 8, samples: None }).unwrap();
    let axes = axes(&over, &design).unwrap();
    let sweep = Sweep {
        fleet: Fleet::new(members, axes).unwrap(),
        design,
        method,
        goals: vec![goal],
        constraints: Vec::new(),
        seeds,
        held_out: 8,
        at_least: 0.01,
        shorten: Shorten::Never,
    };
    sweep.check().unwrap();
    sweep
}

/// 8 by 8 points.
const OVER: [&str; 2] = ["vm.stat_interval=2..512", "vm.percpu_pagelist_high_fraction=8..1024"];

fn sweep(method: Method, seeds: u32) -> Sweep {
    sweep_of(vec![member("page_fault1", 1.0)], &OVER, method, seeds)
}

/// A number from a standard normal distribution that belongs to whatever is hashed.
fn normal(of: impl Hash) -> f64 {
    let mut hasher = XxHash64::with_seed(0);
    of.hash(&mut hasher);
    StandardNormal.sample(&mut Pcg64Mcg::seed_from_u64(hasher.finish()))
}

/// An objective: what each point gains in truth, and how far runs are from that.
#[derive(Clone, Copy)]
struct Objective {
    trial: u64,
    /// The deviation of a run from what its seed has in common with others.
    noise: f64,
}

impl Objective {
    /// Smooth, with the best at a place that the trial says, and a ripple.
    fn gain(&self, levels: &Levels) -> f64 {
        if levels.is_empty() {
            return 0.0;
        }
        let place = |axis: usize| 3.5 + 2.0 * normal((self.trial, axis, "place"));
        let away =
            levels.iter().map(|&(axis, level)| ((level as f64 - place(axis)) / 4.0).powi(2)).sum::<f64>();
        0.12 - 0.1 * away + 0.01 * normal((self.trial, levels))
    }

    fn value(&self, task: &Task) -> f64 {
        let common = 1.0 + 0.05 * normal((self.trial, task.seed));
        let own = 1.0 + self.noise * normal((self.trial, task.seed, task.member, &task.levels));
        1000.0 * common * own * (1.0 + self.gain(&task.levels))
    }

    fn measured(&self, task: &Task) -> Measured {
        let metrics = [
            ("score", self.value(task)),
            ("zone_lock", 1.0),
            ("alloc_p99", 100.0 + 10.0 * task.levels.len() as f64),
        ];
        Measured {
            metrics: metrics.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            virtual_seconds: 0.4,
        }
    }

    fn answer(&self, sweep: &Sweep) -> Answer {
        let mut make = |_: Stage, tasks: &[Task]| {
            Ok::<_, SweepError>(Some(tasks.iter().map(|task| self.measured(task)).collect()))
        };
        sweep.answer(&mut make).unwrap().unwrap()
    }

    /// What the chosen point of an answer gains in truth; nothing if there is none.
    fn truth(&self, sweep: &Sweep, chosen: &[Chosen]) -> f64 {
        let level = |(axis, chosen): (usize, &Chosen)| {
            (axis, sweep.design.values[axis].iter().position(|value| *value == chosen.value).unwrap())
        };
        self.gain(&chosen.iter().enumerate().map(level).collect())
    }

    fn best(&self, sweep: &Sweep) -> f64 {
        let gain = |point: &Vec<usize>| self.gain(&point.iter().copied().enumerate().collect());
        sweep.design.points.iter().map(gain).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// How often the interval of the gain has the truth, of so many trials.
fn coverage(held_out: u32, trials: u64) -> f64 {
    let sweep = Sweep { held_out, ..sweep(Method::Grid, 3) };
    let holds = |trial: u64| {
        let objective = Objective { trial, noise: 0.02 };
        let recommendation = objective.answer(&sweep).recommendation;
        let interval = recommendation.goals.first()?.change.ratio_interval?;
        let truth = 1.0 + objective.truth(&sweep, &recommendation.chosen);
        Some(interval.low <= truth && truth <= interval.high)
    };
    let told: Vec<bool> = (0..trials).filter_map(holds).collect();
    told.iter().filter(|holds| **holds).count() as f64 / told.len() as f64
}

/// A kernel leaves NUMA balancing off on one node, so 1 is what differs there.
#[test]
fn what_differs_is_judged_by_the_default_of_the_machine() {
    let over = ["kernel.numa_balancing=0,1"];
    for (scenario, default, differs) in [("working-set-shift-1g", "0", 1), ("numa01", "1", 0)] {
        let sweep = sweep_of(vec![member(scenario, 1.0)], &over, Method::Grid, 3);
        assert_eq!(sweep.fleet.default_of(0), Some(default), "{scenario}");
        assert_eq!(sweep.fleet.levels(0, &[differs]), [(0, differs)], "{scenario}");
        assert_eq!(sweep.fleet.levels(0, &[1 - differs]), [], "{scenario}");
    }
}

#[test]
fn the_interval_has_the_truth_as_often_as_it_says() {
    let coverage = coverage(8, 600);
    println!("Student's t over 8 held-out seeds: {:.1} % of 600 trials", 100.0 * coverage);
    assert!((0.92..=0.98).contains(&coverage), "{coverage}");
}

/// On the seeds that chose it, the best of 64 points has been lucky; on the others it has not.
#[test]
fn the_seeds_that_choose_promise_too_much() {
    let sweep = sweep(Method::Grid, 3);
    let (mut promised, mut told) = (Vec::new(), Vec::new());
    for trial in 0..100 {
        let objective = Objective { trial, noise: 0.04 };
        let answer = objective.answer(&sweep);
        // In few trials no point is better than the default.
        let Some(goal) = answer.recommendation.goals.first() else { continue };
        let truth = objective.truth(&sweep, &answer.recommendation.chosen);
        let best = answer.points.iter().map(|point| point.gains[0]).fold(f64::NEG_INFINITY, f64::max);
        promised.push(best - truth);
        told.push(goal.change.ratio.unwrap() - 1.0 - truth);
    }
    let (promised, told) = (statistics::mean(&promised), statistics::mean(&told));
    assert!(promised > 0.01 && told.abs() < 0.006, "promised {promised}, told {told}");
}

#[test]
fn halving_finds_nine_tenths_of_what_a_grid_finds_with_a_quarter_of_the_runs() {
    let (grid, halving) = (sweep(Method::Grid, 8), sweep(Method::Halving, 8));
    let (mut runs, mut closed) = ([0, 0], [0.0, 0.0]);
    let mut trials = 0;
    for trial in 0..100 {
        let objective = Objective { trial, noise: 0.02 };
        let best = objective.best(&grid);
        if best < 0.05 {
            continue;
        }
        trials += 1;
        for (at, sweep) in [&grid, &halving].into_iter().enumerate() {
            let answer = objective.answer(sweep);
            runs[at] += answer.runs;
            closed[at] += objective.truth(sweep, &answer.recommendation.chosen) / best;
        }
    }
    let [of_grid, of_halving] = closed.map(|closed| closed / f64::from(trials));
    println!(
        "{trials} trials: grid {of_grid:.3} in {} runs, halving {of_halving:.3} in {}",
        runs[0], runs[1]
    );
    assert!(trials > 50 && 4 * runs[1] <= runs[0], "{trials} trials, {runs:?} runs");
    assert!(of_halving >= 0.9 * of_grid && of_halving >= 0.9, "{of_grid} {of_halving}");
}

#[test]
fn shards_come_to_the_answer_of_one_process() {
    for method in [Method::Grid, Method::Halving] {
        let (sweep, objective) = (sweep(method, 4), Objective { trial: 1, noise: 0.02 });
        let whole = objective.answer(&sweep);
        let mut store: BTreeMap<Task, Measured> = BTreeMap::new();
        // Each shard makes its part of a stage, and goes on where all parts are there; the last of a round sees them all.
        for round in 0.. {
            assert!(round < 10, "the stages never end");
            let mut answers = Vec::new();
            for part in 1..=3 {
                let shard = Shard { part, of: 3 };
                let mut make = |_: Stage, tasks: &[Task]| {
                    for (at, task) in tasks.iter().enumerate().filter(|(at, _)| shard.has(*at)) {
                        assert!(at < tasks.len());
                        store.entry(task.clone()).or_insert_with(|| objective.measured(task));
                    }
                    let all: Option<Vec<Measured>> =
                        tasks.iter().map(|task| store.get(task).cloned()).collect();
                    Ok::<_, SweepError>(all)
                };
                answers.push(sweep.answer(&mut make).unwrap());
            }
            if let Some(Some(answer)) = answers.pop() {
                assert_eq!(answer, whole);
                assert_eq!(store.len(), whole.runs, "no run was made twice or for nothing");
                break;
            }
        }
    }
}

#[test]
fn what_gains_nothing_is_not_recommended() {
    let sweep = sweep_of(vec![member("page_fault1", 1.0)], &["vm.stat_interval=2,4,8"], Method::Grid, 3);
    let flat = |value: fn(&Task) -> f64| {
        let mut make = move |_: Stage, tasks: &[Task]| {
            let of = |task: &Task| {
                let metrics = [
                    ("score".to_string(), value(task)),
                    ("alloc_p99".to_string(), 10.0 + task.levels.len() as f64),
                ];
                Measured { metrics: metrics.into(), virtual_seconds: 1.0 }
            };
            Ok::<_, SweepError>(Some(tasks.iter().map(of).collect()))
        };
        sweep.answer(&mut make).unwrap().unwrap().recommendation
    };
    let none = flat(|_| 5.0);
    assert_eq!((none.verdict, none.why, none.chosen.len()), (Verdict::KeepDefault, Why::NoneBetter, 0));
    let small = flat(|task| if task.levels.is_empty() { 1000.0 } else { 1001.0 });
    assert_eq!((small.verdict, small.why), (Verdict::KeepDefault, Why::TooSmall));
    let lucky = flat(|task| if task.levels.is_empty() { 1000.0 } else { 1000.0 + 100.0 * normal(task.seed) });
    assert!(matches!(lucky.why, Why::MayBeChance | Why::NoneBetter), "{:?}", lucky.why);
    let gains = flat(|task| if task.levels.is_empty() { 1000.0 } else { 1100.0 });
    assert_eq!((gains.verdict, gains.why), (Verdict::Set, Why::Gains));
    assert_eq!(gains.costs.len(), 1, "the latency that gets worse: {:?}", gains.costs);
    assert_eq!(gains.chosen[0].default.as_deref(), Some("1"));
}

#[test]
fn constraints_are_kept_on_both_kinds_of_seeds() {
    let mut sweep = sweep(Method::Grid, 3);
    sweep.constraints = vec![Constraint::parse("alloc_p99 <= 115 ns").unwrap()];
    let objective = Objective { trial: 3, noise: 0.01 };
    // Every point of the grid has 120 ns, the default 100 ns.
    let answer = objective.answer(&sweep);
    assert_eq!(answer.recommendation.why, Why::NoneAllowed);
    assert!(answer.points.iter().all(|point| !point.allowed && !point.on_front));
    sweep.constraints = vec![Constraint::parse("alloc_p99 <= +25 %").unwrap()];
    assert_eq!(objective.answer(&sweep).recommendation.why, Why::Gains);
    sweep.constraints = vec![Constraint::parse("alloc_p99 >= 110 ns").unwrap()];
    assert_eq!(objective.answer(&sweep).recommendation.why, Why::KeepsConstraints);
}

#[test]
fn a_setting_that_a_member_does_not_heed_costs_no_run_there() {
    let members = vec![member("page_fault1", 1.0), member("streaming-vs-hot", 3.0)];
    let sweep = sweep_of(members, &["vm.dirty_ratio=10,20,40"], Method::Grid, 3);
    let planned = sweep.planned();
    // The loop has no files, and 20 is the default of the other: three runs of one, three times three of the other.
    assert_eq!(planned[0].runs, 3 + 9);
    let answer = Objective { trial: 5, noise: 0.01 }.answer(&sweep);
    let members = &answer.recommendation.goals[0].members;
    assert_eq!((members[0].holds, members[0].change.difference), (Holds::Same, 0.0));
    assert_ne!(members[1].holds, Holds::Same);
}

#[test]
fn of_several_goals_there_is_a_front() {
    let mut sweep = sweep(Method::Grid, 3);
    sweep.goals.push(Goal::parse("alloc_p50", Direction::Minimize).unwrap());
    let mut make = |_: Stage, tasks: &[Task]| {
        let of = |task: &Task| {
            let level =
                |axis: usize| task.levels.iter().find(|of| of.0 == axis).map_or(0.0, |of| of.1 as f64);
            // What the first key gains of one goal it takes from the other; the second only costs.
            let score = 1000.0 + 10.0 * level(0) - level(1);
            let latency = 100.0 - 3.0 * (7.0 - level(0)) + level(1);
            let latency = if task.levels.is_empty() { 100.0 } else { latency };
            let metrics = [("score".to_string(), score), ("alloc_p50".to_string(), latency)];
            Measured { metrics: metrics.into(), virtual_seconds: 1.0 }
        };
        Ok::<_, SweepError>(Some(tasks.iter().map(of).collect()))
    };
    let answer = sweep.answer(&mut make).unwrap().unwrap();
    let front: Vec<&PointResult> = answer.points.iter().filter(|point| point.on_front).collect();
    assert_eq!(front.len(), 8, "one of each value of the first key");
    assert!(front.iter().all(|point| point.values["vm.percpu_pagelist_high_fraction"] == "8"));
    assert_eq!(answer.recommendation.why, Why::Gains);
    assert!(answer.recommendation.goals.iter().all(|goal| goal.holds == Holds::Better));
}

#[test]
fn a_gain_by_killing_is_none() {
    let kills_at_first = |constraints: &[&str]| {
        let mut sweep =
            sweep_of(vec![member("shared-host", 1.0)], &["vm.swappiness=0,60,100"], Method::Grid, 3);
        sweep.constraints = constraints.iter().map(|text| Constraint::parse(text).unwrap()).collect();
        let mut make = |_: Stage, tasks: &[Task]| {
            let of = |task: &Task| {
                let (score, killed) = match task.levels.first() {
                    None => (1000.0, 0.0),
                    Some((_, 0)) => (2000.0, 1.0),
                    Some(_) => (1100.0, 0.0),
                };
                let metrics =
                    [("score".to_string(), score), ("processes_killed@database".to_string(), killed)];
                Measured { metrics: metrics.into(), virtual_seconds: 1.0 }
            };
            Ok::<_, SweepError>(Some(tasks.iter().map(of).collect()))
        };
        sweep.answer(&mut make).unwrap().unwrap()
    };
    let chosen = |answer: &Answer| answer.recommendation.chosen[0].value.clone();
    let answer = kills_at_first(&[]);
    assert_eq!(chosen(&answer), "100");
    assert_eq!(answer.constraints, ["no more processes killed than by default"]);
    // Unless somebody says how many may be.
    assert_eq!(chosen(&kills_at_first(&["processes_killed@database <= 1"])), "0");
}

#[test]
fn what_no_workload_has_is_refused() {
    let mut sweep = sweep(Method::Grid, 3);
    sweep.goals = vec![Goal::parse("mem_shared", Direction::Maximize).unwrap()];
    assert!(sweep.check().unwrap_err().to_string().contains("mem_shared: no workload here"));
    let refused = |members: Vec<Member>, over: &str| {
        let over = [Axis::parse(over).unwrap()];
        let design = Design::new(&over, Method::Grid, Size { points: 3, samples: None }).unwrap();
        axes(&over, &design).and_then(|axes| Fleet::new(members, axes)).unwrap_err().to_string()
    };
    let page_fault = || vec![member("page_fault1", 1.0)];
    assert!(refused(page_fault(), "vm.dirty_ratio=10,40").contains("does not heed"));
    assert!(refused(page_fault(), "vm.stat_interval=1").contains("nothing but the default"));
    assert!(refused(page_fault(), "vm.swapiness=1,2").contains("do you mean vm.swappiness?"));
    assert!(refused(page_fault(), "workload.nothing=1").contains("--over workload.nothing"));
    assert!(refused(page_fault(), "scenario=kbuild").contains("[[fleet]]"));
    let mut set = page_fault();
    set[0].changes.insert("vm.stat_interval".into(), "3".into());
    assert!(
        refused(set, "vm.stat_interval=1,2").contains("--over vm.stat_interval: it has a fixed value too")
    );
}

/// A build of a hundred jobs on a large machine: a run of some 20 ms, in which chance moves the gain.
const SMALL_BUILD: &str = "name = 'small-build'\ndescription = 'd'\nevidence = 'e'\nmachine = 'intel-2s-224'\nvariants = ['6.6']\nseeds = 3\n\
     metrics = ['build_time']\n[workload]\nkind = 'host'\nmilliseconds = 60000\n[[workload.programs]]\nname = 'build'\n\
     [workload.programs.program]\nkind = 'kernel-build'\njobs = 56\nunits = 120\nintensity = { value = 2, source = 'made up' }\n";

/// Sweeps of a scenario with seeds of their own: how often the interval of the gain has the truth, which many more seeds tell.
#[test]
fn the_interval_has_the_truth_on_the_twin() {
    let trials = std::env::var("MMTWIN_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(12);
    let scenario = Scenario::parse("small-build", SMALL_BUILD).unwrap();
    let member = Member { variant: "6.6".into(), scenario, ..member("page_fault1", 1.0) };
    let over = ["vm.percpu_pagelist_high_fraction=8,64,512"];
    let goal = Goal::parse("build_time", Direction::Minimize).unwrap();
    let sweep = sweep_for(goal, vec![member], &over, Method::Grid, 3);
    let measured = |task: &Task| {
        let run = sweep.run(task).unwrap();
        let outcome = sim::run(&run).unwrap();
        Measured::of(&Record::new(String::new(), &run, &outcome), &sweep.wanted(task.member))
    };
    let later = |task: &Task, by: u64| Task { seed: task.seed + by, ..task.clone() };
    let answer = |trial: u64| {
        let mut make = |_: Stage, tasks: &[Task]| {
            Ok::<_, SweepError>(Some(tasks.iter().map(|task| measured(&later(task, 100 * trial))).collect()))
        };
        sweep.answer(&mut make).unwrap().unwrap().recommendation
    };
    let told: Vec<Recommendation> = (0..trials).into_par_iter().map(answer).collect();
    // The truth: the mean of pairs with seeds that no trial has.
    let value = |levels: &Levels, seed: u64| {
        let task = Task { member: 0, levels: levels.clone(), time: Time::Whole, seed };
        measured(&task).metrics["build_time"]
    };
    let seeds: Vec<u64> = (0..40 * trials.min(50)).map(|seed| 1_000_000 + seed).collect();
    let mean = |levels: Levels| {
        let values: Vec<f64> = seeds.par_iter().map(|&seed| value(&levels, seed)).collect();
        statistics::mean(&values)
    };
    let level = |of: &Recommendation| {
        sweep.design.values[0].iter().position(|value| *value == of.chosen[0].value).unwrap()
    };
    let chosen: BTreeSet<usize> = told.iter().map(level).collect();
    let default = mean(Vec::new());
    let truths: BTreeMap<usize, f64> =
        chosen.into_iter().map(|level| (level, mean(vec![(0, level)]) / default)).collect();
    let holds = |of: &Recommendation| {
        let (truth, interval) = (truths[&level(of)], of.goals.first()?.change.ratio_interval?);
        Some(interval.low <= truth && truth <= interval.high)
    };
    let held = told.iter().filter_map(holds).filter(|holds| *holds).count();
    println!("Student's t over 8 held-out seeds: the truth in {held} of {trials} trials; truths {truths:?}");
    let least = if trials >= 100 { 92 } else { 75 };
    assert!(100 * held as u64 >= least * trials, "{held} of {trials}");
}

#[test]
fn a_replay_is_one_recording_where_no_cost_has_a_spread() {
    let trace = PageTrace { trace: "build.parquet".into(), copies: 1, stagger_us: 0 };
    let mut member = member("page_fault1", 1.0);
    member.scenario.workload.programs = vec![HostProgram::new("trace", ProgramSpec::PageTrace(trace))];
    (member.machine.costs.take_spread.value, member.machine.costs.put_spread.value) = (0.0, 0.0);
    assert!(member.is_one_recording() && member.recordings().is_none());
    member.machine.costs.put_spread.value = 0.1;
    assert!(!member.is_one_recording());
}

#[test]
fn of_one_recording_a_plan_counts_one_run_whatever_the_seeds() {
    let members = vec![member("redis-snapshot", 1.0), member("streaming-vs-hot", 1.0)];
    let sweep = sweep_of(members, &["vm.swappiness=10,60"], Method::Halving, 6);
    let runs: Vec<usize> = sweep.planned().iter().map(|planned| planned.runs).collect();
    let [first, .., held_out] = runs.as_slice() else { panic!("{runs:?}") };
    let seeds = sweep.rungs()[0].seeds as usize;
    // The default and another value: one run each of the recording, whose gain is known then, and all seeds of the other.
    assert_eq!((*first, *held_out), (2 * (1 + seeds), 2 * 8));
}
