//! JSON output conforms to schemas/.
//!
//! The schemas allow no members besides those they name, so a new member fails until it is in its schema.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{name}.schema.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The first place where `document` does not conform to `schema`.
fn check(schema: &Value, document: &Value) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

fn mmtwin(directory: &Path, arguments: &[&str]) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_mmtwin")).current_dir(directory).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A scenario that runs for a few milliseconds.
fn tiny() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let text = include_str!("cmd/compare.in/tiny.toml");
    let path = directory.path().join("tiny.toml");
    std::fs::write(&path, text).unwrap();
    std::fs::write(directory.path().join("machine.toml"), include_str!("cmd/compare.in/machine.toml"))
        .unwrap();
    std::fs::write(directory.path().join("pool.toml"), include_str!("cmd/hugetlb.in/pool.toml")).unwrap();
    (directory, path)
}

fn conforms(name: &str, arguments: &[&str]) -> Value {
    let (directory, _) = tiny();
    let document = mmtwin(directory.path(), arguments);
    let schema = schema(name);
    if let Err(error) = check(&schema, &document) {
        panic!("{arguments:?}: {error}");
    }
    document
}

#[test]
fn list() {
    let document = conforms("list", &["list", "--json"]);
    assert!(document["scenarios"].as_array().unwrap().iter().any(|scenario| scenario["name"] == "kbuild"));
}

#[test]
fn run() {
    let document = conforms("run", &["run", "tiny.toml", "--seeds", "2", "--json"]);
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn results_list() {
    let (directory, _) = tiny();
    mmtwin(directory.path(), &["run", "tiny.toml", "--seeds", "2", "--json"]);
    let document = mmtwin(directory.path(), &["results", "list", "--json"]);
    let schema = schema("results-list");
    check(&schema, &document).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert!(runs.len() == 2 && runs.iter().all(|run| run["build"] == document["build"]), "{document}");
}

#[test]
fn run_with_events() {
    let document = conforms("run", &["run", "pool.toml", "--write", "vm.nr_hugepages=1000000", "--json"]);
    let event = &document["runs"][0]["events"][0];
    assert_eq!(event["what"]["write"]["asked"], 1_000_000);
    assert!(event["took_seconds"].as_f64() > Some(0.0), "{event}");
}

#[test]
fn sensitivity() {
    let document = conforms("sensitivity", &["sensitivity", "pool.toml", "--json"]);
    assert_eq!(document["variants"], serde_json::json!(["hugetlb-base", "mainline-6.18"]));
    let assumptions = document["assumptions"].as_array().unwrap();
    let line = assumptions.iter().find(|a| a["assumption"]["key"] == "costs.memory_line_ns").unwrap();
    assert_eq!((&line["assumption"]["low"], &line["assumption"]["stated"]), (&70.0.into(), &true.into()));
    let grow = line["effects"].as_array().unwrap().iter().find(|e| e["metric"] == "grow_time").unwrap();
    assert!(grow["at_high"].as_f64() > grow["at_low"].as_f64());
}

#[test]
fn calibrate() {
    let document = conforms("calibrate", &["calibrate", "pcp.batch-latency.spr-server", "--json"]);
    assert_eq!(document["figures"].as_array().unwrap().len(), 5);
}

#[test]
fn study() {
    let document = conforms("study", &["study", "pid-filter", "--only", "late-4", "--seeds", "1", "--json"]);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["cells"].as_array().unwrap().len() == 4), "{}", rows[0]);
}

#[test]
fn published_hugetlb() {
    let arguments = ["published", "hugetlb", "--table", "hugetlb.milan-vm-252", "--json"];
    let document = conforms("published", &arguments);
    let table = &document["tables"][0];
    assert_eq!(table["statistics"]["errors"], 4);
    assert_eq!(table["orderings"][0]["pairs_resolved"], table["orderings"][0]["alike_resolved"]);
}

