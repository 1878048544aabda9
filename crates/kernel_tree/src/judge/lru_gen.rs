//! The multi-gen LRU: generations and counts of tiers, and what `mglru/policy.rs` makes of them.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use super::features::generations;
use mm::Features;
use mm::decisions::{Decisions, LruGenState, Rule};
use mm::mglru::policy::{self, Aging, Evictable, Position, Round};
use mm::workingset::policy::{TierCounts, carry_over};

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<LruGenState>, own, known| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: lruvec, own, known })
    };
    vec![
        case("get_tier_idx", |d| d.lru_gen.get_tier_idx, get_tier_idx, &[]),
        case("get_type_to_scan", |d| d.lru_gen.get_type_to_scan, get_type_to_scan, &[]),
        case("positive_ctrl_err", |d| d.judged.positive_ctrl_err, positive_ctrl_err, &[]),
        case("read_ctrl_pos", |d| d.judged.read_ctrl_pos, read_ctrl_pos, &[]),
        case("reset_ctrl_pos", |d| d.judged.reset_ctrl_pos, reset_ctrl_pos, &[]),
        case(
            "should_run_aging",
            |d| d.lru_gen.should_run_aging,
            should_run_aging,
            &[] as &[Known<LruGenState>],
        ),
        case("get_nr_to_scan", |d| d.judged.get_nr_to_scan, get_nr_to_scan, &[]),
    ]
}

/// Counts are of up to 2^20 pages, so that products of three of them do not wrap; the twin counts in as many bits as the kernel.
fn lruvec(draw: &mut Draw) -> LruGenState {
    let oldest = draw.number(0, 1 << 40, &[]) as u64;
    // Between two and four generations of each type; those of files are never older than those of anonymous memory where both go.
    let file = oldest + draw.number(0, 2, &[]) as u64;
    let max_seq = file + draw.number(1, 3 - (file - oldest) as i64, &[]) as u64;
    let mut state = LruGenState {
        max_seq,
        min_seq: [if draw.flag() { oldest } else { file }, file],
        lru_type: draw.flag().into(),
        tier: draw.number(0, 3, &[]) as i32,
        gain: draw.number(0, 200, &[1, 2, 60]) as i32,
        swappiness: draw.number(2, 199, &[60, 100]) as i32,
        can_swap: draw.flag().into(),
        priority: draw.number(0, 12, &[12]) as i32,
        below_min: (draw.number(0, 7, &[]) == 7).into(),
        can_age: draw.flag().into(),
        kswapd: draw.flag().into(),
        ..LruGenState::default()
    };
    for number in 0..8 {
        state.nr_pages[number] = draw.number(0, 1 << 24, &[]) as u64;
        state.avg_refaulted[number] = draw.number(0, 1 << 16, &[64]) as u64;
        state.avg_total[number] = draw.number(0, 1 << 20, &[64]) as u64;
        state.refaulted[number] = draw.number(0, 1 << 16, &[64]) as u64;
        state.evicted[number] = draw.number(0, 1 << 20, &[]) as u64;
        state.protected[number] = draw.number(0, 1 << 20, &[]) as u64;
    }
    let position = |draw: &mut Draw| {
        [
            draw.number(0, 1 << 20, &[63, 64]) as u64,
            draw.number(0, 1 << 20, &[]) as u64,
            draw.number(0, 200, &[1, 2]) as u64,
        ]
    };
    state.set_point = position(draw);
    state.process = position(draw);
    state
}

fn counts(s: &LruGenState, lru_type: usize, tier: usize) -> TierCounts {
    let at = lru_type * 4 + tier;
    let protected = if tier > 0 { s.protected[at - 1] } else { 0 };
    TierCounts {
        refaulted: s.avg_refaulted[at] + s.refaulted[at],
        total: s.avg_total[at] + s.evicted[at] + protected,
    }
}

fn tiers(s: &LruGenState) -> [[TierCounts; 4]; 2] {
    [0, 1].map(|lru_type| [0, 1, 2, 3].map(|tier| counts(s, lru_type, tier)))
}

