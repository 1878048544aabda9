//! The summary of a run in a file's footer: enough to list the run and to distinguish it from others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A short description of a run. It sorts runs that differ only in their seeds next to each other. Each field
/// is also a column of the run's rows; runs that differ in a field other than seed and identity must not be
/// averaged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the machine.
    pub machine: String,
    /// Settings that differ from the kernel's defaults, as `name=value`, sorted and separated by blanks.
    pub settings: String,
    /// Hash of the machine's profile, the workload with all its figures, and its recordings. It distinguishes
    /// scenarios and machines that were edited without a new name.
    pub inputs: String,
    /// See [`super::Program::build`].
    pub build: String,
    /// The series that the variant belongs to.
    pub series: String,
    /// Name of the variant.
    pub variant: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Identity of the run.
    pub run: String,
}

/// A run in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub summary: Summary,
    /// See [`super::Program::version`].
    pub mmtwin: String,
    /// See [`super::Program::commit`].
    pub commit: String,
    /// Number of rows.
    pub rows: usize,
    /// Hash of the rows.
    pub content: String,
}
