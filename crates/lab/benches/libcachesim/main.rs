//! Rulers and kernels compared with libCacheSim: the speed and the misses of replaying the same trace.
//!
//! ```text
//!   accesses ─┬─► file ─► libCacheSim, in a process of its own ─┐  alternating, round after round, so that other
//!             └─► rulers and kernels, in this process ──────────┘  load on the machine slows down both
//! ```
//!
//! `cargo bench -p lab --bench libcachesim -- [ROUNDS]`, 5 by default. Needs the network and python3 with
//! venv: libcachesim 0.3.5 is installed from PyPI into a temporary directory. Rates are accesses per second
//! of CPU time, one thread each, including the creation of a policy's memory; ratios are medians over rounds.
//! Both read the trace from memory: libCacheSim from the cached file, the rulers from a list of page numbers.

#![allow(clippy::print_stdout)]

#[path = "../skewed/mod.rs"]
mod skewed;

use lab::rulers::Policy;
use rustix::time::{ClockId, clock_gettime};
use skewed::{ACCESSES, MEMORY, SEQUENCE};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PACKAGE: &str = "libcachesim==0.3.5";
const PEER: &str = include_str!("peer.py");
/// The policy that all speeds are compared with.
const REFERENCE: &str = "LRU";
/// Policies whose speed is compared.
const FAST: [&str; 7] =
    ["lru", "classic", "mglru-6.5", "refault-distance-6", "mglru-6.7", "mglru-6.14", "mglru-7.2"];
/// Policies that both have, by their names here and there.
const COMMON: [(&str, &str); 6] = [
    ("lru", "LRU"),
    ("clock", "Clock"),
    ("arc", "ARC"),
    ("s3-fifo", "S3FIFO"),
    ("lirs", "LIRS"),
    ("w-tiny-lfu", "WTinyLFU"),
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Misses, and the CPU time in seconds that counting them took.
#[derive(Clone, Copy)]
struct Replay {
    misses: u64,
    seconds: f64,
}

impl Replay {
    /// Million accesses per second.
    fn rate(self) -> f64 {
        ACCESSES as f64 / self.seconds / 1e6
    }
}

/// libCacheSim in a process of its own.
struct Peer {
    process: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(directory: &Path, trace: &Path) -> Result<Peer> {
        let environment = directory.join("python");
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let python = environment.join("bin/python");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
        let mut process = Command::new(&python)
            .args(["-c", PEER])
            .arg(trace)
            .args([MEMORY.to_string(), ACCESSES.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (ask, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Ok(Peer { process, ask, answers: BufReader::new(answers) })
    }

    fn replay(&mut self, policy: &str) -> Result<Replay> {
        writeln!(self.ask, "{policy}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let (misses, seconds) = line.trim().split_once(' ').ok_or("libCacheSim has ended early")?;
        Ok(Replay { misses: misses.parse()?, seconds: seconds.parse()? })
    }

    fn end(mut self) -> Result<()> {
        drop(self.ask);
        self.process.wait()?;
        Ok(())
    }
}

fn run(command: &mut Command) -> Result<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} has failed").into()),
    }
}

fn replay(policy: &str) -> Replay {
    let policy = Policy::named(policy).unwrap();
    let cpu_time = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let began = cpu_time();
    let misses = policy.misses(MEMORY, &SEQUENCE);
    Replay { misses, seconds: cpu_time() - began }
}

/// Writes the accesses as libCacheSim's records, without next accesses.
fn write_trace(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for (time, &page) in SEQUENCE.pages().iter().enumerate() {
        file.write_all(&((time / 1_000_000) as u32).to_le_bytes())?;
        file.write_all(&(u64::from(page) + 1).to_le_bytes())?;
        file.write_all(&1u32.to_le_bytes())?;
        file.write_all(&(-2i64).to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() -> Result<()> {
    let rounds: usize = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(5).max(1);
    let directory = tempfile::tempdir()?;
    let trace = directory.path().join("trace.oracleGeneral.bin");
    write_trace(&trace)?;
    let mut peer = Peer::start(directory.path(), &trace)?;
    // Reads the file into the page cache.
    peer.replay(REFERENCE)?;

    let mut theirs = Vec::new();
    let mut ours = FAST.map(|_| Vec::new());
    for _ in 0..rounds {
        let reference = peer.replay(REFERENCE)?;
        for (policy, rates) in FAST.iter().zip(&mut ours) {
            let rate = replay(policy).rate();
            rates.push((rate, rate / reference.rate()));
        }
        theirs.push(reference.rate());
    }
    println!("{ACCESSES} accesses, memory of {MEMORY} pages, medians of {rounds} rounds");
    println!("{:<14} {:>12} {:>24}", "", "M accesses/s", "times libCacheSim's LRU");
    println!("{:<14} {:>12.2}", "libCacheSim LRU", median(theirs));
    for (policy, rates) in FAST.iter().zip(&ours) {
        let rate = median(rates.iter().map(|&(rate, _)| rate).collect());
        let ratio = median(rates.iter().map(|&(_, ratio)| ratio).collect());
        println!("{policy:<14} {rate:>12.2} {ratio:>24.1}");
    }

    println!("\n{:<14} {:>12} {:>12} {:>12}", "misses", "here", "libCacheSim", "difference");
    for (policy, their_name) in COMMON {
        let (ours, theirs) = (replay(policy).misses, peer.replay(their_name)?.misses);
        let percent = (ours as f64 / theirs as f64 - 1.0) * 100.0;
        println!("{policy:<14} {ours:>12} {theirs:>12} {percent:>+10.3} %");
    }
    peer.end()
}
