//! Recordings of writes to the pool on real kernels, for machines on which the pool cannot be resized.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case::{Case, Write};
use super::counts::KernelCounts;
use crate::recordings::{Description, RecordingError, all_with_file, description, write};
use crate::verify::RecordedKernel;

/// The file name of a recording, which has its own directory.
const FILE: &str = "counts.toml";

/// The contents of `counts.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    pub machine: Description,
    /// Remarks, such as which cases were skipped and why.
    #[serde(default)]
    pub notes: Vec<String>,
    pub cases: Vec<RecordedCase>,
}

/// A sequence of writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCase {
    /// Name in the report.
    pub name: String,
    /// `MemFree` before the first write in KiB; 0 if it was not recorded.
    #[serde(default)]
    pub mem_free_kib: u64,
    pub steps: Vec<Step>,
}

/// One write and its results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub write: Write,
    /// Times of the same write without tracing, in later rounds of the case, in microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untraced_us: Vec<u64>,
    /// The kernel's counts; `None` if they were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<KernelCounts>,
}

impl RecordedCase {
    /// The writes without their results.
    pub fn case(&self) -> Case {
        Case { name: self.name.clone(), writes: self.steps.iter().map(|step| step.write).collect() }
    }
}

impl Recording {
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let recording: Recording = description(directory, FILE)?;
        recording.machine.check().map_err(|problem| {
            RecordingError::of_description(directory, FILE, format!("machine.{problem}"))
        })?;
        Ok(recording)
    }

    /// Writes the recording into `directory`, which is created if necessary.
    pub fn write(&self, directory: &Path) -> Result<(), RecordingError> {
        let path = directory.join(FILE);
        let io = |source| RecordingError::Io { file: path.display().to_string(), source };
        let text = toml::to_string(self).map_err(|error| io(io::Error::other(error)))?;
        std::fs::create_dir_all(directory).map_err(io)?;
        write(&path, text.as_bytes()).map_err(io)
    }
}

impl RecordedKernel for Recording {
    fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
        all_with_file(directory, FILE, Recording::open)
    }

    fn kernel(&self) -> &str {
        &self.machine.kernel
    }
}
