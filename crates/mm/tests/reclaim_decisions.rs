//! What reclaim decides, cell by cell: which generation folios enter, which folios and which type are
//! evicted, how much is scanned, and when generations begin.

use machine::PageSize;
use mm::Series;
use mm::folio::{FolioFlags, ListEnd};
use mm::lru::mmzone::LruType::{Anon, File};
use mm::mglru::policy::{
    AtTail, Evictable, Position, Protection, Sorted, couple_min_seq, evictable_types, forget_accesses,
    is_lazily_promoted, last_tier, mark_accessed, placement, positive_ctrl_err, should_run_aging, sort,
    type_to_scan,
};
use mm::vmscan::features::{GenFeatures, Lru};
use mm::vmscan::policy::{
    BalanceState, References, ScanBalance, check_references, compact_gap, effective_protection,
    inactive_is_low, mapped_access, proportional_rest, protection, scan_balance, scan_count, unprotected,
};
use mm::workingset::policy::{FolioUse, TierCounts, folio_refs, tier};
use proptest::prelude::*;

const ACTIVE: FolioFlags = FolioFlags::ACTIVE;
const DIRTY: FolioFlags = FolioFlags::DIRTY;
const EXECUTABLE: FolioFlags = FolioFlags::EXECUTABLE;
const RECLAIM: FolioFlags = FolioFlags::RECLAIM;
const REFERENCED: FolioFlags = FolioFlags::REFERENCED;
const SWAPBACKED: FolioFlags = FolioFlags::SWAPBACKED;
const SWAPCACHE: FolioFlags = FolioFlags::SWAPCACHE;
const WORKINGSET: FolioFlags = FolioFlags::WORKINGSET;
const WRITEBACK: FolioFlags = FolioFlags::WRITEBACK;

/// The kernels of the columns.
const KERNELS: [&str; 5] = ["mglru-6.1", "mglru-6.5", "mglru-6.7", "mglru-6.14", "mglru-7.2"];

fn kernel(variant: &str) -> GenFeatures {
    let variant = Series::RECLAIM.variant(variant).unwrap_or_else(|| panic!("{variant}"));
    let Lru::MultiGen(f) = variant.features.reclaim.lru else { panic!("the multi-gen LRU is on") };
    f
}

/// The end of its list that a folio is added to, by whether it is to be reclaimed next.
fn end(reclaiming: bool) -> ListEnd {
    if reclaiming { ListEnd::Tail } else { ListEnd::Head }
}

fn multi_gen(variant: &str) -> Lru {
    Lru::MultiGen(kernel(variant))
}

fn flags(set: &[FolioFlags]) -> FolioFlags {
    let mut flags = FolioFlags::default();
    set.iter().for_each(|&flag| flags.set(flag));
    flags
}

fn with_refs(set: &[FolioFlags], refs: u8) -> FolioFlags {
    let mut flags = flags(set);
    flags.set_refs(refs);
    flags
}

// Insertion

#[test]
fn a_folio_enters_the_generation_that_its_flags_say() {
    // Generations are 6 to 9. Columns: mglru-6.1 and mglru-6.5, mglru-6.7, mglru-6.14, mglru-7.2.
    let table: &[(&[FolioFlags], bool, [u64; 4])] = &[
        (&[ACTIVE], false, [9, 9, 8, 8]),
        (&[ACTIVE, WORKINGSET], false, [9, 9, 9, 9]),
        (&[ACTIVE, REFERENCED], false, [9, 9, 8, 8]),
        (&[ACTIVE, SWAPBACKED], false, [9, 9, 8, 8]),
        // To be reclaimed next; an active folio is not.
        (&[ACTIVE], true, [9, 9, 8, 8]),
        (&[], true, [6, 6, 6, 6]),
        (&[WORKINGSET], true, [6, 6, 6, 6]),
        (&[SWAPBACKED, SWAPCACHE], true, [6, 6, 6, 6]),
        (&[SWAPBACKED], true, [7, 6, 6, 6]),
        // Not yet to be evicted.
        (&[SWAPBACKED], false, [7, 8, 8, 8]),
        (&[SWAPBACKED, WORKINGSET], false, [7, 8, 8, 8]),
        (&[RECLAIM, DIRTY], false, [7, 8, 8, 8]),
        (&[RECLAIM, WRITEBACK], false, [7, 8, 8, 8]),
        (&[SWAPBACKED, SWAPCACHE, RECLAIM, WRITEBACK], false, [7, 8, 8, 8]),
        // All others.
        (&[], false, [6, 7, 6, 6]),
        (&[SWAPBACKED, SWAPCACHE], false, [6, 7, 6, 6]),
        (&[RECLAIM], false, [6, 7, 6, 6]),
        (&[DIRTY], false, [6, 7, 6, 6]),
        (&[WRITEBACK], false, [6, 7, 6, 6]),
        (&[WORKINGSET], false, [6, 7, 7, 7]),
        (&[REFERENCED], false, [6, 7, 6, 7]),
        (&[WORKINGSET, REFERENCED], false, [6, 7, 7, 7]),
    ];
    for &(set, reclaiming, [g65, g67, g614, g72]) in table {
        for (variant, expected) in KERNELS.iter().zip([g65, g65, g67, g614, g72]) {
            let generation = placement(&kernel(variant), flags(set), 9, 6, end(reclaiming));
            assert_eq!(generation, expected, "{variant}: {set:?}, reclaiming: {reclaiming}");
        }
    }
}

