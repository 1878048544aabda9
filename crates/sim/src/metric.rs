//! What is measured: every metric is declared once.
//!
//! ```text
//!   a line below ─┬─► mmtwin list metrics, --json, docs/src/reference/names.md
//!                 ├─► tables of run and compare      whether a change is told in per cent or as a difference
//!                 ├─► a scenario's `metrics`, --fail-if     refused where no run could have it, or no change be so large
//!                 └─► Outcome::set, tests            no run's value is out of its bounds
//! ```
//!
//! Its kind says between which bounds values are, and on which scale they differ.

use mm::sysctl::{Scale, most_like};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither; it explains.
    Neutral,
}

impl Better {
    /// The direction in a word.
    pub fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neutral => "neutral",
        }
    }
}

/// What kind of quantity a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// How long something takes.
    Time,
    /// How many there were.
    Count,
    /// How much memory.
    Memory,
    /// Memory gained less memory spent on it, which can be less than nothing.
    Balance,
    /// How many in a time.
    Rate,
    /// How many of one thing for each of another.
    Ratio,
    /// Counts of several things, weighed and added up.
    Cost,
    /// A part of all, in per cent.
    Share,
    /// A share less another one, in points.
    ShareDifference,
}

impl Kind {
    /// The kind in a word, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Count => "count",
            Kind::Memory => "memory",
            Kind::Balance => "balance",
            Kind::Rate => "rate",
            Kind::Ratio => "ratio",
            Kind::Cost => "cost",
            Kind::Share => "share",
            Kind::ShareDifference => "share-difference",
        }
    }

    /// The least value that there can be.
    pub const fn least(self) -> Option<f64> {
        match self {
            Kind::Balance => None,
            Kind::ShareDifference => Some(-100.0),
            _ => Some(0.0),
        }
    }

    /// The largest value that there can be.
    pub const fn most(self) -> Option<f64> {
        match self {
            Kind::Share | Kind::ShareDifference => Some(100.0),
            _ => None,
        }
    }

    /// How values differ: shares, and what has no natural zero, by so much; all else by a factor.
    const fn scale(self) -> Scale {
        match self {
            Kind::Share | Kind::ShareDifference | Kind::Balance => Scale::Linear,
            _ => Scale::Logarithmic,
        }
    }
}

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Metric {
    /// Its name in JSON, Parquet and `--help`.
    pub name: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    /// What kind of quantity it is.
    pub kind: Kind,
    /// Its unit.
    pub unit: &'static str,
    /// Whether values differ by so much (`linear`) or by a factor (`logarithmic`), which is also how a change is told.
    #[serde(serialize_with = "scale_name")]
    #[schemars(with = "String")]
    pub scale: Scale,
    /// Which way is better.
    pub better: Better,
    /// Whether only published tables have it. Others are of runs, some of them only with certain keys.
    pub only_published: bool,
    /// What it means.
    pub description: &'static str,
}

fn scale_name<S: Serializer>(scale: &Scale, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(scale.name())
}

