//! `mmtwin mrc`: miss ratios of replacement policies as a function of memory size.

use crate::arguments::{self, JOBS, whole};
use crate::failure::Failure;
use crate::files::{self, Contents, Ending, FileArguments, GoneArguments};
use crate::json;
use crate::number::percent;
use crate::runner;
use crate::table::Grid;
use crate::terminal;
use lab::experiment::threads;
use lab::rulers::{self, Point, Policy, Sequence};
use mm::Series;
use report::chart::{self, Axis, Chart, Drawing, Line, Lines, Measure, Scale};
use report::{Data, Page, Part, Section};
use schemars::JsonSchema;
use serde::Serialize;
use sim::KernelError;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use workload::access::{self, Format, PAGE_SIZE};
use workload::keys::Bounds;

/// The bounds of `--sizes`.
const SIZES: Bounds = Bounds::new(1.0, 1_073_741_824.0, "4 TiB");
/// The bounds of `--points`.
const POINTS: Bounds = Bounds::new(1.0, 1000.0, "more than a plot can resolve");

/// Draw miss-ratio curves of an access trace: miss ratio of replacement policies against memory size
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Arguments {
    /// A trace of accesses to page cache, disk or memory; `-` for standard input
    trace: PathBuf,

    /// Format of the trace, if it cannot be detected from the contents
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Replacement policies, separated by commas [default: all]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', value_parser = policy)]
    policies: Vec<String>,

    /// Memory sizes in pages of 4 KiB, separated by commas
    #[arg(long, allow_negative_numbers = true, value_name = "PAGES,...", value_delimiter = ',', value_parser = whole::<NonZeroUsize>(SIZES), conflicts_with = "points")]
    sizes: Vec<NonZeroUsize>,

    /// Number of memory sizes if none are given, evenly spaced on a logarithmic scale up to all pages of the
    /// trace
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "16", value_parser = whole::<NonZeroUsize>(POINTS))]
    points: NonZeroUsize,

    /// Estimate the curves from random samples of this fraction of the pages (0 to 0.5), with 95 % intervals
    #[arg(long, allow_negative_numbers = true, value_name = "RATE")]
    sample: Option<f64>,

    /// Replays in parallel; does not affect results [default: number of CPUs]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroUsize>(JOBS))]
    jobs: Option<NonZeroUsize>,

    /// Write the curves to DIR/mrc.parquet
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    gone: GoneArguments,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let width = Policy::ALL.iter().map(|policy| policy.name.len()).max().unwrap_or_default();
    let policies: String =
        Policy::ALL.iter().map(|policy| format!("  {:<width$}  {}\n", policy.name, policy.about)).collect();
    format!(
        "\
Policies:
{policies}
Every other variant of series reclaim and every kernel release is a policy too, such as mglru-7.1
and 6.12 (see `mmtwin list variants`, `mmtwin list releases`), also with features of its own,
6.18:mglru.tiers=off (`mmtwin list features`). Kernels read single pages and read nothing ahead.
Memory is empty at the start, so the first access to each page is a miss under every policy.

Examples:
  mmtwin mrc trace.oracleGeneral.zst
  mmtwin mrc trace.oracleGeneral.bin --policies belady,lru,classic --sizes 1000,10000,100000
  mmtwin mrc trace.oracleGeneral.bin --policies 6.18,6.18:mglru.tiers=off
  mmtwin mrc disk.oracleGeneral.bin --points 32 -o disk.html -o disk.csv --results disk
  mmtwin mrc huge.oracleGeneral.zst --sample 0.01
  xz -dc trace.csv.xz | mmtwin mrc -"
    )
}

/// The curves; where miss ratios were estimated, bars are their 95 % intervals.
fn chart(policies: &[Policy], points: &[Point]) -> Chart {
    let line = |policy: &Policy| {
        let of = points.iter().filter(|point| point.policy == policy.name);
        let point = |point: &Point| chart::Point {
            x: (point.size_pages * PAGE_SIZE as usize) as f64,
            y: point.miss_ratio,
            interval: point.miss_ratio_low.zip(point.miss_ratio_high),
        };
        Line { name: policy.name.into(), points: of.map(point).collect() }
    };
    let drawing = Drawing::Lines(Lines {
        x: Axis { title: "memory".into(), measure: Measure::Bytes, scale: Scale::Logarithmic },
        y: Axis { title: "miss ratio".into(), measure: Measure::Fraction, scale: Scale::Linear },
        y_ends: Some((0.0, 1.0)),
        lines: policies.iter().map(line).collect(),
    });
    let caption =
        "Part of the accesses that find their page not in memory, by how much memory there is. Lower is better."
            .into();
    Chart { title: "Miss ratio".into(), caption, drawing }
}

