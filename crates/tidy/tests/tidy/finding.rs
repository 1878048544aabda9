//! House rules and their findings.

use crate::workspace::Workspace;

pub struct Rule {
    /// The rule's section in `exceptions.toml`.
    pub name: &'static str,
    /// How to fix a violation.
    pub remedy: &'static str,
    /// Finds all violations.
    pub check: fn(&Workspace) -> Vec<Finding>,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    /// What violates the rule, by a name that does not change when lines move: an item, and what it calls or
    /// reads.
    pub item: String,
    /// The amount: lines, parameters or files; 1 for rules without amounts. The amounts of an item are added
    /// up.
    pub amount: usize,
    /// What is wrong there.
    pub message: String,
}

impl Finding {
    /// The key in `exceptions.toml`.
    pub fn key(&self) -> String {
        match self.item.is_empty() {
            true => self.file.clone(),
            false => format!("{}: {}", self.file, self.item),
        }
    }
}
