//! What travels with the rows: the machine, its settings and how the recording went.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the trace format that this build writes and reads.
pub const FORMAT: u32 = 2;

/// The first format whose files have a hash of what they say.
pub const FIRST_HASHED_FORMAT: u32 = 2;

/// Key of the JSON document in the Parquet file's metadata.
pub const METADATA_KEY: &str = "mmtwin.trace";

/// The JSON document of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// The mmtwin that recorded.
    pub mmtwin_version: String,
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    /// The command that was recorded; empty if anonymized.
    pub command: Vec<String>,
    /// Pid of the command.
    pub command_task: i32,
    /// Pids of the recorder's own threads: their events are in the trace, and are not the command's.
    pub recorder_tasks: Vec<i32>,
    /// Name of the trace clock (`mono`).
    pub clock: String,
    /// Task names are replaced by `task-1`, `task-2`, ...; the command is dropped.
    pub anonymized: bool,
    /// Rows in the file.
    pub events: u64,
    /// Events between the first and the last row that are missing, as the kernel's buffers were full: the sum of
    /// `losses`. A replay needs 0.
    pub lost: u64,
    /// Where they are missing.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Events after the last row that were left out, as not all of that time were recorded: the recorder was killed, or
    /// its disk was full.
    #[serde(default)]
    pub left_out: u64,
    /// Seconds from the first event to the last.
    pub seconds: f64,
    /// How the recording ended.
    pub ended: Ending,
    /// Name (comm) of each task seen. Where the kernel gave a pid, or a task a name, twice: the last.
    pub tasks: BTreeMap<i32, String>,
    /// The memory manager's state right before the first event.
    pub before: Snapshot,
    /// The state right after the last event; empty if the recorder was killed.
    pub after: Snapshot,
    /// The sysctls that the page allocator obeys, by full name (`vm.min_free_kbytes`), as the kernel prints them.
    pub settings: BTreeMap<String, String>,
    /// The CPU caches: the kernel sizes per-CPU page batches by them.
    pub caches: Vec<Cache>,
}

/// Events of one CPU that are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The CPU.
    pub cpu: u16,
    /// Time of its last event before them, in nanoseconds as of rows.
    pub after: u64,
    /// Time of its first event after them.
    pub before: u64,
    /// How many, at least.
    pub events: u64,
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The command ran to its end.
    #[default]
    CommandExited,
    /// Ctrl-C or SIGTERM ended recorder and command.
    Interrupted,
    /// Recording stopped before the disk was full; the command ran on unrecorded.
    DiskFull,
    /// The recorder was killed; the trace was made from what it left.
    RecorderKilled,
}

/// The kernel's own text, file by file. Empty where the kernel has no such file.
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
