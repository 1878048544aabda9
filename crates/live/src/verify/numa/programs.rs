//! The programs that run on several nodes, here as in the twin, from one description.
//!
//! ```text
//!   a name, or a file with the keys of [workload.programs.program] ─► Chosen
//!   workload::threads ── operations ──┬─► process: real threads, in an emulated machine
//!                                     └─► sim::host: the twin's
//! ```
//!
//! Each runs for ten seconds on two nodes of two CPUs, or as long as was asked for, and half as long where every decision is
//! recorded. Scan delays and periods are a tenth of the defaults and less, so that seconds show what takes minutes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lab::scenario::{ScenarioError, parse_program, wrong_value};
use machine::WrongValue;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use sim::Misfit;
use sim::Workload;
use sim::host::{HostProgram, ProcessLayout};
use workload::threads::autonuma::{FirstPass, Numa01, Numa02, PinMove};
use workload::threads::{Layout, Program, ProgramSpec, Threads};

use super::twin;
use crate::qemu::GivenFile;

/// How long each runs if nothing else is asked for.
pub const SECONDS: u64 = 10;
/// How long one can be asked to run: counters are shown every two seconds, and a guest is given up after fifteen minutes.
pub const SECONDS_TO_CHOOSE: RangeInclusive<u64> = 2..=60;
/// The CPUs of the emulated machine.
const CPUS: usize = 4;
/// Most memory that all processes together may use in the emulated machine, which has twice as much.
const MOST_MIB: u64 = 512;
/// Most threads of all processes together, sixteen for each CPU.
const MOST_THREADS: u64 = 64;
/// Most areas that a process can have, see [`super::process::area_start`].
const MOST_AREAS: usize = 16;
const PAGES_OF_MIB: u64 = 256;
/// How names of files end that describe a program.
const EXTENSION: &str = "toml";
/// Memory of each process.
pub const MIB: u64 = 64;
/// How long a thread stays where its memory is not to be, before it may run anywhere.
const STAY_MILLISECONDS: u64 = 200;
const ENDLESS: u64 = u64::MAX;

/// All of them: both processes use all of their memory with every thread; each thread has a mapping of its own, which lies on
/// the other node first; slices of memory that the first thread touched; a thread that is moved to the other node and back.
pub const PROGRAMS: [&str; 4] = ["numa01", "numa01tl", "numa02", "pinmove"];

/// The pages that a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    Base,
    /// Huge ones where they fit.
    Huge,
}

/// Settings that differ from the kernel's, as scenarios have them.
pub fn settings(pages: Pages) -> BTreeMap<String, String> {
    let thp = match pages {
        Pages::Base => "never",
        Pages::Huge => "always",
    };
    let settings = [
        ("numa_balancing/scan_delay_ms", "100"),
        ("numa_balancing/scan_period_min_ms", "100"),
        ("numa_balancing/scan_period_max_ms", "1000"),
        ("numa_balancing/scan_size_mb", "16"),
        ("transparent_hugepage/enabled", thp),
    ];
    settings.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Why there is no such program, or why it cannot run in emulation.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error("{0}: there is no such program; there are {known}, or give the path of a .toml file with the keys of [workload.programs.program]",
        known = PROGRAMS.join(", "))]
    Unknown(String),
    #[error("{}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The emulated kernel is told the name in its command line.
    #[error("{}: the name of the file, without .{EXTENSION}, has to be letters, digits, `-` and `_`", .0.display())]
    Name(PathBuf),
    /// A key or value is wrong, or is not for emulation.
    #[error(transparent)]
    Wrong(#[from] ScenarioError),
    #[error("{0} seconds: it takes {least} to {most}", least = SECONDS_TO_CHOOSE.start(), most = SECONDS_TO_CHOOSE.end())]
    Seconds(u64),
}

/// The programs that emulated kernels run, and for how long.
#[derive(Clone, Debug)]
pub struct Selection {
    pub(super) programs: Vec<Chosen>,
    pub(super) seconds: u64,
}

