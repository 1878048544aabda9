//! What the simulation will need soon, fetched from memory ahead of time. It changes how fast a replay is, never what
//! comes of it.
//!
//! ```text
//!   reads to come, in blocks     third next: its place ─► second next: what is there ─► next: will it be activated?
//!                                            slot                      flags; or shadow       record
//! ```
//!
//! Pages of a large memory are spread over more of the host's than its caches hold. Who knows the accesses to come, as
//! a replay of a trace does, names them a block of [`Foresight::BLOCK`] at a time. What was asked for too late, or for nothing,
//! costs a little time. The kernel fetches ahead likewise, a folio at a time (`prefetchw_prev_lru_folio` in mm/vmscan.c).

use crate::kernel::Parts;
use crate::lru::folio::FolioId;
use crate::page_cache::xarray::FileId;

/// Stands for a page without a slot or folio.
const NONE: u32 = u32::MAX;

/// What is known of accesses to come.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// Slots of the block that was named last.
    slots: [u32; Foresight::BLOCK],
    /// Folios of the one before it.
    folios: [u32; Foresight::BLOCK],
}

impl Default for Foresight {
    fn default() -> Self {
        let nothing = [NONE; Foresight::BLOCK];
        Foresight { slots: nothing, folios: nothing }
    }
}

impl Foresight {
    /// Reads that are foreseen together: enough for memory to arrive before the next, few enough for it to be there still.
    pub const BLOCK: usize = 8;

    /// How many blocks ahead pages are to be named.
    pub const AHEAD: usize = 3;
}

impl Parts {
    /// A block of reads comes next. These pages of a file, a block at most, will be read in the one that is
    /// [`Foresight::AHEAD`] blocks after it.
    #[inline]
    pub fn foresee_reads(&self, foresight: &mut Foresight, file: FileId, pages: &[u32]) {
        let Foresight { slots, folios, .. } = foresight;
        for id in folios.iter().filter(|&&id| id != NONE).map(|&id| FolioId(id)) {
            if self.lrus.is_activated_by_use(self.lrus.folios.flags[id]) {
                self.lrus.folios.prefetch(id);
            }
        }
        for (folio, &slot) in folios.iter_mut().zip(&*slots) {
            *folio = NONE;
            if slot == NONE {
                continue;
            }
            match self.page_cache.files.folio_at(slot) {
                Some(id) => {
                    self.lrus.folios.flags.prefetch(id);
                    *folio = id.0;
                }
                None => self.page_cache.files.prefetch_shadow(slot),
            }
        }
        *slots = [NONE; Foresight::BLOCK];
        for (slot, &page) in slots.iter_mut().zip(pages) {
            if let Some(found) = self.page_cache.files.slot(file, page) {
                self.page_cache.files.prefetch(found);
                *slot = found;
            }
        }
    }
}
