//! Does the twin keep the pages that the kernel keeps? The kernel's page cache judges.
//!
//! ```text
//!   case         a sequence of accesses (workload::access::sequences), a limit, the lists in use
//!   residency    was the page there? which page had to go?
//!
//!   running_kernel   the cases on this kernel --.                        .-- twin   the same accesses
//!   emulated         Debian's kernels ----------+-> residency --- judge -'
//!   recording        those of other kernels ----'
//! ```
//!
//! Whether a page is resident when it is accessed is all that a program can see of reclaim, and it can be known exactly:
//! every access is compared, not a ratio of them. The order of evictions says more, where the hits agree by chance.

use std::path::Path;

use mm::Features;
use workload::access::sequences::Operation;

use super::{Entry, Report, VerifyError, features};
use crate::snapshot;

mod case;
mod emulated;
mod judge;
mod memcg;
pub(super) mod page_events;
pub mod reader;
mod recording;
mod residency;
mod running_kernel;
mod twin;

pub use case::{Case, Lru, Way};
pub use emulated::{emulated, in_guest};
pub use judge::entries;
pub use recording::{Generation, Recording, list};
pub use residency::{Residency, Stay};
pub(super) use running_kernel::directory;
pub use running_kernel::obstacle;
pub use twin::twin_residency;

/// How far the twin's misses may be from the kernel's.
pub const fn tolerance(lru: Lru) -> f64 {
    match lru {
        Lru::Classic => 0.01,
        Lru::MultiGen => 0.03,
    }
}

/// The share of accesses that must be hits or misses as in the kernel.
pub const RIGHT_ACCESSES: f64 = 0.98;

/// Judges the twin's reclaim by the running kernel; `progress` is told what is going on. Where that cannot be, the
/// recordings in `recordings` judge. `reader`: this program, and the words that lead it to [`reader::run`].
pub fn reclaim(
    reader: &[String],
    recordings: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let release = snapshot::kernel_release();
    let unknown = || features("this machine", &release).err().map(|error| error.to_string());
    match obstacle().or_else(unknown) {
        Some(reason) => from_recordings(recordings, reason, progress),
        None => running_kernel::judge(reader, progress),
    }
}

/// Judges the twin's reclaim by the recordings in `directory`.
pub fn from_recordings(
    directory: &Path,
    reason: String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, VerifyError> {
    let mut report = Report::of_recordings(reason);
    let mut kernels = Vec::new();
    let mut verdicts = Vec::new();
    for (name, recording) in list(directory)? {
        let judged = judge(&name, &recording, progress)?;
        verdicts.extend(judged.iter().filter_map(|(lru, entries)| verdict(*lru, entries)));
        report.entries.extend(judged.into_iter().flat_map(|(_, entries)| entries));
        kernels.push(recording.kernel);
    }
    report.kernel = kernels.join(", ");
    report.notes = summary(&verdicts);
    Ok(report)
}

/// The entries of each case of a recording; `subject` is named if its kernel is not modelled.
pub fn judge(
    subject: &str,
    recording: &Recording,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<(Lru, Vec<Entry>)>, VerifyError> {
    let features = features(subject, &recording.kernel)?;
    let mut judged = Vec::new();
    for case in &recording.cases {
        let name = format!("{subject}: {}", case.name);
        progress(&format!("judging {name}"));
        let operations = recording.operations(case)?;
        let kernel = recording.residency(case, &operations)?;
        let entries = case_entries(&name, &features, recording.cpus, case, &operations, &kernel)?;
        judged.push((case.lru, entries));
    }
    Ok(judged)
}

/// The entries of one case, called `name`, of which `kernel` says what became of the pages.
fn case_entries(
    name: &str,
    features: &Features,
    cpus: u16,
    case: &Case,
    operations: &[Operation],
    kernel: &Residency,
) -> Result<Vec<Entry>, VerifyError> {
    let (twin, counters) = twin_residency(features, cpus, case, operations)?;
    let mut entries = entries(name, operations, (kernel, &case.counters), (&twin, &counters));
    for entry in &mut entries {
        if let Some(&cause) = case.causes.get(&entry.counter) {
            entry.causes.add(cause, entry.kernel.abs_diff(entry.twin));
        }
    }
    Ok(entries)
}

/// Whether the misses of a case are close enough, and enough accesses right; none of a case that judges nothing.
fn verdict(lru: Lru, entries: &[Entry]) -> Option<(Lru, [bool; 2])> {
    let of = |counter: &str| entries.iter().find(|entry| entry.counter == counter);
    if of("misses").is_some_and(|entry| !entry.is_comparable()) {
        return None;
    }
    let error = |counter: &str| of(counter).and_then(|entry| entry.error).unwrap_or(f64::INFINITY).abs();
    Some((lru, [error("misses") <= tolerance(lru), error("accesses, hit or miss") <= 1.0 - RIGHT_ACCESSES]))
}

/// How many cases are within what is asked for, in words.
fn summary(verdicts: &[(Lru, [bool; 2])]) -> Vec<String> {
    let of = |lru: Lru| verdicts.iter().filter(move |(of_case, _)| *of_case == lru);
    let sentence = |lru: Lru| {
        let count = |which: usize| of(lru).filter(|(_, good)| good[which]).count();
        format!(
            "{}: of {} cases, misses are within {:.0} % in {}, and hit or miss is right for {:.0} % of accesses in {}",
            lru.name(),
            of(lru).count(),
            100.0 * tolerance(lru),
            count(0),
            100.0 * RIGHT_ACCESSES,
            count(1),
        )
    };
    [Lru::Classic, Lru::MultiGen].into_iter().filter(|&lru| of(lru).count() > 0).map(sentence).collect()
}
