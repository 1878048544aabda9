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

use super::{Entry, Report, VerifyError, features};

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

pub use emulated::{Watched, emulated, in_guest};
pub use ensemble::{Ensemble, Judged, ensembles, judge_ensemble};
pub use recording::{Recording, list};

/// Runs process `number` of a program that is watched for some seconds, see `process`; it is bound to the nodes of this machine.
pub fn run_process(program: &str, number: u32, seconds: u64) -> std::io::Result<()> {
    process::run(program, number, seconds, &observer::nodes()?)
}

/// The share of decisions that must be as in the kernel.
pub const RIGHT_DECISIONS: f64 = 0.99;

/// Judges the twin's NUMA balancing by the recordings in `directory`.
pub fn from_recordings(
    directory: &Path,
    reason: String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let mut report = Report::of_recordings(reason);
    let mut kernels = Vec::new();
    for (name, recording) in list(directory)? {
        let entries = judge(&name, &recording, progress)?;
        report.notes.push(summary(&recording.kernel, &entries));
        report.entries.extend(entries);
        kernels.push(recording.kernel);
    }
    for (name, ensemble) in ensembles(directory)? {
        let judged = judge_ensemble(&name, &ensemble, progress)?;
        report.notes.extend(ensemble::summary(&ensemble.emulated.kernel, &judged));
        report.entries.extend(judged.entries);
        if !kernels.contains(&ensemble.emulated.kernel) {
            kernels.push(ensemble.emulated.kernel);
        }
    }
    report.kernel = kernels.join(", ");
    Ok(report)
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

/// How many of all decisions agree, in words.
fn summary(kernel: &str, entries: &[Entry]) -> String {
    let sum = |of: fn(&Entry) -> u64| entries.iter().map(of).sum::<u64>();
    let (all, equal) = (sum(|entry| entry.kernel), sum(|entry| entry.twin));
    format!(
        "Linux {kernel}: {equal} of {all} decisions are the kernel's, {:.3} %",
        100.0 * equal as f64 / all as f64
    )
}
