//! Pairs of processes that stream messages through a socket: AF_UNIX bandwidth, SCTP_STREAM_MANY.
//!
//! ```text
//!   writer, CPU a:  allocate the message's blocks, copy into them ─► queue ─► reader, CPU b: copy out, free
//!                   waits while the queue is full                             waits while it is empty
//! ```
//!
//! Pages are allocated on one CPU and freed on another. This is the case for which pagesets drain high-order
//! pages (`free_high`): they return to the zone while caches still hold them. Pages that are reused late are
//! cold, and copying into them waits for memory. A real scheduler moves processes now and then; here a pair
//! swaps its CPUs at a fixed interval, so that every CPU both allocates and frees.

use crate::random::{Stream, stream};
use crate::{Program, Step, System};
use machine::profile::Figure;
use machine::{CacheModel, Cpu, Time};
use mm::{Category, MigrateType, Pfn, Placement, Request};
use rand::RngExt;
use rand_distr::LogNormal;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use workload::keys::{Bounds, CPUS, MICROSECONDS, MILLISECONDS, TIMES};

workload::keys! {
    /// A socket workload, as in a scenario.
    pub struct SocketStream {
        /// Pairs of processes.
        pub pairs: usize => Bounds { most: 4096.0, ..CPUS },
        /// Orders of the blocks of a message, in the order in which they are allocated and freed.
        pub blocks: Vec<u8> => Bounds::new(0.0, 10.0, "orders that the buddy allocator has"),
        /// KiB copied into the blocks of a message, and out of them.
        pub copied_kib: u64 => Bounds::new(0.0, 4_096_000.0, "a thousand blocks of 4 MiB"),
        /// Socket calls per message on each side; their cost is in the machine profile.
        pub calls: Figure => Bounds::new(0.0, 1e6, "a second of calls"),
        /// Messages that fit in the socket's buffer.
        pub in_flight: usize => Bounds::new(1.0, 1e6, "more than a socket's buffer holds"),
        /// Virtual microseconds after which a pair swaps its CPUs.
        pub swap_every_us: u64 => MICROSECONDS,
        /// Percentage of misses among cache references that do not concern page contents.
        pub background_miss: f64 => Bounds::new(0.0, 100.0, "per cent"),
        /// Messages of all pairs after which measuring ends, for benchmarks that send a fixed amount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub messages: Option<u64> => TIMES,
        /// Virtual time measured in milliseconds, or its maximum with `messages`, after a warm-up of a
        /// quarter of it.
        pub milliseconds: u64 => MILLISECONDS,
    }
}

/// Relative spread of the CPU time of socket calls. Without it, pairs would synchronize and meet at locks in
/// convoys that no real machine shows; between 0.3 and 1 the value hardly matters.
const CALL_SPREAD: f64 = 0.5;

/// Cache lines of 64 bytes per page.
const LINES_PER_PAGE: u64 = 64;

struct Message {
    sent: Time,
    pages: Vec<Pfn>,
}

/// A message being read.
struct Reading {
    message: Message,
    /// Blocks copied out.
    copied: usize,
    /// Blocks freed; at most one fewer than `copied`.
    freed: usize,
}

struct Pair {
    queue: VecDeque<Message>,
    writer: Cpu,
    reader: Cpu,
    /// Blocks of the message being written; `None` between messages.
    writing: Option<Vec<Pfn>>,
    reading: Option<Reading>,
    next_swap: Time,
    demand: Pcg64Mcg,
}

/// All pairs, running.
pub struct SocketStreams {
    spec: SocketStream,
    pairs: Vec<Pair>,
    pair_of: Vec<Option<usize>>,
    caches: Vec<CacheModel>,
    /// Whether the warm-up is over.
    measuring: bool,
    pub received: u64,
    /// Cache references to page contents.
    references: u64,
    /// Those of them that missed.
    misses: u64,
}

impl SocketStreams {
    /// Places the pairs evenly over sockets, the two processes of a pair on different cores of one socket.
    pub fn new(spec: SocketStream, system: &System, seed: u64) -> SocketStreams {
        let topology = &system.machine.topology;
        let sockets = topology.sockets as usize;
        let by_socket: Vec<Vec<Cpu>> = (0..sockets)
            .map(|s| topology.all_cpus().filter(|&c| topology.socket(c) as usize == s).collect())
            .collect();
        let mut pair_of = vec![None; topology.cpus()];
        let pairs = (0..spec.pairs)
            .map(|p| {
                let cpus = &by_socket[p % sockets];
                let first = p / sockets * 2;
                let (writer, reader) = (cpus[first % cpus.len()], cpus[(first + 1) % cpus.len()]);
                pair_of[writer.index()] = Some(p);
                pair_of[reader.index()] = Some(p);
                Pair {
                    queue: VecDeque::new(),
                    writer,
                    reader,
                    writing: None,
                    reading: None,
                    // Pairs swap at different times.
                    next_swap: Time::from_nanoseconds(spec.swap_every_us * 1000)
                        .fraction(p as u64 + 1, spec.pairs as u64),
                    demand: stream(seed, Stream::Demand, p as u64),
                }
            })
            .collect();
        let caches = vec![CacheModel::new(topology.last_level_bytes()); sockets];
        SocketStreams {
            spec,
            pairs,
            pair_of,
            caches,
            measuring: false,
            received: 0,
            references: 0,
            misses: 0,
        }
    }

    pub fn start(&self, system: &mut System) {
        for pair in &self.pairs {
            system.wake(pair.writer, Time::ZERO);
        }
    }

