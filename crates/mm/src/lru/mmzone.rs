//! How many kinds and generations of folios there are, and how many bits of a folio's flags say which (include/linux/mmzone.h).

/// Bits of a folio's flags that count accesses through file descriptors (`LRU_REFS_WIDTH` on 64-bit).
pub const LRU_REFS_WIDTH: u32 = 2;

/// Bits that number the generations of a lruvec (`LRU_GEN_WIDTH`).
pub const LRU_GEN_WIDTH: u32 = 3;

/// Generations that exist at most at a time (`MAX_NR_GENS`).
pub const MAX_NR_GENS: u64 = 4;

/// Whose lists a folio is on: `type` in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruType {
    /// Memory of processes, which goes to swap.
    Anon = 0,
    /// Page cache.
    File = 1,
}

impl LruType {
    /// Both.
    pub const ALL: [LruType; 2] = [LruType::Anon, LruType::File];
}
