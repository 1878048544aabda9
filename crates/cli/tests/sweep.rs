//! A sweep ends in the same answer, from the same files, whoever made its runs: one process, one that is killed again and again, or shards
//! side by side that have nothing in common but a directory.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A grid and a search of several stages, over runs of a few milliseconds.
const SWEEPS: [&[&str]; 2] = [
    &[
        "sweep",
        "tiny.toml",
        "--over",
        "vm.percpu_pagelist_high_fraction=0,8..512",
        "--over",
        "vm.stat_interval=1,10",
    ],
    &[
        "sweep",
        "tiny.toml",
        "--over",
        "vm.percpu_pagelist_high_fraction=8..512:16",
        "--method",
        "halving",
        "--seeds",
        "4",
    ],
];

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("tiny.toml"), include_str!("cmd/compare.in/tiny.toml")).unwrap();
    std::fs::write(directory.path().join("machine.toml"), include_str!("cmd/compare.in/machine.toml"))
        .unwrap();
    directory
}

fn start(directory: &Path, arguments: &[&str], more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
    command.current_dir(directory).args(arguments).args(["--json"]).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    must_succeed(&output);
    output
}

/// A command that has to end well.
fn must_succeed(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn answer(directory: &Path, arguments: &[&str]) -> String {
    String::from_utf8(end(start(directory, arguments, &[])).stdout).unwrap()
}

/// The files of the results directory; partial ones of killed processes are not among them.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory.join("results")).unwrap().map(|entry| entry.unwrap());
    let files =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| name.ends_with(".parquet")).collect()
}

#[test]
fn a_sweep_that_is_killed_goes_on_to_the_same_answer() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for sweep in SWEEPS {
        let (whole, killed) = (directory(), directory());
        let expected = answer(whole.path(), sweep);
        let mut cut_short = 0;
        for _ in 0..8 {
            let mut child = start(killed.path(), sweep, &["--jobs", "1"]);
            std::thread::sleep(Duration::from_millis(random.random_range(5..120)));
            child.kill().unwrap();
            cut_short += usize::from(!child.wait().unwrap().success());
        }
        assert!(cut_short > 0, "no process was killed before it had ended");
        assert_eq!(answer(killed.path(), sweep), expected);
        assert!(files(killed.path()) == files(whole.path()));
    }
}

#[test]
fn shards_side_by_side_come_to_the_answer_of_one_process() {
    for sweep in SWEEPS {
        let (whole, shared) = (directory(), directory());
        let expected = answer(whole.path(), sweep);
        let shards = ["1/3", "2/3", "3/3"].map(|shard| start(shared.path(), sweep, &["--shard", shard]));
        for shard in shards {
            end(shard);
        }
        let made = files(shared.path()).len();
        assert!(made > 3, "{made} runs by shards");
        assert_eq!(answer(shared.path(), sweep), expected);
        assert!(files(shared.path()) == files(whole.path()));
    }
}

/// What a sweep file says, what of it is replaced by what, and what the error has to say after the file's name.
const MISTAKES: [(&str, &str, &[&str]); 16] = [
    (
        "'vm.stat_interval' = [1, 10]",
        "'vm.stat_intervall' = [1, 10]",
        &["line 8: over vm.stat_intervall: no such key (do you mean vm.stat_interval?)"],
    ),
    ("[1, 10]", "[1, 1000000000000]", &["line 8: vm.stat_interval = 1000000000000"]),
    ("[1, 10]", "[1]", &["line 8: over vm.stat_interval: nothing but the default"]),
    ("[1, 10]", "'9..1'", &["line 8: over vm.stat_interval=9..1: expected the smaller number first"]),
    ("[1, 10]", "[]", &["line 8: over vm.stat_interval=: expected a value"]),
    ("[1, 10]", "true", &["line 8: expected values as on the command line in quotes"]),
    ("'vm.stat_interval' = [1, 10]", "", &["line 7: nothing to search"]),
    ("'vm.stat_interval'", "scenario", &["line 8: over scenario: a sweep chooses settings"]),
    ("'vm.stat_interval'", "'features.pcp.autotuning'", &["line 8: pcp.autotuning: no such feature"]),
    ("'tiny.toml'", "'tinny.toml'", &["line 5: tinny.toml: "]),
    ("'small.toml'", "'intel-9s'", &["line 6: intel-9s: no such machine"]),
    ("'small.toml'", "'small.toml'\nvariant = '6.99'", &["line 7: 6.99: no such variant"]),
    (
        "'small.toml'",
        "'small.toml'\nsettings = { 'vm.swapiness' = 3 }",
        &["line 7: vm.swapiness: no such setting"],
    ),
    (
        "'small.toml'",
        "'small.toml'\nsettings = { 'vm.stat_interval' = 3 }",
        &["line 9: over vm.stat_interval: it has a fixed value too"],
    ),
    (
        "minimize = ['score']",
        "minimize = ['mem_shared']",
        &["line 2: mem_shared: no workload here has this metric"],
    ),
    (
        "minimize = ['score']",
        "minimize = ['scor']\nconstraints = ['pcp_max <= 1 GB', 'x <= 2']",
        &[
            "line 2: scor: no such metric",
            "line 3: constraint \"pcp_max <= 1 GB\": expected a unit",
            "line 3: x: no such metric",
        ],
    ),
];

#[test]
fn all_mistakes_of_a_sweep_file_have_its_name_and_their_lines() {
    let directory = directory();
    let sound = "format = 1\nminimize = ['score']\n\n[[fleet]]\nscenario = 'tiny.toml'\nmachine = 'small.toml'\n[over]\n'vm.stat_interval' = [1, 10]\n";
    let dry_run = |text: &str| {
        std::fs::write(directory.path().join("fleet.toml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
        command.current_dir(directory.path()).args(["sweep", "fleet.toml", "--dry-run"]).output().unwrap()
    };
    std::fs::copy(directory.path().join("machine.toml"), directory.path().join("small.toml")).unwrap();
    must_succeed(&dry_run(sound));
    for (from, to, says) in MISTAKES {
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{from}");
        let output = dry_run(&text);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {error}");
        let lines: Vec<&str> = error.trim_start_matches("error: ").lines().collect();
        assert_eq!(lines.len(), says.len(), "{to}: {error}");
        for (line, says) in lines.iter().zip(says) {
            assert!(line.starts_with(&format!("fleet.toml: {says}")), "{to}: {line}");
        }
    }
}
