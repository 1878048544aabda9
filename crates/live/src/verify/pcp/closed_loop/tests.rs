//! How far one difference carries: the twin's lists are made wrong once, in the middle of a recording whose states are not
//! shown to the judge, as those of the running kernel are not.

use super::*;
use crate::recordings::ZoneDescription;
use crate::recordings::default_directory;
use crate::verify::{Cause, Causes};

/// Judges a recording; half way through it, the twin's lists get so many pages that the kernel does not have, or lose some.
fn judged(name: &str, planted: i32) -> Tally {
    let recording = Recording::open(&default_directory().join(name)).unwrap();
    let history = History::load(&recording).unwrap();
    let features = features(name, &recording.description.kernel).unwrap();
    let starts = |state: &&State| {
        matches!(history.records().get(state.record as usize), Some(Record::ListsEnd { .. }))
    };
    let states = recording.states().unwrap();
    let mut judge = Judge::new(features, &recording.description, &history);
    judge.states = states.iter().filter(starts).map(|state| (state.record, *state)).collect();
    let middle = history.records().len() / 2;
    for (number, record) in history.records().iter().enumerate() {
        judge.step(number as u32, record);
        if number == middle {
            let place = judge.place_of(history.event(number as u32).unwrap()).unwrap();
            let features = judge.features;
            judge.add_unseen(place, planted);
            judge.pages(place).take_for_zone(&features, (-planted).max(0), 0, &mut Vec::new());
        }
    }
    judge.tally
}

/// Pages that the kernel does not have would have the twin drain at every free, and the kernel at none. Those that the
/// twin lacks come back one by one, as they are allocated, and each makes a refill or a bulk free smaller.
#[test]
fn the_judge_finds_its_way_back_after_a_difference() {
    let wrong = |tally: &Tally| {
        tally.refills.all - tally.refills.exact + tally.bulk_frees.all - tally.bulk_frees.exact
    };
    let [undisturbed, more, fewer] = [0, 300, -300].map(|pages| judged("pf1_1t_frac1000", pages));
    assert!(undisturbed.refills.all + undisturbed.bulk_frees.all > 1000);
    assert!(wrong(&more) <= wrong(&undisturbed) + 5, "{more:?}");
    assert!(more.causes.get(Cause::UnknownCount) > 300, "what is not judged is counted: {:?}", more.causes);
    assert!(wrong(&fewer) <= wrong(&undisturbed) + 50, "{fewer:?}");
    for tally in [more, fewer] {
        let [kernel, twin] = tally.drained;
        assert!(kernel.abs_diff(twin) * 100 < kernel, "drained pages: {kernel} and {twin}");
    }
}

/// A CPU whose unmovable list has two blocks left when a stack takes four: two from the list, two from the refill.
/// Then it allocates the fifth block of those refilled. Returns what had to be inferred.
fn inferred_with(stack: &[Record]) -> Causes {
    let event = |operation, pfn, argument| {
        let migratetype = MigrateType::Unmovable as i8;
        Record::Event(Event { pfn, argument, task: 1, migratetype, ..Event::of(operation) })
    };
    let refill = |pfns: Range<u32>| pfns.map(|pfn| event(Operation::ZoneLocked, pfn, 1));
    let alloc = |pfn| event(Operation::Alloc, pfn, 0);
    let mut records: Vec<_> = refill(10..13).chain([alloc(10)]).collect();
    records.extend_from_slice(stack);
    records.extend(refill(20..26));
    records.push(alloc(22));
    records.extend([11, 12, 20, 21].map(|pfn| event(Operation::Free, pfn, 0)));
    let zone = ZoneDescription {
        name: "Normal".to_string(),
        pages: (0, 512),
        managed: 512,
        batch: 63,
        high_min: 1000,
        high_max: 1000,
    };
    let description = Description {
        workload: String::new(),
        kernel: "6.18.44".to_string(),
        cpus: 1,
        settings: BTreeMap::new(),
        zones: vec![zone],
    };
    let pageset = Pageset { batch: 63, high: 1000, high_min: 1000, high_max: 1000, ..Pageset::default() };
    let history = History::new(records, 512);
    let range = 0..history.records().len() as u32;
    let starts = vec![EmptyLists { cpu: 0, zone: 0, pageset }];
    follow(features("test", "6.18.44").unwrap(), &description, &history, starts, range).tally.causes
}

/// `alloc_pages_bulk` has no event of its own; the event of the stack's area takes its place.
#[test]
fn pages_of_a_kernel_stack_need_not_be_inferred() {
    let stack = Record::Event(Event { argument: 4, task: 1, ..Event::of(Operation::KernelStack) });
    assert_eq!(inferred_with(&[stack]).get(Cause::BulkAllocation), 0);
    assert_eq!(inferred_with(&[]).get(Cause::BulkAllocation), 4);
}
