//! Replays samples of memory accesses that a profiler took: which thread used which address.
//!
//! Two formats are read:
//!
//! ```text
//!   time_ns,pid,tid,address,write            CSV, with this first line; the address in hex with 0x or decimal; write 0 or 1
//!   1000,17,17,0x7f0000001000,1
//!
//!   prog  17/18  [002]  12.000001:  cpu/mem-loads/P:  7f0000001000 ...
//!                                   perf script -F comm,pid,tid,cpu,time,event,addr,data_src   (after perf mem record)
//! ```
//!
//! Whether a sample of perf is a store is given by `data_src`, as `|OP STORE|`, and otherwise by the name of
//! the event, such as `cpu/mem-stores/P`. AMD's `ibs_op//` has one name for both, so it needs `data_src`.
//!
//! A page must have been stored to before it was loaded from, but often that store was not sampled. Replaying
//! loads only would access the zero page, which is on no node and is never scanned. So the first access to a
//! page is replayed as a store, whatever was sampled; it allocates the page on the node of its thread. All
//! later accesses are as sampled.
//!
//! Lines that begin with # are skipped. Addresses within 64 MiB of each other belong to one area of their
//! process. Kernel addresses, and 0, with which profilers mark unknown addresses, are left out. A sample is
//! one access at its time. Accesses between samples are unknown, so counts of hint faults are those of a
//! program that accesses memory this rarely. The replay shows where threads and pages end up, not how long
//! things take.

use super::{Layout, Operation, Process};
use machine::WrongValue;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

crate::keys! {
    /// A file of samples, as in a scenario.
    #[derive(Eq)]
    pub struct SampleFile {
        pub file: Recording,
    }
}

crate::no_numbers!(Recording);

/// A recording of samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recording {
    /// xz, compressing with four threads; its file says how it was recorded.
    Xz,
    /// A file of the user, by path.
    #[serde(untagged)]
    File(PathBuf),
}

/// Largest distance in bytes between two addresses of one area.
const GAP: u64 = 64 << 20;
/// The first address of the upper half, which belongs to the kernel.
const KERNEL: u64 = 1 << 63;
/// Nanoseconds that a thread waiting for its next sample computes at a time, so that a run can end meanwhile.
const WAIT: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    time: u64,
    pid: u32,
    tid: u32,
    address: u64,
    write: bool,
}

/// Samples of the memory of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Samples {
    samples: Vec<Sample>,
    /// Number of samples left out.
    left_out: usize,
}

/// Parses samples of either format. The error names the line, what is wrong and what would be right.
fn parse(bytes: &[u8]) -> Result<Samples, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        format!("line {line}: not UTF-8 text; {EXPECTED}")
    })?;
    let is_data = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut lines = text.lines().enumerate().filter(|(_, line)| is_data(line)).peekable();
    let is_csv = lines.next_if(|(_, line)| line.trim() == HEADER).is_some();
    if let Some((number, line)) = lines.next_if(|(_, line)| !is_csv && is_other_csv(line)) {
        let begin: String = line.trim().chars().take(SHOWN).collect();
        return Err(format!("line {}: {begin:?}; CSV begins with the line {HEADER}", number + 1));
    }
    let samples = lines.map(|(number, line)| {
        let sample = if is_csv { csv_sample(line) } else { perf_sample(line) };
        sample.map_err(|problem| format!("line {}: {problem}", number + 1))
    });
    let mut samples: Vec<Sample> = samples.collect::<Result<_, _>>()?;
    let all = samples.len();
    samples.retain(|sample| (1..KERNEL).contains(&sample.address));
    let left_out = all - samples.len();
    match samples.is_empty() {
        true if all > 0 => Err(format!(
            "all {all} addresses are the kernel's or 0; samples of a program's own memory are needed"
        )),
        true => Err(format!("no samples; {EXPECTED}")),
        false => Ok(Samples { samples, left_out }),
    }
}

/// What a file should contain, for errors.
const EXPECTED: &str =
    "expected lines of perf script (not its perf.data), or CSV below time_ns,pid,tid,address,write";
/// First line of the CSV format.
const HEADER: &str = "time_ns,pid,tid,address,write";
/// Characters of a line that an error shows.
const SHOWN: usize = 80;

/// Whether the first line is that of a CSV file with other columns or without a header.
fn is_other_csv(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|first| first.contains(',')) && words.find_map(ids).is_none()
}

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

/// Parses the pid/tid word of a line of perf script.
fn ids(word: &str) -> Option<(u32, u32)> {
    let (pid, tid) = word.split_once('/')?;
    Some((pid.parse().ok()?, tid.parse().ok()?))
}

