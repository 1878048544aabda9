//! `mmtwin verify`: compares the twin's counters with a real kernel's, counter by counter.

use crate::arguments::{in_words, published};
use crate::completion;
use crate::failure::Failure;
use crate::files::{Contents, Ending, FileArguments, tables};
use crate::json;
use crate::progress::Lines;
use crate::table::Grid;
use crate::terminal::{self, harmless};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use lab::published::TablesError;
use live::recordings::{built_in, default_directory};
use live::verify::numa::{ChoiceError, SECONDS, SECONDS_TO_CHOOSE, Selection};
use live::verify::{Asked, By, Cases, Cause, Entry, Report, Verification, verification};
use mm::Mechanism;
use report::{Data, Page};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use verdict::{Verdict, difference};

pub mod processes;
mod verdict;

/// Compare the twin's counters with those of the running kernel (needs root), or of recordings
#[derive(clap::Args)]
#[command(after_help = "\
pcp: workloads run and are recorded on this kernel; the twin replays their allocations with this
machine's zones and settings, and its counters are compared with the kernel's.

hugetlb: the pool of 2 MiB pages is resized with and without vmemmap optimisation. For each write,
the TLB flushes on all CPUs and the pages allocated and freed are compared. The pool must be empty
at the start, and is emptied again however the command ends.

reclaim: sequences of accesses to a file run in a memory cgroup that is smaller than the file. For
each access, hit or miss and the evicted pages are compared.

readahead: a file is read in several ways, and loaded from and stored to through a mapping. For each
access, the pages that were read in are compared, and for each case the number of page faults.

numa: programs run on several nodes. The decisions on each NUMA hinting fault and each scan pass are
compared. With --qemu, each kernel boots three times for each program: once to record the effect of
the decisions over time, and twice to record every decision, with small pages and with huge ones.
--program runs only one of numa01, numa01tl, numa02 and pinmove, or a program of your own: a .toml
file with the keys of a scenario's [workload.programs.program], such as
  kind = \"numa02\"
  threads = 4
  mib = 32
  loops = 1000
  main_touches_first = true

folios: memory is mapped in VMAs of many sizes and touched in many ways, with several sizes of large
folios enabled. The resulting folios, the number of page faults and the kernel's counters are
compared.

If the running kernel cannot be observed (no root, no tracefs, a pool in use), the built-in
recordings are used instead, and the report says so.

The last line says how many counters were compared, how many are within the mechanism's bound, and
which is the furthest off. Exit codes: 0 none is outside its bound, 1 some are, or an error, 2
impossible request.

Examples:
  mmtwin verify pcp
  mmtwin verify pcp --workload unix_stream --json
  mmtwin verify hugetlb
  mmtwin verify hugetlb --recorded -o hugetlb.html
  mmtwin verify reclaim
  mmtwin verify reclaim --qemu
  mmtwin verify readahead
  mmtwin verify numa --recorded
  mmtwin verify numa --qemu
  mmtwin verify numa --qemu --program numa02 --seconds 4
  mmtwin verify numa --qemu --program mine.toml
  mmtwin verify folios")]
pub struct Arguments {
    #[arg(help = format!("The mechanism: {}; and {}", in_words(published(), "or"), unpublished()), add = completion::mechanisms())]
    mechanism: String,

    /// Run only this workload of pcp (page_fault1-1cpu, page_fault1-2cpu, unix_stream, compile-j2 or
    /// threads); other mechanisms have no choice; may be given several times
    #[arg(long = "workload", value_name = "NAME", conflicts_with = "recorded")]
    workloads: Vec<String>,

    /// Compare with recordings instead of the running kernel
    #[arg(long)]
    recorded: bool,

    /// Compare with Debian's kernels 6.1, 6.12 and 6.18, emulated by QEMU (only reclaim and numa); takes a
    /// quarter of an hour or more, and a download
    #[arg(long, conflicts_with_all = ["recorded", "recordings"])]
    qemu: bool,

    /// With --qemu: boot all kernels again, even if they were recorded before
    #[arg(long, requires = "qemu", conflicts_with_all = ["recorded", "recordings"])]
    fresh: bool,

    /// With --qemu: run only this program of numa (numa01, numa01tl, numa02 or pinmove), or the one in this
    /// .toml file, which has the keys of a scenario's [workload.programs.program]
    #[arg(long, value_name = "NAME|FILE", requires = "qemu", conflicts_with_all = ["recorded", "recordings"])]
    program: Option<String>,

    #[arg(long, allow_negative_numbers = true, value_name = "N", requires = "qemu", conflicts_with_all = ["recorded", "recordings"],
        help = format!("With --qemu: run each program of numa for N seconds, {least} to {most} [default: {SECONDS}]; \
                        decisions are recorded for half as long",
                       least = SECONDS_TO_CHOOSE.start(), most = SECONDS_TO_CHOOSE.end()))]
    seconds: Option<u64>,

    /// Directory of the recordings [default: those that are built in]
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,

    #[command(flatten)]
    files: FileArguments,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    mechanism: &'a str,
    #[serde(flatten)]
    report: &'a Report,
    verdict: &'a Verdict,
}

