//! Readahead: sizes of windows, as `readahead/policy.rs` has them.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use mm::decisions::{Decisions, ReadaheadState, Rule};
use mm::readahead::policy;

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<ReadaheadState>, own| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: window, own, known: &[] })
    };
    vec![
        case(
            "get_init_ra_size",
            |d| d.judged.get_init_ra_size,
            |_, s| s.answer = policy::initial_size(s.size as u32, s.max as u32).into(),
        ),
        case(
            "get_next_ra_size",
            |d| d.judged.get_next_ra_size,
            |_, s| s.answer = policy::next_size(s.size as u32, s.max as u32).into(),
        ),
    ]
}

/// Windows of up to 4 GiB of 4 KiB pages.
fn window(draw: &mut Draw) -> ReadaheadState {
    let max = draw.number(1, 1 << 20, &[32, 1024]);
    let size = draw.number(1, 1 << 20, &[max, max / 2, max / 4, max / 16, max / 32]);
    ReadaheadState { size: size as u64, max: max as u64, answer: 0 }
}
