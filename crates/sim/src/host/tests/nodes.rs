//! Tests of whole programs under NUMA balancing, on a small scale.

use crate::host::*;
use crate::metric;
use crate::progress::RunProgress;
use crate::tests::{Scenario, load_machine};
use crate::{Run, Workload};
use mm::Event;
use mm::features::sched::SchedFeatures;
use std::collections::BTreeMap;
use workload::background::KernelThread;
use workload::threads::Threads;
use workload::threads::autonuma::FirstPass;

/// A scaled-down run of a built-in scenario.
fn small(name: &str, variant: &str, shrink: impl FnOnce(&mut Workload)) -> Outcome {
    small_with(name, variant, &[], shrink)
}

/// Like [`small`], with other settings.
fn small_with(
    name: &str,
    variant: &str,
    settings: &[(&str, &str)],
    shrink: impl FnOnce(&mut Workload),
) -> Outcome {
    crate::run(&small_run(name, variant, settings, shrink)).unwrap()
}

fn small_run(
    name: &str,
    variant: &str,
    settings: &[(&str, &str)],
    shrink: impl FnOnce(&mut Workload),
) -> Run {
    let mut scenario = Scenario::load(name);
    let threads = &mut scenario.workload;
    shrink(threads);
    let mut machine = load_machine(&scenario.machine);
    machine.topology.memory_mib_per_node = 1024;
    machine.topology.cores_per_socket = 4;
    let settings = settings.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    scenario.run(variant, &machine, &settings)
}

/// A small build of long-lived processes.
fn build(variant: &str) -> Outcome {
    small("kernbench", variant, |threads| {
        let ProgramSpec::Kernbench(build) = &mut threads.programs[0].program else { panic!("{threads:?}") };
        build.units = 60;
        // A process is scanned after two seconds: one until its first pass, which sets the delay of another.
        build.intensity.value = 0.05;
        build.moves_per_second.value = 2.0;
    })
}

#[test]
fn areas_that_a_compiler_maps_late_wait_for_their_first_scan() {
    let skipped = |variant| {
        let outcome = build(variant);
        [Event::NumaSkipScanDelay, Event::NumaSkipPidInactive].map(|event| outcome.counters.get(event))
    };
    assert_eq!(skipped("numa-base"), [0, 0]);
    let [delayed, left_alone] = skipped("vma-scanning-1");
    assert!(delayed > 0 && left_alone == 0, "{delayed}, {left_alone}");
    let [delayed, left_alone] = skipped("vma-scanning-4");
    assert!(delayed > 0 && left_alone > 0, "{delayed}, {left_alone}");
}

#[test]
fn processes_of_a_build_give_back_what_they_had() {
    let outcome = build("numa-base");
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
    let count = |event| outcome.counters.get(event);
    assert!(count(Event::Pgfault) > 10_000);
    let zones = [Event::PgallocDma, Event::PgallocDma32, Event::PgallocNormal, Event::PgallocMovable];
    let slabs = 256.0 * outcome.get(metric::SLAB_UNRECLAIMABLE).unwrap();
    let left = zones.map(count).iter().sum::<u64>() - count(Event::Pgfree);
    assert_eq!(left as f64, slabs, "nothing is left but slabs that CPUs and nodes keep");
    // Only the pages that a process left on another node are worth scanning.
    assert!(count(Event::NumaPteUpdates) > 0 && count(Event::NumaPteUpdates) < count(Event::Pgfault));
    assert!(outcome.get(metric::LOCAL_ACCESSES).unwrap() > 50.0);
}

#[test]
fn what_was_sampled_of_xz_is_placed_scanned_and_found_again() {
    let outcome = small("xz-samples", "numa-base", |threads| threads.milliseconds = 4000);
    assert_eq!(outcome.notes, ["5 threads of xz were cut off"], "seven seconds and a half were recorded");
    let count = |event| outcome.counters.get(event);
    assert!(count(Event::Pgfault) > 4000, "each page is placed");
    assert!(count(Event::NumaPteUpdates) > 1000 && count(Event::NumaHintFaults) > 100);
}

