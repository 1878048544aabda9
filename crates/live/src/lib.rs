//! Observes the Linux kernel that mmtwin runs on: records its allocations, reads its state, and verifies the twin
//! against it.
//!
//! ```text
//!   tracefs ----- record ----> build.parquet      events of the page allocator or the page cache
//!   /proc, /sys - snapshot --> text in the trace  the state of the kernel's memory manager
//!                 proc ------> numbers            that text, parsed; the twin's own /proc text parses the same way
//! ```
//!
//! [`tracefs`] and [`proc`] parse file formats, [`snapshot`] reads the running kernel, [`record`] combines them.
//! [`verify`] compares the twin with the running kernel, with recordings, and with kernels that [`qemu`] boots.

mod checksums;
pub mod doctor;
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
