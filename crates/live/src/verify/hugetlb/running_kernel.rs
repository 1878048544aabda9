//! Writes counts to the huge page pool of the running kernel, and counts the events.
//!
//! ```text
//!   this thread                          the writer thread, whose id is in set_event_pid
//!   set vm.hugetlb_optimize_vmemmap
//!   read pool, vmstat, zoneinfo
//!   "write 500"  ----------------------> tracing_on <- 1
//!                                        nr_hugepages <- 500
//!                <---------------------- tracing_on <- 0
//!   read them again, read `trace`
//! ```
//!
//! The writer thread does nothing else and exists before the first write, so that all events between the two
//! writes to `tracing_on` belong to the write to nr_hugepages. Events of interrupts are recognised by their
//! context.
//!
//! All settings are guarded and signals are deferred: the recording stops between two writes, with the pool,
//! the settings and tracing restored.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::thread::gettid;

use super::case::{Case, HUGE_PAGE_KIB, Write};
use super::counts::{KernelCounts, Pool};
use super::recording::{RecordedCase, Recording, Step};
use crate::proc::{parse_meminfo, parse_vmstat, parse_zoneinfo};
use crate::record::RecordError;
use crate::record::interruption::Interruption;
use crate::rollback::{Setting, sysctl};
use crate::snapshot;
use crate::snapshot::cpus_in_range;
use crate::tracefs::{Instance, Tracefs, TracefsError};
use crate::verify::VerifyError;
use crate::verify::failed;
use crate::verify::pcp::running_kernel::{description, replay_zone};

/// Whether the vmemmap of new huge pages is optimised (HVO).
const OPTIMIZE: &str = "vm.hugetlb_optimize_vmemmap";

const EVENTS: [&str; 7] = [
    "csd/csd_queue_cpu",
    "ipi/ipi_send_cpu",
    "ipi/ipi_send_cpumask",
    "kmem/mm_page_alloc",
    "kmem/mm_page_free",
    "kmem/mm_page_alloc_zone_locked",
    "kmem/mm_page_pcpu_drain",
];

/// Ring buffer in KiB per CPU: a page causes at most 17 events of up to 56 bytes.
const BUFFER_KIB: u64 = 8 << 10;

/// Rounds of each case without tracing, to measure times.
const UNTRACED_ROUNDS: usize = 5;

/// Why the pool cannot be resized here, or cannot be observed.
pub fn obstacle() -> Option<String> {
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(event) = EVENTS.iter().find(|event| !tracefs.root().join("events").join(event).is_dir()) {
        return Some(format!(
            "this kernel has no event {}, which is needed for counting",
            event.replace('/', ":")
        ));
    }
    if !sysctl(OPTIMIZE).exists() {
        return Some(format!("this kernel has no {OPTIMIZE}; it needs CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP"));
    }
    if amount("Hugepagesize").unwrap_or(0) != HUGE_PAGE_KIB {
        return Some(format!(
            "the default huge page size is not {HUGE_PAGE_KIB} KiB, the only one that is modelled"
        ));
    }
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if cpuinfo.split_whitespace().any(|flag| flag == "invlpgb") {
        return Some("this CPU flushes remote TLBs by an instruction (INVLPGB), which no event shows".into());
    }
    if online_cpus() < 2 {
        return Some("two CPUs are needed: TLB flushes are counted on the CPUs that receive them".into());
    }
    let used = pool_files().into_iter().find_map(|file| {
        let pages = fs::read_to_string(&file).ok()?;
        (pages.trim() != "0").then(|| format!("{} is {}", file.display(), pages.trim()))
    });
    used.map(|used| format!("{used}: the pools must be empty, because verification empties them"))
}

/// Records all cases for which there is enough memory.
pub fn record(progress: &mut dyn FnMut(&str)) -> Result<Recording, VerifyError> {
    let tracefs = Tracefs::open().map_err(RecordError::from)?;
    let interruption = Interruption::watch().map_err(|source| failed("signals", source))?;
    // Settings are restored in reverse order: those noted after these files have the user's values again
    // before pages are freed.
    for path in pool_files().into_iter().chain([sysctl("vm.nr_overcommit_hugepages")]) {
        tracefs.guard().setting(path)?;
    }
    let optimize = tracefs.guard().setting(sysctl(OPTIMIZE))?;
    let instance = prepare(&tracefs).map_err(RecordError::from)?;
    let writer = Writer::start(&instance)?;
    let mut kernel = Kernel { writer, instance, optimize, interruption, _tracefs: tracefs };

    let mut recording = Recording { machine: machine()?, notes: Vec::new(), cases: Vec::new() };
    // A third of the memory stays free for other users.
    let spare = amount("MemTotal")? / 3;
    for case in Case::all() {
        let free = amount("MemFree")?;
        if case.peak_kib().saturating_add(spare) > free {
            let (needed, free) = (case.peak_kib() >> 10, free >> 10);
            recording.notes.push(format!(
                "{} was skipped: it needs {needed} MiB of {free} MiB free, and a third of the memory must stay free; \
                 what the page cache holds is not free: `sync; echo 3 > {}` frees it",
                case.name,
                sysctl("vm.drop_caches").display()
            ));
            continue;
        }
        recording.cases.push(kernel.record(&case, progress)?);
    }
    Ok(recording)
}

