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
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
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
