//! Every NUMA decision that a kernel took while a program ran, kept so that the twin can be judged without it.
//!
//! ```text
//!   data/recordings/numa-6.12.95/
//!     numa.toml                    kernel, machine, cases                        Recording
//!     numa01.faults.zst            every hint fault: columns of varints      Fault
//!     numa01.decisions.csv.zst     passes, preferred nodes, moves of tasks       Decision
//! ```
//!
//! Columns follow each other, each with one number a fault, zigzag and seven bits a byte: microseconds since the fault before,
//! negative where that one was counted later; CPU; thread; pages since the thread's fault before; what `mpol_misplaced` returned
//! (-1: stay); (source + 1) · 3 + answer + 1 of `should_numa_migrate_memory` (0 if it was not called); its CPU; last cpupid; node
//! afterwards; flags; and, where folios were of several sizes (`large_folios`), how many pages it was about.
//!
//! A kernel in emulation writes the same files with [`Recording::write`], a case at a time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use machine::topology::{MAX_NODES, is_distance_table};
use mm::sysctl::{SettingError, Settings};
use serde::{Deserialize, Serialize};

use crate::recordings::{RecordingError, all_with_file, description, unpacked, write, write_packed};

const FILE: &str = "numa.toml";
/// How the names of a case's files end.
const FAULTS: &str = "faults.zst";
const DECISIONS: &str = "decisions.csv.zst";
const HEADER: &str = "t_us,cpu,tid,event,fields\n";
/// zstd's level: what an emulated CPU can do in seconds.
const PACKING: i32 = 9;
/// Tens of times what a recording has.
const MOST_BYTES: u64 = 1 << 26;
/// More microseconds, pages and MiB than a recording has, and few enough for sums and products of them.
const MOST: u64 = 1 << 40;
/// Pages of a huge page, the most that a fault can be about.
const HPAGE_PMD_NR: u64 = 512;
/// Fields that are nodes, or -1.
const NODES: [&str; 4] = ["nid", "pref", "src_nid", "dst_nid"];
/// Fields of `work` that are numbers of pages.
const PAGES: [&str; 5] = ["total", "loc_remote", "loc_local", "loc_fail", "migrated"];
/// Fields between which a range of addresses is.
const RANGES: [[&str; 2]; 2] = [["start", "end"], ["vm_start", "vm_end"]];

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
    /// Where it was read.
    #[serde(skip)]
    pub directory: PathBuf,
}

/// One run of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, with which its files begin.
    pub name: String,
    /// Hint faults in it.
    pub faults: usize,
    /// Events that the kernel could not keep. Nothing can be judged by a case that lost some.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Faults were about folios of several sizes: their file has a column for pages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub large_folios: bool,
    /// Memory of each process, MiB.
    pub buffer_mib: u64,
    /// Resident pages of each process when the recording ended, its program's text included: scan periods follow from
    /// them. Empty where they are not known; then the buffer and some pages are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resident_pages: Vec<u64>,
    /// Threads of each process that touch it; each process has a first thread besides, which sleeps, unless it is one of them.
    pub processes: Vec<Vec<u32>>,
    /// The first thread of each process is one of these: it touches all memory before the others begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_threads_touch: bool,
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
    /// Pages that it was about: one, or those of the folio whose entries it restored.
    pub pages: u32,
}

impl Fault {
    /// The first of its pages: a folio's are mapped where their number is a multiple of it.
    pub fn first_page(&self) -> u64 {
        self.page - self.page % u64::from(self.pages)
    }
}

/// Whether a fault can be about so many pages.
pub fn is_of_a_folio(pages: u64) -> bool {
    pages.is_power_of_two() && pages <= HPAGE_PMD_NR
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
    /// One, with its fields by name.
    pub fn new(
        time: u64,
        cpu: u16,
        tid: u32,
        event: &str,
        fields: impl IntoIterator<Item = (String, u64)>,
    ) -> Decision {
        Decision { time, cpu, tid, event: event.to_string(), fields: fields.into_iter().collect() }
    }

    /// A field of the event; -1 is `u64::MAX`.
    pub fn field(&self, name: &str) -> Option<u64> {
        self.fields.get(name).copied()
    }

    /// A field that is a node or missing.
    pub fn node(&self, name: &str) -> Option<u8> {
        self.field(name).and_then(|node| u8::try_from(node).ok())
    }
}

