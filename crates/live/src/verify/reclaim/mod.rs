//! Compares reclaim: does the twin keep the pages that the kernel keeps?
//!
//! ```text
//!   case         a sequence of accesses (workload::access::sequences), a limit, the LRU in use
//!   residency    hit or miss of each access; the pages that were evicted
//!
//!   running_kernel   runs the cases on this kernel --.                        .-- twin   the same accesses
//!   emulated         on Debian's kernels ------------+-> residency --- judge -'
//!   recording        reads those of other kernels ---'
//! ```
//!
//! Whether an accessed page is resident is all that a program can see of reclaim, and it can be observed
//! exactly: every access is compared, not a ratio. DAMON_RECLAIM alone draws lots, so means over boots are compared (ensemble). The order of evictions shows more where hits agree by
//! chance.

use mm::{Features, Mechanism};
use workload::access::sequences::Operation;

use super::bound::whole_percent;
use super::{Asked, Boots, Bound, Entry, Hearing, Judge, Recorder, Subject, VerifyError};

mod case;
mod emulated;
mod ensemble;
mod group_write;
mod judge;
mod memcg;
pub(super) mod page_events;
mod pressure;
pub mod reader;
mod recording;
mod residency;
mod running_kernel;
mod twin;

pub use case::{Case, Lru, Way};
pub use emulated::in_guest;
pub use group_write::GroupWrite;
pub use judge::entries;
pub use pressure::Pressure;
pub use recording::{Generation, Recording};
pub use residency::{Residency, Stay};
pub(super) use running_kernel::directory;
pub use running_kernel::obstacle;
pub use twin::{twin_counts, twin_residency};

/// Allowed relative error of misses.
pub const fn tolerance(lru: Lru) -> f64 {
    match lru {
        Lru::Classic => 0.01,
        Lru::MultiGen => 0.03,
    }
}

/// The fraction of accesses that must be hits or misses as in the kernel.
pub const RIGHT_ACCESSES: f64 = 0.98;

/// Allowed relative error of the number of scanned pages.
const SCANNED: f64 = 0.03;
/// Allowed fraction of the multi-gen LRU's evictions that are in another order, and of its batches that
/// differ in time or size.
const OUT_OF_ORDER: f64 = 0.05;

/// Allowed relative error of means over boots, and what of them has this bound. How much is paged out differs by a factor of three from
/// boot to boot.
const MEANS: f64 = 0.1;
const MEANS_BOUNDED: [&str; 4] = [
    MISSES,
    "damon_reclaim.nr_reclaim_tried_regions",
    "damon_reclaim.bytes_reclaim_tried_regions",
    "damon_reclaim.nr_quota_exceeds",
];

#[derive(Default)]
pub struct Reclaim {
    /// For each case with a bound, its LRU, and whether misses and accesses are within the bound.
    verdicts: Vec<(Lru, [bool; 2])>,
    ensemble: ensemble::Ensemble,
}

/// Names of what the tracepoints of the page cache count.
const MISSES: &str = "misses";
const EVICTIONS: &str = "evictions";

impl Judge for Reclaim {
    const MECHANISM: Mechanism = Mechanism::Reclaim;
    const COMPARED: &'static str = "hits, misses and evictions of accesses in a memory cgroup";
    const BOUND: Bound = Bound { of: allowed, words: allowed_in_words };
    type Recording = Recording;

    fn recorder() -> Result<Recorder<Reclaim>, String> {
        obstacle().map_or(Ok(running_kernel::record), Err)
    }

    fn boots(_: &Asked) -> Option<Boots<Recording>> {
        Some(emulated::boots())
    }

    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError> {
        for case in &recording.cases {
            let name = format!("{}: {}", subject.name, case.name);
            (hearing.progress)(&format!("comparing {name}"));
            let operations = recording.operations(case)?;
            if case.is_damon() {
                let twin = twin_counts(&subject.features, recording.cpus, case, &operations)?;
                self.ensemble.add(name, &case.counters, twin);
                continue;
            }
            let kernel = recording.residency(case, &operations)?;
            let entries = case_entries(&name, &subject.features, recording.cpus, case, &operations, &kernel)?;
            hearing.enter(self.weigh(case.lru, entries));
        }
        Ok(())
    }

    fn conclude(&mut self, hearing: &mut Hearing) {
        hearing.enter(self.ensemble.entries());
    }

    fn summary(self) -> Vec<String> {
        summary(&self.verdicts)
    }
}

impl Reclaim {
    /// Returns the entries, and notes whether the case is within the bound.
    fn weigh(&mut self, lru: Lru, entries: Vec<Entry>) -> Vec<Entry> {
        self.verdicts.extend(verdict(lru, &entries));
        entries
    }
}

/// The allowed error of a counter: misses and evictions by LRU, and accesses.
/// docs/src/reference/verify-reclaim.md has the reason why each of the others has no bound.
fn allowed(entry: &Entry) -> Option<f64> {
    if entry.case.contains(ensemble::MEAN_OF) {
        return MEANS_BOUNDED.contains(&entry.counter.as_str()).then_some(MEANS);
    }
    let lru = if entry.case.ends_with("multi-gen") { Lru::MultiGen } else { Lru::Classic };
    match entry.counter.as_str() {
        "misses" | "misses of anonymous pages" | "evictions" | "pgsteal_file" => Some(tolerance(lru)),
        "accesses, hit or miss" => Some(1.0 - RIGHT_ACCESSES),
        "pgscan_file" => Some(SCANNED),
        counter if counter.contains("of evictions") || counter.starts_with("evictions, ") => {
            Some(OUT_OF_ORDER).filter(|_| lru == Lru::MultiGen)
        }
        _ => None,
    }
}

fn allowed_in_words() -> Option<String> {
    let [classic, multi_gen] = [Lru::Classic, Lru::MultiGen].map(|lru| whole_percent(tolerance(lru)));
    let accesses = whole_percent(1.0 - RIGHT_ACCESSES);
    let [scanned, order, means] = [SCANNED, OUT_OF_ORDER, MEANS].map(whole_percent);
    Some(format!(
        "{classic} of misses and evictions ({multi_gen} with the multi-gen LRU, {order} of their order), {scanned} of \
         what is scanned, {accesses} of accesses and {means} of means over boots"
    ))
}

/// The entries of one case, called `name` in the report; `kernel` is the kernel's residency.
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

/// Whether misses and accesses of a case are within the bound; `None` for a case without a bound.
fn verdict(lru: Lru, entries: &[Entry]) -> Option<(Lru, [bool; 2])> {
    let of = |counter: &str| entries.iter().find(|entry| entry.counter == counter);
    if of("misses").is_some_and(|entry| !entry.is_comparable()) {
        return None;
    }
    let error = |counter: &str| of(counter).and_then(|entry| entry.error).unwrap_or(f64::INFINITY).abs();
    Some((lru, [error("misses") <= tolerance(lru), error("accesses, hit or miss") <= 1.0 - RIGHT_ACCESSES]))
}

/// Sentences on how many cases are within the bound.
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
