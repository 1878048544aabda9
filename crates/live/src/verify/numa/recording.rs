//! Every NUMA decision that a kernel took while a program ran, kept so that the twin can be judged without it.
//!
//! ```text
//!   data/recordings/numa-6.12.95/
//!     numa.toml                    kernel, machine, cases                        Recording
//!     numa01.faults.zst            every hint fault: ten columns of varints      Fault
//!     numa01.decisions.csv.zst     passes, preferred nodes, moves of tasks       Decision
//! ```
//!
//! Columns follow each other, each with one number a fault, zigzag and seven bits a byte: microseconds since the fault
//! before; CPU; thread; pages since the thread's fault before; `mpol_misplaced` returned (-1: stay); (source + 1) · 3 +
//! answer + 1 of `should_numa_migrate_memory` (0 if it was not called); its CPU; last cpupid; node afterwards; flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::recordings::{RecordingError, description, name_of, unpacked, with_file};

const FILE: &str = "numa.toml";
/// Tens of times what a recording has.
const MOST_BYTES: u64 = 1 << 26;

/// The content of `numa.toml`, and where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Release of the kernel.
    pub kernel: String,
    /// What it ran on, for people.
    pub machine: String,
    /// The node of each CPU.
    pub node_of_cpu: Vec<u8>,
    /// Firmware's table.
    pub distances: Vec<Vec<u8>>,
    /// What ran.
    pub cases: Vec<Case>,
    #[serde(skip)]
    directory: PathBuf,
}

/// One run of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, with which its files begin.
    pub name: String,
    /// Hint faults in it.
    pub faults: usize,
    /// Memory of each process, MiB.
    pub buffer_mib: u64,
    /// Threads of each process that touch it; each process has a first thread besides, which sleeps.
    pub processes: Vec<Vec<u32>>,
    /// Settings that are not the defaults.
    pub settings: BTreeMap<String, String>,
}

/// A hint fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it was counted, microseconds.
    pub time: u64,
    /// The CPU that counted it.
    pub cpu: u16,
    /// The thread.
    pub tid: u32,
    /// The page, an address in pages.
    pub page: u64,
    /// Where the page was to go, if anywhere.
    pub misplaced: Option<u8>,
    /// What the filter was asked, if it was.
    pub filter: Option<Filter>,
    /// Who was there last.
    pub last: u32,
    /// Where the page was afterwards.
    pub node: u8,
    /// `TNF_*`.
    pub flags: u8,
}

/// A call of `should_numa_migrate_memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Where the page was.
    pub source: u8,
    /// The CPU of the thread then.
    pub cpu: u16,
    /// The answer.
    pub answer: bool,
}

/// Something else that the kernel did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When, microseconds.
    pub time: u64,
    /// Where.
    pub cpu: u16,
    /// The thread.
    pub tid: u32,
    /// What.
    pub event: String,
    fields: BTreeMap<String, u64>,
}

impl Decision {
    /// A field of the event; -1 is `u64::MAX`.
    pub fn field(&self, name: &str) -> Option<u64> {
        self.fields.get(name).copied()
    }

    /// A field that is a node or missing.
    pub fn node(&self, name: &str) -> Option<u8> {
        self.field(name).and_then(|node| u8::try_from(node).ok())
    }
}

impl Recording {
    /// Reads the recording in `directory`.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let recording: Recording = description(directory, FILE)?;
        Ok(Recording { directory: directory.to_path_buf(), ..recording })
    }

    /// The hint faults of a case, in the order of time.
    pub fn faults(&self, case: &Case) -> Result<Vec<Fault>, RecordingError> {
        let (file, bytes) = self.unpacked(case, "faults.zst")?;
        faults(&bytes, case.faults).ok_or_else(|| RecordingError::Stream {
            file,
            place: "with the faults".into(),
            problem: format!("it does not hold {} faults", case.faults),
        })
    }

    /// What else happened in a case, in the order of time.
    pub fn decisions(&self, case: &Case) -> Result<Vec<Decision>, RecordingError> {
        let (file, bytes) = self.unpacked(case, "decisions.csv.zst")?;
        let text = String::from_utf8_lossy(&bytes);
        let wrong = |(number, _): (usize, &str)| RecordingError::Stream {
            file: file.clone(),
            place: format!("line {}", number + 1),
            problem: "expected time, CPU, thread, event and fields".into(),
        };
        let lines = text.lines().enumerate().skip(1);
        lines.map(|line| decision(line.1).ok_or_else(|| wrong(line))).collect()
    }

    fn unpacked(&self, case: &Case, kind: &str) -> Result<(String, Vec<u8>), RecordingError> {
        unpacked(&self.directory.join(format!("{}.{kind}", case.name)), MOST_BYTES)
    }
}

/// All recordings of NUMA decisions below `directory`, with their names, by name.
pub fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
    let open = |path: &PathBuf| Ok((name_of(path), Recording::open(path)?));
    with_file(directory, FILE)?.iter().map(open).collect()
}

fn decision(line: &str) -> Option<Decision> {
    let mut cells = line.splitn(5, ',');
    let time = cells.next()?.parse().ok()?;
    let cpu = cells.next()?.parse().ok()?;
    let tid = cells.next()?.parse().ok()?;
    let event = cells.next()?.to_string();
    let field = |field: &str| {
        let (name, value) = field.split_once('=')?;
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse::<i64>().ok()? as u64,
        };
        Some((name.to_string(), number))
    };
    let fields = cells.next()?.split_whitespace().map(field).collect::<Option<_>>()?;
    Some(Decision { time, cpu, tid, event, fields })
}

fn faults(bytes: &[u8], count: usize) -> Option<Vec<Fault>> {
    let mut rest = bytes;
    let mut column = || (0..count).map(|_| varint(&mut rest)).collect::<Option<Vec<i64>>>();
    let (times, cpus, tids, pages) = (column()?, column()?, column()?, column()?);
    let (misplaced, filters, filter_cpus) = (column()?, column()?, column()?);
    let (last, nodes, flags) = (column()?, column()?, column()?);
    let mut time = 0;
    let mut page_of: BTreeMap<u32, u64> = BTreeMap::new();
    let fault = |at: usize| {
        time += u64::try_from(times[at]).ok()?;
        let tid = u32::try_from(tids[at]).ok()?;
        let page = page_of.entry(tid).or_default();
        *page = page.wrapping_add_signed(pages[at]);
        let filter = match filters[at] {
            0 => None,
            code => Some(Filter {
                source: u8::try_from(code / 3 - 1).ok()?,
                cpu: u16::try_from(filter_cpus[at]).ok()?,
                answer: code % 3 == 2,
            }),
        };
        Some(Fault {
            time,
            cpu: u16::try_from(cpus[at]).ok()?,
            tid,
            page: *page,
            misplaced: u8::try_from(misplaced[at]).ok(),
            filter,
            last: u32::try_from(last[at]).ok()?,
            node: u8::try_from(nodes[at]).ok()?,
            flags: u8::try_from(flags[at]).ok()?,
        })
    };
    let faults = (0..count).map(fault).collect();
    if rest.is_empty() { faults } else { None }
}

fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}
