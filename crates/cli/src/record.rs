//! `mmtwin record`: page allocator or page cache events of the whole machine while a command runs.

use crate::arguments::whole;
use crate::failure::Failure;
use crate::json;
use crate::number::number;
use crate::table::Grid;
use crate::terminal;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use live::record::{DEFAULT_BUFFER_KIB, Demand, Options, Progress, Summary, record, recover};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use workload::keys::Bounds;
use workload::output::{Existing, Output};
use workload::trace::Ending;

/// The bounds of `--buffer`.
const BUFFER_KIB: Bounds = Bounds::new(4.0, 16_777_216.0, "a page to 16 GiB for each CPU");

/// Record the page allocator or page cache events of a command on the running kernel (needs root)
#[derive(clap::Args)]
#[command(after_help = "\
The whole machine is recorded while the command runs. The trace is a Parquet file, the input of
`mmtwin replay`; with --page-cache it has the file pages that were looked up and is the input of
`mmtwin mrc`. If the trace goes to /dev/stdout, all messages go to stderr.

Examples:
  mmtwin record -o build.parquet -- make -j8
  mmtwin record -o build.parquet --anonymize -- ./server --for 60
  mmtwin record -o files.parquet --page-cache -- make -j8
  mmtwin record -o /dev/stdout -- make -j8 | ssh laptop 'cat > build.parquet'
  mmtwin record -o build.parquet --recover build.parquet.spool    after the recorder was killed")]
pub struct Arguments {
    /// Output file; may be a pipe or device such as /dev/stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Record lookups in the page cache instead of the page allocator (Linux 6.12 and later)
    #[arg(long)]
    page_cache: bool,

    /// Size of the kernel's ring buffer in KiB per CPU
    #[arg(long, allow_negative_numbers = true, value_name = "KIB", default_value_t = DEFAULT_BUFFER_KIB, value_parser = whole::<u64>(BUFFER_KIB))]
    buffer: u64,

    /// Leave out the command line and the names of tasks, devices and inodes
    #[arg(long)]
    anonymize: bool,

    /// Replace the output file if it exists
    #[arg(long)]
    force: bool,

    /// Write the trace from the directory that a killed recorder left behind
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "buffer", "anonymize", "page_cache"])]
    recover: Option<PathBuf>,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,

    /// The command to record, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "recover")]
    command: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub struct View {
    output: String,
    events: u64,
    lost: u64,
    left_out: u64,
    seconds: f64,
    bytes: u64,
    #[schemars(with = "String")]
    ended: Ending,
    command_status: Option<i32>,
    by_operation: BTreeMap<&'static str, u64>,
}

impl json::Document for View {
    const NAME: &'static str = "record";
}

impl View {
    fn new(summary: &Summary) -> View {
        View {
            output: summary.output.display().to_string(),
            events: summary.events,
            lost: summary.lost,
            left_out: summary.left_out,
            seconds: summary.seconds,
            bytes: summary.bytes,
            ended: summary.ended,
            command_status: summary.status.and_then(|status| status.code()),
            by_operation: summary.by_operation.iter().copied().collect(),
        }
    }
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    live::rollback::put_back_left().context("cannot undo the changes that a killed mmtwin left behind")?;
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let output = Output::at(&arguments.output, Existing::Replace);
    let is_output_taken = output.is_ok_and(|output| output.is_standard_output());
    let mut report = |progress: Progress| show(&bar, progress);
    let recorded = match &arguments.recover {
        Some(spool) => recover(spool, &arguments.output, arguments.force, &mut report),
        None => {
            let options = Options {
                demand: if arguments.page_cache { Demand::PageCache } else { Demand::PageAllocator },
                buffer_kib: arguments.buffer,
                anonymize: arguments.anonymize,
                force: arguments.force,
                ..Options::new(&arguments.output, arguments.command.clone())
            };
            record(&options, &mut report)
        }
    };
    bar.finish_and_clear();
    let summary = recorded?;
    if is_output_taken {
        terminal::say(render(&summary));
    } else if arguments.json {
        json::print(&View::new(&summary))?;
    } else {
        terminal::print(&render(&summary))?;
    }
    if summary.ended == Ending::Interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Notice(text) => bar.suspend(|| terminal::say(format_args!("note: {text}"))),
        Progress::Recording { seconds, events, bytes, fill } => {
            let fullest = fill.iter().copied().fold(0.0, f64::max);
            bar.set_message(format!(
                "recording: {seconds:.0} s, {} events, {} MB, fullest buffer {:.0} %",
                number(events as f64),
                bytes / 1_000_000,
                100.0 * fullest
            ));
        }
        Progress::Converting { events, fraction } => {
            bar.set_message(format!(
                "writing the trace: {} events, {:.0} %",
                number(events as f64),
                100.0 * fraction
            ));
        }
    }
    bar.tick();
}

fn render(summary: &Summary) -> String {
    let mut grid = Grid::new(&["operation", "events"]);
    for &(operation, events) in &summary.by_operation {
        grid.row([operation.to_string(), events.to_string()]);
    }
    let mut text = format!(
        "{}\n\n{}: {} events in {:.1} s ({}/s), {:.1} bytes per event, none lost",
        grid.render(),
        summary.output.display(),
        summary.events,
        summary.seconds,
        number(summary.events_per_second()),
        summary.bytes_per_event()
    );
    match summary.status {
        Some(status) if !status.success() => text += &format!("\nnote: the command ended with {status}"),
        _ => {}
    }
    match summary.ended {
        Ending::CommandExited => {}
        Ending::Interrupted => text += "\nnote: interrupted; the trace has the events up to then",
        Ending::DiskFull => {
            text += "\nnote: recording stopped because the disk was (nearly) full; the command kept running"
        }
        Ending::RecorderKilled => text += "\nnote: recovered from the files of a killed recorder",
    }
    if summary.left_out > 0 {
        text += &format!(
            "\nnote: the trace ends after {:.3} s: later events were recorded only in part, and those {} are left out",
            summary.seconds, summary.left_out
        );
    }
    text
}
