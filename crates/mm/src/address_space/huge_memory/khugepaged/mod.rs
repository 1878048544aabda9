//! khugepaged: a daemon that makes huge pages of small ones.
//!
//! ```text
//!   address spaces that have asked for it ─► areas ─► table after table: worth it? (policy.rs) ─► copied (collapse.rs)
//!        ▲      scans pages_to_scan entries, sleeps scan_sleep_millisecs, goes on where it was        │
//!        └──────────────────────────────────────────────────────────────────────── next one ◄─────────┘
//!
//!   no block to be had ─► sleeps alloc_sleep_millisecs, once a round
//! ```
//!
//! An address space enters the list when it maps an area that may have huge pages, when it asks for them, or when one of its
//! faults does, and stays until it ends. Left out: memory of files, `MADV_COLLAPSE`, userfaultfd, and that a read-only
//! range is passed over (before 6.18). In the kernel: mm/khugepaged.c.

mod collapse;
pub mod policy;
mod scan;

use crate::address_space::AddressSpaces;
use crate::address_space::{MmId, Vpn};
use machine::Time;

/// What khugepaged knows (`khugepaged_scan`).
#[derive(Clone, Debug, Default)]
pub struct KhugepagedState {
    /// Address spaces, those that came first first.
    mms: Vec<MmId>,
    /// Where it goes on.
    cursor: Option<(MmId, Vpn)>,
    /// What this round has come to: entries looked at, how often it began at the first address space, whether it has slept
    /// because there was no block.
    progress: u32,
    heads: u32,
    slept: bool,
    /// When it goes on.
    next: Time,
    /// Huge pages that it made (`khugepaged/pages_collapsed`).
    pub pages_collapsed: u64,
    /// How often it went through all address spaces (`khugepaged/full_scans`).
    pub full_scans: u64,
}

impl KhugepagedState {
    /// The address space after the one that it is at.
    fn go_on(&mut self, mm: MmId) {
        let place = self.mms.iter().position(|&other| other == mm).expect("it is on the list");
        self.cursor = self.mms.get(place + 1).map(|&next| (next, 0));
    }
}

fn milliseconds(count: u32) -> Time {
    Time::from_nanoseconds(u64::from(count) * 1_000_000)
}

impl AddressSpaces {
    /// What khugepaged has come to.
    pub fn khugepaged_state(&self) -> &KhugepagedState {
        &self.khugepaged
    }

    /// Puts an address space on the list; it is not there yet.
    pub(crate) fn khugepaged_enter(&mut self, mm: MmId) {
        self.mms[mm].khugepaged = true;
        self.khugepaged.mms.push(mm);
    }

    /// An address space ends.
    pub(crate) fn khugepaged_exit(&mut self, mm: MmId) {
        if self.mms[mm].khugepaged {
            let state = &mut self.khugepaged;
            if state.cursor.is_some_and(|(at, _)| at == mm) {
                state.go_on(mm);
            }
            state.mms.retain(|&other| other != mm);
        }
    }
}
