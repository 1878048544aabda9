//! Many huge pages: what the batching series changes.
//!
//! ```text
//!   optimise   page by page                          remap, flush, free; remap, flush, free; ...
//!              + patch 9    free at the end          remap, flush; remap, flush; ... free
//!              + patch 10   split in a first pass    split ... FLUSH; remap, flush; ... free
//!              + patch 11   flush at the end         split ... FLUSH; remap ... FLUSH; free
//!   restore    page by page                          restore, flush; restore, flush; ...
//!              + patch 12   flush at the end         restore ... FLUSH
//! ```
//!
//! A list is worked off in steps, so that what other CPUs do meanwhile happens in between.
//! In the kernel: `hugetlb_vmemmap_optimize_folios`, `hugetlb_vmemmap_restore_folios` in mm/hugetlb_vmemmap.c.

use super::Frame;
use super::remap::{How, OutOfMemory};
use crate::account::Category;
use crate::hugetlb::features::{RestoreFlush, RestoreStyle, SplitPass};
use crate::hugetlb::folio::Folio;
use crate::page_alloc::MemoryManager;
use machine::{Cpu, Machine};

/// Where optimising a list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Split(usize),
    FlushSplits,
    Remap(usize),
    FlushRemaps,
    Free,
    Done,
}

/// A list of huge pages on their way to less vmemmap.
#[derive(Clone, Debug)]
pub(crate) struct OptimizeList {
    folios: Vec<Folio>,
    pass: Pass,
    waits_for_readers: bool,
    freed: Vec<Frame>,
}

impl OptimizeList {
    /// `folios` in the order in which they are worked off.
    pub fn new(mm: &MemoryManager, folios: Vec<Folio>) -> OptimizeList {
        let f = &mm.features().hugetlb;
        let pass = match f.split_pass {
            _ if !f.optimize_list => Pass::Done,
            SplitPass::None => Pass::Remap(0),
            _ => Pass::Split(0),
        };
        OptimizeList { folios, pass, waits_for_readers: f.waits_for_readers, freed: Vec::new() }
    }

    /// The list, once all is done.
    pub fn into_folios(self) -> Vec<Folio> {
        self.folios
    }

    /// One page, flush or frame; whether all is done.
    pub fn step(&mut self, mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu) -> bool {
        let f = mm.features().hugetlb;
        self.pass = match self.pass {
            Pass::Split(at) => match self.folios.get(at) {
                None => Pass::FlushSplits,
                Some(&folio) => {
                    let flush = f.split_pass == SplitPass::FlushEach;
                    let split =
                        !mm.should_optimize(folio) || mm.split_vmemmap(machine, cpu, folio, flush).is_ok();
                    if split || !f.split_pass_stops { Pass::Split(at + 1) } else { Pass::FlushSplits }
                }
            },
            // Unconditional: with nothing to optimise, and even with an empty list.
            Pass::FlushSplits => {
                mm.flush_all(machine, cpu);
                Pass::Remap(0)
            }
            Pass::Remap(at) => match self.folios.get(at) {
                None if f.remap_flush_once => Pass::FlushRemaps,
                None => Pass::Free,
                Some(&folio) => {
                    self.remap(mm, machine, cpu, folio);
                    Pass::Remap(at + 1)
                }
            },
            Pass::FlushRemaps => {
                mm.flush_all(machine, cpu);
                Pass::Free
            }
            Pass::Free => match self.freed.pop() {
                Some(frame) => {
                    if self.outgrows_caches(machine) {
                        let line = machine.memory_line(cpu, mm.node_of(frame.pfn));
                        machine.charge(cpu, Category::VmemmapAlloc, line);
                    }
                    mm.free_frame(machine, cpu, frame);
                    Pass::Free
                }
                None => Pass::Done,
            },
            Pass::Done => Pass::Done,
        };
        self.pass == Pass::Done
    }

    /// Whether a pass over the list touches more than the last-level cache holds, so that the next pass finds nothing
    /// there: at least a page of struct pages, its copy and the struct pages of the frames, for each huge page.
    fn outgrows_caches(&self, machine: &Machine<Category>) -> bool {
        self.folios.len() as u64 * 2 * 4096 > machine.topology.last_level_bytes()
    }

