//! `mmtwin explain`: which of the changes between two kernels moved a metric.
//!
//! ```text
//!   From 6.6 to 6.12 build time went ...; 6.7 moved it most ...     the release, then the change
//!
//!   release    each step                                            only between releases
//!   player     alone, taken away, share                             the shares add up to the whole difference
//! ```

use crate::arguments::{Asked, ChangeArguments, SweepArguments, kernel, metric, whole};
use crate::compare::{ONE_SEED, brackets, heading, tone_of};
use crate::failure::Failure;
use crate::json;
use crate::notes;
use crate::number::{change, number, percent};
use crate::run::title;
use crate::runner::{self, Made};
use crate::table::{Entry, Grid, Tone};
use crate::terminal;
use clap::ValueEnum;
use lab::experiment::check_name;
use lab::explain::{
    Answer, Effect, Explanation, FeatureChange, Grain, Most, Player, Question, Releases, Search, Sharing,
    Stage, Step, own_metric,
};
use lab::results::Record;
use lab::statistics::{Change, is_significant};
use schemars::JsonSchema;
use serde::Serialize;
use sim::Run;
use sim::metric::Metric;
use std::num::{NonZeroU64, NonZeroUsize};
use workload::keys::Bounds;

/// Say which of the changes between two kernels moved a metric
#[derive(clap::Args)]
#[command(after_help = "\
Between two releases the one that moved the metric most is searched with one seed, as git bisect
does, then which of its changes did; --every-release runs all of them with all seeds. Then the
changes between the two kernels share the difference: the share of each is what it adds, averaged
over all orders of merging (Shapley), or over drawn orders where there are many. Shares add up to
the difference. What cannot act in a scenario is not run.

A kernel is a release, a variant, one with features of its own, or a kernel tree that was added.
Runs are kept as those of compare are; what is there already is not run again.

Examples:
  mmtwin explain kbuild --from 6.6 --to 6.12
  mmtwin explain page_fault1 --from 6.6 --to 6.18 --by change --orders 16
  mmtwin explain page_fault1 --from 6.6 --to 6.18 --every-release
  mmtwin explain working-set-shift-1g --from 6.1 --to 6.18 --metric score,file_read_rate
  mmtwin explain kbuild --from 6.12 --to my-patch
  mmtwin explain page_fault1 --from 6.18:pcp.auto_tuning=off --to 6.18 --json")]
pub struct Arguments {
    /// A name from `mmtwin list scenarios`, a .toml file, or a trace that `mmtwin record` wrote
    scenario: String,

    /// The old kernel: a release or variant
    #[arg(long, value_name = "KERNEL", value_parser = kernel)]
    from: String,

    /// The new kernel: a release or variant
    #[arg(long, value_name = "KERNEL", value_parser = kernel)]
    to: String,

    /// What shares the difference: all changes of a mechanism together, or each change by itself
    #[arg(long, value_enum, default_value_t = By::Mechanism)]
    by: By,

    /// Metrics of the scenario to explain, separated by commas [default: its first that can be better or worse]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', value_parser = metric)]
    metric: Vec<Metric>,

    /// Orders of merging that are drawn with each seed where there are too many changes for all
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = ORDERS, value_parser = whole::<NonZeroUsize>(OF_ORDERS))]
    orders: NonZeroUsize,

    /// Run every release between two releases with every seed
    #[arg(long)]
    every_release: bool,

    /// The first of the seeds: with --seeds 3 --first-seed 4, seeds 4 to 6
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = NonZeroU64::MIN, value_parser = whole::<NonZeroU64>(FIRST_SEED))]
    first_seed: NonZeroU64,

    #[command(flatten)]
    changes: ChangeArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

/// The default of `--orders`: four pairs of an order and its reverse.
const ORDERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);
const OF_ORDERS: Bounds =
    Bounds::new(1.0, 10_000.0, "shares of so many are a hundredth of one order's error");
const FIRST_SEED: Bounds = Bounds::new(1.0, 1e9, "seeds that nobody has used yet");

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Mechanism,
    Change,
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    scenario: &'a str,
    machine: &'a str,
    results: String,
    #[serde(flatten)]
    answer: &'a Answer,
}

impl json::Document for View<'_> {
    const NAME: &'static str = "explain";
}

/// Runs the command.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let question = question(arguments)?;
    check_name(&question.scenario)?;
    let mut total = Made::default();
    let mut make = |stage: Stage, runs: &[Run]| -> Result<Vec<Record>, Failure> {
        let made = runner::make(runs, &arguments.sweep, &format!("{}: ", stage.name()))?;
        total.add(made.runs, made.known, made.seconds);
        Ok(made.records)
    };
    let answer = question.answer(&mut make)?;
    total.say(&arguments.sweep.results);
    if arguments.sweep.json {
        return json::print(&View {
            scenario: &question.scenario.name,
            machine: &question.machine.name,
            results: arguments.sweep.results.display().to_string(),
            answer: &answer,
        });
    }
    terminal::print(&render(&question, &answer))
}

