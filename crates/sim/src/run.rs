//! One run, everything decided: which kernel with which settings on which machine, what runs on it, and the seed.
//!
//! ```text
//!   machine, settings ──┐
//!   series, variant ────┼─► Run ─► identity of what comes out
//!   workload, seed ─────┘    │
//!                            └─ KernelChoice: the kernel that series and variant name
//! ```
//!
//! A run is written down with its results and read again, so it has names and numbers only, and nothing of the simulation
//! that it leads to.

use crate::kbuild::KernelBuild;
use crate::kernel_writes::KernelWrites;
use crate::long_running::LongRunning;
use crate::mappings::RecordedMappings;
use crate::numa::NumaThreads;
use crate::page_fault::PageFaultLoop;
use crate::replay::Replay;
use crate::socket::SocketStream;
use machine::profile::Figure;
use machine::{PageSize, Profile};
use mm::sysctl::most_like;
use mm::{Series, SettingError, Settings, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use thiserror::Error;
use workload::demand::spec::Paging;
use workload::threads::ProgramSpec;
use workload::threads::samples::{Recording, SampleFile};

workload::kinds! {
    /// What runs.
    pub enum Workload {
        /// Kernel builds, processes sampled from a recorded one.
        "kbuild" Kbuild(KernelBuild),
        /// will-it-scale's page_fault1.
        "page-fault" PageFault(PageFaultLoop),
        /// Pairs that stream through sockets.
        "socket-stream" SocketStream(SocketStream),
        /// A recorded trace.
        "replay" Replay(Replay),
        /// Writes to files of the kernel.
        "kernel-writes" KernelWrites(KernelWrites),
        /// Programs that run out of memory.
        "paging" Paging(Paging),
        /// Threads on several nodes.
        "numa" Numa(NumaThreads),
        /// Processes that map memory and give it back, for long.
        "long-running" LongRunning(LongRunning),
        /// A program whose mappings and first touches were recorded.
        "mappings" Mappings(RecordedMappings),
    }
}

/// One simulation, everything decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What its results go by: the name of the scenario that it was made of.
    pub scenario: String,
    /// The series that the variant is named in.
    pub series: String,
    /// Name of the variant, see [`KernelChoice`].
    pub variant: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The machine.
    pub machine: Profile,
    /// Settings beyond the defaults.
    pub settings: BTreeMap<String, String>,
    /// What runs.
    pub workload: Workload,
}

/// A kernel that a run can have.
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice {
    /// Its features.
    pub variant: &'static Variant,
    /// A debugging kernel with this batch, twice of it as high, and no scaling.
    pub batch: Option<i32>,
}

/// Whether kernels with any batch are variants of a series.
fn has_batches(series: &Series) -> bool {
    series.name == Series::PCP.name
}

impl KernelChoice {
    /// By name: a variant of the series, a kernel release, or, on pagesets, `batch-N`.
    pub fn parse(series: &str, name: &str) -> Result<KernelChoice, KernelError> {
        let series =
            Series::find(series).ok_or_else(|| KernelError::UnknownSeries { name: series.into() })?;
        let unknown = || KernelError::UnknownVariant { name: name.into(), series };
        let (variant, batch) = match name.strip_prefix("batch-").map(str::parse) {
            Some(Ok(batch @ 1..=32767)) if has_batches(&series) => (Series::PCP.variant("base"), Some(batch)),
            Some(_) => (None, None),
            None => (series.variant(name).or_else(|| Variant::of_release(name)), None),
        };
        Ok(KernelChoice { variant: variant.ok_or_else(unknown)?, batch })
    }

    /// The settings of a run: how the machine was `set_up`, then what the variant has, then `changes`. Where a kernel with pages of
    /// this size has no file of a variant's, writing to it fails, and the others are written to all the same.
    pub fn settings(
        &self,
        page_size: PageSize,
        set_up: &BTreeMap<String, String>,
        changes: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, SettingError> {
        let own = self.variant.settings.iter().filter(|(name, _)| mm::sysctl::exists(name, page_size));
        let own = own.map(|&(name, value)| (name.to_string(), value.to_string()));
        let mut settings = set_up.clone();
        settings.extend(own);
        settings.extend(changes.clone());
        let mut check = Settings::new(page_size);
        settings.iter().try_for_each(|(name, value)| check.set(name, value))?;
        Ok(settings)
    }
}

/// A kernel that there is not.
#[derive(Debug, Error)]
pub enum KernelError {
    /// No such series.
    #[error(
        "{name}: no such series; series: {}",
        Series::ALL.iter().map(|series| series.name).collect::<Vec<_>>().join(", ")
    )]
    UnknownSeries {
        /// What was asked for.
        name: String,
    },
    /// No such variant or release.
    #[error(
        "{name}: no such variant of series {}; most like it: {}; `mmtwin list variants` and `mmtwin list releases` have \
         all{}",
        series.name,
        most_like(name, series.variants().map(|variant| variant.name).chain(releases())),
        if has_batches(series) { ", besides batch-N" } else { "" }
    )]
    UnknownVariant {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        series: Series,
    },
}

fn releases() -> impl Iterator<Item = &'static str> {
    mm::series::RELEASES.iter().map(|(release, _)| *release)
}

impl Workload {
    /// The recorded files that it is made of, if it is of any, and the key that names them.
    pub fn recorded_files_mut(&mut self) -> (&'static str, &mut [PathBuf]) {
        match self {
            Workload::Replay(w) => ("trace", std::slice::from_mut(&mut w.trace)),
            Workload::Mappings(w) => ("program", w.program.files_mut()),
            Workload::Numa(NumaThreads {
                program: ProgramSpec::Samples(SampleFile { file: Recording::File(path) }),
                ..
            }) => ("program.file", std::slice::from_mut(path)),
            _ => ("", &mut []),
        }
    }

    /// Figures of the workload that come with a source, by their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let own: Vec<(&str, &mut Figure)> = match self {
            Workload::Paging(w) => return w.figures_mut(),
            Workload::Numa(w) => return w.program.figures_mut(),
            Workload::Kbuild(w) => {
                vec![("intensity", &mut w.intensity), ("processes_per_slab", &mut w.processes_per_slab)]
            }
            Workload::SocketStream(w) => vec![("calls", &mut w.calls)],
            Workload::Mappings(w) => vec![
                ("cpu_seconds", &mut w.cpu_seconds),
                ("runs", &mut w.runs),
                ("million_walks", &mut w.million_walks),
            ],
            Workload::KernelWrites(KernelWrites { service: Some(service), .. }) => vec![
                ("service.requests_per_second", &mut service.requests_per_second),
                ("service.work_us", &mut service.work_us),
                ("service.work_spread", &mut service.work_spread),
            ],
            _ => Vec::new(),
        };
        own.into_iter().map(|(key, figure)| (key.into(), figure)).collect()
    }
}
