//! Runs the accesses of a case in the twin.

use std::collections::BTreeMap;
use std::io;

use machine::Time;
use mm::memcontrol::{MemcgFile, UNLIMITED};
use mm::memory_map::{memory_layout, recorded_memory};
use mm::{Event, Features, Settings};
use sim::page_cache::{MemcgWriteAt, Outcome, Requests, Setup, replay};
use workload::access::PAGE_SIZE;
use workload::access::sequences::Operation;

use super::case::{Case, Lru, Way};
use super::group_write::GroupWrite;
use super::residency::{Residency, batches, stays_of_folios};
use super::{EVICTIONS, MISSES};
use crate::verify::VerifyError;
use crate::verify::failed;

/// The residency of the pages in the twin, in the environment of `case`, and the twin's counters by name.
pub fn twin_residency(
    features: &Features,
    cpus: u16,
    case: &Case,
    operations: &[Operation],
) -> Result<(Residency, BTreeMap<String, u64>), VerifyError> {
    let wrong = |problem: String| wrong(case, problem);
    let (setup, outcome) = run(features, cpus, case, operations)?;
    // A cgroup's counters of these differ from the machine's, which leave cgroup reclaim out.
    let by_reclaimer = [Event::PgscanDirect, Event::PgscanKswapd, Event::PgstealDirect, Event::PgstealKswapd];
    let compared = |event: &&Event| !case.is_in_group() || !by_reclaimer.contains(event);
    let mut counters = counters(&outcome, compared);
    counters.insert("workingset_nodes".into(), outcome.workingset_nodes);
    let stays = setup.requests.map(|_| stays_of_folios(outcome.brought.iter().map(Vec::as_slice)));
    let mut residency = Residency::new(operations, outcome.hits, stays, &outcome.evicted).map_err(wrong)?;
    if setup.requests.is_none() {
        let begun = |&access: &u32| residency.stays.partition_point(|stay| stay.access < access) as u32;
        residency.batches = Some(batches(outcome.evicted_at.iter().map(begun)));
    }
    Ok((residency, counters))
}

/// How many pages came in and were evicted in the twin, in the environment of `case`, and its other counters by name.
pub fn twin_counts(
    features: &Features,
    cpus: u16,
    case: &Case,
    operations: &[Operation],
) -> Result<BTreeMap<String, u64>, VerifyError> {
    let (_, outcome) = run(features, cpus, case, operations)?;
    let mut counters = counters(&outcome, |_| true);
    counters.insert(MISSES.into(), outcome.hits.iter().filter(|hit| !**hit).count() as u64);
    counters.insert(EVICTIONS.into(), outcome.evicted.len() as u64);
    Ok(counters)
}

fn counters(outcome: &Outcome, compared: impl Fn(&&Event) -> bool) -> BTreeMap<String, u64> {
    let counters = Event::ALL.iter().filter(compared);
    counters.map(|&event| (event.name().to_string(), outcome.counters.get(event))).collect()
}

fn wrong(case: &Case, problem: String) -> VerifyError {
    failed(format!("the twin, {}", case.name), io::Error::other(problem))
}

fn run<'a>(
    features: &'a Features,
    cpus: u16,
    case: &Case,
    operations: &[Operation],
) -> Result<(Setup<'a>, Outcome), VerifyError> {
    let wrong = |problem: String| wrong(case, problem);
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
    let without_other = |max: u64| max.saturating_sub(case.memcg_other - metadata);
    let write = |&GroupWrite { access, file, bytes }: &GroupWrite| {
        let bytes =
            if file == MemcgFile::High { without_other(bytes / PAGE_SIZE) * PAGE_SIZE } else { bytes };
        MemcgWriteAt { access, file, bytes }
    };
    let setup = Setup {
        features,
        settings,
        cpus: cpus.into(),
        memory,
        // Memory of the kernel and its programs that is never freed.
        held: case.free_pages.map_or(0, |left| free.saturating_sub(left)),
        memcg_max: case.is_in_group().then(|| case.memcg_max.map_or(UNLIMITED, without_other)),
        writes: case.writes.iter().map(write).collect(),
        metadata: metadata as u32,
        swap_pages: case.swap_pages,
        stat_reads: case.stat_reads,
        seed: case.seed,
        pace: Time::from_nanoseconds(case.pace_us * 1000),
        random_mapping: case.way == Way::RandomMapping,
        requests: match case.way {
            Way::Pread | Way::RandomMapping => None,
            Way::Readahead { request_pages: pages, file_pages, large_folios } => {
                Some(Requests { pages, file_pages, large_folios })
            }
        },
    };
    let outcome = replay(&setup, operations, &mut |_| {}).map_err(|error| wrong(error.to_string()))?;
    Ok((setup, outcome))
}