/// A clap value parser for the name of a policy.
fn policy(name: &str) -> Result<String, String> {
    let names = || Policy::ALL.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ");
    Policy::named(name).map(|_| name.to_string()).map_err(|error| match error {
        KernelError::UnknownVariant { .. } => format!(
            "no such policy; there are {}, and every variant of series reclaim (`mmtwin list variants`) or kernel release (`mmtwin list releases`)",
            names()
        ),
        error => error.to_string(),
    })
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    trace: String,
    beyond_end: Option<u64>,
    accesses: usize,
    distinct_pages: usize,
    sample: Option<f64>,
    points: &'a [Point],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "mrc";
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let policies =
        if arguments.policies.is_empty() { Policy::ALL.to_vec() } else { named(&arguments.policies) };
    arguments.gone.refuse()?;
    let files = arguments.files.check(Ending::CHART)?;
    let mut accesses = access::open(&arguments.trace, arguments.format.clone())?;
    let sequence = Sequence::read(&mut accesses)?;
    let trace = access::name(&arguments.trace);
    let beyond_end = accesses.beyond_end();
    if let Some(record) = beyond_end {
        terminal::say(format_args!(
            "note: {trace} is an excerpt of a longer trace: its records refer to record {record}, which is beyond its end"
        ));
    }
    let sizes = sizes(arguments, sequence.distinct());
    let replays = policies.len() * sizes.len();
    let points = threads(arguments::jobs(arguments.jobs), replays)?.install(|| match arguments.sample {
        Some(rate) => rulers::sampled_curves(&sequence, &policies, &sizes, rate),
        None => Ok(rulers::curves(&sequence, &policies, &sizes)),
    })?;
    // What was computed is printed first: it is there whatever becomes of the files.
    let (accesses, distinct_pages) = (sequence.pages().len(), sequence.distinct());
    let (name, sample) = (trace.clone(), arguments.sample);
    let view = View { trace: name, beyond_end, accesses, distinct_pages, sample, points: &points };
    let lead = format!("{trace}: {accesses} page accesses to {distinct_pages} pages");
    let grid = grid(&policies, &sizes, &points);
    if arguments.json {
        json::print(&view)?;
    } else {
        terminal::say(&lead);
        terminal::print(&grid.render())?;
    }
    if let Some(directory) = &arguments.results {
        rulers::write_parquet(directory, &trace, &runner::program(), &sequence, arguments.sample, &points)?;
    }
    files.write(|| {
        let page = page(lead, chart(&policies, &points), &grid, &points);
        Ok(Contents { page, json: json::text(&view)?, own: Vec::new() })
    })
}

/// The curves, the table, and all points.
fn page(lead: String, chart: Chart, grid: &Grid, points: &[Point]) -> Page {
    let parts = vec![Part::Chart(chart), Part::Table(grid.on_page("Miss ratios"))];
    let mut data = Data::of(&["policy", "size_pages", "miss_ratio", "miss_ratio_low", "miss_ratio_high"]);
    for point in points {
        let bound = |bound: Option<f64>| bound.map_or(String::new(), |bound| bound.to_string());
        data.rows.push(vec![
            point.policy.to_string(),
            point.size_pages.to_string(),
            point.miss_ratio.to_string(),
            bound(point.miss_ratio_low),
            bound(point.miss_ratio_high),
        ]);
    }
    let again = files::again(Path::new("")).section(&[], &[], &[]);
    let sections = vec![Section { title: "Miss ratio by memory size".into(), parts }, again];
    Page { title: "Miss ratios of replacement policies".into(), lead, sections, data, ..Page::default() }
}

/// The policies of these names, without duplicates.
fn named(names: &[String]) -> Vec<Policy> {
    let mut unique: Vec<Policy> = Vec::new();
    let names = arguments::present_names(Series::RECLAIM.name, names);
    for policy in names.iter().filter_map(|name| Policy::named(name).ok()) {
        if unique.iter().all(|known| known.name != policy.name) {
            unique.push(policy);
        }
    }
    unique
}

/// The memory sizes in pages, ascending and without duplicates.
fn sizes(arguments: &Arguments, distinct: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = arguments.sizes.iter().map(|size| size.get()).collect();
    if sizes.is_empty() {
        sizes = rulers::default_sizes(distinct, arguments.points.get(), arguments.sample);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn grid(policies: &[Policy], sizes: &[usize], points: &[Point]) -> Grid {
    let mut header = vec!["pages", "MiB"];
    header.extend(policies.iter().map(|policy| policy.name));
    let mut grid = Grid::new(&header);
    for (row, size) in sizes.iter().enumerate() {
        let mebibytes = *size as f64 * PAGE_SIZE as f64 / f64::from(1 << 20);
        let mut entries = vec![size.to_string(), format!("{mebibytes:.1}")];
        // `points` holds one curve after the other, in the order of the policies.
        entries.extend(points.chunks(sizes.len()).map(|curve| entry(&curve[row])));
        grid.row(entries);
    }
    grid
}

fn entry(point: &Point) -> String {
    match (point.miss_ratio_low, point.miss_ratio_high) {
        (Some(low), Some(high)) => format!("{} ± {:.1}", percent(point.miss_ratio), 50.0 * (high - low)),
        _ => format!("{:.2} %", 100.0 * point.miss_ratio),
    }
}
