//! Does the twin balance memory as the kernel does? Its own decisions judge.
//!
//! ```text
//!   recording   every hint fault, pass and preferred node of a program on a kernel ◄─┐
//!      │                                                                              │
//!    judge      each of them against what the twin decides there                      │ ticks, placements: when they were
//!                                                                                     │ vmas: what the passes met
//!                                            tracing, events: what its probes say ────┤
//!   programs ──┬─► emulated   Debian's kernels, with observer and process inside ─────┴┐
//!              ├─► ensemble   16 recorded runs of each kernel ─────────────────────────┼─ trajectory: counters over time
//!              └─► twin       the twin's runs ─────────────────────────────────────────┘
//! ```
//!
//! Runs of NUMA balancing are chaotic: a millisecond more at the start, and other pages move. So decisions are compared one
//! by one, each with the kernel's state before it; and what came of them with the spread of many runs.

use std::path::Path;

use mm::Mechanism;

use super::bound::whole_percent;
use super::{
    Asked, Boots, Bound, Entry, Hearing, Judge, RecordedKernel, Recorder, Subject, VerifyError, features,
};
use crate::recordings::RecordingError;

mod emulated;
mod ensemble;
mod events;
mod judge;
mod observer;
mod placements;
mod process;
mod programs;
mod recording;
mod ticks;
mod tracing;
mod trajectory;
mod twin;
mod vmas;

pub use emulated::{EmulatedRun, Watched, in_guest};
pub use ensemble::{Ensemble, Judged, ensembles, judge_ensemble};
pub use programs::{ChoiceError, Chosen, SECONDS, SECONDS_TO_CHOOSE, Selection};
pub use recording::{Recording, list};

/// What leads this program to [`run_process`].
pub const NUMA_PROCESS: &str = "numa-process";

/// Runs process `number` of a program that is watched for some seconds, see `process`; it is bound to the nodes of this machine.
/// `program`: a name or a file, as for [`Selection::new`].
pub fn run_process(program: &str, number: u32, seconds: u64) -> std::io::Result<()> {
    let chosen = Chosen::find(program, seconds).map_err(std::io::Error::other)?;
    process::run(&chosen.spec(seconds), number, &observer::nodes()?)
}

/// The share of decisions that must be as in the kernel.
pub const RIGHT_DECISIONS: f64 = 0.99;

/// How rows end that count samples or runs of the twin between the least and the most of the kernel's.
const SPREAD: &str = " within the spread";

/// What was seen of programs on a kernel.
pub enum Recorded {
    /// Every decision, to be judged one by one.
    Decisions(Recording),
    /// The same of a kernel that could not keep all events; what was lost.
    Incomplete(String, Vec<String>),
    /// Counters over time, of many runs.
    Ensemble(Ensemble),
    /// The same of one run in emulation.
    Emulated(Box<EmulatedRun>),
}

impl RecordedKernel for Recorded {
    fn list(directory: &Path) -> Result<Vec<(String, Recorded)>, RecordingError> {
        let decisions = list(directory)?.into_iter();
        let decisions = decisions.map(|(name, recording)| (name, Recorded::Decisions(recording)));
        let ensembles = ensembles(directory)?.into_iter();
        Ok(decisions.chain(ensembles.map(|(name, ensemble)| (name, Recorded::Ensemble(ensemble)))).collect())
    }

    fn kernel(&self) -> &str {
        match self {
            Recorded::Decisions(recording) => &recording.kernel,
            Recorded::Incomplete(kernel, _) => kernel,
            Recorded::Ensemble(ensemble) => &ensemble.emulated.kernel,
            Recorded::Emulated(run) => &run.kernel,
        }
    }
}

/// Judges NUMA balancing.
#[derive(Default)]
pub struct Numa {
    /// For each kernel with each kind of pages, how many decisions there were, and how many of them are the twin's.
    decisions: Vec<(String, [u64; 2])>,
    /// What ensembles come to.
    ensembles: Vec<String>,
}

