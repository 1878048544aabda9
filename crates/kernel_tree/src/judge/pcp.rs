//! Pagesets: states of one, and what `pcp/policy.rs` makes of them.
//!
//! Bounds are those that the kernel keeps: `high_min` is no more than `high_max`, a batch at least 1, a factor at most
//! `CONFIG_PCP_BATCH_SCALE_MAX`. Within them every combination is drawn, pagesets that are switched off too (`high` 0, batch 1).

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use machine::PageSize;
use mm::decisions::{PcpState, PcpZoneState};
use mm::pcp::policy::{self, BATCH_SCALE_MAX, Pageset, ZonePressure};
use mm::watermark;
use mm::{Features, Variant};

pub fn cases() -> Vec<Case> {
    [
        of_pagesets(Span::since(6, 7), pageset, &[]),
        of_pagesets(Span::until(6, 6), pageset_of_6_1, CAPPED_FACTOR),
        of_tuned_pagesets(),
        of_zones(),
    ]
    .concat()
}

const DECAY_IN_BATCHES: &[Known<PcpState>] = &[Known {
    releases: Span::only(6, 12),
    when: |s| Variant::of_release("6.12").is_some_and(|v| decayed(&v.features, &mut s.clone()).0 > s.batch),
    why: "Debian's 6.12 gives back in batches, as 6.18 does; the twin's 6.12 is that of November 2024",
}];

const CAPPED_FACTOR: &[Known<PcpState>] = &[Known {
    releases: Span::only(6, 1),
    when: |s| s.free_factor >= i32::from(BATCH_SCALE_MAX),
    why: "Debian's 6.1 has a largest free_factor, as later kernels have; the twin's 6.1 is that of December 2022",
}];

const SMALL_ZONE: &[Known<PcpZoneState>] = &[Known {
    releases: Span::ALL,
    when: |s| zone_batchsize(s) == 1,
    why: "the kernel's function answers 0 for a small zone, and its callers take that for 1",
}];

fn of_pagesets(
    releases: Span,
    draw: fn(&mut Draw) -> PcpState,
    free_known: &'static [Known<PcpState>],
) -> Vec<Case> {
    let case = |name, rule, own, known| Case::from(Both { name, releases, rule, draw, own, known });
    vec![
        case("nr_pcp_high", |d| d.pcp.nr_pcp_high, nr_pcp_high, &[]),
        case("nr_pcp_free", |d| d.pcp.nr_pcp_free, nr_pcp_free, free_known),
        case("free_unref_page_commit", |d| d.pcp.free_unref_page_commit, commit, free_known),
    ]
}

fn of_tuned_pagesets() -> Vec<Case> {
    let releases = Span::since(6, 7);
    let case = |name, rule, own, known| Case::from(Both { name, releases, rule, draw: pageset, own, known });
    vec![
        case("nr_pcp_alloc", |d| d.pcp.nr_pcp_alloc, nr_pcp_alloc, &[]),
        case("decay_pcp_high", |d| d.pcp.decay_pcp_high, decay, DECAY_IN_BATCHES),
    ]
}

fn of_zones() -> Vec<Case> {
    let case =
        |name, rule, own, known| Case::from(Both { name, releases: Span::ALL, rule, draw: zone, own, known });
    vec![
        case("zone_batchsize", |d| d.pcp.zone_batchsize, |_, s| s.answer = zone_batchsize(s), SMALL_ZONE),
        case("calculate_normal_threshold", |d| d.judged.calculate_normal_threshold, threshold, &[]),
        case("zone_highsize", |d| d.pcp.zone_highsize, zone_highsize, &[]),
    ]
}

fn nr_pcp_alloc(f: &Features, s: &mut PcpState) {
    s.answer = on_pageset(s, |p, zone, s| policy::nr_pcp_alloc(p, f, zone, s.order as u8));
}

fn nr_pcp_high(f: &Features, s: &mut PcpState) {
    s.answer = on_pageset(s, |p, zone, s| policy::nr_pcp_high(p, f, zone, s.free_high != 0));
}

fn nr_pcp_free(f: &Features, s: &mut PcpState) {
    s.answer = on_pageset(s, |p, _, s| policy::nr_pcp_free(p, f, s.asked_high, s.free_high != 0));
}

/// What 6.1 does not have is nothing.
fn pageset_of_6_1(draw: &mut Draw) -> PcpState {
    PcpState {
        alloc_factor: 0,
        free_count: 0,
        prev_free_high_order: 0,
        free_high_batch: 0,
        below_high: 0,
        ..pageset(draw)
    }
}

