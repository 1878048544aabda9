//! The buddy allocator against its definition: the free blocks are the largest aligned blocks that the set of
//! free pages can be cut into.

mod small_machine;

use machine::{Cpu, PageSize};
use mm::Series;
use mm::buddy::{BoostContext, Buddy, FallbackOutcome, Mode, Visit, Wanted};
use mm::page::{Geometry, MAX_PAGE_ORDER, NR_PAGE_ORDERS, PAGEBLOCK_ORDER, PageRecord};
use mm::{MigrateType, Pfn};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const KIB4: Geometry = Geometry::of(PageSize::Kib4);
const MANAGED: std::ops::Range<Pfn> = 700..9000;
/// Pages reserved at boot, behind a hole.
const RESERVED: std::ops::Range<Pfn> = 9100..9400;

/// Number of blocks of each order up to `most` that the pages of `free` form.
fn blocks(most: u8, free: &BTreeSet<Pfn>) -> Vec<u64> {
    let mut counts = vec![0; most as usize + 1];
    let mut left = free.clone();
    while let Some(&pfn) = left.first() {
        let whole = |order: &u8| {
            let size = 1 << order;
            pfn % size == 0 && (pfn..pfn + size).all(|page| left.contains(&page))
        };
        let order = (0..=most).rev().find(whole).unwrap();
        (pfn..pfn + (1 << order)).for_each(|page| {
            left.remove(&page);
        });
        counts[order as usize] += 1;
    }
    counts
}

