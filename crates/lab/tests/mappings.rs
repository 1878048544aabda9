//! Tests of recorded mappings: the effects of folios, of folio size and of contiguous PTEs, and that runs are
//! repeatable.

use lab::scenario::{Scenario, load_machine};
use mm::Event;
use sim::Run;
use sim::metric::{self, Metric};
use sim::outcome::Outcome;
use workload::mappings;
use workload::recorded_mappings::RecordedMappings;
use workload::tasks::ProgramSpec;

fn redis(variant: &str) -> Run {
    let scenario = Scenario::load("redis-snapshot").unwrap();
    let machine = load_machine(&scenario.machine).unwrap();
    scenario.run(variant, 1, &machine, &Default::default()).unwrap()
}

/// The recorded program of a run.
fn recorded(run: &mut Run) -> &mut RecordedMappings {
    let host = &mut run.workload;
    let ProgramSpec::RecordedMappings(recorded) = &mut host.programs[0].program else { panic!("recorded") };
    recorded
}

fn simulate(run: &Run) -> Outcome {
    sim::run(run).unwrap()
}

fn value(outcome: &Outcome, metric: Metric) -> f64 {
    outcome.metrics[metric.name]
}

#[test]
fn larger_folios_save_faults_and_walks_and_cost_first_uses() {
    let (single, large) = (simulate(&redis("folios-base")), simulate(&redis("folios-v2")));
    assert!(value(&large, metric::PAGE_FAULTS) < value(&single, metric::PAGE_FAULTS));
    assert!(value(&large, metric::PAGE_WALK_TIME) < value(&single, metric::PAGE_WALK_TIME));
    assert_eq!(value(&single, metric::FIRST_USE_TIME), 0.0);
    assert!(value(&large, metric::FIRST_USE_TIME) > 0.0);
    assert_eq!(value(&single, metric::SHARE_4K), 100.0);
    assert!(value(&large, metric::SHARE_64K) > 25.0);
    let again = simulate(&redis("folios-v2"));
    assert_eq!((again.metrics, again.counters), (large.metrics, large.counters));
}

#[test]
fn sizes_change_nothing_where_the_profile_does_not_say() {
    let (with, mut run) = (simulate(&redis("folios-v2")), redis("folios-v2"));
    run.machine.blocks = None;
    let without = simulate(&run);
    assert_eq!(value(&without, metric::FIRST_USE_TIME), 0.0);
    // Each page is unmapped like a single one, which takes longer than clearing beyond the cache does.
    assert!(value(&without, metric::FAULT_TIME) > value(&with, metric::FAULT_TIME));
    let faults = |outcome: &Outcome| outcome.counters.get(Event::Pgfault);
    assert_eq!(faults(&with), faults(&without));
    assert!(with.notes.is_empty());
    assert!(without.notes.len() == 1 && without.notes[0].contains("[blocks]"), "{:?}", without.notes);
}

/// Four adjacent pages are one translation on AMD's cores and four on Intel's, where folios below 2 MiB save
/// no page walk.
#[test]
fn what_a_folio_saves_depends_on_the_core() {
    let outcome = |machine, variant| {
        let run = Run { machine: load_machine(machine).unwrap(), ..redis(variant) };
        simulate(&run)
    };
    let walks = |machine, variant| value(&outcome(machine, variant), metric::PAGE_WALK_TIME);
    assert!(walks("milan-vm-252", "folios-v2") < walks("milan-vm-252", "folios-base"));
    // Faults that take less time come at other times of the program.
    let share = walks("i7-9700", "folios-v2") / walks("i7-9700", "folios-base");
    assert!((0.99..1.01).contains(&share), "{share}");
    assert!(walks("i7-9700", "folios-base") > 0.0);
    assert!(value(&outcome("i7-9700", "folios-v2"), metric::FIRST_USE_TIME) > 0.0);
}

#[test]
fn marked_entries_reach_farther() {
    let walks = |variant, marked| {
        let mut run = redis(variant);
        recorded(&mut run).contiguous_entries = marked;
        value(&simulate(&run), metric::PAGE_WALK_TIME)
    };
    assert!(walks("folios-v2", true) < walks("folios-v2", false));
    assert_eq!(walks("folios-base", true), walks("folios-base", false), "single pages have nothing to mark");
}

