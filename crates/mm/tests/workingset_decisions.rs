//! Decisions about refaults, in exact numbers, for every variant of the series.

use mm::lru::mmzone::LruType;
use mm::lru::mmzone::{LruType::Anon, LruType::File};
use mm::mglru::policy::{asks_bloom_filter, last_tier, type_to_scan};
use mm::vmscan::features::{
    EvictionLoop, FlusherRule, GenFeatures, Lru, Placement, ProactiveBatch, ReclaimFeatures,
};
use mm::workingset::policy::{
    self, Feedback, FolioUse, LruSizes, LruvecState, Origin, Refault, TierCounts, carry_over, folio_refs,
    is_within, refault_distance, tier,
};
use mm::workingset::shadow::{Shadow, ShadowLayout};
use mm::{Series, Variant};
use proptest::prelude::*;

const MULTI_GEN: [&str; 12] = [
    "mglru-6.1",
    "mglru-6.5",
    "refault-distance-1",
    "refault-distance-2",
    "refault-distance-3",
    "refault-distance-4",
    "refault-distance-5",
    "refault-distance-6-v3",
    "refault-distance-6",
    "mglru-6.7",
    "mglru-6.14",
    "mglru-7.2",
];
/// 32 GiB.
const PAGES: u64 = 8 << 20;

fn features(variant: &str) -> ReclaimFeatures {
    let variant = Series::RECLAIM.variant(variant).unwrap_or_else(|| panic!("{variant}"));
    let off = variant.settings.contains(&("lru_gen/enabled", "0"));
    if off { variant.features.reclaim.classic() } else { variant.features.reclaim }
}

fn generations(variant: &str) -> GenFeatures {
    let Lru::MultiGen(f) = features(variant).lru else { panic!("the multi-gen LRU is on") };
    f
}

fn layout(variant: &str, nodes_shift: u32, pages: u64) -> ShadowLayout {
    ShadowLayout::new(&features(variant), nodes_shift, pages).unwrap()
}

fn sizes(active_anon: u64, inactive_anon: u64, active_file: u64, inactive_file: u64) -> LruSizes {
    LruSizes { active_anon, inactive_anon, active_file, inactive_file, has_swap: true }
}

fn flags(referenced: bool, workingset: bool, refs: u8) -> FolioUse {
    FolioUse { referenced, workingset, refs }
}

/// The refault of a file page that was evicted when the lruvec was in state `then`, and is read in by the
/// same memory cgroup in state `now`.
fn back(variant: &str, folio: FolioUse, then: &LruvecState, now: &LruvecState, in_fault: bool) -> Refault {
    let f = features(variant);
    let layout = layout(variant, 10, PAGES);
    let left = policy::eviction(&f, &layout, File, then, folio);
    let shadow = Shadow { memcg: 7, node: 1, eviction: left.stamp, workingset: left.workingset };
    let shadow = layout.unpack(layout.pack(File, &shadow));
    let origin = Origin { lruvec: now, memcg_exists: true, is_folio_s: true };
    policy::refault(&f, &layout, File, &shadow, &origin, in_fault)
}

// Shadows

#[test]
fn eviction_has_the_bits_that_nodes_and_memcg_leave() {
    for (nodes_shift, bits, gen_bits) in [(6, 40, 35), (10, 36, 31), (0, 46, 41)] {
        let layout = layout("refault-distance-6", nodes_shift, PAGES);
        assert_eq!((layout.eviction_bits(File), layout.eviction_bits(Anon)), (bits, bits));
        assert_eq!(layout.gen_eviction_bits(), gen_bits);
    }
    let later = layout("mglru-7.2", 10, PAGES);
    assert_eq!((later.eviction_bits(File), later.eviction_bits(Anon)), (36, 31));
    assert_eq!(ShadowLayout::new(&features("classic"), 11, PAGES), None);
}

#[test]
fn buckets_begin_where_memory_has_more_pages_than_numbers() {
    let orders = |pages| {
        let layout = layout("refault-distance-6", 10, pages);
        (layout.bucket_order(File), layout.gen_bucket_order())
    };
    assert_eq!(orders(PAGES), (0, 0));
    assert_eq!(orders(1 << 31), (0, 0));
    assert_eq!(orders((1 << 31) + 1), (0, 1));
    assert_eq!(orders(1 << 36), (0, 5));
    assert_eq!(orders(1 << 37), (1, 6));
    assert_eq!([0, 1].map(orders), [(0, 0); 2]);
    let later = layout("mglru-7.2", 10, 1 << 37);
    assert_eq!((later.bucket_order(File), later.bucket_order(Anon)), (1, 6));
}

