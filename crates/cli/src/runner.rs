//! Runs an experiment, or any runs: progress bar on stderr, Ctrl-C, and a summary line at the end.

use crate::arguments::SweepArguments;
use crate::failure::Failure;
use crate::kernel;
use crate::progress::{self, Lines};
use crate::terminal::{self, harmless};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use lab::applicable_features::without_effect;
use lab::applicable_settings::of_later_kernels;
use lab::experiment::{Experiment, ExperimentError, Makers, Progress, make_all};
use lab::results::{Program, Record, Results, ResultsError, Store};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use sim::Run;
use sim::progress::RunProgress;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
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

/// The bar of so many runs, of which some are `known`.
fn bar_of(runs: usize, latest: Latest, known: Arc<AtomicUsize>) -> Result<ProgressBar, Failure> {
    let time = move |_: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{:.1} s", lock(&latest).time().seconds());
    };
    let template = "{bar:12} {pos}/{len} runs, virtual time {time}, real {elapsed}, left {left}  {wide_msg}";
    let left = move |state: &ProgressState, out: &mut dyn Write| {
        let (known, runs) = (known.load(Ordering::Relaxed), state.len().unwrap_or_default());
        let _ = write!(out, "{}", progress::left(state.elapsed(), known, state.pos(), runs));
    };
    let style = ProgressStyle::with_template(template).context("the progress bar's template")?;
    let style = style.with_key("time", time).with_key("left", left);
    let bar = ProgressBar::new(runs as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// Letters of a variant that the display has room for; one with many features has hundreds.
const SHOWN: usize = 40;

fn shortened(variant: &str) -> String {
    match variant.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &variant[..end]),
        None => variant.into(),
    }
}

/// The identity of this build of mmtwin, stored with every result.
pub fn program() -> Program {
    Program::this(env!("MMTWIN_COMMIT"))
}

/// Runs `experiment`, except for runs whose results are already in the results directory.
pub fn sweep(experiment: &Experiment, arguments: &SweepArguments) -> Result<Vec<Record>, Failure> {
    let runs = experiment.runs()?;
    let varied = experiment.varied.iter().map(|varied| &varied.key);
    let names = experiment.changes.keys().chain(varied).map(String::as_str);
    for note in without_effect(&runs).into_iter().chain(of_later_kernels(&runs, names)) {
        terminal::say(format_args!("note: {note}"));
    }
    let made = make(&runs, arguments, "")?;
    made.say(&arguments.results);
    Ok(made.records)
}

/// Runs that were made or found.
#[derive(Default)]
pub struct Made {
    pub records: Vec<Record>,
    pub runs: usize,
    /// How many of them had results already.
    pub known: usize,
    pub seconds: f64,
}

impl Made {
    /// Counts more runs; their records stay where they are.
    pub fn add(&mut self, runs: usize, known: usize, seconds: f64) {
        self.runs += runs;
        self.known += known;
        self.seconds += seconds;
    }

    /// Says how many runs it were, and where they are.
    pub fn say(&self, results: &Path) {
        let Made { runs, known, seconds, .. } = self;
        let from_before = if *known > 0 { format!(" ({known} from before)") } else { String::new() };
        let noun = if *runs == 1 { "run" } else { "runs" };
        terminal::say(format_args!(
            "{runs} {noun}{from_before} in {seconds:.1} s; results in {}",
            results.display()
        ));
    }
}

/// Makes runs, except for those whose results are already in the results directory. The display says `stage` before each.
pub fn make(runs: &[Run], arguments: &SweepArguments, stage: &str) -> Result<Made, Failure> {
    let watched = watch(runs.len(), arguments, stage, &|results, makers, progress| {
        make_all(runs, results, arguments.jobs(), makers, progress)
    })?;
    let Watched { result: records, known, seconds } = watched;
    Ok(Made { records, runs: runs.len(), known, seconds })
}

/// What makes runs, each by `make_or_get`.
pub type Work<'a, T> =
    dyn Fn(&Results, &Makers, &(dyn Fn(Progress) + Sync)) -> Result<T, ExperimentError> + 'a;

/// What work came to that was watched.
pub struct Watched<T> {
    pub result: T,
    /// How many runs had results already.
    pub known: usize,
    pub seconds: f64,
}

/// Has `work` make so many runs, and shows how far it is.
pub fn watch<T>(
    runs: usize,
    arguments: &SweepArguments,
    stage: &str,
    work: &Work<T>,
) -> Result<Watched<T>, Failure> {
    let directory = &arguments.results;
    let results = Results::open(directory, program())?;
    let results = if arguments.fresh { results.afresh() } else { results };
    let results = match &arguments.store {
        Some(address) => results.sharing(store(address)?),
        None => results,
    };
    let latest = Latest::default();
    let known = Arc::new(AtomicUsize::new(0));
    let bar = bar_of(runs, latest.clone(), known.clone())?;
    let lines = Lines::of(&bar, {
        let (latest, known) = (latest.clone(), known.clone());
        move |bar| {
            let seconds = lock(&latest).time().seconds();
            let known = known.load(Ordering::Relaxed);
            let left = progress::left(bar.elapsed(), known, bar.position(), bar.length().unwrap_or_default());
            format!("{}  {}  virtual time {seconds:.1} s, left {left}", progress::runs(bar), bar.message())
        }
    });
    let sweep = Arc::new(Sweep { bar, directory: directory.clone(), runs, kept: AtomicUsize::new(0) });
    watch_for_interruption(&sweep)?;
    let began = Instant::now();
    let progress = |progress: Progress| match progress {
        Progress::Begun(run, progress) => {
            *lock(&latest) = progress.clone();
            let text = format!("{stage}{}, {}, seed {}", run.scenario, shortened(&run.variant), run.seed);
            sweep.bar.set_message(harmless(&text).into_owned());
        }
        Progress::Known(_) => {
            known.fetch_add(1, Ordering::Relaxed);
            sweep.count_kept();
        }
        Progress::Made(_) => sweep.count_kept(),
    };
    let elsewhere = |run: &Run| kernel::process::make(run, directory);
    let makers = Makers { simulate: &sim::run_noting, elsewhere: &elsewhere };
    let made = work(&results, &makers, &progress);
    drop(lines);
    sweep.bar.finish_and_clear();
    let known = known.load(Ordering::Relaxed);
    Ok(Watched { result: made?, known, seconds: began.elapsed().as_secs_f64() })
}

/// The object store at an address; the environment says where it is and who asks.
fn store(address: &str) -> Result<Store, ResultsError> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Store::open(address, std::env::vars_os().filter_map(text))
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