/// arm64 kernels use the contiguous bit by themselves since 6.9.
#[test]
fn entries_are_marked_since_6_9() {
    let walks = |variant: &str| {
        let scenario = Scenario::load("redis-snapshot").unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let changes = [("transparent_hugepage/hugepages-64kB/enabled".to_string(), "always".to_string())];
        let run = scenario.run(variant, 1, &machine, &changes.into()).unwrap();
        value(&simulate(&run), metric::PAGE_WALK_TIME)
    };
    assert!(walks("folios-6.12") < walks("folios-6.8"));
}

/// Version 2 of the patches has the same faults as version 1 and less gain in kernel time, because pages are
/// unmapped one by one again.
#[test]
fn folios_that_are_unmapped_at_once_cost_less() {
    let [single, first, second] =
        ["folios-base", "folios-v1", "folios-v2"].map(|variant| simulate(&redis(variant)));
    assert_eq!(value(&first, metric::PAGE_FAULTS), value(&second, metric::PAGE_FAULTS));
    let times = [&first, &second, &single].map(|outcome| value(outcome, metric::FAULT_TIME));
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
}

#[test]
fn who_has_no_size_enabled_is_told_which_setting_does() {
    let notes = |variant: &str, changes: &[(&str, &str)]| {
        let scenario = Scenario::load("redis-snapshot").unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let changes = changes.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        simulate(&scenario.run(variant, 1, &machine, &changes).unwrap()).notes
    };
    let setting = "transparent_hugepage/hugepages-64kB/enabled";
    let note = notes("folios-v6", &[]);
    assert!(note.len() == 1 && note[0].ends_with(&format!("--set {setting}=always")), "{note:?}");
    assert_eq!(notes("folios-v6", &[(setting, "always")]), [""; 0]);
    assert_eq!(notes("folios-v6", &[("transparent_hugepage/enabled", "always")]), [""; 0]);
    assert_eq!(notes("folios-v9-64k", &[]), [""; 0], "a variant of enabled sizes");
    assert_eq!(notes("folios-base", &[]), [""; 0], "a kernel that has no sizes");
}

#[test]
fn a_seed_replays_the_recording_of_its_place() {
    let of = |seed| {
        let scenario = Scenario::load("chromium-chart").unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        simulate(&scenario.run("folios-v2", seed, &machine, &Default::default()).unwrap())
    };
    let (first, second, again) = (of(1), of(2), of(2));
    assert_eq!((&second.metrics, &second.counters), (&again.metrics, &again.counters));
    assert_ne!(value(&first, metric::PAGE_FAULTS), value(&second, metric::PAGE_FAULTS));
    // The runs are of one browser and one page: they differ, but not by much.
    let share = value(&first, metric::PAGE_FAULTS) / value(&second, metric::PAGE_FAULTS);
    assert!((0.8..1.25).contains(&share), "{share}");
}

#[test]
fn built_in_scenarios_have_as_many_seeds_as_recordings() {
    for name in Scenario::names() {
        let scenario = Scenario::load(name).unwrap();
        let host = &scenario.workload;
        let recordings = host.programs.iter().map(|program| program.program.recordings());
        let Some(1..) = recordings.collect::<Option<Vec<_>>>().map(|all| all.len()) else { continue };
        let machine = load_machine(&scenario.machine).unwrap();
        let run = |seed| scenario.run(&scenario.variants[0], seed, &machine, &Default::default());
        let seeds = u64::from(scenario.seeds);
        assert!((1..=seeds).all(|seed| run(seed).is_ok()), "{name}");
        for beyond in [0, seeds + 1, u64::MAX] {
            let refused = run(beyond).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{name}: seed = {beyond}: it takes 1 ")), "{refused}");
        }
    }
}