impl Default for Selection {
    /// All programs that have a name.
    fn default() -> Selection {
        Selection { programs: PROGRAMS.into_iter().map(Chosen::named).collect(), seconds: SECONDS }
    }
}

impl Selection {
    /// The program with a name or in a file, or all that have a name; for ten seconds, or as many as given.
    pub fn new(program: Option<&str>, seconds: Option<u64>) -> Result<Selection, ChoiceError> {
        let seconds = seconds.unwrap_or(SECONDS);
        if !SECONDS_TO_CHOOSE.contains(&seconds) {
            return Err(ChoiceError::Seconds(seconds));
        }
        let all = Selection { seconds, ..Selection::default() };
        match program {
            Some(word) => Ok(Selection { programs: vec![Chosen::find(word, seconds)?], ..all }),
            None => Ok(all),
        }
    }
}

/// A program to run.
#[derive(Clone, Debug)]
pub struct Chosen {
    name: String,
    /// Its file and what it describes, if it has no name of ours.
    file: Option<(String, ProgramSpec)>,
}

impl Chosen {
    fn named(name: &str) -> Chosen {
        Chosen { name: name.into(), file: None }
    }

    /// The program of this name, or in this file; it will run for some seconds.
    pub fn find(word: &str, seconds: u64) -> Result<Chosen, ChoiceError> {
        let path = Path::new(word);
        if PROGRAMS.contains(&word) {
            return Ok(Chosen::named(word));
        } else if path.extension().is_none_or(|extension| extension != EXTENSION) {
            return Err(ChoiceError::Unknown(word.into()));
        }
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(ChoiceError::Name(path.into()));
        }
        let text = fs::read_to_string(path)
            .map_err(|source| ChoiceError::Unreadable { path: path.into(), source })?;
        let spec = parse_program(word, &text)?;
        check(&spec, seconds).map_err(|wrong| wrong_value(word, &text, wrong))?;
        Ok(Chosen { name: name.into(), file: Some((text, spec)) })
    }

    /// Its own name, or that of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What finds it in the guest.
    pub fn word(&self) -> String {
        if self.file.is_some() { format!("/{}.{EXTENSION}", self.name) } else { self.name.clone() }
    }

    /// The file that has to be there.
    pub(super) fn given(&self) -> Option<GivenFile> {
        let (text, _) = self.file.as_ref()?;
        Some(GivenFile { path: self.word().into(), content: text.clone() })
    }

    /// What tells its recordings from those of others, for so many seconds.
    pub(super) fn key(&self, seconds: u64) -> String {
        let length = if seconds == SECONDS { String::new() } else { format!("-{seconds}s") };
        let content = self.file.as_ref().map(|(text, _)| {
            let hash = Sha256::digest(text.as_bytes());
            hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        let content = content.map_or(String::new(), |hash| format!("-{hash}"));
        format!("{}{content}{length}", self.name)
    }

    /// The program, to run for some seconds.
    pub fn spec(&self, seconds: u64) -> ProgramSpec {
        match &self.file {
            Some((_, spec)) => spec.clone(),
            None => program(&self.name, seconds).expect("it has a name of ours"),
        }
    }

    /// Its processes and threads on a machine with `cpus` CPUs.
    pub(super) fn layout(&self, cpus: usize, seconds: u64) -> io::Result<Layout> {
        Ok(start(&self.spec(seconds), cpus)?.layout().clone())
    }

    /// MiB of its largest process.
    pub(super) fn process_mib(&self, cpus: usize, seconds: u64) -> io::Result<u64> {
        let layout = self.layout(cpus, seconds)?;
        let pages = layout.processes.iter().map(|process| process.areas.iter().sum());
        Ok(pages.max().unwrap_or(0_u64).div_ceil(PAGES_OF_MIB))
    }
}

/// Starts a program on a machine with `cpus` CPUs.
pub fn start(spec: &ProgramSpec, cpus: usize) -> io::Result<Program> {
    spec.start(cpus, Pcg64Mcg::seed_from_u64).map_err(|error| io::Error::other(error.to_string()))
}

/// What of a program cannot run in emulation, or cannot be compared.
fn check(spec: &ProgramSpec, seconds: u64) -> Result<(), WrongValue> {
    let kind = |kind: &str| {
        let expected =
            "numa01, numa02, pin-move, sharing or hot-set; others start processes or read recordings";
        Err(WrongValue::new("kind", kind, expected))
    };
    match spec {
        ProgramSpec::Kernbench(_) => return kind("kernbench"),
        ProgramSpec::Samples(_) => return kind("samples"),
        ProgramSpec::Numa01(spec) if spec.same_node => {
            let expected = "false; decisions about memory that is bound to a node are not compared";
            return Err(WrongValue::new("same_node", true, expected));
        }
        _ => {}
    }
    let (mib, keys) = spec.memory_mib();
    if mib > MOST_MIB {
        let expected = format!("at most {MOST_MIB} MiB in all, half of what the emulated machine has");
        return Err(WrongValue::new(keys, format!("{mib} MiB"), expected));
    }
    let (number, keys) = spec.threads(CPUS);
    if number > MOST_THREADS {
        let expected = format!("at most {MOST_THREADS} threads in all");
        return Err(WrongValue::new(keys, format!("{number} threads"), expected));
    }
    twin::check(host(spec.clone(), seconds)).map_err(|misfit| match misfit {
        Misfit::OutOfRange(wrong) => {
            // The file has the keys of that table alone.
            let key = wrong
                .key
                .trim_start_matches("workload.programs[0].program")
                .trim_start_matches(['.', ':', ' ']);
            WrongValue { key: key.into(), ..wrong }
        }
        Misfit::NoNuma { .. } => unreachable!("the emulated machine has nodes"),
    })?;
    let layout = start(spec, CPUS).map_err(|error| WrongValue::new("program", error, "one that starts"))?;
    let areas = layout.layout().processes.iter().map(|process| process.areas.len()).max().unwrap_or(0);
    if areas > MOST_AREAS {
        let expected = format!("at most {MOST_AREAS} areas a process");
        return Err(WrongValue::new(keys, format!("{areas} areas"), expected));
    }
    Ok(())
}

/// The program named `name`, for so many seconds.
pub fn program(name: &str, seconds: u64) -> Option<ProgramSpec> {
    let first_pass = |shift| Some(FirstPass { shift, stay_milliseconds: STAY_MILLISECONDS, one_cpu: true });
    let two_processes = Numa02 {
        threads: Threads::Number(2),
        mib: MIB,
        loops: ENDLESS,
        processes: 2,
        own_areas: true,
        main_touches_first: false,
        mapped_after_milliseconds: 0,
        first_pass: first_pass(1),
    };
    Some(match name {
        "numa01" | "numa01n4" => ProgramSpec::Numa01(Numa01 {
            processes: if name == "numa01" { 2 } else { 4 },
            threads: Threads::Number(2),
            mib: MIB,
            loops: ENDLESS,
            thread_local: false,
            same_node: false,
            first_pass: first_pass(0),
        }),
        "numa01tl" => ProgramSpec::Numa02(two_processes),
        "numa02" => ProgramSpec::Numa02(Numa02 {
            threads: Threads::Number(4),
            processes: 1,
            own_areas: false,
            main_touches_first: true,
            first_pass: None,
            ..two_processes
        }),
        "pinmove" => ProgramSpec::PinMove(PinMove { mib: MIB, milliseconds: seconds * 1000 }),
        _ => return None,
    })
}

/// A program as a scenario's workload, for some seconds.
pub fn host(program: ProgramSpec, seconds: u64) -> Workload {
    Workload {
        milliseconds: seconds * 1000,
        programs: vec![HostProgram {
            layout: Some(ProcessLayout::FixedAreas),
            begins_on: Some(0),
            ..HostProgram::new("program", program.into())
        }],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Result<Chosen, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        let found = Chosen::find(path.to_str().unwrap(), SECONDS);
        found.map_err(|error| error.to_string().replace(&format!("{}/", directory.path().display()), ""))
    }

    #[test]
    fn a_file_is_found_here_as_in_the_guest() {
        let text = "kind = \"numa02\"\nthreads = 3\nmib = 12\nloops = 5\n";
        let here = found("mine.toml", text).unwrap();
        assert_eq!((here.name(), &here.word()[..]), ("mine", "/mine.toml"));
        assert_eq!(here.given(), Some(GivenFile { path: "/mine.toml".into(), content: text.into() }));
        assert_eq!(
            (here.process_mib(4, SECONDS).unwrap(), here.layout(4, SECONDS).unwrap().threads.len()),
            (12, 3)
        );
        let other = found("mine.toml", &text.replace("12", "13")).unwrap();
        assert_ne!(here.key(SECONDS), other.key(SECONDS));
        assert_ne!(here.key(SECONDS), here.key(SECONDS + 1));
        let named = Chosen::find("numa02", SECONDS).unwrap();
        assert_eq!(
            (named.word(), named.key(SECONDS), named.given()),
            ("numa02".into(), "numa02".into(), None)
        );
        assert_eq!((named.key(4), named.process_mib(4, 4).unwrap()), ("numa02-4s".into(), MIB));
    }

    #[test]
    fn the_example_of_the_reference_runs() {
        let page = include_str!("../../../../../docs/src/reference/verify-numa.md");
        let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let example = found("mine.toml", example).unwrap();
        assert!(example.layout(4, SECONDS).unwrap().processes[0].touched);
    }

    #[test]
    fn what_emulation_cannot_run_is_refused() {
        let numa01 = "kind = \"numa01\"\nprocesses = 2\nthreads = 2\nmib = 64\nloops = 9\n";
        for (name, text, expected) in [
            ("m y.toml", numa01, "m y.toml: the name of the file, without .toml, has to be letters"),
            (
                "a.toml",
                "kind = \"numa01\"\nprocesses = 0\n",
                "a.toml: line 2: processes = 0: it takes a whole number from 1",
            ),
            ("a.toml", "kind = \"numa03\"\n", "a.toml: line 1: "),
            ("a.toml", "kind = ", "a.toml: line 1: "),
            ("a.toml", &format!("{numa01}loop = 3\n"), "a.toml: line 6: loop: no such key"),
            (
                "a.toml",
                &numa01.replace("64", "300"),
                "a.toml: processes x mib = 600 MiB: it takes at most 512 MiB",
            ),
            (
                "a.toml",
                &format!("{numa01}same_node = true\n"),
                "a.toml: line 6: same_node = true: it takes false;",
            ),
            ("a.toml", "kind = \"kernbench\"\n", "a.toml: the key jobs is missing"),
            (
                "a.toml",
                "kind = \"numa02\"\nthreads = 65\nmib = 64\nloops = 9\n",
                "a.toml: processes x threads = 65 threads: it takes at most 64 threads",
            ),
            (
                "a.toml",
                "kind = \"numa02\"\nthreads = 17\nmib = 64\nloops = 9\nown_areas = true\n",
                "a.toml: processes x threads = 17 areas: it takes at most 16 areas",
            ),
        ] {
            let error = found(name, text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let unknown = Chosen::find("numa03", SECONDS).unwrap_err().to_string();
        assert!(unknown.starts_with(
            "numa03: there is no such program; there are numa01, numa01tl, numa02, pinmove, or"
        ));
        let absent = Chosen::find("/none/a.toml", SECONDS).unwrap_err().to_string();
        assert!(absent.starts_with("/none/a.toml: No such file"), "{absent}");
        assert!(Selection::new(None, Some(61)).is_err() && Selection::new(Some("numa01"), Some(60)).is_ok());
    }

    #[test]
    fn every_named_program_runs_in_emulation() {
        for chosen in Selection::default().programs {
            let layout = chosen.layout(CPUS, SECONDS).unwrap();
            let areas = layout.processes.iter().map(|process| process.areas.len());
            assert!(areas.max().unwrap() <= MOST_AREAS, "{}", chosen.name());
            assert!(chosen.spec(SECONDS).memory_mib().0 <= MOST_MIB, "{}", chosen.name());
        }
    }
}
