//! The programs in the twin, on a machine like the emulated one.

use lab::scenario::{Run, Workload, load_machine};
use lab::simulation::numa::{NumaThreads, watch};
use machine::{Profile, Time};
use mm::{Event, Series};
use rand_pcg::Pcg64Mcg;

use super::programs::{settings, threads};
use super::trajectory::{COUNTERS, Trajectory, pages_of};

/// The machine profile of the emulated machine.
const MACHINE: &str = "qemu-2n";
const INTERVAL: Time = Time::from_nanoseconds(100_000_000);

/// CPUs that are emulated take turns: as many as are busy, so many times as long everything takes.
fn take_turns(machine: &mut Profile, spec: &NumaThreads) -> Result<(), String> {
    let cpus = machine.topology().cpus();
    let program = spec.program.start(cpus, |_| Pcg64Mcg::new(0)).map_err(|error| error.to_string())?;
    let busy = program.layout().threads.len().min(cpus) as f64;
    let keys: Vec<&str> = machine.costs.entries().into_iter().map(|(key, _)| key).collect();
    for key in keys.into_iter().filter(|key| key.ends_with("_ns")) {
        machine.costs.entry_mut(key).expect("it was listed").value *= busy;
    }
    let Some(numa) = &mut machine.numa else { return Ok(()) };
    let keys: Vec<&str> = numa.entries().into_iter().map(|(key, _)| key).collect();
    for key in keys {
        let figure = numa.entry_mut(key).expect("it was listed");
        figure.value *= if key.ends_with("_ns") { busy } else { busy.recip() };
    }
    Ok(())
}

/// What the program named `name` does on kernel `release` of the twin; runs differ by `seed`.
pub fn trajectory(name: &str, release: &str, seed: u64) -> Result<Trajectory, String> {
    let spec = threads(name).ok_or_else(|| format!("there is no program `{name}`"))?;
    let mut machine = load_machine(MACHINE).map_err(|error| error.to_string())?;
    take_turns(&mut machine, &spec)?;
    let run = Run {
        scenario: name.into(),
        series: Series::NUMA.name.into(),
        variant: release.into(),
        seed,
        machine,
        settings: settings(),
        workload: Workload::Numa(spec.clone()),
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
