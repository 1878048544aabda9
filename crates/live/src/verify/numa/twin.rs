//! The programs in the twin, on a machine like the emulated one.

use lab::reached::Reached;
use lab::scenario::{Run, Workload, load_machine};
use lab::simulation::numa::{KernelThread, NumaThreads, watch};
use machine::profile::Figure;
use machine::{Profile, Time};
use mm::{Event, Series};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::programs::{settings, threads};
use super::trajectory::{COUNTERS, Trajectory, pages_of};

/// The machine profile of the emulated machine of two nodes.
pub const MACHINE: &str = "qemu-2n";

/// A kernel in an emulated machine, where a figure is what the code of this kernel executes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulated {
    /// Its release.
    pub kernel: String,
    /// The machine profile that the twin runs on.
    #[serde(default = "two_nodes")]
    pub profile: String,
    /// Figures of the profile that this kernel has others of, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Figure>,
    /// The node that processes began on, by which data of theirs was far away.
    #[serde(default)]
    pub begins_on: u8,
    /// What the kernel itself was busy with when programs started, by how slow they were at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_thread: Option<KernelThread>,
}

fn two_nodes() -> String {
    MACHINE.into()
}

impl Emulated {
    fn machine(&self) -> Result<Profile, String> {
        let mut machine = load_machine(&self.profile).map_err(|error| error.to_string())?;
        for (key, figure) in &self.figures {
            let own = machine.figure_mut(key);
            *own.ok_or_else(|| format!("figures.{key}: machine {} has no such figure", self.profile))? =
                figure.clone();
        }
        Ok(machine)
    }
}

/// What the program named `name` does on a kernel, seen after so many `seconds`, in order; runs differ by `seed`.
pub fn trajectory(on: &Emulated, name: &str, seconds: &[f64], seed: u64) -> Result<Trajectory, String> {
    let spec = threads(name).ok_or_else(|| format!("there is no program `{name}`"))?;
    let spec = NumaThreads { kernel_thread: on.kernel_thread, begins_on: on.begins_on, ..spec };
    let machine = on.machine()?;
    let run = Run {
        scenario: name.into(),
        series: Series::NUMA.name.into(),
        variant: on.kernel.clone(),
        seed,
        machine,
        settings: settings(),
        workload: Workload::Numa(spec.clone()),
        reached: Reached::default(),
    };
    let mut trajectory = Trajectory::default();
    let events =
        [Event::NumaPteUpdates, Event::NumaHintFaults, Event::NumaHintFaultsLocal, Event::NumaPagesMigrated];
    let times: Vec<Time> =
        seconds.iter().map(|&seconds| Time::from_nanoseconds((seconds * 1e9) as u64)).collect();
    watch(&run, &spec, &times, |now, mm, areas| {
        let counted =
            COUNTERS.iter().zip(events).map(|(name, event)| (name.to_string(), mm.counters().get(event)));
        let mut values: Vec<(String, u64)> = counted.collect();
        for area in areas {
            let pages = mm.pages_by_node(area.mm, area.pages.clone());
            let named = pages.into_iter().enumerate();
            values.extend(named.map(|(node, pages)| (pages_of(area.process, area.number, node), pages)));
        }
        trajectory.push(now.seconds(), values);
    })
    .map_err(|error| error.to_string())?;
    Ok(trajectory)
}
