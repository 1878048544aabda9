//! DAMON: which memory is accessed, by looking at one page of each of some hundred regions, and DAMON_RECLAIM, which pages out what is
//! not.
//!
//! ```text
//!   kdamond   every sample_interval (5 ms)       a page of each region: accessed since the last look?     (paddr)
//!             every aggr_interval (100 ms)       regions that are alike become one                        (regions)
//!                                                cold ones are paged out, the coldest first, by a quota   (policy)
//!                                                each is divided, for the next 100 ms to show more
//!             with much memory free, or little   sleeps wmarks_interval (5 s)
//! ```
//!
//! One range is watched, the largest of System RAM, as by default. Parameters count from when it is switched on
//! (`damon_reclaim.enabled`): `commit_inputs` is not modelled, nor are quotas by memory pressure and filters. What looking costs are walks of the
//! rmap, as reclaim pays for them.
//!
//! In the kernel: mm/damon/core.c, mm/damon/paddr.c, mm/damon/reclaim.c.

mod context;
mod kdamond;
mod paddr;
pub mod policy;
mod quota;
mod regions;

pub use context::{Damon, Idle};
