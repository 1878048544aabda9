//! The cases on the kernel that runs here.
//!
//! ```text
//!   this process                                     the process whose memory is looked at (memory.rs)
//!   write transparent_hugepage/hugepages-*/enabled
//!   read hugepages-*/stats
//!   "touch pages 0, 1, 2 ..."  --------------------->  stores
//!                              <---------------------  3 faults
//!   read hugepages-*/stats
//!   "what maps them?"          --------------------->  pagemap, kpageflags
//! ```
//!
//! Counters are the machine's: other processes move them while a size is enabled everywhere. So every case runs several
//! times. What came of it is what came most often; of a counter that only grows it is the least that it grew by, as others
//! can only add. khugepaged may not fill in what is not there (`max_ptes_none`). All files are under guard.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::case::{BESIDE_FULL, Case, Configuration, SIZES, enabled_file};
use super::memory::{Answer, Order};
use super::outcome::{Outcome, Statistics};
use super::script::{Memory, Process, run};
use mm::huge_memory::stats::MthpStat;

use crate::record::interruption::Interruption;
use crate::verify::VerifyError;
use crate::verify::guard::SettingsGuard;
use crate::verify::running_kernel::failed;

const ROOT: &str = "/sys/kernel/mm/transparent_hugepage";

/// How many entries khugepaged may find empty.
const MAX_PTES_NONE: &str = "khugepaged/max_ptes_none";

/// Runs of a case.
const RUNS: usize = 7;

/// How often a case is begun again because the kernel has not said what a frame is.
const MOST_UNKNOWN: usize = 60;

/// Files of mainline kernels that are not a size's.
const KNOWN_FILES: [&str; 8] = [
    BESIDE_FULL,
    "defrag",
    "enabled",
    "hpage_pmd_size",
    "khugepaged",
    "shmem_enabled",
    "shrink_underused",
    "use_zero_page",
];

fn file(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// Why no case can run here, or what comes of it not be seen.
pub fn obstacle() -> Option<String> {
    if !file(&enabled_file(64)).exists() {
        return Some(format!(
            "{ROOT} has no hugepages-64kB: it takes Linux 6.8 with CONFIG_TRANSPARENT_HUGEPAGE"
        ));
    }
    let unreadable = |path: &str| fs::File::open(path).err().map(|error| format!("{path}: {error}"));
    unreadable("/proc/kpageflags").or_else(|| {
        let path = file("enabled");
        let opened = fs::OpenOptions::new().write(true).open(&path);
        opened.err().map(|error| format!("{}: {error}", path.display()))
    })
}

/// Whether the kernel can decline large folios that are not beside full windows.
pub fn has_beside_full() -> bool {
    file(BESIDE_FULL).exists()
}

/// Files that neither mainline kernels have nor the twin, with what they hold: nobody here knows what they do.
pub fn foreign_files() -> Vec<String> {
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with("hugepages-") && !KNOWN_FILES.contains(&name.as_str()));
    names.sort();
    let with_value = |name: &String| {
        let value = fs::read_to_string(file(name)).unwrap_or_default();
        format!("{name} = {}", value.trim())
    };
    names.iter().map(with_value).collect()
}

