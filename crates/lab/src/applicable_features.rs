//! Which features of a kernel can act in a run, for those that a user has set by name.
//!
//! ```text
//!   6.18:hugetlb.…=off   page_fault1    pools of huge pages          nobody fills one
//!   6.18:mglru.…=off     fio-zipf       lru_gen/enabled = 0          the classic LRU runs
//!   6.18:numa.…=on       numa02         kernel.numa_balancing = 0    nothing is scanned
//! ```
//!
//! A setting that means nothing to a workload is refused. A feature is not: one list of variants is compared over many scenarios.
//! But what cannot act makes two columns equal, so that is said. What a feature needs of other features is `mm`'s to refuse.

use crate::applicable_settings::why_subsystem_unused;
use mm::sysctl::{Subsystem, is_of_pools};
use sim::boot::default_settings;
use sim::{Run, name_and_features};

/// The part of the memory manager that features of a mechanism are about.
fn subsystem(mechanism: &str) -> Option<Subsystem> {
    Some(match mechanism {
        "pcp" => Subsystem::Zones,
        "hugetlb" => Subsystem::HugetlbPools,
        "reclaim" | "mglru" => Subsystem::Reclaim,
        "readahead" => Subsystem::Readahead,
        "numa" | "sched" => Subsystem::NumaBalancing,
        "folios" => Subsystem::LargeFolios,
        "zswap" => Subsystem::Swap,
        "damon" => Subsystem::Damon,
        _ => return None,
    })
}

/// Why features of a mechanism change nothing in `run`; `None` if they may.
pub(crate) fn why_without_effect(mechanism: &str, run: &Run) -> Option<String> {
    let mut settings = default_settings(&run.machine);
    // The run was checked, so each is one that it takes.
    run.settings.iter().for_each(|(name, value)| drop(settings.set(name, value)));
    match mechanism {
        "hugetlb" if !has_pools(run) => Some(NO_POOLS.into()),
        "hugetlb" => None,
        "mglru" if !settings.lru_gen.enabled => Some("lru_gen/enabled = 0, so the classic LRU runs".into()),
        "numa" if !settings.numa.balancing && !settings.numa.tiering => {
            Some(match run.machine.topology().nodes {
                1 => "the machine has one node, where kernel.numa_balancing = 0 unless it is set".into(),
                _ => "kernel.numa_balancing = 0, so nothing is scanned".into(),
            })
        }
        "zswap" if !settings.zswap.enabled => Some("zswap.enabled = 0, so nothing is compressed".into()),
        "damon" if !settings.damon_reclaim.enabled => {
            Some("damon_reclaim.enabled = 0, so nobody looks what is accessed".into())
        }
        _ => why_subsystem_unused(subsystem(mechanism)?, &run.workload),
    }
}

const NO_POOLS: &str = "there are no pools of huge pages, which boot (hugepages-2048kB/boot) or a write fills, as in scenario hugetlb-8s";

/// Whether huge pages are taken at boot or by an operator.
fn has_pools(run: &Run) -> bool {
    run.workload.writes_to_pools() || run.settings.keys().any(|name| is_of_pools(name))
}

/// A sentence for each feature that was set by name and changes nothing in some of the runs.
pub fn without_effect(runs: &[Run]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for run in runs {
        let features = name_and_features(&run.variant).1.into_iter().flat_map(|features| features.split('+'));
        for feature in features {
            let path = feature.split_once('=').map_or(feature, |(path, _)| path.trim());
            let mechanism = path.split_once('.').map_or(path, |(mechanism, _)| mechanism);
            let Some(why) = why_without_effect(mechanism, run) else { continue };
            let note = format!("{path} changes nothing in {}: {why}", run.scenario);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, load_machine};
    use mm::features::by_name::Feature;
    use std::collections::BTreeMap;

    fn notes(scenario: &str, features: &str, settings: &[(&str, &str)]) -> Vec<String> {
        let scenario = Scenario::load(scenario).unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let changes: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let run = scenario.run(&format!("6.18:{features}"), 1, &machine, &changes).unwrap();
        without_effect(&[run.clone(), run])
    }

    #[test]
    fn every_mechanism_is_about_something() {
        for feature in Feature::all() {
            let mechanism = feature.path.split('.').next().unwrap();
            assert!(subsystem(mechanism).is_some(), "{}", feature.path);
        }
    }

    #[test]
    fn what_cannot_act_is_said_once() {
        let first = |mechanism: &str| {
            let of = |feature: &Feature| {
                feature.path.starts_with(mechanism) && feature.words.contains(&"off".into())
            };
            Feature::all().into_iter().find(of).unwrap().path
        };
        let hugetlb = format!("{}=off", first("hugetlb."));
        let unused = notes("kbuild", &hugetlb, &[]);
        assert_eq!(unused.len(), 1);
        assert!(
            unused[0].contains("changes nothing in kbuild") && unused[0].contains("hugetlb-8s"),
            "{unused:?}"
        );
        assert!(notes("hugetlb-8s", &hugetlb, &[]).is_empty());
        assert!(notes("fio-zipf", "mglru.tiers=off", &[]).is_empty());
        let classic = notes("fio-zipf", "mglru.tiers=off", &[("lru_gen/enabled", "0")]);
        assert!(classic[0].contains("the classic LRU runs"), "{classic:?}");
        let numa = format!("{}=off", first("numa."));
        assert!(notes("numa01", &numa, &[]).is_empty());
        assert!(notes("numa01", &numa, &[("kernel.numa_balancing", "0")])[0].contains("nothing is scanned"));
        assert!(notes("page_fault1", "pcp.scale_refills=off", &[]).is_empty());
        let one_node = "working-set-shift-1g";
        assert!(notes(one_node, &numa, &[])[0].contains("the machine has one node"));
        assert!(notes(one_node, &numa, &[("kernel.numa_balancing", "1")]).is_empty());
    }
}
