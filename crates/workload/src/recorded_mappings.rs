//! A program whose mappings and first touches were recorded, run again process by process.
//!
//! ```text
//!   recorded     0 map ─ 0 store ─ 0 fork 1 ─ 1 store ─ 1 exit ─ 0 fork 2 ─ 2 store ...     one order of all rows
//!
//!   process 0    map ─ store ─ fork 1 ···· wait for 1 ─ fork 2 ─ ...      each computes in between
//!   process 1                    └─ store ─ exit
//!   process 2                                             └─ store ...
//! ```
//!
//! Each process does its own rows in their order, as one thread. The program's CPU time is spread over the recording evenly: a process
//! computes for the part that lies between its row and the row before, whichever process did that, and sleeps until that part begins.
//! So a program takes as long as its CPU time, as on one CPU, and its processes keep the times that they have in the recording. Waiting
//! for input, which a recording has too, counts as computing; the sum is what was measured.
//!
//! Where memory is short a process takes longer and others do not wait for it, but a child begins when it is forked, and a parent does
//! not pass a row before the children have exited that had exited by then.
//!
//! Later touches of a page that is present were not recorded, so nothing misses what reclaim takes, unless it is the first store after
//! a fork.

use crate::demand::Thread;
use crate::keys::{Bounds, TIMES};
use crate::mappings::{self, Change, Mappings, RecordedProgram};
use crate::operation::{Layout, Operation, Operations, Own, OwnSpec, OwnTime, Process};
use machine::WrongValue;
use machine::profile::Figure;
use rand_pcg::Pcg64Mcg;
use std::cell::OnceCell;
use std::rc::Rc;

crate::keys! {
    /// A recorded program, as in a scenario.
    pub struct RecordedMappings {
        /// A program with built-in recordings, the path of a recording, or a list of paths.
        pub recording: RecordedProgram,
        /// CPU time in seconds of the program, and of the kernel on its behalf without page faults.
        pub cpu_seconds: Figure => Bounds::new(1e-3, 1e6, "a ms to eleven days"),
        /// Number of benchmark runs that the recording stands for.
        pub runs: Figure => Bounds::new(1e-3, 1e6, "a thousandth to a million"),
        /// Page walks per second of the program's own time with order-0 pages only, in millions.
        pub million_walks: Figure => Bounds::new(0.0, 1e3, "one each ns"),
        /// Whether kernels before 6.9 use arm64's contiguous bit for runs of pages too.
        #[serde(default)]
        pub contiguous_entries: bool,
        /// How often the recording is run, one time after the other.
        #[serde(default = "once")]
        pub rounds: u64 => TIMES,
    }
}

fn once() -> u64 {
    1
}

impl RecordedMappings {
    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("cpu_seconds".into(), &mut self.cpu_seconds),
            ("runs".into(), &mut self.runs),
            ("million_walks".into(), &mut self.million_walks),
        ]
    }
}

/// A recorded program of which copies start; those that replay the same recording share what it says.
pub(crate) struct RecordedCopies {
    spec: RecordedMappings,
    /// By the number of the recording, what its processes do, once a copy has replayed it.
    recordings: Vec<OnceCell<Rc<[Vec<Operation>]>>>,
}

impl RecordedCopies {
    pub fn of(spec: RecordedMappings) -> RecordedCopies {
        let recordings = vec![OnceCell::new(); spec.recording.recordings()];
        RecordedCopies { spec, recordings }
    }

    /// What the processes of the recording of this number do in a round.
    fn processes(&self, number: usize) -> Result<Rc<[Vec<Operation>]>, WrongValue> {
        if let Some(read) = self.recordings[number].get() {
            return Ok(read.clone());
        }
        let mappings = self.spec.recording.load(number);
        let mappings =
            mappings.map_err(|error| WrongValue::new("recording", error, "a recording that can be read"))?;
        let read = Rc::from(processes(&mappings, self.spec.cpu_seconds.value));
        Ok(self.recordings[number].get_or_init(|| read).clone())
    }
}

impl OwnSpec for RecordedCopies {
    fn check(&self) -> Result<(), WrongValue> {
        match self.recordings.len() {
            0 => Err(WrongValue::new("recording", "[]", "at least one recording")),
            _ => Ok(()),
        }
    }

    fn start(&self, seed: u64, _random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let number = (seed.saturating_sub(1) % self.recordings.len() as u64) as usize;
        let processes = self.processes(number)?;
        let process = |number| Process { forked: number > 0, ..Process::default() };
        let spec = &self.spec;
        let layout = Layout {
            processes: (0..processes.len()).map(process).collect(),
            threads: (0..processes.len() as u32).map(Thread::of).collect(),
            own_time: Some(OwnTime {
                runs: spec.runs.value / spec.cpu_seconds.value,
                walks: 1e6 * spec.million_walks.value,
                contiguous_entries: spec.contiguous_entries,
            }),
            ..Layout::default()
        };
        Ok(Own { layout, operations: Box::new(Rounds::new(processes, spec.rounds)) })
    }
}