/// The outcomes of all `cases` under all `configurations`. `program`: this program, and the words that lead it to
/// [`super::memory::run`].
pub fn outcomes(
    program: &[String],
    configurations: &[Configuration],
    cases: &[Case],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<(usize, Case, Outcome, u32)>, VerifyError> {
    let interruption = Interruption::watch().map_err(|source| failed("signals", source))?;
    let mut kernel = RunningKernel::start(program)?;
    let mut outcomes = Vec::new();
    for (number, configuration) in configurations.iter().enumerate() {
        progress(&format!("{} cases with sizes {}", cases.len(), configuration.name));
        for case in cases {
            let mut runs = Vec::new();
            for _ in 0..RUNS {
                if interruption.asked() {
                    return Err(VerifyError::Interrupted);
                }
                runs.push(kernel.run(configuration, case)?);
            }
            let (outcome, disagreeing) = typical(runs);
            outcomes.push((number, case.clone(), outcome, disagreeing));
        }
    }
    Ok(outcomes)
}

/// What runs of one case came to, and how many had other faults or layouts than most.
fn typical(runs: Vec<Outcome>) -> (Outcome, u32) {
    let seen = |outcome: &Outcome| {
        let bare = Outcome {
            statistics: Statistics::new(),
            second_statistics: Statistics::new(),
            ..outcome.clone()
        };
        format!("{bare:?}")
    };
    let times = |one: &Outcome| runs.iter().filter(|other| seen(other) == seen(one)).count();
    let typical = runs.iter().max_by_key(|one| times(one)).cloned().unwrap_or_default();
    let alike: Vec<&Outcome> = runs.iter().filter(|one| seen(one) == seen(&typical)).collect();
    let first = counters(&alike.iter().map(|one| &one.statistics).collect::<Vec<_>>());
    let second = counters(&alike.iter().map(|one| &one.second_statistics).collect::<Vec<_>>());
    let disagreeing = (runs.len() - alike.len()) as u32;
    (Outcome { statistics: first, second_statistics: second, ..typical }, disagreeing)
}

/// Each counter by itself: the least change of one that only grows, else the change that came most often.
fn counters(runs: &[&Statistics]) -> Statistics {
    let keys: BTreeSet<&(u64, String)> = runs.iter().flat_map(|statistics| statistics.keys()).collect();
    let of = |key: &(u64, String)| {
        let changes: Vec<i64> = runs.iter().map(|run| run.get(key).copied().unwrap_or(0)).collect();
        let often = |change: &&i64| changes.iter().filter(|other| other == change).count();
        let chosen = match key.1.starts_with("nr_") {
            true => changes.iter().max_by_key(often).copied(),
            false => changes.iter().min().copied(),
        };
        chosen.filter(|change| *change != 0).map(|change| (key.clone(), change))
    };
    keys.into_iter().filter_map(of).collect()
}

struct RunningKernel {
    guard: SettingsGuard,
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// What each file was last written.
    written: BTreeMap<String, String>,
    keep: bool,
}

impl Drop for RunningKernel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RunningKernel {
    fn start(program: &[String]) -> Result<RunningKernel, VerifyError> {
        let mut files: Vec<PathBuf> = SIZES.iter().map(|&kib| file(&enabled_file(kib))).collect();
        if has_beside_full() {
            files.push(file(BESIDE_FULL));
        }
        files.push(file(MAX_PTES_NONE));
        let guard = SettingsGuard::take(file("enabled"), files).map_err(|source| failed(ROOT, source))?;
        guard.set(&file(MAX_PTES_NONE), "0").map_err(|source| failed(MAX_PTES_NONE, source))?;
        let (name, words) = program.split_first().expect("a program has a name");
        let mut command = Command::new(name);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|source| failed(name, source))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (orders, answers) = pipes.expect("both were asked for");
        let answers = BufReader::new(answers);
        Ok(RunningKernel { guard, process, orders, answers, written: BTreeMap::new(), keep: false })
    }

    fn run(&mut self, configuration: &Configuration, case: &Case) -> Result<Outcome, VerifyError> {
        for _ in 0..MOST_UNKNOWN {
            let outcome = run(self, configuration, case)?;
            let layouts = [&outcome.layout, &outcome.first_layout, &outcome.second_layout];
            // The frames stay in use, so that others come next.
            self.keep = layouts.iter().any(|layout| layout.contains('?'));
            if !self.keep {
                return Ok(outcome);
            }
        }
        self.keep = false;
        let problem = format!("{}: the kernel does not say what its frames are", case.name);
        Err(failed("/proc/kpageflags", io::Error::other(problem)))
    }

    fn ask(&mut self, process: Process, order: Order) -> Result<Answer, VerifyError> {
        let failure = |source| failed("the process that touches memory", source);
        let order = if process == Process::Child { Order::Child(Box::new(order)) } else { order };
        let ask = |orders: &mut ChildStdin, answers: &mut BufReader<ChildStdout>| -> io::Result<Answer> {
            writeln!(orders, "{}", serde_json::to_string(&order)?)?;
            let mut line = String::new();
            answers.read_line(&mut line)?;
            Ok(serde_json::from_str(&line)?)
        };
        let answer = ask(&mut self.orders, &mut self.answers).map_err(failure)?;
        match answer.problem {
            Some(problem) => Err(failure(io::Error::other(problem))),
            None => Ok(answer),
        }
    }
}

