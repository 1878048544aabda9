//! Programs that stream through memory: the AutoNUMA benchmark, and variations of it whose threads are moved.
//!
//! The programs of the benchmark (github.com/pholasek/autonuma-benchmark, numa01.c and numa02.c; mmtests runs
//! them as autonumabench):
//!
//! - `numa01`: two processes, each with 3 GiB and half as many threads as there are CPUs. Every thread clears
//!   all memory of its process once, and then 50 times more. The Makefile defines NO_BIND_FORCE_SAME_NODE,
//!   with which threads bind their memory to a node during the first pass. All memory of both processes
//!   therefore begins on the same node, the first or the second depending on the clock.
//! - `numa01_THREAD_ALLOC` (mmtests: NUMA01_THREADLOCAL): the same first pass; then each thread clears its
//!   own slice 1000 times.
//! - `numa02`: one process, 1 GiB, one thread per CPU; each clears its own slice 800 times. With `SMT`, half
//!   as many threads.
//!
//! Memory that is not bound is first touched by whichever thread gets there first, so it is spread over all
//! nodes, page by page.
//!
//! ```text
//!   first pass, if threads are pinned:  on node (thread + shift), then for a while on node (thread), then anywhere
//!               if memory is bound:     anywhere, with memory on the first node
//!   later passes: over the whole area or the thread's slice, `loops` times or until the time is over
//! ```

use super::{Affinity, Layout, Operation, Threads, equal_processes};
use crate::demand::MIB_PAGES;
use crate::keys::{Bounds, MIB, MILLISECONDS, PROCESSES, THREADS, TIMES, Value};
use machine::WrongValue;

/// Most pages that one operation streams through before other threads get their turn.
const CHUNK: u64 = 512;

/// Nanoseconds that a thread computes before other threads get their turn.
const COMPUTE: u64 = 1_000_000;

crate::keys! {
    /// Where threads make their first pass.
    #[derive(Copy, Eq)]
    pub struct FirstPass {
        /// Thread `i` makes the first pass on node `i + shift`.
        pub shift: u8 => Bounds::new(0.0, 255.0, "nodes, counted in a circle"),
        /// Then it stays on node `i` for this long, in milliseconds, before it may run anywhere.
        pub stay_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Whether it is pinned to the first CPU of the node, with all other threads there, instead of to the
        /// node.
        #[serde(default)]
        pub one_cpu: bool,
    }
}

impl FirstPass {
    fn affinity(self, node: u8) -> Affinity {
        if self.one_cpu { Affinity::FirstCpuOf(node) } else { Affinity::Node(node) }
    }
}

crate::keys! {
    /// numa01.
    #[derive(Copy)]
    pub struct Numa01 {
        pub processes: u32 => PROCESSES,
        /// Threads per process.
        pub threads: Threads => THREADS,
        /// Memory of each process in MiB.
        pub mib: u64 => MIB,
        /// Passes after the first.
        pub loops: u64 => TIMES,
        /// Whether each thread only uses a slice of its own after the first pass.
        #[serde(default)]
        pub thread_local: bool,
        /// Whether threads bind their memory to the first node during the first pass.
        #[serde(default)]
        pub same_node: bool,
        /// Where the first pass is pinned, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub first_pass: Option<FirstPass>,
    }
}

crate::keys! {
    /// numa02 and similar programs: each thread has its own slice.
    #[derive(Copy)]
    pub struct Numa02 {
        /// Threads per process.
        pub threads: Threads => THREADS,
        /// Memory of each process in MiB.
        pub mib: u64 => MIB,
        /// Passes of each thread over its slice.
        pub loops: u64 => TIMES,
        /// Number of processes, each with these threads and this memory.
        #[serde(default = "one")]
        pub processes: u32 => PROCESSES,
        /// Whether each slice is a mapping of its own.
        #[serde(default)]
        pub own_areas: bool,
        /// Whether the first thread of each process touches all its memory before it starts the other
        /// threads.
        #[serde(default)]
        pub main_touches_first: bool,
        /// Time in milliseconds that all threads compute first. Then one of them maps and touches the memory,
        /// and the others wait for it.
        #[serde(default)]
        pub mapped_after_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Where the first pass is pinned, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub first_pass: Option<FirstPass>,
    }
}

