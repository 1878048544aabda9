//! Runs the cases on the running kernel.
//!
//! ```text
//!   this process                                     the observed process (memory.rs)
//!   write transparent_hugepage/hugepages-*/enabled
//!   read hugepages-*/stats
//!   "touch pages 0, 1, 2 ..."  --------------------->  stores
//!                              <---------------------  3 faults
//!   read hugepages-*/stats
//!   "show the layout"          --------------------->  pagemap, kpageflags
//! ```
//!
//! The counters are those of the whole machine: other processes change them if a size is set to `always`. A run was
//! disturbed if the kernel counted other folios than `pagemap` shows. A case is repeated until [`AGREEING`] undisturbed runs
//! agree in everything that is compared, including counters; if that does not happen in [`MOST_RUNS`] runs, the case counts
//! as disturbed, and its counters are not compared. khugepaged is kept from collapsing VMAs with unmapped pages
//! (`max_ptes_none`). All files are guarded.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::case::{BESIDE_FULL, Case, Configuration, SIZES, enabled_file};
use super::memory::{self, Answer, Order};
use super::outcome::{Folios, Outcome, Statistics};
use super::recording::RecordedCase;
use super::script::{Memory, Process, run};
use mm::huge_memory::stats::MthpStat;

use crate::record::interruption::Interruption;
use crate::rollback::{Guard, Setting, sysctl};
use crate::verify::VerifyError;
use crate::verify::failed;

const ROOT: &str = "/sys/kernel/mm/transparent_hugepage";

/// How many empty PTEs khugepaged accepts in a huge page that it collapses.
const MAX_PTES_NONE: &str = "khugepaged/max_ptes_none";

/// Changed by `set_recommended_min_free_kbytes` (mm/khugepaged.c) when khugepaged is started or stopped.
const MIN_FREE_KBYTES: &str = "vm.min_free_kbytes";

/// Number of undisturbed runs that have to agree.
const AGREEING: usize = 3;

/// Maximum number of runs of a case.
const MOST_RUNS: usize = 25;

/// How often a case is started again because the kernel does not report what a frame is.
const MOST_UNKNOWN: usize = 60;

/// Files of mainline kernels that do not belong to a size.
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

/// Why no case can run here, or cannot be observed.
pub fn obstacle() -> Option<String> {
    if !file(&enabled_file(64)).exists() {
        return Some(format!(
            "{ROOT} has no hugepages-64kB: Linux 6.8 with CONFIG_TRANSPARENT_HUGEPAGE is needed"
        ));
    }
    let unreadable = |path: &str| fs::File::open(path).err().map(|error| format!("{path}: {error}"));
    unreadable("/proc/kpageflags").or_else(|| {
        let path = file("enabled");
        let opened = fs::OpenOptions::new().write(true).open(&path);
        opened.err().map(|error| format!("{}: {error}", path.display()))
    })
}

/// Whether the kernel has the file `anon_beside_full`, with which it can decline large folios that are not
/// next to full windows.
pub fn has_beside_full() -> bool {
    file(BESIDE_FULL).exists()
}

/// Files that neither mainline kernels nor the twin have, with their values: their effect is not known.
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

