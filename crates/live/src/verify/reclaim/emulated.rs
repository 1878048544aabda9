//! Runs the sequences on Debian's kernels in emulation, each in its own boot.
//!
//! ```text
//!   for each kernel x LRU x sequence and pressure
//!     boot it (emulation) with this program as init, called with `guest reclaim SEQUENCE PRESSURE LRU SEED`
//!       there: running_kernel records the sequence, recording writes it, guest sends the files
//!     read the files as a recording, and compare the twin with it
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mm::{Event, Mechanism};
use workload::access::sequences::Sequence;

use super::case::{Case, Lru};
use super::pressure::{MODULE, Pressure};
use super::reader::READER;
use super::recording::Recording;
use super::running_kernel::{LRU_GEN, Recorder, cases};

use crate::qemu;
use crate::record::RecordError;
use crate::snapshot;
use crate::tracefs::Tracefs;
use crate::verify::VerifyError;
use crate::verify::emulation::{Boot, Boots, words_in_guest};

const MEMORY_MIB: u64 = 1024;
/// Slab memory is not charged to the cgroup, so that only pages of the file are.
const KERNEL_OPTIONS: &str = "cgroup.memory=nokmem";
/// DAMON_STAT watches memory from the start where a kernel has it, and DAMON_RECLAIM can't be switched on beside it (EBUSY).
const DAMON_STAT: &str = "/sys/module/damon_stat/parameters/enabled";
const RANDOM: &str = "/dev/urandom";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A boot for each case on each LRU, and several where DAMON chooses pages at random.
pub fn boots() -> Boots<Recording> {
    let machine = qemu::Machine {
        memory_mib: MEMORY_MIB,
        cpus: 1,
        nodes: 1,
        instruction_shift: 0,
        kernel_options: KERNEL_OPTIONS.into(),
    };
    let of_lists = |lru: Lru| {
        cases().flat_map(move |(sequence, pressure)| {
            let name = Case::name_of(sequence, pressure, lru);
            (0..pressure.boots()).map(move |seed| {
                let name = if seed == 0 { name.clone() } else { format!("{name}-{seed}") };
                let words = [sequence.name, pressure.name(), lru.suffix(), &seed.to_string()];
                Boot {
                    place: [Mechanism::Reclaim.name().into(), name.clone()],
                    words: words.map(String::from).to_vec(),
                    name,
                    given: Vec::new(),
                    not_on: pressure.is_damon().then_some(("6.1", "DAMON_RECLAIM")),
                }
            })
        })
    };
    let boots = [Lru::Classic, Lru::MultiGen].into_iter().flat_map(of_lists).collect();
    Boots { machine, boots, open: Box::new(open) }
}

fn open(_: &Boot, kernel: &qemu::Kernel, place: &Path) -> Result<(String, Recording), VerifyError> {
    Ok((format!("Linux {}", kernel.release), Recording::open(place)?))
}

/// Inside the emulation: records a sequence under a `pressure` on `lru`, and returns the directory of the recording.
pub fn in_guest(sequence: &str, pressure: Pressure, lru: Lru, seed: u64) -> Result<PathBuf, String> {
    let sequence = Sequence::named(sequence).ok_or_else(|| format!("there is no sequence `{sequence}`"))?;
    let set = |path: &str, value: &str| fs::write(path, value).map_err(|error| format!("{path}: {error}"));
    set(LRU_GEN, if lru == Lru::MultiGen { "y" } else { "n" })?;
    set(THP, "never")?;
    if Path::new(DAMON_STAT).exists() {
        set(DAMON_STAT, "N")?;
    }
    for (name, value) in pressure.settings() {
        set(&parameter(&name), &value)?;
    }
    draw(seed).map_err(|error| format!("{RANDOM}: {error}"))?;
    let record = || -> Result<PathBuf, VerifyError> {
        let tracefs = Tracefs::of_guest().map_err(RecordError::from)?;
        let recorder = Recorder::open(tracefs, &words_in_guest(READER), Path::new(qemu::guest::DIRECTORY))?;
        let (mut case, residency) = recorder.record(sequence, pressure, lru)?;
        case.seed = seed;
        if pressure.is_damon() {
            case.counters.extend(counters_of_damon());
        }
        case.settings.insert("transparent_hugepage/enabled".into(), "never".into());
        let mut recording =
            Recording::new(snapshot::kernel_release(), "emulated by QEMU".into(), recorder.cpus);
        let directory = PathBuf::from("/recording");
        recording.add(&directory, case, residency.as_ref())?;
        Ok(directory)
    };
    record().map_err(|error| error.to_string())
}

/// Lets the kernel draw random numbers, so that it goes on with others.
fn draw(times: u64) -> io::Result<()> {
    let mut random = File::open(RANDOM)?;
    (0..times).try_for_each(|_| random.read_exact(&mut [0; 32]))
}

/// The file of a module's parameter such as `damon_reclaim.min_age`.
fn parameter(name: &str) -> String {
    let (module, parameter) = name.split_once('.').unwrap_or(("", name));
    format!("/sys/module/{module}/parameters/{parameter}")
}

/// What DAMON_RECLAIM counts, as far as the twin counts it too.
fn counters_of_damon() -> BTreeMap<String, u64> {
    let names = Event::ALL.iter().map(|event| event.name()).filter(|name| name.starts_with(MODULE));
    let count = |name: &str| fs::read_to_string(parameter(name)).ok()?.trim().parse().ok();
    names.filter_map(|name| Some((name.to_string(), count(name)?))).collect()
}
