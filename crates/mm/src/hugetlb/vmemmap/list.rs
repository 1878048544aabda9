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
//! A list is worked off in steps: one allocation, one page, one flush or one frame. A step touches what others share
//! only at its beginning, so what other CPUs do meanwhile happens in between.
//! In the kernel: `hugetlb_vmemmap_optimize_folios`, `hugetlb_vmemmap_restore_folios` in mm/hugetlb_vmemmap.c.

use super::Frame;
use super::remap::{How, OutOfMemory};
use crate::account::Category;
use crate::hugetlb::features::HugetlbFeatures;
use crate::hugetlb::features::{RestoreFlush, RestoreStyle, SplitPass};
use crate::hugetlb::folio::Folio;
use crate::kernel::Kernel;
use std::collections::VecDeque;

/// Where optimising a list stands; numbers are places in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Split(usize),
    FlushSplits,
    Begin(usize),
    Remap(usize),
    FlushRemaps,
    /// Frees frames, then goes on at this place.
    Free(usize),
    Done,
}

/// A list of huge pages on their way to less vmemmap.
#[derive(Clone, Debug)]
pub(crate) struct OptimizeList {
    folios: Vec<Folio>,
    pass: Pass,
    how: How,
    flush_at_end: bool,
    free_at_end: bool,
    waits_for_readers: bool,
    /// The page at hand has failed once.
    retried: bool,
    freed: VecDeque<Frame>,
}

impl OptimizeList {
    /// `folios` in the order in which they are worked off.
    pub fn new(kernel: &Kernel, folios: Vec<Folio>) -> OptimizeList {
        let f = &kernel.on.features.hugetlb;
        let pass = match f.split_pass {
            _ if !f.optimize_list => Pass::Done,
            SplitPass::None => Pass::Begin(0),
            _ => Pass::Split(0),
        };
        OptimizeList {
            pass,
            flush_at_end: f.remap_flush_once,
            free_at_end: f.free_frames_once,
            how: How {
                remap: !f.remap_flush_once,
                // A pass over the list touches at least a page of struct pages and its copy for each huge page. If
                // that is more than the last-level cache holds, the next pass finds nothing there.
                cold: folios.len() as u64 * 2 * 4096 > kernel.on.machine.topology.last_level_bytes(),
                ..OptimizeList::how_single(&kernel.on.features.hugetlb)
            },
            ..OptimizeList::empty(&kernel.on.features.hugetlb, folios)
        }
    }

    /// One huge page by itself (`hugetlb_vmemmap_optimize_folio`).
    pub fn single(features: &HugetlbFeatures, folio: Folio) -> OptimizeList {
        OptimizeList::empty(features, vec![folio])
    }

    fn empty(features: &HugetlbFeatures, folios: Vec<Folio>) -> OptimizeList {
        OptimizeList {
            folios,
            pass: Pass::Begin(0),
            how: OptimizeList::how_single(features),
            flush_at_end: false,
            free_at_end: false,
            waits_for_readers: features.waits_for_readers,
            retried: false,
            freed: VecDeque::new(),
        }
    }

    fn how_single(features: &HugetlbFeatures) -> How {
        // As posted, patch 10 passed "no flush" where "flush" was meant.
        How { split: features.split_pass != SplitPass::FlushEach, remap: true, cold: false }
    }

    /// The pages of the list.
    pub fn folios(&self) -> &[Folio] {
        &self.folios
    }

    /// Works all of it off.
    pub fn finish(mut self, kernel: &mut Kernel) {
        while !self.step(kernel) {}
    }

