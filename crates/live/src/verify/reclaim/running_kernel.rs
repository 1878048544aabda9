//! Runs the sequences on the running kernel.
//!
//! ```text
//!   this process                                     the reader, in a memory cgroup
//!   create a sparse file larger than the limit
//!   create a memory cgroup, with that limit if the group is to reclaim because of it
//!   trace what is added to and deleted from the page cache
//!   start the reader  ---------------------------->  pread, pread, ... in the order of the sequence,
//!                                                    and writes to memory.high or memory.reclaim
//!                     <----------------------------  exits
//!   events -> residency, memory.stat -> counters
//!   remove the cgroup and the file
//! ```
//!
//! Reading a hole does not access the disk, but its pages go through the page cache as usual. Everything is
//! removed at the end, on an error, on a signal, and even if this process is killed ([`crate::rollback`]).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use machine::memblock::ZoneSpan;
use workload::access::PAGE_SIZE;
use workload::access::sequences::Sequence;

use super::case::{Case, Lru};
use super::memcg::Hierarchy;
use super::page_events::{PageEvents, counts, residency};
use super::pressure::{CASES, Pressure};
use super::reader::READER;
use super::{EVICTIONS, MISSES, Reclaim, Residency, case_entries};
use crate::proc::{parse_meminfo, parse_vmstat, parse_zoneinfo};
use crate::record::RecordError;
use crate::record::interruption::Interruption;
use crate::snapshot::cpus_in_range;
use crate::tracefs::Tracefs;
use crate::verify::failed;
use crate::verify::{Asked, Cause, Hearing, Subject, VerifyError};

/// All cases that can be made anew.
pub fn cases() -> impl Iterator<Item = (&'static Sequence, Pressure)> {
    CASES.into_iter().filter_map(|(name, pressure)| Some((Sequence::named(name)?, pressure)))
}

/// How often a sequence is recorded again because other processes interfered, before it is given up.
const ATTEMPTS: u32 = 4;

/// Number of accesses between two reads of memory.stat. Without these reads the counters that refault
/// distances use could be seconds old, and the result would depend on the speed of the CPU.
const STAT_READS: u32 = 32;

/// Counters of reclaim that the cgroup's memory.stat may have.
const COUNTERS: [&str; 14] = [
    "pgactivate",
    "pgdeactivate",
    "pgrefill",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgscan_proactive",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pgsteal_proactive",
    "workingset_activate_file",
    "workingset_nodereclaim",
    "workingset_refault_anon",
    "workingset_refault_file",
    "workingset_restore_file",
];

/// Counters that are taken from /proc/vmstat, for the whole machine, if the cgroup's memory.stat does not
/// have them.
const OF_MACHINE: [&str; 4] =
    ["workingset_activate_file", "workingset_nodereclaim", "workingset_nodes", "workingset_restore_file"];

const VMSTAT: &str = "/proc/vmstat";

/// Selects the LRU, if the kernel has both.
pub const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

/// Why sequences cannot run here, or cannot be observed.
pub fn obstacle() -> Option<String> {
    let tracefs = Tracefs::open().err().map(|error| error.to_string());
    tracefs.or_else(|| Hierarchy::find().err())
}

