//! The rules of the doctor on recorded trees: each where it holds, and where it does not.
//!
//! ```text
//!   data/doctor/TREE/       trees of /proc and /sys, each with a source in its doctor.toml
//!   data/doctor/cases.toml  for each rule a tree in which it holds and one in which it does not, and what is edited for it
//! ```
//!
//! An edit adds to counters of a recorded file or replaces a small file. What no kernel at hand shows is an edited tree, and the case
//! says why.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use live::doctor::{Diagnosis, Files, Moment, Samples, rules};
use proptest::prelude::*;
use serde::Deserialize;

/// Trees and cases of the repository together, in bytes.
const MOST: u64 = 300_000;

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/doctor")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rule: String,
    /// The tree in which it holds, with the edits.
    holds: String,
    /// The tree in which it does not hold, as recorded.
    silent: String,
    /// By file, with the moment first: what is added to counters, or the whole text.
    #[serde(default)]
    edit: BTreeMap<String, Edit>,
    /// Why a recorded tree is edited.
    #[serde(default)]
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Edit {
    Text(String),
    Add(BTreeMap<String, i64>),
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(place().join("cases.toml")).unwrap();
    toml::from_str::<Cases>(&text).unwrap().case
}

fn open(tree: &str) -> Samples {
    Samples::open(&place().join(tree)).unwrap_or_else(|error| panic!("{tree}: {error}"))
}

fn held(samples: &Samples) -> Vec<&'static str> {
    let findings = Diagnosis::new(samples, rules()).findings;
    findings.iter().map(|finding| finding.rule.id.as_str()).collect()
}

/// Adds to the numbers behind these names, in every zone of zoneinfo; a name that is not there is a line more.
fn added(text: &str, add: &BTreeMap<String, i64>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for (name, more) in add {
        let is_it = |line: &String| {
            line.split_whitespace().next().is_some_and(|word| word.trim_end_matches(':') == name)
        };
        if !lines.iter().any(is_it) {
            lines.push(format!("{name} {more}"));
            continue;
        }
        for line in lines.iter_mut().filter(|line| is_it(line)) {
            let number = line.split_whitespace().nth(1).unwrap().to_string();
            let sum = number.parse::<i64>().unwrap() + more;
            *line = line.replacen(&number, &sum.to_string(), 1);
        }
    }
    lines.join("\n") + "\n"
}

fn edited(case: &Case) -> Samples {
    let mut samples = open(&case.holds);
    for (path, edit) in &case.edit {
        let (moment, path) = path.split_once('/').unwrap();
        let Moment { files, .. } = match moment {
            "begin" => &mut samples.begin,
            "end" => &mut samples.end,
            _ => panic!("{}: {moment}", case.rule),
        };
        let before = files.texts.get(path).cloned().unwrap_or_default();
        let text = match edit {
            Edit::Text(text) => text.clone(),
            Edit::Add(add) => added(&before, add),
        };
        assert_ne!(text, before, "{}: {path}: an edit that edits nothing", case.rule);
        files.texts.insert(path.into(), text);
    }
    samples
}

