//! The kernel's outcomes beside the twin's.

use std::collections::BTreeMap;

use super::outcome::{Outcome, print_statistics};
use super::recording::{RecordedCase, Recording};
use crate::verify::{Cause, Causes, Entry};

/// What is compared of each case.
const COMPARED: [&str; 5] =
    ["cases with equal faults", "equal layouts", "equal stats", "equal THPeligible", "equal Rss"];

/// What of each outcome is compared, as text, in the order of [`COMPARED`].
fn compared(outcome: &Outcome) -> [String; 5] {
    let Outcome { faults, second_faults, layout, first_layout, second_layout, .. } = outcome;
    let [first, second] = [&outcome.statistics, &outcome.second_statistics].map(print_statistics);
    [
        format!("{faults} + {second_faults}"),
        format!("{first_layout} | {layout} | {second_layout}"),
        format!("{first} | {second}"),
        outcome.eligible.to_string(),
        outcome.rss_kib.to_string(),
    ]
}

/// For each configuration, how many cases agree in what; and what differs in those that do not.
pub fn entries(recording: &Recording, twin: &[Outcome]) -> (Vec<Entry>, Vec<String>) {
    let mut by_configuration: BTreeMap<usize, Vec<(&RecordedCase, &Outcome)>> = BTreeMap::new();
    for (recorded, twin) in recording.cases.iter().zip(twin) {
        by_configuration.entry(recorded.configuration).or_default().push((recorded, twin));
    }
    let (mut entries, mut notes) = (Vec::new(), Vec::new());
    for (configuration, cases) in by_configuration {
        let name = format!("{}: {}", recording.name, recording.configurations[configuration].name);
        let mut equal = [0; COMPARED.len()];
        let mut causes = Causes::default();
        for (recorded, twin) in &cases {
            causes.add(Cause::RecorderFaults, recorded.own_faults);
            let (kernel, twin) = (compared(&recorded.outcome), compared(twin));
            for i in 0..COMPARED.len() {
                equal[i] += u64::from(kernel[i] == twin[i]);
                if kernel[i] != twin[i] {
                    let what = COMPARED[i];
                    let case = &recorded.case.name;
                    notes.push(format!("{name}: {case}: not {what}: kernel {}, twin {}", kernel[i], twin[i]));
                }
            }
            if recorded.disagreeing > 0 {
                let (case, runs) = (&recorded.case.name, recorded.disagreeing);
                notes.push(format!(
                    "{name}: {case}: {runs} runs of the recording had other faults or layouts"
                ));
            }
        }
        for (what, equal) in COMPARED.iter().zip(equal) {
            entries.push(Entry::new(&name, *what, cases.len() as u64, equal, causes.clone()));
        }
    }
    (entries, notes)
}