impl Case {
    /// The settings that it ran with.
    pub fn settings(&self) -> Result<Settings, SettingError> {
        let mut settings = Settings::default();
        self.settings.iter().try_for_each(|(setting, value)| settings.set(setting, value))?;
        Ok(settings)
    }
}

impl Recording {
    /// Reads the recording in `directory`.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let recording: Recording = description(directory, FILE)?;
        let recording = Recording { directory: directory.to_path_buf(), ..recording };
        recording.check().map_err(|problem| recording.wrong(problem))?;
        Ok(recording)
    }

    /// Whether there can be such a machine, and such cases.
    fn check(&self) -> Result<(), String> {
        let nodes = self.distances.len();
        if !(1..=usize::from(MAX_NODES)).contains(&nodes) || !is_distance_table(&self.distances) {
            return Err(
                "distances: one row and one column a node, 10 from each to itself and more to the others"
                    .into(),
            );
        }
        let is_missing = |&node: &u8| usize::from(node) >= nodes;
        if self.node_of_cpu.is_empty() || self.node_of_cpu.iter().any(is_missing) {
            return Err(format!(
                "node_of_cpu: a node from 0 to {} for each CPU, of which there is one",
                nodes - 1
            ));
        }
        for case in &self.cases {
            case.settings().map_err(|error| format!("{}: {error}", case.name))?;
            if case.buffer_mib >= MOST {
                return Err(format!(
                    "{}: buffer_mib = {}: no machine has as much",
                    case.name, case.buffer_mib
                ));
            }
            let residents = case.resident_pages.len();
            if residents > 0 && residents != case.processes.len()
                || case.resident_pages.iter().any(|&pages| pages >= MOST)
            {
                return Err(format!(
                    "{}: resident_pages: a number below 2^40 for each of the {} processes, or none at all",
                    case.name,
                    case.processes.len()
                ));
            }
        }
        Ok(())
    }

    fn wrong(&self, problem: String) -> RecordingError {
        RecordingError::of_description(&self.directory, FILE, problem)
    }

    /// An error if the kernel could not keep all events of a case: what followed from them cannot be judged.
    pub fn require_lossless(&self, case: &Case) -> Result<(), RecordingError> {
        match case.lost {
            0 => Ok(()),
            lost => Err(self.wrong(format!(
                "{}: {lost} events were lost; nothing can be judged by the others",
                case.name
            ))),
        }
    }

    /// Whether there are faults about folios of more than one page.
    pub fn has_large_folios(&self) -> bool {
        self.cases.iter().any(|case| case.large_folios)
    }

    /// The hint faults of a case, in the order in which they began or were counted.
    pub fn faults(&self, case: &Case) -> Result<Vec<Fault>, RecordingError> {
        let (file, bytes) = self.unpacked(case, FAULTS)?;
        let wrong =
            |problem| RecordingError::Stream { file: file.clone(), place: "with the faults".into(), problem };
        let faults =
            faults(&bytes, case).ok_or_else(|| wrong(format!("it does not hold {} faults", case.faults)))?;
        let (cpus, nodes) = (self.node_of_cpu.len(), self.distances.len());
        let is_there = |fault: &Fault| {
            let Filter { source, cpu, .. } =
                fault.filter.unwrap_or(Filter { source: fault.node, cpu: fault.cpu, answer: false });
            let places = [fault.node, source, fault.misplaced.unwrap_or(source)];
            fault.time < MOST
                && is_of_a_folio(fault.pages.into())
                && [fault.cpu, cpu].iter().all(|&cpu| usize::from(cpu) < cpus)
                && places.iter().all(|&node| usize::from(node) < nodes)
        };
        // When the last fault of each thread was counted: those of one follow each other.
        let mut before: BTreeMap<u32, u64> = BTreeMap::new();
        let mut follows =
            |fault: &Fault| before.insert(fault.tid, fault.time).is_none_or(|before| before <= fault.time);
        match faults.iter().position(|fault| !is_there(fault) || !follows(fault)) {
            None => Ok(faults),
            Some(at) => Err(wrong(format!(
                "fault {at} is on a CPU or node that the machine does not have, about pages that no folio has, or not when it can have been"
            ))),
        }
    }

    /// What else happened in a case, in the order of time.
    pub fn decisions(&self, case: &Case) -> Result<Vec<Decision>, RecordingError> {
        let (file, bytes) = self.unpacked(case, DECISIONS)?;
        let text = String::from_utf8_lossy(&bytes);
        let wrong = |(number, _): (usize, &str)| RecordingError::Stream {
            file: file.clone(),
            place: format!("line {}", number + 1),
            problem: "expected time, CPU, thread, event and fields, of this machine and in the order of time"
                .into(),
        };
        let mut now = 0;
        let mut read = |line: (usize, &str)| {
            let decision =
                decision(line.1).filter(|decision| decision.time >= now && self.may_take(decision));
            let decision = decision.ok_or_else(|| wrong(line))?;
            now = decision.time;
            Ok(decision)
        };
        text.lines().enumerate().skip(1).map(&mut read).collect()
    }

    /// Whether this machine can have taken a decision.
    fn may_take(&self, decision: &Decision) -> bool {
        let counts = |name: &&str| decision.field(name).is_some_and(|pages| pages < MOST);
        let is_there =
            |name: &&str| decision.node(name).is_none_or(|node| usize::from(node) < self.distances.len());
        let ascends = |range: &[&str; 2]| {
            let [start, end] = range.map(|name| decision.field(name));
            start.is_none() || start <= end
        };
        decision.time < MOST
            && usize::from(decision.cpu) < self.node_of_cpu.len()
            && NODES.iter().all(is_there)
            && (decision.event != "work" || PAGES.iter().all(counts))
            && RANGES.iter().all(ascends)
    }

    /// Leaves a recording of one case in `directory`, with its faults in the order in which they began, and decisions in that of
    /// time.
    pub fn write(
        &self,
        directory: &Path,
        case: &Case,
        faults: &[Fault],
        decisions: &[Decision],
    ) -> io::Result<()> {
        let file = |kind: &str| directory.join(format!("{}.{kind}", case.name));
        write_packed(&file(FAULTS), &packed_faults(faults), PACKING)?;
        let lines: Vec<String> = decisions.iter().map(line).collect();
        write_packed(&file(DECISIONS), (HEADER.to_string() + &lines.concat()).as_bytes(), PACKING)?;
        let case = Case { faults: faults.len(), large_folios: has_large_folios(faults), ..case.clone() };
        let recording = Recording { cases: vec![case], ..self.clone() };
        write(&directory.join(FILE), toml::to_string(&recording).map_err(io::Error::other)?.as_bytes())
    }

    fn unpacked(&self, case: &Case, kind: &str) -> Result<(String, Vec<u8>), RecordingError> {
        unpacked(&self.directory.join(format!("{}.{kind}", case.name)), MOST_BYTES)
    }
}

