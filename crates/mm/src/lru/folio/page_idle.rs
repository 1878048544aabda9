//! Whether a folio has been accessed since somebody last asked, for those who clear accessed bits besides reclaim.
//!
//! ```text
//!   who asks     clears the accessed bits of PTEs ──► idle; if one was set, young
//!   an access    sets the bit of a PTE again, or, of a file's page that is read, clears idle (with the classic LRU only)
//!   reclaim      takes young for an access, as the bit that it would have found is gone
//! ```
//!
//! Only DAMON asks. As long as it has not, there is no table, and nothing to keep.
//!
//! In the kernel: `PG_idle` and `PG_young`, include/linux/page_idle.h.

use super::FolioId;

const IDLE: u8 = 1 << 0;
const YOUNG: u8 = 1 << 1;

/// Both flags of each folio, up to the last that has been asked about.
#[derive(Clone, Debug, Default)]
pub struct PageIdle(Vec<u8>);

impl PageIdle {
    /// Notes that nothing is known of a folio's accesses from now on; `was_young` if one was seen (`folio_set_idle`, `folio_set_young`).
    pub fn set_idle(&mut self, id: FolioId, was_young: bool) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, 0);
        }
        self.0[id.index()] |= if was_young { IDLE | YOUNG } else { IDLE };
    }

    /// Whether nobody has cleared it since (`folio_test_idle`).
    pub fn is_idle(&self, id: FolioId) -> bool {
        self.0.get(id.index()).is_some_and(|flags| flags & IDLE != 0)
    }

    /// Notes an access (`folio_clear_idle`).
    #[inline]
    pub fn clear_idle(&mut self, id: FolioId) {
        self.take(id, IDLE);
    }

    /// Whether an access was seen that reclaim has not (`folio_test_clear_young`).
    #[inline]
    pub fn take_young(&mut self, id: FolioId) -> bool {
        self.take(id, YOUNG)
    }

    /// Forgets what is known of a folio, which is another from now on.
    #[inline]
    pub fn forget(&mut self, id: FolioId) {
        self.take(id, IDLE | YOUNG);
    }

    /// Bytes of host memory that it takes.
    pub fn bytes(&self) -> usize {
        self.0.capacity()
    }

    #[inline]
    fn take(&mut self, id: FolioId, which: u8) -> bool {
        let Some(flags) = self.0.get_mut(id.index()) else { return false };
        let had = *flags & which != 0;
        *flags &= !which;
        had
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_ends_idleness_and_what_was_seen_is_told_once() {
        let (mut idle, id) = (PageIdle::default(), FolioId(3));
        assert!(!idle.is_idle(id) && !idle.take_young(id));
        idle.set_idle(id, true);
        idle.set_idle(id, false);
        assert!(idle.is_idle(id) && !idle.is_idle(FolioId(2)));
        idle.clear_idle(id);
        assert!(!idle.is_idle(id));
        assert!(idle.take_young(id) && !idle.take_young(id));
        idle.set_idle(id, true);
        idle.forget(id);
        assert!(!idle.is_idle(id) && !idle.take_young(id));
    }
}
