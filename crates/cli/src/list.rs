//! `mmtwin list`: what there is.

mod seconds;

use crate::failure::Failure;
use crate::json;
use crate::table::{Entry, Grid};
use crate::terminal;
use clap::ValueEnum;
use lab::dates::{Rule, rules};
use lab::published::Publication;
use lab::scenario::{Scenario, load_machine, machine_names};
use lab::study::Study;
use live::verify::{Verification, verification};
use machine::PageSize;
use mm::features::by_name::{Feature, snake_case};
use mm::series::{Known, MAINLINE};
use mm::sysctl::Setting;
use mm::{Event, Mechanism, Series, Variant};
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{Better, Metric};

/// List scenarios, machines, variants, releases, features, dates of rules, settings, metrics, counters, published tables, studies and
/// what can be verified
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mmtwin list
  mmtwin list settings
  mmtwin list features
  mmtwin list dates
  mmtwin list metrics --json")]
pub struct Arguments {
    /// Only this part
    part: Option<Part>,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Scenarios,
    Machines,
    Variants,
    Releases,
    Features,
    Dates,
    Settings,
    Metrics,
    Counters,
    Published,
    Studies,
    Verified,
}

#[derive(JsonSchema, Serialize)]
pub struct Lists {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scenarios: Vec<ScenarioLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    machines: Vec<MachineLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variants: Vec<VariantLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    releases: Vec<ReleaseLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    features: Vec<FeatureLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dates: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settings: Vec<SettingLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<MetricLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    counters: Vec<CounterLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    studies: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verified: Vec<Line>,
}

impl Lists {
    /// One part, with the others empty.
    fn only(self, part: Part) -> Lists {
        fn kept<T>(is_wanted: bool, list: Vec<T>) -> Vec<T> {
            if is_wanted { list } else { Vec::new() }
        }
        Lists {
            scenarios: kept(part == Part::Scenarios, self.scenarios),
            machines: kept(part == Part::Machines, self.machines),
            variants: kept(part == Part::Variants, self.variants),
            releases: kept(part == Part::Releases, self.releases),
            features: kept(part == Part::Features, self.features),
            dates: kept(part == Part::Dates, self.dates),
            settings: kept(part == Part::Settings, self.settings),
            metrics: kept(part == Part::Metrics, self.metrics),
            counters: kept(part == Part::Counters, self.counters),
            published: kept(part == Part::Published, self.published),
            studies: kept(part == Part::Studies, self.studies),
            verified: kept(part == Part::Verified, self.verified),
        }
    }
}

impl json::Document for Lists {
    const NAME: &'static str = "list";
}

#[derive(JsonSchema, Serialize)]
struct Line {
    name: String,
    description: String,
}

#[derive(JsonSchema, Serialize)]
struct PublishedLine {
    name: &'static str,
    description: &'static str,
    tables: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct ScenarioLine {
    name: String,
    description: String,
    evidence: String,
    machine: String,
    series: String,
    seeds: u32,
    variants: Vec<String>,
    /// CPU seconds that a run took when that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_seconds: Option<f64>,
}

impl ScenarioLine {
    /// All but its name.
    fn text(&self) -> String {
        let ScenarioLine { description, evidence, machine, series, seeds, variants, run_seconds, .. } = self;
        let runs = u64::from(*seeds) * variants.len() as u64;
        let runs = if runs == 1 { "1 run".to_string() } else { format!("{runs} runs") };
        let seconds = run_seconds.map_or(String::new(), |seconds| format!(" of about {seconds} CPU seconds"));
        format!("{description}\n{evidence}\n{machine}, {series}, {runs}{seconds}")
    }
}

#[derive(JsonSchema, Serialize)]
struct MachineLine {
    name: &'static str,
    page_size_kib: u64,
    description: String,
}

#[derive(JsonSchema, Serialize)]
struct VariantLine {
    series: &'static str,
    name: &'static str,
    description: &'static str,
}

#[derive(JsonSchema, Serialize)]
struct ReleaseLine {
    release: &'static str,
    variant: &'static str,
}

/// A switch of the kernel, with the rules of its values.
#[derive(JsonSchema, Serialize)]
struct FeatureLine {
    name: String,
    values: Vec<String>,
    /// What each value means; none if they say it themselves.
    meanings: Vec<String>,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<&'static str>,
    /// Which releases have which value, how that is known, and the commit.
    dates: Vec<Rule>,
}

impl FeatureLine {
    fn all(rules: &[Rule]) -> Vec<FeatureLine> {
        let of = |feature: &Feature| -> Vec<Rule> {
            let is_its = |rule: &&Rule| rule.structure == feature.structure && rule.field == feature.field();
            rules.iter().filter(is_its).cloned().collect()
        };
        let line = |feature: Feature| FeatureLine {
            dates: of(&feature),
            name: feature.path,
            values: feature.words,
            meanings: feature.meanings,
            description: feature.description,
            needs: feature.needs,
        };
        Feature::all().into_iter().map(line).collect()
    }

