//! Trace files: recorded demand on the page allocator.
//!
//! A trace is what one machine asked of its page allocator while a command ran, with the few scheduler events
//! that say which task asked. It is a Parquet file with one row per event in the order of time, which pandas,
//! DuckDB and polars can read.
//!
//! ```text
//!       time  cpu  task  operation     order  migratetype      pfn  argument  blocked
//!          0    1   812  alloc             0            1  1337642   0x140dca  false   one page for task 812
//!        964    1   812  free              0           -1  1337001          0  false
//!       1210    1   812  free_batched      0           -1  1337001          0  false   ... and onto CPU 1's list
//!      90433    1   812  switch            0           -1  none           17  true    812 waits, 17 runs
//! ```
//!
//! Every row is a tracepoint of the kernel; nothing is inferred. [`Operation`] says which tracepoint an
//! operation comes from and what its `argument` is. Everything else that a replay needs is a JSON document
//! ([`Metadata`]) under the key [`METADATA_KEY`]: the state of the machine before and after (the text of
//! `/proc/zoneinfo` and similar files), the sysctls, the names of the tasks, the number of lost events.
//!
//! A file has a hash of its contents ([`crate::content_hash`]), which can be checked only after the last row.
//! Code that acts on rows must read to the end before it publishes anything.
//!
//! Errors name the file, the row and the column: see [`TraceError`]. A trace that lost events can be read,
//! but a replay first calls [`TraceReader::require_lossless`], because pages whose allocation is missing
//! cannot be freed.

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
