//! What each patch of the batching series changes in huge-page pools, and what later kernels changed.
//!
//! ```text
//!   growing    allocate ─► split PMDs ─► remap ─► free frames ─► add to the pool
//!                 P6: collect    P10: own pass   P11: one flush   P9: at the end   P6: one hold
//!   shrinking  remove ─► restore ─► clear flags ─► free
//!                          P8: list, P12: one flush   P5: one hold
//! ```

/// When the split of a PMD is made known to other CPUs' translation caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPass {
    /// There is no pass; each page splits what it needs and flushes.
    None,
    /// As posted in v3: in a pass of their own, each split flushes all the same; a split outside of it never does.
    FlushEach,
    /// As intended: in a pass of their own, followed by one flush; a split outside of it flushes.
    FlushOnce,
}

/// How the vmemmap of pages that leave the pool is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreStyle {
    /// Page by page; what fails goes back to the pool at once.
    None,
    /// As posted: the whole list, failures are collected and go back to the pool under one hold (patch 8).
    Whole,
    /// As merged: stops at the first failure, frees what has been restored and tries again.
    UntilFailure,
}

/// When restored vmemmap is made known to other CPUs' translation caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreFlush {
    /// After each page.
    Each,
    /// Once for each list, whether anything was restored or not (patch 12).
    Always,
    /// Once for each list of which something was restored (merged).
    IfRestored,
}

/// How many threads fill pools of boot time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootThreads {
    /// The one that boots.
    One,
    /// Two for each node with memory; one a node prepares gigantic pages.
    TwoANode,
    /// One for four CPUs, or as many as `hugepage_alloc_threads` says; one a node prepares gigantic pages.
    QuarterOfCpus,
}

/// What one kernel does with huge-page pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugetlbFeatures {
    /// Patch 5: all pages of a list are restored first, then one hold of hugetlb_lock clears their flags.
    pub clear_flags_once: bool,
    /// Patch 6: new pages are collected and added to the pool under one hold.
    pub add_list: bool,
    /// Patch 7: collected pages are optimised. Between patches 6 and 7 nothing optimises them.
    pub optimize_list: bool,
    /// Patch 8.
    pub restore_style: RestoreStyle,
    /// Patch 9: vmemmap pages of a list are freed after all of it, last in first out.
    pub free_frames_once: bool,
    /// Patch 10.
    pub split_pass: SplitPass,
    /// Merged: the pass ends at the first split that fails.
    pub split_pass_stops: bool,
    /// Patch 11: one flush after the list was remapped.
    pub remap_flush_once: bool,
    /// Patch 12.
    pub restore_flush: RestoreFlush,
    /// Merged: after a failure the list is retried only if frames could be freed in between.
    pub retry_if_frames: bool,
    /// 6.7: vmemmap is restored with pages of other nodes if the page's own has none.
    pub restore_from_any_node: bool,
    /// 6.7: of gigantic pages of boot time that give back their vmemmap, only the struct pages that stay are made.
    pub skips_gigantic_tails: bool,
    /// 6.9: two threads a node, 6.15: one for four CPUs.
    pub boot_threads: BootThreads,
    /// 6.10 to 7.0: remapping waits for readers of struct pages (`synchronize_rcu`), once a list.
    pub waits_for_readers: bool,
    /// 6.15: when shrinking, free surplus pages do not count as free persistent ones.
    pub spares_surplus: bool,
    /// 6.15: gigantic pages of boot time get their vmemmap in its final shape from the start.
    pub optimized_at_boot: bool,
    /// 6.18: where memory ran out at boot, what was given back meanwhile is asked for in another round.
    pub boot_retries: bool,
    /// 6.12: gigantic pages of a node are demoted together; before, page by page, and their parts one by one.
    pub demotes_in_batches: bool,
    /// 6.15: translation caches are flushed by instruction where the CPU has one (INVLPGB).
    pub invlpgb: bool,
}

