//! A process of a program on several nodes: real threads that do what `workload::threads` says.
//!
//! ```text
//!   observer ── starts ──► this process: maps its areas, starts its threads     "ready"
//!            ── "go" ────► the first thread: stores to all memory, if the program says so
//!                          the others: use pages, compute, bind themselves, wait for each other
//!            ── ends it
//! ```
//!
//! It is this very program, called again with a hidden subcommand that leads to [`run`]. Areas lie at known addresses,
//! where the observer finds them.

#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use workload::threads::{Affinity, Operation, Program, ProgramSpec};

use super::programs::start;

const PAGE: usize = 4096;
const LINE: usize = 64;
/// As C libraries give threads.
const STACK: usize = 8 << 20;
const AREAS: usize = 0x1000_0000_0000;
const PROCESS_BITS: u32 = 36;
const AREA_BITS: u32 = 32;

/// What the process says when its threads wait for the start.
pub const READY: &str = "ready";

/// The address of an area of a process.
pub fn area_start(process: usize, number: usize) -> usize {
    AREAS + (process << PROCESS_BITS) + (number << AREA_BITS)
}

/// Memory that all threads use.
#[derive(Clone, Copy)]
struct Area {
    start: usize,
    pages: u64,
}

impl Area {
    fn new(process: u32, number: usize, pages: u64) -> io::Result<Area> {
        let area = Area { start: area_start(process as usize, number), pages };
        // Nothing else is mapped there, or the call fails.
        area.map(libc::MAP_FIXED_NOREPLACE)?;
        Ok(area)
    }

