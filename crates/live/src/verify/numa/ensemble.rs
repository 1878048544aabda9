//! Runs of the same program on a kernel, each started a little later, and whether the twin's runs lie among them.
//!
//! ```text
//!   data/recordings/numa-ensemble-6.12.95/
//!     ensemble.toml       kernel, machine, programs, where memory was in the end      Ensemble
//!     numa01.csv.zst      counters of 16 runs, twice a second                         Trajectory
//!
//!   counter  │       ______ most of the kernel's runs
//!            │   .--'  · ·      · the twin's: within if between the two
//!            │ .'__.----'  least
//!            └──────────── time
//! ```
//!
//! Runs of NUMA balancing are chaotic, so no run of the twin can be that of the kernel; but if the twin is right, it is one that
//! the kernel might have made. Of some programs there is one run of the kernel (`numa-4n-*`), which says of what order numbers
//! are, and bounds nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::programs::{SECONDS, host, program};
use super::trajectory::{COUNTERS, Trajectory, parse};
use super::twin::{self, BusyKernel, Emulated};
use crate::recordings::{RecordingError, all_with_file, description, unpacked_text};
use crate::verify::{Causes, Entry, VerifyError, features};

const FILE: &str = "ensemble.toml";
/// Tens of times what a recording has.
const MOST_BYTES: u64 = 1 << 22;
const SAMPLES: &str = "samples within the spread";
/// Runs of the twin, as many as of a kernel: which of them are within the spread is chance, by some tens of a hundred samples.
const RUNS: u64 = 16;
/// An area is on one node if so many hundredths of it are.
const SEPARATED_PERCENT: u64 = 95;

/// The content of `ensemble.toml`, and where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ensemble {
    /// What it ran on, for people.
    pub machine: String,
    /// The kernel, and what the twin runs on.
    pub emulated: Emulated,
    /// What ran.
    pub cases: Vec<EnsembleCase>,
    #[serde(skip)]
    directory: PathBuf,
}

/// Runs of one program, a value for each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnsembleCase {
    /// The program, see [`super::programs`].
    pub name: String,
    /// The kernel's thread, if it was on another CPU than beside other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_thread: Option<BusyKernel>,
    /// When each mapping first was on one node, nearly all of it, and stayed so, in seconds; negative: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separated: Option<Vec<f64>>,
    /// Pages on node 0 in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages_node0: Vec<u64>,
}

impl Ensemble {
    /// Reads the ensemble in `directory`.
    pub fn open(directory: &Path) -> Result<Ensemble, RecordingError> {
        let ensemble: Ensemble = description(directory, FILE)?;
        Ok(Ensemble { directory: directory.to_path_buf(), ..ensemble })
    }

    /// A run of the twin of a case, seen as often as the kernel's.
    fn twin(&self, case: &EnsembleCase, kernel: &[Trajectory], seed: u64) -> Result<Trajectory, String> {
        let seconds = kernel.first().map_or(&[][..], |run| &run.seconds);
        let kernel_thread = case.kernel_thread.or(self.emulated.kernel_thread);
        let emulated = Emulated { kernel_thread, ..self.emulated.clone() };
        let spec =
            program(&case.name, SECONDS).ok_or_else(|| format!("there is no program `{}`", case.name))?;
        twin::trajectory(&emulated, &host(spec, SECONDS), seconds, seed)
    }

    /// The runs of a case.
    pub fn runs(&self, case: &EnsembleCase) -> Result<Vec<Trajectory>, RecordingError> {
        let (file, text) = unpacked_text(&self.directory.join(format!("{}.csv.zst", case.name)), MOST_BYTES)?;
        parse(&text).map_err(|problem| RecordingError::Stream {
            file,
            place: "with its runs".into(),
            problem,
        })
    }
}

/// All ensembles below `directory`, with their names, by name.
pub fn ensembles(directory: &Path) -> Result<Vec<(String, Ensemble)>, RecordingError> {
    all_with_file(directory, FILE, Ensemble::open)
}

/// How an ensemble came out.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// The entries of each program.
    pub entries: Vec<Entry>,
    /// Samples of the kernel's own runs, and how many of them are within the spread of its other runs.
    own: [u64; 2],
}

