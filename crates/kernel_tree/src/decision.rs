//! Which functions can be taken from a tree, where they are, what can be given to them, and where `mm` asks them.
//!
//! A new decision is an entry in [`DECISIONS`], a shim in the mechanism's file in `c/`, and a [`mm::decisions::Rule`] that `mm` asks.

use crate::error::Error;
use mm::Decisions;
use mm::decisions::{
    AnonFolioState, DeferralState, FallbackState, Field, Flat, FragmentationState, GroupNodesState,
    LruGenState, NextNodeState, NumaMigrateState, NumaScanState, PcpState, PcpZoneState, ReadaheadState,
    ReferencesState, Rule, ScanCountState, ScanPassState, ScanPmdState, ShadowState, SuitableState,
    SwapReadaheadState, TailFolioState, ThpWindowState, VmaAccessState, WatermarkState, WritebackState,
    ZoneMarkState,
};
use std::fmt;

/// A function of the kernel that decides something.
pub struct Decision {
    /// The name of the function in the kernel.
    pub name: &'static str,
    /// The file that the function is in, from the root of a tree.
    pub file: &'static str,
    /// Other files that may have what the function needs.
    pub others: &'static [&'static str],
    /// The header in `c/` that declares what the function reads.
    pub header: &'static str,
    /// The parameters that its shim can give, each with type and name.
    pub parameters: &'static [(&'static str, &'static str)],
    /// The types of an answer that its shim understands.
    pub answers: &'static [&'static str],
    /// Where the function goes in [`Decisions`].
    pub slot: Slot,
}

/// Takes the rules of a loaded object, whatever record each is asked with.
pub(crate) trait Symbols {
    /// The function of the object that decides.
    fn rule<S: Flat>(&self) -> Result<Rule<S>, Error>;
}

