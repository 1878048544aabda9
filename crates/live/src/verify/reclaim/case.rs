//! A case: a sequence of accesses, the environment in which it ran, and the kernel's counters.

use std::collections::BTreeMap;
use std::str::FromStr;

use machine::memblock::ZoneSpan;
use serde::{Deserialize, Serialize};
use workload::access::sequences::Sequence;

use super::group_write::GroupWrite;
use super::pressure::Pressure;

use crate::verify::Cause;

/// The LRU implementation that reclaim uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lru {
    /// Active and inactive lists.
    Classic,
    /// The multi-gen LRU.
    MultiGen,
}

impl Lru {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Lru::Classic => "classic LRU",
            Lru::MultiGen => "multi-gen LRU",
        }
    }

    /// The suffix of the names of cases.
    pub fn suffix(self) -> &'static str {
        match self {
            Lru::Classic => "classic",
            Lru::MultiGen => "multi-gen",
        }
    }
}

impl FromStr for Lru {
    type Err = String;

    fn from_str(suffix: &str) -> Result<Lru, String> {
        let found = [Lru::Classic, Lru::MultiGen].into_iter().find(|lru| lru.suffix() == suffix);
        found.ok_or_else(|| format!("no LRU `{suffix}`; there are classic and multi-gen"))
    }
}

/// How a file is accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Way {
    /// `pread` within one page per access, after `POSIX_FADV_RANDOM`.
    #[default]
    Pread,
    /// Loads from a shared mapping, after `MADV_RANDOM`.
    RandomMapping,
    /// `pread` of several pages per access, with readahead.
    Readahead {
        /// Pages per `pread`.
        request_pages: u32,
        /// Size of the file in pages.
        file_pages: u32,
        /// Whether the file system uses large folios.
        large_folios: bool,
    },
}

impl Way {
    fn is_default(&self) -> bool {
        *self == Way::default()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One run of a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The case's name, which is a prefix of the names of its files.
    pub name: String,
    /// The sequence ([`Sequence::named`]); `None` if the accesses are in a file, made as `way` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    pub lru: Lru,
    /// The machine's memory in bytes.
    pub memory: u64,
    /// Its zones, from /proc/zoneinfo; empty if not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneSpan>,
    /// Pages available for the page cache when no memory cgroup limits it: free pages and file pages, once
    /// reclaim has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_pages: Option<u64>,
    /// Limit of the memory cgroup in pages; `None`: no limit, so reclaim is global.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memcg_max: Option<u64>,
    /// Writes to other files of the cgroup, in order of accesses. With any of them the accesses are made in a cgroup, which has
    /// no `memory.max` unless `memcg_max` says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<GroupWrite>,
    /// Pages charged to the cgroup besides the accessed ones, mostly kernel memory.
    #[serde(default)]
    pub memcg_other: u64,
    /// Size of swap in pages.
    pub swap_pages: u64,
    /// Number of accesses between two reads of memory.stat, which flush the counters that refault distances
    /// use; 0: no reads.
    pub stat_reads: u32,
    /// Time from one access to the next in microseconds; 0 if they follow at once. As many as `stat_reads` are made together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pace_us: u64,
    /// Which of the boots of the same it is, each with other random numbers in the kernel, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u64,
    /// Whether the number of pages evicted at a time is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batches: bool,
    /// How the accesses of a file are made.
    #[serde(default, skip_serializing_if = "Way::is_default")]
    pub way: Way,
    /// Settings that differ from the defaults, by full name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The kernel's counters from the first to the last access, by their names in /proc/vmstat.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Known causes of differences, by counter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<String, Cause>,
}

impl Case {
    /// A case that runs `sequence` under a `pressure`, on a machine with so many bytes of `memory`.
    pub fn of_sequence(
        sequence: &Sequence,
        pressure: Pressure,
        lru: Lru,
        memory: u64,
        stat_reads: u32,
    ) -> Case {
        Case {
            name: Case::name_of(sequence, pressure, lru),
            sequence: Some(sequence.name.into()),
            lru,
            memory,
            zones: Vec::new(),
            free_pages: None,
            memcg_max: pressure.memcg_max(sequence),
            writes: pressure.writes(sequence),
            memcg_other: 0,
            swap_pages: 0,
            stat_reads,
            pace_us: pressure.pace_us(),
            seed: 0,
            batches: false,
            way: Way::default(),
            settings: pressure.settings().into_iter().collect(),
            counters: BTreeMap::new(),
            causes: BTreeMap::new(),
        }
    }

    /// Whether the accesses are made in a memory cgroup of their own; otherwise the machine itself runs short.
    pub fn is_in_group(&self) -> bool {
        self.memcg_max.is_some() || !self.writes.is_empty()
    }

    /// Whether DAMON_RECLAIM takes the pages, and nothing else. It does at times of its own, so pages that came in and were evicted are
    /// only counted, as `misses` and `evictions` among the counters.
    pub fn is_damon(&self) -> bool {
        self.pace_us > 0
    }

    /// The name of such a case: `zipf-classic`, or `zipf-high-classic` where memory.high takes the place of memory.max.
    pub fn name_of(sequence: &Sequence, pressure: Pressure, lru: Lru) -> String {
        let pressure =
            if pressure == Pressure::Max { String::new() } else { format!("-{}", pressure.name()) };
        format!("{}{pressure}-{}", sequence.name, lru.suffix())
    }
}
