//! The identity of a run: a hash of everything that determines its result.
//!
//! ```text
//!   build hash ─────────────────────────┐
//!   machine, settings, workload, seed ──┼─► description (JSON) ─► identity, 32 hexadecimal digits
//!   content of recorded files ──────────┘        │
//!                                                └─ stored with the results, so that a file says which run it is
//! ```

use super::ResultsError;
use super::summary::Summary;
use serde::{Deserialize, Serialize};
use sim::{Run, Workload};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use twox_hash::XxHash3_128;

/// The XXH3 hash of `bytes` as 32 hexadecimal digits.
pub(super) fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// Everything that determines the result of a run.
#[derive(Serialize)]
struct Description<'a> {
    /// See [`super::Program::build`].
    build: &'a str,
    /// Hash of the recordings that the workload names; the names alone do not identify their contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<&'a str>,
    run: &'a Run,
}

/// A run with its identity.
#[derive(Clone, Debug)]
pub struct DescribedRun<'a> {
    pub(super) run: &'a Run,
    pub(super) description: String,
    pub(super) summary: Summary,
}

/// The run of a description, which any build may have written: none if this one would describe it with other keys.
pub(super) fn described(description: &str) -> Option<Run> {
    #[derive(Deserialize)]
    struct Described {
        run: Run,
    }
    serde_json::from_str(description).ok().map(|Described { run }| run)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a run has only tables, numbers and strings")
}

impl<'a> DescribedRun<'a> {
    /// Describes `run` as made by a program with this build hash; `recorded` is the hash of its recordings.
    pub(super) fn new(run: &'a Run, build: &str, recorded: Option<&str>) -> DescribedRun<'a> {
        let description = json(&Description { build, recorded, run });
        let settings: Vec<String> =
            run.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let summary = Summary {
            run: hash(description.as_bytes()),
            scenario: run.scenario.clone(),
            series: run.series.clone(),
            variant: run.variant.clone(),
            seed: run.seed,
            machine: run.machine.name.clone(),
            settings: settings.join(" "),
            inputs: hash(json(&(&run.machine, &run.workload, recorded)).as_bytes()),
            build: build.into(),
        };
        DescribedRun { run, description, summary }
    }

    pub fn identity(&self) -> &str {
        &self.summary.run
    }
}

/// The hashes of recordings, by their paths: a file that many runs replay is read once.
#[derive(Debug, Default)]
pub(super) struct Recorded(Mutex<BTreeMap<Vec<PathBuf>, String>>);

impl Recorded {
    /// The hash of the recordings that a workload replays, if any.
    pub fn hash(&self, workload: &Workload) -> Result<Option<String>, ResultsError> {
        let mut workload = workload.clone();
        let paths: Vec<PathBuf> =
            workload.recorded_files_mut().into_iter().map(|(_, path)| path.clone()).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        // A hash that panicked was not entered.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = known.get(&paths) {
            return Ok(Some(hash.clone()));
        }
        let hash = hash_of_files(&paths)?;
        known.insert(paths, hash.clone());
        Ok(Some(hash))
    }
}

fn hash_of_files(paths: &[PathBuf]) -> Result<String, ResultsError> {
    let (mut hash, mut buffer) = (XxHash3_128::new(), vec![0; 1 << 20]);
    for path in paths {
        let io = |error| ResultsError::Recorded { path: path.clone(), error };
        let mut file = File::open(path).map_err(io)?;
        let mut bytes = 0;
        loop {
            let read = file.read(&mut buffer).map_err(io)?;
            if read == 0 {
                break;
            }
            hash.write(&buffer[..read]);
            bytes += read as u64;
        }
        // The boundaries between files are part of the hash.
        hash.write(&bytes.to_le_bytes());
    }
    Ok(format!("{:032x}", hash.finish_128()))
}