#[test]
fn compare() {
    for seeds in ["1", "3"] {
        let document = conforms("compare", &["compare", "tiny.toml", "--seeds", seeds, "--json"]);
        assert_eq!(document["variants"][1]["name"], "patch9");
        assert!(document["variants"][1]["metrics"]["score"]["mean"].is_number());
    }
}

#[test]
fn explain() {
    let kernels = ["explain", "tiny.toml", "--from", "6.6", "--to", "6.9"];
    for more in [
        &["--metric", "alloc_zone,score"][..],
        &["--metric", "alloc_zone", "--by", "change", "--orders", "2", "--seeds", "1"],
    ] {
        let document = conforms("explain", &[&kernels[..], more, &["--json"]].concat());
        let explanation = &document["explanations"][0];
        let players = explanation["players"].as_array().unwrap();
        let shares: f64 = players.iter().map(|player| player["share"]["difference"].as_f64().unwrap()).sum();
        let whole = explanation["change"]["difference"].as_f64().unwrap();
        assert!(whole != 0.0 && (shares - whole).abs() < 1e-9, "{shares} {whole}");
    }
}

#[test]
fn published() {
    let arguments = ["published", "pcp", "--table", "pcp.parameters", "--table", "pcp.per_cpu_pages.patched"];
    let document = conforms("published", &[&arguments[..], &["--json"]].concat());
    assert!(document["summary"]["direction_wrong"].is_number());
    assert_eq!(document["tables"].as_array().unwrap().len(), 2);
}

#[test]
fn results_are_kept_and_taken_up_again() {
    let (directory, _) = tiny();
    let arguments = ["compare", "tiny.toml", "--seeds", "2", "--json"];
    let first = mmtwin(directory.path(), &arguments);
    let files = || {
        let entries = std::fs::read_dir(directory.path().join("results")).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let kept = files();
    assert_eq!(kept.len(), 4, "a file a run");
    for more in [&["--jobs", "1"][..], &["--fresh", "--jobs", "2"]] {
        assert_eq!(mmtwin(directory.path(), &[&arguments[..], more].concat()), first);
        assert_eq!(files(), kept);
    }
}

/// An access trace in libCacheSim's oracleGeneral format: a loop over 40 pages.
fn access_trace(directory: &Path) {
    let record = |time: u32| {
        let object = u64::from(time % 40) + 1;
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &4096u32.to_le_bytes(), &(-1i64).to_le_bytes()]
            .concat()
    };
    std::fs::write(directory.join("loop.oracleGeneral.bin"), (0..4000).flat_map(record).collect::<Vec<u8>>())
        .unwrap();
}

#[test]
fn mrc() {
    let directory = tempfile::tempdir().unwrap();
    access_trace(directory.path());
    let schema = schema("mrc");
    let run = |more: &[&str]| {
        let arguments = [&["mrc", "loop.oracleGeneral.bin", "--json"], more].concat();
        let document = mmtwin(directory.path(), &arguments);
        check(&schema, &document).unwrap_or_else(|error| panic!("{more:?}: {error}"));
        document
    };
    let document = run(&[
        "--policies",
        "belady,lru",
        "--sizes",
        "40,20",
        "--results",
        "out",
        "-o",
        "a.html",
        "-o",
        "a.csv",
    ]);
    let points = document["points"].as_array().unwrap();
    let misses: Vec<_> = points.iter().map(|point| point["misses"].as_u64().unwrap()).collect();
    // LRU hits on every repetition of a loop if all of it fits into memory, and never otherwise.
    assert_eq!((misses[1], misses[2], misses[3]), (40, 4000, 40));
    assert!((40..4000).contains(&misses[0]));
    assert!(directory.path().join("out/mrc.parquet").exists());
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(read("a.html").starts_with("<!DOCTYPE html>"));
    assert_eq!(read("a.csv").lines().count(), 1 + points.len());
    let document = run(&["--sample", "0.25", "--sizes", "20", "-o", "a.JSON"]);
    assert_eq!(serde_json::from_str::<Value>(&read("a.JSON")).unwrap(), document);
    assert!(document["points"][0]["miss_ratio_high"].is_number());
    assert_eq!(run(&["--jobs", "1"]), run(&["--jobs", "2"]));
}

