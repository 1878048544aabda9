//! Reads that wait for whoever runs the devices: folios, request after request.
//!
//! ```text
//!   push a, push b, end_request, push c, end_request  ─►  take: a b   take: c   take: nothing
//! ```

use crate::lru::folio::FolioId;

/// Requests to read that nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceReads {
    folios: Vec<FolioId>,
    /// Where in `folios` each request ends.
    ends: Vec<usize>,
    /// Requests that have been taken.
    taken: usize,
}

impl DeviceReads {
    /// One folio more of the request that is being put together.
    #[inline]
    pub fn push(&mut self, id: FolioId) {
        self.folios.push(id);
    }

    /// What has been pushed since the last request ended is one of its own.
    pub fn end_request(&mut self) {
        if self.folios.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.folios.len());
        }
    }

    /// Whether nothing has been pushed since all requests were found to be taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.folios.is_empty()
    }

    /// Puts the folios of the next request into `folios`, which is empty; whether there was one.
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
