//! Tests that results are read as they were written and that damage is noticed.

use super::*;
use crate::scenario::{Scenario, load_machine};
use sim::metric::BUILD_TIME;
use sim::outcome::{AreaHeat, Outcome, Sample};
use sim::run_event::{Happening, RunEvent};
use std::collections::BTreeMap;
use std::fs;
use workload::table::{Footer, TableReader, Values};

fn program() -> Program {
    Program { version: "0".into(), build: "test".into(), commit: "c0ffee".into() }
}

fn open(directory: &Path) -> Results {
    Results::open(directory, program()).unwrap()
}

fn runs(seeds: u64) -> Vec<Run> {
    let scenario = Scenario::load("page_fault1").unwrap();
    let machine = load_machine(&scenario.machine).unwrap();
    let changes = BTreeMap::from([("vm.stat_interval".to_string(), "2".to_string())]);
    (1..=seeds).map(|seed| scenario.run("pcp-base", seed, &machine, &changes).unwrap()).collect()
}

fn outcome(run: &Run) -> Outcome {
    let mut outcome = Outcome { virtual_seconds: 1.0 / 3.0, page_operations: u64::MAX, ..Outcome::default() };
    outcome.set(BUILD_TIME, 0.1 + run.seed as f64 / 7.0);
    outcome.cpu_seconds.insert("program", 1.0 / 7.0);
    outcome.time_by_cpu.insert("program", vec![10_000, 0]);
    outcome.counters.add(mm::Event::Pgfree, (1 << 56) + 1);
    outcome.series.push(Sample { seconds: 0.05, name: "pcp_pages", value: 361.0 });
    outcome.series.push(Sample { seconds: 0.05, name: "pcp_pages", value: f64::MAX });
    outcome.histograms.insert("zone_take", vec![(63.5, 4), (127.25, 1)]);
    outcome.notes.push("fewer pages than asked for".into());
    let causes = BTreeMap::from([("refault".to_string(), 1.0 / 3.0)]);
    let what = Happening::MemoryStall { program: "database".into(), causes };
    outcome.events.push(RunEvent { seconds: 0.1, took_seconds: Some(1.0 / 3.0), what });
    outcome.areas.push(AreaHeat {
        process: 1,
        address: 1 << 46,
        pages: 3,
        skipped: BTreeMap::new(),
        threads: Vec::new(),
    });
    outcome
}

/// Stores `runs` in `directory`. Returns their records.
fn keep(directory: &Path, runs: &[Run]) -> Vec<Record> {
    let results = open(directory);
    let keep = |run| results.keep(&results.describe(run).unwrap(), &outcome(run)).unwrap();
    runs.iter().map(keep).collect()
}

/// Looks up `runs` in `directory`.
fn find(directory: &Path, runs: &[Run]) -> Result<Vec<Option<Record>>, ResultsError> {
    let results = open(directory);
    runs.iter().map(|run| results.get(&results.describe(run)?)).collect()
}

fn some(records: &[Record]) -> Vec<Option<Record>> {
    records.iter().cloned().map(Some).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_back_bit_by_bit() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("not/there/yet");
    let runs = runs(2);
    assert_eq!(find(&directory, &runs).unwrap(), [None, None]);
    let kept = keep(&directory, &runs);
    assert_eq!(find(&directory, &runs).unwrap(), some(&kept));
    let expected: Vec<String> = kept.iter().map(|record| format!("{}.parquet", record.identity)).collect();
    let mut found = names(&directory);
    found.sort_by_key(|name| expected.iter().position(|other| other == name));
    assert_eq!(found, expected);
}

#[test]
fn records_are_found_by_identity_whichever_build_made_them() {
    let directory = tempfile::tempdir().unwrap();
    let kept = keep(directory.path(), &runs(3));
    let wanted = [kept[1].identity.as_str(), "0123456789abcdef0123456789abcdef"].into();
    assert_eq!(records(directory.path(), &wanted).unwrap(), kept[1..2]);
}

