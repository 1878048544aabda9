//! `mmtwin verify`: the twin against a real kernel, counter by counter.

use crate::arguments::{in_words, published};
use crate::failure::Failure;
use crate::json;
use crate::progress::Lines;
use crate::table::Grid;
use crate::terminal::{self, harmless};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use lab::published::TablesError;
use live::recordings::default_directory;
use live::verify::{Asked, By, Cases, Cause, Entry, Report, Verification, verification};
use mm::Mechanism;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use verdict::{Verdict, difference};

pub mod processes;
mod verdict;

/// Compare the twin's counters with those of the kernel that runs here (needs root), or of recorded ones
#[derive(clap::Args)]
#[command(after_help = "\
pcp: workloads run on this kernel and are recorded; the twin replays what they asked for, with
this machine's zones and settings, and its counters stand beside the kernel's.

hugetlb: the pool of 2 MiB pages is resized, with and without vmemmap optimisation, and what
each write made the kernel do stands beside what it makes the twin do: flushes of all CPUs,
pages allocated and freed. The pool must be empty and is so again afterwards, whatever happens.

reclaim: sequences of accesses to a file run in a memory cgroup that it does not fit into; for each
access, was the page there, and which pages had to go? The same in the twin.

readahead: a file is read in several ways; for each read, which pages came in? The same in the twin.

numa: hint faults and scan passes of programs on several nodes; what is decided about each
stands beside what the twin decides. With --qemu, each kernel is booted twice for each program:
once to record every decision, once for what comes of them over time.

folios: memory is mapped in VMAs of many sizes and touched in many ways, with several sizes of large
folios enabled; which folios are there, how many faults it took and what the kernel counted
stands beside the twin's.

Where the kernel cannot be asked (no root, no tracefs, a pool in use), recordings that come with
the source are judged instead, and the report says so.

The last line says how many numbers were compared, how many are within the mechanism's bound, and
which is furthest off. Exit codes: 0 none is outside, 1 some are, or something failed, 2 asked for
something impossible.

Examples:
  mmtwin verify pcp
  mmtwin verify pcp --workload unix_stream --json
  mmtwin verify hugetlb
  mmtwin verify hugetlb --recorded
  mmtwin verify reclaim
  mmtwin verify reclaim --qemu
  mmtwin verify readahead
  mmtwin verify numa --recorded
  mmtwin verify numa --qemu
  mmtwin verify folios")]
pub struct Arguments {
    #[arg(help = format!("The mechanism: {}; and {}", in_words(published(), "or"), unpublished()))]
    mechanism: String,

    /// Only this workload: of pcp page_fault1-1cpu, page_fault1-2cpu, unix_stream or compile-j2, others have none to choose;
    /// may be given several times
    #[arg(long = "workload", value_name = "NAME", conflicts_with = "recorded")]
    workloads: Vec<String>,

    /// Judge recordings instead of the kernel that runs here
    #[arg(long)]
    recorded: bool,

    /// Ask Debian's kernels 6.1, 6.12 and 6.18 instead, emulated by QEMU; reclaim and numa only, takes a quarter of an hour
    /// and a download
    #[arg(long, conflicts_with_all = ["recorded", "recordings"])]
    qemu: bool,

    /// With --qemu: boot kernels again that were booted before
    #[arg(long, requires = "qemu", conflicts_with_all = ["recorded", "recordings"])]
    fresh: bool,

    /// Directory of recordings [default: those that come with the source]
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View<'a> {
    mechanism: &'a str,
    #[serde(flatten)]
    report: &'a Report,
    verdict: &'a Verdict,
}

/// Verifies.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    live::rollback::put_back_left().context("what a killed mmtwin left")?;
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
    if arguments.json {
        let (report, verdict) = (&report, &verdict);
        json::print("verify", &View { mechanism: mechanism.name(), report, verdict })?;
    } else {
        terminal::print(&render(&report, &verdict, arguments.qemu))?;
    }
    if verdict.outside > 0 { Err(Failure::Outside) } else { Ok(()) }
}

