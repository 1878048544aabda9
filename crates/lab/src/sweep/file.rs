//! Sweep files: a fleet, the space, goals and constraints, as TOML.
//!
//! ```toml
//! format = 1
//! method = "halving"
//! seeds = 8
//! minimize = ["build_time"]
//! constraints = ["alloc_p99 <= 2 us"]
//!
//! [[fleet]]
//! scenario = "kbuild"           # a name, or a file, relative to this one
//! machine = "intel-2s-128"
//! weight = 3
//!
//! [over]
//! "vm.stat_interval" = "1..120"
//! "vm.percpu_pagelist_high_fraction" = [0, 8, 64]
//! ```
//!
//! Unknown keys are refused with those that there are, and with the one that is meant.

use super::SweepError;
use super::plan::Method;
use crate::scenario::syntax;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The version of the format that is read.
pub const FORMAT: u32 = 1;

/// A sweep file.
#[derive(Clone, Debug, PartialEq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepFile {
    /// Version of the format: 1.
    pub format: u32,
    /// What the sweep is for.
    #[serde(default)]
    pub description: String,
    /// How points are chosen.
    #[serde(default)]
    pub method: Method,
    /// Values into which a range is split; 5 if absent.
    pub points: Option<usize>,
    /// Points that random and halving draw.
    pub samples: Option<usize>,
    /// Seeds 1 to this number choose; as many as the scenarios have, at least 3, if absent.
    pub seeds: Option<u32>,
    /// So many seeds after those tell what the choice gains, at least 3; 8 if absent.
    pub held_out: Option<u32>,
    /// The least change that matters, in percent; 1 if absent.
    pub at_least: Option<f64>,
    /// Run the whole virtual time in the first rung of halving too.
    #[serde(default)]
    pub whole_time: bool,
    /// Metrics to make smaller. Without a goal, each member has its scenario's own.
    #[serde(default)]
    pub minimize: Vec<String>,
    /// Metrics to make larger.
    #[serde(default)]
    pub maximize: Vec<String>,
    /// What every member that has the metric must keep: `METRIC <= VALUE UNIT`.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Workloads and machines.
    pub fleet: Vec<MemberSpec>,
    /// Keys and what they may be.
    pub over: BTreeMap<String, Values>,
}

/// A member of the fleet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSpec {
    /// A built-in scenario, or a file, relative to this one.
    pub scenario: String,
    /// A built-in machine, `this`, or a file, relative to this one; the scenario's if absent.
    pub machine: Option<String>,
    /// A release or variant; the scenario's last if absent.
    pub variant: Option<String>,
    /// How much it counts against the others.
    #[serde(default = "one")]
    pub weight: f64,
    /// Settings besides the scenario's.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

fn one() -> f64 {
    1.0
}

/// The values of a key.
#[derive(Clone, Debug, PartialEq, JsonSchema, Deserialize)]
#[serde(untagged)]
pub enum Values {
    /// As on the command line: `0..200`, `0,60,100`, `8..64:4`.
    Text(String),
    /// A list of values.
    List(Vec<Value>),
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, JsonSchema, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Values {
    /// As it is written on the command line.
    pub fn spec(&self) -> String {
        let text = |value: &Value| match value {
            Value::Whole(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        };
        match self {
            Values::Text(text) => text.clone(),
            Values::List(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        }
    }
}

/// Keys of sweep files that scenario files do not have.
const OWN: [&str; 3] = ["format", "fleet", "over"];

/// Whether a text is a sweep file rather than a scenario, by its keys.
pub fn is_sweep(text: &str) -> bool {
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    !table.contains_key("workload") && OWN.iter().any(|key| table.contains_key(*key))
}

impl SweepFile {
    /// Reads and checks a sweep file; `place` is named in errors.
    pub fn parse(place: &str, text: &str) -> Result<SweepFile, SweepError> {
        let wrong = |text: String| SweepError::File { place: place.into(), text };
        // Another version may have other keys, so it is looked at first.
        let table: toml::Table = toml::from_str(text).map_err(|error| syntax(place, text, &error))?;
        match table.get("format").map(toml::Value::as_integer) {
            Some(Some(format)) if format == i64::from(FORMAT) => {}
            Some(_) => {
                let format = table.get("format").map(ToString::to_string).unwrap_or_default();
                return Err(wrong(format!(
                    "format = {format}: this mmtwin reads sweep files of format = {FORMAT}; write it so, or use the mmtwin that it was written for"
                )));
            }
            None => return Err(wrong(format!("it lacks format = {FORMAT}, the version of sweep files"))),
        }
        let file: SweepFile = toml::from_str(text).map_err(|error| syntax(place, text, &error))?;
        let within = |name: &str, value: Option<u64>, least: u64, most: u64| match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err(wrong(format!("{name} = {value}: it takes a whole number from {least} to {most}")))
            }
            _ => Ok(()),
        };
        within("points", file.points.map(|value| value as u64), 1, 10_000)?;
        within("samples", file.samples.map(|value| value as u64), 1, super::plan::MOST_POINTS as u64)?;
        within("seeds", file.seeds.map(u64::from), 1, 10_000)?;
        // Fewer tell no gain from chance.
        within("held_out", file.held_out.map(u64::from), 3, 10_000)?;
        if file.fleet.is_empty() {
            return Err(wrong("fleet = []: it takes at least one [[fleet]] with a scenario".into()));
        }
        if let Some(at_least) = file.at_least.filter(|percent| !(0.0..=1000.0).contains(percent)) {
            return Err(wrong(format!("at_least = {at_least}: it takes a percentage from 0 to 1000")));
        }
        let weight =
            file.fleet.iter().map(|member| member.weight).find(|weight| !(1e-9..=1e9).contains(weight));
        match weight {
            Some(weight) => {
                Err(wrong(format!("weight = {weight}: it takes a number greater than 0, up to 1e9")))
            }
            None => Ok(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = "format = 1\n[[fleet]]\nscenario = 'kbuild'\n[over]\n'vm.stat_interval' = [1, 10]\n";

    #[test]
    fn a_small_file_has_defaults() {
        let file = SweepFile::parse("a.toml", SMALL).unwrap();
        assert_eq!((file.method, file.fleet[0].weight, file.seeds), (Method::Grid, 1.0, None));
        assert_eq!(file.over["vm.stat_interval"].spec(), "1,10");
        assert!(is_sweep(SMALL) && !is_sweep("name = 'a'\n[workload]\nkind = 'kbuild'") && !is_sweep("="));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_right() {
        for (from, to, says) in [
            ("format = 1", "format = 2", "a.toml: format = 2: this mmtwin reads sweep files of format = 1"),
            ("format = 1", "", "it lacks format = 1"),
            ("format = 1", "format = 1\nmetod = 'grid'", "(do you mean method?)"),
            ("scenario =", "scenaro =", "(do you mean scenario?)"),
            (
                "format = 1",
                "format = 1\nmethod = 'griddy'",
                "line 2: griddy is not one of grid, zip, random, halving (do you mean grid?)",
            ),
            ("format = 1", "format = 1\nseeds = 0", "seeds = 0: it takes a whole number from 1 to 10000"),
            ("'kbuild'", "'kbuild'\nweight = 0", "weight = 0: it takes a number greater than 0"),
            ("[[fleet]]\nscenario = 'kbuild'", "fleet = []", "at least one [[fleet]]"),
        ] {
            let error = SweepFile::parse("a.toml", &SMALL.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_file_or_an_error(text in "(format = 1\n)?.{0,60}") {
            drop(SweepFile::parse("any", &text));
        }
    }
}
