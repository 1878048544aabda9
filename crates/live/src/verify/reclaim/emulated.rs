//! Runs the sequences on Debian's kernels in emulation, each in its own boot.
//!
//! ```text
//!   for each kernel x LRU x sequence
//!     boot it (emulation) with this program as init, called with `guest reclaim SEQUENCE LRU`
//!       there: running_kernel records the sequence, recording writes it, guest sends the files
//!     read the files as a recording, and compare the twin with it
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use mm::Mechanism;
use workload::access::sequences::Sequence;

use super::case::Lru;
use super::reader::READER;
use super::recording::Recording;
use super::running_kernel::{LRU_GEN, Recorder, SEQUENCES};

use crate::qemu;
use crate::record::RecordError;
use crate::snapshot;
use crate::tracefs::Tracefs;
use crate::verify::VerifyError;
use crate::verify::emulation::{Boot, Boots, words_in_guest};

const MEMORY_MIB: u64 = 1024;
/// Slab memory is not charged to the cgroup, so that only pages of the file are.
const KERNEL_OPTIONS: &str = "cgroup.memory=nokmem";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A boot for each sequence on each LRU.
pub fn boots() -> Boots<Recording> {
    let machine = qemu::Machine {
        memory_mib: MEMORY_MIB,
        cpus: 1,
        nodes: 1,
        instruction_shift: 0,
        kernel_options: KERNEL_OPTIONS.into(),
    };
    let of_lists = |lru: Lru| {
        SEQUENCES.into_iter().filter_map(Sequence::named).map(move |sequence| Boot {
            name: format!("{}, {}", sequence.name, lru.name()),
            place: [Mechanism::Reclaim.name().into(), format!("{}-{}", sequence.name, lru.suffix())],
            words: vec![sequence.name.into(), lru.suffix().into()],
            given: Vec::new(),
        })
    };
    let boots = [Lru::Classic, Lru::MultiGen].into_iter().flat_map(of_lists).collect();
    Boots { machine, boots, open: Box::new(open) }
}

fn open(_: &Boot, kernel: &qemu::Kernel, place: &Path) -> Result<(String, Recording), VerifyError> {
    Ok((format!("Linux {}", kernel.release), Recording::open(place)?))
}

/// Inside the emulation: records a sequence on `lru`, and returns the directory of the recording.
pub fn in_guest(sequence: &str, lru: Lru) -> Result<PathBuf, String> {
    let sequence = Sequence::named(sequence).ok_or_else(|| format!("there is no sequence `{sequence}`"))?;
    let set = |path: &str, value: &str| fs::write(path, value).map_err(|error| format!("{path}: {error}"));
    set(LRU_GEN, if lru == Lru::MultiGen { "y" } else { "n" })?;
    set(THP, "never")?;
    let record = || -> Result<PathBuf, VerifyError> {
        let tracefs = Tracefs::of_guest().map_err(RecordError::from)?;
        let recorder = Recorder::open(tracefs, &words_in_guest(READER), Path::new(qemu::guest::DIRECTORY))?;
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
