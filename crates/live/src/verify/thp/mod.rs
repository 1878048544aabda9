//! Does the twin make the folios that the kernel makes? Each case of touching memory judges.
//!
//! ```text
//!   configuration   which sizes are enabled, where          64 KiB always, 16 KiB inherit
//!   case            a VMA, and what is done with it         128 KiB at 4 KiB off, written backwards
//!   outcome         faults, folios, counters                17 faults, 0x15 4x1 0x1, 64k.anon_fault_alloc=1
//!
//!   recording    those of another kernel ─┐                  ┌─ plain   an obvious model that decides as the twin
//!                                         ├─ outcome ─ judge ┤
//!                                         ┘                  └
//! ```
//!
//! What maps a page is read from `pagemap` and `kpageflags`: frames that follow each other and the marks of heads and
//! tails.

use std::path::Path;

use super::{Report, VerifyError, features};

mod case;
mod judge;
mod outcome;
mod plain;
mod recording;
mod script;

pub use case::{Case, Configuration};
pub use judge::entries;
pub use outcome::{Mapped, Outcome, Statistics};
pub use plain::PlainMemory;
pub use recording::{RecordedCase, Recording, list};
pub use script::{Memory, run};

/// Judges the twin by the recordings in `directory`.
pub fn from_recordings(
    directory: &Path,
    reason: String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let mut report = Report::of_recordings(reason);
    for recording in list(directory)? {
        progress(&format!("judging {}", recording.name));
        let features = features(&recording.name, &recording.kernel)?;
        let mut outcomes = Vec::new();
        for recorded in &recording.cases {
            let configuration = &recording.configurations[recorded.configuration];
            let mut memory = PlainMemory::new(features);
            let Ok(outcome) = run(&mut memory, configuration, &recorded.case);
            outcomes.push(outcome);
        }
        let (entries, notes) = entries(&recording, &outcomes);
        report.entries.extend(entries);
        report.notes.extend(notes);
        report.kernel = recording.kernel;
    }
    Ok(report)
}
