//! Rulers: well-known replacement policies, to tell how far a kernel is from the possible.
//!
//! ```text
//!   trace ─► Sequence (page numbers, in order) ─► policy x memory size, all cores ─► miss-ratio curves
//!                                                   │
//!                belady   the optimum: nothing that takes in what it misses does better
//!                lru      what most people mean by "cache"
//!                clock, arc, lirs, s3-fifo, w-tiny-lfu      from their papers
//!                cls, g61, g65, rfc6, g67, g614, g72        the twin's kernels, under a memory cgroup's limit
//! ```
//!
//! A ruler knows page numbers and its capacity and nothing else: no time, no dirty pages, no readahead. Its hits
//! and misses are exact and the same on every machine. Published cache libraries hash, sample or evict in the
//! background, so that the same trace may give other misses; these are small and follow their papers to the page
//! instead. Each is checked against a slow transcription of its paper, and counts against libCacheSim's.

mod arc;
mod belady;
mod clock;
mod curve;
mod kernel;
mod lirs;
mod lists;
mod lru;
mod s3_fifo;
mod sequence;
#[cfg(test)]
mod tests;
mod w_tiny_lfu;

pub use arc::Arc;
pub use belady::{Belady, NextUses};
pub use clock::Clock;
pub use curve::{CurveError, Point, curves, default_sizes, sampled_curves, write_parquet};
pub use kernel::Kernel;
pub use lirs::Lirs;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;
pub use sequence::{Place, Sequence, SequenceError};
pub use w_tiny_lfu::WTinyLfu;

/// A policy with its pages. Its capacity, in pages, is given when it is made.
pub trait Ruler {
    /// Uses `page`, a dense number, and takes it into memory if it was not there. Whether it was: a hit.
    fn access(&mut self, page: u32) -> bool;
}

macro_rules! kernel {
    ($variant:literal, $about:literal) => {
        Policy {
            name: $variant,
            about: $about,
            misses: |capacity, sequence| Kernel::new($variant, capacity).misses(sequence),
        }
    };
}

/// Something that a miss-ratio curve can be drawn of.
#[derive(Debug)]
pub struct Policy {
    /// As in `--policies`.
    pub name: &'static str,
    /// What it is, with its source.
    pub about: &'static str,
    /// Misses of a sequence with so many pages of memory.
    misses: fn(usize, &Sequence) -> u64,
}

impl Policy {
    /// All of them, the optimum first.
    pub const ALL: &[Policy] = &[
        Policy {
            name: "belady",
            about: "the optimum, which knows the future (Belady 1966)",
            misses: |capacity, sequence| replay(Belady::new(capacity, sequence.next_uses()), sequence),
        },
        Policy {
            name: "lru",
            about: "least recently used, exact",
            misses: |capacity, sequence| replay(Lru::new(capacity), sequence),
        },
        Policy {
            name: "clock",
            about: "one bit a page and a hand (Corbató 1968)",
            misses: |capacity, sequence| replay(Clock::new(capacity), sequence),
        },
        Policy {
            name: "arc",
            about: "recency and frequency in balance (Megiddo, Modha, FAST 2003)",
            misses: |capacity, sequence| replay(Arc::new(capacity), sequence),
        },
        Policy {
            name: "lirs",
            about: "inter-reference recency (Jiang, Zhang, SIGMETRICS 2002)",
            misses: |capacity, sequence| replay(Lirs::new(capacity), sequence),
        },
        Policy {
            name: "s3-fifo",
            about: "three queues (Yang et al., SOSP 2023)",
            misses: |capacity, sequence| replay(S3Fifo::new(capacity), sequence),
        },
        Policy {
            name: "w-tiny-lfu",
            about: "admission by frequency (Einziger et al., ACM TOS 2017), counts exact",
            misses: |capacity, sequence| replay(WTinyLfu::new(capacity), sequence),
        },
        kernel!("cls", "Linux, classic LRU: active and inactive lists"),
        kernel!("g61", "Linux 6.1, multi-gen LRU"),
        kernel!("g65", "Linux 6.5, multi-gen LRU"),
        kernel!("rfc1-cls", "classic LRU with patch 1 of the refault-distance series"),
        kernel!("rfc6", "multi-gen LRU with all of the refault-distance series, as intended"),
        kernel!("g67", "Linux 6.7 to 6.13, multi-gen LRU"),
        kernel!("g614", "Linux 6.14 and later, multi-gen LRU"),
        kernel!("g72", "Linux 7.2, multi-gen LRU"),
    ];

    /// Whether it is one of the twin's kernels. They evict in batches, and read past memory that is too small for that.
    pub fn is_kernel(&self) -> bool {
        mm::Series::RECLAIM.variant(self.name).is_some()
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<&'static Policy> {
        Policy::ALL.iter().find(|policy| policy.name == name)
    }

    /// Misses of `sequence` with `capacity` pages of memory, which is empty at first.
    pub fn misses(&self, capacity: usize, sequence: &Sequence) -> u64 {
        (self.misses)(capacity, sequence)
    }
}

/// One copy for each policy, so that its accesses are inlined.
fn replay(mut ruler: impl Ruler, sequence: &Sequence) -> u64 {
    sequence.pages().iter().map(|&page| u64::from(!ruler.access(page))).sum()
}
