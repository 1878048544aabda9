//! Is the twin right? The real kernel judges.
//!
//! ```text
//!   closed loop   the kernel's lists at the start, then every operation: each refill size, each bulk free,
//!                 each page frame of it and each recorded state against what the twin decides at that point
//!   open loop     the kernel's lists at the start, then demand alone: pages refilled and drained in the end
//!   live          the open loop on the kernel that runs here, with workloads of its own
//!   hugetlb       a count written to the pool, here or when it was recorded, then in the twin: what both count
//!   readahead     reads of a file, likewise: which pages came in with each
//!   reclaim       accesses to files and memory, likewise: which pages were there, which had to go
//!   numa          hint faults and scan passes, likewise: each decision about them
//!   folios        faults of anonymous memory, likewise: which folios they made
//! ```
//!
//! The decisions are those of [`mm::pcp::policy`] and the mechanics those of [`mm::pcp`], [`mm::hugetlb`] and
//! [`mm::MemoryManager`]; nothing is decided a second time here. What no tracepoint shows is inferred, named and
//! counted, so that every deviation has a cause or is left over as a deviation.

use std::io;

use rustix::process::{Signal, set_parent_process_death_signal};
use workload::trace::TraceError;

use crate::guard::GuardError;
use crate::proc::ProcError;
use crate::qemu::QemuError;
use crate::record::RecordError;
use crate::recordings::RecordingError;

mod cause;
mod emulation;
pub mod folios;
pub mod hugetlb;
pub mod numa;
pub mod pcp;
pub mod readahead;
pub mod reclaim;
mod report;

pub use cause::{Cause, Causes};
pub use report::{Agreement, Cases, Entry, Report};

/// Has this process, which another of mmtwin started, end when that is killed.
fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Why the twin cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The workload cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Its recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What is changed could not be put back.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Kernels cannot be emulated.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// /proc/zoneinfo is not as expected.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// A file or setting cannot be used.
    #[error("{what}: {source}")]
    Io {
        /// The file or setting.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The workload failed.
    #[error("the workload {program} failed ({status}); its own message is above")]
    Program {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: String,
    },
    /// Something else took part in what was recorded, so that it cannot be told what came of each access.
    #[error(
        "the tracepoints of the page cache: {0}, as where memory is short or somebody else reads the file; try again"
    )]
    Disturbed(String),
    /// Ctrl-C.
    #[error("interrupted; the settings are as before")]
    Interrupted,
    /// The kernel is not one that the twin models.
    #[error("{subject}: Linux {release} is not modelled; modelled are {}", modelled())]
    Release {
        /// The recording or machine.
        subject: String,
        /// The release found.
        release: String,
    },
}

fn failed(what: impl Into<String>, source: io::Error) -> VerifyError {
    VerifyError::Io { what: what.into(), source }
}

fn modelled() -> String {
    let releases: Vec<&str> = mm::series::RELEASES.iter().map(|(release, _)| *release).collect();
    releases.join(", ")
}

/// The features of kernel `release`.
fn features(subject: &str, release: &str) -> Result<mm::Features, VerifyError> {
    let unknown = || VerifyError::Release { subject: subject.to_string(), release: release.to_string() };
    mm::Variant::of_release(release).map(|variant| variant.features).ok_or_else(unknown)
}
