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
use live::qemu;
use live::recordings::default_directory;
use live::verify::pcp::programs::{self, Program};
use live::verify::{
    Cases, Cause, Entry, Report, VerifyError, folios, hugetlb, numa, pcp, readahead, reclaim,
};
use mm::Mechanism;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use verdict::{Bound, Verdict, difference};

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

/// A workload of `mmtwin verify`, in a process of its own.
#[derive(clap::Args)]
pub struct WorkloadArguments {
    /// Its name
    program: Program,
    /// Where it leaves the kernel's state before and after
    directory: PathBuf,
}

/// What leads this program to [`run_workload`].
pub const WORKLOAD: &str = "workload";

/// The program that `mmtwin verify reclaim` watches, in a process of its own.
#[derive(clap::Args)]
pub struct ReaderArguments {
    /// The sequence of accesses
    sequence: String,
    /// The file to read
    file: PathBuf,
    /// The memory cgroup to join
    group: PathBuf,
    /// Accesses between two readings of memory.stat
    stat_reads: u32,
}

/// What leads this program to [`run_reader`].
pub const READER: &str = "reader";

/// `mmtwin verify --qemu` as init of the emulated machine.
#[derive(clap::Subcommand)]
pub enum Guest {
    /// Records a sequence of accesses
    Reclaim {
        /// The sequence
        sequence: String,
        /// The lists that reclaim goes by
        lru: reclaim::Lru,
    },
    /// Runs a program on several nodes
    Numa {
        /// The program
        program: String,
        /// What of it is recorded
        watched: numa::Watched,
    },
}

/// What leads this program to [`run_guest`].
pub const GUEST: &str = "guest";

/// Does what was asked for inside an emulated machine and ends that.
pub fn run_guest(guest: &Guest) -> Result<(), Failure> {
    let words = |word: &str| ["/init".to_string(), word.to_string()];
    qemu::guest::serve(|| match guest {
        Guest::Reclaim { sequence, lru } => reclaim::in_guest(&words(READER), sequence, *lru),
        Guest::Numa { program, watched } => numa::in_guest(&words(NUMA_PROCESS), program, *watched),
    })
    .context("the emulated machine")?;
    Ok(())
}

/// A process of a program that `mmtwin verify numa --qemu` watches.
#[derive(clap::Args)]
pub struct NumaProcessArguments {
    /// The program
    program: String,
    /// Which of its processes
    number: u32,
    /// How long it is watched
    seconds: u64,
}

/// What leads this program to [`run_numa_process`].
pub const NUMA_PROCESS: &str = "numa-process";

/// Runs a process of a program on several nodes.
pub fn run_numa_process(arguments: &NumaProcessArguments) -> Result<(), Failure> {
    numa::run_process(&arguments.program, arguments.number, arguments.seconds)
        .with_context(|| format!("process {} of {}", arguments.number, arguments.program))?;
    Ok(())
}

/// What leads this program to the process that `mmtwin verify folios` looks at.
pub const MEMORY: &str = "memory";

/// Maps and touches memory in this process.
pub fn run_memory() -> Result<(), Failure> {
    folios::memory::run().context("the process that touches memory")?;
    Ok(())
}

/// Reads a file in this process.
pub fn run_reader(arguments: &ReaderArguments) -> Result<(), Failure> {
    reclaim::reader::run(&arguments.sequence, &arguments.file, &arguments.group, arguments.stat_reads)
        .with_context(|| format!("reading {}", arguments.file.display()))?;
    Ok(())
}

/// Runs a workload in this process.
pub fn run_workload(arguments: &WorkloadArguments) -> Result<(), Failure> {
    programs::run(arguments.program, &arguments.directory)
        .with_context(|| format!("workload {}", arguments.program.name()))?;
    Ok(())
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
    live::guard::put_back_left().context("what a killed mmtwin left")?;
    let verified = Verified::find(&arguments.mechanism)?;
    let name = verified.mechanism.name();
    let workloads = verified.workloads(&arguments.workloads)?;
    if arguments.qemu && verified.emulated.is_none() {
        let emulated = MECHANISMS.iter().filter(|verified| verified.emulated.is_some());
        let names = in_words(emulated.map(|verified| verified.mechanism), "and");
        let message = format!("--qemu: only {names} are verified in emulation; leave it out");
        return Err(Failure::input(message));
    }
    let bar = ProgressBar::new_spinner().with_message(name);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let lines = Lines::of(&bar, ProgressBar::message);
    let recordings = arguments.recordings.clone().unwrap_or_else(default_directory);
    let asked = Asked { workloads, recordings };
    let judged = verified.judge(arguments, &asked, &mut |what| bar.set_message(harmless(what).into_owned()));
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
    let verdict = Verdict::new(&report.entries, &verified.bound);
    if arguments.json {
        let (report, verdict) = (&report, &verdict);
        json::print("verify", &View { mechanism: name, report, verdict })?;
    } else {
        terminal::print(&render(&report, &verdict, arguments.qemu))?;
    }
    if verdict.outside > 0 { Err(Failure::Outside) } else { Ok(()) }
}

/// What is asked of a mechanism.
struct Asked {
    /// The workloads to run; all if there are none.
    workloads: Vec<Program>,
    /// Where recordings are.
    recordings: PathBuf,
}

/// Told what is being done.
type Progress<'a> = &'a mut dyn FnMut(&str);