    /// It whole, each value with what it means.
    fn whole(&self) -> String {
        let longest = self.values.iter().map(|value| value.chars().count()).max().unwrap_or(0);
        let meaning = |(value, meaning): (&String, &String)| {
            format!("  {value:<longest$}  {meaning}").trim_end().to_string()
        };
        let meanings = self.values.iter().zip(&self.meanings).map(meaning);
        [format!("{}: {}", self.name, self.text())].into_iter().chain(meanings).collect::<Vec<_>>().join("\n")
    }

    /// What it does, its values, and since when there are which.
    fn text(&self) -> String {
        let date = |rule: &Rule| {
            let value = rule.value.as_ref().map_or("on".into(), |value| snake_case(value));
            format!("{value}: {} ({})", rule.releases(), rule.known.name())
        };
        let dates: Vec<String> = self.dates.iter().map(date).collect();
        let needs = self.needs.map(|needs| format!("\n{needs}")).unwrap_or_default();
        format!("{}\ntakes {}; {}{needs}", self.description, self.values.join(", "), dates.join("; "))
    }
}

#[derive(JsonSchema, Serialize)]
struct SettingLine {
    name: &'static str,
    kind: &'static str,
    /// With base pages of 4 KiB, or the smallest that have it.
    default: String,
    accepts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<u64>,
    unit: &'static str,
    scale: &'static str,
    since: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    known: Option<Known>,
    acts_on: &'static str,
    description: &'static str,
}

impl SettingLine {
    fn new(setting: &Setting) -> SettingLine {
        let has_it = |size: &&PageSize| setting.exists(**size);
        let page_size = PageSize::ALL.iter().find(has_it).copied().unwrap_or_default();
        let (least, most) = setting.kind.range(page_size).unzip();
        SettingLine {
            name: setting.name,
            kind: setting.kind.name(),
            default: setting.default(page_size),
            accepts: setting.accepts(page_size),
            least,
            most,
            unit: setting.unit.name(),
            scale: setting.scale.name(),
            since: setting.since.release(),
            known: setting.since.known(),
            acts_on: setting.acts_on.name(),
            description: setting.description,
        }
    }

    /// What it takes, in a line of the table.
    fn values(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(", in {}", self.unit) };
        let default = if self.default.is_empty() { "none" } else { &self.default };
        format!("takes {}{unit}; default {default}; since {}", self.accepts, self.since)
    }
}

/// What `mmtwin show` prints of a setting.
pub fn setting_text(setting: &Setting) -> String {
    let line = SettingLine::new(setting);
    let known = line.known.map(|known| format!(" ({})", known.name())).unwrap_or_default();
    format!("{}: {}\n{}{known}\nacts on {}", line.name, line.description, line.values(), line.acts_on)
}

/// What there is to know of a feature; none if there is none of this name.
pub fn feature_text(name: &str) -> Option<String> {
    FeatureLine::all(&rules()).iter().find(|feature| feature.name == name).map(FeatureLine::whole)
}

/// A metric, with the bounds of its kind.
#[derive(JsonSchema, Serialize)]
struct MetricLine {
    #[serde(flatten)]
    metric: Metric,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<f64>,
}

impl From<Metric> for MetricLine {
    fn from(metric: Metric) -> MetricLine {
        MetricLine { metric, least: metric.kind.least(), most: metric.kind.most() }
    }
}

impl MetricLine {
    /// What values it has, in a line of the table.
    fn values(&self) -> String {
        let Metric { kind, unit, better, only_published, .. } = &self.metric;
        let better = match better {
            Better::Neutral => String::new(),
            better => format!("; {} is better", better.name()),
        };
        let of = if *only_published { "; of published tables only" } else { "" };
        format!("{}, {} ({unit}){better}{of}", kind.name(), self.metric.bounds())
    }
}

/// A counter of events: a whole number that only goes up.
#[derive(JsonSchema, Serialize)]
struct CounterLine {
    name: &'static str,
    unit: &'static str,
    description: &'static str,
}

impl From<&Event> for CounterLine {
    fn from(event: &Event) -> CounterLine {
        CounterLine { name: event.name(), unit: event.unit(), description: event.description() }
    }
}

