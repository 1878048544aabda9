//! The kernel's tracing file system: where it is, a private instance in it, and what comes out.
//!
//! ```text
//!   /sys/kernel/tracing/instances/mmtwin-4711-8fTq/
//!     trace_clock  buffer_size_kb  tracing_on      the knobs            instance
//!     events/kmem/mm_page_alloc/{format,enable}    a tracepoint         format
//!     per_cpu/cpu0/{trace_pipe_raw,stats}          its ring buffer      ring_buffer
//!     trace                                        all of them as text  text
//!   /sys/kernel/tracing/kprobe_events              events of our own    kprobes, btf
//! ```
//!
//! An instance has buffers, events and filters of its own, so a recording neither disturbs nor sees what else
//! is traced; removing the directory removes every trace of it. That, and unmounting what had to be mounted, is under
//! guard ([`crate::rollback`]): it is done also if the recorder is killed.
//!
//! In the kernel: `kernel/trace/trace.c` and `kernel/trace/ring_buffer.c` (6.18).

pub mod btf;
mod format;
mod instance;
mod kprobes;
mod mount;
mod ring_buffer;
mod text;

pub use format::{EventFormat, Field, FormatError};
pub use instance::{BufferStatistics, Instance};
pub use kprobes::Kprobes;
pub use mount::{Tracefs, TracefsError};
pub use ring_buffer::{RingBufferError, SubBuffer, SubBufferLayout};
pub use text::TextEvent;
