//! Rules: what an observation means, and what acts on it. They are data, in `rules.toml` beside this file.
//!
//! ```text
//!   rules.toml ─► Rule: names, units, settings, dates and releases checked ─► diagnosis
//! ```

use std::sync::LazyLock;

use mm::sysctl::Setting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{Condition, known};
use super::observations::{Mechanism, Observation};

/// How bad it is where a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Programs end or stand still.
    Harm,
    /// Programs are slower, or memory is not to be had.
    Cost,
    /// It may be meant; worth a look.
    Note,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Harm => "harm",
            Severity::Cost => "cost",
            Severity::Note => "note",
        }
    }
}

/// What is run in the twin to see what the setting would do.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// The built-in scenario that is most like what is seen.
    pub scenario: String,
    /// The value of the rule's setting that is compared with the present one.
    pub value: String,
    /// The present one where the kernel does not have the setting.
    #[serde(default)]
    pub absent: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    mechanism: Mechanism,
    severity: Severity,
    when: Vec<String>,
    title: String,
    means: String,
    reason: String,
    source: String,
    #[serde(default)]
    settings: Vec<String>,
    #[serde(default)]
    elsewhere: Option<String>,
    #[serde(default)]
    dated_by: Option<String>,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    stand_in: Option<StandIn>,
    sure: Vec<String>,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name: the mechanism and what it is about, `reclaim.thrashing`.
    pub id: String,
    pub mechanism: Mechanism,
    pub severity: Severity,
    /// All of these hold where it does.
    pub when: Vec<Condition>,
    /// What is the matter, in a few words.
    pub title: String,
    /// What it means, with observations in braces.
    pub means: String,
    /// The kernel's rule behind it.
    pub reason: String,
    /// Where that is written.
    pub source: String,
    /// The settings that act on it, the first one first, as `mmtwin list settings` names them.
    pub settings: Vec<&'static Setting>,
    /// What acts on it and is no setting of the twin's.
    pub elsewhere: Option<String>,
    /// The rule of the kernel that decides, as `mmtwin list dates` names it: struct and field.
    pub dated_by: Option<String>,
    /// The first and the last release that it is true of.
    pub since: Option<(u32, u32)>,
    pub until: Option<(u32, u32)>,
    pub stand_in: Option<StandIn>,
    /// Commands that make it certain.
    pub sure: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Written>,
}

/// The rules that come with the program, in the order of their file.
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> =
        LazyLock::new(|| parse(include_str!("rules.toml")).expect("a test reads it"));
    &RULES
}

/// Parses a file of rules.
///
/// # Errors
///
/// A message that names the rule and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let File { rule } = toml::from_str(text).map_err(|error| error.to_string())?;
    let rules = rule.into_iter().map(|written| {
        let id = written.id.clone();
        written.check().map_err(|problem| format!("rule {id}: {problem}"))
    });
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    for (at, rule) in rules.iter().enumerate() {
        if rules[..at].iter().any(|other| other.id == rule.id) {
            return Err(format!("rule {}: there are two of this name", rule.id));
        }
    }
    Ok(rules)
}

/// `6.12` of `6.12`, `6.12.95+deb12-cloud-amd64` or `6.12-rc1`.
pub fn release(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.trim().split_once('.')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..end].parse().ok()?))
}

/// The names in braces of a text.
pub fn names_in(text: &str) -> Vec<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).collect()
}

