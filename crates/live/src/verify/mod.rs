//! Is the twin right? The real kernel judges.
//!
//! ```text
//!   pcp           a recorded or running workload: each refill, bulk free and drain, and what they add up to
//!   hugetlb       a count written to the pool, here or when it was recorded, then in the twin: what both count
//!   readahead     reads of a file, likewise: which pages came in with each
//!   reclaim       accesses to files and memory, likewise: which pages were there, which had to go
//!   numa          hint faults and scan passes, likewise: each decision about them
//!   folios        faults of anonymous memory, likewise: which folios they made
//! ```
//!
//! Each is an implementation of [`Judge`]; `judge.rs` has what is the same for all, `emulation.rs` the boots of other
//! kernels, `bound.rs` how far the twin may be off.
//!
//! The decisions are those of the files named policy.rs in [`mm`], and the mechanics those beside them; nothing is decided a
//! second time here. What no tracepoint shows is inferred, named and counted, so that every deviation has a cause or is left
//! over as a deviation.

use std::io;
use std::path::Path;

use mm::Mechanism;
use rustix::process::{Signal, set_parent_process_death_signal};
use workload::trace::TraceError;

use crate::proc::ProcError;
use crate::qemu::QemuError;
use crate::record::RecordError;
use crate::recordings::RecordingError;
use crate::rollback::GuardError;

mod bound;
mod emulation;
pub mod folios;
pub mod hugetlb;
mod judge;
pub mod numa;
pub mod pcp;
pub mod readahead;
pub mod reclaim;
mod report;
mod unobserved;

pub use bound::Bound;
pub use emulation::{Boot, Boots, GUEST};
pub use judge::{Asked, By, Hearing, Judge, Progress, RecordedKernel, Recorder, Subject, Verification};
pub use report::{Agreement, Cases, Entry, Report};
pub use unobserved::{Cause, Causes};

/// How the twin is judged in a mechanism.
pub fn verification(mechanism: Mechanism) -> Verification {
    match mechanism {
        Mechanism::Pcp => Verification::of::<pcp::Pcp>(),
        Mechanism::Hugetlb => Verification::of::<hugetlb::Hugetlb>(),
        Mechanism::Reclaim => Verification::of::<reclaim::Reclaim>(),
        Mechanism::Readahead => Verification::of::<readahead::Readahead>(),
        Mechanism::Numa => Verification::of::<numa::Numa>(),
        Mechanism::Folios => Verification::of::<folios::Folios>(),
    }
}

/// Judges the twin by the recordings in a directory.
pub fn by_recordings(mechanism: Mechanism, directory: &Path) -> Result<Report, VerifyError> {
    let asked = Asked { recordings: directory.to_path_buf(), ..Asked::default() };
    verification(mechanism).verify(By::Recordings, &asked, &mut |_| {})
}

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
    /// No kernel is asked in emulation.
    #[error("{}: no kernel is asked in emulation", .0.name())]
    NotEmulated(Mechanism),
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
