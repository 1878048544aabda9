//! Messages between threads: what a kernel allocates, copies and frees for them, and who waits for whom.
//!
//! ```text
//!   send ─► alloc, copy in, alloc, copy in ─► queue of the socket ─► copy out, free, copy out, free ◄─ receive
//!           sleeps while the queue is full                            sleeps while it is empty
//! ```
//!
//! This is the case for which pagesets drain high-order pages (`free_high`): pages that one CPU frees return to the zone while caches still
//! hold them. Pages that are reused late are cold, and copying into them waits for memory. The caches are those of a package, and hold
//! nothing but these pages.

use super::{Host, Progress};
use crate::host::threads::{Doing, Role, Running};
use crate::outcome::Outcome;
use crate::{System, metric};
use machine::{CacheModel, Cpu, Time};
use mm::{Category, MigrateType, Pfn, Placement, Request};
use std::collections::VecDeque;
use workload::operation::{Operation, Socket};

/// Cache lines of 64 bytes per page.
const LINES_PER_PAGE: u64 = 64;

/// A block of a message, and its order.
pub(in crate::host) type Block = (Pfn, u8);

/// A socket between two threads.
struct Connection {
    socket: Socket,
    queue: VecDeque<VecDeque<Block>>,
    /// Who sleeps until there is room, or a message, and the CPU where it ran.
    waiting: Option<(usize, Cpu)>,
    writer_left: bool,
    reader_left: bool,
}

/// The sockets of all programs.
pub(super) struct Sockets {
    connections: Vec<Connection>,
    caches: Vec<CacheModel>,
    /// Cache references to pages of messages.
    references: u64,
    /// Those of them that missed, and misses that programs have besides.
    misses: f64,
}

impl Sockets {
    pub fn new(system: &System, programs: &[Running]) -> Sockets {
        let all = programs.iter().flat_map(|program| &program.generator.layout().sockets);
        let open = |socket: &Socket| Connection {
            socket: socket.clone(),
            queue: VecDeque::new(),
            waiting: None,
            writer_left: false,
            reader_left: false,
        };
        let topology = &system.machine.topology;
        let cache = CacheModel::new(topology.last_level_bytes());
        Sockets {
            connections: all.map(open).collect(),
            caches: vec![cache; topology.sockets.into()],
            references: 0,
            misses: 0.0,
        }
    }

    /// Forgets the counts of before.
    pub fn start_measuring(&mut self) {
        (self.references, self.misses) = (0, 0.0);
    }

    /// Adds the share of references that missed, if there were any.
    pub fn fill(&self, outcome: &mut Outcome) {
        if self.references > 0 {
            let share = 100.0 * self.misses / self.references as f64;
            outcome.set(metric::CACHE_MISS, share.min(100.0));
        }
    }

    /// Copies into or out of a block of a message; pages that have left the cache take longer.
    fn copy(&mut self, system: &mut System, cpu: Cpu, number: usize, (pfn, order): Block) {
        let Socket { ref blocks, copied_kib, background_miss, .. } = self.connections[number].socket;
        let cache = &mut self.caches[usize::from(system.machine.topology.socket(cpu))];
        let pages = 1u64 << order;
        let missed = (0..1 << order).filter(|page| !cache.touch(pfn + page)).count() as u64;
        let of_message: u64 = blocks.iter().map(|&order| 1u64 << order).sum();
        // The last block of a message is rarely full, so the copied bytes are spread over all pages.
        let part = |time: Time| time.fraction(copied_kib, 4 * of_message);
        let costs = &system.machine.costs;
        let (copied, waited) = (part(costs.page_copy * pages), part(costs.page_miss * missed));
        system.machine.work(cpu, Category::PageCopy, copied);
        system.machine.charge(cpu, Category::CacheMiss, waited);
        let lines = pages * LINES_PER_PAGE;
        self.references += lines;
        self.misses += (missed * LINES_PER_PAGE) as f64 + lines as f64 * background_miss / 100.0;
    }
}

