//! A run whose decisions come from a kernel tree, in a process of its own with a watchdog.
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
use crate::sweep::program;
use anyhow::{Context, anyhow};
use kernel_tree::{Asked, Note, Stored};
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
    let outcome = outcome.map_err(|error| Failure::input(error.to_string()))?;
    let results = Results::open(&arguments.results, program())?;
    let runs = [run];
    let described = results.describe(&runs)?;
    results.keep(&described[0], &outcome)?;
    Ok(())
}

/// Has a child make a run and store its result in `results`.
pub fn make(run: &Run, results: &Path) -> Result<(), RunError> {
    let failed = |error: anyhow::Error| RunError::Process(format!("{}: {error:#}", run.variant));
    let place = tempfile::tempdir().context("the note").map_err(failed)?;
    let path = place.path().join("note");
    let note = Note::map(&path).context("the note").map_err(failed)?;
    let child = start(run, &path, results).map_err(failed)?;
    let (status, messages, endless) = watch(child, &note).map_err(failed)?;
    let asked = |what: String| match note.asked() {
        Some(Asked { function, state }) => format!("{}: {function} {what}, asked about {state}", run.variant),
        None => format!(
            "{}: the process of the run {what}, not while a function of the tree ran, but perhaps after one wrote \
             outside of its memory; --sanitize of `mmtwin kernel add` finds that",
            run.variant
        ),
    };
    let seconds = LONGEST.as_secs();
    match (status.signal(), endless) {
        _ if status.success() => Ok(()),
        (_, true) => Err(RunError::Process(asked(format!("has not ended after {seconds} s")))),
        (Some(signal), _) => Err(RunError::Process(format!(
            "{}{}",
            asked(format!("ended by signal {signal}")),
            last(&messages)
        ))),
        (None, _) if note.asked().is_some() => {
            Err(RunError::Process(format!("{}{}", asked("was refused".into()), last(&messages))))
        }
        (None, _) => Err(RunError::Process(format!("{}{}", run.variant, last(&messages)))),
    }
}

fn start(run: &Run, note: &Path, results: &Path) -> Result<Child, anyhow::Error> {
    let (name, _) = name_and_features(&run.variant);
    let directory = kernel::directory().map_err(|failure| anyhow!(failure.message().unwrap_or_default()))?;
    let stored = Stored::find(&directory, name)?;
    let mut command = Command::new(std::env::current_exe().context("this program")?);
    command.arg(COMMAND).arg("--note").arg(note).arg("--results").arg(results);
    if let Some(runtime) = stored.as_ref().and_then(Stored::preloaded) {
        command.env("LD_PRELOAD", runtime).env("ASAN_OPTIONS", "detect_leaks=0");
    }
    // What it says is what went wrong, not where in mmtwin.
    command.env("RUST_BACKTRACE", "0");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let text = serde_json::to_string(run)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ends before it has read says why itself.
        let _ = stdin.write_all(text.as_bytes());
    }
    Ok(child)
}

/// Waits for a child; kills it if a decision does not end. What it said on stderr comes with its status.
fn watch(mut child: Child, note: &Note) -> Result<(ExitStatus, String, bool), anyhow::Error> {
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.by_ref().take(MOST_SAID).read_to_end(&mut text);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let (mut sequence, mut since, mut endless) = (0, Instant::now(), false);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let now = note.sequence();
        if now != sequence || now.is_multiple_of(2) {
            (sequence, since) = (now, Instant::now());
        } else if since.elapsed() > LONGEST {
            endless = true;
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(POLL);
    };
    Ok((status, reader.join().unwrap_or_default(), endless))
}

/// More of a child's messages nobody reads.
const MOST_SAID: u64 = 1 << 16;
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
