//! What follows for a thread whose reclaim has found nothing, and what a run says of an OOM kill.
//!
//! ```text
//!   reclaim has helped  ─► retry          a request in flight ─► wait for it
//!   a flusher has work  ─► wait a tick    batches not drained ─► drain them, retry
//!   nothing of these    ─► the OOM killer
//! ```
//!
//! The kernel has several places where such a thread waits: `reclaim_throttle`, `folio_wait_writeback`, a full request queue.

use crate::System;
use crate::block_io::BlockIo;
use machine::{Cpu, Time};
use mm::jiffies::TICK_NS;
use mm::memcontrol::Memcg;
use mm::oom_kill::{OomCause, OomKill};

/// What a thread does that has found no memory.
pub(crate) enum Relief {
    /// It waits, and then tries again.
    Wait(Time),
    /// It tries again at once.
    Retry,
    /// Processes are to be killed for it.
    Kill(OomKill),
    /// Nobody is left to be killed.
    None,
}

/// How far threads have come that find no memory; begins anew whenever one of them has got on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortage {
    /// Whether the LRU batches of all CPUs have been drained since reclaim last made progress.
    drained: bool,
}

impl Shortage {
    /// What a thread of `memcg` on `cpu` does next.
    pub fn next(&mut self, system: &mut System, cpu: Cpu, io: &mut BlockIo, memcg: Memcg) -> Relief {
        io.submit_writes(system, cpu);
        if system.mm.parts.allocator.take_need_resched() {
            *self = Shortage::default();
            return Relief::Retry;
        }
        let relief = match io.next_completion() {
            Some(earliest) => Relief::Wait(earliest),
            // Only dirty pages are left, and a flusher is about to write them.
            None if io.flushers.are_running() || system.mm.parts.page_cache.has_flusher_to_run() => {
                Relief::Wait(system.machine.now(cpu) + Time::from_nanoseconds(TICK_NS))
            }
            // The only old pages may be in the LRU batches of other CPUs.
            None if !self.drained => {
                system.mm.enter(&mut system.machine, Cpu(0)).lru_add_drain_all();
                Relief::Retry
            }
            None => system
                .mm
                .enter(&mut system.machine, Cpu(0))
                .out_of_memory(memcg)
                .map_or(Relief::None, Relief::Kill),
        };
        self.drained = io.next_completion().is_none();
        relief
    }
}

/// Why processes are killed, in words; `name` is that of a cgroup.
pub(crate) fn cause(system: &System, kill: &OomKill, name: impl Fn(Memcg) -> Option<String>) -> String {
    let mib = |pages: u64| system.mm.parts.allocator.page_size().mib_of_pages(pages);
    match kill.cause {
        OomCause::NoFreePage => "no free page and nothing to reclaim".to_string(),
        OomCause::MemoryMax(memcg) => format!(
            "{} has a memory.max of {:.1} MiB and nothing to reclaim",
            name(memcg).unwrap_or_else(|| "a cgroup of a copy".into()),
            mib(system.mm.parts.lrus.memcg(memcg).max)
        ),
        OomCause::MinTtl => "everything is younger than lru_gen/min_ttl_ms".to_string(),
    }
}
