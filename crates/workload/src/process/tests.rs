//! Tests of process profiles: distilled from traces, written, read, and refused if damaged.

use super::profile::FORMAT;
use super::*;
use crate::content_hash::ContentHasher;
use crate::table::{Field, Rows, TableWriter, Values};
use crate::trace::{Event, Metadata, NO_MIGRATETYPE, NO_PAGE, Operation as Traced, TraceReader, TraceWriter};
use bytes::Bytes;
use mm::MigrateType::{Movable, Unmovable};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ROOT: i32 = 100;
const TRACING: u64 = TRACING_NANOSECONDS_PER_EVENT;

/// An event on CPU 0 after `nanoseconds` of CPU time, without the overhead of tracing.
fn on_cpu(task: i32, nanoseconds: u64, operation: Traced) -> Event {
    Event {
        time: nanoseconds + TRACING,
        pfn: NO_PAGE,
        argument: 0,
        task,
        cpu: 0,
        operation,
        order: 0,
        migratetype: NO_MIGRATETYPE,
        blocked: false,
    }
}

fn alloc(task: i32, nanoseconds: u64, pfn: u32, order: u8, migratetype: i8) -> Event {
    Event { pfn, order, migratetype, ..on_cpu(task, nanoseconds, Traced::Alloc) }
}

fn free(task: i32, nanoseconds: u64, pfn: u32, order: u8) -> Event {
    Event { pfn, order, ..on_cpu(task, nanoseconds, Traced::Free) }
}

fn fork(parent: i32, child: i32) -> Event {
    Event { argument: child as u32, ..on_cpu(parent, 0, Traced::Fork) }
}

/// Replaces the events' durations by times, one after the other.
fn in_sequence(mut events: Vec<Event>) -> Vec<Event> {
    let mut time = 0;
    // The recording begins with an event outside the build.
    events.insert(0, on_cpu(0, 0, Traced::Switch));
    for event in &mut events {
        time += event.time;
        event.time = time;
    }
    events
}

fn distilled(events: &[Event], names: &[(i32, &str)]) -> ProcessProfile {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let mut writer = TraceWriter::create(&path).unwrap();
    events.iter().for_each(|event| writer.push(*event).unwrap());
    let tasks = names.iter().map(|&(task, name)| (task, name.to_string())).collect();
    writer.finish(Metadata { command_task: ROOT, tasks, ..Metadata::default() }).unwrap();
    distil(&mut TraceReader::open(&path).unwrap(), 1).unwrap()
}

fn bytes_of(profile: &ProcessProfile) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.profile");
    profile.write(&path).unwrap();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "only the finished file is left");
    std::fs::read(&path).unwrap()
}

fn small_build() -> ProcessProfile {
    let events = in_sequence(vec![
        on_cpu(ROOT, 1_000, Traced::Exec),
        fork(ROOT, 7),
        alloc(7, 500, 10, 0, 1),
        alloc(7, 500, 11, 0, 1),
        alloc(9, 500, 50, 0, 1), // an outsider's
        alloc(7, 700, 12, 1, 0),
        free(7, 300_000, 11, 0),
        free(7, 40, 10, 0),
        free(7, 60, 50, 0), // in an interrupt
        free(7, 80, 90, 2), // was there before
        on_cpu(7, 10, Traced::Exit),
        free(0, 0, 12, 1), // by RCU, after task 7
        fork(9, 7),        // the pid again, for an outsider
        alloc(7, 900, 60, 0, 1),
        on_cpu(ROOT, 5, Traced::Exit),
    ]);
    distilled(&events, &[(ROOT, "make"), (7, "cc1"), (9, "rsync")])
}

#[test]
fn a_small_build_becomes_the_operations_that_it_made() {
    let profile = small_build();
    assert_eq!(profile.units(), [vec![0]]);
    assert_eq!(profile.tail(), [1]);
    assert_eq!((profile.kind(0), profile.kind(1)), ("make", "cc1"));
    assert_eq!(profile.process(0), [Operation::Run { nanoseconds: 1_005 }]);
    assert_eq!(
        profile.process(1),
        [
            Operation::Allocate { order: 0, migrate_type: Movable, count: 2, nanoseconds: 1_000 },
            Operation::Allocate { order: 1, migrate_type: Unmovable, count: 1, nanoseconds: 700 },
            Operation::Run { nanoseconds: 300_000 },
            Operation::Free { first: 0, count: 2, nanoseconds: 40 },
            Operation::FreeShared { order: 2, count: 1, nanoseconds: 140 },
            Operation::FreeShared { order: 1, count: 1, nanoseconds: 10 },
        ]
    );
    let totals = profile.totals();
    assert_eq!((totals.allocated_pages, totals.freed_own_pages, totals.freed_shared_pages), (4, 2, 6));
    assert_eq!(totals.allocations, [("order 0 Movable".into(), 2), ("order 1 Unmovable".into(), 1)].into());
    let summary = profile.summary(0..2);
    assert_eq!(summary["cc1"].allocation_runs, Quantiles { count: 1, median: 3, p90: 3, p99: 3 });
    assert_eq!(summary["cc1"].free_runs, Quantiles { count: 1, median: 4, p90: 4, p99: 4 });
    assert_eq!(profile.process(2), []);
}

