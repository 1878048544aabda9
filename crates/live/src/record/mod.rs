//! Records the page allocator or page cache events of the whole machine while a command runs.
//!
//! ```text
//!   create an instance, enable the events       tracing is still off
//!   start the command, held                     it has not run its first instruction
//!   take the "before" snapshot                  /proc/zoneinfo and other files
//!   tracing on, release the command   ---.
//!   move the buffers to the spool        |      one thread per CPU
//!   the command exits, tracing off    ---'
//!   take the "after" snapshot
//!   remove the instance                         the kernel is as before
//!   merge the CPUs into the trace, remove the spool
//! ```
//!
//! The whole machine is recorded, because all tasks share the allocator and the page cache; each event has its task. The
//! recorder is one of them: its threads write the spool, which allocates page cache, two to four of a hundred events.
//! Their PIDs are in [`Metadata::recorder_tasks`]. The ring buffers are allocated before the first snapshot, which raises
//! `high` of the per-CPU lists (it decays within half a minute).
//!
//! Each event costs the recorded command about 170 ns, takes 31 bytes in the spool and about 5 bytes in the trace
//! (measured on 6.18, EPYC).
//!
//! The trace is either a file that appears when it is complete, or a pipe or device ([`workload::output`]). The spool of a
//! file is next to it; that of a pipe or device is in /var/tmp.
//!
//! Nothing is changed outside the tracing instance. The instance is removed on success, on an error, on Ctrl-C and on
//! SIGTERM, and the events up to then are written to the trace. If the recorder is killed, its instance is removed all
//! the same ([`crate::rollback`]), and [`recover`] converts its spool.
//!
//! Events are lost if a buffer fills faster than it can be written to disk. The kernel counts them, and the trace has the
//! CPU and the time; the result is then [`RecordError::Lost`]. If the recorder is killed or the disk is suddenly full, the
//! trace ends where the events of all CPUs are complete, at most a second earlier.

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

/// Default size of the ring buffer in KiB per CPU; holds half a second at two million events per second.
pub const DEFAULT_BUFFER_KIB: u64 = 32768;

/// The trace clock: monotonic, and the same on all CPUs.
const CLOCK: &str = "mono";

/// Interval between progress reports.
const REPORT: Duration = Duration::from_millis(500);

/// Recording stops when the free disk space is less than this plus a quarter of the spool, which the trace
/// will take.
const SPARE_DISK: u64 = 64 << 20;

/// Which events are recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// Allocations and frees of pages, as a [`workload::trace`].
    #[default]
    PageAllocator,
    /// Lookups of file pages, as a trace that [`workload::access`] reads.
    PageCache,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub demand: Demand,
    /// Path of the trace.
    pub output: PathBuf,
    pub command: Vec<String>,
    /// Size of the kernel's ring buffer in KiB per CPU. A larger buffer survives longer stalls of the disk.
    pub buffer_kib: u64,
    /// Replace task names by task-1, task-2, ... and leave out the command line, devices and inodes, for
    /// traces that will be published.
    pub anonymize: bool,
    pub force: bool,
}

impl Options {
    /// Options to record `command` to `output`, with the default buffer.
    pub fn new(output: impl Into<PathBuf>, command: Vec<String>) -> Options {
        let output = output.into();
        let demand = Demand::PageAllocator;
        Options { demand, output, command, buffer_kib: DEFAULT_BUFFER_KIB, anonymize: false, force: false }
    }
}

/// Progress reports, about two per second.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A message for the user, such as that a stale instance was removed or that the disk is nearly full.
    Notice(String),
    /// The command is running.
    Recording {
        /// Seconds since the start.
        seconds: f64,
        /// Events so far on all CPUs.
        events: u64,
        /// Bytes in the spool so far.
        bytes: u64,
        /// Fill level of each CPU's ring buffer, 0 to 1. At 1, events are lost.
        fill: Vec<f64>,
    },
    /// The trace is being written.
    Converting {
        /// Events written so far.
        events: u64,
        /// Fraction of the spool that is converted, 0 to 1.
        fraction: f64,
    },
}

/// The result of a recording.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Path of the trace.
    pub output: PathBuf,
    /// Number of events in the trace.
    pub events: u64,
    /// Number of events of each operation or kind that occurred, by name.
    pub by_operation: Vec<(&'static str, u64)>,
    /// Seconds from the first to the last event.
    pub seconds: f64,
    /// Number of events that the kernel dropped.
    pub lost: u64,
    /// Number of events after the end of the trace, which were recorded only in part.
    pub left_out: u64,
    /// Size of the trace in bytes.
    pub bytes: u64,
    pub ended: Ending,
    /// The command's exit status; `None` if unknown (after [`recover`]).
    pub status: Option<ExitStatus>,
}

impl Summary {
    pub fn events_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.events as f64 / self.seconds } else { 0.0 }
    }

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

/// Records a command. Needs root and tracefs; the module's description has the steps.
///
/// # Errors
///
/// [`RecordError::Lost`] if events were lost, although the trace is written; the error has its summary. A
/// command that fails is not an error: its exit status is in the summary.
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
        // Fails if the spool is in use.
        let spool = Spool::open(&path)?;
        if spool.manifest()?.is_some() {
            return Err(RecordError::LeftOver { spool: path, output: options.output.clone() });
        }
        spool.remove()?;
        progress(Progress::Notice(format!("removed {}, which had nothing to recover", path.display())));
    }

    let tracefs = Tracefs::open()?;
    let mut interruption =
        Interruption::watch().map_err(|source| RecordError::Spool { path: path.clone(), source })?;
    let spool = Spool::create(&path)?;
    let result = fill_spool(options, &output, &tracefs, &spool, &interruption, progress);
    drop(tracefs);
    // From here on a signal may kill the process: the kernel's state is restored, and the spool can be
    // recovered.
    interruption.stop_watching();
    match result {
        Ok((manifest, status)) => finish(spool, &manifest, &output, status, progress),
        Err(source) => match spool.manifest() {
            // Recording had not begun yet.
            Ok(None) => {
                spool.remove()?;
                Err(source)
            }
            _ => Err(kept(source, spool.path(), &output)),
        },
    }
}

