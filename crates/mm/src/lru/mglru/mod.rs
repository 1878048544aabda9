//! The multi-gen LRU: pages by the generation in which they were last seen in use.
//!
//! ```text
//!   aging     a walk of page tables finds what was used ─► youngest generation; then a new one begins
//!
//!             max_seq   max_seq-1   ...   min_seq
//!               │          │                 │
//!   eviction  folios that were used through file descriptors ◄── sort ─► evicted, with a shadow
//!             move on one generation if their tier refaults        │
//!                                                                  ▼
//!   feedback  refaults / evictions of each tier, against those of tier 0
//! ```
//!
//! ```text
//!   policy     the decisions               aging      new generations, page table walks
//!   eviction   sorting, isolating          bloom      which page tables are worth a walk
//!   switch     lru_gen/enabled             memcg_lru  whose turn it is among memory cgroups
//! ```
//!
//! In the kernel: mm/vmscan.c ("MULTI-GEN LRU"), Documentation/mm/multigen_lru.rst.

mod aging;
mod bloom;
mod eviction;
mod memcg_lru;
pub mod policy;
mod switch;
mod tree;

pub use bloom::BloomFilters;
pub(in crate::lru) use eviction::Eviction;
pub(crate) use memcg_lru::MemcgLru;
pub(in crate::lru) use memcg_lru::Turns;
