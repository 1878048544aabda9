//! Output to a terminal, a pipe or a closed stdout: write errors, and text from elsewhere.

use proptest::prelude::*;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::pipe;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A directory with a scenario that runs for milliseconds, its machine, a trace of four accesses and a saved tree without files.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for moment in ["begin", "end"] {
        fs::create_dir_all(place.path().join("tree").join(moment)).unwrap();
    }
    for (name, content) in [
        ("tiny.toml", include_str!("cmd/compare.in/tiny.toml")),
        ("machine.toml", include_str!("cmd/compare.in/machine.toml")),
        ("pool.toml", include_str!("cmd/hugetlb.in/pool.toml")),
        ("trace", "1\n2\n1\n3\n"),
        ("tree/doctor.toml", include_str!("../../../data/doctor/swap-6.12/doctor.toml")),
    ] {
        fs::write(place.path().join(name), content).unwrap();
    }
    place
}

fn mmtwin<S: AsRef<OsStr>>(place: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
    command.args(arguments).current_dir(place).stdin(Stdio::null());
    command
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command with redirections in shell syntax.
fn redirected(place: &Path, arguments: &[&str], streams: &str) -> Output {
    let script = format!("exec \"$0\" \"$@\" {streams}");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_mmtwin")])
        .args(arguments)
        .current_dir(place)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Every command that prints to stdout, and its exit code.
const PRINTING: [(&[&str], i32); 19] = [
    (&["--help"], 0),
    (&["--version"], 0),
    (&["help", "run"], 0),
    (&["list"], 0),
    (&["list", "metrics", "--json"], 0),
    (&["run", "tiny.toml"], 0),
    (&["run", "tiny.toml", "--json"], 0),
    (&["compare", "tiny.toml", "--seeds", "1"], 0),
    (&["compare", "tiny.toml", "--seeds", "1", "--json"], 0),
    (&["sensitivity", "pool.toml"], 0),
    (&["calibrate", "pcp.batch-latency.spr-server"], 0),
    (&["published", "pcp", "--table", "pcp.per_cpu_pages.patched"], 0),
    (&["published", "pcp", "--table", "pcp.per_cpu_pages.patched", "--json"], 0),
    (&["mrc", "trace", "--format", "ids", "--policies", "lru"], 0),
    (&["mrc", "trace", "--format", "ids", "--policies", "lru", "--json"], 0),
    (&["verify", "hugetlb", "--recorded"], 0),
    (&["verify", "hugetlb", "--recorded", "--json"], 0),
    (&["doctor", "--from", "tree"], 0),
    (&["doctor", "--from", "tree", "--json"], 0),
];

/// Commands that fail before they print anything.
const FAILING: [(&[&str], i32); 5] = [
    (&[], 2),
    (&["nothing"], 2),
    (&["run", "tiny.toml", "--sed", "1"], 2),
    (&["run", "none.toml"], 2),
    (&["replay", "tiny.toml"], 2),
];

#[test]
fn output_that_cannot_be_written_is_a_failure_and_nothing_is_a_panic() {
    let place = place();
    let place = place.path();
    for (arguments, code) in PRINTING {
        let plain = redirected(place, arguments, "");
        assert_eq!(plain.status.code(), Some(code), "{arguments:?}: {}", shown(&plain.stderr));
        assert!(!plain.stdout.is_empty(), "{arguments:?}");
        for (streams, code, says) in [
            (">&-", 1, "error: cannot write to stdout: it is closed\n"),
            (">/dev/full", 1, "error: cannot write to stdout: No space left on device (os error 28)\n"),
            ("1</dev/null", 1, "error: cannot write to stdout: Bad file descriptor (os error 9)\n"),
            (">&- 2>&-", 1, ""),
            (">/dev/full 2>/dev/full", 1, ""),
            (">/dev/null", 0, ""),
            ("1<>/dev/null", 0, ""),
        ] {
            let output = redirected(place, arguments, streams);
            let stderr = shown(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{arguments:?} {streams}: {stderr}");
            assert!(stderr.ends_with(says), "{arguments:?} {streams}: {stderr}");
            assert!(!stderr.contains("panicked"), "{arguments:?} {streams}: {stderr}");
        }
        for streams in ["2>&-", "2>/dev/full"] {
            let output = redirected(place, arguments, streams);
            assert_eq!(output.status.code(), Some(code), "{arguments:?} {streams}");
            assert_eq!(output.stdout, plain.stdout, "{arguments:?} {streams}");
        }
        let (nobody, stdout) = pipe().unwrap();
        drop(nobody);
        let mut unread = mmtwin(place, arguments);
        let unread =
            unread.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let stderr = shown(&unread.stderr);
        assert_eq!(unread.status.code(), Some(141), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("error"), "{arguments:?}: {stderr}");
    }
    for (arguments, code) in FAILING {
        for streams in ["", ">&-", "2>&-", "2>/dev/full", ">&- 2>&-"] {
            let output = redirected(place, arguments, streams);
            assert_eq!(output.status.code(), Some(code), "{arguments:?} {streams}");
        }
        let (nobody, stderr) = pipe().unwrap();
        drop(nobody);
        assert_eq!(
            mmtwin(place, arguments).stderr(stderr).status().unwrap().code(),
            Some(code),
            "{arguments:?}"
        );
    }
}

const HOSTILE: [&str; 23] = [
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\u{9b}2J",
    "\r",
    "\t",
    "\x08",
    "\x7f",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{2028}",
    "\u{e0041}",
    "a",
    "1",
    "=",
    ",",
    "\"",
    "'",
    "<",
    "ü",
    "表",
];

/// Text with characters that a terminal interprets, alone and in known escape sequences; no slashes, because
/// it is used in file names.
fn hostile_text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&HOSTILE[..]), 1..6)
        .prop_map(|pieces| "\x1b".to_string() + &pieces.concat())
}