/// Judges each program of an ensemble; `subject` is named if its kernel is not modelled.
pub fn judge_ensemble(
    subject: &str,
    ensemble: &Ensemble,
    progress: &mut dyn FnMut(&str),
) -> Result<Judged, VerifyError> {
    features(subject, &ensemble.emulated.kernel)?;
    let mut judged = Judged::default();
    for case in &ensemble.cases {
        let name = format!("{subject}: {}", case.name);
        progress(&format!("running {name} in the twin"));
        let wrong = |problem| RecordingError::of_description(&ensemble.directory, FILE, problem);
        let kernel = ensemble.runs(case)?;
        let runs = (0..RUNS).map(|seed| ensemble.twin(case, &kernel, seed));
        let runs: Vec<Trajectory> = runs.collect::<Result<_, _>>().map_err(wrong)?;
        judged.entries.extend(compare(&name, case, &kernel, &runs));
        for (sum, own) in judged.own.iter_mut().zip(left_out(&kernel)) {
            *sum += own;
        }
    }
    Ok(judged)
}

/// Samples of a kernel's runs, and how many of them are within the spread of the others when their own run is left out.
fn left_out(kernel: &[Trajectory]) -> [u64; 2] {
    let mut within = [0, 0];
    for (number, run) in kernel.iter().enumerate() {
        for column in COUNTERS {
            let Some(values) = run.columns.get(column) else { continue };
            for (sample, &value) in values.iter().enumerate().skip(1) {
                let others = kernel.iter().enumerate().filter(|&(other, _)| other != number);
                let spread: Vec<u64> =
                    others.filter_map(|(_, other)| other.columns.get(column)?.get(sample).copied()).collect();
                within[0] += 1;
                within[1] += u64::from(is_within(value, &spread));
            }
        }
    }
    within
}

/// For each counter, how many of the twin's samples are within the spread of the kernel's runs, if it has several; and the middle
/// in the end.
fn compare(name: &str, case: &EnsembleCase, kernel: &[Trajectory], twin: &[Trajectory]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |counter: String, kernel: u64, twin: u64| {
        entries.push(Entry::new(name, counter, kernel, twin, Causes::default()));
    };
    let samples = kernel.iter().map(|run| run.seconds.len()).min().unwrap_or(0);
    for column in COUNTERS {
        let mut within = [0, 0];
        // At the start all is zero.
        for sample in 1..samples {
            let spread: Vec<u64> =
                kernel.iter().filter_map(|run| Some(run.columns.get(column)?[sample])).collect();
            let own = twin.iter().filter_map(|run| Some(run.columns.get(column)?[sample]));
            for value in own {
                within[0] += 1;
                within[1] += u64::from(is_within(value, &spread));
            }
        }
        if kernel.len() > 1 {
            add(format!("{column}, {SAMPLES}"), within[0], within[1]);
        }
        let last = |run: &Trajectory| run.columns.get(column)?.last().copied();
        let middle_of = |runs: &[Trajectory]| middle(runs.iter().filter_map(last).collect());
        add(format!("{column}, in the end"), middle_of(kernel), middle_of(twin));
    }
    if let [only] = kernel {
        let apart =
            |run: &Trajectory| areas_apart(run, run.seconds.len() - 1).filter(|&apart| apart).count() as u64;
        add("mappings on one node, in the end".into(), apart(only), middle(twin.iter().map(apart).collect()));
        return entries;
    }
    let own: Vec<u64> = twin.iter().map(pages_node0).collect();
    let within = own.iter().filter(|&&pages| is_within(pages, &case.pages_node0)).count();
    add("pages on node 0 in the end, runs within the spread".into(), RUNS, within as u64);
    if let Some(separated) = &case.separated {
        let milliseconds = |seconds: f64| if seconds < 0.0 { u64::MAX } else { (seconds * 1000.0) as u64 };
        let spread: Vec<u64> = separated.iter().map(|&seconds| milliseconds(seconds)).collect();
        let half_seconds =
            |run| separated_at(run).map_or(u64::MAX, |time: f64| milliseconds((2.0 * time).round() / 2.0));
        let own: Vec<u64> = twin.iter().map(half_seconds).collect();
        let within = own.iter().filter(|&&time| is_within(time, &spread)).count();
        add("when each mapping was on one node, runs within the spread".into(), RUNS, within as u64);
    }
    entries
}

/// How many samples of the twin are within the spread of the kernel's, and how many of each run of the kernel are within that of
/// its others, in words; nothing if there is no spread.
pub fn summary(kernel: &str, judged: &Judged) -> Option<String> {
    let samples = || judged.entries.iter().filter(|entry| entry.counter.ends_with(SAMPLES));
    let (all, within) =
        samples().fold((0, 0), |(all, within), entry| (all + entry.kernel, within + entry.twin));
    let [own, own_within] = judged.own;
    (all > 0).then(|| {
        format!(
            "Linux {kernel}: {within} of {all} samples of the twin's runs are within the spread of the kernel's; of the kernel's \
             own, each run left out in turn, {own_within} of {own} are within that of the others"
        )
    })
}

