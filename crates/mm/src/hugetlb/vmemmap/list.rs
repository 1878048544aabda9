//! Many huge pages on their way to less vmemmap, or back to all of it.
//!
//! ```text
//!   optimise   [split each ─► FLUSH] ─► for each page: remap, [flush], [free frames] ─► [FLUSH] ─► [free frames]
//!   restore    for each page: allocate frames, restore, [flush] ─► [FLUSH]
//! ```
//!
//! What stands in brackets is there or not as the plan of the list says ([`super::policy`]). A list is worked off in steps:
//! one allocation, one page, one flush or one frame. A step touches what others share only at its beginning, so what other
//! CPUs do meanwhile happens in between.
//! In the kernel: `hugetlb_vmemmap_optimize_folios`, `hugetlb_vmemmap_restore_folios` in mm/hugetlb_vmemmap.c.

use super::Frame;
use super::policy::{FirstPass, FrameOrder, OptimizePlan, RestorePlan};
use super::remap::{How, NoMemory};
use crate::account::Category;
use crate::hugetlb::features::HugetlbFeatures;
use crate::hugetlb::folio::Folio;
use crate::hugetlb::policy::Per;
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
    plan: OptimizePlan,
    pass: Pass,
    how: How,
    /// Readers of struct pages are still to be waited for.
    awaits_readers: bool,
    /// The page at hand has failed once.
    retried: bool,
    freed: VecDeque<Frame>,
}

impl OptimizeList {
    /// `folios` in the order in which they are worked off.
    pub fn new(kernel: &Kernel, folios: Vec<Folio>) -> OptimizeList {
        // A pass over the list touches at least a page of struct pages and its copy for each huge page. If that is more
        // than the last-level cache holds, the next pass finds nothing there.
        let cold = folios.len() as u64 * 2 * 4096 > kernel.on.machine.topology.last_level_bytes();
        OptimizeList::planned(OptimizePlan::of_list(&kernel.on.features.hugetlb), folios, cold)
    }

    /// One huge page by itself (`hugetlb_vmemmap_optimize_folio`).
    pub fn single(features: &HugetlbFeatures, folio: Folio) -> OptimizeList {
        let cold = false;
        OptimizeList::planned(OptimizePlan::of_page(features), vec![folio], cold)
    }

    fn planned(plan: OptimizePlan, folios: Vec<Folio>, cold: bool) -> OptimizeList {
        OptimizeList {
            folios,
            pass: match plan.first {
                FirstPass::None => Pass::Done,
                FirstPass::Split => Pass::Split(0),
                FirstPass::Remap => Pass::Begin(0),
            },
            how: How { split: plan.flushes_late_splits, remap: plan.flush_remaps == Per::Page, cold },
            awaits_readers: plan.waits_for_readers,
            retried: false,
            freed: VecDeque::new(),
            plan,
        }
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
        self.pass = match self.pass {
            Pass::Split(at) => match self.folios.get(at) {
                None => Pass::FlushSplits,
                Some(&folio) => {
                    let flush = self.plan.flushes_each_split;
                    let split = !kernel.should_optimize(folio) || kernel.split_vmemmap(folio, flush).is_ok();
                    let goes_on = split || !self.plan.splits_until_failure;
                    if goes_on { Pass::Split(at + 1) } else { Pass::FlushSplits }
                }
            },
            // Unconditional: with nothing to optimise, and even with an empty list.
            Pass::FlushSplits => {
                kernel.flush_all();
                Pass::Begin(0)
            }
            Pass::Begin(at) => match self.folios.get(at) {
                None if self.plan.flush_remaps == Per::List => Pass::FlushRemaps,
                None => Pass::Free(at + 1),
                Some(&folio) if kernel.should_optimize(folio) => {
                    kernel.begin_optimizing(std::mem::take(&mut self.awaits_readers));
                    Pass::Remap(at)
                }
                Some(_) => Pass::Begin(at + 1),
            },
            Pass::Remap(at) => self.remap(kernel, at),
            Pass::FlushRemaps => {
                kernel.flush_all();
                Pass::Free(self.folios.len() + 1)
            }
            Pass::Free(next) => match self.next_frame() {
                Some(frame) => {
                    self.free(kernel, frame);
                    Pass::Free(next)
                }
                None if next > self.folios.len() => Pass::Done,
                None => Pass::Begin(next),
            },
            Pass::Done => Pass::Done,
        };
        self.pass == Pass::Done
    }

