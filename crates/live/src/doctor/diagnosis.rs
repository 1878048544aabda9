//! From a window to what is wrong: observations, the rules that hold, and what could not be seen.
//!
//! ```text
//!   Window ─► observations ─► rules: hold ─► findings, most severe first
//!                                    do not hold ─► mechanisms without a finding
//!                                    cannot tell ─► not seen, with what would show it
//! ```

use std::collections::BTreeMap;

use mm::sysctl::Setting;

use crate::snapshot::chosen;

use super::condition::Holds;
use super::observations::{Mechanism, OBSERVATIONS, Observation, Unit, Value};
use super::rules::{Rule, Severity, names_in, release};
use super::saved::Samples;
use super::window::Window;

/// An observation that was made.
#[derive(Clone, Debug)]
pub struct Seen {
    pub observation: &'static Observation,
    pub value: Value,
}

/// A rule that holds.
#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    /// The rule's words, with what was seen in place of names.
    pub title: String,
    pub means: String,
    pub seen: Vec<Seen>,
    /// The values of the rule's settings here; none of one that has no file, or whose file cannot be read.
    pub settings: Vec<(&'static Setting, Option<String>)>,
}

/// An observation that could not be made.
#[derive(Clone, Debug)]
pub struct NotSeen {
    pub observation: &'static Observation,
    pub why: String,
    /// The rules that say nothing without it.
    pub rules: Vec<&'static str>,
}

/// What a machine's files say.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    pub kernel: String,
    pub seconds: f64,
    pub seen: Vec<Seen>,
    /// Most severe first, then in the order of the rules.
    pub findings: Vec<Finding>,
    /// Mechanisms of which a rule could tell, and none holds.
    pub sound: Vec<Mechanism>,
    pub not_seen: Vec<NotSeen>,
    /// Rules that are not of this kernel.
    pub other_releases: Vec<&'static str>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

impl Diagnosis {
    /// Applies `rules` to what `samples` show.
    pub fn new(samples: &Samples, rules: &'static [Rule]) -> Diagnosis {
        let window = Window::new(samples);
        let mut seen = Vec::new();
        let mut missing: Vec<NotSeen> = Vec::new();
        for observation in OBSERVATIONS {
            match observation.observe(&window) {
                Ok(value) => seen.push(Seen { observation, value }),
                Err(why) => missing.push(NotSeen { observation, why, rules: Vec::new() }),
            }
        }
        let value = |name: &str| -> Option<Value> {
            seen.iter().find(|seen| seen.observation.name == name).map(|seen| seen.value.clone())
        };
        let kernel = release(window.kernel());
        let mut findings = Vec::new();
        let mut told: BTreeMap<Mechanism, bool> = BTreeMap::new();
        let mut other_releases = Vec::new();
        for rule in rules {
            if !rule.is_of(kernel) {
                other_releases.push(rule.id.as_str());
                continue;
            }
            match outcome(rule, &value) {
                Holds::Yes => {
                    told.insert(rule.mechanism, true);
                    findings.push(Finding::new(rule, &window, &value));
                }
                Holds::No => {
                    told.entry(rule.mechanism).or_default();
                }
                // What did not happen is no trouble.
                Holds::NotSeen(name) if Observation::find(name).is_some_and(|of| of.is_idle(&window)) => {
                    told.entry(rule.mechanism).or_default();
                }
                Holds::NotSeen(name) => {
                    let of = missing.iter_mut().find(|missing| missing.observation.name == name);
                    of.into_iter().for_each(|missing| missing.rules.push(&rule.id));
                }
            }
        }
        findings.sort_by_key(|finding| finding.rule.severity);
        let sound = told.into_iter().filter(|(_, holds)| !holds).map(|(mechanism, _)| mechanism).collect();
        let notes = notes(&window, samples);
        let kernel = window.kernel().to_string();
        Diagnosis {
            kernel,
            seconds: window.seconds,
            seen,
            findings,
            sound,
            not_seen: missing,
            other_releases,
            notes,
        }
    }

    /// The most severe kind of finding.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.first().map(|finding| finding.rule.severity)
    }

    /// A number that was seen.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.seen.iter().find(|seen| seen.observation.name == name).and_then(|seen| match seen.value {
            Value::Number(number) => Some(number),
            Value::Word(_) => None,
        })
    }
}

/// Whether all conditions of a rule hold. One that does not decides, whatever cannot be seen besides.
fn outcome(rule: &Rule, value: &dyn Fn(&str) -> Option<Value>) -> Holds {
    let all: Vec<Holds> = rule.when.iter().map(|condition| condition.holds(value)).collect();
    if all.contains(&Holds::No) {
        return Holds::No;
    }
    all.into_iter().find(|holds| *holds != Holds::Yes).unwrap_or(Holds::Yes)
}