#[test]
fn shadows_are_packed_bit_by_bit() {
    let shadow = Shadow { memcg: 0xabcd, node: 5, eviction: 0x3_1234_5678, workingset: true };
    let value = layout("classic", 6, PAGES).pack(File, &shadow);
    assert_eq!(value, 0x3_1234_5678 << 23 | 0xabcd << 7 | 5 << 1 | 1);
    let value = layout("classic", 10, PAGES).pack(File, &shadow);
    assert_eq!(value, 0x3_1234_5678 << 27 | 0xabcd << 11 | 5 << 1 | 1);
}

proptest! {
    #[test]
    fn what_fits_into_a_shadow_comes_out_again(
        nodes_shift in 0u32..=10, memcg: u16, node: u16, eviction: u64, workingset: bool, file: bool, mglru_7_2: bool,
    ) {
        let layout = layout(if mglru_7_2 { "mglru-7.2" } else { "classic" }, nodes_shift, PAGES);
        let lru_type = LruType::ALL[usize::from(file)];
        let value = layout.pack(lru_type, &Shadow { memcg, node, eviction, workingset });
        prop_assert!(value < 1 << 63, "the xarray takes 63 bits");
        let node = (u32::from(node) % (1 << nodes_shift)) as u16;
        let eviction = eviction % (1 << layout.eviction_bits(lru_type));
        prop_assert_eq!(layout.unpack(value), Shadow { memcg, node, eviction, workingset });
    }

    /// Either LRU reads shadows that the other one made before `lru_gen/enabled` changed: they mean something
    /// else, but do no harm.
    #[test]
    fn any_bits_can_be_read(
        value: u64, age: u64, seq: u64, pages: [u64; 4], file: bool, bools: [bool; 4], nodes_shift in 0u32..=10,
        total: u64,
    ) {
        let [in_fault, memcg_exists, is_folio_s, has_swap] = bools;
        let [active_anon, inactive_anon, active_file, inactive_file] = pages;
        let sizes = LruSizes { active_anon, inactive_anon, active_file, inactive_file, has_swap };
        let lruvec = LruvecState { nonresident_age: age, min_seq: [seq; 2], max_seq: seq, sizes };
        let origin = Origin { lruvec: &lruvec, memcg_exists, is_folio_s };
        let lru_type = LruType::ALL[usize::from(file)];
        for variant in Series::RECLAIM.variants() {
            let f = variant.features.reclaim;
            let layout = ShadowLayout::new(&f, nodes_shift, total).unwrap();
            let done = policy::refault(&f, &layout, lru_type, &layout.unpack(value), &origin, in_fault);
            prop_assert!(done.counted || done == Refault::NOTHING);
            if let Feedback::Current(tier) | Feedback::Average(tier) = done.feedback {
                prop_assert!(tier < 4 && f.lru != Lru::Classic);
            }
        }
    }
}

// Distances

#[test]
fn distances_wrap_and_buckets_take_range() {
    assert_eq!(refault_distance(36, 0, 100, 150), 50);
    assert_eq!(refault_distance(36, 0, (1 << 36) - 10, (1 << 36) + 5), 15);
    // A shadow that the age has lapped looks young.
    assert_eq!(refault_distance(36, 0, 100, (1 << 36) + 101), 1);
    // With a unit of two pages, the same field covers twice as many pages.
    let age = 3u64 << 35;
    assert_eq!(refault_distance(36, 1, age >> 1, age + (1 << 35)), 1 << 35);
    assert_eq!(refault_distance(36, 1, age >> 1, age + (1 << 36)), 0);
}

