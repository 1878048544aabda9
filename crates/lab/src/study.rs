//! Studies: questions whose answers need several scenarios.
//!
//! A scenario of a study is one of its arms, or the template of its arms. By itself it answers nothing.

use crate::{equilibrium, pid_filter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Study {
    /// The name for `mmtwin study`.
    pub name: &'static str,
    /// The question in words.
    pub question: &'static str,
    /// Names of its scenarios.
    pub scenarios: &'static [&'static str],
}

impl Study {
    /// Whether more fallback orders cost a system its large folios.
    pub const EQUILIBRIUM: Study = Study {
        name: "equilibrium",
        question: "do more fallback orders cost a system that runs for long its folios of 64 KiB?",
        scenarios: &equilibrium::ARMS,
    };
    /// Which patterns of sharing PID filtering starves.
    pub const PID_FILTER: Study = Study {
        name: "pid-filter",
        question: "on which kernels does NUMA balancing starve memory that no thread faulted in lately?",
        scenarios: &[pid_filter::SCENARIO],
    };
    /// What the mechanisms of reclaim give.
    pub const RECLAIM: Study = Study {
        name: "reclaim",
        question: "what does each mechanism of the multi-gen LRU give and cost, and where is the classic LRU ahead?",
        scenarios: &[],
    };
    pub const ALL: [Study; 3] = [Study::EQUILIBRIUM, Study::PID_FILTER, Study::RECLAIM];

    /// The study with this name.
    pub fn find(name: &str) -> Option<Study> {
        Study::ALL.into_iter().find(|study| study.name == name)
    }

    /// The study that a scenario belongs to, if any.
    pub fn of_scenario(scenario: &str) -> Option<Study> {
        Study::ALL.into_iter().find(|study| study.scenarios.contains(&scenario))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn studies_are_of_scenarios_that_there_are() {
        for study in Study::ALL {
            assert_eq!(Study::find(study.name), Some(study));
            for scenario in study.scenarios {
                assert!(Scenario::load(scenario).is_ok_and(|found| found.name == *scenario), "{scenario}");
                assert_eq!(Study::of_scenario(scenario), Some(study));
            }
        }
        assert_eq!(Study::of_scenario("speedometer"), None);
    }
}