#[test]
fn where_there_are_fewer_generations_a_folio_enters_none_that_is_gone() {
    // The oldest generation, the youngest being 9. Columns: mglru-6.5, mglru-6.7, mglru-6.14, mglru-7.2.
    for (oldest, set, expected) in [
        (7, &[][..], [7, 7, 7, 7]),
        (8, &[], [8, 8, 8, 8]),
        (7, &[WORKINGSET], [7, 7, 7, 7]),
        (8, &[WORKINGSET], [8, 8, 8, 8]),
        (7, &[SWAPBACKED], [8, 8, 8, 8]),
        (8, &[SWAPBACKED], [9, 8, 8, 8]),
        (8, &[ACTIVE], [9, 9, 8, 8]),
    ] {
        for (variant, expected) in KERNELS[1..].iter().zip(expected) {
            let generation = placement(&kernel(variant), flags(set), 9, oldest, ListEnd::Head);
            assert_eq!(generation, expected, "{variant}: {set:?}, {oldest} to 9");
        }
    }
}

// Accesses

#[test]
fn accesses_through_file_descriptors_are_counted_up_to_the_last_tier() {
    // After each access: referenced, workingset, counter, tier, and whether the folio is promoted when
    // eviction meets it.
    let until_6_13 = [
        (true, false, 0, 0, false),
        (true, true, 0, 1, false),
        (true, true, 1, 2, false),
        (true, true, 2, 2, false),
        (true, true, 3, 3, true),
        (true, true, 3, 3, true),
    ];
    let since_6_14 = [
        (true, false, 0, 0, false),
        (true, false, 1, 1, false),
        (true, false, 2, 2, false),
        (true, false, 3, 2, false),
        (true, true, 3, 3, true),
        (true, true, 3, 3, true),
    ];
    for (variant, expected) in
        [("mglru-6.7", until_6_13), ("mglru-6.14", since_6_14), ("mglru-7.2", since_6_14)]
    {
        let f = kernel(variant);
        let mut folio = FolioFlags::default();
        for (access, expected) in expected.into_iter().enumerate() {
            mark_accessed(&f, &mut folio);
            let (referenced, workingset) = (folio.has(REFERENCED), folio.has(WORKINGSET));
            let refs = folio_refs(&f, FolioUse { referenced, workingset, refs: folio.refs() });
            let promoted = is_lazily_promoted(&f, folio, refs);
            let now = (referenced, workingset, folio.refs(), tier(&f, refs, workingset), promoted);
            assert_eq!(now, expected, "{variant}, access {}", access + 1);
        }
    }
    // From 6.14 on the counter begins anew with the first access; accesses to unevictable folios are not
    // counted.
    let mut folio = with_refs(&[], 3);
    mark_accessed(&kernel("mglru-6.14"), &mut folio);
    assert_eq!(folio, flags(&[REFERENCED]));
    let mut folio = flags(&[FolioFlags::UNEVICTABLE]);
    mark_accessed(&kernel("mglru-6.7"), &mut folio);
    assert_eq!(folio, flags(&[FolioFlags::UNEVICTABLE]));
}

#[test]
fn a_folio_that_moves_on_forgets_its_accesses() {
    let used = with_refs(&[REFERENCED, WORKINGSET, DIRTY], 2);
    for (variant, left) in
        [("mglru-6.5", &[DIRTY][..]), ("mglru-6.7", &[DIRTY]), ("mglru-6.14", &[DIRTY, WORKINGSET])]
    {
        let mut folio = used;
        forget_accesses(&kernel(variant), &mut folio);
        assert_eq!(folio, flags(left), "{variant}");
    }
}