/// The fast tier is full of unused pages: they are demoted, and hot pages are promoted as far as the rate
/// limit allows.
#[test]
fn what_is_hot_in_slow_memory_comes_up() {
    let moved = |megabytes_per_second| {
        let limit = ("kernel.numa_balancing_promote_rate_limit_MBps", megabytes_per_second);
        let outcome = small_with("tiered-kv", "numa-6.12", &[limit], |threads| {
            threads.milliseconds = 6000;
            let ProgramSpec::HotSet(store) = &mut threads.programs[0].program else { panic!("{threads:?}") };
            (store.mib, store.loading_mib, store.hot_mib) = (256, 800, 32);
        });
        let count = |event| outcome.counters.get(event);
        [Event::PgpromoteCandidate, Event::PgpromoteSuccess, Event::PgdemoteKswapd].map(count)
    };
    let [candidates, promoted, demoted] = moved("65536");
    assert!(candidates >= promoted && promoted > 1000 && demoted > 0, "{candidates} {promoted} {demoted}");
    let [candidates, limited, _] = moved("1");
    assert!(candidates > promoted / 2 && limited < promoted / 2 && limited > 0, "{limited} of {candidates}");
}

#[test]
fn areas_say_who_scanned_and_who_faulted() {
    let outcome = small("numa02", "numa-base", |threads| {
        let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else { panic!("{threads:?}") };
        (program.mib, program.loops) = (64, 6000);
    });
    let faults: u64 = outcome.areas.iter().map(|area| area.faults()).sum();
    let scanned: u64 = outcome.areas.iter().map(|area| area.scanned()).sum();
    assert!(scanned > 0 && scanned <= outcome.counters.get(Event::NumaPteUpdates));
    assert!(faults > 0 && faults <= outcome.counters.get(Event::NumaHintFaults));
    assert!(outcome.areas.is_sorted_by_key(|area| std::cmp::Reverse(area.touched())));
    assert!(outcome.areas[0].threads.len() > 1);
}

#[test]
fn a_kernel_with_one_node_scans_nothing_unless_it_is_told_to() {
    let scanned = |settings: &[(&str, &str)]| {
        let mut run = small_run("numa02", "numa-6.12", settings, |threads| {
            let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else {
                panic!("{threads:?}")
            };
            (program.mib, program.loops) = (16, 20000);
        });
        (run.machine.topology.sockets, run.machine.topology.nodes) = (1, 1);
        run.machine.topology.node_distances = vec![vec![10]];
        crate::run(&run).unwrap().counters.get(Event::NumaPteUpdates) > 0
    };
    assert!(!scanned(&[]));
    assert!(scanned(&[("kernel.numa_balancing", "1")]));
}

#[test]
fn a_cpuset_of_one_node_tells_7_2_from_6_12() {
    let run = |variant, nodes: &[u8]| {
        let outcome = small("numa02", variant, |threads| {
            threads.programs[0].cpuset_mems = nodes.to_vec();
            let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else {
                panic!("{threads:?}")
            };
            (program.mib, program.loops) = (16, 20000);
        });
        [Event::NumaSkipCpuset, Event::NumaScanPasses].map(|event| outcome.counters.get(event) > 0)
    };
    assert_eq!(run("numa-6.19", &[1]), [true, false]);
    assert_eq!(run("numa-6.12", &[1]), [false, true]);
    assert_eq!(run("numa-6.19", &[0, 1]), [false, true]);
    assert_eq!(run("numa-6.19", &[]), [false, true]);
}

/// numa01 with two processes, each thread of which uses all of its memory, mixed on two nodes, with one
/// thread per CPU.
fn mixed(threads: &mut Workload, placement: Option<PlacementKey>) {
    (threads.placement, threads.milliseconds) = (placement, 4000);
    let ProgramSpec::Numa01(program) = &mut threads.programs[0].program else { panic!("{threads:?}") };
    (program.mib, program.loops) = (64, 1000);
}

/// Numbers of threads that moved, and of threads that swapped.
fn task_moves(outcome: &Outcome) -> [u64; 2] {
    [Event::NumaTaskMigrated, Event::NumaTaskSwapped].map(|event| outcome.counters.get(event))
}

/// No thread can move without an idle CPU, but two can swap; this is what the kernel does if the scenario
/// says nothing.
#[test]
fn threads_of_two_processes_change_places() {
    let moved = |placement| task_moves(&small("numa01", "numa-6.12", |threads| mixed(threads, placement)));
    assert_eq!([PlacementKey::Stay, PlacementKey::Idle].map(|placement| moved(Some(placement))), [[0, 0]; 2]);
    let [migrated, swapped] = moved(Some(PlacementKey::Swap));
    assert!(migrated == 0 && swapped > 0, "{migrated} moved, {swapped} changed places");
    assert_eq!(moved(None), [migrated, swapped]);
}