/// A file per run is affordable only if it is small. The description takes most of it; these runs have a
/// short one.
#[test]
fn a_small_run_takes_at_most_9_kib() {
    let directory = tempfile::tempdir().unwrap();
    let results = open(directory.path());
    for name in
        ["page_fault1", "kbuild", "kbuild-8cg", "af_unix", "sctp_stream_many", "hugetlb-8s", "hugetlb-vm252"]
    {
        let scenario = Scenario::load(name).unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let run = scenario.run(&scenario.variants[0], 1, &machine, &BTreeMap::new()).unwrap();
        let described = &results.describe(&run).unwrap();
        let mut outcome = outcome(&run);
        for (at, metric) in scenario.metrics.iter().enumerate() {
            outcome.set(sim::metric::Metric::find(metric).unwrap(), 1.0 / (at + 3) as f64);
        }
        for (at, category) in mm::Category::ALL.iter().enumerate() {
            outcome.cpu_seconds.insert(category.name(), 1e3 / (at + 7) as f64);
        }
        for (at, &event) in mm::Event::ALL.iter().enumerate().filter(|(at, _)| at % 4 == 0) {
            outcome.counters.add(event, 1_000_003 * at as u64);
        }
        results.keep(described, &outcome).unwrap();
        let path = super::directory::run_path(directory.path(), described.identity());
        let bytes = fs::metadata(path).unwrap().len();
        assert!(bytes <= 9 << 10, "{name}: {bytes} bytes");
    }
}

fn identity(run: &Run, build: &str) -> String {
    let recorded = super::identity::Recorded::default().hash(&run.workload).unwrap();
    DescribedRun::new(run, build, recorded.as_deref()).identity().into()
}

#[test]
fn identity_depends_on_everything_that_decides() {
    let [run, other_seed] = runs(2).try_into().unwrap();
    let same = identity(&run, "test");
    assert_eq!(same.len(), 32);
    let (mut machine, mut setting) = (run.clone(), run.clone());
    machine.machine.costs.page_clear_ns.value += 1.0;
    setting.settings.insert("vm.stat_interval".into(), "3".into());
    for other in [&other_seed, &machine, &setting] {
        assert_ne!(identity(other, "test"), same);
    }
    assert_ne!(identity(&run, "another"), same);
    let inputs = |run: &Run| DescribedRun::new(run, "test", None).summary.inputs;
    assert_ne!(inputs(&machine), inputs(&run), "a machine that was edited and kept its name");
    assert_eq!(inputs(&other_seed), inputs(&run));
    assert_eq!(inputs(&setting), inputs(&run), "settings are in a column of their own");
}

#[test]
fn identity_depends_on_what_is_in_a_recorded_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recorded");
    let mut run = runs(1).remove(0);
    for workload in [
        "milliseconds = 1\n[[programs]]\nname = 'trace'\n[programs.program]\nkind = 'page-trace'\ntrace = 'PATH'\ncopies = 1\n\
         stagger_us = 0",
        "kind = 'host'\nmilliseconds = 1\n[[programs]]\nname = 'own'\n[programs.program]\nkind = 'recorded-mappings'\n\
         recording = 'PATH'\ncpu_seconds = { value = 1, source = '' }\nruns = { value = 1, source = '' }\n\
         million_walks = { value = 1, source = '' }",
        "kind = 'host'\nmilliseconds = 1\nprograms = [{ name = 'xz', program = { kind = 'samples', file = 'PATH' } }]",
    ] {
        run.workload = toml::from_str(&workload.replace("PATH", path.to_str().unwrap())).unwrap();
        let of = |contents: &str| {
            fs::write(&path, contents).unwrap();
            identity(&run, "test")
        };
        assert_ne!(of("one"), of("two"), "{workload}");
        assert_eq!(of("one"), of("one"));
        fs::remove_file(&path).unwrap();
        let error = open(directory.path()).describe(&run).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn identity_depends_on_which_of_the_recorded_files_has_what() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| directory.path().join(name));
    let mut run = runs(1).remove(0);
    run.workload = toml::from_str(&format!(
        "kind = 'host'\nmilliseconds = 1\n[[programs]]\nname = 'own'\n[programs.program]\nkind = 'recorded-mappings'\n\
         recording = {paths:?}\ncpu_seconds = {{ value = 1, source = '' }}\nruns = {{ value = 1, source = '' }}\n\
         million_walks = {{ value = 1, source = '' }}"
    ))
    .unwrap();
    let of = |contents: [&str; 2]| {
        paths.iter().zip(contents).for_each(|(path, contents)| fs::write(path, contents).unwrap());
        identity(&run, "test")
    };
    assert_eq!(of(["ab", "c"]), of(["ab", "c"]));
    for other in [["a", "bc"], ["c", "ab"], ["abc", ""]] {
        assert_ne!(of(["ab", "c"]), of(other), "{other:?}");
    }
}

