//! Does the twin keep the pages on its per-CPU lists that the kernel keeps? Every refill and bulk free judges.
//!
//! ```text
//!   closed loop      the kernel's lists at the start, then every operation: each refill size, each bulk free,
//!                    each page frame of it and each recorded state against what the twin decides at that point
//!   open loop        the kernel's lists at the start, then demand alone: pages refilled and drained in the end
//!   running_kernel   the open loop on the kernel that runs here, with workloads of its own (programs)
//!
//!   history          a recording's events, by number and by page      drain   empties the kernel's lists
//!   replay           the twin's lists, which events are told to       tally   what the closed loop counts
//! ```
//!
//! The decisions are those of [`mm::pcp::policy`]; nothing is decided a second time here.

mod closed_loop;
mod drain;
mod history;
pub(super) mod open_loop;
pub mod programs;
pub(super) mod replay;
pub(super) mod running_kernel;
mod tally;

pub use closed_loop::closed_loop;
pub use open_loop::{Annotated, open_loop};
pub use running_kernel::{Options, from_recordings, pcp};
pub use tally::Tally;
