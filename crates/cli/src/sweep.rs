//! Runs an experiment: progress bar on stderr, Ctrl-C, and a summary line at the end.

use crate::arguments::SweepArguments;
use crate::failure::Failure;
use crate::kernel;
use crate::progress::{self, Lines};
use crate::terminal::{self, harmless};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use lab::experiment::{Experiment, Progress};
use lab::results::{Program, Record, Results};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use sim::Run;
use sim::progress::RunProgress;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The run that was begun last.
type Latest = Arc<Mutex<RunProgress>>;

/// The state of the current sweep that the Ctrl-C handler reports.
struct Sweep {
    bar: ProgressBar,
    directory: PathBuf,
    runs: usize,
    kept: AtomicUsize,
}

impl Sweep {
    fn count_kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
        self.bar.inc(1);
    }
}

/// The bar of so many runs.
fn bar_of(runs: usize, latest: Latest) -> Result<ProgressBar, Failure> {
    let time = move |_: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{:.1} s", lock(&latest).time().seconds());
    };
    let template = "{bar:24} {pos}/{len} runs  {msg}  virtual time {time}, real {elapsed}";
    let style = ProgressStyle::with_template(template).context("the progress bar's template")?;
    let bar = ProgressBar::new(runs as u64).with_style(style.with_key("time", time));
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// The identity of this build of mmtwin, stored with every result.
pub fn program() -> Program {
    Program::this(env!("MMTWIN_COMMIT"))
}

/// Runs `experiment`, except for runs whose results are already in the results directory.
pub fn sweep(experiment: &Experiment, arguments: &SweepArguments) -> Result<Vec<Record>, Failure> {
    let runs = experiment.runs()?.len();
    let directory = &arguments.results;
    let results = Results::open(directory, program())?;
    let results = if arguments.fresh { results.afresh() } else { results };
    let latest = Latest::default();
    let bar = bar_of(runs, latest.clone())?;
    let lines = Lines::of(&bar, {
        let latest = latest.clone();
        move |bar| {
            let seconds = lock(&latest).time().seconds();
            format!("{}  {}  virtual time {seconds:.1} s", progress::runs(bar), bar.message())
        }
    });
    let sweep = Arc::new(Sweep { bar, directory: directory.clone(), runs, kept: AtomicUsize::new(0) });
    watch_for_interruption(&sweep)?;
    let began = Instant::now();
    let known = AtomicUsize::new(0);
    let progress = |progress: Progress| match progress {
        Progress::Begun(run, progress) => {
            *lock(&latest) = progress.clone();
            sweep.bar.set_message(
                harmless(&format!("{}, {}, seed {}", run.scenario, run.variant, run.seed)).into_owned(),
            );
        }
        Progress::Known(_) => {
            known.fetch_add(1, Ordering::Relaxed);
            sweep.count_kept();
        }
        Progress::Made(_) => sweep.count_kept(),
    };
    let elsewhere = |run: &Run| kernel::process::make(run, directory);
    let made = experiment.sweep_beside(&results, arguments.jobs(), &sim::run_noting, &elsewhere, &progress);
    drop(lines);
    sweep.bar.finish_and_clear();
    let records = made?;
    let known = known.into_inner();
    let from_before = if known > 0 { format!(" ({known} from before)") } else { String::new() };
    let seconds = began.elapsed().as_secs_f64();
    let noun = if runs == 1 { "run" } else { "runs" };
    terminal::say(format_args!(
        "{runs} {noun}{from_before} in {seconds:.1} s; results in {}",
        directory.display()
    ));
    Ok(records)
}

/// The sweep that Ctrl-C interrupts; a command that makes several sweeps replaces it each time.
static CURRENT: OnceLock<Mutex<Arc<Sweep>>> = OnceLock::new();

/// Locks a mutex even if a thread panicked while it held it.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch_for_interruption(sweep: &Arc<Sweep>) -> Result<(), Failure> {
    if let Some(current) = CURRENT.get() {
        *lock(current) = sweep.clone();
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT]).context("cannot watch for Ctrl-C")?;
    let current = CURRENT.get_or_init(|| Mutex::new(sweep.clone()));
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let sweep = lock(current).clone();
            sweep.bar.finish_and_clear();
            let kept = sweep.kept.load(Ordering::Relaxed);
            terminal::say(format_args!(
                "interrupted: {kept} of {} runs are stored in {}; run the same command again to continue",
                sweep.runs,
                sweep.directory.display()
            ));
            // Exiting here loses nothing: result files are written atomically, and unfinished runs are
            // repeated next time.
            std::process::exit(130);
        }
    });
    Ok(())
}
