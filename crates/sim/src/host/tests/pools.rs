//! What an operator's writes to pools of huge pages do, and what a service beside them feels.

use super::*;
use crate::metric::{
    DEMOTE_TIME, ELAPSED, GROW_FLUSHES, GROW_TIME, PAGES_REACHED, POOL_BOOT_TIME, SHRINK_FLUSHES,
    SHRINK_TIME, TRANSACTION_TIME, TRANSACTIONS, VMEMMAP_FREED,
};
use crate::outcome::ProgramOutcome;
use crate::tests::Scenario;
use workload::service::Service;

fn figure(value: f64) -> Figure {
    Figure { value, range: None, source: "made up for a test".into() }
}

/// A host whose operator makes these writes, beside a service if there is one, for at most `milliseconds`.
fn host(milliseconds: u64, writes: &[&str], service: Option<Service>) -> Workload {
    let event = |write: &&str| HostEvent { milliseconds: 0, write: write.to_string() };
    let service = service.map(|service| HostProgram::new("service", ProgramSpec::Service(service)));
    Workload {
        milliseconds,
        programs: service.into_iter().collect(),
        events: writes.iter().map(event).collect(),
        ..Workload::default()
    }
}

/// More than any of the writes takes.
const LONG: u64 = 1_000_000;

/// A run on the virtual machine with `mib` of memory on each of its two nodes.
fn run_of(variant: &str, mib: u64, workload: Workload) -> Run {
    let scenario = Scenario::load("hugetlb-vm252");
    let mut machine = load_machine(&scenario.machine);
    machine.topology.memory_mib_per_node = mib;
    let mut run = scenario.run(variant, &machine, &BTreeMap::new());
    run.workload = workload;
    run
}

fn outcome(variant: &str, writes: &[&str]) -> Outcome {
    crate::run(&run_of(variant, 4096, host(LONG, writes, None))).unwrap()
}

fn service(threads: u32, requests_per_second: f64, work_spread: f64) -> Service {
    Service {
        threads,
        first_cpu: Some(1),
        requests_per_second: figure(requests_per_second),
        work_us: figure(100.0),
        work_spread: figure(work_spread),
        pages: 2,
        memory_mib: 0,
        used_mib: 0,
        requests: None,
    }
}

/// What the service did.
fn served(outcome: &Outcome) -> &ProgramOutcome {
    outcome.programs.iter().find(|program| program.name == "service").unwrap()
}

#[test]
fn flushes_are_those_of_the_variant() {
    for (variant, grow, shrink) in [
        ("hugetlb-base-hvo-off", 0.0, 0.0),
        ("patch12", 3.0, 1.0),
        ("patch12-hvo-off", 3.0, 1.0),
        ("mainline-6.7", 2.0, 1.0),
    ] {
        let outcome = outcome(variant, &["vm.nr_hugepages=130", "vm.nr_hugepages=0"]);
        let flushes = (outcome.get(GROW_FLUSHES), outcome.get(SHRINK_FLUSHES));
        assert_eq!(flushes, (Some(grow), Some(shrink)), "{variant}");
    }
    let base = outcome("hugetlb-base", &["vm.nr_hugepages=130", "vm.nr_hugepages=0"]);
    let splits = base.counters.get(Event::VmemmapPmdSplits) as f64;
    assert!(splits >= 2.0);
    assert_eq!(base.get(SHRINK_FLUSHES), Some(130.0));
    assert!(base.get(GROW_FLUSHES).unwrap() >= 130.0 + 2.0);
    // The costs of a broadcast are calibrated, but that they dominate does not depend on their exact values.
    let merged = outcome("mainline-6.7", &["vm.nr_hugepages=130"]);
    assert!(base.get(GROW_TIME).unwrap() > 4.0 * merged.get(GROW_TIME).unwrap());
}

