//! The same accesses in the twin.

use std::collections::BTreeMap;
use std::io;

use lab::page_cache::{Setup, replay};
use mm::{Event, Features, Settings};
use workload::access::PAGE_SIZE;
use workload::access::sequences::Operation;

use super::case::{Case, Lru};
use super::residency::Residency;
use crate::verify::VerifyError;
use crate::verify::running_kernel::failed;

/// What becomes of the pages in the twin, in the surroundings of `case`, and its counters by name.
pub fn twin_residency(
    features: &Features,
    cpus: u16,
    case: &Case,
    operations: &[Operation],
) -> Result<(Residency, BTreeMap<String, u64>), VerifyError> {
    let mut features = *features;
    if case.lru == Lru::Classic {
        features.workingset = features.workingset.classic();
    }
    let wrong = |problem: String| failed(format!("the twin, {}", case.name), io::Error::other(problem));
    let mut settings = Settings::default();
    for (name, value) in &case.settings {
        settings.set(name, value).map_err(|error| wrong(error.to_string()))?;
    }
    let setup = Setup {
        features: &features,
        // What the kernel and its programs hold cannot be had by anybody else.
        memory: case.free_pages.map_or(case.memory, |pages| pages.saturating_mul(PAGE_SIZE)),
        cpus: cpus.into(),
        settings,
        memcg_max: case.memcg_max.map(|max| max.saturating_sub(case.memcg_other)),
        swap_pages: case.swap_pages,
        stat_reads: case.stat_reads,
    };
    let outcome = replay(&setup, operations, &mut |_| {});
    let counters = Event::ALL.iter().map(|&event| (event.name().to_string(), outcome.counters.get(event)));
    let counters = counters.collect();
    Ok((Residency::new(operations, outcome.hits, &outcome.evicted).map_err(wrong)?, counters))
}