/// All recordings of NUMA decisions below `directory`, with their names, by name.
pub fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
    all_with_file(directory, FILE, Recording::open)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn line(decision: &Decision) -> String {
    let Decision { time, cpu, tid, event, fields } = decision;
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", *value as i64)).collect();
    format!("{time},{cpu},{tid},{event},{}\n", fields.join(" "))
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

fn faults(bytes: &[u8], case: &Case) -> Option<Vec<Fault>> {
    let (mut rest, count) = (bytes, case.faults);
    let mut column = || (0..count).map(|_| varint(&mut rest)).collect::<Option<Vec<i64>>>();
    let (times, cpus, tids, pages) = (column()?, column()?, column()?, column()?);
    let (misplaced, filters, filter_cpus) = (column()?, column()?, column()?);
    let (last, nodes, flags) = (column()?, column()?, column()?);
    let folios = if case.large_folios { column()? } else { vec![1; count] };
    let mut time = 0;
    let mut page_of: BTreeMap<u32, u64> = BTreeMap::new();
    let fault = |at: usize| {
        time = u64::checked_add_signed(time, times[at])?;
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
            pages: u32::try_from(folios[at]).ok()?,
        })
    };
    let faults = (0..count).map(fault).collect();
    if rest.is_empty() { faults } else { None }
}