/// A patch of the scheduler is another value of its features: like 6.12, but no swap is worthwhile.
#[test]
fn a_patch_of_the_scheduler_is_a_variant() {
    let run = small_run("numa01", "numa-6.12", &[], |threads| mixed(threads, None));
    let spec = &run.workload;
    let moved = |change: fn(&mut SchedFeatures)| {
        let progress = RunProgress::default();
        let mut boot = run.boot(&progress).unwrap();
        change(&mut boot.features.sched);
        task_moves(&crate::host::run(&boot, spec).unwrap())
    };
    let [_, swapped] = moved(|_| ());
    assert!(swapped > 0);
    assert_eq!(moved(|sched| sched.small_gain = 10_000), [0, 0]);
    assert_eq!(moved(|sched| sched.placement = TaskPlacement::Stay), [0, 0]);
}

#[test]
fn every_node_is_in_the_series() {
    let scenario = Scenario::load("pid-filter");
    let mut machine = load_machine(&scenario.machine);
    let topology = &mut machine.topology;
    (topology.sockets, topology.cores_per_socket, topology.nodes) = (6, 1, 6);
    (topology.node_distances, topology.memory_mib_per_node) = (vec![vec![10; 6]; 6], 96);
    let mut run = scenario.run("numa-base", &machine, &BTreeMap::new());
    let threads = &mut run.workload;
    threads.milliseconds = 1;
    let outcome = crate::run(&run).unwrap();
    let sampled: Vec<&str> = outcome
        .series
        .iter()
        .map(|sample| sample.name)
        .filter(|name| name.starts_with("pages_node"))
        .collect();
    assert_eq!(sampled, [0, 1, 2, 3, 4, 5].map(|node| format!("pages_node{node}")));
}

#[test]
fn an_area_that_no_thread_scans_is_in_the_heat_map() {
    // The main thread touches the whole area while it is alone; from the third sequence on, p4 leaves it to
    // the threads that faulted.
    let outcome = small("pid-filter", "vma-scanning-4", |threads| {
        threads.milliseconds = 2000;
        let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else { panic!("{threads:?}") };
        (program.mib, program.mapped_after_milliseconds) = (64, 1000);
    });
    let area = &outcome.areas[0];
    assert_eq!((area.pages, area.faults(), area.scanned()), (64 * 256, 0, 0));
    let by_thread: Vec<u64> =
        area.threads.iter().map(|heat| heat.touched).filter(|&pages| pages > 0).collect();
    assert!(outcome.areas.iter().all(|area| area.touched() > 0), "stacks are used at every tick");
    assert!(by_thread.len() == 4 && by_thread.iter().all(|&pages| pages >= 64 * 256 / 4), "{by_thread:?}");
}

/// Seconds that numa02 takes and pages that are migrated, on a ring of four sockets with a different cost for
/// the opposite socket. Each thread has first touched its memory `shift` sockets away, and NUMA balancing
/// migrates it.
fn on_a_ring(shift: u8, opposite: &str) -> (f64, u64) {
    let mut ring = load_machine("numa-256");
    let topology = &mut ring.topology;
    (topology.sockets, topology.cores_per_socket, topology.threads_per_core, topology.nodes) = (4, 2, 1, 4);
    topology.memory_mib_per_node = 512;
    topology.node_distances =
        vec![vec![10, 20, 30, 20], vec![20, 10, 20, 30], vec![30, 20, 10, 20], vec![20, 30, 20, 10]];
    let machine = machine::Profile::parse(&format!("{}\n{opposite}", ring.to_toml())).unwrap();
    let mut run = Scenario::load("numa02").run("numa-6.12", &machine, &BTreeMap::new());
    let threads = &mut run.workload;
    threads.placement = Some(PlacementKey::Stay);
    let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else { panic!("{threads:?}") };
    // All stacks are first on the first node: with four threads, one would have its stack two hops away.
    (program.threads, program.mib, program.loops) = (Threads::Number(2), 16, 3000);
    program.first_pass = Some(FirstPass { shift, stay_milliseconds: 0, one_cpu: false });
    let outcome = crate::run(&run).unwrap();
    (outcome.get(metric::ELAPSED).unwrap(), outcome.counters.get(Event::NumaPagesMigrated))
}

