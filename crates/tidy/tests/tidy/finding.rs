//! What a rule is, and what it finds.

use crate::workspace::Workspace;

/// A rule of the house.
pub struct Rule {
    /// Its heading in `exceptions.toml`.
    pub name: &'static str,
    /// What to do where it is broken.
    pub remedy: &'static str,
    /// Where it is broken.
    pub check: fn(&Workspace) -> Vec<Finding>,
}

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    /// What breaks it, by a name that stays the same while lines move: an item, and what it calls or reads.
    pub item: String,
    /// By how much: lines, parameters, files; 1 where a rule is broken or not. Several findings of one item add up.
    pub amount: usize,
    /// What is found there.
    pub message: String,
}

impl Finding {
    /// How `exceptions.toml` names it.
    pub fn key(&self) -> String {
        match self.item.is_empty() {
            true => self.file.clone(),
            false => format!("{}: {}", self.file, self.item),
        }
    }
}
