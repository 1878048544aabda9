//! The programs in the twin, on a machine like the emulated one.

use lab::scenario::load_machine;
use machine::profile::Figure;
use machine::{Profile, Time};
use mm::{Event, Mechanism, Series};
use serde::{Deserialize, Serialize};
use sim::host::{HostProgram, watch};
use sim::progress::RunProgress;
use sim::{Misfit, Run, Workload};
use std::collections::BTreeMap;
use workload::background::{KernelThread, TouchOnce};
use workload::tasks::ProgramSpec;

use super::programs::{Pages, settings};
use super::trajectory::{COUNTERS, Trajectory, pages_of};

/// The machine profile of the emulated machine of two nodes.
pub const MACHINE: &str = "qemu-2n";

/// Figures in which kernels differ from the one that machine profiles were measured with, by version, then by key.
const FIGURES: &str = include_str!("../../../../../data/recordings/numa-figures.toml");

/// A kernel in an emulated machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulated {
    /// Its release.
    pub kernel: String,
    /// The machine profile that the twin runs on.
    #[serde(default = "two_nodes")]
    pub profile: String,
    /// The node that processes began on, by which data of theirs was far away.
    #[serde(default)]
    pub begins_on: u8,
    /// What the kernel itself was busy with when programs started, by how slow they were at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_thread: Option<BusyKernel>,
    /// Pages that waited for the LRU when programs started, by how many of the pages that a program touched last could not be
    /// migrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lru_add: Option<LruAdd>,
}

fn two_nodes() -> String {
    MACHINE.into()
}

impl Emulated {
    /// A kernel on two nodes, of which no more is known.
    pub fn on_two_nodes(kernel: &str) -> Emulated {
        Emulated {
            kernel: kernel.into(),
            profile: two_nodes(),
            begins_on: 0,
            kernel_thread: None,
            lru_add: None,
        }
    }

    /// `program`, with what was there beside it.
    fn beside(&self, mut host: Workload) -> Workload {
        for program in &mut host.programs {
            program.begins_on = Some(self.begins_on);
        }
        if let Some(BusyKernel { cpu, milliseconds }) = self.kernel_thread {
            let thread = ProgramSpec::KernelThread(KernelThread { milliseconds });
            host.programs
                .push(HostProgram { begins_on_cpu: Some(cpu), ..HostProgram::new("kernel-thread", thread) });
        }
        if let Some(LruAdd { cpu, pages }) = self.lru_add {
            host.programs.iter_mut().for_each(|program| program.start_milliseconds = 1);
            let earlier = ProgramSpec::TouchOnce(TouchOnce { pages });
            host.programs
                .push(HostProgram { begins_on_cpu: Some(cpu), ..HostProgram::new("earlier", earlier) });
        }
        host
    }

    /// The machine, where a figure is what the code of this kernel executes.
    fn machine(&self) -> Result<Profile, String> {
        let mut machine = load_machine(&self.profile).map_err(|error| error.to_string())?;
        let mut versions: BTreeMap<String, BTreeMap<String, Figure>> =
            toml::from_str(FIGURES).map_err(|error| error.to_string())?;
        let version: Vec<&str> = self.kernel.split('.').take(2).collect();
        for (key, figure) in versions.remove(&version.join(".")).unwrap_or_default() {
            let own = machine.figure_mut(&key);
            *own.ok_or_else(|| format!("{key}: machine {} has no such figure", self.profile))? = figure;
        }
        Ok(machine)
    }
}

/// A thread of the kernel that was busy when programs started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusyKernel {
    /// The CPU on which it started.
    pub cpu: u16,
    /// Its work in milliseconds of CPU time.
    pub milliseconds: u64,
}

/// Pages that an earlier program left in the LRU batch of a CPU (`lru_add`). Pages cannot be migrated while they are in a batch, and
/// these pages determine how many more it takes until the batch is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LruAdd {
    pub cpu: u16,
    pub pages: u64,
}

/// Whether a program fits the emulated machine of two nodes.
pub fn check(program: Workload) -> Result<(), Misfit> {
    let machine = load_machine(MACHINE).expect("a built-in machine");
    run(String::new(), machine, program, 0).check_fit()
}

fn run(kernel: String, machine: Profile, program: Workload, seed: u64) -> Run {
    Run {
        scenario: Mechanism::Numa.name().into(),
        series: Series::NUMA.name.into(),
        variant: kernel,
        tree: None,
        seed,
        machine,
        settings: settings(Pages::Base),
        workload: program,
    }
}

/// What a program does on a kernel, seen after so many `seconds`, in order; runs differ by `seed`.
pub fn trajectory(
    on: &Emulated,
    program: &Workload,
    seconds: &[f64],
    seed: u64,
) -> Result<Trajectory, String> {
    let spec = on.beside(program.clone());
    let run = run(on.kernel.clone(), on.machine()?, spec.clone(), seed);
    let mut trajectory = Trajectory::default();
    let events =
        [Event::NumaPteUpdates, Event::NumaHintFaults, Event::NumaHintFaultsLocal, Event::NumaPagesMigrated];
    let times: Vec<Time> =
        seconds.iter().map(|&seconds| Time::from_nanoseconds((seconds * 1e9) as u64)).collect();
    let progress = RunProgress::default();
    let boot = run.boot(&progress).map_err(|error| error.to_string())?;
    watch(&boot, &spec, &times, |now, mm, areas| {
        let counted =
            COUNTERS.iter().zip(events).map(|(name, event)| (name.to_string(), mm.counters().get(event)));
        let mut values: Vec<(String, u64)> = counted.collect();
        // What was there beside it is no program of the recording.
        for area in areas.iter().filter(|area| area.program == 0) {
            let pages = mm.parts.pages_by_node(area.mm, area.pages.clone());
            let named = pages.into_iter().enumerate();
            values.extend(named.map(|(node, pages)| (pages_of(area.process, area.number, node), pages)));
        }
        trajectory.push(now.seconds(), values);
    })
    .map_err(|error| error.to_string())?;
    Ok(trajectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_the_figures_of_its_version() {
        let protect = |kernel: &str| {
            let mut machine = Emulated::on_two_nodes(kernel).machine().unwrap();
            machine.figure_mut("numa.pte_protect_ns").unwrap().value
        };
        assert_eq!(["6.1.192", "6.12.117", "6.120.1"].map(protect), [494.0, 590.0, 494.0]);
        let on_four = Emulated { profile: "qemu-4n".into(), ..Emulated::on_two_nodes("6.18.15") };
        assert!(on_four.machine().is_ok());
    }
}
