//! `mmtwin doctor` on saved trees and on the machine that runs the test.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn mmtwin(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
    command.args(arguments).env_remove("COLUMNS").stdin(Stdio::null()).output().unwrap()
}

fn trees() -> Vec<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/doctor");
    let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let mut trees: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    trees.sort();
    assert!(trees.len() > 3);
    trees
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_screen_has_room_for_each_tree() {
    for tree in trees() {
        let output = mmtwin(&["doctor", "--from", tree.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let screen = text(&output.stdout);
        assert!(
            screen.lines().count() <= 40,
            "{}: {} lines\n{screen}",
            tree.display(),
            screen.lines().count()
        );
        // A path or a command that is longer than a line is not broken.
        let long = |line: &&str| line.chars().count() > 80 && line.trim().split(' ').count() > 2;
        assert_eq!(screen.lines().find(long), None, "{}", tree.display());
    }
}

#[test]
fn documents_conform_to_the_schema_and_say_what_the_screen_says() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/doctor.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for tree in trees() {
        let tree = tree.to_str().unwrap();
        let document: Value =
            serde_json::from_slice(&mmtwin(&["doctor", "--from", tree, "--json"]).stdout).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{tree}: {}", errors.join("\n"));
        let all = text(&mmtwin(&["doctor", "--from", tree, "--all"]).stdout);
        for finding in document["findings"].as_array().unwrap() {
            assert!(all.contains(finding["id"].as_str().unwrap()), "{tree}: {}", finding["id"]);
        }
        for seen in document["observations"].as_array().unwrap() {
            assert!(all.contains(seen["name"].as_str().unwrap()), "{tree}: {}", seen["name"]);
        }
    }
}

/// Without root, and with nothing but the files of this kernel.
#[test]
fn what_is_saved_here_is_found_again() {
    let place = tempfile::tempdir().unwrap();
    let saved = place.path().join("saved");
    let saved = saved.to_str().unwrap();
    let here = mmtwin(&["doctor", "--seconds", "1", "--no-predict", "--save", saved, "--json"]);
    assert_eq!(here.status.code(), Some(0), "{}", text(&here.stderr));
    let there = mmtwin(&["doctor", "--from", saved, "--json"]);
    let [here, there]: [Value; 2] =
        [here, there].map(|output| serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!(here["observations"], there["observations"]);
    assert_eq!(here["findings"], there["findings"]);
    assert_eq!(here["of"], "this machine");
    let again = mmtwin(&["doctor", "--seconds", "1", "--save", saved]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("it is there already"), "{}", text(&again.stderr));
}

#[test]
fn mistakes_name_the_file_and_what_is_right() {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().to_str().unwrap();
    let refused = |says: &str| {
        let output = mmtwin(&["doctor", "--from", tree]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("doctor.toml") && stderr.contains(says), "{stderr}");
    };
    refused("mmtwin doctor --save wrote");
    let manifest = place.path().join("doctor.toml");
    fs::write(&manifest, "format = 7\nsource = \"\"\nmoment = []\n").unwrap();
    refused("format = 1");
    fs::write(&manifest, "format = 1\nsource = \"\"\nmoment = []\n").unwrap();
    refused("fewer than two");
    let moments =
        "[[moment]]\ndirectory = \"begin\"\nseconds = 0\n[[moment]]\ndirectory = \"end\"\nseconds = 1\n";
    fs::write(&manifest, format!("format = 1\nsource = \"\"\n{moments}")).unwrap();
    fs::create_dir(place.path().join("begin")).unwrap();
    refused("directory = \"end\"");
    for wrong in [&["doctor", "--seconds", "0"][..], &["doctor", "--from", tree, "--save", "x"]] {
        assert_eq!(mmtwin(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// What was not seen is not taken for sound, and a file that is damaged does not fill the screen.
#[test]
fn damaged_and_missing_files_are_told_briefly() {
    let place = tempfile::tempdir().unwrap();
    let moments =
        "[[moment]]\ndirectory = \"begin\"\nseconds = 0\n[[moment]]\ndirectory = \"end\"\nseconds = 1\n";
    fs::write(place.path().join("doctor.toml"), format!("format = 1\nsource = \"\"\n{moments}")).unwrap();
    for moment in ["begin", "end"] {
        fs::create_dir_all(place.path().join(moment).join("proc")).unwrap();
    }
    let screen = || text(&mmtwin(&["doctor", "--from", place.path().to_str().unwrap()]).stdout);
    let empty = screen();
    assert!(empty.starts_with("No rule can tell") && empty.contains("/proc/vmstat"), "{empty}");
    assert!(!empty.contains("any kernel"), "{empty}");
    fs::write(place.path().join("begin/proc/vmstat"), format!("pgfault {}\n", "x".repeat(5000))).unwrap();
    let damaged = screen().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(damaged.contains("as if it were not there at the beginning: /proc/vmstat"), "{damaged}");
    assert!(damaged.len() < 1000, "{damaged}");
}

/// Nothing is run for another machine, and what it can run is told.
#[test]
fn a_saved_tree_is_told_what_its_machine_can_run() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/doctor/numa-off-6.1");
    let tree = tree.to_str().unwrap();
    let screen = text(&mmtwin(&["doctor", "--from", tree]).stdout);
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = "mmtwin compare numa02 --machine this --variants mainline-6.1 --vary kernel.numa_balancing=0,1 --seeds 3";
    assert!(words.contains(command), "{screen}");
    assert!(screen.contains("are for the machine that this is of"), "{screen}");
    let without = text(&mmtwin(&["doctor", "--from", tree, "--no-predict"]).stdout);
    assert!(!without.contains("Not predicted"), "{without}");
}

/// Ctrl-C ends the samples, and what they show is printed.
#[test]
fn an_interrupted_doctor_tells_what_it_has() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
    let command = command.args(["doctor", "--seconds", "600", "--json"]).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let process = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["seconds"].as_f64().unwrap() < 500.0 && document["prediction"].is_null());
}
