//! The modelled patch series, and the names of their variants.
//!
//! ```text
//!   pcp      pcp-base ─► patch1 ─► ... ─► patch10        a name means the series up to and including that patch,
//!   hugetlb  hugetlb-base ─► patch5 ─► ... ─► patch12    as posted and, if review found a mistake, also as intended
//!   reclaim  mglru-6.5 ─► refault-distance-1 ─► ...      and the multi-gen LRU of releases before and after
//!   numa     numa-base ─► vma-scanning-1 ─► ... ─► partial-vmas-4 ─► ... ─► numa-6.12     and what was merged later
//!   folios   folios-base ─► folios-v1 ─► ... ─► folios-v9 ─► folios-6.8    versions of the series; folios-v9-64k-32k is
//!              │                                                          v9 with two sizes enabled
//!              └─► mainline-6.1 ─► mainline-6.2 ─► ... ─► mainline-7.2       every series ends in the same kernels
//! ```
//!
//! A variant is a value of [`Features`] together with the settings it needs. A kernel release (`6.5`, `6.7`,
//! ...) is the name of one variant. Former names of variants are accepted too ([`Series::present_name`]).

use crate::address_space::huge_memory::features::FolioFeatures;
use crate::features::Features;
use crate::hugetlb::features::HugetlbFeatures;
use crate::lru::vmscan::features::ReclaimFeatures;
use crate::mechanism::Mechanism;
use crate::numa::features::NumaFeatures;
use serde::{Deserialize, Serialize};

mod former_names;

use former_names::FORMER_NAMES;

/// A kernel with a name: a patch of a series, or a release.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub name: &'static str,
    pub description: &'static str,
    pub features: Features,
    /// Settings that belong to the variant. They override a scenario's settings; those given on the command
    /// line override both.
    pub settings: &'static [(&'static str, &'static str)],
}

const fn variant(name: &'static str, description: &'static str, features: Features) -> Variant {
    Variant { name, description, features, settings: &[] }
}

/// A series of patches.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The name of the mechanism, which a scenario's `series` takes.
    pub name: &'static str,
    /// Title, version, number of patches and date of posting.
    pub description: &'static str,
    patches: &'static [Variant],
}

impl Series {
    /// PCP high auto-tuning.
    pub const PCP: Series = Series {
        name: Mechanism::Pcp.name(),
        description: "PCP high auto-tuning, 10 patches, 2023-09-20",
        patches: PCP_PATCHES,
    };
    /// Batched hugetlb vmemmap operations.
    pub const HUGETLB: Series = Series {
        name: Mechanism::Hugetlb.name(),
        description: "Batch hugetlb vmemmap modification operations, v3, 12 patches, 2023-09-15",
        patches: HUGETLB_PATCHES,
    };
    /// The refault distance for the multi-gen LRU.
    pub const RECLAIM: Series = Series {
        name: Mechanism::Reclaim.name(),
        description: "Refault distance update with MGLRU support, RFC v3, 6 patches, 2023-09-21",
        patches: RECLAIM_PATCHES,
    };
    /// Which VMAs NUMA balancing scans.
    pub const NUMA: Series = Series {
        name: Mechanism::Numa.name(),
        description: "sched/numa: Enhance vma scanning, v3, 4 patches, 2023-03-01, and what followed it",
        patches: NUMA_PATCHES,
    };
    /// Large folios for anonymous memory.
    pub const FOLIOS: Series = Series {
        name: Mechanism::Folios.name(),
        description: "variable-order, large folios for anonymous memory, v1 to v9, 2023-06 to 2023-12",
        patches: FOLIOS_PATCHES,
    };
    pub const ALL: &'static [Series] =
        &[Series::PCP, Series::HUGETLB, Series::RECLAIM, Series::NUMA, Series::FOLIOS];

    pub fn find(name: &str) -> Option<Series> {
        Series::ALL.iter().copied().find(|series| series.name == name)
    }

