//! Decisions of the buddy allocator: which end of its list a freed block goes to, and which other type serves
//! a request when its own has no block.
//!
//! ```text
//!   unmovable   ─► reclaimable ─► movable          fallback types in order
//!   movable     ─► reclaimable ─► unmovable
//!   reclaimable ─► unmovable   ─► movable
//! ```
//!
//! Until 6.9 the list of a type could hold blocks of pageblocks of other types; since 6.10 lists are strict.
//! In the kernel: `buddy_merge_likely`, `find_suitable_fallback`, `should_try_claim_block`,
//! `boost_watermark`, `__rmqueue` and `try_to_claim_block` in mm/page_alloc.c.

use super::{BoostContext, ListEnd};
use crate::allocator::page::{Geometry, MigrateType};
use crate::features::Features;

/// How a request is served when its migrate type has no fitting block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// One search for a block decides between claiming and stealing.
    OneSearch,
    /// All claimable blocks are tried first; only then is a single block stolen.
    ClaimThenSteal,
}

/// How requests fall back: since 6.15 in two searches.
#[inline]
pub fn fallback(f: &Features) -> Fallback {
    if f.claim_then_steal { Fallback::ClaimThenSteal } else { Fallback::OneSearch }
}

/// The migrate types that a type falls back to, first choice first (`fallbacks`).
pub fn fallbacks(migrate_type: MigrateType) -> &'static [MigrateType] {
    use MigrateType::*;
    match migrate_type {
        Unmovable => &[Reclaimable, Movable],
        Movable => &[Reclaimable, Unmovable],
        Reclaimable => &[Unmovable, Movable],
        HighAtomic => &[],
    }
}

/// The end of its list that a freed block goes to: the tail if a merge with the next larger buddy is likely
/// (`buddy_merge_likely`).
#[inline]
pub fn end_of_list(geometry: Geometry, order: u8, next_buddy_is_free: bool) -> ListEnd {
    let near = order < geometry.max_page_order - 1 && next_buddy_is_free;
    if near { ListEnd::Tail } else { ListEnd::Head }
}

/// Whether a fallback block of `order` may be claimed for `migrate_type` together with its pageblock
/// (`should_try_claim_block`).
pub fn may_claim(geometry: Geometry, order: u8, migrate_type: MigrateType) -> bool {
    order >= geometry.pageblock_order / 2 || migrate_type != MigrateType::Movable
}

/// How much of a pageblock a fallback takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing.
    Nothing,
    /// The free blocks; the pageblock keeps its type.
    FreeBlocks,
    /// The whole pageblock, which changes its type.
    Pageblock,
}

/// How much of a pageblock of type `block` is taken over for `wanted`: all of it if at least half is free or
/// compatible; otherwise nothing, or before free lists were strict its free blocks. `free` and `movable` are
/// its free pages and its allocated movable pages (`try_to_claim_block`).
pub fn claim(
    f: &Features,
    geometry: Geometry,
    wanted: MigrateType,
    block: MigrateType,
    free: u32,
    movable: u32,
) -> Claim {
    let pages = geometry.pageblock_nr_pages();
    let alike = match (wanted, block) {
        (MigrateType::Movable, _) => movable,
        (_, MigrateType::Movable) => pages - free - movable,
        _ => 0,
    };
    match free + alike >= pages / 2 {
        true => Claim::Pageblock,
        false if f.strict_freelists => Claim::Nothing,
        false => Claim::FreeBlocks,
    }
}

/// How much is taken of a block whose pageblock is not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stolen {
    /// The requested part; the rest stays on the lists of the block's type.
    Wanted,
    /// The whole block; the rest goes to the lists of the requested type.
    Block,
}

/// How much of the block is taken: with strict free lists only the requested part.
pub fn stolen(f: &Features) -> Stolen {
    if f.strict_freelists { Stolen::Wanted } else { Stolen::Block }
}

/// The watermark boost after a fallback mixed types in a pageblock, in pages. `None` if boosting is off or
/// the zone is too small (`boost_watermark`).
pub fn boosted(geometry: Geometry, boost: u64, context: &BoostContext) -> Option<u64> {
    let &BoostContext { boost_factor, high, managed } = context;
    let block = u64::from(geometry.pageblock_nr_pages());
    if boost_factor == 0 || block * 4 > managed {
        return None;
    }
    let most = high * boost_factor / 10_000;
    (most > 0).then(|| (boost + block).min(most.max(block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::PageSize;

    #[test]
    fn strict_lists_leave_pageblocks_alone_that_are_not_alike() {
        let geometry = Geometry::of(PageSize::Kib4);
        let half = geometry.pageblock_nr_pages() / 2;
        let claimed = |f: Features, free| {
            claim(&f, geometry, MigrateType::Unmovable, MigrateType::Reclaimable, free, 0)
        };
        for f in [Features::MAINLINE_6_9, Features::MAINLINE_6_10] {
            assert_eq!(claimed(f, half), Claim::Pageblock);
        }
        assert_eq!(claimed(Features::MAINLINE_6_9, half - 1), Claim::FreeBlocks);
        assert_eq!(claimed(Features::MAINLINE_6_10, half - 1), Claim::Nothing);
    }
}
