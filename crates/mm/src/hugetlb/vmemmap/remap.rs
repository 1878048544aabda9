//! Optimising and restoring the vmemmap of one huge page.
//!
//! ```text
//!   optimise   [split its PMD ─► flush] ─► copy the head ─► 8 entries to the copy, tails read-only ─► flush ─► free 8 frames
//!   restore    allocate 7 frames ─► copy, 7 entries to frames of their own ─► flush
//! ```
//!
//! The caller decides whether each flush happens here or once for a list ([`super::list`]).
//! In the kernel: `vmemmap_remap_free`, `vmemmap_remap_alloc`, `__split_vmemmap_huge_pmd` and
//! `alloc_vmemmap_page_list` in mm/hugetlb_vmemmap.c.

use super::Frame;
use super::policy::{self, FlushBy};
use crate::account::Category;
use crate::allocator::memory_map::SECTION_MEMMAP_PAGES;
use crate::allocator::page::{MigrateType, Pfn};
use crate::allocator::request::{Placement, Request};
use crate::counters::Event;
use crate::hugetlb::folio::{Folio, is_optimizable};
use crate::kernel::Kernel;
use machine::Time;
use std::collections::VecDeque;

/// An allocation failed (ENOMEM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// How the vmemmap of one huge page is remapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// A split flushes at once.
    pub split: bool,
    /// The remapped range is flushed at once.
    pub remap: bool,
    /// So much memory was touched since the struct pages were that no cache holds them any more.
    pub cold: bool,
}

/// Broadcasts to all CPUs when the static key of optimised pages is switched on or off: code is patched in
/// three steps at three places. Counted on a 6.18 kernel (func=do_sync_core).
const KEY_BROADCASTS: u32 = 9;

/// PTEs of a page table.
const ENTRIES: u64 = 512;

