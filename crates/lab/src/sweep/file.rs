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
//! All that is wrong with a file is told at once, each with its line: unknown keys with those that there are and the one that is meant, numbers
//! with their bounds. What only a scenario or a machine can refuse, such as a setting that it does not have, is told with the line of its key
//! by whoever asks them ([`Source`]).

use super::SweepError;
use super::plan::{MOST_POINTS, Method};
use crate::scenario::{ScenarioError, one_or_several, settings, syntax, wrong_keys};
use machine::WrongValue;
use machine::profile::line_of_path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use workload::keys::{Bounds, Value as _};

/// The version of the format that is read.
pub const FORMAT: u32 = 1;

const FORMATS: Bounds = Bounds::new(FORMAT as f64, FORMAT as f64, "the version of sweep files that is read");
const SEEDS: Bounds = Bounds::new(1.0, 10_000.0, "seeds that anybody runs");
/// Seeds that tell what a choice gains.
pub const HELD_OUT: Bounds = Bounds::new(3.0, 10_000.0, "fewer tell no gain from chance");
/// Values into which a range is split.
pub const POINTS: Bounds = Bounds::new(1.0, 10_000.0, "values that anybody tries of a setting");
/// Points that are drawn.
pub const SAMPLES: Bounds = Bounds::new(1.0, MOST_POINTS as f64, "points that a fleet of machines can run");
const PERCENT: Bounds = Bounds::new(0.0, 1000.0, "ten times as much");
const WEIGHT: Bounds = Bounds::new(1e-9, 1e9, "machines of a fleet");

workload::keys! {
/// A sweep file.
#[derive(JsonSchema)]
pub struct SweepFile {
    /// Version of the format: 1.
    pub format: u32 => FORMATS,
    /// What the sweep is for.
    #[serde(default)]
    pub description: String,
    /// How points are chosen.
    #[serde(default)]
    pub method: Method,
    /// Values into which a range is split; 5 if absent.
    pub points: Option<usize> => POINTS,
    /// Points that random and halving draw.
    pub samples: Option<usize> => SAMPLES,
    /// Seeds 1 to this number choose; as many as the scenarios have, at least 3, if absent.
    pub seeds: Option<u32> => SEEDS,
    /// So many seeds after those tell what the choice gains, at least 3; 8 if absent.
    pub held_out: Option<u32> => HELD_OUT,
    /// The least change that matters, in percent; 1 if absent.
    pub at_least: Option<f64> => PERCENT,
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
    pub over: Over,
}
}

workload::keys! {
/// A member of the fleet.
#[derive(JsonSchema)]
pub struct MemberSpec {
    /// A built-in scenario, or a file, of a scenario or of a recorded trace, relative to this one.
    pub scenario: String,
    /// A built-in machine, `this`, or a file, relative to this one; the scenario's if absent.
    pub machine: Option<String>,
    /// A release or variant; the scenario's last if absent.
    pub variant: Option<String>,
    /// How much it counts against the others.
    #[serde(default = "one")]
    pub weight: f64 => WEIGHT,
    /// Settings besides the scenario's.
    #[serde(default, deserialize_with = "settings")]
    pub settings: BTreeMap<String, String>,
}
}

workload::no_numbers!(Method, Over);

/// Keys and what they may be.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Over(pub BTreeMap<String, Values>);

fn one() -> f64 {
    1.0
}

/// The values of a key.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected values as on the command line in quotes, such as '0..200', or a list of them in brackets; a key with dots needs quotes, as in 'vm.swappiness' = '0..200'"
)]
pub enum Values {
    /// As on the command line: `0..200`, `0,60,100`, `8..64:4`.
    Text(String),
    /// A list of values.
    List(Vec<Value>),
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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

/// The text of a sweep file, which says where what is wrong stands.
#[derive(Clone, Debug)]
pub struct Source {
    /// What errors call the file.
    pub place: String,
    pub text: String,
}

impl Source {
    /// An error about a key, given table by table, with its line.
    pub fn wrong(&self, path: &[&str], says: impl Display) -> ScenarioError {
        let line = line_of_path(&self.text, path.iter().copied());
        let line = line.map_or(String::new(), |line| format!("line {line}: "));
        // On the command line a key is an option.
        let says = says.to_string();
        ScenarioError::Syntax { text: format!("{}: {line}{}", self.place, says.trim_start_matches("--")) }
    }

