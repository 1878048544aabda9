//! When each rule of a kernel came, and how that is known.
//!
//! ```text
//!   crates/mm/src/dates.toml ─► Rule ─► mmtwin list dates, docs/src/reference/dates.md
//!          ▲
//!          └ held against the feature structs and the variant of every release (tests/dates.rs)
//! ```

use mm::series::Known;
use serde::{Deserialize, Serialize};

/// A rule: a field of a feature struct, or one of its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The struct in `mm`.
    #[serde(rename = "struct")]
    pub structure: String,
    /// Its field.
    pub field: String,
    /// Which value, where several came apart; else that it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The first mainline release that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// It was posted and never merged.
    #[serde(default)]
    pub posted: bool,
    /// The first release whose variant has it, where that is not `since`: a variant stands for late stable releases, or the rule
    /// changes nothing before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How it is known.
    pub known: Known,
    /// Stable releases that have it, or lost it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<String>,
    /// What was read, and where.
    pub evidence: String,
}

impl Rule {
    /// Its name: the field, and the value if it has one.
    pub fn name(&self) -> String {
        match &self.value {
            Some(value) => format!("{} = {value}", self.field),
            None => self.field.clone(),
        }
    }

    /// Which releases have it, in words.
    pub fn releases(&self) -> String {
        match (&self.since, &self.until) {
            _ if self.posted => "posted only".into(),
            (Some(since), Some(until)) => format!("{since} to {until}"),
            (Some(since), None) => format!("{since} on"),
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

/// All rules, by struct and field.
pub fn rules() -> Vec<Rule> {
    let file: File = toml::from_str(mm::series::DATES).expect("a test reads it");
    file.rule
}
