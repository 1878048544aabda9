//! Tests of programs on machines with base pages of 16 and 64 KiB: known effects, and what cannot run there.

mod paging_scenario;

use lab::scenario::{Scenario, load_machine};
use machine::PageSize;
use machine::profile::Profile;
use sim::Run;
use sim::metric::{self, Metric};
use sim::outcome::Outcome;
use std::collections::BTreeMap;
use workload::tasks::ProgramSpec;

const MACHINES: [&str; 3] = ["ampere-altra", "ampere-altra-16k", "ampere-altra-64k"];

fn run_on(scenario: &str, variant: &str, machine: &Profile) -> Run {
    let scenario = Scenario::load(scenario).unwrap();
    scenario.run(variant, 1, machine, &BTreeMap::new()).unwrap()
}

fn outcomes(scenario: &str, variant: &str) -> [Outcome; 3] {
    MACHINES.map(|name| sim::run(&run_on(scenario, variant, &load_machine(name).unwrap())).unwrap())
}

fn values(outcomes: &[Outcome], metric: Metric) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.get(metric).unwrap()).collect()
}

#[test]
fn larger_pages_fault_less_and_take_more_memory() {
    for scenario in ["speedometer", "redis-snapshot", "jvm-growth"] {
        let outcomes = outcomes(scenario, "folios-base");
        let falls = |metric| values(&outcomes, metric).is_sorted_by(|one, next| one > next);
        assert!(falls(metric::PAGE_FAULTS) && falls(metric::FAULT_TIME), "{scenario}");
        assert!(falls(metric::PAGE_WALK_TIME), "{scenario}");
        assert!(values(&outcomes, metric::ANON_MAX).is_sorted_by(|one, next| one < next), "{scenario}");
        let share = [metric::SHARE_4K, metric::SHARE_16K, metric::SHARE_64K];
        for (outcome, share) in outcomes.iter().zip(share) {
            assert_eq!(outcome.get(share), Some(100.0), "{scenario}: single pages are a size of their own");
        }
    }
}

#[test]
fn each_page_is_stored_to_once_at_least() {
    let outcomes = outcomes("speedometer", "folios-base");
    let [small, middle, large] = [0, 1, 2].map(|at| values(&outcomes, metric::PAGE_FAULTS)[at]);
    // At most 4 and 16 recorded pages share one fault.
    assert!(middle >= small / 4.0 && large >= small / 16.0, "{small} {middle} {large}");
}

/// v2 has folios of 64 KiB with pages of 16 KiB, and none if a base page has that size.
#[test]
fn versions_have_the_sizes_that_there_are() {
    let [small, middle, large] = outcomes("speedometer", "folios-v2");
    let share = |outcome: &Outcome| outcome.get(metric::SHARE_64K).unwrap();
    assert!(share(&small) > 10.0 && share(&middle) > share(&small) && share(&large) == 100.0);
    let plain = &outcomes("speedometer", "folios-base")[2];
    assert_eq!(
        plain.metrics, large.metrics,
        "with pages of 64 KiB v2 changes nothing where nobody gave advice"
    );
}

/// A kernel variant's settings for sizes without a sysfs file (32 and 16 KiB) are skipped, as `echo` would
/// fail; the same settings from a user are refused.
#[test]
fn settings_of_sizes_that_there_are_not() {
    let sixteen = load_machine("ampere-altra-16k").unwrap();
    let run = run_on("speedometer", "folios-v9-64k-32k-16k", &sixteen);
    let sizes: Vec<_> = run.settings.keys().filter(|name| name.contains("hugepages-")).collect();
    assert_eq!(
        sizes,
        ["transparent_hugepage/hugepages-2048kB/enabled", "transparent_hugepage/hugepages-64kB/enabled"]
    );
    let changes = [("transparent_hugepage/hugepages-32kB/enabled".into(), "always".into())].into();
    let refused =
        Scenario::load("speedometer").unwrap().run("folios-base", 1, &sixteen, &changes).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("32kB") && refused.contains("pages of 16 KiB"), "{refused}");
}

#[test]
fn what_was_recorded_in_pages_of_4_kib_is_refused() {
    let machine = load_machine("ampere-altra-64k").unwrap();
    for (scenario, variant) in
        [("af_unix", "pcp-base"), ("hugetlb-8s", "hugetlb-base"), ("numa02", "numa-base")]
    {
        let scenario = Scenario::load(scenario).unwrap();
        let refused = scenario.run(variant, 1, &machine, &BTreeMap::new()).unwrap_err().to_string();
        assert!(refused.contains("page_size_kib = 64"), "{}: {refused}", scenario.name);
    }
    let mut run = run_on("speedometer", "folios-base", &machine);
    run.settings.insert("hugepages-2048kB/boot".into(), "1".into());
    assert!(sim::run(&run).unwrap_err().to_string().contains("pools of huge pages"));
}