impl json::Document for View<'_> {
    const NAME: &'static str = "verify";
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let files = arguments.files.check(Ending::ANSWER)?;
    live::rollback::put_back_left().context("cannot undo the changes that a killed mmtwin left behind")?;
    let mechanism = find(&arguments.mechanism)?;
    let verification = verification(mechanism);
    let asked = arguments.asked(mechanism)?;
    let by = arguments.by(&verification)?;
    let bar = ProgressBar::new_spinner().with_message(mechanism.name());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let lines = Lines::of(&bar, ProgressBar::message);
    let judged = verification.verify(by, &asked, &mut |what| bar.set_message(harmless(what).into_owned()));
    drop(lines);
    bar.finish_and_clear();
    let report = judged?;
    if report.entries.is_empty() && report.fallback.is_some() {
        let message = format!(
            "{}: no recordings there; give a directory with --recordings",
            asked.recordings.display()
        );
        return Err(Failure::input(message));
    }
    let verdict = Verdict::new(&report.entries, &verification.bound);
    let view = View { mechanism: mechanism.name(), report: &report, verdict: &verdict };
    if arguments.json {
        json::print(&view)?;
    } else {
        terminal::print(&render(&report, &verdict, arguments.qemu))?;
    }
    files.write(|| {
        let page = page(mechanism, &report, &verdict, arguments.qemu);
        Ok(Contents { page, json: json::text(&view)?, own: Vec::new() })
    })?;
    if verdict.outside > 0 { Err(Failure::Outside) } else { Ok(()) }
}

fn find(name: &str) -> Result<Mechanism, Failure> {
    Mechanism::find(name).ok_or_else(|| {
        let error = TablesError::UnknownMechanism { name: name.into() };
        Failure::input(format!("{error}; verify also has {}", unpublished()))
    })
}

/// The mechanisms that `verify` knows in addition to those with published tables.
fn unpublished() -> String {
    let of_verify_alone = Mechanism::ALL.into_iter().filter(|it| published().all(|other| other != *it));
    of_verify_alone.map(Mechanism::name).collect::<Vec<_>>().join(", ")
}

impl Arguments {
    /// Which kernel to compare with: the running one, recordings, or emulated ones.
    fn by(&self, asked: &Verification) -> Result<By, Failure> {
        if self.qemu && !asked.is_emulated {
            let emulated = Mechanism::ALL.into_iter().filter(|it| verification(*it).is_emulated);
            let names = in_words(emulated, "and");
            let message = format!("--qemu: only {names} have emulated kernels; leave the option out");
            return Err(Failure::input(message));
        }
        Ok(match (self.recorded, self.qemu) {
            (true, _) => By::Recordings,
            (false, true) => By::Emulation { fresh: self.fresh },
            (false, false) => By::RunningKernel,
        })
    }

    /// Collects the options that apply to `mechanism`.
    fn asked(&self, mechanism: Mechanism) -> Result<Asked, Failure> {
        if !self.workloads.is_empty() && mechanism != Mechanism::Pcp {
            let name = mechanism.name();
            let message = format!("--workload: {name} has no workloads to choose from; only pcp has");
            return Err(Failure::input(message));
        }
        let numa = self.selection(mechanism)?;
        let workload =
            |name: &String| name.parse().map_err(|error| Failure::input(format!("--workload: {error}")));
        let recordings = match &self.recordings {
            Some(directory) => directory.clone(),
            None => match built_in::directory() {
                Ok(directory) => directory,
                Err(error) if self.recorded => return Err(Failure::input(error.to_string())),
                // The running kernel may be observed without recordings.
                Err(_) => default_directory(),
            },
        };
        Ok(Asked {
            program: std::env::current_exe().context("cannot find the path of this program")?,
            workloads: self.workloads.iter().map(workload).collect::<Result<_, _>>()?,
            recordings,
            numa,
        })
    }

    /// The programs that emulated kernels run, and for how long.
    fn selection(&self, mechanism: Mechanism) -> Result<Selection, Failure> {
        let given = [("--program", self.program.is_some()), ("--seconds", self.seconds.is_some())];
        if let Some((option, _)) = given.into_iter().find(|&(_, given)| given)
            && mechanism != Mechanism::Numa
        {
            let message =
                format!("{option}: {} has no programs to choose from; only numa has", mechanism.name());
            return Err(Failure::input(message));
        }
        Selection::new(self.program.as_deref(), self.seconds).map_err(|error| {
            let option = if matches!(error, ChoiceError::Seconds(_)) { "--seconds" } else { "--program" };
            Failure::input(format!("{option}: {error}"))
        })
    }
}

