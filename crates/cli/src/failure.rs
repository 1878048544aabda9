//! Errors of the command line, and the exit code of each.

use kernel_tree::StoredError;
use lab::calibration::CalibrationError;
use lab::experiment::ExperimentError;
use lab::explain::ExplainError;
use lab::published::TablesError;
use lab::results::ResultsError;
use lab::rulers::{CurveError, SequenceError};
use lab::scenario::ScenarioError;
use lab::sweep::SweepError;
use live::doctor::SavedError;
use live::qemu::QemuError;
use live::record::RecordError;
use live::rollback::GuardError;
use live::verify::VerifyError;
use sim::RunError;
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

/// What an error comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// What was asked for.
    Input,
    /// Something else.
    Other,
}

impl Origin {
    fn input_if(is_input: bool) -> Origin {
        if is_input { Origin::Input } else { Origin::Other }
    }

    /// What is in the directory is the user's; that the disk is full is not.
    fn of_results(error: &ResultsError) -> Origin {
        match error {
            ResultsError::Foreign { .. }
            | ResultsError::Damaged { .. }
            | ResultsError::Earlier { .. }
            | ResultsError::NoStore { .. }
            | ResultsError::Recorded { .. } => Origin::Input,
            ResultsError::Store { .. } => Origin::Other,
            ResultsError::Io { error, .. } => {
                use std::io::ErrorKind::{NotADirectory, NotFound};
                Origin::input_if(matches!(error.kind(), NotFound | NotADirectory))
            }
            ResultsError::Output(error) => Origin::of_output(error),
        }
    }

    /// Where something is to be written is the user's choice; what the system says about it is not.
    fn of_output(error: &OutputError) -> Origin {
        Origin::input_if(!matches!(error, OutputError::Io { .. }))
    }

    /// Every way in which a run cannot be made is something that was asked for, and says what would be possible.
    fn of_experiment(error: &ExperimentError) -> Origin {
        match error {
            ExperimentError::Results(error) => Origin::of_results(error),
            ExperimentError::Threads { .. } | ExperimentError::Contradiction { .. } => Origin::Other,
            // A function of a kernel tree that crashes is no mistake in what was asked for.
            ExperimentError::Run { error, .. } if matches!(**error, RunError::Process(_)) => Origin::Other,
            _ => Origin::Input,
        }
    }

    /// A directory that is not one of ours, or not there, is what was asked for; a disk that is full is not.
    fn of_saved(error: &SavedError) -> Origin {
        match error {
            SavedError::Damaged { .. }
            | SavedError::NotSaved(_)
            | SavedError::Exists(_)
            | SavedError::Io { .. } => Origin::Input,
            SavedError::Output(error) => Origin::of_output(error),
        }
    }

    fn of_sweep(error: &SweepError) -> Origin {
        match error {
            SweepError::Experiment(error) => Origin::of_experiment(error),
            SweepError::Value { error, .. } => Origin::of_sweep(error),
            _ => Origin::Input,
        }
    }

    fn of_calibration(error: &CalibrationError) -> Origin {
        Origin::input_if(!matches!(error, CalibrationError::Run(_) | CalibrationError::OutOfReach { .. }))
    }

    fn of_recording(error: &RecordError) -> Origin {
        match error {
            RecordError::Output(error) => Origin::of_output(error),
            RecordError::NoCommand
            | RecordError::CommandNotFound(_)
            | RecordError::LeftOver { .. }
            | RecordError::ForeignSpool { .. }
            | RecordError::NothingRecorded(_)
            | RecordError::StillRecording(_) => Origin::Input,
            _ => Origin::Other,
        }
    }

    fn of_verification(error: &VerifyError) -> Origin {
        match error {
            VerifyError::Qemu(QemuError::Place(_) | QemuError::Guard(GuardError::Place(_)))
            | VerifyError::Guard(GuardError::Place(_))
            | VerifyError::Recording(_)
            | VerifyError::Trace(_)
            | VerifyError::Release { .. } => Origin::Input,
            _ => Origin::Other,
        }
    }

    fn failure(self, error: impl Into<anyhow::Error>) -> Failure {
        match self {
            Origin::Input => Failure::Input(error.into()),
            Origin::Other => Failure::Other(error.into()),
        }
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

macro_rules! failures {
    ($($error:ty => $origin:expr,)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                let origin: fn(&$error) -> Origin = $origin;
                origin(&error).failure(error)
            }
        }
    )*};
}

failures! {
    ScenarioError => |_| Origin::Input,
    ExplainError => |_| Origin::Input,
    SweepError => Origin::of_sweep,
    StoredError => |_| Origin::Input,
    TablesError => |_| Origin::Input,
    TraceError => |_| Origin::Input,
    AccessError => |_| Origin::Input,
    SequenceError => |_| Origin::Input,
    CurveError => |_| Origin::Input,
    CalibrationError => Origin::of_calibration,
    ResultsError => Origin::of_results,
    ExperimentError => Origin::of_experiment,
    OutputError => Origin::of_output,
    SavedError => Origin::of_saved,
    RecordError => Origin::of_recording,
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Failure {
        if let VerifyError::Interrupted = error {
            crate::terminal::say(&error);
            return Failure::Interrupted;
        }
        Origin::of_verification(&error).failure(error)
    }
}
