//! Keeps generated pages equal to the declarations in code. docs/src/reference/names.md lists settings,
//! counters, categories of time, metrics and variants; docs/src/reference/bounds.md lists the numbers that
//! keys of scenarios take; docs/src/reference/sweep-files.md the keys of sweep files; docs/src/reference/dates.md lists when each rule of a kernel was introduced;
//! .ci/names-of-variants.json has the former names of variants, for comparisons with older builds.
//!
//! After a change of a declaration, `make reference` writes the pages anew.

use lab::scenario::Scenario;
use lab::sweep::file::SweepFile;
use machine::PageSize;
use mm::huge_memory::stats::MthpStat;
use mm::series::RELEASES;
use mm::sysctl::Setting;
use mm::{Category, Event, Mechanism, SETTINGS, Series};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use workload::keys::{Key, Takes, Value};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

fn table<const N: usize>(text: &mut String, head: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let mut line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        writeln!(text, "| {} |", cells.join(" | ")).unwrap();
    };
    line(&head.map(String::from));
    line(&head.map(|_| "---".to_string()));
    rows.for_each(|row| line(&row));
    text.push('\n');
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

/// The smallest base pages with which there is such a setting.
fn settings_page_size(setting: &Setting) -> PageSize {
    *PageSize::ALL.iter().find(|size| setting.exists(**size)).expect("a size of base pages")
}