fn get_tier_idx(f: &Features, s: &mut LruGenState) {
    s.answer = policy::last_tier(&generations(f), &tiers(s)[s.lru_type as usize]).into();
}

fn get_type_to_scan(f: &Features, s: &mut LruGenState) {
    // Which of both is older is asked before.
    let (lru_type, last) = policy::type_to_scan(&generations(f), s.swappiness as u64, [1, 1], &tiers(s));
    s.answer = lru_type as i32;
    s.tier_idx = last.map_or(-1, i32::from);
}

fn positive_ctrl_err(_: &Features, s: &mut LruGenState) {
    let position =
        |[refaulted, total, gain]: [u64; 3]| Position { counts: TierCounts { refaulted, total }, gain };
    s.answer = policy::positive_ctrl_err(position(s.set_point), position(s.process)).into();
}

fn read_ctrl_pos(_: &Features, s: &mut LruGenState) {
    let TierCounts { refaulted, total } = counts(s, s.lru_type as usize, s.tier as usize);
    s.process = [refaulted, total, s.gain as u64];
}

/// Halves the sums of averages and counts, and forgets the counts.
fn reset_ctrl_pos(f: &Features, s: &mut LruGenState) {
    let lru_type = s.lru_type as usize;
    for tier in 0..4 {
        let at = lru_type * 4 + tier;
        let average = TierCounts { refaulted: s.avg_refaulted[at], total: s.avg_total[at] };
        let all = counts(s, lru_type, tier);
        let current =
            TierCounts { refaulted: all.refaulted - average.refaulted, total: all.total - average.total };
        let kept = carry_over(&generations(f), average, current);
        (s.avg_refaulted[at], s.avg_total[at]) = (kept.refaulted, kept.total);
    }
    for at in lru_type * 4..lru_type * 4 + 4 {
        (s.refaulted[at], s.evicted[at]) = (0, 0);
        s.protected[at] = if at % 4 < 3 { 0 } else { s.protected[at] };
    }
}

/// Pages of the types that can go. The list that is next is that of the youngest generation less two.
fn evictable(s: &LruGenState) -> Evictable {
    let types = if s.can_swap != 0 { 0..2 } else { 1..2 };
    let mut evictable =
        Evictable { min_seq: s.min_seq[types.start], max_seq: s.max_seq, ..Evictable::default() };
    for lru_type in types {
        for seq in s.min_seq[lru_type]..=s.max_seq {
            let pages = s.nr_pages[(seq % 4) as usize * 2 + lru_type];
            evictable.total += pages;
            evictable.young += if seq == s.max_seq { pages } else { 0 };
            evictable.old += if seq + policy::MIN_NR_GENS == s.max_seq { pages } else { 0 };
        }
    }
    evictable
}

/// A memory cgroup that memory.min protects as a whole is not even looked at; nor is one of 6.1, whose caller sees to that here.
fn get_nr_to_scan(f: &Features, s: &mut LruGenState) {
    let (f, evictable, priority, can_age) = (generations(f), evictable(s), s.priority as u8, s.can_age != 0);
    let due = policy::due(&f, &evictable);
    let aged = u64::MAX;
    s.nr_to_scan = match (policy::aging(&f), s.below_min != 0) {
        (Aging::BeforeEviction, true) => 0,
        (Aging::BeforeEviction, false) => {
            s.need_aging = due.aging.into();
            let has_cold = !evictable.is_out_of_cold();
            policy::wanted_with_aging_apart(due, has_cold, priority, s.kswapd != 0, || can_age)
        }
        (_, true) => aged,
        (_, false) => match policy::round(&f, due, priority, |total| total) {
            Round::Evict { wanted, .. } => wanted,
            Round::Age if can_age => aged,
            Round::Age | Round::Done => 0,
        },
    };
}

fn should_run_aging(f: &Features, s: &mut LruGenState) {
    let due = policy::due(&generations(f), &evictable(s));
    s.answer = due.aging.into();
    s.nr_to_scan = match policy::aging(&generations(f)) {
        Aging::BeforeEviction => due.pages >> s.priority,
        Aging::InPlaceOfEviction | Aging::BetweenBatches => due.pages,
    };
}
