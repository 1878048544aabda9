//! What stands in the way of taking decisions out of a tree, said for whoever changed it.

use crate::decision::Decision;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A line of a tree's file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The file, from the root of the tree.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why decisions cannot be taken from a tree.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that a decision is in.
    #[error("{}: {error}{}", path.display(), needed_by.map(|name| format!(" (it has {name})")).unwrap_or_default())]
    File {
        /// Where it should be.
        path: PathBuf,
        /// The decision that is in it.
        needed_by: Option<&'static str>,
        /// What the system says.
        error: std::io::Error,
    },
    /// No function of that name.
    #[error(
        "{file}: there is no function {function}; if it has another name or file now, say so in crates/kernel_tree/src/decision.rs"
    )]
    NotFound {
        /// Where it should be.
        file: String,
        /// Which one.
        function: String,
    },
    /// Several, and the configuration does not say which.
    #[error(
        "{name} is there twice: {}; a configuration file that says which #if holds decides",
        list(places)
    )]
    Twice {
        /// Of that name.
        name: String,
        /// Where.
        places: Vec<Place>,
    },
    /// A name that nobody knows.
    #[error(
        "{place}: {function} uses {name}, which mmtwin's header does not have and the files searched do not define; add it to \
         crates/kernel_tree/c/{}, or its file to those of the decision ({})",
        decision.header,
        decision.files().collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// Where it is used.
        place: Place,
        /// By whom.
        function: String,
        /// What.
        name: String,
        /// For which decision.
        decision: &'static Decision,
    },
    /// A parameter that nobody here can give.
    #[error("{place}: {function} has changed\n  found:    {found}\n  expected: {expected}")]
    Signature {
        /// Where it is declared.
        place: Place,
        /// Which function.
        function: String,
        /// As it is there.
        found: String,
        /// What can be given.
        expected: String,
    },
    /// A field of another type than the header's.
    #[error("{place}: {field} has changed\n  found:    {found}\n  expected: {expected}")]
    FieldType {
        /// Where it is declared.
        place: Place,
        /// The field, and of which structure.
        field: String,
        /// As it is there.
        found: String,
        /// As it is in the header.
        expected: String,
    },
    /// What a decision may not do.
    #[error("{place}: {function} {what}, which a decision may not")]
    Refused {
        /// Where.
        place: Place,
        /// Who.
        function: String,
        /// What it does.
        what: String,
    },
    /// More than a decision is.
    #[error(
        "{} of {} needs more than {most} functions, macros and types, the last {last}; what it calls belongs into the header of its \
         mechanism",
        decision.name,
        decision.file
    )]
    TooMuch {
        /// Which decision.
        decision: &'static Decision,
        /// How many there may be.
        most: usize,
        /// What came last.
        last: String,
    },
    /// The compiler does not run.
    #[error("{command}: {error}")]
    NoCompiler {
        /// How it was called.
        command: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// The compiler refuses.
    #[error(
        "the compiler refuses what was taken from the tree; names and lines are those of the tree's files:\n{messages}"
    )]
    Compile {
        /// What it says.
        messages: String,
    },
    /// The object is not what was compiled.
    #[error("{}: {message}", object.display())]
    Object {
        /// Which one.
        object: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Only a process that has the sanitizer's runtime from its start can load such an object.
    #[error("AddressSanitizer has to be there before the program starts: LD_PRELOAD={runtime}")]
    NoSanitizer {
        /// Its library.
        runtime: String,
    },
}

impl Error {
    /// Whether the tree has no such function, which leaves the twin's own rule in its place.
    pub fn is_missing(&self) -> bool {
        match self {
            Error::NotFound { .. } => true,
            Error::File { error, .. } => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

fn list(places: &[Place]) -> String {
    places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ")
}
