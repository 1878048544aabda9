//! Checks that a workload is consistent and that the machine is large enough for it.
//!
//! The bounds of a single key are declared with the key ([`workload::keys`]). The checks here involve several
//! keys or the machine, and are made before the first run: processes that need more memory than there is,
//! more threads than the twin supports, a measured time too short to count anything.

use crate::Run;
use crate::boot::default_settings;
use crate::error::Misfit;
use crate::host::{HostProgram, Workload};
use machine::storage::DeviceFigures;
use machine::{PageSize, Profile, WrongValue};
use mm::huge_memory::settings::ThpSettings;
use workload::keys::{THREADS, Value};
use workload::map_unmap::MapUnmap;
use workload::page_faults::PageFaults;
use workload::service::Service;
use workload::tasks::ProgramSpec;
use workload::threads::ProgramSpec as ThreadsSpec;

/// An error for a key of the workload.
fn misfit(key: &str, value: impl ToString, expected: String) -> Result<(), Misfit> {
    Err(Misfit::OutOfRange(WrongValue::new(key, value, expected).within("workload")))
}

/// MiB that a kernel needs at least besides itself.
const LEAST_FREE_MIB: u64 = 28;

impl Run {
    /// Checks that numbers are within their bounds, and that the workload fits the machine's size and page
    /// size.
    pub fn check_fit(&self) -> Result<(), Misfit> {
        self.workload.check_bounds("workload").map_err(Misfit::OutOfRange)?;
        let (machine, page_size) = (&self.machine, self.machine.page_size);
        if page_size != PageSize::Kib4 && !self.workload.has_any_page_size() {
            let value = format!("{}, page_size_kib = {}", machine.name, page_size.kib());
            let expected =
                "a machine with pages of 4 KiB, in which this kind of workload was recorded or counts";
            return Err(Misfit::OutOfRange(WrongValue::new("machine", value, expected)));
        }
        self.workload.check_fit(machine)?;
        self.check_seed()?;
        self.check_mem()?;
        self.check_zswap()
    }

    /// Checks that `mem=` can limit the machine's memory, and leaves enough.
    fn check_mem(&self) -> Result<(), Misfit> {
        let Some(value) = self.settings.get("mem") else { return Ok(()) };
        let mut settings = default_settings(&self.machine);
        // What is no size is for the kernel to refuse.
        let Some(mib) = settings.set("mem", value).ok().and(settings.mem).map(|bytes| bytes >> 20) else {
            return Ok(());
        };
        let wrong = |expected| Err(Misfit::OutOfRange(WrongValue::new("settings.mem", value, expected)));
        let (machine, kernel) = (&self.machine, self.machine.memblock.kernel_mib);
        if machine.topology.nodes > 1 {
            return wrong(format!(
                "a machine of one node, and machine {} has {}; leave it out, or name another with --machine, such as i7-9700",
                machine.name, machine.topology.nodes
            ));
        }
        if !machine.memblock.zones.is_empty() {
            return wrong(format!(
                "a machine whose zones are computed, and those of machine {} are recorded ([memblock] zones); leave it out",
                machine.name
            ));
        }
        match kernel + LEAST_FREE_MIB {
            least if mib < least => wrong(format!(
                "at least {least}M, of which the kernel itself takes {kernel}M; a size without a letter is in bytes"
            )),
            _ => Ok(()),
        }
    }

    /// Checks that there is swap to compress, and that the machine says what that takes, where zswap is on or is switched on.
    fn check_zswap(&self) -> Result<(), Misfit> {
        let host = &self.workload;
        let name = "zswap.enabled";
        let set = self.settings.get(name).map(|value| (format!("settings.{name}"), value.as_str()));
        let written = host.events.iter().enumerate().filter_map(|(at, event)| {
            let value = event.write.strip_prefix(name)?.strip_prefix('=')?;
            Some((format!("workload.events[{at}].write, {name}"), value))
        });
        let Some((key, value)) = set.into_iter().chain(written).find(|(_, value)| *value != "0") else {
            return Ok(());
        };
        let wrong = |expected: String| Err(Misfit::OutOfRange(WrongValue::new(key, value, expected)));
        if host.swap.is_none() {
            return wrong(
                "0 without swap, or swap (workload.swap, workload.swap_mib): zswap is in front of it".into(),
            );
        }
        if !self.machine.devices.values().any(|device| matches!(device, DeviceFigures::Zram(_))) {
            return wrong(format!(
                "0 on machine {}, or a machine with a device of kind \"zram\": its figures say what compression takes",
                self.machine.name
            ));
        }
        Ok(())
    }

    /// Checks that the seed has a recording, where it selects nothing else.
    fn check_seed(&self) -> Result<(), Misfit> {
        let Some(recordings) = self.workload.recordings() else { return Ok(()) };
        if (1..=recordings as u64).contains(&self.seed) {
            return Ok(());
        }
        let expected = match recordings {
            1 => "1 only: there is one recording of the program, and more seeds would repeat it".into(),
            _ => format!(
                "1 to {recordings}: there are {recordings} recordings of the program, and more seeds would repeat them"
            ),
        };
        Err(Misfit::OutOfRange(WrongValue::new("seed", self.seed, expected)))
    }
}

/// What to expect of a key that exceeds the machine, for errors.
fn no_more_than(machine: &Profile) -> String {
    let topology = machine.topology();
    format!(
        "no more than machine {} has (CPUs: {}, nodes: {}); name a larger one with --machine, or put less into a copy of the scenario",
        machine.name,
        topology.cpus(),
        topology.nodes
    )
}