    /// The variants in order: the patches of this series, then released kernels.
    pub fn variants(&self) -> impl Iterator<Item = &'static Variant> + use<> {
        self.patches.iter().chain(MAINLINE)
    }

    /// Finds a variant by its present or former name.
    pub fn variant(&self, name: &str) -> Option<&'static Variant> {
        let name = self.present_name(name).unwrap_or(name);
        self.variants().find(|variant| variant.name == name)
    }

    /// Pairs of a former name and the present name of the same variant.
    pub fn former_names(&self) -> &'static [(&'static str, &'static str)] {
        FORMER_NAMES.iter().find(|(series, _)| *series == self.name).map_or(&[], |(_, names)| names)
    }

    /// The present name of the variant formerly named `name`; `None` if `name` is not a former name.
    pub fn present_name(&self, name: &str) -> Option<&'static str> {
        self.former_names().iter().find(|(former, _)| *former == name).map(|(_, present)| *present)
    }
}

const PCP_PATCHES: &[Variant] = &[
    variant("pcp-base", "before the series (6.6): fixed pcp->high", Features::BASE),
    variant("patch1", "1/10: drain on high-order frees only if two come in succession", Features::PATCH1),
    variant("patch2", "1-2/10: cache size of each CPU is computed, no decision changes", Features::PATCH1),
    variant("patch3", "1-3/10: keep up to a batch before such a drain if caches are large", Features::PATCH3),
    variant("patch4", "1-4/10: bulk frees scale up to 32 batches at most", Features::PATCH4),
    variant("patch5", "1-5/10: refills scale too", Features::PATCH5),
    variant("patch6", "1-6/10: high_min and high_max, no decision changes", Features::PATCH6),
    variant("patch7", "1-7/10: pcp->high is tuned between its bounds", Features::PATCH7),
    variant(
        "patch8",
        "1-8/10: pcp->high shrinks while the zone is below its high watermark",
        Features::PATCH8,
    ),
    variant("patch9", "1-9/10: decay takes only what was not used", Features::PATCH9),
    variant("patch10", "1-10/10: consecutive frees are counted in pages", Features::PATCH10),
];

const HVO_OFF: &[(&str, &str)] = &[("vm.hugetlb_optimize_vmemmap", "0")];

const fn hugetlb(name: &'static str, description: &'static str, hugetlb: HugetlbFeatures) -> Variant {
    variant(name, description, Features { hugetlb, ..Features::BASE })
}

const HUGETLB_PATCHES: &[Variant] = &[
    Variant {
        settings: HVO_OFF,
        ..hugetlb(
            "hugetlb-base-hvo-off",
            "hugetlb-base with vm.hugetlb_optimize_vmemmap = 0",
            HugetlbFeatures::BASE,
        )
    },
    hugetlb("hugetlb-base", "before the series (next-20230824): one page at a time", HugetlbFeatures::BASE),
    hugetlb("patch5", "5/12: pages freed in bulk share one hold of hugetlb_lock", HugetlbFeatures::PATCH5),
    hugetlb(
        "patch6",
        "5-6/12: new pages are collected and enter the pool under one hold of hugetlb_lock; none is optimised",
        HugetlbFeatures::PATCH6,
    ),
    hugetlb("patch7", "5-7/12: collected pages are optimised as a list", HugetlbFeatures::PATCH7),
    hugetlb("patch8", "5-8/12: vmemmap is restored for a list", HugetlbFeatures::PATCH8),
    hugetlb("patch9", "5-9/12: vmemmap pages are freed after the whole list", HugetlbFeatures::PATCH9),
    hugetlb(
        "patch10-v3",
        "5-10/12 as posted: splits are a pass of their own, each still flushes",
        HugetlbFeatures::PATCH10_V3,
    ),
    hugetlb("patch10", "5-10/12 as intended: one flush after all splits", HugetlbFeatures::PATCH10),
    hugetlb(
        "patch11-v3",
        "5-11/12 as posted: one flush after remapping, splits still flush",
        HugetlbFeatures::PATCH11_V3,
    ),
    hugetlb("patch11", "5-11/12 as intended: two flushes a list", HugetlbFeatures::PATCH11),
    hugetlb(
        "patch12-v3",
        "5-12/12 as posted: one flush after restoring, splits still flush",
        HugetlbFeatures::PATCH12_V3,
    ),
    hugetlb(
        "patch12",
        "5-12/12 as intended: two flushes to optimise a list, one to restore it",
        HugetlbFeatures::PATCH12,
    ),
    Variant {
        settings: HVO_OFF,
        ..hugetlb("patch12-hvo-off", "patch12 with vm.hugetlb_optimize_vmemmap = 0", HugetlbFeatures::PATCH12)
    },
];

