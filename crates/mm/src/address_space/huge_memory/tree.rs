//! Who decides how large a folio a fault gets, and how hard the allocator tries: [`policy`], or where a kernel tree has the function, that.
//!
//! ```text
//!   settings, VMA, PTEs that are there ─► AnonFolioState ─► alloc_anon_folio, compiled from a tree ─► an order
//!                                              ▲                                                      │ allocated? ─► done
//!                                              └── no block of it is free, or no room for it ◄────────┘ no
//! ```
//!
//! A tree's function tries orders until an allocation succeeds. It is asked with the failures that there were so far, and again after
//! each further one, so its last attempt is always the next one to make. Records are of pages of 4 KiB; with others the twin decides.

use super::policy::{self, Advice, Disabled, Failure, Userfault, VmaState, window};
use super::settings::{Defrag, Enabled, Mode, ThpSettings};
use crate::address_space::huge_memory::features::FolioFeatures;
use crate::address_space::memory::Fault;
use crate::allocator::request::{Effort, OutOfMemory};
use crate::decisions::Rule;
use crate::decisions::{AnonFolioState, FolioDecisions, nonsense};
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use machine::PageSize;

const PAGE_SHIFT: u32 = PageSize::Kib4.shift();
const DIRECT: u32 = 0x400;
const WAKES: u32 = 0x800;
const NO_RETRY: u32 = 0x1_0000;

/// A tree's function that walks through orders.
pub(crate) type Walk = extern "C" fn(&mut AnonFolioState);

impl FolioDecisions {
    /// How hard the allocator tries for a large folio of a VMA.
    pub(crate) fn effort(&self, f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState) -> Effort {
        let Rule::Tree(decide) = self.vma_thp_gfp_mask else { return policy::effort(f, thp, vma) };
        let mut state = state_of(thp, vma);
        decide(&mut state);
        effort_of(state.gfp)
    }

    /// The tree's function that says which order a fault tries, if there is one for pages of this size.
    #[inline]
    pub(crate) fn walk(&self, thp: &ThpSettings) -> Option<Walk> {
        match self.alloc_anon_folio {
            Rule::Tree(walk) if thp.page_size == PageSize::Kib4 => Some(walk),
            _ => None,
        }
    }
}

fn effort_of(gfp: u32) -> Effort {
    let (direct, wakes, no_retry) = (gfp & DIRECT != 0, gfp & WAKES != 0, gfp & NO_RETRY != 0);
    Effort { direct, wakes, no_retry, ..Effort::LIGHT }
}

/// What a tree's functions read of settings and of a VMA.
fn state_of(thp: &ThpSettings, vma: &VmaState) -> AnonFolioState {
    let advice = match vma.advice {
        Advice::None => 0,
        Advice::Huge => AnonFolioState::HUGEPAGE,
        Advice::NoHuge => AnonFolioState::NOHUGEPAGE,
    };
    let userfault = if vma.userfault == Userfault::No { 0 } else { AnonFolioState::USERFAULT };
    let stack = if vma.temporary_stack { AnonFolioState::TEMPORARY_STACK } else { 0 };
    let disabled = match vma.disabled {
        Disabled::No => false,
        Disabled::Completely => true,
        Disabled::ExceptAdvised => vma.advice != Advice::Huge,
    };
    AnonFolioState {
        vm_flags: advice | userfault | stack,
        thp_disabled: disabled.into(),
        enabled: place(&Enabled::ALL, thp.enabled),
        defrag: place(&Defrag::ALL, thp.defrag),
        orders_always: thp.orders(Mode::Always).bits(),
        orders_madvise: thp.orders(Mode::Madvise).bits(),
        orders_inherit: thp.orders(Mode::Inherit).bits(),
        ..AnonFolioState::default()
    }
}

fn place<T: PartialEq>(all: &[T], value: T) -> i32 {
    all.iter().position(|other| *other == value).unwrap_or_default() as i32
}

impl Parts {
    /// What a tree's function is asked about a fault before anything has failed.
    fn anon_folio_state(&self, thp: &ThpSettings, fault: &Fault) -> AnonFolioState {
        let vma = &self.address_spaces.mms[fault.mm].vmas[fault.vma];
        let mut state = AnonFolioState {
            vm_start: vma.start << PAGE_SHIFT,
            vm_end: vma.end << PAGE_SHIFT,
            addr: fault.page << PAGE_SHIFT,
            ..state_of(thp, &self.address_spaces.vma_state(fault.mm, vma))
        };
        let table = &self.address_spaces.page_tables[fault.entry.table()];
        for place in table.all_places().filter(|&place| table.is_populated(place..place + 1)) {
            state.populated[place / 64] |= 1 << (place % 64);
        }
        state
    }
}

