//! `mmtwin completions`, and the answers to a shell that asks what could come next.
//!
//! ```text
//!   mmtwin completions bash ─► a script that has bash ask mmtwin at every TAB
//!   TAB ─► MMTWIN_COMPLETE=bash mmtwin -- mmtwin compare kb ─┬─► commands and options: clap
//!                                                           └─► values: the functions below, from where they are declared
//! ```
//!
//! The script holds no names, so scenarios, settings, features and kernel trees that come later need no new one. That is why the
//! engine of `clap_complete` that answers at run time is used: a static script could not complete `KEY=V1,V2` either.

use crate::arguments::machine;
use crate::failure::Failure;
use crate::show;
use crate::{kernel, terminal};
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};
use kernel_tree::Stored;
use lab::experiment::varied::{self, FEATURES};
use lab::published::Publication;
use lab::scenario::{Scenario, THIS_MACHINE, machine_names};
use lab::study::Study;
use mm::features::by_name::Feature;
use mm::series::RELEASES;
use mm::{Mechanism, SETTINGS, Series};
use sim::metric::METRICS;
use std::ffi::OsStr;
use std::path::Path;

/// The variable that a shell's script sets when it asks.
const ASKED: &str = "MMTWIN_COMPLETE";

/// Print a script that completes commands, options and names in a shell
#[derive(clap::Args)]
#[command(after_help = "\
The script asks mmtwin whenever something is to be completed, so it knows scenarios, machines,
variants, kernels that were added, settings, features and metrics of this mmtwin and of later ones.

Examples:
  source <(mmtwin completions bash)                  in ~/.bashrc
  source <(mmtwin completions zsh)                   in ~/.zshrc
  mmtwin completions fish | source                   in ~/.config/fish/config.fish")]
pub struct Arguments {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(Shells::builtins().names()).map(|name| shell(&name)))]
    shell: usize,
}

/// The shell of this name, by its place among [`Shells::builtins`].
fn shell(name: &str) -> usize {
    Shells::builtins().names().position(|other| other == name).unwrap_or(0)
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let this = std::env::current_exe().context("where mmtwin is")?;
    let mut script = Vec::new();
    Shells::builtins().0[arguments.shell]
        .write_registration(ASKED, "mmtwin", "mmtwin", &this.to_string_lossy(), &mut script)
        .context("a script in memory")?;
    terminal::print(String::from_utf8_lossy(&script).trim_end())
}

/// If a shell asks, answers it and ends the process.
pub fn answer(command: fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(ASKED).complete();
}

/// A word that may come next, and what it is.
type Word = (String, String);

/// Those of some words that begin with what is there already.
fn begun(current: &str, words: impl IntoIterator<Item = Word>) -> Vec<CompletionCandidate> {
    let begins = |(word, _): &Word| word.starts_with(current);
    let candidate =
        |(word, help): Word| CompletionCandidate::new(word).help((!help.is_empty()).then(|| help.into()));
    words.into_iter().filter(begins).map(candidate).collect()
}

fn completer(words: fn(&str) -> Vec<CompletionCandidate>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| current.to_str().map_or(Vec::new(), words))
}

/// Files with this ending, and the directories on the way.
fn files(current: &str) -> Vec<CompletionCandidate> {
    let is_toml = |path: &Path| path.extension().is_some_and(|ending| ending == "toml");
    PathCompleter::any().filter(is_toml).complete(OsStr::new(current))
}

/// Scenarios, and files of scenarios.
pub fn scenarios() -> ArgValueCompleter {
    completer(|current| {
        let names = Scenario::names().filter(|name| name.starts_with(current));
        let described = names.filter_map(|name| Some((name.into(), Scenario::load(name).ok()?.description)));
        begun(current, described).into_iter().chain(files(current)).collect()
    })
}

/// What `mmtwin show` prints: scenarios, machines and settings, and files.
pub fn shown() -> ArgValueCompleter {
    completer(|current| {
        let names = show::names().into_iter().filter(|name| name.starts_with(current));
        let names = names.map(|name| (name, String::new()));
        begun(current, names).into_iter().chain(files(current)).collect()
    })
}

