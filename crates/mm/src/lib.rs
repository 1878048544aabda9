//! What the kernel decides: Linux's memory manager on a simulated machine.
//!
//! ```text
//!   a request ─► page_alloc    which zones, in which order, may it go below which watermark?
//!                   │
//!                   ├─► pcp    the CPU's own stock: private, fast; policy.rs decides how much it holds
//!                   │    │ refill, bulk free
//!                   └─► zone   free lists (buddy), watermarks, one lock
//!                         │
//!   reads, faults ─► readahead, filemap, memory ─► folio in xarray, page table ─► lru (batches) ─► lruvec
//!                        │ no memory                                                   │
//!                        └─► vmscan, mglru ◄───────────────────────────────────────────┘
//!                               └─► workingset (shadow), swapfile, writeback
//!
//!   memcontrol: groups and their limits         lru_lock: what else a page fault locks
//!   huge_memory: large anonymous folios         compaction: blocks out of scattered free pages
//!   hugetlb: pools of huge pages                vmemmap: the map of struct pages, as memory
//!   vmstat: the worker that lets stocks decay   numa: which node's memory a thread uses, and bringing them together
//!   features: which kernel is this?             sysctl: its settings       counters: what it counted
//! ```
//!
//! Decisions are pure functions in files named `policy.rs` (and in [`watermark`]); mechanics move pages and
//! charge the [`machine::Machine`]. The crate knows no workload, no file, no thread and no clock but the
//! machine's, and builds for `wasm32-unknown-unknown`.

pub mod account;
pub mod address_space;
pub mod buddy;
pub mod compaction;
pub mod counters;
mod device_reads;
pub mod fault_injection;
pub mod features;
pub mod filemap;
pub mod folio;
pub mod foresight;
mod growth;
pub mod gup;
pub mod huge_memory;
pub mod hugetlb;
pub mod jiffies;
pub mod kernel;
pub mod latency;
pub mod lru;
pub mod lru_lock;
pub mod lruvec;
pub mod mechanism;
pub mod memcontrol;
pub mod memory;
pub mod memory_map;
pub mod mempolicy;
pub mod mglru;
mod migrate;
pub mod mlock;
pub mod numa;
pub mod oom_kill;
pub mod page;
pub mod page_alloc;
pub mod pcp;
pub mod proc;
pub mod readahead;
pub mod series;
pub mod swapfile;
pub mod sysctl;
pub mod vmemmap;
pub mod vmscan;
pub mod vmstat;
pub mod watermark;
pub mod workingset;
pub mod writeback;
pub mod xarray;
pub mod zone;

pub use account::Category;
pub use counters::{Counters, Event};
pub use features::Features;
pub use kernel::Kernel;
pub use mechanism::Mechanism;
pub use memory_map::ZoneType;
pub use page::{MigrateType, Pfn};
pub use page_alloc::{MemoryManager, Placement, Request};
pub use series::{Series, Variant};
pub use sysctl::{SETTINGS, SettingError, Settings};
pub use zone::Zone;
