//! Which settings a workload heeds: those that act on subsystems of the kernel that it has to do with.
//!
//! ```text
//!   replay                  allocate and free pages            zones
//!   long-running, host      fault in address spaces            zones, folio sizes, compaction, reclaim,
//!                                                              and further ones for each kind
//! ```
//!
//! A setting that does not affect a workload would be set on a real machine and change nothing in the result.
//! If a user gives one, that is an error that says so. In a scenario file such settings are allowed, as they
//! describe how the machine was set up. A setting that only later kernels have is no error either, as releases are compared with one
//! set of settings; but that it changes nothing is said.

use crate::explain::bisect::release;
use mm::SETTINGS;
use mm::sysctl::{Since, Subsystem};
use sim::host::HostPrograms;
use sim::{Run, Workload, name_and_features};

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
    heeded(Subsystem::Kcompactd, ADDRESS_SPACES, "equilibrium-kcompactd"),
    heeded(Subsystem::Reclaim, ADDRESS_SPACES, "fio-zipf"),
    heeded(Subsystem::Swap, &["long-running", "host"], "memcached-memtier"),
    heeded(Subsystem::Writeback, &["host"], "burst-writer"),
    heeded(Subsystem::Readahead, &["host"], "burst-writer"),
    heeded(Subsystem::Damon, &["host"], "sandbox-fleet"),
    heeded(Subsystem::Demotion, &["host"], "tiered-kv"),
    heeded(Subsystem::NumaBalancing, &["host"], "numa01"),
    heeded(Subsystem::Failslab, ADDRESS_SPACES, "numa01"),
    heeded(Subsystem::FailPageAlloc, &["host"], "hugetlb-8s"),
    heeded(Subsystem::TlbFlushes, &["host"], "hugetlb-8s"),
    heeded(Subsystem::VmstatWorkers, &["host"], "kbuild"),
];

/// Kinds of workloads whose processes have page tables.
const ADDRESS_SPACES: &[&str] = &["long-running", "host"];

/// Why a setting does not affect a workload; `None` if it does.
pub(crate) fn why_not_applicable(setting: &str, workload: &Workload) -> Option<String> {
    why_subsystem_unused(SETTINGS.iter().find(|other| other.name == setting)?.acts_on, workload)
}

/// Why what acts on a subsystem does not affect a workload; `None` if it does.
pub(crate) fn why_subsystem_unused(subsystem: Subsystem, workload: &Workload) -> Option<String> {
    let of_files = matches!(subsystem, Subsystem::Readahead | Subsystem::Writeback);
    if let Workload::Host(HostPrograms { files: None, .. }) = workload
        && of_files
    {
        return Some(format!("it is about {}, and no program of this host has files", subsystem.name()));
    }
    let heeded = HEEDED.iter().find(|heeded| heeded.subsystem == subsystem)?;
    why_unused(subsystem, heeded.kinds, heeded.example, workload.kind())
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

/// A sentence for each of the settings `names` that kernels of some of the runs do not have yet.
pub fn of_later_kernels<'a>(runs: &[Run], names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let note = |name: &str| {
        let Since::Release(since, _) = SETTINGS.iter().find(|setting| setting.name == name)?.since else {
            return None;
        };
        let mut without: Vec<&str> = runs.iter().map(|run| name_and_features(&run.variant).0).collect();
        without.dedup();
        without.retain(|variant| release(variant).is_some_and(|before| Some(before) < release(since)));
        let kernels = without.join(", ");
        (!without.is_empty())
            .then(|| format!("{name} changes nothing under {kernels}: kernels have it since {since}"))
    };
    names.filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, load_machine};
    use std::collections::BTreeMap;

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

    fn of(scenario: &str, setting: &str) -> Option<String> {
        why_not_applicable(setting, &Scenario::load(scenario).unwrap().workload)
    }

    #[test]
    fn a_setting_of_address_spaces_means_nothing_without_any() {
        assert_eq!(of("speedometer", "transparent_hugepage/enabled"), None);
        // 7.2 allocates lists of folios to be split whenever it uses large folios.
        assert_eq!(of("speedometer", "failslab/nth"), None);
        assert_eq!(of("kbuild", "vm.min_free_kbytes"), None);
        assert_eq!(of("kbuild", "transparent_hugepage/enabled"), None);
        assert_eq!(of("crowded-host", "vm.compaction_proactiveness"), None);
    }

    #[test]
    fn a_setting_of_later_kernels_is_told() {
        let scenario = Scenario::load("sandbox-fleet").unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let run = |variant: &str| scenario.run(variant, 1, &machine, &BTreeMap::new()).unwrap();
        let names = ["zswap.shrinker_enabled", "vm.swappiness"];
        let notes = |variants: &[&str]| {
            of_later_kernels(
                &variants.iter().map(|variant| run(variant)).collect::<Vec<_>>(),
                names.into_iter(),
            )
        };
        assert_eq!(
            notes(&["6.1", "6.1", "6.6", "6.8:zswap.memcg_aware=off", "6.18"]),
            ["zswap.shrinker_enabled changes nothing under 6.1, 6.6: kernels have it since 6.8"]
        );
        assert!(notes(&["6.8", "6.18"]).is_empty());
        // Posted variants are of no release.
        assert!(notes(&["refault-distance-1-classic"]).is_empty());
    }

    #[test]
    fn a_host_without_files_writes_none() {
        assert!(of("numa01", "vm.dirty_ratio").unwrap().contains("no program of this host has files"));
        assert_eq!(of("burst-writer", "vm.dirty_ratio"), None);
        assert_eq!(of("numa01", "vm.swappiness"), None);
    }
}
