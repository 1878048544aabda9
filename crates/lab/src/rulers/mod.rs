//! Rulers: well-known replacement policies that show how far a kernel is from what is possible.
//!
//! ```text
//!   trace ─► Sequence (page numbers, in order) ─► policy x memory size, all cores ─► miss-ratio curves
//!                                                   │
//!                belady   the optimum: no policy that admits every missing page is better
//!                lru      exact LRU
//!                clock, arc, lirs, s3-fifo, w-tiny-lfu      from their papers
//!                classic, mglru-6.1, refault-distance-6, ...        the twin's kernels, limited by a memcg
//! ```
//!
//! A ruler knows page numbers and its capacity, and nothing of time, dirty pages or readahead. Its hits and
//! misses are exact and the same on every machine. Published cache libraries hash, sample or evict in the
//! background, so the same trace may give different misses. The rulers here are small and follow their papers
//! exactly. Each is compared with a slow transcription of its paper, and its counts with libCacheSim's.

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

use mm::Series;
use sim::{KernelChoice, KernelError};

/// A policy and the pages in its memory. Its capacity in pages is given when it is created.
pub trait Ruler {
    /// Accesses `page`, a dense number, and brings it into memory on a miss. Returns whether it was a hit.
    fn access(&mut self, page: u32) -> bool;
}

macro_rules! kernel {
    ($variant:literal, $about:literal) => {
        Policy { name: $variant, about: $about, replay: Replay::Kernel($variant) }
    };
}

/// A policy whose miss-ratio curve can be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Name in `--policies`.
    pub name: &'static str,
    /// A description with the source.
    pub about: &'static str,
    replay: Replay,
}

/// How misses are counted.
#[derive(Clone, Copy, Debug)]
enum Replay {
    /// By a ruler, given its capacity in pages.
    Ruler(fn(usize, &Sequence) -> u64),
    /// By one of the twin's kernels, given its name: a variant of the series on reclaim or a release, with features of its own behind a
    /// colon if it has any.
    Kernel(&'static str),
}

/// The kernel of this name.
fn kernel(name: &str) -> Result<KernelChoice, KernelError> {
    KernelChoice::parse(Series::RECLAIM.name, name)
}

impl Policy {
    /// The optimum, the rulers, and one kernel of each kind.
    pub const ALL: &[Policy] = &[
        Policy {
            name: "belady",
            about: "the optimum, which knows the future (Belady 1966)",
            replay: Replay::Ruler(|capacity, sequence| {
                replay(Belady::new(capacity, sequence.next_uses()), sequence)
            }),
        },
        Policy {
            name: "lru",
            about: "least recently used, exact",
            replay: Replay::Ruler(|capacity, sequence| replay(Lru::new(capacity), sequence)),
        },
        Policy {
            name: "clock",
            about: "one bit a page and a hand (Corbató 1968)",
            replay: Replay::Ruler(|capacity, sequence| replay(Clock::new(capacity), sequence)),
        },
        Policy {
            name: "arc",
            about: "recency and frequency in balance (Megiddo, Modha, FAST 2003)",
            replay: Replay::Ruler(|capacity, sequence| replay(Arc::new(capacity), sequence)),
        },
        Policy {
            name: "lirs",
            about: "inter-reference recency (Jiang, Zhang, SIGMETRICS 2002)",
            replay: Replay::Ruler(|capacity, sequence| replay(Lirs::new(capacity), sequence)),
        },
        Policy {
            name: "s3-fifo",
            about: "three queues (Yang et al., SOSP 2023)",
            replay: Replay::Ruler(|capacity, sequence| replay(S3Fifo::new(capacity), sequence)),
        },
        Policy {
            name: "w-tiny-lfu",
            about: "admission by frequency (Einziger et al., ACM TOS 2017), counts exact",
            replay: Replay::Ruler(|capacity, sequence| replay(WTinyLfu::new(capacity), sequence)),
        },
        kernel!("classic", "Linux, classic LRU: active and inactive lists"),
        kernel!("mglru-6.1", "Linux 6.1, multi-gen LRU"),
        kernel!("mglru-6.5", "Linux 6.5, multi-gen LRU"),
        kernel!("refault-distance-1-classic", "classic LRU with patch 1 of the refault-distance series"),
        kernel!("refault-distance-6", "multi-gen LRU with all of the refault-distance series, as intended"),
        kernel!("mglru-6.7", "Linux 6.7 to 6.13, multi-gen LRU"),
        kernel!("mglru-6.14", "Linux 6.14 to 6.16, multi-gen LRU"),
        kernel!("mglru-7.2", "Linux 7.2, multi-gen LRU"),
    ];

    /// The policy with this name: one of [`Policy::ALL`], any variant of the series on reclaim, or a kernel release, each with features of its
    /// own: `6.18:mglru.tiers=off`.
    pub fn named(name: &str) -> Result<Policy, KernelError> {
        let name = Series::RECLAIM.present_name(name).unwrap_or(name);
        if let Some(known) = Policy::ALL.iter().find(|policy| policy.name == name) {
            return Ok(*known);
        }
        let about = kernel(name)?.variant.description;
        // Policies are few, and last as long as the program.
        let name: &'static str = name.to_string().leak();
        Ok(Policy { name, about, replay: Replay::Kernel(name) })
    }

    /// Misses of `sequence` with `capacity` pages of memory, starting with empty memory.
    pub fn misses(&self, capacity: usize, sequence: &Sequence) -> u64 {
        match self.replay {
            Replay::Ruler(misses) => misses(capacity, sequence),
            Replay::Kernel(name) => {
                let kernel = kernel(name).expect("policies have names of kernels");
                Kernel::new(&kernel, capacity).misses(sequence)
            }
        }
    }
}

/// Generic, so that each policy gets a copy with its accesses inlined.
fn replay(mut ruler: impl Ruler, sequence: &Sequence) -> u64 {
    sequence.pages().iter().map(|&page| u64::from(!ruler.access(page))).sum()
}
