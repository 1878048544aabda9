//! Observations of zones, pagesets and free blocks, which are more than a counter.

use crate::doctor::window::{Window, large_zones, percent};
use crate::proc::{Pageset, Zone, ZoneInfo};
use std::collections::BTreeSet;

/// `high` counts as at its limit from this part of it on, in percent: the vmstat worker takes an eighth of it a second
/// (`decay_pcp_high`).
const AT_LIMIT: u64 = 95;
/// The order of a huge page of 2 MiB, with pages of 4 KiB.
const HUGE_ORDER: usize = 9;

/// CPUs with a pageset.
pub fn cpus(window: &Window) -> Option<f64> {
    let zones = window.zones.last()?;
    let cpus: BTreeSet<u16> = zones.zones.iter().flat_map(|zone| &zone.pagesets).map(|set| set.cpu).collect();
    (!cpus.is_empty()).then_some(cpus.len() as f64)
}

fn tuned(pageset: &&Pageset) -> bool {
    pageset.high_min.zip(pageset.high_max).is_some_and(|(min, max)| min < max)
}

fn is_at_limit(pageset: &&Pageset) -> bool {
    pageset.high_max.is_some_and(|max| pageset.high.saturating_mul(100) >= max.saturating_mul(AT_LIMIT))
}

/// What a function says of the zones of a sample, averaged over samples.
fn mean(window: &Window, of: impl Fn(&ZoneInfo) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = window.zones.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// CPUs of whose auto-tuned pagesets one is at `high_max`.
pub fn cpus_at_high_max(window: &Window) -> Option<f64> {
    mean(window, |zones| {
        let tuned: Vec<&Pageset> = large_zones(zones).flat_map(|zone| &zone.pagesets).filter(tuned).collect();
        let at_limit: BTreeSet<u16> = tuned.iter().copied().filter(is_at_limit).map(|set| set.cpu).collect();
        (!tuned.is_empty()).then_some(at_limit.len() as f64)
    })
}

/// How full the pagesets at `high_max` are.
pub fn filled_at_high_max(window: &Window) -> Option<f64> {
    mean(window, |zones| {
        let at_limit = large_zones(zones).flat_map(|zone| &zone.pagesets).filter(tuned).filter(is_at_limit);
        let (count, high) = at_limit
            .fold((0.0, 0.0), |(count, high), set| (count + set.count as f64, high + set.high as f64));
        percent(count, high)
    })
}

/// Pages on pagesets.
pub fn pages_on_pagesets(window: &Window) -> Option<f64> {
    mean(window, |zones| {
        let sets = zones.zones.iter().flat_map(|zone| &zone.pagesets);
        Some(sets.map(|set| set.count as f64).sum())
    })
}

/// Pages on pagesets, of the pages of zones with them.
pub fn held_share(window: &Window) -> Option<f64> {
    let managed: f64 = window.zones.last()?.zones.iter().map(|zone| zone.managed as f64).sum();
    percent(pages_on_pagesets(window)?, managed)
}

/// The part of samples in which a large zone is so.
fn share_of_samples(window: &Window, is_so: impl Fn(&Zone) -> bool) -> Option<f64> {
    mean(window, |zones| Some(if large_zones(zones).any(&is_so) { 100.0 } else { 0.0 }))
}

pub fn below_low(window: &Window) -> Option<f64> {
    share_of_samples(window, |zone| zone.free < zone.low)
}

pub fn boosted(window: &Window) -> Option<f64> {
    share_of_samples(window, |zone| zone.boost > 0)
}

/// Free memory in blocks below the size of a huge page.
pub fn free_in_small_blocks(window: &Window) -> Option<f64> {
    let blocks = window.end.buddyinfo.iter().flat_map(|zone| zone.blocks.iter().enumerate());
    let (mut small, mut all) = (0.0, 0.0);
    for (order, count) in blocks {
        let pages = *count as f64 * 2f64.powi(order.min(64) as i32);
        all += pages;
        small += if order < HUGE_ORDER { pages } else { 0.0 };
    }
    percent(small, all)
}
