//! Which settings a workload heeds: all but those of files, where no program has any.
//!
//! A setting that does not affect a workload would be set on a real machine and change nothing in the result.
//! If a user gives one, that is an error that says so. In a scenario file such settings are allowed, as they
//! describe how the machine was set up. A setting that only later kernels have is no error either, as releases are compared with one
//! set of settings; but that it changes nothing is said.

use crate::explain::bisect::release;
use mm::SETTINGS;
use mm::sysctl::{Since, Subsystem};
use sim::{Run, Workload, name_and_features};

/// Why a setting does not affect a workload; `None` if it does.
pub(crate) fn why_not_applicable(setting: &str, workload: &Workload) -> Option<String> {
    why_subsystem_unused(SETTINGS.iter().find(|other| other.name == setting)?.acts_on, workload)
}

/// Why what acts on a subsystem does not affect a workload; `None` if it does.
pub(crate) fn why_subsystem_unused(subsystem: Subsystem, workload: &Workload) -> Option<String> {
    let of_files = matches!(subsystem, Subsystem::Readahead | Subsystem::Writeback);
    (of_files && workload.files.is_none())
        .then(|| format!("it is about {}, and no program of this host has files", subsystem.name()))
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

    fn of(scenario: &str, setting: &str) -> Option<String> {
        why_not_applicable(setting, &Scenario::load(scenario).unwrap().workload)
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
        assert!(SETTINGS.iter().all(|setting| of("burst-writer", setting.name).is_none()));
        assert_eq!(of("numa01", "vm.swappiness"), None);
    }

    #[test]
    fn all_that_runs_heeds_what_is_not_about_files() {
        assert_eq!(of("speedometer", "transparent_hugepage/enabled"), None);
        // 7.2 allocates lists of folios to be split whenever it uses large folios.
        assert_eq!(of("speedometer", "failslab/nth"), None);
        assert_eq!(of("kbuild", "vm.min_free_kbytes"), None);
        assert_eq!(of("kbuild", "transparent_hugepage/enabled"), None);
        assert_eq!(of("crowded-host", "vm.compaction_proactiveness"), None);
    }
}
