//! Tests of the operations of threads: streams, sharing, hot sets, builds and samples.

use super::*;
use crate::kernel_build::pages_of;
use crate::process::ProcessProfile;
use rand::SeedableRng;

fn program(text: &str, cpus: usize) -> Program {
    let spec: ProgramSpec = toml::from_str(text).unwrap();
    assert_eq!(spec.check(), Ok(()), "{text}");
    assert_eq!(toml::from_str::<ProgramSpec>(&toml::to_string(&spec).unwrap()).unwrap(), spec);
    spec.start(cpus, Pcg64Mcg::seed_from_u64).unwrap()
}

/// All operations of a thread, with the clock stopped.
fn all(program: &mut Program, thread: usize) -> Vec<Operation> {
    std::iter::from_fn(|| program.next(thread, 0)).collect()
}

fn streamed(operations: &[Operation]) -> u64 {
    let pages = |operation: &Operation| match operation {
        Operation::Stream { pages, .. } => *pages,
        _ => 0,
    };
    operations.iter().map(pages).sum()
}

#[test]
fn numa01_clears_all_memory_51_times_in_every_thread() {
    let text = "kind = \"numa01\"\nprocesses = 2\nthreads = \"half\"\nmib = 3\nloops = 50";
    let mut program = program(text, 8);
    assert_eq!(program.layout().threads, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(program.layout().processes, vec![Process::new(vec![768]); 2]);
    for thread in 0..8 {
        assert_eq!(streamed(&all(&mut program, thread)), 51 * 768);
    }
}

#[test]
fn memory_of_the_first_pass_may_come_from_one_node() {
    let text = "kind = \"numa01\"\nprocesses = 1\nthreads = 2\nmib = 4\nloops = 1\nsame_node = true\nthread_local = true";
    let mut program = program(text, 2);
    let operations = all(&mut program, 1);
    let policies: Vec<usize> =
        (0..operations.len()).filter(|&at| matches!(operations[at], Operation::SetMempolicy(_))).collect();
    assert_eq!(policies[0], 0);
    assert_eq!(operations[policies[0]], Operation::SetMempolicy(Some(0)));
    assert_eq!(operations[policies[1]], Operation::SetMempolicy(None));
    assert_eq!(policies.len(), 2);
    assert_eq!(streamed(&operations[..policies[1]]), 1024, "the first pass is all memory");
    assert_eq!(streamed(&operations[policies[1]..]), 512, "the others are a slice");
}

#[test]
fn slices_cover_memory_once() {
    for text in [
        "kind = \"numa01\"\nprocesses = 1\nthreads = 4\nmib = 8\nloops = 3\nthread_local = true",
        "kind = \"numa02\"\nthreads = \"all\"\nmib = 8\nloops = 4",
    ] {
        let mut program = program(text, 4);
        let mut times = vec![0; 2048];
        for thread in 0..4 {
            let operations = all(&mut program, thread);
            let ends = operations.iter().filter(|o| **o == Operation::TransactionEnd).count();
            assert_eq!(ends, 3);
            for operation in operations {
                if let Operation::Stream { first, pages, .. } = operation {
                    (first..first + pages).for_each(|page| times[page as usize] += 1);
                }
            }
        }
        // In numa01 every thread first clears all memory.
        let expected = if text.contains("numa01") { 4 + 3 } else { 4 };
        assert!(times.iter().all(|&times| times == expected), "{text}: {times:?}");
    }
}

#[test]
fn the_first_pass_may_be_bound_to_nodes() {
    let text = "kind = \"numa02\"\nthreads = 2\nmib = 2\nloops = 2\nfirst_pass = { shift = 1, stay_milliseconds = 0 }";
    let operations = all(&mut program(text, 2), 1);
    let part = Operation::Stream { area: 0, first: 256, pages: 256, write: true };
    let expected = [
        Operation::Pin(Some(Affinity::Node(2))),
        part,
        Operation::Pin(Some(Affinity::Node(1))),
        Operation::Pin(None),
        part,
        Operation::TransactionEnd,
    ];
    assert_eq!(operations, expected);
    let text = "kind = \"numa02\"\nthreads = 2\nmib = 2\nloops = 1\nmain_touches_first = true";
    let mut program = program(text, 2);
    assert!(program.layout().processes[0].touched);
    assert_eq!(all(&mut program, 1), [part, Operation::TransactionEnd]);
}

#[test]
fn memory_may_be_mapped_late() {
    let text = "kind = \"numa02\"\nthreads = 2\nmib = 2\nloops = 1\nmain_touches_first = true\nmapped_after_milliseconds = 3";
    let mut program = program(text, 2);
    assert!(!program.layout().processes[0].touched);
    let compute = |nanoseconds| Some(Operation::Compute { nanoseconds });
    assert_eq!(program.next(0, 0), compute(1_000_000));
    assert_eq!(program.next(0, 2_500_000), compute(500_000));
    assert_eq!(program.next(1, 2_500_000), compute(500_000));
    assert_eq!(program.next(0, 3_000_000), Some(Operation::Map { area: 0 }));
    assert!(matches!(program.next(0, 3_000_001), Some(Operation::Stream { .. })));
    assert_eq!(program.next(1, 3_000_000), Some(Operation::Barrier));
}

#[test]
fn a_thread_is_moved_and_comes_back() {
    let mut program = program("kind = \"pin-move\"\nmib = 2\nmilliseconds = 8", 2);
    let at = |program: &mut Program, ms: u64| program.next(0, ms * 1_000_000);
    assert_eq!(at(&mut program, 0), Some(Operation::Pin(Some(Affinity::FirstCpuOf(0)))));
    assert!(matches!(at(&mut program, 1), Some(Operation::Stream { .. })));
    assert_eq!(at(&mut program, 2), Some(Operation::Pin(Some(Affinity::FirstCpuOf(u8::MAX)))));
    assert_eq!(at(&mut program, 5), Some(Operation::Pin(Some(Affinity::FirstCpuOf(0)))));
    assert_eq!(at(&mut program, 8), None);
}

#[test]
fn groups_use_their_own_memory_as_often_as_they_should() {
    let text = |processes: bool| {
        format!(
            "kind = \"sharing\"\ngroups = 2\nthreads = 4\nprocesses = {processes}\nmib = 4\nshared_mib = 1\naccesses = 3\n\
             private_share = {{ value = 0.75, source = \"made up\" }}\n\
             write_share = {{ value = 0.5, source = \"made up\" }}\n\
             compute_ns = {{ value = 100.0, source = \"made up\" }}"
        )
    };
    for processes in [false, true] {
        let mut program = program(&text(processes), 8);
        let layout = program.layout().clone();
        assert_eq!(layout.threads, if processes { [0, 0, 1, 1] } else { [0; 4] });
        let operations: Vec<_> = (0..50_000).map(|_| program.next(3, 0).unwrap()).collect();
        let own = if processes { 1 } else { 2 };
        let (mut touches, mut private, mut ends) = (0.0, 0.0, 0);
        for operation in operations {
            match operation {
                Operation::Touch { area, page, .. } => {
                    assert!(area == 0 || area == own);
                    assert!(page < layout.processes[layout.threads[3] as usize].areas[area as usize]);
                    touches += 1.0;
                    private += f64::from(area == own);
                }
                Operation::TransactionEnd => ends += 1,
                other => assert_eq!(other, Operation::Compute { nanoseconds: 100 }),
            }
        }
        assert_eq!(ends, 10_000, "three accesses and some computing each");
        assert!((private / touches - 0.75_f64).abs() < 0.01);
    }
}

#[test]
fn hot_keys_move_on() {
    let text = "kind = \"hot-set\"\nthreads = 1\nmib = 64\nhot_mib = 4\ndrift_mib = 8\ndrift_milliseconds = 10\n\
                hot_share = { value = 1.0, source = \"made up\" }\nwrite_share = { value = 0.0, source = \"made up\" }\n\
                compute_ns = { value = 100.0, source = \"made up\" }";
    let mut program = program(text, 1);
    let filled = std::iter::from_fn(|| program.next(0, 0).filter(|o| *o != Operation::Barrier));
    assert_eq!(streamed(&filled.collect::<Vec<_>>()), 64 * 256);
    for (ms, first) in [(0, 0), (9, 0), (10, 2048), (25, 4096), (80, 0)] {
        for _ in 0..300 {
            if let Some(Operation::Touch { page, .. }) = program.next(0, ms * 1_000_000) {
                assert!((first..first + 1024).contains(&page), "page {page} at {ms} ms");
            }
        }
    }
}

#[test]
fn what_loading_took_is_given_back_before_requests_begin() {
    let text = "kind = \"hot-set\"\nthreads = 2\nmib = 2\nloading_mib = 3\nhot_mib = 1\ndrift_mib = 1\n\
                drift_milliseconds = 10\nhot_share = { value = 1.0, source = \"made up\" }\n\
                write_share = { value = 0.0, source = \"made up\" }\ncompute_ns = { value = 1.0, source = \"made up\" }";
    let mut program = program(text, 2);
    assert_eq!(program.layout().processes[0].areas, [512, 768]);
    let first: Vec<_> = (0..4).map(|_| program.next(0, 0).unwrap()).collect();
    let stream = |area, pages| Operation::Stream { area, first: 0, pages, write: true };
    assert_eq!(first, [stream(1, 768), stream(0, 512), Operation::Barrier, Operation::Release { area: 1 }]);
    let other: Vec<_> = (0..2).map(|_| program.next(1, 0).unwrap()).collect();
    assert_eq!(other, [stream(1, 0), Operation::Barrier]);
}

#[test]
fn a_build_is_one_process_after_the_other() {
    let text = "kind = \"kernbench\"\njobs = 2\nunits = 40\n\
                intensity = { value = 2.0, source = \"made up\" }\n\
                accesses_per_ms = { value = 0.5, source = \"made up\" }\n\
                moves_per_second = { value = 20.0, source = \"made up\" }\n\
                system_calls_ms = { value = 3.0, source = \"made up\" }";
    let mut program = program(text, 8);
    let layout = program.layout().clone();
    assert_eq!(layout.threads, [0, 1]);
    assert!(layout.processes[0].areas.is_empty(), "they come as the program goes");
    let (mut computed, mut touches, mut moves, mut processes, mut jobs) = (0, 0, 0, 0, 0);
    let (mut system_calls, mut pages, mut most_areas, mut late) = (0, 0, 0, 0);
    for thread in 0..2 {
        // For each area, pages in use and pages mapped.
        let mut areas: Vec<(u64, u64)> = Vec::new();
        for operation in all(&mut program, thread) {
            match operation {
                Operation::Exec => {
                    assert!(areas.iter().all(|(used, all)| used == all), "what is mapped is used: {areas:?}");
                    most_areas = most_areas.max(areas.len());
                    pages += areas.drain(..).map(|(used, _)| used).sum::<u64>();
                    processes += 1;
                }
                Operation::Mmap { area, pages } => {
                    assert_eq!(area as usize, areas.len());
                    late += usize::from(areas.iter().map(|(used, _)| used).sum::<u64>() > 1000);
                    areas.push((0, pages));
                }
                Operation::Stream { area, first, pages: more, .. } => {
                    let (used, all) = &mut areas[area as usize];
                    assert_eq!(first, *used, "new pages come in order");
                    *used += more;
                    assert!(*used <= *all);
                }
                Operation::Touch { area, page, .. } => {
                    assert!(page < areas[area as usize].0);
                    touches += 1;
                }
                Operation::Pin(node) => moves += usize::from(node.is_some()),
                Operation::Compute { nanoseconds } => computed += nanoseconds,
                Operation::SystemCalls { nanoseconds } => system_calls += nanoseconds,
                Operation::TransactionEnd => jobs += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(jobs, 41, "all jobs and the tail");
    assert!(processes > 200, "{processes}");
    // A thread begins with a process, and its last process has just ended when the thread does.
    assert_eq!(system_calls, (processes - 2) * 3_000_000);
    let profile = ProcessProfile::kernel_build().unwrap();
    let recorded = profile.units()[..40].iter().flatten().chain(profile.tail());
    let recorded = recorded.map(|&process| pages_of(profile, process)).sum::<u64>();
    assert_eq!(pages, recorded, "those that were recorded");
    assert!(most_areas >= 9 && late > 10, "{most_areas}, {late}");
    let ms = computed as f64 / 1e6;
    assert!((0.4 * ms..0.5 * ms).contains(&f64::from(touches)), "{touches} in {ms} ms");
    assert!((0.01 * ms..0.03 * ms).contains(&(moves as f64)), "{moves} in {ms} ms");
}

#[test]
fn a_word_for_threads_that_there_is_not_is_refused_with_what_there_is() {
    for (value, is) in
        [("\"most\"", "string \"most\""), ("-1", "integer `-1`"), ("1.5", "floating point `1.5`")]
    {
        let text = format!("threads = {value}\nmib = 1\nloops = 1");
        let error = ProgramSpec::error_in("numa02", toml::Deserializer::parse(&text).unwrap()).unwrap();
        let error = error.to_string();
        assert!(error.contains(is) && error.contains(&format!("expected {THREADS}")), "{error}");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    for (text, key) in [
        ("kind = \"numa01\"\nprocesses = 0\nthreads = 1\nmib = 1\nloops = 1", "processes"),
        ("kind = \"numa02\"\nthreads = 0\nmib = 1\nloops = 1", "threads"),
        ("kind = \"numa02\"\nthreads = 1\nmib = 0\nloops = 1", "mib"),
        (
            "kind = \"numa02\"\nthreads = 1\nmib = 1\nloops = 1\nmapped_after_milliseconds = 1",
            "mapped_after_milliseconds",
        ),
        ("kind = \"pin-move\"\nmib = 1\nmilliseconds = 0", "milliseconds"),
        (
            "kind = \"kernbench\"\njobs = 1\nunits = 0\nintensity = { value = 1.0, source = \"made up\" }\n\
             accesses_per_ms = { value = 1.0, source = \"made up\" }\n\
             moves_per_second = { value = 1.0, source = \"made up\" }\n\
             system_calls_ms = { value = 1.0, source = \"made up\" }",
            "units",
        ),
        ("kind = \"samples\"\nfile = \"\"", "file"),
    ] {
        let spec: ProgramSpec = toml::from_str(text).unwrap();
        assert_eq!(spec.check().unwrap_err().key, key, "{text}");
    }
    assert!(
        toml::from_str::<ProgramSpec>("kind = \"numa02\"\nthreads = \"most\"\nmib = 1\nloops = 1").is_err()
    );
    let missing: ProgramSpec = toml::from_str("kind = \"samples\"\nfile = \"/nowhere.csv\"").unwrap();
    let error = missing.start(1, Pcg64Mcg::seed_from_u64).err().unwrap();
    assert!(error.value.contains("/nowhere.csv"), "{error}");
}