/// Every way in which text from elsewhere gets into the command; each case is a list of arguments.
fn with_hostile_text(place: &Path, text: &str) -> Vec<Vec<OsString>> {
    let escaped = toml::Value::String(text.into()).to_string();
    let write = |name: &str, content: &str| {
        let name = format!("{text}{name}");
        fs::write(place.join(&name), content).unwrap();
        name
    };
    let tiny = include_str!("cmd/compare.in/tiny.toml");
    let machine = include_str!("cmd/compare.in/machine.toml");
    let with = |document: &str, key: &str, value: &str| {
        let line = |line: &str| {
            if line.starts_with(&format!("{key} = ")) {
                format!("{key} = {value}\n")
            } else {
                format!("{line}\n")
            }
        };
        document.lines().map(line).collect::<String>()
    };
    let scenarios = [
        write("good.toml", tiny),
        write("described.toml", &with(tiny, "description", &escaped)),
        write("evident.toml", &with(tiny, "evidence", &escaped)),
        write("named.toml", &with(tiny, "name", &escaped)),
        write("on.toml", &with(tiny, "machine", &escaped)),
        write("of.toml", &with(tiny, "series", &escaped)),
        write("variant.toml", &with(tiny, "variants", &format!("[{escaped}]"))),
        write("metric.toml", &with(tiny, "metrics", &format!("[{escaped}]"))),
        write("key.toml", &format!("{escaped} = 1\n{tiny}")),
        write("setting.toml", &format!("{tiny}\n[settings]\n{escaped} = \"1\"")),
        write("raw.toml", &with(tiny, "description", text)),
        write("kind.toml", &with(tiny, "kind", &escaped)),
    ];
    let described_machine = write("machine.toml", &with(machine, "description", &escaped));
    let named_machine = write("named-machine.toml", &with(machine, "name", &escaped));
    let raw_machine = write("raw-machine.toml", &with(machine, "sockets", text));
    let ids = write("ids", "1\n2\n1\n");
    let no_ids = write("no-ids", &format!("1\n{text}\n"));
    let (report, words) = (format!("{text}.html"), format!("{text}.md"));
    let results = format!("{text}-results");
    let recordings = format!("{text}-recordings");
    fs::create_dir_all(place.join(&recordings).join("one")).unwrap();
    for file in [
        "recording.toml",
        "counts.toml",
        "numa.toml",
        "ensemble.toml",
        "readahead.toml",
        "reclaim.toml",
        "faults.toml",
    ] {
        fs::write(
            place.join(&recordings).join("one").join(file),
            format!("kernel = {escaped}\n{text} = 1\n"),
        )
        .unwrap();
    }
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for scenario in &scenarios {
        for command in ["run", "compare", "sensitivity"] {
            cases.push(vec![command, scenario, "--seeds", "1"]);
        }
        cases.push(vec!["run", scenario, "--json"]);
    }
    let (set, write_to) = (format!("{text}={text}"), format!("vm.nr_hugepages={text}"));
    let set_value = format!("vm.stat_interval={text}");
    for more in [
        ["--set", &set],
        ["--set", &set_value],
        ["--set", text],
        ["--variants", text],
        ["--machine", text],
        ["--seeds", text],
        ["--machine", &described_machine],
        ["--machine", &named_machine],
        ["--machine", &raw_machine],
        ["--results", &results],
        ["--results", &recordings],
        ["--write", text],
        [text, text],
    ] {
        cases.push([&["run", "tiny.toml"], &more[..]].concat());
    }
    cases.push(vec!["run", "pool.toml", "--write", &write_to]);
    cases.push(vec!["run", "pool.toml", "--write", &set]);
    for trace in [&ids, &no_ids] {
        let curve = ["mrc", trace, "--format", "ids", "--policies", "lru"];
        cases.push([&curve[..], &["--force", "-o", &report, "-o", &words]].concat());
        cases.push([&curve[..], &["--results", &results, "--json"]].concat());
        cases.push(vec!["mrc", trace, "--format", "csv"]);
        cases.push(vec!["mrc", trace, "--format", text]);
        cases.push(vec!["mrc", trace, "--policies", text]);
        cases.push(vec!["replay", trace]);
    }
    for mechanism in ["pcp", "hugetlb", "reclaim", "readahead", "numa", "folios"] {
        cases.push(vec!["verify", mechanism, "--recorded", "--recordings", &recordings]);
    }
    for arguments in [
        &["verify", text][..],
        &["verify", "pcp", "--workload", text],
        &["published", text],
        &["published", "pcp", "--table", text],
        &["calibrate", text],
        &["study", text],
        &["study", "pid-filter", "--only", text],
        &["list", text],
        &[text],
        &["record", "--recover", text, "-o", text],
        &["record", "-o", &results, text],
        &["record", "-o", &recordings, "--", text],
    ] {
        cases.push(arguments.to_vec());
    }
    cases.into_iter().map(|arguments| arguments.into_iter().map(OsString::from).collect()).collect()
}

