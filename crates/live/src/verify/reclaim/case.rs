//! Which accesses run in which surroundings, and what the kernel counted meanwhile.

use std::collections::BTreeMap;
use std::str::FromStr;

use machine::memblock::ZoneSpan;
use serde::{Deserialize, Serialize};
use workload::access::sequences::Sequence;

use crate::verify::Cause;

/// Which of the two families of lists reclaim goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lru {
    /// Active and inactive lists.
    Classic,
    /// Generations.
    MultiGen,
}

impl Lru {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Lru::Classic => "classic LRU",
            Lru::MultiGen => "multi-gen LRU",
        }
    }

    /// The end of a case's name.
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
        found.ok_or_else(|| format!("no lists `{suffix}`; there are classic and multi-gen"))
    }
}

/// How a file is accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Way {
    /// A `pread` within a page each, after `POSIX_FADV_RANDOM`.
    #[default]
    Pread,
    /// A load each through a shared mapping, after `MADV_RANDOM`.
    RandomMapping,
    /// A `pread` of several pages each, with readahead.
    Readahead {
        /// Pages of each.
        request_pages: u32,
        /// Length of the file.
        file_pages: u32,
        /// Its file system has large folios.
        large_folios: bool,
    },
}

impl Way {
    fn is_default(&self) -> bool {
        *self == Way::default()
    }
}

/// One run of a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, with which its files begin.
    pub name: String,
    /// The sequence ([`Sequence::named`]); none if the accesses are in a file, made as `way` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    /// The lists that were in use.
    pub lru: Lru,
    /// Bytes of the machine.
    pub memory: u64,
    /// Its zones, as /proc/zoneinfo shows them; none: they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneSpan>,
    /// Pages that could be page cache, where no memory cgroup limits: free ones and those of files, once reclaim has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_pages: Option<u64>,
    /// Pages that the memory cgroup may hold; none: reclaim is global.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memcg_max: Option<u64>,
    /// Pages that the group holds besides those that are accessed: mostly kernel memory.
    #[serde(default)]
    pub memcg_other: u64,
    /// Pages of swap.
    pub swap_pages: u64,
    /// Accesses between two readings of memory.stat, which bring the counts that refaults go by up to date; 0: none.
    pub stat_reads: u32,
    /// Whether it is known how many pages were evicted at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batches: bool,
    /// How the accesses of a file of them are made.
    #[serde(default, skip_serializing_if = "Way::is_default")]
    pub way: Way,
    /// Settings that are not the defaults, by full name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// What the kernel counted from the first access to the last, by its names in /proc/vmstat.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Why counters differ that do, where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<String, Cause>,
}

impl Case {
    /// `sequence` in a memory cgroup, or on the whole machine, as the sequence wants it.
    pub fn of_sequence(sequence: &Sequence, lru: Lru, memory: u64, stat_reads: u32) -> Case {
        Case {
            name: format!("{}-{}", sequence.name, lru.suffix()),
            sequence: Some(sequence.name.into()),
            lru,
            memory,
            zones: Vec::new(),
            free_pages: None,
            memcg_max: sequence.memcg_max,
            memcg_other: 0,
            swap_pages: 0,
            stat_reads,
            batches: false,
            way: Way::default(),
            settings: BTreeMap::new(),
            counters: BTreeMap::new(),
            causes: BTreeMap::new(),
        }
    }
}
