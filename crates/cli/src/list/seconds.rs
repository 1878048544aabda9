//! How long a run of each built-in scenario takes, as it was measured once (`make run-times`): for those who choose one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const MEASURED: &str = include_str!("seconds.toml");

static SECONDS: LazyLock<BTreeMap<String, f64>> = LazyLock::new(measured);

fn measured() -> BTreeMap<String, f64> {
    toml::from_str(MEASURED).expect("names and numbers, see tests")
}

/// CPU seconds of a run of a built-in scenario, if it was measured.
pub fn of_run(scenario: &str) -> Option<f64> {
    SECONDS.get(scenario).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::Scenario;

    #[test]
    fn what_was_measured_is_a_scenario_that_there_is() {
        let names: Vec<&str> = Scenario::names().collect();
        for (name, &seconds) in SECONDS.iter() {
            assert!(names.contains(&name.as_str()) && seconds > 0.0, "{name} = {seconds}");
        }
        assert!(of_run("kbuild").is_some());
    }
}
