//! Allocating large folios in page faults.
//!
//! ```text
//!   directory   no table for a huge page ─► do_huge_pmd_anonymous_page ─► a huge entry
//!                                              │ not allowed, or none available
//!                                              ▼
//!   table       │ │ │■│ │ │ │ │ │  ─► alloc_anon_folio ─► 2^order entries from the aligned page on
//! ```
//!
//! Threads that fault on the same huge page while one of them still clears it each allocate and clear a huge
//! page of their own, because the PMD is checked again only after that ([`Kernel::lose_huge_page`]).
//!
//! In the kernel: `do_huge_pmd_anonymous_page`, `vma_alloc_anon_folio_pmd` in mm/huge_memory.c, `alloc_anon_folio` in
//! mm/memory.c.

use super::orders::Orders;
use super::policy::{self, Failure, PmdStep, VmaState};
use super::stats::MthpStat;
use crate::Pfn;
use crate::account::Category;
use crate::address_space::AddressSpaces;
use crate::address_space::MmId;
use crate::address_space::memory::{Fault, Touch};
use crate::address_space::{Pte, VmFlags, Vma, VmaId, Vpn};
use crate::allocator::request::Effort;
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::kernel::{MemoryManager, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId};
use machine::{Cpu, Machine, Time};

impl MemoryManager {
    /// Whether smaps reports the VMA of a page as `THPeligible`.
    pub fn is_thp_eligible(&self, mm: MmId, page: Vpn) -> bool {
        let Some(vma) = self.parts.address_spaces.mms[mm].vmas.find(page) else { return false };
        let (f, thp) = (&self.features().folios, &self.settings().transparent_hugepage);
        policy::is_thp_eligible(f, thp, &self.parts.address_spaces.vma_state(mm, vma), &vma.pages())
    }
}

