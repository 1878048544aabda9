//! The spool: the ring buffers' content on its way to the trace.
//!
//! ```text
//!   per_cpu/cpu0/trace_pipe_raw --splice--> pipe --splice--> build.parquet.spool/cpu0.raw
//!   per_cpu/cpu1/trace_pipe_raw --splice--> pipe --splice--> build.parquet.spool/cpu1.raw
//!                                                            build.parquet.spool/recording.json
//! ```
//!
//! splice(2) moves whole sub-buffers and nothing else; read(2) would hand over half-filled ones, a page of file
//! for a few events, and falls behind. Only the last sub-buffer of each CPU, which is never full, is read.
//! One thread a CPU sleeps until its buffer is half full (the instance's `buffer_percent`) or a tenth of a
//! second has passed.
//!
//! `recording.json` says all that is needed to make a trace of the `.raw` files, and is there before the
//! command starts: whatever happens to the recorder then, [`super::recover`] can do its work.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::thread::gettid;
use serde::{Deserialize, Serialize};
use workload::trace::Metadata;

use super::{Demand, RecordError};
use crate::tracefs::{EventFormat, FormatError, Instance};

/// Bytes that a thread moves at once: the largest pipe that an unprivileged user may have, too.
const PIPE_BYTES: usize = 1 << 20;

const MANIFEST: &str = "recording.json";

/// The description of a spool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// What was recorded.
    #[serde(default)]
    pub demand: Demand,
    /// Hide names when the trace is made.
    pub anonymize: bool,
    /// Text of `events/header_page`.
    pub header_page: String,
    /// Text of each event's `format`.
    pub formats: Vec<String>,
    /// The CPUs that have a file.
    pub cpus: Vec<u16>,
    /// What is known of the trace so far.
    pub metadata: Metadata,
}

/// Where the recording of `output` is kept until it is a trace: `output` with `.spool` added.
pub fn spool_directory(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".spool");
    PathBuf::from(name)
}

/// The file of one CPU.
pub(super) fn cpu_file(spool: &Path, cpu: u16) -> PathBuf {
    spool.join(format!("cpu{cpu}.raw"))
}

/// Says that nobody else uses the spool. The kernel takes it back when the process ends, however it ends.
pub struct SpoolLock {
    _directory: File,
}

impl SpoolLock {
    /// Locks the spool in `directory`.
    pub fn take(directory: &Path) -> Result<SpoolLock, RecordError> {
        let error = |source| RecordError::Spool { path: directory.to_path_buf(), source };
        let file = File::open(directory).map_err(error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(SpoolLock { _directory: file }),
            Err(Errno::WOULDBLOCK) => Err(RecordError::StillRecording(directory.to_path_buf())),
            Err(source) => Err(error(source.into())),
        }
    }
}

impl Manifest {
    /// The formats of the events.
    pub fn parsed_formats(&self) -> Result<Vec<EventFormat>, FormatError> {
        self.formats.iter().map(|text| EventFormat::parse(text)).collect()
    }

    /// There is a recording in `directory`.
    pub fn exists(directory: &Path) -> bool {
        directory.join(MANIFEST).exists()
    }

    /// Reads the description of the spool in `directory`.
    pub fn read(directory: &Path) -> Result<Manifest, RecordError> {
        let path = directory.join(MANIFEST);
        let text =
            fs::read_to_string(&path).map_err(|source| RecordError::Spool { path: path.clone(), source })?;
        serde_json::from_str(&text).map_err(|source| RecordError::Manifest { path, source })
    }

    /// Writes it; a reader sees the old or the new one, never half of it.
    pub fn write(&self, directory: &Path) -> Result<(), RecordError> {
        let path = directory.join(MANIFEST);
        let text = serde_json::to_string(self)
            .map_err(|source| RecordError::Manifest { path: path.clone(), source })?;
        let new = directory.join("recording.json.new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| RecordError::Spool { path, source })
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
    /// Starts a thread for each CPU.
    pub fn start(
        instance: &Instance,
        cpus: &[u16],
        spool: &Path,
        sub_buffer_bytes: usize,
    ) -> Result<Streams, RecordError> {
        let kib = instance.read("buffer_size_kb")?.trim().parse::<u64>().unwrap_or(1);
        let stop = Arc::new(AtomicBool::new(false));
        let mut all =
            Streams { cpus: cpus.to_vec(), buffer_bytes: kib.max(1) * 1024, stop, streams: Vec::new() };
        for &cpu in cpus {
            let buffer = instance.open_buffer(cpu)?;
            let path = cpu_file(spool, cpu);
            let stream = Stream::start(buffer, path.clone(), sub_buffer_bytes, all.stop.clone());
            all.streams.push(stream.map_err(|source| RecordError::Spool { path, source })?);
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
    fn start(
        buffer: File,
        path: PathBuf,
        sub_buffer_bytes: usize,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Stream> {
        let file = File::create_new(&path)?;
        let bytes = Arc::new(AtomicU64::new(0));
        let counter = bytes.clone();
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("mmtwin-spool".to_string()).spawn(move || {
            // Fails only if nobody waits for it any more.
            let _ = sender.send(gettid().as_raw_nonzero().get());
            move_all(buffer, file, sub_buffer_bytes, &stop, &counter)
        })?;
        let task = receiver.recv().map_err(io::Error::other)?;
        Ok(Stream { path, task, bytes, thread })
    }
}

fn move_all(
    mut buffer: File,
    mut file: File,
    sub_buffer_bytes: usize,
    stop: &AtomicBool,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let (pipe_out, pipe_in) = pipe_with(PipeFlags::CLOEXEC)?;
    // Refused where the limit is lower: the default size serves, in more calls.
    let _ = fcntl_setpipe_size(&pipe_in, PIPE_BYTES);
    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        // Read first: what comes in after it is set is not wanted, what came before is moved below.
        let stopping = stop.load(Ordering::Acquire);
        loop {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            let mut in_pipe = match splice(&buffer, None, &pipe_in, None, PIPE_BYTES, flags) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                result => result?,
            };
            while in_pipe > 0 {
                match splice(&pipe_out, None, &file, None, in_pipe, SpliceFlags::MOVE) {
                    Err(Errno::INTR) => {}
                    result => {
                        let moved = result?;
                        in_pipe -= moved;
                        bytes.fetch_add(moved as u64, Ordering::Relaxed);
                    }
                }
            }
        }
        if stopping {
            break;
        }
        match poll(&mut [PollFd::new(&buffer, PollFlags::IN)], Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }

    let mut last = vec![0; sub_buffer_bytes];
    loop {
        match buffer.read(&mut last) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                // A short read is filled up: the file consists of whole sub-buffers.
                last[length..].fill(0);
                file.write_all(&last)?;
                bytes.fetch_add(last.len() as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