const CLASSIC: &[(&str, &str)] = &[("lru_gen/enabled", "0")];

const fn reclaim(name: &'static str, description: &'static str, reclaim: ReclaimFeatures) -> Variant {
    variant(name, description, Features { reclaim, ..Features::BASE })
}

const fn classic(name: &'static str, description: &'static str, features: ReclaimFeatures) -> Variant {
    Variant { settings: CLASSIC, ..reclaim(name, description, features) }
}

const RECLAIM_PATCHES: &[Variant] = &[
    classic(
        "classic",
        "before the series (6.5, 6.6), classic LRU: active and inactive lists",
        ReclaimFeatures::MAINLINE_6_5,
    ),
    classic("refault-distance-1-classic", "1/6 with the classic LRU", ReclaimFeatures::REFAULT_DISTANCE_1),
    classic(
        "refault-distance-2-classic",
        "1-2/6 with the classic LRU, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_1,
    ),
    classic(
        "refault-distance-3-classic",
        "1-3/6 with the classic LRU, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_1,
    ),
    classic(
        "refault-distance-4-classic",
        "1-4/6 with the classic LRU, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_4,
    ),
    classic(
        "refault-distance-5-classic",
        "1-5/6 with the classic LRU, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_4,
    ),
    classic(
        "refault-distance-6-classic",
        "1-6/6 with the classic LRU, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_6,
    ),
    reclaim("mglru-6.1", "multi-gen LRU of 6.1 as first released", ReclaimFeatures::MAINLINE_6_1_0),
    reclaim(
        "mglru-6.5",
        "before the series (6.5, 6.6): all refaults are counted",
        ReclaimFeatures::MAINLINE_6_5,
    ),
    reclaim(
        "refault-distance-1",
        "1/6: age counts evictions only, throttled rule",
        ReclaimFeatures::REFAULT_DISTANCE_1,
    ),
    reclaim(
        "refault-distance-2",
        "1-2/6: a helper, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_1,
    ),
    reclaim(
        "refault-distance-3",
        "1-3/6: a constant, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_1,
    ),
    reclaim(
        "refault-distance-4",
        "1-4/6: a shadow of a deleted memory cgroup is never recent",
        ReclaimFeatures::REFAULT_DISTANCE_4,
    ),
    reclaim(
        "refault-distance-5",
        "1-5/6: averages are atomic, no decision changes",
        ReclaimFeatures::REFAULT_DISTANCE_4,
    ),
    reclaim(
        "refault-distance-6-v3",
        "1-6/6 as posted: refault distance promotes; no refault is recent from generation 8 on",
        ReclaimFeatures::REFAULT_DISTANCE_6_V3,
    ),
    reclaim(
        "refault-distance-6",
        "1-6/6 as intended: recent by the stored bits",
        ReclaimFeatures::REFAULT_DISTANCE_6,
    ),
    reclaim(
        "mglru-6.7",
        "multi-gen LRU of 6.7: restored pages keep their accesses",
        ReclaimFeatures::MAINLINE_6_7,
    ),
    reclaim(
        "mglru-6.14",
        "multi-gen LRU of 6.14: recent by the last generations",
        ReclaimFeatures::MAINLINE_6_14,
    ),
    reclaim(
        "mglru-6.17",
        "multi-gen LRU of 6.17: a batch isolates as much as the priority asks for",
        ReclaimFeatures::MAINLINE_6_17,
    ),
    reclaim(
        "mglru-7.1",
        "multi-gen LRU of 7.1: stops at a memory cgroup once it has reclaimed enough",
        ReclaimFeatures::MAINLINE_7_1,
    ),
    reclaim(
        "mglru-7.2",
        "multi-gen LRU of 7.2: workingset_activate counts the working set only",
        ReclaimFeatures::MAINLINE_7_2,
    ),
];

const fn numa(name: &'static str, description: &'static str, numa: NumaFeatures) -> Variant {
    variant(name, description, Features { numa, ..Features::BASE })
}

