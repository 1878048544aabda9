//! The programs on Debian's kernels in emulation, beside the twin's.
//!
//! ```text
//!   for each kernel x program
//!     boot it (emulation), two nodes, with this program as init, called with `guest numa PROGRAM trajectory SECONDS`
//!       there: observer runs the program, guest sends the table
//!     the twin runs it too: after every two seconds, what both have counted and where memory is
//!     boot it once more, `guest numa PROGRAM decisions SECONDS`, and again with huge pages
//!       there: tracing records every decision, guest sends the recording
//!     judge: each of them against what the twin decides there
//! ```
//!
//! Decisions have boots of their own, as recording them takes time from the program.
//!
//! A run in emulation repeats bit for bit, but it is one of many: a millisecond more at the start, and other pages move. So
//! the twin's number is the middle of several runs, and a note says how far those lie apart.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mm::Mechanism;

use super::programs::{Chosen, Pages, Selection, host};
use super::recording::Recording;
use super::trajectory::{COUNTERS, Trajectory, parse};
use super::{NUMA_PROCESS, Recorded, observer, tracing, twin};
use crate::qemu;
use crate::snapshot;
use crate::verify::emulation::{Boot, Boots, words_in_guest};
use crate::verify::{Causes, Entry, Progress, VerifyError, failed};

/// As the recorded machines: 512 MiB a node, and an instruction takes 2 ns.
const MACHINE: (u64, u16, u16, u8) = (1024, 4, 2, 1);
const TABLE: &str = "trajectory.csv";
const KERNEL: &str = "kernel";
/// Runs of the twin.
const RUNS: u64 = 5;
/// What is shown of a run.
const SECONDS_SHOWN: u64 = 2;

/// What a boot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Counters and where memory is, over time.
    Trajectory,
    /// Every decision.
    Decisions,
    /// The same where memory is huge pages.
    HugePageDecisions,
}

impl Watched {
    const ALL: [Watched; 3] = [Watched::Trajectory, Watched::Decisions, Watched::HugePageDecisions];

    fn name(self) -> &'static str {
        match self {
            Watched::Trajectory => "trajectory",
            Watched::Decisions => "decisions",
            Watched::HugePageDecisions => "huge-page-decisions",
        }
    }

    /// How long it takes of a program that runs for some seconds: buffers for decisions are full after some more.
    fn seconds(self, of: u64) -> u64 {
        match self {
            Watched::Trajectory => of,
            Watched::Decisions | Watched::HugePageDecisions => of.div_ceil(2),
        }
    }

    /// Where what boots have left is kept.
    fn directory(self) -> String {
        let mechanism = Mechanism::Numa.name();
        match self {
            Watched::Trajectory => mechanism.into(),
            Watched::Decisions | Watched::HugePageDecisions => format!("{mechanism}-{}", self.name()),
        }
    }
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(name: &str) -> Result<Watched, String> {
        let found = Watched::ALL.into_iter().find(|watched| watched.name() == name);
        let all = Watched::ALL.map(Watched::name).join(", ");
        found.ok_or_else(|| format!("no boot is for `{name}`; there are {all}"))
    }
}

/// A boot for each program, and one more for its decisions with each kind of pages.
pub fn boots(selection: &Selection) -> Boots<Recorded> {
    let (memory_mib, cpus, nodes, instruction_shift) = MACHINE;
    let kernel_options = String::new();
    let machine = qemu::Machine { memory_mib, cpus, nodes, instruction_shift, kernel_options };
    let of_programs = |watched: Watched| {
        selection.programs.iter().map(move |program| Boot {
            name: format!("{}, {}", program.name(), watched.name()),
            place: [watched.directory(), program.key(selection.seconds)],
            words: vec![
                program.word(),
                watched.name().into(),
                watched.seconds(selection.seconds).to_string(),
            ],
            given: program.given().into_iter().collect(),
            not_on: None,
        })
    };
    let boots = Watched::ALL.into_iter().flat_map(of_programs).collect();
    let selection = selection.clone();
    Boots { machine, boots, open: Box::new(move |boot, _, place| open(&selection, boot, place)) }
}