#[test]
fn writes_are_told_apart_by_what_they_do_to_the_pool() {
    let once = outcome("hugetlb-base-hvo-off", &["vm.nr_hugepages=64"]);
    let again = outcome(
        "hugetlb-base-hvo-off",
        &["vm.nr_hugepages=64", "vm.nr_hugepages=64", "vm.stat_interval=10", "vm.nr_hugepages=16"],
    );
    assert_eq!(once.get(GROW_TIME), again.get(GROW_TIME));
    assert_eq!((once.get(SHRINK_TIME), once.get(PAGES_REACHED)), (Some(0.0), Some(64.0)));
    assert!(again.get(SHRINK_TIME).unwrap() > 0.0);
    assert_eq!(again.get(VMEMMAP_FREED), Some(0.0));
    // 7 of 8 vmemmap pages of each huge page, less one page table for each section that was split.
    let freed = outcome("mainline-6.7", &["vm.nr_hugepages=64"]);
    let splits = freed.counters.get(Event::VmemmapPmdSplits) as f64;
    assert_eq!(freed.get(VMEMMAP_FREED), Some((64.0 * 7.0 - splits) / 256.0));
}

/// What is said of events.
fn notes(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.events.iter().filter_map(RunEvent::note).collect()
}

#[test]
fn a_pool_that_memory_is_too_small_for_is_noted_and_no_error() {
    let outcome =
        crate::run(&run_of("hugetlb-base", 512, host(LONG, &["vm.nr_hugepages=100000"], None))).unwrap();
    let reached = outcome.get(PAGES_REACHED).unwrap();
    assert!((100.0..512.0).contains(&reached), "{reached} of 1 GiB");
    let expected = format!("{reached} of 100000 pages, no memory for more");
    assert_eq!(notes(&outcome), [("a write to vm.nr_hugepages".to_string(), expected)]);
    assert!(notes(&self::outcome("hugetlb-base", &["vm.nr_hugepages=10"])).is_empty());
}

/// Further allocations would each look at the pagesets of all CPUs and fail too.
#[test]
fn a_request_that_finds_no_memory_asks_for_no_more_pages() {
    let large = Service { pages: 600, ..service(8, 2000.0, 0.5) };
    let all = ["vm.nr_hugepages=18446744073709551615"];
    let outcome = crate::run(&run_of("mainline-6.7", 256, host(400, &all, Some(large)))).unwrap();
    let note = outcome.notes.iter().find_map(|note| {
        note.strip_prefix("page allocations that found no memory: ")?.split(';').next()?.parse::<f64>().ok()
    });
    let requests = served(&outcome).transactions as f64;
    assert!(note.is_some_and(|failed| failed <= requests), "{:?}, {requests} requests", outcome.notes);
}

#[test]
fn what_the_kernel_refuses_ends_the_run() {
    for (write, expected) in [
        ("vm.nr_hugepages=-1", "EINVAL"),
        ("vm.nr_hugepages=99999999999999999999", "EINVAL"),
        ("hugepages-2048kB/nr_hugepages=99999999999999999999", "ERANGE"),
        ("hugepages-64kB/nr_hugepages=1", "ENOENT"),
        ("node7/hugepages-2048kB/nr_hugepages=1", "ENOENT"),
        ("vm.nr_hugepagez=1", "no such file or directory (ENOENT): most like it: vm.nr_hugepages, "),
    ] {
        let writes = ["vm.nr_hugepages=1", write];
        let error =
            crate::run(&run_of("hugetlb-base", 4096, host(LONG, &writes, None))).unwrap_err().to_string();
        assert!(error.starts_with("workload.events[1].write = ") && error.contains(expected), "{error}");
    }
    let error = crate::run(&run_of("hugetlb-base", 4096, host(1, &[], Some(service(252, 1.0, 0.0)))));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("workload.programs[0].program.threads = 1 for the first of 252")
    );
}

