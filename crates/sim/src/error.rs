//! Why a run could not be made: its kernel, its settings or its workload is none that can be had, or memory ran out on the way.

use crate::kernel_choice::KernelError;
use machine::WrongValue;
use mm::SettingError;
use mm::hugetlb::WriteError;
use thiserror::Error;

/// Why a run could not be made.
#[derive(Debug, Error)]
pub enum RunError {
    /// There is no such kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel does not take a setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The run asks for what cannot be had.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The recorded processes cannot be read.
    #[error("{0}")]
    Profile(String),
    /// The recorded trace cannot be read or replayed.
    #[error("{0}")]
    Trace(String),
    /// A workload's demand for memory cannot be made.
    #[error(transparent)]
    Demand(WrongValue),
    /// RAM disks are larger than the machine's memory.
    #[error("RAM disks need {mib} MiB, which machine {machine} does not have free; take a larger one")]
    TooLarge {
        /// What they need.
        mib: u64,
        /// The machine.
        machine: String,
    },
    /// Nothing was left to reclaim.
    #[error("out of memory, the kernel would kill a process; add memory, swap or a larger cgroup_max_mib")]
    OutOfMemory,
    /// The kernel refuses a write.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a run cannot be had.
#[derive(Debug, Error)]
pub enum Misfit {
    /// A value is out of bounds, or more than the machine has room for.
    #[error("{} = {}: it takes {}", .0.key, .0.value, .0.expected)]
    OutOfRange(WrongValue),
    /// Of the machine nobody has said what memory on other nodes costs.
    #[error("machine = {machine}: it takes a machine whose profile has [numa]")]
    NoNuma {
        /// The machine.
        machine: String,
    },
}