#[test]
fn each_rule_holds_where_it_should_and_not_elsewhere() {
    let cases = cases();
    let covered: BTreeSet<&str> = cases.iter().map(|case| case.rule.as_str()).collect();
    let all: BTreeSet<&str> = rules().iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(covered, all, "cases.toml has a case for each rule and no others");
    let mut wrong = Vec::new();
    for case in &cases {
        assert_eq!(
            case.why.is_some(),
            !case.edit.is_empty(),
            "{}: `why` says why a tree is edited",
            case.rule
        );
        if !held(&edited(case)).contains(&case.rule.as_str()) {
            wrong.push(format!("{} does not hold in {}", case.rule, case.holds));
        }
        if held(&open(&case.silent)).contains(&case.rule.as_str()) {
            wrong.push(format!("{} holds in {}", case.rule, case.silent));
        }
        if !case.edit.is_empty() && held(&open(&case.holds)).contains(&case.rule.as_str()) {
            wrong.push(format!("{} holds in {} without the edit", case.rule, case.holds));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is told of each recorded tree, all of it.
#[test]
fn recorded_trees_are_told_as_before() {
    for entry in std::fs::read_dir(place()).unwrap() {
        let tree = entry.unwrap().path();
        if tree.is_dir() {
            let name = tree.file_name().unwrap().to_str().unwrap().to_string();
            let Diagnosis { kernel, findings, sound, notes, .. } =
                Diagnosis::new(&Samples::open(&tree).unwrap(), rules());
            let findings: Vec<String> = findings
                .iter()
                .map(|finding| format!("{}: {} {}", finding.rule.id, finding.title, finding.means))
                .collect();
            insta::assert_debug_snapshot!(format!("tree-{name}"), (kernel, findings, sound, notes));
        }
    }
}

#[test]
fn trees_are_small_and_say_where_they_come_from() {
    fn size(directory: &Path) -> u64 {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let of = |entry: std::fs::DirEntry| match entry.path().is_dir() {
            true => size(&entry.path()),
            false => entry.metadata().unwrap().len(),
        };
        entries.map(of).sum()
    }
    let all = size(&place());
    assert!(all < MOST, "{all} bytes");
    for case in cases() {
        for tree in [case.holds, case.silent] {
            assert!(open(&tree).source.len() > 40, "{tree}: `source` says what machine and kernel it is of");
        }
    }
}

/// Lines that files of /proc and /sys have, and what might stand there.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{1,12}:? [0-9]{1,20}( kB)?",
        "Node [0-9]{1,3}, zone +[A-Za-z0-9]{1,8}( +[0-9]{1,20}){0,12}",
        " +(pages free|min|low|high|boost|spanned|present|managed|cpu:|count:|high_min:|high_max:|batch:) +[0-9]{1,20}",
        "(some|full) avg10=[0-9.]{1,5} total=[0-9]{1,20}",
        "(N[0-9]{1,2}=[0-9]{1,20} ){0,3}kernelpagesize_kB=[0-9]{0,9}",
        "/dev/[a-z0-9]{1,6} partition [0-9]{1,20} [0-9]{1,20} -2",
        "\\[?[a-z]{1,9}\\]? .{0,20}",
        "0x[0-9a-fA-F]{0,20}",
        ".{0,40}",
    ]
}

proptest! {
    /// No content of any file makes a diagnosis panic, or a number infinite.
    #[test]
    fn any_content_is_diagnosed(
        texts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), prop::collection::vec(line(), 0..8)), 1..12),
        seconds in prop_oneof![Just(0.001), 0.1..1e6f64],
    ) {
        let mut samples = open("swap-6.12");
        samples.end.seconds = samples.begin.seconds + seconds;
        let paths: Vec<String> = samples.end.files.texts.keys().cloned().collect();
        for (path, is_begin, lines) in texts {
            let files = if is_begin { &mut samples.begin.files } else { &mut samples.end.files };
            files.texts.insert(path.get(&paths).clone(), lines.join("\n"));
        }
        let diagnosis = Diagnosis::new(&samples, rules());
        for seen in diagnosis.seen {
            if let live::doctor::Value::Number(number) = seen.value {
                prop_assert!(number.is_finite() && number >= 0.0, "{}: {number}", seen.observation.name);
            }
        }
    }
}

/// A process that was ended at the limit of a cgroup did not cost the machine's memory, and one that was ended for the machine none of a
/// group's.
#[test]
fn kills_are_told_apart() {
    let events = "sys/fs/cgroup/leaky/memory.events";
    let samples = open("swap-6.12");
    assert_eq!(Diagnosis::new(&samples, rules()).number("reclaim.oom_kills"), Some(0.0));
    let mut samples = samples;
    let text = samples.end.files.texts[events].replace("oom 1\n", "oom 0\n");
    assert_ne!(text, samples.end.files.texts[events]);
    samples.end.files.texts.insert(events.into(), text);
    let diagnosis = Diagnosis::new(&samples, rules());
    assert_eq!(diagnosis.number("reclaim.oom_kills"), Some(1.0));
    assert_eq!(diagnosis.number("cgroups.kills"), Some(0.0));
    // A group around it counts its kills as well, which is one kill all the same.
    let mut samples = open("swap-6.12");
    let text = samples.end.files.texts[events].clone();
    samples.end.files.texts.insert("sys/fs/cgroup/leaky/inner/memory.events".into(), text);
    assert_eq!(Diagnosis::new(&samples, rules()).number("reclaim.oom_kills"), Some(0.0));
}

/// With CONFIG_CMA_SYSFS, which no recorded kernel has, the area is told.
#[test]
fn the_area_that_fails_is_told() {
    let mut samples = open("cma-6.12");
    let path = |area: &str| format!("sys/kernel/mm/cma/{area}/alloc_pages_fail");
    for (area, failed) in [("linux,cma", "0\n"), ("hugetlb0", "57344\n")] {
        samples.begin.files.texts.insert(path(area), "0\n".into());
        samples.end.files.texts.insert(path(area), failed.into());
    }
    let seen = Diagnosis::new(&samples, rules()).seen;
    let area = seen.iter().find(|seen| seen.observation.name == "cma.worst_area").unwrap();
    assert_eq!(area.value, live::doctor::Value::Word("hugetlb0".into()));
}

#[test]
fn nothing_is_found_in_an_empty_tree() {
    let end = Moment { seconds: 1.0, files: Files::default() };
    let samples = Samples { end, ..Samples::default() };
    let diagnosis = Diagnosis::new(&samples, rules());
    assert!(diagnosis.findings.is_empty() && diagnosis.sound.is_empty() && diagnosis.seen.is_empty());
    assert!(diagnosis.not_seen.iter().any(|missing| !missing.rules.is_empty()));
}