#[test]
fn page_table_accesses_keep_activate_or_are_not_enough() {
    use References::{Activate, Keep, Reclaim, ReclaimClean};
    // Flags and young PTEs; the answers of the classic LRU and of generations up to 6.13, and the flags after
    // that.
    let classic: &[(&[FolioFlags], u16, References, &[FolioFlags])] = &[
        (&[], 0, Reclaim, &[]),
        (&[REFERENCED], 0, ReclaimClean, &[]),
        (&[SWAPBACKED, REFERENCED], 0, Reclaim, &[SWAPBACKED]),
        (&[], 1, Keep, &[REFERENCED]),
        (&[SWAPBACKED], 1, Keep, &[SWAPBACKED, REFERENCED]),
        (&[REFERENCED], 1, Activate, &[REFERENCED]),
        (&[], 2, Activate, &[REFERENCED]),
        (&[EXECUTABLE], 1, Activate, &[EXECUTABLE, REFERENCED]),
        (&[EXECUTABLE], 0, Reclaim, &[EXECUTABLE]),
        (&[EXECUTABLE, SWAPBACKED], 1, Keep, &[EXECUTABLE, SWAPBACKED, REFERENCED]),
    ];
    for &(set, young, expected, left) in classic {
        for lru in [Lru::Classic, multi_gen("mglru-6.1"), multi_gen("mglru-6.5"), multi_gen("mglru-6.7")] {
            let mut folio = flags(set);
            let references = check_references(&lru, &mut folio, Some(young));
            assert_eq!((references, folio), (expected, flags(left)), "{set:?}, {young} young, {lru:?}");
        }
    }
    // A folio in a `VM_LOCKED` VMA is activated whatever its flags.
    for lru in [Lru::Classic, multi_gen("mglru-6.1"), multi_gen("mglru-6.14")] {
        let mut folio = flags(&[REFERENCED]);
        assert_eq!(check_references(&lru, &mut folio, None), Activate);
        assert_eq!(folio, flags(&[REFERENCED]));
    }
    // From 6.14 on: flags, counter and young PTEs; the answer, and the flags and counter after that, in 6.14
    // and in 7.2.
    type Row<'a> = (&'a [FolioFlags], u8, u16, References, (&'a [FolioFlags], u8), (&'a [FolioFlags], u8));
    let table: &[Row] = &[
        (&[], 3, 0, Reclaim, (&[], 3), (&[], 3)),
        (&[REFERENCED], 1, 0, Reclaim, (&[REFERENCED], 1), (&[REFERENCED], 1)),
        (&[], 2, 1, Keep, (&[REFERENCED], 0), (&[REFERENCED], 0)),
        (&[REFERENCED], 0, 1, Activate, (&[WORKINGSET], 0), (&[REFERENCED], 1)),
        (&[REFERENCED], 1, 1, Activate, (&[WORKINGSET], 0), (&[REFERENCED], 2)),
        (&[REFERENCED], 2, 1, Activate, (&[WORKINGSET], 0), (&[WORKINGSET], 0)),
        (&[WORKINGSET], 0, 1, Activate, (&[WORKINGSET], 0), (&[WORKINGSET, REFERENCED], 0)),
        (&[EXECUTABLE], 0, 2, Keep, (&[EXECUTABLE, REFERENCED], 0), (&[EXECUTABLE, REFERENCED], 0)),
    ];
    for &(set, refs, young, expected, mglru_6_14, mglru_7_2) in table {
        for (variant, (left, left_refs)) in [("mglru-6.14", mglru_6_14), ("mglru-7.2", mglru_7_2)] {
            let mut folio = with_refs(set, refs);
            let references = check_references(&multi_gen(variant), &mut folio, Some(young));
            let left = with_refs(left, left_refs);
            assert_eq!((references, folio), (expected, left), "{variant}: {set:?} {refs}, {young} young");
            let mut folio = with_refs(set, refs);
            if young > 0 {
                assert_eq!(mapped_access(&kernel(variant), &mut folio), expected == Activate);
            }
        }
    }
}

// Feedback

fn counts(refaulted: u64, total: u64) -> TierCounts {
    TierCounts { refaulted, total }
}

#[test]
fn a_tier_may_go_unless_it_refaults_more_than_the_first() {
    let position = |refaulted, total, gain| Position { counts: counts(refaulted, total), gain };
    for (set_point, process, expected) in [
        // Fewer than 64 refaults are too few to tell.
        (position(0, 0, 1), position(63, 63, 1), true),
        (position(0, 0, 1), position(64, 64, 1), false),
        // 64 * (36 + 64) * 1 <= (99 + 1) * 64 * 1, but not with one refault less.
        (position(99, 36, 1), position(64, 64, 1), true),
        (position(98, 36, 1), position(64, 64, 1), false),
        // A larger gain of the process allows more refaults.
        (position(49, 36, 1), position(64, 64, 2), true),
        (position(48, 36, 1), position(64, 64, 2), false),
        (position(99, 36, 2), position(64, 64, 1), false),
        // Pages refault although none were evicted: the tier is protected.
        (position(1000, 1000, 1), position(64, 0, 1), false),
    ] {
        assert_eq!(positive_ctrl_err(set_point, process), expected, "{set_point:?}, {process:?}");
    }
}

