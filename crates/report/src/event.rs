//! What happened in a run at a time, in words: what it was, and what came of it or why.
//!
//! ```text
//!   vm.nr_hugepages=2048      470 of 2048 pages, no memory for more, 54 MiB migrated
//!   out of memory             a memory.max of 64.0 MiB and nothing to reclaim; killed: ...
//!   memory stall of service   refault 0.0120 s, direct reclaim 0.0020 s
//! ```

use crate::number::memory;
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

/// The causes of a stall, the longest first; how long each of them was if there are several.
fn why(causes: &BTreeMap<String, f64>) -> String {
    let mut causes: Vec<(&str, f64)> = causes.iter().map(|(cause, &time)| (&**cause, time)).collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    match &*causes {
        [(cause, _)] => cause.to_string(),
        _ => causes
            .iter()
            .map(|(cause, time)| format!("{cause} {} s", seconds(*time)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Seconds to the millisecond, or to a tenth of it where they are few.
pub fn seconds(time: f64) -> String {
    if time < 0.0995 { format!("{time:.4}") } else { format!("{time:.3}") }
}