/// A run on an emulated machine with NUMA balancing off.
fn unbalanced(machine: &str, name: &str, change: impl FnOnce(&mut Workload)) -> Outcome {
    let machine = load_machine(machine);
    let off = BTreeMap::from([("kernel.numa_balancing".to_string(), "0".to_string())]);
    let mut scenario = Scenario::load(name);
    let threads = &mut scenario.workload;
    change(threads);
    crate::run(&scenario.run("numa-base", &machine, &off)).unwrap()
}

#[test]
fn threads_that_were_bound_spread_over_idle_cpus() {
    let outcome = unbalanced("qemu-4n", "numa01", |threads| {
        threads.milliseconds = 1000;
        let ProgramSpec::Numa01(program) = &mut threads.programs[0].program else { panic!("{threads:?}") };
        (program.processes, program.threads, program.mib) = (4, Threads::Number(2), 1);
        (program.loops, program.same_node) = (1_000_000, false);
        // Eight threads on the four CPUs of two nodes, and then on any of eight.
        program.first_pass = Some(FirstPass { shift: 0, stay_milliseconds: 100, one_cpu: false });
    });
    let idle = outcome.cpu_seconds["idle"] / (8.0 * outcome.virtual_seconds);
    assert!((0.03..0.2).contains(&idle), "idle for {idle} of the time");
}

/// Half a second of threads with a slice each, on two nodes with two CPUs that take turns.
fn half_a_second(number: u32, change: impl FnOnce(&mut Workload)) -> Outcome {
    unbalanced("qemu-2n", "numa02", |threads| {
        threads.milliseconds = 500;
        let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else { panic!("{threads:?}") };
        (program.threads, program.mib, program.loops) = (Threads::Number(number), 4, 1_000_000);
        change(threads);
    })
}

#[test]
fn threads_that_are_bound_to_one_cpu_share_it() {
    let busy = |one_cpu| {
        let outcome = half_a_second(4, |threads| {
            let ProgramSpec::Numa02(program) = &mut threads.programs[0].program else {
                panic!("{threads:?}")
            };
            program.first_pass = Some(FirstPass { shift: 0, stay_milliseconds: 10_000, one_cpu });
        });
        outcome.cpu_seconds["program"] / (4.0 * outcome.virtual_seconds)
    };
    let (spread, bound) = (busy(false), busy(true));
    assert!((0.95..1.0).contains(&spread) && (0.45..0.5).contains(&bound), "{spread} {bound}");
}

#[test]
fn a_thread_of_the_kernel_takes_its_time_and_ends() {
    let alone = half_a_second(2, |_| {}).get(metric::SCORE).unwrap();
    let beside = |milliseconds| {
        let thread = ProgramSpec::KernelThread(KernelThread { milliseconds });
        let thread = HostProgram { begins_on_cpu: Some(3), ..HostProgram::new("kernel-thread", thread) };
        half_a_second(2, |threads| threads.programs.push(thread)).get(metric::SCORE).unwrap() / alone
    };
    // CPUs take turns: the time that the kernel thread takes is lost to the others. CPUs 0 and 2 get a share
    // of 0.638 beside CPU 3 (`turn_shares` of the machine).
    let (short, long) = (beside(50), beside(1000));
    assert!((0.88..0.92).contains(&short) && (0.61..0.66).contains(&long), "{short} {long}");
}

#[test]
fn memory_two_hops_away_costs_more_than_one() {
    let dear = "[links.distance-30]\nstream_gb_per_second = { value = 2.0, source = 'made up' }\n\
                link_gb_per_second = { value = 3.0, source = 'made up' }";
    let [(near, moved), (far, moved_far)] = [1, 2].map(|shift| on_a_ring(shift, dear));
    assert!(moved > 0 && moved_far > 0, "{moved}, {moved_far}");
    assert!(far > 1.2 * near, "{near} s, {far} s");
    // Without links, only the kernel's choices differ.
    let [(plain_near, _), (plain_far, _)] = [1, 2].map(|shift| on_a_ring(shift, ""));
    assert_eq!(near, plain_near, "no way of a hop is dearer");
    assert!((plain_far / plain_near - 1.0).abs() < 0.01, "{plain_near} s, {plain_far} s");
}