#[test]
fn an_undisturbed_service_waits_as_queueing_theory_says() {
    // M/D/1: the mean wait is S*r/(2(1-r)) at utilisation r.
    for rate in [2500.0, 5000.0] {
        let run = run_of("hugetlb-base-hvo-off", 4096, host(400, &[], Some(service(60, rate, 0.0))));
        let outcome = crate::run(&run).unwrap();
        let requests = outcome.get(TRANSACTIONS).unwrap();
        let work = outcome.cpu_seconds["program"] * 1e6 / requests;
        assert!((100.0..101.0).contains(&work), "{work}");
        let utilisation = work * 1e-6 * rate;
        let expected = work * (1.0 + utilisation / (2.0 * (1.0 - utilisation)));
        let found = outcome.get(TRANSACTION_TIME).unwrap() / requests;
        assert!((found / expected - 1.0).abs() < 0.03, "{found} expected {expected}");
    }
}

#[test]
fn flushes_delay_the_service_and_nothing_else_differs() {
    let writes = ["vm.nr_hugepages=512", "vm.nr_hugepages=0"];
    let of = |variant| {
        let workload = host(400, &writes, Some(service(16, 2000.0, 0.5)));
        crate::run(&run_of(variant, 4096, workload)).unwrap()
    };
    let (off, base, merged) = (of("hugetlb-base-hvo-off"), of("hugetlb-base"), of("mainline-6.7"));
    let requests = |outcome: &Outcome| served(outcome).transactions as f64;
    // All serve the same requests, but for those that are not answered by the end.
    assert!((12_000.0..13_600.0).contains(&requests(&off)));
    assert!((requests(&off) - requests(&base)).abs() < 16.0);
    assert!((requests(&off) - requests(&merged)).abs() < 16.0);
    let latency = |outcome: &Outcome, quantile| served(outcome).latency_us[quantile];
    assert!(latency(&base, "p50") > 1.005 * latency(&off, "p50"));
    assert!((latency(&merged, "p50") / latency(&off, "p50") - 1.0).abs() < 0.002);
    assert!(latency(&off, "max") >= latency(&off, "p99.9") && latency(&off, "p99.9") > latency(&off, "p50"));
    assert_eq!(of("hugetlb-base"), base);
}

/// What is held when the run ends is what requests hold that are not answered: two pages for each of eight threads at most.
#[test]
fn the_kernel_frees_the_pages_of_requests() {
    for variant in ["hugetlb-base", "patch12", "mainline-6.18"] {
        let writes = ["vm.nr_hugepages=200", "vm.nr_hugepages=50", "node1/hugepages-2048kB/nr_hugepages=100"];
        let run = run_of(variant, 1024, host(400, &writes, Some(service(8, 5000.0, 0.3))));
        let spec = &run.workload;
        let (progress, mut end) = (RunProgress::default(), milliseconds(spec.milliseconds));
        let boot = run.boot(&progress).unwrap();
        let mut system = boot.system().unwrap();
        let mut host = Host::new(&boot, spec, &mut system).unwrap();
        let held = system.allocated;
        end = host.run_until(&mut system, Time::ZERO..end);
        assert!(system.allocated - held <= 16, "{}", system.allocated - held);
        system.mm.validate(system.allocated);
        assert!(served(&host.outcome(&mut system, Time::ZERO..end).unwrap()).transactions > 10_000);
    }
}

#[test]
fn a_write_that_the_run_is_too_short_for_is_noted() {
    let outcome =
        crate::run(&run_of("hugetlb-base", 4096, host(1, &["vm.nr_hugepages=1000"], None))).unwrap();
    let cut_off = ("a write to vm.nr_hugepages".to_string(), "cut off by the end of the run".to_string());
    assert_eq!(notes(&outcome), [cut_off]);
    assert_eq!(outcome.get(GROW_TIME), None);
    let late = ["vm.nr_hugepages=1000", "vm.swappiness=10", "vm.swappiness=20"];
    let outcome = crate::run(&run_of("hugetlb-base", 4096, host(1, &late, None))).unwrap();
    assert_eq!(outcome.notes, ["2 writes had not begun by the end"]);
}

