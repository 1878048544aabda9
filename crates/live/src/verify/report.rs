//! What a verification says: numbers of the kernel beside the twin's.
//!
//! ```text
//!   Report   kernel, numbers, notes
//!     Entry  case, counter: the kernel's number, the twin's, what was allowed for (Cause)
//!     Cases  how many cases agree as a whole
//! ```

use serde::Serialize;

use super::Causes;

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Release of the kernel that judged.
    pub kernel: String,
    /// Why recordings were judged instead of the running kernel, if so.
    pub fallback: Option<String>,
    /// The numbers.
    pub entries: Vec<Entry>,
    /// What was skipped, and why.
    pub notes: Vec<String>,
    /// How many cases agree, where each is judged as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cases: Option<Cases>,
}

/// What became of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cases {
    /// The twin does all that the kernel does.
    pub exact: u64,
    /// Something differs.
    pub differing: u64,
    /// Nothing differs, but other processes moved counters, which could not be compared.
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

/// One number of the kernel beside the twin's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The recording or workload.
    pub case: String,
    /// What was counted.
    pub counter: String,
    /// The kernel's number.
    pub kernel: u64,
    /// The twin's.
    pub twin: u64,
    /// `twin / kernel - 1`; `None` where the kernel's number is 0 and the twin's is not.
    pub error: Option<f64>,
    /// What the comparison had to allow for, and how often.
    pub causes: Causes,
}

impl Entry {
    /// An entry; the error follows from the numbers.
    pub fn new(case: &str, counter: impl Into<String>, kernel: u64, twin: u64, causes: Causes) -> Entry {
        let error = match (kernel, twin) {
            (0, 0) => Some(0.0),
            (0, _) => None,
            _ => Some(twin as f64 / kernel as f64 - 1.0),
        };
        Entry { case: case.to_string(), counter: counter.into(), kernel, twin, error, causes }
    }

    /// Whether the difference between the two says something about the twin.
    pub fn is_comparable(&self) -> bool {
        !self.causes.iter().any(|(cause, _)| cause.rules_out_comparison())
    }
}

/// How many of some decisions agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// All.
    pub all: u64,
    /// Those where twin and kernel agree.
    pub exact: u64,
}

impl Agreement {
    /// One more.
    pub fn note(&mut self, exact: bool) {
        self.all += 1;
        self.exact += u64::from(exact);
    }

    /// The share that agrees; 1 where there is nothing to disagree about.
    pub fn share(&self) -> f64 {
        if self.all == 0 { 1.0 } else { self.exact as f64 / self.all as f64 }
    }
}
