//! Which settings a workload heeds: those that act on subsystems of the kernel that it has to do with.
//!
//! ```text
//!   kbuild, page-fault,     allocate and free pages            zones
//!   socket-stream, replay
//!   kernel-writes           resize pools of huge pages         zones, TLB flushes, failing allocations
//!   mappings, long-running, fault in address spaces            zones, folio sizes, compaction, reclaim,
//!   numa, host                                                 and further ones for each kind
//! ```
//!
//! A setting that does not affect a workload would be set on a real machine and change nothing in the result.
//! If a user gives one, that is an error that says so. In a scenario file such settings are allowed, as they
//! describe how the machine was set up.

use mm::SETTINGS;
use mm::sysctl::Subsystem;

/// Which kinds of workloads heed the settings of a subsystem.
struct Heeded {
    subsystem: Subsystem,
    kinds: &'static [&'static str],
    /// A scenario that they affect.
    example: &'static str,
}

const fn heeded(subsystem: Subsystem, kinds: &'static [&'static str], example: &'static str) -> Heeded {
    Heeded { subsystem, kinds, example }
}

/// Subsystems that are not here are there whatever runs: zones, which every kernel has, and pools of huge pages at boot, which
/// leave less for everybody.
const HEEDED: &[Heeded] = &[
    heeded(Subsystem::LargeFolios, ADDRESS_SPACES, "speedometer"),
    heeded(Subsystem::Compaction, ADDRESS_SPACES, "equilibrium-direct"),
    heeded(Subsystem::Kcompactd, &["long-running"], "equilibrium-kcompactd"),
    heeded(Subsystem::Reclaim, ADDRESS_SPACES, "fio-zipf"),
    heeded(Subsystem::Swap, &["long-running", "host"], "memcached-memtier"),
    heeded(Subsystem::Writeback, &["host"], "burst-writer"),
    heeded(Subsystem::Readahead, &["host"], "burst-writer"),
    heeded(Subsystem::Demotion, &["numa", "host"], "tiered-kv"),
    heeded(Subsystem::NumaBalancing, &["numa", "host"], "numa01"),
    heeded(Subsystem::Failslab, ADDRESS_SPACES, "numa01"),
    heeded(Subsystem::FailPageAlloc, &["kernel-writes"], "hugetlb-8s"),
    heeded(Subsystem::TlbFlushes, &["kernel-writes", "numa", "host"], "hugetlb-8s"),
    heeded(
        Subsystem::VmstatWorkers,
        &["kbuild", "page-fault", "socket-stream", "kernel-writes", "numa", "host"],
        "kbuild",
    ),
];

/// Kinds of workloads whose processes have page tables.
const ADDRESS_SPACES: &[&str] = &["mappings", "long-running", "numa", "host"];

/// Why a setting does not affect workloads of a kind; `None` if it does.
pub(crate) fn why_not_applicable(setting: &str, kind: &str) -> Option<String> {
    why_subsystem_unused(SETTINGS.iter().find(|other| other.name == setting)?.acts_on, kind)
}

/// Why what acts on a subsystem does not affect workloads of a kind; `None` if it does.
pub(crate) fn why_subsystem_unused(subsystem: Subsystem, kind: &str) -> Option<String> {
    let heeded = HEEDED.iter().find(|heeded| heeded.subsystem == subsystem)?;
    why_unused(subsystem, heeded.kinds, heeded.example, kind)
}

/// The same, where the kinds that use the subsystem and a scenario of one of them are known.
pub(crate) fn why_unused(subsystem: Subsystem, kinds: &[&str], example: &str, kind: &str) -> Option<String> {
    (!kinds.contains(&kind)).then(|| {
        format!(
            "it is about {}, which workloads of kind {kind} do not use; kinds that do: {}, as in scenario {example}",
            subsystem.name(),
            kinds.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use sim::Workload;

    #[test]
    fn no_subsystem_is_there_twice_and_each_has_settings() {
        for (at, heeded) in HEEDED.iter().enumerate() {
            let subsystem = heeded.subsystem;
            assert!(HEEDED[at + 1..].iter().all(|other| other.subsystem != subsystem), "{subsystem:?}");
            assert!(SETTINGS.iter().any(|setting| setting.acts_on == subsystem), "{subsystem:?}");
        }
    }

    #[test]
    fn examples_heed_what_they_are_examples_of() {
        for heeded in HEEDED {
            let kind = Scenario::load(heeded.example).unwrap().workload.kind();
            assert!(heeded.kinds.contains(&kind), "{}, {kind}", heeded.subsystem.name());
            assert!(
                heeded.kinds.iter().all(|kind| Workload::KINDS.contains(kind)),
                "{}",
                heeded.subsystem.name()
            );
        }
    }

    #[test]
    fn a_setting_of_address_spaces_means_nothing_without_any() {
        assert!(
            why_not_applicable("transparent_hugepage/enabled", "page-fault").unwrap().contains("speedometer")
        );
        assert_eq!(why_not_applicable("transparent_hugepage/enabled", "mappings"), None);
        // 7.2 allocates lists of folios to be split whenever it uses large folios.
        assert_eq!(why_not_applicable("failslab/nth", "mappings"), None);
        assert_eq!(why_not_applicable("vm.min_free_kbytes", "page-fault"), None);
    }
}