impl Judge for Numa {
    const MECHANISM: Mechanism = Mechanism::Numa;
    const COMPARED: &'static str = "decisions about hint faults and scans, and counters over time";
    const BOUND: Bound = Bound { of: allowed, words: allowed_in_words };
    type Recording = Recorded;

    fn recorder() -> Result<Recorder<Numa>, String> {
        Err("NUMA balancing of this kernel is not watched; it is judged by recordings, or with --qemu on emulated machines"
            .into())
    }

    fn boots(asked: &Asked) -> Option<Boots<Recorded>> {
        Some(emulated::boots(&asked.numa))
    }

    fn judge(
        &mut self,
        subject: &Subject,
        recorded: &Recorded,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError> {
        match recorded {
            Recorded::Decisions(recording) => {
                let entries = judge(subject.name, recording, hearing.progress)?;
                self.count(recording, &entries);
                hearing.enter(entries);
            }
            Recorded::Incomplete(_, lost) => hearing.note(lost.iter().cloned()),
            Recorded::Ensemble(ensemble) => {
                let judged = judge_ensemble(subject.name, ensemble, hearing.progress)?;
                self.ensembles.extend(ensemble::summary(&ensemble.emulated.kernel, &judged));
                hearing.enter(judged.entries);
            }
            Recorded::Emulated(run) => {
                let entries = run.entries(subject.name, hearing.progress)?;
                hearing.enter(entries);
            }
        }
        Ok(())
    }

    fn summary(self) -> Vec<String> {
        self.decisions.iter().map(in_words).chain(self.ensembles).collect()
    }
}

impl Numa {
    /// Counts decisions of a kernel. Those of huge pages are counted apart: a fault is one decision for all pages of a huge page.
    fn count(&mut self, recording: &Recording, entries: &[Entry]) {
        let pages = if recording.has_large_folios() { ", huge pages" } else { "" };
        let kernel = format!("Linux {}{pages}", recording.kernel);
        if self.decisions.last().is_none_or(|(last, _)| *last != kernel) {
            self.decisions.push((kernel, [0; 2]));
        }
        if let Some((_, [all, equal])) = self.decisions.last_mut() {
            *all += entries.iter().map(|entry| entry.kernel).sum::<u64>();
            *equal += entries.iter().map(|entry| entry.twin).sum::<u64>();
        }
    }
}

/// How many of all decisions agree.
fn in_words((kernel, [all, equal]): &(String, [u64; 2])) -> String {
    let share = 100.0 * *equal as f64 / *all as f64;
    format!("{kernel}: {equal} of {all} decisions are the kernel's, {share:.3} %")
}

/// What a number may be off: decisions, and samples that may not be outside the spread of the kernel's. What both have counted in the
/// end, and what one run of a kernel has in emulation, chance decides.
fn allowed(entry: &Entry) -> Option<f64> {
    match entry.counter.as_str() {
        counter if counter.ends_with(SPREAD) => Some(0.0),
        counter if counter.contains(", in the end") || counter.contains(", after ") => None,
        _ => Some(1.0 - RIGHT_DECISIONS),
    }
}

fn allowed_in_words() -> Option<String> {
    Some(format!("{} of decisions and the spread of samples", whole_percent(1.0 - RIGHT_DECISIONS)))
}

/// The entries of each case of a recording; `subject` is named if its kernel is not modelled.
pub fn judge(
    subject: &str,
    recording: &Recording,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Entry>, VerifyError> {
    let features = features(subject, &recording.kernel)?;
    let mut entries = Vec::new();
    for case in &recording.cases {
        let name = format!("{subject}: {}", case.name);
        recording.require_lossless(case)?;
        progress(&format!("judging {name}"));
        let (faults, decisions) = (recording.faults(case)?, recording.decisions(case)?);
        entries.extend(judge::entries(&name, &features, recording, case, &faults, &decisions));
    }
    Ok(entries)
}