fn question(arguments: &Arguments) -> Result<Question, Failure> {
    let names = [arguments.from.clone(), arguments.to.clone()];
    let Asked { scenario, machine, variants, changes, trees } =
        arguments.changes.load(&arguments.scenario, Some(&names))?;
    let [from, to] = variants.and_then(|variants| variants.try_into().ok()).unwrap_or(names);
    let metrics = match arguments.metric.as_slice() {
        [] => own_metric(&scenario).into_iter().collect(),
        asked => asked.to_vec(),
    };
    let seeds = arguments.sweep.seeds.map_or(scenario.seeds, |seeds| seeds.get());
    let first = arguments.first_seed.get();
    Ok(Question {
        machine,
        changes,
        trees,
        from,
        to,
        grain: match arguments.by {
            By::Mechanism => Grain::Mechanism,
            By::Change => Grain::Change,
        },
        metrics,
        seeds: (first..first + u64::from(seeds)).collect(),
        orders: arguments.orders.get(),
        releases: if arguments.every_release { Releases::Every } else { Releases::Searched },
        scenario,
    })
}

fn render(question: &Question, answer: &Answer) -> String {
    let verdicts: Vec<String> =
        answer.explanations.iter().map(|explanation| verdict(answer, explanation)).collect();
    let Question { scenario, machine, .. } = question;
    let settings = answer.ends.first().map(|record| &record.run.settings).cloned().unwrap_or_default();
    let heading =
        heading(&scenario.name, &machine.name, &scenario.description, &scenario.evidence, &settings);
    let mut text = format!("{}\n\n{heading}", verdicts.join("\n"));
    for explanation in &answer.explanations {
        if !explanation.steps.is_empty() {
            text += &format!("\n{}\n", releases(answer, explanation).render());
        }
        text += &search(explanation);
        if !explanation.players.is_empty() {
            text += &format!("\n{}\n", players(answer, explanation).render());
        }
    }
    text + "\n" + &legend(answer) + &notes::of_arms(&notes::by_variant(&answer.ends))
}

/// A change with its interval, in a line.
fn in_a_line(metric: &Metric, by: &Change, mark: &str) -> String {
    match change(by, metric.unit_of_change(), mark) {
        (value, Some(interval)) => format!("{value} {interval}"),
        (value, None) => value,
    }
}

/// The release, then the change, then the shares.
fn verdict(answer: &Answer, explanation: &Explanation) -> String {
    let Explanation { metric, steps, most, players, .. } = explanation;
    let Answer { from, to, .. } = answer;
    let label = metric.label;
    let Some(Most { step, by, change: of_change }) = most else {
        return format!("Nothing that differs between {from} and {to} moves {label}.");
    };
    let size = |by: &Change| change(by, metric.unit_of_change(), "").0;
    let whole = size(&explanation.change);
    let moved =
        format!("{}{} moved it by {}", by.name, values(&by.changes), in_a_line(metric, of_change, ""));
    let mut text = match steps.as_slice() {
        [] => format!("From {from} to {to}, {label} moved by {whole}, most by one change: {moved}."),
        [Step { kernels, .. }] if kernels.len() == 1 => {
            format!("{to} moved {label} by {whole}. In it, {moved}.")
        }
        _ => format!(
            "{} moved {label} most: {} of the {whole} from {from} to {to}. In it, {moved}.",
            step.to,
            size(&step.change)
        ),
    };
    if explanation.change.p_value.is_some() && !explanation.change.is_significant() {
        text += " The whole difference may be chance.";
    }
    if let Some(Effect { player, part: Some(part), .. }) = players.first() {
        text += &format!(" The largest share of the whole is that of {}: {}.", player.name, percent(*part));
    }
    text
}

/// What a change of one feature is, in brackets.
fn values(changes: &[FeatureChange]) -> String {
    match changes {
        [FeatureChange { from, to, .. }] => format!(" ({from} -> {to})"),
        _ => String::new(),
    }
}

fn releases(answer: &Answer, explanation: &Explanation) -> Grid {
    let metric = &explanation.metric;
    let mut grid = Grid::new(&["release", &title(metric)]);
    let first = |text: String| [Entry::from(answer.from.as_str()), text.into()];
    grid.row(first(number(explanation.from)));
    for step in &explanation.steps {
        grid.row([releases_of(step), in_a_line(metric, &step.change, "")]);
    }
    grid.row(["all together".to_string(), in_a_line(metric, &explanation.change, "")]);
    grid
}

/// A release, or the first and the last one of several.
fn releases_of(step: &Step) -> String {
    match step.kernels.as_slice() {
        [first, .., last] => format!("{first} to {last}"),
        _ => step.to.clone(),
    }
}