/// Runs all `cases` in all `configurations`. `program` is the command line for [`super::memory::run`].
pub fn outcomes(
    program: &[String],
    configurations: &[Configuration],
    cases: &[Case],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<RecordedCase>, VerifyError> {
    let interruption = Interruption::watch().map_err(|source| failed("signals", source))?;
    let mut kernel = RunningKernel::start(program)?;
    let mut outcomes = Vec::new();
    for (number, configuration) in configurations.iter().enumerate() {
        progress(&format!("{} cases with sizes {}", cases.len(), configuration.name));
        for case in cases {
            let mut runs = Vec::new();
            let outcome = loop {
                if interruption.asked() {
                    return Err(VerifyError::Interrupted);
                }
                let outcome = kernel.run(configuration, case)?;
                runs.push(Finished { outcome, disturbed: kernel.disturbed });
                let settled = settled(&runs);
                if settled.is_some() || runs.len() == MOST_RUNS {
                    break settled.cloned();
                }
            };
            let disturbed = outcome.is_none();
            let outcome = outcome.unwrap_or_else(|| most(&runs).clone());
            let disagreeing = runs.iter().filter(|run| !is_alike(&run.outcome, &outcome)).count() as u32;
            let (configuration, case) = (number, case.clone());
            outcomes.push(RecordedCase {
                configuration,
                case,
                outcome,
                own_faults: 0,
                disagreeing,
                disturbed,
            });
        }
    }
    Ok(outcomes)
}

/// The result of a run.
struct Finished {
    outcome: Outcome,
    disturbed: bool,
}

/// The outcome of a case, if enough undisturbed runs agree with the last one.
fn settled(runs: &[Finished]) -> Option<&Outcome> {
    let undisturbed = |run: &&Finished| !run.disturbed;
    let last = runs.last().filter(undisturbed)?;
    let alike = runs.iter().filter(undisturbed).filter(|run| run.outcome == last.outcome).count();
    (alike >= AGREEING).then_some(&last.outcome)
}

/// Whether two outcomes differ only in counters.
fn is_alike(one: &Outcome, other: &Outcome) -> bool {
    let (statistics, second_statistics) = (one.statistics.clone(), one.second_statistics.clone());
    *one == Outcome { statistics, second_statistics, ..other.clone() }
}

/// The most frequent outcome, ignoring counters.
fn most(runs: &[Finished]) -> &Outcome {
    let times = |one: &&Finished| runs.iter().filter(|other| is_alike(&other.outcome, &one.outcome)).count();
    &runs.iter().max_by_key(times).expect("a case has run").outcome
}

/// Number of large folios by order.
type ByOrder = BTreeMap<u8, i64>;

/// The kernel's counters at some time, and the folios that were observed.
struct Seen {
    counters: Statistics,
    /// Folios that the processes had created until then.
    made: ByOrder,
    /// Folios that the processes mapped.
    folios: ByOrder,
}

/// Whether other processes changed counters between two times: the kernel counted more or fewer folios than
/// these processes created, or than they map. A kernel may lack these counters.
fn is_disturbed(before: &Seen, after: &Seen) -> bool {
    let differs = |kib: u64, name: &str, seen: fn(&Seen) -> &ByOrder| {
        let key = (kib, name.to_string());
        let Some((first, last)) = before.counters.get(&key).zip(after.counters.get(&key)) else {
            return false;
        };
        let of = |at: &Seen| seen(at).get(&((kib / 4).ilog2() as u8)).copied().unwrap_or(0);
        last - first != of(after) - of(before)
    };
    let (made, there) = (MthpStat::AnonFaultAlloc.name(), MthpStat::NrAnon.name());
    SIZES.iter().any(|&kib| differs(kib, made, |at| &at.made) || differs(kib, there, |at| &at.folios))
}

struct RunningKernel {
    _guard: Guard,
    /// Settings by file name.
    settings: BTreeMap<String, Setting>,
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The last value written to each file.
    written: BTreeMap<String, String>,
    keep: bool,
    has_child: bool,
    /// Folios created in this run.
    made: ByOrder,
    /// The state when counters were last read in this run.
    seen: Option<Seen>,
    /// Whether other processes changed counters in this run.
    disturbed: bool,
}

impl Drop for RunningKernel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RunningKernel {
    fn start(program: &[String]) -> Result<RunningKernel, VerifyError> {
        let guard = Guard::take()?;
        // Noted first, so that it is restored last: the kernel recomputes it whenever a size is enabled or
        // disabled.
        guard.setting(sysctl(MIN_FREE_KBYTES))?;
        let max_ptes_none = guard.setting(file(MAX_PTES_NONE))?;
        let mut settings = BTreeMap::new();
        let beside_full = has_beside_full().then(|| BESIDE_FULL.to_string());
        let sizes = SIZES.iter().map(|&kib| enabled_file(kib));
        for name in beside_full.into_iter().chain(sizes).chain(["enabled".to_string()]) {
            let setting = guard.setting(file(&name))?;
            settings.insert(name, setting);
        }
        max_ptes_none.set("0").map_err(|source| failed(MAX_PTES_NONE, source))?;
        // This process's own large folios would be counted too.
        memory::disallow_large_folios().map_err(|source| failed("PR_SET_THP_DISABLE", source))?;
        let mut command = memory::command(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|source| failed(&program[0], source))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (orders, answers) = pipes.expect("both were asked for");
        let answers = BufReader::new(answers);
        Ok(RunningKernel {
            _guard: guard,
            settings,
            process,
            orders,
            answers,
            written: BTreeMap::new(),
            keep: false,
            has_child: false,
            made: ByOrder::new(),
            seen: None,
            disturbed: false,
        })
    }

    fn run(&mut self, configuration: &Configuration, case: &Case) -> Result<Outcome, VerifyError> {
        for _ in 0..MOST_UNKNOWN {
            (self.made, self.seen, self.disturbed) = (ByOrder::new(), None, false);
            let outcome = run(self, configuration, case)?;
            let layouts = [&outcome.layout, &outcome.first_layout, &outcome.second_layout];
            // These frames stay allocated, so that the next run gets others.
            self.keep = layouts.iter().any(|layout| layout.contains('?'));
            if !self.keep {
                return Ok(outcome);
            }
        }
        self.keep = false;
        let problem = format!("{}: the kernel does not report what its frames are", case.name);
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
        if let Some(problem) = answer.problem {
            return Err(failure(io::Error::other(problem)));
        }
        for (&order, number) in &answer.made {
            *self.made.entry(order).or_default() += number;
        }
        Ok(answer)
    }

    /// The large folios that the processes map.
    fn folios(&mut self) -> Result<ByOrder, VerifyError> {
        let mut folios: Folios = self.ask(Process::Parent, Order::Layout)?.folios;
        if self.has_child {
            folios.append(&mut self.ask(Process::Child, Order::Layout)?.folios);
        }
        let mut by_order = ByOrder::new();
        folios.values().for_each(|&order| *by_order.entry(order).or_default() += 1);
        Ok(by_order)
    }
}

impl Memory for RunningKernel {
    type Error = VerifyError;

    fn configure(&mut self, configuration: &Configuration) -> Result<(), VerifyError> {
        for (name, value) in configuration.files() {
            if self.written.get(&name).is_some_and(|written| written == value) {
                continue;
            }
            // Not all kernels have all files.
            let Some(setting) = self.settings.get(&name) else { continue };
            setting.set(value).map_err(|source| failed(setting.path().display().to_string(), source))?;
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
        self.ask(Process::Parent, Order::Fork)?;
        self.has_child = true;
        Ok(())
    }

    fn exit(&mut self) -> Result<(), VerifyError> {
        self.ask(Process::Parent, Order::Exit)?;
        self.has_child = false;
        Ok(())
    }

    fn layout(&mut self, process: Process) -> Result<String, VerifyError> {
        Ok(self.ask(process, Order::Layout)?.layout)
    }

    fn smaps(&mut self) -> Result<(u64, bool), VerifyError> {
        let answer = self.ask(Process::Parent, Order::Smaps)?;
        Ok((answer.rss_kib, answer.eligible))
    }

    fn statistics(&mut self) -> Result<Statistics, VerifyError> {
        let mut counters = Statistics::new();
        for kib in SIZES {
            for name in MthpStat::ALL.iter().map(|stat| stat.name()) {
                let path = file(&format!("hugepages-{kib}kB/stats/{name}"));
                // Newer kernels have more counters.
                let Ok(text) = fs::read_to_string(&path) else { continue };
                let value = text
                    .trim()
                    .parse()
                    .map_err(|error| failed(path.display().to_string(), io::Error::other(error)))?;
                counters.insert((kib, name.to_string()), value);
            }
        }
        let now = Seen { counters: counters.clone(), made: self.made.clone(), folios: self.folios()? };
        self.disturbed |= self.seen.as_ref().is_some_and(|before| is_disturbed(before, &now));
        self.seen = Some(now);
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::folios::outcome::parse_statistics;

    #[test]
    fn what_others_do_shows() {
        let at = |counters: &str, made: &[(u8, i64)], folios: &[(u8, i64)]| Seen {
            counters: parse_statistics(counters).unwrap(),
            made: made.iter().copied().collect(),
            folios: folios.iter().copied().collect(),
        };
        let before = at("64k.anon_fault_alloc=70;64k.nr_anon=9;16k.nr_anon=3", &[], &[(4, 1)]);
        let after = |counters: &str| at(counters, &[(4, 2)], &[(4, 2)]);
        let alone = "64k.anon_fault_alloc=72;64k.nr_anon=10;16k.nr_anon=3;64k.split=5";
        assert!(!is_disturbed(&before, &after(alone)));
        for others in [
            "64k.anon_fault_alloc=73;64k.nr_anon=10;16k.nr_anon=3",
            "64k.anon_fault_alloc=72;64k.nr_anon=9;16k.nr_anon=3",
            "64k.anon_fault_alloc=72;64k.nr_anon=10;16k.nr_anon=2",
        ] {
            assert!(is_disturbed(&before, &after(others)), "{others}");
        }
        // A kernel without the counter `nr_anon`.
        let before = at("64k.anon_fault_alloc=70", &[], &[(4, 1)]);
        assert!(!is_disturbed(&before, &after("64k.anon_fault_alloc=72")));
    }

    #[test]
    fn a_case_is_settled_by_runs_that_agree() {
        let run = |faults, counters: &str, disturbed| {
            let statistics = parse_statistics(counters).unwrap();
            Finished { outcome: Outcome { faults, statistics, ..Outcome::default() }, disturbed }
        };
        let mut runs = vec![run(1, "64k.split=1", false), run(1, "64k.split=4", false)];
        runs.extend([run(1, "64k.split=1", false), run(1, "64k.split=1", true)]);
        assert_eq!(settled(&runs), None);
        runs.push(run(1, "64k.split=1", false));
        assert_eq!(settled(&runs), Some(&runs[0].outcome));
        runs.push(run(2, "", false));
        assert_eq!((settled(&runs), most(&runs).faults), (None, 1));
        assert_eq!(runs.iter().filter(|run| !is_alike(&run.outcome, most(&runs))).count(), 1);
    }
}