impl Kernel<'_> {
    /// The fault at the PMD level. `None` if the fault continues with PTEs.
    pub(crate) fn do_huge_pmd_anonymous_page(
        &mut self,
        (mm, vma, page): (MmId, VmaId, Vpn),
        write: bool,
    ) -> Option<Touch> {
        let (f, thp) = (self.on.features.folios, self.on.settings.transparent_hugepage);
        let area = &self.parts.address_spaces.mms[mm].vmas[vma];
        let state = self.parts.address_spaces.vma_state(mm, area);
        let allowed = policy::allowed_orders(&f, &thp, &state);
        let step = policy::pmd_step(&thp, allowed, &area.pages(), page, write);
        if step == PmdStep::Pass || !self.parts.address_spaces.is_pmd_none(mm, page) {
            return None;
        }
        self.khugepaged_enter_vma(mm, page);
        let area = self.parts.address_spaces.mms[mm].vmas[vma].flags;
        let added_by = self.added_by_fault(area);
        let order = thp.pmd_order();
        let first = policy::window(page, order).start;
        let (mut entry, began) = (Pte::ZERO, self.on.machine.now(self.on.cpu));
        if step == PmdStep::Zeroes && !self.get_huge_zero_folio(mm) {
            self.on.counters.add(Event::ThpFaultFallback, 1);
            return None;
        }
        if step == PmdStep::Folio {
            let id = self.alloc_anon_folio_pmd((mm, vma, page))?;
            self.folio_add_lru_vma(id, area, added_by);
            entry = Pte::of_folio(id).with(Pte::YOUNG.with(Pte::WRITE).with(Pte::EXCLUSIVE));
        }
        let table = match self.parts.address_spaces.entry(mm, page) {
            Some(entry) => entry.table(),
            None => {
                let table = self.parts.address_spaces.page_tables.create(mm, first, true);
                self.parts.address_spaces.mms[mm].directory.set(page, Some(table));
                table
            }
        };
        let number = table.entry(0);
        self.parts.address_spaces.page_tables[table].set_huge(entry, []);
        if let Some(id) = entry.folio() {
            self.parts.lrus.folios[id].slot = self.parts.address_spaces.page_tables.slot(number);
            self.parts.add_rmap(number, id);
            self.parts.address_spaces.mms[mm].vmas[vma].has_anon = true;
            self.on.counters.add(Event::ThpFaultAlloc, 1);
            self.parts.address_spaces.count_mthp_stat(order, MthpStat::AnonFaultAlloc, 1);
            self.parts.address_spaces.count_mthp_stat(order, MthpStat::NrAnon, 1);
            self.watch_for_underuse(id);
            let until = visible_from(self.on.machine, self.on.cpu, began);
            self.parts.address_spaces.page_tables.note_cleared(table, self.on.cpu, began, until);
        }
        Some(Touch::Minor)
    }

    /// Allocates and clears a huge page without mapping it (`vma_alloc_anon_folio_pmd`). `None` if none is
    /// available, which is counted as a fallback.
    fn alloc_anon_folio_pmd(&mut self, (mm, vma, page): (MmId, VmaId, Vpn)) -> Option<FolioId> {
        let (f, thp) = (self.on.features.folios, self.on.settings.transparent_hugepage);
        let effort = self.on.decisions.folios.effort(
            &f,
            &thp,
            &self.parts.address_spaces.vma_state(mm, &self.parts.address_spaces.mms[mm].vmas[vma]),
        );
        let mut flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
        flags.set_order(thp.pmd_order());
        match self.vma_alloc_folio((mm, vma, page), flags, effort) {
            Err(failure) => {
                self.count_fallback(thp.pmd_order(), failure);
                None
            }
            Ok(id) => {
                let cost = self.on.machine.costs.clear(thp.hpage_pmd_nr().into());
                self.on.machine.charge(self.on.cpu, Category::PageClear, cost);
                Some(id)
            }
        }
    }

    /// A store to a huge page that another thread is still clearing: this thread allocates and clears a huge
    /// page too, finds the PMD populated when it would map it, and frees its page (`unlock_release` in
    /// `do_huge_pmd_anonymous_page`). Charges the cost of that except for the exception itself. Returns
    /// whether this was such a store.
    pub fn lose_huge_page(&mut self, mm: MmId, page: Vpn) -> bool {
        let Some(table) = self.parts.address_spaces.entry(mm, page).map(|entry| entry.table()) else {
            return false;
        };
        let now = self.on.machine.now(self.on.cpu);
        let Some((by, until)) =
            self.parts.address_spaces.page_tables.cleared_by_another(table, self.on.cpu, now)
        else {
            return false;
        };
        let Some(vma) = self.parts.address_spaces.mms[mm].vmas.find_id(page) else { return false };
        self.on.counters.add(Event::Pgfault, 1);
        if let Some(id) = self.alloc_anon_folio_pmd((mm, vma, page)) {
            // An unmapped folio is neither swap-backed nor counted by size yet (`folio_add_new_anon_rmap`).
            self.parts.lrus.folios.flags[id].clear(FolioFlags::SWAPBACKED);
            self.free_folio(id);
        }
        // The thread that finishes first maps its page, and from then on all threads see it.
        self.parts.address_spaces.page_tables.note_cleared(
            table,
            by,
            now,
            until.min(self.on.machine.now(self.on.cpu)),
        );
        true
    }

    /// Allocates a folio for a fault on a PTE, as large as policy and free memory allow (`alloc_anon_folio`).
    #[inline]
    pub(crate) fn alloc_anon_folio(&mut self, fault: &Fault) -> Result<FolioId, OutOfMemory> {
        let (f, thp) = (&self.on.features.folios, &self.on.settings.transparent_hugepage);
        if let Some(walk) = self.on.decisions.folios.walk(thp) {
            return self.alloc_anon_folio_by(walk, fault);
        }
        let vma = &self.parts.address_spaces.mms[fault.mm].vmas[fault.vma];
        let state = self.parts.address_spaces.vma_state(fault.mm, vma);
        let mut orders = policy::candidates(f, thp, &state);
        if !orders.is_empty() {
            let table = &self.parts.address_spaces.page_tables[fault.entry.table()];
            orders = policy::fitting_in_fault(f, orders, &vma.pages(), fault.page, |window| {
                let first = (window.start - table.first) as usize;
                table.is_populated(first..first + (window.end - window.start) as usize)
            });
        }
        if thp.anon_beside_full && !orders.is_empty() {
            let table = &self.parts.address_spaces.page_tables[fault.entry.table()];
            let beside = policy::beside_full(thp, orders, &vma.pages(), fault.page, |window| {
                let first = (window.start - table.first) as usize;
                table.is_full(first..first + (window.end - window.start) as usize)
            });
            for order in beside.declined.descending() {
                self.parts.address_spaces.count_mthp_stat(order, MthpStat::AnonFaultDeclined, 1);
            }
            orders = beside.kept;
        }
        loop {
            let order = orders.highest().unwrap_or(0);
            let mut flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
            flags.set_order(order);
            let effort = match order {
                0 => Effort::OF_FAULT,
                _ => self.on.decisions.folios.effort(
                    &self.on.features.folios,
                    &self.on.settings.transparent_hugepage,
                    &state,
                ),
            };
            match self.vma_alloc_folio(fault.place(), flags, effort) {
                // A smaller folio would need the deferred split list as well. This is not counted as a
                // fallback.
                Ok(id) if order > 0 && !self.alloc_deferred_list(fault.memcg) => {
                    self.parts.address_spaces.count_mthp_stat(order, MthpStat::NrAnon, 1);
                    self.free_folio(id);
                    orders = Orders::NONE;
                }
                Ok(id) => {
                    self.folio_add_lru_vma(id, fault.flags, fault.added_by);
                    return Ok(id);
                }
                Err(failure) => {
                    let f = &self.on.features.folios;
                    orders = policy::after_failure(f, orders, order, failure).ok_or(OutOfMemory)?;
                    self.count_fallback(order, failure);
                }
            }
        }
    }

    /// Whether a PMD entry can map a folio of this order.
    pub(crate) fn is_pmd_order(&self, order: u8) -> bool {
        self.on.settings.transparent_hugepage.pmd_order() == order
    }

    pub(super) fn count_fallback(&mut self, order: u8, failure: Failure) {
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::AnonFaultFallback, 1);
        let charge = failure == Failure::NoRoom;
        self.parts.address_spaces.count_mthp_stat(
            order,
            MthpStat::AnonFaultFallbackCharge,
            i64::from(charge),
        );
        if self.is_pmd_order(order) {
            self.on.counters.add(Event::ThpFaultFallback, 1);
            self.on.counters.add(Event::ThpFaultFallbackCharge, u64::from(charge));
        }
    }
}

