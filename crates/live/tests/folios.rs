//! The twin against the recordings of faults in anonymous memory.

use live::recordings::default_directory;
use live::verify::folios::{
    Advice, Case, Configuration, Operation, PlainMemory, Recording, Touch, TwinMemory, entries, run,
};
use live::verify::{Cases, RecordedKernel, by_recordings};
use mm::{Mechanism, Series, Variant};
use proptest::prelude::*;

#[test]
fn the_twin_makes_the_recorded_folios() {
    let report = by_recordings(Mechanism::Folios, &default_directory()).unwrap();
    assert_eq!(report.cases, Some(Cases { exact: 524, differing: 0, disturbed: 0 }));
    let rows: u64 = report.entries.iter().map(|entry| entry.kernel).sum();
    assert_eq!(rows, 5 * 524, "all rows, in five respects");
    for entry in &report.entries {
        assert_eq!(
            entry.kernel,
            entry.twin,
            "{}: {}\n{}",
            entry.case,
            entry.counter,
            report.notes.join("\n")
        );
    }
}

#[test]
fn a_difference_shows() {
    let (name, recording) = Recording::list(&default_directory()).unwrap().remove(0);
    let mut outcomes: Vec<_> = recording.cases.iter().map(|recorded| recorded.outcome.clone()).collect();
    let before = entries(&name, &recording, &outcomes);
    outcomes[3].faults += 1;
    let after = entries(&name, &recording, &outcomes);
    let pairs = before.entries.iter().zip(&after.entries);
    let differing = pairs.filter(|(before, after)| before.twin != after.twin).count();
    let notes = &after.notes;
    assert!(
        differing == 1 && notes.iter().any(|note| note.contains("not cases with equal faults")),
        "{notes:?}"
    );
    assert_eq!((before.cases.differing, after.cases.differing), (0, 1));
}

/// Counters that other processes changed are not compared; everything else is.
#[test]
fn disturbed_cases_are_counted_apart() {
    let (name, mut recording) = Recording::list(&default_directory()).unwrap().remove(0);
    let mut outcomes: Vec<_> = recording.cases.iter().map(|recorded| recorded.outcome.clone()).collect();
    let all = recording.cases.len() as u64;
    recording.cases[3].disturbed = true;
    outcomes[3].statistics.insert((64, "anon_fault_alloc".into()), 99);
    let judged = entries(&name, &recording, &outcomes);
    assert_eq!(judged.cases, Cases { exact: all - 1, differing: 0, disturbed: 1 });
    let compared: u64 = judged.entries.iter().map(|entry| entry.kernel).sum();
    assert_eq!(compared, 5 * all - 1);
    outcomes[3].rss_kib += 4;
    let judged = entries(&name, &recording, &outcomes);
    assert_eq!(judged.cases, Cases { exact: all - 1, differing: 1, disturbed: 0 });
}

fn configuration() -> impl Strategy<Value = Configuration> {
    let enabled = prop::sample::select(vec!["always", "madvise", "never"]);
    let modes = prop::collection::vec(0..4, 8);
    (enabled, modes, any::<bool>()).prop_map(|(enabled, modes, beside_full)| {
        let of_mode = |mode| {
            let sizes = modes.iter().enumerate().filter(|&(_, of)| *of == mode);
            sizes.map(|(i, _)| 16 << i).collect()
        };
        let (name, enabled) = (String::new(), enabled.to_string());
        Configuration {
            name,
            enabled,
            always: of_mode(1),
            inherit: of_mode(2),
            madvise: of_mode(3),
            beside_full,
        }
    })
}

fn case() -> impl Strategy<Value = Case> {
    let touch = prop_oneof![
        Just(Touch::Forwards),
        Just(Touch::Backwards),
        Just(Touch::Shuffled),
        (1u64..40).prop_map(Touch::Stride),
    ];
    let sizes = (0u64..600, prop_oneof![1u64..70, 1u64..1100]);
    (sizes, touch, 0..12, 0u64..1100, 0u64..80, prop::collection::vec(0u64..1100, 0..5), 0usize..3).prop_map(
        |((offset, pages), touch, operation, first, length, prepopulated, advice)| {
            let (first, last) = (first % pages, (first % pages + length).min(pages));
            let operation = match operation {
                0 => Operation::Read,
                1 => Operation::ReadWrite,
                2 => Operation::ReadHalfWrite,
                3 => Operation::Lock,
                4 | 5 => Operation::Drop(first..last),
                6 => Operation::Split(first.max(1)),
                7 => Operation::ForkChildWrites,
                8 => Operation::ForkChildGone,
                9 => Operation::ForkChildAlive,
                10 => Operation::ForkChildAlone,
                _ => Operation::Write,
            };
            let advice = [Advice::None, Advice::Huge, Advice::NoHuge][advice];
            let prepopulated = prepopulated.into_iter().filter(|&page| page < pages).collect();
            Case { name: String::new(), offset, pages, advice, touch, operation, prepopulated }
        },
    )
}

/// After a child has exited, its parent reuses a PMD-mapped huge page as a whole, even in kernels that copy
/// pages of other large folios.
#[test]
fn a_huge_page_is_reused_as_one() {
    let features = Series::FOLIOS.variant("folios-v2").unwrap().features;
    let configuration = Configuration {
        name: String::new(),
        enabled: "always".into(),
        always: vec![2048],
        inherit: vec![],
        madvise: vec![],
        beside_full: false,
    };
    let case = Case {
        name: String::new(),
        offset: 0,
        pages: 512,
        advice: Advice::None,
        touch: Touch::Forwards,
        operation: Operation::ForkChildGone,
        prepopulated: vec![],
    };
    let Ok(plain) = run(&mut PlainMemory::new(features), &configuration, &case);
    let Ok(twin) = run(&mut TwinMemory::new(features), &configuration, &case);
    assert_eq!((plain.layout.as_str(), plain.second_faults), ("9x1", 1));
    assert_eq!(plain, twin);
}

proptest! {
    /// The twin's page tables and the simple model agree.
    #[test]
    fn the_twin_is_as_the_plain_model(configuration in configuration(), case in case(), which in 0..6) {
        let features = match which {
            0 => Series::FOLIOS.variant("folios-v2").unwrap().features,
            1 => Series::FOLIOS.variant("folios-v3").unwrap().features,
            2 => Series::FOLIOS.variant("folios-v2-simple").unwrap().features,
            3 => Variant::of_release("6.12").unwrap().features,
            _ => Variant::of_release("6.18").unwrap().features,
        };
        let Ok(plain) = run(&mut PlainMemory::new(features), &configuration, &case);
        let Ok(twin) = run(&mut TwinMemory::new(features), &configuration, &case);
        prop_assert_eq!(plain, twin);
    }
}

#[test]
fn a_configuration_that_no_kernel_takes_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let original = default_directory().join("thp-6.18.44");
    for file in ["thp.toml", "faults.csv.zst"] {
        std::fs::copy(original.join(file), directory.path().join(file)).unwrap();
    }
    let path = directory.path().join("thp.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(Recording::open(directory.path()).is_ok());
    std::fs::write(&path, text.replacen(r#"enabled = "never""#, r#"enabled = "neuer""#, 1)).unwrap();
    let error = Recording::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("thp.toml: configuration ") && error.contains("neuer"), "{error}");
}
