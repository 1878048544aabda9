//! Records every decision of NUMA balancing of this kernel while a program runs, as what [`super::recording`] reads.
//!
//! ```text
//!   probes at the functions that decide, tracepoints of the scheduler ─► ring buffers, one a CPU
//!   program: processes start, some seconds, tracing off                      │
//!   numa.toml, PROGRAM.faults.zst, PROGRAM.decisions.csv.zst ◄── events ◄────┘ merged by time
//! ```
//!
//! Balancing is off until the threads wait for the start, so that they have nothing from before that: a new thread inherits what
//! its creator knew. Buffers are read when the program has ended, so that reading takes no time from it. Arguments are taken out of the
//! registers that the calling convention of x86-64 has for them, members of a thread's state by the kernel's description of its types.
//! In the kernel: `kernel/sched/fair.c`, `mm/mempolicy.c` (6.1 to 6.18).

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use super::events::{Composed, Event, GROUP, Kind, WATCHED, compose};
use super::observer::{self, Waiting};
use super::programs::{Chosen, Pages, settings};
use super::recording::{Case, Recording};
use crate::record::tracepoints::{DecodeError, Decoder};
use crate::snapshot;
use crate::tracefs::{EventFormat, Instance, Kprobes, SubBufferLayout, Tracefs, btf};

/// Of each CPU. A fault takes 160 bytes, and no CPU was seen to take more than 110,000.
const BUFFER_KIB: &str = "24000";
/// The one that all CPUs share.
const CLOCK: &str = "mono";

/// Probes by name: kind, function and what is taken there.
const PROBES: [(&str, &str, &str); 8] = [
    ("mis", "p", "mpol_misplaced addr=%dx:u64"),
    ("should", "p", "should_numa_migrate_memory src=%dx:s32 dst_cpu=%cx:s32"),
    ("shouldret", "r64", "should_numa_migrate_memory ret=$retval:u8"),
    ("misret", "r64", "mpol_misplaced nid=$retval:s32"),
    ("fault", "p", "task_numa_fault last_cpupid=%di:u32 mem_node=%si:s32 pages=%dx:s32 flags=%cx:u32"),
    ("setnuma", "p", "sched_setnuma nid=%si:s32"),
    ("cpn", "p", "change_prot_numa start=%si:u64 end=%dx:u64"),
    ("cpnret", "r64", "change_prot_numa n=$retval:s64"),
];
/// What `work` tells of its thread: field, member, type, and how many 8 bytes further it lies.
const STATE: [(&str, &str, &str, usize); 9] = [
    ("seq", "numa_scan_seq", "s32", 0),
    ("period", "numa_scan_period", "u32", 0),
    ("period_max", "numa_scan_period_max", "u32", 0),
    ("pref", "numa_preferred_nid", "s32", 0),
    ("total", "total_numa_faults", "u64", 0),
    ("loc_remote", "numa_faults_locality", "u64", 0),
    ("loc_local", "numa_faults_locality", "u64", 1),
    ("loc_fail", "numa_faults_locality", "u64", 2),
    ("migrated", "numa_pages_migrated", "u64", 0),
];
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// The structure of a thread, and the member whose address `task_numa_work` is given.
const TASK: &str = "task_struct";
const WORK: &str = "numa_work";

/// Why nothing was recorded.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a program for some seconds and leaves a recording of it in `directory`. `words`: what this program is called with to get
/// to [`super::run_process`].
pub fn record(
    words: &[String],
    chosen: &Chosen,
    seconds: u64,
    pages: Pages,
    directory: &Path,
) -> Result<(), Failure> {
    fs::write(BALANCING, "0")?;
    observer::apply_settings(pages)?;
    let tracing = Tracing::prepare()?;
    let mut program = Waiting::start(words, chosen, seconds)?;
    // Now, as a program may end by itself.
    let processes = program.threads()?;
    let first_threads_touch = program.first_threads_touch();
    tracing.instance.write("tracing_on", "1")?;
    fs::write(BALANCING, "1")?;
    program.go()?;
    std::thread::sleep(Duration::from_secs(seconds));
    tracing.instance.write("tracing_on", "0")?;
    let resident_pages = program.resident_pages();
    drop(program);
    let (events, lost) = tracing.events()?;
    let Composed { faults, decisions, incomplete } = compose(&events, &processes.concat())?;
    let nodes = observer::nodes()?;
    let case = Case {
        name: chosen.name().into(),
        faults: faults.len(),
        lost: lost + incomplete,
        large_folios: false,
        buffer_mib: chosen.process_mib(nodes.iter().map(Vec::len).sum(), seconds)?,
        resident_pages,
        first_threads_touch,
        processes,
        settings: settings(pages),
    };
    Ok(description()?.write(directory, &case, &faults, &decisions)?)
}