impl Kernel<'_> {
    /// Allocates a folio for a fault on a PTE, of an order that a tree's function says.
    pub(super) fn alloc_anon_folio_by(&mut self, walk: Walk, fault: &Fault) -> Result<FolioId, OutOfMemory> {
        let mut asked = self.parts.anon_folio_state(&self.on.settings.transparent_hugepage, fault);
        let mut failed = None;
        loop {
            let Some(order) = ask(walk, &mut asked, failed) else { return Err(OutOfMemory) };
            if let Some((order, failure)) = failed.filter(|(order, _)| *order > 0) {
                self.count_fallback(order, failure);
            }
            let mut flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
            flags.set_order(order);
            let effort = if order == 0 { Effort::OF_FAULT } else { effort_of(asked.gfp) };
            match self.vma_alloc_folio(fault.place(), flags, effort) {
                Ok(id) => {
                    self.folio_add_lru_vma(id, fault.flags, fault.added_by);
                    return Ok(id);
                }
                Err(failure) => failed = Some((order, failure)),
            }
        }
    }
}

/// The order to try next, after the last attempt has failed; none if memory is out. How hard to try is in `asked.gfp` then.
fn ask(walk: Walk, asked: &mut AnonFolioState, failed: Option<(u8, Failure)>) -> Option<u8> {
    match failed {
        Some((order, Failure::NoBlock)) => asked.no_block |= 1 << order,
        Some((order, Failure::NoRoom)) => asked.no_room |= 1 << order,
        None => {}
    }
    let mut answered = *asked;
    walk(&mut answered);
    let wrong = |why| nonsense("alloc_anon_folio", asked, &answered, why);
    let order = match u8::try_from(answered.answer) {
        Ok(order) if order <= AnonFolioState::LARGEST => order,
        Ok(_) => wrong("a page table cannot map such a folio"),
        Err(_) if (asked.no_block | asked.no_room) & 1 != 0 => return None,
        Err(_) => wrong("it gives up before it has tried a single page"),
    };
    if asked.no_block >> order & 1 != 0 {
        wrong("it tries again what has failed");
    }
    if asked.no_room >> order & 1 != 0 {
        // A kernel that charges the memory cgroup after the walk has no other order to try.
        return None;
    }
    let (page, vma) = (asked.addr >> PAGE_SHIFT, asked.vm_start >> PAGE_SHIFT..asked.vm_end >> PAGE_SHIFT);
    let first = window(page, AnonFolioState::LARGEST + 1).start;
    let mut pages = window(page, order);
    let is_free = |page: u64| {
        let place = page - first;
        vma.contains(&page) && asked.populated[place as usize / 64] >> (place % 64) & 1 == 0
    };
    if order > 0 && !pages.all(is_free) {
        wrong("the folio would leave its VMA, or there is a page already");
    }
    asked.gfp = answered.gfp;
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries each order from 4 down.
    extern "C" fn from_four(state: &mut AnonFolioState) {
        let failed = state.no_block | state.no_room;
        let order = (0..=4).rev().find(|order| failed >> order & 1 == 0);
        state.answer = order.unwrap_or(-1);
        state.gfp = DIRECT | NO_RETRY;
    }

    extern "C" fn always_nine(state: &mut AnonFolioState) {
        state.answer = 9;
    }

    extern "C" fn always_three(state: &mut AnonFolioState) {
        state.answer = 3;
    }

    extern "C" fn gives_up(state: &mut AnonFolioState) {
        state.answer = -1;
    }

    fn fault() -> AnonFolioState {
        AnonFolioState {
            vm_start: 0,
            vm_end: 512 << PAGE_SHIFT,
            addr: 20 << PAGE_SHIFT,
            ..AnonFolioState::default()
        }
    }

    #[test]
    fn a_trees_function_is_asked_again_after_each_failure() {
        let mut asked = fault();
        assert_eq!(ask(from_four, &mut asked, None), Some(4));
        assert_eq!(effort_of(asked.gfp), Effort { direct: true, no_retry: true, ..Effort::LIGHT });
        assert_eq!(ask(from_four, &mut asked, Some((4, Failure::NoBlock))), Some(3));
        assert_eq!(ask(from_four, &mut asked, Some((3, Failure::NoRoom))), Some(2));
        asked.no_block |= 0b110;
        assert_eq!(ask(from_four, &mut asked, Some((0, Failure::NoBlock))), None);
        let mut asked = fault();
        assert_eq!(ask(always_three, &mut asked, Some((3, Failure::NoRoom))), None, "it charges afterwards");
    }

    #[test]
    fn what_no_kernel_could_answer_ends_the_run() {
        let told = |walk: Walk, mut asked: AnonFolioState, failed| {
            let ended = std::panic::catch_unwind(move || ask(walk, &mut asked, failed)).unwrap_err();
            *ended.downcast::<String>().unwrap()
        };
        let beside = AnonFolioState { populated: [1 << 17, 0, 0, 0, 0, 0, 0, 0], ..fault() };
        for (walk, asked, failed, why) in [
            (always_nine as Walk, fault(), None, "a page table cannot map such a folio"),
            (gives_up, fault(), None, "it gives up before it has tried a single page"),
            (always_three, fault(), Some((3, Failure::NoBlock)), "it tries again what has failed"),
            (always_three, beside, None, "or there is a page already"),
            (
                always_three,
                AnonFolioState { vm_end: 23 << PAGE_SHIFT, ..fault() },
                None,
                "would leave its VMA",
            ),
        ] {
            let said = told(walk, asked, failed);
            assert!(said.starts_with("alloc_anon_folio of the kernel tree") && said.contains(why), "{said}");
        }
    }
}
