//! The sequences on Debian's kernels in emulation, each in a boot of its own.
//!
//! ```text
//!   for each kernel x lists x sequence
//!     boot it (qemu) with this program as init, called with `guest SEQUENCE LISTS`
//!       there: running_kernel records the sequence, recording writes it, guest sends the files
//!     read them as a recording, and judge the twin by it
//! ```
//!
//! What was recorded stays in the user's cache directory, one directory a case, where it is not used again but can be looked
//! at.

use std::fs;
use std::path::{Path, PathBuf};

use workload::access::sequences::Sequence;

use super::case::Lru;
use super::recording::Recording;
use super::running_kernel::{LRU_GEN, Recorder, SEQUENCES};
use super::{judge, summary, verdict};
use crate::qemu::{self, KERNELS, KernelFiles, QemuError};
use crate::record::interruption::Interruption;
use crate::snapshot;
use crate::verify::running_kernel::failed;
use crate::verify::{Report, VerifyError};

const MEMORY_MIB: u64 = 1024;
/// Slab is not charged to the group, so that it holds pages of the file alone.
const KERNEL_OPTIONS: &str = "cgroup.memory=nokmem";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Judges the twin by Debian's kernels. `word` leads this program to [`in_guest`]; a sequence and lists follow.
pub fn emulated(word: &str, progress: &mut dyn FnMut(&str)) -> Result<Report, VerifyError> {
    let interruption = Interruption::watch().map_err(|source| failed("signals", source))?;
    let cache = qemu::cache();
    fs::create_dir_all(&cache).map_err(|source| failed(cache.display().to_string(), source))?;
    let mut report = Report { kernel: String::new(), fallback: None, entries: Vec::new(), notes: Vec::new() };
    let mut verdicts = Vec::new();
    let mut kernels = Vec::new();
    if let Err(error) = qemu::Machine::emulator() {
        report.notes.push(format!("nothing was emulated: {error}"));
        return Ok(report);
    }
    for kernel in KERNELS {
        let files = match kernel.files(&cache, progress) {
            Ok(files) => files,
            Err(error) => {
                report.notes.push(format!("Linux {} was skipped: {error}", kernel.release));
                continue;
            }
        };
        for lru in [Lru::Classic, Lru::MultiGen] {
            for sequence in SEQUENCES.into_iter().filter_map(Sequence::named) {
                progress(&format!("emulating Linux {}: {}, {}", kernel.release, sequence.name, lru.name()));
                let place = cache.join("reclaim").join(&files.package);
                let place = place.join(format!("{}-{}", sequence.name, lru.suffix()));
                let recorded = boot(word, &files, sequence, lru, &place, &|| interruption.asked());
                let recording = match recorded {
                    Ok(()) => Recording::open(&place)?,
                    Err(QemuError::Interrupted) => return Err(VerifyError::Interrupted),
                    Err(error) => {
                        report.notes.push(format!("{} was skipped: {error}", place.display()));
                        continue;
                    }
                };
                for (lru, entries) in judge(&format!("Linux {}", kernel.release), &recording, progress)? {
                    verdicts.push((lru, verdict(lru, &entries)));
                    report.entries.extend(entries);
                }
                if kernels.last() != Some(&recording.kernel) {
                    kernels.push(recording.kernel);
                }
            }
        }
    }
    report.kernel = kernels.join(", ");
    report.notes.extend(summary(&verdicts));
    Ok(report)
}

/// Boots a kernel for one case and leaves the recording in `place`.
fn boot(
    word: &str,
    kernel: &KernelFiles,
    sequence: &Sequence,
    lru: Lru,
    place: &Path,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), QemuError> {
    let io = |source| QemuError::File { path: place.to_path_buf(), source };
    if place.is_dir() {
        fs::remove_dir_all(place).map_err(io)?;
    }
    fs::create_dir_all(place).map_err(io)?;
    let machine = qemu::Machine { memory_mib: MEMORY_MIB, cpus: 1, kernel_options: KERNEL_OPTIONS.into() };
    let console = place.join("console.txt");
    for file in machine.run(kernel, &[word, sequence.name, lru.suffix()], &console, interrupted)? {
        fs::write(place.join(file.name), file.content).map_err(io)?;
    }
    Ok(())
}

/// Inside the emulation: records a sequence with this kernel's lists switched to `lru`, and names the directory that holds
/// the recording. `reader` as for `Recorder::open`.
pub fn in_guest(reader: &[String], sequence: &str, lru: Lru) -> Result<PathBuf, String> {
    let sequence = Sequence::named(sequence).ok_or_else(|| format!("there is no sequence `{sequence}`"))?;
    let set = |path: &str, value: &str| fs::write(path, value).map_err(|error| format!("{path}: {error}"));
    set(LRU_GEN, if lru == Lru::MultiGen { "y" } else { "n" })?;
    set(THP, "never")?;
    let record = || -> Result<PathBuf, VerifyError> {
        let recorder = Recorder::open(reader, Path::new(qemu::guest::DIRECTORY))?;
        let (mut case, residency) = recorder.record(sequence, lru)?;
        case.settings.insert("transparent_hugepage/enabled".into(), "never".into());
        let mut recording =
            Recording::new(snapshot::kernel_release(), "emulated by QEMU".into(), recorder.cpus);
        let directory = PathBuf::from("/recording");
        recording.add(&directory, case, &sequence.operations(), &residency)?;
        Ok(directory)
    };
    record().map_err(|error| error.to_string())
}
