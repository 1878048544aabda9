//! Recordings of real page allocators that come with mmtwin, to judge the twin by.
//!
//! ```text
//!   data/recordings/compile_j2/
//!     recording.toml        what ran, on which zones            Recording
//!     events.pgt.zst        everything the allocator did        stream: Records
//!     states.csv.zst        its per-CPU lists, now and then     tables: State
//!     annotations.csv.zst   what no tracepoint shows            tables: Annotation
//! ```
//!
//! data/recordings/README.md tells how they were made and how the files are laid out. They are found where the
//! program was built, or in the directory that the user names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use workload::output;

mod predictor;
mod stream;
mod tables;

pub use stream::{Record, Records};
pub use tables::{Annotation, Hidden, State};

/// A directory with one recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its name, that of the directory.
    pub name: String,
    /// What `recording.toml` says.
    pub description: Description,
    directory: PathBuf,
}

/// The content of `recording.toml`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What ran, in a line.
    pub workload: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Number of CPUs.
    pub cpus: u16,
    /// Sysctls, by full name.
    pub settings: BTreeMap<String, String>,
    /// The zones of the machine's only node, lowest first. Records name them by their place here.
    pub zones: Vec<ZoneDescription>,
}

/// One zone of the recorded machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneDescription {
    /// Its name in /proc/zoneinfo.
    pub name: String,
    /// Its first page frame and the first one beyond it.
    pub pages: (u32, u32),
    /// Pages that its allocator manages.
    pub managed: u32,
    /// `batch` of its pagesets.
    pub batch: i32,
    /// Lower bound of `high`, pages.
    pub high_min: i32,
    /// Upper bound of `high`, pages.
    pub high_max: i32,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A file cannot be read or unpacked.
    #[error(
        "{file}: {source}; recordings are in data/recordings of mmtwin's source, or name their directory with --recordings DIR"
    )]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// `recording.toml` is not what it should be.
    #[error("{file}: {problem}")]
    Description {
        /// The file.
        file: String,
        /// Line, key and problem.
        problem: String,
    },
    /// Something in a data file makes no sense.
    #[error("{file}, {place}: {problem}; get the file again")]
    Stream {
        /// The file.
        file: String,
        /// Record or line.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

impl RecordingError {
    /// Of what `file` in the directory of a recording says.
    pub(crate) fn of_description(directory: &Path, file: &str, problem: String) -> RecordingError {
        RecordingError::Description { file: directory.join(file).display().to_string(), problem }
    }
}

/// Where the recordings are that come with the source.
pub fn default_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/recordings")
}

/// All recordings in `directory`, by name.
pub fn list(directory: &Path) -> Result<Vec<Recording>, RecordingError> {
    with_file(directory, "recording.toml")?.iter().map(|path| Recording::open(path)).collect()
}

/// The directories below `directory` that have a file called `file`, by name.
fn with_file(directory: &Path, file: &str) -> Result<Vec<PathBuf>, RecordingError> {
    let io = |source| RecordingError::Io { file: directory.display().to_string(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.join(file).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// What `open` makes of the directories below `directory` that have a file called `file`, with their names, by name.
pub(crate) fn all_with_file<T>(
    directory: &Path,
    file: &str,
    open: fn(&Path) -> Result<T, RecordingError>,
) -> Result<Vec<(String, T)>, RecordingError> {
    with_file(directory, file)?.iter().map(|path| Ok((name_of(path), open(path)?))).collect()
}

/// What `file` in the directory of a recording says of it.
pub(crate) fn description<T: DeserializeOwned>(directory: &Path, file: &str) -> Result<T, RecordingError> {
    let path = directory.join(file);
    let file = path.display().to_string();
    let text =
        std::fs::read_to_string(&path).map_err(|source| RecordingError::Io { file: file.clone(), source })?;
    toml::from_str(&text).map_err(|error| RecordingError::Description { file, problem: error.to_string() })
}

/// Writes a file of a recording.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    output::write(path, bytes).map_err(io::Error::other)
}

/// Writes a file that zstd packs, with a checksum: a flipped bit is not unpacked as other bytes.
pub(crate) fn write_packed(path: &Path, bytes: &[u8], level: i32) -> io::Result<()> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    write(path, &encoder.finish()?)
}

/// The content of a file that zstd has packed, no more than `most` bytes of it, and the file's name for errors.
pub(crate) fn unpacked(path: &Path, most: u64) -> Result<(String, Vec<u8>), RecordingError> {
    let file = path.display().to_string();
    let io = |source| RecordingError::Io { file: file.clone(), source };
    let decoder = zstd::stream::read::Decoder::new(File::open(path).map_err(io)?).map_err(io)?;
    let mut bytes = Vec::new();
    decoder.take(most).read_to_end(&mut bytes).map_err(io)?;
    Ok((file, bytes))
}

/// The same, if it is text.
pub(crate) fn unpacked_text(path: &Path, most: u64) -> Result<(String, String), RecordingError> {
    let (file, bytes) = unpacked(path, most)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((file, text)),
        Err(error) => Err(RecordingError::Io { file, source: io::Error::other(error) }),
    }
}