    /// Maps it, without contents; `fixed` says whether what is there may be replaced.
    fn map(self, fixed: libc::c_int) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: nothing else is mapped there but an earlier mapping of this area, to which there are only atomic accesses.
        let mapped = unsafe { libc::mmap(self.at(), self.length(), rights, flags, -1, 0) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frees its pages.
    fn release(self) -> io::Result<()> {
        // SAFETY: it stays mapped, and there are only atomic accesses to it.
        match unsafe { libc::madvise(self.at(), self.length(), libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn at(self) -> *mut libc::c_void {
        self.start as *mut libc::c_void
    }

    fn length(self) -> usize {
        self.pages as usize * PAGE
    }

    /// Stores to all its pages.
    fn fill(self) {
        self.stream(0, self.pages, Access::Store(0));
    }

    /// Accesses each cache line of some pages, which the program was told that the area has.
    fn stream(self, first: u64, pages: u64, access: Access) {
        let start = self.start + first as usize * PAGE;
        (start..start + pages as usize * PAGE).step_by(LINE).for_each(|line| access.at(line));
    }

    /// Accesses a cache line of a page.
    fn touch(self, page: u64, access: Access) {
        access.at(self.start + page as usize * PAGE);
    }
}

/// An access to a cache line.
#[derive(Clone, Copy)]
enum Access {
    Load,
    /// A store of this value.
    Store(u64),
}

impl Access {
    fn new(write: bool, value: u64) -> Access {
        if write { Access::Store(value) } else { Access::Load }
    }

    #[inline]
    fn at(self, line: usize) {
        // SAFETY: the line is within an area, aligned, and only accessed as an atomic.
        let line = unsafe { &*(line as *const AtomicU64) };
        match self {
            Access::Load => {
                std::hint::black_box(line.load(Ordering::Relaxed));
            }
            Access::Store(value) => line.store(value, Ordering::Relaxed),
        }
    }
}

/// Runs process `number` of a program until somebody ends it. It begins once there is something on stdin. `nodes`: the CPUs of
/// each node.
pub fn run(spec: &ProgramSpec, number: u32, nodes: &[Vec<usize>]) -> io::Result<()> {
    let cpus = nodes.iter().map(Vec::len).sum();
    let layout = start(spec, cpus)?.layout().clone();
    let process = &layout.processes[number as usize];
    let areas = &process.areas;
    let areas = areas.iter().enumerate().map(|(at, &pages)| Area::new(number, at, pages));
    let areas: Vec<Area> = areas.collect::<io::Result<_>>()?;
    let own: Vec<usize> =
        (0..layout.threads.len()).filter(|&thread| layout.threads[thread] == number).collect();
    let begin = Arc::new(Barrier::new(own.len() + 1));
    let others = Arc::new(Barrier::new(own.len()));
    let began = Arc::new(OnceLock::new());
    let mut threads = Vec::new();
    for number in own {
        let (begin, began) = (begin.clone(), began.clone());
        let mut thread = Thread {
            number,
            program: start(spec, cpus)?,
            areas: areas.clone(),
            nodes: nodes.to_vec(),
            others: others.clone(),
        };
        let work = move || {
            begin.wait();
            thread.run(began.get_or_init(Instant::now))
        };
        threads.push(thread::Builder::new().stack_size(STACK).spawn(work)?);
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{READY}")?;
    stdout.flush()?;
    io::stdin().lock().read_exact(&mut [0])?;
    if process.touched {
        // As the twin's, which begins on the first node.
        bind(nodes, Some(Affinity::Node(0)))?;
        areas.iter().for_each(|area| area.fill());
        bind(nodes, None)?;
    }
    begin.wait();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

/// A thread of the program, and what it shares with the others of its process.
struct Thread {
    number: usize,
    /// Only this thread's operations are taken from it.
    program: Program,
    areas: Vec<Area>,
    /// The CPUs of each node.
    nodes: Vec<Vec<usize>>,
    others: Arc<Barrier>,
}

impl Thread {
    /// Does what the program says; `began` is the start of the process.
    fn run(&mut self, began: &Instant) -> io::Result<()> {
        let mut passes = 0;
        while let Some(operation) = self.next(began) {
            match operation {
                Operation::Stream { area, first, pages, write } => {
                    self.areas[area as usize].stream(first, pages, Access::new(write, passes));
                }
                Operation::Touch { area, page, write } => {
                    self.areas[area as usize].touch(page, Access::new(write, passes));
                }
                Operation::Map { area } => self.areas[area as usize].map(libc::MAP_FIXED)?,
                Operation::Release { area } => self.areas[area as usize].release()?,
                Operation::Compute { nanoseconds } => compute(Duration::from_nanos(nanoseconds)),
                Operation::Pin(to) => bind(&self.nodes, to)?,
                Operation::Barrier => {
                    self.others.wait();
                }
                Operation::TransactionEnd => passes += 1,
                Operation::Mmap { .. }
                | Operation::Exec
                | Operation::SetMempolicy(_)
                | Operation::SystemCalls { .. } => {
                    return Err(io::Error::other(format!("{operation:?}: no process here does that")));
                }
            }
        }
        Ok(())
    }

    /// The next operation. The clock is read only where the program does, as the kernel sees who reads it.
    fn next(&mut self, began: &Instant) -> Option<Operation> {
        let reads_clock = self.program.reads_clock(self.number);
        let now = if reads_clock { began.elapsed().as_nanos() as u64 } else { 0 };
        self.program.next(self.number, now)
    }
}

/// Uses so much time of a CPU.
fn compute(time: Duration) {
    let used = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let until = used() + time;
    while used() < until {
        std::hint::spin_loop();
    }
}

/// Binds this thread to some of the CPUs of all nodes, or to none.
fn bind(nodes: &[Vec<usize>], to: Option<Affinity>) -> io::Result<()> {
    let mut set = CpuSet::new();
    let of = |number| &nodes[usize::from(Affinity::node(number, nodes.len() as u8))][..];
    let chosen = match to {
        None => &nodes.concat(),
        Some(Affinity::Node(number)) => of(number),
        Some(Affinity::FirstCpuOf(number)) => &of(number)[..1],
        Some(Affinity::Cpu(cpu)) => &[usize::from(cpu)],
    };
    chosen.iter().for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}
