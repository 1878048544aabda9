//! The LRUs: the folios in memory, and the lists that say in which order reclaim looks at them.
//!
//! ```text
//!   new folio ─► batches (of a CPU) ─► lruvec (of a memcg on a node) ─► vmscan, mglru ─► freed, or kept
//!                                          ▲                                              │
//!                                          └── workingset: the shadow, at the refault ◄───┘
//! ```
//!
//! `kind.rs` is the one place where the classic and the multi-gen LRU part ways; a third LRU would begin
//! there. In the kernel: mm/swap.c, mm/vmscan.c, mm/workingset.c, mm/memcontrol.c, include/linux/mm_inline.h.

pub(crate) mod batches;
pub mod folio;
mod kind;
pub mod lru_lock;
pub mod lruvec;
pub mod memcontrol;
pub mod mglru;
pub mod mmzone;
pub(crate) mod policy;
pub mod vmscan;
pub mod workingset;

use crate::allocator::memory_map::ZoneType;
use crate::features::Features;
use crate::lru::folio::{FolioId, Folios};
use crate::lru::lruvec::Lruvecs;
use crate::lru::memcontrol::{Memcg, Memcgs};
use crate::lru::mglru::MemcgLru;
use crate::lru::vmscan::features::Lru;
use crate::lru::workingset::shadow::{NODES_SHIFT_MAX, ShadowLayout};
use crate::sysctl::Settings;
use machine::Topology;
use rand_pcg::Pcg64Mcg;

/// The state of the LRUs: folios, lruvecs, memory cgroups, and what each kswapd was asked for.
#[derive(Clone, Debug)]
pub struct Lrus {
    /// One record for each folio in use (`struct folio`). All parts of the memory manager read it, and each
    /// sets the flags that are its own.
    pub(crate) folios: Folios,
    pub(crate) lruvecs: Lruvecs,
    folio_batches: Vec<FolioBatches>,
    pub(crate) memcgs: Memcgs,
    /// The memcg LRU of each node, indexed by node.
    memcg_lrus: Vec<MemcgLru>,
    /// Indexed by node.
    kswapds: Vec<KswapdState>,
    shadow_layout: ShadowLayout,
    /// The LRU in use, which `lru_gen/enabled` can change.
    lru: Lru,
    /// Whether the multi-gen LRU asks for an OOM kill, which it may not do in the middle of reclaim.
    oom_kill_wanted: bool,
}

impl Lrus {
    /// The memory cgroup that a folio is charged to (`folio_memcg`).
    #[inline]
    pub(crate) fn memcg_of(&self, id: FolioId) -> Memcg {
        self.lruvecs[self.folios[id].lruvec].memcg
    }

    /// Makes the state before the first folio: the root memory cgroup with its empty lruvecs. `turns` is the
    /// stream of random numbers from which the memcg LRU of each node draws its bins.
    pub(crate) fn new(
        topology: &Topology,
        features: &Features,
        totalram_pages: u64,
        turns: &Pcg64Mcg,
    ) -> Lrus {
        let cpus = topology.cpus();
        let nodes = usize::from(topology.nodes);
        let memcg_lrus = (0..nodes).map(|node| {
            let mut turns = turns.clone();
            turns.advance((node as u128) << 32);
            MemcgLru::new(turns)
        });
        let shadow_layout = ShadowLayout::new(&features.reclaim, NODES_SHIFT_MAX, totalram_pages);
        let mut lrus = Lrus {
            folios: Folios::default(),
            lruvecs: Lruvecs::new(nodes),
            folio_batches: vec![FolioBatches::default(); cpus],
            memcgs: Memcgs::new(cpus),
            memcg_lrus: memcg_lrus.collect(),
            kswapds: vec![KswapdState::default(); nodes],
            shadow_layout: shadow_layout.expect("NODES_SHIFT_MAX is a valid shift"),
            lru: Lru::Classic,
            oom_kill_wanted: false,
        };
        lrus.make_lruvecs(Memcg::ROOT);
        lrus
    }

    /// Moves all folios to the other LRU if `settings` turn the multi-gen LRU on or off (`lru_gen/enabled`).
    pub(crate) fn configure(&mut self, features: &Features, settings: &Settings) {
        let lru = Lru::in_use(&features.reclaim, settings.lru_gen.enabled);
        if lru != std::mem::replace(&mut self.lru, lru) {
            self.lru_gen_change_state();
        }
    }

    /// Asks for an OOM kill, on behalf of `lru_gen/min_ttl_ms`.
    pub(crate) fn ask_for_oom_kill(&mut self) {
        self.oom_kill_wanted = true;
    }

    /// Returns whether an OOM kill was asked for since the last call, and forgets the request.
    pub(crate) fn take_oom_kill_wish(&mut self) -> bool {
        std::mem::take(&mut self.oom_kill_wanted)
    }
}

/// What the kswapd of one node was asked for, and how often it failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct KswapdState {
    /// Order of the block that is wanted and the highest zone that it may come from (`kswapd_order`,
    /// `kswapd_highest_zoneidx`). `None` if nobody has woken it.
    pub wanted: Option<(u8, ZoneType)>,
    /// Runs in a row that reclaimed nothing (`kswapd_failures`).
    pub failures: u32,
}

/// The folio batches of one CPU (`struct cpu_fbatches`).
#[derive(Clone, Debug, Default)]
pub(crate) struct FolioBatches {
    lru_add: Vec<FolioId>,
    lru_move_tail: Vec<FolioId>,
    lru_activate: Vec<FolioId>,
}
