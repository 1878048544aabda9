//! What the twin of this machine predicts: the built-in scenario that is most like a finding, with the present value of the setting
//! that acts on it and with another one.
//!
//! It is a stand-in: the machine's shape is this one's (`--machine this`), the program is not. Runs go through the ordinary results
//! directory, so the second time they are there.

use crate::arguments::SweepArguments;
use crate::compare::{RELEVANT, verdict};
use crate::failure::Failure;
use crate::runner::sweep;
use crate::this_machine;
use lab::comparison::Comparison;
use lab::experiment::Experiment;
use lab::experiment::varied::Varied;
use lab::scenario::{Scenario, THIS_MACHINE};
use live::doctor::{Diagnosis, Finding, StandIn};
use mm::Variant;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

/// Seeds of a prediction: the fewest that have an interval.
const SEEDS: NonZeroU32 = NonZeroU32::new(3).expect("3 is not 0");

/// What was run in the twin, or why nothing was.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Prediction {
    /// The rule that it is about.
    pub rule: String,
    /// The scenario, which stands in for what runs here.
    pub scenario: String,
    pub description: String,
    /// The setting, its value here, and the one that is compared with it.
    pub setting: String,
    pub from: String,
    pub to: String,
    /// The release of the twin's kernel.
    pub kernel: String,
    pub seeds: u32,
    /// What came of it, in sentences; none if it was not run.
    pub verdict: Vec<String>,
    /// Why it was not run.
    pub not_run: Option<String>,
}

/// The prediction for the most severe finding that has a stand-in which fits this machine; the reason why the first does not, if none does.
pub fn predict(diagnosis: &Diagnosis, results: &Path) -> Result<Option<Prediction>, Failure> {
    let mut first = None;
    for finding in &diagnosis.findings {
        let Some(stand_in) = &finding.rule.stand_in else { continue };
        let Some(asked) = Asked::of(finding, stand_in, diagnosis)? else { continue };
        match asked.run(results) {
            Ok(verdict) => return Ok(Some(Prediction { verdict, ..asked.prediction })),
            Err(failure @ Failure::Input(_)) => {
                let not_run = failure.message();
                first = first.or(Some(Prediction { not_run, ..asked.prediction }));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(first)
}

/// What the machine of a saved tree can run for its most severe finding that has a stand-in: its shape is not that of the one at hand.
pub fn elsewhere(diagnosis: &Diagnosis) -> Result<Option<Prediction>, Failure> {
    for finding in &diagnosis.findings {
        let Some(stand_in) = &finding.rule.stand_in else { continue };
        if let Some(Asked { prediction, .. }) = Asked::of(finding, stand_in, diagnosis)? {
            let not_run = Some(format!("its machine is another one; there run `{}`", prediction.command()));
            return Ok(Some(Prediction { not_run, ..prediction }));
        }
    }
    Ok(None)
}

impl Prediction {
    /// The command that compares both values, with figures for every seed.
    fn command(&self) -> String {
        let Prediction { scenario, setting, from, to, kernel, seeds, .. } = self;
        format!(
            "mmtwin compare {scenario} --machine this --variants {kernel} --vary {setting}={from},{to} --seeds {seeds}"
        )
    }
}

struct Asked {
    scenario: Scenario,
    variant: String,
    prediction: Prediction,
}

impl Asked {
    /// What is to be run; none if the setting has the other value here already, or has no value.
    fn of(finding: &Finding, stand_in: &StandIn, diagnosis: &Diagnosis) -> Result<Option<Asked>, Failure> {
        let Some((setting, here)) = finding.settings.first() else { return Ok(None) };
        let Some(from) = here.as_deref().or(stand_in.absent.as_deref()) else { return Ok(None) };
        let from = decimal(from);
        if from == stand_in.value {
            return Ok(None);
        }
        let scenario = Scenario::load(&stand_in.scenario)?;
        // A kernel that is not modelled is taken for the last one that is.
        let last = scenario.variants.last().cloned().unwrap_or_default();
        let variant = Variant::of_release(&diagnosis.kernel).map_or(last, |variant| variant.name.to_string());
        let prediction = Prediction {
            rule: finding.rule.id.clone(),
            scenario: scenario.name.clone(),
            description: scenario.description.clone(),
            setting: setting.name.into(),
            from,
            to: stand_in.value.clone(),
            kernel: variant.clone(),
            seeds: SEEDS.get(),
            verdict: Vec::new(),
            not_run: None,
        };
        Ok(Some(Asked { scenario, variant, prediction }))
    }

    fn run(&self, results: &Path) -> Result<Vec<String>, Failure> {
        let Prediction { setting, from, to, .. } = &self.prediction;
        let varied = Varied::of(setting, &[from, to], &|name: &str| match name {
            THIS_MACHINE => this_machine::profile(),
            name => Ok(lab::scenario::load_machine(name)?),
        })?;
        let experiment = Experiment {
            machine: this_machine::profile()?,
            variants: vec![self.variant.clone()],
            seeds: SEEDS.get(),
            changes: BTreeMap::new(),
            varied: vec![varied],
            trees: BTreeMap::new(),
            scenario: self.scenario.clone(),
        };
        let arguments = SweepArguments {
            seeds: Some(SEEDS),
            jobs: None,
            results: results.into(),
            store: None,
            fresh: false,
            json: false,
        };
        let arms = experiment.arms()?;
        let records = sweep(&experiment, &arguments)?;
        Ok(verdict(&Comparison::new(&arms, &records, RELEVANT)))
    }
}

/// A number as settings are written: the kernel shows bits as hexadecimal digits.
fn decimal(text: &str) -> String {
    let bits = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    bits.map_or(text.into(), |bits| bits.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use live::doctor::rules;

    /// The stand-ins of the rules are scenarios that heed the setting, and take both values.
    #[test]
    fn stand_ins_can_be_run() {
        for rule in rules() {
            let Some(StandIn { scenario, value, absent }) = &rule.stand_in else { continue };
            let scenario = Scenario::load(scenario).unwrap();
            let setting = rule.settings[0].name;
            let default = rule.settings[0].default(machine::PageSize::default());
            let values = [absent.clone().unwrap_or(default), value.clone()];
            let load = |name: &str| lab::scenario::load_machine(name);
            let experiment = Experiment {
                machine: load(&scenario.machine).unwrap(),
                variants: vec!["6.18".into()],
                seeds: 1,
                changes: BTreeMap::new(),
                varied: vec![Varied::of(setting, &values, &load).unwrap()],
                trees: BTreeMap::new(),
                scenario,
            };
            let runs = experiment.runs().unwrap_or_else(|error| panic!("{}: {error}", rule.id));
            assert_eq!(runs.len(), 2, "{}", rule.id);
        }
    }

    #[test]
    fn bits_are_numbers() {
        assert_eq!(
            (decimal("0x0007"), decimal("60"), decimal("never")),
            ("7".into(), "60".into(), "never".into())
        );
    }
}
