//! `mmtwin sweep`: which values of settings to choose, what they gain for certain, and what they cost.
//!
//! ```text
//!   SCENARIO --over ..., FILE.toml ─► asked.rs ─► lab::sweep ─► runs, by stage ─► report.rs: text, JSON, a file for sysctl.d
//!                                                     │              │
//!                                                     └ --dry-run    └ --shard: a part of them
//! ```

pub mod asked;
mod dry_run;
mod report;

use crate::arguments::{ScenarioArguments, SweepArguments, whole};
use crate::completion;
use crate::failure::Failure;
use crate::files::{Contents, Ending, FileArguments};
use crate::json;
use crate::runner::{Made, Watched, watch};
use crate::terminal;
use clap::ValueEnum;
use lab::experiment::{ExperimentError, Makers, Progress, each, make_or_get};
use lab::results::Results;
use lab::sweep::file::{HELD_OUT, POINTS, SAMPLES};
use lab::sweep::plan::{Method, Shard, Time};
use lab::sweep::queue::Queue;
use lab::sweep::{Answer, Measured, Stage, Sweep, Task};
use schemars::JsonSchema;
use serde::Serialize;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const VARIANTS: &str =
    "Variants or releases, separated by commas, each a member of the fleet [default: the scenario's last]";

/// Say which values of settings to choose, what they gain for certain, and what they cost
#[derive(clap::Args)]
#[command(mut_arg("scenario", |scenario| scenario.help("A name from `mmtwin list scenarios`, a .toml file of a scenario, a sweep file, or a trace that `mmtwin record` wrote")))]
#[command(mut_arg("variants", |variants| variants.help(VARIANTS)))]
#[command(after_help = "\
--over gives a key and its values: a list (0,60,100), a range that is split on the setting's own
scale (0..200), in steps (8..64:4), on another scale (1..120:linear, 1..64:log), or all that the
kernel takes (..). Seeds 1 to N choose; what the choice gains is told of the seeds after them, on
which only the default and the choice run. A sweep file (format = 1) has several workloads and
machines, goals and constraints: docs, guide \"Which setting?\". Nothing is set on any machine.

Runs are kept as those of compare are: the same command goes on where it was stopped, and
processes with --shard that share a results directory make a part of the runs each. Without
--shard the same command ends in the answer.

Examples:
  mmtwin sweep page_fault1 --over vm.percpu_pagelist_high_fraction=0,8..512
  mmtwin sweep kbuild --over vm.stat_interval=1..120 --minimize build_time --seeds 5
  mmtwin sweep streaming-vs-hot --over vm.swappiness=0..200 --subject-to 'pswpout <= 10000'
  mmtwin sweep build.parquet --over vm.percpu_pagelist_high_fraction=0,8..512
  mmtwin sweep fleet.toml --dry-run
  mmtwin sweep fleet.toml --shard 17/200 --results /shared/results
  mmtwin sweep fleet.toml -o 90-mmtwin.conf -o fleet.html

-o FILE.conf is the recommendation as a file for /etc/sysctl.d.")]
pub struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,

    /// A key and its values, such as vm.swappiness=0..200; may be given several times
    #[arg(long, value_name = "KEY=SPEC", add = completion::varied())]
    over: Vec<String>,

    /// How points are chosen [default: grid]
    #[arg(long, value_enum)]
    method: Option<MethodName>,

    /// Values into which a range is split [default: 5]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroUsize>(POINTS))]
    points: Option<NonZeroUsize>,

    /// Points that random and halving draw [default: 20; halving takes the grid]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroUsize>(SAMPLES))]
    samples: Option<NonZeroUsize>,

    /// Metrics to make smaller, separated by commas [default: the scenario's first that can be better or worse]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', add = completion::metrics())]
    minimize: Vec<String>,

    /// Metrics to make larger, separated by commas
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', add = completion::metrics())]
    maximize: Vec<String>,

    /// What has to hold, such as 'transaction_p99 <= 2 ms' or, against the default, 'score >= -1 %'; may be given several times
    #[arg(long, value_name = "METRIC <= VALUE", add = completion::metrics())]
    subject_to: Vec<String>,

    /// Seeds after those that choose, which tell what the choice gains [default: 8]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroU32>(HELD_OUT))]
    held_out: Option<NonZeroU32>,

    /// The least change that matters, in percent [default: 1 %]
    #[arg(long, value_name = "PERCENT", value_parser = crate::compare::parse_percent, allow_hyphen_values = true)]
    at_least: Option<f64>,

    /// Run the whole virtual time in the first rung of halving too
    #[arg(long)]
    whole_time: bool,

    /// Make a part of the runs, such as 17/200, and end with the answer only if the others are there
    #[arg(long, value_name = "PART/OF", value_parser = str::parse::<Shard>)]
    shard: Option<Shard>,

    /// Say how many runs it takes, how long and how much memory; makes one run of each workload to know
    #[arg(long, conflicts_with_all = ["shard", "json"])]
    dry_run: bool,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    Grid,
    Zip,
    Random,
    Halving,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Method {
        match name {
            MethodName::Grid => Method::Grid,
            MethodName::Zip => Method::Zip,
            MethodName::Random => Method::Random,
            MethodName::Halving => Method::Halving,
        }
    }
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    results: String,
    #[serde(flatten)]
    answer: &'a Answer,
}

