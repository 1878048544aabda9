//! The multi-gen LRU: pages by the generation in which they were last seen in use.
//!
//! ```text
//!   aging     a walk of page tables finds what was used ─► youngest generation; then a new one begins
//!
//!             max_seq   max_seq-1   ...   min_seq
//!               │          │                 │
//!   eviction  folios that were used through file descriptors ◄── sort ─► out, the others with a shadow
//!             move on one generation if their tier refaults        │
//!                                                                  ▼
//!   feedback  refaults / evictions of each tier, against those of tier 0
//! ```
//!
//! ```text
//!   policy     what it decides              aging      new generations, walks of page tables
//!   eviction   sorting, isolating           memcg_lru  whose turn it is among memory cgroups
//!   switch     on and off
//! ```
//!
//! In the kernel: mm/vmscan.c ("MULTI-GEN LRU"), Documentation/mm/multigen_lru.rst.

mod aging;
mod eviction;
mod memcg_lru;
pub mod policy;
mod switch;

pub(crate) use memcg_lru::MemcgLru;
