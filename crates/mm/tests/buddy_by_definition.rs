//! The buddy allocator against its definition: a set of free pages, cut into the largest aligned blocks that fit.

mod small_machine;

use machine::Cpu;
use mm::Series;
use mm::buddy::{BoostContext, Buddy, FallbackOutcome, Mode, Visit, Wanted};
use mm::page::MAX_PAGE_ORDER;
use mm::{MigrateType, Pfn};
use proptest::prelude::*;
use std::collections::BTreeSet;

const SPAN: std::ops::Range<Pfn> = 700..9000;

/// Blocks of each order that the pages of `free` form.
fn blocks(free: &BTreeSet<Pfn>) -> Vec<u64> {
    let mut counts = vec![0; MAX_PAGE_ORDER as usize + 1];
    let mut left = free.clone();
    while let Some(&pfn) = left.first() {
        let whole = |order: &u8| {
            let size = 1 << order;
            pfn % size == 0 && (pfn..pfn + size).all(|page| left.contains(&page))
        };
        let order = (0..=MAX_PAGE_ORDER).rev().find(whole).unwrap();
        (pfn..pfn + (1 << order)).for_each(|page| {
            left.remove(&page);
        });
        counts[order as usize] += 1;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn takes_and_puts_what_the_definition_says(
        variant in prop_oneof![Just("base"), Just("mainline-6.10"), Just("mainline-6.18")],
        no_fragment in any::<bool>(),
        steps in proptest::collection::vec((any::<bool>(), 0..=MAX_PAGE_ORDER, 0..3usize, any::<usize>()), 1..150),
    ) {
        let f = Series::PCP.variant(variant).unwrap().features;
        let (machine, _) = small_machine::boot(f);
        let context = BoostContext { boost_factor: 15_000, high: 600, managed: 8300 };
        let mut buddy = Buddy::new(SPAN, SPAN.end);
        let mut free: BTreeSet<Pfn> = SPAN.collect();
        let mut held: Vec<(Pfn, u8)> = Vec::new();
        let mut mode = Mode::default();
        for (take, order, migrate_type, which) in steps {
            let mut visit = Visit::new(&machine, Cpu(0));
            if take || held.is_empty() {
                let migrate_type = MigrateType::ALL[migrate_type];
                let before = blocks(&free);
                let mut outcome = FallbackOutcome::default();
                let got = buddy.take_or_fall_back(
                    &f, Wanted { order, migrate_type, no_fragment }, &mut mode, &context, &mut outcome, &mut visit,
                );
                mode = Mode::default();
                match got {
                    Some(pfn) => {
                        prop_assert_eq!(pfn % (1 << order), 0);
                        for page in pfn..pfn + (1 << order) {
                            prop_assert!(free.remove(&page), "page {} was not free", page);
                        }
                        held.push((pfn, order));
                    }
                    None if !no_fragment => {
                        prop_assert!(before[order as usize..].iter().all(|&n| n == 0), "a block was there");
                    }
                    None => {}
                }
            } else {
                let (pfn, order) = held.swap_remove(which % held.len());
                buddy.put(pfn, order, buddy.block_type(pfn), &mut visit);
                free.extend(pfn..pfn + (1 << order));
            }
            buddy.validate(&f);
            prop_assert_eq!(buddy.free_pages(), free.len() as u64);
            let expected = blocks(&free);
            let found: Vec<u64> = (0..=MAX_PAGE_ORDER).map(|order| buddy.nr_free(order)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