/// How the release was found, where not all were run.
fn search(explanation: &Explanation) -> String {
    let Some(Search { seed, run, of }) =
        explanation.search.as_ref().filter(|search| search.run.len() < search.of)
    else {
        return String::new();
    };
    format!(
        "Searched with seed {seed}, which ran {} of {of} different kernels: {}.\n\
         What a release moves and a later one takes back before the next of these is not seen; --every-release runs all, with all seeds.\n",
        run.len(),
        run.join(", ")
    )
}

fn players(answer: &Answer, explanation: &Explanation) -> Grid {
    let metric = &explanation.metric;
    let (alone, without) = (format!("alone on {}", answer.from), format!("taken away from {}", answer.to));
    let share = format!("share of {}", metric.label);
    let header = [noun(answer.by, One::One), "what changes", &alone, &without, &share, "part"];
    let mut grid = Grid { more_labels: 1, ..Grid::new(&header) };
    let cell = |by: &Change, mark: &str| {
        let (value, interval) = change(by, metric.unit_of_change(), mark);
        [value].into_iter().chain(interval).collect::<Vec<_>>().join("\n")
    };
    for Effect { player, alone, taken_away, share, part, adjusted_p_value } in &explanation.players {
        let is_marked = adjusted_p_value.is_some_and(is_significant);
        let mark = if is_marked { "*" } else { "" };
        let tone = if is_marked { tone_of(metric, share.difference) } else { Tone::Plain };
        grid.row([
            Entry::from(player.name.as_str()),
            what_changes(player).into(),
            cell(alone, "").into(),
            cell(taken_away, "").into(),
            Entry { text: cell(share, mark), tone },
            part.map_or("-".into(), percent).into(),
        ]);
    }
    grid
}

/// The values of a feature, or how many features there are.
fn what_changes(player: &Player) -> String {
    match player.changes.as_slice() {
        [] => "-".into(),
        [FeatureChange { feature, from, to }] if player.name == *feature => format!("{from} -> {to}"),
        changes => format!("{} features", changes.len()),
    }
}

/// One or several.
#[derive(Clone, Copy)]
enum One {
    One,
    Several,
}

fn noun(by: Grain, count: One) -> &'static str {
    match (by, count) {
        (Grain::Mechanism, One::One) => "mechanism",
        (Grain::Mechanism, One::Several) => "mechanisms",
        (Grain::Change, One::One) => "change",
        (Grain::Change, One::Several) => "changes",
    }
}

/// What the numbers are.
fn legend(answer: &Answer) -> String {
    let seeds = answer.seeds.len();
    let mut text = match brackets(answer.method) {
        Some(brackets) => {
            format!(
                "{seeds} seeds. Changes are those of the mean of {}, in brackets: {brackets}.",
                answer.from
            )
        }
        None => ONE_SEED.into(),
    };
    let count = answer.explanations.first().map_or(0, |explanation| explanation.players.len());
    if count > 0 {
        text += &match answer.sharing {
            Sharing::Exact => format!(
                "\nShares are Shapley values over all orders of {count} {}; they add up to the whole change.",
                noun(answer.by, if count == 1 { One::One } else { One::Several })
            ),
            Sharing::Sampled { orders } => format!(
                "\nShares are Shapley values over {orders} drawn orders a seed of {count} {}; they add up to the whole change, and\n\
                 intervals cover what the drawn orders leave open (--orders).",
                noun(answer.by, One::Several)
            ),
        };
        if seeds > 2 {
            text +=
                "\n* marks a share that chance alone is unlikely to make (all shares tested together, Holm).";
        }
    }
    text += &who(answer, &answer.cannot_act, "cannot act here");
    let first = answer.seeds.first().copied().unwrap_or_default();
    let nothing = match answer.idle.len() {
        1 => format!("changes nothing with seed {first}"),
        _ => format!("change nothing with seed {first}"),
    };
    text += &who(answer, &answer.idle, &nothing);
    if !answer.releases_that_cannot_act.is_empty() {
        text += &format!(
            "\nReleases that change nothing that can act here: {}.",
            answer.releases_that_cannot_act.join(", ")
        );
    }
    text + &format!("\n{} distinct runs.", answer.runs)
}

/// How many players are something, and who they are.
fn who(answer: &Answer, players: &[Player], are: &str) -> String {
    let names: Vec<&str> = players.iter().map(|player| player.name.as_str()).collect();
    let named = match answer.by {
        Grain::Mechanism => format!(": {}", names.join(", ")),
        Grain::Change => String::new(),
    };
    match names.len() {
        0 => String::new(),
        1 => format!("\n1 {} {are}{named}.", noun(answer.by, One::One)),
        count => format!("\n{count} {} {are}{named}.", noun(answer.by, One::Several)),
    }
}
