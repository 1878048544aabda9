//! A decay that releases its locks after each batch frees a whole block at the end of each batch.

use mm::MigrateType;
use mm::Series;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::{self, Pageset};
use mm::pcp::{PerCpuPages, list_index};

/// Huge pages that one decay frees from a pageset that has nothing else.
fn huge_pages_decayed(variant: &str) -> usize {
    let f = Series::PCP.variant(variant).unwrap().features;
    let tuning =
        Pageset { batch: 63, high: 212_635, high_min: 9540, high_max: 288_912, ..Pageset::default() };
    let mut pages = PerCpuPages::new(tuning, PAGEBLOCK_ORDER);
    let list = list_index(&f, 9, MigrateType::Movable);
    pages.list_mut(list).extend((0..388).map(|block| block * 512));
    pages.note_refilled(388, 9);
    let (surplus, more) = policy::decay(&mut pages.tuning, &f);
    assert!(more);
    assert_eq!((surplus, pages.tuning.high), (2016, 388 * 512 - 2016));
    let portion = policy::decay_portion(&pages.tuning, &f, surplus);
    let mut given = Vec::new();
    for pages_of_portion in policy::portions(surplus, portion) {
        pages.take_for_zone(&f, pages_of_portion, 0, &mut given);
    }
    given.len()
}

/// Linux 6.18.44, reading a large file: count 198656, high 212635. One run of vmstat_update drained 32 huge
/// pages where 2016 base pages were due.
#[test]
fn every_batch_of_a_6_18_decay_frees_a_whole_huge_page() {
    assert_eq!(huge_pages_decayed("mainline-6.18"), 32);
    assert_eq!(huge_pages_decayed("mainline-6.16"), 4);
}

#[test]
fn portions_add_up() {
    for (pages, portion) in [(0, 63), (1, 63), (63, 63), (64, 63), (2016, 63), (100, 0), (7, i32::MAX)] {
        let all: Vec<i32> = policy::portions(pages, portion).collect();
        assert_eq!(all.iter().sum::<i32>(), pages);
        assert!(all.iter().all(|&one| (1..=portion.max(1)).contains(&one)), "{pages} in {portion}: {all:?}");
    }
}