#[test]
fn tiers_go_up_to_the_first_that_must_stay() {
    // The first tier refaults at 10 %. Others may refault at 20 % until 6.13, at 15 % from 6.14 on.
    let tier = |percent: u64| counts(percent * 1000, 100_000);
    let rows = [
        ([10, 0, 0, 0], 3, 3),
        ([10, 9, 9, 9], 3, 3),
        ([10, 18, 0, 0], 3, 0),
        ([10, 9, 30, 0], 1, 1),
        ([10, 9, 14, 30], 2, 2),
        ([10, 30, 0, 0], 0, 0),
        // The second tier is checked before the third.
        ([10, 18, 30, 0], 1, 0),
    ];
    for (percent, until_6_13, since_6_14) in rows {
        let tiers = percent.map(tier);
        for (variant, expected) in [
            ("mglru-6.1", until_6_13),
            ("mglru-6.7", until_6_13),
            ("mglru-6.14", since_6_14),
            ("mglru-7.2", since_6_14),
        ] {
            assert_eq!(last_tier(&kernel(variant), &tiers), expected, "{variant}: {percent:?}");
        }
    }
}

#[test]
fn the_type_that_refaults_less_goes() {
    // Refaults per thousand evictions in the first tier of anonymous and of file pages.
    let tiers = |anon: u64, file: u64| {
        [anon, file]
            .map(|refaulted| [counts(refaulted * 100, 100_000), counts(0, 0), counts(0, 0), counts(0, 0)])
    };
    let chosen = |variant: &str, swappiness, min_seq, anon, file| {
        type_to_scan(&kernel(variant), swappiness, min_seq, &tiers(anon, file)).0
    };
    for variant in KERNELS {
        // Both types refault alike: swappiness decides.
        assert_eq!(chosen(variant, 60, [3, 3], 100, 100), File, "{variant}");
        assert_eq!(chosen(variant, 140, [3, 3], 100, 100), Anon, "{variant}");
        // At 60 of 200, file pages have to refault 140 / 60 times as often before anonymous pages are
        // evicted.
        assert_eq!(chosen(variant, 60, [3, 3], 100, 230), File, "{variant}");
        assert_eq!(chosen(variant, 60, [3, 3], 100, 240), Anon, "{variant}");
        assert_eq!(chosen(variant, 0, [3, 4], 0, 1000), File, "{variant}");
        assert_eq!(chosen(variant, 1, [3, 3], 0, 1000), File, "{variant}");
        assert_eq!(chosen(variant, 200, [3, 3], 1000, 0), Anon, "{variant}");
        // Until 6.13 the type whose oldest generation is older goes first.
        let behind = if matches!(variant, "mglru-6.14" | "mglru-7.2") { File } else { Anon };
        assert_eq!(chosen(variant, 60, [3, 4], 100, 100), behind, "{variant}");
        assert_eq!(chosen(variant, 1, [3, 4], 100, 100), behind, "{variant}");
    }

    // Until 6.13 the tiers of the chosen type are compared with the first tier of the other one.
    let of_file = [counts(0, 100_000), counts(30_000, 100_000), counts(0, 0), counts(0, 0)];
    let of_anon = |percent: u64| [counts(percent * 1000, 100_000), counts(0, 0), counts(0, 0), counts(0, 0)];
    for (percent, last) in [(12, 0), (13, 3)] {
        let (lru_type, tier) = type_to_scan(&kernel("mglru-6.7"), 60, [3, 3], &[of_anon(percent), of_file]);
        assert_eq!((lru_type, tier), (File, Some(last)), "{percent} %");
    }
    // From 6.14 on all tiers count: here it is the third that refaults.
    let mut tiers = tiers(100, 100);
    tiers[File as usize][2] = counts(100_000, 100_000);
    assert_eq!(type_to_scan(&kernel("mglru-6.7"), 60, [3, 3], &tiers).0, File);
    assert_eq!(type_to_scan(&kernel("mglru-6.14"), 60, [3, 3], &tiers), (Anon, None));
}

// Eviction

/// The expected answer; for protection, whether it counts.
#[derive(Clone, Copy)]
enum Expected {
    Promoted,
    Protected(bool),
    Ineligible,
    Writeback,
    Evictable,
}

impl Expected {
    fn of(self, variant: &str) -> Sorted {
        match self {
            Expected::Promoted => Sorted::Promoted,
            // Only 6.1 counts protection as an activation, and from 6.14 on the folio goes to the head of the
            // next generation.
            Expected::Protected(counted) => Sorted::Protected(Protection {
                counted,
                activates: variant == "mglru-6.1",
                end: end(!matches!(variant, "mglru-6.14" | "mglru-7.2")),
            }),
            Expected::Ineligible => Sorted::Ineligible,
            Expected::Writeback => Sorted::Writeback,
            Expected::Evictable => Sorted::Evictable,
        }
    }
}

