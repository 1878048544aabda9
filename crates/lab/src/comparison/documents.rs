//! Two documents that `run --json` or `compare --json` printed, or two results directories, as two sides: two builds of mmtwin, or
//! of a kernel tree.
//!
//! ```text
//!   first                                    second
//!     kbuild on intel-2s-224, settings ◄────► the same scenario, machine and settings
//!       6.18  seeds 1 2 3              ◄────►   6.18  seeds 1 2          a comparison over seeds 1 and 2
//!       6.12  seeds 1 2 3                                                left over
//! ```
//!
//! Variants that both have are compared, each with itself, over the seeds that both have.

use super::{Comparison, Measured, VariantSummary};
use crate::results::{Measurements, ResultsError, measurements};
use crate::scenario::Scenario;
use machine::WrongValue;
use mm::series::RELEASES;
use serde::Deserialize;
use sim::metric::METRICS;
use std::collections::BTreeMap;
use std::path::Path;

/// One side: the name of a file or of a directory, and what is in it.
pub struct Document {
    name: String,
    sets: Vec<RunSet>,
}

/// Runs of a scenario on a machine with the same settings.
struct RunSet {
    scenario: String,
    machine: String,
    /// As [`crate::results::Summary::settings`] has them; empty in documents, whose arms are told apart by name.
    settings: String,
    runs: Vec<RunLine>,
}

/// What two sides have in common.
pub struct Paired {
    /// One for each scenario, machine, settings and variant.
    pub comparisons: Vec<Comparison>,
    /// How many runs of each side have no counterpart.
    pub left_over: [usize; 2],
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
    /// The build that made it, if that is known.
    #[serde(default, skip_deserializing)]
    build: String,
    /// What tells edited scenarios, machines and kernel trees of one name apart, if that is known.
    #[serde(default, skip_deserializing)]
    inputs: String,
    /// Its identity in a results directory.
    #[serde(default, skip_deserializing)]
    identity: String,
}

impl Measured for RunLine {
    fn identity(&self) -> &str {
        &self.identity
    }

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
            build: String::new(),
            inputs: String::new(),
            identity: String::new(),
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
        let (scenario, machine, runs) = if schema.starts_with("mmtwin-run/") {
            let Runs { scenario, machine, runs } = serde_json::from_str(text).map_err(wrong)?;
            (scenario, machine, runs)
        } else if schema.starts_with("mmtwin-compare/") {
            let compared: Compared = serde_json::from_str(text).map_err(wrong)?;
            let runs = compared.runs();
            (compared.scenario, compared.machine, runs)
        } else {
            return Err(WrongValue::new(name, format!("schema {schema}"), expected));
        };
        let set = RunSet { scenario, machine, settings: String::new(), runs };
        Ok(Document { name: name.into(), sets: vec![set] })
    }

    /// Reads all runs of a results directory.
    pub fn of_directory(directory: &Path) -> Result<Document, ResultsError> {
        let mut sets: Vec<RunSet> = Vec::new();
        for Measurements { summary, metrics, cpu_seconds } in measurements(directory)? {
            let (variant, seed) = (summary.variant, summary.seed);
            let (build, inputs, identity) = (summary.build, summary.inputs, summary.run);
            let run = RunLine { variant, seed, metrics, cpu_seconds, build, inputs, identity };
            let (scenario, machine, settings) = (summary.scenario, summary.machine, summary.settings);
            let set = RunSet { scenario, machine, settings, runs: Vec::new() };
            match sets.iter_mut().find(|other| other.is_of(&set)) {
                Some(known) => known.runs.push(run),
                None => sets.push(RunSet { runs: vec![run], ..set }),
            }
        }
        Ok(Document { name: directory.display().to_string(), sets })
    }

    /// Whether it has no run.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> usize {
        self.sets.iter().map(|set| set.runs.len()).sum()
    }

    /// Scenarios and machines, for errors.
    fn has(&self) -> String {
        let mut names: Vec<String> = self.sets.iter().map(RunSet::name).collect();
        names.dedup();
        if names.is_empty() { "no runs".into() } else { names.join(", ") }
    }
}

impl RunSet {
    fn is_of(&self, other: &RunSet) -> bool {
        (&self.scenario, &self.machine, &self.settings) == (&other.scenario, &other.machine, &other.settings)
    }

    fn name(&self) -> String {
        let with = if self.settings.is_empty() { "" } else { " with " };
        format!("{} on {}{with}{}", self.scenario, self.machine, self.settings)
    }

    /// The settings by name; what has no name belongs to the value before it.
    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings: Vec<(String, String)> = Vec::new();
        for word in self.settings.split_whitespace() {
            match (word.split_once('='), settings.last_mut()) {
                (Some((name, value)), _) => settings.push((name.into(), value.into())),
                (None, Some((_, value))) => *value += &format!(" {word}"),
                (None, None) => {}
            }
        }
        settings.into_iter().collect()
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

