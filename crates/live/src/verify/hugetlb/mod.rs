//! Compares resizing the pool of huge pages: the kernel's and the twin's counts of each write.
//!
//! ```text
//!   case     counts that are written to the pool      "HVO on, 64": 64, then 0
//!   counts   what the kernel does in one write        2 broadcasts of do_flush_tlb_all, 64 copies of heads, ...
//!
//!   running_kernel   runs the cases on this kernel --.                     .-- twin   the same writes
//!   recording        reads those of other kernels ---+-> counts --- judge -'
//! ```
//!
//! A machine splits the PMD of a range of `struct page`s only once, so it is not known how many splits a
//! write needs. The page tables that are allocated for splits are in the trace, and their number is taken
//! from there. Everything else is the twin's own: flushes, patched code, allocations and frees, the pool.

use mm::{Features, Mechanism};

use super::{Asked, Bound, Entry, Hearing, Judge, Recorder, Subject, VerifyError};

mod case;
mod counts;
mod judge;
mod recording;
mod running_kernel;
mod twin;

pub use case::{Case, Write};
pub use counts::{KernelCounts, Pool};
pub use judge::entries;
pub use recording::{RecordedCase, Recording, Step};
pub use running_kernel::{obstacle, record};
pub use twin::twin_counts;

#[derive(Default)]
pub struct Hugetlb;

impl Judge for Hugetlb {
    const MECHANISM: Mechanism = Mechanism::Hugetlb;
    const COMPARED: &'static str = "flushes and pages when the pool of 2 MiB pages is resized";
    const BOUND: Bound = Bound::EXACT;
    type Recording = Recording;

    fn recorder() -> Result<Recorder<Hugetlb>, String> {
        obstacle().map_or(Ok(record_here), Err)
    }

    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError> {
        let entries = judge(recording, &subject.features)?.into_iter();
        hearing
            .enter(entries.map(|entry| Entry { case: format!("{}: {}", subject.name, entry.case), ..entry }));
        hearing.note(recording.notes.iter().cloned());
        Ok(())
    }
}

fn record_here(
    _: &mut Hugetlb,
    subject: &Subject,
    _: &Asked,
    hearing: &mut Hearing,
) -> Result<(), VerifyError> {
    let recording = record(hearing.progress)?;
    hearing.enter(judge(&recording, &subject.features)?);
    hearing.note(recording.notes);
    Ok(())
}

/// All entries of a recording.
fn judge(recording: &Recording, features: &Features) -> Result<Vec<Entry>, VerifyError> {
    let mut judged = Vec::new();
    for case in &recording.cases {
        let twin = twin_counts(&recording.machine, features, case)?;
        judged.extend(entries(case, &twin));
    }
    Ok(judged)
}
