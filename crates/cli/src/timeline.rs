//! `-o FILE.pftrace`: a timeline of the runs that a command made, for Perfetto.
//!
//! ```text
//!   recorded trace, if they replay one ────────────────────────────┐
//!   records ─► each run again, noting what its CPUs do when ─► report::timeline ─► one trace, a process group for each
//! ```
//!
//! Results do not have what a timeline shows, so the runs are made again; they come out the same, as every run does. What the recorded
//! kernel did stands above what the twin made of the same demand.

use crate::failure::Failure;
use crate::files::{Ending, FileArguments, Files};
use crate::progress::{self, Lines};
use crate::terminal;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use lab::experiment::Experiment;
use lab::results::Record;
use machine::Time;
use machine::timeline::Window;
use rayon::prelude::*;
use report::timeline::Course;
use sim::host::HostProgram;
use sim::outcome::Outcome;
use sim::progress::RunProgress;
use sim::recorded_timeline::{self, Recorded};
use sim::{Run, RunError};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use workload::tasks::ProgramSpec;

/// Events that all runs of a trace have at most: 40 MB, at 50 bytes each.
const EVENTS: u64 = 800_000;
/// What is shorter than this is never of interest by itself: a page fault takes a microsecond.
const FINEST: Time = Time::from_nanoseconds(1_000);

/// The options of commands that make timelines.
#[derive(clap::Args)]
pub struct TimelineArguments {
    /// What -o FILE.pftrace, a timeline for Perfetto, shows: seconds of virtual time from where measuring begins, such as 0.5..0.6;
    /// the shorter, the finer [default: all that is measured]
    #[arg(long, value_name = "FROM..TO", requires = "output", allow_hyphen_values = true)]
    timeline: Option<Span>,
}

/// A span of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: Time,
    until: Time,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let second = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|number| (0.0..=1e6).contains(number)).map(Time::from_seconds)
        };
        let ends = text.split_once("..").and_then(|(from, until)| Some((second(from)?, second(until)?)));
        match ends {
            Some((from, until)) if from < until => Ok(Span { from, until }),
            _ => {
                Err("expected two numbers of seconds from 0 on with .. between, the smaller first, such as 0.5..0.6"
                    .into())
            }
        }
    }
}

impl TimelineArguments {
    /// Checks names of files as [`FileArguments::check`] does, and that a timeline can be made of an experiment's runs if it is asked for.
    pub fn check(&self, files: &FileArguments, experiment: &Experiment) -> Result<Files, Failure> {
        let files = files.check(&[Ending::CHART, &[Ending::Pftrace]].concat())?;
        match (files.want(Ending::Pftrace), self.timeline) {
            (true, _) => experiment.runs()?.iter().try_for_each(check)?,
            (false, Some(_)) => {
                return Err(Failure::input(
                    "--timeline: it says what -o FILE.pftrace shows, which is not given",
                ));
            }
            (false, None) => {}
        }
        Ok(files)
    }

    /// Makes the runs of records again and returns their trace, if `files` want one.
    pub fn trace(&self, files: &Files, records: &[&Record], jobs: usize) -> Result<Vec<u8>, Failure> {
        if !files.want(Ending::Pftrace) {
            return Ok(Vec::new());
        }
        let ends = records.iter().map(|record| record.virtual_seconds).fold(0.0, f64::max);
        if let Some(span) = self.timeline
            && span.from.seconds() >= ends
        {
            let message =
                format!("--timeline: it begins when the runs have ended, after {ends:.3} s of virtual time");
            return Err(Failure::input(message));
        }
        let mut resolution = self.resolution(records);
        loop {
            let made = self.make(records, resolution, jobs)?;
            let recorded = recorded(records, self.window(resolution))?;
            let courses = || {
                let recorded = recorded.iter().map(|of| {
                    let course = Course { timeline: &of.timeline, series: &of.series, events: &[] };
                    (format!("recorded, Linux {}", of.kernel_release), course)
                });
                let made = made.iter().filter_map(|(title, of)| {
                    let Outcome { timeline, series, events, .. } = of;
                    let course = Course { timeline: timeline.as_ref()?, series, events };
                    Some((title.clone(), course))
                });
                recorded.chain(made)
            };
            let noted = || courses().map(|(_, course)| &course.timeline.noted);
            let events: u64 = noted().map(|noted| noted.events() as u64).sum();
            let is_whole = noted().all(|noted| !noted.is_full());
            if events <= EVENTS && is_whole {
                terminal::say(format_args!("timeline: what is shorter than {resolution} is put together"));
                return Ok(report::timeline::trace(courses()));
            }
            // Work came in pieces with gaps between. How many there are of what was cut off is not known.
            let more = if is_whole { events + events / 4 } else { 4 * events };
            resolution = resolution.fraction(more, EVENTS);
        }
    }