    /// The variants, those that the scenario names first and in its order, then releases from the oldest on.
    fn in_order(&self) -> Vec<&str> {
        let mut names = self.variants();
        let known = Scenario::load(&self.scenario).map(|scenario| scenario.variants).unwrap_or_default();
        let place = |name: &&str| known.iter().position(|other| other == name).unwrap_or(known.len());
        let release = |name: &&str| RELEASES.iter().position(|(release, _)| release == name);
        names.sort_by_key(|name| (place(name), release(name)));
        names
    }

    /// The runs of a variant by seed, those of each build and of each edit of its scenario, machine or tree apart, with names that tell them apart.
    fn apart(&self, variant: &str) -> Vec<(String, BTreeMap<u64, &RunLine>)> {
        let mut apart: BTreeMap<(&str, &str), BTreeMap<u64, &RunLine>> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.variant == variant) {
            apart.entry((&run.build, &run.inputs)).or_default().insert(run.seed, run);
        }
        let several = apart.len() > 1;
        let name = |(build, inputs): (&str, &str)| match several {
            true => format!("{variant} (build {}, inputs {})", short(build), short(inputs)),
            false => variant.to_string(),
        };
        apart.into_iter().map(|(key, runs)| (name(key), runs)).collect()
    }

    /// The runs of a variant by seed. Two of one seed are refused, as nobody could say which of them is meant.
    fn of(&self, variant: &str, place: &str) -> Result<BTreeMap<u64, &RunLine>, WrongValue> {
        let mut runs: BTreeMap<u64, &RunLine> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.variant == variant) {
            if let Some(other) = runs.insert(run.seed, run) {
                let builds = if other.build == run.build {
                    "of edited scenarios, machines or kernel trees of one name".to_string()
                } else {
                    format!("of builds {} and {}", short(&other.build), short(&run.build))
                };
                let value = format!("{}, {variant}, seed {} twice, {builds}", self.name(), run.seed);
                let expected = "one run of each seed: give each build and each edit a directory of its own (--results DIR)";
                return Err(WrongValue::new(place, value, expected));
            }
        }
        Ok(runs)
    }
}

/// The first digits of a hash.
fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

/// Compares each variant of `second` with the same one of `first`, by scenario, machine and settings.
pub fn compare(first: &Document, second: &Document, at_least: f64) -> Result<Paired, WrongValue> {
    let mut comparisons = Vec::new();
    for set in &first.sets {
        let Some(other) = second.sets.iter().find(|other| other.is_of(set)) else { continue };
        let theirs = other.variants();
        for variant in set.variants().into_iter().filter(|name| theirs.contains(name)) {
            let own = set.of(variant, &first.name)?;
            let others = other.of(variant, &second.name)?;
            let [one, two] = [first, second].map(|side| format!("{variant} of {}", side.name));
            comparisons.extend(compare_runs(set, &[(one, own), (two, others)], at_least));
        }
    }
    let paired: usize = comparisons.iter().map(|comparison: &Comparison| comparison.seeds.len()).sum();
    if paired == 0 {
        let expected =
            format!("a scenario, machine, variant and seed that {} has too: {}", first.name, first.has());
        return Err(WrongValue::new(&second.name, second.has(), expected));
    }
    Ok(Paired { comparisons, left_over: [first, second].map(|side| side.count() - paired) })
}

/// The variants of documents side by side: a comparison for each scenario, machine and settings, of all variants that any document has of
/// it, over the seeds that all of them have. Where they have none in common, the variant with the fewest runs is left out, and so on.
pub fn side_by_side(documents: &[Document], at_least: f64) -> Vec<Comparison> {
    let mut sets: Vec<&RunSet> = Vec::new();
    for set in documents.iter().flat_map(|document| &document.sets) {
        if !sets.iter().any(|known| known.is_of(set)) {
            sets.push(set);
        }
    }
    let mut comparisons = Vec::new();
    for set in sets {
        let mut arms: Vec<(String, BTreeMap<u64, &RunLine>)> = Vec::new();
        for document in documents {
            for own in document.sets.iter().filter(|own| own.is_of(set)) {
                for variant in own.in_order() {
                    for (name, runs) in own.apart(variant) {
                        let of_document = format!("{name} of {}", document.name);
                        arms.push((if documents.len() == 1 { name } else { of_document }, runs));
                    }
                }
            }
        }
        while !arms.is_empty() && common(&arms).is_empty() {
            let fewest = arms.iter().map(|(_, runs)| runs.len()).min();
            let at = arms.iter().rposition(|(_, runs)| Some(runs.len()) == fewest);
            at.map(|at| arms.remove(at));
        }
        comparisons.extend(compare_runs(set, &arms, at_least));
    }
    comparisons
}

/// The seeds that all arms have.
fn common(arms: &[(String, BTreeMap<u64, &RunLine>)]) -> Vec<u64> {
    let first = arms.iter().take(1).flat_map(|(_, runs)| runs.keys().copied());
    first.filter(|seed| arms.iter().all(|(_, runs)| runs.contains_key(seed))).collect()
}

