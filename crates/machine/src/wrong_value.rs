//! A wrong value in a machine profile, scenario or setting, and what is expected instead.
//!
//! ```text
//!   demand.groups[0].mib = 0: 1 to 1048576        key, value, what is expected
//! ```

use std::fmt;

/// A key with a wrong value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {expected}")]
pub struct WrongValue {
    /// The key, with its tables.
    pub key: String,
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl WrongValue {
    /// A wrong value of `key`.
    pub fn new(key: impl Into<String>, value: impl ToString, expected: impl Into<String>) -> WrongValue {
        WrongValue { key: key.into(), value: value.to_string(), expected: expected.into() }
    }

    /// The same error with the key inside a table: `table.key`.
    pub fn within(self, table: impl fmt::Display) -> WrongValue {
        WrongValue { key: format!("{table}.{}", self.key), ..self }
    }
}
