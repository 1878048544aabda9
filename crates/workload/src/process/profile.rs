//! The profile of a recorded build in memory.

use super::operation::Operation;
use super::summary::{Summary, summarize};
use crate::trace::Metadata;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the profile format that this build writes and reads.
pub(super) const FORMAT: u32 = 2;

/// The first format version whose files have a content hash.
pub(super) const FIRST_HASHED_FORMAT: u32 = 2;

/// One process of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    /// Name (comm) at exit.
    pub kind: String,
    /// Pid in the recording.
    pub task: i32,
    pub operations: Vec<Operation>,
}

/// Totals of the whole recording, to compare with those of the profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of jobs of make, including those left out of the profile.
    pub units: u64,
    /// CPU time of the build's processes in seconds.
    pub cpu_seconds: f64,
    /// Base pages that the build's processes allocated.
    pub allocated_pages: u64,
    /// Base pages that processes of the build freed and had allocated themselves.
    pub freed_own_pages: u64,
    /// Base pages, allocated by another process, that processes of the build freed or that were freed on
    /// their behalf.
    pub freed_shared_pages: u64,
    /// Number of allocations by order and migratetype.
    pub allocations: BTreeMap<String, u64>,
    /// Summary of each kind of process.
    pub kinds: BTreeMap<String, Summary>,
    /// Summary of jobs too unusual to be sampled: scripts of thousands of processes that run once per build.
    /// They are included in the totals, but not in `kinds`.
    pub left_out: Summary,
}

impl Totals {
    /// Adds a summary to the totals, without its kind.
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

/// The processes of a recorded build, or a sample of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessProfile {
    pub(super) document: Document,
    pub(super) operations: Vec<Operation>,
    /// For each process, the index one past its last operation.
    pub(super) ends: Vec<u32>,
}

impl ProcessProfile {
    /// Makes a profile of the processes of `recorded` that `units` and `tail` name.
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

    /// Jobs that may run at the same time; each is a list of process numbers for [`ProcessProfile::process`].
    pub fn units(&self) -> &[Vec<u32>] {
        &self.document.units
    }

    /// Numbers of the processes at the end that ran one at a time, in the order of their start.
    pub fn tail(&self) -> &[u32] {
        &self.document.tail
    }

    /// The operations of process `index`; empty if there is no such process.
    pub fn process(&self, index: u32) -> &[Operation] {
        let index = index as usize;
        let start =
            index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |&end| end as usize);
        self.ends.get(index).map_or(&[], |&end| &self.operations[start..end as usize])
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name (comm) of process `index` at exit; empty if there is no such process.
    pub fn kind(&self, index: u32) -> &str {
        self.document.kinds.get(index as usize).map_or("", String::as_str)
    }

    /// The totals of the whole recording.
    pub fn totals(&self) -> &Totals {
        &self.document.totals
    }

    pub fn command(&self) -> &[String] {
        &self.document.command
    }

    /// `uname -r` of the recorded kernel.
    pub fn kernel_release(&self) -> &str {
        &self.document.kernel_release
    }

    /// Summaries of `processes` by kind.
    pub fn summary(&self, processes: impl Iterator<Item = u32>) -> BTreeMap<&str, Summary> {
        summarize(processes.map(|index| (self.kind(index), self.process(index))))
    }
}