/// Runs of 2^order pages, aligned to their size, whose pages are all in `free`, in ascending order.
fn runs(free: &BTreeSet<Pfn>, order: u8) -> Vec<Pfn> {
    let size = 1 << order;
    (0..RESERVED.end)
        .step_by(size)
        .filter(|&pfn| free.range(pfn..pfn + size as Pfn).count() == size)
        .collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Take {
        order: u8,
        migrate_type: usize,
    },
    /// Takes a run whose order is so much above `MAX_PAGE_ORDER`.
    TakeContiguous {
        above: u8,
    },
    Put {
        which: usize,
    },
    FreeReserved {
        pages: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..NR_PAGE_ORDERS as u8, 0..3usize).prop_map(|(order, migrate_type)| Step::Take { order, migrate_type }),
        2 => (0..3u8).prop_map(|above| Step::TakeContiguous { above }),
        9 => any::<usize>().prop_map(|which| Step::Put { which }),
        1 => (1..100usize).prop_map(|pages| Step::FreeReserved { pages }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn takes_and_puts_what_the_definition_says(
        variant in prop_oneof![Just("pcp-base"), Just("mainline-6.10"), Just("mainline-6.18")],
        size in prop::sample::select(PageSize::ALL.to_vec()),
        no_fragment in any::<bool>(),
        at_boot in proptest::collection::vec(0..3u8, 0..4),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let f = Series::PCP.variant(variant).unwrap().features;
        let (machine, _) = small_machine::boot(f);
        let context = BoostContext { boost_factor: 15_000, high: 600, managed: 8300 };
        let geometry = Geometry::of(size);
        let most = geometry.max_page_order;
        let mut buddy = Buddy::new(geometry, MANAGED, RESERVED.end);
        let mut free: BTreeSet<Pfn> = MANAGED.collect();
        let mut reserved = RESERVED;
        let mut held: Vec<(Pfn, u8)> = Vec::new();
        for order in at_boot.into_iter().map(|above| most + above) {
            let got = buddy.take_at_boot(order);
            prop_assert_eq!(got, runs(&free, order).last().copied());
            if let Some(pfn) = got {
                free.retain(|page| !(pfn..pfn + (1 << order)).contains(page));
                held.push((pfn, order));
            }
        }
        for step in steps {
            let mut visit = Visit::new(&machine, Cpu(0));
            match step {
                Step::Take { order, migrate_type } => {
                    let (order, migrate_type) = (order.min(most), MigrateType::ALL[migrate_type]);
                    let before = blocks(most, &free);
                    let mut outcome = FallbackOutcome::default();
                    let wanted = Wanted { order, migrate_type, no_fragment };
                    let mode = &mut Mode::default();
                    match buddy.take_or_fall_back(&f, wanted, mode, &context, &mut outcome, &mut visit) {
                        Some(pfn) => {
                            prop_assert_eq!(pfn % (1 << order), 0);
                            for page in pfn..pfn + (1 << order) {
                                prop_assert!(free.remove(&page), "page {} was not free", page);
                            }
                            held.push((pfn, order));
                        }
                        None if !no_fragment => {
                            prop_assert!(before[order as usize..].iter().all(|&n| n == 0), "there is a free block of the order or above");
                        }
                        None => {}
                    }
                }
                Step::TakeContiguous { above } => {
                    let order = most + above;
                    let expected = runs(&free, order).first().copied();
                    let before: u64 = blocks(most, &free).iter().sum();
                    let got = buddy.take_contiguous(order, &mut visit);
                    prop_assert_eq!(got.map(|(pfn, _)| pfn), expected);
                    if let Some((pfn, taken)) = got {
                        free.retain(|page| !(pfn..pfn + (1 << order)).contains(page));
                        prop_assert_eq!(before - taken, blocks(most, &free).iter().sum::<u64>());
                        held.push((pfn, order));
                    }
                }
                Step::Put { which } => {
                    if held.is_empty() {
                        continue;
                    }
                    let (pfn, order) = held.swap_remove(which % held.len());
                    if order > most {
                        buddy.put_contiguous(pfn, order, &mut visit);
                    } else {
                        buddy.put(pfn, order, buddy.block_type(pfn), &mut visit);
                    }
                    free.extend(pfn..pfn + (1 << order));
                }
                Step::FreeReserved { pages } => {
                    for pfn in reserved.by_ref().take(pages) {
                        buddy.put(pfn, 0, buddy.block_type(pfn), &mut visit);
                        free.insert(pfn);
                    }
                }
            }
            buddy.validate(&f);
            prop_assert_eq!(buddy.free_pages(), free.len() as u64);
            let expected = blocks(most, &free);
            let found: Vec<u64> = (0..=most).map(|order| buddy.nr_free(order)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_is_what_single_takes_would_take(
        size in prop::sample::select(PageSize::ALL.to_vec()),
        held in proptest::collection::vec((0..4u8, any::<prop::sample::Index>(), 0..4u16), 1..400),
        runs in proptest::collection::vec((0..10u8, 1..600usize, 0..4u16), 1..40),
    ) {
        let (machine, _) = small_machine::boot(Series::PCP.variant("mainline-6.18").unwrap().features);
        let mut buddy = Buddy::new(Geometry::of(size), MANAGED, RESERVED.end);
        // Holes in random places, and cache lines of records in the caches of random CPUs.
        let take = |buddy: &mut Buddy, order: u8, cpu: u16| {
            let mut visit = Visit::new(&machine, Cpu(cpu));
            (buddy.take(order, MigrateType::Movable, &mut visit), visit.cost)
        };
        let mut pages: Vec<Pfn> = (0..4000).filter_map(|page| take(&mut buddy, 0, page % 4).0).collect();
        for (order, which, cpu) in held {
            let pfn = pages.swap_remove(which.index(pages.len()));
            buddy.put(pfn, 0, MigrateType::Movable, &mut Visit::new(&machine, Cpu(cpu)));
            take(&mut buddy, order, cpu);
        }
        let mut singly = buddy.clone();
        for (order, most, cpu) in runs {
            let mut visit = Visit::new(&machine, Cpu(cpu));
            let mut run = VecDeque::new();
            let taken = buddy.take_run(order, MigrateType::Movable, most, &mut visit, &mut run);
            prop_assert!(taken == run.len() && taken <= most);
            let (single, costs): (Vec<_>, Vec<_>) =
                (0..taken).map(|_| take(&mut singly, order, cpu)).unzip();
            prop_assert_eq!(run, single.into_iter().flatten().collect::<Vec<Pfn>>());
            prop_assert_eq!(visit.cost, costs.into_iter().sum());
            let free = |buddy: &Buddy| (0..NR_PAGE_ORDERS as u8).map(|o| buddy.nr_free(o)).collect::<Vec<u64>>();
            prop_assert_eq!(free(&buddy), free(&singly));
        }
        // The rest is on the same lists in the same order.
        while let (Some(pfn), _) = take(&mut singly, 0, 0) {
            prop_assert_eq!(take(&mut buddy, 0, 0).0, Some(pfn));
        }
        prop_assert_eq!(take(&mut buddy, 0, 0).0, None);
    }
}

/// The blocks of order 10 in the order in which a zone hands them out.
fn areas(mut buddy: Buddy) -> Vec<Pfn> {
    let (machine, _) = small_machine::boot(Series::PCP.variant("pcp-base").unwrap().features);
    let mut visit = Visit::new(&machine, Cpu(0));
    std::iter::from_fn(|| buddy.take(MAX_PAGE_ORDER, MigrateType::Movable, &mut visit))
        .map(|pfn| pfn >> MAX_PAGE_ORDER)
        .collect()
}

#[test]
fn areas_keep_their_turn_around_gigantic_pages() {
    let (machine, _) = small_machine::boot(Series::PCP.variant("pcp-base").unwrap().features);
    let mut visit = Visit::new(&machine, Cpu(0));
    // Twelve blocks of order 10; aligned runs of four are 0 to 3, 4 to 7 and 8 to 11.
    let mut buddy = Buddy::new(KIB4, 0..12 << MAX_PAGE_ORDER, 0);
    assert_eq!(buddy.take_at_boot(12), Some(8 << MAX_PAGE_ORDER));
    assert_eq!(areas(buddy.clone()), [0, 1, 2, 3, 4, 5, 6, 7]);
    let used = buddy.take(MAX_PAGE_ORDER, MigrateType::Movable, &mut visit);
    assert_eq!(used, Some(0));
    assert_eq!(buddy.take_contiguous(12, &mut visit), Some((4 << MAX_PAGE_ORDER, 4)), "past the run in use");
    assert_eq!(areas(buddy.clone()), [1, 2, 3]);
    // The blocks freed last are used first, and all of them before those that were never used.
    buddy.put_contiguous(4 << MAX_PAGE_ORDER, 12, &mut visit);
    assert_eq!(areas(buddy), [7, 6, 5, 4, 1, 2, 3]);
}

#[test]
fn blocks_set_aside_for_atomic_requests_are_no_part_of_a_gigantic_page() {
    let (machine, _) = small_machine::boot(Series::PCP.variant("pcp-base").unwrap().features);
    let mut visit = Visit::new(&machine, Cpu(0));
    let mut buddy = Buddy::new(KIB4, 0..8 << MAX_PAGE_ORDER, 0);
    let pfn = buddy.take(PAGEBLOCK_ORDER, MigrateType::Unmovable, &mut visit);
    assert_eq!(pfn, None, "nothing is unmovable yet");
    let pfn = buddy.take(PAGEBLOCK_ORDER, MigrateType::Movable, &mut visit).unwrap();
    buddy.retag_blocks(pfn, PAGEBLOCK_ORDER, MigrateType::HighAtomic, &mut visit);
    buddy.put(pfn, PAGEBLOCK_ORDER, MigrateType::HighAtomic, &mut visit);
    assert_eq!(buddy.take_contiguous(12, &mut visit), Some((4 << MAX_PAGE_ORDER, 4)));
    assert_eq!(buddy.take_contiguous(12, &mut visit), None);
}

#[test]
fn a_tebibyte_of_huge_pages_costs_a_record_each() {
    let (machine, _) = small_machine::boot(Series::PCP.variant("pcp-base").unwrap().features);
    let mut visit = Visit::new(&machine, Cpu(0));
    let mut buddy = Buddy::new(KIB4, 0..1 << 28, 0);
    let mut huge_pages = Vec::new();
    while let Some(pfn) = buddy.take(PAGEBLOCK_ORDER, MigrateType::Movable, &mut visit) {
        huge_pages.push(pfn);
    }
    assert_eq!(huge_pages.len(), 1 << 19);
    let bytes = buddy.record_bytes();
    assert!(bytes <= 32 << 19, "{bytes} bytes");
    for &pfn in &huge_pages {
        buddy.put(pfn, PAGEBLOCK_ORDER, MigrateType::Movable, &mut visit);
    }
    assert_eq!((buddy.free_pages(), buddy.record_bytes()), (1 << 28, bytes));
    buddy.take(0, MigrateType::Movable, &mut visit);
    assert_eq!(
        buddy.record_bytes(),
        bytes + 512 * size_of::<PageRecord>(),
        "records of the one pageblock that was split"
    );
}