/// Machines, and files of machines.
pub fn machines() -> ArgValueCompleter {
    completer(|current| {
        let names = machine_names().filter(|name| name.starts_with(current));
        let described = names.filter_map(|name| Some((name.into(), machine(name).ok()?.description)));
        let this = (THIS_MACHINE.into(), "the machine that mmtwin runs on".into());
        begun(current, described.chain([this])).into_iter().chain(files(current)).collect()
    })
}

/// Variants of the series of the scenario that is on the command line, or of all, with releases and kernels that were added.
pub fn kernels() -> ArgValueCompleter {
    completer(|current| {
        let asked = scenario_asked();
        let of_scenario =
            |series: &&Series| asked.as_ref().is_none_or(|scenario| scenario.series == series.name);
        let variants = Series::ALL.iter().filter(of_scenario).flat_map(Series::variants);
        let variants = variants.map(|variant| (variant.name.into(), variant.description.into()));
        let releases = RELEASES.iter().map(|(release, _)| (release.to_string(), "a release".into()));
        let mut words: Vec<Word> = variants.chain(releases).chain(added()).collect();
        words.sort();
        words.dedup_by(|(a, _), (b, _)| a == b);
        begun(current, words)
    })
}

/// Kernels that were added.
pub fn added_kernels() -> ArgValueCompleter {
    completer(|current| begun(current, added()))
}

fn added() -> Vec<Word> {
    let all = kernel::directory().ok().and_then(|directory| Stored::all(&directory).ok());
    let word = |kernel: Stored| (kernel.name, format!("a kernel tree, based on {}", kernel.base));
    all.unwrap_or_default().into_iter().map(word).collect()
}

/// The scenario on the command line that is completed, if there is one.
fn scenario_asked() -> Option<Scenario> {
    std::env::args().skip(1).find_map(|word| Scenario::load(&word).ok())
}

/// `KEY=VALUE` of settings and features.
pub fn settings() -> ArgValueCompleter {
    completer(|current| match current.split_once('=') {
        Some((key, value)) => values(key, "", value),
        None => begun(current, settings_and_features()),
    })
}

/// `KEY=V1,V2,...` of everything that can be varied.
pub fn varied() -> ArgValueCompleter {
    completer(|current| {
        let Some((key, list)) = current.split_once('=') else {
            let files = scenario_asked().map_or(Vec::new(), |scenario| {
                machine(&scenario.machine)
                    .map_or(Vec::new(), |machine| varied::keys_of_files(&scenario, &machine))
            });
            let keys = varied::OWN_KEYS.iter().map(|key| key.to_string()).chain(files);
            let keys = keys.map(|key| (key + "=", String::new()));
            return begun(current, settings_and_features().into_iter().chain(keys));
        };
        let last = list.rfind(',').map_or(0, |comma| comma + 1);
        values(key, &list[..last], &list[last..])
    })
}

fn settings_and_features() -> Vec<Word> {
    let settings = SETTINGS.iter().map(|setting| (format!("{}=", setting.name), setting.description.into()));
    let feature = |feature: Feature| (format!("{FEATURES}.{}=", feature.path), feature.description);
    settings.chain(Feature::all().into_iter().map(feature)).collect()
}

/// Values of a key that have a name or a meaning of their own, behind those that are there `before`.
fn values(key: &str, before: &str, value: &str) -> Vec<CompletionCandidate> {
    let words = match SETTINGS.iter().find(|setting| setting.name == key) {
        Some(setting) => setting.kind.words(),
        None => {
            let feature =
                Feature::all().into_iter().find(|feature| key == format!("{FEATURES}.{}", feature.path));
            feature.map_or(Vec::new(), |feature| feature.words)
        }
    };
    let given: Vec<&str> = before.split(',').collect();
    let words = words.into_iter().filter(|word| !given.contains(&word.as_str()));
    begun(
        &format!("{key}={before}{value}"),
        words.map(|word| (format!("{key}={before}{word}"), String::new())),
    )
}

