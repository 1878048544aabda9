//! What happens on a host at a time: writes of the operator, kills, a kswapd that gives up, the longest memory stalls of each program and
//! its slowest transaction.
//!
//! ```text
//!   begin ──► steps: CPU time, memory migrated and freed ──► end       a write
//!   the OOM killer chooses ──► at once                                  a kill
//!   kswapd_failures is looked at ten times a second                     kswapd gives up, and goes on
//!   a thread stands still ──► its operation goes on                     a stall, if it is among the longest of its program
//! ```

use super::threads::TransactionWaits;
use crate::System;
use crate::run_event::{FileWrite, Happening, Killed, RunEvent};
use machine::{Node, Time};
use mm::Event;
use mm::delayacct::{Cause, Delay};
use std::collections::BTreeMap;

/// So many stalls are kept of each program.
const STALLS: usize = 5;
/// Shorter ones are not.
const SHORTEST_STALL: Time = Time::from_nanoseconds(1_000_000);

/// What is known at the end of a write.
#[derive(Default)]
pub(super) struct CameTo {
    pub asked: Option<u64>,
    pub reached: Option<u64>,
    pub problem: Option<&'static str>,
}

/// The write in progress.
struct InProgress {
    began: Time,
    /// CPU time of the operator by then.
    on_cpu: Time,
    write: FileWrite,
}

/// Who stood still, and how.
struct StallOf {
    report: usize,
    delay: Delay,
}

/// The slowest transaction of a program.
#[derive(Clone, Copy, Default)]
struct Slowest {
    began: Time,
    took: Time,
    waits: TransactionWaits,
}

/// What has happened so far.
pub(super) struct Events {
    all: Vec<RunEvent>,
    write: Option<InProgress>,
    /// By node, which of `all` says that its kswapd has given up, as long as it has.
    given_up: Vec<Option<usize>>,
    /// The longest of each program since measuring began.
    stalls: Vec<StallOf>,
    /// By the number of a report, since measuring began.
    slowest: Vec<Slowest>,
}

impl Events {
    /// For so many programs and nodes.
    pub fn new(programs: usize, nodes: usize) -> Events {
        Events {
            all: Vec::new(),
            write: None,
            given_up: vec![None; nodes],
            stalls: Vec::new(),
            slowest: vec![Slowest::default(); programs],
        }
    }

    /// Forgets stalls and transactions while warming up.
    pub fn start_measuring(&mut self) {
        self.stalls.clear();
        self.slowest.fill(Slowest::default());
    }

    /// Notes a transaction of a program, which has this number among the reports, if it is its slowest. The operator has none.
    #[inline]
    pub fn transaction(&mut self, report: usize, (began, took): (Time, Time), waits: TransactionWaits) {
        if let Some(slowest) = self.slowest.get_mut(report)
            && took > slowest.took
        {
            *slowest = Slowest { began, took, waits };
        }
    }

    /// Notes that a write begins, when the operator has been on CPUs for so long.
    pub fn begin_write(&mut self, (now, on_cpu): (Time, Time), file: &str, value: &str) {
        let write = FileWrite { file: file.into(), value: value.into(), ..FileWrite::default() };
        self.write = Some(InProgress { began: now, on_cpu, write });
    }

    /// Notes what a step of the write in progress moved.
    pub fn step_write(&mut self, before: Moved, after: Moved) {
        let Some(InProgress { write, .. }) = &mut self.write else { return };
        write.migrated_mib += after.migrated - before.migrated;
        write.dropped_mib += (before.cached - after.cached).max(0.0);
    }

    /// Notes that the write in progress ends, or that it has not by the end of the run, when the operator has been on CPUs for so long.
    pub fn end_write(&mut self, (now, on_cpu): (Option<Time>, Time), came_to: CameTo) {
        let Some(InProgress { began, on_cpu: before, write }) = self.write.take() else { return };
        let CameTo { asked, reached, problem } = came_to;
        let (cpu_seconds, problem) = (on_cpu.saturating_sub(before).seconds(), problem.map(String::from));
        let what = Happening::Write(FileWrite { cpu_seconds, asked, reached, problem, ..write });
        let took_seconds = now.map(|now| (now - began).seconds());
        self.all.push(RunEvent { seconds: began.seconds(), took_seconds, what });
    }