/// Random reads of 4 KiB from a file on a machine with larger pages: each brings in a whole page.
#[test]
fn files_come_in_pages_of_the_machine() {
    let keys = r#"
        files = "nvme"
        swap = "zram"
        swap_mib = 256
        milliseconds = 100
    "#;
    let workload = format!("{keys}{}", paging_scenario::cgroup("limited", 128));
    let readers = r#"
        threads = 4
        object = "file"
        mib = 256
        advice = "random"
        pattern = { kind = "uniform" }
    "#;
    let writers = r#"
        threads = 2
        object = "memory"
        mib = 64
        write = true
        pattern = { kind = "uniform" }
    "#;
    let scenario =
        paging_scenario::scenario("i7-9700", &workload, &[("limited", readers), ("limited", writers)]);
    let results = PageSize::ALL.map(|size| {
        let machine = Profile { page_size: size, ..load_machine("i7-9700").unwrap() };
        sim::run(&scenario.run("mglru-6.7", 1, &machine, &BTreeMap::new()).unwrap()).unwrap()
    });
    for (outcome, size) in results.iter().zip(PageSize::ALL) {
        let get = |metric| outcome.get(metric).unwrap();
        // Larger pages need fewer struct pages of 64 bytes.
        let installed = |size: PageSize, outcome: &Outcome| {
            outcome.get(metric::MEM_TOTAL).unwrap() + 28_672.0 * 64.0 / size.bytes() as f64
        };
        let (total, limit) = (installed(size, outcome), 128.0 + size.kib() as f64 / 4.0);
        assert!((total - installed(PageSize::Kib4, &results[0])).abs() < 1.0, "{size:?}: {total} MiB");
        assert!(get(metric::MEM_BUFF_CACHE) <= limit, "{size:?}: {}", get(metric::MEM_BUFF_CACHE));
        assert_eq!(get(metric::SWAP_TOTAL), 256.0);
    }
    let faults = results.each_ref().map(|outcome| outcome.counters.get(mm::Event::Pgfault));
    assert!(faults.is_sorted_by(|one, next| one > next), "{faults:?}");
}

#[test]
fn a_system_that_runs_for_long_has_folios_of_the_preferred_bytes() {
    let mut run = run_on("equilibrium", "folios-v2", &load_machine("ampere-altra-16k").unwrap());
    let ProgramSpec::MapUnmap(spec) = &mut run.workload.programs[0].program else { panic!("no areas") };
    spec.turnovers = 3;
    let outcome = sim::run(&run).unwrap();
    assert!(outcome.get(metric::PREFERRED_FOLIOS).unwrap() > 0.0, "folios of 64 KiB");
    run.machine = load_machine("ampere-altra-64k").unwrap();
    let refused = sim::run(&run).unwrap_err().to_string();
    assert!(
        refused.contains("workload.programs[0].program.preferred_kib = 64")
            && refused.contains("pages have 64 KiB"),
        "{refused}"
    );
}

#[test]
fn a_page_has_4_or_16_or_64_kib() {
    let text = include_str!("../../../machines/ampere-altra-16k.toml");
    let profile = Profile::parse(text).unwrap();
    assert_eq!(profile.page_size, PageSize::Kib16);
    assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile));
    let wrong = text.replace("page_size_kib = 16", "page_size_kib = 8");
    let refused = Profile::parse(&wrong).unwrap_err().to_string();
    assert!(refused.contains("line 3") && refused.contains("page_size_kib"), "{refused}");
    assert!(refused.contains("4, 16 or 64 KiB"), "{refused}");
    let default = load_machine("ampere-altra").unwrap();
    assert!(default.page_size == PageSize::Kib4 && !default.to_toml().contains("page_size_kib"));
}

/// One clearing curve for all three machines.
#[test]
fn pages_of_one_machine_are_cleared_along_one_curve() {
    let costs = MACHINES.map(|name| load_machine(name).unwrap().costs());
    for kib in [64, 256, 2048] {
        let clear = [4, 16, 64].into_iter().zip(&costs).map(|(size, costs)| costs.clear(kib / size));
        let clear: Vec<_> = clear.collect();
        assert!(clear.windows(2).all(|pair| pair[0] == pair[1]), "{kib} KiB: {clear:?}");
    }
}
