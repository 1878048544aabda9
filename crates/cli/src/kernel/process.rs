//! What asks functions of a kernel tree, in a process of its own with a watchdog: a run, or a comparison (`diff.rs`).
//!
//! ```text
//!   parent  Run as JSON ─► stdin    note: what is asked, shared    exit status ─► the result is stored, or why not
//!   child                  loads the kernel, makes the run, stores its result
//! ```
//!
//! C that crashes takes its process with it, and a decision that does not end would never give the run back. The note
//! ([`kernel_tree::Note`]) says in both cases which function was asked about which state.

use crate::failure::Failure;
use crate::kernel;
use crate::runner::program;
use anyhow::{Context, anyhow};
use kernel_tree::{Asked, Decision, Note, Stored, Whose};
use lab::results::Results;
use sim::progress::RunProgress;
use sim::{Run, RunError, name_and_features};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The hidden command that makes such a run.
pub const COMMAND: &str = "decide-run";

/// A decision takes nanoseconds; one that takes so long does not end.
const LONGEST: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Where the child finds what it needs.
#[derive(clap::Args)]
pub struct RunArguments {
    /// The file of the note
    #[arg(long)]
    note: PathBuf,
    /// The directory of results
    #[arg(long)]
    results: PathBuf,
}

/// Makes the run that stdin describes and stores its result.
pub fn execute(arguments: &RunArguments) -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("the run")?;
    let run: Run = serde_json::from_str(&text).context("the run")?;
    let tree = run.tree.as_ref().ok_or_else(|| anyhow!("the run has no kernel tree"))?;
    let (name, _) = name_and_features(&run.variant);
    let directory = kernel::directory()?;
    let stored = Stored::find(&directory, name)?;
    let stored = stored.filter(|stored| stored.content_hash == tree.content_hash);
    let stored = stored.ok_or_else(|| Failure::input(format!("{name}: was changed or removed meanwhile")))?;
    let loaded = stored.load(&directory).context("the kernel tree")?;
    loaded.note_in(Note::map(&arguments.note).context("the note")?);
    let outcome = sim::run_deciding(&run, loaded.decisions, &RunProgress::default());
    let mut outcome = outcome.map_err(|error| Failure::input(error.to_string()))?;
    outcome.notes.extend(never_asked(&stored, &Note::map(&arguments.note).context("the note")?));
    let results = Results::open(&arguments.results, program())?;
    results.keep(&results.describe(&run)?, &outcome)?;
    Ok(())
}

/// Names the functions of a tree that a run never asked: a change to them cannot show in its results.
fn never_asked(stored: &Stored, note: &Note) -> Option<String> {
    let of_tree = stored.decisions.iter().filter(|decision| decision.whose == Whose::Tree);
    let functions = of_tree.filter_map(|decision| Decision::named(&decision.function));
    let unasked: Vec<&str> =
        functions.filter(|decision| note.times_asked(decision) == 0).map(|decision| decision.name).collect();
    let names = unasked.join(", ");
    (!unasked.is_empty())
        .then(|| format!("the kernel tree was never asked for {names}; a change to that cannot show here"))
}

/// Has a child make a run and store its result in `results`.
pub fn make(run: &Run, results: &Path) -> Result<(), RunError> {
    let failed = |error: anyhow::Error| RunError::Process(format!("{}: {error:#}", run.variant));
    let place = tempfile::tempdir().context("the note").map_err(failed)?;
    let path = place.path().join("note");
    let note = Note::map(&path).context("the note").map_err(failed)?;
    let child = start_run(run, &path, results).map_err(failed)?;
    let watched = watch(child, &[&note]).map_err(failed)?;
    watched.problem(&[&run.variant], &[&note]).map_or(Ok(()), |problem| Err(RunError::Process(problem)))
}

/// How a process ended that was watched.
pub struct Watched {
    status: ExitStatus,
    /// What the process printed, if that was asked for.
    pub said: String,
    /// What it said was wrong.
    messages: String,
    /// Whether it was killed because a decision did not end.
    endless: bool,
}

