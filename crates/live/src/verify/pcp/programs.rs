//! The workloads that verification runs on the real kernel, each in a process of its own.
//!
//! ```text
//!   start and end a thread                      whose fork event announces
//!   empty the pagesets                          that the twin starts here
//!   start and end a thread                      whose fork event says that this is done
//!   note /proc/zoneinfo
//!   work
//!   start and end a thread                      whose fork event marks the end
//!   note /proc/zoneinfo
//! ```
//!
//! The process is this very program, called again with a hidden subcommand that leads to [`run`].

use std::fs;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::sync::Barrier;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::drain::drain_pagesets;
use crate::verify::end_with_parent;

/// Bytes that one round of the page-fault loop maps.
const MAPPED: usize = 128 << 20;
/// Rounds of the loop: 12 x 32,768 faults a CPU.
const ROUNDS: usize = 12;
/// Bytes of a message, and how many.
const MESSAGE: usize = 64 << 10;
const MESSAGES: usize = 10_000;
/// C files to compile, two at a time.
const SOURCES: usize = 24;
/// Threads that wait at the same time, and how often so many are started. The kernel keeps two stacks a CPU for
/// the next threads, so nearly all get new ones.
const THREADS: usize = 2000;
const CROWDS: usize = 5;
const PAGE: usize = 4096;

/// What leads this program to [`run`].
pub const WORKLOAD: &str = "workload";

/// Written by the process when it starts and when it ends.
pub const STARTING_STATE: &str = "zoneinfo-at-start";
/// See [`STARTING_STATE`].
pub const FINAL_STATE: &str = "zoneinfo-at-end";

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Maps, touches and unmaps memory on one CPU.
    PageFault,
    /// The same on two.
    PageFaultOnTwo,
    /// Sends messages through a socket from one CPU to another.
    UnixStream,
    /// Compiles C files, two at a time.
    Compile,
    /// Starts crowds of threads that wait until all of them exist: each needs a kernel stack.
    Threads,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 5] = [
        Program::PageFault,
        Program::PageFaultOnTwo,
        Program::UnixStream,
        Program::Compile,
        Program::Threads,
    ];

    /// Its name in tables and on the command line.
    pub fn name(self) -> &'static str {
        ["page_fault1-1cpu", "page_fault1-2cpu", "unix_stream", "compile-j2", "threads"][self as usize]
    }

    /// Why it cannot run here, if so.
    pub fn obstacle(self) -> Option<String> {
        let two = matches!(self, Program::PageFaultOnTwo | Program::UnixStream);
        if two && cpus().map_or(0, |cpus| cpus.len()) < 2 {
            return Some("it needs two CPUs".to_string());
        }
        let compiler =
            || Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
        (self == Program::Compile && !compiler()).then(|| "there is no C compiler (cc)".to_string())
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(name: &str) -> Result<Program, String> {
        let names = Program::ALL.map(Program::name).join(", ");
        let found = Program::ALL.into_iter().find(|program| program.name() == name);
        found.ok_or_else(|| format!("no workload `{name}`; there are {names}"))
    }
}

/// Runs a workload in this process and leaves the kernel's state before and after in `directory`.
pub fn run(program: Program, directory: &Path) -> io::Result<()> {
    end_with_parent()?;
    let cpus = cpus()?;
    // Frees in a row end whatever has made the kernel fetch more at a time.
    let anywhere = sched_getaffinity(None)?;
    for &cpu in &cpus {
        pin(cpu)?;
        touch(1 << 20)?;
    }
    sched_setaffinity(None, &anywhere)?;
    mark()?;
    drain_pagesets();
    mark()?;
    fs::copy("/proc/zoneinfo", directory.join(STARTING_STATE))?;
    match program {
        Program::PageFault => on_cpus(&cpus[..1], |_| touch_memory())?,
        Program::PageFaultOnTwo => on_cpus(&cpus[..cpus.len().min(2)], |_| touch_memory())?,
        Program::UnixStream => send_messages(&cpus)?,
        Program::Compile => compile(directory)?,
        Program::Threads => (0..CROWDS).try_for_each(|_| start_threads())?,
    }
    mark()?;
    fs::copy("/proc/zoneinfo", directory.join(FINAL_STATE))?;
    Ok(())
}

