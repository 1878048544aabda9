//! The folio batches of each CPU, through which folios are added to the LRU lists and moved on them.

use crate::address_space::VmFlags;
use crate::address_space::mlock;
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::FolioBatches;
use crate::lru::Lrus;
use crate::lru::folio::{Census, FolioFlags, FolioId, ListEnd, LruvecId};
use crate::lru::policy;
use crate::lru::policy::AddedBy;
use crate::lru::workingset::policy::age_by_activation;
use machine::Cpu;

/// What draining does to the folios of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    Add,
    ToTail,
    Activate,
}

impl Move {
    /// All batches, in the order in which `lru_add_drain_cpu` drains them.
    const ALL: [Move; 3] = [Move::Add, Move::ToTail, Move::Activate];
}

impl FolioBatches {
    fn of(&mut self, kind: Move) -> &mut Vec<FolioId> {
        match kind {
            Move::Add => &mut self.lru_add,
            Move::ToTail => &mut self.lru_move_tail,
            Move::Activate => &mut self.lru_activate,
        }
    }
}

impl Kernel<'_> {
    /// Adds a new folio to this CPU's batch for the LRU lists (`folio_add_lru`).
    #[inline]
    pub(crate) fn folio_add_lru(&mut self, id: FolioId, by: AddedBy) {
        self.note_new_folio(id, by);
        self.add_to_batch(Move::Add, id);
    }

    /// Like `folio_add_lru`, but for a folio that is new in a VMA with these flags: in a `VM_LOCKED` one it
    /// becomes mlocked (`folio_add_lru_vma`).
    #[inline]
    pub(crate) fn folio_add_lru_vma(&mut self, id: FolioId, flags: VmFlags, by: AddedBy) {
        if flags.has(VmFlags::LOCKED) {
            self.set_mlocked(id);
        }
        self.folio_add_lru(id, by);
    }

    /// Puts an isolated folio back, through this CPU's batch (`folio_putback_lru`).
    pub(crate) fn folio_putback_lru(&mut self, id: FolioId) {
        self.add_to_batch(Move::Add, id);
    }

    #[inline]
    fn add_to_batch(&mut self, kind: Move, id: FolioId) {
        let batch = self.parts.lrus.folio_batches[self.on.cpu.index()].of(kind);
        batch.push(id);
        let order = self.parts.lrus.folios.flags[id].order();
        if policy::drains_batch(self.on.features, batch.len(), order) {
            self.drain_batch(kind);
        }
    }

    /// Activates a folio that was accessed a second time: through a batch if it is on a list, or by its flag
    /// if it is still in this CPU's `lru_add` batch.
    #[inline(never)]
    pub(super) fn mark_active(&mut self, id: FolioId) {
        let flags = &mut self.parts.lrus.folios.flags[id];
        flags.clear(FolioFlags::REFERENCED);
        let pages = flags.nr_pages();
        if !self.folio_activate(id)
            && self.parts.lrus.folio_batches[self.on.cpu.index()].lru_add.contains(&id)
        {
            self.parts.lrus.folios.flags[id].set(FolioFlags::ACTIVE);
        }
        let age = age_by_activation(&self.reclaim_features(), pages);
        if age > 0 {
            self.parts.lrus.workingset_age_nonresident(self.parts.lrus.folios[id].lruvec, age);
        }
    }

    /// Adds a folio that is on a list to this CPU's batch of those to be activated (`folio_activate`).
    /// Returns whether it was on one.
    #[inline]
    pub(crate) fn folio_activate(&mut self, id: FolioId) -> bool {
        let on_list = self.parts.lrus.folios.flags[id].take(FolioFlags::LRU);
        if on_list {
            self.add_to_batch(Move::Activate, id);
        }
        on_list
    }

    /// Moves a folio whose writeback has ended to the tail of its list, as reclaim asked for by `PG_reclaim`
    /// (`folio_rotate_reclaimable`).
    pub(crate) fn folio_rotate_reclaimable(&mut self, id: FolioId) {
        let flags = &mut self.parts.lrus.folios.flags[id];
        let elsewhere = FolioFlags::LOCKED | FolioFlags::DIRTY | FolioFlags::UNEVICTABLE;
        if flags.has(FolioFlags::LRU) && !flags.any(elsewhere) {
            flags.clear(FolioFlags::LRU);
            self.add_to_batch(Move::ToTail, id);
        }
    }

    /// Drains all batches of this CPU (`lru_add_drain`).
    pub(crate) fn lru_add_drain(&mut self) {
        for kind in Move::ALL {
            self.drain_batch(kind);
        }
    }

    fn drain_batch(&mut self, kind: Move) {
        let mut batch = std::mem::take(self.parts.lrus.folio_batches[self.on.cpu.index()].of(kind));
        let lru = self.parts.lrus.lru();
        let mut rest = &batch[..];
        while let Some(&first) = rest.first() {
            let whose = self.parts.lrus.folios[first].lruvec;
            let run = rest.iter().take_while(|&&id| self.parts.lrus.folios[id].lruvec == whose).count();
            self.hold_lru_lock(whose, run);
            let lruvec = &mut self.parts.lrus.lruvecs[whose];
            for &id in &rest[..run] {
                let flags = &mut self.parts.lrus.folios.flags[id];
                let pages = flags.nr_pages();
                flags.set(FolioFlags::LRU);
                match kind {
                    Move::Add => {
                        mlock::cull(flags, self.on.counters);
                        lruvec.add(&mut self.parts.lrus.folios, &lru, id, ListEnd::Head);
                    }
                    Move::ToTail => {
                        lruvec.remove(&mut self.parts.lrus.folios, id, false);
                        self.parts.lrus.folios.flags[id].clear(FolioFlags::ACTIVE);
                        lruvec.add(&mut self.parts.lrus.folios, &lru, id, ListEnd::Tail);
                        self.on.counters.add(Event::Pgrotated, pages);
                    }
                    Move::Activate => {
                        if flags.any(FolioFlags::ACTIVE | FolioFlags::UNEVICTABLE) {
                            continue;
                        }
                        lruvec.remove(&mut self.parts.lrus.folios, id, false);
                        self.parts.lrus.folios.flags[id].set(FolioFlags::ACTIVE);
                        lruvec.add(&mut self.parts.lrus.folios, &lru, id, ListEnd::Head);
                        self.on.counters.add(Event::Pgactivate, pages);
                    }
                }
            }
            rest = &rest[run..];
        }
        batch.clear();
        *self.parts.lrus.folio_batches[self.on.cpu.index()].of(kind) = batch;
    }

    /// Drains the batches of all CPUs, each of which pays for its own (`lru_add_drain_all`).
    pub fn lru_add_drain_all(&mut self) {
        (0..self.parts.lrus.folio_batches.len()).for_each(|cpu| self.on_cpu(Cpu(cpu as u16)).lru_add_drain());
    }
}