proptest! {
    #[test]
    fn a_distance_is_a_difference_modulo_the_field(
        bits in 31u32..=46, bucket_order in 0u32..=8, then in 0u64..1 << 60, gone in 0u64..1 << 40,
    ) {
        let unit = 1i128 << bucket_order;
        let stored = (i128::from(then) / unit).rem_euclid(1 << bits);
        let expected = (i128::from(then + gone) - stored * unit).rem_euclid(1 << bits);
        let distance = refault_distance(bits, bucket_order, stored as u64, then + gone);
        prop_assert_eq!(i128::from(distance), expected);
    }

    /// The wording of patch 1, with SP for the distance, compared with the formula.
    #[test]
    fn rule_r_is_what_the_mail_says(distance in 0u64..60, pages in [0u64..20, 0..20, 0..20, 0..20], swap: bool) {
        let rule = features("refault-distance-1").distance_rule;
        let [active_anon, inactive_anon, active_file, inactive_file] = pages;
        let sizes = LruSizes { active_anon, inactive_anon, active_file, inactive_file, has_swap: swap };
        let (nr_active, nr_inactive) =
            if swap { (active_anon + active_file, inactive_anon + inactive_file) } else { (active_file, inactive_file) };
        let other = [inactive_file, if swap { inactive_anon } else { 0 }];
        for lru_type in LruType::ALL {
            let expected = if nr_active < nr_inactive {
                distance < nr_active + other[lru_type as usize]
            } else {
                distance < nr_inactive
            };
            prop_assert_eq!(is_within(rule, lru_type, distance, &sizes), expected);
            // It never accepts a distance that the rule before did not.
            let before = is_within(features("classic").distance_rule, lru_type, distance, &sizes);
            prop_assert!(before || !expected);
        }
    }
}

#[test]
fn a_page_competes_with_the_working_set() {
    let limit = |variant: &str, lru_type, sizes: LruSizes| {
        let rule = features(variant).distance_rule;
        (0..).find(|&distance| !is_within(rule, lru_type, distance, &sizes)).unwrap()
    };
    let swap = sizes(10, 20, 30, 400);
    let none = LruSizes { has_swap: false, ..swap };
    // The first distance that is too large: one more than the size, or the size itself with "less than".
    assert_eq!((limit("classic", File, swap), limit("classic", File, none)), (61, 31));
    assert_eq!((limit("classic", Anon, swap), limit("classic", Anon, none)), (441, 431));
    // 40 active, 420 inactive.
    assert_eq!((limit("refault-distance-1", File, swap), limit("refault-distance-1", File, none)), (60, 30));
    assert_eq!(
        (limit("refault-distance-1", Anon, swap), limit("refault-distance-1", Anon, none)),
        (440, 430)
    );
    // As many active as inactive pages: throttled. Without swap only file pages are compared.
    let even = sizes(10, 20, 60, 50);
    assert_eq!((limit("refault-distance-1", File, even), limit("refault-distance-1", Anon, even)), (70, 70));
    let none = LruSizes { has_swap: false, ..even };
    assert_eq!((limit("refault-distance-1", File, none), limit("refault-distance-1", Anon, none)), (50, 50));
    let one_less = sizes(9, 20, 60, 50);
    assert_eq!(
        (limit("refault-distance-1", File, one_less), limit("refault-distance-1", Anon, one_less)),
        (89, 119)
    );
    // No inactive pages: no distance is small enough.
    assert_eq!(
        (limit("refault-distance-1", File, sizes(0, 0, 50, 0)), limit("classic", File, sizes(0, 0, 50, 0))),
        (0, 51)
    );
}

// Classic refaults

#[test]
fn a_classic_refault_within_the_distance_activates() {
    let then = LruvecState { nonresident_age: 1000, ..LruvecState::default() };
    let now = |age| LruvecState { nonresident_age: age, sizes: sizes(0, 0, 50, 60), ..then };
    let once = flags(true, false, 0);
    let activated =
        Refault { counted: true, activate: true, set_active: true, ages: true, ..Refault::NOTHING };
    assert_eq!(back("classic", once, &then, &now(1050), false), activated);
    assert_eq!(
        back("classic", flags(true, true, 0), &then, &now(1050), true),
        Refault { restore: true, set_workingset: true, costs: true, ..activated }
    );
    assert_eq!(
        back("classic", once, &then, &now(1051), false),
        Refault { counted: true, ..Refault::NOTHING }
    );
}