/// The name of a recording: that of its directory.
fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Recording {
    /// Opens the recording in `directory`.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        const FILE: &str = "recording.toml";
        let description: Description = description(directory, FILE)?;
        description.check().map_err(|problem| RecordingError::of_description(directory, FILE, problem))?;
        Ok(Recording { name: name_of(directory), description, directory: directory.to_path_buf() })
    }

    /// Its records, from the first.
    pub fn records(&self) -> Result<Records, RecordingError> {
        Records::open(&self.directory.join("events.pgt.zst"))
    }

    /// The recorded states of the lists.
    pub fn states(&self) -> Result<Vec<State>, RecordingError> {
        tables::states(&self.directory.join("states.csv.zst"))
    }

    /// What no record shows.
    pub fn annotations(&self) -> Result<Vec<Annotation>, RecordingError> {
        tables::annotations(&self.directory.join("annotations.csv.zst"))
    }
}

/// Refuses a machine that nothing was recorded on.
pub(crate) fn check_cpus(cpus: u16) -> Result<(), String> {
    if (1..=8).contains(&cpus) { Ok(()) } else { Err(format!("cpus = {cpus}: a recording has 1 to 8")) }
}

impl Description {
    /// Refuses what no machine is.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_cpus(self.cpus)?;
        if self.zones.is_empty() {
            return Err("zones: at least one is needed".into());
        }
        let mut end = 0;
        for zone in &self.zones {
            let (start, beyond) = zone.pages;
            if start < end || beyond <= start || zone.managed > beyond - start {
                let ranges = "ranges must ascend and hold the managed pages";
                return Err(format!("zones: {}: pages = [{start}, {beyond}]: {ranges}", zone.name));
            }
            if !(1..=1 << 15).contains(&zone.batch) || !(0..=zone.high_max).contains(&zone.high_min) {
                return Err(format!("zones: {}: batch from 1, 0 <= high_min <= high_max", zone.name));
            }
            end = beyond;
        }
        Ok(())
    }

    /// The zone that `pfn` is in.
    pub fn zone_of(&self, pfn: u32) -> Option<usize> {
        self.zones.iter().position(|zone| (zone.pages.0..zone.pages.1).contains(&pfn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_not_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.zst");
        let bytes: Vec<u8> = (0..2000_u32).flat_map(|number| (number * number % 251).to_le_bytes()).collect();
        write_packed(&path, &bytes, 1).unwrap();
        assert_eq!(unpacked(&path, u64::MAX).unwrap().1, bytes);
        let packed = std::fs::read(&path).unwrap();
        for bit in (0..packed.len() * 8).step_by(7) {
            let mut flipped = packed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, flipped).unwrap();
            if let Ok((_, read)) = unpacked(&path, u64::MAX) {
                assert_eq!(read, bytes, "bit {bit}");
            }
        }
    }

    #[test]
    fn packed_files_have_a_checksum() {
        const CHECKSUM: u8 = 4;
        let directories = std::fs::read_dir(default_directory()).unwrap().map(|entry| entry.unwrap().path());
        let files =
            directories.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).unwrap());
        let packed = files
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|x| x == "zst"));
        let mut seen = 0;
        for path in packed {
            // The descriptor of a frame follows its four magic bytes.
            assert!(std::fs::read(&path).unwrap()[4] & CHECKSUM != 0, "{}", path.display());
            seen += 1;
        }
        assert!(seen > 100, "{seen}");
    }
}
