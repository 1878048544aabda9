//! What the buddy allocator decides: where a freed block goes on its list, and whose pages to use when a
//! type has none of its own.
//!
//! ```text
//!   unmovable   ─► reclaimable ─► movable          whose blocks a type may take, in this order
//!   movable     ─► reclaimable ─► unmovable
//!   reclaimable ─► unmovable   ─► movable
//! ```
//!
//! In the kernel: `buddy_merge_likely`, `find_suitable_fallback`, `should_try_claim_block`, `boost_watermark`
//! and `try_to_claim_block` in mm/page_alloc.c.

use super::BoostContext;
use crate::allocator::page::{Geometry, MigrateType};

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

/// Whether a merged block waits at the tail of its list, because the next larger merge seems near.
#[inline]
pub fn is_placed_at_tail(geometry: Geometry, order: u8, next_buddy_is_free: bool) -> bool {
    order < geometry.max_page_order - 1 && next_buddy_is_free
}

/// Whether a fallback block of `order` may be claimed for `migrate_type` together with its pageblock.
pub fn may_claim(geometry: Geometry, order: u8, migrate_type: MigrateType) -> bool {
    order >= geometry.pageblock_order / 2 || migrate_type != MigrateType::Movable
}

/// Whether a pageblock with `free` free and `movable` allocated movable pages is alike enough to be claimed
/// for `wanted`; `block` is its type so far.
pub fn is_claimed(
    geometry: Geometry,
    wanted: MigrateType,
    block: MigrateType,
    free: u32,
    movable: u32,
) -> bool {
    let pages = geometry.pageblock_nr_pages();
    let alike = match (wanted, block) {
        (MigrateType::Movable, _) => movable,
        (_, MigrateType::Movable) => pages - free - movable,
        _ => 0,
    };
    free + alike >= pages / 2
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