/// Metrics: those of the scenario that is on the command line, or all.
pub fn metrics() -> ArgValueCompleter {
    completer(|current| {
        let asked = scenario_asked();
        let has = |name: &str| {
            asked.as_ref().is_none_or(|scenario| scenario.metrics.iter().any(|other| other == name))
        };
        let metrics = METRICS.iter().filter(|metric| has(metric.name));
        begun(current, metrics.map(|metric| (metric.name.into(), metric.description.into())))
    })
}

/// Mechanisms that real kernels judge.
pub fn mechanisms() -> ArgValueCompleter {
    completer(|current| begun(current, Mechanism::ALL.iter().map(word_of_mechanism)))
}

/// Mechanisms with published tables.
pub fn published() -> ArgValueCompleter {
    completer(|current| {
        begun(current, Publication::ALL.iter().map(|publication| word_of_mechanism(&publication.mechanism)))
    })
}

fn word_of_mechanism(mechanism: &Mechanism) -> Word {
    (mechanism.name().into(), mechanism.description().into())
}

/// Published tables.
pub fn tables() -> ArgValueCompleter {
    completer(|current| {
        let tables = Publication::ALL.iter().filter_map(|publication| publication.tables(&[]).ok()).flatten();
        begun(current, tables.map(|table| (table.id, String::new())))
    })
}

/// Studies.
pub fn studies() -> ArgValueCompleter {
    completer(|current| {
        begun(current, Study::ALL.iter().map(|study| (study.name.into(), study.question.into())))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap_complete::engine::complete;

    /// What could come in place of the last word.
    fn after(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let last = words.len() - 1;
        let candidates = complete(&mut crate::Arguments::command(), words, last, None).unwrap();
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_come_from_their_declarations() {
        assert_eq!(after(&["mmtwin", "compare", "kbuild-j"]), ["kbuild-j224"]);
        assert_eq!(after(&["mmtwin", "run", "kbuild", "--machine", "spr"]), ["spr-server"]);
        assert!(
            after(&["mmtwin", "run", "kbuild", "--variants", "6.18,mglru-6.1"])
                .contains(&"6.18,mglru-6.14".into())
        );
        assert!(after(&["mmtwin", "compare", "kbuild", "--fail-if", "build"]).contains(&"build_time".into()));
        assert_eq!(after(&["mmtwin", "list", "metr"]), ["metrics"]);
        assert!(after(&["mmtwin", "verify", "hu"]).contains(&"hugetlb".into()));
        assert!(
            after(&["mmtwin", "published", "pcp", "--table", "pcp.kbuild"])
                .contains(&"pcp.kbuild.numactl".into())
        );
        assert_eq!(after(&["mmtwin", "study", "pid"]), ["pid-filter"]);
        assert_eq!(after(&["mmtwin", "completions", "ba"]), ["bash"]);
        assert!(!after(&["mmtwin", ""]).contains(&"guest".into()));
    }

    #[test]
    fn a_key_brings_its_values() {
        let set = |word: &str| after(&["mmtwin", "run", "fio-zipf", "--set", word]);
        assert_eq!(set("vm.swap"), ["vm.swappiness="]);
        assert_eq!(set("features.mglru.tie"), ["features.mglru.tiers="]);
        assert_eq!(set("features.mglru.tiers=o"), ["features.mglru.tiers=on", "features.mglru.tiers=off"]);
        assert_eq!(set("transparent_hugepage/enabled=m"), ["transparent_hugepage/enabled=madvise"]);
        let vary = |word: &str| after(&["mmtwin", "compare", "fio-zipf", "--vary", word]);
        assert_eq!(vary("features.mglru.tiers=on,"), ["features.mglru.tiers=on,off"]);
        assert_eq!(vary("memo"), ["memory="]);
    }
}