fn perf_sample(line: &str) -> Result<Sample, String> {
    let expected = "expected a line of perf script -F comm,pid,tid,cpu,time,event,addr,data_src";
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((pid, tid)) = words.iter().find_map(|word| ids(word)) else {
        return Err(format!("no pid/tid such as 17/18; {expected}"));
    };
    let time = |word: &&str| {
        let seconds = word.strip_suffix(':')?.split_once('.')?;
        let (whole, fraction): (u64, u64) =
            (seconds.0.parse().ok()?, format!("{:0<9.9}", seconds.1).parse().ok()?);
        whole.checked_mul(1_000_000_000)?.checked_add(fraction)
    };
    let Some((place, time)) = words.iter().enumerate().find_map(|(i, word)| Some((i, time(word)?))) else {
        return Err(format!("no time such as 12.000001:; {expected}"));
    };
    let event = words.get(place + 1).filter(|word| word.ends_with(':'));
    let address = words.get(place + 2).and_then(|word| u64::from_str_radix(word, 16).ok());
    let (Some(event), Some(address)) = (event, address) else {
        return Err(format!("no event and address after the time; {expected}"));
    };
    // For `data_src`, perf prints a number and then its meaning: 68100842 |OP LOAD|LVL L1 hit|SNP N/A|...
    let meaning = line.rsplit_once("|OP ").and_then(|(_, meaning)| meaning.split('|').next());
    let write = match meaning.map(str::trim) {
        Some("STORE") => true,
        None | Some("N/A" | "No") => event.to_ascii_lowercase().contains("store"),
        Some(_) => false,
    };
    Ok(Sample { time, pid, tid, address, write })
}

impl SampleFile {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        match &self.file {
            Recording::File(path) if path.as_os_str().is_empty() => {
                Err(WrongValue::new("file", "\"\"", "xz, or the path of a file of samples"))
            }
            _ => Ok(()),
        }
    }

    /// Reads the file. The error says what is wrong and on which line.
    pub fn read(&self) -> Result<SampledThreads, String> {
        match &self.file {
            Recording::Xz => SampledThreads::parse(include_bytes!("../../../../data/xz.samples.csv")),
            Recording::File(path) => {
                SampledThreads::parse(&std::fs::read(path).map_err(|error| error.to_string())?)
            }
        }
    }

    pub(super) fn start(&self) -> Result<SampledThreads, WrongValue> {
        self.read().map_err(|problem| {
            let name = match &self.file {
                Recording::Xz => "xz".into(),
                Recording::File(path) => path.display().to_string(),
            };
            WrongValue::new("file", format!("{name}: {problem}"), "samples of perf mem, or CSV")
        })
    }
}

/// Threads that replay samples.
#[derive(Clone, Debug)]
pub struct SampledThreads {
    layout: Layout,
    /// Times and accesses of each thread.
    accesses: Vec<std::vec::IntoIter<(u64, Touch)>>,
    waiting: Vec<Option<(u64, Touch)>>,
    /// Process, area and page of all pages that have been stored to.
    placed: HashSet<(u32, u32, u64)>,
    note: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Touch {
    area: u32,
    page: u64,
    write: bool,
}

impl SampledThreads {
    /// Parses samples of either format. The error says what is wrong and on which line.
    pub fn parse(bytes: &[u8]) -> Result<SampledThreads, String> {
        Ok(SampledThreads::new(parse(bytes)?))
    }

    fn new(Samples { mut samples, left_out }: Samples) -> SampledThreads {
        let note = (left_out > 0).then(|| {
            let all = samples.len() + left_out;
            format!("{left_out} of {all} samples were left out: their addresses are the kernel's or 0")
        });
        samples.sort_by_key(|sample| sample.time);
        let start = samples.first().map_or(0, |sample| sample.time);
        let mut addresses: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for sample in &samples {
            addresses.entry(sample.pid).or_default().push(sample.address);
        }
        // First page and number of pages of each area.
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
        let mut threads: BTreeMap<(u32, u32), Vec<(u64, Touch)>> = BTreeMap::new();
        for sample in &samples {
            let page = sample.address / 4096;
            let area = areas[&sample.pid].partition_point(|&(first, _)| first <= page) - 1;
            let first = areas[&sample.pid][area].0;
            let touch = Touch { area: area as u32, page: page - first, write: sample.write };
            threads.entry((sample.pid, sample.tid)).or_default().push((sample.time - start, touch));
        }
        let process = |pid: u32| pids.partition_point(|&other| other < pid) as u32;
        let layout = Layout {
            processes: areas
                .values()
                .map(|areas| Process::new(areas.iter().map(|&(_, pages)| pages).collect()))
                .collect(),
            threads: threads.keys().map(|&(pid, _)| process(pid)).collect(),
        };
        let waiting = vec![None; threads.len()];
        SampledThreads {
            layout,
            accesses: threads.into_values().map(Vec::into_iter).collect(),
            waiting,
            placed: HashSet::new(),
            note,
        }
    }