/// The machine that this is.
fn description() -> Result<Recording, Failure> {
    let nodes = observer::nodes()?;
    let cpus: usize = nodes.iter().map(Vec::len).sum();
    let mut node_of_cpu = vec![0; cpus];
    for (node, cpus) in nodes.iter().enumerate() {
        cpus.iter().for_each(|&cpu| node_of_cpu[cpu] = node as u8);
    }
    Ok(Recording {
        kernel: snapshot::kernel_release(),
        machine: format!("emulated by QEMU: {cpus} CPUs, {} nodes", nodes.len()),
        node_of_cpu,
        distances: observer::distances(nodes.len())?,
        cases: Vec::new(),
        directory: Default::default(),
    })
}

/// Everything that is watched, not yet on. Fields are dropped in this order.
struct Tracing {
    instance: Instance,
    decoder: Decoder<Kind>,
    layout: SubBufferLayout,
    probes: Kprobes,
    _tracefs: Tracefs,
}

impl Tracing {
    fn prepare() -> Result<Tracing, Failure> {
        let tracefs = Tracefs::of_guest()?;
        let probe = |(name, kind, what): (&str, &str, &str)| format!("{kind}:{GROUP}/{name} {what}");
        let definitions: Vec<String> = PROBES.into_iter().map(probe).chain([probe_of_work()?]).collect();
        let probes = Kprobes::define(&tracefs, &definitions)?;
        let instance = Instance::create(&tracefs)?;
        let mut formats = Vec::new();
        for watched in &WATCHED {
            let events = format!("events/{}/{}", watched.system, watched.name);
            if instance.path(&events).is_dir() {
                let text = instance.read(&format!("{events}/format"))?;
                formats.push(EventFormat::parse(&text)?);
                instance.write(&format!("{events}/enable"), "1")?;
            }
        }
        let decoder = Decoder::new(&WATCHED, &formats)?;
        let header = instance.read("events/header_page")?;
        let layout = SubBufferLayout::parse(&header)?;
        instance.write("trace_clock", CLOCK)?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        Ok(Tracing { instance, decoder, layout, probes, _tracefs: tracefs })
    }

    /// What the buffers hold, in the order of time, and how many events are not there.
    fn events(&self) -> Result<(Vec<Event>, u64), Failure> {
        let mut lost = self.probes.missed()?;
        let mut events = Vec::new();
        for cpu in self.instance.cpus()? {
            let mut buffer = self.instance.open_buffer(cpu)?;
            let mut bytes = vec![0; self.layout.size];
            loop {
                match buffer.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(length) => bytes[length..].fill(0),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
                let sub_buffer = self.layout.open(&bytes)?;
                lost += sub_buffer.missed;
                for record in sub_buffer {
                    let (time, record) = record?;
                    events.extend(self.event(cpu, time, record)?);
                }
            }
            let left = self.instance.statistics(cpu)?;
            lost += left.lost + left.entries;
        }
        // Those of a CPU keep their order.
        events.sort_by_key(|event| event.time);
        Ok((events, lost))
    }

    fn event(&self, cpu: u16, time: u64, record: &[u8]) -> Result<Option<Event>, DecodeError> {
        let Some(layout) = self.decoder.layout(record) else { return Ok(None) };
        let of = layout.tracepoint();
        let tid = layout.task(record)? as u32;
        let mut event = Event { time, cpu, tid, of, values: Default::default() };
        for (field, value) in event.values.iter_mut().enumerate().take(of.fields.len()) {
            *value = layout.number(record, field)?;
        }
        Ok(Some(event))
    }
}

/// The probe of `task_numa_work`, which is given the address of one member of the thread's state and tells others.
fn probe_of_work() -> io::Result<String> {
    let members: Vec<&str> = STATE.iter().map(|(_, member, ..)| *member).chain([WORK]).collect();
    let offsets = btf::of_this_kernel(TASK, &members)?;
    let (work, offsets) = offsets.split_last().expect("there are members");
    let fields = STATE.iter().zip(offsets).map(|((field, _, kind, further), offset)| {
        let from_work = (offset + 8 * further) as i64 - *work as i64;
        format!(" {field}={from_work:+}(%di):{kind}")
    });
    Ok(format!("p:{GROUP}/work task_numa_work{}", fields.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken at a probe is what events are composed of, by the same names and in the same order.
    #[test]
    fn probes_take_what_is_watched() {
        let taken = |what: &'static str| what.split(' ').filter_map(|word| Some(word.split_once('=')?.0));
        let work = ("work", STATE.iter().map(|&(field, ..)| field).collect());
        let mut probes: Vec<(&str, Vec<&str>)> =
            PROBES.iter().map(|&(name, _, what)| (name, taken(what).collect())).chain([work]).collect();
        let own = WATCHED.iter().filter(|watched| watched.system == GROUP);
        let mut watched: Vec<(&str, Vec<&str>)> =
            own.map(|watched| (watched.name, watched.fields.to_vec())).collect();
        probes.sort_unstable();
        watched.sort_unstable();
        assert_eq!(probes, watched);
    }
}
