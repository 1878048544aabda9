//! One run, everything decided: which kernel with which settings on which machine, what runs on it, and the seed.
//!
//! ```text
//!   machine, settings ──┐
//!   series, variant ────┼─► Run ─► identity of what comes out
//!   workload, seed ─────┘    │
//!                            └─ Boot: all of it but the workload, which a program is handed
//! ```
//!
//! A run is written down with its results and read again, so it has names and numbers only, and nothing of the simulation
//! that it leads to.

use crate::boot::Boot;
use crate::kbuild::KernelBuild;
use crate::kernel_choice::{KernelChoice, KernelError};
use crate::kernel_writes::KernelWrites;
use crate::long_running::LongRunning;
use crate::mappings::RecordedMappings;
use crate::numa::NumaThreads;
use crate::page_fault::PageFaultLoop;
use crate::progress::Reached;
use crate::replay::Replay;
use crate::socket::SocketStream;
use machine::Profile;
use machine::profile::Figure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
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

impl Run {
    /// What boots, and notes in `reached` how far it is.
    pub fn boot<'a>(&'a self, reached: &'a Reached) -> Result<Boot<'a>, KernelError> {
        let KernelChoice { variant, batch } = KernelChoice::parse(&self.series, &self.variant)?;
        let (machine, settings) = (&self.machine, &self.settings);
        Ok(Boot { features: variant.features, batch, machine, settings, seed: self.seed, reached })
    }
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
