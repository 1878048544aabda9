//! How far one difference carries: the twin's lists are made wrong once, in the middle of a recording whose states are not
//! shown to the judge, as those of the running kernel are not.

use super::*;
use crate::recordings::default_directory;
use crate::verify::Cause;

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
