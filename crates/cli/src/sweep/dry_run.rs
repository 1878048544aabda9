//! `mmtwin sweep --dry-run`: how many runs a sweep takes, how long they take and how much memory.
//!
//! Nobody can tell how long a simulation takes but by making it. So one run of each workload is made, the default with seed 1, one after the
//! other; it is kept, as the sweep needs it too.

use super::Arguments;
use crate::failure::Failure;
use crate::runner::watch;
use crate::table::Grid;
use crate::terminal;
use lab::experiment::{ExperimentError, make_or_get};
use lab::sweep::plan::Time;
use lab::sweep::{Planned, Sweep, Task};
use std::collections::BTreeMap;
use std::time::Instant;

/// A run of a workload.
#[derive(Clone, Copy, Default)]
struct Took {
    seconds: f64,
    /// The most memory that the process had meanwhile; none where the kernel does not say.
    mib: Option<u64>,
}

/// What a run took, by member and part of the time.
type Tried = BTreeMap<(usize, Time), Took>;

/// Says what a sweep takes.
pub fn execute(sweep: &Sweep, arguments: &Arguments) -> Result<(), Failure> {
    let planned = sweep.planned();
    let (tried, known) = try_out(sweep, &planned, arguments)?;
    terminal::print(&render(sweep, &planned, arguments, &tried, known))
}

/// Makes a run of each kind. Also returns how many runs of the first stage are there then.
fn try_out(sweep: &Sweep, planned: &[Planned], arguments: &Arguments) -> Result<(Tried, usize), Failure> {
    let kinds: BTreeMap<(usize, Time), Task> = planned
        .iter()
        .flat_map(|planned| &planned.tasks)
        .map(|task| ((task.member, task.time), Task { levels: Vec::new(), seed: 1, ..task.clone() }))
        .collect();
    let watched = watch(kinds.len(), &arguments.sweep, "trial: ", &|results, makers, progress| {
        let again = results.again();
        let trial = |(kind, task): (&(usize, Time), &Task)| {
            let run = sweep.run(task)?;
            forget_peak();
            let began = Instant::now();
            make_or_get(&run, &again, makers, progress)?;
            Ok((*kind, Took { seconds: began.elapsed().as_secs_f64(), mib: peak_mib() }))
        };
        let tried = kinds.iter().map(trial).collect::<Result<Tried, ExperimentError>>()?;
        let first_stage = planned.iter().take(1).flat_map(|planned| &planned.tasks);
        let is_there = |task: &Task| {
            let run = sweep.run(task)?;
            Ok(results.get(&results.describe(&run)?)?.is_some())
        };
        let are_there = first_stage.map(is_there).collect::<Result<Vec<bool>, ExperimentError>>()?;
        Ok((tried, are_there.into_iter().filter(|is_there| *is_there).count()))
    })?;
    Ok(watched.result)
}

fn render(sweep: &Sweep, planned: &[Planned], arguments: &Arguments, tried: &Tried, known: usize) -> String {
    let jobs = arguments.sweep.jobs();
    let mut grid = Grid::new(&["stage", "runs at most", "time, about"]);
    let mut all = 0.0;
    for Planned { stage, tasks, runs } in planned {
        let took = |task: &Task| tried.get(&(task.member, task.time)).copied().unwrap_or_default().seconds;
        let mean = tasks.iter().map(took).sum::<f64>() / tasks.len().max(1) as f64;
        let seconds = mean * *runs as f64 / jobs.min((*runs).max(1)) as f64;
        all += seconds;
        grid.row([stage.name(), runs.to_string(), duration(seconds)]);
    }
    let runs: usize = planned.iter().map(|planned| planned.runs).sum();
    grid.row(["all".into(), runs.to_string(), duration(all)]);
    let (points, members) = (sweep.design.points.len(), sweep.fleet.members.len());
    let mut text = format!(
        "{} {}, {} {}, method {}, {} seeds that choose and {} that tell the gain\n\n{}\n\n",
        points,
        if points == 1 { "point" } else { "points" },
        members,
        if members == 1 { "workload" } else { "workloads" },
        sweep.method.name(),
        sweep.seeds,
        sweep.held_out,
        grid.render()
    );
    let most = tried.values().filter_map(|took| took.mib).max();
    text += &format!(
        "Runs of the first stage that are there already: {known}. With {jobs} jobs on as many free CPUs"
    );
    text += &most.map_or("".into(), |mib| format!(" it takes up to {} MiB of memory", mib * jobs as u64));
    text += ".\nKnown from one run of each:";
    for ((member, time), took) in tried {
        let part = if *time == Time::Quarter { ", a quarter of the time" } else { "" };
        let memory = took.mib.map_or("".into(), |mib| format!(", {mib} MiB"));
        text += &format!("\n  {}{part}: {:.1} s{memory}", sweep.fleet.members[*member].name, took.seconds);
    }
    text
}

fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Has the kernel forget how much memory this process has had at most (proc(5), clear_refs); where it may not, the figure is that of all runs.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// How much memory this process has had at most, in MiB.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib.div_ceil(1024))
}
