//! Studies: questions that take several scenarios to answer, and which scenarios those are.
//!
//! A scenario of a study is an arm of it, or where its arms come from. By itself it answers nothing.

use crate::{equilibrium, pid_filter};

/// A study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Study {
    /// The name that `mmtwin study` takes.
    pub name: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// Its scenarios.
    pub scenarios: &'static [&'static str],
}

impl Study {
    /// Whether more fallback orders cost a system its large folios.
    pub const EQUILIBRIUM: Study = Study {
        name: "equilibrium",
        question: "do more fallback orders cost a system that runs for long its folios of 64 KiB?",
        scenarios: &equilibrium::ARMS,
    };
    /// Whom filtering by PID starves.
    pub const PID_FILTER: Study = Study {
        name: "pid-filter",
        question: "on which kernels does NUMA balancing starve memory that no thread faulted in lately?",
        scenarios: &[pid_filter::SCENARIO],
    };
    /// All.
    pub const ALL: [Study; 2] = [Study::EQUILIBRIUM, Study::PID_FILTER];

    /// The study of this name.
    pub fn find(name: &str) -> Option<Study> {
        Study::ALL.into_iter().find(|study| study.name == name)
    }

    /// The study that a scenario belongs to.
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
