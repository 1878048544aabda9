//! Metadata of a trace: the machine, its settings, and how the recording went.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the trace format that this build writes and reads.
pub const FORMAT: u32 = 3;

/// The first format version whose files have a content hash.
pub const FIRST_HASHED_FORMAT: u32 = 2;

/// Key of the JSON document in the Parquet file's metadata.
pub const METADATA_KEY: &str = "mmtwin.trace";

/// The JSON document of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// Version of the mmtwin that recorded.
    pub mmtwin_version: String,
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    /// The recorded command; empty if the trace is anonymized.
    pub command: Vec<String>,
    /// Pid of the command.
    pub command_task: i32,
    /// Pids of the recorder's own threads. Their events are in the trace but do not belong to the command.
    pub recorder_tasks: Vec<i32>,
    /// Name of the trace clock (`mono`).
    pub clock: String,
    /// Whether task names are replaced by `task-1`, `task-2`, ... and the command is dropped.
    pub anonymized: bool,
    /// Number of rows.
    pub events: u64,
    /// Number of events missing between the first and the last row because the kernel's buffers were full:
    /// the sum of `losses`. A replay requires 0.
    pub lost: u64,
    /// The gaps.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Events dropped after the last row, because from then on not all were recorded: the recorder was killed
    /// or its disk was full.
    #[serde(default)]
    pub left_out: u64,
    /// Seconds from the first event to the last.
    pub seconds: f64,
    pub ended: Ending,
    /// Name (comm) of each task. If a pid was reused or a task renamed, the last name.
    pub tasks: BTreeMap<i32, String>,
    /// State of the memory manager just before the first event.
    pub before: Snapshot,
    /// State just after the last event; empty if the recorder was killed.
    pub after: Snapshot,
    /// The sysctls that affect the page allocator, by full name (`vm.min_free_kbytes`), as the kernel prints
    /// them.
    pub settings: BTreeMap<String, String>,
    /// The CPU caches; the kernel derives pageset batch sizes from them.
    pub caches: Vec<Cache>,
}

/// A gap in the events of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub cpu: u16,
    /// Time of the last event before the gap, in nanoseconds as in the rows.
    pub after: u64,
    /// Time of the first event after the gap.
    pub before: u64,
    /// Number of missing events, at least.
    pub events: u64,
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The command exited.
    #[default]
    CommandExited,
    /// The recorder and the command were ended by Ctrl-C or SIGTERM.
    Interrupted,
    /// Recording stopped before the disk was full; the command continued unrecorded.
    DiskFull,
    /// The recorder was killed; the trace was made from what it had written.
    RecorderKilled,
}

/// Text of the kernel's own files; empty if the kernel does not have the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// `/proc/zoneinfo`
    pub zoneinfo: String,
    /// `/proc/vmstat`
    pub vmstat: String,
    /// `/proc/buddyinfo`
    pub buddyinfo: String,
    /// `/proc/pagetypeinfo`
    pub pagetypeinfo: String,
    /// `/proc/meminfo`
    pub meminfo: String,
}

/// One CPU cache, as `/sys/devices/system/cpu/cpu*/cache/index*` describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// The kernel's text for its size (`32768K`).
    pub size: String,
    /// The CPUs that share it (`0-1`).
    pub shared_cpu_list: String,
}