/// Nanoseconds by which a process may be ahead of the recording.
const AHEAD: u64 = 10_000_000;

/// The processes of a recording while it is read.
struct Reading {
    /// What each process does.
    processes: Vec<Vec<Operation>>,
    /// Of each process that has begun, who has forked it; the first one by itself.
    parents: Vec<Option<usize>>,
    /// Of each process, children that have exited since its last row.
    exited: Vec<Vec<u32>>,
    /// Of each process, the time that it has come to, in nanoseconds of computing by all.
    reached: Vec<u64>,
}

impl Reading {
    fn fork(&mut self, parent: usize, child: usize, now: u64) {
        self.processes[parent].push(Operation::Fork { process: child as u32 });
        self.parents[child] = Some(parent);
        self.reached[child] = now;
    }

    /// Lets a process do a row that comes when all have computed until `now`, and the row before when they had until `before`.
    fn add(&mut self, process: usize, change: &Change, before: u64, now: u64) {
        if self.parents[process].is_none() {
            // Nobody was seen to fork it.
            self.fork(0, process, before);
            self.processes[process].push(Operation::Exec);
        }
        let own = &mut self.processes[process];
        own.extend(self.exited[process].drain(..).map(|process| Operation::Wait { process }));
        if before >= self.reached[process] + AHEAD {
            own.push(Operation::SleepUntil { nanoseconds: before });
            self.reached[process] = before;
        }
        if now > before {
            own.push(Operation::Compute { nanoseconds: now - before });
            self.reached[process] += now - before;
        }
        match change.operation {
            mappings::Operation::Fork => self.fork(process, change.pages as usize, now),
            mappings::Operation::Exec => own.push(Operation::Exec),
            mappings::Operation::Exit if process > 0 => {
                let parent = self.parents[process].unwrap_or(0);
                self.exited[parent].push(process as u32);
            }
            mappings::Operation::Exit => {}
            _ => own.push(Operation::Recorded(*change)),
        }
    }
}

/// What the processes of a recording do in a round; `cpu_seconds` is what all of them compute.
fn processes(mappings: &Mappings, cpu_seconds: f64) -> Vec<Vec<Operation>> {
    let length = mappings.steps.last().map_or(0, |step| step.milliseconds).max(1);
    let nanoseconds = |milliseconds: u64| (1e9 * cpu_seconds * milliseconds as f64 / length as f64) as u64;
    let count = mappings.processes;
    let mut reading = Reading {
        processes: vec![Vec::new(); count],
        parents: (0..count).map(|process| (process == 0).then_some(0)).collect(),
        exited: vec![Vec::new(); count],
        reached: vec![0; count],
    };
    let mut before = 0;
    for step in &mappings.steps {
        let now = nanoseconds(step.milliseconds);
        reading.add(step.process, &step.change, before, now);
        before = now;
    }
    if let Some(first) = reading.processes.first_mut() {
        first.splice(0..0, [Operation::TransactionBegin, Operation::Exec]);
        // A round begins when the one before has ended.
        first.extend((1..count as u32).map(|process| Operation::Wait { process }));
        first.push(Operation::TransactionEnd);
    }
    reading.processes
}

/// How far a process has come.
#[derive(Clone, Default)]
struct Reached {
    /// The round that it is in, from 1.
    round: u64,
    /// How many of its operations it has done in that.
    done: usize,
}

/// The processes, round after round.
struct Rounds {
    /// What each process does in a round.
    processes: Rc<[Vec<Operation>]>,
    reached: Vec<Reached>,
    rounds: u64,
    /// The round that the first process is in, from 1.
    round: u64,
    /// When it began, in nanoseconds after the start.
    began: u64,
}

impl Rounds {
    fn new(processes: Rc<[Vec<Operation>]>, rounds: u64) -> Rounds {
        let reached = vec![Reached::default(); processes.len()];
        Rounds { processes, reached, rounds, round: 0, began: 0 }
    }
}

