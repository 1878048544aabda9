//! A private tracing instance that is removed when dropped.

use crate::notice::say;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::{Tracefs, TracefsError};

/// A directory below `instances/` with its own buffers, events and filters. Dropping it removes it.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
}

/// Statistics of one CPU's ring buffer, from `per_cpu/cpuN/stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferStatistics {
    /// Events in the buffer.
    pub entries: u64,
    /// Events read from it so far.
    pub read: u64,
    /// Bytes in the buffer.
    pub bytes: u64,
    /// Events lost: overwritten before they were read, or dropped.
    pub lost: u64,
}

impl Instance {
    /// Creates `instances/mmtwin-PID-X`, with tracing off.
    pub fn create(tracefs: &Tracefs) -> Result<Instance, TracefsError> {
        let instances = tracefs.root().join("instances");
        let made = tracefs.guard().kernel_directory(&instances);
        let path = made.map_err(|source| TracefsError::File { path: instances, source })?;
        let instance = Instance { path };
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Reads a file of the instance.
    pub fn read(&self, file: &str) -> Result<String, TracefsError> {
        let path = self.path(file);
        read_whole(&path).map_err(|source| TracefsError::File { path, source })
    }

    /// Writes a control file in a single write, as tracefs requires.
    pub fn write(&self, file: &str, value: &str) -> Result<(), TracefsError> {
        let path = self.path(file);
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(|source| TracefsError::File { path, source })
    }

    /// The CPUs that have a buffer, ascending.
    pub fn cpus(&self) -> Result<Vec<u16>, TracefsError> {
        let path = self.path("per_cpu");
        let error = |source| TracefsError::File { path: path.clone(), source };
        let mut cpus = Vec::new();
        for entry in fs::read_dir(&path).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            cpus.extend(name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse::<u16>().ok()));
        }
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Opens a CPU's buffer for non-blocking reads.
    pub fn open_buffer(&self, cpu: u16) -> Result<File, TracefsError> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(&path)
            .map_err(|source| TracefsError::File { path, source })
    }

    pub fn statistics(&self, cpu: u16) -> Result<BufferStatistics, TracefsError> {
        Ok(BufferStatistics::parse(&self.read(&format!("per_cpu/cpu{cpu}/stats"))?))
    }

    fn remove(path: &Path) -> io::Result<()> {
        // A reader thread may not have closed its file yet.
        for _ in 0..50 {
            match fs::remove_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                result => return result,
            }
        }
        fs::remove_dir(path)
    }
}

impl BufferStatistics {
    /// Parses the `key: value` lines; unknown keys are skipped.
    pub fn parse(text: &str) -> BufferStatistics {
        let mut statistics = BufferStatistics::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(": ") else { continue };
            let value = value.trim().parse().unwrap_or(0);
            match key {
                "entries" => statistics.entries = value,
                "read events" => statistics.read = value,
                "bytes" => statistics.bytes = value,
                "overrun" | "commit overrun" | "dropped events" => statistics.lost += value,
                _ => {}
            }
        }
        statistics
    }
}

/// Reads a file with a large buffer: `events/header_page` returns what fits into the first read and nothing
/// after that, so `read_to_string`, which starts with a small read, would miss the rest.
fn read_whole(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return String::from_utf8(text).map_err(io::Error::other),
            length => text.extend_from_slice(&piece[..length]),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        let _ = self.write("events/enable", "0");
        if let Err(error) = Instance::remove(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            say(format_args!("cannot remove {}: {error}; remove it with rmdir", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_add_up_what_is_lost() {
        let text = "entries: 5\noverrun: 100\ncommit overrun: 20\nbytes: 4000\noldest event ts:  8463.2\n\
                    now ts:  8464.1\ndropped events: 3\nread events: 77\n";
        assert_eq!(
            BufferStatistics::parse(text),
            BufferStatistics { entries: 5, read: 77, bytes: 4000, lost: 123 }
        );
    }
}
