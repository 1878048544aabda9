//! Prefetching into the host's caches what the simulation will need soon. It makes replays faster and has no
//! effect on results.
//!
//! ```text
//!   block of reads     third next      second next                      next
//!   prefetched         its slots       flags of folios, or shadows      records of folios to be activated
//! ```
//!
//! The pages of a large simulated memory are spread over more of the host's memory than its caches hold. A
//! caller that knows the next accesses, as the replay of a trace does, announces them in blocks of
//! [`Foresight::BLOCK`]. A prefetch that is too late, or in vain, costs a little time. The kernel does the
//! same for one folio at a time (`prefetchw_prev_lru_folio` in mm/vmscan.c).

use crate::kernel::Parts;
use crate::lru::folio::FolioId;
use crate::page_cache::xarray::FileId;

/// A page that has no slot or no folio.
const NONE: u32 = u32::MAX;

/// The accesses that have been announced.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// Slots of the block that was announced last.
    slots: [u32; Foresight::BLOCK],
    /// Folios of the block before that.
    folios: [u32; Foresight::BLOCK],
}

impl Default for Foresight {
    fn default() -> Self {
        let nothing = [NONE; Foresight::BLOCK];
        Foresight { slots: nothing, folios: nothing }
    }
}

impl Foresight {
    /// Reads that are announced together: enough for memory to arrive before the next block, few enough to be
    /// still in the caches then.
    pub const BLOCK: usize = 8;

    /// How many blocks ahead a block is to be announced.
    pub const AHEAD: usize = 3;
}

impl Parts {
    /// Announces the `pages` of a file, at most a block of them, that will be read in the block
    /// [`Foresight::AHEAD`] after the one that is read next, and prefetches for the blocks announced before.
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