impl Finding {
    fn new(rule: &'static Rule, window: &Window, value: &dyn Fn(&str) -> Option<Value>) -> Finding {
        let seen = rule.observations().into_iter();
        let seen = seen.filter_map(|observation| Some(Seen { observation, value: value(observation.name)? }));
        let settings = rule.settings.iter().map(|setting| (*setting, value_here(window, setting.name)));
        Finding {
            rule,
            title: filled(&rule.title, value),
            means: filled(&rule.means, value),
            seen: seen.collect(),
            settings: settings.collect(),
        }
    }
}

/// A text with what was seen in place of the names in braces.
fn filled(text: &str, value: &dyn Fn(&str) -> Option<Value>) -> String {
    let mut filled = text.to_string();
    for name in names_in(text) {
        let shown = match (value(name), Observation::find(name)) {
            (Some(value), Some(observation)) => show(&value, observation.unit),
            _ => "an unknown number".into(),
        };
        filled = filled.replace(&format!("{{{name}}}"), &shown);
    }
    filled
}

/// A value with its unit, as sentences have it: three digits that say something, thousands apart.
pub fn show(value: &Value, unit: Unit) -> String {
    match value {
        Value::Word(word) => word.clone(),
        Value::Number(number) => {
            let decimals = match number.abs() {
                size if size >= 100.0 || size.fract() == 0.0 => 0,
                size if size >= 10.0 => 1,
                _ => 2,
            };
            let text = format!("{number:.decimals$}");
            let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
            let digits = whole.len();
            let apart: String = whole
                .chars()
                .enumerate()
                .map(|(at, digit)| match (at, digits - at) {
                    (1.., left) if left % 3 == 0 && digits > 4 => format!(",{digit}"),
                    _ => digit.to_string(),
                })
                .collect();
            let unit = match (unit.name(), *number == 1.0) {
                ("", _) => String::new(),
                ("/s", _) => " a second".into(),
                (of, true) => {
                    format!(" {}", of.strip_suffix('s').filter(|short| short.len() > 2).unwrap_or(of))
                }
                (of, false) => format!(" {of}"),
            };
            format!("{apart}{rest}{unit}")
        }
    }
}

/// The value of a setting on this machine.
fn value_here(window: &Window, setting: &str) -> Option<String> {
    let files = &window.end.files;
    let at = |path: String| files.text(&path).map(|text| chosen(text).to_string());
    match setting.split_once('/') {
        None => at(format!("proc/sys/{}", setting.replace('.', "/"))),
        Some(("queue", _)) => {
            let end = format!("/{setting}");
            let devices = files.between("sys/block/", &end);
            let is_real = |device: &str| !["loop", "ram", "zram"].iter().any(|kind| device.starts_with(kind));
            let mut values: Vec<&str> =
                devices.filter(|(device, _)| is_real(device)).map(|(_, value)| value).collect();
            values.sort_unstable();
            values.dedup();
            (!values.is_empty()).then(|| values.join(", "))
        }
        Some(_) => at(format!("sys/kernel/mm/{setting}")),
    }
}

fn notes(window: &Window, samples: &Samples) -> Vec<String> {
    let mut notes = Vec::new();
    if window.end.files.more_cgroups {
        notes.push(format!("There are more cgroups than the {} that were read.", super::files::MOST_CGROUPS));
    }
    for (moment, state) in [("beginning", &window.begin), ("end", &window.end)] {
        let damaged = state.damaged.values();
        notes
            .extend(damaged.map(|problem| {
                format!("Not understood, as if it were not there at the {moment}: {problem}")
            }));
    }
    // Counters of a kernel that was booted in between say nothing.
    let (begin, end) = (&samples.begin.files, &samples.end.files);
    let kernels = [begin, end].map(|files| files.text("proc/sys/kernel/osrelease"));
    if let [Some(before), Some(now)] = kernels
        && before != now
    {
        notes.push("The kernel is not the same at begin and end, so rates mean nothing.".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_their_unit() {
        let show = |number: f64, unit| show(&Value::Number(number), unit);
        assert_eq!(show(1234567.8, Unit::PagesPerSecond), "1,234,568 pages/s");
        assert_eq!(show(1234.0, Unit::MiB), "1234 MiB");
        assert_eq!(show(1.0, Unit::Cpus), "1 CPU");
        assert_eq!(show(1.0, Unit::Milliseconds), "1 ms");
        assert_eq!(show(12.34, Unit::Percent), "12.3 %");
        assert_eq!(show(0.5, Unit::PerSecond), "0.50 a second");
        assert_eq!(show(60.0, Unit::None), "60");
    }
}