#[test]
fn damaged_files_are_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(2);
    let kept = keep(directory.path(), &runs);
    let path = super::directory::run_path(directory.path(), &kept[0].identity);
    let other = super::directory::run_path(directory.path(), &kept[1].identity);
    let whole = fs::read(&path).unwrap();
    for broken in [&whole[..whole.len() / 2], b"", b"PAR1 nonsense PAR1", &fs::read(&other).unwrap()] {
        fs::write(&path, broken).unwrap();
        let error = find(directory.path(), &runs[..1]).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("--fresh"), "{error}");
        assert_eq!(
            find(directory.path(), &runs[1..]).unwrap(),
            [Some(kept[1].clone())],
            "who does not ask reads on"
        );
        let listing = list(directory.path()).unwrap();
        assert_eq!((listing.runs.len(), listing.damaged.len()), (1, 1));
        let compacted = compact(directory.path()).unwrap();
        assert_eq!((compacted.removed, compacted.damaged.len()), (0, 1));
        assert_eq!(fs::read(&path).unwrap(), broken);
    }
    // The remedy that the error names.
    let results = open(directory.path()).afresh();
    let described = results.describe(&runs[0]).unwrap();
    assert_eq!(results.get(&described).unwrap(), None);
    results.keep(&described, &outcome(&runs[0])).unwrap();
    assert_eq!(find(directory.path(), &runs).unwrap(), some(&kept));
}

#[test]
fn a_pack_of_other_runs_is_no_pack_of_these() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(6);
    for packed in [&runs[..3], &runs[3..]] {
        keep(directory.path(), packed);
        compact(directory.path()).unwrap();
    }
    let [one, other] = names(directory.path()).try_into().unwrap();
    fs::copy(directory.path().join(&one), directory.path().join(&other)).unwrap();
    let error = find(directory.path(), &runs).unwrap_err().to_string();
    assert!(error.contains(&other) && error.contains("its name says"), "{error}");
}