impl HugetlbFeatures {
    pub(crate) const BASE: HugetlbFeatures = HugetlbFeatures {
        clear_flags_once: false,
        add_list: false,
        optimize_list: false,
        restore_style: RestoreStyle::None,
        free_frames_once: false,
        split_pass: SplitPass::None,
        split_pass_stops: false,
        remap_flush_once: false,
        restore_flush: RestoreFlush::Each,
        retry_if_frames: false,
        restore_from_any_node: false,
        skips_gigantic_tails: false,
        boot_threads: BootThreads::One,
        waits_for_readers: false,
        spares_surplus: false,
        optimized_at_boot: false,
        boot_retries: false,
        demotes_in_batches: false,
        invlpgb: false,
    };
    pub(crate) const PATCH5: HugetlbFeatures =
        HugetlbFeatures { clear_flags_once: true, ..HugetlbFeatures::BASE };
    pub(crate) const PATCH6: HugetlbFeatures = HugetlbFeatures { add_list: true, ..HugetlbFeatures::PATCH5 };
    pub(crate) const PATCH7: HugetlbFeatures =
        HugetlbFeatures { optimize_list: true, ..HugetlbFeatures::PATCH6 };
    pub(crate) const PATCH8: HugetlbFeatures =
        HugetlbFeatures { restore_style: RestoreStyle::Whole, ..HugetlbFeatures::PATCH7 };
    pub(crate) const PATCH9: HugetlbFeatures =
        HugetlbFeatures { free_frames_once: true, ..HugetlbFeatures::PATCH8 };
    pub(crate) const PATCH10_V3: HugetlbFeatures =
        HugetlbFeatures { split_pass: SplitPass::FlushEach, ..HugetlbFeatures::PATCH9 };
    pub(crate) const PATCH10: HugetlbFeatures =
        HugetlbFeatures { split_pass: SplitPass::FlushOnce, ..HugetlbFeatures::PATCH9 };
    pub(crate) const PATCH11_V3: HugetlbFeatures =
        HugetlbFeatures { remap_flush_once: true, ..HugetlbFeatures::PATCH10_V3 };
    pub(crate) const PATCH11: HugetlbFeatures =
        HugetlbFeatures { remap_flush_once: true, ..HugetlbFeatures::PATCH10 };
    pub(crate) const PATCH12_V3: HugetlbFeatures =
        HugetlbFeatures { restore_flush: RestoreFlush::Always, ..HugetlbFeatures::PATCH11_V3 };
    pub(crate) const PATCH12: HugetlbFeatures =
        HugetlbFeatures { restore_flush: RestoreFlush::Always, ..HugetlbFeatures::PATCH11 };
    pub(crate) const MAINLINE_6_7: HugetlbFeatures = HugetlbFeatures {
        restore_style: RestoreStyle::UntilFailure,
        split_pass_stops: true,
        restore_flush: RestoreFlush::IfRestored,
        retry_if_frames: true,
        restore_from_any_node: true,
        skips_gigantic_tails: true,
        ..HugetlbFeatures::PATCH12
    };
    pub(crate) const MAINLINE_6_9: HugetlbFeatures =
        HugetlbFeatures { boot_threads: BootThreads::TwoANode, ..HugetlbFeatures::MAINLINE_6_7 };
    pub(crate) const MAINLINE_6_10: HugetlbFeatures =
        HugetlbFeatures { waits_for_readers: true, ..HugetlbFeatures::MAINLINE_6_9 };
    pub(crate) const MAINLINE_6_12: HugetlbFeatures =
        HugetlbFeatures { demotes_in_batches: true, ..HugetlbFeatures::MAINLINE_6_10 };
    pub(crate) const MAINLINE_6_15: HugetlbFeatures = HugetlbFeatures {
        boot_threads: BootThreads::QuarterOfCpus,
        spares_surplus: true,
        optimized_at_boot: true,
        invlpgb: true,
        ..HugetlbFeatures::MAINLINE_6_12
    };
    pub(crate) const MAINLINE_6_18: HugetlbFeatures =
        HugetlbFeatures { boot_retries: true, ..HugetlbFeatures::MAINLINE_6_15 };
    pub(crate) const MAINLINE_7_1: HugetlbFeatures =
        HugetlbFeatures { waits_for_readers: false, ..HugetlbFeatures::MAINLINE_6_18 };
}
