//! The order of the folio for the first store to a page, in each version of the large-folio series, decision
//! by decision.

use machine::PageSize;
use mm::Variant;
use mm::allocator::request::Effort;
use mm::huge_memory::features::{Allocation, Candidates, FolioFeatures, FolioSize, Search};
use mm::huge_memory::orders::Orders;
use mm::huge_memory::policy::{
    Advice, Disabled, Failure, PmdStep, Unmapped, Userfault, VmaState, after_failure, allowed_orders,
    beside_full, candidates, defers_split, effort, fitting, is_reused, is_thp_eligible, is_underused,
    pmd_step, runs_khugepaged, window,
};
use mm::huge_memory::settings::{Defrag, Enabled, Khugepaged, Mode, ThpSettings};
use mm::{Series, Settings};
use proptest::prelude::*;
use std::ops::Range;

fn variant(name: &str) -> &'static Variant {
    Series::FOLIOS.variant(name).unwrap_or_else(|| panic!("no variant {name}"))
}

fn features(name: &str) -> FolioFeatures {
    variant(name).features.folios
}

/// The THP settings of a variant with `transparent_hugepage/enabled` at `enabled`.
fn settings(name: &str, enabled: Enabled) -> ThpSettings {
    let mut settings = Settings::default();
    for (name, value) in variant(name).settings {
        settings.set(name, value).unwrap();
    }
    ThpSettings { enabled, ..settings.transparent_hugepage }
}

fn advised(advice: Advice) -> VmaState {
    VmaState { advice, ..VmaState::default() }
}

/// The candidate orders with `transparent_hugepage/enabled` at `enabled` and this advice. Order 0 is always
/// possible besides.
fn orders(name: &str, enabled: Enabled, advice: Advice) -> Vec<u8> {
    candidates(&features(name), &settings(name, enabled), &advised(advice)).descending().collect()
}

fn with_modes(modes: &[(u8, Mode)], enabled: Enabled) -> ThpSettings {
    let mut thp = ThpSettings { enabled, ..ThpSettings::default() };
    thp.set_mode(9, Mode::Never);
    modes.iter().for_each(|&(order, mode)| thp.set_mode(order, mode));
    thp
}

const KNOB: [Enabled; 3] = [Enabled::Never, Enabled::Madvise, Enabled::Always];
const SIZES_OF_HUGE_PAGES: [(PageSize, u8); 3] =
    [(PageSize::Kib4, 9), (PageSize::Kib16, 11), (PageSize::Kib64, 13)];
const ADVICE: [Advice; 3] = [Advice::None, Advice::Huge, Advice::NoHuge];

#[test]
fn candidate_lists() {
    let plain = |name| orders(name, Enabled::Madvise, Advice::None);
    assert_eq!(plain("folios-base"), []);
    assert_eq!(plain("folios-v1"), [4, 3, 2]);
    assert_eq!(plain("folios-v2"), [4, 3, 2]);
    assert_eq!(plain("folios-v2-simple"), [4]);
    assert_eq!(plain("folios-v2-32k"), [3, 2]);
    for name in ["folios-v3", "folios-v4", "folios-v5"] {
        assert_eq!(plain(name), [4, 3], "{name}");
    }
    for name in
        ["folios-v6", "folios-v7", "folios-v8", "folios-v9", "folios-6.8", "folios-6.12", "folios-7.2"]
    {
        assert_eq!(plain(name), [], "by default {name} has 2 MiB only");
    }
    assert_eq!(plain("folios-v9-64k"), [4]);
    assert_eq!(plain("folios-v9-64k-32k"), [4, 3]);
    assert_eq!(plain("folios-v9-64k-32k-16k"), [4, 3, 2]);
    assert_eq!(plain("folios-v9-below-2m"), [8, 7, 6, 5, 4, 3, 2]);
    assert_eq!((plain("folios-v9-2m"), plain("folios-v9-2m-64k-32k")), (vec![], vec![4, 3]));
}