/// Declares the records that decisions are asked with: each once, for all that depends on it.
macro_rules! slots {
    ($($(#[$about:meta])* $name:ident($record:ty),)*) => {
        /// Where a decision goes in [`Decisions`], by the record that it is asked with.
        pub enum Slot {
            $($(#[$about])* $name(fn(&mut Decisions) -> &mut Rule<$record>),)*
        }

        /// The records, as C declares them.
        pub fn records() -> String {
            [$(record::<$record>()),*].concat()
        }

        impl Slot {
            /// The fields of the record that the decision is asked with.
            pub fn fields(&self) -> &'static [Field] {
                match self {
                    $(Slot::$name(_) => <$record>::FIELDS,)*
                }
            }

            /// Where the decision's rule is in `decisions`.
            fn address(&self, decisions: &mut Decisions) -> usize {
                match self {
                    $(Slot::$name(rule) => std::ptr::from_ref(rule(decisions)).addr(),)*
                }
            }

            /// Has the decision made by a loaded object.
            pub(crate) fn install(
                &self,
                decisions: &mut Decisions,
                symbols: &impl Symbols,
            ) -> Result<(), Error> {
                match self {
                    $(Slot::$name(rule) => *rule(decisions) = symbols.rule()?,)*
                }
                Ok(())
            }
        }
    };
}

slots! {
    /// A pageset.
    Pcp(PcpState),
    /// The pagesets of a zone.
    PcpZone(PcpZoneState),
    /// All zones.
    Watermarks(WatermarkState),
    /// A request whose own migrate type has no block.
    Fallback(FallbackState),
    /// A zone and a request that is held against its watermark.
    ZoneMark(ZoneMarkState),
    /// The generations of a lruvec.
    LruGen(LruGenState),
    /// The classic lists of a lruvec.
    ScanCount(ScanCountState),
    /// A folio of the oldest generation.
    TailFolio(TailFolioState),
    /// A folio that reclaim looks at.
    References(ReferencesState),
    /// The shadow of an evicted page.
    Shadow(ShadowState),
    /// A readahead window of a file.
    Readahead(ReadaheadState),
    /// A readahead window of swap.
    SwapReadahead(SwapReadaheadState),
    /// A VMA and orders of folios.
    ThpWindow(ThpWindowState),
    /// A fault that may get a large folio.
    AnonFolio(AnonFolioState),
    /// A range that may become a huge page.
    ScanPmd(ScanPmdState),
    /// A task whose memory is scanned.
    NumaScan(NumaScanState),
    /// A page that a hint fault is about.
    NumaMigrate(NumaMigrateState),
    /// A NUMA group and the nodes.
    GroupNodes(GroupNodesState),
    /// A VMA that is scanned.
    VmaAccess(VmaAccessState),
    /// A thread that may scan, and its VMAs.
    ScanPass(ScanPassState),
    /// The free blocks of a zone.
    Fragmentation(FragmentationState),
    /// A zone that may be compacted.
    Suitable(SuitableState),
    /// Compaction that is put off.
    Deferral(DeferralState),
    /// Nodes that take turns.
    NextNode(NextNodeState),
    /// A flusher.
    Writeback(WritebackState),
}

/// A file of `c/`.
pub struct CFile {
    /// The name of the file.
    pub name: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

macro_rules! c_files {
    ($($name:literal),* $(,)?) => {
        &[$(CFile { name: $name, text: include_str!(concat!("../c/", $name)) }),*]
    };
}

/// The headers, in the order in which they are included.
pub const HEADERS: &[CFile] = c_files![
    "mmtwin.h",
    "pcp.h",
    "watermarks.h",
    "lru.h",
    "readahead.h",
    "folios.h",
    "numa.h",
    "fragmentation.h",
    "hugetlb.h",
    "writeback.h"
];
/// The shims between records and the kernel's structures.
pub const SHIMS: &[CFile] = c_files![
    "pcp.c",
    "watermarks.c",
    "lru.c",
    "readahead.c",
    "folios.c",
    "numa.c",
    "fragmentation.c",
    "hugetlb.c",
    "writeback.c"
];

fn record<S: Flat>() -> String {
    let field = |field: &Field| match field.elements {
        None => format!("\t{} {};\n", field.c_type, field.name),
        Some(elements) => format!("\t{} {}[{elements}];\n", field.c_type, field.name),
    };
    format!("struct {} {{\n{}}};\n", S::TAG, S::FIELDS.iter().map(field).collect::<String>())
}

const ALLOCATOR: &str = "mm/page_alloc.c";
const LISTS: &[&str] = &["include/linux/mmzone.h"];
const ZONES: &[&str] = &["include/linux/mmzone.h", "mm/internal.h"];
const OF_PAGESET: &[(&str, &str)] = &[
    ("struct per_cpu_pages *", "pcp"),
    ("struct zone *", "zone"),
    ("struct page *", "page"),
    ("int", "batch"),
    ("int", "high"),
    ("bool", "free_high"),
    ("int", "order"),
    ("unsigned int", "order"),
    ("int", "migratetype"),
];
const OF_ZONE: &[(&str, &str)] =
    &[("struct zone *", "zone"), ("int", "batch"), ("int", "cpu_online"), ("int", "high_fraction")];

const fn of_pageset(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<PcpState>,
) -> Decision {
    Decision {
        name,
        file: ALLOCATOR,
        others: ZONES,
        header: "pcp.h",
        parameters: OF_PAGESET,
        answers,
        slot: Slot::Pcp(rule),
    }
}

const fn of_zone(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<PcpZoneState>) -> Decision {
    Decision {
        name,
        file: ALLOCATOR,
        others: ZONES,
        header: "pcp.h",
        parameters: OF_ZONE,
        answers: &["int"],
        slot: Slot::PcpZone(rule),
    }
}

const OF_GENERATIONS: &[(&str, &str)] = &[
    ("struct lruvec *", "lruvec"),
    ("struct scan_control *", "sc"),
    ("int", "type"),
    ("int", "tier"),
    ("int", "gain"),
    ("int", "swappiness"),
    ("int *", "tier_idx"),
    ("unsigned long", "max_seq"),
    ("unsigned long *", "min_seq"),
    ("unsigned long *", "nr_to_scan"),
    ("bool", "can_swap"),
    ("bool", "carryover"),
    ("bool *", "need_aging"),
    ("struct ctrl_pos *", "pos"),
    ("struct ctrl_pos *", "sp"),
    ("struct ctrl_pos *", "pv"),
];
const INACTIVE: &[(&str, &str)] = &[("struct lruvec *", "lruvec"), ("enum lru_list", "inactive_lru")];
const SHRUNK: &[(&str, &str)] = &[("struct lruvec *", "lruvec"), ("struct scan_control *", "sc")];
const SCANNED: &[(&str, &str)] =
    &[("struct lruvec *", "lruvec"), ("struct scan_control *", "sc"), ("unsigned long *", "nr")];
const SORTED: &[(&str, &str)] = &[
    ("struct lruvec *", "lruvec"),
    ("struct folio *", "folio"),
    ("struct scan_control *", "sc"),
    ("int", "tier_idx"),
];
const PACKED: &[(&str, &str)] =
    &[("int", "memcgid"), ("pg_data_t *", "pgdat"), ("unsigned long", "eviction"), ("bool", "workingset")];
const UNPACKED: &[(&str, &str)] = &[
    ("void *", "shadow"),
    ("int *", "memcgidp"),
    ("pg_data_t **", "pgdat"),
    ("unsigned long *", "evictionp"),
    ("bool *", "workingsetp"),
];
const RECENT: &[(&str, &str)] = &[
    ("void *", "shadow"),
    ("bool", "file"),
    ("struct lruvec **", "lruvec"),
    ("unsigned long *", "token"),
    ("bool *", "workingset"),
    ("bool", "flush"),
];

const fn of_generations(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<LruGenState>,
) -> Decision {
    Decision {
        name,
        file: "mm/vmscan.c",
        others: LISTS,
        header: "lru.h",
        parameters: OF_GENERATIONS,
        answers,
        slot: Slot::LruGen(rule),
    }
}

const fn of_shadow(
    name: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<ShadowState>,
) -> Decision {
    Decision {
        name,
        file: "mm/workingset.c",
        others: LISTS,
        header: "lru.h",
        parameters,
        answers,
        slot: Slot::Shadow(rule),
    }
}

const fn of_window(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<ReadaheadState>) -> Decision {
    Decision {
        name,
        file: "mm/readahead.c",
        others: &[],
        header: "readahead.h",
        parameters: &[("unsigned long", "size"), ("unsigned long", "max"), ("struct file_ra_state *", "ra")],
        answers: &["unsigned long"],
        slot: Slot::Readahead(rule),
    }
}

const fn of_task(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<NumaScanState>,
) -> Decision {
    Decision {
        name,
        file: "kernel/sched/fair.c",
        others: &[],
        header: "numa.h",
        parameters: &[
            ("struct task_struct *", "p"),
            ("unsigned long", "shared"),
            ("unsigned long", "private"),
        ],
        answers,
        slot: Slot::NumaScan(rule),
    }
}

const fn of_fault(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<NumaMigrateState>,
) -> Decision {
    Decision {
        name,
        file: "kernel/sched/fair.c",
        others: &["include/linux/mm.h"],
        header: "numa.h",
        parameters: &[
            ("struct task_struct *", "p"),
            ("struct folio *", "folio"),
            ("struct page *", "page"),
            ("int", "src_nid"),
            ("int", "dst_cpu"),
            ("struct pglist_data *", "pgdat"),
            ("unsigned long", "rate_limit"),
            ("unsigned int", "ref_th"),
        ],
        answers,
        slot: Slot::NumaMigrate(rule),
    }
}

const fn of_blocks(
    name: &'static str,
    file: &'static str,
    rule: fn(&mut Decisions) -> &mut Rule<FragmentationState>,
) -> Decision {
    Decision {
        name,
        file,
        others: ZONES,
        header: "fragmentation.h",
        parameters: &[
            ("struct zone *", "zone"),
            ("pg_data_t *", "pgdat"),
            ("unsigned int", "order"),
            ("bool", "low"),
        ],
        answers: &["int", "unsigned int"],
        slot: Slot::Fragmentation(rule),
    }
}

const fn of_lists(
    name: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    rule: fn(&mut Decisions) -> &mut Rule<ScanCountState>,
) -> Decision {
    Decision {
        name,
        file: "mm/vmscan.c",
        others: LISTS,
        header: "lru.h",
        parameters,
        answers: &["void"],
        slot: Slot::ScanCount(rule),
    }
}

const fn of_tail(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<TailFolioState>) -> Decision {
    Decision {
        name,
        file: "mm/vmscan.c",
        others: &["include/linux/mmzone.h", "include/linux/mm_inline.h"],
        header: "lru.h",
        parameters: SORTED,
        answers: &["bool"],
        slot: Slot::TailFolio(rule),
    }
}

const fn of_deferral(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<DeferralState>,
) -> Decision {
    Decision {
        name,
        file: "mm/compaction.c",
        others: &["include/linux/mmzone.h", "include/linux/compaction.h"],
        header: "fragmentation.h",
        parameters: &[("struct zone *", "zone"), ("int", "order"), ("bool", "alloc_success")],
        answers,
        slot: Slot::Deferral(rule),
    }
}

const OF_MARK: &[(&str, &str)] = &[
    ("struct zone *", "z"),
    ("struct zone *", "zone"),
    ("unsigned int", "order"),
    ("unsigned long", "mark"),
    ("int", "highest_zoneidx"),
    ("unsigned int", "alloc_flags"),
    ("long", "free_pages"),
];

const fn of_mark(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<ZoneMarkState>) -> Decision {
    Decision {
        name,
        file: ALLOCATOR,
        others: ZONES,
        header: "watermarks.h",
        parameters: OF_MARK,
        answers: &["bool"],
        slot: Slot::ZoneMark(rule),
    }
}

const OF_FALLBACK: &[(&str, &str)] = &[
    ("struct free_area *", "area"),
    ("unsigned int", "order"),
    ("int", "migratetype"),
    ("int", "start_mt"),
    ("bool", "only_stealable"),
    ("bool *", "can_steal"),
];

const fn of_fallback(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<FallbackState>) -> Decision {
    Decision {
        name,
        file: ALLOCATOR,
        others: ZONES,
        header: "pcp.h",
        parameters: OF_FALLBACK,
        answers: &["bool", "int"],
        slot: Slot::Fallback(rule),
    }
}

const fn of_turns(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<NextNodeState>) -> Decision {
    Decision {
        name,
        file: "mm/hugetlb.c",
        others: &[],
        header: "hugetlb.h",
        parameters: &[("struct hstate *", "h"), ("int *", "next_node"), ("nodemask_t *", "nodes_allowed")],
        answers: &["int"],
        slot: Slot::NextNode(rule),
    }
}

const fn of_flusher(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<WritebackState>,
) -> Decision {
    Decision {
        name,
        file: "mm/page-writeback.c",
        others: &[],
        header: "writeback.h",
        parameters: &[
            ("struct bdi_writeback *", "wb"),
            ("unsigned long", "dirty"),
            ("unsigned long", "thresh"),
            ("unsigned long", "bg_thresh"),
            ("unsigned long", "setpoint"),
            ("unsigned long", "limit"),
            ("unsigned long", "wb_dirty"),
            ("unsigned long", "task_ratelimit"),
            ("unsigned long", "dirty_ratelimit"),
            ("long", "max_pause"),
            ("int *", "nr_dirtied_pause"),
        ],
        answers,
        slot: Slot::Writeback(rule),
    }
}

/// All functions that can be taken from a tree.
pub static DECISIONS: &[Decision] = &[
    of_pageset("nr_pcp_alloc", &["int"], |d| &mut d.pcp.nr_pcp_alloc),
    of_pageset("nr_pcp_high", &["int"], |d| &mut d.pcp.nr_pcp_high),
    of_pageset("nr_pcp_free", &["int"], |d| &mut d.pcp.nr_pcp_free),
    of_pageset("decay_pcp_high", &["bool", "int"], |d| &mut d.pcp.decay_pcp_high),
    of_pageset("free_unref_page_commit", &["void"], |d| &mut d.pcp.free_unref_page_commit),
    of_zone("zone_batchsize", |d| &mut d.pcp.zone_batchsize),
    of_zone("zone_highsize", |d| &mut d.pcp.zone_highsize),
    Decision {
        name: "__setup_per_zone_wmarks",
        file: ALLOCATOR,
        others: ZONES,
        header: "watermarks.h",
        parameters: &[],
        answers: &["void"],
        slot: Slot::Watermarks(|d| &mut d.watermarks),
    },
    of_generations("get_tier_idx", &["int"], |d| &mut d.lru_gen.get_tier_idx),
    of_generations("get_type_to_scan", &["int"], |d| &mut d.lru_gen.get_type_to_scan),
    of_generations("read_ctrl_pos", &["void"], |d| &mut d.judged.read_ctrl_pos),
    of_generations("positive_ctrl_err", &["bool"], |d| &mut d.judged.positive_ctrl_err),
    of_generations("should_run_aging", &["bool"], |d| &mut d.lru_gen.should_run_aging),
    of_shadow("pack_shadow", PACKED, &["void"], |d| &mut d.judged.pack_shadow),
    of_shadow("unpack_shadow", UNPACKED, &["void"], |d| &mut d.judged.unpack_shadow),
    of_shadow("lru_gen_test_recent", RECENT, &["bool"], |d| &mut d.judged.lru_gen_test_recent),
    of_shadow("workingset_test_recent", RECENT, &["bool"], |d| &mut d.judged.workingset_test_recent),
    of_generations("reset_ctrl_pos", &["void"], |d| &mut d.judged.reset_ctrl_pos),
    Decision {
        file: "mm/vmscan.c",
        ..of_shadow("inactive_is_low", INACTIVE, &["bool"], |d| &mut d.judged.inactive_is_low)
    },
    of_flusher("dirty_poll_interval", &["unsigned long"], |d| &mut d.judged.dirty_poll_interval),
    of_flusher("dirty_freerun_ceiling", &["unsigned long"], |d| &mut d.judged.dirty_freerun_ceiling),
    of_flusher("pos_ratio_polynom", &["long long"], |d| &mut d.judged.pos_ratio_polynom),
    of_flusher("wb_max_pause", &["unsigned long"], |d| &mut d.judged.wb_max_pause),
    of_flusher("wb_min_pause", &["long"], |d| &mut d.judged.wb_min_pause),
    of_window("get_init_ra_size", |d| &mut d.judged.get_init_ra_size),
    of_window("get_next_ra_size", |d| &mut d.judged.get_next_ra_size),
    of_task("task_scan_min", &["unsigned int"], |d| &mut d.numa.task_scan_min),
    of_task("task_scan_max", &["unsigned int"], |d| &mut d.numa.task_scan_max),
    of_task("update_task_scan_period", &["void"], |d| &mut d.numa.update_task_scan_period),
    of_fault("should_numa_migrate_memory", &["bool"], |d| &mut d.judged.should_numa_migrate_memory),
    of_fault("numa_promotion_adjust_threshold", &["void"], |d| &mut d.judged.numa_promotion_adjust_threshold),
    Decision {
        name: "preferred_group_nid",
        file: "kernel/sched/fair.c",
        others: &[],
        header: "numa.h",
        parameters: &[("struct task_struct *", "p"), ("int", "nid")],
        answers: &["int"],
        slot: Slot::GroupNodes(|d| &mut d.judged.preferred_group_nid),
    },
    of_blocks("fragmentation_score_wmark", "mm/compaction.c", |d| &mut d.judged.fragmentation_score_wmark),
    of_blocks("fragmentation_index", "mm/vmstat.c", |d| &mut d.judged.fragmentation_index),
    Decision {
        file: "mm/vmstat.c",
        ..of_zone("calculate_normal_threshold", |d| &mut d.judged.calculate_normal_threshold)
    },
    of_task("task_scan_start", &["unsigned int"], |d| &mut d.numa.task_scan_start),
    Decision {
        name: "vma_is_accessed",
        file: "kernel/sched/fair.c",
        others: &[],
        header: "numa.h",
        parameters: &[("struct mm_struct *", "mm"), ("struct vm_area_struct *", "vma")],
        answers: &["bool"],
        slot: Slot::VmaAccess(|d| &mut d.numa.vma_is_accessed),
    },
    of_deferral("defer_compaction", &["void"], |d| &mut d.judged.defer_compaction),
    of_deferral("compaction_deferred", &["bool"], |d| &mut d.judged.compaction_deferred),
    of_deferral("compaction_defer_reset", &["void"], |d| &mut d.judged.compaction_defer_reset),
    of_blocks("extfrag_for_order", "mm/vmstat.c", |d| &mut d.judged.extfrag_for_order),
    Decision {
        others: &["include/linux/mmzone.h", "mm/internal.h", "mm/vmstat.c"],
        ..of_blocks("fragmentation_score_zone", "mm/compaction.c", |d| &mut d.judged.fragmentation_score_zone)
    },
    of_fallback("can_steal_fallback", |d| &mut d.judged.can_steal_fallback),
    of_fallback("find_suitable_fallback", |d| &mut d.judged.find_suitable_fallback),
    of_mark("boost_watermark", |d| &mut d.judged.boost_watermark),
    of_mark("__zone_watermark_ok", |d| &mut d.judged.zone_watermark_ok),
    Decision {
        name: "folio_check_references",
        file: "mm/vmscan.c",
        others: LISTS,
        header: "lru.h",
        parameters: &[("struct folio *", "folio"), ("struct scan_control *", "sc")],
        answers: &["enum folio_references"],
        slot: Slot::References(|d| &mut d.judged.folio_check_references),
    },
    of_generations("get_nr_to_scan", &["long", "unsigned long"], |d| &mut d.judged.get_nr_to_scan),
    of_tail("sort_folio", |d| &mut d.judged.sort_folio),
    of_tail("isolate_folio", |d| &mut d.judged.isolate_folio),
    of_lists("get_scan_count", SCANNED, |d| &mut d.judged.get_scan_count),
    of_lists("shrink_lruvec", SHRUNK, |d| &mut d.judged.shrink_lruvec),
    Decision {
        name: "compaction_suitable",
        file: "mm/compaction.c",
        others: &[
            "include/linux/mmzone.h",
            "include/linux/compaction.h",
            "mm/internal.h",
            "mm/page_alloc.c",
            "mm/vmstat.c",
        ],
        header: "fragmentation.h",
        parameters: &[
            ("struct zone *", "zone"),
            ("int", "order"),
            ("unsigned int", "alloc_flags"),
            ("int", "highest_zoneidx"),
        ],
        answers: &["bool", "enum compact_result"],
        slot: Slot::Suitable(|d| &mut d.judged.compaction_suitable),
    },
    Decision {
        name: "__swapin_nr_pages",
        file: "mm/swap_state.c",
        others: &[],
        header: "readahead.h",
        parameters: &[
            ("unsigned long", "prev_offset"),
            ("unsigned long", "offset"),
            ("int", "hits"),
            ("int", "max_pages"),
            ("int", "prev_win"),
        ],
        answers: &["unsigned int"],
        slot: Slot::SwapReadahead(|d| &mut d.judged.swapin_nr_pages),
    },
    Decision {
        name: "thp_vma_suitable_orders",
        file: "include/linux/huge_mm.h",
        others: &[],
        header: "folios.h",
        parameters: &[
            ("struct vm_area_struct *", "vma"),
            ("unsigned long", "addr"),
            ("unsigned long", "orders"),
        ],
        answers: &["unsigned long"],
        slot: Slot::ThpWindow(|d| &mut d.judged.thp_vma_suitable_orders),
    },
    of_turns("hstate_next_node_to_alloc", |d| &mut d.judged.hstate_next_node_to_alloc),
    of_turns("hstate_next_node_to_free", |d| &mut d.judged.hstate_next_node_to_free),
    Decision {
        name: "task_numa_work",
        file: "kernel/sched/fair.c",
        others: &[],
        header: "numa.h",
        parameters: &[("struct callback_head *", "work")],
        answers: &["void"],
        slot: Slot::ScanPass(|d| &mut d.judged.task_numa_work),
    },
    Decision {
        name: "vma_thp_gfp_mask",
        file: "mm/huge_memory.c",
        others: &["include/linux/huge_mm.h"],
        header: "folios.h",
        parameters: &[("struct vm_area_struct *", "vma")],
        answers: &["gfp_t"],
        slot: Slot::AnonFolio(|d| &mut d.folios.vma_thp_gfp_mask),
    },
    Decision {
        name: "alloc_anon_folio",
        file: "mm/memory.c",
        others: &["include/linux/huge_mm.h", "mm/huge_memory.c"],
        header: "folios.h",
        parameters: &[("struct vm_fault *", "vmf")],
        answers: &["struct folio"],
        slot: Slot::AnonFolio(|d| &mut d.folios.alloc_anon_folio),
    },
    Decision {
        name: "hpage_collapse_scan_pmd",
        file: "mm/khugepaged.c",
        others: &[],
        header: "folios.h",
        parameters: &[
            ("struct mm_struct *", "mm"),
            ("struct vm_area_struct *", "vma"),
            ("unsigned long", "address"),
            ("bool *", "mmap_locked"),
            ("struct collapse_control *", "cc"),
        ],
        answers: &["int"],
        slot: Slot::ScanPmd(|d| &mut d.judged.hpage_collapse_scan_pmd),
    },
];

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Slot {
    /// Whether `mm` asks the decision in a run. What is in [`Decisions::judged`] is asked by no run.
    pub fn decides(&self) -> bool {
        let mut decisions = Decisions::default();
        let judged = std::ptr::from_ref(&decisions.judged).addr();
        let rule = self.address(&mut decisions);
        !(judged..judged + size_of_val(&decisions.judged)).contains(&rule)
    }
}

impl Decision {
    /// The position of the decision in [`DECISIONS`], by which C and a note call it.
    pub(crate) fn number(&self) -> usize {
        DECISIONS.iter().position(|decision| decision.name == self.name).unwrap_or_default()
    }

    /// All files that may have the function or what it needs.
    pub fn files(&self) -> impl Iterator<Item = &'static str> {
        [self.file].into_iter().chain(self.others.iter().copied())
    }

    /// The decision of that name.
    pub fn named(name: &str) -> Option<&'static Decision> {
        DECISIONS.iter().find(|decision| decision.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_asks_those_that_the_page_lists() {
        let deciding: Vec<&str> = DECISIONS
            .iter()
            .filter(|decision| decision.slot.decides())
            .map(|decision| decision.name)
            .collect();
        assert_eq!(
            deciding,
            [
                "nr_pcp_alloc",
                "nr_pcp_high",
                "nr_pcp_free",
                "decay_pcp_high",
                "free_unref_page_commit",
                "zone_batchsize",
                "zone_highsize",
                "__setup_per_zone_wmarks",
                "get_tier_idx",
                "get_type_to_scan",
                "should_run_aging",
                "task_scan_min",
                "task_scan_max",
                "update_task_scan_period",
                "task_scan_start",
                "vma_is_accessed",
                "vma_thp_gfp_mask",
                "alloc_anon_folio",
            ]
        );
        let page = include_str!("../../../docs/src/reference/kernel-trees.md");
        for decision in DECISIONS {
            let is_listed = page.contains(&format!("`{}`", decision.name));
            assert_eq!(is_listed, decision.slot.decides(), "{}", decision.name);
        }
    }
}