type Judged = Result<Report, VerifyError>;

/// Judges the twin by kernels in emulation, which begin with these words; whether they are booted again.
type Emulated = fn(&[&str], bool, Progress) -> Judged;

/// A mechanism, and what it is judged by.
pub struct Verified {
    /// Which it is.
    pub mechanism: Mechanism,
    /// What is compared.
    pub compared: &'static str,
    /// Recordings in a directory; the text says why it is them.
    from_recordings: fn(&Path, String, Progress) -> Judged,
    /// The kernel that runs here, or recordings where it cannot be asked.
    live: fn(&Asked, Progress) -> Result<Report, Failure>,
    emulated: Option<Emulated>,
    bound: Bound,
}

/// All that can be verified: the mechanisms of `mmtwin published`, and readahead, which reclaim builds on.
pub const MECHANISMS: [Verified; 6] = [
    Verified {
        mechanism: Mechanism::Pcp,
        compared: "refills, drains and states of pagesets while workloads run",
        from_recordings: pcp::from_recordings,
        live: judge_pcp,
        emulated: None,
        bound: Bound::PCP,
    },
    Verified {
        mechanism: Mechanism::Hugetlb,
        compared: "flushes and pages when the pool of 2 MiB pages is resized",
        from_recordings: hugetlb::from_recordings,
        live: |asked, progress| Ok(hugetlb::hugetlb(&asked.recordings, progress)?),
        emulated: None,
        bound: Bound::EXACT,
    },
    Verified {
        mechanism: Mechanism::Reclaim,
        compared: "hits, misses and evictions of accesses in a memory cgroup",
        from_recordings: reclaim::from_recordings,
        live: |asked, progress| Ok(reclaim::reclaim(&this_program(READER)?, &asked.recordings, progress)?),
        emulated: Some(reclaim::emulated),
        bound: Bound::RECLAIM,
    },
    Verified {
        mechanism: Mechanism::Readahead,
        compared: "folios that reads of a file bring in",
        from_recordings: readahead::from_recordings,
        live: |asked, progress| Ok(readahead::readahead(&asked.recordings, progress)?),
        emulated: None,
        bound: Bound::EXACT,
    },
    Verified {
        mechanism: Mechanism::Numa,
        compared: "decisions about hint faults and scans, and counters over time",
        from_recordings: numa::from_recordings,
        live: |asked, progress| {
            let reason = "NUMA balancing of this kernel is not watched; it is judged by recordings, or with --qemu on emulated machines";
            Ok(numa::from_recordings(&asked.recordings, reason.into(), progress)?)
        },
        emulated: Some(numa::emulated),
        bound: Bound::NUMA,
    },
    Verified {
        mechanism: Mechanism::Folios,
        compared: "folios, faults and counters of memory that is mapped and touched",
        from_recordings: folios::from_recordings,
        live: |asked, progress| Ok(folios::folios(&this_program(MEMORY)?, &asked.recordings, progress)?),
        emulated: None,
        bound: Bound::EXACT,
    },
];

/// What only `mmtwin verify` has.
fn unpublished() -> String {
    let of_verify_alone =
        MECHANISMS.iter().filter(|verified| published().all(|mechanism| mechanism != verified.mechanism));
    let names: Vec<&str> = of_verify_alone.map(|verified| verified.mechanism.name()).collect();
    names.join(", ")
}

impl Verified {
    /// The mechanism named `name`, by the names of `mmtwin published` and one more.
    fn find(name: &str) -> Result<&'static Verified, Failure> {
        let of = |mechanism| MECHANISMS.iter().find(|verified| verified.mechanism == mechanism);
        Mechanism::find(name).and_then(of).ok_or_else(|| {
            let error = TablesError::UnknownMechanism { name: name.into() };
            Failure::input(format!("{error}; verify also has {}", unpublished()))
        })
    }

    /// The workloads of these names.
    fn workloads(&self, names: &[String]) -> Result<Vec<Program>, Failure> {
        if !names.is_empty() && self.mechanism != Mechanism::Pcp {
            let message = format!(
                "--workload: {} runs all it has; only pcp has workloads to choose from",
                self.mechanism.name()
            );
            return Err(Failure::input(message));
        }
        let program =
            |name: &String| name.parse().map_err(|error| Failure::input(format!("--workload: {error}")));
        names.iter().map(program).collect()
    }

    fn judge(&self, arguments: &Arguments, asked: &Asked, progress: Progress) -> Result<Report, Failure> {
        match self.emulated {
            _ if arguments.recorded => {
                let reason = "asked for with --recorded";
                Ok((self.from_recordings)(&asked.recordings, reason.into(), progress)?)
            }
            Some(emulated) if arguments.qemu => {
                Ok(emulated(&[GUEST, self.mechanism.name()], arguments.fresh, progress)?)
            }
            _ => (self.live)(asked, progress),
        }
    }
}

fn judge_pcp(asked: &Asked, progress: Progress) -> Result<Report, Failure> {
    let program = this_program(WORKLOAD)?;
    let Asked { workloads, recordings } = asked;
    let options = pcp::Options { program, workloads: workloads.clone(), recordings: recordings.clone() };
    Ok(pcp::pcp(&options, progress)?)
}

/// This program, and the word that leads it to something else.
fn this_program(word: &str) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe().context("the path of this program")?;
    Ok(vec![program.display().to_string(), word.to_string()])
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
