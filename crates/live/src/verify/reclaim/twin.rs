//! Runs the accesses of a case in the twin.

use std::collections::BTreeMap;
use std::io;

use mm::memory_map::{memory_layout, recorded_memory};
use mm::{Event, Features, Settings};
use sim::page_cache::{Requests, Setup, replay};
use workload::access::sequences::Operation;

use super::case::{Case, Lru, Way};
use super::residency::{Residency, batches, stays_of_folios};
use crate::verify::VerifyError;
use crate::verify::failed;

/// The residency of the pages in the twin, in the environment of `case`, and the twin's counters by name.
pub fn twin_residency(
    features: &Features,
    cpus: u16,
    case: &Case,
    operations: &[Operation],
) -> Result<(Residency, BTreeMap<String, u64>), VerifyError> {
    let wrong = |problem: String| failed(format!("the twin, {}", case.name), io::Error::other(problem));
    let mut settings = Settings::default();
    for (name, value) in &case.settings {
        settings.set(name, value).map_err(|error| wrong(error.to_string()))?;
    }
    let generations = if case.lru == Lru::Classic { "0" } else { "7" };
    settings.set("lru_gen/enabled", generations).map_err(|error| wrong(error.to_string()))?;
    let memory = match &case.zones[..] {
        [] => memory_layout(1, case.memory >> 20),
        zones => recorded_memory(zones),
    };
    let free: u64 = memory.iter().map(|range| range.free.len() as u64).sum();
    // One of the other charged pages is the file's metadata block on disk; the rest is kernel memory.
    let metadata = case.memcg_other.min(1);
    let setup = Setup {
        features,
        settings,
        cpus: cpus.into(),
        memory,
        // Memory of the kernel and its programs that is never freed.
        held: case.free_pages.map_or(0, |left| free.saturating_sub(left)),
        memcg_max: case.memcg_max.map(|max| max.saturating_sub(case.memcg_other - metadata)),
        metadata: metadata as u32,
        swap_pages: case.swap_pages,
        stat_reads: case.stat_reads,
        random_mapping: case.way == Way::RandomMapping,
        requests: match case.way {
            Way::Pread | Way::RandomMapping => None,
            Way::Readahead { request_pages: pages, file_pages, large_folios } => {
                Some(Requests { pages, file_pages, large_folios })
            }
        },
    };
    let outcome = replay(&setup, operations, &mut |_| {}).map_err(|error| wrong(error.to_string()))?;
    // A cgroup's counters of these differ from the machine's, which leave cgroup reclaim out.
    let by_reclaimer = [Event::PgscanDirect, Event::PgscanKswapd, Event::PgstealDirect, Event::PgstealKswapd];
    let compared = |event: &&Event| case.memcg_max.is_none() || !by_reclaimer.contains(event);
    let counters = Event::ALL.iter().filter(compared);
    let counters = counters.map(|&event| (event.name().to_string(), outcome.counters.get(event)));
    let mut counters: BTreeMap<String, u64> = counters.collect();
    counters.insert("workingset_nodes".into(), outcome.workingset_nodes);
    let stays = setup.requests.map(|_| stays_of_folios(outcome.brought.iter().map(Vec::as_slice)));
    let mut residency = Residency::new(operations, outcome.hits, stays, &outcome.evicted).map_err(wrong)?;
    if setup.requests.is_none() {
        let begun = |&access: &u32| residency.stays.partition_point(|stay| stay.access < access) as u32;
        residency.batches = Some(batches(outcome.evicted_at.iter().map(begun)));
    }
    Ok((residency, counters))
}
