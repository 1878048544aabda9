//! The study of PID filtering: which patterns of sharing memory does it starve of NUMA scans, and on which
//! kernels?
//!
//! ```text
//!   arm        pattern of sharing x threads of a process x duration        all-4-20s, late-16-5s ...
//!   variant    a kernel                                                    numa-base, vma-scanning-4, numa-6.8, numa-6.12
//!
//!   cell       change against numa-base, over pairs of equal seeds: passes through memory per second, kernel time, local accesses
//! ```
//!
//! Since 6.4 a thread scans a VMA only if it took hint faults there lately (`vma_is_accessed`). This saves
//! scans that would show nothing new, but threads that never faulted in a VMA never scan it, which starves
//! memory mapped after the first two scan sequences. The map shows both. The machine is `numa-256` with four
//! CPUs per node, or 64 for processes with many threads; scan delays and periods are a tenth of the defaults,
//! so a second here stands for ten.

use crate::comparison::{Comparison, VariantSummary};
use crate::experiment::{Experiment, ExperimentError};
use crate::results::Record;
use crate::scenario::ScenarioError;
use crate::statistics::Change;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{LOCAL_ACCESSES, Metric, SCORE, SYSTEM_TIME};
use workload::keys::TIMES;
use workload::tasks::ProgramSpec;
use workload::threads::Threads;
use workload::threads::autonuma::{FirstPass, Numa01, Numa02};

/// The scenario that the arms are made from.
pub const SCENARIO: &str = "pid-filter";
/// CPUs per node, for processes of up to [`FEW_THREADS`] threads and for larger ones.
const CPUS_OF_NODE: [u16; 2] = [4, 64];
const FEW_THREADS: u32 = 16;
const PROCESSES: u32 = 2;
/// Memory of a process in MiB.
const MIB: u64 = 256;
const ENDLESS: u64 = TIMES.most as u64;

/// How threads share the memory of their process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Every thread accesses all memory of its process, as in numa01.
    All,
    /// Every thread accesses a slice of one mapping, which one thread touched first.
    Slices,
    /// Every thread accesses a mapping of its own, which it touched on the other node.
    Own,
    /// As [`Sharing::Slices`], but the memory is mapped after 4 s.
    Late,
}

impl Sharing {
    pub fn name(self) -> &'static str {
        match self {
            Sharing::All => "all",
            Sharing::Slices => "slices",
            Sharing::Own => "own",
            Sharing::Late => "late",
        }
    }

    fn program(self, threads: u32) -> ProgramSpec {
        let threads = Threads::Number(threads);
        let first_pass = Some(FirstPass { shift: 1, stay_milliseconds: 0, one_cpu: false });
        let slices = Numa02 {
            threads,
            mib: MIB,
            loops: ENDLESS,
            processes: PROCESSES,
            own_areas: false,
            main_touches_first: true,
            mapped_after_milliseconds: 0,
            first_pass: None,
        };
        let mapped_after_milliseconds = 4000;
        match self {
            Sharing::All => ProgramSpec::Numa01(Numa01 {
                processes: PROCESSES,
                threads,
                mib: MIB,
                loops: ENDLESS,
                thread_local: false,
                same_node: false,
                first_pass: None,
            }),
            Sharing::Slices => ProgramSpec::Numa02(slices),
            Sharing::Own => ProgramSpec::Numa02(Numa02 {
                own_areas: true,
                main_touches_first: false,
                first_pass,
                ..slices
            }),
            Sharing::Late => ProgramSpec::Numa02(Numa02 { mapped_after_milliseconds, ..slices }),
        }
    }
}

/// A program of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Arm {
    pub sharing: Sharing,
    /// Threads in each of two processes.
    pub threads: u32,
    /// Virtual running time in seconds.
    pub seconds: u64,
}

/// All programs of the map.
pub fn arms() -> Vec<Arm> {
    let kinds = [Sharing::All, Sharing::Slices, Sharing::Own, Sharing::Late];
    let sizes = |sharing| {
        [2, 4, 16, 64, 256].into_iter().flat_map(move |threads| {
            [6, 24].into_iter().map(move |seconds| Arm { sharing, threads, seconds })
        })
    };
    kinds.into_iter().flat_map(sizes).collect()
}

impl Arm {
    /// The arm's place in the map, such as `all-4-6s`.
    pub fn place(&self) -> String {
        format!("{}-{}-{}s", self.sharing.name(), self.threads, self.seconds)
    }

    /// Name of the arm, under which its results are filed.
    pub fn name(&self) -> String {
        format!("{SCENARIO}-{}", self.place())
    }

    /// The experiment for this arm; with the scenario's number of seeds if `seeds` is `None`.
    pub fn experiment(&self, seeds: Option<u32>) -> Result<Experiment, ScenarioError> {
        let mut experiment = Experiment::of(SCENARIO, seeds)?;
        let cpus = CPUS_OF_NODE[usize::from(self.threads > FEW_THREADS)];
        experiment.machine.topology.cores_per_socket = cpus;
        experiment.machine.topology.threads_per_core = 1;
        experiment.scenario.name = self.name();
        let host = &mut experiment.scenario.workload;
        host.milliseconds = self.seconds * 1000;
        host.programs[0].program = self.sharing.program(self.threads);
        Ok(experiment)
    }
}

/// How a kernel differs from the one without the series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Cell {
    pub variant: String,
    /// Passes through memory per second.
    pub throughput: Change,
    /// CPU time of the kernel.
    pub kernel_time: Change,
    /// Share of local accesses, in points.
    pub local: Change,
}

/// The cells of an arm: each variant against the first.
pub fn cells(experiment: &Experiment, records: &[Record]) -> Result<Vec<Cell>, ExperimentError> {
    let comparison = Comparison::new(&experiment.arms()?, records, 0.0);
    let cell = |variant: &VariantSummary| {
        let change = |metric: Metric| variant.metrics.get(metric.name)?.change;
        Some(Cell {
            variant: variant.name.clone(),
            throughput: change(SCORE)?,
            kernel_time: change(SYSTEM_TIME)?,
            local: change(LOCAL_ACCESSES)?,
        })
    };
    Ok(comparison.variants.iter().filter_map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_arm_can_be_run() {
        let mut names = std::collections::BTreeSet::new();
        for arm in arms() {
            let experiment = arm.experiment(Some(2)).unwrap();
            assert_eq!(experiment.runs().unwrap().len(), 2 * experiment.variants.len());
            assert!(names.insert(arm.name()), "{} twice", arm.name());
        }
    }

    /// Memory mapped after the first scan sequences is scanned by kernels before the series and after 6.7,
    /// and starved in between.
    #[test]
    fn late_memory_starves_under_p4_alone() {
        let arm = Arm { sharing: Sharing::Late, threads: 2, seconds: 8 };
        let experiment = arm.experiment(Some(1)).unwrap();
        let hint_faults = |variant: &str| {
            let run = experiment.scenario.run(variant, 1, &experiment.machine, &BTreeMap::new()).unwrap();
            sim::run(&run).unwrap().counters.get(mm::Event::NumaHintFaults)
        };
        let [base, series, later] = ["numa-base", "vma-scanning-4", "numa-6.8"].map(hint_faults);
        assert!(10 * series < base && 10 * series < later, "{base}, {series}, {later}");
    }
}