fn has_large_folios(faults: &[Fault]) -> bool {
    faults.iter().any(|fault| fault.pages > 1)
}

/// The columns of these faults.
fn packed_faults(faults: &[Fault]) -> Vec<u8> {
    let mut page_of: BTreeMap<u32, u64> = BTreeMap::new();
    let mut time = 0;
    let mut columns: [Vec<u8>; 11] = Default::default();
    for fault in faults {
        let page_before = page_of.insert(fault.tid, fault.page).unwrap_or(0);
        let filter = fault
            .filter
            .map_or(0, |filter| (i64::from(filter.source) + 1) * 3 + i64::from(filter.answer) + 1);
        let values = [
            fault.time.wrapping_sub(time) as i64,
            fault.cpu.into(),
            fault.tid.into(),
            fault.page.wrapping_sub(page_before) as i64,
            fault.misplaced.map_or(-1, i64::from),
            filter,
            fault.filter.map_or(0, |filter| filter.cpu.into()),
            fault.last.into(),
            fault.node.into(),
            fault.flags.into(),
            fault.pages.into(),
        ];
        columns.iter_mut().zip(values).for_each(|(column, value)| put_varint(column, value));
        time = fault.time;
    }
    let wanted = if has_large_folios(faults) { 11 } else { 10 };
    columns[..wanted].concat()
}