#[test]
fn the_series_ages_classic_shadows_by_evictions_only() {
    let lruvec = LruvecState { nonresident_age: 10, sizes: sizes(0, 0, 50, 60), ..LruvecState::default() };
    let layout = layout("classic", 10, PAGES);
    let shadow = Shadow { memcg: 1, node: 0, eviction: 0, workingset: false };
    let origin = Origin { lruvec: &lruvec, memcg_exists: true, is_folio_s: false };
    for variant in ["classic", "mglru-6.1", "mglru-6.5", "mglru-6.7", "mglru-6.14", "mglru-7.2"] {
        let f = features(variant).classic();
        assert_eq!((f.ages_on_activation, f.lru), (true, Lru::Classic), "{variant}");
        assert!(policy::eviction(&f, &layout, File, &lruvec, flags(false, false, 0)).ages);
        assert!(policy::refault(&f, &layout, File, &shadow, &origin, false).ages, "{variant}");
    }
    for variant in [
        "refault-distance-1",
        "refault-distance-2",
        "refault-distance-3",
        "refault-distance-4",
        "refault-distance-5",
        "refault-distance-6-v3",
        "refault-distance-6",
    ] {
        let f = features(variant).classic();
        assert!(!f.ages_on_activation, "{variant}");
        assert!(policy::eviction(&f, &layout, File, &lruvec, flags(false, false, 0)).ages);
        let done = policy::refault(&f, &layout, File, &shadow, &origin, false);
        assert!(done.activate && !done.ages, "{variant}");
    }
    let gone = Origin { memcg_exists: false, ..origin };
    assert!(!policy::refault(&features("classic"), &layout, File, &shadow, &gone, false).activate);
}

// Multi-gen refaults

#[test]
fn tiers_grow_with_the_logarithm_of_accesses() {
    let tiers =
        |variant: &str, workingset| [0, 1, 2, 3, 4].map(|refs| tier(&generations(variant), refs, workingset));
    for variant in ["mglru-6.1", "mglru-6.5", "mglru-6.7", "refault-distance-6"] {
        assert_eq!(tiers(variant, false), [0, 1, 2, 2, 3], "{variant}");
        assert_eq!(tiers(variant, true), [0, 1, 2, 2, 3], "{variant}");
        let f = generations(variant);
        assert_eq!(
            [(false, 0), (true, 0), (true, 3)].map(|(w, r)| folio_refs(&f, flags(true, w, r))),
            [0, 1, 4]
        );
    }
    for variant in ["mglru-6.14", "mglru-7.2"] {
        assert_eq!(tiers(variant, false), [0, 0, 1, 2, 2], "{variant}");
        assert_eq!(tiers(variant, true), [3; 5], "{variant}");
        let f = generations(variant);
        assert_eq!(
            [(false, 3), (true, 0), (true, 3)].map(|(r, n)| folio_refs(&f, flags(r, true, n))),
            [0, 1, 4]
        );
    }
}

#[test]
fn multi_gen_shadows_hold_generation_and_accesses() {
    let lruvec = LruvecState { nonresident_age: 77, min_seq: [4, 9], max_seq: 12, ..LruvecState::default() };
    let stamp = |variant: &str, lru_type, folio| {
        let left =
            policy::eviction(&features(variant), &layout(variant, 10, PAGES), lru_type, &lruvec, folio);
        (left.stamp, left.workingset, left.tier.unwrap(), left.ages)
    };
    for variant in ["mglru-6.1", "mglru-6.5", "mglru-6.7", "refault-distance-5"] {
        assert_eq!(stamp(variant, File, flags(false, false, 0)), (9 << 2, false, 0, false), "{variant}");
        assert_eq!(stamp(variant, File, flags(true, true, 0)), (9 << 2, true, 1, false), "{variant}");
        assert_eq!(stamp(variant, File, flags(true, true, 3)), (9 << 2 | 3, true, 3, false), "{variant}");
        assert_eq!(stamp(variant, Anon, flags(true, true, 2)), (4 << 2 | 2, true, 2, false), "{variant}");
        // The workingset bit of a shadow is set by any access here.
        assert_eq!(stamp(variant, File, flags(true, false, 1)), (9 << 2, true, 1, false), "{variant}");
    }
    for variant in ["mglru-6.14", "mglru-7.2"] {
        assert_eq!(stamp(variant, File, flags(true, false, 3)), (9 << 2 | 3, false, 2, false), "{variant}");
        assert_eq!(stamp(variant, File, flags(true, true, 1)), (9 << 2 | 1, true, 3, false), "{variant}");
        assert_eq!(stamp(variant, File, flags(false, false, 2)), (9 << 2, false, 0, false), "{variant}");
    }
    // refault-distance-6: 3 bits of generation 9, 2 bits of accesses, then the age.
    for variant in ["refault-distance-6", "refault-distance-6-v3"] {
        let stored = (1 << 2 | 2) << 31 | 77;
        assert_eq!(stamp(variant, File, flags(true, true, 2)), (stored, true, 2, true), "{variant}");
    }
}

