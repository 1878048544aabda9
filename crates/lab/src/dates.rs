//! Dates of the kernel's rules: since which release each is in the kernel, and how that is known.
//!
//! ```text
//!   crates/mm/src/dates.toml ─► Rule ─► mmtwin list dates, docs/src/reference/dates.md
//!          ▲
//!          └ compared with the feature structs and the variant of every release (tests/dates.rs)
//! ```

use mm::series::Known;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rule: a field of a feature struct, or one of its values.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the struct in `mm`.
    #[serde(rename = "struct")]
    pub structure: String,
    /// Name of the field.
    pub field: String,
    /// The value, if several were introduced separately; otherwise the rule is that the field is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The first mainline release with the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The last mainline release with the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether it was only posted, never merged.
    #[serde(default)]
    pub posted: bool,
    /// The first release whose variant has the rule, if not `since`: a variant stands for late stable
    /// releases, or the rule has no effect before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Hash of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Subject of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[schemars(with = "String")]
    pub known: Known,
    /// Stable releases that got or lost it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<String>,
    /// What was read, and where.
    pub evidence: String,
}

impl Rule {
    /// Name of the rule: the field, with the value if there is one.
    pub fn name(&self) -> String {
        match &self.value {
            Some(value) => format!("{} = {value}", self.field),
            None => self.field.clone(),
        }
    }

    /// The releases with the rule, in words.
    pub fn releases(&self) -> String {
        match (&self.since, &self.until) {
            _ if self.posted => "posted only".into(),
            (Some(since), Some(until)) => format!("{since} to {until}"),
            (Some(since), None) => format!("since {since}"),
            (None, Some(until)) => format!("until {until}"),
            (None, None) => "all".into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Rule>,
}

/// All rules, sorted by struct and field.
pub fn rules() -> Vec<Rule> {
    let file: File = toml::from_str(mm::series::DATES).expect("a test reads it");
    file.rule
}
