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
    /// A file that a decision is in cannot be read.
    #[error("{}: {error}{}", path.display(), needed_by.map(|name| format!(" (it has {name})")).unwrap_or_default())]
    File {
        /// Where the file should be.
        path: PathBuf,
        /// The decision that is in it.
        needed_by: Option<&'static str>,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The tree has no function of that name.
    #[error(
        "{file}: there is no function {function}; if it has another name or file now, say so in crates/kernel_tree/src/decision.rs"
    )]
    NotFound {
        /// The file that should have it.
        file: String,
        /// The name of the function.
        function: String,
    },
    /// The tree has several, and the configuration does not say which is meant.
    #[error(
        "{name} is there twice: {}; a configuration file that says which #if holds decides",
        list(places)
    )]
    Twice {
        /// The name.
        name: String,
        /// Where each of them begins.
        places: Vec<Place>,
    },
    /// A function uses a name that nobody knows.
    #[error(
        "{place}: {function} uses {name}, which neither mmtwin's header nor the files searched have ({}); move it into one of these \
         files, or leave it out of what decides (a tracepoint, a statistic). If it is one of the kernel's own, mmtwin lacks it: \
         add it to crates/kernel_tree/c/{}",
        decision.files().collect::<Vec<_>>().join(", "),
        decision.header
    )]
    Unknown {
        /// Where the name is used.
        place: Place,
        /// The function that uses it.
        function: String,
        /// The name.
        name: String,
        /// The decision that needs it.
        decision: &'static Decision,
    },
    /// A function has a parameter that nobody here can give, or another answer.
    #[error(
        "{place}: {function} has another signature than mmtwin knows: {problem}\n  found:        {found}\n  \
         can be given: {expected}"
    )]
    Signature {
        /// Where it is declared.
        place: Place,
        /// The name of the function.
        function: String,
        /// What of the signature mmtwin does not know.
        problem: String,
        /// The signature in the tree.
        found: Box<str>,
        /// All parameters and answers that mmtwin knows.
        expected: Box<str>,
    },
    /// A field of a structure is of another type than in the header.
    #[error("{place}: {field} has changed\n  found:    {found}\n  expected: {expected}")]
    FieldType {
        /// Where it is declared.
        place: Place,
        /// The field, and of which structure.
        field: String,
        /// The declaration in the tree.
        found: String,
        /// The declaration in mmtwin's header.
        expected: String,
    },
    /// A function does what a decision may not do.
    #[error("{place}: {function} {what}, which a decision may not")]
    Refused {
        /// Where that is.
        place: Place,
        /// The function.
        function: String,
        /// What it does, as a verb and more.
        what: String,
    },
    /// A function needs more than a decision does.
    #[error(
        "{} of {} needs more than {most} functions, macros and types, the last {last}; what it calls belongs into the header of its \
         mechanism",
        decision.name,
        decision.file
    )]
    TooMuch {
        /// The decision.
        decision: &'static Decision,
        /// How many functions, macros and types there may be.
        most: usize,
        /// The last one that was needed.
        last: String,
    },
    /// The compiler cannot be run.
    #[error("{command}: {error}")]
    NoCompiler {
        /// The command that was run.
        command: String,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The compiler refuses what was taken.
    #[error(
        "the compiler refuses what was taken from the tree; names and lines are those of the tree's files:\n{messages}"
    )]
    Compile {
        /// What the compiler says.
        messages: String,
    },
    /// The object is not what was compiled.
    #[error("{}: {message}", object.display())]
    Object {
        /// The file of the object.
        object: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Only a process that has the sanitizer's runtime from its start can load such an object.
    #[error("AddressSanitizer has to be there before the program starts: LD_PRELOAD={runtime}")]
    NoSanitizer {
        /// The library that the sanitizer is in.
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
