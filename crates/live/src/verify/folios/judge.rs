//! Compares the outcomes of the kernel and the twin.

use std::collections::BTreeMap;

use super::outcome::{Outcome, print_statistics};
use super::recording::{RecordedCase, Recording};
use crate::verify::{Cases, Cause, Causes, Entry};

/// The aspects of a case that are compared.
const COMPARED: [&str; 5] =
    ["cases with equal faults", "equal layouts", "equal stats", "equal THPeligible", "equal Rss"];

/// The compared aspects of an outcome as text, in the order of [`COMPARED`].
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

/// Index of the counters in [`COMPARED`].
const STATS: usize = 2;

/// The result of the comparison.
#[derive(Clone, Debug)]
pub struct Judged {
    /// For each configuration and aspect, how many cases agree.
    pub entries: Vec<Entry>,
    /// The differences in all other cases.
    pub notes: Vec<String>,
    /// How many cases agree as a whole.
    pub cases: Cases,
}

/// Compares the outcomes `twin` with those of a recording, which is called `subject` in the report.
pub fn entries(subject: &str, recording: &Recording, twin: &[Outcome]) -> Judged {
    let mut by_configuration: BTreeMap<usize, Vec<(&RecordedCase, &Outcome)>> = BTreeMap::new();
    for (recorded, twin) in recording.cases.iter().zip(twin) {
        by_configuration.entry(recorded.configuration).or_default().push((recorded, twin));
    }
    let mut judged = Judged { entries: Vec::new(), notes: Vec::new(), cases: Cases::default() };
    for (configuration, cases) in by_configuration {
        let name = format!("{subject}: {}", recording.configurations[configuration].name);
        let mut compared_cases = [0; COMPARED.len()];
        let mut equal = [0; COMPARED.len()];
        let mut causes = Causes::default();
        for (recorded, twin) in &cases {
            causes.add(Cause::RecorderFaults, recorded.own_faults);
            causes.add(Cause::Disturbed, u64::from(recorded.disturbed));
            let case = &recorded.case.name;
            let mut differs = false;
            let (kernel, twin) = (compared(&recorded.outcome), compared(twin));
            for i in (0..COMPARED.len()).filter(|&i| i != STATS || !recorded.disturbed) {
                compared_cases[i] += 1;
                equal[i] += u64::from(kernel[i] == twin[i]);
                if kernel[i] != twin[i] {
                    differs = true;
                    let what = COMPARED[i];
                    let values = format!("kernel {}, twin {}", kernel[i], twin[i]);
                    judged.notes.push(format!("{name}: {case}: not {what}: {values}"));
                }
            }
            match (differs, recorded.disturbed) {
                (true, _) => judged.cases.differing += 1,
                (false, true) => judged.cases.disturbed += 1,
                (false, false) => judged.cases.exact += 1,
            }
            if recorded.disturbed {
                judged
                    .notes
                    .push(format!("{name}: {case}: disturbed by other processes, stats are not compared"));
            }
            if recorded.disagreeing > 0 {
                let runs = recorded.disagreeing;
                judged.notes.push(format!(
                    "{name}: {case}: {runs} runs of the recording had other faults or layouts"
                ));
            }
        }
        for i in 0..COMPARED.len() {
            judged.entries.push(Entry::new(&name, COMPARED[i], compared_cases[i], equal[i], causes.clone()));
        }
    }
    judged
}