#[test]
fn v1_and_v2_never_ask_the_knob() {
    for name in ["folios-v1", "folios-v2", "folios-v2-simple"] {
        for (enabled, advice) in KNOB.into_iter().flat_map(|e| ADVICE.map(|a| (e, a))) {
            assert_eq!(orders(name, enabled, advice)[0], 4, "{name} {enabled:?} {advice:?}");
        }
    }
    // v1 has another limit for VMAs that may have huge pages, which does not apply if the process refuses
    // them.
    let f = FolioFeatures {
        candidates: Candidates::BuildLimit { plain: FolioSize::Order(3), eligible: FolioSize::Order(5) },
        ..features("folios-v1")
    };
    let top =
        |enabled, advice| candidates(&f, &with_modes(&[], enabled), &advised(advice)).highest().unwrap();
    assert_eq!(ADVICE.map(|advice| top(Enabled::Madvise, advice)), [3, 5, 3]);
    assert_eq!(ADVICE.map(|advice| top(Enabled::Always, advice)), [5, 5, 3]);
    assert_eq!(ADVICE.map(|advice| top(Enabled::Never, advice)), [3, 3, 3]);
}

/// The tables of the cover letters of v4 and v5: `S` is order 0, `L` large folios, `T` 2 MiB first.
#[test]
fn knob_and_advice_in_v3_to_v5() {
    let cell = |name, enabled, advice| {
        let thp = settings(name, enabled);
        let huge = allowed_orders(&features(name), &thp, &advised(advice)).has(9);
        match (huge, orders(name, enabled, advice).is_empty()) {
            (true, false) => 'T',
            (false, false) => 'L',
            (false, true) => 'S',
            (true, true) => '?',
        }
    };
    for (name, never) in [("folios-v3", "SSS"), ("folios-v4", "SSS"), ("folios-v5", "LLS")] {
        let row = |enabled| ADVICE.map(|advice| cell(name, enabled, advice)).iter().collect::<String>();
        assert_eq!(KNOB.map(row), [never, "LTS", "TTS"], "{name}");
    }
}

#[test]
fn the_preferred_order_is_limited_where_nobody_gave_advice() {
    let with = |architecture, limit_at_boot, unhinted, enabled| {
        let candidates_ = Candidates::Preferred { architecture, never_is_zero: true, limit_at_boot };
        let f = FolioFeatures { candidates: candidates_, ..features("folios-v3") };
        let thp = ThpSettings { flexthp_unhinted_max: unhinted, ..with_modes(&[], enabled) };
        candidates(&f, &thp, &advised(Advice::None)).descending().collect::<Vec<u8>>()
    };
    assert_eq!(with(Some(FolioSize::Order(7)), true, 4, Enabled::Madvise), [4, 3]);
    assert_eq!(with(Some(FolioSize::Order(7)), true, 4, Enabled::Always), [7, 3]);
    assert_eq!(with(Some(FolioSize::Order(7)), true, 9, Enabled::Madvise), [7, 3]);
    assert_eq!(with(Some(FolioSize::Order(7)), true, 2, Enabled::Madvise), [2]);
    assert_eq!(with(Some(FolioSize::Order(7)), true, 0, Enabled::Madvise), []);
    assert_eq!(with(Some(FolioSize::Order(7)), false, 2, Enabled::Madvise), [4, 3]);
    assert_eq!(with(None, false, 4, Enabled::Madvise), [3], "without a preferred order it is order 3");
}