/// Fields are dropped in this order: the writer has a file of the instance open.
struct Kernel {
    writer: Writer,
    instance: Instance,
    optimize: Setting,
    interruption: Interruption,
    _tracefs: Tracefs,
}

impl Kernel {
    fn record(&mut self, case: &Case, progress: &mut dyn FnMut(&str)) -> Result<RecordedCase, VerifyError> {
        let mut recorded =
            RecordedCase { name: case.name.clone(), mem_free_kib: amount("MemFree")?, steps: Vec::new() };
        for write in &case.writes {
            progress(&format!("{}: writing {}", case.name, write.pages));
            let counts = self.step(write)?;
            recorded.steps.push(Step { write: *write, untraced_us: Vec::new(), counts: Some(counts) });
        }
        for _ in 0..UNTRACED_ROUNDS {
            for step in &mut recorded.steps {
                let elapsed = self.write(&step.write, false)?;
                step.untraced_us.push(elapsed);
            }
        }
        Ok(recorded)
    }

    fn step(&mut self, write: &Write) -> Result<KernelCounts, VerifyError> {
        self.instance.write("trace", "").map_err(RecordError::from)?;
        let before = State::read()?;
        let elapsed = self.write(write, true)?;
        let after = State::read()?;
        let mut lost = 0;
        for cpu in self.instance.cpus().map_err(RecordError::from)? {
            lost += self.instance.statistics(cpu).map_err(RecordError::from)?.lost;
        }
        let trace = self.instance.path("trace").display().to_string();
        if lost > 0 {
            return Err(failed(trace, io::Error::other(format!("{lost} events were lost; try again"))));
        }
        let text = self.instance.read("trace").map_err(RecordError::from)?;
        let counts = KernelCounts::of_trace(&text, online_cpus().saturating_sub(1));
        let counts = counts.map_err(|problem| failed(trace, io::Error::other(problem)))?;
        let change = |name: &str| {
            let (before, after) = (before.vmstat.get(name)?, after.vmstat.get(name)?);
            Some(*after as i64 - *before as i64)
        };
        Ok(KernelCounts {
            nr_memmap_pages: change("nr_memmap_pages"),
            nr_memmap_boot_pages: change("nr_memmap_boot_pages"),
            htlb_buddy_alloc_success: change("htlb_buddy_alloc_success"),
            htlb_buddy_alloc_fail: change("htlb_buddy_alloc_fail"),
            managed: Some(after.managed as i64 - before.managed as i64),
            traced_us: Some(elapsed),
            pool: after.pool,
            ..counts
        })
    }

    /// Writes a count, unless a signal has arrived. Returns the time it took in microseconds.
    fn write(&self, write: &Write, traced: bool) -> Result<u64, VerifyError> {
        if self.interruption.asked() {
            return Err(VerifyError::Interrupted);
        }
        let optimize = if write.hvo { "1" } else { "0" };
        self.optimize.set(optimize).map_err(|source| failed(OPTIMIZE, source))?;
        let path = write.path();
        let request = Request { path: path.clone(), pages: write.pages, traced };
        self.writer.ask(request).map_err(|source| failed(path.display().to_string(), source))
    }
}

/// Creates an instance with the events enabled and tracing off.
fn prepare(tracefs: &Tracefs) -> Result<Instance, TracefsError> {
    let instance = Instance::create(tracefs)?;
    instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
    for event in EVENTS {
        instance.write(&format!("events/{event}/enable"), "1")?;
    }
    Ok(instance)
}

struct Request {
    path: PathBuf,
    pages: u64,
    traced: bool,
}