#[test]
fn only_frees_of_one_kind_within_a_batch_lose_their_order() {
    let mut events = vec![on_cpu(ROOT, 0, Traced::Exec)];
    events.extend((0..600).map(|pfn| alloc(ROOT, 0, pfn, 0, 1)));
    events.push(alloc(ROOT, 0, 600, 3, 1));
    events.extend((1..600).rev().map(|pfn| free(ROOT, 0, pfn, 0)));
    events.push(free(ROOT, 0, 600, 3));
    events.push(free(ROOT, 0, 0, 0));
    let profile = distilled(&in_sequence(events), &[(ROOT, "sort")]);
    let frees: Vec<(u32, u32)> = (0..profile.len() as u32)
        .flat_map(|index| profile.process(index))
        .filter_map(|operation| match *operation {
            Operation::Free { first, count, .. } => Some((first, count)),
            _ => None,
        })
        .collect();
    assert_eq!(frees, [(88, 512), (1, 87), (600, 1), (0, 1)]);
}

#[derive(Clone, Debug)]
enum Act {
    Alloc { order: u8, migratetype: i8 },
    Free { which: prop::sample::Index },
    Fork,
    Compute { nanoseconds: u64 },
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0u8..4, 0i8..3).prop_map(|(order, migratetype)| Act::Alloc { order, migratetype }),
        5 => any::<prop::sample::Index>().prop_map(|which| Act::Free { which }),
        1 => Just(Act::Fork),
        1 => (0u64..1_000_000).prop_map(|nanoseconds| Act::Compute { nanoseconds }),
    ]
}