/// What a boot was for says what it has left.
fn open(selection: &Selection, boot: &Boot, place: &Path) -> Result<(String, Recorded), VerifyError> {
    let [word, watched, _] = &boot.words[..] else { unreachable!("a program, what is watched, and seconds") };
    let program = selection.programs.iter().find(|program| program.word() == *word);
    let program = program.expect("boots are of the selected programs");
    if *watched == Watched::Trajectory.name() {
        let run = EmulatedRun::open(program, selection.seconds, place)?;
        return Ok((format!("Linux {}: {}", run.kernel, program.name()), Recorded::Emulated(Box::new(run))));
    }
    let recording = Recording::open(place)?;
    let lost = |case| recording.require_lossless(case).err().map(|error| error.to_string());
    let lost: Vec<String> = recording.cases.iter().filter_map(lost).collect();
    let subject = format!("Linux {}, {}", recording.kernel, watched.replace('-', " "));
    let recorded = match lost.is_empty() {
        true => Recorded::Decisions(recording),
        false => Recorded::Incomplete(recording.kernel, lost),
    };
    Ok((subject, recorded))
}

/// Counters over time of one run of a program.
pub struct EmulatedRun {
    /// The kernel's release.
    pub kernel: String,
    program: Chosen,
    /// How long it ran.
    length: u64,
    table: PathBuf,
    recorded: Trajectory,
}

impl EmulatedRun {
    fn open(program: &Chosen, length: u64, place: &Path) -> Result<EmulatedRun, VerifyError> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|source| failed(path.display().to_string(), source))
        };
        let table = place.join(TABLE);
        let wrong = |problem| failed(table.display().to_string(), io::Error::other(problem));
        let runs = parse(&read(&table)?).map_err(wrong)?;
        let recorded = runs.into_iter().next().ok_or_else(|| wrong("it holds no run".into()))?;
        let (kernel, program) = (read(&place.join(KERNEL))?, program.clone());
        Ok(EmulatedRun { kernel, program, length, table, recorded })
    }

    /// The counters beside the twin's.
    pub(super) fn entries(&self, case: &str, progress: Progress) -> Result<Vec<Entry>, VerifyError> {
        let EmulatedRun { kernel, program, length, table, recorded } = self;
        let wrong = |problem: String| failed(table.display().to_string(), io::Error::other(problem));
        progress(&format!("running {} in the twin, as Linux {kernel}", program.name()));
        let on = twin::Emulated::on_two_nodes(kernel);
        let host = host(program.spec(*length), *length);
        let runs = (0..RUNS).map(|seed| twin::trajectory(&on, &host, &recorded.seconds, seed).map_err(wrong));
        let runs: Vec<Trajectory> = runs.collect::<Result<_, _>>()?;
        Ok(entries(case, recorded, &runs, *length))
    }
}

/// What the kernel had counted after a while, beside the middle of the twin's runs, which took `length` seconds.
fn entries(case: &str, kernel: &Trajectory, runs: &[Trajectory], length: u64) -> Vec<Entry> {
    let placed = kernel.columns.keys().filter(|name| name.ends_with("_node0"));
    let columns: Vec<&str> = COUNTERS.into_iter().chain(placed.map(String::as_str)).collect();
    let mut entries = Vec::new();
    for column in columns {
        for seconds in (SECONDS_SHOWN..=length).step_by(SECONDS_SHOWN as usize) {
            let at = |run: &Trajectory| run.at(column, seconds as f64);
            let mut values: Vec<u64> = runs.iter().filter_map(at).collect();
            values.sort_unstable();
            if let (Some(recorded), Some(&middle)) = (at(kernel), values.get(values.len() / 2)) {
                let counter = format!("{column}, after {seconds} s");
                entries.push(Entry::new(case, counter, recorded, middle, Causes::default()));
            }
        }
    }
    entries
}

/// Inside the emulation: runs a program, given by name or file, for some seconds, and returns the directory that holds what was
/// seen of it.
pub fn in_guest(program: &str, watched: Watched, seconds: u64) -> Result<PathBuf, String> {
    let words = words_in_guest(NUMA_PROCESS);
    let record = || -> Result<PathBuf, tracing::Failure> {
        let program = Chosen::find(program, seconds)?;
        let decisions =
            |pages, directory: &Path| tracing::record(&words, &program, seconds, pages, directory);
        let directory = PathBuf::from("/recording");
        fs::create_dir_all(&directory)?;
        match watched {
            Watched::Trajectory => {
                let trajectory = observer::observe(&words, &program, seconds)?;
                fs::write(directory.join(TABLE), trajectory.to_csv())?;
                fs::write(directory.join(KERNEL), snapshot::kernel_release())?;
            }
            Watched::Decisions => decisions(Pages::Base, &directory)?,
            Watched::HugePageDecisions => decisions(Pages::Huge, &directory)?,
        }
        Ok(directory)
    };
    record().map_err(|error| error.to_string())
}