/// Converts the spool of a killed recorder to the trace `output` (see [`spool_directory`]).
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

/// A path for the spool of a trace that goes into a pipe or device.
fn new_spool_path(progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, RecordError> {
    let place = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    let error = |source| RecordError::Spool { path: place.clone(), source };
    let directory = tempfile::Builder::new().prefix("mmtwin-").suffix(".spool").tempdir_in(&place);
    // Only the name is needed.
    let path = directory.map_err(error)?.path().to_path_buf();
    progress(Progress::Notice(format!("events are kept in {} until the trace is written", path.display())));
    Ok(path)
}

/// Removes temporary files of killed recorders before the output is checked. Errors are ignored here; they
/// are reported when the file turns out to be in the way.
fn clean_up(output: &Output, progress: &mut dyn FnMut(Progress)) {
    let directory = output.file().and_then(Path::parent).filter(|place| *place != OsStr::new(""));
    for path in remove_abandoned(directory.unwrap_or(Path::new("."))).unwrap_or_default() {
        progress(Progress::Notice(format!("removed {}, left behind by a killed process", path.display())));
    }
}

/// Records into `spool`. The tracing instance is removed in any case.
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
    // Declared after `instance`: an early return closes the buffers before it removes the instance.
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
        metadata: metadata(options, &command, &streams),
    };
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

    let status = wait_for_end(&mut command, interruption).map_err(failed)?;
    Ok((manifest, status))
}

/// What a trace says of a recording that begins now; of its end, that the recorder was killed, until that is known.
fn metadata(options: &Options, command: &Command, streams: &Streams) -> Metadata {
    Metadata {
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
        before: snapshot::snapshot(),
        ..Metadata::default()
    }
}

/// Waits for a command that is no longer recorded. A caught signal must be acted upon; once the command has exited, nothing checks for
/// signals any more.
fn wait_for_end(command: &mut Command, interruption: &Interruption) -> io::Result<Option<ExitStatus>> {
    let mut status = command.wait(Duration::ZERO)?;
    while status.is_none() && !interruption.asked() {
        status = command.wait(REPORT)?;
    }
    if status.is_none() {
        status = command.end()?;
    }
    Ok(status)
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

/// Sets up the instance with tracing off. Returns the formats of its events.
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
                filter_work(instance, tracepoint)?;
            }
            for tracepoint in TRACEPOINTS.iter().filter(|tracepoint| tracepoint.system == "vmalloc") {
                filter_stacks(instance, tracepoint)?;
            }
            enable(instance, &TRACEPOINTS, tracepoints::REQUIRED, progress)
        }
        Demand::PageCache => enable(instance, &page_cache::TRACEPOINTS, page_cache::REQUIRED, progress),
    }
}

/// Enables tracepoints, of which the first `required` must exist. Returns the formats of those that do.
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
            "this kernel has no tracepoint {}; the trace lacks its events",
            missing.join(", ")
        )));
    }
    let read = |directory: &String| instance.read(&format!("{directory}/format"));
    let formats = there.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    // Missing fields are reported now, not after an hour of recording.
    let parsed = formats.iter().map(|text| EventFormat::parse(text)).collect::<Result<Vec<_>, _>>()?;
    Decoder::new(tracepoints, &parsed)?;
    for directory in &there {
        instance.write(&format!("{directory}/enable"), "1")?;
    }
    Ok(formats)
}

/// The directory of a tracepoint, or an error if the kernel does not have it.
fn require<K>(instance: &Instance, tracepoint: &Tracepoint<K>) -> Result<String, RecordError> {
    let directory = format!("events/{}/{}", tracepoint.system, tracepoint.name);
    if instance.path(&directory).is_dir() {
        return Ok(directory);
    }
    Err(RecordError::MissingEvent { event: tracepoint.full_name(), release: snapshot::kernel_release() })
}

/// Filters a workqueue event to one function. Kernels before 6.4 accept only its address in a filter, not its
/// name.
fn filter_work(instance: &Instance, tracepoint: &Tracepoint) -> Result<(), RecordError> {
    let file = &format!("{}/filter", require(instance, tracepoint)?);
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

/// Filters an event of vmalloc areas to those of kernel stacks. Kernels before 6.3 do not have the event.
fn filter_stacks(instance: &Instance, tracepoint: &Tracepoint) -> Result<(), RecordError> {
    let Ok(directory) = require(instance, tracepoint) else { return Ok(()) };
    let filtered = instance.write(&format!("{directory}/filter"), tracepoints::STACK_FILTER);
    filtered.map_err(|source| RecordError::Filter { event: tracepoint.full_name(), source })
}

/// Reports progress until the command exits, a signal arrives or the disk is nearly full.
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
        // A signal that arrived during setup counts even if the command has exited since.
        if interruption.asked() {
            progress(Progress::Notice(
                "interrupted: terminating the command, keeping the events so far".to_string(),
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
                "recording stopped: the disk of {place} is nearly full; the command continues without recording"
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

/// Writes the trace and removes the spool.
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