/// A file that is intact, but whose run lacks rows.
#[test]
fn an_empty_table_is_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(1);
    let results = open(directory.path());
    let described = &results.describe(&runs[0]).unwrap();
    let record = Record::new(described.identity().into(), &runs[0], &outcome(&runs[0]));
    let path = super::directory::run_path(directory.path(), described.identity());
    for (rows, problem) in [(0, "without rows"), (1, "how long"), (2, "how many pages")] {
        let mut stored = StoredRun::new(described, &program(), &record);
        super::file::write(&path, &[&stored]).unwrap();
        let file = fs::File::open(&path).unwrap();
        let footer = Footer::read(&file).unwrap();
        let mut table = TableReader::new(file, &footer, &super::rows::FIELDS).unwrap();
        stored.rows = table.next(rows).unwrap().unwrap();
        stored.entry.rows = rows;
        stored.entry.content = super::file::content(&stored.entry, &stored.rows).unwrap();
        super::file::write(&path, &[&stored]).unwrap();
        let error = results.get(described).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn what_mmtwin_did_not_write_stays_and_is_in_nobodys_way() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = [
        ("letter.txt", "dear"),
        ("manifest.json", "{\"schema\":\"their-results/1\"}"),
        ("0123.parquet", "short"),
        ("00112233445566778899AABBCCDDEEFF.parquet", "capitals"),
        (".mmtwin-theirs.txt", "hidden"),
    ];
    for (name, content) in foreign {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let earlier = directory.path().join("page_fault1");
    fs::create_dir_all(earlier.join("unfinished/0")).unwrap();
    fs::write(earlier.join("manifest.json"), "{\"schema\":\"mmtwin-results/1\"}").unwrap();
    let runs = runs(3);
    let kept = keep(directory.path(), &runs);
    compact(directory.path()).unwrap();
    assert!(list(directory.path()).unwrap().damaged.is_empty());
    let results = open(directory.path()).afresh();
    results.keep(&results.describe(&runs[0]).unwrap(), &outcome(&runs[0])).unwrap();
    assert_eq!(find(directory.path(), &runs).unwrap(), some(&kept));
    for (name, content) in foreign {
        assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), content);
    }
    assert!(earlier.join("unfinished/0").is_dir());

    // Results of the previous layout are refused with a remedy.
    for error in [Results::open(&earlier, program()).err(), list(&earlier).err(), compact(&earlier).err()] {
        let error = error.unwrap().to_string();
        assert!(error.contains("mmtwin-results/1") && error.contains("--results"), "{error}");
    }
}

#[test]
fn a_name_that_is_taken_by_no_regular_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(2);
    let results = open(directory.path());
    let described: Vec<_> = runs.iter().map(|run| results.describe(run).unwrap()).collect();
    let paths = described
        .iter()
        .map(|run| super::directory::run_path(directory.path(), run.identity()))
        .collect::<Vec<_>>();
    // Opening a pipe would wait forever.
    rustix::fs::mkfifoat(rustix::fs::CWD, &paths[0], rustix::fs::Mode::RWXU).unwrap();
    fs::create_dir(&paths[1]).unwrap();
    for run in &described {
        for error in [results.get(run).unwrap_err(), results.keep(run, &outcome(run.run)).unwrap_err()] {
            assert!(matches!(error, ResultsError::Foreign { .. }), "{error}");
        }
    }
    assert_eq!(list(directory.path()).unwrap().damaged.len(), 2);
    assert!(paths.iter().all(|path| path.exists()));
}

#[test]
fn runs_are_found_in_packs_as_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(5);
    let kept = keep(directory.path(), &runs);
    let compacted = compact(directory.path()).unwrap();
    assert_eq!((compacted.runs, compacted.removed, compacted.packs.len()), (5, 5, 1));
    assert_eq!(names(directory.path()).len(), 1);
    assert_eq!(find(directory.path(), &runs).unwrap(), some(&kept));
    let listed: Vec<u64> =
        list(directory.path()).unwrap().runs.iter().map(|entry| entry.summary.seed).collect();
    assert_eq!(listed, [1, 2, 3, 4, 5]);
    // Nothing is left to do; a single further file is not packed.
    assert_eq!(compact(directory.path()).unwrap().removed, 0);
    let more = super::tests::runs(6);
    keep(directory.path(), &more[5..]);
    assert_eq!(compact(directory.path()).unwrap().packs.len(), 0);
    assert_eq!(list(directory.path()).unwrap().runs.len(), 6);
}