/// Compares arms, each by its name, with the first one over the seeds that all have; none if there is no such seed.
fn compare_runs(
    set: &RunSet,
    arms: &[(String, BTreeMap<u64, &RunLine>)],
    at_least: f64,
) -> Option<Comparison> {
    let seeds = common(arms);
    if seeds.is_empty() {
        return None;
    }
    let paired = |(_, runs): &(String, BTreeMap<u64, &RunLine>)| -> Vec<RunLine> {
        seeds.iter().map(|seed| runs[seed].clone()).collect()
    };
    let base = paired(arms.first()?);
    let summary = |(at, arm): (usize, &(String, BTreeMap<u64, &RunLine>))| {
        VariantSummary::new(&arm.0, &paired(arm), (at > 0).then_some(&base[..]))
    };
    let scenario = Scenario::load(&set.scenario).ok();
    let own = || METRICS.iter().map(|metric| metric.name.to_string()).collect();
    let metrics: Vec<String> = scenario.as_ref().map_or_else(own, |scenario| scenario.metrics.clone());
    let variants = arms.iter().enumerate().map(summary).collect();
    Some(Comparison {
        scenario: set.scenario.clone(),
        machine: set.machine.clone(),
        settings: set.settings(),
        evidence: scenario.map_or(String::new(), |scenario| scenario.evidence),
        ..Comparison::of(variants, &metrics, seeds, at_least)
    })
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
        let paired =
            compare(&runs("a.json", &[10.0, 20.0, 30.0, 40.0]), &runs("b.json", &[9.0, 18.0, 27.0]), 0.01);
        let Paired { comparisons, left_over } = paired.unwrap();
        assert_eq!(left_over, [1, 0]);
        let comparison = &comparisons[0];
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
        other.sets[0].machine = "large".into();
        let error = compare(&runs("a.json", &[1.0]), &other, 0.0).err().unwrap().to_string();
        assert!(error.contains("b.json") && error.contains("small"), "{error}");
        let none = runs("b.json", &[]);
        assert!(compare(&runs("a.json", &[1.0]), &none, 0.0).is_err());
        let mut twice = runs("b", &[1.0, 2.0]);
        for (run, build) in twice.sets[0].runs.iter_mut().zip(["0123456789", "abcdefghij"]) {
            (run.seed, run.build) = (1, build.into());
        }
        let error = compare(&runs("a", &[1.0]), &twice, 0.0).err().unwrap().to_string();
        assert!(error.contains("seed 1 twice, of builds 01234567 and abcdefgh"), "{error}");
    }

    #[test]
    fn variants_of_a_directory_are_compared_over_common_seeds() {
        let mut document = runs("a", &[10.0, 20.0, 30.0, 11.0, 21.0, 5.0]);
        for (at, run) in document.sets[0].runs.iter_mut().enumerate() {
            let variant = ["6.18", "pcp-base", "6.12"][at / 3 + at / 5];
            (run.variant, run.seed) = (variant.into(), [1, 2, 3, 1, 2, 9][at]);
        }
        let comparisons = side_by_side(&[document], 0.01);
        let [comparison] = &comparisons[..] else { panic!("{}", comparisons.len()) };
        let names: Vec<&str> = comparison.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(
            names,
            ["pcp-base", "6.18"],
            "in the scenario's order; what has no seed in common is left out"
        );
        assert_eq!(comparison.seeds, [1, 2]);
        let mut releases = runs("a", &[1.0, 2.0]);
        for (run, variant) in releases.sets[0].runs.iter_mut().zip(["6.18", "6.6"]) {
            (run.seed, run.variant) = (1, variant.into());
        }
        assert_eq!(releases.sets[0].in_order(), ["6.6", "6.18"]);
        let mut rebuilt = runs("a", &[1.0, 2.0]);
        for (run, build) in rebuilt.sets[0].runs.iter_mut().zip(["0123456789", "abcdefghij"]) {
            (run.seed, run.build) = (1, build.into());
        }
        let names = |comparisons: &[Comparison]| {
            comparisons[0].variants.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>()
        };
        let of_builds = names(&side_by_side(&[rebuilt], 0.01));
        assert_eq!(of_builds, ["6.18 (build 01234567, inputs )", "6.18 (build abcdefgh, inputs )"]);
        let both = side_by_side(&[runs("a", &[1.0, 2.0]), runs("b", &[1.0])], 0.01);
        assert_eq!((names(&both), both[0].seeds.len()), (vec!["6.18 of a".into(), "6.18 of b".into()], 1));
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let mut document = runs("a", &[1.0]);
        document.sets[0].settings = "vm.lowmem_reserve_ratio=256 256 32 0 vm.swappiness=60".into();
        let settings = document.sets[0].settings();
        assert_eq!(settings["vm.lowmem_reserve_ratio"], "256 256 32 0");
        assert_eq!(settings["vm.swappiness"], "60");
    }
}