impl Written {
    fn check(self) -> Result<Rule, String> {
        let when = self.when.iter().map(|text| Condition::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if when.is_empty() {
            return Err("`when` is empty, so that it would always hold".into());
        }
        if !self.id.starts_with(&format!("{}.", self.mechanism.name())) {
            return Err(format!("its name does not begin with `{}.`", self.mechanism.name()));
        }
        for name in names_in(&self.title).into_iter().chain(names_in(&self.means)) {
            known(name)?;
        }
        let setting = |name: &String| {
            let found = mm::SETTINGS.iter().find(|setting| setting.name == *name);
            found.ok_or_else(|| format!("`{name}` is no setting of the twin"))
        };
        let settings = self.settings.iter().map(setting).collect::<Result<Vec<_>, _>>()?;
        if self.stand_in.is_some() && settings.is_empty() {
            return Err("`stand_in` tries a value of a setting, and it has no `settings`".into());
        }
        let of = |text: Option<&String>| match text {
            Some(text) => {
                release(text).map(Some).ok_or_else(|| format!("`{text}` is no release such as 6.12"))
            }
            None => Ok(None),
        };
        let (since, until) = (of(self.since.as_ref())?, of(self.until.as_ref())?);
        Ok(Rule {
            when,
            settings,
            since,
            until,
            id: self.id,
            mechanism: self.mechanism,
            severity: self.severity,
            title: self.title,
            means: self.means,
            reason: self.reason,
            source: self.source,
            elsewhere: self.elsewhere,
            dated_by: self.dated_by,
            stand_in: self.stand_in,
            sure: self.sure,
        })
    }
}

impl Rule {
    /// The observations that it looks at, those of its conditions first.
    pub fn observations(&self) -> Vec<&'static Observation> {
        let named = self.when.iter().map(|condition| condition.of);
        let means = names_in(&self.means);
        let mut found: Vec<&'static Observation> = Vec::new();
        for observation in named.chain(means).filter_map(Observation::find) {
            if found.iter().all(|other| other.name != observation.name) {
                found.push(observation);
            }
        }
        found
    }

    /// Whether it is true of this release; of an unknown one it is.
    pub fn is_of(&self, kernel: Option<(u32, u32)>) -> bool {
        let Some(kernel) = kernel else { return true };
        self.since.is_none_or(|since| kernel >= since) && self.until.is_none_or(|until| kernel <= until)
    }

    /// The dates of the kernel's rule that decides.
    pub fn dates(&self) -> Vec<lab::dates::Rule> {
        let Some((structure, field)) = self.dated_by.as_ref().and_then(|name| name.split_once('.')) else {
            return Vec::new();
        };
        let is_it =
            |rule: &lab::dates::Rule| rule.structure == structure && rule.field == field && !rule.posted;
        lab::dates::rules().into_iter().filter(is_it).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        [[rule]]
        id = "swap.busy"
        mechanism = "swap"
        severity = "cost"
        when = ["swap.in > 10 pages/s"]
        title = "swap is busy"
        means = "{swap.in} come back"
        reason = "so it is"
        source = "a file"
        settings = ["vm.page-cluster"]
        sure = ["mmtwin list settings"]
    "#;

    #[test]
    fn mistakes_name_the_rule() {
        assert_eq!(parse(WHOLE).unwrap().len(), 1);
        let error = |from: &str, to: &str| parse(&WHOLE.replace(from, to)).unwrap_err();
        assert!(error("pages/s", "CPUs").starts_with("rule swap.busy: "));
        assert!(error("{swap.in}", "{swap.on}").contains("`swap.on`"));
        assert!(error("vm.page-cluster", "vm.page_cluster").contains("no setting"));
        assert!(error("swap.busy", "pcp.busy").contains("`swap.`"));
        assert!(error("sure =", "since = \"six\"\nsure =").contains("`six`"));
        assert!(error("[\"swap.in > 10 pages/s\"]", "[]").contains("always"));
        assert!(error("reason", "reasons").contains("unknown field"));
        assert!(parse(&format!("{WHOLE}{WHOLE}")).unwrap_err().contains("two"));
    }

    #[test]
    fn releases_are_read_of_names() {
        assert_eq!(release("6.12.95+deb12-cloud-amd64"), Some((6, 12)));
        assert_eq!(release("7.0-rc1"), Some((7, 0)));
        assert_eq!(release("6"), None);
        let rule = Rule { since: Some((6, 7)), until: Some((6, 12)), ..parse(WHOLE).unwrap().remove(0) };
        let is_of = [(6, 6), (6, 7), (6, 12), (6, 13)].map(|kernel| rule.is_of(Some(kernel)));
        assert_eq!(is_of, [false, true, true, false]);
        assert!(rule.is_of(None));
    }

    /// What rules say of dates is in the dates file.
    #[test]
    fn rules_load_and_their_dates_are_known() {
        for rule in rules() {
            assert!(rule.dated_by.is_none() || !rule.dates().is_empty(), "{}: {:?}", rule.id, rule.dated_by);
            assert!(!rule.settings.is_empty() || rule.elsewhere.is_some(), "{}: nothing acts on it", rule.id);
            assert!(!rule.sure.is_empty(), "{}: no command", rule.id);
        }
    }
}
