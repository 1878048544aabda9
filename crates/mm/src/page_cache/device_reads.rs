//! Read requests that wait for the devices: each is a run of folios.
//!
//! ```text
//!   push a, push b, end_request, push c, end_request  ─►  take: a b   take: c   take: nothing
//! ```

use crate::lru::folio::FolioId;

/// Read requests that no device has taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceReads {
    folios: Vec<FolioId>,
    /// The end of each request in `folios`.
    ends: Vec<usize>,
    /// How many requests have been taken.
    taken: usize,
}

impl DeviceReads {
    /// Adds a folio to the request that is being put together.
    #[inline]
    pub fn push(&mut self, id: FolioId) {
        self.folios.push(id);
    }

    /// Ends the request; folios pushed after this belong to the next one.
    pub fn end_request(&mut self) {
        if self.folios.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.folios.len());
        }
    }

    /// Whether there is neither a folio nor a request; `take` empties the queue when it has nothing left to
    /// return.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.folios.is_empty()
    }

    /// Moves the folios of the next request into `folios`, which is empty. Returns whether there was a
    /// request.
    #[inline]
    pub fn take(&mut self, folios: &mut Vec<FolioId>) -> bool {
        let Some(&end) = self.ends.get(self.taken) else {
            self.folios.clear();
            self.ends.clear();
            self.taken = 0;
            return false;
        };
        let start = self.taken.checked_sub(1).map_or(0, |before| self.ends[before]);
        folios.extend_from_slice(&self.folios[start..end]);
        self.taken += 1;
        true
    }
}
