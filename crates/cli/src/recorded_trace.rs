//! A trace that `mmtwin record` wrote, as a scenario: what it asks of a machine, on the kernel that it was recorded on.

use crate::failure::Failure;
use lab::scenario::{Scenario, THIS_MACHINE};
use mm::Series;
use sim::Workload;
use sim::host::HostProgram;
use sim::metric::{ALLOC_P50, ALLOC_P99, ALLOC_ZONE, FREE_HIGH, MEMORY_MAX, Metric, PCP_END, PCP_MAX};
use std::path::Path;
use workload::page_trace::{self, LATEST, PageTrace};
use workload::tasks::ProgramSpec;

/// Without shares of cycles: the program's own time is not in a recording, so they would be of what memory takes alone.
const SHOWN: &[Metric] = &[ALLOC_ZONE, FREE_HIGH, PCP_MAX, PCP_END, MEMORY_MAX, ALLOC_P50, ALLOC_P99];

/// The scenario of one copy of a trace.
pub fn scenario(trace: &Path) -> Result<Scenario, Failure> {
    let release = page_trace::open(trace)?.metadata().kernel_release.clone();
    Ok(Scenario {
        name: name(trace),
        description: format!("demand recorded on Linux {release}, {}", trace.display()),
        evidence: "model only; the demand is recorded, times are those of the machine's profile".into(),
        machine: THIS_MACHINE.into(),
        series: Series::PCP.name.into(),
        variants: vec![release],
        seeds: 1,
        settings: Default::default(),
        metrics: SHOWN.iter().map(|metric| metric.name.into()).collect(),
        workload: workload_of(PageTrace { trace: trace.into(), copies: 1, stagger_us: 0 }),
    })
}

/// A machine that replays a trace to its end and does nothing else.
pub fn workload_of(trace: PageTrace) -> Workload {
    Workload {
        milliseconds: LATEST / 1_000_000,
        programs: vec![HostProgram::new("trace", ProgramSpec::PageTrace(trace))],
        ..Workload::default()
    }
}

/// `replay-` and the file name of the trace, with characters replaced that a scenario's name must not
/// contain.
fn name(trace: &Path) -> String {
    let stem = trace.file_stem().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    format!("replay-{}", stem.chars().map(allowed).collect::<String>())
}