    /// One step; whether all is done.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let f = kernel.on.features.hugetlb;
        self.pass = match self.pass {
            Pass::Split(at) => match self.folios.get(at) {
                None => Pass::FlushSplits,
                Some(&folio) => {
                    let flush = f.split_pass == SplitPass::FlushEach;
                    let split = !kernel.should_optimize(folio) || kernel.split_vmemmap(folio, flush).is_ok();
                    if split || !f.split_pass_stops { Pass::Split(at + 1) } else { Pass::FlushSplits }
                }
            },
            // Unconditional: with nothing to optimise, and even with an empty list.
            Pass::FlushSplits => {
                kernel.flush_all();
                Pass::Begin(0)
            }
            Pass::Begin(at) => match self.folios.get(at) {
                None if self.flush_at_end => Pass::FlushRemaps,
                None => Pass::Free(at + 1),
                Some(&folio) if kernel.should_optimize(folio) => {
                    kernel.begin_optimizing(std::mem::take(&mut self.waits_for_readers));
                    Pass::Remap(at)
                }
                Some(_) => Pass::Begin(at + 1),
            },
            Pass::Remap(at) => self.remap(kernel, at),
            Pass::FlushRemaps => {
                kernel.flush_all();
                Pass::Free(self.folios.len() + 1)
            }
            Pass::Free(next) => {
                // Last in, first out since patch 9.
                let frame = if f.free_frames_once { self.freed.pop_back() } else { self.freed.pop_front() };
                match frame {
                    Some(frame) => {
                        kernel.free_frame(frame);
                        if self.how.cold {
                            let line = kernel
                                .on
                                .machine
                                .memory_line(kernel.on.cpu, kernel.parts.allocator.node_of(frame.pfn));
                            kernel.on.machine.charge(kernel.on.cpu, Category::VmemmapAlloc, line);
                        }
                        Pass::Free(next)
                    }
                    None if next > self.folios.len() => Pass::Done,
                    None => Pass::Begin(next),
                }
            }
            Pass::Done => Pass::Done,
        };
        self.pass == Pass::Done
    }

    fn remap(&mut self, kernel: &mut Kernel, at: usize) -> Pass {
        let f = kernel.on.features.hugetlb;
        let remapped = kernel.optimize_folio(self.folios[at], self.how, &mut self.freed);
        let retry = remapped.is_err()
            && self.free_at_end
            && !self.retried
            && !(f.retry_if_frames && self.freed.is_empty());
        self.retried = retry;
        if retry {
            // What has been saved so far may be what is missing. Whatever comes of it, the page is usable.
            if self.flush_at_end {
                kernel.flush_all();
            }
            Pass::Free(at)
        } else if self.free_at_end {
            Pass::Begin(at + 1)
        } else {
            Pass::Free(at + 1)
        }
    }
}

/// A list of huge pages whose vmemmap is being restored.
#[derive(Clone, Debug)]
pub(crate) struct RestoreList {
    /// Still to do, the next one last.
    pub waiting: Vec<Folio>,
    /// Have all of their vmemmap, the latest last.
    pub complete: Vec<Folio>,
    /// Could not be restored.
    pub failed: Vec<Folio>,
    /// How many of `complete` had to be restored.
    pub restored: u64,
    flush: RestoreFlush,
    ends_at_failure: bool,
    waits_for_readers: bool,
    /// Frames for the next one, as far as there are any.
    frames: Vec<Frame>,
}

impl RestoreList {
    /// Pages in the order in which they are worked off, the next one last; also another try at what is left of a list.
    pub fn new(features: &HugetlbFeatures, waiting: Vec<Folio>) -> RestoreList {
        let f = features;
        RestoreList {
            flush: f.restore_flush,
            ends_at_failure: f.restore_style == RestoreStyle::UntilFailure,
            ..RestoreList::each(features, waiting)
        }
    }

    /// One huge page by itself (`hugetlb_vmemmap_restore_folio`).
    pub fn single(features: &HugetlbFeatures, folio: Folio) -> RestoreList {
        RestoreList::each(features, vec![folio])
    }

    fn each(features: &HugetlbFeatures, waiting: Vec<Folio>) -> RestoreList {
        RestoreList {
            waiting,
            complete: Vec::new(),
            failed: Vec::new(),
            restored: 0,
            flush: RestoreFlush::Each,
            ends_at_failure: false,
            waits_for_readers: features.waits_for_readers,
            frames: Vec::new(),
        }
    }

    /// One allocation, one page, or the flush at the end; whether all is done that can be. As merged, the first failure
    /// is the end: that page and the rest stay in `waiting`.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let Some(&folio) = self.waiting.last() else { return self.end(kernel) };
        if !kernel.parts.hugetlb.is_optimized(folio) {
            self.complete.extend(self.waiting.pop());
        } else if self.waits_for_readers {
            self.waits_for_readers = false;
            kernel.wait_for_readers();
        } else if self.frames.len() + 1 < folio.vmemmap().len() {
            match kernel.alloc_frame(folio) {
                Ok(frame) => self.frames.push(frame),
                Err(OutOfMemory) => {
                    self.frames.drain(..).for_each(|frame| kernel.free_kernel_page(frame));
                    if self.ends_at_failure {
                        return self.end(kernel);
                    }
                    self.failed.extend(self.waiting.pop());
                }
            }
        } else {
            let flush = self.flush == RestoreFlush::Each;
            kernel.restore_folio(folio, flush, &mut self.frames);
            self.restored += 1;
            self.complete.extend(self.waiting.pop());
        }
        false
    }

    fn end(&self, kernel: &mut Kernel) -> bool {
        let flush = match self.flush {
            RestoreFlush::Each => false,
            RestoreFlush::Always => true,
            RestoreFlush::IfRestored => self.restored > 0,
        };
        if flush {
            kernel.flush_all();
        }
        true
    }
}
