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
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::programs::{PROGRAMS, SECONDS};
use super::recording::Recording;
use super::trajectory::{COUNTERS, Trajectory, parse};
use super::{judge, observer, summary, tracing, twin};
use crate::qemu;
use crate::snapshot;
use crate::verify::emulation::Emulation;
use crate::verify::failed;
use crate::verify::{Causes, Entry, Report, VerifyError, features};

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
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(name: &str) -> Result<Watched, String> {
        let found = Watched::ALL.into_iter().find(|watched| watched.name() == name);
        found.ok_or_else(|| format!("no boot is for `{name}`; there are trajectory and decisions"))
    }
}

/// Judges the twin by Debian's kernels, booted again if `fresh`. `words` lead this program to [`in_guest`]; a program and what
/// the boot is for follow.
pub fn emulated(words: &[&str], fresh: bool, progress: &mut dyn FnMut(&str)) -> Result<Report, VerifyError> {
    let (memory_mib, cpus, nodes, instruction_shift) = MACHINE;
    let kernel_options = String::new();
    let machine = qemu::Machine { memory_mib, cpus, nodes, instruction_shift, kernel_options };
    let mut emulation = Emulation::open(machine, fresh)?;
    let mut report = Report::of_kernel(String::new());
    let mut kernels = Vec::new();
    for bootable in emulation.kernels(&mut report, progress) {
        let mut decisions = Vec::new();
        for (name, watched) in
            PROGRAMS.into_iter().flat_map(|name| Watched::ALL.map(|watched| (name, watched)))
        {
            progress(&format!("emulating Linux {}: {name}, {}", bootable.kernel.release, watched.name()));
            let place = match watched {
                Watched::Trajectory => emulation.place("numa", &bootable, name),
                Watched::Decisions => emulation.place("numa-decisions", &bootable, name),
            };
            let words = [words, &[name, watched.name()]].concat();
            if !emulation.boot(&bootable, &words, &place, &mut report)? {
                continue;
            }
            let release = match watched {
                Watched::Trajectory => {
                    let (release, entries) = trajectories(name, &place, progress)?;
                    report.entries.extend(entries);
                    release
                }
                Watched::Decisions => {
                    let recording = Recording::open(&place)?;
                    let lossy = |case| recording.require_lossless(case).err().map(|error| error.to_string());
                    let lossy: Vec<String> = recording.cases.iter().filter_map(lossy).collect();
                    if lossy.is_empty() {
                        let subject = format!("Linux {}, decisions", recording.kernel);
                        decisions.extend(judge(&subject, &recording, progress)?);
                    }
                    report.notes.extend(lossy);
                    recording.kernel
                }
            };
            if kernels.last() != Some(&release) {
                kernels.push(release);
            }
        }
        if let Some(release) = kernels.last().filter(|_| !decisions.is_empty()) {
            report.notes.push(summary(release, &decisions));
        }
        report.entries.extend(decisions);
    }
    emulation.note_reused(&mut report);
    report.kernel = kernels.join(", ");
    Ok(report)
}

/// The kernel's release, and its counters over time in the directory `place` beside the twin's.
fn trajectories(
    name: &str,
    place: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(String, Vec<Entry>), VerifyError> {
    let read = |file: &str| {
        let path = place.join(file);
        fs::read_to_string(&path).map_err(|source| failed(path.display().to_string(), source))
    };
    let release = read(KERNEL)?;
    features(&format!("Linux {release}"), &release)?;
    let wrong = |problem| failed(place.join(TABLE).display().to_string(), std::io::Error::other(problem));
    let recorded = parse(&read(TABLE)?).map_err(wrong)?;
    let recorded = recorded.first().ok_or_else(|| wrong("it holds no run".into()))?;
    progress(&format!("running {name} in the twin, as Linux {release}"));
    let on = twin::Emulated::on_two_nodes(&release);
    let runs = (0..RUNS).map(|seed| twin::trajectory(&on, name, &recorded.seconds, seed).map_err(wrong));
    let runs: Vec<Trajectory> = runs.collect::<Result<_, _>>()?;
    let entries = entries(&format!("Linux {release}: {name}"), recorded, &runs);
    Ok((release, entries))
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

/// Inside the emulation: runs the program named `name` and names the directory that holds what was seen of it. `words`: this
/// program, and what leads it to [`super::run_process`].
pub fn in_guest(words: &[String], name: &str, watched: Watched) -> Result<PathBuf, String> {
    let record = || -> Result<PathBuf, tracing::Failure> {
        let directory = PathBuf::from("/recording");
        fs::create_dir_all(&directory)?;
        match watched {
            Watched::Trajectory => {
                let trajectory = observer::observe(words, name)?;
                fs::write(directory.join(TABLE), trajectory.to_csv())?;
                fs::write(directory.join(KERNEL), snapshot::kernel_release())?;
            }
            Watched::Decisions => tracing::record(words, name, &directory)?,
        }
        Ok(directory)
    };
    record().map_err(|error| error.to_string())
}
