//! Recorded areas on kernels with larger pages, compared with a definition.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Step {
    Map(Range<u64>),
    Unmap(Range<u64>),
    Discard(Range<u64>),
    Store(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..300u64, 1..80u64).prop_map(|(start, length)| start..start + length);
    let step = prop_oneof![
        3 => range().prop_map(Step::Map),
        2 => range().prop_map(Step::Unmap),
        1 => range().prop_map(Step::Discard),
        4 => (0..300u64).prop_map(Step::Store),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A kernel with larger pages: which pages are mapped, and which have contents.
#[derive(Default)]
struct Kernel {
    mapped: BTreeSet<Vpn>,
    filled: BTreeSet<Vpn>,
}

impl Kernel {
    fn discard(&mut self, pages: &[Pages]) {
        for Pages { whole, parts } in pages {
            whole.clone().chain(parts.iter().copied().flatten()).for_each(|page| {
                self.filled.remove(&page);
            });
        }
    }
}

proptest! {
    /// Every mapped part has a page, the parts of a page belong to one mapping in order, and a page has
    /// contents exactly as long as one of its parts has.
    #[test]
    fn pages_by_definition(steps in steps(), size in prop::sample::select(PageSize::ALL[1..].to_vec())) {
        let mut places = Places::new(size);
        let mut kernel = Kernel::default();
        // The mapping of each recorded page, and the recorded pages stored to.
        let mut mapped: BTreeMap<u64, usize> = BTreeMap::new();
        let mut stored: BTreeSet<u64> = BTreeSet::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Map(range) => {
                    kernel.discard(&places.discard(range.clone()));
                    for Pages { whole, parts } in places.map(range.clone(), |_| false) {
                        for page in whole {
                            kernel.mapped.insert(page);
                            kernel.filled.remove(&page);
                        }
                        prop_assert!(parts.iter().flatten().all(|page| kernel.mapped.contains(page)));
                    }
                    for page in range {
                        mapped.entry(page).or_insert(number);
                        stored.remove(&page);
                    }
                }
                Step::Unmap(range) => {
                    let gone = places.unmap(range.clone());
                    kernel.discard(&gone);
                    let gone: BTreeSet<Vpn> = gone.into_iter().flat_map(|pages| pages.whole).collect();
                    prop_assert!(gone.is_subset(&kernel.mapped));
                    kernel.mapped = &kernel.mapped - &gone;
                    mapped.retain(|page, _| !range.contains(page));
                    stored.retain(|page| !range.contains(page));
                }
                Step::Discard(range) => {
                    kernel.discard(&places.discard(range.clone()));
                    stored.retain(|page| !range.contains(page));
                }
                Step::Store(page) => {
                    if let Some(at) = places.page(page) {
                        places.note_store(page);
                        kernel.filled.insert(at);
                        stored.insert(page);
                    }
                }
            }
            let of = |page: &u64| places.page(*page);
            prop_assert!((0..400).all(|page| places.page(page).is_some() == mapped.contains_key(&page)));
            let used: BTreeSet<Vpn> = mapped.keys().filter_map(of).collect();
            prop_assert_eq!(&used, &kernel.mapped, "nothing is mapped but what parts are mapped of");
            let filled: BTreeSet<Vpn> = stored.iter().filter_map(of).collect();
            prop_assert_eq!(&filled, &kernel.filled);
            prop_assert_eq!(places.stored_parts(), stored.len() as u64);
            for ((page, mapping), (other, others)) in mapped.iter().zip(mapped.iter().skip(1)) {
                match of(page) == of(other) {
                    true => prop_assert_eq!(mapping, others, "pages {} and {} share one", page, other),
                    false => prop_assert!(mapping != others || of(page) < of(other)),
                }
            }
        }
    }
}

#[test]
fn areas_are_rounded_up_and_keep_their_remainder() {
    let mut places = Places::new(PageSize::Kib64);
    let new = |places: &mut Places, range| places.map(range, |_| false).pop().unwrap().whole;
    // Three single pages next to each other, and 33 pages 128 KiB after a multiple of 2 MiB.
    let single: Vec<_> = [1000, 1001, 1002].map(|page| new(&mut places, page..page + 1)).into();
    assert!(single.iter().all(|pages| pages.end - pages.start == 1));
    assert!(single[0] != single[1] && single[1] != single[2]);
    let large = new(&mut places, 2048 + 32..2048 + 65);
    assert_eq!((large.end - large.start, large.start % 32), (3, 2));
}

#[test]
fn a_heap_grows_in_its_last_page() {
    let mut places = Places::new(PageSize::Kib16);
    let heap = places.map(100..133, |_| true).pop().unwrap().whole;
    assert_eq!(heap.end - heap.start, 9);
    let grown = places.map(133..166, |page| page == heap.end - 1);
    assert_eq!(grown, [Pages { whole: heap.end..heap.end + 8, parts: [Some(heap.end - 1), None] }]);
    let other = places.map(166..170, |_| false).pop().unwrap();
    assert!(other.parts == [None; 2] && other.whole.start > grown[0].whole.end);
}

#[test]
fn pages_of_the_recorded_size_are_where_they_were_recorded() {
    let mut places = Places::new(PageSize::Kib4);
    let same = [Pages { whole: 7..9, parts: [None; 2] }];
    assert_eq!(places.map(7..9, |_| true), same);
    assert_eq!(
        (places.page(8), places.discard(7..9), places.unmap(7..9)),
        (Some(8), same.to_vec(), same.to_vec())
    );
}
