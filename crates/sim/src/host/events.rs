//! What happens on a host at a time: writes of the operator, kills, a kswapd that gives up, and the longest memory stalls of each program.
//!
//! ```text
//!   begin ──► steps: CPU time, memory migrated and freed ──► end       a write
//!   the OOM killer chooses ──► at once                                  a kill
//!   kswapd_failures is looked at ten times a second                     kswapd gives up, and goes on
//!   a thread stands still ──► its operation goes on                     a stall, if it is among the longest of its program
//! ```

use crate::System;
use crate::run_event::{FileWrite, Happening, Killed, RunEvent};
use machine::{Node, Time};
use mm::Event;
use mm::psi::Stall;

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
    on_cpu: Time,
    write: FileWrite,
}

/// Who stood still, and how.
struct StallOf {
    report: usize,
    stall: Stall,
}

/// What has happened so far.
pub(super) struct Events {
    all: Vec<RunEvent>,
    write: Option<InProgress>,
    /// By node, which of `all` says that its kswapd has given up, as long as it has.
    given_up: Vec<Option<usize>>,
    /// The longest of each program since measuring began.
    stalls: Vec<StallOf>,
}

impl Events {
    pub fn new(nodes: usize) -> Events {
        Events { all: Vec::new(), write: None, given_up: vec![None; nodes], stalls: Vec::new() }
    }

    /// Forgets stalls while warming up.
    pub fn start_measuring(&mut self) {
        self.stalls.clear();
    }

    /// Notes that a write begins.
    pub fn begin_write(&mut self, now: Time, file: &str, value: &str) {
        let write = FileWrite { file: file.into(), value: value.into(), ..FileWrite::default() };
        self.write = Some(InProgress { began: now, on_cpu: Time::ZERO, write });
    }

    /// Notes what a step of the write in progress did, from `before` to now.
    pub fn step_write(&mut self, took: Time, before: Moved, after: Moved) {
        let Some(InProgress { on_cpu, write, .. }) = &mut self.write else { return };
        *on_cpu += took;
        write.migrated_mib += after.migrated - before.migrated;
        write.dropped_mib += (before.cached - after.cached).max(0.0);
    }

    /// Notes that the write in progress ends, or that it has not by the end of the run.
    pub fn end_write(&mut self, now: Option<Time>, came_to: CameTo) {
        let Some(InProgress { began, on_cpu, write }) = self.write.take() else { return };
        let CameTo { asked, reached, problem } = came_to;
        let (cpu_seconds, problem) = (on_cpu.seconds(), problem.map(String::from));
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

    /// Notes a stall of a program, which has this number among the reports, if it is one of its longest.
    pub fn stall(&mut self, report: usize, stall: Stall) {
        if stall.length() < SHORTEST_STALL {
            return;
        }
        let of_program = self.stalls.iter().enumerate().filter(|(_, of)| of.report == report);
        let shortest = of_program.clone().min_by_key(|(_, of)| of.stall.length()).map(|(at, _)| at);
        match shortest {
            Some(at) if of_program.count() == STALLS => {
                if stall.length() > self.stalls[at].stall.length() {
                    self.stalls[at].stall = stall;
                }
            }
            _ => self.stalls.push(StallOf { report, stall }),
        }
    }

    /// All events in the order of time; `name` is that of a report.
    pub fn into_all<'n>(mut self, name: impl Fn(usize) -> &'n str) -> Vec<RunEvent> {
        self.end_write(None, CameTo::default());
        let causes = |stall: &Stall| {
            stall.causes().map(|(cause, time)| (cause.name().to_string(), time.seconds())).collect()
        };
        self.all.extend(self.stalls.iter().map(|StallOf { report, stall }| RunEvent {
            seconds: stall.began.seconds(),
            took_seconds: Some(stall.length().seconds()),
            what: Happening::MemoryStall { program: name(*report).into(), causes: causes(stall) },
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
