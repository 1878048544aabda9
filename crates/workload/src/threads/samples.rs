//! What a profiler saw: samples of which thread used which address.
//!
//! Two formats:
//!
//! ```text
//!   time_ns,pid,tid,address,write            CSV, with this first line; the address in hex with 0x or decimal; write 0 or 1
//!   1000,17,17,0x7f0000001000,1
//!
//!   prog  17/18  [002]  12.000001:  cpu/mem-loads/P:  7f0000001000 ...
//!                                   perf script -F comm,pid,tid,cpu,time,event,addr   (after perf mem record)
//! ```
//!
//! Addresses that lie within 64 MiB of each other become one area of their process. A sample stands for one access at its
//! time; what happened between samples is not known, so counts of faults are those of a program that uses memory so rarely.
//! Use it to see where threads and pages belong, not how long things take.

use super::{Layout, Operation, Process};
use crate::demand::SpecError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A file of samples, as scenarios name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleFile {
    /// Its path.
    pub file: PathBuf,
}

/// Bytes between two addresses that are still one area.
const GAP: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    time: u64,
    pid: u32,
    tid: u32,
    address: u64,
    write: bool,
}

/// Reads samples of either format; an error names the line, what is wrong and what would be right.
fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let is_csv = text.lines().next().is_some_and(|line| line.trim() == HEADER);
    if is_csv {
        lines.next();
    }
    let samples = lines.map(|(number, line)| {
        let sample = if is_csv { csv_sample(line) } else { perf_sample(line) };
        sample.map_err(|problem| format!("line {}: {problem}", number + 1))
    });
    let samples: Vec<Sample> = samples.collect::<Result<_, _>>()?;
    match samples.is_empty() {
        true => Err(format!("no samples; expected lines of perf script, or of CSV below {HEADER}")),
        false => Ok(samples),
    }
}

/// First line of CSV.
const HEADER: &str = "time_ns,pid,tid,address,write";

fn csv_sample(line: &str) -> Result<Sample, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [time, pid, tid, address, write] = fields[..] else {
        return Err(format!("{} fields; expected 5: {HEADER}", fields.len()));
    };
    let number = |name: &str, text: &str| -> Result<u64, String> {
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| format!("{name} = {text:?}; expected a whole number, in hex with 0x"))
    };
    let id =
        |name, text| u32::try_from(number(name, text)?).map_err(|_| format!("{name} = {text}; too large"));
    let write = match write {
        "0" => false,
        "1" => true,
        other => return Err(format!("write = {other:?}; expected 0 or 1")),
    };
    Ok(Sample {
        time: number("time_ns", time)?,
        pid: id("pid", pid)?,
        tid: id("tid", tid)?,
        address: number("address", address)?,
        write,
    })
}

fn perf_sample(line: &str) -> Result<Sample, String> {
    let expected = "expected a line of perf script -F comm,pid,tid,cpu,time,event,addr";
    let words: Vec<&str> = line.split_whitespace().collect();
    let ids = |word: &&str| word.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some((pid, tid)) = words.iter().find_map(ids) else {
        return Err(format!("no pid/tid such as 17/18; {expected}"));
    };
    let time = |word: &&str| {
        let seconds = word.strip_suffix(':')?.split_once('.')?;
        let (whole, fraction): (u64, u64) =
            (seconds.0.parse().ok()?, format!("{:0<9.9}", seconds.1).parse().ok()?);
        Some(whole * 1_000_000_000 + fraction)
    };
    let Some((place, time)) = words.iter().enumerate().find_map(|(i, word)| Some((i, time(word)?))) else {
        return Err(format!("no time such as 12.000001:; {expected}"));
    };
    let event = words.get(place + 1).filter(|word| word.ends_with(':'));
    let address = words.get(place + 2).and_then(|word| u64::from_str_radix(word, 16).ok());
    let (Some(event), Some(address)) = (event, address) else {
        return Err(format!("no event and address behind the time; {expected}"));
    };
    Ok(Sample { time, pid, tid, address, write: event.contains("store") })
}

impl SampleFile {
    pub(super) fn check(&self) -> Result<(), SpecError> {
        match self.file.as_os_str().is_empty() {
            true => Err(SpecError::new("file", "\"\"", "the path of a file of samples")),
            false => Ok(()),
        }
    }

    pub(super) fn start(&self) -> Result<SampledThreads, SpecError> {
        let wrong = |problem: String| SpecError {
            key: "file".into(),
            value: format!("{}: {problem}", self.file.display()),
            expected: "samples of perf mem, or CSV",
        };
        let text = std::fs::read_to_string(&self.file).map_err(|error| wrong(error.to_string()))?;
        Ok(SampledThreads::new(parse(&text).map_err(wrong)?))
    }
}