/// What the twin was compared with.
fn source(report: &Report, qemu: bool) -> String {
    match &report.fallback {
        Some(reason) => format!("recordings of Linux {}, not the running kernel: {reason}", report.kernel),
        None if qemu && report.entries.is_empty() => "no kernel was emulated".into(),
        None if qemu => format!("Linux {}, emulated", report.kernel),
        None => format!("Linux {}, running here", report.kernel),
    }
}

/// The counters of a case.
fn of_case(report: &Report, case: &str) -> Grid {
    let mut grid = Grid::new(&[case, "kernel", "twin", "difference"]);
    for entry in report.entries.iter().filter(|entry| entry.case == case) {
        grid.row([
            entry.counter.clone(),
            entry.kernel.to_string(),
            entry.twin.to_string(),
            difference(entry.error) + if entry.is_comparable() { "" } else { ", not comparable" },
        ]);
    }
    grid
}

fn cases(report: &Report) -> Vec<&str> {
    let mut cases: Vec<&str> = report.entries.iter().map(|entry| entry.case.as_str()).collect();
    cases.dedup();
    cases
}

/// What is not observable, corrected, or explains a difference; none if there is nothing of the kind.
fn of_causes(report: &Report) -> Option<Grid> {
    let causes = causes(&report.entries);
    let mut grid =
        Grid::new(&["not observable by tracepoints, corrected, or explains a difference", "how often"]);
    causes.iter().for_each(|(cause, n)| grid.row([cause.description().to_string(), n.to_string()]));
    (!causes.is_empty()).then_some(grid)
}

/// The verdict, and the counters of every case.
fn page(mechanism: Mechanism, report: &Report, verdict: &Verdict, qemu: bool) -> Page {
    let mut grids: Vec<(&str, Grid)> =
        cases(report).into_iter().map(|case| (case, of_case(report, case))).collect();
    grids.extend(of_causes(report).map(|grid| ("What explains differences", grid)));
    let titled: Vec<(&str, &Grid)> = grids.iter().map(|(title, grid)| (*title, grid)).collect();
    let page = tables(&format!("{}, the twin and the kernel", mechanism.name()), Vec::new(), &titled);
    let mut said = vec![verdict.sentence()];
    said.extend(report.cases.map(of_cases));
    said.extend(report.notes.iter().cloned());
    let mut data = Data::of(&["case", "counter", "kernel", "twin", "error"]);
    data.rows = report
        .entries
        .iter()
        .map(|entry| {
            let error = entry.error.map_or(String::new(), |error| error.to_string());
            vec![
                entry.case.clone(),
                entry.counter.clone(),
                entry.kernel.to_string(),
                entry.twin.to_string(),
                error,
            ]
        })
        .collect();
    Page { lead: source(report, qemu), verdict: said, data, ..page }
}

fn render(report: &Report, verdict: &Verdict, qemu: bool) -> String {
    let mut pieces = vec![source(report, qemu)];
    pieces.extend(cases(report).into_iter().map(|case| of_case(report, case).render()));
    pieces.extend(of_causes(report).map(|grid| grid.render()));
    if !report.notes.is_empty() {
        pieces.push(report.notes.join("\n"));
    }
    pieces.extend(report.cases.map(of_cases));
    pieces.extend((!report.entries.is_empty()).then(|| verdict.sentence()));
    pieces.join("\n\n")
}

/// The sentence on how many cases agree.
fn of_cases(Cases { exact, differing, disturbed }: Cases) -> String {
    let all = exact + differing + disturbed;
    let others = match disturbed {
        0 => String::new(),
        _ => format!("; {disturbed} were disturbed by other processes and are not judged"),
    };
    format!("{all} cases: {exact} agree exactly, {differing} differ{others}")
}

/// The count of every cause. The entries of a case share their causes, so the largest count within a case is
/// taken.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_cases_do_not_agree() {
        let mut cases = Cases { exact: 520, differing: 1, disturbed: 0 };
        assert_eq!(of_cases(cases), "521 cases: 520 agree exactly, 1 differ");
        cases.disturbed = 3;
        let disturbed =
            "524 cases: 520 agree exactly, 1 differ; 3 were disturbed by other processes and are not judged";
        assert_eq!(of_cases(cases), disturbed);
    }

    #[test]
    fn evidence_names_mechanisms_as_they_are_called() {
        for name in lab::scenario::Scenario::names() {
            let evidence = lab::scenario::Scenario::load(name).unwrap().evidence;
            let Some((_, mechanism)) = evidence.split_once("mmtwin verify ") else { continue };
            let named = mechanism.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            assert_eq!(find(named).unwrap().name(), named, "{name}: {evidence}");
        }
    }
}
