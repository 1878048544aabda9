//! Decisions about the vmemmap of huge pages: in which passes a list is processed, and when TLBs are flushed.
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
//! A plan is made once for a list; the code that carries it out ([`super::list`]) knows no release. Pure
//! functions. In the kernel: `hugetlb_vmemmap_optimize_folios`, `hugetlb_vmemmap_restore_folios` in
//! mm/hugetlb_vmemmap.c; `flush_tlb_kernel_range` in arch/x86/mm/tlb.c.

use crate::allocator::request::Placement;
use crate::hugetlb::features::{HugetlbFeatures, RestoreFlush, RestoreStyle, SplitPass};
use crate::hugetlb::policy::Per;
use machine::Node;
use machine::tlb::Flush;

/// The first pass of optimising a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPass {
    /// None: pages keep their vmemmap.
    None,
    /// A pass that splits all PMD mappings of the list, then a flush.
    Split,
    /// Remapping, in which each page splits what it needs.
    Remap,
}

/// The order in which replaced frames are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOrder {
    /// The frame replaced first.
    FirstIn,
    /// The frame replaced last.
    LastIn,
}

/// How the vmemmap of huge pages is optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizePlan {
    pub first: FirstPass,
    /// Each split of the first pass flushes.
    pub flushes_each_split: bool,
    /// The first pass ends at a failed split; remapping tries it again.
    pub splits_until_failure: bool,
    /// A split during remapping flushes at once.
    pub flushes_late_splits: bool,
    /// Whether TLBs are flushed after each remapped page or after the list.
    pub flush_remaps: Per,
    /// Whether frames are freed after each page or after the list.
    pub free_frames: Per,
    pub frame_order: FrameOrder,
    /// The first page that is optimised waits for an RCU grace period (`synchronize_rcu`).
    pub waits_for_readers: bool,
    /// A page that failed is retried even if no frame could be freed for it.
    retries_without_frames: bool,
}

impl OptimizePlan {
    /// The plan for a list. Patch 6 collects pages and patch 7 optimises them, so with patch 6 alone none is
    /// optimised.
    pub fn of_list(f: &HugetlbFeatures) -> OptimizePlan {
        let per = |list| if list { Per::List } else { Per::Page };
        OptimizePlan {
            first: match f.split_pass {
                _ if !f.optimize_list => FirstPass::None,
                SplitPass::None => FirstPass::Remap,
                SplitPass::FlushEach | SplitPass::FlushOnce => FirstPass::Split,
            },
            flush_remaps: per(f.remap_flush_once),
            free_frames: per(f.free_frames_once),
            ..OptimizePlan::of_page(f)
        }
    }

    /// The plan for one huge page by itself.
    pub fn of_page(f: &HugetlbFeatures) -> OptimizePlan {
        // As posted in v3, patch 10 passed "no flush" where "flush" was meant, and vice versa.
        let swapped = f.split_pass == SplitPass::FlushEach;
        OptimizePlan {
            first: FirstPass::Remap,
            flushes_each_split: swapped,
            splits_until_failure: f.split_pass_stops,
            flushes_late_splits: !swapped,
            flush_remaps: Per::Page,
            free_frames: Per::Page,
            // With a list of its own for frames, patch 9 also reversed their order.
            frame_order: if f.free_frames_once { FrameOrder::LastIn } else { FrameOrder::FirstIn },
            waits_for_readers: f.waits_for_readers,
            retries_without_frames: !f.retry_if_frames,
        }
    }

    /// Whether a page that ran out of memory is retried after `frames` frames have been freed.
    pub fn retries(&self, frames: usize) -> bool {
        self.free_frames == Per::List && (frames > 0 || self.retries_without_frames)
    }
}

/// How the vmemmap of huge pages is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// The first page that is restored waits for an RCU grace period (`synchronize_rcu`).
    pub waits_for_readers: bool,
    /// The first failure ends the restore; otherwise pages that fail are set aside.
    pub until_failure: bool,
    flush: RestoreFlush,
}

impl RestorePlan {
    /// The plan for a list.
    pub fn of_list(f: &HugetlbFeatures) -> RestorePlan {
        RestorePlan {
            until_failure: f.restore_style == RestoreStyle::UntilFailure,
            flush: f.restore_flush,
            ..RestorePlan::of_page(f)
        }
    }

    /// The plan for one huge page by itself.
    pub fn of_page(f: &HugetlbFeatures) -> RestorePlan {
        RestorePlan {
            waits_for_readers: f.waits_for_readers,
            until_failure: false,
            flush: RestoreFlush::Each,
        }
    }

