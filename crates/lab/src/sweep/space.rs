//! The space that a sweep searches: for each key, the values between which it may choose.
//!
//! ```text
//!   vm.swappiness=0..200             a range, split into --points values, or drawn from; on the scale of the setting's declaration
//!   queue/read_ahead_kb=128..8192    logarithmic, as declared: 128, 362, 1024, 2896, 8192
//!   vm.stat_interval=1..120:linear   on another scale
//!   vm.dirty_ratio=5..40:5           in steps
//!   vm.compaction_proactiveness=..   all that the kernel takes; an end that is left out is the declaration's
//!   vm.swappiness=0,60,100..200      values, and ranges between them
//! ```
//!
//! Kind, bounds and scale of a setting come from its declaration (`crates/mm/src/sysctl/declarations.rs`). Other keys (`workload.KEY`,
//! `machine.TABLE.KEY`, `features.MECHANISM.FEATURE`, `machine`, `memory`) take values and, where they are numbers, ranges with two ends.

use super::SweepError;
use crate::experiment::varied::key_named;
use machine::PageSize;
use mm::SETTINGS;

use mm::sysctl::{Kind, Scale, Setting};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;

/// The most values of a key.
const MOST_VALUES: usize = 10_000;

/// A key and what it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub key: String,
    parts: Vec<Part>,
}

/// A value, or a range of them.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Value(String),
    Range(Range),
}

/// Numbers from `least` to `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    least: f64,
    most: f64,
    spacing: Spacing,
    numbers: Numbers,
}

/// Which numbers a range has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Whole,
    PowersOfTwo,
    Any,
}

/// How a range is split.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spacing {
    Scale(Scale),
    Step(f64),
}

impl Axis {
    /// Takes `KEY=SPEC` apart.
    pub fn parse(text: &str) -> Result<Axis, SweepError> {
        let expected = "KEY=SPEC, for example vm.swappiness=0..200 or vm.swappiness=0,60,100";
        let (key, spec) = text
            .split_once('=')
            .ok_or_else(|| SweepError::Space { text: text.into(), expected: expected.into() })?;
        Axis::of(&key_named(key), spec.trim())
    }

    /// The axis of a key with this specification.
    pub fn of(key: &str, spec: &str) -> Result<Axis, SweepError> {
        let setting = SETTINGS.iter().find(|setting| setting.name == key);
        let wrong = |expected: String| SweepError::Space { text: format!("{key}={spec}"), expected };
        let part = |text: &str| match text.split_once("..") {
            Some((least, rest)) => parts_of_range(setting, least.trim(), rest.trim()),
            None if text.is_empty() => Err("a value before and after each comma".into()),
            None => Ok(vec![Part::Value(text.into())]),
        };
        let parts: Result<Vec<Vec<Part>>, String> = spec.split(',').map(str::trim).map(part).collect();
        let parts = parts.map_err(wrong)?.concat();
        let is_twice = |at: usize| matches!(&parts[at], Part::Value(_)) && parts[..at].contains(&parts[at]);
        if let Some(Part::Value(value)) = (1..parts.len()).find(|&at| is_twice(at)).map(|at| &parts[at]) {
            return Err(wrong(format!("each value once; {value} is there twice")));
        }
        Ok(Axis { key: key.into(), parts })
    }

    /// Its values, each range split into `points`; in the order in which they were given, each once.
    pub fn values(&self, points: usize) -> Result<Vec<String>, SweepError> {
        let (mut values, mut known) = (Vec::new(), BTreeSet::new());
        for part in &self.parts {
            let of_part = match part {
                Part::Value(value) => vec![value.clone()],
                Part::Range(range) => range.split(points),
            };
            for value in of_part {
                if known.insert(value.clone()) {
                    values.push(value);
                }
            }
            if values.len() > MOST_VALUES {
                let expected = format!("no more than {MOST_VALUES} values of a key; take a larger step");
                return Err(SweepError::Space { text: self.key.clone(), expected });
            }
        }
        Ok(values)
    }

    /// A value drawn from it: any part as likely as another, within a range on its scale.
    pub fn draw(&self, random: &mut Pcg64Mcg) -> String {
        match &self.parts[random.random_range(0..self.parts.len())] {
            Part::Value(value) => value.clone(),
            Part::Range(range) => range.draw(random),
        }
    }

    /// How many values can be drawn from it at most; none if there is no end to them.
    pub fn count(&self) -> Option<usize> {
        self.parts.iter().map(Part::count).sum()
    }
}

