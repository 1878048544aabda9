//! What each patch of the batching series changes in huge-page pools, and what later kernels changed.
//!
//! ```text
//!   growing    allocate ─► split PMDs ─► remap ─► free frames ─► add to the pool
//!                 P6: collect    P10: own pass   P11: one flush   P9: at the end   P6: one hold
//!   shrinking  remove ─► restore ─► clear flags ─► free
//!                          P8: list, P12: one flush   P5: one hold
//! ```

use crate::features::by_name::features;

features! {
    /// When TLBs are flushed after the PMD mapping of a vmemmap section is split.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SplitPass {
        /// Each page splits what it needs, and flushes.
        None,
        /// As posted in v3: splits are a pass of their own in which each still flushes; a split outside of it
        /// never flushes.
        FlushEach,
        /// As intended: splits are a pass of their own followed by one flush; a split outside of it flushes.
        FlushOnce,
    }

    /// How the vmemmap of pages that leave the pool is restored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RestoreStyle {
        /// Page by page; a page that fails returns to the pool at once.
        None,
        /// As posted: the whole list; pages that fail are collected and return to the pool under one hold of the
        /// lock (patch 8).
        Whole,
        /// As merged: until the first failure; then the restored pages are freed and the rest is retried.
        UntilFailure,
    }

    /// When TLBs are flushed after vmemmap is restored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RestoreFlush {
        /// After each page.
        Each,
        /// Once for each list, whether or not anything was restored (patch 12).
        Always,
        /// Once for each list in which something was restored (merged).
        IfRestored,
    }

    /// How many threads fill pools at boot.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BootThreads {
        /// The booting thread alone.
        One,
        /// Two for each node with memory; gigantic pages are prepared by one thread for each node.
        TwoANode,
        /// One for every four CPUs, or `hugepage_alloc_threads`; gigantic pages are prepared by one thread for
        /// each node.
        QuarterOfCpus,
    }

    /// What one kernel does with pools of huge pages.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HugetlbFeatures {
        /// Patch 5: all pages of a list are restored first, then their flags are cleared under one hold of
        /// hugetlb_lock.
        pub clear_flags_once: bool,
        /// Patch 6: new pages are collected and added to the pool under one hold of hugetlb_lock.
        pub add_list: bool,
        /// Patch 7: collected pages are optimised. With patch 6 alone they are not.
        pub optimize_list: bool,
        /// Patch 8 and as merged: how vmemmap is restored.
        pub restore_style: RestoreStyle,
        /// Patch 9: the vmemmap pages of a list are freed after the whole list, last in first out.
        pub free_frames_once: bool,
        /// Patch 10: whether PMD mappings are split in a pass of their own.
        pub split_pass: SplitPass,
        /// Merged: the split pass ends at the first failure.
        pub split_pass_stops: bool,
        /// Patch 11: one flush after the whole list is remapped.
        pub remap_flush_once: bool,
        /// Patch 12 and as merged: when TLBs are flushed after a restore.
        pub restore_flush: RestoreFlush,
        /// Merged: after a failure a page is retried only if frames could be freed in between.
        pub retry_if_frames: bool,
        /// 6.7: vmemmap is restored with pages of other nodes if the page's own node has none.
        pub restore_from_any_node: bool,
        /// 6.7: boot initialises only those struct pages of an optimised gigantic page that stay.
        pub skips_gigantic_tails: bool,
        /// 6.9: two threads for each node; 6.15: one for every four CPUs.
        pub boot_threads: BootThreads,
        /// 6.10 to 7.0: remapping first waits for an RCU grace period, once for each list (`synchronize_rcu`).
        pub waits_for_readers: bool,
        /// 6.15: when a pool shrinks, free surplus pages do not count as free persistent ones.
        pub spares_surplus: bool,
        /// 6.15: boot makes the vmemmap of gigantic pages in optimised form.
        pub optimized_at_boot: bool,
        /// 6.18: if memory runs out at boot, another round allocates what optimisation has freed meanwhile.
        pub boot_retries: bool,
        /// 6.12: the gigantic pages of a node are demoted together; before, page by page, and their parts one by
        /// one.
        pub demotes_in_batches: bool,
        /// 6.15: TLBs are flushed by instruction if the CPU has one (INVLPGB).
        pub invlpgb: bool,
    }
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
