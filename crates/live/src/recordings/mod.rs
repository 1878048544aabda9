//! Recordings of real page allocators in the source tree, which the twin is compared with.
//!
//! ```text
//!   data/recordings/compile_j2/
//!     recording.toml        workload, zones, settings              Recording
//!     events.pgt.zst        all events of the page allocator       stream: Records
//!     states.csv.zst        samples of struct per_cpu_pages        tables: State
//!     annotations.csv.zst   operations without a tracepoint        tables: Annotation
//! ```
//!
//! data/recordings/README.md describes how they were made and the file formats. The directory is that of the recordings which are part of the
//! program ([`built_in`]), or the one that the user names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use workload::output;

pub mod built_in;
mod predictor;
mod stream;
mod tables;

pub use stream::{Record, Records};
pub use tables::{Annotation, Hidden, State};

/// A recording in its own directory.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The name of its directory.
    pub name: String,
    /// The contents of `recording.toml`.
    pub description: Description,
    directory: PathBuf,
}

/// The contents of `recording.toml`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The workload in one line.
    pub workload: String,
    /// The kernel release.
    pub kernel: String,
    pub cpus: u16,
    /// Sysctls by full name.
    pub settings: BTreeMap<String, String>,
    /// The zones of the machine's only node, lowest first. Records refer to zones by index.
    pub zones: Vec<ZoneDescription>,
}

/// A zone of the recorded machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneDescription {
    /// The zone's name in /proc/zoneinfo.
    pub name: String,
    /// First page frame, and the first one beyond the zone.
    pub pages: (u32, u32),
    /// Pages that the buddy allocator manages.
    pub managed: u32,
    /// `pcp->batch` of its pagesets.
    pub batch: i32,
    /// `pcp->high_min` in pages.
    pub high_min: i32,
    /// `pcp->high_max` in pages.
    pub high_max: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error(
        "{file}: {source}; name the directory of recordings with --recordings DIR, or leave it out for those that are built in"
    )]
    Io { file: String, source: io::Error },
    /// `recording.toml` does not parse, or has an impossible value.
    #[error("{file}: {problem}")]
    Description {
        file: String,
        /// Line, key and problem.
        problem: String,
    },
    /// A data file is damaged.
    #[error("{file}, {place}: {problem}; get the file again")]
    Stream {
        file: String,
        /// Number of the record or line.
        place: String,
        problem: String,
    },
}

impl RecordingError {
    /// An error about `file` in the directory of a recording.
    pub(crate) fn of_description(directory: &Path, file: &str, problem: String) -> RecordingError {
        RecordingError::Description { file: directory.join(file).display().to_string(), problem }
    }
}

/// The directory of the recordings in the source tree that this was built from, which may be gone; [`built_in`] has them too.
pub fn default_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/recordings")
}

/// All recordings in `directory`, sorted by name.
pub fn list(directory: &Path) -> Result<Vec<Recording>, RecordingError> {
    with_file(directory, "recording.toml")?.iter().map(|path| Recording::open(path)).collect()
}

/// The subdirectories of `directory` that contain `file`, sorted by name.
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

/// Opens each subdirectory of `directory` that contains `file`; results with their names, sorted by name.
pub(crate) fn all_with_file<T>(
    directory: &Path,
    file: &str,
    open: fn(&Path) -> Result<T, RecordingError>,
) -> Result<Vec<(String, T)>, RecordingError> {
    with_file(directory, file)?.iter().map(|path| Ok((name_of(path), open(path)?))).collect()
}

/// Parses `file` in the directory of a recording.
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

/// Compresses a file with zstd and a checksum, so that a flipped bit is detected when it is decompressed.
pub(crate) fn write_packed(path: &Path, bytes: &[u8], level: i32) -> io::Result<()> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    write(path, &encoder.finish()?)
}

/// Decompresses at most `most` bytes of a zstd file; also returns the file name for errors.
pub(crate) fn unpacked(path: &Path, most: u64) -> Result<(String, Vec<u8>), RecordingError> {
    let file = path.display().to_string();
    let io = |source| RecordingError::Io { file: file.clone(), source };
    let decoder = zstd::stream::read::Decoder::new(File::open(path).map_err(io)?).map_err(io)?;
    let mut bytes = Vec::new();
    decoder.take(most).read_to_end(&mut bytes).map_err(io)?;
    Ok((file, bytes))
}

/// Like [`unpacked`], for text.
pub(crate) fn unpacked_text(path: &Path, most: u64) -> Result<(String, String), RecordingError> {
    let (file, bytes) = unpacked(path, most)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((file, text)),
        Err(error) => Err(RecordingError::Io { file, source: io::Error::other(error) }),
    }
}

fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Recording {
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        const FILE: &str = "recording.toml";
        let description: Description = description(directory, FILE)?;
        description.check().map_err(|problem| RecordingError::of_description(directory, FILE, problem))?;
        Ok(Recording { name: name_of(directory), description, directory: directory.to_path_buf() })
    }

    /// Opens the event stream.
    pub fn records(&self) -> Result<Records, RecordingError> {
        Records::open(&self.directory.join("events.pgt.zst"))
    }

    /// Reads the samples of the per-CPU lists.
    pub fn states(&self) -> Result<Vec<State>, RecordingError> {
        tables::states(&self.directory.join("states.csv.zst"))
    }

    /// Reads the operations that have no tracepoint.
    pub fn annotations(&self) -> Result<Vec<Annotation>, RecordingError> {
        tables::annotations(&self.directory.join("annotations.csv.zst"))
    }
}

/// Refuses numbers of CPUs that the file format cannot represent.
pub(crate) fn check_cpus(cpus: u16) -> Result<(), String> {
    if (1..=8).contains(&cpus) { Ok(()) } else { Err(format!("cpus = {cpus}: expected 1 to 8")) }
}

impl Description {
    /// Refuses values that no machine can have.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_cpus(self.cpus)?;
        if self.zones.is_empty() {
            return Err("zones: at least one is needed".into());
        }
        let mut end = 0;
        for zone in &self.zones {
            let (start, beyond) = zone.pages;
            if start < end || beyond <= start || zone.managed > beyond - start {
                let ranges = "ranges must ascend and be large enough for the managed pages";
                return Err(format!("zones: {}: pages = [{start}, {beyond}]: {ranges}", zone.name));
            }
            if !(1..=1 << 15).contains(&zone.batch) || !(0..=zone.high_max).contains(&zone.high_min) {
                return Err(format!("zones: {}: batch from 1, 0 <= high_min <= high_max", zone.name));
            }
            end = beyond;
        }
        Ok(())
    }

    /// The index of the zone that contains `pfn`.
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
            // The frame header descriptor follows the four magic bytes.
            assert!(std::fs::read(&path).unwrap()[4] & CHECKSUM != 0, "{}", path.display());
            seen += 1;
        }
        assert!(seen > 100, "{seen}");
    }
}