impl Part {
    fn count(&self) -> Option<usize> {
        match self {
            Part::Value(_) => Some(1),
            Part::Range(Range { least, most, spacing: Spacing::Step(step), .. }) => {
                Some(1 + ((most - least) / step) as usize)
            }
            Part::Range(Range { least, most, numbers: Numbers::Whole, .. }) => {
                Some((most - least).min(1e9) as usize + 1)
            }
            Part::Range(Range { least, most, numbers: Numbers::PowersOfTwo, .. }) => {
                Some((most.log2().floor() - least.log2().ceil()).max(0.0) as usize + 1)
            }
            Part::Range(Range { numbers: Numbers::Any, .. }) => None,
        }
    }
}

/// What `LEAST..REST` stands for; an error says what is expected instead.
fn parts_of_range(setting: Option<&Setting>, least: &str, rest: &str) -> Result<Vec<Part>, String> {
    let (most, spacing) = match rest.split_once(':') {
        Some((most, spacing)) => (most.trim(), Some(spacing.trim())),
        None => (rest, None),
    };
    if let Some(Setting { kind: kind @ (Kind::Choice(_) | Kind::List(_) | Kind::Text(_)), .. }) = setting {
        return match kind {
            Kind::Choice(words) if least.is_empty() && rest.is_empty() => {
                Ok(words.iter().map(|word| Part::Value(word.to_string())).collect())
            }
            _ => Err(format!("values and no range, as it takes {}", kind.describe(PageSize::Kib4))),
        };
    }
    let declared = setting.and_then(|setting| setting.kind.range(PageSize::Kib4));
    let end = |text: &str, declared: Option<u64>| match (text, declared) {
        ("", None) => Err("a number on either side of .., as its bounds are not declared".to_string()),
        ("", Some(number)) => Ok(not_above(number)),
        _ => finite(text).ok_or_else(|| format!("numbers on either side of .., not {text}")),
    };
    let (least, most) =
        (end(least, declared.map(|(least, _)| least))?, end(most, declared.map(|(_, most)| most))?);
    if let (Some((lower, upper)), Some(setting)) = (declared, setting)
        && (least < lower as f64 || most > upper as f64)
    {
        return Err(format!("a range within what the kernel takes, {}", setting.accepts(PageSize::Kib4)));
    }
    if least > most {
        return Err(format!("the smaller number first; {least}..{most} is empty"));
    }
    let numbers = match setting.map(|setting| setting.kind) {
        Some(Kind::PowerOfTwo { .. }) => Numbers::PowersOfTwo,
        Some(_) => Numbers::Whole,
        None if least.fract() == 0.0 && most.fract() == 0.0 => Numbers::Whole,
        None => Numbers::Any,
    };
    let scale = setting.map_or(Scale::Linear, |setting| setting.scale);
    Ok(vec![Part::Range(Range { least, most, spacing: spacing_of(spacing, scale, least)?, numbers })])
}

/// The spacing that is written behind the colon, or else the declared one.
fn spacing_of(text: Option<&str>, declared: Scale, least: f64) -> Result<Spacing, String> {
    let spacing = match text {
        None => Spacing::Scale(declared),
        Some("log") => Spacing::Scale(Scale::Logarithmic),
        Some("linear") => Spacing::Scale(Scale::Linear),
        Some(step) => match finite(step).filter(|&step| step > 0.0) {
            Some(step) => Spacing::Step(step),
            None => return Err(format!("log, linear or a step greater than 0 behind the colon, not {step}")),
        },
    };
    match spacing {
        Spacing::Scale(Scale::Logarithmic) if least < 0.0 => {
            Err("no number below 0 on a logarithmic scale; write :linear".into())
        }
        _ => Ok(spacing),
    }
}