crate::keys! {
    /// One thread on the first CPU of the first node, which is moved to the first CPU of the last node and
    /// back.
    #[derive(Copy)]
    pub struct PinMove {
        /// Memory in MiB.
        pub mib: u64 => MIB,
        /// Running time in milliseconds; the thread is moved after a quarter of it and back after five
        /// eighths.
        pub milliseconds: u64 => MILLISECONDS,
    }
}

impl Numa01 {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")
    }

    pub(super) fn start(&self, cpus: usize) -> Streams {
        let threads = self.threads.on(cpus);
        let pages = self.mib * MIB_PAGES;
        let layout = equal_processes(self.processes, vec![pages], threads);
        let stream = |thread: u32| {
            let own = slice(pages, thread, threads);
            Stream {
                first: self.first_pass,
                binds: self.same_node,
                number: thread,
                passes: [(0, pages), if self.thread_local { own } else { (0, pages) }],
                loops: self.loops,
                ..Stream::default()
            }
        };
        let streams = (0..self.processes).flat_map(|_| (0..threads).map(stream)).collect();
        Streams { layout, streams }
    }
}

impl Numa02 {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.own_areas && self.main_touches_first {
            return Err(WrongValue::new(
                "main_touches_first",
                true,
                "false where slices are areas of their own",
            ));
        }
        if self.mapped_after_milliseconds > 0 && !self.main_touches_first {
            let key = "mapped_after_milliseconds";
            return Err(WrongValue::new(key, self.mapped_after_milliseconds, "0 unless main_touches_first"));
        }
        Ok(())
    }

    pub(super) fn start(&self, cpus: usize) -> Streams {
        let threads = self.threads.on(cpus);
        let pages = self.mib * MIB_PAGES;
        let (areas, each) = match self.own_areas {
            true => (threads, pages / u64::from(threads)),
            false => (1, pages),
        };
        let mut layout = equal_processes(self.processes, vec![each; areas as usize], threads);
        let is_late = self.mapped_after_milliseconds > 0;
        for process in &mut layout.processes {
            process.apart = self.own_areas;
            process.touched = self.main_touches_first && !is_late;
        }
        let stream = |thread: u32| {
            let own = if self.own_areas { (0, each) } else { slice(pages, thread, threads) };
            let first = if is_late && thread == 0 { (0, pages) } else { (0, 0) };
            Stream {
                first: self.first_pass,
                number: thread,
                area: if self.own_areas { thread } else { 0 },
                barrier: is_late,
                computes_until: self.mapped_after_milliseconds * 1_000_000,
                maps: is_late && thread == 0,
                passes: [if self.main_touches_first { first } else { own }, own],
                // The first pass is done by the main thread or is one of `loops`.
                loops: if self.main_touches_first { self.loops } else { self.loops - 1 },
                ..Stream::default()
            }
        };
        Streams { layout, streams: (0..self.processes).flat_map(|_| (0..threads).map(stream)).collect() }
    }
}

fn one() -> u32 {
    1
}

impl PinMove {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")
    }

    pub(super) fn start(&self) -> Streams {
        let pages = self.mib * MIB_PAGES;
        let ns = self.milliseconds * 1_000_000;
        let pins = vec![(0, 0), (ns / 4, u8::MAX), (ns * 5 / 8, 0)];
        let stream =
            Stream { passes: [(0, pages); 2], loops: u64::MAX, pins, until: ns, ..Stream::default() };
        Streams { layout: equal_processes(1, vec![pages], 1), streams: vec![stream] }
    }
}

/// First page and number of pages of a thread's slice.
fn slice(pages: u64, thread: u32, threads: u32) -> (u64, u64) {
    let each = pages / u64::from(threads);
    (each * u64::from(thread), each)
}

/// State of one thread.
#[derive(Clone, Debug, Default)]
struct Stream {
    first: Option<FirstPass>,
    /// Whether it binds its memory to the first node during the first pass.
    binds: bool,
    number: u32,
    area: u32,
    /// First page and number of pages, for the first pass and for all later ones.
    passes: [(u64, u64); 2],
    loops: u64,
    /// Whether all threads wait for each other after the first pass.
    barrier: bool,
    /// It computes until this time, in nanoseconds, before anything else.
    computes_until: u64,
    /// Whether it then maps its area anew.
    maps: bool,
    /// Times at which it is pinned to the first CPU of a node, with the node; `u8::MAX` is the last node. In
    /// order of time.
    pins: Vec<(u64, u8)>,
    /// Time at which it ends in nanoseconds; 0 if it ends after `loops` passes.
    until: u64,
    step: Step,
    done: u64,
    at: u64,
    stay_until: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Start,
    Binds,
    First,
    Unbinds,
    Bound,
    Released,
    Staying,
    Passes,
    Ended,
}