impl Memory for RunningKernel {
    type Error = VerifyError;

    fn configure(&mut self, configuration: &Configuration) -> Result<(), VerifyError> {
        for (name, value) in configuration.files() {
            if self.written.get(&name).is_some_and(|written| written == value) {
                continue;
            }
            let path = file(&name);
            if !path.exists() {
                continue;
            }
            self.guard.set(&path, value).map_err(|source| failed(path.display().to_string(), source))?;
            self.written.insert(name, value.to_string());
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), VerifyError> {
        if self.keep {
            return Ok(());
        }
        self.ask(Process::Parent, Order::Clear).map(drop)
    }

    fn map(&mut self, case: &Case, populate: bool) -> Result<u64, VerifyError> {
        let order = Order::Map { offset: case.offset, pages: case.pages, advice: case.advice };
        self.ask(Process::Parent, order)?;
        if !populate {
            return Ok(0);
        }
        Ok(self.ask(Process::Parent, Order::Populate)?.faults)
    }

    fn touch(&mut self, process: Process, pages: &[u64], write: bool) -> Result<u64, VerifyError> {
        Ok(self.ask(process, Order::Touch { pages: pages.to_vec(), write })?.faults)
    }

    fn lock(&mut self) -> Result<u64, VerifyError> {
        Ok(self.ask(Process::Parent, Order::Lock)?.faults)
    }

    fn drop_pages(&mut self, pages: Range<u64>) -> Result<(), VerifyError> {
        self.ask(Process::Parent, Order::Drop(pages)).map(drop)
    }

    fn split(&mut self, pages: u64) -> Result<(), VerifyError> {
        self.ask(Process::Parent, Order::Split(pages)).map(drop)
    }

    fn fork(&mut self) -> Result<(), VerifyError> {
        self.ask(Process::Parent, Order::Fork).map(drop)
    }

    fn exit(&mut self) -> Result<(), VerifyError> {
        self.ask(Process::Parent, Order::Exit).map(drop)
    }

    fn layout(&mut self, process: Process) -> Result<String, VerifyError> {
        Ok(self.ask(process, Order::Layout)?.layout)
    }

    fn smaps(&mut self) -> Result<(u64, bool), VerifyError> {
        let answer = self.ask(Process::Parent, Order::Smaps)?;
        Ok((answer.rss_kib, answer.eligible))
    }

    fn statistics(&mut self) -> Result<Statistics, VerifyError> {
        let mut statistics = Statistics::new();
        for kib in SIZES {
            for name in MthpStat::ALL.iter().map(|stat| stat.name()) {
                let path = file(&format!("hugepages-{kib}kB/stats/{name}"));
                // Kernels count more from release to release.
                let Ok(text) = fs::read_to_string(&path) else { continue };
                let value = text
                    .trim()
                    .parse()
                    .map_err(|error| failed(path.display().to_string(), io::Error::other(error)))?;
                statistics.insert((kib, name.to_string()), value);
            }
        }
        Ok(statistics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::thp::outcome::parse_statistics;

    #[test]
    fn others_only_add_to_counters() {
        let run = |text: &str| Outcome {
            faults: 1,
            statistics: parse_statistics(text).unwrap(),
            ..Outcome::default()
        };
        let runs = vec![
            run("64k.anon_fault_alloc=3;64k.nr_anon=2"),
            run("64k.anon_fault_alloc=1;64k.nr_anon=1"),
            run("16k.split=1;64k.anon_fault_alloc=2;64k.nr_anon=1"),
            Outcome { faults: 2, ..Outcome::default() },
        ];
        let (outcome, disagreeing) = typical(runs);
        assert_eq!((outcome, disagreeing), (run("64k.anon_fault_alloc=1;64k.nr_anon=1"), 1));
    }
}