#[test]
fn pruning_removes_what_is_unwanted_from_files_and_packs() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(6);
    let kept = keep(directory.path(), &runs[..4]);
    compact(directory.path()).unwrap();
    keep(directory.path(), &runs[4..]);
    let odd = |entry: &Entry| entry.summary.seed % 2 == 1;
    let before = names(directory.path());
    let counted = prune(directory.path(), Mode::Count, odd).unwrap();
    assert_eq!((counted.runs, counted.kept), (3, 3));
    assert_eq!(names(directory.path()), before, "counting removes nothing");
    let pruned = prune(directory.path(), Mode::Remove, odd).unwrap();
    assert_eq!((pruned.runs, pruned.kept, pruned.damaged.len()), (3, 3, 0));
    let left = find(directory.path(), &runs).unwrap();
    assert_eq!(left.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true, false, true]);
    assert_eq!(
        (&left[1], &left[3]),
        (&Some(kept[1].clone()), &Some(kept[3].clone())),
        "they are as they were"
    );
    let all = prune(directory.path(), Mode::Remove, |_| true).unwrap();
    assert_eq!((all.runs, names(directory.path()).len()), (3, 0));
}

#[test]
fn pruning_leaves_alone_what_it_cannot_read() {
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &runs(1));
    fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    let damaged = directory.path().join("0123456789abcdef0123456789abcdef.parquet");
    fs::write(&damaged, "not a table").unwrap();
    let pruned = prune(directory.path(), Mode::Remove, |_| true).unwrap();
    assert_eq!((pruned.runs, pruned.damaged.len()), (1, 1));
    assert!(damaged.exists() && directory.path().join("notes.txt").exists());
}

#[test]
fn a_compaction_that_was_stopped_is_completed_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(3);
    let kept = keep(directory.path(), &runs);
    let file = super::directory::run_path(directory.path(), &kept[0].identity);
    let content = fs::read(&file).unwrap();
    compact(directory.path()).unwrap();
    // Stopped before the last file was removed.
    fs::write(&file, &content).unwrap();
    assert_eq!(list(directory.path()).unwrap().runs.len(), 3);
    let compacted = compact(directory.path()).unwrap();
    assert_eq!((compacted.packs.len(), compacted.removed), (0, 1));
    // The same run, made again from another commit, has the same values.
    let other = Program { commit: "beef".into(), ..program() };
    let results = Results::open(directory.path(), other).unwrap().afresh();
    results.keep(&results.describe(&runs[0]).unwrap(), &outcome(&runs[0])).unwrap();
    assert_eq!(compact(directory.path()).unwrap().removed, 1);
    assert_eq!(find(directory.path(), &runs).unwrap(), some(&kept));
    // A file with other values contradicts the pack, and stays.
    let wrong = Outcome { virtual_seconds: 7.0, ..outcome(&runs[0]) };
    results.keep(&results.describe(&runs[0]).unwrap(), &wrong).unwrap();
    let compacted = compact(directory.path()).unwrap();
    assert_eq!((compacted.removed, compacted.damaged.len()), (0, 1));
    assert!(compacted.damaged[0].to_string().contains("its result differs"), "{}", compacted.damaged[0]);
}

#[test]
fn unfinished_files_of_killed_writers_go() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(format!(".mmtwin-{name}.partial"));
    fs::write(at("killed"), "half").unwrap();
    let writes = fs::File::create(at("writes")).unwrap();
    rustix::fs::flock(&writes, rustix::fs::FlockOperation::LockExclusive).unwrap();
    compact(directory.path()).unwrap();
    assert_eq!(names(directory.path()), [".mmtwin-writes.partial"]);
}

#[test]
fn a_table_replaces_only_one_of_its_kind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mrc.parquet");
    let write = |kind: &str| write_table(&path, kind, vec![("value", Values::F64(vec![1.0]))]);
    for _ in 0..2 {
        write("mmtwin.curves").unwrap();
    }
    let whole = fs::read(&path).unwrap();
    assert!(matches!(write("mmtwin.others"), Err(ResultsError::Foreign { .. })));
    assert_eq!(fs::read(&path).unwrap(), whole);
    for foreign in [&b"letter"[..], b""] {
        fs::write(&path, foreign).unwrap();
        assert!(matches!(write("mmtwin.curves"), Err(ResultsError::Foreign { .. })));
        assert_eq!(fs::read(&path).unwrap(), foreign);
    }
}
