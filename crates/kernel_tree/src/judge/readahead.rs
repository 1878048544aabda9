//! Readahead: sizes of windows, as `page_cache/readahead/policy.rs` and `swapfile/readahead/policy.rs` have them.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use mm::decisions::{Decisions, ReadaheadState, Rule, SwapReadaheadState};
use mm::readahead::policy;
use mm::swapfile::readahead::policy::{SwapRa, nr_pages};

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
        Case::from(Both {
            name: "__swapin_nr_pages",
            releases: Span::ALL,
            rule: |d| d.judged.swapin_nr_pages,
            draw: miss,
            own: |_, s| s.answer = swap_window(s),
            known: &[],
        }),
    ]
}

/// Windows of up to 4 GiB of 4 KiB pages.
fn window(draw: &mut Draw) -> ReadaheadState {
    let max = draw.number(1, 1 << 20, &[32, 1024]);
    let size = draw.number(1, 1 << 20, &[max, max / 2, max / 4, max / 16, max / 32]);
    ReadaheadState { size: size as u64, max: max as u64, answer: 0 }
}

/// A miss of swap; the longest window is 2^`vm.page-cluster` entries.
fn miss(draw: &mut Draw) -> SwapReadaheadState {
    let prev_offset = draw.number(1, 1 << 40, &[]);
    SwapReadaheadState {
        prev_offset: prev_offset as u64,
        offset: draw.number(0, 1 << 40, &[prev_offset]) as u64,
        hits: draw.number(0, 1 << 20, &[0, 2, 6]) as i32,
        max_pages: 1 << draw.number(0, 20, &[3, 5]),
        prev_win: draw.number(0, 1 << 20, &[8, 64]) as i32,
        answer: 0,
    }
}

fn swap_window(s: &SwapReadaheadState) -> u32 {
    let history = SwapRa { at: s.prev_offset, window: s.prev_win as u32, hits: s.hits as u32 };
    nr_pages(&history, s.offset, s.max_pages as u32)
}