/// The mechanism named `name`.
fn find(name: &str) -> Result<Mechanism, Failure> {
    Mechanism::find(name).ok_or_else(|| {
        let error = TablesError::UnknownMechanism { name: name.into() };
        Failure::input(format!("{error}; verify also has {}", unpublished()))
    })
}

/// What only `mmtwin verify` has.
fn unpublished() -> String {
    let of_verify_alone = Mechanism::ALL.into_iter().filter(|it| published().all(|other| other != *it));
    of_verify_alone.map(Mechanism::name).collect::<Vec<_>>().join(", ")
}

impl Arguments {
    /// Which kernels judge.
    fn by(&self, asked: &Verification) -> Result<By, Failure> {
        if self.qemu && !asked.is_emulated {
            let emulated = Mechanism::ALL.into_iter().filter(|it| verification(*it).is_emulated);
            let names = in_words(emulated, "and");
            let message = format!("--qemu: only {names} are verified in emulation; leave it out");
            return Err(Failure::input(message));
        }
        Ok(match (self.recorded, self.qemu) {
            (true, _) => By::Recordings,
            (false, true) => By::Emulation { fresh: self.fresh },
            (false, false) => By::RunningKernel,
        })
    }

    /// What is asked of a mechanism.
    fn asked(&self, mechanism: Mechanism) -> Result<Asked, Failure> {
        if !self.workloads.is_empty() && mechanism != Mechanism::Pcp {
            let name = mechanism.name();
            let message =
                format!("--workload: {name} runs all it has; only pcp has workloads to choose from");
            return Err(Failure::input(message));
        }
        let workload =
            |name: &String| name.parse().map_err(|error| Failure::input(format!("--workload: {error}")));
        Ok(Asked {
            program: std::env::current_exe().context("the path of this program")?,
            workloads: self.workloads.iter().map(workload).collect::<Result<_, _>>()?,
            recordings: self.recordings.clone().unwrap_or_else(default_directory),
        })
    }
}

fn render(report: &Report, verdict: &Verdict, qemu: bool) -> String {
    let mut pieces = vec![match &report.fallback {
        Some(reason) => format!("recordings of Linux {}, not the running kernel: {reason}", report.kernel),
        None if qemu && report.entries.is_empty() => "no kernel was emulated".into(),
        None if qemu => format!("Linux {}, emulated", report.kernel),
        None => format!("Linux {}, running here", report.kernel),
    }];
    let mut cases: Vec<&str> = report.entries.iter().map(|entry| entry.case.as_str()).collect();
    cases.dedup();
    for case in cases {
        let mut grid = Grid::new(&[case, "kernel", "twin", "difference"]);
        for entry in report.entries.iter().filter(|entry| entry.case == case) {
            grid.row([
                entry.counter.clone(),
                entry.kernel.to_string(),
                entry.twin.to_string(),
                difference(entry.error) + if entry.is_comparable() { "" } else { ", not comparable" },
            ]);
        }
        pieces.push(grid.render());
    }
    let causes = causes(&report.entries);
    if !causes.is_empty() {
        let mut grid =
            Grid::new(&["what no tracepoint shows, was put right, or explains a difference", "how often"]);
        causes.iter().for_each(|(cause, n)| grid.row([cause.description().to_string(), n.to_string()]));
        pieces.push(grid.render());
    }
    if !report.notes.is_empty() {
        pieces.push(report.notes.join("\n"));
    }
    pieces.extend(report.cases.map(of_cases));
    pieces.extend((!report.entries.is_empty()).then(|| verdict.sentence()));
    pieces.join("\n\n")
}

/// How many cases agree.
fn of_cases(Cases { exact, differing, disturbed }: Cases) -> String {
    let all = exact + differing + disturbed;
    let others = match disturbed {
        0 => String::new(),
        _ => format!("; {disturbed} were disturbed by other processes and may be either"),
    };
    format!("{all} cases: {exact} agree exactly, {differing} differ{others}")
}

/// Every cause, with the largest number that one entry of a case has: entries of a case share them.
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
            "524 cases: 520 agree exactly, 1 differ; 3 were disturbed by other processes and may be either";
        assert_eq!(of_cases(cases), disturbed);
    }
}
