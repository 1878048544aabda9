//! Does the twin make the folios that the kernel makes? Each case of touching memory judges.
//!
//! ```text
//!   configuration   which sizes are enabled, where          64 KiB always, 16 KiB inherit
//!   case            a VMA, and what is done with it         128 KiB at 4 KiB off, written backwards
//!   outcome         faults, folios, counters                17 faults, 0x15 4x1 0x1, 64k.anon_fault_alloc=1
//!
//!   running_kernel   cases on this kernel ─┐                      ┌─ twin    the same in the twin
//!   recording        those of others ──────┴─ outcomes ─ judge ───┘
//!   plain            an obvious model of page tables, which the twin is tested against
//! ```
//!
//! What maps a page is read from `pagemap` and `kpageflags`: frames that follow each other and the marks of heads and
//! tails.

use std::path::Path;

use super::{Report, VerifyError, features};
use crate::snapshot;

mod case;
mod cases;
mod judge;
pub mod memory;
mod outcome;
mod plain;
mod recording;
mod running_kernel;
mod script;
mod twin;

pub use case::{Advice, Case, Configuration, Operation, Touch};
pub use judge::{Judged, entries};
pub use outcome::{Mapped, Outcome, Statistics};
pub use plain::PlainMemory;
pub use recording::{RecordedCase, Recording, list};
pub use running_kernel::obstacle;
pub use script::{Memory, run};
pub use twin::TwinMemory;

/// Judges the twin by the running kernel, or by the recordings in `recordings` where that cannot be. `program`: this
/// program, and the words that lead it to [`memory::run`].
pub fn folios(
    program: &[String],
    recordings: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let release = snapshot::kernel_release();
    let unknown = || features("this machine", &release).err().map(|error| error.to_string());
    if let Some(reason) = obstacle().or_else(unknown) {
        return from_recordings(recordings, reason, progress);
    }
    let configurations = cases::configurations(running_kernel::has_beside_full());
    let cases = running_kernel::outcomes(program, &configurations, &cases::cases(), progress)?;
    let recording = Recording { name: "sizes".into(), kernel: release.clone(), configurations, cases };
    let mut report = Report::of_kernel(release);
    judge(&recording, &mut report)?;
    for file in running_kernel::foreign_files() {
        report
            .notes
            .push(format!("transparent_hugepage/{file}: no mainline kernel has it; it stayed as it was"));
    }
    Ok(report)
}

/// Judges the twin by the recordings in `directory`.
pub fn from_recordings(
    directory: &Path,
    reason: String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let mut report = Report::of_recordings(reason);
    for recording in list(directory)? {
        progress(&format!("judging {}", recording.name));
        judge(&recording, &mut report)?;
        report.kernel = recording.kernel;
    }
    Ok(report)
}

/// Adds what a recording says of the twin.
fn judge(recording: &Recording, report: &mut Report) -> Result<(), VerifyError> {
    let features = features(&recording.name, &recording.kernel)?;
    let twin: Vec<Outcome> = recording
        .cases
        .iter()
        .map(|recorded| {
            let configuration = &recording.configurations[recorded.configuration];
            let Ok(outcome) = run(&mut TwinMemory::new(features), configuration, &recorded.case);
            outcome
        })
        .collect();
    let Judged { entries, notes, cases } = entries(recording, &twin);
    report.entries.extend(entries);
    report.notes.extend(notes);
    report.cases = Some(report.cases.unwrap_or_default() + cases);
    Ok(())
}
