//! khugepaged: a kernel thread that collapses small folios into huge pages.
//!
//! ```text
//!   registered address spaces             ─► VMAs  ─► table after table: worth it? (policy.rs) ─► copied (collapse.rs)
//!        ▲      scans pages_to_scan entries, sleeps scan_sleep_millisecs, continues from there       │
//!        └──────────────────────────────────────────────────────────────────────── next one ◄─────────┘
//!
//!   allocation failed  ─► sleeps alloc_sleep_millisecs, once a round
//! ```
//!
//! An address space is registered when it maps a VMA that may have huge pages, with `MADV_HUGEPAGE`, or with
//! its first fault that may use one, and stays so until it ends. Not modelled: file memory, `MADV_COLLAPSE`,
//! userfaultfd, and that a read-only range is skipped (before 6.18). In the kernel: mm/khugepaged.c.

mod collapse;
pub mod policy;
mod scan;

use crate::address_space::AddressSpaces;
use crate::address_space::{MmId, Vpn};
use crate::lru::memcontrol::OverHigh;
use machine::Time;

/// The state of khugepaged (`struct khugepaged_scan`).
#[derive(Clone, Debug, Default)]
pub struct KhugepagedState {
    /// Registered address spaces, in the order of registration.
    mms: Vec<MmId>,
    /// Where the scan continues.
    cursor: Option<(MmId, Vpn)>,
    /// Progress of this round: PTEs scanned, how often it began with the first address space, and whether it
    /// has slept after a failed allocation.
    progress: u32,
    heads: u32,
    slept: bool,
    /// When the scan continues.
    next: Time,
    /// What the kernel thread owes for memory.high. It reclaims; that it would also sleep is left out.
    over_high: OverHigh,
    /// Huge pages collapsed (`khugepaged/pages_collapsed`).
    pub pages_collapsed: u64,
    /// Scans of all registered address spaces (`khugepaged/full_scans`).
    pub full_scans: u64,
}

impl KhugepagedState {
    /// Continues with the address space after `mm`.
    fn go_on(&mut self, mm: MmId) {
        let place = self.mms.iter().position(|&other| other == mm).expect("the address space is registered");
        self.cursor = self.mms.get(place + 1).map(|&next| (next, 0));
    }
}

fn milliseconds(count: u32) -> Time {
    Time::from_nanoseconds(u64::from(count) * 1_000_000)
}

impl AddressSpaces {
    pub fn khugepaged_state(&self) -> &KhugepagedState {
        &self.khugepaged
    }

    /// Registers an address space, which must not be registered yet (`__khugepaged_enter`).
    pub(crate) fn khugepaged_enter(&mut self, mm: MmId) {
        self.mms[mm].khugepaged = true;
        self.khugepaged.mms.push(mm);
    }

    /// Unregisters an address space that ends (`__khugepaged_exit`).
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
