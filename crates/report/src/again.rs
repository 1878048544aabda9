//! What is needed to run it again: the command, the program, the settings, the runs with their identities, and the files whole.

use crate::page::{Cell, Part, Section, Table};
use lab::results::Record;
use lab::scenario::Scenario;
use machine::Profile;

/// Who made results, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// What was typed.
    pub command: String,
    pub version: String,
    /// The commit that the program was built from; empty if unknown.
    pub commit: String,
    /// Hash of the sources that determine results.
    pub build: String,
    /// The results directory.
    pub results: String,
}

impl Again {
    /// The last section of a page.
    pub fn section(&self, records: &[Record], scenarios: &[&Scenario], machines: &[&Profile]) -> Section {
        let mut parts = vec![Part::Table(self.program())];
        if !records.is_empty() {
            parts.push(Part::Table(runs(records)));
        }
        for scenario in scenarios {
            let title = format!("Scenario {}", scenario.name);
            parts.extend(toml::to_string(scenario).ok().map(|text| Part::Code { title, text }));
        }
        for machine in machines {
            let title = format!("Machine {}", machine.name);
            parts.extend(toml::to_string(machine).ok().map(|text| Part::Code { title, text }));
        }
        Section { title: "To run it again".into(), parts }
    }

    fn program(&self) -> Table {
        let commit = if self.commit.is_empty() { "unknown" } else { &self.commit };
        let facts = [
            ("command", self.command.as_str()),
            ("mmtwin", &self.version),
            ("commit", commit),
            ("build", &self.build),
            ("results", &self.results),
        ];
        let facts = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
        Table {
            caption: "The program".into(),
            header: vec!["what".into(), "value".into()],
            rows: facts.map(|(name, fact)| vec![name.into(), fact.into()]).collect(),
            is_folded: false,
        }
    }
}

/// The runs, each with what it is kept under.
fn runs(records: &[Record]) -> Table {
    let row = |record: &Record| -> Vec<Cell> {
        let run = &record.run;
        let settings: Vec<String> =
            run.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let texts = [&run.variant, &run.scenario, &run.machine.name];
        let texts = texts.into_iter().cloned().chain([settings.join(" "), run.seed.to_string()]);
        texts.chain([record.identity.clone()]).map(Cell::from).collect()
    };
    let header =
        ["variant", "scenario", "machine", "settings that differ from the default", "seed", "identity"];
    Table {
        caption: format!("The {} runs", records.len()),
        header: header.map(String::from).into(),
        rows: records.iter().map(row).collect(),
        is_folded: true,
    }
}