/// A file page evicted from generation 9 and read again when the oldest generation is `oldest` and the
/// youngest is 3 more.
fn generation_later(variant: &str, folio: FolioUse, oldest: u64, in_fault: bool) -> Refault {
    let then = LruvecState { min_seq: [0, 9], max_seq: 12, ..LruvecState::default() };
    let now = LruvecState { min_seq: [0, oldest], max_seq: oldest + 3, nonresident_age: 1 << 20, ..then };
    back(variant, folio, &then, &now, in_fault)
}

#[test]
fn recent_is_the_oldest_generation_and_later_the_last_four() {
    let recent: Vec<bool> = [9, 10, 8]
        .map(|oldest| generation_later("mglru-6.5", flags(true, true, 0), oldest, false))
        .map(|done| done.feedback != Feedback::None)
        .to_vec();
    assert_eq!(recent, [true, false, false]);
    for variant in ["mglru-6.14", "mglru-7.2"] {
        let recent = [9, 10, 6, 3, 2].map(|oldest| {
            generation_later(variant, flags(true, true, 0), oldest, false).feedback != Feedback::None
        });
        // The youngest generation is 12, 13, 9, 6 and 5; the shadow has 9.
        assert_eq!(recent, [true, false, true, true, false], "{variant}");
    }
}

#[test]
fn each_type_has_its_oldest_generation() {
    let lruvec = LruvecState { min_seq: [4, 6], max_seq: 7, ..LruvecState::default() };
    let origin = Origin { lruvec: &lruvec, memcg_exists: true, is_folio_s: true };
    let f = features("mglru-6.5");
    let layout = layout("mglru-6.5", 10, PAGES);
    let recent = |lru_type, seq: u64| {
        let shadow = Shadow { memcg: 1, node: 0, eviction: seq << 2, workingset: false };
        policy::test_recent(&f, &layout, lru_type, &shadow, &origin)
    };
    assert_eq!([4, 6].map(|seq| recent(Anon, seq)), [true, false]);
    assert_eq!([4, 6].map(|seq| recent(File, seq)), [false, true]);
}

#[test]
fn generations_are_compared_in_the_bits_that_shadows_have_for_them() {
    // 36 bits, two of which are accesses.
    let end = 1u64 << 34;
    for variant in ["mglru-6.5", "mglru-6.14"] {
        let recent = |evicted: u64, oldest: u64| {
            let then = LruvecState { min_seq: [0, evicted], ..LruvecState::default() };
            let now = LruvecState { min_seq: [0, oldest], max_seq: oldest + 3, ..then };
            back(variant, flags(false, false, 0), &then, &now, false).feedback != Feedback::None
        };
        assert!(recent(end + 5, end + 5) && recent(5, end + 5), "{variant}");
        // The difference is that of the truncated numbers: it is large if they wrapped between the two.
        assert_eq!(recent(end - 2, end - 2), variant == "mglru-6.5", "{variant}");
    }
}