impl AddressSpaces {
    /// The properties of a VMA that policy reads.
    pub(crate) fn vma_state(&self, mm: MmId, vma: &Vma) -> VmaState {
        let advice = match vma.flags {
            flags if flags.has(VmFlags::HUGEPAGE) => policy::Advice::Huge,
            flags if flags.has(VmFlags::NOHUGEPAGE) => policy::Advice::NoHuge,
            _ => policy::Advice::None,
        };
        let userfault = match vma.flags {
            flags if flags.has(VmFlags::UFFD_WP_ENTRIES) => policy::Userfault::ProtectedEntry,
            flags if flags.has(VmFlags::UFFD_WP) => policy::Userfault::Armed,
            _ => policy::Userfault::No,
        };
        let disabled = self.mms[mm].thp_disabled;
        let temporary_stack = vma.flags.has(VmFlags::STACK_INCOMPLETE);
        VmaState { advice, disabled, userfault, temporary_stack }
    }

    /// Whether a huge entry maps a page (`pmd_trans_huge`).
    pub fn is_pmd_mapped(&self, mm: MmId, page: Vpn) -> bool {
        self.entry(mm, page).is_some_and(|entry| self.page_tables[entry.table()].is_huge())
    }

    /// Whether nothing is mapped in the PMD range of a page, not even a page table (`pmd_none`).
    fn is_pmd_none(&self, mm: MmId, page: Vpn) -> bool {
        self.entry(mm, page).is_none_or(|entry| {
            self.page_tables[entry.table()].is_huge() && self.page_tables[entry] == Pte::NONE
        })
    }
}

impl Lrus {
    /// The order of a folio.
    pub fn folio_order(&self, id: FolioId) -> u8 {
        self.folios.flags[id].order()
    }

    /// The first page of a folio.
    pub fn folio_pfn(&self, id: FolioId) -> Pfn {
        self.folios[id].pfn
    }
}

impl Parts {
    /// Maps all pages of a new anonymous folio, exclusively and writable, for a store to one of them.
    #[inline]
    pub(crate) fn map_anon_folio(&mut self, fault: &Fault, id: FolioId) {
        self.address_spaces.mms[fault.mm].vmas[fault.vma].has_anon = true;
        let order = self.lrus.folios.flags[id].order();
        let table = fault.entry.table();
        let first = fault.entry.place() >> order << order;
        let entry = Pte::of_folio(id).with(Pte::YOUNG.with(Pte::WRITE).with(Pte::EXCLUSIVE));
        self.lrus.folios[id].slot = self.address_spaces.page_tables.slot(table.entry(first));
        self.address_spaces.page_tables[table].entries_mut(first..first + (1 << order)).fill(entry);
        self.add_rmaps(table.entry(first), 1 << order, id);
        self.address_spaces.count_mthp_stat(order, MthpStat::NrAnon, 1);
    }
}

/// The time from which other CPUs see the result of a fault of `cpu` that began at `began`. If CPUs take
/// turns, they see it in progress only if the CPU's turn ended meanwhile.
fn visible_from(machine: &Machine<Category>, cpu: Cpu, began: Time) -> Time {
    let now = machine.now(cpu);
    match machine.takes_turns() {
        true => machine.turn_lost(cpu, began, now).map_or(Time::ZERO, |turns| now + turns),
        false => now,
    }
}