#[test]
fn what_is_at_the_tail_of_the_oldest_generation_is_sorted() {
    use Expected::{Evictable, Ineligible, Promoted, Protected, Writeback};
    // Generation, flags, counter, eligible; answers of g61, g67, g614 and g72 if only the first tier may be
    // evicted.
    type Row<'a> = (usize, &'a [FolioFlags], u8, bool, [Expected; 4]);
    let table: &[Row] = &[
        (2, &[], 0, true, [Evictable; 4]),
        (3, &[], 0, true, [Promoted; 4]),
        (3, &[WORKINGSET, DIRTY], 3, false, [Promoted; 4]),
        // Tiers.
        (2, &[REFERENCED], 0, true, [Evictable; 4]),
        (2, &[REFERENCED], 1, true, [Protected(true); 4]),
        (2, &[WORKINGSET], 0, true, [Protected(true); 4]),
        (
            2,
            &[WORKINGSET, REFERENCED],
            3,
            true,
            [Protected(true), Protected(true), Protected(false), Protected(false)],
        ),
        (2, &[REFERENCED], 1, false, [Protected(true); 4]),
        // Zones.
        (2, &[], 0, false, [Ineligible; 4]),
        (2, &[DIRTY], 0, false, [Ineligible; 4]),
        // Folios that have to be written first.
        (2, &[DIRTY], 0, true, [Writeback, Writeback, Writeback, Evictable]),
        (2, &[WRITEBACK], 0, true, [Writeback, Writeback, Writeback, Evictable]),
        (2, &[SWAPBACKED, DIRTY], 0, true, [Evictable; 4]),
        (2, &[SWAPBACKED, WRITEBACK], 0, true, [Writeback, Writeback, Writeback, Evictable]),
    ];
    for &(generation, set, refs, eligible, expected) in table {
        for (variant, expected) in ["mglru-6.1", "mglru-6.7", "mglru-6.14", "mglru-7.2"].iter().zip(expected)
        {
            let f = kernel(variant);
            let mut folio = with_refs(set, refs);
            folio.set_generation(Some(generation));
            let folio_use =
                FolioUse { referenced: folio.has(REFERENCED), workingset: folio.has(WORKINGSET), refs };
            let refs = folio_refs(&f, folio_use);
            let tier = tier(&f, refs, folio.has(WORKINGSET));
            let sorted = sort(&f, &AtTail { flags: folio, oldest: 2, refs, tier, eligible }, 0);
            assert_eq!(
                sorted,
                expected.of(variant),
                "{variant}: {set:?}, generation {generation}, eligible: {eligible}"
            );
        }
    }
    // All tiers may be evicted, but from 6.7 on a folio with as many accesses as can be counted is not.
    for (variant, refs, tier, expected) in [
        ("mglru-6.5", 4, 3, Evictable),
        ("mglru-6.7", 4, 3, Protected(true)),
        ("mglru-6.7", 3, 2, Evictable),
        ("mglru-6.14", 4, 3, Protected(false)),
        ("mglru-6.14", 3, 3, Evictable),
    ] {
        let mut folio = flags(&[WORKINGSET, REFERENCED]);
        folio.set_generation(Some(2));
        let folio = AtTail { flags: folio, oldest: 2, refs, tier, eligible: true };
        assert_eq!(sort(&kernel(variant), &folio, 3), expected.of(variant), "{variant}, {refs} accesses");
    }
}

#[test]
fn swappiness_says_which_types_may_be_evicted() {
    for (swappiness, types) in [(0, &[File][..]), (1, &[Anon, File]), (200, &[Anon, File]), (201, &[Anon])] {
        assert_eq!(evictable_types(swappiness), types, "{swappiness}");
    }
}

// Aging

#[test]
fn a_generation_begins_when_too_little_is_cold() {
    // Oldest and youngest generation; pages in all, in the youngest, in the third youngest; answers until
    // 6.13 and from 6.14 on.
    for (min_seq, max_seq, total, young, old, until_6_13, since_6_14) in [
        (8, 9, 1000, 0, 0, true, true),
        // Three generations.
        (7, 9, 1000, 500, 250, false, true),
        (7, 9, 1000, 501, 250, true, true),
        (7, 9, 1000, 500, 249, true, true),
        (6, 9, 1000, 1000, 0, false, false),
    ] {
        let e = Evictable { min_seq, max_seq, total, young, old };
        for (variant, expected) in
            [("mglru-6.1", until_6_13), ("mglru-6.7", until_6_13), ("mglru-6.14", since_6_14)]
        {
            assert_eq!(should_run_aging(&kernel(variant), &e), expected, "{variant}: {e:?}");
        }
        assert_eq!(e.is_out_of_cold(), max_seq - min_seq < 2);
    }
}