    /// The frame that is to be freed next.
    fn next_frame(&mut self) -> Option<Frame> {
        match self.plan.frame_order {
            FrameOrder::FirstIn => self.freed.pop_front(),
            FrameOrder::LastIn => self.freed.pop_back(),
        }
    }

    fn free(&self, kernel: &mut Kernel, frame: Frame) {
        kernel.free_frame(frame);
        if self.how.cold {
            let node = kernel.parts.allocator.node_of(frame.pfn);
            let line = kernel.on.machine.memory_line(kernel.on.cpu, node);
            kernel.on.machine.charge(kernel.on.cpu, Category::VmemmapAlloc, line);
        }
    }

    fn remap(&mut self, kernel: &mut Kernel, at: usize) -> Pass {
        let remapped = kernel.optimize_folio(self.folios[at], self.how, &mut self.freed);
        let retry = remapped.is_err() && !self.retried && self.plan.retries(self.freed.len());
        self.retried = retry;
        if retry {
            // What has been saved so far may be what is missing. Whatever comes of it, the page is usable.
            if self.plan.flush_remaps == Per::List {
                kernel.flush_all();
            }
            return Pass::Free(at);
        }
        match self.plan.free_frames {
            Per::Page => Pass::Free(at + 1),
            Per::List => Pass::Begin(at + 1),
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
    plan: RestorePlan,
    /// Readers of struct pages are still to be waited for.
    awaits_readers: bool,
    /// Frames for the next one, as far as there are any.
    frames: Vec<Frame>,
}

impl RestoreList {
    /// Pages in the order in which they are worked off, the next one last; also another try at what is left of a list.
    pub fn new(features: &HugetlbFeatures, waiting: Vec<Folio>) -> RestoreList {
        RestoreList::planned(RestorePlan::of_list(features), waiting)
    }

    /// One huge page by itself (`hugetlb_vmemmap_restore_folio`).
    pub fn single(features: &HugetlbFeatures, folio: Folio) -> RestoreList {
        RestoreList::planned(RestorePlan::of_page(features), vec![folio])
    }

    fn planned(plan: RestorePlan, waiting: Vec<Folio>) -> RestoreList {
        RestoreList {
            waiting,
            complete: Vec::new(),
            failed: Vec::new(),
            restored: 0,
            awaits_readers: plan.waits_for_readers,
            plan,
            frames: Vec::new(),
        }
    }

    /// One allocation, one page, or the flush at the end; whether all is done that can be. Where the first failure
    /// is the end, that page and the rest stay in `waiting`.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let Some(&folio) = self.waiting.last() else { return self.end(kernel) };
        if !kernel.parts.hugetlb.is_optimized(folio) {
            self.complete.extend(self.waiting.pop());
        } else if std::mem::take(&mut self.awaits_readers) {
            kernel.wait_for_readers();
        } else if self.frames.len() + 1 < folio.vmemmap().len() {
            match kernel.alloc_frame(folio) {
                Ok(frame) => self.frames.push(frame),
                Err(NoMemory) => {
                    self.frames.drain(..).for_each(|frame| kernel.free_kernel_page(frame));
                    if self.plan.until_failure {
                        return self.end(kernel);
                    }
                    self.failed.extend(self.waiting.pop());
                }
            }
        } else {
            kernel.restore_folio(folio, self.plan.flushes_each_page(), &mut self.frames);
            self.restored += 1;
            self.complete.extend(self.waiting.pop());
        }
        false
    }

    fn end(&self, kernel: &mut Kernel) -> bool {
        if self.plan.flushes_list(self.restored) {
            kernel.flush_all();
        }
        true
    }
}
