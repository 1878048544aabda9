//! How many page-table entries map a folio.
//!
//! ```text
//!   mapcount   16 bits │ + a multiple of 2^15 of the few folios that need more        exact where it is 0 or 1
//! ```
//!
//! Nearly all folios are mapped by few entries. Of a huge page that was split each process has thousands: with 8192 of them,
//! of pages of 64 KiB, eight processes are more than 16 bits have room for.

use super::{FolioId, Folios};

/// What is counted apart at a time.
const PART: u32 = 1 << 15;

impl Folios {
    /// How many entries map a folio.
    pub(crate) fn mapcount(&self, id: FolioId) -> u64 {
        let apart = if self.parts.is_empty() { 0 } else { self.parts.get(&id).copied().unwrap_or(0) };
        u64::from(self[id].mapcount) + u64::from(apart * PART)
    }

    /// So many more entries map a folio.
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

    /// An entry no longer maps a folio; whether none does.
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

    /// A folio is one of its pages from now on, which so many entries map.
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