/// Records the sequences on each LRU that the kernel has, and compares the twin with each.
pub fn record(
    judge: &mut Reclaim,
    subject: &Subject,
    asked: &Asked,
    hearing: &mut Hearing,
) -> Result<(), VerifyError> {
    let tracefs = Tracefs::open().map_err(RecordError::from)?;
    let recorder = Recorder::open(tracefs, &asked.words(READER), &directory())?;
    let lru_gen =
        Path::new(LRU_GEN).exists().then(|| recorder.tracefs.guard().setting(LRU_GEN)).transpose()?;
    for lru in [Lru::Classic, Lru::MultiGen] {
        match &lru_gen {
            Some(lru_gen) => {
                let value = if lru == Lru::MultiGen { "y" } else { "n" };
                lru_gen.set(value).map_err(|source| failed(LRU_GEN, source))?;
            }
            None if lru == Lru::Classic => {}
            None => {
                hearing.note([format!("{} was skipped: this kernel has no CONFIG_LRU_GEN", lru.name())]);
                continue;
            }
        }
        for (sequence, pressure) in cases() {
            let name = Case::name_of(sequence, pressure, lru);
            if let Some(obstacle) = recorder.obstacle(sequence, pressure) {
                hearing.note([format!("{name} was skipped: {obstacle}")]);
                continue;
            }
            (hearing.progress)(&format!("reading: {name}"));
            let (case, Some(kernel)) =
                recorder.record_undisturbed(sequence, pressure, lru, hearing.progress)?
            else {
                continue;
            };
            (hearing.progress)(&format!("replaying: {}", case.name));
            let operations = sequence.operations();
            let entries =
                case_entries(&case.name, &subject.features, recorder.cpus, &case, &operations, &kernel)?;
            hearing.enter(judge.weigh(lru, entries));
        }
    }
    Ok(())
}

/// Everything that is needed to run sequences.
pub struct Recorder {
    reader: Vec<String>,
    tracefs: Tracefs,
    hierarchy: Hierarchy,
    interruption: Interruption,
    /// Number of online CPUs.
    pub cpus: u16,
    memory: u64,
    zones: Vec<ZoneSpan>,
    directory: PathBuf,
}

impl Recorder {
    /// Finds the memory cgroup hierarchy. `reader` is the command line for [`super::reader::run`], without
    /// its arguments. Files are created in `directory`.
    pub fn open(tracefs: Tracefs, reader: &[String], directory: &Path) -> Result<Recorder, VerifyError> {
        let hierarchy =
            Hierarchy::find().map_err(|problem| failed("/proc/mounts", io::Error::other(problem)))?;
        let text = |path: &str| fs::read_to_string(path).map_err(|source| failed(path, source));
        let cpus = text("/sys/devices/system/cpu/online")?;
        let memory = parse_meminfo(&text("/proc/meminfo")?)?.get("MemTotal").copied().unwrap_or(0);
        Ok(Recorder {
            reader: reader.to_vec(),
            tracefs,
            hierarchy,
            interruption: Interruption::watch().map_err(|source| failed("signals", source))?,
            cpus: cpus.trim().split(',').map(cpus_in_range).sum::<u64>() as u16,
            memory: memory << 10,
            zones: parse_zoneinfo(&text("/proc/zoneinfo")?)?.spans(),
            directory: directory.to_path_buf(),
        })
    }

    /// Like [`Recorder::record`], but repeated if other processes interfered: global reclaim evicts pages
    /// between two misses, and then it is not known which accesses were hits.
    fn record_undisturbed(
        &self,
        sequence: &Sequence,
        pressure: Pressure,
        lru: Lru,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Case, Option<Residency>), VerifyError> {
        for _ in 1..ATTEMPTS {
            match self.record(sequence, pressure, lru) {
                Err(VerifyError::Disturbed(what)) => progress(&format!("{}: {what}; again", sequence.name)),
                recorded => return recorded,
            }
        }
        self.record(sequence, pressure, lru)
    }

