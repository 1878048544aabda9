//! The report of a verification: counters of the kernel and of the twin side by side.
//!
//! ```text
//!   Report   kernel, counters, notes
//!     Entry  case, counter: the kernel's value, the twin's value, what the comparison allows for (Cause)
//!     Cases  how many cases agree as a whole
//! ```

use schemars::JsonSchema;

use serde::Serialize;

use super::Causes;

/// The result of a verification.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Report {
    /// Releases of the kernels that the twin was compared with, separated by commas.
    pub kernel: String,
    /// Why recordings were used instead of the running kernel, if they were.
    pub fallback: Option<String>,
    /// The compared counters.
    pub entries: Vec<Entry>,
    /// Remarks, such as which cases were skipped and why.
    pub notes: Vec<String>,
    /// How many cases agree, for mechanisms that compare each case as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cases: Option<Cases>,
}

/// Outcomes of cases that are compared as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Cases {
    /// Twin and kernel agree in everything.
    pub exact: u64,
    /// Something differs.
    pub differing: u64,
    /// Nothing differs, but other processes changed the machine's counters, so that these could not be
    /// compared.
    pub disturbed: u64,
}

impl std::ops::Add for Cases {
    type Output = Cases;

    fn add(self, other: Cases) -> Cases {
        Cases {
            exact: self.exact + other.exact,
            differing: self.differing + other.differing,
            disturbed: self.disturbed + other.disturbed,
        }
    }
}

/// A counter of the kernel and of the twin.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Entry {
    /// The recording or workload.
    pub case: String,
    /// Name of the counter.
    pub counter: String,
    /// The kernel's value.
    pub kernel: u64,
    /// The twin's value.
    pub twin: u64,
    /// `twin / kernel - 1`; `None` if the kernel's value is 0 and the twin's is not.
    pub error: Option<f64>,
    /// What the comparison allows for, and how often it occurred.
    pub causes: Causes,
}

impl Entry {
    /// An entry whose error is computed from the two values.
    pub fn new(case: &str, counter: impl Into<String>, kernel: u64, twin: u64, causes: Causes) -> Entry {
        let error = match (kernel, twin) {
            (0, 0) => Some(0.0),
            (0, _) => None,
            _ => Some(twin as f64 / kernel as f64 - 1.0),
        };
        Entry { case: case.to_string(), counter: counter.into(), kernel, twin, error, causes }
    }

    /// Whether a difference between the two values would be an error of the twin.
    pub fn is_comparable(&self) -> bool {
        !self.causes.iter().any(|(cause, _)| cause.rules_out_comparison())
    }
}

/// How many decisions of one kind agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of decisions.
    pub all: u64,
    /// Number of decisions in which twin and kernel agree.
    pub exact: u64,
}

impl Agreement {
    /// Counts one more decision.
    pub fn note(&mut self, exact: bool) {
        self.all += 1;
        self.exact += u64::from(exact);
    }

    /// The fraction that agrees; 1 if there are no decisions.
    pub fn share(&self) -> f64 {
        if self.all == 0 { 1.0 } else { self.exact as f64 / self.all as f64 }
    }
}