fn is_harmless(text: &str) -> bool {
    let obeyed = |c: char| {
        c.is_control() && c != '\n' || "\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}".contains(c)
    };
    !text.chars().any(obeyed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    #[test]
    fn nothing_foreign_is_obeyed(text in hostile_text()) {
        let place = place();
        let mut spelled = 0;
        let mut cases = with_hostile_text(place.path(), &text);
        // File names that are not valid UTF-8.
        let no_text = OsString::from_vec([text.as_bytes(), b"\xff\x1b[2J"].concat());
        for command in ["run", "mrc", "replay", "verify", "nothing"] {
            cases.push(vec![command.into(), no_text.clone()]);
        }
        for arguments in cases {
            let output = mmtwin(place.path(), &arguments).output().unwrap();
            let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
            prop_assert!(is_harmless(&stdout), "{arguments:?}: {stdout:?}");
            prop_assert!(is_harmless(&stderr), "{arguments:?}: {stderr:?}");
            prop_assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
            spelled += u32::from(stdout.contains("\\u001b") || stderr.contains("\\u001b"));
        }
        prop_assert!(spelled > 50, "only {spelled} commands had anything foreign to print");
        for ending in ["html", "md"] {
            let file = fs::read_to_string(place.path().join(format!("{text}.{ending}"))).unwrap();
            prop_assert!(is_harmless(&file), "{ending}");
        }
    }
}

/// An error message stays short even if a line of a file or a name is long.
#[test]
fn errors_are_short() {
    let place = place();
    let long = "x".repeat(100_000);
    let tiny = include_str!("cmd/compare.in/tiny.toml");
    fs::write(place.path().join("line.toml"), format!("{tiny}\ndescription = {long}")).unwrap();
    fs::write(place.path().join("key.toml"), format!("{long} = 1\n{tiny}")).unwrap();
    fs::write(
        place.path().join("kind.toml"),
        tiny.replace("kind = \"", &format!("kind = \"{}", "x ".repeat(50_000))),
    )
    .unwrap();
    fs::write(place.path().join("ids"), format!("1\n{long}\n")).unwrap();
    let set = format!("vm.stat_interval={long}");
    for arguments in [
        &["run", "line.toml"][..],
        &["run", "key.toml"],
        &["run", "kind.toml"],
        &["run", &long],
        &["run", "tiny.toml", "--set", &set],
        &["run", "tiny.toml", "--variants", &long],
        &["mrc", "ids", "--format", "ids"],
        &["mrc", "ids", "--format", &long],
        &["verify", &long],
        &["list", &long],
        &[&long],
        &["run", "tiny.toml", "--seeds", &long],
    ] {
        let output = mmtwin(place.path(), arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", arguments[0]);
        assert!(output.stderr.len() < 2500, "{}: {} bytes", arguments[0], output.stderr.len());
        assert!(!output.stderr.is_empty());
    }
}