impl Operations for Rounds {
    fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        let (operations, own) = (&self.processes[thread], &mut self.reached[thread]);
        if thread == 0 && (own.round == 0 || own.done == operations.len()) && self.round < self.rounds {
            self.round += 1;
            self.began = now;
        }
        if own.round < self.round {
            *own = Reached { round: self.round, done: 0 };
        }
        let operation = *operations.get(own.done)?;
        own.done += 1;
        Some(match operation {
            Operation::SleepUntil { nanoseconds } => {
                Operation::SleepUntil { nanoseconds: self.began + nanoseconds }
            }
            _ => operation,
        })
    }

    fn ends(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rows: &str, cpu_seconds: f64, rounds: u64) -> Rounds {
        let text = format!("ms,process,operation,page,pages,rights\n{rows}");
        let mappings = Mappings::parse(&zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        Rounds::new(processes(&mappings, cpu_seconds).into(), rounds)
    }

    fn operations(rounds: &mut Rounds, process: usize, now: u64) -> Vec<Operation> {
        std::iter::from_fn(|| rounds.next(process, now)).collect()
    }

    fn store(page: u64) -> Operation {
        let operation = mappings::Operation::Store;
        Operation::Recorded(Change { operation, page, pages: 1, rights: 0 })
    }

    const MS: u64 = 1_000_000;

    fn compute(milliseconds: u64) -> Operation {
        Operation::Compute { nanoseconds: milliseconds * MS }
    }

    /// The first process forks another, which runs for 30 ms while the first waits, and exits.
    const SHELL: &str =
        "10,0,store,5,1,\n0,0,fork,0,1,\n10,1,exec,0,0,\n20,1,store,3,1,\n0,1,exit,0,0,\n10,0,store,1,1,\n";

    #[test]
    fn a_parent_goes_on_when_its_child_has_exited() {
        // A tenth of the time of the recording, which is 50 ms, so nobody sleeps.
        let mut shell = rounds(SHELL, 0.005, 1);
        let first = operations(&mut shell, 0, 0);
        let us = |us: u64| Operation::Compute { nanoseconds: us * 1000 };
        assert_eq!(
            first,
            [
                Operation::TransactionBegin,
                Operation::Exec,
                us(1000),
                store(5),
                Operation::Fork { process: 1 },
                Operation::Wait { process: 1 },
                us(1000),
                store(6),
                Operation::Wait { process: 1 },
                Operation::TransactionEnd,
            ]
        );
        assert_eq!(operations(&mut shell, 1, 0), [us(1000), Operation::Exec, us(2000), store(8)]);
        assert_eq!(shell.next(1, 0), None, "it has ended");
        assert_eq!(shell.next(0, 0), None);
    }

    #[test]
    fn processes_keep_the_times_of_the_recording() {
        let mut shell = rounds(SHELL, 0.05, 2);
        let asleep = |operations: &[Operation]| {
            let sleeps = operations.iter().filter_map(|operation| match operation {
                Operation::SleepUntil { nanoseconds } => Some(nanoseconds / MS),
                _ => None,
            });
            sleeps.collect::<Vec<u64>>()
        };
        let round = |shell: &mut Rounds, now| -> Vec<Operation> {
            let mut all = Vec::new();
            while let Some(operation) = shell.next(0, now) {
                all.push(operation);
                if operation == Operation::TransactionEnd {
                    break;
                }
            }
            all
        };
        let first = round(&mut shell, 0);
        // Until the child has exited.
        assert_eq!(asleep(&first), [40]);
        assert!(first.contains(&compute(10)));
        let child = operations(&mut shell, 1, 0);
        assert_eq!(asleep(&child), [0_u64; 0], "it computes from when it is forked");
        let second = round(&mut shell, 100 * MS);
        assert_eq!((asleep(&second), second.len()), (vec![140], first.len()));
        assert_eq!(operations(&mut shell, 1, 110 * MS), child);
        assert_eq!(shell.next(0, 150 * MS), None);
    }

    fn build() -> RecordedMappings {
        RecordedMappings {
            recording: RecordedProgram::KernelBuild,
            cpu_seconds: Figure { value: 33.8, range: None, source: String::new() },
            runs: Figure { value: 1.0, range: None, source: String::new() },
            million_walks: Figure { value: 1.0, range: None, source: String::new() },
            contiguous_entries: false,
            rounds: 1,
        }
    }

    #[test]
    fn copies_share_a_recording() {
        let recording = tempfile::NamedTempFile::new().unwrap();
        let text = format!("ms,process,operation,page,pages,rights\n{SHELL}");
        std::fs::write(recording.path(), zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        let spec = RecordedMappings { recording: RecordedProgram::File(recording.path().into()), ..build() };
        let copies = RecordedCopies::of(spec);
        let mut first = copies.start(1, &|_| unreachable!()).unwrap();
        // It is read once.
        recording.close().unwrap();
        let mut second = copies.start(2, &|_| unreachable!()).unwrap();
        let all =
            |own: &mut Own| -> Vec<Operation> { std::iter::from_fn(|| own.operations.next(0, 0)).collect() };
        let operations = all(&mut first);
        assert!(operations.len() > 5);
        assert_eq!(operations, all(&mut second), "each from the start");
    }

    #[test]
    fn all_compute_as_long_as_the_program_did() {
        let mut build = build();
        assert_eq!(build.figures_mut().len(), 3);
        let mappings = build.recording.load(0).unwrap();
        let all = processes(&mappings, build.cpu_seconds.value);
        let of = |operation: &Operation| match operation {
            Operation::Compute { nanoseconds } => *nanoseconds,
            _ => 0,
        };
        let sum: u64 = all.iter().flatten().map(of).sum();
        assert!((33_799_000_000..=33_800_000_000).contains(&sum), "{sum} ns");
        let forks = all.iter().flatten();
        let forks = forks.filter(|operation| matches!(operation, Operation::Fork { .. })).count();
        assert_eq!(forks, all.len() - 1, "each process is forked once");
    }
}
