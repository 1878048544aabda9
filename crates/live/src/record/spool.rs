//! The spool: the ring buffers' content on its way to the trace.
//!
//! ```text
//!   per_cpu/cpu0/trace_pipe_raw --splice--> pipe --splice--> build.parquet.spool/cpu0.raw
//!   per_cpu/cpu1/trace_pipe_raw --splice--> pipe --splice--> build.parquet.spool/cpu1.raw
//!                                                            build.parquet.spool/complete         until when, each CPU
//!                                                            build.parquet.spool/recording.json
//! ```
//!
//! splice(2) moves whole sub-buffers and nothing else; read(2) would hand over half-filled ones, a page of file
//! for a few events, and falls behind. Only sub-buffers that are not full are read, twice a second and at the end.
//! One thread a CPU sleeps until its buffer is half full (the instance's `buffer_percent`) or a tenth of a
//! second has passed.
//!
//! After each such reading `complete` says until when all events of the CPU are in its file. What came later is there
//! in part, when a recorder is killed or a disk is full, and is left out of the trace: what is in it is all that
//! happened until its end.
//!
//! `recording.json` says all that is needed to make a trace of the `.raw` files. It is there before the command starts, so
//! that [`super::recover`] can do its work whatever happens to the recorder then, and is the first to go when the trace is
//! written: a spool without it holds nothing that is wanted.
//!
//! The directory is its user's alone, and all in it is opened by its own name in this directory, wherever that may have been
//! moved meanwhile. An anonymized recording has nothing in it that must not be kept ([`Anonymizer`]).

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::process::geteuid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use workload::trace::Metadata;

use super::anonymize::Anonymizer;
use super::{Demand, RecordError};
use crate::tracefs::{EventFormat, FormatError, Instance};

/// Bytes that a thread moves at once: the largest pipe that an unprivileged user may have, too.
const PIPE_BYTES: usize = 1 << 20;

/// Time between two readings of sub-buffers that are not full.
const FLUSH: Duration = Duration::from_millis(500);

const MANIFEST: &str = "recording.json";
const NEW_MANIFEST: &str = "recording.json.new";
const COMPLETE: &str = "complete";

/// Bytes of a time in `complete`.
const TIME_BYTES: usize = 8;

/// The description of a spool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// What was recorded.
    #[serde(default)]
    pub demand: Demand,
    /// Names were hidden when it was recorded.
    pub anonymize: bool,
    /// Text of `events/header_page`.
    pub header_page: String,
    /// Text of each event's `format`.
    pub formats: Vec<String>,
    /// The CPUs that have a file.
    pub cpus: Vec<u16>,
    /// Events of each of them that the kernel says it lost; empty as long as it was not asked.
    pub lost: Vec<u64>,
    /// What is known of the trace so far.
    pub metadata: Metadata,
}

impl Manifest {
    /// The formats of the events.
    pub fn parsed_formats(&self) -> Result<Vec<EventFormat>, FormatError> {
        self.formats.iter().map(|text| EventFormat::parse(text)).collect()
    }
}

/// Where the recording of the file `output` is kept until it is a trace: `output` with `.spool` added.
pub fn spool_directory(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".spool");
    PathBuf::from(name)
}

/// The file of one CPU.
fn cpu_file(cpu: u16) -> String {
    format!("cpu{cpu}.raw")
}

/// A spool, which nobody else uses meanwhile. The kernel takes the lock back when the process ends, however it ends.
pub struct Spool {
    path: PathBuf,
    directory: File,
}

impl Spool {
    /// Makes it.
    pub fn create(path: &Path) -> Result<Spool, RecordError> {
        DirBuilder::new()
            .mode(0o700)
            .create(path)
            .map_err(|source| RecordError::Spool { path: path.to_path_buf(), source })?;
        Spool::open(path)
    }

    /// Opens the one that somebody left.
    pub fn open(path: &Path) -> Result<Spool, RecordError> {
        let error = |source| RecordError::Spool { path: path.to_path_buf(), source };
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32;
        let directory = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(error)?;
        let owner = directory.metadata().map_err(error)?.uid();
        if owner != geteuid().as_raw() {
            return Err(RecordError::ForeignSpool { path: path.to_path_buf(), owner });
        }
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Spool { path: path.to_path_buf(), directory }),
            Err(Errno::WOULDBLOCK) => Err(RecordError::StillRecording(path.to_path_buf())),
            Err(source) => Err(error(source.into())),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its directory, to ask how full the disk is.
    pub fn directory(&self) -> &File {
        &self.directory
    }

    /// The path of a file of it, for errors.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// An error of one of its files.
    pub fn error(&self, name: &str, source: io::Error) -> RecordError {
        RecordError::Spool { path: self.path_of(name), source }
    }

    fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.directory, name, flags, Mode::empty())?))
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Its description; none if nothing was recorded yet, or all of it is in the trace.
    pub fn manifest(&self) -> Result<Option<Manifest>, RecordError> {
        let mut text = String::new();
        match self.open_file(MANIFEST).and_then(|mut file| file.read_to_string(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(MANIFEST, error)),
            Ok(_) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|source| RecordError::Manifest { path: self.path_of(MANIFEST), source }),
        }
    }

    /// Describes it; a reader sees the old or the new description, never half of it.
    pub fn describe(&self, manifest: &Manifest) -> Result<(), RecordError> {
        let text = serde_json::to_string(manifest)
            .map_err(|source| RecordError::Manifest { path: self.path_of(MANIFEST), source })?;
        let written = || -> io::Result<()> {
            self.remove_file(NEW_MANIFEST)?;
            self.create_file(NEW_MANIFEST)?.write_all(text.as_bytes())?;
            Ok(renameat(&self.directory, NEW_MANIFEST, &self.directory, MANIFEST)?)
        };
        written().map_err(|source| self.error(MANIFEST, source))
    }

    /// What was moved from a CPU's buffer.
    pub fn cpu(&self, cpu: u16) -> Result<(PathBuf, File), RecordError> {
        let name = cpu_file(cpu);
        let file = self.open_file(&name).map_err(|source| self.error(&name, source))?;
        Ok((self.path_of(&name), file))
    }

    /// The time, on the trace clock, until which all events of all CPUs are there.
    pub fn complete_until(&self, manifest: &Manifest) -> Result<u64, RecordError> {
        let mut bytes = vec![0; manifest.cpus.len() * TIME_BYTES];
        let read = self.open_file(COMPLETE).and_then(|mut file| file.read_exact(&mut bytes));
        read.map_err(|source| self.error(COMPLETE, source))?;
        let (times, _) = bytes.as_chunks::<TIME_BYTES>();
        Ok(times.iter().map(|time| u64::from_le_bytes(*time)).min().unwrap_or(u64::MAX))
    }

    /// Removes it; its description goes first. Files that are none of a spool stay, and are an error.
    pub fn remove(self) -> Result<(), RecordError> {
        let remove = || -> io::Result<()> {
            self.remove_file(MANIFEST)?;
            for entry in Dir::read_from(&self.directory)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                let is_cpu = name.strip_prefix("cpu").and_then(|rest| rest.strip_suffix(".raw"));
                let is_cpu = is_cpu.is_some_and(|cpu| cpu.parse::<u16>().is_ok());
                if is_cpu || [NEW_MANIFEST, COMPLETE].contains(&name) {
                    self.remove_file(name)?;
                }
            }
            std::fs::remove_dir(&self.path)
        };
        remove().map_err(|source| RecordError::Spool { path: self.path.clone(), source })
    }
}

/// All CPUs' buffers being moved to their files. Dropping it stops that.
pub struct Streams {
    /// The CPUs.
    pub cpus: Vec<u16>,
    /// Size of the ring buffer of each, bytes.
    pub buffer_bytes: u64,
    stop: Arc<AtomicBool>,
    streams: Vec<Stream>,
}