/// Each record names the next access to its page; if that is beyond the end, the trace is an excerpt of a
/// longer one.
#[test]
fn mrc_of_a_part() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema("mrc");
    let record =
        [&1u32.to_le_bytes()[..], &7u64.to_le_bytes(), &1u32.to_le_bytes(), &2i64.to_le_bytes()].concat();
    for (records, beyond_end) in [(2, Value::Null), (1, Value::from(2))] {
        std::fs::write(directory.path().join("a.oracleGeneral.bin"), record.repeat(records)).unwrap();
        let document =
            mmtwin(directory.path(), &["mrc", "a.oracleGeneral.bin", "--policies", "lru", "--json"]);
        check(&schema, &document).unwrap_or_else(|error| panic!("{records}: {error}"));
        assert_eq!(document["beyond_end"], beyond_end);
    }
}

#[test]
fn what_does_not_conform_is_told() {
    let schema = schema("run");
    let checked = |document: &str| check(&schema, &serde_json::from_str(document).unwrap());
    let error = |document: &str| checked(document).unwrap_err();
    assert!(error("[]").contains("not of type"));
    assert!(error(r#"{"schema": "mmtwin-run/1"}"#).contains("required"));
    let whole = r#"{"schema": "mmtwin-run/1", "mmtwin": "", "scenario": "", "machine": "", "results": "", "runs": []"#;
    checked(&format!("{whole}}}")).unwrap();
    assert!(error(&format!("{whole}, \"more\": 1}}")).contains("more"));
    assert!(error(&whole.replace("run/1", "run/2").replace("[]", "[]}")).starts_with("/schema: "));
}

#[test]
fn verify() {
    let recordings = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/recordings/pf1_1t_default");
    let copy = recordings.path().join("pf1_1t_default");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(source).unwrap().map(|file| file.unwrap()) {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let place = recordings.path().to_str().unwrap();
    let document = conforms("verify", &["verify", "pcp", "--recorded", "--recordings", place, "--json"]);
    let entries = document["entries"].as_array().unwrap();
    let refills = entries.iter().find(|entry| entry["counter"] == "refill sizes").unwrap();
    assert_eq!(refills["kernel"], refills["twin"]);
}

#[test]
fn verify_hugetlb() {
    let document = conforms("verify", &["verify", "hugetlb", "--recorded", "--json"]);
    let entries = document["entries"].as_array().unwrap();
    let flushes = entries.iter().find(|entry| {
        entry["case"] == "hugetlb-6.18.44: HVO on, 2000" && entry["counter"] == "0 -> 2000: do_flush_tlb_all"
    });
    let flushes = flushes.unwrap();
    assert_eq!((&flushes["kernel"], &flushes["twin"]), (&2.into(), &2.into()));
    let tables = entries.iter().find(|entry| entry["causes"]["earlier_splits"].is_number()).unwrap();
    assert!(tables["counter"].as_str().unwrap().ends_with("page tables, from the trace"));
    let verdict = &document["verdict"];
    assert_eq!((&verdict["exact"], &verdict["worst"]), (&entries.len().into(), &Value::Null));
}

#[test]
fn verify_reclaim() {
    let document = conforms("verify", &["verify", "reclaim", "--recorded", "--json"]);
    assert_eq!(document["kernel"], "6.1.192, 6.12.95, 6.18.15, 6.18.44");
    let entries = document["entries"].as_array().unwrap();
    let cases = entries.iter().filter(|entry| entry["counter"] == "accesses, hit or miss");
    let accesses = cases.map(|entry| entry["kernel"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(accesses, 3 * (3_600_000 + 2_200_000) + 200_000 + 300_000 + 4096);
    assert_eq!(document["notes"].as_array().unwrap().len(), 2);
}
