//! What happened in a run at a time, in words: what it was, and what came of it or why.
//!
//! ```text
//!   vm.nr_hugepages=2048      470 of 2048 pages, no memory for more, 54 MiB migrated
//!   out of memory             box has a memory.max of 64.0 MiB and nothing to reclaim; killed: ...
//!   memory stall of service   refault 12 ms, direct_reclaim 2 ms
//! ```

use crate::number::{memory, time};
use sim::run_event::{CUT_OFF, FileWrite, Happening, RunEvent};
use std::collections::BTreeMap;

/// What it was, and the rest.
pub fn told(event: &RunEvent) -> (String, String) {
    match &event.what {
        Happening::Write(write) => {
            let has_ended = event.took_seconds.is_some();
            (format!("{}={}", write.file, write.value), came_to(write, has_ended))
        }
        Happening::MemoryStall { program, causes } => (format!("memory stall of {program}"), why(causes)),
        Happening::SlowestTransaction { program, queued_seconds, delays } => {
            let on_cpu =
                event.took_seconds.unwrap_or_default() - queued_seconds - delays.values().sum::<f64>();
            let rest = [("on a CPU".to_string(), on_cpu), ("queued".to_string(), *queued_seconds)];
            let rest = rest.into_iter().filter(|&(_, time)| time > 0.0);
            (
                format!("slowest transaction of {program}"),
                why(&delays.clone().into_iter().chain(rest).collect()),
            )
        }
        Happening::OomKill { .. } | Happening::KswapdGaveUp { .. } => event.note().unwrap_or_default(),
    }
}

/// What came of a write.
fn came_to(write: &FileWrite, has_ended: bool) -> String {
    let moved = [(write.migrated_mib, "migrated"), (write.dropped_mib, "of files freed")];
    let moved = moved.into_iter().filter(|&(mib, _)| mib > 0.0);
    let moved = moved.map(|(mib, what)| format!("{} {what}", memory(mib * 1024.0 * 1024.0)));
    let cut_off = (!has_ended).then(|| CUT_OFF.to_string());
    let parts = write.pages_reached().into_iter().chain(write.problem.clone()).chain(moved).chain(cut_off);
    parts.collect::<Vec<_>>().join(", ")
}

/// The least part of a wait that is told.
const LEAST_PART: f64 = 0.01;

/// The causes of a wait, the longest first; how long each of them was if there are several.
fn why(causes: &BTreeMap<String, f64>) -> String {
    let mut causes: Vec<(&str, f64)> = causes.iter().map(|(cause, &time)| (&**cause, time)).collect();
    let whole: f64 = causes.iter().map(|(_, time)| time).sum();
    causes.retain(|(_, time)| *time >= LEAST_PART * whole);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    match &*causes {
        [(cause, _)] => cause.to_string(),
        _ => causes
            .iter()
            .map(|(cause, took)| format!("{cause} {}", time(*took)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
