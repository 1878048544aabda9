//! What holds for programs side by side: each of them is served, time is accounted once, and nobody pays for another's end.

mod delays;
mod events;
mod map_unmap;
mod nodes;
mod page_trace;
mod pools;
mod zswap;

use super::*;
use crate::metric;
use crate::progress::RunProgress;
use crate::run_event::{Happening, RunEvent};
use crate::tests::load_machine;
use crate::{KernelChoice, Misfit, Run, Workload};
use mm::{Category, Event};
use std::collections::BTreeMap;

/// A host of 8 CPUs on two nodes of 1 GiB.
const MACHINE: &str = "host-2s-224";

fn run_of(variant: &str, settings: &[(&str, &str)], programs: &str) -> Run {
    let mut machine = load_machine(MACHINE);
    (machine.topology.cores_per_socket, machine.topology.threads_per_core) = (4, 1);
    machine.topology.memory_mib_per_node = 1024;
    let text = format!(
        "files = 'nvme'\nswap = 'zram'\nswap_mib = 64\nwarm_milliseconds = 500\nmilliseconds = 1500\n{programs}"
    );
    let spec: Workload = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    spec.check().unwrap_or_else(|error| panic!("{error}"));
    let settings: BTreeMap<String, String> =
        settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let choice = KernelChoice::parse("reclaim", variant).unwrap();
    Run {
        scenario: "host".into(),
        series: "reclaim".into(),
        variant: variant.into(),
        tree: None,
        seed: 1,
        settings: choice.settings(machine.page_size, &BTreeMap::new(), &settings).unwrap(),
        machine,
        workload: spec,
    }
}

fn outcome_of(variant: &str, settings: &[(&str, &str)], programs: &str) -> Outcome {
    let run = run_of(variant, settings, programs);
    let spec = &run.workload;
    let outcome = super::run(&run.boot(&RunProgress::default()).unwrap(), spec);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let unknown = outcome.series.iter().find(|sample| crate::series::of(sample.name).is_none());
    assert_eq!(unknown.map(|sample| sample.name), None, "every series is declared");
    outcome
}

/// A figure of a program.
fn figure(value: f64) -> String {
    format!("{{ value = {value:?}, source = 'made up' }}")
}

/// Threads that read a file of `mib`, under a limit.
fn reader(name: &str, mib: u64, keys: &str) -> String {
    format!(
        "[[programs]]\nname = '{name}'\n{keys}\n[programs.program]\nkind = 'groups'\n\
         [[programs.program.groups]]\nthreads = 4\nobject = 'file'\nshared = true\nmib = {mib}\n\
         pattern = {{ kind = 'uniform' }}\ncompute_ns = {{ value = 2000.0, source = 'made up' }}\n"
    )
}

/// Threads that write to memory of `mib`.
fn writer(name: &str, mib: u64, keys: &str) -> String {
    reader(name, mib, keys).replace("object = 'file'\nshared = true", "object = 'memory'\nwrite = true")
}

fn streams(keys: &str) -> String {
    format!(
        "[[programs]]\nname = 'streams'\n{keys}\n\
         program = {{ kind = 'numa02', processes = 1, threads = 4, mib = 64, loops = 1000000 }}\n"
    )
}

const GROUP: &str = "[[cgroups]]\nname = 'small'\nmax_mib = 64\n";

#[test]
fn programs_of_both_families_run_side_by_side() {
    let programs = format!(
        "{GROUP}{}{}{}",
        reader("files", 128, "cgroup = 'small'"),
        writer("memory", 32, ""),
        streams("")
    );
    let outcome = outcome_of("6.12", &[], &programs);
    for program in &outcome.programs[..3] {
        assert!(program.transactions > 0, "{program:?}");
        assert!(program.latency_us["p50"] <= program.latency_us["p99"], "{program:?}");
        assert!(program.latency_us["p99"] <= program.latency_us["max"], "{program:?}");
    }
    // What the group may not keep has to be read again, while the streams are scanned.
    assert!(outcome.counters.get(Event::WorkingsetRefaultFile) > 0);
    assert!(outcome.counters.get(Event::NumaPteUpdates) > 0);
    let rate = outcome.programs[..3].iter().map(|program| program.transaction_rate).sum::<f64>();
    assert!((rate - outcome.get(metric::SCORE).unwrap()).abs() < 1e-6 * rate);
}

