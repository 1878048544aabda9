//! Recording what a command, and everything else on the machine meanwhile, asks of the page allocator or of the page
//! cache.
//!
//! ```text
//!   make an instance, enable the events         nothing is traced yet
//!   start the command, held                     it has not run its first instruction
//!   take the "before" snapshot                  /proc/zoneinfo and its neighbours
//!   tracing on, release the command   ---.
//!   move the buffers to the spool        |      one thread a CPU
//!   the command ends, tracing off     ---'
//!   take the "after" snapshot
//!   remove the instance                         the kernel is as before
//!   merge the CPUs into the trace, remove the spool
//! ```
//!
//! The whole machine is recorded, because all tasks share the allocator and the cache; who asked is in each event. The
//! recorder is one of them: its threads write the spool, which takes page cache, two to four events in a hundred.
//! Their pids are in [`Metadata::recorder_tasks`]. The buffers are allocated before the first snapshot, which
//! leaves the per-CPU lists higher than they were (`high` in zoneinfo decays within half a minute).
//!
//! An event costs the recorded command about 170 ns and the spool 31 bytes; the trace has about 5 bytes
//! an event (measured on 6.18, EPYC).
//!
//! The trace is a file that is there when it is whole, or goes into a pipe or device ([`workload::output`]). The spool of a
//! file is beside it, that of another in /var/tmp.
//!
//! Nothing outside the instance is changed. It is removed on success, on an error, on Ctrl-C and on SIGTERM;
//! what was recorded by then becomes the trace. Should the recorder be killed, its instance is removed all the same
//! ([`crate::rollback`]), and [`recover`] makes the trace of its spool.
//!
//! Events are lost if a buffer fills faster than the disk takes it. They are counted, and the trace says on which CPU and
//! when: the result is then [`RecordError::Lost`]. Of a recorder that is killed or whose disk is full of a sudden the trace
//! ends where all CPUs' events are there, at most a second before.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use workload::output::{Existing, Output, remove_abandoned};
use workload::trace::{Ending, FORMAT, Metadata};

use self::anonymize::Anonymizer;
use self::command::Command;
use self::interruption::Interruption;
use self::spool::{Manifest, Spool, Streams};
use self::tracepoints::{Decoder, TRACEPOINTS, Tracepoint, WORK_FUNCTION};
use crate::snapshot;
use crate::tracefs::{EventFormat, Instance, SubBufferLayout, Tracefs};

mod anonymize;
mod command;
mod convert;
mod error;
pub(crate) mod interruption;
mod names;
mod page_cache;
mod spool;
pub(crate) mod tracepoints;

pub use error::RecordError;
pub use spool::spool_directory;
pub use tracepoints::DecodeError;

#[cfg(test)]
mod tests;

/// Ring buffer per CPU if nothing else is said, KiB: at two million events a second, half a second's worth.
pub const DEFAULT_BUFFER_KIB: u64 = 32768;

/// The trace clock: monotonic, the same on all CPUs.
const CLOCK: &str = "mono";

/// Time between two reports of progress.
const REPORT: Duration = Duration::from_millis(500);

/// Recording stops when the disk has less left than this and a quarter of the spool, which the trace needs.
const SPARE_DISK: u64 = 64 << 20;

/// Whose demand is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// Pages allocated and freed: a [`workload::trace`].
    #[default]
    PageAllocator,
    /// Pages of files looked up: a trace that [`workload::access`] reads.
    PageCache,
}

/// What to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose demand.
    pub demand: Demand,
    /// The trace to write.
    pub output: PathBuf,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Size of the kernel's ring buffer, KiB per CPU. A larger one survives longer pauses of the disk.
    pub buffer_kib: u64,
    /// Replace the tasks' names by task-1, task-2, ... and leave out the command, devices and inodes, for traces that are
    /// given away.
    pub anonymize: bool,
    /// Replace `output` if it exists.
    pub force: bool,
}

impl Options {
    /// Records `command` to `output`, with the default buffer.
    pub fn new(output: impl Into<PathBuf>, command: Vec<String>) -> Options {
        let output = output.into();
        let demand = Demand::PageAllocator;
        Options { demand, output, command, buffer_kib: DEFAULT_BUFFER_KIB, anonymize: false, force: false }
    }
}

/// How far it is, about twice a second.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Something that the user should know: a stale instance was removed, the disk is nearly full, ...
    Notice(String),
    /// The command runs.
    Recording {
        /// Seconds since it started.
        seconds: f64,
        /// Events so far, all CPUs.
        events: u64,
        /// Bytes in the spool so far.
        bytes: u64,
        /// How full each CPU's ring buffer is, 0 to 1. At 1 events are lost.
        fill: Vec<f64>,
    },
    /// The trace is being written.
    Converting {
        /// Events written.
        events: u64,
        /// How much of the spool is done, 0 to 1.
        fraction: f64,
    },
}