const NUMA_PATCHES: &[Variant] = &[
    numa("numa-base", "before the series (6.2): every suitable VMA is scanned", NumaFeatures::BASE),
    numa("vma-scanning-1", "1/4: a new VMA is left alone for scan_delay_ms", NumaFeatures::VMA_SCANNING_1),
    numa(
        "vma-scanning-2",
        "1-2/4: threads scan only VMAs in which they took hint faults",
        NumaFeatures::VMA_SCANNING_2,
    ),
    numa(
        "vma-scanning-3",
        "1-3/4: hint faults are forgotten after two windows",
        NumaFeatures::VMA_SCANNING_3,
    ),
    numa("vma-scanning-4", "1-4/4: PIDs are hashed (6.4 to 6.6)", NumaFeatures::VMA_SCANNING_4),
    numa(
        "partial-vmas-4",
        "windows turn before the test, skips are traced (October 2023, patches 1-4)",
        NumaFeatures::PARTIAL_VMAS_4,
    ),
    numa(
        "partial-vmas-5",
        "a partly scanned VMA is finished by any thread (patch 5)",
        NumaFeatures::PARTIAL_VMAS_5,
    ),
    numa(
        "partial-vmas-6",
        "no VMA is scanned twice in a sequence, and one is forced if all are skipped (patch 6)",
        NumaFeatures::PARTIAL_VMAS_6,
    ),
    numa(
        "numa-6.8",
        "the first two sequences are counted from the creation of the VMA (6.8 to 6.11)",
        NumaFeatures::MAINLINE_6_8,
    ),
    numa(
        "numa-6.12",
        "every VMA is scanned again after nr_threads sequences (6.12 to 6.15)",
        NumaFeatures::MAINLINE_6_12,
    ),
    numa(
        "numa-6.12.117",
        "numa-6.12, and failed migrations are forgotten once the scan period has doubled (6.12.117)",
        NumaFeatures::MAINLINE_6_12_117,
    ),
    numa(
        "numa-6.19",
        "no scan if the cpuset allows one node (6.16), and what changed until 6.19",
        NumaFeatures::MAINLINE_6_19,
    ),
];

const fn folios(name: &'static str, description: &'static str, folios: FolioFeatures) -> Variant {
    variant(name, description, Features { folios, ..Features::BASE })
}

/// A kernel in which the given sizes are set to `always` and all others to `never`.
macro_rules! sizes {
    ($name:literal, $description:literal, $($kib:literal)*) => {
        Variant {
            settings: &[
                ("transparent_hugepage/hugepages-2048kB/enabled", "never"),
                $((concat!("transparent_hugepage/hugepages-", $kib, "kB/enabled"), "always"),)*
            ],
            ..folios($name, $description, FolioFeatures::V6)
        }
    };
}

const FOLIOS_PATCHES: &[Variant] = &[
    folios("folios-base", "before the series (6.6): order 0, or 2 MiB", FolioFeatures::BASE),
    folios(
        "folios-v1",
        "v1: best fit from 64 KiB down, every smaller order when none is free",
        FolioFeatures::V1,
    ),
    folios("folios-v2", "v2: best fit from 64 KiB down, one attempt, then order 0", FolioFeatures::V2),
    folios("folios-v2-simple", "v2-simple-order: 64 KiB or order 0", FolioFeatures::V2_SIMPLE),
    folios("folios-v2-32k", "v2 on an architecture that prefers 32 KiB", FolioFeatures::V2_32K),
    folios("folios-v3", "v3: 64 KiB, 32 KiB, order 0", FolioFeatures::V3),
    folios("folios-v4", "v4: v3 with a constant limit for VMAs without madvise", FolioFeatures::V4),
    folios("folios-v5", "v5: v4, but never applies to huge pages only", FolioFeatures::V5),
    folios("folios-v6", "v6: the orders in the anon_orders mask", FolioFeatures::V6),
    folios("folios-v7", "v7: a sysfs directory for each size", FolioFeatures::V6),
    folios("folios-v8", "v8: decides as v7", FolioFeatures::V6),
    folios("folios-v9", "v9: decides as v7", FolioFeatures::V6),
    variant("folios-6.8", "v9 as merged in 6.8", Features::MAINLINE_6_8),
    variant(
        "folios-6.12",
        "6.12: smaller orders if the memory cgroup has no room, swap-out of whole folios",
        Features::MAINLINE_6_12,
    ),
    variant(
        "folios-7.2",
        "7.2: reused in place after a fork, khugepaged collapses to every enabled size",
        Features::FOLIOS_7_2,
    ),
    sizes!("folios-v9-64k", "v9 with 64 KiB", "64"),
    sizes!("folios-v9-64k-32k", "v9 with 64 and 32 KiB", "64" "32"),
    sizes!("folios-v9-64k-32k-16k", "v9 with 64, 32 and 16 KiB", "64" "32" "16"),
    sizes!("folios-v9-below-2m", "v9 with all sizes below 2 MiB", "1024" "512" "256" "128" "64" "32" "16"),
    sizes!("folios-v9-2m", "v9 with 2 MiB", "2048"),
    sizes!("folios-v9-2m-64k-32k", "v9 with 2 MiB, 64 and 32 KiB", "2048" "64" "32"),
];

