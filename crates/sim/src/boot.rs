//! A machine with a kernel, before a program runs on it.
//!
//! ```text
//!   Run ─► Boot ─► System ◄── the program that the run's workload asks for
//! ```
//!
//! Programs get this instead of the [`Run`](crate::Run), which knows the workloads of all programs.

use crate::error::{Misfit, RunError};
use crate::progress::RunProgress;
use crate::random::{Stream, stream};
use crate::system::{System, Validation};
use machine::timeline::Window;
use machine::{Cpu, PageSize, Profile, WrongValue};
use mm::memory_map::booted_memory;
use mm::{Decisions, Features, Settings};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// A run without its workload.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'a> {
    /// Features of the kernel.
    pub features: Features,
    /// Who decides: the twin's own rules, or functions of a kernel tree.
    pub decisions: Decisions,
    /// For a debugging kernel, the fixed `pcp->batch`; `high` is twice that, and neither is scaled.
    pub batch: Option<i32>,
    pub machine: &'a Profile,
    /// Settings that differ from the defaults.
    pub settings: &'a BTreeMap<String, String>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Where progress is reported.
    pub progress: &'a RunProgress,
    /// Steps of CPUs between two checks of the memory manager's invariants; none if absent.
    pub validate_every: Option<NonZeroU32>,
    /// What a timeline notes, from where measuring begins; none is made if absent.
    pub timeline: Option<Window>,
}

/// What settings are on a machine that has booted, before anybody writes to their files.
pub fn default_settings(machine: &Profile) -> Settings {
    let mut settings = Settings::new(machine.page_size);
    // `check_numabalancing_enable`: off on one node.
    settings.numa.balancing &= machine.topology().nodes > 1;
    settings
}

impl Boot<'_> {
    /// Boots the system.
    pub(crate) fn system(&self) -> Result<System, RunError> {
        let settings = self.checked_settings()?;
        let memory = match settings.mem {
            None => booted_memory(self.machine),
            Some(bytes) => booted_memory(&self.machine.limited_to(bytes >> 20)),
        };
        let noise = self.stream(Stream::SectionSpread, 0);
        let mut system = System::new(self.machine, &memory, (self.features, self.decisions), settings, noise);
        system.progress = self.progress.clone();
        system.validation = self.validate_every.map(Validation::every);
        system.noted = self.timeline;
        system.mm.enter(&mut system.machine, Cpu(0)).boot_huge_pages();
        if let Some(batch) = self.batch {
            system.mm.force_pagesets(batch, 2 * batch);
        }
        Ok(system)
    }

    fn checked_settings(&self) -> Result<Settings, RunError> {
        let page_size = self.machine.page_size;
        let mut settings = default_settings(self.machine);
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

    /// The random generator of a named stream of this run.
    pub(crate) fn stream(&self, name: Stream, index: u64) -> Pcg64Mcg {
        stream(self.seed, name, index)
    }
}