fn page() -> String {
    let mut text = String::from(
        "# Settings, counters, times, metrics, series, variants\n\n\
         This page is written from the declarations in the code by `make reference`; a test keeps it up to date.\n\n\
         ## Settings\n\n\
         `--set NAME=VALUE` on the command line, `[settings]` in a scenario. Names, defaults, bounds and errors are \
         the kernel's, here with base pages of 4 KiB, or of the least size that has the setting. Declared in \
         `crates/mm/src/sysctl/declarations.rs`.\n\n",
    );
    table(
        &mut text,
        ["name", "default", "takes", "unit", "scale", "since", "acts on", "what it does"],
        SETTINGS.iter().map(|setting| {
            let size = settings_page_size(setting);
            let since = match setting.since.known() {
                Some(known) => format!("{} ({})", setting.since.release(), known.name()),
                None => setting.since.release().into(),
            };
            [
                code(setting.name),
                setting.default(size),
                setting.accepts(size),
                setting.unit.name().into(),
                setting.scale.name().into(),
                since,
                setting.acts_on.name().into(),
                setting.description.into(),
            ]
        }),
    );
    text += "## Counters\n\n\
             Counters that the kernel has carry their name in `/proc/vmstat`. Declared in \
             `crates/mm/src/counters.rs`.\n\n";
    table(
        &mut text,
        ["name", "unit", "counts"],
        Event::ALL.iter().map(|event| [code(event.name()), event.unit().into(), event.description().into()]),
    );
    text += "## Counters of large folios\n\n\
             Each size of anonymous folios has these, as `transparent_hugepage/hugepages-<size>kB/stats/<name>`. Declared in \
             `crates/mm/src/address_space/huge_memory/stats.rs`.\n\n";
    table(
        &mut text,
        ["name", "counts"],
        MthpStat::ALL.iter().map(|stat| [code(stat.name()), stat.description().into()]),
    );
    text += "## Categories of CPU time\n\n\
             Every picosecond of every simulated CPU is in exactly one. Declared in `crates/mm/src/account.rs`.\n\n";
    table(
        &mut text,
        ["name", "time spent on"],
        Category::ALL.iter().map(|category| [code(category.name()), category.description().into()]),
    );
    text += "## Metrics\n\n\
             What runs report and comparisons compare. No run has a value out of the bounds. A change of a metric on a linear \
             scale is told as a difference, else in per cent. Some are there only with certain keys of programs. Where several programs run on one machine, each of them, the operator (`[events]`) and what the \
             kernel does for all (`[kswapd]`, `[kcompactd]`, `[khugepaged]`, `[writeback]`, `[interrupts]`) has those with `@PROGRAM`: `transaction_p99@database`. Declared in `crates/sim/src/metric.rs`.\n\n";
    table(
        &mut text,
        ["name", "meaning", "kind", "bounds", "unit", "scale", "better"],
        sim::metric::Metric::listed().map(|metric| {
            [
                code(metric.name),
                metric.description.into(),
                metric.kind.name().into(),
                metric.bounds(),
                metric.unit.into(),
                metric.scale.name().into(),
                metric.better.name().into(),
            ]
        }),
    );
    text += "## Series\n\n\
             What runs sample over virtual time: in the results directory all samples, in documents a few, in reports as charts. One that ends in \
             `so far` is a sum since the run began; `pages_node` has the number of the node behind its name. Declared in \
             `crates/sim/src/series.rs`, as are histograms.\n\n";
    table(
        &mut text,
        ["name", "unit", "what it is"],
        sim::series::SERIES.iter().map(|of| [code(of.name), of.unit.name().into(), of.title.into()]),
    );
    text += "## Histograms\n\n\
             Buckets of nanoseconds with three significant digits, filled while a run is measured.\n\n";
    table(
        &mut text,
        ["name", "what is recorded"],
        sim::series::HISTOGRAMS.iter().map(|(name, recorded)| [code(name), recorded.to_string()]),
    );
    text += "## Mechanisms\n\n\
             What can be compared with published tables and judged by real kernels, by the names that commands take. Declared in \
             `crates/mm/src/mechanism.rs`.\n\n";
    table(
        &mut text,
        ["name", "or", "what it is"],
        Mechanism::ALL.iter().map(|mechanism| {
            let alias = mechanism.alias().map(code).unwrap_or_default();
            [code(mechanism.name()), alias, mechanism.description().into()]
        }),
    );
    text += "## Variants\n\n\
             Kernels, as sets of features: a series of patches one by one, then what later releases changed, which is \
             the same in every series. Declared in `crates/mm/src/series.rs`. `batch-N` is one more, a kernel for \
             measurements: `pcp-base` of the first series with batch N, `high` twice of it, and no scaling.\n\n";
    for series in Series::ALL {
        text += &format!("Series `{}`: {}.\n\n", series.name, series.description);
        table(
            &mut text,
            ["name", "what it is"],
            series.variants().map(|variant| [code(variant.name), variant.description.into()]),
        );
    }
    text += "A kernel release is a name for one of them:\n\n";
    table(
        &mut text,
        ["release", "variant"],
        RELEASES.iter().map(|(release, variant)| [code(release), code(variant)]),
    );
    text += &former_names();
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The former names of variants and their present ones.
fn former_names() -> String {
    let mut text = String::from(
        "## Former names of variants\n\n\
         Taken wherever a variant is named; runs and their results go by the present name. Declared in \
         `crates/mm/src/series/former_names.rs`.\n\n",
    );
    let rows = Series::ALL.iter().flat_map(|series| {
        series.former_names().iter().map(|(former, present)| {
            let variant = series.variant(present).expect("a present name");
            [code(former), code(series.name), code(present), variant.description.into()]
        })
    });
    table(&mut text, ["former name", "series", "name", "what it is"], rows);
    text
}

/// The same as JSON by series, for `.ci/equal --names`.
fn names_of_variants() -> String {
    let of = |series: &Series| {
        let names: BTreeMap<&str, &str> = series.former_names().iter().copied().collect();
        (series.name, names)
    };
    let all: BTreeMap<_, _> = Series::ALL.iter().map(of).collect();
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

/// Collects rows with the numbers that `keys` take, and the tables in them that have kinds.
fn rows(keys: &[Key], above: &str, rows: &mut Vec<[String; 3]>, kinds: &mut Vec<(String, Takes)>) {
    for key in keys {
        let name = format!("{above}{}", key.name);
        match key.takes {
            Takes::NoNumber => {}
            Takes::Number(takes) => {
                let kind = if takes.whole { "whole, " } else { "" };
                let range = format!("{kind}{} to {}{}", takes.bounds.least, takes.bounds.most, takes.or);
                rows.push([code(&name), range, takes.bounds.why.into()]);
            }
            Takes::Table(keys) => self::rows(keys, &format!("{name}."), rows, kinds),
            Takes::Kinds(of) => {
                kinds.extend(of.iter().map(|(kind, takes)| (format!("`{name}`, `{kind}`"), *takes)))
            }
        }
    }
}

fn bounds() -> String {
    let mut text = String::from(
        "# Bounds of numbers\n\n\
         This page is written from the declarations in the code by `make reference`; a test keeps it up to date.\n\n\
         What numbers keys of [scenario files](scenarios.md) take, and why no others. A number that is out of bounds is \
         refused before anything runs, by an error that names the file, the line, the key and the bounds. What keys must \
         be together (a window within its object, all processes within the machine's memory) is checked besides. Declared \
         with the keys (`crates/workload/src/keys.rs` says how).\n\n",
    );
    let Takes::Table(keys) = Scenario::TAKES else { unreachable!("a scenario is a table") };
    let mut left = vec![("A scenario".to_string(), Takes::Table(keys))];
    while !left.is_empty() {
        let (title, takes) = left.remove(0);
        let (mut lines, mut kinds) = (Vec::new(), Vec::new());
        if let Takes::Table(keys) = takes {
            rows(keys, "", &mut lines, &mut kinds);
        }
        if !lines.is_empty() {
            text += &format!("## {title}\n\n");
            table(&mut text, ["key", "takes", "why"], lines.into_iter());
        }
        left.splice(0..0, kinds);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// What a member of a JSON schema takes, in words.
fn taken(schema: &Json, root: &Json) -> String {
    let word = |name: &str| match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "boolean" => "true or false",
        "array" => "a list",
        _ => "a table",
    };
    if let Some(path) = schema["$ref"].as_str() {
        return taken(root.pointer(path.trim_start_matches('#')).unwrap(), root);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let choices: Vec<String> =
            choices.iter().filter_map(|choice| choice["const"].as_str()).map(code).collect();
        return choices.join(", ");
    }
    let name = schema["type"].as_str().or(schema["type"][0].as_str()).unwrap_or_default();
    match (name, &schema["items"]) {
        ("array", items) if items["$ref"].is_string() => "tables".into(),
        (name, _) => word(name).into(),
    }
}

/// Rows of the keys that a table of a sweep file has.
fn keys_of_schema(schema: &Json, root: &Json) -> Vec<[String; 4]> {
    let is_required =
        |key: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == key));
    let keys = schema["properties"].as_object().unwrap().iter();
    let row = |(key, of): (&String, &Json)| {
        let needed = if is_required(key) { "yes" } else { "" };
        let default = of["default"].as_f64().map(|number| format!(" Default: {number}.")).unwrap_or_default();
        let meaning = of["description"].as_str().unwrap_or_default().replace('\n', " ") + &default;
        [code(key), taken(of, root), needed.into(), meaning]
    };
    keys.map(row).collect()
}

/// The page with the keys of sweep files.
fn sweep_files() -> String {
    let root = schemars::schema_for!(SweepFile).to_value();
    let mut text = String::from(
        "# Sweep files\n\n\
         This page is written from the declarations in the code by `make reference`; a test keeps it up to date.\n\n\
         What `mmtwin sweep FILE.toml` reads: workloads and machines, the space, goals and constraints \
         ([guide](../guide/sweep.md)). Unknown keys are refused. The JSON schema is `schemas/sweep-file.schema.json`; declared in \
         `crates/lab/src/sweep/file.rs`.\n\n## The file\n\n",
    );
    let header = ["key", "takes", "needed", "what it is"];
    table(&mut text, header, keys_of_schema(&root, &root).into_iter());
    text += "## A member of the fleet: `[[fleet]]`\n\n";
    table(&mut text, header, keys_of_schema(&root["$defs"]["MemberSpec"], &root).into_iter());
    text += "## Values of a key: `[over]`\n\n\
             A key is a kernel setting, `memory`, `machine`, `features.MECHANISM.FEATURE`, `workload.KEY` or `machine.TABLE.KEY`. Its value is a \
             list, or a text as `--over` takes it:\n\n";
    let specs = [
        ("`0,60,100`", "these values"),
        (
            "`0..200`",
            "a range, split into `points` values on the scale of the setting's declaration, or drawn from",
        ),
        ("`8..64:4`", "in steps of 4"),
        (
            "`1..120:linear`, `1..64:log`",
            "on another scale; a logarithmic range from 0 has 0 and goes on from 1",
        ),
        ("`..`, `10..`", "an end that is left out is what the kernel takes; of words, all"),
        ("`0,8..512`", "a value and a range"),
    ];
    table(
        &mut text,
        ["text", "what it is"],
        specs.iter().map(|(spec, meaning)| [spec.to_string(), meaning.to_string()]),
    );
    text += "## Constraints\n\n\
             `METRIC <= VALUE UNIT` or `METRIC >= VALUE UNIT`, of the mean over seeds, for every member that has the metric. Units are the \
             metric's own or others of time (`ns`, `us`, `ms`, `s`, `min`, `h`), memory (`KiB`, `MiB`, `GiB`, `TiB`) and rates (`1/s`, `k/s`, \
             `M/s`). A value with a sign and `%` is a change against the default: `score >= -1 %`.\n";
    text
}

/// Whether a page agrees with the code; writes the page if asked to.
fn is_written(name: &str, page: &str) -> bool {
    let path = format!("{ROOT}{name}");
    if std::env::var_os("MMTWIN_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_default() == page
}

/// The page with the dates of rules.
fn dates() -> String {
    let mut text = String::from(
        "# Dates of rules\n\n\
         Which releases have each rule that tells kernels apart, and how that is known. A rule is a field of a feature struct in \
         `crates/mm/src`, or one of its values. *source*: read in the sources of a release without and of one with it; \
         *changelog*: in a list of a release's changes; *mail*: a patch or a pull request says so; *recording*: a kernel's own \
         behaviour shows it; *guess*: none of these. A commit is given where its identifier was read. A variant stands for late \
         releases of its stable series where those are recorded (6.1, 6.12, 6.18).\n\n\
         Also `mmtwin list dates`, with `--json` for programs. Declared in `crates/mm/src/dates.toml`; tests hold it against the \
         variant of every release.\n\n",
    );
    let all = lab::dates::rules();
    let structures: BTreeSet<&str> = all.iter().map(|rule| rule.structure.as_str()).collect();
    for structure in structures {
        writeln!(text, "## {structure}\n").unwrap();
        let rules = all.iter().filter(|rule| rule.structure == structure);
        table(
            &mut text,
            ["rule", "releases", "stable releases", "change", "known by"],
            rules.map(|rule| {
                let commit = rule.commit.as_deref().map(|commit| format!(" ({commit})")).unwrap_or_default();
                let change = format!("{}{commit}", rule.subject.as_deref().unwrap_or_default());
                let known = format!("{}: {}", rule.known.name(), rule.evidence);
                [code(&rule.name()), rule.releases(), rule.stable.clone().unwrap_or_default(), change, known]
            }),
        );
    }
    text
}

#[test]
fn names_and_bounds_are_on_their_pages() {
    let pages = [
        ("docs/src/reference/names.md", page()),
        ("docs/src/reference/bounds.md", bounds()),
        ("docs/src/reference/dates.md", dates()),
        ("docs/src/reference/sweep-files.md", sweep_files()),
        (".ci/names-of-variants.json", names_of_variants()),
    ];
    for (name, page) in pages {
        assert!(is_written(name, &page), "{name} does not say what the code declares; run: make reference");
    }
}

#[test]
fn every_cost_of_a_machine_is_on_its_page() {
    let page = include_str!("../../../docs/src/reference/machines.md");
    for machine in lab::scenario::machine_names() {
        for (key, _) in lab::scenario::load_machine(machine).unwrap().figures() {
            let key = key.rsplit('.').next().unwrap_or_default();
            assert!(
                page.contains(&format!("`{key}`")),
                "docs/src/reference/machines.md does not say what {key} is"
            );
        }
    }
}