/// Released kernels, in which every series ends.
pub const MAINLINE: &[Variant] = &[
    variant("mainline-6.1", "6.6 with the multi-gen LRU as it was first merged", Features::MAINLINE_6_1),
    variant(
        "mainline-6.2",
        "mainline-6.1 without what 6.1's stable series took from later kernels",
        Features::MAINLINE_6_2,
    ),
    variant(
        "mainline-6.3",
        "multi-gen LRU: memory cgroups take turns in reclaim (memcg LRU)",
        Features::MAINLINE_6_3,
    ),
    variant(
        "mainline-6.4",
        "NUMA balancing: threads scan VMAs in which they took hint faults",
        Features::MAINLINE_6_4,
    ),
    variant(
        "mainline-6.5",
        "6.6, but after munmap the part of a VMA below the hole is the old VMA, not a new one",
        Features::MAINLINE_6_5,
    ),
    variant(
        "mainline-6.7",
        "PCP high auto-tuning as merged, fixes of the multi-gen LRU",
        Features::MAINLINE_6_7,
    ),
    variant("mainline-6.8", "anonymous folios of all enabled sizes", Features::MAINLINE_6_8),
    variant(
        "mainline-6.9",
        "folio batches of 31, smaller anonymous folios if the memory cgroup has no room",
        Features::MAINLINE_6_9,
    ),
    variant(
        "mainline-6.10",
        "two huge-page lists, strict free lists, vmemmap is remapped after a grace period",
        Features::MAINLINE_6_10,
    ),
    variant(
        "mainline-6.11",
        "a readahead miss at the end of the last window starts a new one",
        Features::MAINLINE_6_11,
    ),
    variant(
        "mainline-6.12",
        "large folios are swapped out whole, underused ones are split; huge pages are demoted in batches",
        Features::MAINLINE_6_12,
    ),
    variant("mainline-6.13", "long readahead windows stay long", Features::MAINLINE_6_13),
    variant("mainline-6.14", "multi-gen LRU: recent by the last generations", Features::MAINLINE_6_14),
    variant(
        "mainline-6.15",
        "fallback claims whole pageblocks before it steals single blocks",
        Features::MAINLINE_6_15,
    ),
    variant(
        "mainline-6.16",
        "drains on high-order frees start later; no NUMA scan if the cpuset allows one node",
        Features::MAINLINE_6_16,
    ),
    variant(
        "mainline-6.17",
        "multi-gen LRU: batches as large as the priority asks for; readahead keeps a folio order per open file",
        Features::MAINLINE_6_17,
    ),
    variant(
        "mainline-6.18",
        "first zonelist pass avoids nodes in reclaim, decay releases locks after every batch",
        Features::MAINLINE_6_18,
    ),
    variant("mainline-6.19", "bulk frees release locks after every batch", Features::MAINLINE_6_19),
    variant("mainline-7.0", "large folios are swapped in through the swap cache", Features::MAINLINE_7_0),
    variant(
        "mainline-7.1",
        "migrated huge pages stay on the deferred split queue if they may be underused",
        Features::MAINLINE_7_1,
    ),
    variant(
        "mainline-7.2",
        "multi-gen LRU: accessed folios enter a younger generation, eviction works in small batches",
        Features::MAINLINE_7_2,
    ),
];

