//! The twin's NUMA balancing against recordings of real kernels.

use live::recordings::default_directory;
use live::verify::numa::{RIGHT_DECISIONS, judge, list};

/// Decisions that agree with the kernel without exception.
const EXACT: [&str; 7] = [
    "VMAs skipped, and why",
    "may scan",
    "ranges scanned",
    "task: pages migrated",
    "task: preferred node",
    "task: scan period",
    "task: scan_seq",
];

#[test]
fn decisions_are_those_of_recorded_kernels() {
    let recordings = list(&default_directory()).unwrap();
    assert_eq!(recordings.len(), 3);
    for (name, recording) in recordings {
        let entries = judge(&name, &recording, &mut |_| {}).unwrap();
        for entry in &entries {
            println!(
                "{:24} {:40} {:8} {:8} {:8.3} %",
                entry.case,
                entry.counter,
                entry.kernel,
                entry.twin,
                100.0 * entry.twin as f64 / entry.kernel as f64
            );
        }
        for entry in entries.iter().filter(|entry| EXACT.contains(&entry.counter.as_str())) {
            assert_eq!(entry.twin, entry.kernel, "{}: {}", entry.case, entry.counter);
        }
        let all: u64 = entries.iter().map(|entry| entry.kernel).sum();
        let equal: u64 = entries.iter().map(|entry| entry.twin).sum();
        assert!(equal as f64 >= RIGHT_DECISIONS * all as f64, "{name}: {equal} of {all}");
    }
}
