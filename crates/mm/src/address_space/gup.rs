//! Populating memory before a program touches it.
//!
//! ```text
//!   MAP_POPULATE, MADV_POPULATE_WRITE, mlock ─► for each page: a write fault if the VMA is private and writable,
//!                                               otherwise a read fault; new pages hold zeroes
//! ```
//!
//! In the kernel: `populate_vma_page_range`, `faultin_page` in mm/gup.c.

use crate::address_space::memory::Touch;
use crate::address_space::{MmId, Pte, VmFlags, Vma, Vpn};
use crate::allocator::request::OutOfMemory;
use crate::kernel::Kernel;

/// Whether pages of a VMA are faulted in for writing, so that no store has to copy them later.
fn is_for_stores(vma: &Vma) -> bool {
    vma.flags.has(VmFlags::WRITE) && vma.is_private()
}

impl Kernel<'_> {
    /// Faults a page in before its program touches it (`faultin_page`). Panics if no VMA maps the page.
    pub fn populate(&mut self, mm: MmId, page: Vpn) -> Result<Touch, OutOfMemory> {
        let vma = self.parts.address_spaces.mms[mm].vmas.find(page).expect("the page is in a VMA");
        let write = is_for_stores(vma);
        let entry = self.parts.address_spaces.pte(mm, page);
        let is_there = entry.folio().is_some() && (!write || entry.has(Pte::WRITE));
        if is_there || !write && entry == Pte::ZERO {
            return Ok(Touch::Mapped);
        }
        match self.handle_mm_fault((mm, page, self.parts.address_spaces.entry(mm, page)), write)? {
            // The page can be mapped while it is being read, since nobody uses it yet.
            Touch::Retry(id) => self.retry_touch(mm, page, write).map(|_| Touch::ReadFile(id)),
            touch => Ok(touch),
        }
    }
}