/// Threads that do what was sampled.
#[derive(Clone, Debug)]
pub struct SampledThreads {
    layout: Layout,
    /// By thread: when, and what.
    accesses: Vec<std::vec::IntoIter<(u64, Operation)>>,
    waiting: Vec<Option<(u64, Operation)>>,
}

impl SampledThreads {
    fn new(mut samples: Vec<Sample>) -> SampledThreads {
        samples.sort_by_key(|sample| sample.time);
        let start = samples.first().map_or(0, |sample| sample.time);
        let mut addresses: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for sample in &samples {
            addresses.entry(sample.pid).or_default().push(sample.address);
        }
        // First page and pages of each area.
        let areas: BTreeMap<u32, Vec<(u64, u64)>> = addresses
            .into_iter()
            .map(|(pid, mut addresses)| {
                addresses.sort_unstable();
                let parts = addresses.chunk_by(|a, b| b - a <= GAP);
                let area = |part: &[u64]| (part[0] / 4096, part[part.len() - 1] / 4096 - part[0] / 4096 + 1);
                (pid, parts.map(area).collect())
            })
            .collect();
        let pids: Vec<u32> = areas.keys().copied().collect();
        let mut threads: BTreeMap<(u32, u32), Vec<(u64, Operation)>> = BTreeMap::new();
        for sample in &samples {
            let page = sample.address / 4096;
            let area = areas[&sample.pid].partition_point(|&(first, _)| first <= page) - 1;
            let first = areas[&sample.pid][area].0;
            let touch = Operation::Touch { area: area as u32, page: page - first, write: sample.write };
            threads.entry((sample.pid, sample.tid)).or_default().push((sample.time - start, touch));
        }
        let process = |pid: u32| pids.partition_point(|&other| other < pid) as u32;
        let layout = Layout {
            processes: areas
                .values()
                .map(|areas| Process { areas: areas.iter().map(|&(_, pages)| pages).collect() })
                .collect(),
            threads: threads.keys().map(|&(pid, _)| process(pid)).collect(),
        };
        let waiting = vec![None; threads.len()];
        SampledThreads { layout, accesses: threads.into_values().map(Vec::into_iter).collect(), waiting }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Computes until the next sample's time has come.
    pub(super) fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        let (time, access) = self.waiting[thread].take().or_else(|| self.accesses[thread].next())?;
        if now < time {
            self.waiting[thread] = Some((time, access));
            return Some(Operation::Compute { nanoseconds: time - now });
        }
        Some(access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERF: &str = "\
            prog     17/18    [002]    12.000001:        cpu/mem-loads,ldlat=30/P:     7f0000001000 |OP LOAD
            prog     17/17    [000]    12.000002500:     cpu/mem-stores/P:             7f0008001000 |OP STORE
            prog     17/17    [000]    12.5:             cpu/mem-stores/P:             10000
";
    const CSV: &str = "time_ns,pid,tid,address,write\n12000001000,17,18,0x7f0000001000,0\n\
        12000002500,17,17,0x7f0008001000,1\n12500000000,17,17,65536,1\n";

    #[test]
    fn both_formats_say_the_same() {
        let samples = parse(PERF).unwrap();
        assert_eq!(samples, parse(CSV).unwrap());
        assert_eq!(
            samples[2],
            Sample { time: 12_500_000_000, pid: 17, tid: 17, address: 65536, write: true }
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, problem) in [
            ("", "no samples"),
            ("time_ns,pid,tid,address,write\n", "no samples"),
            ("time_ns,pid,tid,address,write\n1,2,3,4\n", "line 2: 4 fields"),
            ("time_ns,pid,tid,address,write\n1,2,3,zebra,0\n", "line 2: address"),
            ("time_ns,pid,tid,address,write\n1,2,3,4,5\n", "line 2: write"),
            ("time_ns,pid,tid,address,write\n1,4294967296,3,4,0\n", "line 2: pid"),
            ("prog 17 12.0: x: 1\n", "line 1: no pid/tid"),
            ("prog 17/18 12.0 x: 1\n", "line 1: no time"),
            ("prog 17/18 12.0: x: zebra\n", "line 1: no event and address"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn threads_use_areas_when_they_did() {
        let mut threads = SampledThreads::new(parse(CSV).unwrap());
        let layout = Layout { processes: vec![Process { areas: vec![1, 1, 1] }], threads: vec![0, 0] };
        assert_eq!(*threads.layout(), layout, "128 MiB apart is apart");
        assert_eq!(threads.next(0, 0), Some(Operation::Compute { nanoseconds: 1500 }));
        assert_eq!(threads.next(0, 1500), Some(Operation::Touch { area: 2, page: 0, write: true }));
        assert_eq!(threads.next(1, 0), Some(Operation::Touch { area: 1, page: 0, write: false }));
        assert_eq!(threads.next(1, 0), None);
    }
}
