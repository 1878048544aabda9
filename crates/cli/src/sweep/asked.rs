//! From the command line, or from a sweep file, to the sweep that is to be made.

use super::Arguments;
use crate::arguments::{self, Asked, present_names};
use crate::compare::RELEVANT;
use crate::failure::Failure;
use crate::kernel;
use crate::terminal;
use lab::experiment::varied::Varied;
use lab::scenario::{Scenario, ScenarioError, one_or_several};
use lab::sweep::file::{MemberSpec, Source, is_sweep};
use lab::sweep::fleet::{Fleet, Member, axis};
use lab::sweep::goals::{Constraint, Direction, Goal, check_together, own_goal};
use lab::sweep::plan::{Design, Method, Size};
use lab::sweep::space::Axis;
use lab::sweep::{Shorten, Sweep, SweepError};
use sim::name_and_features;
use std::path::Path;

/// Values into which a range is split if nobody says how many.
const POINTS: usize = 5;
/// Seeds that tell what the choice gains; with eight, intervals are Student's.
const HELD_OUT: u32 = 8;
/// The least number of seeds that choose: fewer cannot tell points apart.
const SEEDS: u32 = 3;

/// What is asked for, wherever it stands.
struct Wish {
    members: Vec<Member>,
    over: Vec<Axis>,
    method: Method,
    size: Size,
    goals: Vec<Goal>,
    constraints: Vec<Constraint>,
    seeds: Option<u32>,
    held_out: Option<u32>,
    at_least: f64,
    shorten: Shorten,
}

/// What is wrong with a sweep, all of it where it stands in a file, the first of it on a command line.
struct Mistakes {
    source: Option<Source>,
    found: Vec<ScenarioError>,
}

impl Mistakes {
    /// The mistake in a file that a failure is, with the line of this key, given table by table; anything else stays a failure.
    fn in_file(&self, path: &[&str], failure: Failure) -> Result<ScenarioError, Failure> {
        match (failure, &self.source) {
            (Failure::Input(error), Some(source)) => Ok(source.wrong(path, error)),
            (failure, _) => Err(failure),
        }
    }

    /// What there is, or nothing if it is a mistake in a file, which is noted.
    fn take<T>(
        &mut self,
        path: &[&str],
        result: Result<T, impl Into<Failure>>,
    ) -> Result<Option<T>, Failure> {
        match result.map_err(Into::into) {
            Ok(there_is) => Ok(Some(there_is)),
            Err(failure) => {
                let mistake = self.in_file(path, failure)?;
                self.found.push(mistake);
                Ok(None)
            }
        }
    }

    /// The failure that an error about a key is, with the line of that key if it is a mistake in a file.
    fn located(&self, error: SweepError) -> Failure {
        let path: Vec<String> = error.path().into_iter().map(String::from).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        self.in_file(&path, error.into()).map_or_else(|failure| failure, Failure::from)
    }

    /// Refuses what is wrong so far.
    fn refuse(&mut self) -> Result<(), Failure> {
        Ok(one_or_several(std::mem::take(&mut self.found))?)
    }
}

/// The sweep that the arguments ask for.
pub fn sweep(arguments: &Arguments) -> Result<Sweep, Failure> {
    let source = read(arguments.scenario.name())?;
    let mut mistakes = Mistakes { source, found: Vec::new() };
    let wish = match mistakes.source.clone() {
        Some(source) => of_file(arguments, &source, &mut mistakes)?,
        None => of_scenario(arguments)?,
    };
    let design = Design::new(&wish.over, wish.method, wish.size);
    let design = design.map_err(|error| mistakes.located(error))?;
    let mut axes: Vec<Varied> = Vec::new();
    for (Axis { key, .. }, values) in wish.over.iter().zip(&design.values) {
        let found = axis(key, values, &arguments::machine).map_err(of_over);
        axes.extend(mistakes.take(&["over", key], found)?);
    }
    mistakes.refuse()?;
    let own = wish.members.iter().map(|member| member.scenario.seeds).max().unwrap_or(1);
    let seeds = arguments.sweep.seeds.map(|seeds| seeds.get()).or(wish.seeds).unwrap_or(own.max(SEEDS));
    let held_out = wish.held_out.unwrap_or(HELD_OUT);
    let (seeds, held_out) = within_recordings(&wish.members, seeds, held_out);
    let scenarios: Vec<&Scenario> = wish.members.iter().map(|member| &member.scenario).collect();
    let goals = if wish.goals.is_empty() { vec![own_goal(&scenarios)] } else { wish.goals };
    let fleet = Fleet::new(wish.members, axes).map_err(|error| mistakes.located(error))?;
    let sweep = Sweep {
        fleet,
        design,
        method: wish.method,
        goals,
        constraints: wish.constraints,
        seeds,
        held_out,
        at_least: wish.at_least,
        shorten: wish.shorten,
    };
    sweep.check().map_err(|error| mistakes.located(error))?;
    Ok(sweep)
}

