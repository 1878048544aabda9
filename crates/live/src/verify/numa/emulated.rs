//! The programs on Debian's kernels in emulation, beside the twin's.
//!
//! ```text
//!   for each kernel x program
//!     boot it (emulation), two nodes, with this program as init, called with `guest numa PROGRAM trajectory`
//!       there: observer runs the program, guest sends the table
//!     the twin runs it too: after every two seconds, what both have counted and where memory is
//!     boot it once more, `guest numa PROGRAM decisions`
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

use super::programs::{PROGRAMS, SECONDS};
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
}

impl Watched {
    const ALL: [Watched; 2] = [Watched::Trajectory, Watched::Decisions];

    fn name(self) -> &'static str {
        match self {
            Watched::Trajectory => "trajectory",
            Watched::Decisions => "decisions",
        }
    }

    /// Where what boots have left is kept.
    fn directory(self) -> String {
        let mechanism = Mechanism::Numa.name();
        match self {
            Watched::Trajectory => mechanism.into(),
            Watched::Decisions => format!("{mechanism}-decisions"),
        }
    }
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(name: &str) -> Result<Watched, String> {
        let found = Watched::ALL.into_iter().find(|watched| watched.name() == name);
        found.ok_or_else(|| format!("no boot is for `{name}`; there are trajectory and decisions"))
    }
}

/// A boot for each program, and one more for its decisions.
pub fn boots() -> Boots<Recorded> {
    let (memory_mib, cpus, nodes, instruction_shift) = MACHINE;
    let kernel_options = String::new();
    let machine = qemu::Machine { memory_mib, cpus, nodes, instruction_shift, kernel_options };
    let of_programs = |watched: Watched| {
        PROGRAMS.into_iter().map(move |name| Boot {
            name: format!("{name}, {}", watched.name()),
            place: [watched.directory(), name.into()],
            words: vec![name, watched.name()],
        })
    };
    Boots { machine, boots: Watched::ALL.into_iter().flat_map(of_programs).collect(), open }
}

/// What a boot was for says what it has left.
fn open(boot: &Boot, _: &qemu::Kernel, place: &Path) -> Result<(String, Recorded), VerifyError> {
    let [_, program] = &boot.place;
    if boot.words[1] == Watched::Trajectory.name() {
        let run = EmulatedRun::open(program, place)?;
        return Ok((format!("Linux {}: {program}", run.kernel), Recorded::Emulated(run)));
    }
    let recording = Recording::open(place)?;
    let lost = |case| recording.require_lossless(case).err().map(|error| error.to_string());
    let lost: Vec<String> = recording.cases.iter().filter_map(lost).collect();
    let subject = format!("Linux {}, decisions", recording.kernel);
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
    program: String,
    table: PathBuf,
    recorded: Trajectory,
}

impl EmulatedRun {
    fn open(program: &str, place: &Path) -> Result<EmulatedRun, VerifyError> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|source| failed(path.display().to_string(), source))
        };
        let table = place.join(TABLE);
        let wrong = |problem| failed(table.display().to_string(), io::Error::other(problem));
        let runs = parse(&read(&table)?).map_err(wrong)?;
        let recorded = runs.into_iter().next().ok_or_else(|| wrong("it holds no run".into()))?;
        Ok(EmulatedRun { kernel: read(&place.join(KERNEL))?, program: program.into(), table, recorded })
    }

    /// The counters beside the twin's.
    pub(super) fn entries(&self, case: &str, progress: Progress) -> Result<Vec<Entry>, VerifyError> {
        let EmulatedRun { kernel, program, table, recorded } = self;
        let wrong = |problem: String| failed(table.display().to_string(), io::Error::other(problem));
        progress(&format!("running {program} in the twin, as Linux {kernel}"));
        let on = twin::Emulated::on_two_nodes(kernel);
        let runs =
            (0..RUNS).map(|seed| twin::trajectory(&on, program, &recorded.seconds, seed).map_err(wrong));
        let runs: Vec<Trajectory> = runs.collect::<Result<_, _>>()?;
        Ok(entries(case, recorded, &runs))
    }
}

/// What the kernel had counted after a while, beside the middle of the twin's runs.
fn entries(case: &str, kernel: &Trajectory, runs: &[Trajectory]) -> Vec<Entry> {
    let placed = kernel.columns.keys().filter(|name| name.ends_with("_node0"));
    let columns: Vec<&str> = COUNTERS.into_iter().chain(placed.map(String::as_str)).collect();
    let mut entries = Vec::new();
    for column in columns {
        for seconds in (SECONDS_SHOWN..=SECONDS).step_by(SECONDS_SHOWN as usize) {
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

/// Inside the emulation: runs the program named `name` and names the directory that holds what was seen of it.
pub fn in_guest(name: &str, watched: Watched) -> Result<PathBuf, String> {
    let words = words_in_guest(NUMA_PROCESS);
    let record = || -> Result<PathBuf, tracing::Failure> {
        let directory = PathBuf::from("/recording");
        fs::create_dir_all(&directory)?;
        match watched {
            Watched::Trajectory => {
                let trajectory = observer::observe(&words, name)?;
                fs::write(directory.join(TABLE), trajectory.to_csv())?;
                fs::write(directory.join(KERNEL), snapshot::kernel_release())?;
            }
            Watched::Decisions => tracing::record(&words, name, &directory)?,
        }
        Ok(directory)
    };
    record().map_err(|error| error.to_string())
}
