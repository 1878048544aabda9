//! Random hosts: everything that exists meets in one run, which a seed decides.
//!
//! ```text
//!   seed ─► machine, kernel, settings, cgroups, programs, events ─► a scenario ─► run ── every 2000 steps ─► validate()
//!                                 ▲                                                 │ panics, or two runs differ
//!                                 └───────────── fewer and smaller parts ◄──────────┘
//! ```
//!
//! A failure prints its seed and the smallest scenario that still fails. `make soak` tries fresh seeds. What memory managers do
//! step by step is drawn in `crates/mm/tests/all_mechanisms.rs`; here it is what programs, the scheduler, daemons, devices and an
//! operator make of it.

use lab::scenario::Scenario;
use machine::Profile;
use mm::{Event, Series};
use proptest::prelude::*;
use sim::outcome::Outcome;
use sim::{Run, RunError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use tempfile::NamedTempFile;
use workload::trace::{Event as Traced, Metadata, Operation, TraceWriter};

/// Steps of CPUs between two checks of the invariants.
const VALIDATE_EVERY: NonZeroU32 = NonZeroU32::new(2000).unwrap();
/// The machine whose costs and devices random machines have.
const MACHINE: &str = include_str!("../../../machines/host-2s-224.toml");

/// A trace of one CPU: blocks of all orders up to 64 KiB, each freed in the end, and some that were there before.
static TRACE: LazyLock<NamedTempFile> = LazyLock::new(|| {
    let file = NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::create(file.path()).unwrap();
    for number in 0..4000u32 {
        let (time, order) = (u64::from(number) * 700, (number % 5) as u8);
        let operation = [Operation::Alloc, Operation::Free][(number / 500 % 2) as usize];
        let migratetype = (number % 3) as i8;
        let event = Traced { time, pfn: number % 500, order, migratetype, task: 1, ..Traced::of(operation) };
        writer.push(Traced { argument: number % 2, operation: Operation::Switch, ..event }).unwrap();
        writer.push(event).unwrap();
    }
    let event = Traced { time: 4000 * 700, pfn: 9999, ..Traced::of(Operation::Free) };
    writer.push(event).unwrap();
    writer.finish(Metadata::default()).unwrap();
    file
});

/// Settings and values of them.
const SETTINGS: &[(&str, &[&str])] = &[
    ("transparent_hugepage/enabled", &["always", "madvise", "never"]),
    ("transparent_hugepage/defrag", &["always", "defer", "madvise", "never"]),
    ("transparent_hugepage/use_zero_page", &["0", "1"]),
    ("transparent_hugepage/shrink_underused", &["0", "1"]),
    ("transparent_hugepage/khugepaged/scan_sleep_millisecs", &["0", "10"]),
    ("transparent_hugepage/khugepaged/max_ptes_none", &["511", "100", "0"]),
    ("transparent_hugepage/hugepages-16kB/enabled", &["always", "inherit", "never"]),
    ("transparent_hugepage/hugepages-64kB/enabled", &["always", "inherit", "never"]),
    ("transparent_hugepage/hugepages-2048kB/enabled", &["always", "inherit", "never"]),
    ("kernel.numa_balancing", &["0", "1", "2", "3"]),
    ("numa_balancing/scan_delay_ms", &["8", "1000"]),
    ("numa_balancing/scan_period_min_ms", &["8", "1000"]),
    ("numa_balancing/scan_size_mb", &["1", "16", "256"]),
    ("numa/demotion_enabled", &["0", "1"]),
    ("vm.swappiness", &["0", "1", "60", "200"]),
    ("vm.compaction_proactiveness", &["0", "20", "100"]),
    ("vm.watermark_boost_factor", &["0", "15000"]),
    ("vm.watermark_scale_factor", &["10", "300"]),
    ("vm.percpu_pagelist_high_fraction", &["0", "8", "1000"]),
    ("vm.page-cluster", &["0", "3", "5"]),
    ("vm.dirty_ratio", &["1", "20", "80"]),
    ("vm.dirty_writeback_centisecs", &["0", "1", "500"]),
    ("vm.hugetlb_optimize_vmemmap", &["0", "1"]),
    ("vm.stat_interval", &["1", "10"]),
    ("queue/read_ahead_kb", &["0", "128", "4096"]),
    ("queue/wbt_lat_usec", &["0", "2000"]),
    ("swap/vma_ra_enabled", &["0", "1"]),
    ("zswap.enabled", &["0", "1", "1"]),
    ("zswap.max_pool_percent", &["0", "1", "4", "30"]),
    ("zswap.accept_threshold_percent", &["0", "50", "90", "100"]),
    ("zswap.shrinker_enabled", &["0", "1"]),
    ("damon_reclaim.enabled", &["0", "1"]),
    ("damon_reclaim.min_age", &["0", "10000", "100000"]),
    ("damon_reclaim.quota_sz", &["0", "1048576"]),
    ("damon_reclaim.max_nr_regions", &["3", "100"]),
    ("lru_gen/enabled", &["0", "1", "7"]),
    ("lru_gen/min_ttl_ms", &["0", "100"]),
    ("fail_page_alloc/ppm", &["200000"]),
    ("failslab/ppm", &["200000"]),
];

/// What lets daemons and scans act within the fraction of a second that a run takes.
const LIVELY: &[(&str, &str)] = &[
    ("kernel.numa_balancing", "1"),
    ("numa_balancing/scan_delay_ms", "4"),
    ("numa_balancing/scan_period_min_ms", "4"),
    ("transparent_hugepage/enabled", "always"),
    ("transparent_hugepage/defrag", "always"),
    ("transparent_hugepage/khugepaged/scan_sleep_millisecs", "2"),
    // Compaction begins where as much is free above the low watermark as it needs.
    ("vm.watermark_scale_factor", "300"),
    ("zswap.enabled", "1"),
    ("zswap.max_pool_percent", "1"),
    ("zswap.shrinker_enabled", "1"),
    ("damon_reclaim.enabled", "1"),
    ("damon_reclaim.sample_interval", "500"),
    ("damon_reclaim.aggr_interval", "5000"),
    ("damon_reclaim.wmarks_interval", "1000"),
    ("damon_reclaim.wmarks_high", "1000"),
    ("damon_reclaim.wmarks_mid", "1000"),
    ("damon_reclaim.wmarks_low", "0"),
];

/// What an operator may write besides settings and files of cgroups.
const POOL_FILES: &[&str] =
    &["vm.nr_hugepages", "vm.nr_overcommit_hugepages", "node0/hugepages-2048kB/nr_hugepages"];

/// A memory cgroup; numbers are of MiB.
#[derive(Clone, Debug)]
struct Cgroup {
    parent: Option<usize>,
    per_copy: bool,
    max: Option<u64>,
    high: Option<u64>,
    swap_max: Option<u64>,
    zswap_max: Option<u64>,
    zswap_writeback: bool,
    low: u64,
    min: u64,
    oom_group: bool,
}

#[derive(Clone, Debug)]
struct Program {
    cgroup: Option<usize>,
    cpu_node: Option<usize>,
    memory_node: Option<usize>,
    begins_on: Option<usize>,
    begins_on_cpu: Option<usize>,
    mems_allowed: Option<usize>,
    layout: Option<&'static str>,
    compressed: &'static [u16],
    copies: u32,
    start: u64,
    spread: u64,
    /// The table `program`, as a scenario has it.
    keys: String,
}

#[derive(Clone, Debug)]
struct Case {
    nodes: usize,
    cores: usize,
    mib_per_node: u64,
    series: usize,
    variant: usize,
    settings: Vec<(&'static str, &'static str)>,
    swap: Option<(&'static str, u64)>,
    held: u64,
    /// Parts of pageblocks, and of their pages, that cannot be moved.
    state: Option<(f64, f64)>,
    large_folios: bool,
    cgroups: Vec<Cgroup>,
    programs: Vec<Program>,
    /// When what is written; of files of cgroups, to which.
    events: Vec<(u64, String, Option<usize>)>,
    warm: u64,
    milliseconds: u64,
    seed: u64,
}

fn setting() -> impl Strategy<Value = (&'static str, &'static str)> {
    let named = |&(name, values): &(&'static str, &'static [&'static str])| {
        prop::sample::select(values).prop_map(move |value| (name, value)).boxed()
    };
    prop::strategy::Union::new(SETTINGS.iter().map(named))
}

fn cgroup() -> impl Strategy<Value = Cgroup> {
    let limit = || prop::option::of(8..200u64);
    let low = || prop_oneof![3 => Just(0), 1 => 1..100u64];
    let of_swap = (prop::option::of(0..100u64), prop::option::of(0..20u64), any::<bool>());
    let place = (prop::option::of(0..3usize), any::<bool>());
    (place, limit(), limit(), of_swap, low(), low(), any::<bool>()).prop_map(
        |((parent, per_copy), max, high, (swap_max, zswap_max, zswap_writeback), low, min, oom_group)| {
            Cgroup { parent, per_copy, max, high, swap_max, zswap_max, zswap_writeback, low, min, oom_group }
        },
    )
}

/// A figure of a program.
fn figure(value: u64) -> String {
    format!("{{ value = {value}.0, source = \"drawn\" }}")
}

/// A group of threads, as an inline table.
fn group() -> impl Strategy<Value = String> {
    let pattern = prop::sample::select(vec![
        "uniform\"",
        "sequential\"",
        "once\"",
        "zipf\", theta = 0.8",
        "zipf\", theta = 1.3",
    ]);
    let numbers = (1..4u32, 1..160u64, 1..16u32, 50..20_000u64, 1..9u32);
    (numbers, any::<[bool; 4]>(), pattern).prop_map(
        |((threads, mib, pages, compute, outstanding), [file, shared, write, new_file], pattern)| {
            let object = if file { "file" } else { "memory" };
            let mut keys = format!(
                "threads = {threads}, object = \"{object}\", mib = {mib}, shared = {shared}, write = {write}, pages = {pages}, \
                 pattern = {{ kind = \"{pattern} }}, compute_ns = {}",
                figure(compute)
            );
            if file && write && new_file {
                keys += ", new_file = true";
            }
            if file && !write {
                write!(keys, ", outstanding = {outstanding}").unwrap();
            }
            format!("{{ {keys} }}")
        },
    )
}

/// The table `program` of a program.
fn program_keys() -> impl Strategy<Value = String> {
    let groups = prop::collection::vec(group(), 1..4)
        .prop_map(|groups| format!("kind = \"groups\", groups = [{}]", groups.join(", ")));
    let build = (1..6u32, 1..12u32).prop_map(|(jobs, units)| {
        let [intensity, tree, common, other] = [figure(1), figure(60), figure(100), figure(40)];
        format!(
            "kind = \"kernel-build\", jobs = {jobs}, units = {units}, intensity = {intensity}, tree_mib = {tree}, common_pages = {common}, \
             other_pages = {other}"
        )
    });
    let numa01 = (1..3u32, 1..4u32, 1..100u64, 1..20u64, any::<[bool; 2]>()).prop_map(
        |(processes, threads, mib, loops, [thread_local, same_node])| {
            format!(
                "kind = \"numa01\", processes = {processes}, threads = {threads}, mib = {mib}, loops = {loops}, \
                 thread_local = {thread_local}, same_node = {same_node}"
            )
        },
    );
    let numa02 = (1..4u32, 4..100u64, 1..20u64, any::<[bool; 2]>()).prop_map(
        |(threads, mib, loops, [own_areas, touches_first])| {
            let main_touches_first = touches_first && !own_areas;
            format!(
                "kind = \"numa02\", threads = {threads}, mib = {mib}, loops = {loops}, own_areas = {own_areas}, \
                 main_touches_first = {main_touches_first}"
            )
        },
    );
    let pin_move = (1..80u64, 8..200u64).prop_map(|(mib, milliseconds)| {
        format!("kind = \"pin-move\", mib = {mib}, milliseconds = {milliseconds}")
    });
    let hot_set = (1..4u32, 2..120u64, 1..60u64, 500..20_000u64).prop_map(|(threads, mib, hot, compute)| {
        let (hot, share, compute) =
            (hot.min(mib), "{ value = 0.9, source = \"drawn\" }", figure(compute));
        format!(
            "kind = \"hot-set\", threads = {threads}, mib = {mib}, hot_mib = {hot}, hot_share = {share}, drift_mib = 1, \
             drift_milliseconds = 20, write_share = {share}, compute_ns = {compute}"
        )
    });
    let sharing = (1..3u32, 1..6u32, 1..60u64, any::<bool>(), 500..20_000u64).prop_map(
        |(groups, threads, mib, processes, compute)| {
            let (share, compute) = ("{ value = 0.5, source = \"drawn\" }", figure(compute));
            let threads = threads.max(groups);
            format!(
                "kind = \"sharing\", groups = {groups}, threads = {threads}, processes = {processes}, mib = {mib}, shared_mib = {mib}, \
                 private_share = {share}, write_share = {share}, accesses = 4, compute_ns = {compute}"
            )
        },
    );
    let memcached = (1..4u32, 8..160u64, 0..4000u64).prop_map(|(threads, mib, bytes)| {
        let set = figure(2000);
        format!(
            "kind = \"memcached\", threads = {threads}, memory_mib = {mib}, value_bytes = {bytes}, key_bytes = 16, set_ns = {set}"
        )
    });
    let apps = (1..6u32, 1..6u64, 2..60u64, 1..40u64, 1..40u64, 500..20_000u64).prop_map(
        |(apps, rounds, memory, file, framework, compute)| {
            let (share, compute) = ("{ value = 0.4, source = \"drawn\" }", figure(compute));
            format!(
                "kind = \"app-launches\", apps = {apps}, rounds = {rounds}, interval_milliseconds = 20, memory_mib = {memory}, \
                 file_mib = {file}, framework_mib = {framework}, needed_share = {share}, other_share = {share}, write_share = {share}, \
                 compute_ns = {compute}"
            )
        },
    );
    let memory = (0..60u64, 0..60u64, prop::option::of(1..50u64));
    let service = (1..5u32, 100..20_000u64, 1..300u64, 0..200u32, memory).prop_map(
        |(threads, rate, work, pages, (mib, used, requests))| {
            let (rate, work, spread) = (figure(rate), figure(work), figure(1));
            let ends = requests.map_or(String::new(), |requests| format!(", requests = {requests}"));
            format!(
                "kind = \"service\", threads = {threads}, requests_per_second = {rate}, work_us = {work}, work_spread = {spread}, \
                 pages = {pages}, memory_mib = {mib}, used_mib = {}{ends}",
                used.min(mib)
            )
        },
    );
    let recording = prop::sample::select(vec!["jvm", "redis", "kernel-build"]);
    let recorded = (recording, 1..4u64, 1..20u64).prop_map(|(recording, rounds, tenths)| {
        let (runs, walks) = (figure(1), figure(2));
        format!(
            "kind = \"recorded-mappings\", recording = \"{recording}\", rounds = {rounds}, runs = {runs}, million_walks = {walks}, \
             cpu_seconds = {{ value = {}, source = \"drawn\" }}",
            0.1 * tenths as f64
        )
    });
    let blocks = prop::collection::vec(0..5u8, 1..4);
    let sockets = (1..6u32, blocks, 0..100u64, 0..4u64, 1..5u32, 1..50_000u64, prop::option::of(1..5000u64)).prop_map(
        |(pairs, blocks, copied, calls, in_flight, swap, messages)| {
            let (calls, ends) = (figure(calls), messages.map_or(String::new(), |messages| format!(", messages = {messages}")));
            format!(
                "kind = \"socket-stream\", pairs = {pairs}, blocks = {blocks:?}, copied_kib = {copied}, calls = {calls}, \
                 in_flight = {in_flight}, swap_every_us = {swap}, background_miss = 1.0{ends}"
            )
        },
    );
    let class = (1..4u64, 0..40u64, 1..20u64, any::<bool>()).prop_map(|(least, more, life, aligned)| {
        let most = least + more;
        format!("{{ least = {least}, most = {most}, weight = 1.0, life = {life}.0, aligned = {aligned} }}")
    });
    let areas = (1..4u32, 4..60u64, 1..6u64, prop::collection::vec(class, 1..4), any::<bool>(), 0..4u64).prop_map(
        |(tasks, mib, turnovers, classes, is_size, extra)| {
            let (classes, counted) = (classes.join(", "), if is_size { "size" } else { "resident" });
            format!(
                "kind = \"map-unmap\", tasks = {tasks}, mib = {mib}, counted = \"{counted}\", turnovers = {turnovers}, \
                 areas = [{classes}], partly_touched = 0.{extra}, unmovable_mib = {extra}, file_mib = {}, preferred_kib = 64",
                8 * extra
            )
        },
    );
    let trace = Just(()).prop_map(|()| {
        let trace = TRACE.path().display();
        format!("kind = \"page-trace\", trace = \"{trace}\", copies = 1, stagger_us = 0")
    });
    let background = prop_oneof![
        areas,
        trace,
        (0..200u64)
            .prop_map(|milliseconds| format!("kind = \"kernel-thread\", milliseconds = {milliseconds}")),
        (0..5000u64).prop_map(|pages| format!("kind = \"touch-once\", pages = {pages}")),
        (1..4u32, 1..40u32)
            .prop_map(|(tasks, mib)| format!("kind = \"page-faults\", tasks = {tasks}, mib = {mib}")),
        apps,
        recorded,
    ];
    prop_oneof![
        4 => groups, 2 => build, 1 => numa01, 1 => numa02, 1 => pin_move, 1 => hot_set, 1 => sharing, 1 => memcached,
        1 => service, 1 => background, 1 => sockets
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let node = || prop_oneof![3 => Just(None), 1 => (0..2usize).prop_map(Some)];
    let start = (prop_oneof![2 => Just(0), 1 => 0..100u64], prop_oneof![2 => Just(0), 1 => 0..200u64]);
    let layout = prop_oneof![
        2 => Just(None), 1 => Just(Some("from_libraries")), 1 => Just(Some("fixed_areas"))
    ];
    let compressed = prop::sample::select(vec![&[][..], &[1], &[300, 1500, 4096], &[40_000, 3900]]);
    let begins = (node(), prop::option::weighted(0.2, 0..64usize), node(), layout, compressed);
    (prop::option::of(0..3usize), node(), node(), begins, 1..4u32, start, program_keys()).prop_map(
        |(cgroup, cpu_node, memory_node, begins, copies, (start, spread), keys)| {
            let (begins_on, begins_on_cpu, mems_allowed, layout, compressed) = begins;
            Program {
                cgroup,
                cpu_node,
                memory_node,
                begins_on: begins_on.filter(|_| begins_on_cpu.is_none()),
                begins_on_cpu,
                mems_allowed,
                // A recording has addresses of its own.
                layout: layout
                    .filter(|_| !keys.contains("recorded-mappings") && !keys.contains("page-trace")),
                compressed,
                copies,
                start,
                spread,
                keys,
            }
        },
    )
}

fn event() -> impl Strategy<Value = (u64, String, Option<usize>)> {
    let set = setting().prop_map(|(name, value)| (format!("{name}={value}"), None));
    let pool = (prop::sample::select(POOL_FILES), 0..200u64)
        .prop_map(|(file, pages)| (format!("{file}={pages}"), None));
    let files = vec!["max", "high", "low", "min", "swap.max", "zswap.max", "reclaim"];
    let of_cgroup = (prop::sample::select(files), 1..150u64, 0..3usize)
        .prop_map(|(file, mib, cgroup)| (format!("memory.{file}={mib}M"), Some(cgroup)));
    let writeback =
        (0..2u8, 0..3usize).prop_map(|(on, cgroup)| (format!("memory.zswap.writeback={on}"), Some(cgroup)));
    let triggers = vec!["vm.drop_caches=1", "vm.drop_caches=3", "vm.compact_memory=1", "node0/compact=1"];
    let trigger = prop::sample::select(triggers).prop_map(|write| (write.into(), None));
    (0..250u64, prop_oneof![2 => set, 2 => pool, 2 => of_cgroup, 1 => writeback, 1 => trigger])
        .prop_map(|(time, (write, cgroup))| (time, write, cgroup))
}

fn case() -> impl Strategy<Value = Case> {
    let swap = prop::option::of((prop::sample::select(vec!["zram", "nvme"]), 8..400u64));
    let machine = (1..3usize, 1..4usize, 96..500u64);
    let kernel = (0..Series::ALL.len(), any::<prop::sample::Index>());
    let kernel =
        kernel.prop_map(|(series, variant)| (series, variant.index(Series::ALL[series].variants().count())));
    let part = || prop::sample::select(vec![0.0, 0.05, 0.3, 0.6]);
    let state = prop::option::of((part(), part()));
    let around = (swap, (prop_oneof![Just(0), 1..40u64], state), any::<bool>());
    let settings = (any::<bool>(), prop::collection::vec(setting(), 0..7)).prop_map(|(is_lively, drawn)| {
        let lively = if is_lively { LIVELY } else { &[] };
        [lively, &drawn[..]].concat()
    });
    let parts = (
        settings,
        prop::collection::vec(cgroup(), 0..4),
        prop::collection::vec(program(), 1..5),
        prop::collection::vec(event(), 0..5),
    );
    let times = (prop_oneof![Just(0), 1..100u64], 20..250u64, any::<u64>());
    (machine, kernel, around, parts, times).prop_map(
        |(
            (nodes, cores, mib_per_node),
            (series, variant),
            (swap, (held, state), large_folios),
            (settings, cgroups, programs, events),
            (warm, milliseconds, seed),
        )| Case {
            nodes,
            cores,
            mib_per_node,
            series,
            variant,
            settings,
            swap,
            held,
            state,
            large_folios,
            cgroups,
            programs,
            events,
            warm,
            milliseconds,
            seed,
        },
    )
}

/// A machine with so many nodes of so many CPUs and so much memory each.
fn machine(nodes: usize, cores: usize, mib_per_node: u64) -> Profile {
    let distances = ["[[10]]", "[[10, 21], [21, 10]]"][nodes - 1];
    let text = MACHINE
        .replace("sockets = 2", &format!("sockets = {nodes}"))
        .replace("cores_per_socket = 56", &format!("cores_per_socket = {cores}"))
        .replace("threads_per_core = 2", "threads_per_core = 1")
        .replace("\nnodes = 2", &format!("\nnodes = {nodes}"))
        .replace("node_distances = [[10, 21], [21, 10]]", &format!("node_distances = {distances}"))
        .replace("memory_mib_per_node = 128768", &format!("memory_mib_per_node = {mib_per_node}"));
    Profile::parse(&text).unwrap()
}

/// The run of a scenario's only variant.
fn run_of(scenario: &str, machine: &Profile, seed: u64) -> Run {
    let scenario = Scenario::parse("random", scenario).unwrap();
    let host = &scenario.workload;
    // Where all programs were recorded, a seed is a recording, and these have one each.
    let recorded = host.programs.iter().all(|program| program.program.recordings().is_some());
    let seed = if recorded && !host.programs.is_empty() { 1 } else { seed };
    scenario.run(&scenario.variants[0], seed, machine, &BTreeMap::new()).unwrap()
}

impl Case {
    /// The scenario.
    fn scenario(&self) -> String {
        let series = &Series::ALL[self.series];
        let variant = series.variants().nth(self.variant).unwrap();
        let mut text = format!(
            "name = \"random\"\ndescription = \"drawn\"\nevidence = \"drawn\"\nmachine = \"host-2s-224\"\nseries = \"{}\"\n\
             variants = [\"{}\"]\nseeds = 1\nmetrics = [\"score\"]\n",
            series.name, variant.name
        );
        let settings: BTreeMap<_, _> = self.settings.iter().copied().collect();
        text += "[settings]\n";
        // Without swap there is nothing to compress, which is refused.
        let has_swap = self.swap.is_some();
        for (name, value) in settings.into_iter().filter(|(name, _)| has_swap || *name != "zswap.enabled") {
            writeln!(text, "\"{name}\" = \"{value}\"").unwrap();
        }
        write!(
            text,
            "[workload]\nkind = \"host\"\nfiles = \"nvme\"\nlarge_folios = {}\nheld_mib = {}\nwarm_milliseconds = {}\nmilliseconds = {}\n",
            self.large_folios, self.held, self.warm, self.milliseconds
        )
        .unwrap();
        if let Some((device, mib)) = self.swap {
            writeln!(text, "swap = \"{device}\"\nswap_mib = {mib}").unwrap();
        }
        if let Some((blocks, share)) = self.state {
            let figure = |value: f64| format!("{{ value = {value:?}, source = \"drawn\" }}");
            let (blocks, share) = (figure(blocks), figure(share));
            writeln!(text, "[workload.state]\nunmovable_blocks = {blocks}\nunmovable_share = {share}")
                .unwrap();
        }
        (0..self.cgroups.len()).for_each(|cgroup| self.write_cgroup(cgroup, &mut text));
        (0..self.programs.len()).for_each(|program| self.write_program(program, &mut text));
        let mut events = self.events.clone();
        events.retain(|(_, write, _)| has_swap || !write.starts_with("zswap.enabled="));
        events.sort();
        for (time, write, cgroup) in events {
            let place = match cgroup {
                Some(_) if self.cgroups.is_empty() => continue,
                Some(cgroup) => format!("group-{}/", cgroup % self.cgroups.len()),
                None => String::new(),
            };
            writeln!(text, "[[workload.events]]\nmilliseconds = {time}\nwrite = \"{place}{write}\"").unwrap();
        }
        text
    }

    /// Whether a cgroup is one for each copy: none that another one is in, or that an event writes to.
    fn is_per_copy(&self, number: usize) -> bool {
        let has_child = self.cgroups.iter().skip(number + 1).any(|other| other.parent == Some(number));
        let is_written = |(_, _, cgroup): &(u64, String, Option<usize>)| {
            cgroup.is_some_and(|cgroup| cgroup % self.cgroups.len() == number)
        };
        self.cgroups[number].per_copy && !has_child && !self.events.iter().any(is_written)
    }

    fn write_cgroup(&self, number: usize, text: &mut String) {
        let Cgroup { parent, max, high, swap_max, zswap_max, zswap_writeback, low, min, oom_group, .. } =
            &self.cgroups[number];
        let per_copy = self.is_per_copy(number);
        writeln!(text, "[[workload.cgroups]]\nname = \"group-{number}\"\nlow_mib = {low}\nmin_mib = {min}")
            .unwrap();
        writeln!(text, "oom_group = {oom_group}\nzswap_writeback = {zswap_writeback}\nper_copy = {per_copy}")
            .unwrap();
        let limits = [max, high, swap_max, zswap_max];
        for (key, value) in ["max_mib", "high_mib", "swap_max_mib", "zswap_max_mib"].into_iter().zip(limits) {
            if let Some(value) = value {
                writeln!(text, "{key} = {value}").unwrap();
            }
        }
        if let Some(parent) = parent.filter(|&parent| parent < number) {
            writeln!(text, "parent = \"group-{parent}\"").unwrap();
        }
    }

    fn write_program(&self, number: usize, text: &mut String) {
        let Program { cgroup, layout, compressed, copies, start, spread, keys, .. } = &self.programs[number];
        write!(
            text,
            "[[workload.programs]]\nname = \"program-{number}\"\ncopies = {copies}\nstart_milliseconds = {start}\n\
             start_spread_milliseconds = {spread}\nprogram = {{ {keys} }}\n\
             compressed_bytes = {compressed:?}\n"
        )
        .unwrap();
        if let Some(cgroup) = cgroup.filter(|_| !self.cgroups.is_empty()) {
            writeln!(text, "cgroup = \"group-{}\"", cgroup % self.cgroups.len()).unwrap();
        }
        let Program { cpu_node, memory_node, begins_on, begins_on_cpu, mems_allowed, .. } =
            self.programs[number];
        for (key, node) in [("cpu_node", cpu_node), ("memory_node", memory_node), ("begins_on", begins_on)] {
            if let Some(node) = node {
                writeln!(text, "{key} = {}", node % self.nodes).unwrap();
            }
        }
        if let Some(cpu) = begins_on_cpu {
            writeln!(text, "begins_on_cpu = {}", cpu % (self.nodes * self.cores)).unwrap();
        }
        if let Some(node) = mems_allowed {
            writeln!(text, "cpuset_mems = [{}]", node % self.nodes).unwrap();
        }
        if let Some(layout) = layout {
            writeln!(text, "layout = \"{layout}\"").unwrap();
        }
    }
}

/// Makes the run twice. What a user is told is an outcome, too: that a kernel lacks a file, or that memory does not suffice.
fn outcome(case: &Case) -> Result<Option<Outcome>, TestCaseError> {
    let machine = machine(case.nodes, case.cores, case.mib_per_node);
    let run = run_of(&case.scenario(), &machine, case.seed);
    let [first, second] = [(), ()].map(|()| match sim::run_validating(&run, VALIDATE_EVERY) {
        Ok(outcome) => Ok(outcome),
        Err(
            error @ (RunError::OutOfMemory
            | RunError::TooLarge { .. }
            | RunError::Setting(_)
            | RunError::Demand(_)),
        ) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    });
    prop_assert_eq!(&first, &second, "two runs of one seed differ");
    Ok(first.ok())
}

/// What the cases of all seeds came to.
#[derive(Default)]
struct Met {
    /// Counters of the kernel.
    counters: BTreeMap<&'static str, u64>,
    /// CPU time by cause, seconds.
    times: BTreeMap<&'static str, f64>,
    /// Runs that ended with an outcome.
    ended: usize,
}

impl Met {
    fn note(&mut self, outcome: &Outcome) {
        self.ended += 1;
        for &event in Event::ALL {
            *self.counters.entry(event.name()).or_default() += outcome.counters.get(event);
        }
        for (&cause, seconds) in &outcome.cpu_seconds {
            *self.times.entry(cause).or_default() += seconds;
        }
    }
}

/// Runs the case of a seed. A failure is reported with the smallest scenario that still fails.
fn check(seed: u64, met: &RefCell<Met>) -> Result<(), String> {
    let run = |case: Case| {
        if let Some(outcome) = outcome(&case)? {
            met.borrow_mut().note(&outcome);
        }
        Ok(())
    };
    soak::drawn(seed, &case(), 300, run, |case| {
        let Case { nodes, cores, mib_per_node, seed, .. } = case;
        format!("{nodes} nodes of {cores} CPUs and {mib_per_node} MiB, seed {seed} of:\n{}", case.scenario())
    })
}

/// Counters that the fixed seeds have to advance: a mechanism that never acts would not be tested.
const MET: &[Event] = &[
    Event::PcpRefilledPages,
    Event::PgscanAnon,
    Event::PgstealFile,
    Event::Pageoutrun,
    Event::Pswpin,
    Event::Pswpout,
    Event::Zswpin,
    Event::Zswpout,
    Event::Zswpwb,
    Event::DamonReclaimReclaimedBytes,
    Event::WorkingsetRefaultAnon,
    Event::WorkingsetRefaultFile,
    Event::NrDirtied,
    Event::OomKill,
    Event::ThpFaultAlloc,
    Event::ThpCollapseAlloc,
    Event::ThpSwpout,
    Event::CompactSuccess,
    Event::KcompactdWake,
    Event::NumaHintFaults,
    Event::NumaPagesMigrated,
];

/// Causes to which the fixed seeds have to bring CPU time.
const SPENT: &[&str] =
    &["huge_page_prep", "khugepaged", "lru_lock_wait", "numa_scan", "tlb_shootdown", "zone_lock_wait"];

/// Scenarios in which a broken invariant was found, with their machines and seeds.
const FOUND: &[(&str, (usize, usize, u64), u64)] =
    &[(include_str!("random_hosts/found/generations.toml"), (2, 1, 96), 12712108008267584790)];

#[test]
fn what_was_found_stays_away() {
    for &(scenario, (nodes, cores, mib_per_node), seed) in FOUND {
        let run = run_of(scenario, &machine(nodes, cores, mib_per_node), seed);
        sim::run_validating(&run, VALIDATE_EVERY).unwrap();
    }
}

#[test]
fn hold_together() {
    let met = RefCell::new(Met::default());
    soak::seeds("random hosts", 1..=60, |seed| check(seed, &met));
    let met = met.into_inner();
    if soak::are_fixed() {
        let never = |event: &&Event| met.counters.get(event.name()).is_none_or(|&count| count == 0);
        let missed: Vec<&str> = MET.iter().filter(never).map(|event| event.name()).collect();
        assert_eq!(missed, [""; 0], "never happened in any run");
        let unspent =
            SPENT.iter().filter(|cause| met.times.get(**cause).is_none_or(|&seconds| seconds == 0.0));
        assert_eq!(unspent.collect::<Vec<_>>(), [&""; 0], "no CPU time went there in any run");
        assert!(met.ended >= 45, "only {} runs ended with an outcome", met.ended);
    }
}
