//! Observations of CMA, memory that is lent to movable pages until somebody asks for a contiguous range of it.
//!
//! ```text
//!   pages free ─┬─ not CMA    anybody may have them
//!               └─ CMA        movable pages only, and not on all paths: for the rest they are not there
//!                             (mm/page_alloc.c, __zone_watermark_unusable_free)
//! ```
//!
//! A kernel without CMA has none, which is known and not unseen: its meminfo has no line about it.

use crate::doctor::window::{Window, large_zones, percent};
use crate::proc::Zone;

pub fn size(window: &Window) -> Option<f64> {
    window.mib("CmaTotal").or_else(|| window.mib("MemTotal").map(|_| 0.0))
}

/// The part of free memory that is CMA.
pub fn free_share(window: &Window) -> Option<f64> {
    // The two lines are counted one after the other.
    percent(window.mib("CmaFree")?, window.mib("MemFree")?).map(|share| share.min(100.0))
}

/// Free memory that is not CMA.
pub fn free_beside(window: &Window) -> Option<f64> {
    Some((window.mib("MemFree")? - window.mib("CmaFree").unwrap_or(0.0)).max(0.0))
}

/// Whether a zone is above its low watermark only because of free pages of CMA.
fn is_short(zone: &Zone) -> Option<bool> {
    let of_cma = zone.counters.get("nr_free_cma")?;
    Some(zone.free >= zone.low && zone.free.saturating_sub(*of_cma) < zone.low)
}

/// The part of samples in which a large zone is so.
pub fn short_share(window: &Window) -> Option<f64> {
    let samples = window.zones.iter().filter_map(|zones| {
        let short: Vec<bool> = large_zones(zones).filter_map(is_short).collect();
        (!short.is_empty()).then(|| short.contains(&true))
    });
    let samples: Vec<bool> = samples.collect();
    percent(samples.iter().filter(|is_short| **is_short).count() as f64, samples.len() as f64)
}

/// The area in which allocations of most pages failed.
pub fn worst_area(window: &Window) -> Option<String> {
    const BEGIN: &str = "sys/kernel/mm/cma/";
    const END: &str = "/alloc_pages_fail";
    let areas = window.end.files.between(BEGIN, END).filter_map(|(area, pages)| {
        let before = window.begin.files.text(&format!("{BEGIN}{area}{END}"))?;
        let failed = pages.parse::<u64>().ok()?.saturating_sub(before.parse().ok()?);
        Some((failed, area.to_string()))
    });
    areas.filter(|(failed, _)| *failed > 0).max().map(|(_, area)| area)
}