impl Lists {
    fn load() -> Result<Lists, Failure> {
        let line =
            |name: &str, description: &str| Line { name: name.into(), description: description.into() };
        let mut scenarios = Vec::new();
        for name in Scenario::names() {
            let s = Scenario::load(name)?;
            scenarios.push(ScenarioLine {
                run_seconds: seconds::of_run(name),
                name: s.name,
                description: s.description,
                evidence: s.evidence,
                machine: s.machine,
                series: s.series,
                seeds: s.seeds,
                variants: s.variants,
            });
        }
        let mut machines = Vec::new();
        for name in machine_names() {
            let machine = load_machine(name)?;
            let page_size_kib = machine.page_size.kib();
            machines.push(MachineLine { name, page_size_kib, description: machine.description });
        }
        let settings = mm::SETTINGS.iter().map(SettingLine::new);
        let variants = Series::ALL.iter().flat_map(|series| {
            let line = move |v: &Variant| VariantLine {
                series: series.name,
                name: v.name,
                description: v.description,
            };
            series.variants().map(line)
        });
        let releases = mm::series::RELEASES;
        let verified = |it: &Verification| line(it.mechanism.name(), it.compared);
        let mut published = Vec::new();
        for publication in Publication::ALL {
            let (name, description) = (publication.mechanism.name(), publication.description);
            let tables = publication.tables(&[])?.into_iter().map(|table| table.id).collect();
            published.push(PublishedLine { name, description, tables });
        }
        let dates = rules();
        Ok(Lists {
            scenarios,
            machines,
            variants: variants.collect(),
            releases: releases.iter().map(|&(release, variant)| ReleaseLine { release, variant }).collect(),
            features: FeatureLine::all(&dates),
            dates,
            settings: settings.collect(),
            metrics: Metric::listed().map(MetricLine::from).collect(),
            counters: Event::ALL.iter().map(CounterLine::from).collect(),
            published,
            studies: Study::ALL.iter().map(|study| line(study.name, study.question)).collect(),
            verified: Mechanism::ALL.map(verification).iter().map(verified).collect(),
        })
    }

    fn grid(&self, part: Part) -> Grid {
        match part {
            Part::Scenarios => table(
                ["scenario", "what it is\nevidence\nmachine, series, runs of compare and CPU time of one"],
                self.scenarios.iter().map(|s| [s.name.clone(), s.text()]),
            ),
            Part::Machines => table(
                ["machine", "what it is\nbase pages"],
                self.machines
                    .iter()
                    .map(|m| [m.name.into(), format!("{}\n{} KiB", m.description, m.page_size_kib)]),
            ),
            Part::Variants => {
                let is_released = |v: &&VariantLine| MAINLINE.iter().any(|kernel| kernel.name == v.name);
                let posted = self.variants.iter().filter(|v| !is_released(v));
                let posted = posted.map(|v| [v.series, v.name, v.description]);
                // Every series ends in them.
                let released = MAINLINE.iter().map(|kernel| ["all", kernel.name, kernel.description]);
                table(["series", "variant", "what it is"], posted.chain(released))
            }
            Part::Releases => {
                table(["release", "variant"], self.releases.iter().map(|r| [r.release, r.variant]))
            }
            Part::Features => table(
                ["feature", "what it does"],
                self.features.iter().map(|feature| [feature.name.clone(), feature.text()]),
            ),
            Part::Dates => table(["rule", "releases", "how it is known"], self.dates.iter().map(row_of_rule)),
            Part::Settings => table(
                ["setting", "what it does"],
                self.settings.iter().map(|s| [s.name.into(), format!("{}\n{}", s.description, s.values())]),
            ),
            Part::Metrics => table(
                ["metric", "what it means"],
                self.metrics
                    .iter()
                    .map(|m| [m.metric.name.into(), format!("{}\n{}", m.metric.description, m.values())]),
            ),
            Part::Counters => table(
                ["counter", "unit", "what it counts"],
                self.counters.iter().map(|c| [c.name, c.unit, c.description]),
            ),
            Part::Published => table(
                ["published", "what it is\ntables"],
                self.published
                    .iter()
                    .map(|p| [p.name.into(), format!("{}\n{}", p.description, p.tables.join(" "))]),
            ),
            Part::Studies => described("study", &self.studies),
            Part::Verified => described("verify", &self.verified),
        }
    }
}

/// A table of words.
fn table<E: Into<Entry>, const N: usize>(header: [&str; N], rows: impl Iterator<Item = [E; N]>) -> Grid {
    let mut grid = Grid::new(&header);
    rows.for_each(|row| grid.row(row));
    grid.words = (1..N).collect();
    grid
}

fn described(title: &str, lines: &[Line]) -> Grid {
    table([title, "what it is"], lines.iter().map(|line| [line.name.as_str(), &line.description]))
}

/// When a rule came, and how that is known.
fn row_of_rule(rule: &Rule) -> [String; 3] {
    let commit = rule.commit.as_ref().map(|commit| format!("{commit} ")).unwrap_or_default();
    let subject = rule.subject.as_deref().unwrap_or_default();
    [rule.name(), rule.releases(), format!("{commit}{subject}\n{}: {}", rule.known.name(), rule.evidence)]
}

/// Prints the lists.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let lists = Lists::load()?;
    if arguments.json {
        return json::print(&match arguments.part {
            Some(part) => lists.only(part),
            None => lists,
        });
    }
    // Features, their dates and counters are longer than all the rest.
    let is_short = |part: Part| !matches!(part, Part::Dates | Part::Features | Part::Counters);
    let is_wanted = |part: &&Part| arguments.part.map_or(is_short(**part), |only| only == **part);
    let parts = Part::value_variants().iter().filter(is_wanted);
    let pieces: Vec<String> = parts.map(|part| lists.grid(*part).render()).collect();
    terminal::print(&pieces.join("\n\n"))
}