    fn remap(&mut self, mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu, folio: Folio) {
        let f = mm.features().hugetlb;
        let how = How {
            split: f.split_pass != SplitPass::FlushEach,
            remap: !f.remap_flush_once,
            grace_period: std::mem::take(&mut self.waits_for_readers),
            cold: self.outgrows_caches(machine),
        };
        let remapped = mm.optimize_folio(machine, cpu, folio, how, &mut self.freed);
        if !f.free_frames_once {
            free_in_order(mm, machine, cpu, &mut self.freed);
        } else if remapped.is_err() && !(f.retry_if_frames && self.freed.is_empty()) {
            // What has been saved so far may be what is missing.
            if f.remap_flush_once {
                mm.flush_all(machine, cpu);
            }
            while let Some(frame) = self.freed.pop() {
                mm.free_frame(machine, cpu, frame);
            }
            // Whatever comes of it, the page is usable.
            let _ =
                mm.optimize_folio(machine, cpu, folio, How { grace_period: false, ..how }, &mut self.freed);
        }
    }
}

/// Frees frames first in, first out, as before patch 9.
fn free_in_order(mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu, freed: &mut Vec<Frame>) {
    freed.drain(..).for_each(|frame| mm.free_frame(machine, cpu, frame));
}

/// Optimises one huge page by itself (`hugetlb_vmemmap_optimize_folio`).
pub(crate) fn optimize_single(
    mm: &mut MemoryManager,
    machine: &mut Machine<Category>,
    cpu: Cpu,
    folio: Folio,
) {
    let mut freed = Vec::new();
    let how = mm.remap_of_single();
    // A page that keeps its vmemmap is a page like any other.
    let _ = mm.optimize_folio(machine, cpu, folio, how, &mut freed);
    if mm.features().hugetlb.free_frames_once {
        freed.reverse();
    }
    free_in_order(mm, machine, cpu, &mut freed);
}

/// A list of huge pages whose vmemmap is being restored.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreList {
    /// Still to do, the next one last.
    pub waiting: Vec<Folio>,
    /// Have all of their vmemmap, the latest last.
    pub complete: Vec<Folio>,
    /// Could not be restored.
    pub failed: Vec<Folio>,
    /// How many of `complete` had to be restored.
    pub restored: u64,
    stopped: bool,
}

impl RestoreList {
    /// `folios` in the order in which they are worked off.
    pub fn new(mut folios: Vec<Folio>) -> RestoreList {
        folios.reverse();
        RestoreList::resume(folios)
    }

    /// Another try at what an earlier list left `waiting`.
    pub fn resume(waiting: Vec<Folio>) -> RestoreList {
        RestoreList { waiting, ..RestoreList::default() }
    }

    /// One page or the flush at the end; whether all is done that can be. As merged, the first failure is the end:
    /// that page and the rest stay in `waiting`.
    pub fn step(&mut self, mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu) -> bool {
        let f = mm.features().hugetlb;
        let next = if self.stopped { None } else { self.waiting.pop() };
        let Some(folio) = next else {
            let flush = match f.restore_flush {
                RestoreFlush::Each => false,
                RestoreFlush::Always => true,
                RestoreFlush::IfRestored => self.restored > 0,
            };
            if flush {
                mm.flush_all(machine, cpu);
            }
            return true;
        };
        let optimized = mm.hugetlb.is_optimized(folio);
        let how = How {
            remap: f.restore_flush == RestoreFlush::Each,
            grace_period: f.waits_for_readers && self.restored == 0,
            split: true,
            cold: false,
        };
        match mm.restore_folio(machine, cpu, folio, how) {
            Ok(()) => {
                self.restored += u64::from(optimized);
                self.complete.push(folio);
            }
            Err(OutOfMemory) if f.restore_style == RestoreStyle::UntilFailure => {
                self.waiting.push(folio);
                self.stopped = true;
            }
            Err(OutOfMemory) => self.failed.push(folio),
        }
        false
    }
}
