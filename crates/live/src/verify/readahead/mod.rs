//! Does the twin read ahead what the kernel reads ahead?
//!
//! ```text
//!   case         reads of a file by one task, what it says of them, the device's limits
//!   reads        for each read, the folios that came into the page cache, in order
//!
//!   running_kernel   the cases on this kernel --.            .-- sim::readahead   the same reads
//!   recording        those of other kernels ----+-> reads ---'
//! ```
//!
//! Readahead is a pure function of what was read and of what is in memory, so with memory enough every folio must agree,
//! and in the same order.

use std::path::Path;

use mm::Settings;
use sim::readahead::{Access, FileFolio, ReadFile, replay};

use super::{Causes, Entry, Report, VerifyError, features};
use crate::snapshot;
use crate::verify::failed;

mod case;
mod recording;
mod running_kernel;

pub use case::Case;
pub(super) use recording::read_back;
pub use recording::{Recording, list};
pub use running_kernel::{obstacle, record};

/// Judges the twin's readahead by the running kernel, or, where that cannot be, by the recordings in `recordings`.
pub fn readahead(recordings: &Path, progress: &mut dyn FnMut(&str)) -> Result<Report, VerifyError> {
    let release = snapshot::kernel_release();
    let unknown = || features("this machine", &release).err().map(|error| error.to_string());
    if let Some(reason) = obstacle().or_else(unknown) {
        return from_recordings(recordings, reason, progress);
    }
    let mut report = Report::of_kernel(release.clone());
    let features = features("this machine", &release)?;
    for (case, reads) in record(progress)? {
        report.entries.extend(entries(&case.name.clone(), &features, &case, &reads)?);
    }
    Ok(report)
}

/// Judges the twin's readahead by the recordings in `directory`.
pub fn from_recordings(
    directory: &Path,
    reason: String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let mut report = Report::of_recordings(reason);
    let mut kernels = Vec::new();
    for (name, recording) in list(directory)? {
        let features = features(&name, &recording.kernel)?;
        for case in &recording.cases {
            let subject = format!("{name}: {}", case.name);
            progress(&format!("judging {subject}"));
            report.entries.extend(entries(&subject, &features, case, &recording.reads(case)?)?);
        }
        kernels.push(recording.kernel);
    }
    kernels.dedup();
    report.kernel = kernels.join(", ");
    Ok(report)
}

/// A read, and the folios that it brought in.
pub type Brought = (Access, Vec<FileFolio>);

/// The entries of one case, called `subject`, of which `reads` says what the kernel did.
fn entries(
    subject: &str,
    features: &mm::Features,
    case: &Case,
    reads: &[Brought],
) -> Result<Vec<Entry>, VerifyError> {
    let wrong = |problem: String| failed(format!("the twin, {subject}"), std::io::Error::other(problem));
    let mut settings = Settings::default();
    for (name, kib) in [("read_ahead_kb", case.read_ahead_kb), ("max_sectors_kb", case.max_sectors_kb)] {
        let set = settings.set(&format!("queue/{name}"), &kib.to_string());
        set.map_err(|error| wrong(error.to_string()))?;
    }
    let accesses: Vec<Access> = reads.iter().map(|(access, _)| *access).collect();
    let file = ReadFile { pages: case.file_pages, large_folios: case.large_folios, advice: case.advice() };
    let twin = replay(features, settings, &file, &accesses).ok_or_else(|| wrong("out of memory".into()))?;
    let pages = |folios: &Vec<FileFolio>| folios.iter().map(|folio| folio.pages().len() as u64).sum::<u64>();
    let brought = reads.iter().map(|(_, folios)| pages(folios)).sum();
    let brought_by_twin = twin.iter().map(pages).sum();
    let alike = reads.iter().zip(&twin).filter(|((_, kernel), twin)| kernel == *twin).count();
    let entry = |counter: &str, kernel, twin| Entry::new(subject, counter, kernel, twin, Causes::default());
    Ok(vec![
        entry("pages brought in", brought, brought_by_twin),
        entry("reads that bring in the same folios", reads.len() as u64, alike as u64),
    ])
}