/// What was recorded.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The trace.
    pub output: PathBuf,
    /// Events in it.
    pub events: u64,
    /// Events of each operation or kind that occurred, by its name.
    pub by_operation: Vec<(&'static str, u64)>,
    /// Seconds from the first event to the last.
    pub seconds: f64,
    /// Events that the kernel dropped.
    pub lost: u64,
    /// Events after the last of the trace, of which not all were recorded.
    pub left_out: u64,
    /// Size of the trace.
    pub bytes: u64,
    /// How the recording ended.
    pub ended: Ending,
    /// The command's exit status; `None` if it is not known (after [`recover`]).
    pub status: Option<ExitStatus>,
}

impl Summary {
    /// Events per second of recording.
    pub fn events_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.events as f64 / self.seconds } else { 0.0 }
    }

    /// Size of the trace per event.
    pub fn bytes_per_event(&self) -> f64 {
        self.bytes as f64 / self.events.max(1) as f64
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} events in {:.1} s ({:.0} a second), {} lost, {} bytes ({:.1} an event)",
            self.output.display(),
            self.events,
            self.seconds,
            self.events_per_second(),
            self.lost,
            self.bytes,
            self.bytes_per_event()
        )?;
        for (operation, count) in &self.by_operation {
            writeln!(f, "  {operation:<20} {count:>12}")?;
        }
        Ok(())
    }
}