fn pageset(draw: &mut Draw) -> PcpState {
    let batch = draw.number(1, 63, &[1, 7, 31, 63]);
    let high_min = draw.number(0, 100_000, &[0, 4 * batch, 5 * batch]);
    let high_max = high_min + if draw.flag() { 0 } else { draw.number(0, 300_000, &[batch]) };
    let edges = [0, batch, 2 * batch, batch << BATCH_SCALE_MAX, high_min, high_max];
    let high = draw.number(0, 400_000, &edges);
    let count = draw.number(0, 400_000, &[edges.as_slice(), &[high - batch, high, high + batch]].concat());
    let order = draw.one_of([0, 0, 0, 1, 2, 3, 9]);
    PcpState {
        count: count as i32,
        high: high as i32,
        high_min: high_min as i32,
        high_max: high_max as i32,
        batch: batch as i32,
        free_factor: draw.number(0, 5, &[]) as i32,
        alloc_factor: draw.number(0, 5, &[]) as i32,
        free_count: draw.number(0, 2600, &[batch, batch << BATCH_SCALE_MAX]) as i32,
        prev_free_high_order: draw.flag().into(),
        free_high_batch: draw.flag().into(),
        reclaim_active: draw.flag().into(),
        below_high: draw.flag().into(),
        order,
        free_high: draw.flag().into(),
        asked_high: draw.number(0, 400_000, &edges) as i32,
        frees: if draw.flag() { draw.number(1, 64, &[1, 15, 31]) as i32 } else { 0 },
        ..PcpState::default()
    }
}

/// Lets a policy work on a state. Releases have their own fields; what one does not have stays as it is.
fn on_pageset<R>(s: &mut PcpState, decide: impl FnOnce(&mut Pageset, ZonePressure, &PcpState) -> R) -> R {
    let mut p = Pageset {
        count: s.count,
        high: s.high,
        high_min: s.high_min,
        high_max: s.high_max,
        batch: s.batch,
        free_factor: s.free_factor as u8,
        alloc_factor: s.alloc_factor as u8,
        free_count: s.free_count,
        prev_free_high_order: s.prev_free_high_order != 0,
        free_high_batch: s.free_high_batch != 0,
        ..Pageset::default()
    };
    let zone = ZonePressure { reclaim_active: s.reclaim_active != 0, below_high: s.below_high != 0 };
    let answer = decide(&mut p, zone, s);
    s.count = p.count;
    s.high = p.high;
    s.free_factor = p.free_factor.into();
    s.alloc_factor = p.alloc_factor.into();
    s.free_count = p.free_count;
    s.prev_free_high_order = p.prev_free_high_order.into();
    answer
}

/// What the mechanics would make of so many pages in such portions: calls of `free_pcppages_bulk`, and what is left.
fn give_back(s: &mut PcpState, pages: i32, portion: i32) {
    for pages in policy::portions(pages, portion) {
        let pages = pages.min(s.count);
        if pages > 0 {
            s.first_drain = if s.drains == 0 { pages } else { s.first_drain };
            s.drains += 1;
            s.drained += pages;
            s.count -= pages;
        }
    }
}

/// Pages to give back, in which portions, and whether there is more.
fn decayed(f: &Features, s: &mut PcpState) -> (i32, i32, bool) {
    on_pageset(s, |p, _, _| {
        let (pages, more) = policy::decay(p, f);
        (pages, policy::decay_portion(p, f, pages), more)
    })
}

fn decay(f: &Features, s: &mut PcpState) {
    let (pages, portion, more) = decayed(f, s);
    s.answer = more.into();
    give_back(s, pages, portion);
}

/// One free and what it gives back, or those of several in a row that come before the first that gives something back.
fn commit(f: &Features, s: &mut PcpState) {
    if s.frees > 0 {
        s.entered = on_pageset(s, |p, zone, s| {
            let gives_nothing = |_: &i32| {
                let mut next = *p;
                let nothing = policy::note_free(&mut next, f, zone, s.order as u8).is_none();
                if nothing {
                    *p = next;
                }
                nothing
            };
            (0..s.frees).take_while(gives_nothing).count() as i32
        });
        return;
    }
    let due = on_pageset(s, |p, zone, s| policy::note_free(p, f, zone, s.order as u8));
    if let Some(due) = due {
        give_back(s, due.pages, due.portion);
        // The zone is locked even if no page goes back.
        s.drains = s.drains.max(1);
    }
}

fn zone(draw: &mut Draw) -> PcpZoneState {
    let managed = draw.number(0, 1 << 36, &[1 << 10, 1 << 18, 176_128]);
    PcpZoneState {
        managed: managed as u64,
        low: draw.number(0, managed.max(1), &[]) as u64,
        page_shift: draw.one_of([12, 14, 16]),
        local_cpus: draw.number(0, 512, &[0, 1]) as i32,
        online_cpus: draw.number(1, 1024, &[1]) as i32,
        batch: draw.number(1, 63, &[1, 63]) as i32,
        high_fraction: draw.number(0, 1 << 20, &[0, 8]) as i32,
        ..PcpZoneState::default()
    }
}

fn zone_batchsize(s: &PcpZoneState) -> i32 {
    let page_size = PageSize::ALL.into_iter().find(|size| size.shift() == s.page_shift as u32);
    policy::zone_batchsize(page_size.expect("4, 16 or 64 KiB"), s.managed)
}

fn threshold(_: &Features, s: &mut PcpZoneState) {
    let page_size = PageSize::ALL.into_iter().find(|size| size.shift() == s.page_shift as u32);
    let page_size = page_size.expect("4, 16 or 64 KiB");
    s.answer = watermark::counter_threshold(page_size, s.online_cpus as u64, s.managed);
}

fn zone_highsize(_: &Features, s: &mut PcpZoneState) {
    let total = policy::high_total(s.high_fraction as u64, s.low, s.managed);
    s.answer = policy::zone_highsize(total, s.local_cpus as u64, s.online_cpus as u64, s.batch);
}
