//! The LRUs: folios, and what decides in which order they are reclaimed.
//!
//! ```text
//!   new folio ─► batches (of a CPU) ─► lruvec (of a memory cgroup on a node) ─► vmscan, mglru ─► freed, written, or kept
//!                                          ▲                                                      │
//!                                          └── workingset: what a shadow says when it comes back ◄┘
//! ```
//!
//! `kind.rs` is the one place where the classic and the multi-gen LRU part ways; a third would begin there.
//! In the kernel: mm/swap.c, mm/vmscan.c, mm/workingset.c, mm/memcontrol.c, include/linux/mm_inline.h.

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

/// Folios, lruvecs, memory cgroups, and what decides in which order folios are reclaimed.
#[derive(Clone, Debug)]
pub struct Lrus {
    /// What every page of memory that is in use is (`struct folio`): all parts read it and mark what is theirs.
    pub(crate) folios: Folios,
    pub(crate) lruvecs: Lruvecs,
    folio_batches: Vec<FolioBatches>,
    pub(crate) memcgs: Memcgs,
    /// By node.
    memcg_lrus: Vec<MemcgLru>,
    /// By node.
    kswapds: Vec<KswapdState>,
    shadow_layout: ShadowLayout,
    /// The one in use.
    lru: Lru,
    /// A process is to be killed.
    oom_kill_wanted: bool,
}

impl Lrus {
    /// No folio yet. `turns` chooses in which order memory cgroups of an LRU of memory cgroups have their turns.
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
            shadow_layout: shadow_layout.expect("the largest shift of node numbers"),
            lru: Lru::Classic,
            oom_kill_wanted: false,
        };
        lrus.make_lruvecs(Memcg::ROOT);
        lrus
    }

    /// Changes from one LRU to the other where a setting says so (`lru_gen/enabled`).
    pub(crate) fn configure(&mut self, features: &Features, settings: &Settings) {
        let lru = Lru::in_use(&features.reclaim, settings.lru_gen.enabled);
        if lru != std::mem::replace(&mut self.lru, lru) {
            self.lru_gen_change_state();
        }
    }

    /// Asks for a process to be killed, on behalf of `lru_gen/min_ttl_ms`.
    pub(crate) fn ask_for_oom_kill(&mut self) {
        self.oom_kill_wanted = true;
    }

    /// Whether that was asked for since this was called last.
    pub(crate) fn take_oom_kill_wish(&mut self) -> bool {
        std::mem::take(&mut self.oom_kill_wanted)
    }
}

/// What a node's kswapd has to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct KswapdState {
    /// The block that is wanted and the highest zone it may come from; none if nobody has asked.
    pub wanted: Option<(u8, ZoneType)>,
    /// Runs in vain in succession.
    pub failures: u32,
}

/// Batches of one CPU (`struct cpu_fbatches`).
#[derive(Clone, Debug, Default)]
pub(crate) struct FolioBatches {
    lru_add: Vec<FolioId>,
    lru_move_tail: Vec<FolioId>,
    lru_activate: Vec<FolioId>,
}