/// Seeds that choose and seeds that tell the gain, no more than there are recordings where a seed selects one of several: half of them, at
/// most, choose.
fn within_recordings(members: &[Member], seeds: u32, held_out: u32) -> (u32, u32) {
    let several =
        members.iter().filter_map(|member| member.recordings()).filter(|recordings| *recordings > 1);
    let Some(recordings) = several.min().map(|recordings| recordings as u32) else {
        return (seeds, held_out);
    };
    let seeds = seeds.min(recordings / 2);
    let held_out = held_out.min(recordings - seeds);
    terminal::say(format_args!(
        "note: there are {recordings} recordings of a program: {seeds} of them choose, {held_out} others tell what the choice gains"
    ));
    (seeds, held_out)
}

/// A failure about a key, which is one of `--over` here.
fn of_over(failure: Failure) -> Failure {
    match failure {
        Failure::Input(error) => match error.downcast::<ScenarioError>() {
            Ok(error) => SweepError::from(error).into(),
            Err(error) => Failure::Input(error),
        },
        failure => failure,
    }
}

/// The sweep file of this name; none if it is a scenario, built in or a file.
fn read(name: &str) -> Result<Option<Source>, Failure> {
    if !name.ends_with(".toml") {
        return Ok(None);
    }
    let text = std::fs::read_to_string(name).map_err(|error| Failure::input(format!("{name}: {error}")))?;
    Ok(is_sweep(&text).then(|| Source { place: name.into(), text }))
}

fn goals(minimize: &[String], maximize: &[String]) -> Result<Vec<Goal>, SweepError> {
    let of = |names: &[String], direction| {
        names.iter().map(|name| Goal::parse(name.trim(), direction)).collect::<Result<Vec<_>, _>>()
    };
    let goals = [of(minimize, Direction::Minimize)?, of(maximize, Direction::Maximize)?].concat();
    let repeated = goals.iter().enumerate().find_map(|(at, goal)| {
        let before = goals[..at].iter().find(|other| other.name() == goal.name())?;
        let metric = goal.name().to_string();
        Some(match before == goal {
            true => SweepError::RepeatedGoal { metric },
            false => SweepError::OpposedGoals { metric },
        })
    });
    repeated.map_or(Ok(goals), Err)
}

fn constraints(texts: &[String]) -> Result<Vec<Constraint>, SweepError> {
    texts.iter().map(|text| Constraint::parse(text)).collect()
}

fn shorten(whole_time: bool) -> Shorten {
    if whole_time { Shorten::Never } else { Shorten::IfPossible }
}

fn of_scenario(arguments: &Arguments) -> Result<Wish, Failure> {
    let Asked { scenario, machine, variants, changes, trees } = arguments.scenario.load()?;
    let variants = variants.unwrap_or_else(|| scenario.variants.last().cloned().into_iter().collect());
    let member = |variant: &String| Member {
        name: if variants.len() > 1 {
            format!("{}, {variant}", scenario.name)
        } else {
            scenario.name.clone()
        },
        scenario: scenario.clone(),
        machine: machine.clone(),
        tree: trees.get(name_and_features(variant).0).cloned(),
        variant: variant.clone(),
        changes: changes.clone(),
        weight: 1.0,
    };
    Ok(Wish {
        members: variants.iter().map(member).collect(),
        over: arguments.over.iter().map(|text| Axis::parse(text)).collect::<Result<_, _>>()?,
        method: arguments.method.map(Method::from).unwrap_or_default(),
        size: Size {
            points: arguments.points.map_or(POINTS, |points| points.get()),
            samples: arguments.samples.map(|samples| samples.get()),
        },
        goals: goals(&arguments.minimize, &arguments.maximize)?,
        constraints: constraints(&arguments.subject_to)?,
        seeds: None,
        held_out: arguments.held_out.map(|seeds| seeds.get()),
        at_least: arguments.at_least.unwrap_or(RELEVANT),
        shorten: shorten(arguments.whole_time),
    })
}