#[test]
fn threads_share_no_core_while_one_is_idle() {
    let rate = |threads_per_core| {
        let mut run = run_of("6.12", &[], &(writer("first", 16, "") + &writer("second", 16, "")));
        run.machine.topology.threads_per_core = threads_per_core;
        let outcome = crate::run(&run).unwrap();
        outcome.programs[0].transaction_rate + outcome.programs[1].transaction_rate
    };
    let (alone, with_siblings) = (rate(1), rate(2));
    assert!(with_siblings > 0.99 * alone, "{with_siblings} of {alone}");
}

/// Two pairs of processes that stream through sockets of `in_flight` messages.
fn pairs(in_flight: u64, keys: &str) -> String {
    format!(
        "[[programs]]\nname = 'pairs'\n[programs.program]\nkind = 'socket-stream'\npairs = 2\nblocks = [3, 1]\ncopied_kib = 30\n\
         calls = {{ value = 2.0, source = 'made up' }}\nin_flight = {in_flight}\nswap_every_us = 1000\nbackground_miss = 0.0\n{keys}\n"
    )
}

#[test]
fn every_message_is_read_once_and_its_blocks_are_freed() {
    for in_flight in [1, 8] {
        let mut run = run_of("6.12", &[], &pairs(in_flight, "messages = 50_000"));
        let host = &mut run.workload;
        host.warm_milliseconds = 0;
        let outcome = crate::run(&run).unwrap();
        let own = &outcome.programs[0];
        assert_eq!(own.transactions, 50_000);
        assert!(outcome.get(metric::DURATION).unwrap() < 1.5, "it ends with the last message");
        let of = |event| outcome.counters.get(event);
        let taken = of(Event::PgallocNormal) + of(Event::PgallocDma32);
        let per_message = |pages: u64| pages as f64 / own.transactions as f64;
        assert!((9.8..10.2).contains(&per_message(of(Event::Pgfree))), "{} freed", of(Event::Pgfree));
        assert!((9.8..10.2).contains(&per_message(taken)), "{taken} taken");
    }
}

#[test]
fn who_reads_is_woken_near_who_writes() {
    let outcome = outcome_of("6.12", &[], &pairs(8, ""));
    let miss = outcome.get(metric::CACHE_MISS).unwrap();
    assert!(miss < 1.0, "{miss} % of references are to pages that another package had last");
}

/// Three apps that need all of their memory and files, 4 and 2 MiB, and of a framework of 6 MiB at each of two launches.
fn apps(keys: &str) -> String {
    let (all, none, some) = (figure(1.0), figure(0.0), figure(200.0));
    format!(
        "[[programs]]\nname = 'apps'\nstart_milliseconds = 600\n{keys}\n[programs.program]\nkind = 'app-launches'\napps = 3\n\
         rounds = 2\ninterval_milliseconds = 100\nmemory_mib = 4\nfile_mib = 2\nframework_mib = 6\nneeded_share = {all}\n\
         other_share = {none}\nwrite_share = {none}\ncompute_ns = {some}\n"
    )
}

#[test]
fn mapped_files_are_read_once_where_they_fit() {
    let outcome = outcome_of("6.12", &[], &apps(""));
    assert_eq!(outcome.programs[0].transactions, 6);
    let read = outcome.get(metric::FILE_READ_RATE).unwrap() * 1e6 * outcome.get(metric::ELAPSED).unwrap();
    let all = f64::from(3 * 2 + 6) * f64::from(1 << 20);
    assert!((read - all).abs() < 1.0, "{read} of {all}");
    // A fault for each page of memory; those of files map what is there around them.
    let (memory, files) = (3 * 4 * 256, 3 * (2 + 6) * 256);
    let faults = outcome.counters.get(Event::Pgfault);
    assert!((memory + files / 16..memory + files / 8).contains(&faults), "{faults}");
    assert!(outcome.counters.get(Event::Pgmajfault) > 0);
    assert_eq!(outcome.counters.get(Event::WorkingsetRefaultFile), 0);
}

#[test]
fn mapped_files_come_back_where_they_do_not_fit() {
    let outcome =
        outcome_of("6.12", &[], &format!("{}{}", GROUP.replace("64", "12"), apps("cgroup = 'small'")));
    assert_eq!(outcome.programs[0].transactions, 6);
    assert!(outcome.counters.get(Event::WorkingsetRefaultFile) > 0);
    assert!(outcome.counters.get(Event::WorkingsetRefaultAnon) > 0);
}

