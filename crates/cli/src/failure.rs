//! Why a command fails, and the exit code that goes with it.

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

/// Why a command fails.
#[derive(Debug)]
pub enum Failure {
    /// It was asked for something impossible; exit code 2.
    Input(anyhow::Error),
    /// Something else went wrong; exit code 1.
    Other(anyhow::Error),
    /// The twin is further from the kernel, or a metric from its base, than it may be, as the report said; exit code 1.
    Outside,
    /// Arguments that make no command, as clap said; exit code 2.
    Arguments,
    /// Ctrl-C, after what was done is safe; exit code 130.
    Interrupted,
    /// Who reads the output has seen enough (`| head`); 141, as a shell has it of programs that SIGPIPE ends.
    Unread,
}

impl Failure {
    /// What to tell the user, if it was not told yet.
    pub fn message(&self) -> Option<String> {
        match self {
            Failure::Input(error) | Failure::Other(error) => Some(with_causes(error)),
            Failure::Outside | Failure::Arguments | Failure::Interrupted | Failure::Unread => None,
        }
    }

    /// The exit code of the process.
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

    /// What failed in a run, as opposed to what was asked for or the disk.
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

    /// Something impossible, in words.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::Input(anyhow::Error::msg(message.into()))
    }
}

/// An error and what caused it, where its own text does not say that already.
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

/// What is in the directory is the user's; that the disk is full is not.
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
            // Every way in which a run cannot be made is something that was asked for, and says what would be possible.
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

/// Where something is to be written is the user's choice; what the system says about it is not.
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
