//! The kernel's tracing file system: finding it, a private instance in it, and its output formats.
//!
//! ```text
//!   /sys/kernel/tracing/instances/mmtwin-4711-8fTq/
//!     trace_clock  buffer_size_kb  tracing_on      control files        instance
//!     events/kmem/mm_page_alloc/{format,enable}    a tracepoint         format
//!     per_cpu/cpu0/{trace_pipe_raw,stats}          its ring buffer      ring_buffer
//!     trace                                        all events as text   text
//!   /sys/kernel/tracing/kprobe_events              our own events       kprobes, btf
//! ```
//!
//! An instance has its own buffers, events and filters, so a recording neither disturbs other tracing nor
//! sees its events; removing the directory removes everything. A guard ([`crate::rollback`]) does that, and
//! unmounts tracefs if it was not mounted before, even if the recorder is killed.
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