#[test]
fn neither_type_falls_behind_the_other() {
    // The oldest generations of both types before, and each without its empty ones; the youngest generation;
    // swappiness; the result until 6.13 and from 6.14 on.
    for (before, now, max_seq, swappiness, until_6_13, since_6_14) in [
        ([5, 5], [5, 5], 8, 60, [5, 5], [5, 5]),
        // Until 6.13 the anonymous type waits for the file type, and the file type for the anonymous one
        // unless it is ahead already.
        ([5, 5], [6, 5], 8, 60, [5, 5], [6, 5]),
        ([5, 5], [5, 6], 8, 60, [5, 5], [5, 6]),
        ([5, 6], [5, 7], 8, 60, [5, 6], [5, 6]),
        ([5, 5], [6, 6], 8, 60, [6, 6], [6, 6]),
        ([5, 5], [7, 5], 8, 60, [5, 5], [6, 5]),
        ([5, 5], [5, 7], 8, 60, [5, 5], [5, 6]),
        ([5, 5], [7, 6], 8, 60, [6, 6], [7, 6]),
        ([5, 6], [6, 6], 8, 60, [6, 6], [6, 6]),
        // Only one type can be evicted.
        ([5, 5], [7, 5], 8, 0, [7, 5], [7, 5]),
        ([5, 5], [5, 7], 8, 0, [5, 7], [5, 7]),
        ([5, 5], [5, 7], 8, 201, [5, 7], [5, 7]),
    ] {
        for (variant, expected) in [
            ("mglru-6.5", until_6_13),
            ("mglru-6.7", until_6_13),
            ("mglru-6.14", since_6_14),
            ("mglru-7.2", since_6_14),
        ] {
            let coupled = couple_min_seq(&kernel(variant), before, now, max_seq, swappiness);
            assert_eq!(coupled, expected, "{variant}: {before:?} {now:?}, swappiness {swappiness}");
        }
    }
}

// The classic LRU

#[test]
fn the_inactive_list_may_be_shorter_the_more_memory_there_is() {
    const GIB: u64 = 1 << 18;
    for (inactive, active, low) in [
        (100, 100, false),
        (99, 100, true),
        (0, 0, false),
        (0, 1, true),
        // 1 GiB: 3 times; 10 GiB: 10 times; 100 GiB: 31 times.
        (GIB / 4, 3 * GIB / 4, false),
        (GIB / 4 - 1, 3 * GIB / 4 + 1, true),
        (GIB, 9 * GIB, false),
        (GIB, 10 * GIB, false),
        (GIB, 11 * GIB, true),
        (4 * GIB, 96 * GIB, false),
        (3 * GIB, 97 * GIB, true),
    ] {
        let is_low = inactive_is_low(PageSize::Kib4, inactive, active);
        assert_eq!(is_low, low, "{inactive} of {}", inactive + active);
    }
    for size in PageSize::ALL {
        let gib = size.pages_of_mib(1024);
        let is_low = |active| inactive_is_low(size, gib, active * gib);
        assert_eq!((is_low(10), is_low(11)), (false, true), "{size:?}");
    }
}

const STATE: BalanceState = BalanceState {
    can_reclaim_anon: true,
    cgroup_reclaim: false,
    swappiness: 60,
    priority: 12,
    file_is_tiny: false,
    cache_trim_mode: false,
    cost: [0, 0],
};

#[test]
fn the_first_reason_decides_how_types_share_a_scan() {
    use ScanBalance::{Equal, Fract};
    for (state, expected) in [
        (
            BalanceState { can_reclaim_anon: false, priority: 0, file_is_tiny: true, ..STATE },
            ScanBalance::File,
        ),
        (
            BalanceState { swappiness: 0, cgroup_reclaim: true, file_is_tiny: true, ..STATE },
            ScanBalance::File,
        ),
        (BalanceState { swappiness: 0, file_is_tiny: true, ..STATE }, ScanBalance::Anon),
        (BalanceState { swappiness: 0, ..STATE }, Fract { fraction: [0, 200] }),
        (BalanceState { swappiness: 0, priority: 0, ..STATE }, Fract { fraction: [0, 200] }),
        (BalanceState { priority: 0, file_is_tiny: true, ..STATE }, Equal),
        (BalanceState { priority: 0, cgroup_reclaim: true, ..STATE }, Equal),
        (BalanceState { file_is_tiny: true, cache_trim_mode: true, ..STATE }, ScanBalance::Anon),
        (BalanceState { cache_trim_mode: true, ..STATE }, ScanBalance::File),
        (STATE, Fract { fraction: [60, 140] }),
        // Costs of 100 and 300: weights 60 * 1201 / 501 and 140 * 1201 / 701.
        (BalanceState { cost: [100, 300], ..STATE }, Fract { fraction: [143, 239] }),
        (BalanceState { cost: [300, 100], ..STATE }, Fract { fraction: [102, 335] }),
        (BalanceState { swappiness: 200, cost: [5, 5], ..STATE }, Fract { fraction: [387, 0] }),
    ] {
        assert_eq!(scan_balance(&state), expected, "{state:?}");
    }
}

