//! `mmtwin verify`: the twin against a real kernel, counter by counter.

use crate::failure::Failure;
use crate::json;
use crate::number::percent;
use crate::table::Grid;
use live::recordings::{Recording, default_directory, list};
use live::verify::{Annotated, Cause, Entry, VerifyError, closed_loop, open_loop};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Compare the twin's decisions and counters with those of a real kernel
#[derive(clap::Args)]
#[command(after_help = "\
Each recording holds the operations of a real kernel's page allocator and its state along the way. The twin starts
from the recorded lists. In the closed loop it is asked at every operation what it would do, and put right where it
differs; in the open loop it sees demand alone to the end.

Examples:
  mmtwin verify pcp
  mmtwin verify pcp --case compile_j2 --json")]
pub struct Arguments {
    /// The mechanism: pcp
    mechanism: String,

    /// Directory of recordings [default: those that come with the source]
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,

    /// Only this recording; may be given several times
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View<'a> {
    mechanism: &'a str,
    entries: &'a [Entry],
}

/// Verifies.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.mechanism != "pcp" {
        let message =
            format!("{}: no recordings of this mechanism; there are recordings of: pcp", arguments.mechanism);
        return Err(Failure::input(message));
    }
    let recordings = recordings(arguments)?;
    let mut entries = Vec::new();
    for recording in &recordings {
        entries.extend(judge(recording)?);
    }
    if arguments.json {
        return json::print("verify", &View { mechanism: &arguments.mechanism, entries: &entries });
    }
    json::print_text(&render(&recordings, &entries))
}

fn recordings(arguments: &Arguments) -> Result<Vec<Recording>, Failure> {
    let directory = arguments.recordings.clone().unwrap_or_else(default_directory);
    let all = list(&directory).map_err(VerifyError::from)?;
    let known: Vec<&str> = all.iter().map(|recording| recording.name.as_str()).collect();
    if all.is_empty() {
        let message =
            format!("{}: no recordings there; give a directory with --recordings", directory.display());
        return Err(Failure::input(message));
    }
    if let Some(unknown) = arguments.cases.iter().find(|case| !known.contains(&case.as_str())) {
        let message = format!(
            "{unknown}: no such recording in {}; there are: {}",
            directory.display(),
            known.join(", ")
        );
        return Err(Failure::input(message));
    }
    let wanted =
        |recording: &Recording| arguments.cases.is_empty() || arguments.cases.contains(&recording.name);
    Ok(all.into_iter().filter(wanted).collect())
}

fn judge(recording: &Recording) -> Result<Vec<Entry>, VerifyError> {
    let mut entries = closed_loop(recording)?.entries(&recording.name);
    for annotated in [Annotated::No, Annotated::Yes] {
        let judged = open_loop(recording, annotated)?.into_iter();
        entries
            .extend(judged.map(|entry| Entry { counter: format!("open loop: {}", entry.counter), ..entry }));
    }
    Ok(entries)
}

fn render(recordings: &[Recording], entries: &[Entry]) -> String {
    let mut pieces = Vec::new();
    for recording in recordings {
        let mut grid = Grid::new(&["", "kernel", "twin", "difference"]);
        for entry in entries.iter().filter(|entry| entry.case == recording.name) {
            let difference = match entry.error {
                Some(0.0) => "exact".into(),
                Some(error) => format!("{}{}", if error > 0.0 { "+" } else { "" }, small_percent(error)),
                None => "kernel has none".into(),
            };
            grid.row([entry.counter.clone(), entry.kernel.to_string(), entry.twin.to_string(), difference]);
        }
        let about = format!("{}: Linux {}", recording.name, recording.description.kernel);
        pieces.push(format!("{about}\n\n{}", grid.render()));
    }
    let causes = causes(entries);
    if !causes.is_empty() {
        let mut grid = Grid::new(&["what no tracepoint shows, or was put right", "how often"]);
        causes.iter().for_each(|(cause, n)| grid.row([cause.description().to_string(), n.to_string()]));
        pieces.push(grid.render());
    }
    pieces.join("\n\n")
}

/// Hundredths of a percent and more.
fn small_percent(fraction: f64) -> String {
    if fraction.abs() >= 0.001 { percent(fraction) } else { format!("{:.4} %", 100.0 * fraction) }
}

/// Every cause, with the largest number that one entry of a recording has: entries of a recording share them.
fn causes(entries: &[Entry]) -> Vec<(Cause, u64)> {
    let mut by_case: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
    for entry in entries {
        for (cause, n) in entry.causes.iter() {
            let most = by_case.entry((cause, &entry.case)).or_default();
            *most = n.max(*most);
        }
    }
    let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
    by_case.into_iter().for_each(|((cause, _), n)| *sums.entry(cause).or_default() += n);
    sums.into_iter().collect()
}
