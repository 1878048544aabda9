//! Errors of a run: its kernel, settings or workload are invalid, or memory ran out.

use crate::kernel_choice::KernelError;
use machine::WrongValue;
use mm::SettingError;
use mm::write::WriteError;
use thiserror::Error;

/// Why a run could not be made.
#[derive(Debug, Error)]
pub enum RunError {
    /// The series or variant does not exist.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel refuses a setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The workload is invalid or does not fit the machine.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The workload's demand for memory is invalid.
    #[error(transparent)]
    Demand(WrongValue),
    /// RAM disks are larger than the machine's free memory.
    #[error("RAM disks need {mib} MiB, which machine {machine} does not have free; take a larger one")]
    TooLarge {
        /// Size of the RAM disks.
        mib: u64,
        machine: String,
    },
    /// Reclaim found nothing, and the OOM killer would have no victim.
    #[error(
        "out of memory, the kernel would kill a process; add memory, swap or a larger max_mib of a cgroup"
    )]
    OutOfMemory,
    /// The kernel's decisions are those of a kernel tree, which this process has not loaded.
    #[error("{variant}: its decisions come from a kernel tree; such runs are made in a process of their own")]
    NoDecisions { variant: String },
    /// The process that made the run failed.
    #[error("{0}")]
    Process(String),
    /// The kernel refuses a write to one of its files.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a workload does not fit.
#[derive(Debug, Error)]
pub enum Misfit {
    /// A value is out of bounds, or more than the machine has.
    #[error("{} = {}: it takes {}", .0.key, .0.value, .0.expected)]
    OutOfRange(WrongValue),
    /// The machine's profile does not say what remote memory costs.
    #[error("machine = {machine}: it takes a machine whose profile has [numa]")]
    NoNuma { machine: String },
}