/// From v6 on, the files of the sizes decide. "always" for one size has effect even if
/// `transparent_hugepage/enabled` is at "never".
#[test]
fn modes_of_sizes() {
    let f = features("folios-6.8");
    let modes = [(4, Mode::Always), (3, Mode::Madvise), (2, Mode::Inherit)];
    let row = |enabled| {
        let thp = with_modes(&modes, enabled);
        ADVICE.map(|advice| candidates(&f, &thp, &advised(advice)).descending().collect::<Vec<_>>())
    };
    assert_eq!(row(Enabled::Never), [vec![4], vec![4, 3], vec![]]);
    assert_eq!(row(Enabled::Madvise), [vec![4], vec![4, 3, 2], vec![]]);
    assert_eq!(row(Enabled::Always), [vec![4, 2], vec![4, 3, 2], vec![]]);
    // The same holds for 2 MiB, which is not a candidate but tried in a step of its own.
    let thp =
        |mode, enabled| allowed_orders(&f, &with_modes(&[(9, mode)], enabled), &advised(Advice::None)).has(9);
    assert_eq!(KNOB.map(|enabled| thp(Mode::Inherit, enabled)), [false, false, true]);
    assert_eq!(KNOB.map(|enabled| thp(Mode::Always, enabled)), [true; 3]);
}

#[test]
fn who_refuses_gets_single_pages() {
    let refusals = [
        VmaState { disabled: Disabled::Completely, advice: Advice::Huge, ..VmaState::default() },
        VmaState { disabled: Disabled::ExceptAdvised, ..VmaState::default() },
        VmaState { temporary_stack: true, ..VmaState::default() },
        advised(Advice::NoHuge),
    ];
    for name in ["folios-v3", "folios-v4", "folios-v5", "folios-v9-64k-32k-16k", "folios-v9-2m-64k-32k"] {
        for vma in refusals {
            let (f, thp) = (features(name), settings(name, Enabled::Always));
            assert_eq!(candidates(&f, &thp, &vma), Orders::NONE, "{name} {vma:?}");
            assert_eq!(allowed_orders(&f, &thp, &vma), Orders::NONE, "{name} {vma:?}");
        }
        let but = VmaState { disabled: Disabled::ExceptAdvised, ..advised(Advice::Huge) };
        assert!(!candidates(&features(name), &settings(name, Enabled::Always), &but).is_empty(), "{name}");
    }
}

#[test]
fn userfaultfd_wants_single_pages() {
    let large = |name, userfault| {
        let vma = VmaState { userfault, ..VmaState::default() };
        !candidates(&features(name), &settings(name, Enabled::Madvise), &vma).is_empty()
    };
    for name in ["folios-v1", "folios-v2", "folios-v2-simple", "folios-v3", "folios-v4"] {
        assert!(large(name, Userfault::Armed) && !large(name, Userfault::ProtectedEntry), "{name}");
    }
    for name in ["folios-v5", "folios-v9-64k-32k-16k"] {
        assert!(!large(name, Userfault::Armed) && !large(name, Userfault::ProtectedEntry), "{name}");
    }
}

fn fit(orders: &[u8], vma: Range<u64>, page: u64, populated: &[u64]) -> Option<u8> {
    let is_populated = |window: Range<u64>| populated.iter().any(|page| window.contains(page));
    fitting(Search::PerCandidate, Orders::of(orders), &vma, page, is_populated).highest()
}

#[test]
fn a_folio_stays_inside_its_vma() {
    for (vma, page, order) in [
        (0..16, 5, Some(4)),
        (1..17, 5, Some(2)),
        (1..17, 8, Some(3)),
        (1..17, 16, None),
        (0..15, 13, None),
        (0..15, 9, Some(2)),
    ] {
        assert_eq!(fit(&[4, 3, 2], vma.clone(), page, &[]), order, "page {page} of {vma:?}");
    }
}

#[test]
fn one_page_blocks_just_the_windows_that_have_it() {
    let after_page_0 = |page| fit(&[4, 3, 2], 0..64, page, &[0]);
    assert_eq!([1, 2, 3].map(after_page_0), [None; 3], "no folio has order 1");
    assert_eq!([4, 7, 8, 15, 16].map(after_page_0), [Some(2), Some(2), Some(3), Some(3), Some(4)]);
    // 16 free PTEs that are not aligned have no room for order 4.
    assert_eq!(fit(&[4], 0..64, 20, &[15, 32]), Some(4));
    assert_eq!(fit(&[4], 0..64, 20, &[16, 33]), None);
}