/// The writer thread; dropping this ends it.
struct Writer {
    requests: Option<mpsc::Sender<Request>>,
    answers: mpsc::Receiver<io::Result<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, and restricts the instance to its events.
    fn start(instance: &Instance) -> Result<Writer, VerifyError> {
        let switch = instance.path("tracing_on");
        let (requests, inbox) = mpsc::channel::<Request>();
        let (outbox, answers) = mpsc::channel();
        let (introduce, introduction) = mpsc::channel();
        // The name must not confuse the parser of `trace`.
        let thread = std::thread::Builder::new().name("mmtwin-write".into()).spawn(move || {
            let _ = introduce.send(gettid().as_raw_nonzero().get());
            for request in inbox {
                if outbox.send(request.carry_out(&switch)).is_err() {
                    return;
                }
            }
        });
        let thread = thread.map_err(|source| failed("a thread", source))?;
        let writer = Writer { requests: Some(requests), answers, thread: Some(thread) };
        let task = introduction.recv().map_err(|error| failed("a thread", io::Error::other(error)))?;
        instance.write("set_event_pid", &task.to_string()).map_err(RecordError::from)?;
        Ok(writer)
    }

    fn ask(&self, request: Request) -> io::Result<u64> {
        let gone = || io::Error::other("the writing thread is gone");
        self.requests.as_ref().ok_or_else(gone)?.send(request).map_err(|_| gone())?;
        self.answers.recv().map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Request {
    fn carry_out(&self, switch: &Path) -> io::Result<u64> {
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        let mut switch = OpenOptions::new().write(true).open(switch)?;
        let text = self.pages.to_string();
        if self.traced {
            switch.write_all(b"1")?;
        }
        let start = Instant::now();
        let written = file.write_all(text.as_bytes());
        let elapsed = start.elapsed();
        if self.traced {
            switch.write_all(b"0")?;
        }
        written.map(|()| elapsed.as_micros() as u64)
    }
}

/// The kernel's own counters.
struct State {
    pool: Pool,
    vmstat: BTreeMap<String, u64>,
    managed: u64,
}

impl State {
    fn read() -> Result<State, VerifyError> {
        let zones = parse_zoneinfo(&text("/proc/zoneinfo")?)?;
        let of_pool = |name: &str| {
            let path = format!("/sys/kernel/mm/hugepages/hugepages-{HUGE_PAGE_KIB}kB/{name}_hugepages");
            let value = text(&path)?;
            value.trim().parse().map_err(|error| failed(path, io::Error::other(error)))
        };
        Ok(State {
            pool: Pool {
                total: of_pool("nr")?,
                free: Some(of_pool("free")?),
                surplus: Some(of_pool("surplus")?),
            },
            vmstat: parse_vmstat(&text("/proc/vmstat")?)?,
            managed: zones.populated().map(|zone| zone.managed).sum(),
        })
    }
}

/// The machine, described as in other recordings.
fn machine() -> Result<crate::recordings::Description, VerifyError> {
    let info = parse_zoneinfo(&text("/proc/zoneinfo")?)?;
    let populated: Vec<_> = info.populated().filter(|zone| zone.start_pfn.is_some()).collect();
    let zones: Vec<_> = populated.iter().map(|zone| replay_zone(zone, 0)).collect();
    let release = snapshot::kernel_release();
    let mut machine = description(&release, online_cpus() as u16, &populated, &zones);
    machine.workload = "counts written to vm.nr_hugepages".into();
    machine.settings = snapshot::settings();
    for (described, zone) in machine.zones.iter_mut().zip(populated) {
        described.managed = zone.managed as u32;
    }
    Ok(machine)
}

/// The nr_hugepages files of each size on each node.
fn pool_files() -> Vec<PathBuf> {
    let entries = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let nodes = entries("/sys/devices/system/node".into());
    let mut files: Vec<PathBuf> = nodes
        .into_iter()
        .flat_map(|node| entries(node.join("hugepages")))
        .map(|size| size.join("nr_hugepages"))
        .collect();
    if files.is_empty() {
        let sizes = entries("/sys/kernel/mm/hugepages".into());
        files = sizes.into_iter().map(|size| size.join("nr_hugepages")).collect();
    }
    files
}

fn online_cpus() -> u64 {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    text.trim().split(',').map(cpus_in_range).sum()
}

/// A value in /proc/meminfo.
fn amount(name: &str) -> Result<u64, VerifyError> {
    let amounts = parse_meminfo(&text("/proc/meminfo")?)?;
    let missing = || failed("/proc/meminfo", io::Error::other(format!("it has no line `{name}`")));
    amounts.get(name).copied().ok_or_else(missing)
}

fn text(path: &str) -> Result<String, VerifyError> {
    fs::read_to_string(path).map_err(|source| failed(path, source))
}