/// How the release that brought a rule or a setting is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// Read in the sources of a release without it and of one with it.
    Source,
    /// A list of a release's changes names it.
    Changelog,
    /// A patch or a pull request says so.
    Mail,
    /// Recordings of kernels show it.
    Recording,
    /// None of these.
    Guess,
}

impl Known {
    /// The word of the files.
    pub fn name(self) -> &'static str {
        match self {
            Known::Source => "source",
            Known::Changelog => "changelog",
            Known::Mail => "mail",
            Known::Recording => "recording",
            Known::Guess => "guess",
        }
    }
}

/// When each rule of these kernels was introduced, and how that is known (TOML).
pub const DATES: &str = include_str!("dates.toml");

/// Kernel releases, and the variant that models each of them in every series.
pub const RELEASES: &[(&str, &str)] = &[
    ("6.1", "mainline-6.1"),
    ("6.2", "mainline-6.2"),
    ("6.3", "mainline-6.3"),
    ("6.4", "mainline-6.4"),
    ("6.5", "mainline-6.5"),
    ("6.6", "pcp-base"),
    ("6.7", "mainline-6.7"),
    ("6.8", "mainline-6.8"),
    ("6.9", "mainline-6.9"),
    ("6.10", "mainline-6.10"),
    ("6.11", "mainline-6.11"),
    ("6.12", "mainline-6.12"),
    ("6.13", "mainline-6.13"),
    ("6.14", "mainline-6.14"),
    ("6.15", "mainline-6.15"),
    ("6.16", "mainline-6.16"),
    ("6.17", "mainline-6.17"),
    ("6.18", "mainline-6.18"),
    ("6.19", "mainline-6.19"),
    ("7.0", "mainline-7.0"),
    ("7.1", "mainline-7.1"),
    ("7.2", "mainline-7.2"),
];

impl Variant {
    /// The variant of kernel `release` (`6.12`, or a full `uname -r` such as `6.12.95-amd64`); `None` if it
    /// is not modelled.
    pub fn of_release(release: &str) -> Option<&'static Variant> {
        let mut parts = release.split(['.', '-']);
        let major_minor = format!("{}.{}", parts.next()?, parts.next()?);
        let (_, name) = RELEASES.iter().find(|(known, _)| *known == major_minor)?;
        // A released kernel is the same in every series.
        Series::PCP.variant(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_former_name_leads_to_a_variant_and_is_none() {
        for series in Series::ALL {
            for (former, present) in series.former_names() {
                assert!(series.variants().all(|variant| variant.name != *former), "{former}");
                assert_eq!(series.variant(former).unwrap().name, *present);
                let mut names = series.former_names().iter();
                assert_eq!(names.by_ref().filter(|(name, _)| name == former).count(), 1, "{former}");
            }
        }
    }

    /// A variant named after a mechanism and a release has that release's features of the mechanism.
    /// Exceptions: `mglru-6.1` lacks later fixes, and 6.12.117 is not in `RELEASES`.
    #[test]
    fn names_with_a_release_mean_it() {
        let of_release = |variant: &Variant| {
            let (mechanism, release) = variant.name.split_once('-')?;
            let known = RELEASES.iter().any(|(known, _)| *known == release);
            known.then(|| (mechanism, Variant::of_release(release).unwrap().features))
        };
        for variant in Series::ALL.iter().flat_map(|series| series.patches) {
            let own = variant.features;
            match of_release(variant) {
                Some(("mglru", _)) if variant.name == "mglru-6.1" => {}
                Some(("mglru", released)) => assert_eq!(own.reclaim, released.reclaim, "{}", variant.name),
                Some(("numa", released)) => assert_eq!(own.numa, released.numa, "{}", variant.name),
                Some(("folios", released)) => assert_eq!(own.folios, released.folios, "{}", variant.name),
                Some((mechanism, _)) => panic!("{mechanism}"),
                None => {}
            }
        }
    }
}