impl Kernel<'_> {
    /// Splits the PMD mappings of the struct pages of `folio` (`vmemmap_remap_split`).
    pub(crate) fn split_vmemmap(&mut self, folio: Folio, flush: bool) -> Result<(), NoMemory> {
        folio
            .vmemmap()
            .step_by(SECTION_MEMMAP_PAGES as usize)
            .try_for_each(|page| self.split_section(page, flush))
    }

    fn split_section(&mut self, page: u32, flush: bool) -> Result<(), NoMemory> {
        if !self.parts.hugetlb.vmemmap.is_leaf(page) {
            return Ok(());
        }
        self.alloc_kernel_page(Placement::Local)?;
        self.charge_remap(ENTRIES);
        self.parts.hugetlb.vmemmap.split(page);
        self.on.counters.add(Event::VmemmapPmdSplits, 1);
        if flush {
            self.flush_kernel_range(ENTRIES);
        }
        Ok(())
    }

    /// Counts a page that is about to be optimised. Time may pass, so nothing shared may follow in the same
    /// step.
    pub(crate) fn begin_optimizing(&mut self, grace_period: bool) {
        self.count_optimized(1);
        if grace_period {
            self.wait_for_readers();
        }
    }

    /// Optimises the vmemmap of `folio`, which is counted already (`__hugetlb_vmemmap_optimize_folio`).
    /// Appends frames that are no longer needed to `freed`, in the order in which they were replaced.
    pub(crate) fn optimize_folio(
        &mut self,
        folio: Folio,
        how: How,
        freed: &mut VecDeque<Frame>,
    ) -> Result<(), NoMemory> {
        let pages = folio.vmemmap();
        let node = Placement::Prefer(self.parts.allocator.node_of(folio.pfn));
        // Without a copy the head keeps its frame; as many frames are saved.
        let copy = self.alloc_kernel_page(node).ok();
        if copy.is_some() {
            self.parts.hugetlb.vmemmap.note_allocated(1);
            self.copy_vmemmap_page();
            if how.cold {
                self.on.machine.charge(self.on.cpu, Category::VmemmapCopy, self.on.machine.costs.page_miss);
            }
        }
        let mut head = None;
        for page in pages.clone() {
            let leaf = page % SECTION_MEMMAP_PAGES == 0 || page == pages.start;
            if leaf && self.split_section(page, how.split).is_err() {
                self.roll_back(pages.start..page, copy, freed);
                self.count_optimized(-1);
                return Err(NoMemory);
            }
            let entry = self.parts.hugetlb.vmemmap.frame(page);
            let shared = *head.get_or_insert(copy.map_or(*entry, |pfn| Frame { pfn, reserved: false }));
            if *entry != shared {
                freed.push_back(std::mem::replace(entry, shared));
            }
        }
        self.charge_remap(pages.len() as u64);
        // Replaced frames are linked through their own struct pages, each in a cache line of its own.
        let lines = self.on.machine.memory_line(self.on.cpu, self.parts.allocator.node_of(folio.pfn))
            * pages.len() as u64;
        self.on.machine.charge(self.on.cpu, Category::VmemmapRemap, lines);
        if how.remap {
            self.flush_kernel_range(pages.len() as u64);
        }
        self.parts.hugetlb.note_optimized(folio);
        Ok(())
    }

    /// Rolls back a failed remapping: PTEs get frames of `freed` again, the last one first.
    fn roll_back(&mut self, remapped: std::ops::Range<u32>, copy: Option<Pfn>, freed: &mut VecDeque<Frame>) {
        if remapped.is_empty() {
            freed.extend(copy.map(|pfn| Frame { pfn, reserved: false }));
            return;
        }
        let tails = remapped.start + 1..remapped.end;
        for page in tails.clone() {
            let frame = freed.pop_back().expect("as many frames as entries were replaced");
            *self.parts.hugetlb.vmemmap.frame(page) = frame;
            self.copy_vmemmap_page();
        }
        self.charge_remap(tails.len() as u64);
        self.flush_kernel_range(remapped.len() as u64);
    }

    /// Allocates a frame for a vmemmap page of `folio` that is to be restored (`alloc_vmemmap_page_list`).
    pub(crate) fn alloc_frame(&mut self, folio: Folio) -> Result<Frame, NoMemory> {
        let node = self.parts.allocator.node_of(folio.pfn);
        let pfn = self.alloc_kernel_page(policy::frame_placement(&self.on.features.hugetlb, node))?;
        Ok(Frame { pfn, reserved: false })
    }

    /// Restores the vmemmap of `folio` with `frames`, one for each vmemmap page but the first
    /// (`__hugetlb_vmemmap_restore_folio`).
    pub(crate) fn restore_folio(&mut self, folio: Folio, flush: bool, frames: &mut Vec<Frame>) {
        let pages = folio.vmemmap();
        let tails = pages.start + 1..pages.end;
        self.parts.hugetlb.vmemmap.note_allocated(frames.len() as i64);
        for (page, frame) in tails.clone().zip(frames.drain(..)) {
            *self.parts.hugetlb.vmemmap.frame(page) = frame;
            self.copy_vmemmap_page();
        }
        self.charge_remap(tails.len() as u64);
        if flush {
            self.flush_kernel_range(pages.len() as u64);
        }
        self.parts.hugetlb.note_restored(folio);
        self.count_optimized(-1);
    }

    /// Adopts the vmemmap of `folio` as boot made it, a single page. The frames reserved for the rest become
    /// ordinary memory.
    pub(crate) fn adopt_vmemmap(&mut self, folio: Folio) {
        let pages = folio.vmemmap();
        for page in pages.clone().step_by(SECTION_MEMMAP_PAGES as usize) {
            if self.parts.hugetlb.vmemmap.is_leaf(page) {
                self.parts.hugetlb.vmemmap.split(page);
            }
        }
        let head = *self.parts.hugetlb.vmemmap.frame(pages.start);
        for page in pages.skip(1) {
            let unused = std::mem::replace(self.parts.hugetlb.vmemmap.frame(page), head);
            self.parts.hugetlb.vmemmap.note_freed(unused);
            self.free_reserved(unused.pfn);
        }
        self.parts.hugetlb.note_optimized(folio);
        self.count_optimized(1);
    }

    /// Counts optimised pages. The first and the last one switch the static key, which patches code on all
    /// CPUs.
    fn count_optimized(&mut self, change: i64) {
        let before = self.parts.hugetlb.optimize_key;
        self.parts.hugetlb.optimize_key = before.saturating_add_signed(change);
        if before == 0 || self.parts.hugetlb.optimize_key == 0 {
            for _ in 0..KEY_BROADCASTS {
                self.on.machine.call_on_each_cpu(
                    self.on.cpu,
                    Time::ZERO,
                    Time::ZERO,
                    Category::CodePatch,
                    Category::IpiHandler,
                );
                self.on.counters.add(Event::CodePatchBroadcasts, 1);
            }
        }
    }

    /// Waits for an RCU grace period, asleep (`synchronize_rcu`).
    pub(crate) fn wait_for_readers(&mut self) {
        let until = self.on.machine.now(self.on.cpu) + self.on.machine.costs.grace_period;
        self.on.machine.idle_until(self.on.cpu, until);
        self.on.counters.add(Event::GracePeriods, 1);
    }

    /// Charges rewriting `entries` kernel PTEs, eight of which share a cache line.
    fn charge_remap(&mut self, entries: u64) {
        let lines = self.on.machine.own_memory_line(self.on.cpu) * entries.div_ceil(8).min(8);
        self.on.machine.charge(
            self.on.cpu,
            Category::VmemmapRemap,
            self.on.machine.costs.pte_write * entries + lines,
        );
    }

    fn copy_vmemmap_page(&mut self) {
        self.on.machine.charge(
            self.on.cpu,
            Category::VmemmapCopy,
            self.on.machine.costs.page_copy + self.on.machine.costs.page_miss,
        );
    }

    /// Flushes a change of `pages` kernel PTEs from all TLBs (`flush_tlb_kernel_range`).
    pub(crate) fn flush_kernel_range(&mut self, pages: u64) {
        let flush = policy::flush_of_range(pages, self.on.settings.tlb_single_page_flush_ceiling);
        self.flush_kernel(flush);
    }

    /// Flushes all TLBs completely (`flush_tlb_all`).
    pub(crate) fn flush_all(&mut self) {
        self.flush_kernel(machine::tlb::Flush::All);
    }

    fn flush_kernel(&mut self, flush: machine::tlb::Flush) {
        let event = match flush {
            machine::tlb::Flush::All => Event::TlbFlushAll,
            machine::tlb::Flush::Range { .. } => Event::TlbFlushKernelRange,
        };
        self.on.counters.add(event, 1);
        let by_hardware = policy::flush_by(&self.on.features.hugetlb) == FlushBy::Instruction
            && self.on.machine.flush_kernel_tlb_by_hardware(self.on.cpu, Category::TlbShootdown);
        if !by_hardware {
            self.on.machine.flush_kernel_tlb(
                self.on.cpu,
                flush,
                Category::TlbShootdown,
                Category::IpiHandler,
            );
            self.on.counters.add(Event::TlbRemoteCalls, self.on.machine.topology.cpus() as u64 - 1);
        }
    }

    /// Allocates a page for page tables or struct pages.
    fn alloc_kernel_page(&mut self, placement: Placement) -> Result<Pfn, NoMemory> {
        if self.is_made_to_fail() {
            return Err(NoMemory);
        }
        let request = Request::new(0, MigrateType::Unmovable, placement);
        let pfn = self.alloc_single(&request);
        self.on.machine.charge(self.on.cpu, Category::VmemmapAlloc, self.on.machine.costs.page_alloc);
        let (pfn, _) = pfn.ok_or(NoMemory)?;
        // The struct page of the allocated page was not used for long.
        let line = self.on.machine.memory_line(self.on.cpu, self.parts.allocator.node_of(pfn));
        self.on.machine.charge(self.on.cpu, Category::VmemmapAlloc, line);
        self.parts.hugetlb.held += 1;
        self.on.counters.add(Event::VmemmapPagesAllocated, 1);
        Ok(pfn)
    }

    pub(crate) fn free_kernel_page(&mut self, frame: Frame) {
        if frame.reserved {
            self.free_reserved(frame.pfn);
        } else {
            self.parts.hugetlb.held -= 1;
            self.free(frame.pfn, 0);
        }
        self.on.machine.charge(self.on.cpu, Category::VmemmapAlloc, self.on.machine.costs.page_free);
    }

    /// Frees a frame that held struct pages (`free_vmemmap_page`).
    pub(crate) fn free_frame(&mut self, frame: Frame) {
        self.parts.hugetlb.vmemmap.note_freed(frame);
        self.on.counters.add(Event::VmemmapPagesFreed, 1);
        self.free_kernel_page(frame);
    }

    /// Whether the vmemmap of `folio` is to be optimised (`vmemmap_should_optimize_folio`).
    pub(crate) fn should_optimize(&self, folio: Folio) -> bool {
        self.on.settings.hugetlb_optimize_vmemmap
            && is_optimizable(folio.order)
            && !self.parts.hugetlb.is_optimized(folio)
            && self.parts.hugetlb.vmemmap.contains(&folio.vmemmap())
    }
}
