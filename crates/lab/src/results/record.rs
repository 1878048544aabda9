//! A run with its outcome, as it is stored.

use machine::Category as _;
use mm::Category;
use sim::Run;
use sim::outcome::{AreaHeat, Outcome, ProgramOutcome};
use sim::run_event::RunEvent;
use std::collections::BTreeMap;

/// A run and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// See [`super::DescribedRun::identity`].
    pub identity: String,
    /// Everything that determined the result.
    pub run: Run,
    /// Values by [`sim::metric::Metric::name`].
    pub metrics: BTreeMap<String, f64>,
    /// CPU seconds by [`mm::Category::name`].
    pub cpu_seconds: BTreeMap<String, f64>,
    /// As [`Outcome::time_by_cpu`]; empty in results of versions that did not keep it.
    pub time_by_cpu: BTreeMap<String, Vec<u16>>,
    /// Counters by [`mm::Event::name`], and the nonzero ones of folio sizes by
    /// [`mm::huge_memory::stats::MthpStat::file`].
    pub counters: BTreeMap<String, u64>,
    /// Virtual length of the measured part in seconds.
    pub virtual_seconds: f64,
    /// Page allocations and frees simulated.
    pub page_operations: u64,
    /// Samples over virtual time.
    pub series: Vec<SeriesPoint>,
    /// Latencies: upper bound in nanoseconds and count of each bucket that is not empty.
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
    /// Caveats to print with the results, one sentence each.
    pub notes: Vec<String>,
    /// What happened at a time, in its order.
    pub events: Vec<RunEvent>,
    /// The VMAs that were used or scanned most.
    pub areas: Vec<AreaHeat>,
    /// Where several programs run, each of them.
    pub programs: Vec<ProgramOutcome>,
}

/// A sample of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesPoint {
    /// Virtual time in seconds.
    pub seconds: f64,
    /// Name of the series.
    pub name: String,
    pub value: f64,
}

impl Record {
    /// CPU seconds that were not idle.
    pub fn busy_seconds(&self) -> f64 {
        let busy = self.cpu_seconds.iter().filter(|(name, _)| *name != Category::IDLE.name());
        busy.map(|(_, seconds)| seconds).sum()
    }

    /// Makes a record of `outcome`.
    pub fn new(identity: String, run: &Run, outcome: &Outcome) -> Record {
        let named = |values: &BTreeMap<&'static str, f64>| {
            values.iter().map(|(&name, &value)| (name.to_string(), value)).collect()
        };
        let of_sizes = outcome.mthp.iter().filter(|&(.., count)| count > 0);
        let of_sizes =
            of_sizes.map(|(order, stat, count)| (stat.file(run.machine.page_size, order), count as u64));
        Record {
            identity,
            run: run.clone(),
            metrics: named(&outcome.metrics),
            cpu_seconds: named(&outcome.cpu_seconds),
            time_by_cpu: outcome
                .time_by_cpu
                .iter()
                .map(|(&name, parts)| (name.to_string(), parts.clone()))
                .collect(),
            counters: mm::Event::ALL
                .iter()
                .map(|&e| (e.name().to_string(), outcome.counters.get(e)))
                .chain(of_sizes)
                .collect(),
            virtual_seconds: outcome.virtual_seconds,
            page_operations: outcome.page_operations,
            series: outcome
                .series
                .iter()
                .map(|s| SeriesPoint { seconds: s.seconds, name: s.name.into(), value: s.value })
                .collect(),
            histograms: outcome
                .histograms
                .iter()
                .map(|(&name, buckets)| (name.into(), buckets.clone()))
                .collect(),
            notes: outcome.notes.clone(),
            events: outcome.events.clone(),
            areas: outcome.areas.clone(),
            programs: outcome.programs.clone(),
        }
    }
}
