//! What an operator's writes to pools of huge pages took: each counts as what it did to the pools.
//!
//! ```text
//!   echo 1000 > nr_hugepages  ├── steps ──┤            grew: grow_time, grow_flushes, pages_reached, vmemmap_freed
//!   echo 0 > nr_hugepages                  ├ steps ─┤  shrank: shrink_time, shrink_flushes
//!   echo 8 > demote                                    demoted: demote_time
//! ```

use super::events::CameTo;
use crate::outcome::Outcome;
use crate::{System, metric};
use machine::Time;
use mm::Event;
use mm::write::Write;

/// The write in progress, and what was there when it began.
struct Before {
    began: Time,
    huge_pages: u64,
    flushes: u64,
}

/// Totals of the writes of one kind.
#[derive(Clone, Copy, Default)]
struct Total {
    writes: u64,
    time: Time,
    flushes: u64,
}

/// Writes to pools since measuring began.
pub(super) struct PoolWrites {
    /// Time in which boot filled pools.
    boot: Time,
    /// Frames of struct pages after boot.
    frames_at_boot: i64,
    before: Option<Before>,
    grow: Total,
    shrink: Total,
    demote: Total,
    /// What the pool had after the last write that raised it, and the frames of struct pages given back by then.
    reached: Option<(u64, i64)>,
}

impl PoolWrites {
    /// For a system that has just been booted.
    pub fn new(system: &System) -> PoolWrites {
        PoolWrites {
            boot: system.latest(),
            frames_at_boot: frames(system),
            before: None,
            grow: Total::default(),
            shrink: Total::default(),
            demote: Total::default(),
            reached: None,
        }
    }

    /// Forgets the writes that have ended.
    pub fn start_measuring(&mut self) {
        (self.grow, self.shrink, self.demote) = Default::default();
        self.reached = None;
    }

    /// Notes that a write begins.
    pub fn begin(&mut self, system: &System, now: Time) {
        let (huge_pages, flushes) = (huge_pages(system), flushes(system));
        self.before = Some(Before { began: now, huge_pages, flushes });
    }

    /// Counts the write that ends. Returns what it came to, if it was to a pool.
    pub fn end(&mut self, system: &System, write: &Write, now: Time) -> Option<CameTo> {
        let before = self.before.take()?;
        let outcome = write.outcome()?;
        let is_short = outcome.reached < outcome.wanted;
        let huge = huge_pages(system);
        let total = if write.demotes() {
            Some(&mut self.demote)
        } else if huge > before.huge_pages || (huge == before.huge_pages && is_short) {
            let tables = system.mm.parts.hugetlb.vmemmap.nr_split_sections() as i64;
            self.reached = Some((outcome.reached, self.frames_at_boot - frames(system) - tables));
            Some(&mut self.grow)
        } else if huge < before.huge_pages {
            Some(&mut self.shrink)
        } else {
            None
        };
        if let Some(total) = total {
            total.writes += 1;
            total.time += now - before.began;
            total.flushes += flushes(system) - before.flushes;
        }
        let why = match write.demotes() {
            true => "no more free pages, or no memory for their struct pages",
            false => "no memory for more",
        };
        let (asked, reached) = (Some(outcome.wanted), Some(outcome.reached));
        Some(CameTo { asked, reached, problem: is_short.then_some(why) })
    }

    /// Sets the metrics of pools: of boot, and of writes where there were any.
    pub fn fill(&self, outcome: &mut Outcome) {
        if self.boot > Time::ZERO {
            outcome.set(metric::POOL_BOOT_TIME, self.boot.seconds());
        }
        if self.demote.writes > 0 {
            outcome.set(metric::DEMOTE_TIME, self.demote.time.seconds());
        }
        if self.grow.writes + self.shrink.writes + self.demote.writes == 0 {
            return;
        }
        for (total, time, flushes) in [
            (self.grow, metric::GROW_TIME, metric::GROW_FLUSHES),
            (self.shrink, metric::SHRINK_TIME, metric::SHRINK_FLUSHES),
        ] {
            outcome.set(time, total.time.seconds());
            outcome.set(flushes, total.flushes as f64);
        }
        if let Some((reached, freed)) = self.reached {
            outcome.set(metric::PAGES_REACHED, reached as f64);
            outcome.set(metric::VMEMMAP_FREED, freed as f64 / 256.0);
        }
        for (metric, event) in
            [(metric::IPIS, Event::TlbRemoteCalls), (metric::HUGETLB_LOCK_HOLDS, Event::HugetlbLockHolds)]
        {
            outcome.set(metric, outcome.counters.get(event) as f64);
        }
    }
}

/// Base pages in all pools of huge pages.
fn huge_pages(system: &System) -> u64 {
    system.mm.parts.hugetlb.hstates().iter().map(|h| h.counters().nr << h.order).sum()
}

/// Frames that hold struct pages (`nr_memmap_pages` and `nr_memmap_boot_pages`).
fn frames(system: &System) -> i64 {
    let vmemmap = &system.mm.parts.hugetlb.vmemmap;
    vmemmap.nr_memmap_boot_pages() + vmemmap.nr_memmap_pages()
}

/// TLB flushes of kernel translations on all CPUs so far.
fn flushes(system: &System) -> u64 {
    let counters = system.mm.counters();
    counters.get(Event::TlbFlushAll) + counters.get(Event::TlbFlushKernelRange)
}
