//! The bits of a shadow: a value that fits into the xarray slot of an evicted page.
//!
//! ```text
//!   63                                             18+NS          2+NS       1        0
//!   +----------------------------------------------+--------------+----------+--------+---+
//!   | eviction: 46-NS bits                         | memcg id: 16 | node: NS | ws bit | 1 |
//!   +----------------------------------------------+--------------+----------+--------+---+
//!     classic    nonresident_age >> bucket_order                      the last 1 marks a value to the xarray
//!     multi-gen  min_seq | refs:2                                     and is left out here
//!     patch 6    seq:3 | refs:2 | nonresident_age >> lru_gen_bucket_order
//! ```
//!
//! On a machine with more pages than the eviction field can count, the age loses its low bits
//! (`bucket_order`). In the kernel: `pack_shadow`, `unpack_shadow`, `workingset_init` in mm/workingset.c.

use super::policy::bits_of_swap_count;
use crate::lru::mmzone::{LRU_GEN_WIDTH, LRU_REFS_WIDTH, LruType};
use crate::lru::vmscan::features::ReclaimFeatures;

/// Bits of a memory cgroup's id (`MEM_CGROUP_ID_SHIFT`).
pub const MEM_CGROUP_ID_SHIFT: u32 = 16;

/// The largest `CONFIG_NODES_SHIFT` that x86-64 allows; distributions build with it.
pub const NODES_SHIFT_MAX: u32 = 10;

/// Bits that 7.2 leaves to the count of a swap entry's users (`SWAP_COUNT_SHIFT`). The number depends on the
/// configuration; this is the largest.
pub const SWAP_COUNT_SHIFT: u32 = 5;

/// Bits of a slot that are not part of a shadow: the mark of an xarray value.
const XA_MARK_SHIFT: u32 = 1;
const WORKINGSET_SHIFT: u32 = 1;

/// The content of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Id of the memory cgroup that reclaim was for (classic), or of the folio's (multi-gen).
    pub memcg: u16,
    /// The folio's node.
    pub node: u16,
    /// When the folio was evicted, in as many bits as there are: an age, or a generation and accesses.
    pub eviction: u64,
    /// Whether the folio had been in the working set.
    pub workingset: bool,
}

/// How one kernel packs shadows on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowLayout {
    nodes_shift: u32,
    eviction_bits: [u32; 2],
    bucket_order: [u32; 2],
    gen_bucket_order: u32,
}

/// The low `bits` bits of a number, `bits` being 1 to 64.
pub(super) fn low(bits: u32, number: u64) -> u64 {
    number & (u64::MAX >> (u64::BITS - bits))
}

impl ShadowLayout {
    /// Computes the layout for a machine with `totalram_pages` of memory at boot and a kernel with this
    /// `CONFIG_NODES_SHIFT`; `None` if `nodes_shift` is larger than [`NODES_SHIFT_MAX`].
    pub fn new(f: &ReclaimFeatures, nodes_shift: u32, totalram_pages: u64) -> Option<ShadowLayout> {
        if nodes_shift > NODES_SHIFT_MAX {
            return None;
        }
        let file = u64::BITS - XA_MARK_SHIFT - WORKINGSET_SHIFT - nodes_shift - MEM_CGROUP_ID_SHIFT;
        let anon = file - bits_of_swap_count(f);
        let max_order = u64::BITS - totalram_pages.saturating_sub(1).leading_zeros();
        Some(ShadowLayout {
            nodes_shift,
            eviction_bits: [anon, file],
            bucket_order: [anon, file].map(|bits| max_order.saturating_sub(bits)),
            gen_bucket_order: max_order.saturating_sub(file - LRU_REFS_WIDTH - LRU_GEN_WIDTH),
        })
    }

    /// Bits of `eviction` (`EVICTION_BITS`).
    pub fn eviction_bits(&self, lru_type: LruType) -> u32 {
        self.eviction_bits[lru_type as usize]
    }

    /// Bits of `eviction` that hold the age in refault-distance-6 (`LRU_GEN_EVICTION_BITS`).
    pub fn gen_eviction_bits(&self) -> u32 {
        self.eviction_bits(LruType::File) - LRU_REFS_WIDTH - LRU_GEN_WIDTH
    }

    /// Low bits of the age that shadows do not keep (`bucket_order`).
    pub fn bucket_order(&self, lru_type: LruType) -> u32 {
        self.bucket_order[lru_type as usize]
    }

    /// Low bits of the age that shadows of refault-distance-6 do not keep (`lru_gen_bucket_order`).
    pub fn gen_bucket_order(&self) -> u32 {
        self.gen_bucket_order
    }

    /// The value for the slot (`pack_shadow`). Numbers that do not fit lose their high bits, as in the
    /// kernel.
    pub fn pack(&self, lru_type: LruType, shadow: &Shadow) -> u64 {
        let eviction = low(self.eviction_bits(lru_type), shadow.eviction);
        let lruvec = eviction << MEM_CGROUP_ID_SHIFT | u64::from(shadow.memcg);
        let node = u64::from(shadow.node) & ((1 << self.nodes_shift) - 1);
        (lruvec << self.nodes_shift | node) << WORKINGSET_SHIFT | u64::from(shadow.workingset)
    }

    /// The content of a slot's value (`unpack_shadow`).
    pub fn unpack(&self, value: u64) -> Shadow {
        let node = value >> WORKINGSET_SHIFT;
        let memcg = node >> self.nodes_shift;
        Shadow {
            memcg: memcg as u16,
            node: (node & ((1 << self.nodes_shift) - 1)) as u16,
            eviction: memcg >> MEM_CGROUP_ID_SHIFT,
            workingset: value & 1 != 0,
        }
    }
}