    /// Notes that processes are killed.
    pub fn kill(&mut self, now: Time, cause: String, killed: Vec<Killed>) {
        let what = Happening::OomKill { cause, killed };
        self.all.push(RunEvent { seconds: now.seconds(), took_seconds: None, what });
    }

    /// Looks which kswapds have given up, or go on.
    pub fn look_at_kswapds(&mut self, system: &System, now: Time) {
        for (node, noted) in (0..).zip(&mut self.given_up) {
            match (system.mm.parts.lrus.has_kswapd_given_up(Node(node)), *noted) {
                (true, None) => {
                    *noted = Some(self.all.len());
                    let what = Happening::KswapdGaveUp { node };
                    self.all.push(RunEvent { seconds: now.seconds(), took_seconds: None, what });
                }
                (false, Some(at)) => {
                    *noted = None;
                    self.all[at].took_seconds = Some(now.seconds() - self.all[at].seconds);
                }
                _ => {}
            }
        }
    }

    /// Notes a delay of a program, which has this number among the reports, if it is one of its longest memory stalls.
    pub fn delay(&mut self, report: usize, delay: Delay) {
        if delay.memory_stall() < SHORTEST_STALL {
            return;
        }
        let of_program = self.stalls.iter().enumerate().filter(|(_, of)| of.report == report);
        let shortest = of_program.clone().min_by_key(|(_, of)| of.delay.memory_stall()).map(|(at, _)| at);
        match shortest {
            Some(at) if of_program.count() == STALLS => {
                if delay.memory_stall() > self.stalls[at].delay.memory_stall() {
                    self.stalls[at].delay = delay;
                }
            }
            _ => self.stalls.push(StallOf { report, delay }),
        }
    }

    /// All events in the order of time, when the operator has been on CPUs for so long; `name` is that of a report.
    pub fn into_all<'n>(mut self, on_cpu: Time, name: impl Fn(usize) -> &'n str) -> Vec<RunEvent> {
        self.end_write((None, on_cpu), CameTo::default());
        let named = |(cause, time): (Cause, Time)| (cause.name().to_string(), time.seconds());
        let of_memory =
            |delay: &Delay| delay.causes().filter(|(cause, _)| cause.is_memory_stall()).map(named).collect();
        self.all.extend(self.stalls.iter().map(|StallOf { report, delay }| RunEvent {
            seconds: delay.began.seconds(),
            took_seconds: Some(delay.memory_stall().seconds()),
            what: Happening::MemoryStall { program: name(*report).into(), causes: of_memory(delay) },
        }));
        let slowest = self.slowest.iter().enumerate().filter(|(_, of)| of.took > Time::ZERO);
        self.all.extend(slowest.map(|(report, &Slowest { began, took, waits })| {
            let delays: BTreeMap<String, f64> =
                waits.delay.iter().flat_map(|delay| delay.causes().map(named)).collect();
            let what = Happening::SlowestTransaction {
                program: name(report).into(),
                queued_seconds: waits.for_thread.seconds(),
                delays,
            };
            RunEvent { seconds: began.seconds(), took_seconds: Some(took.seconds()), what }
        }));
        self.all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        self.all
    }
}

/// What steps of a write change, in MiB.
#[derive(Clone, Copy)]
pub(super) struct Moved {
    migrated: f64,
    cached: f64,
}

impl Moved {
    pub fn by_now(system: &System) -> Moved {
        let mib = |pages| system.mm.parts.allocator.page_size().mib_of_pages(pages);
        Moved {
            migrated: mib(system.mm.counters().get(Event::PgmigrateSuccess)),
            cached: mib(system.mm.parts.page_cache.files().nr_folios()),
        }
    }
}
