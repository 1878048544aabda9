//! Diagnoses the memory manager of a machine by what its files in /proc and /sys say for half a minute. It traces nothing and
//! changes nothing.
//!
//! ```text
//!   files.rs    which files, from / or a saved tree ──► saved.rs   samples: begin, in between, end
//!                                                          │
//!   window.rs   parsed by crate::proc; rates and shares ◄──┘
//!      └─► observations.rs   named values with units ──► diagnosis.rs   rules that hold, what is not seen
//!                                     rules.toml ──► rules.rs, condition.rs ──┘
//! ```
//!
//! Reading is in `files.rs` and `saved.rs` alone; all behind it are functions of texts, so rules are tested on recorded trees. The
//! thresholds in `rules.toml` are choices of this project, not of the kernel: each rule says which rule of the kernel is behind it.

mod condition;
mod diagnosis;
mod files;
mod observations;
mod rules;
mod saved;
mod window;

pub use condition::Condition;
pub use diagnosis::{Diagnosis, Finding, NotSeen, Seen, show};
pub use files::Files;
pub use observations::{ANY_KERNEL, Mechanism, OBSERVATIONS, Observation, Unit, Value};
pub use rules::{Rule, Severity, StandIn, parse as parse_rules, release, rules};
pub use saved::{Moment, Samples, SavedError, make as make_directory, sample};