#[test]
fn what_a_recent_refault_does_in_each_kernel() {
    let plain = flags(false, false, 0);
    let twice = flags(true, true, 1);
    let often = flags(true, true, 2);
    let most = flags(true, true, 3);
    let done = |variant, folio, in_fault| {
        let done = generation_later(variant, folio, 9, in_fault);
        assert!(done.counted && !done.set_active && !done.ages && !done.costs);
        assert_eq!(done.restore, done.set_workingset);
        (done.activate, done.restore, done.set_refs, done.feedback)
    };
    use Feedback::Current;
    for (variant, activate) in [("mglru-6.1", false), ("mglru-6.5", true), ("refault-distance-5", true)] {
        assert_eq!(done(variant, plain, false), (activate, false, None, Current(0)));
        assert_eq!(done(variant, plain, true), (activate, true, None, Current(0)));
        assert_eq!(done(variant, often, false), (activate, false, None, Current(2)));
        assert_eq!(done(variant, most, false), (activate, true, None, Current(3)));
    }
    assert_eq!(done("mglru-6.7", plain, false), (true, false, None, Current(0)));
    assert_eq!(done("mglru-6.7", plain, true), (true, true, Some(3), Current(0)));
    assert_eq!(done("mglru-6.7", twice, false), (true, false, None, Current(2)));
    assert_eq!(done("mglru-6.7", often, false), (true, true, Some(3), Current(2)));
    assert_eq!(done("mglru-6.7", most, false), (true, true, Some(3), Current(3)));
    let counted = flags(true, false, 3);
    assert_eq!(done("mglru-6.14", plain, false), (false, false, Some(0), Current(0)));
    assert_eq!(done("mglru-6.14", counted, false), (false, false, Some(3), Current(2)));
    assert_eq!(done("mglru-6.14", counted, true), (true, false, Some(3), Current(2)));
    assert_eq!(done("mglru-6.14", twice, false), (false, true, None, Current(3)));
    assert_eq!(done("mglru-7.2", counted, true), (false, false, Some(3), Current(2)));
    assert_eq!(done("mglru-7.2", twice, true), (true, true, None, Current(3)));
    assert_eq!(done("mglru-7.2", twice, false), (false, true, None, Current(3)));
}

#[test]
fn refaults_that_are_not_recent_are_counted_from_6_5_on() {
    for (variant, counted) in [
        ("mglru-6.1", false),
        ("mglru-6.5", true),
        ("refault-distance-5", true),
        ("mglru-6.7", true),
        ("mglru-6.14", true),
    ] {
        let done = generation_later(variant, flags(true, true, 3), 20, true);
        assert_eq!(done, Refault { counted, ..Refault::NOTHING }, "{variant}");
    }
}

#[test]
fn another_memory_cgroup_s_shadow_is_ignored() {
    let lruvec = LruvecState { sizes: sizes(9, 9, 9, 9), ..LruvecState::default() };
    let shadow = Shadow { memcg: 1, node: 0, eviction: 0, workingset: true };
    let origin = Origin { lruvec: &lruvec, memcg_exists: true, is_folio_s: false };
    for variant in MULTI_GEN {
        let layout = layout(variant, 10, PAGES);
        let done = policy::refault(&features(variant), &layout, File, &shadow, &origin, true);
        assert_eq!(done, Refault::NOTHING, "{variant}");
    }
}

#[test]
fn from_rfc4_on_a_gone_memory_cgroup_s_shadow_is_not_recent() {
    let root = LruvecState::default();
    let shadow = Shadow { memcg: 1, node: 0, eviction: 0, workingset: true };
    let gone = Origin { lruvec: &root, memcg_exists: false, is_folio_s: false };
    let recent = |variant: &str| {
        policy::test_recent(&features(variant), &layout(variant, 10, PAGES), File, &shadow, &gone)
    };
    let asked_root: Vec<&str> = MULTI_GEN.into_iter().filter(|variant| recent(variant)).collect();
    assert_eq!(
        asked_root,
        [
            "mglru-6.1",
            "mglru-6.5",
            "refault-distance-1",
            "refault-distance-2",
            "refault-distance-3",
            "mglru-6.7",
            "mglru-6.14",
            "mglru-7.2"
        ]
    );
}

// The sixth patch

/// A file page evicted from generation `seq` and read again `distance` evictions later, with 100 of 250 pages
/// active.
fn distance_later(variant: &str, folio: FolioUse, seq: [u64; 2], distance: u64, in_fault: bool) -> Refault {
    let then =
        LruvecState { nonresident_age: 5000, min_seq: [0, seq[0]], max_seq: 12, ..LruvecState::default() };
    let now = LruvecState {
        nonresident_age: 5000 + distance,
        min_seq: [0, seq[1]],
        sizes: sizes(40, 50, 60, 100),
        ..then
    };
    back(variant, folio, &then, &now, in_fault)
}

