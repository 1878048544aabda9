//! What pages compress to: a property of the program, and of the page's place in it.
//!
//! ```text
//!   compressed_bytes = [300, 1500, 4096]     page 0 ─► 1500   page 1 ─► 300   page 2 ─► 300   ...    always the same for a page
//!   a page that nobody has stored to         0
//! ```

use crate::address_space::{MmId, Vpn};
use crate::kernel::Parts;
use crate::lru::folio::FolioId;

/// A number that a page always has and that is unlike those of its neighbours (the finaliser of SplitMix64).
fn scatter(mm: MmId, page: Vpn) -> u64 {
    let mut bits = (mm.index() as u64) << 44 ^ page;
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        bits = (bits ^ bits >> 29).wrapping_mul(factor);
    }
    bits ^ bits >> 32
}

impl Parts {
    /// What each page of a mapped folio compresses to; nothing if it is all zeroes.
    pub(crate) fn compressed_lengths(&self, id: FolioId) -> Vec<u32> {
        let tables = &self.address_spaces.page_tables;
        let pages = self.lrus.folios.flags[id].nr_pages() as usize;
        let number = tables.at_slot(self.lrus.folios[id].slot);
        let table = &tables[number.table()];
        let place = number.place() / pages * pages;
        let default = self.zswap.compressor.map_or(0, |compressor| compressor.bytes);
        let lengths = &self.address_spaces.mm(table.mm).compressed_bytes;
        let length = |place: usize| {
            if table.untouched(place..place + 1, id) > 0 {
                return 0;
            }
            match lengths.len() {
                0 => default,
                count => lengths[(scatter(table.mm, table.first + place as u64) % count as u64) as usize],
            }
        };
        (place..place + pages).map(length).collect()
    }
}