impl Host<'_> {
    /// The number of a socket of a thread's program among all.
    fn socket(&self, thread: usize, socket: u32) -> usize {
        self.programs[self.threads[thread].program].first_socket + socket as usize
    }

    /// Charges so many thousandths of a system call that sends or receives a message.
    fn call_socket(system: &mut System, cpu: Cpu, calls: u32) {
        let time = system.machine.costs.socket_call.scale(f64::from(calls) / 1000.0);
        system.machine.work(cpu, Category::Program, time);
    }

    /// Goes on with sending a message: the call, then block by block. A block for which there is no memory is left out.
    pub(super) fn send(&mut self, system: &mut System, cpu: Cpu, thread: usize, doing: Doing) -> Progress {
        let Doing { operation, done } = doing;
        let Operation::Send { socket, calls } = operation else { return Progress::Goes };
        let number = self.socket(thread, socket);
        let connection = &mut self.sockets.connections[number];
        if connection.reader_left {
            self.end(system, cpu, thread);
            return Progress::Left;
        }
        if done == 0 && connection.queue.len() >= connection.socket.in_flight {
            connection.waiting = Some((thread, cpu));
            self.threads[thread].doing = Some(doing);
            return self.sleep(system, cpu, thread);
        }
        let blocks = connection.socket.blocks.len() as u32;
        self.threads[thread].doing = (done < blocks).then_some(Doing { operation, done: done + 1 });
        if done == 0 {
            Self::call_socket(system, cpu, calls);
            return Progress::Goes;
        }
        let order = connection.socket.blocks[done as usize - 1];
        let request = Request::new(order, MigrateType::Unmovable, Placement::Local);
        system.machine.work(cpu, Category::Program, system.machine.costs.page_alloc);
        if let Some(pfn) = system.alloc(cpu, &request) {
            self.threads[thread].message.push_back((pfn, order));
            self.sockets.copy(system, cpu, number, (pfn, order));
        }
        if done == blocks {
            let message = std::mem::take(&mut self.threads[thread].message);
            self.sockets.connections[number].queue.push_back(message);
            self.wake_peer(system, cpu, number);
        }
        Progress::Goes
    }

    /// Goes on with reading a message: the call, then each block is copied and freed.
    pub(super) fn receive(&mut self, system: &mut System, cpu: Cpu, thread: usize, doing: Doing) -> Progress {
        let Doing { operation, done } = doing;
        let Operation::Receive { socket, calls } = operation else { return Progress::Goes };
        let number = self.socket(thread, socket);
        let connection = &mut self.sockets.connections[number];
        if done == 0 {
            let Some(message) = connection.queue.pop_front() else {
                if connection.writer_left {
                    self.end(system, cpu, thread);
                    return Progress::Left;
                }
                connection.waiting = Some((thread, cpu));
                self.threads[thread].doing = Some(doing);
                return self.sleep(system, cpu, thread);
            };
            self.threads[thread].message = message;
            Self::call_socket(system, cpu, calls);
        }
        // A block is copied in one step and freed in the next, when it is the CPU's turn to take locks.
        let own = &mut self.threads[thread];
        match own.message.front().copied() {
            Some(block) if done % 2 == 1 => self.sockets.copy(system, cpu, number, block),
            Some((pfn, order)) if done > 0 => {
                own.message.pop_front();
                system.machine.work(cpu, Category::Program, system.machine.costs.page_free);
                system.free(cpu, pfn, order);
            }
            _ => {}
        }
        let is_read = self.threads[thread].message.is_empty();
        self.threads[thread].doing = (!is_read).then_some(Doing { operation, done: done + 1 });
        if is_read {
            self.wake_peer(system, cpu, number);
        }
        Progress::Goes
    }

    /// Wakes who waits at a socket, near the CPU that has sent or read something.
    fn wake_peer(&mut self, system: &mut System, cpu: Cpu, number: usize) {
        if let Some((thread, place)) = self.sockets.connections[number].waiting.take() {
            let place = self.scheduler.wake_affine(system, cpu, place);
            self.wake_at(system, cpu, thread, place);
        }
    }

    /// Closes the sockets of a thread that ends: what nobody will read is freed.
    pub(super) fn close_sockets(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let program = &self.programs[self.threads[thread].program];
        let Role::Thread(number) = self.threads[thread].role else { return };
        let mut unread = std::mem::take(&mut self.threads[thread].message);
        let first = program.first_socket;
        let mut closed = Vec::new();
        for at in first..first + program.generator.layout().sockets.len() {
            let connection = &mut self.sockets.connections[at];
            let Socket { writer, reader, .. } = connection.socket;
            if ![writer, reader].contains(&(number as u32)) {
                continue;
            }
            connection.waiting.take_if(|(waits, _)| *waits == thread);
            connection.writer_left |= writer == number as u32;
            connection.reader_left |= reader == number as u32;
            if connection.reader_left {
                unread.extend(connection.queue.drain(..).flatten());
            }
            closed.push(at);
        }
        for (pfn, order) in unread {
            system.free(cpu, pfn, order);
        }
        closed.into_iter().for_each(|at| self.wake_peer(system, cpu, at));
    }
}