impl Lrus {
    /// Removes a folio that is to be freed from its list or from the batch that holds it.
    pub(crate) fn folio_leave_lru(&mut self, id: FolioId) {
        let folio = self.folios[id];
        if self.folios.flags[id].has(FolioFlags::LRU) {
            self.lruvecs[folio.lruvec].remove(&mut self.folios, id, true);
            return;
        }
        for batches in &mut self.folio_batches {
            for kind in Move::ALL {
                let batch = batches.of(kind);
                if let Some(place) = batch.iter().position(|&batched| batched == id) {
                    batch.remove(place);
                    // A folio that is to be activated or rotated stays on its list meanwhile.
                    if kind != Move::Add {
                        self.lruvecs[folio.lruvec].remove(&mut self.folios, id, true);
                    }
                    return;
                }
            }
        }
    }

    /// Marks the folios in batches as found; panics if one is in the wrong state.
    pub(crate) fn validate_batches(&self, census: &mut Census) {
        for batches in &self.folio_batches {
            for &id in &batches.lru_add {
                census.find(&self.folios, id);
            }
            for &id in batches.lru_move_tail.iter().chain(&batches.lru_activate) {
                census.wait(id);
            }
            let all = batches.lru_add.iter().chain(&batches.lru_move_tail).chain(&batches.lru_activate);
            for &id in all {
                let flags = self.folios.flags[id];
                assert!(!flags.has(FolioFlags::LRU), "{id:?} is in a batch, so PG_lru is clear: {flags:?}");
            }
        }
    }
}

impl Kernel<'_> {
    /// Holds the lock of a lruvec for as long as moving `pages` pages takes.
    pub(crate) fn hold_lru_lock(&mut self, id: LruvecId, pages: usize) {
        let (lruvec, on) = (&mut self.parts.lrus.lruvecs[id], &mut self.on);
        lruvec.lock.move_pages(on, pages);
    }
}
