//! The widths of the fields in a folio's flags that the LRUs use, and the two types of lists
//! (include/linux/mmzone.h).

/// Bits of the counter of accesses through file descriptors in `folio->flags` (`LRU_REFS_WIDTH` on 64-bit).
pub const LRU_REFS_WIDTH: u32 = 2;

/// Bits of the generation number in `folio->flags` (`LRU_GEN_WIDTH`).
pub const LRU_GEN_WIDTH: u32 = 3;

/// The most generations that a lruvec has at a time (`MAX_NR_GENS`).
pub const MAX_NR_GENS: u64 = 4;

/// The type of a list: anonymous or file. The kernel calls it `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruType {
    /// Anonymous memory, which reclaim writes to swap.
    Anon = 0,
    /// The page cache.
    File = 1,
}

impl LruType {
    pub const ALL: [LruType; 2] = [LruType::Anon, LruType::File];
}
