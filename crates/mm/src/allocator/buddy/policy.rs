//! What the buddy allocator decides: where a freed block goes on its list, and whose pages to use when a
//! type has none of its own.
//!
//! ```text
//!   unmovable   ─► reclaimable ─► movable          whose blocks a type may take, in this order
//!   movable     ─► reclaimable ─► unmovable
//!   reclaimable ─► unmovable   ─► movable
//! ```
//!
//! Until 6.9 a list had blocks of pageblocks of other types too; since then lists are strict. In the kernel:
//! `buddy_merge_likely`, `find_suitable_fallback`, `should_try_claim_block`, `boost_watermark`, `__rmqueue` and
//! `try_to_claim_block` in mm/page_alloc.c.

use super::{BoostContext, ListEnd};
use crate::allocator::page::{Geometry, MigrateType};
use crate::features::Features;

/// How a request is served whose type has no block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// One search for a block decides between claiming and stealing.
    OneSearch,
    /// First all blocks that can be claimed are tried, then a single one is stolen.
    ClaimThenSteal,
}

/// How requests fall back: since 6.15 in two searches.
#[inline]
pub fn fallback(f: &Features) -> Fallback {
    if f.claim_then_steal { Fallback::ClaimThenSteal } else { Fallback::OneSearch }
}

/// The types that requests for a type fall back to, first choice first.
pub fn fallbacks(migrate_type: MigrateType) -> &'static [MigrateType] {
    use MigrateType::*;
    match migrate_type {
        Unmovable => &[Reclaimable, Movable],
        Movable => &[Reclaimable, Unmovable],
        Reclaimable => &[Unmovable, Movable],
        HighAtomic => &[],
    }
}

/// Where on its list a merged block waits: at the tail if the next larger merge seems near.
#[inline]
pub fn end_of_list(geometry: Geometry, order: u8, next_buddy_is_free: bool) -> ListEnd {
    let near = order < geometry.max_page_order - 1 && next_buddy_is_free;
    if near { ListEnd::Tail } else { ListEnd::Head }
}

/// Whether a fallback block of `order` may be claimed for `migrate_type` together with its pageblock.
pub fn may_claim(geometry: Geometry, order: u8, migrate_type: MigrateType) -> bool {
    order >= geometry.pageblock_order / 2 || migrate_type != MigrateType::Movable
}

/// What of a pageblock goes to the type that a request falls back for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing.
    Nothing,
    /// Its free blocks; it keeps its type.
    FreeBlocks,
    /// All of it.
    Pageblock,
}

/// What is claimed for `wanted` of a pageblock of type `block`: all of it if enough is free or alike; otherwise, until lists
/// became strict, its free blocks. It has `free` free and `movable` allocated movable pages.
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

/// What is taken of a block whose pageblock is not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stolen {
    /// What was asked for; the rest stays on the lists of its type.
    Wanted,
    /// All of the block; the rest goes to the lists of the type that asked.
    Block,
}

/// What is taken of it: since lists are strict, no more than was asked for.
pub fn stolen(f: &Features) -> Stolen {
    if f.strict_freelists { Stolen::Wanted } else { Stolen::Block }
}

/// The watermark boost after a fallback mixed types in a pageblock, in pages; none if it does not count, as the zone is too
/// small (`boost_watermark`).
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
