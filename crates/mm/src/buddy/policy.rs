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

use crate::page::{MAX_PAGE_ORDER, MigrateType, PAGEBLOCK_NR_PAGES, PAGEBLOCK_ORDER};

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
pub fn is_placed_at_tail(order: u8, next_buddy_is_free: bool) -> bool {
    order < MAX_PAGE_ORDER - 1 && next_buddy_is_free
}

/// Whether a fallback block of `order` may be claimed for `migrate_type` together with its pageblock.
pub fn may_claim(order: u8, migrate_type: MigrateType) -> bool {
    order >= PAGEBLOCK_ORDER / 2 || migrate_type != MigrateType::Movable
}

/// Whether a pageblock with `free` free and `movable` allocated movable pages is alike enough to be claimed
/// for `wanted`; `block` is its type so far.
pub fn is_claimed(wanted: MigrateType, block: MigrateType, free: u32, movable: u32) -> bool {
    let alike = match (wanted, block) {
        (MigrateType::Movable, _) => movable,
        (_, MigrateType::Movable) => PAGEBLOCK_NR_PAGES - free - movable,
        _ => 0,
    };
    free + alike >= PAGEBLOCK_NR_PAGES / 2
}

/// The watermark boost after a fallback mixed types in a pageblock, in pages; `high` is the raw high watermark.
pub fn boosted(boost: u64, boost_factor: u64, managed: u64, high: u64) -> u64 {
    let block = u64::from(PAGEBLOCK_NR_PAGES);
    if boost_factor == 0 || block * 4 > managed {
        return boost;
    }
    let most = (high * boost_factor / 10_000).max(block);
    (boost + block).min(most)
}
