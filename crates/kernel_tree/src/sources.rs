//! What two trees have of all decisions: which functions are the same, which are changed, and what is compiled to compare those.
//!
//! ```text
//!   kernel add ─► survey of the tree, and of the one that it is compared with ─► sources.json
//!   kernel diff ─► standing of each function ─► changed ones of both trees compiled ─► crate::judge asks both
//! ```
//!
//! Trees go on changing after they were added, so their functions are kept with the kernel; a compiler runs where they are compared.

use crate::compiler::{Compiler, Object};
use crate::decision::{DECISIONS, Decision};
use crate::error::Error;
use crate::extract::{Extract, Survey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What a tree and the one that it is compared with have of all decisions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    pub tree: TreeSources,
    /// The tree whose functions count as unchanged, if there is one.
    pub other: Option<TreeSources>,
}

/// What a tree has of all decisions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSources {
    /// What the tree is called in messages.
    pub called: String,
    /// All functions that can be taken.
    extract: Extract,
    /// Functions that are there and cannot be taken, and why.
    refused: BTreeMap<String, String>,
}

/// How a function of a tree stands to that of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Both have the same text, with all that it needs.
    Same,
    /// The texts differ, or there is no other tree.
    Changed,
    /// Only this tree has the function.
    New,
    /// This tree does not have the function.
    Missing,
    /// One of them cannot be taken, and why.
    Refused(String),
}

/// Functions that were left out, each with the reason.
pub type LeftOut = Vec<(&'static Decision, String)>;

impl TreeSources {
    /// All that can be taken of a tree, and why the rest cannot.
    pub fn of(survey: &Survey, called: String) -> (TreeSources, Vec<(&'static Decision, Error)>) {
        let all: Vec<&'static Decision> = DECISIONS.iter().collect();
        let (mut can_be_taken, mut refused) = (Vec::new(), Vec::new());
        for surveyed in survey.each(&all) {
            match surveyed.found {
                Ok(_) => can_be_taken.push(surveyed.decision),
                Err(error) => refused.push((surveyed.decision, error)),
            }
        }
        // What can be taken alone can be taken together; were it not so, there would be none to compare.
        let extract = survey.take(&can_be_taken).unwrap_or_default();
        let reasons = refused.iter().filter(|(_, error)| !error.is_missing());
        let refused_for = reasons.map(|(decision, error)| (decision.name.to_string(), error.to_string()));
        (TreeSources { called, extract, refused: refused_for.collect() }, refused)
    }

    /// Hash of the text of a function and of all that it needs, if it can be taken.
    pub fn hash(&self, decision: &Decision) -> Option<String> {
        self.extract.found(decision).map(|found| self.extract.text_hash(found))
    }

    /// File and line of a function, if it can be taken.
    pub fn place(&self, decision: &Decision) -> Option<String> {
        self.extract.found(decision).map(|found| found.place.to_string())
    }

    /// How a function stands to that of another tree.
    pub fn standing(&self, decision: &Decision, other: Option<&TreeSources>) -> Standing {
        let refused = |tree: &TreeSources| tree.refused.get(decision.name).cloned().map(Standing::Refused);
        let Some(hash) = self.hash(decision) else { return refused(self).unwrap_or(Standing::Missing) };
        let Some(other) = other else { return Standing::Changed };
        match other.hash(decision) {
            Some(of_other) if of_other == hash => Standing::Same,
            Some(_) => Standing::Changed,
            None => refused(other).unwrap_or(Standing::New),
        }
    }

    /// Compiles some functions in `directory`; those that do not compile are left out, each with what the compiler says.
    pub fn compile(
        &self,
        wanted: &[&'static Decision],
        compiler: &Compiler,
        directory: &Path,
    ) -> Result<(Object, LeftOut), Error> {
        let compile = |wanted: &[&'static Decision]| compiler.compile(&self.extract.only(wanted), directory);
        match compile(wanted) {
            Ok(object) => Ok((object, Vec::new())),
            Err(Error::Compile { .. }) => {
                let (mut compiled, mut refused) = (Vec::new(), Vec::new());
                for decision in wanted {
                    match compile(&[decision]) {
                        Ok(_) => compiled.push(*decision),
                        Err(error) => refused.push((*decision, error.to_string())),
                    }
                }
                Ok((compile(&compiled)?, refused))
            }
            Err(error) => Err(error),
        }
    }
}
