//! Errors of the command line, and the exit code of each.

use lab::calibration::CalibrationError;
use lab::experiment::ExperimentError;
use lab::published::TablesError;
use lab::results::ResultsError;
use lab::rulers::{CurveError, SequenceError};
use lab::scenario::ScenarioError;
use live::qemu::QemuError;
use live::record::RecordError;
use live::rollback::GuardError;
use live::verify::VerifyError;
use std::process::ExitCode;
use workload::access::AccessError;
use workload::output::OutputError;
use workload::trace::TraceError;

/// Why a command fails; the variant determines the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The request cannot be met: an unknown name, a value out of bounds, a damaged file. Exit code 2.
    Input(anyhow::Error),
    /// Something else failed, such as the disk or the kernel. Exit code 1.
    Other(anyhow::Error),
    /// `verify` found counters outside their bounds, or `compare --fail-if` a regression; the report has said so. Exit
    /// code 1.
    Outside,
    /// The arguments do not parse; clap has printed why. Exit code 2.
    Arguments,
    /// Ctrl-C; finished runs are kept. Exit code 130.
    Interrupted,
    /// The reader of stdout closed the pipe (`| head`). Exit code 141, which a shell reports for a process
    /// that SIGPIPE kills.
    Unread,
}

impl Failure {
    /// The error message, or `None` if it was printed before.
    pub fn message(&self) -> Option<String> {
        match self {
            Failure::Input(error) | Failure::Other(error) => Some(with_causes(error)),
            Failure::Outside | Failure::Arguments | Failure::Interrupted | Failure::Unread => None,
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Input(_) | Failure::Arguments => ExitCode::from(2),
            Failure::Other(_) | Failure::Outside => ExitCode::from(1),
            Failure::Interrupted => ExitCode::from(130),
            Failure::Unread => ExitCode::from(141),
        }
    }

    fn new(is_input: bool, error: impl Into<anyhow::Error>) -> Failure {
        if is_input { Failure::Input(error.into()) } else { Failure::Other(error.into()) }
    }

    /// The reason why a simulation run failed, or `None` if the failure is another one (a bad argument, the
    /// disk).
    pub fn of_run(&self) -> Option<String> {
        match self {
            Failure::Input(error) | Failure::Other(error) => match error.downcast_ref::<ExperimentError>()? {
                error @ (ExperimentError::Run { .. } | ExperimentError::Contradiction { .. }) => {
                    Some(error.to_string())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A [`Failure::Input`] with this message.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::Input(anyhow::Error::msg(message.into()))
    }
}

/// The error and its causes, separated by colons; causes that its own text already contains are left out.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.is_empty() => cause,
        cause if text.contains(&cause) => text,
        cause => format!("{text}: {cause}"),
    })
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Other(error)
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Failure {
        Failure::new(true, error)
    }
}

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Failure {
        Failure::new(!matches!(error, CalibrationError::Run(_) | CalibrationError::OutOfReach { .. }), error)
    }
}

impl From<TablesError> for Failure {
    fn from(error: TablesError) -> Failure {
        Failure::new(true, error)
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        Failure::new(true, error)
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        Failure::new(true, error)
    }
}

impl From<SequenceError> for Failure {
    fn from(error: SequenceError) -> Failure {
        Failure::new(true, error)
    }
}

impl From<CurveError> for Failure {
    fn from(error: CurveError) -> Failure {
        Failure::new(true, error)
    }
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Failure {
        Failure::new(results_are_input(&error), error)
    }
}

/// Damaged or foreign files in the results directory are the user's to fix; a full disk is not a mistake in
/// the input.
fn results_are_input(error: &ResultsError) -> bool {
    match error {
        ResultsError::Foreign { .. }
        | ResultsError::Damaged { .. }
        | ResultsError::Earlier { .. }
        | ResultsError::Recorded { .. } => true,
        ResultsError::Io { error, .. } => {
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
        ResultsError::Output(error) => output_is_input(error),
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Failure {
        let is_input = match &error {
            ExperimentError::Results(error) => results_are_input(error),
            // Whenever a run cannot be made, the request was impossible, and the error names what is
            // possible.
            ExperimentError::Run { .. } => true,
            ExperimentError::Threads { .. } | ExperimentError::Contradiction { .. } => false,
            _ => true,
        };
        Failure::new(is_input, error)
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        Failure::new(output_is_input(&error), error)
    }
}

/// The path is the user's choice; an I/O error while writing to it is not.
fn output_is_input(error: &OutputError) -> bool {
    !matches!(error, OutputError::Io { .. })
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Failure {
        let is_input = match &error {
            RecordError::Output(error) => output_is_input(error),
            error => matches!(
                error,
                RecordError::NoCommand
                    | RecordError::CommandNotFound(_)
                    | RecordError::LeftOver { .. }
                    | RecordError::ForeignSpool { .. }
                    | RecordError::NothingRecorded(_)
                    | RecordError::StillRecording(_)
            ),
        };
        Failure::new(is_input, error)
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Failure {
        match error {
            VerifyError::Interrupted => {
                crate::terminal::say(&error);
                Failure::Interrupted
            }
            VerifyError::Qemu(QemuError::Place(_) | QemuError::Guard(GuardError::Place(_)))
            | VerifyError::Guard(GuardError::Place(_)) => Failure::new(true, error),
            VerifyError::Recording(_) | VerifyError::Trace(_) | VerifyError::Release { .. } => {
                Failure::new(true, error)
            }
            _ => Failure::new(false, error),
        }
    }
}
