//! Verifies the twin: a real kernel and the twin get the same work, and what they do is compared.
//!
//! ```text
//!   pcp           a recorded or running workload: each refill, bulk free and drain of the per-CPU lists, and their totals
//!   hugetlb       counts written to the pool of huge pages: flushes, allocations and frees of each write
//!   readahead     reads of a file: the folios that each read brings in
//!   reclaim       accesses to files and memory: hits, misses and evictions
//!   numa          NUMA hinting faults and scan passes: the decision about each
//!   folios        faults in anonymous memory: the folios that they create
//! ```
//!
//! The code calls the kernel a *judge*: [`Judge`] is the trait that each mechanism implements, a *hearing* collects what
//! judges report, and a *case* is one piece of work. `judge.rs` has what all mechanisms share, `emulation.rs` boots other
//! kernels, and `bound.rs` says how far the twin's counters may be off.
//!
//! The twin's decisions are those of the files named policy.rs in [`mm`], and its mechanics those next to them; nothing is
//! implemented a second time here. What no tracepoint shows is inferred, named and counted ([`Cause`]), so that every
//! deviation either has a cause or remains as a deviation.

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

/// How `mechanism` is verified.
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

/// Verifies the twin by the recordings in `directory`.
pub fn by_recordings(mechanism: Mechanism, directory: &Path) -> Result<Report, VerifyError> {
    let asked = Asked { recordings: directory.to_path_buf(), ..Asked::default() };
    verification(mechanism).verify(By::Recordings, &asked, &mut |_| {})
}

/// Makes the kernel kill this process, which another mmtwin process started, when its parent exits.
fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Why the twin cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The workload cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The trace of the workload cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Changes to the machine cannot be guarded.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The kernels cannot be emulated.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// /proc/zoneinfo cannot be parsed.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// A file or setting cannot be used.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("the workload {program} failed ({status}); its own message is above")]
    Program {
        program: &'static str,
        /// Its exit status.
        status: String,
    },
    /// Another process interfered with the recording, so that the outcome of each access is not known.
    #[error(
        "the tracepoints of the page cache: {0}; memory is short, or another process reads the file; try again"
    )]
    Disturbed(String),
    #[error("interrupted; all settings are restored")]
    Interrupted,
    /// The mechanism has no cases for emulated kernels.
    #[error("{}: there are no cases for emulated kernels", .0.name())]
    NotEmulated(Mechanism),
    /// The kernel is not one that the twin models.
    #[error("{subject}: Linux {release} is not modelled; modelled are {}", modelled())]
    Release {
        /// The recording or machine.
        subject: String,
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

/// The features of kernel `release`; `subject` is for the error.
fn features(subject: &str, release: &str) -> Result<mm::Features, VerifyError> {
    let unknown = || VerifyError::Release { subject: subject.to_string(), release: release.to_string() };
    mm::Variant::of_release(release).map(|variant| variant.features).ok_or_else(unknown)
}
