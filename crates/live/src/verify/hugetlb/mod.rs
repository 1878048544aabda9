//! Is the twin's pool of huge pages right? The kernel's counts of each write judge.
//!
//! ```text
//!   case     what is written to the pool          "HVO on, 64": 64, then 0
//!   counts   what one write makes happen          2 broadcasts of do_flush_tlb_all, 64 copies of heads, ...
//!
//!   running_kernel   the cases on this kernel --.                     .-- twin   the same writes
//!   recording        those of other kernels ----+-> counts --- judge -'
//! ```
//!
//! A machine splits the page table of a stretch of `struct page`s once in its life, so how many splits a write needs
//! cannot be known from outside. It shows in the trace, as page tables are allocated for it, and is taken from there.
//! All else is the twin's own: flushes, patched code, what is allocated and freed, the pool.

use std::path::Path;

use super::{Entry, Report, VerifyError, features};
use crate::snapshot;

mod case;
mod counts;
mod judge;
mod recording;
mod running_kernel;
mod twin;

pub use case::{Case, Write};
pub use counts::{KernelCounts, Pool};
pub use judge::entries;
pub use recording::{RecordedCase, Recording, Step, list};
pub use running_kernel::{obstacle, record};
pub use twin::twin_counts;

/// Judges the twin's pools by the running kernel; `progress` is told what is going on. Where that cannot be, the
/// recordings in `recordings` judge.
pub fn hugetlb(recordings: &Path, progress: &mut dyn FnMut(&str)) -> Result<Report, VerifyError> {
    let release = snapshot::kernel_release();
    let unknown = || features("this machine", &release).err().map(|error| error.to_string());
    if let Some(reason) = obstacle().or_else(unknown) {
        return from_recordings(recordings, reason, progress);
    }
    let recording = record(progress)?;
    let entries = judge("this machine", &recording)?;
    Ok(Report { entries, notes: recording.notes, ..Report::of_kernel(release) })
}

/// Judges the twin's pools by the recordings in `directory`.
pub fn from_recordings(
    directory: &Path,
    reason: String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let mut report = Report::of_recordings(reason);
    for (name, recording) in list(directory)? {
        progress(&format!("judging {name}"));
        let entries = judge(&name, &recording)?.into_iter();
        report
            .entries
            .extend(entries.map(|entry| Entry { case: format!("{name}: {}", entry.case), ..entry }));
        report.notes.extend(recording.notes);
        report.kernel = recording.machine.kernel;
    }
    Ok(report)
}

/// All entries of a recording; `subject` is named if its kernel is not modelled.
fn judge(subject: &str, recording: &Recording) -> Result<Vec<Entry>, VerifyError> {
    let features = features(subject, &recording.machine.kernel)?;
    let mut judged = Vec::new();
    for case in &recording.cases {
        let twin = twin_counts(&recording.machine, &features, case)?;
        judged.extend(entries(case, &twin));
    }
    Ok(judged)
}
