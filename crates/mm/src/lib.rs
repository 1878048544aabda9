//! Linux's memory manager as an ordinary crate: it decides as the kernel does, on a simulated machine.
//!
//! ```text
//!   a program ─► Kernel { parts, on }
//!                  │        └── the CPU that pays, its machine, the kernel's features, settings and counters
//!                  ├── allocator      a request ─► page_alloc ─► pcp (the CPU's pageset) ─► zone (buddy, watermarks, one lock)
//!                  ├── lru            folio ─► batches ─► lruvec ─► vmscan, mglru ─► workingset (shadow entries)
//!                  ├── page_cache     read ─► readahead, filemap ─► folio in xarray; writeback
//!                  ├── address_space  touch ─► memory ─► page table, rmap; huge_memory: large anonymous folios; mlock, gup
//!                  ├── swapfile       swap-out, swap-in, swap cache
//!                  ├── hugetlb        pools of huge pages; vmemmap: HVO, memory of struct pages
//!                  └── numa           NUMA balancing: scans, hint faults, placement
//!
//!   features: the rules of each kernel     sysctl: settings     write: files     counters: events     mm_init: boot
//! ```
//!
//! Decisions are pure functions in files named `policy.rs` (and in [`watermark`]); the mechanics beside them
//! move pages and charge the [`machine::Machine`]. The crate knows no workload, file or thread and no clock
//! but the machine's, and builds for `wasm32-unknown-unknown`.

pub mod account;
pub mod address_space;
pub mod allocator;
pub mod counters;
pub mod damon;
pub mod decisions;
pub mod delayacct;
pub mod features;
pub mod file_name;
pub mod hugetlb;
pub mod jiffies;
pub mod kernel;
pub mod latency;
pub mod lru;
pub mod mechanism;
mod memparse;
mod migrate;
mod mm_init;
pub mod numa;
pub mod on_cpu;
pub mod oom_kill;
pub mod page_cache;
pub mod proc;
pub mod series;
mod set_bits;
pub mod slub;
pub mod swapfile;
pub mod sysctl;
mod vec_growth;
pub mod write;
pub mod zswap;

pub use address_space::{gup, huge_memory, memory, mlock};
pub use allocator::{
    buddy, compaction, fault_injection, memory_map, page, page_alloc, pcp, vmstat, watermark, zone,
};
pub use hugetlb::vmemmap;
pub use lru::{folio, lru_lock, lruvec, memcontrol, mglru, vmscan, workingset};
pub use numa::mempolicy;
pub use page_cache::{filemap, prefetch, readahead, writeback, xarray};

pub use account::Category;
pub use allocator::memory_map::ZoneType;
pub use allocator::page::{MigrateType, Pfn};
pub use allocator::request::{Placement, Request};
pub use allocator::zone::Zone;
pub use counters::{Counters, Event};
pub use decisions::Decisions;
pub use features::Features;
pub use kernel::{Kernel, MemoryManager, Parts};
pub use mechanism::Mechanism;
pub use on_cpu::OnCpu;
pub use series::{Series, Variant};
pub use sysctl::{SETTINGS, SettingError, Settings};
