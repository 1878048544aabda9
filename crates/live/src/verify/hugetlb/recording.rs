//! What kernels did, kept so that the twin can be judged where nobody may write to a pool.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case::{Case, Write};
use super::counts::KernelCounts;
use crate::recordings::{Description, RecordingError, all_with_file, description, write};
use crate::verify::RecordedKernel;

/// The file of a recording, in a directory of its own.
const FILE: &str = "counts.toml";

/// The content of `counts.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Kernel, CPUs, settings and zones.
    pub machine: Description,
    /// What was left out, and why.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What was written, and what came of it.
    pub cases: Vec<RecordedCase>,
}

/// Writes that belong together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCase {
    /// What people call it.
    pub name: String,
    /// `MemFree` before the first write, KiB; 0 if it was not noted.
    #[serde(default)]
    pub mem_free_kib: u64,
    /// The writes, from an empty pool on.
    pub steps: Vec<Step>,
}

/// One write.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What was written.
    pub write: Write,
    /// Times of the same write with nothing recorded, in later rounds of the case; unit: microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untraced_us: Vec<u64>,
    /// What the kernel did; `None` if that was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<KernelCounts>,
}

impl RecordedCase {
    /// The writes alone.
    pub fn case(&self) -> Case {
        Case { name: self.name.clone(), writes: self.steps.iter().map(|step| step.write).collect() }
    }
}

impl Recording {
    /// Reads the recording in `directory`.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let recording: Recording = description(directory, FILE)?;
        recording.machine.check().map_err(|problem| {
            RecordingError::of_description(directory, FILE, format!("machine.{problem}"))
        })?;
        Ok(recording)
    }

    /// Writes it into `directory`, which is made if it is not there.
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
