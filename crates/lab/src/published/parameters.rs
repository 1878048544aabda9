//! Numbers and rules that the thread states: read from the twin, or found by trying its decisions out.

use super::prediction::CellValue;
use crate::scenario::{Scenario, load_machine};
use machine::topology::{Cache, SharedBy};
use machine::{PageSize, Profile, Topology};
use mm::memory_map::{booted_memory, memory_layout};
use mm::pcp::policy::{self, BATCH_SCALE_MAX, Pageset, ZonePressure};
use mm::sysctl::MIN_PERCPU_PAGELIST_HIGH_FRACTION;
use mm::{Features, MemoryManager, Series, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

/// The table of parameters.
pub(super) const TABLE: &str = "pcp.parameters";

const MIB: f64 = (1 << 20) as f64;

/// Pages of 16 GiB: a zone of more than 1 GB.
const LARGE_ZONE: u64 = 1 << 22;

/// What the twin has for a row.
pub(super) fn predict(row: &str) -> CellValue {
    match row {
        "batch_default" => CellValue::Number(f64::from(policy::zone_batchsize(PageSize::Kib4, LARGE_ZONE))),
        "pcp_high_224" => pcp_high("intel-2s-224").into(),
        "batch_scale_max" => CellValue::Number(f64::from(BATCH_SCALE_MAX)),
        "drain_cache_rule_v1" => batches_before_drain("patch3").map(|n| format!("{n} * batch")).into(),
        "drain_cache_rule_agreed" => {
            batches_before_drain("mainline-6.7").map(|n| format!("{n} * pcp->batch")).into()
        }
        "llc_per_thread_icelake" => profile("icl-server", |t| t.last_level_slice() as f64 / MIB),
        "llc_per_thread_spr" => profile("spr-server", |t| t.last_level_slice() as f64 / MIB),
        "batch_mb" => {
            let pages = policy::zone_batchsize(PageSize::Kib4, LARGE_ZONE) as u64;
            CellValue::Number(PageSize::Kib4.mib_of_pages(pages))
        }
        "spr_l2" => profile("spr-server", |t| level_of_core(t, 2)),
        "spr_llc_core" => profile("spr-server", |t| level_of_core(t, 3)),
        "decay_v1" => decay_fraction("patch7").into(),
        "decay_agreed" => decay_shift("mainline-6.7").into(),
        "consecutive_frees" => frees_before_drain("patch1").into(),
        "decay_min_fraction" => CellValue::Number(MIN_PERCPU_PAGELIST_HIGH_FRACTION as f64),
        _ => CellValue::Missing("nothing in the twin stands for this parameter".into()),
    }
}

fn features(variant: &str) -> Result<Features, String> {
    Series::PCP.variant(variant).map(|v| v.features).ok_or_else(|| format!("no variant {variant}"))
}

fn machine(name: &str) -> Result<Profile, String> {
    load_machine(name).map_err(|error| error.to_string())
}

fn profile(name: &str, value: impl Fn(&Topology) -> f64) -> CellValue {
    machine(name).map(|profile| value(&profile.topology())).into()
}

/// MiB of a cache level for each core.
fn level_of_core(topology: &Topology, level: u8) -> f64 {
    let cores = |cache: &Cache| match cache.shared_by {
        SharedBy::Core => 1.0,
        SharedBy::Socket => f64::from(topology.cores_per_socket),
    };
    let caches = topology.caches.iter().filter(|cache| cache.level == level);
    caches.map(|cache| cache.bytes as f64 / cores(cache)).sum::<f64>() / MIB
}

/// `pcp->high` of the last node's Normal zone on an unpatched kernel, with the settings of the kernel builds.
fn pcp_high(name: &str) -> Result<f64, String> {
    let profile = machine(name)?;
    let mut settings = Settings::default();
    for (name, value) in Scenario::load("kbuild").map_err(|error| error.to_string())?.settings {
        settings.set(&name, &value).map_err(|error| error.to_string())?;
    }
    let topology = profile.topology();
    let memory = booted_memory(&profile);
    let mm = MemoryManager::new(&topology, &memory, features("pcp-base")?, settings, Pcg64Mcg::new(0));
    let zone = mm.parts.allocator.zones().iter().rfind(|zone| zone.kind == ZoneType::Normal);
    zone.map(|zone| f64::from(zone.high_min)).ok_or_else(|| format!("{name} has no Normal zone"))
}

/// How many batches a CPU's cache must exceed for pages to be kept before a drain: the cache is grown page by page.
fn batches_before_drain(variant: &str) -> Result<u64, String> {
    let features = features(variant)?;
    let keeps = |cache_pages: u64| {
        let cache = Cache { level: 3, bytes: cache_pages * 4096, shared_by: SharedBy::Socket };
        let topology = Topology { caches: vec![cache], ..Topology::single() };
        let memory = memory_layout(1, LARGE_ZONE / 256);
        let mm = MemoryManager::new(&topology, &memory, features, Settings::default(), Pcg64Mcg::new(0));
        mm.parts
            .allocator
            .zones()
            .iter()
            .rfind(|z| z.kind == ZoneType::Normal)
            .is_some_and(|z| z.pagesets[0].tuning.free_high_batch)
    };
    let batch = policy::zone_batchsize(PageSize::Kib4, LARGE_ZONE) as u64;
    let found = (1..=16).find(|n| !keeps(n * batch) && keeps(n * batch + 1));
    found.ok_or_else(|| format!("{variant} keeps no pages before a drain, whatever the cache"))
}

/// `high` after one decay step from 1,000,000 pages that nobody used.
fn decayed(variant: &str) -> Result<i32, String> {
    let mut pageset = Pageset { high: 1_000_000, high_max: 1_000_000, batch: 63, ..Pageset::default() };
    policy::decay(&mut pageset, &features(variant)?);
    Ok(pageset.high)
}

fn decay_fraction(variant: &str) -> Result<String, String> {
    let high = decayed(variant)?;
    let found = (2..=16).find_map(|d| (1..d).find(|n| i64::from(high) * d == 1_000_000 * n).map(|n| (n, d)));
    let (numerator, denominator) = found.ok_or_else(|| format!("{variant} lowers 1000000 to {high}"))?;
    Ok(format!("pcp->high * {numerator} / {denominator}"))
}

fn decay_shift(variant: &str) -> Result<String, String> {
    let high = decayed(variant)?;
    let shift = (1..16).find(|shift| high == 1_000_000 - (1_000_000 >> shift));
    shift.map(|shift| format!(">> {shift}")).ok_or_else(|| format!("{variant} lowers 1000000 to {high}"))
}

/// How many order-3 frees in a row bring about a drain after bulk frees.
fn frees_before_drain(variant: &str) -> Result<f64, String> {
    let features = features(variant)?;
    let mut pageset = Pageset { high: 100_000, batch: 63, free_factor: 1, ..Pageset::default() };
    let mut drains = |_: &u32| {
        policy::note_free(&mut pageset, &features, ZonePressure::default(), 3)
            .is_some_and(|bulk| bulk.free_high)
    };
    (1..=16).find(|n| drains(n)).map(f64::from).ok_or_else(|| format!("{variant} does not drain"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of intel-2s-224 is not printed; its profile has as much as makes this number right.
    #[test]
    fn a_normal_zone_of_the_kernel_builds_has_the_printed_high() {
        assert_eq!(pcp_high("intel-2s-224"), Ok(361.0));
    }
}