    /// Resets the counts of the warm-up.
    pub fn start_measuring(&mut self) {
        self.measuring = true;
        (self.received, self.references, self.misses) = (0, 0, 0);
    }

    /// Percentage of misses among cache references. Where nearly all of the pages' miss, the background's are among them.
    pub fn miss_rate(&self) -> f64 {
        let of_pages = 100.0 * self.misses as f64 / self.references.max(1) as f64;
        (self.spec.background_miss + of_pages).min(100.0)
    }

    /// Copies into or out of a block; pages that have left the cache take longer.
    fn copy(&mut self, system: &mut System, cpu: Cpu, pfn: Pfn, order: u8) {
        let cache = &mut self.caches[system.machine.topology.socket(cpu) as usize];
        let pages = 1u64 << order;
        let missed = (0..1 << order).filter(|page| !cache.touch(pfn + page)).count() as u64;
        let blocks: u64 = self.spec.blocks.iter().map(|&o| 1u64 << o).sum();
        // The last block of a message is rarely full, so the copied bytes are spread over all pages.
        let copied = (system.machine.costs.page_copy * pages).fraction(self.spec.copied_kib, 4 * blocks);
        let waited = (system.machine.costs.page_miss * missed).fraction(self.spec.copied_kib, 4 * blocks);
        system.machine.work(cpu, Category::PageCopy, copied);
        system.machine.charge(cpu, Category::CacheMiss, waited);
        self.references += pages * LINES_PER_PAGE;
        self.misses += missed * LINES_PER_PAGE;
    }

    fn call(&mut self, system: &mut System, cpu: Cpu, p: usize) {
        let spread = LogNormal::new(-CALL_SPREAD * CALL_SPREAD / 2.0, CALL_SPREAD).expect("a finite spread");
        let factor: f64 = self.pairs[p].demand.sample(spread);
        let call = system.machine.costs.socket_call.scale(self.spec.calls.value * factor);
        system.machine.work(cpu, Category::Program, call);
    }

    /// One step of a writer: begin a message, or allocate a block and copy into it. The allocation comes
    /// first, while it is this CPU's turn.
    fn write(&mut self, system: &mut System, cpu: Cpu, p: usize) -> Step {
        let pair = &mut self.pairs[p];
        let Some(written) = &mut pair.writing else {
            if system.machine.now(cpu) >= pair.next_swap {
                if pair.queue.is_empty() && pair.reading.is_none() {
                    let writer = self.swap(system, p);
                    system.wake(writer, system.machine.now(cpu));
                }
                return Step::Idle;
            }
            if pair.queue.len() >= self.spec.in_flight {
                return Step::Idle;
            }
            pair.writing = Some(Vec::with_capacity(self.spec.blocks.len()));
            self.call(system, cpu, p);
            return Step::Again;
        };
        let order = self.spec.blocks[written.len()];
        let request = Request::new(order, MigrateType::Unmovable, Placement::Local);
        let Some(pfn) = system.alloc(cpu, &request) else { return Step::Idle };
        written.push(pfn);
        let complete = written.len() == self.spec.blocks.len();
        self.copy(system, cpu, pfn, order);
        if complete && let Some(pages) = self.pairs[p].writing.take() {
            let sent = system.machine.now(cpu);
            self.pairs[p].queue.push_back(Message { sent, pages });
            system.wake(self.pairs[p].reader, sent);
        }
        Step::Again
    }

    /// Swaps the CPUs of a pair. Returns the new writer's.
    fn swap(&mut self, system: &System, p: usize) -> Cpu {
        let pair = &mut self.pairs[p];
        std::mem::swap(&mut pair.writer, &mut pair.reader);
        let interval = Time::from_nanoseconds(self.spec.swap_every_us * 1000);
        while pair.next_swap <= system.machine.now(pair.reader) {
            pair.next_swap += interval;
        }
        pair.writer
    }

    /// One step of a reader: take a message, copy a block out, or free one.
    fn read(&mut self, system: &mut System, cpu: Cpu, p: usize) -> Step {
        let Some(reading) = &mut self.pairs[p].reading else {
            let Some(message) = self.pairs[p].queue.pop_front() else {
                // The writer may be waiting to swap.
                let writer = self.pairs[p].writer;
                system.wake(writer, system.machine.now(cpu));
                return Step::Idle;
            };
            system.machine.idle_until(cpu, message.sent);
            self.pairs[p].reading = Some(Reading { message, copied: 0, freed: 0 });
            self.call(system, cpu, p);
            return Step::Again;
        };
        let block = reading.freed;
        let (pfn, order) = (reading.message.pages[block], self.spec.blocks[block]);
        if reading.copied == block {
            reading.copied += 1;
            self.copy(system, cpu, pfn, order);
            return Step::Again;
        }
        reading.freed += 1;
        if reading.freed == reading.message.pages.len() {
            self.pairs[p].reading = None;
            self.received += 1;
            let writer = self.pairs[p].writer;
            system.wake(writer, system.machine.now(cpu));
        }
        system.free(cpu, pfn, order);
        Step::Again
    }
}

impl Program for SocketStreams {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        let Some(p) = self.pair_of[cpu.index()] else { return Step::Idle };
        if self.pairs[p].writer == cpu { self.write(system, cpu, p) } else { self.read(system, cpu, p) }
    }

    fn is_finished(&self) -> bool {
        self.measuring && self.spec.messages.is_some_and(|messages| self.received >= messages)
    }
}
