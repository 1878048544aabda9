//! What a run says of an OOM kill: when, why, and who ended.

use crate::System;
use machine::Time;
use mm::oom_kill::{OomCause, OomKill};

/// A sentence about `kill` at `now`, with what is said of each process that ended.
pub(crate) fn note(system: &System, now: Time, kill: &OomKill, ended: &[String]) -> String {
    let mib = |pages: u64| system.mm.parts.allocator.page_size().mib_of_pages(pages);
    let cause = match kill.cause {
        OomCause::NoFreePage => "no free page and nothing to reclaim".to_string(),
        OomCause::MemoryMax(memcg) => format!(
            "a memory.max of {:.1} MiB and nothing to reclaim",
            mib(system.mm.parts.lrus.memcg(memcg).max)
        ),
        OomCause::MinTtl => "everything is younger than lru_gen/min_ttl_ms".to_string(),
    };
    format!("out of memory at {:.3} s: {cause}; killed: {}", now.seconds(), ended.join(", "))
}
