//! Two documents that `run --json` or `compare --json` printed, as two sides: two builds of mmtwin, or of a kernel tree.
//!
//! Variants that both have are compared, each with itself, over the seeds that both have.

use super::{Comparison, Measured, VariantSummary};
use crate::scenario::Scenario;
use machine::WrongValue;
use serde::Deserialize;
use sim::metric::METRICS;
use std::collections::BTreeMap;

/// One side: the name of a file and what is in it.
pub struct Document {
    name: String,
    scenario: String,
    machine: String,
    runs: Vec<RunLine>,
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

#[derive(Deserialize)]
struct Runs {
    scenario: String,
    machine: String,
    runs: Vec<RunLine>,
}

/// A run of a document.
#[derive(Clone, Deserialize)]
struct RunLine {
    variant: String,
    seed: u64,
    metrics: BTreeMap<String, f64>,
    #[serde(default)]
    cpu_seconds: BTreeMap<String, f64>,
}

impl Measured for RunLine {
    fn metrics(&self) -> &BTreeMap<String, f64> {
        &self.metrics
    }

    fn cpu_seconds(&self) -> &BTreeMap<String, f64> {
        &self.cpu_seconds
    }
}

#[derive(Deserialize)]
struct Compared {
    scenario: String,
    machine: String,
    seeds: Vec<u64>,
    variants: Vec<Arm>,
}

#[derive(Deserialize)]
struct Arm {
    name: String,
    metrics: BTreeMap<String, Values>,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f64>,
}

impl Compared {
    /// The runs that were compared; where their time went is not in the document by seed.
    fn runs(&self) -> Vec<RunLine> {
        let run = |arm: &Arm, at: usize, seed: u64| RunLine {
            variant: arm.name.clone(),
            seed,
            metrics: arm
                .metrics
                .iter()
                .filter_map(|(name, of)| Some((name.clone(), *of.values.get(at)?)))
                .collect(),
            cpu_seconds: BTreeMap::new(),
        };
        let runs = |arm| self.seeds.iter().enumerate().map(move |(at, &seed)| run(arm, at, seed));
        self.variants.iter().flat_map(runs).collect()
    }
}

impl Document {
    /// Reads what a file of this name has.
    pub fn read(name: &str, text: &str) -> Result<Document, WrongValue> {
        let expected = "a document that `mmtwin run --json` or `mmtwin compare --json` printed";
        let wrong = |error: serde_json::Error| WrongValue::new(name, error, expected);
        let Head { schema } = serde_json::from_str(text).map_err(wrong)?;
        let name = name.to_string();
        if schema.starts_with("mmtwin-run/") {
            let Runs { scenario, machine, runs } = serde_json::from_str(text).map_err(wrong)?;
            Ok(Document { name, scenario, machine, runs })
        } else if schema.starts_with("mmtwin-compare/") {
            let compared: Compared = serde_json::from_str(text).map_err(wrong)?;
            let runs = compared.runs();
            Ok(Document { name, scenario: compared.scenario, machine: compared.machine, runs })
        } else {
            Err(WrongValue::new(name, format!("schema {schema}"), expected))
        }
    }

    /// The variants, in the order in which they are there.
    fn variants(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !names.contains(&run.variant.as_str()) {
                names.push(&run.variant);
            }
        }
        names
    }

    /// The runs of a variant whose seeds are among these, by seed.
    fn of(&self, variant: &str, seeds: &[u64]) -> Vec<RunLine> {
        let has = |run: &&RunLine| run.variant == variant && seeds.contains(&run.seed);
        let mut runs: Vec<RunLine> = self.runs.iter().filter(has).cloned().collect();
        runs.sort_by_key(|run| run.seed);
        runs
    }

    fn seeds(&self, variant: &str) -> Vec<u64> {
        self.runs.iter().filter(|run| run.variant == variant).map(|run| run.seed).collect()
    }
}

