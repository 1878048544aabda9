//! Does the twin read ahead what the kernel reads ahead?
//!
//! ```text
//!   case         reads of a file by one task, or loads and stores of what it has mapped, what it says of them, the
//!                device's limits
//!   reads        for each of them, the folios that came into the page cache, in order
//!
//!   running_kernel   the cases on this kernel --.            .-- sim::readahead   the same reads
//!   recording        those of other kernels ----+-> reads ---'
//! ```
//!
//! Readahead is a pure function of what was read and of what is in memory, so with memory enough every folio must agree,
//! and in the same order. Which pages a page fault has mapped around itself is seen in which of them fault later: in what
//! those bring in, and in how many faults there are.

use mm::{Mechanism, Settings};
use sim::readahead::{Access, AccessedFile, FileFolio, Mapping, replay};

use super::{Asked, Bound, Causes, Entry, Hearing, Judge, Recorder, Subject, VerifyError, failed};

mod case;
mod mapping;
mod recording;
mod running_kernel;

pub use case::{Case, MappedCase, Said};
pub use recording::Recording;
pub(super) use recording::read_back;
pub use running_kernel::{obstacle, record};

/// Judges readahead.
#[derive(Default)]
pub struct Readahead;

impl Judge for Readahead {
    const MECHANISM: Mechanism = Mechanism::Readahead;
    const COMPARED: &'static str = "folios that reads of a file and loads from it bring in";
    const BOUND: Bound = Bound::EXACT;
    type Recording = Recording;

    fn recorder() -> Result<Recorder<Readahead>, String> {
        obstacle().map_or(Ok(record_here), Err)
    }

    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError> {
        for case in &recording.cases {
            let name = format!("{}: {}", subject.name, case.name);
            (hearing.progress)(&format!("judging {name}"));
            hearing.enter(entries(&name, &subject.features, case, &recording.reads(case)?)?);
        }
        Ok(())
    }
}

fn record_here(
    _: &mut Readahead,
    subject: &Subject,
    _: &Asked,
    hearing: &mut Hearing,
) -> Result<(), VerifyError> {
    for (case, reads) in record(hearing.progress)? {
        hearing.enter(entries(&case.name, &subject.features, &case, &reads)?);
    }
    Ok(())
}

/// An access, and the folios that it brought in.
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
    let mapping = |mapped: &MappedCase| Mapping {
        advice: mapped.said.of_mapping(),
        fault_around_bytes: mapped.fault_around_bytes,
    };
    let file = AccessedFile {
        pages: case.file_pages,
        large_folios: case.large_folios,
        advice: case.descriptors.iter().map(|said| said.of_descriptor()).collect(),
        mapping: case.mapping.as_ref().map(mapping),
    };
    let replayed = replay(features, settings, &file, &accesses);
    let sim::readahead::Brought { folios: twin, page_faults } =
        replayed.ok_or_else(|| wrong("out of memory".into()))?;
    let pages = |folios: &Vec<FileFolio>| folios.iter().map(|folio| folio.pages().len() as u64).sum::<u64>();
    let brought = reads.iter().map(|(_, folios)| pages(folios)).sum();
    let brought_by_twin = twin.iter().map(pages).sum();
    let alike = reads.iter().zip(&twin).filter(|((_, kernel), twin)| kernel == *twin).count();
    let entry = |counter: &str, kernel, twin| Entry::new(subject, counter, kernel, twin, Causes::default());
    let mut entries = vec![
        entry("pages brought in", brought, brought_by_twin),
        entry("reads that bring in the same folios", reads.len() as u64, alike as u64),
    ];
    entries.extend(case.mapping.map(|mapped| entry("page faults", mapped.page_faults, page_faults)));
    Ok(entries)
}
