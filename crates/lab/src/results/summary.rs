//! What a file says of a run without its rows: enough to list it, and to keep it apart from others.

use serde::{Deserialize, Serialize};

/// A run in a few words, ordered so that runs which differ only in their seeds are next to each other. Each field is also a
/// column of its rows, and runs that differ in another one than seed and identity are not to be averaged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The machine's name.
    pub machine: String,
    /// Settings beyond the kernel's defaults, `name=value`, sorted, with a space between.
    pub settings: String,
    /// Hash of the machine's profile, of the workload with all its figures, and of what it was recorded from: it tells
    /// scenarios and machines apart that were edited and kept their names.
    pub inputs: String,
    /// See [`super::Program::build`].
    pub build: String,
    /// The series that the variant is named in.
    pub series: String,
    /// The variant.
    pub variant: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The run's identity.
    pub run: String,
}

/// A run in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// The run.
    #[serde(flatten)]
    pub summary: Summary,
    /// See [`super::Program::version`].
    pub mmtwin: String,
    /// See [`super::Program::commit`].
    pub commit: String,
    /// How many rows it has.
    pub rows: usize,
    /// Hash of its rows.
    pub content: String,
}
