//! Working sets: does a page that comes back deserve more than a new one?
//!
//! ```text
//!   memory full of pages that are all used, just not often enough to stay:
//!
//!        out of memory            inactive            active
//!   ---+------------------------+------------------+----------------+
//!      |  s  s  S  s  s  s  s   |  i  i  i  i  i   |  a  a  a  a    |
//!   ---+--------|---------------+------------------+----------------+
//!               '-- distance ---'   pages evicted since S was
//! ```
//!
//! Where a page was, eviction leaves a shadow: who evicted it, when, and how much it had been used. When the page is
//! read in again, that is a refault, and the shadow says how far it was from staying. The classic LRU measures the
//! distance in evictions (`nonresident_age`) and activates the page if that many pages would have fitted. The
//! multi-gen LRU asks whether the generation it was evicted from is still there, and counts refaults by tier for
//! its feedback loop. The series "Refault distance update with MGLRU support" brings the distance to the latter.
//!
//! ```text
//!   features   what each kernel and patch decides       shadow   bits of a shadow
//!   policy     eviction ─► shadow;  shadow ─► flags of the new folio, counters, feedback
//! ```
//!
//! Only decisions are here: functions of numbers. Nothing of the twin evicts pages yet.
//! In the kernel: mm/workingset.c; read in 6.1.192, 6.12.117, a 6.14-era tree and 7.2.12. The series as posted in v3.

pub mod features;
pub mod policy;
pub mod shadow;

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