#[test]
fn a_list_is_scanned_by_priority_share_and_protection() {
    let fract = ScanBalance::Fract { fraction: [60, 140] };
    for (balance, lru_type, size, priority, low, usage, expected) in [
        (ScanBalance::Equal, Anon, 40_960, 12, 0, 0, 10),
        (ScanBalance::Equal, File, 4095, 12, 0, 0, 0),
        (ScanBalance::Equal, File, 4095, 0, 0, 0, 4095),
        (ScanBalance::File, Anon, 40_960, 0, 0, 0, 0),
        (ScanBalance::File, File, 40_960, 4, 0, 0, 2560),
        (ScanBalance::Anon, File, 40_960, 4, 0, 0, 0),
        (ScanBalance::Anon, Anon, 40_960, 4, 0, 0, 2560),
        (fract, Anon, 1000, 0, 0, 0, 300),
        (fract, File, 1000, 0, 0, 0, 700),
        // The share is taken after the shift: 1000 >> 8 is 3.
        (fract, File, 1000, 8, 0, 0, 2),
        // Half of the memcg is protected, all of it, more than all; then 32 pages before the shift.
        (ScanBalance::File, File, 1000, 0, 500, 999, 500),
        (ScanBalance::File, File, 1000, 0, 1000, 1000, 32),
        (ScanBalance::File, File, 1000, 0, 5000, 1000, 32),
        (ScanBalance::File, File, 1000, 3, 1000, 1000, 4),
        (ScanBalance::File, File, 1000, 6, 1000, 1000, 0),
    ] {
        let scan =
            scan_count(balance, lru_type, unprotected(size, protection(low, 0, false), usage), priority);
        assert_eq!(scan, expected, "{balance:?}, {lru_type:?}, {size} >> {priority}, {low} of {usage}");
    }
}

#[test]
fn a_protection_that_no_longer_counts_still_makes_a_short_list_a_batch() {
    let kinds = [(0, 0), (0, 10), (10, 0), (10, 20), (20, 10)];
    let pages = |reclaims_low| {
        kinds.map(|(low, min)| protection(low, min, reclaims_low).map(|protection| protection.pages))
    };
    assert_eq!(pages(false), [None, Some(10), Some(10), Some(20), Some(20)]);
    assert_eq!(pages(true), [None, Some(10), Some(0), Some(20), Some(10)]);
    let scans = |low| unprotected(5, protection(low, 0, true), 1000);
    assert_eq!([0, 10].map(scans), [5, 32]);
}

#[test]
fn what_is_left_is_scanned_in_proportion() {
    // Inactive and active anonymous pages, inactive and active file pages: left to scan, to scan in all; what
    // is left after that.
    for (rest, targets, expected) in [
        // One type is done.
        ([0, 0, 100, 100], [64, 64, 200, 200], None),
        ([10, 10, 0, 0], [64, 64, 200, 200], None),
        // Of the anonymous pages 36 of 129 are left, 27 %: file pages are to reach 73 %.
        ([32, 4, 100, 200], [64, 64, 200, 200], Some([0, 0, 46, 146])),
        // Of the file pages 40 of 101 are left, 39 %.
        ([64, 64, 20, 20], [100, 100, 50, 50], Some([25, 25, 0, 0])),
        // More than that has been scanned already.
        ([60, 60, 70, 71], [64, 64, 200, 200], Some([0, 0, 0, 0])),
        // As many are left of both types: file pages count as the fewer ones.
        ([50, 0, 50, 0], [100, 0, 100, 0], Some([1, 0, 0, 0])),
    ] {
        assert_eq!(proportional_rest(rest, targets), expected, "{rest:?} of {targets:?}");
    }
}

#[test]
fn compaction_wants_twice_the_block() {
    let gap =
        |variant, order| compact_gap(&Series::RECLAIM.variant(variant).unwrap().features.reclaim, order);
    assert_eq!([0, 3, 9].map(|order| gap("mglru-6.14", order)), [2, 16, 1024]);
    assert_eq!([0, 3, 9].map(|order| gap("mglru-7.2", order)), [2, 16, 32]);
}

