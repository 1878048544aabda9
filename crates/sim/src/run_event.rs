//! What happened in a run at a time, and is looked for first by who wonders about its numbers.
//!
//! ```text
//!   2.000 s   write          vm.nr_hugepages=2048          0.141 s, 470 of 2048 pages
//!   3.204 s   oom_kill       memory.max of 64 MiB          a process of database
//!   5.100 s   kswapd_gave_up node 0                        for 2.3 s
//!   5.310 s   memory_stall   service, 14 ms                refault 12 ms, direct reclaim 2 ms
//!   5.309 s   slowest_transaction   service, 15 ms         refault 12 ms, direct reclaim 2 ms, the rest on a CPU
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunEvent {
    /// Virtual time in seconds at which it began, as in series.
    pub seconds: f64,
    /// How long it took in seconds; absent if it had not ended by the end of the run, and for what takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_seconds: Option<f64>,
    pub what: Happening,
}

/// What is said of a write that has not ended.
pub const CUT_OFF: &str = "cut off by the end of the run";

/// What it was.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// An operator's write to a file of the kernel.
    Write(FileWrite),
    /// The OOM killer has killed.
    OomKill {
        /// Why nothing else could go.
        cause: String,
        /// Who was killed.
        killed: Vec<Killed>,
    },
    /// Kswapd of a node has reclaimed nothing so often that it sleeps until an allocation has reclaimed something itself.
    KswapdGaveUp { node: u8 },
    /// A thread stood still because memory was short.
    MemoryStall {
        /// Its program.
        program: String,
        /// Seconds by cause, those of `delays` of programs.
        causes: BTreeMap<String, f64>,
    },
    /// The transaction of a program that took longest.
    SlowestTransaction {
        program: String,
        /// Seconds that it waited for its thread, which had earlier ones to do.
        queued_seconds: f64,
        /// Seconds that its thread did not go on, by cause, those of `delays` of programs; the rest it was on a CPU.
        delays: BTreeMap<String, f64>,
    },
}

/// A write to a file of the kernel.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FileWrite {
    pub file: String,
    pub value: String,
    /// Seconds that it was on a CPU.
    pub cpu_seconds: f64,
    /// What it asked for: huge pages of a pool, pages of memory.reclaim. Absent for other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// How many of these there were in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<u64>,
    /// Why there are fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Memory that it has migrated, in MiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub migrated_mib: f64,
    /// Memory of files that it has freed, in MiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_mib: f64,
}

fn is_zero(mib: &f64) -> bool {
    *mib == 0.0
}

/// A process that was killed.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Killed {
    pub program: String,
    /// What its death freed at once, in MiB.
    pub mib: f64,
    /// Whether it was the one chosen for its badness; others go with it.
    pub is_chosen: bool,
}

impl RunEvent {
    /// What a reader of a run's numbers has to know of it, in two parts: what happened, and the rest. `None` for what is as it should be.
    pub fn note(&self) -> Option<(String, String)> {
        match &self.what {
            Happening::Write(write) => {
                let problem = match self.took_seconds {
                    None => Some(CUT_OFF),
                    Some(_) => write.problem.as_deref(),
                };
                let parts = write.pages_reached().into_iter().chain([problem?.to_string()]);
                Some((format!("a write to {}", write.file), parts.collect::<Vec<_>>().join(", ")))
            }
            Happening::OomKill { cause, killed } => {
                let killed: Vec<String> = killed.iter().map(Killed::to_string).collect();
                Some(("out of memory".into(), format!("{cause}; killed: {}", killed.join(", "))))
            }
            Happening::KswapdGaveUp { node } => Some((
                format!("kswapd of node {node} gave up"),
                "it had reclaimed nothing 16 times in a row".into(),
            )),
            Happening::MemoryStall { .. } | Happening::SlowestTransaction { .. } => None,
        }
    }
}

impl FileWrite {
    /// How many pages there were in the end, if it asked for some.
    pub fn pages_reached(&self) -> Option<String> {
        Some(format!("{} of {} pages", self.reached?, self.asked?))
    }
}

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let chosen = if self.is_chosen { ", the worst" } else { "" };
        write!(f, "a process of {} ({:.1} MiB in memory{chosen})", self.program, self.mib)
    }
}