macro_rules! metrics {
    ($(#[doc = $all:literal])* $list:ident, $(
        $constant:ident, $name:literal, $label:literal, $kind:ident $(on $scale:ident)?, $unit:literal, $better:ident
        $(in $published:ident)?, $description:literal;
    )*) => {
        $(
            #[doc = $description]
            pub const $constant: Metric = Metric {
                name: $name,
                label: $label,
                kind: Kind::$kind,
                unit: $unit,
                scale: Kind::$kind.scale(),
                better: Better::$better,
                only_published: false,
                description: $description,
            }$(.on(Scale::$scale))?$(.$published())?;
        )*
        $(#[doc = $all])*
        pub const $list: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    /// All metrics of whole runs, in the order of tables.
    METRICS,
    BUILD_TIME, "build_time", "build time", Time, "s", Lower,
        "virtual time from where measuring begins to the end of the last link";
    SCORE, "score", "score", Rate, "1/s", Higher,
        "transactions of all programs, a second of virtual time: messages received, pages touched, operations done";
    LOCK, "lock", "spinlock share", Share, "% of cycles", Lower,
        "busy CPU time spent spinning for any modelled spinlock, hand-overs included";
    ZONE_LOCK, "zone_lock", "zone-lock share", Share, "% of cycles", Lower,
        "busy CPU time spent spinning for zone locks, hand-overs included";
    FREE_HIGH, "free_high", "free_high drains", Count, "drains", Lower,
        "pageset drains because of consecutive high-order frees";
    ALLOC_ZONE, "alloc_zone", "pages from zone", Count, "pages", Lower,
        "base pages taken from a zone, into a pageset or directly";
    CACHE_MISS, "cache_miss", "cache miss rate", Share, "% of references", Lower,
        "last-level cache misses among its references, page contents only";
    PCP_MAX, "pcp_max", "in PCP, maximum", Memory, "MiB", Lower,
        "memory in per-CPU pagesets at its highest";
    PCP_END, "pcp_end", "in PCP, at the end", Memory, "MiB", Lower,
        "memory in per-CPU pagesets at the end, decay included";
    MEMORY_MAX, "memory_max", "memory used, maximum", Memory, "MiB", Lower,
        "memory that is not in free lists at its highest";
    ALLOC_P50, "alloc_p50", "allocation p50", Time, "ns", Lower,
        "median latency of an allocation beyond its private part";
    ALLOC_P99, "alloc_p99", "allocation p99", Time, "ns", Lower,
        "99th percentile of the latency of an allocation beyond its private part";
    TAKE_MEAN, "alloc_avg", "taking under lock, mean", Time, "us", Lower,
        "mean time under the zone lock while blocks are taken";
    TAKE_P99, "alloc_p99_locked", "taking under lock, p99", Time, "us", Lower,
        "99th percentile of the time under the zone lock while blocks are taken";
    PUT_MEAN, "free_avg", "freeing under lock, mean", Time, "us", Lower,
        "mean time under the zone lock while blocks are put back";
    PUT_P99, "free_p99_locked", "freeing under lock, p99", Time, "us", Lower,
        "99th percentile of the time under the zone lock while blocks are put back";
    GROW_TIME, "grow_time", "growing pools", Time, "s", Lower,
        "virtual time of the writes that raised a pool of huge pages";
    SHRINK_TIME, "shrink_time", "shrinking pools", Time, "s", Lower,
        "virtual time of the writes that lowered a pool of huge pages";
    POOL_BOOT_TIME, "pool_boot_time", "filling pools at boot", Time, "s", Lower,
        "virtual time in which boot filled pools of huge pages";
    DEMOTE_TIME, "demote_time", "demoting huge pages", Time, "s", Lower,
        "virtual time of the writes that demoted huge pages to smaller ones";
    PAGES_REACHED, "pages_reached", "pages reached", Count, "pages", Higher,
        "what the pool had after the last write that raised it";
    VMEMMAP_FREED, "vmemmap_freed", "vmemmap freed", Balance on Logarithmic, "MiB", Higher,
        "memory of struct pages given back, less new page tables, after the last write that raised a pool";
    GROW_FLUSHES, "grow_flushes", "TLB flushes, growing", Count, "flushes", Lower,
        "flushes of kernel translations on all CPUs while pools were raised";
    SHRINK_FLUSHES, "shrink_flushes", "TLB flushes, shrinking", Count, "flushes", Lower,
        "flushes of kernel translations on all CPUs while pools were lowered";
    IPIS, "ipis", "IPIs", Count, "calls", Lower,
        "functions called on other CPUs to flush their translations";
    HUGETLB_LOCK_HOLDS, "hugetlb_lock_holds", "hugetlb_lock holds", Count, "holds", Lower,
        "how often hugetlb_lock was taken";
    TRANSACTIONS, "transactions", "transactions", Count, "transactions", Higher,
        "transactions that clients have completed";
    TRANSACTION_TIME, "transaction_time", "time in transactions", Time, "us", Neutral,
        "virtual time of completed transactions, summed over clients";
    TRANSACTION_RATE, "transaction_rate", "transaction rate", Rate, "1/s", Higher,
        "completed transactions by the time in transactions: the rate of one client";
    QUERY_RATE, "query_rate", "queries", Rate, "1/s", Higher,
        "queries answered a second of virtual time";
    DURATION, "duration", "duration", Time, "s", Neutral,
        "virtual time from the first transaction to the end of the last";
    ELAPSED, "elapsed", "elapsed", Time, "s", Lower,
        "virtual time from the start of measuring until all programs have ended, or were cut off";
    USER_TIME, "user_time", "user time", Time, "s", Lower,
        "CPU time of programs, waiting for memory included, all CPUs";
    SYSTEM_TIME, "system_time", "system time", Time, "s", Lower,
        "CPU time of the kernel, all CPUs";
    LOCAL_ACCESSES, "local_accesses", "local accesses", Share, "%", Higher,
        "pages that threads used on the node where they ran, of all that they used";
    HINT_FAULTS_LOCAL, "numa_hint_local_percent", "local hint faults", Share, "%", Neutral,
        "hint faults whose page was on the thread's node, of all";
    AUTONUMA_COST, "autonuma_cost", "AutoNUMA cost", Cost, "units", Lower,
        "updates, hint faults and migrations, weighed as mmtests does";
    FILE_READ_RATE, "file_read_rate", "read from files", Rate, "MB/s", Neutral,
        "what the device of files has read, a second of virtual time";
    REFAULTS_PER_TRANSACTION, "refaults_per_transaction", "refaults a transaction", Ratio, "pages", Lower,
        "pages read again that had been evicted, an operation or transaction done";
    WORKINGSET_REFAULT_FILE, "workingset_refault_file", "workingset_refault_file", Count, "pages", Neutral,
        "pages of files read again that had been evicted";
    WORKINGSET_REFAULT_ANON, "workingset_refault_anon", "workingset_refault_anon", Count, "pages", Neutral,
        "anonymous pages read again that had been evicted";
    WORKINGSET_ACTIVATE_FILE, "workingset_activate_file", "workingset_activate_file", Count, "pages", Neutral,
        "refaulted pages of files that became active at once";
    WORKINGSET_ACTIVATE_ANON, "workingset_activate_anon", "workingset_activate_anon", Count, "pages", Neutral,
        "refaulted anonymous pages that became active at once";
    WORKINGSET_RESTORE_FILE, "workingset_restore_file", "workingset_restore_file", Count, "pages", Neutral,
        "refaulted pages of files that had been part of the working set";
    WORKINGSET_RESTORE_ANON, "workingset_restore_anon", "workingset_restore_anon", Count, "pages", Neutral,
        "refaulted anonymous pages that had been part of the working set";
    WORKINGSET_NODES, "workingset_nodes", "workingset_nodes", Count, "nodes", Neutral,
        "nodes of files that hold nothing but shadows, at the end";
    WORKINGSET_NODERECLAIM, "workingset_nodereclaim", "workingset_nodereclaim", Count, "nodes", Neutral,
        "nodes of files freed that held nothing but shadows";
    PSWPIN, "pswpin", "pswpin", Count, "pages", Neutral,
        "pages read from swap";
    PSWPOUT, "pswpout", "pswpout", Count, "pages", Neutral,
        "pages written to swap";
    ZSWPIN, "zswpin", "zswpin", Count, "pages", Neutral,
        "pages decompressed from zswap for faults";
    ZSWPOUT, "zswpout", "zswpout", Count, "pages", Neutral,
        "pages compressed into zswap";
    ZSWPWB, "zswpwb", "zswpwb", Count, "pages", Neutral,
        "pages that zswap wrote back to the swap device";
    NR_DIRTIED, "nr_dirtied", "nr_dirtied", Count, "pages", Neutral,
        "pages of files that became dirty";
    NR_WRITTEN, "nr_written", "nr_written", Count, "pages", Neutral,
        "pages that flushers and reclaim have written";
    MEM_TOTAL, "mem_total", "memory, total", Memory, "MiB", Neutral,
        "memory of the machine, as free(1) prints it at the end";
    MEM_USED, "mem_used", "memory, used", Memory, "MiB", Neutral,
        "total less free, buffers and page cache, at the end";
    MEM_FREE, "mem_free", "memory, free", Memory, "MiB", Neutral,
        "memory in free lists at the end";
    MEM_SHARED, "mem_shared", "memory, shared", Memory, "MiB", Neutral in published_tables,
        "shared memory and tmpfs at the end";
    MEM_BUFF_CACHE, "mem_buff_cache", "memory, buff/cache", Memory, "MiB", Neutral,
        "buffers, page cache and reclaimable slabs at the end";
    MEM_AVAILABLE, "mem_available", "memory, available", Memory, "MiB", Higher,
        "what new programs could have without swapping, by the kernel's estimate, at the end";
    SLAB_UNRECLAIMABLE, "slab_unreclaimable", "slabs", Memory, "MiB", Neutral,
        "slabs of what the kernel keeps of processes that were forked or executed, at the end";
    SWAP_TOTAL, "swap_total", "swap, total", Memory, "MiB", Neutral,
        "swap space";
    SWAP_USED, "swap_used", "swap, used", Memory, "MiB", Neutral,
        "swap space in use at the end";
    SWAP_FREE, "swap_free", "swap, free", Memory, "MiB", Neutral,
        "swap space that is free at the end";
    ZSWAP, "zswap", "zswap, pool", Memory, "MiB", Neutral,
        "memory that zswap's pool takes at the end";
    ZSWAPPED, "zswapped", "zswap, contents", Memory, "MiB", Neutral,
        "memory that is in zswap at the end, as large as it was before it was compressed";
    RUNS_PER_MINUTE, "runs_per_minute", "runs per minute", Rate, "1/min", Higher,
        "runs of a benchmark, by the CPU time of the program and of what memory takes";
    FAULT_TIME, "fault_time", "time for memory", Time, "ms", Lower,
        "CPU time of recorded programs but for their own work, first uses and ticks: page faults, clearing, copying, unmapping";
    FIRST_USE_TIME, "first_use_time", "time for first uses", Time, "ms", Lower,
        "CPU time that the program waits for pages that were cleared with others, when it uses them first";
    PAGE_WALK_TIME, "page_walk_time", "time for page walks", Time, "ms", Lower,
        "CPU time of the program's page walks";
    PAGE_FAULTS, "page_faults", "page faults", Count, "faults", Lower,
        "page faults of all programs (pgfault), where one of them was recorded";
    SHARE_64K, "share_64k", "memory in 64K folios", Share, "%", Neutral,
        "part of recorded programs' anonymous memory in folios of 64 KiB, sampled ten times a second of virtual time";
    SHARE_32K, "share_32k", "memory in 32K folios", Share, "%", Neutral,
        "part of it in folios of 32 KiB";
    SHARE_16K, "share_16k", "memory in 16K folios", Share, "%", Neutral,
        "part of it in folios of 16 KiB";
    SHARE_4K, "share_4k", "memory in 4K folios", Share, "%", Neutral,
        "part of it in single pages";
    ANON_MAX, "anon_max", "anonymous memory, maximum", Memory on Linear, "MiB", Lower,
        "memory of their own that all processes of recorded programs have mapped, the most at any hundredth of a second; without files and page tables";
    PREFERRED_SUCCESS, "preferred_success", "preferred order", Share, "%", Higher,
        "of the faults that had room for the preferred order, those that got it, in the last fifth of the run";
    PREFERRED_SUCCESS_EARLY, "preferred_success_early", "preferred order early", Share, "%", Higher,
        "the same from the 10th to the 20th turnover of what is mapped at a time";
    PREFERRED_DRIFT, "preferred_drift", "drift of preferred order", ShareDifference, "points", Neutral,
        "how much that share is above the one of the fifth before: far from 0 the run has not reached equilibrium";
    EQUILIBRIUM_TIME, "equilibrium_time", "time to equilibrium", Time, "turnovers", Higher,
        "memory turned over until that share is what it will be in the end, within 2 points for good, over means of 20,000 faults; the whole run if it never is, none of short runs";
    PREFERRED_FOLIOS, "preferred_folios", "preferred folios", Count, "folios", Higher,
        "anonymous folios of the preferred order, in the last fifth of the run";
    UNUSABLE_FREE, "unusable_free", "unusable free memory", Share, "%", Lower,
        "part of free memory in blocks smaller than the preferred order, in the last fifth of the run";
    ANON_MEMORY, "anon_memory", "anonymous memory", Share, "% of memory", Neutral,
        "memory that processes have mapped, touched or not, in the last fifth of the run";
    UNTOUCHED_MEMORY, "untouched_memory", "untouched memory", Share, "% of memory", Lower,
        "memory of processes that none of them touched, in the last fifth of the run";
    FAULTS_PER_PAGE, "faults_per_page", "faults per page", Ratio, "faults", Lower,
        "page faults for each page that was touched";
    PAGES_MIGRATED, "pages_migrated", "pages migrated", Count, "pages", Lower,
        "pages that compaction moved";
}

/// Keeps a text for as long as this process lives, once: a metric is copied wherever it goes, and a scenario has few
/// programs.
fn kept(text: String) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    // An insertion that panicked has left the set whole.
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = all.get(text.as_str()) {
        return there;
    }
    let text: &'static str = text.leak();
    all.insert(text);
    text
}

/// What stands between the name of a metric and that of the program.
const OF_PROGRAM: char = '@';

/// Whether the metric of this name says how many processes of a program were killed.
pub fn is_of_kills(name: &str) -> bool {
    name.split_once(OF_PROGRAM).is_some_and(|(metric, _)| metric == of_program::PROCESSES_KILLED.name)
}

/// Metrics of each program where several run on one machine: `transaction_p99@database`.
pub mod of_program {
    use super::{Better, Kind, Metric};

    metrics! {
        /// All of them, in the order of tables.
        METRICS,
        TRANSACTION_RATE, "transaction_rate", "transactions", Rate, "1/s", Higher,
            "transactions that the program has completed, a second of virtual time";
        TRANSACTION_P50, "transaction_p50", "transaction p50", Time, "us", Lower,
            "median latency of a transaction of the program";
        TRANSACTION_P99, "transaction_p99", "transaction p99", Time, "us", Lower,
            "99th percentile of the latency of a transaction of the program";
        TRANSACTION_P99_9, "transaction_p99.9", "transaction p99.9", Time, "us", Lower,
            "99.9th percentile of the latency of a transaction of the program";
        TRANSACTION_MAX, "transaction_max", "transaction max", Time, "us", Lower,
            "latency of the slowest transaction of the program";
        CPU_TIME, "cpu_time", "CPU time", Time, "s", Lower,
            "CPU seconds while threads of the program, or this thread of the kernel, ran";
        RUN_QUEUE_TIME, "run_queue_time", "waited for a CPU", Time, "s", Lower,
            "seconds that threads of the program waited, in sum, while others ran on their CPUs";
        DEVICE_TIME, "device_time", "waited for devices", Time, "s", Lower,
            "seconds that threads of the program waited, in sum, for devices, but for refaults of the working set";
        MEMORY_STALL_TIME, "memory_stall_time", "memory stalls", Time, "s", Lower,
            "seconds that threads of the program could not go on, in sum, because memory was short, as /proc/pressure/memory counts \
             them: direct reclaim, direct compaction, memory.max, memory.high, refaults of the working set";
        OVER_HIGH_TIME, "over_high_time", "slept over memory.high", Time, "s", Lower,
            "seconds that threads of the program slept, in sum, because their memory cgroup was above memory.high";
        PROCESSES_KILLED, "processes_killed", "processes killed", Count, "processes", Lower,
            "processes of the program that the OOM killer has killed, also while warming up";
    }
}

impl Metric {
    const fn on(self, scale: Scale) -> Metric {
        Metric { scale, ..self }
    }

    /// The same, if only published tables have it.
    const fn published_tables(self) -> Metric {
        Metric { only_published: true, ..self }
    }

    /// The metric named `name`, which is of a whole run, or `NAME@PROGRAM` of one of its programs.
    pub fn find(name: &str) -> Option<Metric> {
        match name.split_once(OF_PROGRAM) {
            None => METRICS.iter().find(|metric| metric.name == name).copied(),
            Some((_, "")) => None,
            Some((name, program)) => {
                let metric = of_program::METRICS.iter().find(|metric| metric.name == name)?;
                Some(metric.of(program))
            }
        }
    }

    /// The metrics whose names are most like a name that is none's, for errors.
    pub fn most_like(name: &str) -> String {
        let is_of_run = |name: &str| METRICS.iter().any(|metric| metric.name == name);
        let of_programs = of_program::METRICS.iter().filter(|metric| !is_of_run(metric.name));
        let like = most_like(
            name.split(OF_PROGRAM).next().unwrap_or(name),
            METRICS.iter().chain(of_programs).map(|metric| metric.name),
        );
        let as_written = |name: &str| match is_of_run(name) {
            true => name.to_string(),
            false => format!("{name}{OF_PROGRAM}PROGRAM"),
        };
        like.split(", ").map(as_written).collect::<Vec<_>>().join(", ")
    }

    /// This metric of [`of_program`] of a program.
    pub fn of(&self, program: &str) -> Metric {
        Metric {
            name: kept(format!("{}{OF_PROGRAM}{program}", self.name)),
            label: kept(format!("{program}: {}", self.label)),
            ..*self
        }
    }

    /// All metrics for a list of them: those of programs stand for any program, as `METRIC@PROGRAM`.
    pub fn listed() -> impl Iterator<Item = Metric> {
        METRICS.iter().copied().chain(of_program::METRICS.iter().map(|metric| metric.of("PROGRAM")))
    }

    /// The program that this is a metric of.
    pub fn program(&self) -> Option<&str> {
        self.name.split_once(OF_PROGRAM).map(|(_, program)| program)
    }

    /// Whether it can have this value.
    pub fn takes(&self, value: f64) -> bool {
        value.is_finite()
            && self.kind.least().is_none_or(|least| value >= least)
            && self.kind.most().is_none_or(|most| value <= most)
    }

    /// Its bounds in words.
    pub fn bounds(&self) -> String {
        match (self.kind.least(), self.kind.most()) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("{least} and more"),
            (None, Some(most)) => format!("{most} and less"),
            (None, None) => "any number".into(),
        }
    }

    /// Why runs never have it; `None` if they may.
    pub fn why_not_measured(&self) -> Option<String> {
        self.only_published.then(|| "only published tables have it".into())
    }

    /// What a change is told in if not in per cent of the first value: points of shares, or the unit where values differ by so much.
    pub fn unit_of_change(&self) -> Option<&'static str> {
        match (self.scale, self.kind) {
            (Scale::Logarithmic, _) => None,
            (Scale::Linear, Kind::Share | Kind::ShareDifference) => Some("pt"),
            (Scale::Linear, _) => Some(self.unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_shares_are_in_per_cent() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[at + 1..].iter().all(|other| other.name != metric.name), "{}", metric.name);
            let is_share = metric.unit.starts_with('%');
            assert_eq!(is_share, metric.kind == Kind::Share, "{}", metric.name);
        }
    }

    #[test]
    fn a_metric_of_programs_is_proposed_with_its_program() {
        assert!(Metric::most_like("run_queue_time").starts_with("run_queue_time@PROGRAM"));
        assert!(Metric::most_like("run_queue_tme@web").starts_with("run_queue_time@PROGRAM"));
        assert!(Metric::most_like("grow_tme").starts_with("grow_time"));
    }

    #[test]
    fn bounds_are_those_of_the_kind() {
        assert!(LOCK.takes(0.0) && LOCK.takes(100.0) && !LOCK.takes(100.1) && !LOCK.takes(f64::NAN));
        assert!(BUILD_TIME.takes(1e9) && !BUILD_TIME.takes(-1e-9) && !BUILD_TIME.takes(f64::INFINITY));
        assert!(VMEMMAP_FREED.takes(-1.0) && PREFERRED_DRIFT.takes(-100.0) && !PREFERRED_DRIFT.takes(-101.0));
        assert_eq!(LOCK.bounds(), "0 to 100");
        assert_eq!(BUILD_TIME.bounds(), "0 and more");
    }

    #[test]
    #[should_panic(expected = "lock = 101")]
    #[cfg(debug_assertions)]
    fn a_run_cannot_have_a_value_out_of_bounds() {
        crate::outcome::Outcome::default().set(LOCK, 101.0);
    }
}