impl json::Document for View<'_> {
    const NAME: &'static str = "sweep";
}

/// Runs the command.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let sweep = asked::sweep(arguments)?;
    let files = arguments.files.check(&[Ending::CHART, &[Ending::Conf]].concat())?;
    if arguments.dry_run {
        return dry_run::execute(&sweep, arguments);
    }
    let mut total = Made::default();
    let mut make = |stage: Stage, tasks: &[Task]| -> Result<Option<Vec<Measured>>, Failure> {
        let making = Making { sweep: &sweep, arguments, stage, tasks };
        let Watched { result, known, seconds } = making.make()?;
        total.add(result.iter().flatten().count(), known, seconds);
        Ok(result.into_iter().collect())
    };
    let answer = sweep.answer(&mut make)?;
    total.say(&arguments.sweep.results);
    let Some(answer) = answer else {
        terminal::say(
            "this shard has made its runs of this stage. Start it again when the others have made theirs: a later stage takes what \
             they found. Without --shard the same command makes what is missing and ends in the answer",
        );
        if !files.are_none() {
            terminal::say("note: there is no answer yet, so nothing was written to the files of -o");
        }
        return Ok(());
    };
    let view = View { results: arguments.sweep.results.display().to_string(), answer: &answer };
    match arguments.sweep.json {
        true => json::print(&view)?,
        false => terminal::print(&report::render(&answer))?,
    }
    files.write(|| {
        let own = report::sysctl_file(&answer).into_bytes();
        Ok(Contents { page: report::page(&answer), json: json::text(&view)?, own })
    })
}

/// The runs of a stage, and who makes them.
struct Making<'a> {
    sweep: &'a Sweep,
    arguments: &'a Arguments,
    stage: Stage,
    tasks: &'a [Task],
}

impl Making<'_> {
    /// Makes the runs of this shard, and looks for the others; none of those unless all are there.
    fn make(&self) -> Result<Watched<Vec<Option<Measured>>>, Failure> {
        let is_own = |at: &usize| self.arguments.shard.is_none_or(|shard| shard.has(*at));
        let (own, others): (Vec<usize>, Vec<usize>) = (0..self.tasks.len()).partition(is_own);
        let name = format!("{}: ", self.stage.name());
        let watched = watch(own.len(), &self.arguments.sweep, &name, &|results, makers, progress| {
            let mut measured: Vec<Option<Measured>> = vec![None; self.tasks.len()];
            for (at, of) in self.make_own(&own, results, makers, progress)? {
                measured[at] = Some(of);
            }
            for (&at, of) in others.iter().zip(self.look_for(&others, results)?.unwrap_or_default()) {
                measured[at] = Some(of);
            }
            Ok(measured)
        })?;
        if watched.result.iter().any(Option::is_none) {
            terminal::say(format_args!(
                "note: other shards have still to make some of their {} runs of this stage ({})",
                others.len(),
                self.stage.name()
            ));
        }
        Ok(watched)
    }

    /// Makes runs, long ones first.
    fn make_own(
        &self,
        own: &[usize],
        results: &Results,
        makers: &Makers,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<(usize, Measured)>, ExperimentError> {
        let kind = |task: &Task| 2 * task.member + usize::from(task.time == Time::Quarter);
        let kinds: Vec<usize> = own.iter().map(|&at| kind(&self.tasks[at])).collect();
        let queue = Queue::new(&kinds);
        let wanted = |member| self.sweep.wanted(member);
        let wanted: Vec<_> = (0..self.sweep.fleet.members.len()).map(wanted).collect();
        each(own.len(), self.arguments.sweep.jobs(), &|_| {
            let next = queue.take().expect("each run is taken once");
            let task = &self.tasks[own[next]];
            let (run, began, is_known) = (self.sweep.run(task)?, Instant::now(), AtomicBool::new(false));
            let record = make_or_get(&run, results, makers, &|step| {
                if let Progress::Known(_) = step {
                    is_known.store(true, Ordering::Relaxed);
                }
                progress(step);
            })?;
            if !is_known.into_inner() {
                queue.note(kinds[next], began.elapsed().as_secs_f64());
            }
            Ok((own[next], Measured::of(&record, &wanted[task.member])))
        })
    }

    /// What others have made of some runs, if all are there. The first that is not ends the search, as reading a hundred thousand in
    /// each of a thousand shards takes longer than many sweeps.
    fn look_for(
        &self,
        others: &[usize],
        results: &Results,
    ) -> Result<Option<Vec<Measured>>, ExperimentError> {
        let is_missing = AtomicBool::new(false);
        let found = each(others.len(), self.arguments.sweep.jobs(), &|at| {
            if is_missing.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let task = &self.tasks[others[at]];
            let run = self.sweep.run(task)?;
            let record = results.stored(&results.describe(&run)?)?;
            is_missing.fetch_or(record.is_none(), Ordering::Relaxed);
            Ok(record.map(|record| Measured::of(&record, &self.sweep.wanted(task.member))))
        })?;
        Ok(found.into_iter().collect())
    }
}
