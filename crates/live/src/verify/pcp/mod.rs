//! Does the twin keep the pages on its per-CPU lists that the kernel keeps? Every refill and bulk free judges.
//!
//! ```text
//!   closed loop      the kernel's lists at the start, then every operation: each refill size, each bulk free,
//!                    each page frame of it and each recorded state against what the twin decides at that point
//!   open loop        the kernel's lists at the start, then demand alone: pages refilled and drained in the end
//!   running_kernel   the open loop on the kernel that runs here, with workloads of its own (programs)
//!
//!   history          a recording's events, by number and by page      drain   empties the kernel's lists
//!   replay           the twin's lists, which events are told to       tally   what the closed loop counts
//! ```
//!
//! The decisions are those of [`mm::pcp::policy`]; nothing is decided a second time here.

use std::path::Path;

use mm::Mechanism;

use super::bound::whole_percent;
use super::{Bound, Hearing, Judge, RecordedKernel, Recorder, Subject, VerifyError};
use crate::recordings::{self, Recording, RecordingError};

mod closed_loop;
mod drain;
mod history;
pub(super) mod open_loop;
pub mod programs;
pub(super) mod replay;
pub(super) mod running_kernel;
mod tally;

pub use closed_loop::closed_loop;
pub use open_loop::{Annotated, open_loop};
pub use tally::Tally;

/// What of pagesets may differ: how they are at some moment is inferred where no tracepoint shows it.
const PAGESETS: f64 = 0.03;

impl RecordedKernel for Recording {
    fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
        let named = |recording: Recording| (recording.name.clone(), recording);
        Ok(recordings::list(directory)?.into_iter().map(named).collect())
    }

    fn kernel(&self) -> &str {
        &self.description.kernel
    }
}

/// Judges pagesets.
#[derive(Default)]
pub struct Pcp;

impl Judge for Pcp {
    const MECHANISM: Mechanism = Mechanism::Pcp;
    const COMPARED: &'static str = "refills, drains and states of pagesets while workloads run";
    const BOUND: Bound = Bound { of: |_| Some(PAGESETS), words: || Some(whole_percent(PAGESETS)) };
    type Recording = Recording;

    fn recorder() -> Result<Recorder<Pcp>, String> {
        running_kernel::recorder()
    }

    /// In closed and open loop.
    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError> {
        hearing.enter(closed_loop(recording)?.entries(subject.name));
        hearing.enter(open_loop(recording, Annotated::No)?);
        hearing.enter(open_loop(recording, Annotated::Yes)?);
        Ok(())
    }
}
