//! `mmtwin replay`: recorded allocations on another kernel, setting or machine.

use crate::arguments::{self, SweepArguments, SystemArguments, whole};
use crate::compare::{RELEVANT, ViewArguments, Wanted, compare};
use crate::completion;
use crate::failure::Failure;
use crate::files::FileArguments;
use crate::kernel;
use crate::recorded_trace;
use crate::timeline::TimelineArguments;
use lab::experiment::Experiment;
use lab::scenario::{Scenario, THIS_MACHINE};
use mm::Series;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use workload::keys::{CPUS, MICROSECONDS};
use workload::page_trace::PageTrace;

/// Replay a recorded trace in the twin
#[derive(clap::Args)]
#[command(after_help = "\
Pages are allocated and freed at the recorded times and on the recorded CPUs; the twin decides how
the kernel serves them. Several kernels are compared with the first one.

Examples:
  mmtwin replay build.parquet
  mmtwin replay build.parquet --kernel pcp-base,patch9,6.18
  mmtwin replay build.parquet --kernel 6.12,6.18 -o build.html
  mmtwin replay build.parquet --machine intel-2s-224 --copies 8 --set vm.stat_interval=10")]
pub struct Arguments {
    /// A trace that `mmtwin record` wrote
    trace: PathBuf,

    /// Releases or variants from `mmtwin list`, separated by commas [default: the recorded release]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', value_parser = arguments::kernel, add = completion::kernels())]
    kernel: Vec<String>,

    /// Number of copies that run in parallel, each on as many CPUs as the recorded machine has
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "1", value_parser = whole::<NonZeroUsize>(CPUS))]
    copies: NonZeroUsize,

    /// Delay between the starts of two copies in virtual microseconds
    #[arg(long, allow_negative_numbers = true, value_name = "US", default_value_t = 0, value_parser = whole::<u64>(MICROSECONDS.or_none()))]
    stagger_us: u64,

    #[command(flatten)]
    system: SystemArguments,

    #[command(flatten)]
    view: ViewArguments,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    timeline: TimelineArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

/// Runs the command.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let recorded = recorded_trace::scenario(&arguments.trace)?;
    let kernels = arguments::present_names(Series::PCP.name, &arguments.kernel);
    let variants = if kernels.is_empty() { recorded.variants.clone() } else { kernels };
    let machine = arguments.system.profile(THIS_MACHINE)?;
    let scenario = Scenario {
        machine: machine.name.clone(),
        variants: variants.clone(),
        workload: recorded_trace::workload_of(PageTrace {
            trace: arguments.trace.clone(),
            copies: arguments.copies.get(),
            stagger_us: arguments.stagger_us,
        }),
        ..recorded
    };
    let experiment = Experiment {
        scenario,
        machine,
        variants: variants.clone(),
        seeds: arguments.sweep.seeds.map_or(1, |seeds| seeds.get()),
        changes: arguments.system.changes()?,
        varied: Vec::new(),
        trees: kernel::trees(Series::PCP.name, variants.iter())?,
    };
    let files = arguments.timeline.check(&arguments.files, &experiment)?;
    let Arguments { view, timeline, sweep, .. } = arguments;
    compare(&experiment, &Wanted { sweep, view, files, timeline }, RELEVANT)?;
    Ok(())
}