/// Compares each variant of `second` with the same one of `first`.
pub fn compare(first: &Document, second: &Document, at_least: f64) -> Result<Vec<Comparison>, WrongValue> {
    let refuse = |what: &str, expected: String| Err(WrongValue::new(&second.name, what, expected));
    if first.scenario != second.scenario || first.machine != second.machine {
        let expected = format!("runs of {} on {}, as {} has", first.scenario, first.machine, first.name);
        return refuse(&format!("{} on {}", second.scenario, second.machine), expected);
    }
    let theirs = second.variants();
    let shared: Vec<&str> = first.variants().into_iter().filter(|name| theirs.contains(name)).collect();
    let scenario = Scenario::load(&first.scenario).ok();
    let mut comparisons = Vec::new();
    for variant in shared {
        let of_second = second.seeds(variant);
        let seeds: Vec<u64> =
            first.seeds(variant).into_iter().filter(|seed| of_second.contains(seed)).collect();
        let sides = [first.of(variant, &seeds), second.of(variant, &seeds)];
        if seeds.is_empty() || sides[0].len() != sides[1].len() {
            continue;
        }
        let names = [first, second].map(|side| format!("{variant} of {}", side.name));
        let own = || METRICS.iter().map(|metric| metric.name.to_string()).collect();
        let metrics: Vec<String> = scenario.as_ref().map_or_else(own, |scenario| scenario.metrics.clone());
        let variants = vec![
            VariantSummary::new(&names[0], &sides[0], None),
            VariantSummary::new(&names[1], &sides[1], Some(&sides[0])),
        ];
        let paired = sides[0].iter().map(|run| run.seed).collect();
        comparisons.push(Comparison {
            scenario: first.scenario.clone(),
            machine: first.machine.clone(),
            evidence: scenario.as_ref().map_or(String::new(), |scenario| scenario.evidence.clone()),
            ..Comparison::of(variants, &metrics, paired, at_least)
        });
    }
    if comparisons.is_empty() {
        let expected =
            format!("a variant with a seed that {} has too: {}", first.name, first.variants().join(", "));
        return refuse(&theirs.join(", "), expected);
    }
    Ok(comparisons)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(name: &str, scores: &[f64]) -> Document {
        let run = |(at, score): (usize, &f64)| {
            format!(r#"{{"variant": "6.18", "seed": {}, "metrics": {{"score": {score}}}}}"#, at + 1)
        };
        let runs: Vec<String> = scores.iter().enumerate().map(run).collect();
        let text = format!(
            r#"{{"schema": "mmtwin-run/1", "scenario": "page_fault1", "machine": "small", "runs": [{}]}}"#,
            runs.join(", ")
        );
        Document::read(name, &text).unwrap()
    }

    #[test]
    fn seeds_that_both_have_are_pairs() {
        let comparisons =
            compare(&runs("a.json", &[10.0, 20.0, 30.0, 40.0]), &runs("b.json", &[9.0, 18.0, 27.0]), 0.01);
        let comparison = &comparisons.unwrap()[0];
        assert_eq!(comparison.seeds, [1, 2, 3]);
        let score = &comparison.variants[1].metrics["score"];
        assert!(
            score.verdict.unwrap().counts() && (score.change.unwrap().ratio.unwrap() - 0.9).abs() < 1e-12
        );
        assert_eq!(comparison.variants[1].name, "6.18 of b.json");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let read = |text| Document::read("a.json", text).map(drop).unwrap_err().to_string();
        assert!(read("{").contains("a.json"));
        assert!(read(r#"{"schema": "mmtwin-list/1"}"#).contains("mmtwin run --json"));
        let mut other = runs("b.json", &[1.0]);
        other.machine = "large".into();
        let error = compare(&runs("a.json", &[1.0]), &other, 0.0).err().unwrap().to_string();
        assert!(error.contains("b.json") && error.contains("small"), "{error}");
        let none = runs("b.json", &[]);
        assert!(compare(&runs("a.json", &[1.0]), &none, 0.0).is_err());
    }
}
