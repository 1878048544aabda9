//! `mmtwin sensitivity`: how much results depend on values that nobody measured.

use crate::arguments::{Asked, JOBS, ScenarioArguments, jobs, whole};
use crate::failure::Failure;
use crate::files::{Contents, Ending, FileArguments, tables};
use crate::json;
use crate::number::{number, percent};
use crate::progress::{self, Lines};
use crate::table::Grid;
use crate::terminal;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use lab::scenario::Scenario;
use lab::sensitivity::{Effect, Question, Sensitivity};
use report::chart::{Axis, Chart, Drawing, Measure, Scale, Span, Spans};
use report::{Page, Part, Section};
use schemars::JsonSchema;
use serde::Serialize;
use sim::KernelChoice;
use sim::metric::Metric;
use std::num::NonZeroUsize;

const VARIANTS: &str = "Variants or releases, separated by commas [default: pcp-base or hugetlb-base (or else the scenario's first variant), and its last patch]";

/// Vary each assumption about a machine or workload over its plausible range
#[derive(clap::Args)]
#[command(mut_arg("variants", |variants| variants.help(VARIANTS)))]
#[command(after_help = "\
An assumption is a value with a range, or one whose source says that it is an assumption. It is set
to both ends of its range, or to half and twice its value, while all others keep theirs.

Examples:
  mmtwin sensitivity hugetlb-vm252
  mmtwin sensitivity page_fault1 -o assumptions.html
  mmtwin sensitivity hugetlb-8s --variants hugetlb-base,patch12,6.18
  mmtwin sensitivity hugetlb-neighbour --write vm.nr_hugepages=512 --write vm.nr_hugepages=0 --json")]
pub struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,

    /// Runs in parallel; does not affect results [default: number of CPUs]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroUsize>(JOBS))]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    files: FileArguments,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    scenario: &'a str,
    machine: &'a str,
    variants: &'a [String],
    assumptions: &'a [Sensitivity],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "sensitivity";
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let Asked { scenario, machine, variants, changes, .. } = arguments.scenario.load()?;
    let variants = variants.unwrap_or_else(|| default_variants(&scenario));
    let files = arguments.files.check(Ending::CHART)?;
    let question = Question { scenario, machine, variants, changes };
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} runs  {elapsed}")
        .context("the progress bar's template")?;
    let bar = ProgressBar::new(question.runs() as u64).with_style(style);
    let lines = Lines::of(&bar, progress::runs);
    let answers = question.answer(jobs(arguments.jobs), &sim::run_noting, &|| bar.inc(1));
    drop(lines);
    bar.finish_and_clear();
    let answers = answers?;
    let view = View {
        scenario: &question.scenario.name,
        machine: &question.machine.name,
        variants: &question.variants,
        assumptions: &answers,
    };
    let told = Told::of(&question, &answers);
    match arguments.json {
        true => json::print(&view)?,
        false => terminal::print(&told.render())?,
    }
    files.write(|| {
        let parts = charts(&question, &answers).into_iter().map(Part::Chart).collect();
        let front = vec![Section { title: "How far results reach".into(), parts }];
        let title = format!("What {} rests on", view.scenario);
        let page = tables(&title, front, &[("What assumptions move", &told.grid)]);
        let page = Page { lead: told.head, verdict: told.still.into_iter().collect(), ..page };
        Ok(Contents { page, json: json::text(&view)?, own: Vec::new() })
    })
}

