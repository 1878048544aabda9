//! Fragmentation: what free blocks are worth, as `compaction/policy.rs` has it. A zone has fewer than 2^32 free pages: the kernel divides by
//! the low 32 bits of their number.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use mm::compaction::policy::{self, FreeBlocks};
use mm::decisions::{Decisions, FragmentationState, Rule};

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<FragmentationState>, own, known| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: blocks, own, known })
    };
    vec![
        case(
            "fragmentation_score_wmark",
            |d| d.judged.fragmentation_score_wmark,
            |_, s| {
                let (low, high) = policy::proactive_marks(s.proactiveness as u64);
                s.answer = if s.low != 0 { low } else { high } as i32;
            },
            &[],
        ),
        case(
            "fragmentation_index",
            |d| d.judged.fragmentation_index,
            |_, s| {
                s.answer =
                    policy::fragmentation_index(&free(s), s.order as u8).map_or(-1000, |index| index as i32);
            },
            SINGLE_BLOCK,
        ),
        case(
            "extfrag_for_order",
            |d| d.judged.extfrag_for_order,
            |_, s| {
                s.answer = policy::unusable_free_index(&free(s), s.order as u8) as i32;
            },
            &[],
        ),
        case(
            "fragmentation_score_zone",
            |d| d.judged.fragmentation_score_zone,
            |_, s| s.answer = policy::unusable_free_index(&free(s), HUGE_PAGE) as i32,
            &[],
        ),
    ]
}

/// The order of a huge page of 2 MiB.
const HUGE_PAGE: u8 = 9;

const SINGLE_BLOCK: &[Known<FragmentationState>] = &[Known {
    releases: Span::ALL,
    when: |s| s.free_blocks.iter().sum::<u64>() == 1,
    why: "of a single block that is too small the kernel answers a little below 0, the twin that there is no index; callers ask no more",
}];

fn blocks(draw: &mut Draw) -> FragmentationState {
    let largest = draw.number(0, 10, &[]) as usize;
    let mut state = FragmentationState {
        order: draw.number(0, 10, &[]) as i32,
        proactiveness: draw.number(0, 100, &[5, 20, 95, 100]) as i32,
        low: draw.flag().into(),
        ..FragmentationState::default()
    };
    for order in 0..=largest {
        state.free_blocks[order] = draw.number(0, 1 << 20, &[0]) as u64;
    }
    state
}

fn free(s: &FragmentationState) -> FreeBlocks {
    let mut blocks = FreeBlocks::default();
    blocks[..s.free_blocks.len()].copy_from_slice(&s.free_blocks);
    blocks
}
