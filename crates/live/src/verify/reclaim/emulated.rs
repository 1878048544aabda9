//! The sequences on Debian's kernels in emulation, each in a boot of its own.
//!
//! ```text
//!   for each kernel x lists x sequence
//!     boot it (emulation) with this program as init, called with `guest reclaim SEQUENCE LISTS`
//!       there: running_kernel records the sequence, recording writes it, guest sends the files
//!     read them as a recording, and judge the twin by it
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use workload::access::sequences::Sequence;

use super::case::Lru;
use super::recording::Recording;
use super::running_kernel::{LRU_GEN, Recorder, SEQUENCES};
use super::{judge, summary, verdict};
use crate::qemu;
use crate::record::RecordError;
use crate::snapshot;
use crate::tracefs::Tracefs;
use crate::verify::emulation::Emulation;
use crate::verify::{Report, VerifyError};

const MEMORY_MIB: u64 = 1024;
/// Slab is not charged to the group, so that it holds pages of the file alone.
const KERNEL_OPTIONS: &str = "cgroup.memory=nokmem";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Judges the twin by Debian's kernels, booted again if `fresh`. `words` lead this program to [`in_guest`]; a sequence and lists follow.
pub fn emulated(words: &[&str], fresh: bool, progress: &mut dyn FnMut(&str)) -> Result<Report, VerifyError> {
    let machine = qemu::Machine {
        memory_mib: MEMORY_MIB,
        cpus: 1,
        nodes: 1,
        instruction_shift: 0,
        kernel_options: KERNEL_OPTIONS.into(),
    };
    let mut emulation = Emulation::open(machine, fresh)?;
    let mut report = Report::of_kernel(String::new());
    let mut verdicts = Vec::new();
    let mut kernels = Vec::new();
    for bootable in emulation.kernels(&mut report, progress) {
        for lru in [Lru::Classic, Lru::MultiGen] {
            for sequence in SEQUENCES.into_iter().filter_map(Sequence::named) {
                progress(&format!(
                    "emulating Linux {}: {}, {}",
                    bootable.kernel.release,
                    sequence.name,
                    lru.name()
                ));
                let place =
                    emulation.place("reclaim", &bootable, &format!("{}-{}", sequence.name, lru.suffix()));
                let words = [words, &[sequence.name, lru.suffix()]].concat();
                if !emulation.boot(&bootable, &words, &place, &mut report)? {
                    continue;
                }
                let recording = Recording::open(&place)?;
                for (lru, entries) in
                    judge(&format!("Linux {}", bootable.kernel.release), &recording, progress)?
                {
                    verdicts.extend(verdict(lru, &entries));
                    report.entries.extend(entries);
                }
                if kernels.last() != Some(&recording.kernel) {
                    kernels.push(recording.kernel);
                }
            }
        }
    }
    emulation.note_reused(&mut report);
    report.kernel = kernels.join(", ");
    report.notes.extend(summary(&verdicts));
    Ok(report)
}

/// Inside the emulation: records a sequence with this kernel's lists switched to `lru`, and names the directory that holds
/// the recording. `reader` as for `Recorder::open`.
pub fn in_guest(reader: &[String], sequence: &str, lru: Lru) -> Result<PathBuf, String> {
    let sequence = Sequence::named(sequence).ok_or_else(|| format!("there is no sequence `{sequence}`"))?;
    let set = |path: &str, value: &str| fs::write(path, value).map_err(|error| format!("{path}: {error}"));
    set(LRU_GEN, if lru == Lru::MultiGen { "y" } else { "n" })?;
    set(THP, "never")?;
    let record = || -> Result<PathBuf, VerifyError> {
        let tracefs = Tracefs::of_guest().map_err(RecordError::from)?;
        let recorder = Recorder::open(tracefs, reader, Path::new(qemu::guest::DIRECTORY))?;
        let (mut case, residency) = recorder.record(sequence, lru)?;
        case.settings.insert("transparent_hugepage/enabled".into(), "never".into());
        let mut recording =
            Recording::new(snapshot::kernel_release(), "emulated by QEMU".into(), recorder.cpus);
        let directory = PathBuf::from("/recording");
        recording.add(&directory, case, &residency)?;
        Ok(directory)
    };
    record().map_err(|error| error.to_string())
}
