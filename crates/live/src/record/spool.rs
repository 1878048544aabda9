//! The spool directory: raw contents of the ring buffers until they are converted to the trace.
//!
//! ```text
//!   per_cpu/cpu0/trace_pipe_raw --splice--> pipe --splice--> build.parquet.spool/cpu0.raw
//!   per_cpu/cpu1/trace_pipe_raw --splice--> pipe --splice--> build.parquet.spool/cpu1.raw
//!                                                            build.parquet.spool/complete     for each CPU, a time
//!                                                            build.parquet.spool/recording.json
//! ```
//!
//! splice(2) moves only full sub-buffers; read(2) would also return half-filled ones, each a whole page of
//! the file for a few events, and could not keep up. Sub-buffers that are not full are read only twice a
//! second and at the end. One thread per CPU sleeps until its buffer is half full (the instance's
//! `buffer_percent`) or a tenth of a second has passed.
//!
//! After each such read, `complete` has the time up to which all events of the CPU are in its file. If a
//! recorder is killed or the disk is full, later events are there only in part and are left out of the trace,
//! so that the trace is complete up to its end.
//!
//! `recording.json` has everything needed to convert the `.raw` files. It exists before the command starts,
//! so that [`super::recover`] works whatever happens to the recorder afterwards, and it is removed first when
//! the trace is written: a spool without it can be deleted.
//!
//! The directory is accessible to its user only, and files are opened relative to its descriptor, so that
//! renaming it does no harm. The spool of an anonymized recording contains nothing that had to be hidden
//! ([`Anonymizer`]).

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

/// Bytes that a thread moves at once, which is also the largest pipe that an unprivileged user may have.
const PIPE_BYTES: usize = 1 << 20;

/// Interval between reads of sub-buffers that are not full.
const FLUSH: Duration = Duration::from_millis(500);

const MANIFEST: &str = "recording.json";
const NEW_MANIFEST: &str = "recording.json.new";
const COMPLETE: &str = "complete";

/// Bytes per time in `complete`.
const TIME_BYTES: usize = 8;

/// The contents of `recording.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(default)]
    pub demand: Demand,
    /// Whether names were hidden during the recording.
    pub anonymize: bool,
    /// The text of `events/header_page`.
    pub header_page: String,
    /// The text of each event's `format` file.
    pub formats: Vec<String>,
    /// The CPUs that have a `.raw` file.
    pub cpus: Vec<u16>,
    /// Number of lost events per CPU, according to the kernel; empty until the recording has ended.
    pub lost: Vec<u64>,
    /// The metadata of the trace, as far as known.
    pub metadata: Metadata,
}

impl Manifest {
    pub fn parsed_formats(&self) -> Result<Vec<EventFormat>, FormatError> {
        self.formats.iter().map(|text| EventFormat::parse(text)).collect()
    }
}

/// The spool directory for the trace `output`: its path with `.spool` appended.
pub fn spool_directory(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".spool");
    PathBuf::from(name)
}

/// The file name for a CPU's events.
fn cpu_file(cpu: u16) -> String {
    format!("cpu{cpu}.raw")
}

/// A locked spool directory. The kernel releases the lock when the process ends in any way.
pub struct Spool {
    path: PathBuf,
    directory: File,
}

impl Spool {
    pub fn create(path: &Path) -> Result<Spool, RecordError> {
        DirBuilder::new()
            .mode(0o700)
            .create(path)
            .map_err(|source| RecordError::Spool { path: path.to_path_buf(), source })?;
        Spool::open(path)
    }

    /// Opens an existing spool.
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory's descriptor, used to query free disk space.
    pub fn directory(&self) -> &File {
        &self.directory
    }

    /// The path of a file in the spool, for errors.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// An error about one of its files.
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

    /// The contents of `recording.json`; `None` if recording had not begun yet, or the trace is complete.
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

    /// Writes `recording.json` atomically.
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

    /// The raw events of a CPU, and the path for errors.
    pub fn cpu(&self, cpu: u16) -> Result<(PathBuf, File), RecordError> {
        let name = cpu_file(cpu);
        let file = self.open_file(&name).map_err(|source| self.error(&name, source))?;
        Ok((self.path_of(&name), file))
    }

    /// The time on the trace clock up to which the events of all CPUs are complete.
    pub fn complete_until(&self, manifest: &Manifest) -> Result<u64, RecordError> {
        let mut bytes = vec![0; manifest.cpus.len() * TIME_BYTES];
        let read = self.open_file(COMPLETE).and_then(|mut file| file.read_exact(&mut bytes));
        read.map_err(|source| self.error(COMPLETE, source))?;
        let (times, _) = bytes.as_chunks::<TIME_BYTES>();
        Ok(times.iter().map(|time| u64::from_le_bytes(*time)).min().unwrap_or(u64::MAX))
    }

    /// Removes the spool, `recording.json` first. Files that do not belong to a spool are kept, and are an
    /// error.
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

/// Threads that move the buffers of all CPUs to the spool. Dropping it stops them.
pub struct Streams {
    pub cpus: Vec<u16>,
    /// Size of each CPU's ring buffer in bytes.
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
    /// Starts a thread for each CPU. With an anonymizer, all events pass through it.
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
                // Fails if the user's limit is lower; the default size works with more calls.
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

    /// Thread ids of the recorder: main thread, this thread, and the threads of the streams.
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

    /// Whether a thread has ended by itself, because of a write error.
    pub fn any_finished(&self) -> bool {
        self.streams.iter().any(|stream| stream.thread.is_finished())
    }

    /// Moves the rest of the buffers and stops the threads.
    ///
    /// # Errors
    ///
    /// The first error of a thread.
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
        // If threads are still running here, another error is being reported already.
        let _ = self.stop_all();
    }
}

impl Stream {
    fn start(mut mover: Mover, path: PathBuf, stop: Arc<AtomicBool>) -> io::Result<Stream> {
        let bytes = mover.bytes.clone();
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("mmtwin-spool".to_string()).spawn(move || {
            // Fails only if the receiver is gone.
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
    /// The read end and the write end.
    pipe: (OwnedFd, OwnedFd),
    file: File,
    complete: Arc<File>,
    /// Offset of this CPU's time in `complete`.
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
            // Read before moving: events that arrive after `stop` was set are not needed, and those before it
            // are moved below.
            let stopping = stop.load(Ordering::Acquire);
            self.move_full()?;
            if stopping {
                self.move_rest()?;
                return self.complete_until(u64::MAX);
            }
            if flushed.elapsed() >= FLUSH {
                let now = trace_clock();
                self.move_rest()?;
                // An event's time stamp is taken before the event is in the buffer, but not as long before as
                // `before`.
                self.complete_until(before)?;
                (flushed, before) = (Instant::now(), now);
            }
            match poll(&mut [PollFd::new(&self.buffer, PollFlags::IN)], Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves all full sub-buffers.
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

    /// Moves one sub-buffer from the pipe through the anonymizer.
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

    /// Moves the events in sub-buffers that are not full.
    fn move_rest(&mut self) -> io::Result<()> {
        loop {
            match self.buffer.read(&mut self.sub_buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    // Pads a partial sub-buffer, because the file consists of whole ones.
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

/// Nanoseconds of the trace clock `mono`.
fn trace_clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