    /// Whether each page flushes after it is restored.
    pub fn flushes_each_page(&self) -> bool {
        self.flush == RestoreFlush::Each
    }

    /// Whether everything is flushed at the end of a list in which `restored` pages were restored.
    pub fn flushes_list(&self, restored: u64) -> bool {
        match self.flush {
            RestoreFlush::Each => false,
            RestoreFlush::Always => true,
            RestoreFlush::IfRestored => restored > 0,
        }
    }
}

/// Where frames for restoring the vmemmap of a page of `node` come from: until 6.6 from that node only.
pub fn frame_placement(f: &HugetlbFeatures, node: Node) -> Placement {
    if f.restore_from_any_node { Placement::Prefer(node) } else { Placement::Bind(node) }
}

/// How other CPUs' TLBs are flushed after a change of kernel page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushBy {
    /// By an IPI to each CPU.
    Interrupt,
    /// By an instruction (INVLPGB) on CPUs that have it.
    Instruction,
}

/// How TLBs are flushed: since 6.15 by instruction.
pub fn flush_by(f: &HugetlbFeatures) -> FlushBy {
    if f.invlpgb { FlushBy::Instruction } else { FlushBy::Interrupt }
}

/// How a change of `pages` kernel PTEs is flushed: page by page up to `ceiling`, in full above it.
pub fn flush_of_range(pages: u64, ceiling: u64) -> Flush {
    if pages > ceiling { Flush::All } else { Flush::Range { pages } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_changes_one_pass_of_a_list() {
        let passes = |f: HugetlbFeatures| {
            let plan = OptimizePlan::of_list(&f);
            (plan.first, plan.flush_remaps, plan.free_frames)
        };
        assert_eq!(passes(HugetlbFeatures::PATCH6), (FirstPass::None, Per::Page, Per::Page));
        assert_eq!(passes(HugetlbFeatures::PATCH7), (FirstPass::Remap, Per::Page, Per::Page));
        assert_eq!(passes(HugetlbFeatures::PATCH9), (FirstPass::Remap, Per::Page, Per::List));
        assert_eq!(passes(HugetlbFeatures::PATCH10), (FirstPass::Split, Per::Page, Per::List));
        assert_eq!(passes(HugetlbFeatures::PATCH11), (FirstPass::Split, Per::List, Per::List));
    }

    #[test]
    fn a_page_by_itself_is_remapped_flushed_and_freed_at_once() {
        for f in [HugetlbFeatures::PATCH6, HugetlbFeatures::PATCH12, HugetlbFeatures::MAINLINE_7_1] {
            let plan = OptimizePlan::of_page(&f);
            let passes = (plan.first, plan.flush_remaps, plan.free_frames);
            assert_eq!(passes, (FirstPass::Remap, Per::Page, Per::Page));
            assert!(!plan.retries(1), "what could be freed has been");
        }
    }

    #[test]
    fn splits_are_flushed_once_as_intended_and_otherwise_as_posted() {
        let splits = |f: HugetlbFeatures| {
            let plan = OptimizePlan::of_list(&f);
            (plan.flushes_each_split, plan.flushes_late_splits)
        };
        assert_eq!(splits(HugetlbFeatures::PATCH9), (false, true));
        assert_eq!(splits(HugetlbFeatures::PATCH10_V3), (true, false));
        assert_eq!(splits(HugetlbFeatures::PATCH10), (false, true));
    }

    #[test]
    fn a_page_is_tried_again_where_frames_may_help() {
        let retries = |f: HugetlbFeatures| [0, 1].map(|frames| OptimizePlan::of_list(&f).retries(frames));
        assert_eq!(retries(HugetlbFeatures::PATCH8), [false, false]);
        assert_eq!(retries(HugetlbFeatures::PATCH9), [true, true]);
        assert_eq!(retries(HugetlbFeatures::MAINLINE_6_7), [false, true]);
    }

    #[test]
    fn restored_pages_are_flushed_one_by_one_or_together() {
        let flushes = |f: HugetlbFeatures| {
            let plan = RestorePlan::of_list(&f);
            (plan.flushes_each_page(), [0, 1].map(|restored| plan.flushes_list(restored)))
        };
        assert_eq!(flushes(HugetlbFeatures::PATCH11), (true, [false, false]));
        assert_eq!(flushes(HugetlbFeatures::PATCH12), (false, [true, true]));
        assert_eq!(flushes(HugetlbFeatures::MAINLINE_6_7), (false, [false, true]));
    }

    #[test]
    fn thirty_three_pages_are_a_range() {
        assert_eq!(flush_of_range(33, 33), Flush::Range { pages: 33 });
        assert_eq!(flush_of_range(34, 33), Flush::All);
    }
}
