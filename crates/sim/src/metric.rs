//! What is measured: every metric has its name, unit, meaning and the direction in which it is better, once.

use schemars::JsonSchema;

use serde::Serialize;

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

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Metric {
    /// Its name in JSON, Parquet and `--help`.
    pub name: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// What it means.
    pub description: &'static str,
}

macro_rules! metrics {
    ($($constant:ident, $name:literal, $label:literal, $unit:literal, $better:ident, $description:literal;)*) => {
        $(
            #[doc = $description]
            pub const $constant: Metric = Metric {
                name: $name, label: $label, unit: $unit, better: Better::$better, description: $description,
            };
        )*
        /// All metrics, in the order of tables.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD_TIME, "build_time", "build time", "s", Lower,
        "virtual time from the first warm job to the end of the last link";
    SCORE, "score", "score", "1/s", Higher,
        "messages received, pages faulted in, operations or transactions done, a second of virtual time";
    LOCK, "lock", "spinlock share", "% of cycles", Lower,
        "busy CPU time spent spinning for any modelled spinlock, hand-overs included";
    ZONE_LOCK, "zone_lock", "zone-lock share", "% of cycles", Lower,
        "busy CPU time spent spinning for zone locks, hand-overs included";
    FREE_HIGH, "free_high", "free_high drains", "drains", Lower,
        "pageset drains because of consecutive high-order frees";
    ALLOC_ZONE, "alloc_zone", "pages from zone", "pages", Lower,
        "base pages taken from a zone, into a pageset or directly";
    CACHE_MISS, "cache_miss", "cache miss rate", "% of references", Lower,
        "last-level cache misses among its references, page contents only";
    PCP_MAX, "pcp_max", "in PCP, maximum", "MiB", Lower,
        "memory in per-CPU pagesets at its highest";
    PCP_END, "pcp_end", "in PCP, at the end", "MiB", Lower,
        "memory in per-CPU pagesets at the end, decay included";
    MEMORY_MAX, "memory_max", "memory used, maximum", "MiB", Lower,
        "memory that is not in free lists at its highest";
    ALLOC_P50, "alloc_p50", "allocation p50", "ns", Lower,
        "median latency of an allocation beyond its private part";
    ALLOC_P99, "alloc_p99", "allocation p99", "ns", Lower,
        "99th percentile of the latency of an allocation beyond its private part";
    TAKE_MEAN, "alloc_avg", "taking under lock, mean", "us", Lower,
        "mean time under the zone lock while blocks are taken";
    TAKE_P99, "alloc_p99_locked", "taking under lock, p99", "us", Lower,
        "99th percentile of the time under the zone lock while blocks are taken";
    PUT_MEAN, "free_avg", "freeing under lock, mean", "us", Lower,
        "mean time under the zone lock while blocks are put back";
    PUT_P99, "free_p99_locked", "freeing under lock, p99", "us", Lower,
        "99th percentile of the time under the zone lock while blocks are put back";
    GROW_TIME, "grow_time", "growing pools", "s", Lower,
        "virtual time of the writes that raised a pool of huge pages";
    SHRINK_TIME, "shrink_time", "shrinking pools", "s", Lower,
        "virtual time of the writes that lowered a pool of huge pages";
    POOL_BOOT_TIME, "pool_boot_time", "filling pools at boot", "s", Lower,
        "virtual time in which boot filled pools of huge pages";
    DEMOTE_TIME, "demote_time", "demoting huge pages", "s", Lower,
        "virtual time of the writes that demoted huge pages to smaller ones";
    PAGES_REACHED, "pages_reached", "pages reached", "pages", Higher,
        "what the pool had after the last write that raised it";
    VMEMMAP_FREED, "vmemmap_freed", "vmemmap freed", "MiB", Higher,
        "memory of struct pages given back, less new page tables, after the last write that raised a pool";
    GROW_FLUSHES, "grow_flushes", "TLB flushes, growing", "flushes", Lower,
        "flushes of kernel translations on all CPUs while pools were raised";
    SHRINK_FLUSHES, "shrink_flushes", "TLB flushes, shrinking", "flushes", Lower,
        "flushes of kernel translations on all CPUs while pools were lowered";
    IPIS, "ipis", "IPIs", "calls", Lower,
        "functions called on other CPUs to flush their translations";
    HUGETLB_LOCK_HOLDS, "hugetlb_lock_holds", "hugetlb_lock holds", "holds", Lower,
        "how often hugetlb_lock was taken";
    SERVICE_P50, "service_p50", "service p50", "us", Lower,
        "median of the service's latency, from a request's arrival to its end";
    SERVICE_P99, "service_p99", "service p99", "us", Lower,
        "99th percentile of the service's latency";
    SERVICE_P999, "service_p999", "service p99.9", "us", Lower,
        "99.9th percentile of the service's latency";
    SERVICE_MAX, "service_max", "service maximum", "us", Lower,
        "longest latency of a request of the service";
    SERVICE_REQUESTS, "service_requests", "service requests", "requests", Neutral,
        "requests that the service has completed";
    TRANSACTIONS, "transactions", "transactions", "transactions", Higher,
        "transactions that clients have completed";
    TRANSACTION_TIME, "transaction_time", "time in transactions", "us", Neutral,
        "virtual time of completed transactions, summed over clients";
    TRANSACTION_RATE, "transaction_rate", "transaction rate", "1/s", Higher,
        "completed transactions by the time in transactions: the rate of one client";
    QUERY_RATE, "query_rate", "queries", "1/s", Higher,
        "queries answered a second of virtual time";
    DURATION, "duration", "duration", "s", Neutral,
        "virtual time from the first transaction to the end of the last";
    ELAPSED, "elapsed", "elapsed", "s", Lower,
        "virtual time from the start of a program to its end";
    USER_TIME, "user_time", "user time", "s", Lower,
        "CPU time of programs, waiting for memory included, all CPUs";
    SYSTEM_TIME, "system_time", "system time", "s", Lower,
        "CPU time of the kernel, all CPUs";
    LOCAL_ACCESSES, "local_accesses", "local accesses", "%", Higher,
        "pages that threads used on the node where they ran, of all that they used";
    HINT_FAULTS_LOCAL, "numa_hint_local_percent", "local hint faults", "%", Neutral,
        "hint faults whose page was on the thread's node, of all";
    AUTONUMA_COST, "autonuma_cost", "AutoNUMA cost", "units", Lower,
        "updates, hint faults and migrations, weighed as mmtests does";
    FILE_READ_RATE, "file_read_rate", "read from files", "MB/s", Neutral,
        "what the device of files has read, a second of virtual time";
    REFAULTS_PER_TRANSACTION, "refaults_per_transaction", "refaults a transaction", "pages", Lower,
        "pages read again that had been evicted, an operation or transaction done";
    WORKINGSET_REFAULT_FILE, "workingset_refault_file", "workingset_refault_file", "pages", Neutral,
        "pages of files read again that had been evicted";
    WORKINGSET_REFAULT_ANON, "workingset_refault_anon", "workingset_refault_anon", "pages", Neutral,
        "anonymous pages read again that had been evicted";
    WORKINGSET_ACTIVATE_FILE, "workingset_activate_file", "workingset_activate_file", "pages", Neutral,
        "refaulted pages of files that became active at once";
    WORKINGSET_ACTIVATE_ANON, "workingset_activate_anon", "workingset_activate_anon", "pages", Neutral,
        "refaulted anonymous pages that became active at once";
    WORKINGSET_RESTORE_FILE, "workingset_restore_file", "workingset_restore_file", "pages", Neutral,
        "refaulted pages of files that had been part of the working set";
    WORKINGSET_RESTORE_ANON, "workingset_restore_anon", "workingset_restore_anon", "pages", Neutral,
        "refaulted anonymous pages that had been part of the working set";
    WORKINGSET_NODES, "workingset_nodes", "workingset_nodes", "nodes", Neutral,
        "nodes of files that hold nothing but shadows, at the end";
    WORKINGSET_NODERECLAIM, "workingset_nodereclaim", "workingset_nodereclaim", "nodes", Neutral,
        "nodes of files freed that held nothing but shadows";
    PSWPIN, "pswpin", "pswpin", "pages", Neutral,
        "pages read from swap";
    PSWPOUT, "pswpout", "pswpout", "pages", Neutral,
        "pages written to swap";
    NR_DIRTIED, "nr_dirtied", "nr_dirtied", "pages", Neutral,
        "pages of files that became dirty";
    NR_WRITTEN, "nr_written", "nr_written", "pages", Neutral,
        "pages that flushers and reclaim have written";
    MEM_TOTAL, "mem_total", "memory, total", "MiB", Neutral,
        "memory of the machine, as free(1) prints it at the end";
    MEM_USED, "mem_used", "memory, used", "MiB", Neutral,
        "total less free, buffers and page cache, at the end";
    MEM_FREE, "mem_free", "memory, free", "MiB", Neutral,
        "memory in free lists at the end";
    MEM_SHARED, "mem_shared", "memory, shared", "MiB", Neutral,
        "shared memory and tmpfs at the end";
    MEM_BUFF_CACHE, "mem_buff_cache", "memory, buff/cache", "MiB", Neutral,
        "buffers, page cache and reclaimable slabs at the end";
    MEM_AVAILABLE, "mem_available", "memory, available", "MiB", Higher,
        "what new programs could have without swapping, by the kernel's estimate, at the end";
    SWAP_TOTAL, "swap_total", "swap, total", "MiB", Neutral,
        "swap space";
    SWAP_USED, "swap_used", "swap, used", "MiB", Neutral,
        "swap space in use at the end";
    SWAP_FREE, "swap_free", "swap, free", "MiB", Neutral,
        "swap space that is free at the end";
    RUNS_PER_MINUTE, "runs_per_minute", "runs per minute", "1/min", Higher,
        "runs of a benchmark, by the CPU time of the program and of what memory takes";
    FAULT_TIME, "fault_time", "time for memory", "ms", Lower,
        "CPU time of page faults, clearing, copying and unmapping";
    FIRST_USE_TIME, "first_use_time", "time for first uses", "ms", Lower,
        "CPU time that the program waits for pages that were cleared with others, when it uses them first";
    PAGE_WALK_TIME, "page_walk_time", "time for page walks", "ms", Lower,
        "CPU time of the program's page walks";
    PAGE_FAULTS, "page_faults", "page faults", "faults", Lower,
        "page faults of anonymous memory";
    SHARE_64K, "share_64k", "memory in 64K folios", "%", Neutral,
        "part of anonymous memory in folios of 64 KiB, sampled once a second of the recording";
    SHARE_32K, "share_32k", "memory in 32K folios", "%", Neutral,
        "part of it in folios of 32 KiB";
    SHARE_16K, "share_16k", "memory in 16K folios", "%", Neutral,
        "part of it in folios of 16 KiB";
    SHARE_4K, "share_4k", "memory in 4K folios", "%", Neutral,
        "part of it in single pages";
    ANON_MAX, "anon_max", "anonymous memory, maximum", "MiB", Lower,
        "memory of their own that all processes have mapped, the most that a sample found; without files and page tables";
    PREFERRED_SUCCESS, "preferred_success", "preferred order", "%", Higher,
        "of the faults that had room for the preferred order, those that got it, in the last fifth of the run";
    PREFERRED_SUCCESS_EARLY, "preferred_success_early", "preferred order early", "%", Higher,
        "the same from the 10th to the 20th turnover of memory";
    PREFERRED_DRIFT, "preferred_drift", "drift of preferred order", "points", Neutral,
        "how much that share is above the one of the fifth before: far from 0 the run has not reached equilibrium";
    EQUILIBRIUM_TIME, "equilibrium_time", "time to equilibrium", "turnovers", Higher,
        "memory turned over until that share is what it will be in the end, within 2 points for good, over means of 20,000 faults; the whole run if it never is, none of short runs";
    PREFERRED_FOLIOS, "preferred_folios", "preferred folios", "folios", Higher,
        "anonymous folios of the preferred order, in the last fifth of the run";
    UNUSABLE_FREE, "unusable_free", "unusable free memory", "%", Lower,
        "part of free memory in blocks smaller than the preferred order, in the last fifth of the run";
    ANON_MEMORY, "anon_memory", "anonymous memory", "% of memory", Neutral,
        "memory that processes have mapped, touched or not, in the last fifth of the run";
    UNTOUCHED_MEMORY, "untouched_memory", "untouched memory", "% of memory", Lower,
        "memory of processes that none of them touched, in the last fifth of the run";
    FAULTS_PER_PAGE, "faults_per_page", "faults per page", "faults", Lower,
        "page faults for each page that was touched";
    PAGES_MIGRATED, "pages_migrated", "pages migrated", "pages", Lower,
        "pages that compaction moved";
}

impl Metric {
    /// The metric named `name`.
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// What a change is told in if not in per cent of the first value: points of a percentage, and MiB of memory that is only a
    /// part of what is used. Of that part a change has many times the per cent that it has of the whole.
    pub fn unit_of_change(&self) -> Option<&'static str> {
        match self {
            _ if self.unit.starts_with('%') => Some("pt"),
            _ if *self == ANON_MAX => Some(self.unit),
            _ => None,
        }
    }
}
