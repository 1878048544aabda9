//! A process of a program on several nodes: real threads that do what `workload::threads` says.
//!
//! ```text
//!   observer ── starts ──► this process: maps its areas, starts its threads     "ready"
//!            ── "go" ────► threads: store to each cache line of pages, bind themselves, wait for each other
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
use std::time::Instant;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use rustix::thread::{CpuSet, sched_setaffinity};
use workload::threads::{Affinity, Operation, Program, ProgramSpec};

use super::programs::program;

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

/// Memory that all threads store to.
#[derive(Clone, Copy)]
struct Area {
    start: usize,
}

impl Area {
    fn map(process: u32, number: usize, pages: u64) -> io::Result<Area> {
        let start = area_start(process as usize, number);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let length = pages as usize * PAGE;
        // SAFETY: nothing else is mapped there, or the call fails; the memory stays mapped until the process ends.
        let mapped = unsafe { libc::mmap(start as *mut libc::c_void, length, rights, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Area { start: mapped as usize })
    }

    /// Stores to each cache line of some pages, which the program was told that the area has.
    fn store(self, first: u64, pages: u64, value: u64) {
        let start = self.start + first as usize * PAGE;
        for line in (start..start + pages as usize * PAGE).step_by(LINE) {
            // SAFETY: the line is within the area, aligned, and only accessed as an atomic.
            unsafe { &*(line as *const AtomicU64) }.store(value, Ordering::Relaxed);
        }
    }
}

/// Runs process `number` of the program named `name` until somebody ends it. It begins once there is something on stdin.
/// `nodes`: the CPUs of each node; `seconds`: how long the program is watched.
pub fn run(name: &str, number: u32, seconds: u64, nodes: &[Vec<usize>]) -> io::Result<()> {
    let unknown = || io::Error::other(format!("there is no program `{name}`"));
    let spec = program(name, seconds).ok_or_else(unknown)?;
    let cpus = nodes.iter().map(Vec::len).sum();
    let layout = start(&spec, cpus)?.layout().clone();
    let areas = &layout.processes[number as usize].areas;
    let areas = areas.iter().enumerate().map(|(at, &pages)| Area::map(number, at, pages));
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
            program: start(&spec, cpus)?,
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
                Operation::Stream { area, first, pages, .. } => {
                    self.areas[area as usize].store(first, pages, passes);
                }
                Operation::Touch { area, page, .. } => self.areas[area as usize].store(page, 1, passes),
                Operation::Compute { .. } => {}
                Operation::Pin(to) => bind(&self.nodes, to)?,
                Operation::Barrier => {
                    self.others.wait();
                }
                Operation::TransactionEnd => passes += 1,
                Operation::Map { .. }
                | Operation::Mmap { .. }
                | Operation::Release { .. }
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

fn start(spec: &ProgramSpec, cpus: usize) -> io::Result<Program> {
    spec.start(cpus, Pcg64Mcg::seed_from_u64).map_err(|error| io::Error::other(error.to_string()))
}

/// Binds this thread to some of the CPUs of all nodes, or to none.
fn bind(nodes: &[Vec<usize>], to: Option<Affinity>) -> io::Result<()> {
    let mut set = CpuSet::new();
    let of = |affinity: Affinity| &nodes[usize::from(affinity.node(nodes.len() as u8))];
    let chosen = match to {
        None => &nodes.concat(),
        Some(affinity @ Affinity::Node(_)) => of(affinity),
        Some(affinity @ Affinity::FirstCpuOf(_)) => &of(affinity)[..1],
    };
    chosen.iter().for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}