    /// Makes the runs again.
    fn make(
        &self,
        records: &[&Record],
        resolution: Time,
        jobs: usize,
    ) -> Result<Vec<(String, Outcome)>, Failure> {
        let bar = bar_of(records.len())?;
        let lines = Lines::of(&bar, |bar| format!("timeline: {}, left {}", progress::runs(bar), left(bar)));
        let shown = self.window(resolution);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().context("threads")?;
        let again = |record: &&Record| {
            let outcome = sim::run_with_timeline(&record.run, shown, &RunProgress::default())?;
            bar.inc(1);
            Ok((title(record), outcome))
        };
        let made: Vec<Result<_, RunError>> = pool.install(|| records.par_iter().map(again).collect());
        drop(lines);
        bar.finish_and_clear();
        made.into_iter().collect::<Result<_, _>>().map_err(|error| Failure::input(error.to_string()))
    }

    fn window(&self, resolution: Time) -> Window {
        let (from, until) = self.timeline.map_or((Time::ZERO, Time::NEVER), |span| (span.from, span.until));
        Window { from, until, resolution }
    }

    /// So fine that there would be [`EVENTS`] if busy CPUs changed what they do all the time.
    fn resolution(&self, records: &[&Record]) -> Time {
        let busy = |record: &&Record| {
            let measured = Time::from_seconds(record.virtual_seconds);
            let span = self.timeline.unwrap_or(Span { from: Time::ZERO, until: measured });
            let shown = span.until.min(measured).saturating_sub(span.from);
            shown.scale(record.busy_seconds() / record.virtual_seconds.max(1e-9))
        };
        // A CPU has at most two slices in the resolution's time.
        records.iter().map(busy).sum::<Time>().fraction(2, EVENTS).max(FINEST)
    }
}

/// What happened when the traces that runs replay were recorded, each trace once.
fn recorded(records: &[&Record], shown: Window) -> Result<Vec<Recorded>, Failure> {
    let programs = records.iter().flat_map(|record| &record.run.workload.programs);
    let trace = |program: &HostProgram| match &program.program {
        ProgramSpec::PageTrace(of) => Some(of.trace.clone()),
        _ => None,
    };
    let traces: BTreeSet<PathBuf> = programs.filter_map(trace).collect();
    let recorded =
        traces.iter().map(|trace| recorded_timeline::recorded(trace, shown)).collect::<Result<_, _>>();
    recorded.map_err(|error| Failure::input(error.to_string()))
}

/// A bar of so many runs.
fn bar_of(runs: usize) -> Result<ProgressBar, Failure> {
    let template = "timeline: {bar:12} {pos}/{len} runs, real {elapsed}, left {left}";
    let style = ProgressStyle::with_template(template).context("the progress bar's template")?;
    let left = |state: &ProgressState, out: &mut dyn Write| {
        let runs = state.len().unwrap_or_default();
        let _ = write!(out, "{}", progress::left(state.elapsed(), 0, state.pos(), runs));
    };
    let bar = ProgressBar::new(runs as u64).with_style(style.with_key("left", left));
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// The time that the runs of `bar` still take.
fn left(bar: &ProgressBar) -> String {
    progress::left(bar.elapsed(), 0, bar.position(), bar.length().unwrap_or_default())
}

/// Refuses what no timeline can be made of.
fn check(run: &Run) -> Result<(), Failure> {
    if run.tree.is_none() {
        return Ok(());
    }
    let variant = &run.variant;
    let why = "a kernel tree runs in a process of its own, and has no timeline";
    Err(Failure::input(format!("-o FILE.pftrace: {variant}: {why}")))
}

/// What the process group of a run is called.
fn title(record: &Record) -> String {
    let settings = record.run.settings.iter().map(|(name, value)| format!(", {name} = {value}"));
    format!("{}, seed {}{}", record.run.variant, record.run.seed, settings.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_two_numbers_in_order() {
        let of = |text: &str| text.parse::<Span>().map(|span| [span.from, span.until].map(Time::seconds));
        assert_eq!(of("0.5..0.6"), Ok([0.5, 0.6]));
        for wrong in ["", "1", "1..", "..1", "2..1", "1..1", "-1..1", "0..NaN", "0..1e9", "a..b"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