/// Expected totals of a process, counted act by act.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    nanoseconds: u64,
    allocated: BTreeMap<(u8, i8), u64>,
    freed_own: u64,
    freed_shared: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tasks of the build and a task outside it allocate, and free each other's blocks; the profile accounts
    /// for every page and nanosecond of the build.
    #[test]
    fn pages_and_time_are_conserved(acts in prop::collection::vec((any_act(), any::<prop::sample::Index>()), 0..400)) {
        const OUTSIDER: i32 = 1;
        let mut tasks = vec![OUTSIDER, ROOT];
        let mut live: Vec<(u32, u8, i32)> = Vec::new();
        let mut events = vec![on_cpu(ROOT, 0, Traced::Exec)];
        let mut expected: BTreeMap<i32, Counted> = [(ROOT, Counted::default())].into();
        for (pfn, (act, who)) in (0u32..).step_by(16).zip(acts) {
            let task = tasks[who.index(tasks.len())];
            match act {
                Act::Alloc { order, migratetype } => {
                    events.push(alloc(task, 30, pfn, order, migratetype));
                    live.push((pfn, order, task));
                    if let Some(counted) = expected.get_mut(&task) {
                        *counted.allocated.entry((order, migratetype)).or_default() += 1;
                        counted.nanoseconds += 30;
                    }
                }
                Act::Free { which } if !live.is_empty() => {
                    let (pfn, order, owner) = live.swap_remove(which.index(live.len()));
                    events.push(free(task, 20, pfn, order));
                    if task != OUTSIDER {
                        expected.get_mut(&task).unwrap().nanoseconds += 20;
                    }
                    // A free by the outside task belongs to the task that ran before it.
                    let last = events.iter().rev().map(|event| event.task).find(|&task| task != OUTSIDER).unwrap();
                    let counted = expected.get_mut(&last).unwrap();
                    if owner == task && task != OUTSIDER {
                        counted.freed_own += 1 << order;
                    } else if owner != OUTSIDER {
                        counted.freed_shared += 1 << order;
                    }
                }
                Act::Fork if task != OUTSIDER => {
                    let child = ROOT + tasks.len() as i32;
                    events.push(fork(task, child));
                    tasks.push(child);
                    expected.insert(child, Counted::default());
                }
                Act::Compute { nanoseconds } => {
                    events.push(on_cpu(task, nanoseconds, Traced::Switch));
                    if let Some(counted) = expected.get_mut(&task) {
                        counted.nanoseconds += nanoseconds;
                    }
                }
                _ => {}
            }
        }
        let names: Vec<String> = tasks.iter().map(|task| format!("task {task}")).collect();
        let names: Vec<(i32, &str)> = tasks.iter().copied().zip(names.iter().map(String::as_str)).collect();
        let profile = distilled(&in_sequence(events), &names);

        let mut actual: BTreeMap<i32, Counted> = BTreeMap::new();
        let in_units = profile.units().iter().flatten().chain(profile.tail());
        let order: BTreeSet<u32> = in_units.copied().collect();
        prop_assert_eq!(order.len(), profile.len(), "every process is in one unit");
        for index in 0..profile.len() as u32 {
            let task: i32 = profile.kind(index).strip_prefix("task ").unwrap().parse().unwrap();
            let counted = actual.entry(task).or_default();
            // Order of each allocation that the process still holds.
            let mut held: Vec<Option<u8>> = Vec::new();
            for &operation in profile.process(index) {
                counted.nanoseconds += u64::from(operation.nanoseconds());
                match operation {
                    Operation::Run { .. } => {}
                    Operation::Allocate { order, migrate_type, count, .. } => {
                        *counted.allocated.entry((order, migrate_type as i8)).or_default() += u64::from(count);
                        held.extend((0..count).map(|_| Some(order)));
                    }
                    Operation::Free { first, count, .. } => {
                        for index in first..first + count {
                            let order = held[index as usize].take();
                            prop_assert!(order.is_some(), "allocation {index} is freed twice");
                            counted.freed_own += order.map_or(0, |order| 1 << order);
                        }
                    }
                    Operation::FreeShared { order, count, .. } => counted.freed_shared += u64::from(count) << order,
                }
            }
        }
        prop_assert_eq!(&actual, &expected);
        let totals = profile.totals();
        prop_assert_eq!(totals.freed_own_pages, expected.values().map(|counted| counted.freed_own).sum::<u64>());
        let nanoseconds: u64 = expected.values().map(|counted| counted.nanoseconds).sum();
        prop_assert!((totals.cpu_seconds - nanoseconds as f64 / 1e9).abs() < 1e-9);

        // The summaries of the recording equal those of the profile, and a written profile is read back
        // unchanged.
        let summary = profile.summary(0..profile.len() as u32);
        for (kind, recorded) in &totals.kinds {
            let kept = &summary[kind.as_str()];
            prop_assert_eq!(&kept.allocations, &recorded.allocations);
            prop_assert_eq!(kept.freed_own_pages, recorded.freed_own_pages);
            prop_assert_eq!(kept.freed_shared_pages, recorded.freed_shared_pages);
            prop_assert_eq!(kept.allocation_runs, recorded.allocation_runs);
            prop_assert_eq!(kept.free_runs, recorded.free_runs);
        }
        let read = ProcessProfile::load(bytes_of(&profile)).unwrap();
        prop_assert_eq!((read.units(), read.tail()), (profile.units(), profile.tail()));
        for index in 0..profile.len() as u32 {
            prop_assert_eq!(read.kind(index), profile.kind(index));
            prop_assert_eq!(read.process(index).len(), profile.process(index).len());
            for (read, written) in read.process(index).iter().zip(profile.process(index)) {
                let (time, exact) = (f64::from(read.nanoseconds()), f64::from(written.nanoseconds()));
                prop_assert!((time - exact).abs() <= exact / 16.0);
                prop_assert_eq!(read.timed(0), written.timed(0));
            }
        }
    }
}

#[test]
fn damage_is_noticed() {
    let whole = bytes_of(&small_build());
    crate::damage::is_noticed(&whole, 300, |mutant| {
        ProcessProfile::load(mutant).map_err(|error| error.to_string())
    });
}

impl Operation {
    /// The same operation with another time.
    fn timed(mut self, time: u32) -> Operation {
        match &mut self {
            Operation::Run { nanoseconds }
            | Operation::Allocate { nanoseconds, .. }
            | Operation::Free { nanoseconds, .. }
            | Operation::FreeShared { nanoseconds, .. } => *nanoseconds = time,
        }
        self
    }
}

/// A profile of one process with one row.
fn with_row(document: &str, process: u32, operation: u8, order: u8, migratetype: u8, first: i32) -> Vec<u8> {
    let columns = [
        ("process", Values::U32(vec![process])),
        ("operation", Values::U8(vec![operation])),
        ("order", Values::U8(vec![order])),
        ("migratetype", Values::U8(vec![migratetype])),
        ("first", Values::I32(vec![first])),
        ("count", Values::U32(vec![1])),
        ("nanoseconds", Values::U32(vec![1])),
    ];
    with_columns(document, columns)
}

