//! The programs in the twin, on a machine like the emulated one.

use lab::reached::Reached;
use lab::scenario::{Run, Workload, load_machine};
use lab::simulation::numa::watch;
use machine::Time;
use mm::{Event, Series};

use super::programs::{settings, threads};
use super::trajectory::{COUNTERS, Trajectory, pages_of};

/// The machine profile of the emulated machine of two nodes.
pub const MACHINE: &str = "qemu-2n";
const INTERVAL: Time = Time::from_nanoseconds(100_000_000);

/// What the program named `name` does on `machine` with kernel `release`; runs differ by `seed`.
pub fn trajectory(machine: &str, name: &str, release: &str, seed: u64) -> Result<Trajectory, String> {
    let spec = threads(name).ok_or_else(|| format!("there is no program `{name}`"))?;
    let machine = load_machine(machine).map_err(|error| error.to_string())?;
    let run = Run {
        scenario: name.into(),
        series: Series::NUMA.name.into(),
        variant: release.into(),
        seed,
        machine,
        settings: settings(),
        workload: Workload::Numa(spec.clone()),
        reached: Reached::default(),
    };
    let mut trajectory = Trajectory::default();
    let events =
        [Event::NumaPteUpdates, Event::NumaHintFaults, Event::NumaHintFaultsLocal, Event::NumaPagesMigrated];
    watch(&run, &spec, INTERVAL, |now, mm, areas| {
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