/// Records a command. Needs root and tracefs; see the module's text for what happens when.
///
/// Events that were lost are an error, [`RecordError::Lost`], although the trace is written: its summary is
/// in the error. A command that fails is none: its status is in the summary.
pub fn record(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Summary, RecordError> {
    if options.command.is_empty() {
        return Err(RecordError::NoCommand);
    }
    let output = Output::at(&options.output, existing(options.force))?;
    let path = match output.file() {
        Some(_) => spool_directory(output.path()),
        None => new_spool_path(progress)?,
    };
    clean_up(&output, progress);
    if fs::symlink_metadata(&path).is_ok() {
        // Fails if it is in use.
        let spool = Spool::open(&path)?;
        if spool.manifest()?.is_some() {
            return Err(RecordError::LeftOver { spool: path, output: options.output.clone() });
        }
        spool.remove()?;
        progress(Progress::Notice(format!(
            "removed {}, in which nothing was left to recover",
            path.display()
        )));
    }

    let tracefs = Tracefs::open()?;
    let mut interruption =
        Interruption::watch().map_err(|source| RecordError::Spool { path: path.clone(), source })?;
    let spool = Spool::create(&path)?;
    let result = fill_spool(options, &output, &tracefs, &spool, &interruption, progress);
    drop(tracefs);
    // From here on a signal ends the process: the kernel is as before, and the spool can be recovered.
    interruption.stop_watching();
    match result {
        Ok((manifest, status)) => finish(spool, &manifest, &output, status, progress),
        Err(source) => match spool.manifest() {
            // Nothing was recorded yet.
            Ok(None) => {
                spool.remove()?;
                Err(source)
            }
            _ => Err(kept(source, spool.path(), &output)),
        },
    }
}

/// Makes the trace `output` of the spool that a killed recorder left (see [`spool_directory`]).
pub fn recover(
    spool: &Path,
    output: &Path,
    force: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Summary, RecordError> {
    let output = Output::at(output, existing(force))?;
    clean_up(&output, progress);
    let spool = Spool::open(spool)?;
    match spool.manifest()? {
        Some(manifest) => finish(spool, &manifest, &output, None, progress),
        None => {
            let path = spool.path().to_path_buf();
            spool.remove()?;
            Err(RecordError::NothingRecorded(path))
        }
    }
}

fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}

/// Where a spool is kept whose trace goes into a pipe or device.
fn new_spool_path(progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, RecordError> {
    let place = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    let error = |source| RecordError::Spool { path: place.clone(), source };
    let directory = tempfile::Builder::new().prefix("mmtwin-").suffix(".spool").tempdir_in(&place);
    // Only its name is wanted.
    let path = directory.map_err(error)?.path().to_path_buf();
    progress(Progress::Notice(format!(
        "until the trace is written, what is recorded is kept in {}",
        path.display()
    )));
    Ok(path)
}

/// Removes what killed recorders left, before anything else is judged. What cannot be removed is tried again where it is in the way.
fn clean_up(output: &Output, progress: &mut dyn FnMut(Progress)) {
    let directory = output.file().and_then(Path::parent).filter(|place| *place != OsStr::new(""));
    for path in remove_abandoned(directory.unwrap_or(Path::new("."))).unwrap_or_default() {
        progress(Progress::Notice(format!("removed {}, left by a process that was killed", path.display())));
    }
}

/// Records into `spool`. Whatever happens, the instance is gone afterwards.
fn fill_spool(
    options: &Options,
    output: &Output,
    tracefs: &Tracefs,
    spool: &Spool,
    interruption: &Interruption,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Manifest, Option<ExitStatus>), RecordError> {
    let instance = Instance::create(tracefs)?;
    let formats = prepare(&instance, options, progress)?;
    let header_page = instance.read("events/header_page")?;
    let layout = SubBufferLayout::parse(&header_page)?;
    let cpus = instance.cpus()?;
    // Declared after `instance`: on an early return its buffers are closed before it is removed.
    let anonymizer = options.anonymize.then(|| anonymizer(options.demand, layout, &formats)).transpose()?;
    let streams = Streams::start(&instance, &cpus, spool, layout.size, anonymizer)?;
    let mut command = Command::start(&options.command, output.is_standard_output())?;
    let failed = |source| RecordError::CommandStart { command: options.command[0].clone(), source };

    let mut manifest = Manifest {
        demand: options.demand,
        anonymize: options.anonymize,
        header_page,
        formats,
        cpus,
        lost: Vec::new(),
        metadata: Metadata {
            format: FORMAT,
            mmtwin_version: env!("CARGO_PKG_VERSION").to_string(),
            kernel_release: snapshot::kernel_release(),
            command: if options.anonymize { Vec::new() } else { options.command.clone() },
            command_task: command.pid(),
            recorder_tasks: streams.tasks(),
            clock: CLOCK.to_string(),
            ended: Ending::RecorderKilled,
            settings: snapshot::settings(),
            caches: snapshot::caches(),
            ..Metadata::default()
        },
    };
    manifest.metadata.before = snapshot::snapshot();
    instance.write("tracing_on", "1")?;
    spool.describe(&manifest)?;
    command.release().map_err(failed)?;

    let mut ended =
        attend(&mut command, &instance, &streams, interruption, spool, progress).map_err(failed)?;
    instance.write("tracing_on", "0")?;
    manifest.metadata.after = snapshot::snapshot();
    if let Err(error) = streams.join() {
        progress(Progress::Notice(format!("recording stopped early: {error}")));
        ended = Ending::DiskFull;
    }
    let lost = |&cpu: &u16| instance.statistics(cpu).map(|statistics| statistics.lost);
    manifest.lost = manifest.cpus.iter().map(lost).collect::<Result<_, _>>()?;
    manifest.metadata.ended = ended;
    spool.describe(&manifest)?;
    drop(instance);

    // Who asks for a signal has to heed it: nobody does once the command has ended.
    let mut status = command.wait(Duration::ZERO).map_err(failed)?;
    while status.is_none() && !interruption.asked() {
        status = command.wait(REPORT).map_err(failed)?;
    }
    if status.is_none() {
        status = command.end().map_err(failed)?;
    }
    Ok((manifest, status))
}

fn anonymizer(
    demand: Demand,
    layout: SubBufferLayout,
    formats: &[String],
) -> Result<Anonymizer, RecordError> {
    let formats = formats.iter().map(|text| EventFormat::parse(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(match demand {
        Demand::PageAllocator => Anonymizer::new(layout, &TRACEPOINTS, &formats),
        Demand::PageCache => Anonymizer::new(layout, &page_cache::TRACEPOINTS, &formats),
    }?)
}

/// Sets up the instance, tracing still off. Returns the formats of its events.
fn prepare(
    instance: &Instance,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<String>, RecordError> {
    let kib = options.buffer_kib;
    instance.write("trace_clock", CLOCK)?;
    instance
        .write("buffer_size_kb", &kib.to_string())
        .map_err(|source| RecordError::Buffer { kib, source })?;
    match options.demand {
        Demand::PageAllocator => {
            for tracepoint in TRACEPOINTS.iter().filter(|tracepoint| tracepoint.system == "workqueue") {
                require(instance, tracepoint)?;
                filter_work(instance, tracepoint)?;
            }
            enable(instance, &TRACEPOINTS, TRACEPOINTS.len(), progress)
        }
        Demand::PageCache => enable(instance, &page_cache::TRACEPOINTS, page_cache::REQUIRED, progress),
    }
}

/// Enables tracepoints, of which the first `required` must be there. Returns the formats of those that are.
fn enable<K>(
    instance: &Instance,
    tracepoints: &'static [Tracepoint<K>],
    required: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<String>, RecordError> {
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for (index, tracepoint) in tracepoints.iter().enumerate() {
        match require(instance, tracepoint) {
            Ok(directory) => there.push(directory),
            Err(error) if index < required => return Err(error),
            Err(_) => missing.push(tracepoint.full_name()),
        }
    }
    if !missing.is_empty() {
        progress(Progress::Notice(format!(
            "this kernel lacks {}; what they would show is not in the trace",
            missing.join(", ")
        )));
    }
    let read = |directory: &String| instance.read(&format!("{directory}/format"));
    let formats = there.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    // What this kernel's events lack is said now, not after an hour of recording.
    let parsed = formats.iter().map(|text| EventFormat::parse(text)).collect::<Result<Vec<_>, _>>()?;
    Decoder::new(tracepoints, &parsed)?;
    for directory in &there {
        instance.write(&format!("{directory}/enable"), "1")?;
    }
    Ok(formats)
}

/// The directory of a tracepoint, or that the kernel has none.
fn require<K>(instance: &Instance, tracepoint: &Tracepoint<K>) -> Result<String, RecordError> {
    let directory = format!("events/{}/{}", tracepoint.system, tracepoint.name);
    if instance.path(&directory).is_dir() {
        return Ok(directory);
    }
    Err(RecordError::MissingEvent { event: tracepoint.full_name(), release: snapshot::kernel_release() })
}

/// Filters a workqueue event to the function that matters. Kernels before 6.4 do not know it by name in a
/// filter, but take its address.
fn filter_work(instance: &Instance, tracepoint: &Tracepoint) -> Result<(), RecordError> {
    let file = &format!("events/{}/{}/filter", tracepoint.system, tracepoint.name);
    let by_name = instance.write(file, &format!("function.function == {WORK_FUNCTION}"));
    let Err(source) = by_name else { return Ok(()) };
    let failed = |source| RecordError::Filter { event: tracepoint.full_name(), source };
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let address = symbols.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next()?;
        (words.nth(1)? == WORK_FUNCTION && address.bytes().any(|digit| digit != b'0')).then_some(address)
    });
    let Some(address) = address else { return Err(failed(source)) };
    instance.write(file, &format!("function == 0x{address}")).map_err(failed)
}

/// Waits until the command ends, a signal comes or the disk is nearly full, and reports.
fn attend(
    command: &mut Command,
    instance: &Instance,
    streams: &Streams,
    interruption: &Interruption,
    spool: &Spool,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Ending> {
    let start = Instant::now();
    let mut reported = start;
    loop {
        let exited = command.wait(REPORT)?.is_some();
        // A signal that came while all was prepared counts though the command has ended by now.
        if interruption.asked() {
            progress(Progress::Notice(
                "interrupted: ending the command, keeping what is recorded".to_string(),
            ));
            command.end()?;
            return Ok(Ending::Interrupted);
        }
        if exited {
            return Ok(Ending::CommandExited);
        }
        if streams.any_finished() {
            return Ok(Ending::DiskFull);
        }
        let bytes = streams.bytes();
        let disk = rustix::fs::fstatvfs(spool.directory())?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < SPARE_DISK + bytes / 4 {
            let place = spool.path().display();
            progress(Progress::Notice(format!(
                "recording stopped: the disk of {place} is nearly full; the command runs on unrecorded"
            )));
            return Ok(Ending::DiskFull);
        }
        if reported.elapsed() < REPORT / 2 {
            continue;
        }
        reported = Instant::now();
        let statistics = streams.cpus.iter().map(|cpu| instance.statistics(*cpu).unwrap_or_default());
        let (mut events, mut fill) = (0, Vec::new());
        for statistics in statistics {
            events += statistics.entries + statistics.read;
            fill.push((statistics.bytes as f64 / streams.buffer_bytes as f64).min(1.0));
        }
        progress(Progress::Recording { seconds: start.elapsed().as_secs_f64(), events, bytes, fill });
    }
}

/// Makes the trace and removes the spool.
fn finish(
    spool: Spool,
    manifest: &Manifest,
    output: &Output,
    status: Option<ExitStatus>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Summary, RecordError> {
    let converted = output
        .create()
        .map_err(RecordError::from)
        .and_then(|file| convert::convert(&spool, manifest, file, progress))
        .map_err(|source| kept(source, spool.path(), output))?;
    spool.remove()?;
    let summary = Summary {
        output: output.path().to_path_buf(),
        events: converted.metadata.events,
        by_operation: converted.by_operation,
        seconds: converted.metadata.seconds,
        lost: converted.metadata.lost,
        left_out: converted.metadata.left_out,
        bytes: converted.bytes,
        ended: converted.metadata.ended,
        status,
    };
    if summary.lost > 0 { Err(RecordError::Lost(Box::new(summary))) } else { Ok(summary) }
}

fn kept(source: RecordError, spool: &Path, output: &Output) -> RecordError {
    let (spool, output) = (spool.to_path_buf(), output.path().to_path_buf());
    RecordError::Convert { spool, output, source: Box::new(source) }
}
