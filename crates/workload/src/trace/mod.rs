//! Recorded demand: the trace file.
//!
//! A trace is what one machine asked of its page allocator while a command ran, and the few scheduler
//! events that say who asked: one row an event, in time order, in a Parquet file that pandas, DuckDB and
//! polars read as it stands.
//!
//! ```text
//!       time  cpu  task  operation     order  migratetype      pfn  argument  blocked
//!          0    1   812  alloc             0            1  1337642   0x140dca  false   one page for task 812
//!        964    1   812  free              0           -1  1337001          0  false
//!       1210    1   812  free_batched      0           -1  1337001          0  false   ... and onto CPU 1's list
//!      90433    1   812  switch            0           -1  none           17  true    812 waits, 17 runs
//! ```
//!
//! The rows are the kernel's own tracepoints, nothing is inferred: which tracepoint an operation comes
//! from, and what `argument` holds for it, is said at [`Operation`]. Everything else a replay needs travels
//! in the file as one JSON document under the key [`METADATA_KEY`]: the machine before and after (the text
//! of `/proc/zoneinfo` and its neighbours), the sysctls in force, the names of the tasks, how many events
//! were lost (see [`Metadata`]).
//!
//! A file has a hash of all that it says ([`crate::content_hash`]). It is known to be right only when its last row has been
//! read: whoever acts on rows reads to the end before anything is made known.
//!
//! What the reader refuses, it refuses with an error that names the file, the row or the column: see
//! [`TraceError`]. A trace that lost events is readable, but [`TraceReader::require_lossless`] is what a
//! replay calls first: pages whose allocation is missing cannot be freed.

mod error;
mod event;
mod metadata;
mod read;
mod schema;
mod write;

pub use error::TraceError;
pub use event::{Event, NO_MIGRATETYPE, NO_PAGE, Operation};
pub use metadata::{Cache, Ending, FIRST_HASHED_FORMAT, FORMAT, Loss, METADATA_KEY, Metadata, Snapshot};
pub use read::TraceReader;
pub use write::TraceWriter;

#[cfg(test)]
mod tests;
