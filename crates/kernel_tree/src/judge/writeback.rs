//! Dirty pages: how far they may go and how long their tasks pause, as `writeback/policy.rs` has it.
//!
//! Rates are of up to 4 GiB a second, so that pages of a pause fit into the kernel's `int`.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use machine::PageSize;
use mm::Features;
use mm::decisions::{Decisions, Rule, WritebackState};
use mm::writeback::policy::{self, DirtyThrottleControl, Pauses, Rates};

pub fn cases() -> Vec<Case> {
    type Own = fn(&Features, &mut WritebackState);
    let case = |name, rule: fn(&Decisions) -> Rule<WritebackState>, own: Own| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: flusher, own, known: &[] })
    };
    vec![
        case(
            "dirty_poll_interval",
            |d| d.judged.dirty_poll_interval,
            |_, s| {
                s.answer = policy::poll_interval(s.dirty, s.thresh) as i64;
            },
        ),
        case(
            "dirty_freerun_ceiling",
            |d| d.judged.dirty_freerun_ceiling,
            |_, s| {
                let (thresh, bg_thresh) = (s.thresh, s.bg_thresh);
                let control = DirtyThrottleControl { thresh, bg_thresh, ..DirtyThrottleControl::default() };
                s.answer = control.freerun_ceiling() as i64;
            },
        ),
        case(
            "pos_ratio_polynom",
            |d| d.judged.pos_ratio_polynom,
            |_, s| {
                s.answer = policy::polynomial(s.setpoint, s.dirty, s.limit) as i64;
            },
        ),
        case("wb_max_pause", |d| d.judged.wb_max_pause, |_, s| s.answer = pauses(s).max as i64),
        case(
            "wb_min_pause",
            |d| d.judged.wb_min_pause,
            |_, s| {
                let Pauses { min, nr_dirtied_pause, .. } = pauses(s);
                (s.answer, s.nr_dirtied_pause) = (min as i64, nr_dirtied_pause as i32);
            },
        ),
    ]
}

fn flusher(draw: &mut Draw) -> WritebackState {
    let limit = draw.number(2, 1 << 30, &[]);
    // The setpoint is half way between where nobody pauses and the limit; who asks is between them too.
    let freerun = draw.number(0, limit - 1, &[limit / 2]);
    let setpoint = (freerun + limit) / 2;
    let dirty = draw.number(freerun, limit - 1, &[setpoint, limit]);
    let thresh = draw.number(1, limit, &[dirty]);
    let mut state = WritebackState {
        dirty: dirty as u64,
        thresh: thresh as u64,
        bg_thresh: draw.number(0, thresh, &[thresh / 2]) as u64,
        setpoint: setpoint as u64,
        limit: limit as u64,
        avg_write_bandwidth: draw.number(1, 1 << 20, &[25_600]) as u64,
        dirty_ratelimit: draw.number(1, 1 << 20, &[25_600]) as u64,
        task_ratelimit: draw.number(0, 1 << 20, &[]) as u64,
        wb_dirty: draw.number(0, 1 << 26, &[]) as u64,
        page_shift: draw.one_of([12, 14, 16]),
        ..WritebackState::default()
    };
    state.max_pause = pauses(&state).max as i64;
    state
}

fn pauses(s: &WritebackState) -> Pauses {
    let rates = Rates {
        write_bandwidth: s.avg_write_bandwidth,
        avg_write_bandwidth: s.avg_write_bandwidth,
        dirty_ratelimit: s.dirty_ratelimit,
        balanced_dirty_ratelimit: s.dirty_ratelimit,
    };
    let page_size = PageSize::ALL.into_iter().find(|size| size.shift() == s.page_shift as u32);
    policy::pauses(&rates, s.task_ratelimit, s.wb_dirty, page_size.expect("4, 16 or 64 KiB"))
}
