//! A value that cannot be, and what could: what errors of machine profiles, scenarios and settings have in common.
//!
//! ```text
//!   demand.groups[0].mib = 0: 1 to 1048576        key, value, what is expected
//! ```

use std::fmt;

/// What is wrong with the value of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {expected}")]
pub struct WrongValue {
    /// The key, with the tables that it is in.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl WrongValue {
    /// Of a key, as it is called where it is looked at.
    pub fn new(key: impl Into<String>, value: impl ToString, expected: impl Into<String>) -> WrongValue {
        WrongValue { key: key.into(), value: value.to_string(), expected: expected.into() }
    }

    /// The same, with what its key is in: `table.key`.
    pub fn within(self, table: impl fmt::Display) -> WrongValue {
        WrongValue { key: format!("{table}.{}", self.key), ..self }
    }
}
