//! `mmtwin results`: lists the runs of a results directory, compares them, packs their files, and removes what is of no use any more.

use crate::arguments::RESULTS;
use crate::compare::{ViewArguments, report_directories};
use crate::failure::Failure;
use crate::files::{Ending, FileArguments};
use crate::json;
use crate::runner::program;
use crate::table::Grid;
use crate::terminal;
use lab::results::{
    Compacted, Entry, Listing, Mode, Program, Pruned, ResultsError, Summary, compact, list, prune,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// List the runs of a results directory, compare what it has, pack its files, or remove runs of other builds
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mmtwin results list
  mmtwin results list results --json
  mmtwin results report -o results.html
  mmtwin results compact
  mmtwin results prune --dry-run")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the runs: scenario, variant, seeds, and everything else that distinguishes them
    #[command(after_help = "\
Runs that agree in all columns differ only in their seeds. `inputs` distinguishes edited scenarios
and machines of the same name; `build` distinguishes programs whose sources differ in something
that affects results. `*` marks the build of this program: it reuses only its own results.

Examples:
  mmtwin results list
  mmtwin results list elsewhere --json")]
    List(ListArguments),
    /// Pack the files of single runs into a few large ones
    #[command(after_help = "\
Single files are removed only after their pack was read back. Other commands may use the directory
at the same time, and stopping this command loses nothing. Runs in packs are found like runs in
files.

Examples:
  mmtwin results compact
  mmtwin results compact elsewhere")]
    Compact(CompactArguments),
    /// Remove runs that this mmtwin does not reuse, because another build made them
    #[command(after_help = "\
What mmtwin did not write is left alone, and so is what cannot be read. The runs of a pack that stay
are written and read back before the pack is removed.

Examples:
  mmtwin results prune --dry-run
  mmtwin results prune elsewhere --scenario kbuild,page_fault1
  mmtwin results prune --scenario kbuild --all-builds")]
    Prune(PruneArguments),
    /// Compare what results directories have: the variants of each scenario side by side
    #[command(after_help = "\
Runs of one scenario, machine and settings are compared over the seeds that all variants have, with
the scenario's first variant. With several directories, each variant of each is a column.

Examples:
  mmtwin results report
  mmtwin results report results -o results.html
  mmtwin results report before after --brief -o both.html")]
    Report(ReportArguments),
}

#[derive(clap::Args)]
struct ListArguments {
    /// The results directory
    #[arg(value_name = "DIR", default_value = RESULTS)]
    directory: PathBuf,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct CompactArguments {
    /// The results directory
    #[arg(value_name = "DIR", default_value = RESULTS)]
    directory: PathBuf,
}

#[derive(clap::Args)]
struct PruneArguments {
    /// The results directory
    #[arg(value_name = "DIR", default_value = RESULTS)]
    directory: PathBuf,

    /// Only runs of these scenarios, separated by commas
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    scenario: Vec<String>,

    /// With --scenario: runs of this build too
    #[arg(long, requires = "scenario")]
    all_builds: bool,

    /// Say how many runs would be removed, and remove none
    #[arg(long)]
    dry_run: bool,
}

impl PruneArguments {
    /// Removes what was asked for, and says how much that was.
    fn execute(&self) -> Result<(), Failure> {
        let build = program().build;
        let is_of =
            |entry: &Entry| self.scenario.is_empty() || self.scenario.contains(&entry.summary.scenario);
        let mode = if self.dry_run { Mode::Count } else { Mode::Remove };
        let Pruned { runs, kept, bytes, damaged } = prune(&self.directory, mode, |entry| {
            is_of(entry) && (self.all_builds || entry.summary.build != build)
        })?;
        let did = if self.dry_run { "would be removed" } else { "removed" };
        let mib = bytes as f64 / 1048576.0;
        terminal::print(&format!("{} {did} ({mib:.1} MiB), {kept} kept", several(runs, "run")))?;
        whole(damaged)
    }
}

#[derive(clap::Args)]
struct ReportArguments {
    /// The results directories
    #[arg(value_name = "DIR", default_value = RESULTS)]
    directories: Vec<PathBuf>,