/// The number, or the largest below it that a float can be: the most that a setting takes may be 2^64 - 1.
fn not_above(number: u64) -> f64 {
    let near = number as f64;
    if near as u128 > u128::from(number) { near.next_down() } else { near }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

impl Range {
    /// As it is written to a file.
    fn text(&self, number: f64) -> String {
        let number = number.clamp(self.least, self.most);
        match self.numbers {
            Numbers::Whole => format!("{:.0}", number.round()),
            Numbers::PowersOfTwo => format!("{:.0}", number.max(1.0).log2().round().exp2()),
            Numbers::Any => format!("{number}"),
        }
    }

    fn split(&self, points: usize) -> Vec<String> {
        let Range { least, most, spacing, .. } = *self;
        if let Spacing::Step(step) = spacing {
            let steps = ((most - least) / step + 1e-9) as usize;
            return (0..=steps.min(MOST_VALUES)).map(|at| self.text(least + step * at as f64)).collect();
        }
        let last = points.saturating_sub(1);
        match last {
            0 => vec![self.text(self.at(0.5))],
            _ => (0..=last).map(|at| self.text(self.at(at as f64 / last as f64))).collect(),
        }
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> String {
        match self.spacing {
            Spacing::Scale(_) => self.text(self.at(random.random())),
            Spacing::Step(step) => {
                let steps = ((self.most - self.least) / step + 1e-9) as u64;
                self.text(self.least + step * random.random_range(0..=steps) as f64)
            }
        }
    }

    /// The number at a part of the way from one end to the other. A logarithmic range from 0 has 0 itself, and then goes on from 1 (or from a
    /// thousandth of its end, if that is less).
    fn at(&self, part: f64) -> f64 {
        let Range { least, most, .. } = *self;
        match self.spacing {
            Spacing::Scale(Scale::Logarithmic) if most > 0.0 => {
                let from = if least > 0.0 { least } else { (most / 1000.0).min(1.0) };
                if part == 0.0 { least } else { from * (most / from).powf(part) }
            }
            _ => least + (most - least) * part,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str, points: usize) -> Vec<String> {
        Axis::parse(text).unwrap().values(points).unwrap()
    }

    #[test]
    fn ranges_are_split_on_the_scale_of_the_declaration() {
        for (text, expected) in [
            ("vm.swappiness=0..200", "0 50 100 150 200"),
            ("queue/read_ahead_kb=128..8192", "128 362 1024 2896 8192"),
            ("vm.stat_interval=1..120:linear", "1 31 61 90 120"),
            ("vm.dirty_ratio=5..40:10", "5 15 25 35"),
            ("vm.percpu_pagelist_high_fraction=0,8..64", "0 8 13 23 38 64"),
            ("transparent_hugepage/enabled=..", "always madvise never"),
            ("vm.compaction_proactiveness=..", "0 25 50 75 100"),
            ("vm.swappiness=0,60,100", "0 60 100"),
            ("vm.swappiness=3..4", "3 4"),
            ("workload.tasks=1..16:log", "1 2 4 8 16"),
            ("machine.costs.page_clear_ns=0.5..1.5", "0.5 0.75 1 1.25 1.5"),
            ("flexthp_unhinted_max=4096..65536", "4096 8192 16384 32768 65536"),
        ] {
            assert_eq!(values(text, 5).join(" "), expected, "{text}");
        }
        assert_eq!(values("vm.dirty_expire_centisecs=0..1000", 4), ["0", "10", "100", "1000"]);
        assert_eq!(values("vm.swappiness=0..200", 1), ["100"]);
    }

    #[test]
    fn a_range_of_all_that_a_setting_takes_ends_within_it() {
        for setting in SETTINGS {
            let Some((lower, upper)) = setting.kind.range(PageSize::Kib4) else { continue };
            let values = values(&format!("{}=..", setting.name), 3);
            let taken = |value: &String| value.parse().is_ok_and(|value| (lower..=upper).contains(&value));
            assert!(values.iter().all(taken), "{}: {values:?}", setting.name);
        }
    }

    #[test]
    fn what_is_no_range_says_what_would_be_one() {
        for (text, says) in [
            ("vm.swappiness", "KEY=SPEC"),
            ("vm.swappiness=", "before and after each comma"),
            ("vm.swappiness=0,,1", "before and after each comma"),
            ("vm.swappiness=1,1", "1 is there twice"),
            ("vm.swappiness=100..50", "100..50 is empty"),
            ("vm.swappiness=0..201", "what the kernel takes, 0 to 200"),
            ("vm.swappiness=0..x", "not x"),
            ("vm.swappiness=0..100:0", "greater than 0"),
            ("transparent_hugepage/enabled=always..never", "always, madvise or never"),
            ("workload.tasks=1..", "bounds are not declared"),
            ("machine.costs.page_clear_ns=-1..5:log", "below 0"),
        ] {
            let error = Axis::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let error = Axis::parse("vm.dirty_bytes=8192..1073741824:1").unwrap().values(5).unwrap_err();
        assert!(error.to_string().contains("larger step"), "{error}");
    }

    proptest! {
        #[test]
        fn values_are_within_the_range_and_ascend(least in 0u64..1000, span in 0u64..50_000, points in 1usize..30, seed: u64) {
            let most = least + span;
            for scale in ["log", "linear", "7"] {
                let axis = Axis::parse(&format!("workload.tasks={least}..{most}:{scale}")).unwrap();
                let values: Vec<u64> = axis.values(points).unwrap().iter().map(|value| value.parse().unwrap()).collect();
                prop_assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(values[0] >= least && values[values.len() - 1] <= most);
                let drawn: u64 = axis.draw(&mut Pcg64Mcg::new(seed.into())).parse().unwrap();
                prop_assert!((least..=most).contains(&drawn));
            }
        }

        #[test]
        fn any_text_is_an_axis_or_an_error(text in ".{0,40}") {
            if let Ok(axis) = Axis::parse(&text) {
                drop(axis.values(5));
            }
        }
    }
}
