//! Runs the command and classifies how it ended.

use crate::case::Case;
use serde_json::Value;
use sim::metric::Metric;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Limit of CPU time, far above what any case needs, which does not depend on other load.
const PATIENCE: Duration = Duration::from_secs(120);
/// Limit of wall-clock time, for a command that hangs without using CPU time.
const PATIENCE_IDLE: Duration = Duration::from_secs(3600);
/// Clock ticks per second in /proc/PID/stat (`USER_HZ`).
const USER_HZ: u64 = 100;

/// The outcome of a command.
#[derive(Debug)]
pub enum Verdict {
    /// It printed a result.
    Made,
    /// It exited with an error about the input (exit code 2).
    Refused,
    /// It hit the time limit, but was making progress: a large machine whose programs have a lot to do.
    GoesOn,
    /// It failed in a way that no input may cause.
    Broken(Fault),
}

/// A failure.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The message without numbers, which is the same for two cases with the same fault.
    pub kind: String,
    /// The whole message.
    pub text: String,
}

impl Fault {
    fn new(text: String) -> Fault {
        let first = text.lines().next().unwrap_or_default();
        Fault { kind: first.chars().filter(|c| !c.is_ascii_digit()).collect(), text }
    }
}

/// Runs a case; if `twice`, a second time in another directory, to compare the output.
pub fn run(case: &Case, twice: bool) -> Verdict {
    let (verdict, output) = run_once(case);
    if !twice || !matches!(verdict, Verdict::Made) {
        return verdict;
    }
    match run_once(case) {
        (Verdict::Made, again) if again == output => Verdict::Made,
        (Verdict::Made, _) => Verdict::Broken(Fault::new("the same inputs give other bits".into())),
        (other, _) => other,
    }
}

/// The outcome and the output of one run.
fn run_once(case: &Case) -> (Verdict, String) {
    let directory = tempfile::tempdir().expect("a directory for temporary files");
    case.write(directory.path());
    let (status, output, errors) = execute(case, directory.path());
    let error = errors.lines().rev().find(|line| line.starts_with("error: ")).unwrap_or_default();
    let panicked =
        errors.lines().skip_while(|line| !line.contains("panicked")).take(2).collect::<Vec<_>>().join(" ");
    let broken = |text: String| Verdict::Broken(Fault::new(text));
    let verdict = match status {
        None if gets_on(&errors) => Verdict::GoesOn,
        None => broken(format!("no end after {} s of CPU time", PATIENCE.as_secs())),
        Some(_) if !panicked.is_empty() => broken(panicked),
        Some(status) => match status.code() {
            Some(0) => match wrong_metric(&output) {
                Some(fault) => broken(fault),
                None => Verdict::Made,
            },
            Some(2) if error.len() > "error: ".len() => Verdict::Refused,
            code => broken(format!("{error} (exit code {code:?}, {status})")),
        },
    };
    (verdict, output)
}

/// Whether virtual time advanced between the last two progress lines.
fn gets_on(errors: &str) -> bool {
    let mut times =
        errors.lines().rev().filter_map(|line| line.split_once("virtual time ")?.1.split(' ').next());
    matches!((times.next(), times.next()), (Some(last), Some(before)) if last != before)
}

#[test]
fn who_gets_on_is_not_stuck() {
    let line = |time: &str, real: u32| {
        format!("0/1 runs  case, pcp-base, seed 1  virtual time {time} s, real {real} s\n")
    };
    let two = |a: &str, b: &str| [line(a, 10), line(b, 20)].concat();
    assert!(gets_on(&two("1.0", "1.1")));
    assert!(!gets_on(&two("0.0", "0.0")));
    assert!(!gets_on(&line("1.0", 10)) && !gets_on(""));
}

/// What is wrong with the metrics of a document of runs: a value out of the bounds that are declared for it, or of a metric that no run
/// has.
fn wrong_metric(document: &str) -> Option<String> {
    let Ok(document) = serde_json::from_str::<Value>(document) else {
        return Some("what it prints is no JSON".into());
    };
    let metrics = &document["runs"][0]["metrics"];
    let Some(metrics) = metrics.as_object() else { return Some("no run has metrics".into()) };
    metrics.iter().find_map(|(name, value)| {
        let Some(metric) = Metric::find(name) else { return Some(format!("{name} is no metric")) };
        match (value.as_f64(), metric.why_not_measured()) {
            (_, Some(why)) => Some(format!("{name}: {why}")),
            (Some(value), None) if metric.takes(value) => None,
            _ => Some(format!("{name} = {value}, which is {}", metric.bounds())),
        }
    })
}

#[test]
fn metrics_out_of_bounds_are_faults() {
    let fault = |metrics: &str| wrong_metric(&format!(r#"{{"runs": [{{"metrics": {{{metrics}}}}}]}}"#));
    assert_eq!(fault(r#""lock": 99.5, "build_time": 3"#), None);
    assert_eq!(fault(r#""lock": 100.5"#).unwrap(), "lock = 100.5, which is 0 to 100");
    assert_eq!(fault(r#""lock": null"#).unwrap(), "lock = null, which is 0 to 100");
    assert_eq!(fault(r#""mem_shared": 1"#).unwrap(), "mem_shared: only published tables have it");
    assert_eq!(fault(r#""speed": 1"#).unwrap(), "speed is no metric");
    assert!(wrong_metric("{}").is_some() && wrong_metric("").is_some());
}

/// CPU time of a running process: fields 14 and 15 of /proc/PID/stat, counted after the name, which may
/// contain spaces.
fn cpu_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

/// The exit status (`None` if the command was killed at a limit), stdout and stderr.
fn execute(case: &Case, directory: &Path) -> (Option<ExitStatus>, String, String) {
    let (output, errors) = (directory.join("stdout"), directory.join("stderr"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_mmtwin"))
        .args(case.arguments())
        .current_dir(directory)
        .stdout(File::create(&output).expect("a file for stdout"))
        .stderr(File::create(&errors).expect("a file for stderr"))
        .spawn()
        .expect("mmtwin starts");
    let began = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break Some(status),
            None if cpu_time(child.id()) > PATIENCE || began.elapsed() > PATIENCE_IDLE => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    (status, read(&output), read(&errors))
}