#[test]
fn rfc6_promotes_within_the_distance() {
    let plain = flags(false, false, 0);
    let within = Refault {
        counted: true,
        activate: true,
        restore: true,
        set_workingset: true,
        feedback: Feedback::Current(1),
        ..Refault::NOTHING
    };
    for variant in ["refault-distance-6", "refault-distance-6-v3"] {
        let done = |folio, oldest, distance, in_fault| {
            distance_later(variant, folio, [2, oldest], distance, in_fault)
        };
        // 100 active and 150 inactive pages: up to 149, with active and inactive anonymous pages.
        assert_eq!(done(plain, 2, 149, false), within);
        assert_eq!(done(plain, 3, 149, false), Refault { feedback: Feedback::Average(1), ..within });
        // Only recent: as before, except for workingset_activate.
        let recent = Refault { counted: true, feedback: Feedback::Current(0), ..Refault::NOTHING };
        assert_eq!(done(plain, 2, 150, false), recent);
        assert_eq!(done(plain, 2, 150, true), Refault { restore: true, set_workingset: true, ..recent });
        // Neither recent nor within the distance.
        assert_eq!(done(plain, 3, 150, true), Refault { counted: true, ..Refault::NOTHING });
        // Used before: to the youngest generation, and a tier higher, up to the last.
        for (refs, tier) in [(0, 2), (1, 2), (2, 3), (3, 3)] {
            let used = flags(true, true, refs);
            let expected = Refault { set_active: true, feedback: Feedback::Current(tier), ..within };
            assert_eq!(done(used, 2, 0, false), expected, "{variant} {refs}");
        }
        // All accesses: restored because of these alone.
        let all = Refault { restore: true, set_workingset: true, feedback: Feedback::Current(3), ..recent };
        assert_eq!(done(flags(true, true, 3), 2, 150, false), all);
    }
}

