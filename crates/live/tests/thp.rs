//! The recordings of faults of anonymous memory.

use live::recordings::default_directory;
use live::verify::thp::{entries, from_recordings, list};

#[test]
fn the_twin_makes_the_recorded_folios() {
    let report = from_recordings(&default_directory(), "a test".into(), &mut |_| {}).unwrap();
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
    let recording = list(&default_directory()).unwrap().remove(0);
    let mut outcomes: Vec<_> = recording.cases.iter().map(|recorded| recorded.outcome.clone()).collect();
    let (before, _) = entries(&recording, &outcomes);
    outcomes[3].faults += 1;
    let (after, notes) = entries(&recording, &outcomes);
    let differing = before.iter().zip(&after).filter(|(before, after)| before.twin != after.twin).count();
    assert!(
        differing == 1 && notes.iter().any(|note| note.contains("not cases with equal faults")),
        "{notes:?}"
    );
}