fn is_within(value: u64, spread: &[u64]) -> bool {
    spread.iter().any(|&other| other <= value) && spread.iter().any(|&other| other >= value)
}

fn middle(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn pages_node0(run: &Trajectory) -> u64 {
    let columns = run.columns.iter().filter(|(name, _)| name.ends_with("_node0"));
    columns.filter_map(|(_, pages)| pages.last()).sum()
}

/// Whether each area was on one node at a sample, nearly all of it.
fn areas_apart(run: &Trajectory, sample: usize) -> impl Iterator<Item = bool> {
    let mut areas: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, pages) in &run.columns {
        if let Some((area, _node)) = name.rsplit_once("_node") {
            areas.entry(area).or_default().push(pages[sample]);
        }
    }
    areas.into_values().map(|nodes| {
        let most = nodes.iter().max().copied().unwrap_or(0);
        100 * most >= SEPARATED_PERCENT * nodes.iter().sum::<u64>()
    })
}

/// From when on each area was on one node.
fn separated_at(run: &Trajectory) -> Option<f64> {
    let is_apart = |sample: &usize| areas_apart(run, *sample).all(|apart| apart);
    let from = (0..run.seconds.len()).rev().take_while(is_apart).last()?;
    Some(run.seconds[from])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::default_directory;

    /// A single thread has its CPU for itself: what its passes change follows from what its process maps and touches. The twin's
    /// runs are among the kernel's for so many samples, on 6.12.95 to the end.
    #[test]
    fn passes_of_a_single_thread_change_what_the_kernel_changes() {
        for (release, samples) in [("6.1.192", 1), ("6.12.95", 20), ("6.18.15", 3)] {
            let directory = default_directory().join(format!("numa-ensemble-{release}"));
            let ensemble = Ensemble::open(&directory).unwrap();
            let case = ensemble.cases.iter().find(|case| case.name == "pinmove").unwrap();
            let kernel = ensemble.runs(case).unwrap();
            let changed = |run: &Trajectory, sample: usize| run.columns["numa_pte_updates"][sample];
            for seed in 0..RUNS {
                let own = ensemble.twin(case, &kernel, seed).unwrap();
                for sample in 1..=samples {
                    let spread: Vec<u64> = kernel.iter().map(|run| changed(run, sample)).collect();
                    let own = changed(&own, sample);
                    assert!(is_within(own, &spread), "{release}, {sample}: {own} is not among {spread:?}");
                }
            }
        }
    }

    /// Pages that wait for the LRU in a CPU's batch stay where they are, on 6.12.95 as many as in the kernel on both nodes.
    #[test]
    fn pages_in_a_batch_do_not_follow_their_thread() {
        let directory = default_directory().join("numa-ensemble-6.12.95");
        let ensemble = Ensemble::open(&directory).unwrap();
        let case = ensemble.cases.iter().find(|case| case.name == "pinmove").unwrap();
        let kernel = ensemble.runs(case).unwrap();
        let own = ensemble.twin(case, &kernel, 0).unwrap();
        for seconds in [4.0, 10.0] {
            let moved = |run: &Trajectory| {
                let sample = run.seconds.iter().position(|&at| (at - seconds).abs() < 0.1).unwrap();
                run.columns["numa_pages_migrated"][sample]
            };
            let spread: Vec<u64> = kernel.iter().map(moved).collect();
            assert!(is_within(moved(&own), &spread), "{seconds} s: {} is not among {spread:?}", moved(&own));
        }
    }

    /// Up to 6.3 a pass goes on behind the vdso; from 6.7 on it scans that alone, once a sequence and for nothing.
    #[test]
    fn a_single_thread_is_scanned_as_much_as_in_the_kernel() {
        for (name, ensemble) in ensembles(&default_directory()).unwrap() {
            let Some(case) = ensemble.cases.iter().find(|case| case.name == "pinmove") else { continue };
            let scanned = |run: &Trajectory| *run.columns["numa_pte_updates"].last().unwrap() as f64;
            let kernel = ensemble.runs(case).unwrap();
            // A pass more or less, when the thread is moved, is 3 per cent of all.
            let mut own: Vec<f64> =
                (0..5).map(|seed| scanned(&ensemble.twin(case, &kernel, seed).unwrap())).collect();
            own.sort_by(f64::total_cmp);
            let ratio = own[2] / (kernel.iter().map(scanned).sum::<f64>() / kernel.len() as f64);
            assert!((0.95..1.06).contains(&ratio), "{name}: {ratio}");
        }
    }
}
