//! What makes the pages of a sequence go.
//!
//! ```text
//!   accesses         0 . . . . . . . 20000 . . . . . . 40000 . .
//!   memory.max       the group has this limit: a miss reclaims before its page comes in
//!   memory.high      ^ the same number: the reader reclaims on its way back from each read that exceeds it
//!   memory.reclaim                   ^ 8 MiB           ^ 8 MiB          nothing else limits the group
//!   damon_reclaim    5000 accesses a second; what has not been accessed for 4 seconds is paged out, all of it or 4 MiB a second
//! ```
//!
//! memory.high and memory.reclaim exist in version 2 of cgroups only, DAMON_RECLAIM where the kernel was built with it. A
//! processor's accessed bits are not asked: pages are read, not mapped, so that DAMON goes by what the page cache knows.

use std::str::FromStr;

use mm::memcontrol::MemcgFile;
use workload::access::PAGE_SIZE;
use workload::access::sequences::Sequence;

use super::group_write::GroupWrite;

/// Accesses between two writes to memory.reclaim, and how much each asks for.
const RECLAIM_EVERY: usize = 20_000;
const RECLAIM_BYTES: u64 = 8 << 20;

/// Time from one access to the next where DAMON_RECLAIM works, in microseconds.
const DAMON_PACE_US: u64 = 200;

/// How often it is asked: it chooses pages at random.
const DAMON_BOOTS: u64 = 4;

/// DAMON_RECLAIM as it is asked: ten samples in a second, whatever is free.
const DAMON: [(&str, &str); 9] = [
    ("sample_interval", "100000"),
    ("aggr_interval", "1000000"),
    ("min_age", "4000000"),
    ("quota_ms", "0"),
    ("quota_reset_interval_ms", "1000"),
    ("wmarks_high", "1000"),
    ("wmarks_mid", "1000"),
    ("wmarks_low", "0"),
    ("enabled", "Y"),
];

/// What makes pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    Max,
    High,
    Reclaim,
    /// DAMON_RECLAIM without a quota.
    Damon,
    /// DAMON_RECLAIM with a quota of bytes.
    DamonQuota,
}

/// Sequences that consist of reads only, each with what it is run under.
pub const CASES: [(&str, Pressure); 11] = [
    ("zipf", Pressure::Max),
    ("loop", Pressure::Max),
    ("scanmix", Pressure::Max),
    ("shift", Pressure::Max),
    ("zipf", Pressure::High),
    ("scanmix", Pressure::High),
    ("zipf", Pressure::Reclaim),
    ("shift", Pressure::Reclaim),
    ("scanmix", Pressure::Damon),
    ("shift", Pressure::Damon),
    ("shift", Pressure::DamonQuota),
];

impl Pressure {
    const ALL: [(&str, Pressure); 5] = [
        ("max", Pressure::Max),
        ("high", Pressure::High),
        ("reclaim", Pressure::Reclaim),
        ("damon", Pressure::Damon),
        ("damon-quota", Pressure::DamonQuota),
    ];

    pub fn name(self) -> &'static str {
        Pressure::ALL.into_iter().find(|(_, pressure)| *pressure == self).map_or("", |(name, _)| name)
    }

    /// `memory.max` of the group that `sequence` runs in, in pages; `None` if it has none.
    pub fn memcg_max(self, sequence: &Sequence) -> Option<u64> {
        sequence.memcg_max.filter(|_| self == Pressure::Max)
    }

    /// Writes to other files of the group.
    pub fn writes(self, sequence: &Sequence) -> Vec<GroupWrite> {
        match self {
            Pressure::High => {
                let high = sequence.memcg_max.map(|pages| pages * PAGE_SIZE);
                let write = |bytes| GroupWrite { access: 0, file: MemcgFile::High, bytes };
                high.map(write).into_iter().collect()
            }
            Pressure::Reclaim => {
                let accesses = (0..sequence.operations().len() as u32).step_by(RECLAIM_EVERY).skip(1);
                let write = |access| GroupWrite { access, file: MemcgFile::Reclaim, bytes: RECLAIM_BYTES };
                accesses.map(write).collect()
            }
            Pressure::Max | Pressure::Damon | Pressure::DamonQuota => Vec::new(),
        }
    }

    /// Time from one access to the next in microseconds; 0 for none.
    pub fn pace_us(self) -> u64 {
        if self.is_damon() { DAMON_PACE_US } else { 0 }
    }

    /// Settings that differ from the defaults, by full name; DAMON_RECLAIM is switched on last.
    pub fn settings(self) -> Vec<(String, String)> {
        if !self.is_damon() {
            return Vec::new();
        }
        let quota = if self == Pressure::DamonQuota { "4194304" } else { "0" };
        let all = std::iter::once(("quota_sz", quota)).chain(DAMON);
        all.map(|(name, value)| (format!("{MODULE}.{name}"), value.into())).collect()
    }

    /// In how many boots a case is run, each with other random numbers in the kernel.
    pub fn boots(self) -> u64 {
        if self.is_damon() { DAMON_BOOTS } else { 1 }
    }

    pub fn is_damon(self) -> bool {
        matches!(self, Pressure::Damon | Pressure::DamonQuota)
    }
}

/// The prefix of the names of DAMON_RECLAIM's settings and counters.
pub const MODULE: &str = "damon_reclaim";

impl FromStr for Pressure {
    type Err = String;

    fn from_str(name: &str) -> Result<Pressure, String> {
        let found = Pressure::ALL.into_iter().find(|(known, _)| *known == name);
        let names = || Pressure::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, pressure)| pressure).ok_or_else(|| format!("no `{name}`; there are {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_cause() {
        let zipf = Sequence::named("zipf").unwrap();
        let writes = |pressure: Pressure| {
            let writes = pressure.writes(zipf);
            (writes.len(), writes.first().map(ToString::to_string))
        };
        assert_eq!((Pressure::Max.memcg_max(zipf), writes(Pressure::Max)), (Some(4096), (0, None)));
        assert_eq!(writes(Pressure::High), (1, Some("0:memory.high:16777216".into())));
        assert_eq!(writes(Pressure::Reclaim), (14, Some("20000:memory.reclaim:8388608".into())));
        for (name, pressure) in Pressure::ALL {
            assert_eq!((pressure.name(), name.parse()), (name, Ok(pressure)));
            assert_eq!(pressure.settings().is_empty(), pressure.pace_us() == 0);
            assert_eq!(pressure.memcg_max(zipf).is_some(), pressure == Pressure::Max);
        }
        assert!("low".parse::<Pressure>().is_err());
    }
}
