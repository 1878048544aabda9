//! A zone: which other migrate type serves a request, as `buddy/policy.rs` has it, and whether a watermark lets one through, as
//! `watermark.rs` has it.
//!
//! A zone has fewer than 2^40 pages, and all are of 4 KiB. Only a request that cannot sleep and wants more than a page may use blocks that
//! are reserved for atomic requests; the kernel derives one flag from the other.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use machine::PageSize;
use mm::buddy::BoostContext;
use mm::buddy::policy::{boosted, fallbacks, may_claim};
use mm::decisions::{Decisions, FallbackState, Rule, ZoneMarkState};
use mm::page::Geometry;
use mm::watermark::{Reserves, is_above};
use mm::{Features, MigrateType};

pub fn cases() -> Vec<Case> {
    let releases = Span::ALL;
    let mark = |name, rule: fn(&Decisions) -> Rule<ZoneMarkState>, own| {
        Case::from(Both { name, releases, rule, draw: zone, own, known: &[] })
    };
    let fallback = |name, rule: fn(&Decisions) -> Rule<FallbackState>, own| {
        Case::from(Both { name, releases, rule, draw: list, own, known: &[] })
    };
    vec![
        mark("boost_watermark", |d| d.judged.boost_watermark, boost),
        mark("__zone_watermark_ok", |d| d.judged.zone_watermark_ok, watermark_ok),
        fallback(
            "can_steal_fallback",
            |d| d.judged.can_steal_fallback,
            |_, s| s.answer = may_claim(geometry(), s.order as u8, migrate_type(s)).into(),
        ),
        fallback("find_suitable_fallback", |d| d.judged.find_suitable_fallback, find_fallback),
    ]
}

/// Types of requests that fall back to others.
const FALLING_BACK: i64 = 3;

fn geometry() -> Geometry {
    Geometry::of(PageSize::Kib4)
}

fn list(draw: &mut Draw) -> FallbackState {
    FallbackState {
        order: draw.number(0, 10, &[4, 9]) as i32,
        migratetype: draw.number(0, FALLING_BACK - 1, &[]) as i32,
        only_stealable: draw.flag().into(),
        nr_free: [0; 4].map(|_: u64| if draw.flag() { draw.number(0, 1 << 20, &[0]) as u64 } else { 0 }),
        ..FallbackState::default()
    }
}

fn migrate_type(s: &FallbackState) -> MigrateType {
    MigrateType::ALL[s.migratetype as usize]
}

/// The first type that has a block; whether its pageblock may be claimed depends on the request alone.
fn find_fallback(_: &Features, s: &mut FallbackState) {
    let wanted = migrate_type(s);
    let found = fallbacks(wanted).iter().find(|other| s.nr_free[**other as usize] > 0);
    let claims = found.is_some() && may_claim(geometry(), s.order as u8, wanted);
    s.can_steal = claims.into();
    s.answer = match found {
        Some(other) if claims || s.only_stealable == 0 => *other as i32,
        _ => -1,
    };
}

fn zone(draw: &mut Draw) -> ZoneMarkState {
    let managed = draw.number(0, 1 << 40, &[2048, 3840]);
    let high = draw.number(0, managed, &[0, 100]);
    let mark = draw.number(0, managed, &[high]);
    let lowmem_reserve = draw.number(0, managed, &[0]);
    let order = draw.number(0, 10, &[0, 9]);
    let free_highatomic = draw.number(0, managed, &[0, 512]);
    let (left, block) = (mark + lowmem_reserve, (1 << order) - 1);
    let edges = [0, left, left + block, left + block + free_highatomic, left / 2 + block, left / 4 + block];
    let non_block = draw.flag();
    ZoneMarkState {
        managed: managed as u64,
        high: high as u64,
        boost: draw.number(0, managed, &[0, 512, high]) as u64,
        boost_factor: draw.number(0, 20_000, &[0, 15_000]) as i32,
        order: order as i32,
        mark: mark as u64,
        lowmem_reserve: lowmem_reserve as u64,
        free_pages: draw.number(0, 1 << 40, &edges),
        free_highatomic: free_highatomic as u64,
        min_reserve: draw.flag().into(),
        non_block: non_block.into(),
        oom: draw.flag().into(),
        highatomic: (non_block && order > 0 && draw.flag()).into(),
        free_types: [0; 11].map(|_: u32| if draw.flag() { draw.number(0, 15, &[]) as u32 } else { 0 }),
        ..ZoneMarkState::default()
    }
}

fn boost(_: &Features, s: &mut ZoneMarkState) {
    let context = BoostContext { boost_factor: s.boost_factor as u64, high: s.high, managed: s.managed };
    let raised = boosted(geometry(), s.boost, &context);
    s.answer = raised.is_some().into();
    s.boost = raised.unwrap_or(s.boost);
}

/// Free pages above the mark, and a block that is large enough of a type that the request may take.
fn watermark_ok(_: &Features, s: &mut ZoneMarkState) {
    let reserves = Reserves { min_reserve: s.min_reserve != 0, non_block: s.non_block != 0, oom: s.oom != 0 };
    let reserved = if reserves == Reserves::default() { s.free_highatomic } else { 0 };
    let unusable = (1i64 << s.order) - 1 + reserved as i64;
    let enough = is_above(s.free_pages - unusable, s.mark, s.lowmem_reserve, reserves);
    let atomic = 1 << MigrateType::HighAtomic as u32;
    let usable = if s.highatomic != 0 || reserves.oom { u32::MAX } else { !atomic };
    let has_block = s.order == 0 || s.free_types[s.order as usize..].iter().any(|types| types & usable != 0);
    s.answer = (enough && has_block).into();
}