fn put_varint(column: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 128 {
        column.push(rest as u8 | 128);
        rest >>= 7;
    }
    column.push(rest as u8);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn recording() -> Recording {
        Recording {
            kernel: "6.18.15".into(),
            machine: "two nodes".into(),
            node_of_cpu: vec![0, 0, 1, 1],
            distances: vec![vec![10, 20], vec![20, 10]],
            cases: Vec::new(),
            directory: PathBuf::new(),
        }
    }

    fn case() -> Case {
        Case {
            name: "numa01".into(),
            faults: 0,
            lost: 0,
            large_folios: false,
            buffer_mib: 64,
            resident_pages: Vec::new(),
            processes: vec![vec![7, 8]],
            first_threads_touch: false,
            settings: BTreeMap::from([("numa_balancing/scan_size_mb".into(), "16".into())]),
        }
    }

    prop_compose! {
        fn a_fault()(
            time in 0u64..10_000,
            cpu in 0u16..4,
            tid in 6u32..10,
            page in any::<u64>(),
            misplaced in prop::option::of(0u8..2),
            filter in prop::option::of((0u8..2, 0u16..4, any::<bool>())),
            last in any::<u32>(),
            node in 0u8..2,
            flags in any::<u8>(),
            order in 0u32..10,
        ) -> Fault {
            let filter = filter.map(|(source, cpu, answer)| Filter { source, cpu, answer });
            Fault { time, cpu, tid, page, misplaced, filter, last, node, flags, pages: 1 << order }
        }
    }

    /// Faults of which those of a thread are in the order of time, and those of others nearly.
    fn some_faults(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Fault>> {
        prop::collection::vec(a_fault(), count).prop_map(|mut faults| {
            faults.sort_by_key(|fault| (fault.time / 500, fault.tid, fault.time));
            faults
        })
    }

    prop_compose! {
        fn a_decision()(
            time in 0..MOST,
            cpu in 0u16..4,
            tid in any::<u32>(),
            event in "[a-z_]{5,20}",
            fields in prop::collection::btree_map("[a-z_]{6}", any::<u64>(), 1..9),
        ) -> Decision {
            Decision::new(time, cpu, tid, &event, fields)
        }
    }

    prop_compose! {
        /// What a kernel might say, of threads that the case has and of one that it has not.
        fn a_plausible_decision()(
            time in 0u64..20_000,
            cpu in 0u16..4,
            tid in 6u32..9,
            event in prop::sample::select(vec![
                "work", "cpn", "cpnret", "setnuma", "sched_migrate_task", "sched_move_numa", "sched_skip_vma_numa",
            ]),
            nodes in [-1i64..2, -1..2, -1..2, -1..2],
            pages in [0u64..MOST, 0..9, 0..9, 0..9, 0..9],
            [from, to] in [0u64..4000, 0..4000],
            state in [0i64..9, 0..2000, 0..2000],
            reason in 0i64..9,
            n in 0i64..600,
        ) -> Decision {
            let nodes = NODES.into_iter().zip(nodes);
            let pages = PAGES.into_iter().zip(pages.map(|pages| pages as i64));
            let range = [from.min(to) as i64 * 4096, from.max(to) as i64 * 4096];
            let ranges = RANGES.into_iter().flat_map(|names| names.into_iter().zip(range));
            let state = ["seq", "period", "period_max"].into_iter().zip(state);
            // No node to which the judge would add faults that the twin does not have, or take more from than it has.
            let others =
                [("pref", -1), ("reason", reason), ("n", n), ("pid", 7), ("orig_cpu", 1), ("dest_cpu", from as i64 % 4)];
            let fields = nodes.chain(pages).chain(ranges).chain(state).chain(others);
            Decision::new(time, cpu, tid, event, fields.map(|(name, value)| (name.to_string(), value as u64)))
        }
    }

    proptest! {
        /// Whatever else a recording says, each of its decisions agrees or does not.
        #[test]
        fn what_can_be_read_can_be_judged(
            faults in some_faults(0..60),
            mut decisions in prop::collection::vec(a_plausible_decision(), 0..60),
            release in prop::sample::select(vec!["6.1.192", "6.5.13", "6.12.95", "6.18.15", "7.2.12"]),
        ) {
            decisions.sort_by_key(|decision| decision.time);
            let faults: Vec<Fault> =
                faults.into_iter().map(|fault| Fault { page: fault.page % 4000, ..fault }).collect();
            let directory = tempfile::tempdir().unwrap();
            let recording = Recording { kernel: release.into(), ..recording() };
            recording.write(directory.path(), &case(), &faults, &decisions).unwrap();
            let read = Recording::open(directory.path()).unwrap();
            let entries = crate::verify::numa::judge("numa", &read, &mut |_| {}).unwrap();
            prop_assert!(entries.iter().all(|entry| entry.twin <= entry.kernel));
        }

        #[test]
        fn what_is_written_is_read(
            faults in some_faults(0..40),
            mut decisions in prop::collection::vec(a_decision(), 0..10),
        ) {
            decisions.sort_by_key(|decision| decision.time);
            let directory = tempfile::tempdir().unwrap();
            recording().write(directory.path(), &case(), &faults, &decisions).unwrap();
            let read = Recording::open(directory.path()).unwrap();
            let large_folios = faults.iter().any(|fault| fault.pages > 1);
            let expected = Case { faults: faults.len(), large_folios, ..case() };
            prop_assert_eq!(toml::to_string(&read.cases[0]), toml::to_string(&expected));
            prop_assert_eq!(read.faults(&read.cases[0]).unwrap(), faults);
            prop_assert_eq!(read.decisions(&read.cases[0]).unwrap(), decisions);
        }

        /// The columns cannot be cut anywhere, and whatever they hold is faults of this machine or refused.
        #[test]
        fn damage_is_refused(
            faults in some_faults(1..20),
            cut in 1usize..50,
            garbage in prop::collection::vec(any::<u8>(), 0..300),
            count in 0usize..30,
        ) {
            let bytes = packed_faults(&faults);
            let whole =
                Case { faults: faults.len(), large_folios: has_large_folios(&faults), ..case() };
            prop_assert_eq!(super::faults(&bytes[..bytes.len().saturating_sub(cut)], &whole), None);
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            recording().write(directory.path(), &case(), &faults, &[]).unwrap();
            fs::write(at("numa01.faults.zst"), zstd::stream::encode_all(&garbage[..], 1).unwrap()).unwrap();
            fs::write(at("numa01.decisions.csv.zst"), &garbage).unwrap();
            let read = Recording::open(directory.path()).unwrap();
            prop_assert!(read.decisions(&case()).is_err());
            for large_folios in [false, true] {
                if let Ok(faults) = read.faults(&Case { faults: count, large_folios, ..case() }) {
                    prop_assert_eq!(faults.len(), count);
                    prop_assert!(faults.iter().all(|fault| fault.cpu < 4 && fault.node < 2));
                    prop_assert!(faults.iter().all(|fault| is_of_a_folio(fault.pages.into())));
                }
            }
        }
    }

    #[test]
    fn a_case_that_lost_events_is_not_judged() {
        let directory = tempfile::tempdir().unwrap();
        recording().write(directory.path(), &Case { lost: 3, ..case() }, &[], &[]).unwrap();
        let read = Recording::open(directory.path()).unwrap();
        let error = crate::verify::numa::judge("numa", &read, &mut |_| {}).unwrap_err().to_string();
        assert!(
            error.ends_with("numa.toml: numa01: 3 events were lost; nothing can be judged by the others")
        );
    }

    #[test]
    fn machines_and_cases_that_cannot_be_are_refused() {
        type Change = fn(&mut Recording, &mut Case);
        let changes: [(Change, &str); 8] = [
            (|recording, _| recording.distances.clear(), "numa.toml: distances: one row"),
            (|recording, _| recording.distances[1] = vec![20], "numa.toml: distances: one row"),
            (|recording, _| recording.distances[1][0] = 10, "numa.toml: distances: one row"),
            (|recording, _| recording.node_of_cpu.clear(), "numa.toml: node_of_cpu: a node from 0 to 1"),
            (|recording, _| recording.node_of_cpu[3] = 2, "numa.toml: node_of_cpu: a node from 0 to 1"),
            (|_, case| case.buffer_mib = u64::MAX >> 1, "numa.toml: numa01: buffer_mib = "),
            (|_, case| case.resident_pages = vec![1, 2], "numa.toml: numa01: resident_pages: a number"),
            (
                |_, case| *case.settings.values_mut().next().unwrap() = "0".into(),
                "numa.toml: numa01: numa_balancing/scan_size_mb",
            ),
        ];
        for (change, expected) in changes {
            let (mut recording, mut case) = (recording(), case());
            change(&mut recording, &mut case);
            let directory = tempfile::tempdir().unwrap();
            recording.write(directory.path(), &case, &[], &[]).unwrap();
            let error = Recording::open(directory.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn lines_that_are_no_decisions_are_refused() {
        for text in [
            "1,0,7,work",
            "1,0,7,work,seq",
            "x,0,7,setnuma,nid=1",
            "1,0,7,setnuma,nid=0xg",
            "1,9,7,setnuma,nid=1",
            "1,0,7,setnuma,nid=2",
            "1099511627776,0,7,setnuma,nid=1",
            "1,0,7,work,total=1 loc_remote=1 loc_local=1 loc_fail=1",
            "1,0,7,work,total=1 loc_remote=-1 loc_local=1 loc_fail=1 migrated=1",
            "1,0,7,cpn,start=0x2000 end=0x1000",
            "2,0,7,setnuma,nid=1\n1,0,7,setnuma,nid=1",
        ] {
            let directory = tempfile::tempdir().unwrap();
            recording().write(directory.path(), &case(), &[], &[]).unwrap();
            let packed = zstd::stream::encode_all(format!("{HEADER}{text}\n").as_bytes(), 1).unwrap();
            fs::write(directory.path().join("numa01.decisions.csv.zst"), packed).unwrap();
            let error = Recording::open(directory.path()).unwrap().decisions(&case()).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains(&format!("line {}: expected time, CPU, thread", 1 + text.lines().count())),
                "{error}"
            );
        }
    }
}