    /// Reads and checks it.
    pub fn parse(&self) -> Result<SweepFile, SweepError> {
        let Source { place, text } = self;
        let syntax = |error: &toml::de::Error| SweepError::Scenario(syntax(place, text, error));
        // Another version may have other keys, so it is looked at first.
        let table: toml::Table = toml::from_str(text).map_err(|error| syntax(&error))?;
        match table.get("format").map(toml::Value::as_integer) {
            Some(Some(format)) if format == i64::from(FORMAT) => {}
            Some(_) => {
                let format = table.get("format").map(ToString::to_string).unwrap_or_default();
                let says = format!(
                    "format = {format}: this mmtwin reads sweep files of format = {FORMAT}; write it so, or use the mmtwin that it was written for"
                );
                return Err(self.wrong(&["format"], says).into());
            }
            None => {
                let says = format!("it lacks format = {FORMAT}, the version of sweep files");
                return Err(self.wrong(&[], says).into());
            }
        }
        one_or_several(wrong_keys(place, text, SweepFile::TAKES))?;
        let file: SweepFile = toml::from_str(text).map_err(|error| syntax(&error))?;
        let refuse = |wrong: WrongValue| crate::scenario::wrong_value(place, text, wrong);
        file.check_bounds("").map_err(refuse)?;
        if file.fleet.is_empty() {
            let says = "fleet = []: it takes at least one [[fleet]] with a scenario";
            return Err(self.wrong(&["fleet"], says).into());
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = "format = 1\n[[fleet]]\nscenario = 'kbuild'\n[over]\n'vm.stat_interval' = [1, 10]\n";

    fn parse(text: &str) -> Result<SweepFile, SweepError> {
        Source { place: "a.toml".into(), text: text.into() }.parse()
    }

    #[test]
    fn a_small_file_has_defaults() {
        let file = parse(SMALL).unwrap();
        assert_eq!((file.method, file.fleet[0].weight, file.seeds), (Method::Grid, 1.0, None));
        assert_eq!(file.over.0["vm.stat_interval"].spec(), "1,10");
        assert!(is_sweep(SMALL) && !is_sweep("name = 'a'\n[workload]\nkind = 'kbuild'") && !is_sweep("="));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_right() {
        for (from, to, says) in [
            (
                "format = 1",
                "format = 2",
                "a.toml: line 1: format = 2: this mmtwin reads sweep files of format = 1",
            ),
            ("format = 1", "", "it lacks format = 1"),
            ("format = 1", "format = 1\nmetod = 'grid'", "(do you mean method?)"),
            ("scenario =", "scenaro =", "(do you mean scenario?)"),
            (
                "format = 1",
                "format = 1\nmethod = 'griddy'",
                "line 2: griddy is not one of grid, zip, random, halving (do you mean grid?)",
            ),
            (
                "format = 1",
                "format = 1\nseeds = 0",
                "a.toml: line 2: seeds = 0: it takes a whole number from 1 to 10000",
            ),
            ("format = 1", "format = 1\nseeds = '3'", "line 2: seeds = \"3\": it takes a whole number"),
            ("[1, 10]", "true", "line 5: expected values as on the command line in quotes, such as '0..200'"),
            (
                "'kbuild'",
                "'kbuild'\nweight = 0",
                "line 4: fleet[0].weight = 0: it takes a number from 0.000000001",
            ),
            ("[[fleet]]\nscenario = 'kbuild'", "fleet = []", "at least one [[fleet]]"),
        ] {
            let error = parse(&SMALL.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_line() {
        let text = SMALL.replace("format = 1", "format = 1\nheld_out = 1\nmetod = 'grid'");
        let text = text.replace("'kbuild'", "'kbuild'\nweight = -1\nmachin = 'x'");
        let error = parse(&text).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().map(|line| line.split(':').nth(1).unwrap()).collect();
        assert_eq!(lines, [" line 2", " line 3", " line 6", " line 7"], "{error}");
    }

    #[test]
    fn a_key_with_dots_has_a_line() {
        let source = Source { place: "a.toml".into(), text: SMALL.into() };
        let error = source.wrong(&["over", "vm.stat_interval"], "--over vm.stat_interval: no");
        assert_eq!(error.to_string(), "a.toml: line 5: over vm.stat_interval: no");
    }

    proptest! {
        #[test]
        fn any_text_is_a_file_or_an_error(text in "(format = 1\n)?.{0,60}") {
            drop(parse(&text));
        }
    }
}
