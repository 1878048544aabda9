//! Process profiles: what each process of a recorded build asked of the page allocator, to be replayed on any
//! number of CPUs.
//!
//! ```text
//!   trace (events of all CPUs)                     profile
//!     ─ distil ─►  unit 0:  sh    Run  Allocate×12  Free 0..12
//!                           gcc   Allocate×40  Run  Allocate×7 ...
//!                           cc1   Allocate×9000 ......  Free 0..9000
//!                  unit 1:  ...
//!                  tail:    ld, objtool, kallsyms ...   one at a time, after all units
//! ```
//!
//! - A **process** is a run-length encoded sequence of [`Operation`]s with the CPU time of each.
//! - A **unit** is one job of make: the processes that it started, in the order of their start. On a CPU they
//!   run one after the other; a parent that waits for its children runs before them.
//! - The **tail** is the end of the build, during which only one unit ran at a time.
//!
//! Pages that a process allocated and did not free stay allocated when it exits (page cache, slab, page
//! tables that RCU frees later). Pages of other processes that it frees are [`Operation::FreeShared`]. Over a
//! whole build the two balance as in the recording. Work in an interrupt is attributed to the interrupted
//! process, and frees by a kernel thread to the process that ran last on that CPU.

mod building;
mod distil;
mod error;
mod make;
mod operation;
mod profile;
mod recorded;
mod summary;
mod table;
mod units;

pub use distil::{TRACING_NANOSECONDS_PER_EVENT, distil};
pub use error::ProcessError;
pub use make::{Make, Next};
pub use operation::Operation;
pub use profile::{ProcessProfile, Totals};
pub use summary::{Quantiles, Summary};

#[cfg(test)]
mod tests;
