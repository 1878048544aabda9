//! `manifest.json`: what was run, so that any number can be made again.

use super::{Record, ResultsError, write_atomically};
use crate::outcome::AreaHeat;
use crate::scenario::{Run, Scenario};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// Name and version of the layout of a results directory.
pub const MANIFEST_SCHEMA: &str = "mmtwin-results/1";

/// The manifest of a results directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_SCHEMA`].
    pub schema: String,
    /// The scenario as it was when runs were last added.
    pub scenario: Scenario,
    /// Every run in the Parquet files.
    pub runs: Vec<ManifestRun>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestRun {
    /// See [`super::identity`]; column `run` of the Parquet files.
    pub identity: String,
    /// Version and hash of the program that made it.
    pub program: String,
    /// Everything that decided it.
    pub run: Run,
    /// What a reader of its numbers must know, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The areas of memory that were used or scanned most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<AreaHeat>,
}

impl Manifest {
    /// The manifest of `records`.
    pub fn new(scenario: &Scenario, records: &[Record]) -> Manifest {
        let runs = records.iter().map(|record| ManifestRun {
            identity: record.identity.clone(),
            program: record.program.clone(),
            run: record.run.clone(),
            notes: record.notes.clone(),
            areas: record.areas.clone(),
        });
        Manifest { schema: MANIFEST_SCHEMA.into(), scenario: scenario.clone(), runs: runs.collect() }
    }

    /// Reads and checks a manifest.
    pub fn read(path: &Path) -> Result<Manifest, ResultsError> {
        let text = std::fs::read_to_string(path).map_err(|error| ResultsError::io(path, error))?;
        let value: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| ResultsError::damaged(path, format!("not a manifest: {error}")))?;
        match value.get("schema").and_then(|schema| schema.as_str()) {
            Some(MANIFEST_SCHEMA) => {}
            Some(other) => {
                let text = format!("schema is {other}, this mmtwin reads {MANIFEST_SCHEMA}");
                return Err(ResultsError::damaged(path, text));
            }
            None => return Err(ResultsError::damaged(path, "not a manifest: it has no schema")),
        }
        serde_json::from_value(value).map_err(|error| {
            ResultsError::damaged(path, format!("not a manifest of this version of mmtwin: {error}"))
        })
    }

    /// Writes it in one piece.
    pub fn write(&self, path: &Path) -> Result<(), ResultsError> {
        let text =
            serde_json::to_string_pretty(self).expect("a manifest has only tables, numbers and strings");
        write_atomically(path, |file| {
            file.write_all(text.as_bytes()).map_err(|error| ResultsError::io(path, error))
        })
    }
}
