//! Is the twin's pool of huge pages right? The kernel's counts of each write judge.
//!
//! ```text
//!   case      what is written to the pool             "HVO on, 64": 64, then 0
//!   counts    what one write made the kernel do       2 broadcasts of do_flush_tlb_all, 64 copies of heads, ...
//!   running_kernel   the cases on this kernel --.
//!   recording        those of other kernels ----+---> the kernel's counts beside the twin's
//! ```
//!
//! A machine splits the page table of a stretch of `struct page`s once in its life, so how many splits a write needs
//! cannot be known from outside. It shows in the trace, as page tables are allocated for it, and is taken from there.

mod case;
mod counts;
mod judge;
mod recording;
mod running_kernel;

pub use case::{Case, Write};
pub use counts::{KernelCounts, Pool};
pub use judge::entries;
pub use recording::{RecordedCase, Recording, Step, list};
pub use running_kernel::{obstacle, record};