    /// Why a case cannot be asked here. DAMON_RECLAIM is not: it watches a whole machine, and may be in use.
    fn obstacle(&self, sequence: &Sequence, pressure: Pressure) -> Option<&'static str> {
        match pressure.writes(sequence).iter().all(|write| self.hierarchy.has(write.file)) {
            _ if pressure.is_damon() => Some("DAMON_RECLAIM is asked in emulation only (--qemu)"),
            false => Some("memory cgroups are of version 1 here, which has no such file"),
            true => None,
        }
    }

    /// Runs `sequence` under a `pressure`, on the LRU that is in use, which the caller says is `lru`.
    pub fn record(
        &self,
        sequence: &Sequence,
        pressure: Pressure,
        lru: Lru,
    ) -> Result<(Case, Option<Residency>), VerifyError> {
        let mut case = Case::of_sequence(sequence, pressure, lru, self.memory, STAT_READS);
        case.zones = self.zones.clone();
        if sequence.memcg_max.is_none() {
            let problem = "it needs a whole machine, not a memory cgroup";
            return Err(failed(sequence.name, io::Error::other(problem)));
        }
        let group = self
            .hierarchy
            .create(self.tracefs.guard(), case.memcg_max)
            .map_err(|source| failed("a memory cgroup", source))?;
        let place = &self.directory;
        let guard = self.tracefs.guard();
        let file = guard
            .file(place)
            .and_then(|file| {
                file.as_file().set_len(u64::from(sequence.file_pages) * PAGE_SIZE)?;
                Ok(file)
            })
            .map_err(|source| failed(place.display().to_string(), source))?;
        let described = file.as_file().metadata();
        let described = described.map_err(|source| failed(place.display().to_string(), source))?;
        let events = PageEvents::start(&self.tracefs, &described)?;
        let before = vmstat()?;
        self.read(sequence, &case, file.path(), group.path())?;
        let after = vmstat()?;
        let events = events.end()?;
        if case.is_damon() {
            let [misses, evictions] = counts(&events);
            case.counters = BTreeMap::from([(MISSES.into(), misses), (EVICTIONS.into(), evictions)]);
            return Ok((case, None));
        }
        let statistics = group.statistics().map_err(|source| failed("memory.stat", source))?;
        let (residency, when_full) = residency(&sequence.operations(), &case, &events)?;
        case.memcg_other = match case.memcg_max {
            Some(max) => when_full.map_or(0, |resident| max.saturating_sub(resident)),
            None => {
                let of_group = statistics.get("file").map_or(0, |bytes| bytes / PAGE_SIZE);
                of_group.saturating_sub((residency.stays.len() - residency.evictions.len()) as u64)
            }
        };
        let counters = COUNTERS.iter().filter_map(|&name| Some((name.into(), *statistics.get(name)?)));
        case.counters = counters.collect();
        for name in OF_MACHINE.into_iter().filter(|name| !statistics.contains_key(*name)) {
            if let (Some(before), Some(after)) = (before.get(name), after.get(name)) {
                case.counters.insert(name.into(), after.saturating_sub(*before));
                case.causes.insert(name.into(), Cause::OtherPrograms);
            }
        }
        Ok((case, Some(residency)))
    }

    /// Runs the reader, and kills it if a signal arrives.
    fn read(&self, sequence: &Sequence, case: &Case, file: &Path, group: &Path) -> Result<(), VerifyError> {
        let (program, words) = self
            .reader
            .split_first()
            .ok_or_else(|| failed("the reader", io::Error::other("there is no program")))?;
        let mut command = Command::new(program);
        command.args(words).arg(sequence.name).arg(file).arg(group).arg(STAT_READS.to_string());
        command.arg(case.pace_us.to_string()).args(case.writes.iter().map(ToString::to_string));
        let mut child = Reader(command.spawn().map_err(|source| failed(program, source))?);
        let status = loop {
            if self.interruption.asked() {
                return Err(VerifyError::Interrupted);
            }
            if let Some(status) = child.0.try_wait().map_err(|source| failed(program, source))? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        match status.success() {
            true => Ok(()),
            false => Err(VerifyError::Program { program: sequence.name, status: status.to_string() }),
        }
    }
}

/// Killed when dropped, so that its cgroup becomes empty.
struct Reader(Child);

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The machine's counters, including deltas that CPUs have not folded in yet.
fn vmstat() -> Result<BTreeMap<String, u64>, VerifyError> {
    // Without this file, counters are slightly out of date.
    let _ = fs::read_to_string("/proc/sys/vm/stat_refresh");
    let text = fs::read_to_string(VMSTAT).map_err(|source| failed(VMSTAT, source))?;
    Ok(parse_vmstat(&text)?)
}

/// The directory for the file, on disk, because files in tmpfs are not ordinary page cache.
pub(in crate::verify) fn directory() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from)
}
