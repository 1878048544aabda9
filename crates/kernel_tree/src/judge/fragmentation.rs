//! Fragmentation: what free blocks are worth, as `compaction/policy.rs` has it. A zone has fewer than 2^32 free pages: the kernel divides by
//! the low 32 bits of their number.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use mm::Features;
use mm::compaction::policy::{self, FreeBlocks, ZoneState};
use mm::decisions::{Decisions, FragmentationState, Rule, SuitableState};

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
                s.answer = policy::fragmentation_index(&free(&s.free_blocks), s.order as u8)
                    .map_or(-1000, |index| index as i32);
            },
            SINGLE_BLOCK,
        ),
        case(
            "extfrag_for_order",
            |d| d.judged.extfrag_for_order,
            |_, s| {
                s.answer = policy::unusable_free_index(&free(&s.free_blocks), s.order as u8) as i32;
            },
            &[],
        ),
        case(
            "fragmentation_score_zone",
            |d| d.judged.fragmentation_score_zone,
            |_, s| s.answer = policy::unusable_free_index(&free(&s.free_blocks), HUGE_PAGE) as i32,
            &[],
        ),
        Case::from(Both {
            name: "compaction_suitable",
            releases: Span::ALL,
            rule: |d| d.judged.compaction_suitable,
            draw: zone,
            own: suitable,
            known: &[],
        }),
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
    let free_blocks = free_blocks(draw);
    FragmentationState {
        order: draw.number(0, 10, &[]) as i32,
        proactiveness: draw.number(0, 100, &[5, 20, 95, 100]) as i32,
        low: draw.flag().into(),
        free_blocks,
        ..FragmentationState::default()
    }
}

fn free_blocks(draw: &mut Draw) -> [u64; 11] {
    let mut blocks = [0; 11];
    let largest = draw.number(0, 10, &[]) as usize;
    blocks[..=largest].iter_mut().for_each(|blocks| *blocks = draw.number(0, 1 << 20, &[0]) as u64);
    blocks
}

/// A zone whose request was held against a watermark before, in vain.
fn zone(draw: &mut Draw) -> SuitableState {
    let free_blocks = free_blocks(draw);
    let order = draw.number(0, 10, &[3, 9]);
    let min = draw.number(0, 1 << 20, &[0]);
    let low = draw.number(min, 1 << 21, &[min]);
    let [boost, reserve, atomic] = [1 << 20; 3].map(|most| draw.number(0, most, &[0]));
    let enough = [min, low].map(|mark| mark + boost + (2 << order) + reserve + atomic);
    SuitableState {
        free_blocks,
        free_pages: draw.number(0, 1 << 32, &enough),
        min: min as u64,
        low: low as u64,
        boost: boost as u64,
        lowmem_reserve: reserve as u64,
        free_highatomic: atomic as u64,
        order: order as i32,
        extfrag_threshold: draw.number(0, 1000, &[0, 500, 1000]) as i32,
        ..SuitableState::default()
    }
}

fn suitable(_: &Features, s: &mut SuitableState) {
    let order = s.order as u8;
    let zone = ZoneState {
        free: (s.free_pages as u64).saturating_sub(s.lowmem_reserve + s.free_highatomic),
        low: s.low + s.boost,
        min: s.min + s.boost,
        fragmentation: policy::fragmentation_index(&free(&s.free_blocks), order),
    };
    s.answer = policy::is_suitable(&zone, order, s.extfrag_threshold as u64).into();
}

fn free(free_blocks: &[u64; 11]) -> FreeBlocks {
    let mut blocks = FreeBlocks::default();
    blocks[..free_blocks.len()].copy_from_slice(free_blocks);
    blocks
}
