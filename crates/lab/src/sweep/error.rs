//! Why a sweep cannot be made, and what would be right.

use crate::experiment::ExperimentError;
use crate::scenario::ScenarioError;
use thiserror::Error;

/// Why a sweep cannot be made.
#[derive(Debug, Error)]
pub enum SweepError {
    /// A scenario, a machine or a value of a key is wrong.
    #[error(transparent)]
    Scenario(ScenarioError),
    /// A scenario cannot be run.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A key that there is not.
    #[error(
        "--over {key}: no such key{like}; it takes kernel settings (`mmtwin list settings`), memory, machine, \
         features.MECHANISM.FEATURE, workload.KEY and machine.TABLE.KEY"
    )]
    UnknownKey { key: String, like: String },
    /// A specification of values that is none.
    #[error("--over {text}: expected {expected}")]
    Space { text: String, expected: String },
    /// Nothing to search.
    #[error(
        "nothing to search: give at least one setting with its values, as --over vm.swappiness=0..200, or in a file below [over]"
    )]
    NoSpace,
    /// A key is there twice.
    #[error("--over {key}: given twice; give all its values at once, as in {key}=V1,V2")]
    RepeatedKey { key: String },
    /// A key has a fixed value too.
    #[error(
        "--over {key}: it has a fixed value too, by --set or in the settings of a member; give one of them"
    )]
    SetTwice { key: String },
    /// Scenarios are what a fleet has several of.
    #[error(
        "--over scenario: a sweep chooses settings for scenarios; name several scenarios as [[fleet]] in a sweep file"
    )]
    ScenarioIsNoKey,
    /// All values of a key are the default.
    #[error("--over {key}: nothing but the default; give other values")]
    OnlyDefault { key: String },
    /// Values of keys that are to go together are of different numbers.
    #[error("zip: all keys need as many values; {of}; ranges are split to --points")]
    Unequal { of: String },
    /// A grid that nobody can run.
    #[error(
        "a grid of {} points; fewer --points, or --method random --samples N, or halving --samples N",
        of.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
    )]
    TooManyPoints { of: Vec<usize> },
    /// A number of draws where nothing is drawn.
    #[error(
        "--samples: {method} draws nothing; --points says into how many values a range is split, --method random draws"
    )]
    NoSamples { method: &'static str },
    /// A metric that there is not.
    #[error("{name}: no such metric; most like it: {like}; `mmtwin list metrics` has all")]
    UnknownMetric { name: String, like: String },
    /// A goal and its opposite.
    #[error("{metric}: to be made smaller and larger; drop one of the goals")]
    OpposedGoals { metric: String },
    /// A goal that is there twice.
    #[error("{metric}: a goal twice; drop one of them")]
    RepeatedGoal { metric: String },
    /// A metric that no member has, in this list of goals or constraints.
    #[error("{metric}: no workload here has this metric: {of}; `mmtwin list metrics` says which have it")]
    NoMember { list: &'static str, metric: String, of: String },
    /// A member that counts for no goal.
    #[error("{member} has the metric of no goal; add one that it has, or leave it out")]
    NoGoal { member: String },
    /// A run that lacks a metric.
    #[error("{metric}: runs of {member} do not have it with the keys that this scenario has")]
    NotMeasured { metric: String, member: String },
    /// A constraint that is none.
    #[error("constraint {text:?}: expected {expected}")]
    Constraint { text: String, expected: String },
    /// Two constraints that nothing can keep.
    #[error("constraints {one:?} and {other:?} contradict each other; change or drop one of them")]
    Contradictory { one: String, other: String },
    /// A value of a key that a member does not take.
    #[error("{error}")]
    Value { key: String, error: Box<SweepError> },
}

impl SweepError {
    /// The key of a sweep file that it is about, table by table; none if it is about the whole.
    pub fn path(&self) -> Vec<&str> {
        match self {
            SweepError::UnknownKey { key, .. }
            | SweepError::RepeatedKey { key }
            | SweepError::SetTwice { key }
            | SweepError::OnlyDefault { key }
            | SweepError::Value { key, .. } => vec!["over", key],
            SweepError::Space { text, .. } => vec!["over", text.split('=').next().unwrap_or_default()],
            SweepError::ScenarioIsNoKey => vec!["over", "scenario"],
            SweepError::NoSpace | SweepError::TooManyPoints { .. } | SweepError::Unequal { .. } => {
                vec!["over"]
            }
            SweepError::NoSamples { .. } => vec!["samples"],
            SweepError::NoMember { list, .. } => vec![list],
            SweepError::Constraint { .. } | SweepError::Contradictory { .. } => vec!["constraints"],
            SweepError::NoGoal { .. } => vec!["fleet"],
            _ => Vec::new(),
        }
    }
}

impl From<ScenarioError> for SweepError {
    fn from(error: ScenarioError) -> SweepError {
        match error {
            ScenarioError::UnknownKey { key, like } => SweepError::UnknownKey { key, like },
            error => SweepError::Scenario(error),
        }
    }
}