impl Watched {
    /// What went wrong, if anything did. Each note has the name of the kernel whose functions are noted there.
    pub fn problem(&self, names: &[&str], notes: &[&Note]) -> Option<String> {
        if self.status.success() {
            return None;
        }
        let made = names.iter().zip(notes).find_map(|(name, note)| Some((name, note.asked()?)));
        let asked = |what: String| match &made {
            Some((name, Asked { function, state })) => {
                format!("{name}: {function} {what}, asked about {state}")
            }
            None => format!(
                "{}: the process {what}, not while a function of the tree ran, but perhaps after one wrote outside of its \
                 memory; --sanitize of `mmtwin kernel add` finds that",
                names.join(" and ")
            ),
        };
        let said = last(&self.messages);
        Some(match self.status.signal() {
            _ if self.endless => asked(format!("has not ended after {} s", LONGEST.as_secs())),
            Some(signal) => format!("{}{said}", asked(format!("ended by signal {signal}"))),
            None if made.is_some() => format!("{}{said}", asked("was refused".into())),
            None => format!("{}{said}", names.join(" and ")),
        })
    }
}

fn start_run(run: &Run, note: &Path, results: &Path) -> Result<Child, anyhow::Error> {
    let (name, _) = name_and_features(&run.variant);
    let directory = kernel::directory().map_err(|failure| anyhow!(failure.message().unwrap_or_default()))?;
    let stored = Stored::find(&directory, name)?;
    let mut command = Command::new(std::env::current_exe().context("this program")?);
    command.arg(COMMAND).arg("--note").arg(note).arg("--results").arg(results).stdout(Stdio::null());
    start(command, stored.as_ref().and_then(Stored::preloaded), &serde_json::to_string(run)?)
}

/// Starts a process that asks functions of a tree and reads from stdin what it is to do. The library of a sanitizer is there before it.
pub fn start(mut command: Command, preloaded: Option<&str>, text: &str) -> Result<Child, anyhow::Error> {
    if let Some(runtime) = preloaded {
        command.env("LD_PRELOAD", runtime).env("ASAN_OPTIONS", "detect_leaks=0");
    }
    // What it says is what went wrong, not where in mmtwin.
    command.env("RUST_BACKTRACE", "0");
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ends before it has read says why itself.
        let _ = stdin.write_all(text.as_bytes());
    }
    Ok(child)
}

/// Reads what a process writes, on a thread of its own, so that it never waits for a reader.
fn read(from: Option<impl Read + Send + 'static>, most: u64) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(most).read_to_end(&mut text);
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits for a child; kills it if a decision does not end.
pub fn watch(mut child: Child, notes: &[&Note]) -> Result<Watched, anyhow::Error> {
    let messages = read(child.stderr.take(), MOST_SAID);
    let said = read(child.stdout.take(), MOST_ANSWERED);
    let (mut sequence, mut since, mut endless) = (Vec::new(), Instant::now(), false);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let now: Vec<u64> = notes.iter().map(|note| note.sequence()).collect();
        if now != sequence || now.iter().all(|sequence| sequence.is_multiple_of(2)) {
            (sequence, since) = (now, Instant::now());
        } else if since.elapsed() > LONGEST {
            endless = true;
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(POLL);
    };
    let (said, messages) = (said.join().unwrap_or_default(), messages.join().unwrap_or_default());
    Ok(Watched { status, said, messages, endless })
}

/// More of a child's messages nobody reads.
const MOST_SAID: u64 = 1 << 16;
/// More than all functions with all their examples come to.
const MOST_ANSWERED: u64 = 1 << 24;
/// So many of their first lines say what is wrong.
const LINES: usize = 6;

/// What a child said, after a colon.
fn last(messages: &str) -> String {
    let is_said = |line: &&str| {
        !line.trim().is_empty() && !line.contains("panicked at ") && !line.starts_with("note: ")
    };
    let text: Vec<&str> = messages.lines().filter(is_said).take(LINES).collect();
    let text = text.join("\n");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