/// As a kernel with this setting does it: a neighbour on either side counts if it is in the same VMA and page
/// table.
#[test]
fn memory_that_is_used_densely() {
    let thp = ThpSettings::default();
    let beside = |orders: &[u8], vma: Range<u64>, page: u64, full: Range<u64>| {
        let is_full = |window: Range<u64>| window.start >= full.start && window.end <= full.end;
        let found = beside_full(&thp, Orders::of(orders), &vma, page, is_full);
        (found.kept.highest(), found.declined.descending().collect::<Vec<_>>())
    };
    assert_eq!(beside(&[3], 0..64, 8, 0..8), (Some(3), vec![]));
    assert_eq!(beside(&[3], 0..64, 8, 16..24), (Some(3), vec![]));
    assert_eq!(beside(&[3], 0..64, 8, 0..7), (None, vec![3]));
    assert_eq!(beside(&[3, 2], 0..64, 8, 4..8), (Some(2), vec![3]));
    assert_eq!(beside(&[3], 8..64, 8, 0..8), (None, vec![3]), "another VMA");
    assert_eq!(beside(&[3], 0..1024, 512, 504..512), (None, vec![3]), "another page table");
}

#[test]
fn the_top_alone_may_be_looked_at() {
    let fits = |search, populated: u64| {
        let is_populated = |window: Range<u64>| window.contains(&populated);
        fitting(search, Orders::of(&[4, 3]), &(0..64), 12, is_populated).highest()
    };
    assert_eq!([2, 17].map(|page| fits(Search::TopOnly, page)), [None, Some(4)]);
    assert_eq!([2, 17].map(|page| fits(Search::PerCandidate, page)), [Some(3), Some(4)]);
}

#[test]
fn what_follows_a_failure() {
    let next = |name, order, failure| {
        let rest = after_failure(&features(name), Orders::of(&[4, 3, 2]), order, failure);
        rest.map(|rest| rest.highest().unwrap_or(0))
    };
    for (name, no_block, no_room) in [
        ("folios-v1", Some(3), None),
        ("folios-v2", Some(0), None),
        ("folios-v2-simple", Some(0), None),
        ("folios-v3", Some(3), None),
        ("folios-v5", Some(3), None),
        ("folios-6.8", Some(3), None),
        ("folios-6.12", Some(3), Some(3)),
        ("folios-7.2", Some(3), Some(3)),
    ] {
        assert_eq!(next(name, 4, Failure::NoBlock), no_block, "{name}");
        assert_eq!(next(name, 4, Failure::NoRoom), no_room, "{name}");
        assert_eq!(next(name, 0, Failure::NoBlock), None, "{name}: a single page");
    }
    assert_eq!(next("folios-v1", 2, Failure::NoBlock), Some(0), "no folio has order 1 here");
}

#[test]
fn how_far_the_allocator_goes() {
    const LIGHT: Effort = Effort::LIGHT;
    const WAKES: Effort = Effort { wakes: true, ..LIGHT };
    const DIRECT: Effort = Effort { direct: true, ..LIGHT };
    for (defrag, plain, huge) in [
        (Defrag::Always, Effort { no_retry: true, ..DIRECT }, DIRECT),
        (Defrag::Defer, WAKES, WAKES),
        (Defrag::DeferMadvise, WAKES, DIRECT),
        (Defrag::Madvise, LIGHT, DIRECT),
        (Defrag::Never, LIGHT, LIGHT),
    ] {
        let thp = ThpSettings { defrag, ..ThpSettings::default() };
        for name in ["folios-v2", "folios-v3", "folios-6.8", "folios-7.2"] {
            let of = |advice| effort(&features(name), &thp, &advised(advice));
            assert_eq!((of(Advice::None), of(Advice::Huge)), (plain, huge), "{name} {defrag:?}");
        }
        let ordinary = Effort { no_retry: true, ..Effort::ORDINARY };
        assert_eq!(effort(&features("folios-v1"), &thp, &advised(Advice::None)), ordinary);
    }
}