    /// A caveat to print with the results.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The next access, or computing until its time has come.
    pub(super) fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        let (time, access) = self.waiting[thread].take().or_else(|| self.accesses[thread].next())?;
        if now < time {
            self.waiting[thread] = Some((time, access));
            return Some(Operation::Compute { nanoseconds: (time - now).min(WAIT) });
        }
        let Touch { area, page, write } = access;
        // Which thread is first is known only now: on a busy CPU, a thread may be later than it was in the
        // recording.
        let places = self.placed.insert((self.layout.threads[thread], area, page));
        Some(Operation::Touch { area, page, write: write || places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERF: &str = "\
            prog     17/18    [002]    12.000001:        cpu/mem-loads,ldlat=30/P:     7f0000001000 |OP LOAD
            prog     17/17    [000]    12.000002500:     cpu/mem-stores/P:             7f0008001000 |OP STORE
            prog     17/17    [000]    12.5:             cpu/mem-stores/P:             10000
";
    const CSV: &str = "time_ns,pid,tid,address,write\n12000001000,17,18,0x7f0000001000,0\n\
        12000002500,17,17,0x7f0008001000,1\n12500000000,17,17,65536,1\n";

    #[test]
    fn both_formats_say_the_same() {
        let read = parse(PERF.as_bytes()).unwrap();
        assert_eq!(read, parse(CSV.as_bytes()).unwrap());
        assert_eq!(
            read.samples[2],
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
            (
                "#\n\ntime,pid,tid,addr,write\n1,2,3,4,0\n",
                "line 3: \"time,pid,tid,addr,write\"; CSV begins with",
            ),
            ("prog 17 12.0: cpu/mem-loads,ldlat=30/P: 1\n", "line 1: no pid/tid"),
            ("time_ns, pid, tid, address, write\n", "CSV begins with the line time_ns,pid,tid,address,write"),
            ("1,2,3,4,0\n", "line 1: \"1,2,3,4,0\"; CSV begins"),
            ("prog 17/18 12.0 x: 1\n", "line 1: no time"),
            ("prog 17/18 12.0: x: zebra\n", "line 1: no event and address"),
            ("# captured on: x\nprog 17/18 12.0: x: zebra\n", "line 2: no event and address"),
            ("prog 17/18 99999999999.0: x: 1000\n", "line 1: no time"),
            ("prog 17/18 12.0: x: 0\nprog 17/18 12.0: x: ffff888000001000\n", "all 2 addresses"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
        let error = parse(b"prog 17/18 12.0: x: 1000\nPERFILE2\xff\xfe").unwrap_err();
        assert!(error.starts_with("line 2: not UTF-8 text"), "{error}");
    }

    #[test]
    fn headers_and_what_is_no_memory_of_a_process_are_left_out() {
        let more = "# ========\n# captured on: Thu\n#\nprog 17/17 [000] 11.0: x: ffffffff81000000\nprog 17/17 11.5: x: 0\n";
        let read = parse(format!("{more}{PERF}").as_bytes()).unwrap();
        assert_eq!(read.samples, parse(PERF.as_bytes()).unwrap().samples);
        let threads = SampledThreads::new(read);
        let note = "2 of 5 samples were left out: their addresses are the kernel's or 0";
        assert_eq!(threads.note(), Some(note));
        assert_eq!(SampledThreads::new(parse(PERF.as_bytes()).unwrap()).note(), None);
    }

    #[test]
    fn a_thread_can_be_cut_off_while_it_waits() {
        let text = format!("{HEADER}\n0,1,1,4096,0\n{},1,1,4096,0\n", u64::MAX);
        let mut threads = SampledThreads::new(parse(text.as_bytes()).unwrap());
        assert!(matches!(threads.next(0, 0), Some(Operation::Touch { .. })));
        assert_eq!(threads.next(0, 5), Some(Operation::Compute { nanoseconds: WAIT }));
        assert_eq!(threads.next(0, WAIT), Some(Operation::Compute { nanoseconds: WAIT }));
    }

    #[test]
    fn threads_use_areas_when_they_did() {
        let mut threads = SampledThreads::new(parse(CSV.as_bytes()).unwrap());
        let layout = Layout { processes: vec![Process::new(vec![1, 1, 1])], threads: vec![0, 0] };
        assert_eq!(*threads.layout(), layout, "128 MiB apart is apart");
        assert_eq!(threads.next(0, 0), Some(Operation::Compute { nanoseconds: 1500 }));
        assert_eq!(threads.next(0, 1500), Some(Operation::Touch { area: 2, page: 0, write: true }));
        assert_eq!(threads.next(1, 0), Some(Operation::Touch { area: 1, page: 0, write: true }));
        assert_eq!(threads.next(1, 0), None);
    }

    #[test]
    fn the_first_access_to_a_page_is_a_store_and_later_loads_are_loads() {
        let text =
            format!("{HEADER}\n0,1,1,4096,0\n0,1,1,4096,0\n0,1,2,4100,0\n0,2,3,4096,0\n1,1,2,4096,1\n");
        let mut threads = SampledThreads::new(parse(text.as_bytes()).unwrap());
        let touch = |write| Some(Operation::Touch { area: 0, page: 0, write });
        // Thread 2 gets there before thread 1, whose sample is earlier.
        let accesses = [1, 0, 0, 1, 2].map(|thread| threads.next(thread, 1));
        assert_eq!(accesses, [touch(true), touch(false), touch(false), touch(true), touch(true)]);
    }

    #[test]
    fn stores_are_those_of_data_src_or_by_the_name_of_their_event() {
        for (what, write) in [
            (
                "ibs_op//: 7f0000001000     68100842 |OP LOAD|LVL L1 hit|SNP N/A|TLB L1 hit|LCK N/A|BLK  N/A",
                false,
            ),
            (
                "ibs_op//: 7f0000001000      5080184 |OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK No|BLK  N/A",
                true,
            ),
            ("ibs_op//: 7f0000001000     68100842 |OP PFETCH|LVL N/A", false),
            ("ibs_op//: 7f0000001000", false),
            ("cpu/mem-stores/P: 7f0000001000            1 |OP N/A|LVL N/A|SNP N/A", true),
            ("cpu/mem-stores/P: 7f0000001000            2 |OP LOAD|LVL N/A|SNP N/A", false),
            ("cpu/mem-stores/P: 7f0000001000", true),
            ("MEM_INST_RETIRED.ALL_STORES:u: 7f0000001000", true),
            ("cpu/mem-loads,ldlat=30/P: 7f0000001000", false),
        ] {
            let sample = perf_sample(&format!("prog 17/18 [002] 12.000001: {what}")).unwrap();
            assert_eq!((sample.address, sample.write), (0x7f00_0000_1000, write), "{what}");
        }
    }

    #[test]
    fn the_recording_of_xz_is_of_five_threads_that_share_pages() {
        let file = SampleFile { file: Recording::Xz };
        let spec: SampleFile = toml::from_str("file = \"xz\"").unwrap();
        assert_eq!(spec, file);
        let threads = file.read().unwrap();
        assert_eq!(threads.note(), None);
        assert_eq!(threads.layout.threads, [0; 5]);
        assert_eq!(threads.layout.processes, [Process::new(vec![5861])]);
        assert_eq!(threads.accesses.iter().map(ExactSizeIterator::len).sum::<usize>(), 10_891);
    }

    /// Runs all threads of a file that can be read, with a clock that jumps.
    fn run_through(bytes: &[u8]) {
        let Ok(mut threads) = SampledThreads::parse(bytes) else { return };
        let layout = threads.layout().clone();
        for (thread, &process) in layout.threads.iter().enumerate() {
            let mut now = 0;
            while let Some(operation) = threads.next(thread, now) {
                match operation {
                    Operation::Touch { area, page, .. } => {
                        assert!(page < layout.processes[process as usize].areas[area as usize]);
                    }
                    _ => now = now * 2 + 1,
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_samples_or_an_error(text in "\\PC*") {
            run_through(text.as_bytes());
            run_through(format!("{HEADER}\n{text}\n").as_bytes());
        }

        #[test]
        fn damaged_samples_are_samples_or_an_error(
            is_csv: bool, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
        ) {
            let mut bytes = if is_csv { CSV } else { PERF }.as_bytes().to_vec();
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            run_through(&bytes);
        }

        #[test]
        fn any_numbers_are_samples(
            samples in prop::collection::vec((any::<u64>(), 0..3u32, 0..3u32, any::<u64>(), 0..2u8), 1..40)
        ) {
            let line = |(time, pid, tid, address, write)| format!("{time},{pid},{tid},{address},{write}\n");
            let text: String = samples.into_iter().map(line).collect();
            run_through(format!("{HEADER}\n{text}").as_bytes());
        }
    }
}