/// Two different programs are given as two runs of one program, to show which of them is replayed.
#[test]
fn a_scenario_file_may_name_several_recordings() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, contents: &[u8]| std::fs::write(directory.path().join(name), contents).unwrap();
    put("one.zst", mappings::JVM[0]);
    put("two.zst", mappings::REDIS[0]);
    let built_in = std::fs::read_to_string("../../scenarios/redis-snapshot.toml").unwrap();
    let load = |recording: &str| {
        put(
            "own.toml",
            built_in.replace("recording = \"redis\"", &format!("recording = {recording}")).as_bytes(),
        );
        Scenario::load(directory.path().join("own.toml").to_str().unwrap())
    };
    let scenario = load("['one.zst', 'two.zst']").unwrap();
    let machine = load_machine(&scenario.machine).unwrap();
    let run = |seed| scenario.run("folios-base", seed, &machine, &Default::default());
    // Chance is another one with another seed, so the second run is compared with second runs.
    let second_of = |recordings| {
        let scenario = load(recordings).unwrap();
        simulate(&scenario.run("folios-base", 2, &machine, &Default::default()).unwrap()).metrics
    };
    let second = simulate(&run(2).unwrap()).metrics;
    assert_eq!(second, second_of("['two.zst', 'two.zst']"));
    assert_ne!(second, second_of("['one.zst', 'one.zst']"));
    assert_ne!(simulate(&run(1).unwrap()).metrics, simulate(&redis("folios-base")).metrics);
    let refused = run(3).unwrap_err().to_string();
    assert!(refused.contains("seed = 3: it takes 1 to 2: there are 2 recordings"), "{refused}");
    put("two.zst", b"damaged");
    let refused = sim::run(&run(2).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("two.zst: recorded mappings"), "{refused}");
    for (recording, problem) in [
        ("['one.zst', 'three.zst']", "three.zst"),
        ("'jvmm'", "No such file or directory (os error 2); built in are chromium"),
        ("[]", "at least one recording"),
    ] {
        let refused = load(recording).unwrap_err().to_string();
        let key = "workload.programs[0].program.recording";
        assert!(refused.contains(key) && refused.contains(problem), "{refused}");
    }
}

/// Redis, which forks three children, in a memory cgroup that is too small for it.
fn redis_within(mib: u64, swap: &str) -> Outcome {
    let figure = |value: f64| format!("{{ value = {value:?}, source = 'made up' }}");
    let text = format!(
        "name = 'small'\ndescription = 'd'\nevidence = 'e'\nmachine = 'epyc-7k62-vm'\nseries = 'reclaim'\n\
         variants = ['6.18']\nseeds = 1\nmetrics = ['score']\n[workload]\nkind = 'host'\nmilliseconds = 60000\n{swap}\n\
         [[workload.cgroups]]\nname = 'small'\nmax_mib = {mib}\n[[workload.programs]]\nname = 'redis'\ncgroup = 'small'\ncopies = 2\n\
         [workload.programs.program]\nkind = 'recorded-mappings'\nrecording = 'redis'\nrounds = 2\ncpu_seconds = {}\nruns = {}\n\
         million_walks = {}\n",
        figure(0.5),
        figure(1.0),
        figure(1.0)
    );
    let scenario = Scenario::parse("small.toml", &text).unwrap();
    let machine = load_machine(&scenario.machine).unwrap();
    simulate(&scenario.run("6.18", 1, &machine, &Default::default()).unwrap())
}

#[test]
fn a_recorded_program_swaps_where_its_memory_is_limited() {
    let swap = "swap = 'zram'\nswap_mib = 1024";
    let [enough, short] = [1024, 80].map(|mib| redis_within(mib, swap));
    assert_eq!(enough.counters.get(Event::Pswpout), 0);
    assert!(short.counters.get(Event::Pswpout) > 1000 && short.counters.get(Event::Pswpin) > 0);
    for outcome in [&enough, &short] {
        assert_eq!(value(outcome, metric::TRANSACTIONS), 4.0, "two copies, two rounds each");
    }
    let again = redis_within(80, swap);
    assert_eq!((again.metrics, again.counters), (short.metrics, short.counters));
}

/// Who waits for a child that is killed goes on, and nobody waits for a parent that is.
#[test]
fn a_recorded_program_goes_on_without_those_that_are_killed() {
    let outcome = redis_within(60, "");
    assert!(outcome.counters.get(Event::OomKill) > 0);
    let killed: u64 = outcome.programs.iter().map(|program| program.processes_killed).sum();
    assert_eq!(killed, outcome.counters.get(Event::OomKill));
    assert!(outcome.notes.iter().all(|note| !note.contains("cut off")), "{:?}", outcome.notes);
}