struct Stream {
    path: PathBuf,
    task: i32,
    bytes: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

impl Streams {
    /// Starts a thread for each CPU. With an anonymizer, all passes through it.
    pub fn start(
        instance: &Instance,
        cpus: &[u16],
        spool: &Spool,
        sub_buffer_bytes: usize,
        anonymizer: Option<Anonymizer>,
    ) -> Result<Streams, RecordError> {
        let kib = instance.read("buffer_size_kb")?.trim().parse::<u64>().unwrap_or(1);
        let anonymizer = anonymizer.map(Arc::new);
        let complete = || -> io::Result<File> {
            let file = spool.create_file(COMPLETE)?;
            file.write_all_at(&vec![0; cpus.len() * TIME_BYTES], 0)?;
            Ok(file)
        };
        let complete = Arc::new(complete().map_err(|source| spool.error(COMPLETE, source))?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut all =
            Streams { cpus: cpus.to_vec(), buffer_bytes: kib.max(1) * 1024, stop, streams: Vec::new() };
        for (place, &cpu) in cpus.iter().enumerate() {
            let buffer = instance.open_buffer(cpu)?;
            let name = cpu_file(cpu);
            let mover = || -> io::Result<Mover> {
                let (pipe_out, pipe_in) = pipe_with(PipeFlags::CLOEXEC)?;
                // Refused where the limit is lower: the default size serves, in more calls.
                let _ = fcntl_setpipe_size(&pipe_in, PIPE_BYTES);
                Ok(Mover {
                    buffer,
                    pipe: (pipe_out, pipe_in),
                    file: spool.create_file(&name)?,
                    complete: complete.clone(),
                    place: (place * TIME_BYTES) as u64,
                    sub_buffer: vec![0; sub_buffer_bytes],
                    anonymizer: anonymizer.clone(),
                    bytes: Arc::default(),
                })
            };
            let stream =
                mover().and_then(|mover| Stream::start(mover, spool.path_of(&name), all.stop.clone()));
            all.streams.push(stream.map_err(|source| spool.error(&name, source))?);
        }
        Ok(all)
    }

    /// Pids of the recorder: its process, this thread, the threads of the streams.
    pub fn tasks(&self) -> Vec<i32> {
        let mut tasks = vec![std::process::id() as i32, gettid().as_raw_nonzero().get()];
        tasks.extend(self.streams.iter().map(|stream| stream.task));
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// Bytes moved so far.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bytes.load(Ordering::Relaxed)).sum()
    }

    /// A thread has ended without being told to: it could not write.
    pub fn any_finished(&self) -> bool {
        self.streams.iter().any(|stream| stream.thread.is_finished())
    }

    /// Moves what is left in the buffers, and ends. The first error is given back.
    pub fn join(mut self) -> Result<(), RecordError> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> Result<(), RecordError> {
        self.stop.store(true, Ordering::Release);
        let mut outcome = Ok(());
        for stream in self.streams.drain(..) {
            let result =
                stream.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
            outcome = outcome.and(result.map_err(|source| RecordError::Spool { path: stream.path, source }));
        }
        outcome
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // Reached with threads only when something else has failed, which is being reported.
        let _ = self.stop_all();
    }
}

impl Stream {
    fn start(mut mover: Mover, path: PathBuf, stop: Arc<AtomicBool>) -> io::Result<Stream> {
        let bytes = mover.bytes.clone();
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("mmtwin-spool".to_string()).spawn(move || {
            // Fails only if nobody waits for it any more.
            let _ = sender.send(gettid().as_raw_nonzero().get());
            mover.run(&stop)
        })?;
        let task = receiver.recv().map_err(io::Error::other)?;
        Ok(Stream { path, task, bytes, thread })
    }
}

/// Moves one CPU's buffer to its file.
struct Mover {
    buffer: File,
    /// Its ends for reading and for writing.
    pipe: (OwnedFd, OwnedFd),
    file: File,
    complete: Arc<File>,
    /// Where in `complete` this CPU's time is.
    place: u64,
    sub_buffer: Vec<u8>,
    anonymizer: Option<Arc<Anonymizer>>,
    bytes: Arc<AtomicU64>,
}

impl Mover {
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let (mut flushed, mut before) = (Instant::now(), trace_clock());
        loop {
            // Read first: what comes in after it is set is not wanted, what came before is moved below.
            let stopping = stop.load(Ordering::Acquire);
            self.move_full()?;
            if stopping {
                self.move_rest()?;
                return self.complete_until(u64::MAX);
            }
            if flushed.elapsed() >= FLUSH {
                let now = trace_clock();
                self.move_rest()?;
                // An event has its time before it is in the buffer, but not by as much as the time since `before`.
                self.complete_until(before)?;
                (flushed, before) = (Instant::now(), now);
            }
            match poll(&mut [PollFd::new(&self.buffer, PollFlags::IN)], Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves sub-buffers that are full.
    fn move_full(&mut self) -> io::Result<()> {
        loop {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            let mut in_pipe = match splice(&self.buffer, None, &self.pipe.1, None, PIPE_BYTES, flags) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                result => result?,
            };
            while in_pipe > 0 {
                let moved = match &self.anonymizer {
                    Some(_) => self.move_anonymized()?,
                    None => match splice(&self.pipe.0, None, &self.file, None, in_pipe, SpliceFlags::MOVE) {
                        Err(Errno::INTR) => continue,
                        result => result?,
                    },
                };
                in_pipe = in_pipe.saturating_sub(moved);
                self.bytes.fetch_add(moved as u64, Ordering::Relaxed);
            }
        }
    }

    /// Moves one sub-buffer from the pipe.
    fn move_anonymized(&mut self) -> io::Result<usize> {
        let mut filled = 0;
        while filled < self.sub_buffer.len() {
            match rustix::io::read(&self.pipe.0, &mut self.sub_buffer[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.write_sub_buffer()?;
        Ok(filled)
    }

    /// Moves what is in sub-buffers that are not full.
    fn move_rest(&mut self) -> io::Result<()> {
        loop {
            match self.buffer.read(&mut self.sub_buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    // A short read is filled up: the file consists of whole sub-buffers.
                    self.sub_buffer[length..].fill(0);
                    self.write_sub_buffer()?;
                    self.bytes.fetch_add(self.sub_buffer.len() as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write_sub_buffer(&mut self) -> io::Result<()> {
        if let Some(anonymizer) = &self.anonymizer {
            anonymizer.apply(&mut self.sub_buffer).map_err(io::Error::other)?;
        }
        self.file.write_all(&self.sub_buffer)
    }

    fn complete_until(&self, time: u64) -> io::Result<()> {
        self.complete.write_all_at(&time.to_le_bytes(), self.place)
    }
}

/// Nanoseconds on the trace clock, `mono`.
fn trace_clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
