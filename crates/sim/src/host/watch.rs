//! A look at a host while it runs: what the memory manager has counted, and the areas of processes.

use super::Workload;
use super::engine::Host;
use crate::{Boot, RunError};
use machine::Time;
use mm::MemoryManager;
use mm::address_space::{MmId, Vpn};
use std::ops::Range;

/// An area of a process.
#[derive(Clone, Debug)]
pub struct Area {
    /// Number of its program; copies are programs of their own.
    pub program: usize,
    /// Number of its process among those of all programs.
    pub process: usize,
    /// Number of the area within its process.
    pub number: usize,
    pub mm: MmId,
    pub pages: Range<Vpn>,
}

/// Makes a run and calls `look` at the given times with the memory manager and the areas of processes that run. `times` ascend and
/// count from when all processes have started their threads. The run ends with the last of them.
pub fn watch(
    boot: &Boot,
    spec: &Workload,
    times: &[Time],
    mut look: impl FnMut(Time, &MemoryManager, &[Area]),
) -> Result<(), RunError> {
    let mut system = boot.system()?;
    let mut host = Host::new(boot, spec, &mut system)?;
    let began = host.begin(&mut system, super::milliseconds(spec.milliseconds));
    let mut now = began;
    for &time in times {
        host.run_until(&mut system, now..began + time);
        now = began + time;
        look(time, &system.mm, &host.areas());
    }
    host.check()
}