fn check_cpus(machine: &Profile, key: &str, value: impl ToString, cpus: usize) -> Result<(), Misfit> {
    if cpus <= machine.topology().cpus() { Ok(()) } else { misfit(key, value, no_more_than(machine)) }
}

fn check_node(machine: &Profile, key: &str, node: u8) -> Result<(), Misfit> {
    if node < machine.topology.nodes { Ok(()) } else { misfit(key, node, no_more_than(machine)) }
}

/// Checks that the machine has `mib` of memory.
fn check_memory(machine: &Profile, key: &str, mib: u64) -> Result<(), Misfit> {
    let all = machine.topology.memory_mib_per_node * u64::from(machine.topology.nodes);
    if mib <= all {
        return Ok(());
    }
    let expected = format!(
        "at most the {all} MiB of machine {}; name a larger one with --machine, or put less into a copy of the scenario",
        machine.name
    );
    misfit(key, format!("{mib} MiB"), expected)
}

fn check_devices(machine: &Profile, host: &Workload) -> Result<(), Misfit> {
    if let Some(missing) = host.missing_device(machine) {
        let known: Vec<&str> = machine.devices.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        let expected = format!("a device of machine {}, which has: {known}", machine.name);
        return misfit("files, workload.swap", missing, expected);
    }
    check_memory(machine, "held_mib", host.held_mib)
}

impl Workload {
    /// The device that it needs and the machine does not have, if there is one.
    pub fn missing_device(&self, machine: &Profile) -> Option<&str> {
        let mut devices = self.files.iter().chain(&self.swap);
        devices.find(|name| !machine.devices.contains_key(*name)).map(String::as_str)
    }

    pub(crate) fn check_fit(&self, machine: &Profile) -> Result<(), Misfit> {
        check_devices(machine, self)?;
        for (at, program) in self.programs.iter().enumerate() {
            program.check_fit(machine, &format!("programs[{at}]"))?;
        }
        Ok(())
    }
}

impl HostProgram {
    /// Checks it against the machine; `place` is that of the program below the workload.
    fn check_fit(&self, machine: &Profile, place: &str) -> Result<(), Misfit> {
        let of = |key: &str| format!("{place}.{key}");
        for (key, node) in [("cpu_node", self.cpu_node), ("memory_node", self.memory_node)] {
            check_node(machine, &of(key), node.unwrap_or(0))?;
        }
        let topology = machine.topology();
        if self.cpuset_mems.iter().any(|&node| node >= topology.nodes) {
            return misfit(&of("cpuset_mems"), format!("{:?}", self.cpuset_mems), no_more_than(machine));
        }
        if let Some(node) = self.begins_on.filter(|&node| node >= topology.nodes_with_cpus()) {
            return misfit(&of("begins_on"), node, no_more_than(machine));
        }
        if let Some(cpu) = self.begins_on_cpu {
            check_cpus(machine, &of("begins_on_cpu"), cpu, usize::from(cpu) + 1)?;
        }
        match &self.program {
            ProgramSpec::Service(Service { threads, first_cpu, pages, .. }) => {
                check_stays(machine, place, *first_cpu, ("threads", *threads as usize))?;
                let keys = of("program.threads, workload.") + &of("program.pages");
                check_memory(machine, &keys, u64::from(*threads) * u64::from(*pages) / 256)?;
            }
            ProgramSpec::MapUnmap(MapUnmap { preferred_kib, .. }) => {
                check_folio_size(machine, &of("program.preferred_kib"), *preferred_kib)?;
            }
            ProgramSpec::PageFaults(PageFaults { tasks, first_cpu, .. }) => {
                check_stays(machine, place, *first_cpu, ("tasks", *tasks))?;
            }
            _ => {}
        }
        match self.program.threads() {
            Some(threads) => check_threads(machine, &of("program"), &threads),
            None => Ok(()),
        }
    }
}

/// Checks that anonymous memory has folios of so many KiB.
fn check_folio_size(machine: &Profile, key: &str, kib: u64) -> Result<(), Misfit> {
    match ThpSettings::new(machine.page_size).order_of(kib << 10) {
        Some(_) => Ok(()),
        None => {
            let expected = format!(
                "a size that folios of anonymous memory have on machine {}, whose pages have {} KiB",
                machine.name,
                machine.page_size.kib()
            );
            misfit(key, kib, expected)
        }
    }
}

/// Checks that there are the CPUs on which threads of the program at `place` stay, if they do: so many as the key says.
fn check_stays(
    machine: &Profile,
    place: &str,
    first: Option<u16>,
    (key, threads): (&str, usize),
) -> Result<(), Misfit> {
    let Some(first) = first else { return Ok(()) };
    let keys = format!("{place}.program.first_cpu, workload.{place}.program.{key}");
    check_cpus(
        machine,
        &keys,
        format!("{first} for the first of {threads} threads"),
        usize::from(first) + threads,
    )
}

/// Checks threads that share memory against the machine. They may need more memory than there is: that is for the kernel to answer.
fn check_threads(machine: &Profile, key: &str, threads: &ThreadsSpec) -> Result<(), Misfit> {
    if machine.numa.is_none() {
        return Err(Misfit::NoNuma { machine: machine.name.clone() });
    }
    let cpus = machine.topology().cpus();
    let (number, keys) = threads.threads(cpus);
    if !THREADS.contain(number as f64) {
        let expected = format!("at most {} in all processes together", THREADS.most);
        return misfit(&format!("{key}: {keys}"), format!("{number} threads"), expected);
    }
    match threads.slices(cpus) {
        Some((number, mib)) if mib * 256 < u64::from(number) => {
            misfit(&format!("{key}.mib"), mib, format!("a page at least for each of the {number} threads"))
        }
        _ => Ok(()),
    }
}