#[test]
fn what_a_loop_of_page_faults_maps_it_unmaps_and_pays_for() {
    let programs = "[[programs]]\nname = 'loop'\nprogram = { kind = 'page-faults', tasks = 2, mib = 4 }\n";
    let outcome = outcome_of("6.12", &[("transparent_hugepage/enabled", "never")], programs);
    let pages = outcome.programs[0].transactions;
    let faults = outcome.counters.get(Event::Pgfault);
    // Each task may be in a page fault when measuring begins, and when it ends.
    assert!(pages.abs_diff(faults) <= 2, "{faults} for {pages} pages");
    let unmap = load_machine(MACHINE).costs().page_unmap.seconds();
    let (spent, per_round) = (outcome.cpu_seconds["page_free"], 4 * 256);
    assert!(unmap > 0.0 && spent >= unmap * (pages - 2 * per_round) as f64, "{spent} s for {pages} pages");
}

#[test]
fn equal_runs_are_equal() {
    let programs = format!("{}{}", reader("files", 64, ""), streams(""));
    let run = || outcome_of("6.12", &[], &programs);
    assert_eq!(run(), run());
}

#[test]
fn all_busy_time_belongs_to_somebody() {
    let programs =
        format!("{GROUP}{}{}", reader("files", 128, "cgroup = 'small'"), writer("memory", 600, ""));
    let outcome = outcome_of("6.12", &[], &programs);
    let of_programs: f64 = outcome.programs.iter().flat_map(|program| program.cpu_seconds.values()).sum();
    let busy: f64 = Category::ALL
        .iter()
        .filter(|&&category| category != Category::Idle)
        .map(|category| outcome.cpu_seconds[category.name()])
        .sum();
    // Up to the last step of each CPU.
    assert!((of_programs - busy).abs() < 0.01 * busy, "{of_programs} of {busy}");
}

#[test]
fn a_group_that_exceeds_its_limit_ends_and_others_go_on() {
    // Measuring begins after 500 ms; who was killed before is missing from what is measured.
    exceeds_its_limit_from(600);
    let killed = exceeds_its_limit_from(0);
    assert!(killed.seconds < 0.2, "{killed:?}");
}

/// Returns the kill.
fn exceeds_its_limit_from(milliseconds: u32) -> RunEvent {
    let small = GROUP.replace("64", "16");
    let programs = format!(
        "{small}{}{}",
        writer("greedy", 400, &format!("cgroup = 'small'\nstart_milliseconds = {milliseconds}")),
        writer("modest", 16, "")
    );
    // Swap is full long before the greedy ones have what they want.
    let outcome = outcome_of(
        "6.12",
        &[],
        &programs.replace("pattern = { kind = 'uniform' }", "pattern = { kind = 'sequential' }"),
    );
    let [greedy, modest] = &outcome.programs[..2] else { panic!("two programs") };
    assert!(modest.transactions > 0);
    assert_eq!(modest.processes_killed, 0);
    assert_eq!(greedy.processes_killed, 1);
    let of_greedy = |event: &RunEvent| {
        let Happening::OomKill { cause, killed } = &event.what else { return false };
        cause.contains("small has a memory.max of 16.0 MiB")
            && killed[0].program == "greedy"
            && killed[0].is_chosen
    };
    outcome.events.into_iter().find(of_greedy).expect("a kill is an event")
}

#[test]
fn a_setting_that_is_written_acts_from_then_on() {
    let event = "[[events]]\nmilliseconds = 0\nwrite = 'kernel.numa_balancing=0'\n";
    let with = outcome_of("6.12", &[], &format!("{}{event}", streams("")));
    let without = outcome_of("6.12", &[], &streams(""));
    assert_eq!(with.counters.get(Event::NumaPteUpdates), 0);
    assert!(without.counters.get(Event::NumaPteUpdates) > 0);
}

