//! The classic lists: how many pages of each are scanned, and in which steps until enough is reclaimed, as `vmscan/policy.rs` has both.
//!
//! A list has up to 2^30 pages and costs stay below 2^40, so that products do not wrap. Of 32 pages of an inactive list that are scanned,
//! a share that is drawn is reclaimed. Memory cgroups that were deleted have no pages in the twin, and none here.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use machine::PageSize;
use mm::Features;
use mm::decisions::{Decisions, Rule, ScanCountState};
use mm::lruvec::LruList;
use mm::vmscan::policy::{
    BalanceState, ListsInTurn, SWAP_CLUSTER_MAX, inactive_is_low, protection, scan_balance, scan_count,
    scans_all_of_it, unprotected,
};

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<ScanCountState>, draw, own| {
        Case::from(Both { name, releases: Span::ALL, rule, draw, own, known: &[] })
    };
    vec![
        case("get_scan_count", |d| d.judged.get_scan_count, |draw| lists(draw, 1 << 30), get_scan_count),
        case("shrink_lruvec", |d| d.judged.shrink_lruvec, |draw| lists(draw, 1 << 13), shrink_lruvec),
    ]
}

/// What is scanned goes in steps of 32 pages, so lists are short where the steps are made.
fn lists(draw: &mut Draw, longest: i64) -> ScanCountState {
    let cost = [0; 2].map(|_: u64| draw.number(0, 1 << 40, &[0]) as u64);
    let protected = |draw: &mut Draw| if draw.flag() { draw.number(0, 1 << 30, &[0, 1]) as u64 } else { 0 };
    let mut reclaimed_of_32 = [0; 4];
    for list in [LruList::InactiveAnon, LruList::InactiveFile] {
        reclaimed_of_32[list as usize] = draw.number(0, 32, &[0, 32]) as u32;
    }
    ScanCountState {
        may_swap: draw.flag().into(),
        can_reclaim_anon: draw.flag().into(),
        cgroup_reclaim: draw.flag().into(),
        swappiness: draw.number(0, 200, &[0, 60, 100, 200]) as i32,
        priority: draw.number(0, 12, &[0, 12]) as i32,
        file_is_tiny: (draw.number(0, 3, &[]) == 3).into(),
        cache_trim_mode: (draw.number(0, 3, &[]) == 3).into(),
        memcg_low_reclaim: draw.flag().into(),
        cost,
        sizes: [0; 4].map(|_: u64| draw.number(0, longest, &[0, 32, longest]) as u64),
        low: protected(draw),
        min: protected(draw),
        usage: draw.number(0, 1 << 30, &[]) as u64,
        kswapd: draw.flag().into(),
        nr_to_reclaim: draw.number(1, 1 << 12, &[32]) as u64,
        reclaimed_of_32,
        can_age_anon: draw.flag().into(),
        ..ScanCountState::default()
    }
}

/// Pages of each list to scan, and whether memory.low has kept some.
fn targets(s: &ScanCountState) -> ([u64; 4], bool) {
    let balance = scan_balance(&BalanceState {
        can_reclaim_anon: s.may_swap != 0 && s.can_reclaim_anon != 0,
        cgroup_reclaim: s.cgroup_reclaim != 0,
        swappiness: s.swappiness as u64,
        priority: s.priority as u8,
        file_is_tiny: s.file_is_tiny != 0,
        cache_trim_mode: s.cache_trim_mode != 0,
        cost: s.cost,
    });
    let protection = protection(s.low, s.min, s.memcg_low_reclaim != 0);
    let targets = LruList::EVICTABLE.map(|list| {
        let unprotected = unprotected(s.sizes[list as usize], protection, s.usage);
        scan_count(balance, list.lru_type(), unprotected, s.priority as u8)
    });
    (targets, protection.is_some_and(|protection| protection.by_low))
}

fn get_scan_count(_: &Features, s: &mut ScanCountState) {
    let (targets, skipped) = targets(s);
    s.nr = targets;
    s.memcg_low_skipped = skipped.into();
}

fn shrink_lruvec(_: &Features, s: &mut ScanCountState) {
    let (targets, skipped) = targets(s);
    let all_of_it = scans_all_of_it(s.cgroup_reclaim != 0, s.kswapd != 0, s.priority as u8);
    let reclaimed_of_32 = s.reclaimed_of_32;
    let (calls, scanned) = (&mut s.calls, &mut s.scanned);
    let mut lists = ListsInTurn::new(targets, s.nr_to_reclaim, all_of_it);
    while lists.turn(|list, pages| {
        calls[list as usize] += 1;
        scanned[list as usize] += pages;
        pages * u64::from(reclaimed_of_32[list as usize]) / SWAP_CLUSTER_MAX
    }) {}
    s.nr_reclaimed = lists.reclaimed();
    s.memcg_low_skipped = skipped.into();
    let [inactive, active, ..] = s.sizes;
    let ages = s.can_age_anon != 0 && inactive_is_low(PageSize::Kib4, inactive, active);
    s.aged = if ages { SWAP_CLUSTER_MAX } else { 0 };
}
