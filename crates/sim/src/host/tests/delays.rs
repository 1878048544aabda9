//! The time of a thread is spent on a CPU or in a delay whose cause is told, and calls take as long as their delays.

use super::*;
use crate::outcome::{Distribution, ProgramOutcome};
use mm::delayacct::Cause;

fn delay(program: &ProgramOutcome, cause: Cause) -> f64 {
    program.delays.get(cause.name()).map_or(0.0, |of| of.seconds)
}

/// Seconds on CPUs and in delays.
fn accounted(program: &ProgramOutcome) -> f64 {
    let delayed: f64 = program.delays.values().map(|of| of.seconds).sum();
    program.cpu_seconds.values().sum::<f64>() + delayed - on_cpu(program)
}

/// Seconds of delays in which the CPU worked for the task: it reclaimed, or compacted. All other delays are sleep.
fn on_cpu(program: &ProgramOutcome) -> f64 {
    let reclaims = [Cause::DirectReclaim, Cause::DirectCompaction, Cause::MemoryMax];
    reclaims.into_iter().map(|cause| delay(program, cause)).sum()
}

/// Where threads never sleep of their own will.
fn holds_all_time(programs: &str, threads: f64) {
    let outcome = outcome_of("6.12", &[], programs);
    let program = &outcome.programs[0];
    let all = threads * outcome.virtual_seconds;
    let accounted = accounted(program);
    assert!((accounted - all).abs() < 0.02 * all, "{accounted} of {all}: {program:?}");
}

#[test]
fn all_time_of_a_thread_is_accounted_for() {
    // Reading what does not fit, with a device to wait for.
    holds_all_time(&[GROUP, &reader("files", 256, "cgroup = 'small'")].concat(), 4.0);
    // Computing, with three times as many threads as CPUs.
    holds_all_time(&reader("files", 16, "copies = 6"), 24.0);
    // Swapping to memory below a limit.
    holds_all_time(&[GROUP, &writer("memory", 24, "cgroup = 'small'")].concat(), 4.0);
}

#[test]
fn who_shares_cpus_waits_in_turn() {
    let crowded = outcome_of("6.12", &[], &reader("files", 16, "copies = 6"));
    let program = &crowded.programs[0];
    // 24 threads on 8 CPUs: each waits twice as long as it runs.
    let (runs, waits) = (program.cpu_seconds.values().sum::<f64>(), delay(program, Cause::RunQueue));
    assert!((1.9..2.1).contains(&(waits / runs)), "{waits} s in run queues, {runs} s on CPUs");
    let alone = outcome_of("6.12", &[], &reader("files", 16, ""));
    assert!(delay(&alone.programs[0], Cause::RunQueue) < 0.01, "{:?}", alone.programs[0]);
}

#[test]
fn what_comes_back_to_the_working_set_is_a_refault() {
    let waits = |programs: &str| {
        let outcome = outcome_of("6.12", &[], programs);
        [Cause::Device, Cause::Refault].map(|cause| delay(&outcome.programs[0], cause))
    };
    let [device, refaults] = waits(&reader("files", 600, ""));
    // A page that two threads use while it is read counts as one of the working set.
    assert!(device > 0.5 && refaults < 1e-3 * device, "{refaults} s of {device} s");
    // The multi-gen LRU takes only few of those that come back for a part of it.
    let [device, refaults] = waits(&[GROUP, &reader("files", 80, "cgroup = 'small'")].concat());
    assert!(refaults > 1e-2 * device, "{refaults} s of {device} s");
}

#[test]
fn calls_take_as_long_as_what_delays_them() {
    let outcome = outcome_of("6.12", &[], &[GROUP, &writer("memory", 24, "cgroup = 'small'")].concat());
    let [program, ..] = &outcome.programs[..] else { panic!("a program") };
    let Distribution { count, seconds, latency_us } = &program.calls["page_fault"];
    // Each of the four threads may be in a page fault when measuring begins, and when it ends.
    let faults = outcome.counters.get(Event::Pgfault);
    assert!(count.abs_diff(faults) <= 4, "{count} of {faults}");
    let stalled = outcome.get(metric::of_program::MEMORY_STALL_TIME.of("memory")).unwrap();
    assert!((stalled - on_cpu(program) - delay(program, Cause::Refault)).abs() < 1e-9, "{stalled} s");
    let delayed = on_cpu(program) + delay(program, Cause::Refault) + delay(program, Cause::Device);
    assert!(*seconds >= delayed, "{seconds} s of faults, {delayed} s of delays in them");
    assert!(latency_us["p50"] <= latency_us["p99"] && latency_us["p99.9"] <= latency_us["max"]);
    let read = outcome_of("6.12", &[], &reader("files", 1024, ""));
    let program = &read.programs[0];
    assert_eq!(program.calls.keys().collect::<Vec<_>>(), ["read"]);
    assert!(program.calls["read"].seconds >= delay(program, Cause::Device));
}
