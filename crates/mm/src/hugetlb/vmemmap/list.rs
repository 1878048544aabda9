//! Optimising or restoring the vmemmap of a list of huge pages.
//!
//! ```text
//!   optimise   [split each ─► FLUSH] ─► for each page: remap, [flush], [free frames] ─► [FLUSH] ─► [free frames]
//!   restore    for each page: allocate frames, restore, [flush] ─► [FLUSH]
//! ```
//!
//! The steps in brackets depend on the plan of the list ([`super::policy`]). A list is processed in steps:
//! one allocation, one page, one flush or one frame. A step touches shared state only at its beginning, so
//! that other CPUs act in between.
//! In the kernel: `hugetlb_vmemmap_optimize_folios`, `hugetlb_vmemmap_restore_folios` in
//! mm/hugetlb_vmemmap.c.

use super::Frame;
use super::policy::{FirstPass, FrameOrder, OptimizePlan, RestorePlan};
use super::remap::{How, NoMemory};
use crate::account::Category;
use crate::hugetlb::features::HugetlbFeatures;
use crate::hugetlb::folio::Folio;
use crate::hugetlb::policy::Per;
use crate::kernel::Kernel;
use std::collections::VecDeque;

/// The state of optimising a list; numbers are positions in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Split(usize),
    FlushSplits,
    Begin(usize),
    Remap(usize),
    FlushRemaps,
    /// Frees frames, then continues at this position.
    Free(usize),
    Done,
}

/// A list of huge pages whose vmemmap is being optimised.
#[derive(Clone, Debug)]
pub(crate) struct OptimizeList {
    folios: Vec<Folio>,
    plan: OptimizePlan,
    pass: Pass,
    how: How,
    /// The RCU grace period is still to be waited for.
    awaits_readers: bool,
    /// The current page has failed once.
    retried: bool,
    freed: VecDeque<Frame>,
}

impl OptimizeList {
    /// Optimises `folios` in this order.
    pub fn new(kernel: &Kernel, folios: Vec<Folio>) -> OptimizeList {
        // A pass over the list touches at least a page of struct pages and its copy for each huge page. If
        // that exceeds the last-level cache, the next pass finds nothing in it.
        let cold = folios.len() as u64 * 2 * 4096 > kernel.on.machine.topology.last_level_bytes();
        OptimizeList::planned(OptimizePlan::of_list(&kernel.on.features.hugetlb), folios, cold)
    }

    /// Optimises one huge page by itself (`hugetlb_vmemmap_optimize_folio`).
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

    /// Runs all steps.
    pub fn finish(mut self, kernel: &mut Kernel) {
        while !self.step(kernel) {}
    }

    /// One step. Returns whether all is done.
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
            // Unconditional: even if nothing is optimised or the list is empty.
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

    /// The frame to be freed next.
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
            // The frames freed so far may be what is missing. Whether or not the retry succeeds, the page is
            // usable.
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
    /// Pages still to be restored, the next one last.
    pub waiting: Vec<Folio>,
    /// Pages with full vmemmap, the latest last.
    pub complete: Vec<Folio>,
    /// Pages that could not be restored.
    pub failed: Vec<Folio>,
    /// How many of `complete` had to be restored.
    pub restored: u64,
    plan: RestorePlan,
    /// The RCU grace period is still to be waited for.
    awaits_readers: bool,
    /// Frames allocated so far for the next page.
    frames: Vec<Frame>,
}

impl RestoreList {
    /// Restores a list of pages, the next one last; also used to retry the rest of a list.
    pub fn new(features: &HugetlbFeatures, waiting: Vec<Folio>) -> RestoreList {
        RestoreList::planned(RestorePlan::of_list(features), waiting)
    }

    /// Restores one huge page by itself (`hugetlb_vmemmap_restore_folio`).
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

    /// One step: an allocation, a page, or the flush at the end. Returns whether it has ended. If the first
    /// failure ends it, the failed page and the rest stay in `waiting`.
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
