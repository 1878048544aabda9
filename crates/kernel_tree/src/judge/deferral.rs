//! Compaction that is put off because it failed, as `compaction/policy.rs` has it.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use mm::compaction::policy::Deferral;
use mm::decisions::{Decisions, DeferralState, Rule};

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<DeferralState>, own| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: zone, own, known: &[] })
    };
    vec![
        case(
            "defer_compaction",
            |d| d.judged.defer_compaction,
            |_, s| on(s, |deferral, order, _| deferral.defer(order)),
        ),
        case(
            "compaction_deferred",
            |d| d.judged.compaction_deferred,
            |_, s| {
                s.answer = on(s, |deferral, order, _| deferral.is_deferred(order)).into();
            },
        ),
        case(
            "compaction_defer_reset",
            |d| d.judged.compaction_defer_reset,
            |_, s| {
                on(
                    s,
                    |deferral, order, success| {
                        if success { deferral.reset(order) } else { deferral.note_success(order) }
                    },
                );
            },
        ),
    ]
}

fn zone(draw: &mut Draw) -> DeferralState {
    let shift = draw.number(0, 6, &[]);
    DeferralState {
        considered: draw.number(0, 1 << shift, &[1 << shift]) as u32,
        shift: shift as u32,
        order_failed: draw.number(0, 11, &[]) as i32,
        order: draw.number(0, 10, &[]) as i32,
        alloc_success: draw.flag().into(),
        answer: 0,
    }
}

fn on<R>(s: &mut DeferralState, decide: impl FnOnce(&mut Deferral, u8, bool) -> R) -> R {
    let mut deferral =
        Deferral { considered: s.considered, shift: s.shift as u8, order_failed: s.order_failed as u8 };
    let answer = decide(&mut deferral, s.order as u8, s.alloc_success != 0);
    s.considered = deferral.considered;
    s.shift = deferral.shift.into();
    s.order_failed = deferral.order_failed.into();
    answer
}
