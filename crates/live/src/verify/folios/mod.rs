//! Compares large folios: does the twin create the folios that the kernel creates?
//!
//! ```text
//!   configuration   which sizes are enabled, and how        64 KiB always, 16 KiB inherit
//!   case            a VMA, and what is done with it         128 KiB at offset 4 KiB, written backwards
//!   outcome         faults, folios, counters                17 faults, 0x15 4x1 0x1, 64k.anon_fault_alloc=1
//!
//!   running_kernel   runs the cases on this kernel ───┐                      ┌─ twin    the same in the twin
//!   recording        reads those of other kernels ────┴─ outcomes ─ judge ───┘
//!   plain            a simple model of page tables that the twin is tested against
//! ```
//!
//! The folios are read from `pagemap` and `kpageflags`: consecutive frames, and the flags of compound heads
//! and tails.

use mm::Mechanism;

use super::{Asked, Bound, Hearing, Judge, Recorder, Subject, VerifyError};
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
pub use recording::{RecordedCase, Recording};
pub use running_kernel::obstacle;
pub use script::{Memory, run};
pub use twin::TwinMemory;

/// Name of the running kernel's recording.
const RECORDED_HERE: &str = "sizes";

#[derive(Default)]
pub struct Folios;

impl Judge for Folios {
    const MECHANISM: Mechanism = Mechanism::Folios;
    const COMPARED: &'static str = "folios, faults and counters of memory that is mapped and touched";
    const BOUND: Bound = Bound::EXACT;
    type Recording = Recording;

    fn recorder() -> Result<Recorder<Folios>, String> {
        obstacle().map_or(Ok(record_here), Err)
    }

    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError> {
        let outcome = |recorded: &RecordedCase| {
            let configuration = &recording.configurations[recorded.configuration];
            let Ok(outcome) = run(&mut TwinMemory::new(subject.features), configuration, &recorded.case);
            outcome
        };
        let twin: Vec<Outcome> = recording.cases.iter().map(outcome).collect();
        let Judged { entries, notes, cases } = entries(subject.name, recording, &twin);
        hearing.enter(entries);
        hearing.note(notes);
        hearing.count(cases);
        Ok(())
    }
}

fn record_here(
    judge: &mut Folios,
    subject: &Subject,
    asked: &Asked,
    hearing: &mut Hearing,
) -> Result<(), VerifyError> {
    let configurations = cases::configurations(running_kernel::has_beside_full());
    let program = asked.words(memory::MEMORY);
    let cases = running_kernel::outcomes(&program, &configurations, &cases::cases(), hearing.progress)?;
    let kernel = snapshot::kernel_release();
    let recording = Recording { kernel, configurations, cases };
    let subject = Subject { name: RECORDED_HERE, features: subject.features };
    judge.judge(&subject, &recording, hearing)?;
    hearing.note(running_kernel::foreign_files().into_iter().map(|file| {
        format!("transparent_hugepage/{file}: no mainline kernel has it; it was left unchanged")
    }));
    Ok(())
}