#[test]
fn rfc6_as_posted_has_no_recent_page_from_generation_8_on() {
    let recent = |variant: &str, seq: u64| {
        let done = distance_later(variant, flags(false, false, 0), [seq, seq], 0, false);
        done.feedback == Feedback::Current(1)
    };
    let generations: Vec<u64> = (0..20).filter(|&seq| recent("refault-distance-6-v3", seq)).collect();
    assert_eq!(generations, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((0..20).all(|seq| recent("refault-distance-6", seq)));
}

#[test]
fn averages_are_halved_and_rfc6_keeps_totals_above_refaults() {
    let average = TierCounts { refaulted: 31, total: 40 };
    let current = TierCounts { refaulted: 80, total: 21 };
    for variant in MULTI_GEN {
        let total = if variant.starts_with("refault-distance-6") { 55 } else { 30 };
        let carried = carry_over(&generations(variant), average, current);
        assert_eq!(carried, TierCounts { refaulted: 55, total }, "{variant}");
    }
}

// Names

#[test]
fn patches_2_3_and_5_change_no_decision() {
    for [one, other] in [
        ["refault-distance-1", "refault-distance-2"],
        ["refault-distance-2", "refault-distance-3"],
        ["refault-distance-4", "refault-distance-5"],
    ] {
        assert_eq!(features(one), features(other));
    }
    for later in [
        "refault-distance-2-classic",
        "refault-distance-3-classic",
        "refault-distance-4-classic",
        "refault-distance-5-classic",
        "refault-distance-6-classic",
    ] {
        assert_eq!(features(later), features("refault-distance-1-classic"), "{later}");
    }
    let changed = [
        "classic",
        "mglru-6.1",
        "mglru-6.5",
        "refault-distance-1",
        "refault-distance-4",
        "refault-distance-6-v3",
        "refault-distance-6",
        "mglru-6.7",
        "mglru-6.14",
        "mglru-7.2",
    ]
    .map(features);
    for (at, one) in changed.iter().enumerate() {
        assert!(!changed[..at].contains(one), "{one:?}");
    }
}

#[test]
fn mechanisms_of_the_multi_gen_lru_can_be_switched_off_alone() {
    for variant in ["mglru-6.1", "mglru-6.7", "mglru-6.14"] {
        let f = generations(variant);
        let refaulting = [
            TierCounts { refaulted: 100, total: 1000 },
            TierCounts { refaulted: 900, total: 1000 },
            TierCounts::default(),
            TierCounts::default(),
        ];
        assert!(tier(&f, 3, false) > 0 && last_tier(&f, &refaulting) == 0, "{variant}");
        let no_tiers = GenFeatures { tiers: false, ..f };
        assert_eq!(tier(&no_tiers, 3, true), 0, "{variant}");
        let no_controller = GenFeatures { pid_controller: false, ..f };
        assert_eq!(last_tier(&no_controller, &refaulting), 3, "{variant}");
        for (swappiness, lru_type) in [(0, LruType::File), (100, LruType::File), (101, LruType::Anon)] {
            let (chosen, last) = type_to_scan(&no_controller, swappiness, [5, 5], &[refaulting; 2]);
            assert_eq!((chosen, last), (lru_type, Some(3)), "{variant}, {swappiness}");
        }
        assert!(asks_bloom_filter(&f, false) && !asks_bloom_filter(&f, true));
        assert!(!asks_bloom_filter(&GenFeatures { bloom_filter: false, ..f }, false));
    }
}

#[test]
fn released_kernels_have_their_own_lru() {
    // Late releases of 6.1 place and restore folios like 6.7.
    let late =
        GenFeatures { placement: Placement::SecondOldest, restores_refs: true, ..generations("mglru-6.1") };
    let of_6_1 = Variant::of_release("6.1").unwrap().features.reclaim;
    assert_eq!(of_6_1, ReclaimFeatures { lru: Lru::MultiGen(late), ..features("mglru-6.1") });
    // 6.9 lets kswapd start again and gives memory.reclaim larger batches, 6.11 lets direct reclaim stop where it has enough, 6.12
    // changed the statistics that the classic LRU reads, 6.13 when the multi-gen LRU wakes flushers.
    let of_6_9 = ReclaimFeatures {
        retries_without_cache_trim: true,
        proactive_batch: ProactiveBatch::Quarter,
        ..features("mglru-6.7")
    };
    for release in ["6.9", "6.10"] {
        assert_eq!(Variant::of_release(release).unwrap().features.reclaim, of_6_9, "{release}");
    }
    let of_6_11 = ReclaimFeatures { incremental_iteration: true, ..of_6_9 };
    assert_eq!(Variant::of_release("6.11").unwrap().features.reclaim, of_6_11);
    let of_6_12 = ReclaimFeatures { reads_late_stats: true, ..of_6_11 };
    assert_eq!(Variant::of_release("6.12").unwrap().features.reclaim, of_6_12);
    let writes = GenFeatures { wakes_flushers: FlusherRule::AllTaken, ..generations("mglru-6.7") };
    let of_6_13 = ReclaimFeatures { lru: Lru::MultiGen(writes), ..of_6_12 };
    assert_eq!(Variant::of_release("6.13").unwrap().features.reclaim, of_6_13);
    // 6.2 changed the cost of reclaim with the classic LRU.
    let of_6_2 = ReclaimFeatures { rotations_cost: true, ..features("mglru-6.1") };
    assert_eq!(Variant::of_release("6.2").unwrap().features.reclaim, of_6_2);
    let of_6_3 = generations("mglru-6.1");
    let of_6_3 = GenFeatures { eviction_loop: EvictionLoop::AgingWithin, ..of_6_3 };
    for release in ["6.3", "6.4"] {
        let found = Variant::of_release(release).unwrap().features.reclaim;
        assert_eq!(found, ReclaimFeatures { lru: Lru::MultiGen(of_6_3), ..of_6_2 }, "{release}");
    }
    // 6.6 drains the folio batches before it drops caches.
    let of_6_6 = ReclaimFeatures { drop_caches_drains: true, ..features("mglru-6.5") };
    assert_eq!(Variant::of_release("6.6").unwrap().features.reclaim, of_6_6);
    for (release, name) in [
        ("6.5", "mglru-6.5"),
        ("6.7", "mglru-6.7"),
        ("6.8", "mglru-6.7"),
        ("6.14", "mglru-6.14"),
        ("6.16", "mglru-6.14"),
        ("6.17", "mglru-6.17"),
        ("7.0", "mglru-6.17"),
        ("7.1", "mglru-7.1"),
        ("7.2", "mglru-7.2"),
    ] {
        let variant = Variant::of_release(release).unwrap();
        assert_eq!(variant.features.reclaim, features(name), "{release}");
    }
}