#[test]
fn the_step_before_a_page_table() {
    for (size, order) in SIZES_OF_HUGE_PAGES {
        let pages = 1u64 << order;
        let step = |order: u8, vma: Range<u64>, write, use_zero_page| {
            let thp = ThpSettings { use_zero_page, ..ThpSettings::new(size) };
            pmd_step(&thp, Orders::of(&[order, 4]), &vma, pages + 188, write)
        };
        assert_eq!(step(order, pages..2 * pages, true, true), PmdStep::Folio);
        assert_eq!(step(order, pages..2 * pages, false, true), PmdStep::Zeroes);
        assert_eq!(step(order, pages..2 * pages, false, false), PmdStep::Folio);
        assert_eq!(step(order, pages + 1..2 * pages, true, true), PmdStep::Pass);
        assert_eq!(step(order, pages..2 * pages - 1, true, true), PmdStep::Pass);
        assert_eq!(step(order - 1, pages..2 * pages, true, true), PmdStep::Pass);
    }
}

#[test]
fn smaps_looks_at_the_end_of_a_vma() {
    let f = features("folios-6.8");
    let eligible = |modes: &[(u8, Mode)], vma| {
        is_thp_eligible(&f, &with_modes(modes, Enabled::Madvise), &VmaState::default(), &vma)
    };
    assert!(eligible(&[(4, Mode::Always)], 0..16) && !eligible(&[(4, Mode::Always)], 1..17));
    assert!(
        !eligible(&[(4, Mode::Always)], 0..15) && eligible(&[(4, Mode::Always), (2, Mode::Always)], 0..15)
    );
    assert!(!eligible(&[(4, Mode::Always)], 0..8), "a VMA smaller than the folio");
    assert!(!eligible(&[(4, Mode::Inherit)], 0..16));
}

#[test]
fn who_writes_in_place_after_fork() {
    for (name, whole_large) in
        [("folios-6.8", false), ("folios-6.12", false), ("mainline-6.15", true), ("folios-7.2", true)]
    {
        let f = features(name);
        assert_eq!(is_reused(&f, false, false, true), whole_large, "{name}");
        assert!(is_reused(&f, false, true, false) && is_reused(&f, true, false, true), "{name}");
        assert!(!is_reused(&f, true, false, false) && !is_reused(&f, false, false, false), "{name}");
    }
}

#[test]
fn what_waits_to_be_split() {
    let partly = Unmapped { order: 4, lost: 1, mapped: 15, in_swap_cache: false };
    assert!(defers_split(partly));
    assert!(!defers_split(Unmapped { lost: 16, mapped: 0, ..partly }), "no page of it is mapped");
    assert!(!defers_split(Unmapped { lost: 0, mapped: 16, ..partly }));
    assert!(!defers_split(Unmapped { in_swap_cache: true, ..partly }));
    assert!(!defers_split(Unmapped { order: 0, mapped: 0, ..partly }));
    for (size, order) in SIZES_OF_HUGE_PAGES {
        let pages = 1 << order;
        let of = |max_ptes_none, zeroes| {
            let khugepaged = Khugepaged { max_ptes_none, ..ThpSettings::new(size).khugepaged };
            is_underused(&ThpSettings { khugepaged, ..ThpSettings::new(size) }, zeroes)
        };
        assert!(!of(pages - 1, pages), "max_ptes_none at its maximum turns it off");
        assert_eq!([0, 1, 409, 410].map(|zeroes| of(409, zeroes)), [false, false, false, true]);
    }
}

