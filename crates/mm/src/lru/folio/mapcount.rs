//! How many PTEs map a folio (`folio_mapcount`).
//!
//! ```text
//!   mapcount   16 bits │ + a multiple of 2^15 for the few folios that need more      exact if it is 0 or 1
//! ```
//!
//! Nearly all folios are mapped by few PTEs. A huge page whose PMD mapping was split is mapped by thousands
//! in each process: with 8192 PTEs, of pages of 64 KiB, eight processes have more than 16 bits can count.

use super::{FolioId, Folios};

/// Mappings that one unit in `Folios::parts` stands for.
const PART: u32 = 1 << 15;

impl Folios {
    /// How many PTEs map a folio, a PMD mapping counting as one.
    pub(crate) fn mapcount(&self, id: FolioId) -> u64 {
        let apart = if self.parts.is_empty() { 0 } else { self.parts.get(&id).copied().unwrap_or(0) };
        u64::from(self[id].mapcount) + u64::from(apart * PART)
    }

    /// Counts `entries` more PTEs that map a folio.
    #[inline]
    pub(crate) fn add_mappings(&mut self, id: FolioId, entries: u16) {
        match self[id].mapcount.checked_add(entries) {
            Some(sum) => self[id].mapcount = sum,
            None => {
                *self.parts.entry(id).or_default() += 1;
                self[id].mapcount -= PART as u16;
                self[id].mapcount += entries;
            }
        }
    }

    /// Counts one PTE less that maps a folio; returns whether that was the last.
    #[inline]
    pub(crate) fn remove_mapping(&mut self, id: FolioId) -> bool {
        let folio = &mut self[id];
        folio.mapcount -= 1;
        let left = folio.mapcount;
        if left <= 1 && !self.parts.is_empty() {
            self.fetch_part(id);
            return self[id].mapcount == 0;
        }
        left == 0
    }

    /// Sets the mapcount of a folio that has been split, and is one of its pages now, to `entries`.
    pub(crate) fn set_mappings(&mut self, id: FolioId, entries: u16) {
        self.parts.remove(&id);
        self[id].mapcount = entries;
    }

    #[cold]
    fn fetch_part(&mut self, id: FolioId) {
        let Some(parts) = self.parts.get_mut(&id) else { return };
        *parts -= 1;
        if *parts == 0 {
            self.parts.remove(&id);
        }
        self[id].mapcount += PART as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::folio::{FolioFlags, LruvecId};

    #[test]
    fn counts_go_beyond_16_bits_and_back() {
        let mut folios = Folios::default();
        let [one, other] = [0, 8192].map(|pfn| folios.create(pfn, FolioFlags::default(), 0, LruvecId(0)));
        for count in 1..=30 {
            folios.add_mappings(one, 8192);
            assert_eq!(folios.mapcount(one), count * 8192);
        }
        folios.add_mappings(other, 1);
        assert!(folios.remove_mapping(other));
        for left in (0..30 * 8192).rev() {
            assert_eq!(folios.remove_mapping(one), left == 0);
            assert_eq!((folios.mapcount(one), folios[one].mapcount < 2), (left, left < 2));
        }
        assert!(folios.parts.is_empty());
    }
}