/// A pool takes memory from a cache of files that fills all of it, while the files are read.
#[test]
fn a_pool_of_huge_pages_grows_while_programs_run() {
    let event = "[[events]]\nmilliseconds = 700\nwrite = 'vm.nr_hugepages=64'\n";
    let outcome = outcome_of("6.12", &[], &format!("{}{event}", reader("files", 64, "")));
    let [files, operator] = &outcome.programs[..2] else { panic!("a program and the operator") };
    assert_eq!((operator.name.as_str(), operator.transactions), ("[events]", 1));
    assert!(operator.latency_us["max"] > 0.0);
    assert!(files.transactions > 0);
    assert_eq!(outcome.notes, Vec::<String>::new());
    let refused = run_of("6.12", &[], &format!("{}{}", reader("files", 64, ""), event.replace("64", "many")));
    assert!(crate::run(&refused).is_err());
}

#[test]
fn memory_and_cpus_are_where_the_scenario_says() {
    let bound = |node| outcome_of("6.12", &[], &streams(&format!("cpu_node = 0\nmemory_node = {node}")));
    assert_eq!(bound(0).get(metric::LOCAL_ACCESSES), Some(100.0));
    assert_eq!(bound(1).get(metric::LOCAL_ACCESSES), Some(0.0));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |programs: &str| {
        let text =
            format!("files = 'nvme'\nwarm_milliseconds = 0\nmilliseconds = 10\nprograms = []\n{programs}")
                .replace("programs = []\n[[", "[[");
        let spec: Workload = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        if let Err(wrong) = spec.check() {
            return wrong.key;
        }
        match spec.check_fit(&load_machine(MACHINE)) {
            Err(Misfit::OutOfRange(wrong)) => wrong.key.replacen("workload.", "", 1),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(""), "programs");
    assert_eq!(refused(&reader("a", 1, "cgroup = 'none'")), "programs[0].cgroup");
    assert_eq!(refused(&[reader("a", 1, ""), reader("a", 1, "")].concat()), "programs[1].name");
    assert_eq!(refused(&reader("a", 1, "cpu_node = 2")), "programs[0].cpu_node");
    let twice = [GROUP, GROUP, &reader("a", 1, "")].concat();
    assert_eq!(refused(&twice), "cgroups[1].name");
    let below = GROUP.replace("max_mib", "parent = 'later'\nmax_mib");
    assert_eq!(refused(&[&below, reader("a", 1, "").as_str()].concat()), "cgroups[0].parent");
    let event = "[[events]]\nmilliseconds = 5\nwrite = 'vm.swappiness'\n";
    assert_eq!(refused(&[reader("a", 1, "").as_str(), event].concat()), "events[0].write");
    let event = event.replace("swappiness", "swappiness=1");
    let earlier = event.replace("= 5", "= 4");
    assert_eq!(refused(&[reader("a", 1, ""), event, earlier].concat()), "events[1].milliseconds");
}

/// Four threads that write 24 MiB each at random in a cgroup with these keys, with what an operator writes.
fn limited(variant: &str, keys: &str, events: &[(u64, &str)]) -> Outcome {
    let event = |(at, write): &(u64, &str)| format!("[[events]]\nmilliseconds = {at}\nwrite = '{write}'\n");
    let events: String = events.iter().map(event).collect();
    let cgroup = format!("[[cgroups]]\nname = 'small'\n{keys}\n");
    outcome_of(variant, &[], &[cgroup, writer("memory", 24, "cgroup = 'small'"), events].concat())
}

/// Pages that were swapped out, and whether a process was killed.
fn swapped(outcome: &Outcome) -> (u64, u64) {
    (outcome.counters.get(Event::Pswpout), outcome.counters.get(Event::OomKill))
}

#[test]
fn a_group_above_memory_high_reclaims_and_lives() {
    let free = limited("6.12", "", &[]);
    assert_eq!(swapped(&free), (0, 0));
    let high = limited("6.12", "high_mib = 64", &[]);
    assert!(high.counters.get(Event::Pswpin) > 1000, "{high:?}");
    assert_eq!(high.counters.get(Event::OomKill), 0);
    let rate = |outcome: &Outcome| outcome.programs[0].transaction_rate;
    assert!(rate(&high) < rate(&free), "{} of {}", rate(&high), rate(&free));
    // What can be reclaimed is: nobody sleeps long.
    assert!(high.programs[0].over_high_seconds < 0.1, "{}", high.programs[0].over_high_seconds);
}

#[test]
fn where_nothing_can_be_reclaimed_memory_high_puts_to_sleep() {
    let stuck = limited("6.12", "high_mib = 64\nswap_max_mib = 0", &[]);
    assert_eq!(swapped(&stuck), (0, 0), "nobody is killed: {:?}", stuck.events);
    let slept = stuck.programs[0].over_high_seconds;
    assert!(slept > 2.0, "{slept} s of four threads in 1.5 s");
}

#[test]
fn memory_reclaim_takes_what_it_is_asked_for() {
    let of = |variant, asked: &str| {
        swapped(&limited(variant, "", &[(700, &format!("small/memory.reclaim={asked}"))])).0
    };
    // Written pages come back, so that a few more may go before the write ends.
    let asked = 8 * 256;
    for (variant, most) in [("6.1", 64), ("6.8", 2), ("6.12", 2)] {
        let taken = of(variant, "8M");
        assert!(taken >= asked && taken <= most * asked, "{variant}: {taken} pages");
    }
}

#[test]
fn limits_that_are_lowered_take_what_exceeds_them() {
    let high = limited("6.12", "", &[(700, "small/memory.high=64M"), (710, "small/memory.high=max")]);
    assert!(swapped(&high).0 > 31 * 256 && swapped(&high).1 == 0, "{:?}", swapped(&high));
    let max = limited("6.12", "swap_max_mib = 0", &[(700, "small/memory.max=32M")]);
    assert_eq!(swapped(&max), (0, 1), "{:?}", max.events);
    assert_eq!(max.programs[0].processes_killed, 1);
}

#[test]
fn writes_to_files_of_cgroups_are_checked() {
    let refused = |write: &str| {
        let text = format!(
            "files = 'nvme'\nwarm_milliseconds = 0\nmilliseconds = 10\n[[cgroups]]\nname = 'a'\n{}[[events]]\n\
             milliseconds = 1\nwrite = '{write}'",
            reader("r", 1, "")
        );
        let spec: Workload = toml::from_str(&text).unwrap();
        spec.check().map_err(|wrong| (wrong.key, wrong.expected))
    };
    assert_eq!(refused("a/memory.high=max"), Ok(()));
    for (write, expected) in [
        ("b/memory.high=1M", "one of the cgroups of the scenario: a"),
        ("a/memory.current=1M", "memory.reclaim"),
        ("a/memory.reclaim=max", "512M"),
        ("a/memory.max=lots", "512M"),
    ] {
        let (key, said) = refused(write).unwrap_err();
        assert!(key == "events[0].write" && said.contains(expected), "{write}: {said}");
    }
}

/// khugepaged makes huge pages of memory that was touched page by page, on its own account, whoever runs on its CPU.
#[test]
fn kernel_threads_pay_for_themselves() {
    let settings = [
        ("transparent_hugepage/enabled", "always"),
        ("transparent_hugepage/hugepages-2048kB/enabled", "inherit"),
        ("transparent_hugepage/khugepaged/scan_sleep_millisecs", "1"),
    ];
    // Beside a limit, huge pages are refused, so that khugepaged finds some to make once it is lifted.
    let programs = format!(
        "[[cgroups]]\nname = 'small'\nmax_mib = 24\n[[events]]\nmilliseconds = 700\nwrite = 'small/memory.max=256M'\n{}",
        writer("memory", 16, "cgroup = 'small'")
    );
    let outcome = outcome_of("6.12", &settings, &programs);
    let khugepaged = Category::Khugepaged.name();
    let of = |name: &str| outcome.programs.iter().find(|program| program.name == name).unwrap();
    assert!(outcome.counters.get(Event::ThpCollapseAlloc) > 0);
    assert!(of("[khugepaged]").cpu_seconds[khugepaged] > 0.0);
    let others = outcome.programs.iter().filter(|program| program.name != "[khugepaged]");
    for program in others {
        assert!(!program.cpu_seconds.contains_key(khugepaged), "{program:?}");
    }
}

#[test]
fn programs_run_where_kswapd_does() {
    // Each CPU has a thread that always wants to run, and what is swapped out takes kswapd long.
    let spins = reader("spins", 8, "").replace("threads = 4", "threads = 8");
    let fills = writer("fills", 3072, "").replace("threads = 4", "threads = 2");
    let mut run = run_of("6.18", &[], &format!("{spins}{fills}"));
    let spec = &mut run.workload;
    spec.swap_mib = 4096;
    let spec = &run.workload;
    let outcome = super::run(&run.boot(&RunProgress::default()).unwrap(), spec).unwrap();
    let named = |name: &str| outcome.programs.iter().find(|program| program.name == name).unwrap();
    assert!(named("[kswapd]").cpu_seconds["block_layer"] > 0.5, "{:?}", named("[kswapd]"));
    // A queue of three takes turns of 4 ms.
    assert!(named("spins").latency_us["max"] < 40e3, "{:?}", named("spins"));
}

/// Months before, pages of the kernel have spread over some of the pageblocks: no huge page can be made of those, however empty.
#[test]
fn huge_pages_are_made_of_pageblocks_without_pages_of_the_kernel() {
    // As many huge pages as the machine has pageblocks, of which some are below the watermarks.
    let asks = "[[events]]\nmilliseconds = 600\nwrite = 'vm.nr_hugepages=1024'\n";
    let reached = |state: &str| {
        let programs = format!("{state}{asks}{}", reader("reads", 8, ""));
        let outcome = outcome_of("6.12", &[], &programs);
        outcome.get(metric::PAGES_REACHED).unwrap()
    };
    let of = |blocks: f64, share: f64| {
        reached(&format!(
            "[state]\nunmovable_blocks = {}\nunmovable_share = {}\n",
            figure(blocks),
            figure(share)
        ))
    };
    let new = reached("");
    assert!(new > 900.0, "{new}");
    for (blocks, share) in [(0.5, 0.0), (0.5, 0.9), (0.25, 0.1)] {
        let part = of(blocks, share) / new;
        assert!((part - (1.0 - blocks)).abs() < 0.03, "{blocks} at {share}: {part} of {new}");
    }
    let none = of(0.0, 0.5);
    assert!((none - new).abs() <= 2.0, "{none} of {new}");
}

#[test]
fn a_build_that_is_done_was_not_cut_off() {
    let (fast, small, few) = (figure(50.0), figure(1.0), figure(4.0));
    let build = format!(
        "[[programs]]\nname = 'build'\n[programs.program]\nkind = 'kernel-build'\njobs = 4\nunits = 8\nintensity = {fast}\n\
         tree_mib = {small}\ncommon_pages = {few}\nother_pages = {few}\n"
    );
    let done = outcome_of("6.12", &[], &build);
    assert!(done.get(metric::BUILD_TIME).is_some());
    assert!(done.notes.is_empty(), "{:?}", done.notes);
    let long = outcome_of("6.12", &[], &build.replace("units = 8", "units = 8000"));
    assert_eq!(
        (long.get(metric::BUILD_TIME), &long.notes[..]),
        (None, &["4 threads of build were cut off".into()][..])
    );
}

/// What the kernel keeps of processes comes from slabs, whose size `slab_min_objects` and `slab_max_order` say.
#[test]
fn processes_that_come_and_go_take_slabs() {
    let build = format!(
        "[[programs]]\nname = 'build'\nstart_milliseconds = 600\n[programs.program]\nkind = 'kernel-build'\njobs = 16\nunits = 200\n\
         intensity = {}\n",
        figure(50.0)
    );
    let slabs = |settings: &[(&str, &str)]| {
        let done = outcome_of("6.12", settings, &build);
        let count = |event| done.counters.get(event);
        (count(Event::AllocSlab), count(Event::FreeSlab))
    };
    let (taken, given_back) = slabs(&[]);
    assert!(taken > 0 && given_back <= taken, "{taken} {given_back}");
    let (of_two_pages, _) = slabs(&[("slab_max_order", "1")]);
    assert!(of_two_pages > taken, "smaller slabs have fewer objects: {of_two_pages} {taken}");
    let (of_many, _) = slabs(&[("slab_min_objects", "512")]);
    assert!(of_many < taken, "larger slabs have more: {of_many} {taken}");
}

#[test]
fn what_was_before_a_run_takes_no_time_of_it() {
    let state = "held_mib = 512\n[state]\nunmovable_blocks = { value = 0.5, source = 'made up' }\n\
                 unmovable_share = { value = 0.5, source = 'made up' }\n";
    let run = run_of("6.12", &[], &format!("{state}{}", reader("reads", 8, "")));
    let spec = &run.workload;
    let progress = RunProgress::default();
    let boot = run.boot(&progress).unwrap();
    let mut system = boot.system().unwrap();
    let booted = system.latest();
    Host::new(&boot, spec, &mut system).unwrap();
    assert!(system.machine.costs.list_take > Time::ZERO, "from now on work takes time");
    assert_eq!(system.latest(), booted);
}