proptest! {
    /// Whatever the flags of a folio, the generation that it enters exists.
    #[test]
    fn a_folio_enters_a_generation_that_exists(
        set in proptest::sample::subsequence(
            vec![ACTIVE, WORKINGSET, REFERENCED, SWAPBACKED, SWAPCACHE, RECLAIM, DIRTY, WRITEBACK], 0..8),
        generations in 2..=4u64,
        min_seq in 0..1000u64,
        reclaiming: bool,
    ) {
        let max_seq = min_seq + generations - 1;
        for variant in KERNELS {
            let generation = placement(&kernel(variant), flags(&set), max_seq, min_seq, end(reclaiming));
            prop_assert!((min_seq..=max_seq).contains(&generation), "{}: {}", variant, generation);
        }
    }

    /// The oldest generations of both types leave at least two, and a generation that has been given up does
    /// not come back.
    #[test]
    fn coupled_generations_stay_in_bounds(
        before in [0..3u64, 0..3u64],
        forward in [0..3u64, 0..3u64],
        swappiness in 0..=200u64,
    ) {
        let max_seq = 3;
        let now = [0, 1].map(|lru_type: usize| (before[lru_type] + forward[lru_type]).min(max_seq - 1));
        for variant in KERNELS {
            // Until 6.13 the oldest anonymous generation is never younger than the oldest file generation.
            let f = kernel(variant);
            if !f.types_apart && before[0] > before[1] {
                continue;
            }
            let coupled = couple_min_seq(&f, before, now, max_seq, swappiness);
            for lru_type in [0, 1] {
                prop_assert!(coupled[lru_type] < max_seq, "{}: {:?}", variant, coupled);
                prop_assert!(f.types_apart || coupled[lru_type] >= before[lru_type], "{}: {:?}", variant, coupled);
            }
            prop_assert!(f.types_apart || swappiness == 0 || coupled[0] <= coupled[1], "{}: {:?}", variant, coupled);
        }
    }

    /// The share of a type is never more than the scan, and both shares together are hardly less.
    #[test]
    fn shares_add_up(cost in [0..1u64 << 40, 0..1u64 << 40], swappiness in 0..=200u64, size in 0..1u64 << 40) {
        let balance = scan_balance(&BalanceState { cost, swappiness, ..STATE });
        let shares = [Anon, File].map(|lru_type| scan_count(balance, lru_type, size, 0));
        let sum: u64 = shares.iter().sum();
        prop_assert!(sum <= size && sum + 1 >= size, "{:?} of {}", shares, size);
    }

    /// The number of pages left to scan falls.
    #[test]
    fn proportional_scans_end(targets in [0..5000u64, 0..5000u64, 0..5000u64, 0..5000u64], done in [0..=100u64, 0..=100, 0..=100, 0..=100]) {
        let rest: [u64; 4] = std::array::from_fn(|list| targets[list] * (100 - done[list]) / 100);
        if let Some(left) = proportional_rest(rest, targets) {
            let larger = if rest[2] + rest[3] > rest[0] + rest[1] { [2, 3] } else { [0, 1] };
            for list in 0..4 {
                prop_assert!(larger.contains(&list) || left[list] == 0, "{:?} of {:?}", left, rest);
                prop_assert!(left[list] <= targets[list]);
            }
        }
    }
}

#[test]
fn groups_share_what_protects_their_parent() {
    // Usage, the parent's usage, the setting, the parent's effective protection, the claims of all its
    // children; the result.
    for (usage, parent, setting, effective, claimed, protects) in [
        // The claims are at most what the parent has: each child gets its claim.
        (600, 1000, 500, 500, 500, 500),
        (300, 1000, 500, 500, 300, 300),
        // The claims exceed it: each child gets its share.
        (600, 1000, 500, 400, 800, 250),
        (300, 1000, 500, 400, 800, 150),
        (600, 1000, 500, 0, 500, 0),
        // The claims are less: the rest is divided by unprotected usage. 200 are left for 600 pages, of which
        // the memcg has 400.
        (600, 1000, 200, 600, 400, 200 + 133),
        (600, 1000, 0, 600, 0, 360),
        // The memcg has no unprotected usage.
        (200, 1000, 300, 600, 400, 200),
    ] {
        let found = effective_protection(usage, parent, setting, effective, claimed);
        assert_eq!(found, protects, "{usage} of {parent}, {setting}, {effective}, {claimed}");
    }
}

proptest! {
    /// No memcg gets more than it uses, and all together get no more than their parent has, within a page
    /// each.
    #[test]
    fn protection_is_never_given_twice(
        groups in proptest::collection::vec((0..1000u64, 0..1500u64), 1..6),
        own in 0..500u64,
        effective in 0..4000u64,
    ) {
        let parent: u64 = groups.iter().map(|(usage, _)| usage).sum::<u64>() + own;
        let effective = effective.min(parent);
        let claimed = groups.iter().map(|&(usage, setting)| usage.min(setting)).sum();
        let of = |&(usage, setting): &(u64, u64)| {
            effective_protection(usage, parent, setting, effective, claimed)
        };
        prop_assert!(groups.iter().all(|group| of(group) <= group.0));
        prop_assert!(groups.iter().map(of).sum::<u64>() <= effective);
    }
}