/// A run of one write on a kernel with these settings; it gives the seconds of boot and of the write.
fn timed(machine: &str, release: &str, settings: &[(&str, &str)], write: &str) -> Outcome {
    let scenario = Scenario::load("hugetlb-vm252");
    let mut run = scenario.run(release, &load_machine(machine), &BTreeMap::new());
    run.settings.extend(settings.iter().map(|&(name, value)| (name.to_string(), value.to_string())));
    run.workload = host(LONG, &[write], None);
    crate::run(&run).unwrap()
}

/// Published for similar machines: 3336 ms with one thread on 4 nodes and 1943 ms on 2, against 1051 and 716
/// ms with one thread per node; with two per node, 215 ms instead of 358 (2 nodes). Four threads on 2 nodes
/// are therefore 1943 / 716 * 358 / 215 times as fast as one.
#[test]
fn threads_fill_pools_at_boot() {
    let seconds = |release| {
        let settings = [("hugepages-2048kB/boot", "200000"), ("vm.hugetlb_optimize_vmemmap", "0")];
        timed("numa-256", release, &settings, "vm.stat_interval=1").get(POOL_BOOT_TIME).unwrap()
    };
    let [one, also_one, four, quarter] = ["6.7", "6.8", "6.9", "6.15"].map(seconds);
    assert_eq!(one, also_one);
    let published = 1943.0 / 716.0 * 358.0 / 215.0;
    let faster = one / four;
    assert!((published * 0.75..published * 1.25).contains(&faster), "{faster}, published: {published}");
    assert_eq!(four, seconds("6.14"));
    assert!(quarter < four / 2.0, "64 threads: {quarter} s, 4: {four} s");
}

/// Published for 400 pages of 1 GiB: 2679 to 4745 ms, and 1582 to 2024 ms once each node had a thread.
#[test]
fn gigantic_pages_of_boot_cost_their_struct_pages() {
    let seconds = |release, hvo| {
        let settings = [("hugepages-1048576kB/boot", "400"), ("vm.hugetlb_optimize_vmemmap", hvo)];
        timed("numa-256", release, &settings, "vm.stat_interval=1").get(POOL_BOOT_TIME).unwrap()
    };
    let [before, after] = ["6.8", "6.9"].map(|release| seconds(release, "0"));
    assert!((2.6..4.8).contains(&before), "{before}");
    assert!((1.5..2.1).contains(&after), "{after}");
    // Before 6.7 all struct pages were initialized first and then freed.
    assert!(seconds("6.6", "1") > before && seconds("6.7", "1") < before / 4.0);
}

/// Published for one machine: 8 min 58 s for 100 pages when every part waited for RCU readers, 0.9 s since
/// 6.12.
#[test]
fn demotion_took_minutes_in_two_releases() {
    let seconds = |release| {
        let settings = [("hugepages-1048576kB/boot", "100"), ("vm.hugetlb_optimize_vmemmap", "1")];
        let outcome = timed("milan-vm-252", release, &settings, "hugepages-1048576kB/demote=100");
        outcome.get(DEMOTE_TIME).unwrap()
    };
    for (release, published) in [("6.10", 538.2), ("6.11", 538.2), ("6.12", 0.9), ("6.18", 0.9)] {
        let took = seconds(release);
        assert!((published * 0.75..published * 1.25).contains(&took), "{release}: {took}");
    }
    assert!(seconds("6.9") < 60.0, "nobody waited");
}

/// Requests arrive only after boot: filling a pool for seconds delays none of them.
#[test]
fn a_service_begins_after_boot() {
    let longest = |boot: &str| {
        let mut run = run_of("mainline-6.9", 65_536, host(400, &[], Some(service(8, 200.0, 0.0))));
        run.settings.insert("hugepages-2048kB/boot".into(), boot.into());
        let outcome = crate::run(&run).unwrap();
        assert_eq!(outcome.get(ELAPSED), Some(0.4));
        let served = served(&outcome);
        (served.latency_us["max"], served.transactions)
    };
    let (without, with) = (longest("0"), longest("50000"));
    assert_eq!(without.1, with.1);
    assert!(with.0 < 2.0 * without.0, "{without:?} {with:?}");
}
