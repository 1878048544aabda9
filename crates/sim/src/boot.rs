//! A machine with a kernel before anything runs on it.
//!
//! ```text
//!   Run ─► Boot ─► System ◄── the program that the run's workload asks for
//! ```
//!
//! A program takes what it needs of the run from here and never sees the run, which has the workloads of all programs.

use crate::error::{Misfit, RunError};
use crate::progress::Reached;
use crate::random::{Stream, stream};
use crate::system::System;
use machine::{Cpu, PageSize, Profile, WrongValue};
use mm::memory_map::{MemoryRange, booted_memory};
use mm::{Features, Settings};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// All of a run but what runs.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'a> {
    /// What the kernel does.
    pub features: Features,
    /// The batch of a debugging kernel, twice of which is high, and no scaling.
    pub batch: Option<i32>,
    /// The machine.
    pub machine: &'a Profile,
    /// Settings beyond the defaults.
    pub settings: &'a BTreeMap<String, String>,
    /// Seed of everything random.
    pub seed: u64,
    /// Is told how far the run is.
    pub reached: &'a Reached,
}

impl Boot<'_> {
    /// The system, with so many memory cgroups.
    pub(crate) fn system(&self, cgroups: usize) -> Result<System, RunError> {
        self.system_with(cgroups, &booted_memory(self.machine))
    }

    /// The same on a machine with this memory.
    pub(crate) fn system_with(&self, cgroups: usize, memory: &[MemoryRange]) -> Result<System, RunError> {
        let settings = self.checked_settings()?;
        let noise = self.stream(Stream::SectionSpread, 0);
        let mut system = System::new(self.machine, memory, self.features, settings, cgroups, noise);
        system.reached = self.reached.clone();
        system.mm.enter(&mut system.machine, Cpu(0)).boot_huge_pages();
        if let Some(batch) = self.batch {
            system.mm.force_pagesets(batch, 2 * batch);
        }
        Ok(system)
    }

    fn checked_settings(&self) -> Result<Settings, RunError> {
        let page_size = self.machine.page_size;
        let mut settings = Settings::new(page_size);
        for (name, value) in self.settings {
            settings.set(name, value)?;
        }
        if page_size != PageSize::Kib4 && settings.boot_huge_pages != [0; 2] {
            return Err(RunError::Misfit(Misfit::OutOfRange(WrongValue::new(
                "hugepages-2048kB/boot, hugepages-1048576kB/boot",
                format!("{:?}", settings.boot_huge_pages),
                format!("0 on machine {}: pools of huge pages have base pages of 4 KiB", self.machine.name),
            ))));
        }
        Ok(settings)
    }

    /// The generator of a stream of the run.
    pub(crate) fn stream(&self, name: Stream, index: u64) -> Pcg64Mcg {
        stream(self.seed, name, index)
    }
}