#[test]
fn khugepaged_runs_where_a_huge_page_may_be_wanted() {
    for (mode, expected) in [
        (Mode::Inherit, [false, true, true]),
        (Mode::Madvise, [true; 3]),
        (Mode::Always, [true; 3]),
        (Mode::Never, [false; 3]),
    ] {
        for (size, order) in SIZES_OF_HUGE_PAGES {
            let runs = |name, enabled| {
                let mut thp = ThpSettings { enabled, ..ThpSettings::new(size) };
                thp.set_mode(order, mode);
                runs_khugepaged(&features(name), &thp)
            };
            assert_eq!(KNOB.map(|enabled| runs("folios-6.8", enabled)), expected, "{mode:?}");
            assert_eq!(KNOB.map(|enabled| runs("folios-base", enabled)), [false, true, true]);
        }
    }
}

/// The rule in its shortest form: the largest order whose aligned window lies inside the VMA and is empty.
fn by_definition(orders: &[u8], vma: &Range<u64>, page: u64, populated: &[u64]) -> Option<u8> {
    let fits = |order: u8| {
        (0..1u64 << order).all(|i| {
            let page = page / (1 << order) * (1 << order) + i;
            vma.contains(&page) && !populated.contains(&page)
        })
    };
    orders.iter().copied().filter(|&order| fits(order)).max()
}

proptest! {
    #[test]
    fn fits_by_definition(
        mask in prop::collection::vec(2u8..9, 0..5),
        start in 0u64..600,
        length in 1u64..700,
        offset in 0u64..700,
        populated in prop::collection::vec(0u64..1300, 0..6),
    ) {
        let vma = start..start + length;
        let page = start + offset % length;
        prop_assume!(!populated.contains(&page));
        let found = fit(&mask, vma.clone(), page, &populated);
        prop_assert_eq!(found, by_definition(&mask, &vma, page, &populated));
        if let Some(order) = found {
            let window = window(page, order);
            prop_assert!(window.start.is_multiple_of(1 << order) && order != 1);
            prop_assert!(window.start / 512 == (window.end - 1) / 512, "within a page table");
        }
    }

    /// With memory to spare v1, v2 and chain({4, 3, 2}) make the same folios; with no size enabled a kernel
    /// makes those from before the series.
    #[test]
    fn best_fit_is_a_walk_down_the_list(
        start in 0u64..64,
        length in 1u64..64,
        offset in 0u64..64,
        populated in prop::collection::vec(0u64..128, 0..6),
    ) {
        let (vma, page) = (start..start + length, start + offset % length);
        let of = |name| {
            let orders = candidates(&features(name), &settings(name, Enabled::Madvise), &VmaState::default());
            fit(&orders.descending().collect::<Vec<_>>(), vma.clone(), page, &populated)
        };
        prop_assert_eq!(of("folios-v1"), of("folios-v2"));
        prop_assert_eq!(of("folios-v2"), of("folios-v9-64k-32k-16k"));
        prop_assert_eq!(of("folios-v3"), of("folios-v9-64k-32k"));
        prop_assert_eq!(of("folios-v2-simple"), of("folios-v9-64k"));
        prop_assert_eq!(of("folios-6.8"), of("folios-base"));
        prop_assert!(of("folios-v2-simple") <= of("folios-v3") && of("folios-v3") <= of("folios-v2"));
    }
}

#[test]
fn any_chain_is_a_variant() {
    let f = FolioFeatures {
        candidates: Candidates::List(Orders::of(&[4, 2])),
        search: Search::TopOnly,
        allocation: Allocation::Once,
        ..features("folios-v2")
    };
    let orders = candidates(&f, &ThpSettings::default(), &VmaState::default());
    assert_eq!(orders, Orders::of(&[4, 2]));
    assert_eq!(after_failure(&f, orders, 4, Failure::NoBlock), Some(Orders::NONE));
    let top = FolioFeatures { candidates: Candidates::DownFrom(FolioSize::Order(0)), ..f };
    assert_eq!(
        candidates(&top, &ThpSettings::default(), &VmaState::default()),
        Orders::NONE,
        "v2 with 0 is folios-base"
    );
}