/// The streaming threads of a program.
#[derive(Clone, Debug)]
pub struct Streams {
    layout: Layout,
    streams: Vec<Stream>,
}

impl Streams {
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// See [`super::Program::reads_clock`].
    pub(super) fn reads_clock(&self, thread: usize) -> bool {
        self.streams[thread].reads_clock()
    }

    /// See [`super::Program::uses_data`].
    pub(super) fn uses_data(&self, thread: usize) -> bool {
        self.streams[thread].uses_data()
    }

    #[inline]
    pub(super) fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        self.streams[thread].next(now)
    }
}

impl Stream {
    fn reads_clock(&self) -> bool {
        matches!(self.step, Step::Bound | Step::Staying) || self.uses_data()
    }

    fn uses_data(&self) -> bool {
        let waits = self.step == Step::Start && self.computes_until > 0;
        waits || self.until > 0
    }

    /// The next part of a pass; `None` at its end.
    #[inline]
    fn part(&mut self, pass: usize) -> Option<Operation> {
        let (first, pages) = self.passes[pass];
        if self.at >= pages {
            self.at = 0;
            return None;
        }
        let count = CHUNK.min(pages - self.at);
        let part = Operation::Stream { area: self.area, first: first + self.at, pages: count, write: true };
        self.at += count;
        Some(part)
    }

    #[inline]
    fn next(&mut self, now: u64) -> Option<Operation> {
        if self.until > 0 && now >= self.until {
            return None;
        }
        if let Some(&(from, node)) = self.pins.first().filter(|(from, _)| *from <= now) {
            self.pins.retain(|&(other, _)| other > from);
            return Some(Operation::Pin(Some(Affinity::FirstCpuOf(node))));
        }
        while self.step != Step::Ended {
            if let Some(operation) = self.take_step(now) {
                return Some(operation);
            }
        }
        None
    }

    /// What it does now at its step; none where that is nothing, and the next step is due.
    #[inline]
    fn take_step(&mut self, now: u64) -> Option<Operation> {
        match self.step {
            Step::Start if now < self.computes_until => {
                Some(Operation::Compute { nanoseconds: COMPUTE.min(self.computes_until - now) })
            }
            Step::Start => {
                if std::mem::take(&mut self.maps) {
                    return Some(Operation::Map { area: self.area });
                }
                self.step = Step::Binds;
                let node = |first: &FirstPass| (self.number as u8).wrapping_add(first.shift);
                self.first.map(|first| Operation::Pin(Some(first.affinity(node(&first)))))
            }
            Step::Binds => {
                self.step = Step::First;
                self.binds.then_some(Operation::SetMempolicy(Some(0)))
            }
            Step::First => self.part(0).or_else(|| {
                self.step = Step::Unbinds;
                self.barrier.then_some(Operation::Barrier)
            }),
            Step::Unbinds => {
                self.step = if self.first.is_some() { Step::Bound } else { Step::Passes };
                self.binds.then_some(Operation::SetMempolicy(None))
            }
            Step::Bound => {
                self.step = Step::Staying;
                let first = self.first.expect("it was bound for its first pass");
                self.stay_until = now + first.stay_milliseconds * 1_000_000;
                Some(Operation::Pin(Some(first.affinity(self.number as u8))))
            }
            Step::Staying if now >= self.stay_until => {
                self.at = 0;
                self.step = Step::Released;
                None
            }
            Step::Staying => self.part(1),
            Step::Released => {
                self.step = Step::Passes;
                Some(Operation::Pin(None))
            }
            Step::Passes if self.done == self.loops => {
                self.step = Step::Ended;
                None
            }
            Step::Passes => self.part(1).or_else(|| {
                self.done += 1;
                Some(Operation::TransactionEnd)
            }),
            Step::Ended => None,
        }
    }
}
