//! Shadows: their bits, and whether a page that comes back was evicted recently, as `workingset/` has both.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use super::features::with_lru;
use machine::PageSize;
use mm::Features;
use mm::decisions::{Decisions, Rule, ShadowState};
use mm::lru::mmzone::LruType;
use mm::vmscan;
use mm::vmscan::features::ReclaimFeatures;
use mm::workingset::policy::{self, LruSizes, LruvecState, Origin};
use mm::workingset::shadow::{Shadow, ShadowLayout};

/// `CONFIG_NODES_SHIFT` of the header.
const NODES_SHIFT: u32 = 10;

pub fn cases() -> Vec<Case> {
    let case = |name, releases, rule: fn(&Decisions) -> Rule<ShadowState>, own| {
        Case::from(Both { name, releases, rule, draw: shadow, own, known: &[] })
    };
    vec![
        case("pack_shadow", Span::ALL, |d| d.judged.pack_shadow, |f, s| s.value = packed(f, s)),
        case("unpack_shadow", Span::ALL, |d| d.judged.unpack_shadow, unpack),
        case("inactive_is_low", Span::ALL, |d| d.judged.inactive_is_low, inactive_is_low),
        case(
            "lru_gen_test_recent",
            Span::since(6, 4),
            |d| d.judged.lru_gen_test_recent,
            |f, s| s.answer = is_recent(&f.reclaim, s),
        ),
        case("workingset_test_recent", Span::since(6, 4), |d| d.judged.workingset_test_recent, test_recent),
    ]
}

fn shadow(draw: &mut Draw) -> ShadowState {
    let age = draw.number(0, i64::MAX, &[1 << 36]) as u64;
    let min_seq = [0; 2].map(|_: u64| draw.number(0, 1 << 40, &[1 << 34]) as u64);
    let file = draw.flag();
    // Evicted a while ago, or in a generation that is not far.
    let eviction = if draw.flag() {
        age.wrapping_sub(draw.number(0, 1 << 30, &[1 << 20]) as u64)
    } else {
        (min_seq[usize::from(file)] + draw.number(0, 2, &[]) as u64) << 2 | draw.number(0, 3, &[]) as u64
    };
    let mut state = ShadowState {
        memcg_id: draw.number(0, 0xffff, &[]) as i32,
        node: draw.number(0, 1023, &[]) as i32,
        eviction,
        workingset: draw.flag().into(),
        file: file.into(),
        lru_gen_enabled: draw.flag().into(),
        memcg_exists: draw.flag().into(),
        has_swap: draw.flag().into(),
        nonresident_age: age,
        min_seq,
        sizes: [0; 4].map(|_: u64| draw.number(0, 1 << 30, &[]) as u64),
        ..ShadowState::default()
    };
    state.value = state.eviction << 27 >> 1
        | (state.memcg_id as u64) << 11
        | (state.node as u64) << 1
        | state.workingset as u64;
    state
}

fn layout(f: &ReclaimFeatures) -> ShadowLayout {
    ShadowLayout::new(f, NODES_SHIFT, 1 << 20).expect("distributions build with so many bits")
}

/// The multi-gen LRU has the same layout; nobody asks for more.
fn packed(f: &Features, s: &ShadowState) -> u64 {
    let shadow = Shadow {
        memcg: s.memcg_id as u16,
        node: s.node as u16,
        eviction: s.eviction,
        workingset: s.workingset != 0,
    };
    layout(&f.reclaim).pack(LruType::File, &shadow)
}

fn unpack(f: &Features, s: &mut ShadowState) {
    let shadow = layout(&f.reclaim).unpack(s.value);
    s.memcg_id = shadow.memcg.into();
    s.node = shadow.node.into();
    s.eviction = shadow.eviction;
    s.workingset = shadow.workingset.into();
}

fn is_recent(f: &ReclaimFeatures, s: &ShadowState) -> i32 {
    let layout = layout(f);
    let lru_type = if s.file != 0 { LruType::File } else { LruType::Anon };
    let [inactive_anon, active_anon, inactive_file, active_file] = s.sizes;
    let sizes =
        LruSizes { active_anon, inactive_anon, active_file, inactive_file, has_swap: s.has_swap != 0 };
    let lruvec = LruvecState { nonresident_age: s.nonresident_age, min_seq: s.min_seq, max_seq: 0, sizes };
    let origin = Origin { lruvec: &lruvec, memcg_exists: s.memcg_exists != 0, is_folio_s: true };
    policy::test_recent(f, &layout, lru_type, &layout.unpack(s.value), &origin).into()
}

fn inactive_is_low(_: &Features, s: &mut ShadowState) {
    let [inactive, active] = if s.file != 0 { [s.sizes[2], s.sizes[3]] } else { [s.sizes[0], s.sizes[1]] };
    s.answer = vmscan::policy::inactive_is_low(PageSize::Kib4, inactive, active).into();
}

fn test_recent(f: &Features, s: &mut ShadowState) {
    s.answer = is_recent(&with_lru(&f.reclaim, s.lru_gen_enabled != 0), s);
}