fn of_file(arguments: &Arguments, source: &Source, mistakes: &mut Mistakes) -> Result<Wish, Failure> {
    let file = source.parse()?;
    refuse_options(arguments, &source.place)?;
    let directory = Path::new(&source.place).parent().unwrap_or(Path::new(""));
    let mut members: Vec<Member> = Vec::new();
    for (at, spec) in file.fleet.iter().enumerate() {
        members.extend(member(spec, &format!("fleet[{at}]"), directory, mistakes)?);
    }
    tell_apart(&mut members, |_, member| format!("{}, {}", member.name, member.variant));
    tell_apart(&mut members, |at, member| format!("{} ({})", member.name, at + 1));
    let mut over: Vec<Axis> = Vec::new();
    for (key, values) in &file.over.0 {
        over.extend(mistakes.take(&["over", key], Axis::of(key, &values.spec()))?);
    }
    let list = if file.minimize.is_empty() { "maximize" } else { "minimize" };
    let goals = mistakes.take(&[list], goals(&file.minimize, &file.maximize))?;
    let mut constraints: Vec<Constraint> = Vec::new();
    for (at, text) in file.constraints.iter().enumerate() {
        let path = format!("constraints[{at}]");
        constraints.extend(mistakes.take(&[&path], Constraint::parse(text))?);
    }
    mistakes.take(&["constraints"], check_together(&constraints))?;
    mistakes.refuse()?;
    Ok(Wish {
        members,
        over,
        method: file.method,
        size: Size { points: file.points.unwrap_or(POINTS), samples: file.samples },
        goals: goals.unwrap_or_default(),
        constraints,
        seeds: file.seeds,
        held_out: file.held_out,
        at_least: file.at_least.map_or(RELEVANT, |percent| percent / 100.0),
        shorten: shorten(file.whole_time),
    })
}

/// Gives members that have the same name others.
fn tell_apart(members: &mut [Member], longer: impl Fn(usize, &Member) -> String) {
    let plain: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    for (at, member) in members.iter_mut().enumerate() {
        if plain.iter().filter(|name| **name == member.name).count() > 1 {
            member.name = longer(at, member);
        }
    }
}

/// A member of a fleet, whose table is `table`; paths are relative to the sweep file.
fn member(
    spec: &MemberSpec,
    table: &str,
    directory: &Path,
    mistakes: &mut Mistakes,
) -> Result<Option<Member>, Failure> {
    let path = |name: &str| match name.ends_with(".toml") || name.ends_with(".parquet") {
        true => directory.join(name).to_string_lossy().into_owned(),
        false => name.to_string(),
    };
    let Some(scenario) = mistakes.take(&[table, "scenario"], arguments::scenario(&path(&spec.scenario)))?
    else {
        return Ok(None);
    };
    let machine = arguments::machine(&spec.machine.as_deref().map_or(scenario.machine.clone(), path));
    let variant = spec.variant.clone().or(scenario.variants.last().cloned()).unwrap_or_default();
    let variant = present_names(&scenario.series, &[variant]).remove(0);
    let known = scenario.choice(&variant);
    let known = mistakes.take(&[table, "variant"], known)?;
    let Some((machine, _)) = mistakes.take(&[table, "machine"], machine)?.zip(known) else { return Ok(None) };
    let trees = kernel::trees(&scenario.series, std::iter::once(&variant))?;
    let member = Member {
        name: format!("{} on {}", scenario.name, machine.name),
        tree: trees.get(name_and_features(&variant).0).cloned(),
        scenario,
        machine,
        variant,
        changes: spec.settings.clone(),
        weight: spec.weight,
    };
    let checked = member.check();
    Ok(mistakes.take(&[table, "settings"], checked)?.map(|()| member))
}

/// Refuses options that say what a sweep file says.
fn refuse_options(arguments: &Arguments, place: &str) -> Result<(), Failure> {
    let given = [
        ("--over", "[over]", !arguments.over.is_empty()),
        ("--method", "method", arguments.method.is_some()),
        ("--points", "points", arguments.points.is_some()),
        ("--samples", "samples", arguments.samples.is_some()),
        ("--minimize", "minimize", !arguments.minimize.is_empty()),
        ("--maximize", "maximize", !arguments.maximize.is_empty()),
        ("--subject-to", "constraints", !arguments.subject_to.is_empty()),
        ("--held-out", "held_out", arguments.held_out.is_some()),
        ("--at-least", "at_least", arguments.at_least.is_some()),
        ("--whole-time", "whole_time", arguments.whole_time),
        ("--variants", "variant of a member", arguments.scenario.has_variants()),
        ("--machine", "machine of a member", arguments.scenario.has_machine()),
        ("--set or --write", "settings of a member", arguments.scenario.has_changes()),
    ];
    match given.iter().find(|(.., is_given)| *is_given) {
        Some((option, key, _)) => {
            Err(Failure::input(format!("{option}: {place} is a sweep file; write it there, as {key}")))
        }
        None => Ok(()),
    }
}
