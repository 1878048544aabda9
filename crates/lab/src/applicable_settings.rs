//! Which settings a workload heeds: those of the parts of the kernel that it has to do with.
//!
//! ```text
//!   kbuild, page-fault,     pages are taken and given back     zones
//!   socket-stream, replay
//!   kernel-writes           pools of huge pages are resized    zones, flushes, failing allocations
//!   mappings, long-running, address spaces fault               zones, sizes of folios, compaction, reclaim,
//!   paging, numa                                               and what each has besides
//! ```
//!
//! A setting that a workload does not heed would be in force on a real machine and change nothing here. Whoever gives one is
//! told so instead. What a scenario's own file has of them says how the machine was set up.

/// Settings that go together.
struct Part {
    /// How the names of its settings begin.
    settings: &'static [&'static str],
    /// What they are about.
    about: &'static str,
    /// Kinds of workloads that heed them.
    kinds: &'static [&'static str],
    /// A scenario that heeds them.
    example: &'static str,
}

/// Settings that are not here are heeded by all: zones, which every kernel has, and pools of huge pages at boot, which leave
/// less for everybody.
const PARTS: &[Part] = &[
    Part {
        settings: &["transparent_hugepage/", "thp_anon", "flexthp_unhinted_max"],
        about: "sizes of folios",
        kinds: ADDRESS_SPACES,
        example: "speedometer",
    },
    Part {
        settings: &["vm.extfrag_threshold"],
        about: "compaction",
        kinds: ADDRESS_SPACES,
        example: "equilibrium-direct",
    },
    Part {
        settings: &["vm.compaction_proactiveness"],
        about: "kcompactd",
        kinds: &["long-running"],
        example: "equilibrium-kcompactd",
    },
    Part {
        settings: &["vm.swappiness", "lru_gen/"],
        about: "reclaim",
        kinds: ADDRESS_SPACES,
        example: "fio-zipf",
    },
    Part {
        settings: &["vm.page-cluster", "swap/", "zswap_ever_enabled"],
        about: "swap",
        kinds: &["long-running", "paging"],
        example: "memcached-memtier",
    },
    Part {
        settings: &["vm.dirty_", "queue/"],
        about: "files on a device",
        kinds: &["paging"],
        example: "burst-writer",
    },
    Part {
        settings: &["numa/demotion_enabled"],
        about: "reclaim of fast memory",
        kinds: &["paging", "numa"],
        example: "tiered-kv",
    },
    Part {
        settings: &["kernel.numa_balancing", "numa_balancing/"],
        about: "NUMA balancing",
        kinds: &["numa"],
        example: "numa01",
    },
    Part {
        settings: &["failslab/"],
        about: "records of NUMA scanning and lists of folios to be split",
        kinds: ADDRESS_SPACES,
        example: "numa01",
    },
    Part {
        settings: &["fail_page_alloc/"],
        about: "resizing pools of huge pages",
        kinds: &["kernel-writes"],
        example: "hugetlb-8s",
    },
    Part {
        settings: &["tlb_single_page_flush_ceiling"],
        about: "flushes of translations",
        kinds: &["kernel-writes", "numa"],
        example: "hugetlb-8s",
    },
    Part {
        settings: &["vm.stat_interval"],
        about: "vmstat workers",
        kinds: &["kbuild", "page-fault", "socket-stream", "kernel-writes", "paging", "numa"],
        example: "kbuild",
    },
];

/// Kinds of workloads whose processes have page tables.
const ADDRESS_SPACES: &[&str] = &["mappings", "long-running", "paging", "numa"];

/// Why a setting changes nothing about workloads of a kind, if it does not.
pub(crate) fn why_not_applicable(setting: &str, kind: &str) -> Option<String> {
    let of = |part: &&Part| part.settings.iter().any(|beginning| setting.starts_with(beginning));
    let part = PARTS.iter().find(of).filter(|part| !part.kinds.contains(&kind))?;
    let kinds = part.kinds.join(", ");
    Some(format!(
        "it is about {}, which a workload of kind {kind} has nothing to do with; kinds that heed it: {kinds}, as in \
         scenario {}",
        part.about, part.example
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use sim::Workload;

    #[test]
    fn parts_are_about_settings_that_there_are_and_no_two_about_one() {
        let settings = || mm::SETTINGS.iter().map(|setting| setting.name);
        for beginning in PARTS.iter().flat_map(|part| part.settings) {
            assert!(settings().any(|name| name.starts_with(beginning)), "{beginning}");
        }
        for name in settings() {
            let of =
                PARTS.iter().flat_map(|part| part.settings).filter(|beginning| name.starts_with(**beginning));
            assert!(of.count() <= 1, "{name}");
        }
    }

    #[test]
    fn examples_heed_what_they_are_examples_of() {
        for part in PARTS {
            let kind = Scenario::load(part.example).unwrap().workload.kind();
            assert!(part.kinds.contains(&kind), "{}, {kind}", part.about);
            assert!(part.kinds.iter().all(|kind| Workload::KINDS.contains(kind)), "{}", part.about);
        }
    }

    #[test]
    fn a_setting_of_address_spaces_means_nothing_without_any() {
        assert!(
            why_not_applicable("transparent_hugepage/enabled", "page-fault").unwrap().contains("speedometer")
        );
        assert_eq!(why_not_applicable("transparent_hugepage/enabled", "mappings"), None);
        // 7.2 allocates lists of folios to be split wherever folios are large.
        assert_eq!(why_not_applicable("failslab/nth", "mappings"), None);
        assert_eq!(why_not_applicable("vm.min_free_kbytes", "page-fault"), None);
    }
}