/// Starts and ends a thread. Between the first and the second fork event of this process the pagesets are emptied;
/// the last one ends what is compared.
fn mark() -> io::Result<()> {
    std::thread::spawn(|| ()).join().map_err(|_| io::Error::other("a thread panicked"))
}

/// The CPUs that this process may use.
fn cpus() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// Keeps this thread on a CPU.
fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

/// Runs `work` on each of `cpus` at the same time; it is told how many-th it is.
fn on_cpus(cpus: &[usize], work: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<()> {
    let pinned = |(turn, &cpu): (usize, &usize)| {
        pin(cpu)?;
        work(turn)
    };
    std::thread::scope(|scope| {
        let pinned = &pinned;
        let threads: Vec<_> =
            cpus.iter().enumerate().map(|numbered| scope.spawn(move || pinned(numbered))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the workload panicked")))
        })
    })
}

fn touch_memory() -> io::Result<()> {
    (0..ROUNDS).try_for_each(|_| touch(MAPPED))
}

/// Maps, touches and unmaps memory. Zeroed memory of this size is mapped, not cleared: each first write is a page fault.
fn touch(bytes: usize) -> io::Result<()> {
    let mut memory = vec![0u8; bytes];
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    black_box(&memory);
    Ok(())
}

fn send_messages(cpus: &[usize]) -> io::Result<()> {
    let (sender, receiver) = UnixStream::pair()?;
    on_cpus(&cpus[..cpus.len().min(2)], |turn| {
        let mut message = vec![1u8; MESSAGE];
        for _ in 0..MESSAGES {
            match turn {
                0 => (&sender).write_all(&message)?,
                _ => (&receiver).read_exact(&mut message)?,
            }
        }
        Ok(())
    })
}

/// Starts threads of which none ends before all are there.
fn start_threads() -> io::Result<()> {
    let all_are_there = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            std::thread::Builder::new().stack_size(16 << 10).spawn_scoped(scope, || all_are_there.wait())?;
        }
        all_are_there.wait();
        Ok(())
    })
}

fn compile(directory: &Path) -> io::Result<()> {
    for source in 0..SOURCES {
        fs::write(directory.join(format!("source{source}.c")), c_source(source))?;
    }
    let half = |first: usize| {
        (first..SOURCES).step_by(2).try_for_each(|source| {
            let path = |suffix: &str| directory.join(format!("source{source}.{suffix}"));
            let mut compiler = Command::new("cc");
            compiler.args(["-O0", "-c", "-o"]).arg(path("o")).arg(path("c"));
            match compiler.status()?.success() {
                true => Ok(()),
                false => Err(io::Error::other(format!("cc refuses {}", path("c").display()))),
            }
        })
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        half(0)?;
        other.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the workload panicked")))
    })
}

/// A C file that keeps a compiler busy for a tenth of a second or so.
fn c_source(seed: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for function in 0..400 {
        text += &format!(
            "static int f{function}(int a, int b) {{\n  int table[{}];\n  for (int i = 0; i < b; i++)\n    \
             table[i % {}] = a * {} + i;\n  return table[a & 7] ^ {};\n}}\n",
            8 + (function + seed) % 9,
            8 + (function + seed) % 9,
            function + 3,
            seed * 31 + function
        );
    }
    text += "int main(int c, char **v) { int r = c;\n";
    for function in 0..400 {
        text += &format!("  r += f{function}(r, {});\n", function % 17);
    }
    text + "  printf(\"%d %s\\n\", r, v[0]); return r & 1; }\n"
}
