//! The processes of a recorded build, in memory.

use super::operation::Operation;
use super::summary::{Summary, summarize};
use crate::trace::Metadata;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the profile format that this build writes and reads.
pub(super) const FORMAT: u32 = 2;

/// The first format whose files have a hash of what they say.
pub(super) const FIRST_HASHED_FORMAT: u32 = 2;

/// One process of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    /// Its name (comm) when it ended.
    pub kind: String,
    /// Its pid in the recording.
    pub task: i32,
    /// What it did.
    pub operations: Vec<Operation>,
}

/// What the whole recording held, for comparison with what the profile gives back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Jobs of make, those left out of the profile included.
    pub units: u64,
    /// CPU seconds of the build's processes.
    pub cpu_seconds: f64,
    /// Base pages that the build's processes allocated.
    pub allocated_pages: u64,
    /// Base pages that they freed and had allocated themselves.
    pub freed_own_pages: u64,
    /// Base pages that they, or others for them, freed and that another process had allocated.
    pub freed_shared_pages: u64,
    /// Allocations by order and type.
    pub allocations: BTreeMap<String, u64>,
    /// The same by kind of process.
    pub kinds: BTreeMap<String, Summary>,
    /// What jobs did that are too odd to be sampled: scripts of thousands of processes that run once in a build.
    /// In the totals, not in `kinds`.
    pub left_out: Summary,
}

impl Totals {
    /// Adds to the sums, not to the kinds.
    pub(super) fn add(&mut self, sum: &Summary) {
        self.cpu_seconds += sum.cpu_seconds;
        self.allocated_pages += sum.allocated_pages;
        self.freed_own_pages += sum.freed_own_pages;
        self.freed_shared_pages += sum.freed_shared_pages;
        for (name, count) in &sum.allocations {
            *self.allocations.entry(name.clone()).or_default() += count;
        }
    }
}

/// The JSON document of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Document {
    pub format: u32,
    pub kernel_release: String,
    pub command: Vec<String>,
    pub seconds: f64,
    pub totals: Totals,
    pub kinds: Vec<String>,
    pub units: Vec<Vec<u32>>,
    pub tail: Vec<u32>,
}

/// The processes of a recorded build.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessProfile {
    pub(super) document: Document,
    pub(super) operations: Vec<Operation>,
    /// For each process, where its operations end.
    pub(super) ends: Vec<u32>,
}

impl ProcessProfile {
    /// A profile of those of `recorded` that `units` and `tail` name.
    pub(super) fn assemble(
        recorded: &[Process],
        units: &[Vec<u32>],
        tail: &[u32],
        totals: Totals,
        metadata: &Metadata,
    ) -> ProcessProfile {
        let (mut kinds, mut operations, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut keep = |old: &u32| {
            let process = &recorded[*old as usize];
            kinds.push(process.kind.clone());
            operations.extend_from_slice(&process.operations);
            ends.push(operations.len() as u32);
            ends.len() as u32 - 1
        };
        let units = units.iter().map(|unit| unit.iter().map(&mut keep).collect()).collect();
        let tail = tail.iter().map(&mut keep).collect();
        let document = Document {
            format: FORMAT,
            kernel_release: metadata.kernel_release.clone(),
            command: metadata.command.clone(),
            seconds: metadata.seconds,
            totals,
            kinds,
            units,
            tail,
        };
        ProcessProfile { document, operations, ends }
    }

    /// Jobs that may run at the same time; each is a list of processes for [`ProcessProfile::process`].
    pub fn units(&self) -> &[Vec<u32>] {
        &self.document.units
    }

    /// Processes that ran one at a time at the end, in the order of their start.
    pub fn tail(&self) -> &[u32] {
        &self.document.tail
    }

    /// What process `index` does; nothing, if there is no such process.
    pub fn process(&self, index: u32) -> &[Operation] {
        let index = index as usize;
        let start =
            index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |&end| end as usize);
        self.ends.get(index).map_or(&[], |&end| &self.operations[start..end as usize])
    }

    /// Number of processes.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no processes.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name (comm) that process `index` ended with; empty, if there is no such process.
    pub fn kind(&self, index: u32) -> &str {
        self.document.kinds.get(index as usize).map_or("", String::as_str)
    }

    /// What the whole recording held.
    pub fn totals(&self) -> &Totals {
        &self.document.totals
    }

    /// The command that was recorded.
    pub fn command(&self) -> &[String] {
        &self.document.command
    }

    /// `uname -r` of the kernel that it was recorded on.
    pub fn kernel_release(&self) -> &str {
        &self.document.kernel_release
    }

    /// Sums of `processes` by kind.
    pub fn summary(&self, processes: impl Iterator<Item = u32>) -> BTreeMap<&str, Summary> {
        summarize(processes.map(|index| (self.kind(index), self.process(index))))
    }
}