/// For each variant, how far the first metric that can be better or worse reaches with each assumption at its ends.
fn charts(question: &Question, answers: &[Sensitivity]) -> Vec<Chart> {
    let Some(metric) = question.scenario.directed_metrics().next() else { return Vec::new() };
    let chart = |variant: &String| {
        let span = |Sensitivity { assumption, effects }: &Sensitivity| {
            let is_it = |effect: &&Effect| effect.metric == metric.name && effect.variant == *variant;
            let effect = effects.iter().find(is_it).filter(|effect| effect.largest() > SHOWN)?;
            let change = |value: f64| 100.0 * (value / effect.value - 1.0);
            let (low, high) = (change(effect.at_low), change(effect.at_high));
            let label = format!("{low:+.1} % to {high:+.1} %");
            Some(Span {
                name: assumption.key.clone(),
                mean: 0.0,
                interval: Some((low.min(high), low.max(high))),
                label,
            })
        };
        let mut spans: Vec<Span> = answers.iter().filter_map(span).collect();
        let reach = |span: &Span| span.interval.map_or(0.0, |(low, high)| high - low);
        spans.sort_by(|a, b| reach(b).total_cmp(&reach(a)));
        let title = format!("{} of {variant}", metric.label);
        let axis = Axis { title: "change".into(), measure: Measure::Percent, scale: Scale::Linear };
        let caption = format!(
            "How far the {title} moves with each assumption at the low and at the high end of its range, all others as they are."
        );
        let drawing = Drawing::Spans(Spans { axis, spans });
        Chart { title, caption, drawing }
    };
    question
        .variants
        .iter()
        .map(chart)
        .filter(|chart| !matches!(&chart.drawing, Drawing::Spans(of) if of.spans.is_empty()))
        .collect()
}

/// Two variants: the base of the series if its variants are the patches of a patch set (or else the
/// scenario's first variant), and the last patch in the scenario.
fn default_variants(scenario: &Scenario) -> Vec<String> {
    let is_patch = |name: &&String| name.starts_with("patch") && !name.ends_with("hvo-off");
    let last = scenario.variants.iter().rfind(is_patch).or(scenario.variants.last());
    let base = ["pcp-base", "hugetlb-base"].into_iter();
    let base = base.map(String::from).find(|base| KernelChoice::parse(&scenario.series, base).is_ok());
    let first = base.as_ref().or(scenario.variants.first());
    let mut variants: Vec<String> = first.into_iter().chain(last).cloned().collect();
    variants.dedup();
    variants
}

/// Relative changes up to this size are not shown.
const SHOWN: f64 = 0.001;

/// What is told of an answer.
struct Told {
    head: String,
    grid: Grid,
    /// What moves nothing.
    still: Option<String>,
}

impl Told {
    fn of(question: &Question, answers: &[Sensitivity]) -> Told {
        let (scenario, machine) = (&question.scenario, &question.machine.name);
        let mut grid =
            Grid::new(&["assumption", "value", "range", "variant", "metric", "value", "at low", "at high"]);
        grid.words = vec![2, 3, 4];
        let mut still = Vec::new();
        for Sensitivity { assumption, effects } in answers {
            let mut effects: Vec<&Effect> =
                effects.iter().filter(|effect| effect.largest() > SHOWN).collect();
            effects.sort_by(|a, b| b.largest().total_cmp(&a.largest()));
            if effects.is_empty() {
                still.push(assumption.key.as_str());
            }
            let stated = if assumption.stated { "" } else { " (not stated)" };
            let range = format!("{} to {}{stated}", number(assumption.low), number(assumption.high));
            let mut own = [assumption.key.clone(), number(assumption.value), range];
            for effect in effects {
                let metric = Metric::find(effect.metric).map_or(effect.metric, |metric| metric.label);
                let end = |value: f64| match effect.value {
                    0.0 => number(value),
                    own => format!("{}{}", if value < own { "" } else { "+" }, percent(value / own - 1.0)),
                };
                let cells = [effect.variant.clone(), metric.into(), number(effect.value)];
                let ends = [end(effect.at_low), end(effect.at_high)];
                // Only the first row of an assumption has its name, value and range.
                grid.row(std::mem::take(&mut own).into_iter().chain(cells).chain(ends));
            }
        }
        let still = (!still.is_empty())
            .then(|| format!("These change no metric by more than {}: {}", percent(SHOWN), still.join(", ")));
        Told { head: format!("{} on {machine}: {}", scenario.name, scenario.description), grid, still }
    }

    fn render(&self) -> String {
        let still = self.still.as_ref().map_or(String::new(), |still| format!("\n\n{still}"));
        format!("{}\n\n{}{still}", self.head, self.grid.render())
    }
}
