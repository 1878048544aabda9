//! The Linux kernel this runs on: record its demand, observe its state, verify the twin.
//!
//! ```text
//!   tracefs ----- record ----> build.parquet      what programs asked of the page allocator
//!   /proc, /sys - snapshot --> text in the trace  what state the kernel was in
//!                 proc ------> numbers            that text, parsed; the twin's own text parses the same
//! ```
//!
//! [`tracefs`] and [`proc`] know file formats, [`snapshot`] reads the running kernel, [`record`] puts them together.
//! [`qemu`] boots other kernels, for [`verify`] to ask them too.

mod checksums;
mod notice;
pub mod places;
pub mod proc;
pub mod qemu;
pub mod record;
pub mod recordings;
pub mod rollback;
pub mod snapshot;
pub mod tracefs;
pub mod verify;