    #[command(flatten)]
    view: ViewArguments,

    #[command(flatten)]
    files: FileArguments,
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    results: String,
    build: &'a str,
    runs: &'a [Entry],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "results-list";
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let directories = match &arguments.command {
        Command::List(of) => std::slice::from_ref(&of.directory),
        Command::Compact(of) => std::slice::from_ref(&of.directory),
        Command::Prune(of) => std::slice::from_ref(&of.directory),
        Command::Report(of) => &of.directories,
    };
    if let Some(missing) = directories.iter().find(|directory| !directory.exists()) {
        let message =
            format!("{}: no such directory; commands that make runs keep them in results", missing.display());
        return Err(Failure::input(message));
    }
    match &arguments.command {
        Command::List(arguments) => {
            let Listing { runs, damaged } = list(&arguments.directory)?;
            let program = program();
            if arguments.json {
                let view = View {
                    results: arguments.directory.display().to_string(),
                    build: &program.build,
                    runs: &runs,
                };
                json::print(&view)?;
            } else {
                terminal::print(&render(&arguments.directory, &runs, &program))?;
            }
            whole(damaged)
        }
        Command::Compact(CompactArguments { directory }) => {
            let Compacted { packs, runs, removed, damaged } = compact(directory)?;
            let done = format!(
                "{} in {}, {} removed",
                several(runs, "run"),
                several(packs.len(), "new pack"),
                several(removed, "file")
            );
            terminal::print(&done)?;
            whole(damaged)
        }
        Command::Prune(arguments) => arguments.execute(),
        Command::Report(ReportArguments { directories, view, files }) => {
            report_directories(directories, (view, &files.check(Ending::CHART)?))
        }
    }
}

/// An error that has a line for each damaged file, if there are any.
fn whole(damaged: Vec<ResultsError>) -> Result<(), Failure> {
    match damaged.as_slice() {
        [] => Ok(()),
        damaged => {
            let lines: Vec<String> = damaged.iter().map(ToString::to_string).collect();
            Err(Failure::input(lines.join("\n")))
        }
    }
}

fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The first eight hex digits of a hash, as git abbreviates commits.
fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

fn render(directory: &Path, runs: &[Entry], program: &Program) -> String {
    let counted = format!("{} in {}", several(runs.len(), "run"), directory.display());
    if runs.is_empty() {
        return counted;
    }
    let header = ["scenario", "variant", "seeds", "machine", "settings", "inputs", "build", "commit"];
    let mut grid = Grid { more_labels: 1, words: vec![2, 3, 4], ..Grid::new(&header) };
    for group in runs.chunk_by(|a, b| alike(a) == alike(b)) {
        let Entry { summary, commit, .. } = &group[0];
        let mark = if summary.build == program.build { "*" } else { "" };
        grid.row([
            summary.scenario.clone(),
            summary.variant.clone(),
            ranges(group.iter().map(|entry| entry.summary.seed)),
            summary.machine.clone(),
            summary.settings.clone(),
            short(&summary.inputs).into(),
            format!("{}{mark}", short(&summary.build)),
            short(commit).into(),
        ]);
    }
    format!("{}\n\n{counted}; * is the build of this mmtwin", grid.render())
}

/// Everything that distinguishes two runs except their seeds.
fn alike(entry: &Entry) -> impl PartialEq + '_ {
    let Summary { scenario, machine, settings, inputs, build, series, variant, seed: _, run: _ } =
        &entry.summary;
    [scenario, machine, settings, inputs, build, series, variant, &entry.commit]
}

/// Formats ascending numbers, consecutive ones as a range: `1-3 5`.
fn ranges(numbers: impl Iterator<Item = u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last == number => {}
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |&(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn seeds_that_follow_each_other_are_one_range() {
        assert_eq!(ranges([1, 2, 3, 5, 7, 8, u64::MAX].into_iter()), "1-3 5 7-8 18446744073709551615");
        assert_eq!(ranges([4, 4].into_iter()), "4");
    }
}
