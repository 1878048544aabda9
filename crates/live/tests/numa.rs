//! The twin's NUMA balancing against recordings of real kernels.
//!
//! ```text
//!   numa-RELEASE              programs with small pages ──┬─► every decision beside the twin's
//!   numa-huge-pages-RELEASE   programs with huge pages  ──┘
//!                                └─► which rules their hint faults went through
//! ```

use live::recordings::default_directory;
use live::verify::numa::{RIGHT_DECISIONS, Recording, judge, list};
use mm::numa::cpupid::Cpupid;
use mm::numa::migrate::policy::FaultFlags;

/// Decisions that agree with the kernel without exception where pages are small.
const EXACT: [&str; 7] = [
    "VMAs skipped, and why",
    "may scan",
    "ranges scanned",
    "task: pages migrated",
    "task: preferred node",
    "task: scan period",
    "task: scan_seq",
];
/// The same of huge pages. One pass of 6.12.95 scans another VMA, because the twin does not know to the jiffy when the thread's PID
/// left `pids_active`, so that it also skips others.
const EXACT_OF_HUGE_PAGES: [&str; 4] =
    ["filter's answer", "task: pages migrated", "task: preferred node", "task: scan_seq"];
/// How the names of recordings of programs with huge pages begin.
const HUGE_PAGES: &str = "numa-huge-pages-";
/// Pages of a huge page.
const HPAGE_PMD_NR: u32 = 512;

fn recordings(of_huge_pages: bool) -> Vec<(String, Recording)> {
    let all = list(&default_directory()).unwrap().into_iter();
    all.filter(|(name, _)| name.starts_with(HUGE_PAGES) == of_huge_pages).collect()
}

/// Holds the twin to the decisions of a recording: `exact` ones all, and of all so many that few differ.
fn hold(name: &str, recording: &Recording, exact: &[&str]) {
    let entries = judge(name, recording, &mut |_| {}).unwrap();
    for entry in entries.iter().filter(|entry| exact.contains(&entry.counter.as_str())) {
        assert_eq!(entry.twin, entry.kernel, "{}: {}", entry.case, entry.counter);
    }
    let all: u64 = entries.iter().map(|entry| entry.kernel).sum();
    let equal: u64 = entries.iter().map(|entry| entry.twin).sum();
    assert!(equal as f64 >= RIGHT_DECISIONS * all as f64, "{name}: {equal} of {all}");
}

#[test]
fn decisions_are_those_of_recorded_kernels() {
    let recordings = recordings(false);
    assert_eq!(recordings.len(), 3);
    recordings.iter().for_each(|(name, recording)| hold(name, recording, &EXACT));
}

#[test]
fn decisions_about_huge_pages_are_those_of_recorded_kernels() {
    let recordings = recordings(true);
    assert_eq!(recordings.len(), 3);
    recordings.iter().for_each(|(name, recording)| hold(name, recording, &EXACT_OF_HUGE_PAGES));
}

/// What a hint fault on a huge page can come to, by who was there last: a row for each way through
/// `should_numa_migrate_memory` that programs can take which nothing is bound to.
const OUTCOMES: [&str; 7] = [
    "it is local",
    "nobody was there, it migrates",
    "its thread was there on this node, it migrates",
    "its thread was there on another node, it stays",
    "another thread was there, it migrates",
    "another thread was there, it stays",
    "it should migrate and does not",
];

/// Each kernel's programs with huge pages go every way, most often more than once, so that no rule is judged by what others do.
#[test]
fn hint_faults_on_huge_pages_come_to_everything_that_they_can() {
    for (name, recording) in recordings(true) {
        let mut seen = [0; OUTCOMES.len()];
        for case in &recording.cases {
            assert_eq!(case.settings["transparent_hugepage/enabled"], "always", "{name}: {}", case.name);
            for fault in recording.faults(case).unwrap() {
                let (last, flags) = (Cpupid::from_bits(fault.last), FaultFlags(fault.flags));
                let outcome = match fault.filter {
                    _ if fault.pages != HPAGE_PMD_NR => continue,
                    _ if flags.has(FaultFlags::MIGRATE_FAIL) => 6,
                    None => 0,
                    Some(_) if last == Cpupid::UNSET => 1,
                    Some(filter) if last.matches(fault.tid) => {
                        if filter.answer {
                            2
                        } else {
                            3
                        }
                    }
                    Some(filter) => {
                        if filter.answer {
                            4
                        } else {
                            5
                        }
                    }
                };
                seen[outcome] += 1;
            }
        }
        for (outcome, seen) in OUTCOMES.into_iter().zip(seen) {
            println!("{name:24} {outcome:50} {seen:6}");
            assert!(seen > 0, "{name}: {outcome}");
        }
    }
}
