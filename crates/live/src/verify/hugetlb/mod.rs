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

/// Judges pools of huge pages.
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