fn with_columns<const N: usize>(document: &str, columns: [(&'static str, Values); N]) -> Vec<u8> {
    let fields = columns.each_ref().map(|(name, values)| Field::new(name, values.column_type()));
    let rows = Rows::new(columns.map(|(_, values)| values));
    let mut hasher = ContentHasher::new(&fields);
    hasher.add(&rows).unwrap();
    let hash = hasher.finish(&[("mmtwin.processes", document)]).key_value();
    let pair = KeyValue::new("mmtwin.processes".to_string(), document.to_string());
    let mut writer = TableWriter::new(Vec::new(), &fields, WriterProperties::builder()).unwrap();
    writer.write(&[&rows]).unwrap();
    writer.finish([pair, hash]).unwrap()
}

fn document(units: &str) -> String {
    let totals = serde_json::to_string(&Totals::default()).unwrap();
    format!(
        r#"{{"format": {FORMAT}, "kernel_release": "", "command": [], "seconds": 1.0, "totals": {totals},
            "kinds": ["cc1"], "units": {units}, "tail": []}}"#
    )
}

fn refusal(bytes: Vec<u8>) -> String {
    ProcessProfile::load(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_no_profile_is_refused_with_the_place_and_a_remedy() {
    let good = document("[[0]]");
    let row = |process, operation, order, migratetype, first| {
        refusal(with_row(&good, process, operation, order, migratetype, first))
    };
    assert!(ProcessProfile::load(with_row(&good, 0, 1, 0, 1, 0)).is_ok());
    assert_eq!(
        row(0, 9, 0, 1, 0),
        "profile in memory, row 0, column `operation`: 9: operations go from 0 to 3"
    );
    assert_eq!(row(0, 1, 11, 1, 0), "profile in memory, row 0, column `order`: 11: orders go from 0 to 10");
    assert_eq!(row(0, 1, 0, 7, 0), "profile in memory, row 0, column `migratetype`: 7: types go from 0 to 3");
    assert_eq!(
        row(1, 1, 0, 1, 0),
        "profile in memory, row 0, column `process`: 1: processes must ascend, up to 1"
    );
    assert_eq!(row(0, 2, 0, 1, 0), "profile in memory, row 0, column `first`: frees allocations 0..1 of 0");
    assert_eq!(
        row(0, 2, 0, 1, -3),
        "profile in memory, row 0, column `first`: frees allocations -3..-2 of 0"
    );
    let units = |units: &str| refusal(with_row(&document(units), 0, 0, 0, 0, 0));
    assert_eq!(units("[[3]]"), "profile in memory, row 1, column `units (metadata)`: names process 3 of 1");
    assert_eq!(units("[[]]"), "profile in memory, row 1, column `units (metadata)`: unit 0 has no processes");
    let newer = good.replace(&format!(r#""format": {FORMAT}"#), r#""format": 3"#);
    let newer = refusal(with_row(&newer, 0, 0, 0, 0, 0));
    assert_eq!(newer, "profile in memory: format 3, this mmtwin reads format 2: use a newer mmtwin");
    let columns = ["process", "operation"].map(|name| (name, Values::U32(vec![1])));
    let type_of = refusal(with_columns(&good, columns));
    assert_eq!(type_of, "profile in memory, row 0, column `operation`: is UInt32, should be UInt8");
    let missing = refusal(with_columns(&good, [("process", Values::U32(vec![1]))]));
    assert_eq!(missing, "profile in memory, row 0, column `operation`: the column is missing");
    let broken = refusal(with_row("{}", 0, 0, 0, 0, 0));
    assert!(
        broken.starts_with("profile in memory: `mmtwin.processes` in its metadata: missing field"),
        "{broken}"
    );
    assert!(refusal(b"hello".to_vec()).starts_with("profile in memory: not a readable Parquet file"));
    assert!(ProcessProfile::open("/nowhere").unwrap_err().to_string().starts_with("/nowhere: "));
}

#[test]
fn a_trace_is_not_a_profile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    TraceWriter::create(&path).unwrap().finish(Metadata::default()).unwrap();
    let error = ProcessProfile::load(Bytes::from(std::fs::read(&path).unwrap())).unwrap_err().to_string();
    assert!(
        error.contains("no `mmtwin.processes` in its metadata: this is not a process profile"),
        "{error}"
    );
}

/// A page header that claims a list of billions of elements, for which the file has no bytes.
#[test]
fn a_list_without_end_is_refused() {
    let bytes = include_bytes!("../../../../fuzz/seeds/process_profile/endless_list.parquet");
    assert!(ProcessProfile::load(Bytes::from_static(bytes)).is_err());
}
