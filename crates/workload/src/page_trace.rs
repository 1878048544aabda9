//! A recorded trace of the page allocator, once or in several copies: the same demand on another machine or kernel.
//!
//! ```text
//!   copy 0   events of CPUs 0..n      ─► threads that stay on CPUs 0..n of the machine
//!   copy 1   the same, a little later ─► on CPUs n..2n               ...
//!
//!   one CPU  ── task ──┤ alloc ├── task ──┤ free ├····· idle ·····├── task ──
//!              computes                              sleeps
//! ```
//!
//! A thread stands for all that a recorded CPU ran. It computes or sleeps until the recorded time of an event, and is late if the kernel
//! made it wait before. A block is freed by whichever CPU the recording says, under a number that all threads of a copy know. Pages
//! that the recording frees without having allocated them are there from the start. The page frames of kernel stacks, which
//! `alloc_pages_bulk` takes, are not recorded: a stack's pages join those that were there, and the frees of unknown page frames take
//! them from there. Events that are the page allocator's reaction instead of demand (refills, drains, vmstat workers) are skipped.

use crate::demand::Thread;
use crate::keys::{CPUS, MICROSECONDS};
use crate::operation::{KernelBlock, Layout, Operation, Operations, Own, OwnSpec, Process};
use crate::threads::Affinity;
use crate::trace::{self, Event, NO_PAGE, TraceError, TraceReader};
use machine::WrongValue;
use mm::MigrateType;
use mm::page::{MAX_PAGE_ORDER, NR_PAGE_ORDERS};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// The latest time of an event that can be replayed, in nanoseconds; with the delay of a copy it is within virtual time.
pub const LATEST: u64 = 10 * 24 * 3600 * 1_000_000_000;
/// Numbers of freed blocks that are not given to others yet, so that hardly anybody waits for a block to be freed.
const RESTING: usize = 4096;
/// The migrate type of blocks that were allocated before the recording.
const EARLIER: MigrateType = MigrateType::Movable;

crate::keys! {
    /// A trace, as in a scenario.
    #[derive(Eq)]
    pub struct PageTrace {
        /// A file that `mmtwin record` wrote.
        pub trace: PathBuf,
        /// Copies that run side by side, each on as many CPUs as the recorded machine had.
        #[serde(default = "one")]
        pub copies: usize => CPUS,
        /// Virtual microseconds between the starts of two copies.
        #[serde(default)]
        pub stagger_us: u64 => MICROSECONDS.or_none(),
    }
}

fn one() -> usize {
    1
}

impl OwnSpec for PageTrace {
    fn check(&self) -> Result<(), WrongValue> {
        if self.stagger_us.saturating_mul(self.copies as u64) as f64 <= MICROSECONDS.most {
            return Ok(());
        }
        let value = format!("{} for each of {} copies", self.stagger_us, self.copies);
        let expected = format!("at most {} us for all copies together", MICROSECONDS.most);
        Err(WrongValue::new("stagger_us", value, expected))
    }

    fn start(&self, _seed: u64, _random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let wrong = |error: String| WrongValue::new("trace", self.trace.display(), error);
        let unreadable = |error: TraceError| wrong(format!("a trace that can be replayed: {error}"));
        let Needs { missing, cpus, last } =
            Needs::of(&mut open(&self.trace).map_err(unreadable)?).map_err(unreadable)?;
        if last > LATEST {
            return Err(wrong(format!("one that ends within ten days; its last event is at {last} ns")));
        }
        let mut layout = Layout::default();
        let mut copies = Vec::new();
        for copy in 0..self.copies {
            let first_number = layout.blocks.len() as u32;
            layout.blocks.extend(earlier_blocks(&missing));
            let numbers = first_number..layout.blocks.len() as u32;
            let process = Process { of_kernel: true, ..Process::default() };
            layout.processes.push(process);
            layout.threads.extend((0..cpus).map(|_| Thread::of(copy as u32)));
            let reader = open(&self.trace).map_err(unreadable)?;
            let delay = self.stagger_us * 1000 * copy as u64;
            copies.push(Copy::new(
                reader,
                delay,
                (copy * cpus, cpus),
                earlier_numbers(&missing, numbers.start),
            ));
        }
        layout.stay_on_cpus = layout.threads.len();
        let numbers = Numbers { next: layout.blocks.len() as u32, resting: VecDeque::new() };
        Ok(Own { layout, operations: Box::new(Copies { copies, cpus, numbers }) })
    }
}

/// Opens a trace that lost nothing.
pub fn open(trace: &Path) -> Result<TraceReader, TraceError> {
    let reader = TraceReader::open(trace)?;
    reader.require_lossless()?;
    Ok(reader)
}

/// Visits all events that are left of a trace.
pub fn each_event(reader: &mut TraceReader, mut visit: impl FnMut(&Event)) -> Result<(), TraceError> {
    loop {
        let batch = reader.next_batch()?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter().for_each(&mut visit);
    }
}

/// The order of an event's block, if a file names one that is too large, the largest.
pub fn order_of(event: &Event) -> u8 {
    event.order.min(MAX_PAGE_ORDER)
}

/// What a trace needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Needs {
    /// Numbers of blocks, by order, that have to be there before it begins.
    pub missing: [u64; NR_PAGE_ORDERS],
    pub cpus: usize,
    /// The time of its last event.
    pub last: u64,
}

impl Needs {
    /// Reads a trace to its end.
    pub fn of(reader: &mut TraceReader) -> Result<Needs, TraceError> {
        let mut unknown = UnknownFrees::default();
        let (mut cpus, mut last) = (1, 0);
        each_event(reader, |event| {
            last = event.time;
            cpus = cpus.max(usize::from(event.cpu) + 1);
            unknown.note(event);
        })?;
        Ok(Needs { missing: unknown.missing, cpus, last })
    }
}

/// Counts the blocks that a trace frees without having allocated them.
#[derive(Default)]
struct UnknownFrees {
    /// Orders of the blocks that live, by page frame.
    live: FxHashMap<u32, u8>,
    /// Pages of kernel stacks, whose frees are still to come.
    pages_of_stacks: u32,
    /// Numbers of blocks, by order, that neither an allocation nor a kernel stack accounts for.
    missing: [u64; NR_PAGE_ORDERS],
}

impl UnknownFrees {
    fn note(&mut self, event: &Event) {
        match event.operation {
            trace::Operation::Alloc if event.pfn != NO_PAGE => drop(self.live.insert(event.pfn, event.order)),
            trace::Operation::KernelStack => self.pages_of_stacks += event.stack_pages(),
            trace::Operation::Free if self.live.remove(&event.pfn).is_none() => match order_of(event) {
                0 if self.pages_of_stacks > 0 => self.pages_of_stacks -= 1,
                order => self.missing[usize::from(order)] += 1,
            },
            _ => {}
        }
    }
}

/// The blocks that are there before a copy begins, by order.
fn earlier_blocks(missing: &[u64; NR_PAGE_ORDERS]) -> impl Iterator<Item = KernelBlock> {
    let of_order =
        |(order, &blocks): (u8, &u64)| (0..blocks).map(move |_| KernelBlock { order, migrate_type: EARLIER });
    (0..).zip(missing).flat_map(of_order)
}

/// Their numbers, by order, where the first has this one.
fn earlier_numbers(missing: &[u64; NR_PAGE_ORDERS], mut first: u32) -> [Vec<u32>; NR_PAGE_ORDERS] {
    missing.map(|blocks| {
        let numbers = (first..first + blocks as u32).collect();
        first += blocks as u32;
        numbers
    })
}

/// Numbers of blocks.
struct Numbers {
    next: u32,
    /// Those of freed blocks, the first one freed first.
    resting: VecDeque<u32>,
}

impl Numbers {
    fn take(&mut self) -> u32 {
        if self.resting.len() > RESTING
            && let Some(number) = self.resting.pop_front()
        {
            return number;
        }
        self.next += 1;
        self.next - 1
    }
}

/// What a CPU does at a recorded time.
#[derive(Clone, Copy, Debug)]
enum Does {
    Alloc {
        block: u32,
        order: u8,
        migrate_type: MigrateType,
    },
    Free {
        block: u32,
    },
    /// From now on a task runs there, or nobody.
    Switch {
        to_task: bool,
    },
}

/// A CPU of a copy.
struct RecordedCpu {
    /// Where its thread stays, until it is there.
    stays_on: Option<Affinity>,
    /// Whether a task ran; not known before its first event.
    runs: Option<bool>,
    /// What it does at which time, as far as the trace was read.
    due: VecDeque<(u64, Does)>,
}

/// A copy of the trace.
struct Copy {
    reader: TraceReader,
    /// Nanoseconds by which it is later than the recording.
    delay: u64,
    cpus: Vec<RecordedCpu>,
    /// For each block that lives, by recorded page frame, its number.
    live: FxHashMap<u32, u32>,
    /// Numbers of blocks of unknown page frames, by order: allocated before the recording, or for kernel stacks.
    earlier: [Vec<u32>; NR_PAGE_ORDERS],
    /// The time up to which the trace was read; `None` after its end.
    read_to: Option<u64>,
}

impl Copy {
    /// A copy on `cpus` CPUs from `first` on.
    fn new(
        reader: TraceReader,
        delay: u64,
        (first, cpus): (usize, usize),
        earlier: [Vec<u32>; NR_PAGE_ORDERS],
    ) -> Copy {
        let cpu = |number: usize| RecordedCpu {
            stays_on: Some(Affinity::Cpu((first + number) as u16)),
            runs: None,
            due: VecDeque::new(),
        };
        Copy {
            reader,
            delay,
            cpus: (0..cpus).map(cpu).collect(),
            live: FxHashMap::default(),
            earlier,
            read_to: Some(0),
        }
    }

    /// Reads on. What cannot be read a second time has changed since the first, and is as good as the end.
    fn read(&mut self, numbers: &mut Numbers) {
        let Ok(batch) = self.reader.next_batch() else {
            self.read_to = None;
            return;
        };
        self.read_to = batch.last().map(|event| event.time + self.delay);
        for event in batch {
            let cpu = &mut self.cpus[usize::from(event.cpu)];
            let time = event.time + self.delay;
            cpu.runs.get_or_insert(event.task != IDLE);
            let mut at = |does| cpu.due.push_back((time, does));
            match event.operation {
                trace::Operation::Alloc if event.pfn != NO_PAGE => {
                    let block = numbers.take();
                    self.live.insert(event.pfn, block);
                    let migrate_type = MigrateType::from_number(event.migratetype.max(0) as u8);
                    let migrate_type = migrate_type.unwrap_or(MigrateType::Movable);
                    at(Does::Alloc { block, order: order_of(event), migrate_type });
                }
                trace::Operation::Free => {
                    let block = self.live.remove(&event.pfn);
                    let block = block.or_else(|| self.earlier[usize::from(order_of(event))].pop());
                    if let Some(block) = block {
                        numbers.resting.push_back(block);
                        at(Does::Free { block });
                    }
                }
                trace::Operation::KernelStack => {
                    for _ in 0..event.stack_pages() {
                        let block = numbers.take();
                        self.earlier[0].push(block);
                        at(Does::Alloc { block, order: 0, migrate_type: MigrateType::Unmovable });
                    }
                }
                trace::Operation::Switch => at(Does::Switch { to_task: event.argument != IDLE as u32 }),
                _ => {}
            }
        }
    }

    /// What the thread of a CPU does next at `now`; `None` when it has done all.
    fn next(&mut self, numbers: &mut Numbers, cpu: usize, now: u64) -> Option<Operation> {
        if let Some(stays_on) = self.cpus[cpu].stays_on.take() {
            return Some(Operation::Pin(Some(stays_on)));
        }
        loop {
            let Some(&(time, does)) = self.cpus[cpu].due.front() else {
                match self.read_to {
                    None => return None,
                    // Others may have read so far ahead of this CPU.
                    Some(time) if time > now => return Some(self.cpus[cpu].pass(now, time)),
                    Some(_) => self.read(numbers),
                }
                continue;
            };
            let own = &mut self.cpus[cpu];
            if time > now {
                return Some(own.pass(now, time));
            }
            own.due.pop_front();
            return Some(match does {
                Does::Alloc { block, order, migrate_type } => {
                    Operation::AllocBlock { block, order, migrate_type }
                }
                Does::Free { block } => Operation::FreeBlock { block },
                Does::Switch { to_task } => {
                    own.runs = Some(to_task);
                    continue;
                }
            });
        }
    }
}

/// Pid of a CPU's idle task.
const IDLE: i32 = 0;

impl RecordedCpu {
    /// Lets the time pass until then as the recorded CPU did.
    fn pass(&self, now: u64, until: u64) -> Operation {
        match self.runs.unwrap_or(false) {
            true => Operation::Compute { nanoseconds: until - now },
            false => Operation::SleepUntil { nanoseconds: until },
        }
    }
}

struct Copies {
    copies: Vec<Copy>,
    /// CPUs of each.
    cpus: usize,
    numbers: Numbers,
}

impl Operations for Copies {
    fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        self.copies[thread / self.cpus].next(&mut self.numbers, thread % self.cpus, now)
    }

    fn ends(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Metadata, Operation as Traced, TraceWriter};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use std::collections::BTreeMap;

    fn event(operation: Traced, (time, cpu): (u64, u16), pfn: u32) -> Event {
        Event { time, cpu, pfn, task: 1, migratetype: 0, ..Event::of(operation) }
    }

    /// A program that replays these events.
    fn program(events: &[Event], copies: usize) -> Own {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = TraceWriter::create(file.path()).unwrap();
        events.iter().for_each(|event| writer.push(*event).unwrap());
        writer.finish(Metadata::default()).unwrap();
        let spec = PageTrace { trace: file.path().into(), copies, stagger_us: 3 };
        spec.check().unwrap();
        spec.start(1, &Pcg64Mcg::seed_from_u64).unwrap()
    }

    #[test]
    fn stacks_account_for_the_frees_of_unknown_page_frames_that_follow() {
        let mut unknown = UnknownFrees::default();
        unknown.note(&event(Traced::Free, (0, 0), 7));
        unknown.note(&Event { argument: 4, ..event(Traced::KernelStack, (0, 0), NO_PAGE) });
        unknown.note(&event(Traced::Alloc, (0, 0), 8));
        for pfn in [8, 20, 21, 22, 23] {
            unknown.note(&event(Traced::Free, (0, 0), pfn));
        }
        assert_eq!(unknown.missing[0], 1, "page frame 7 was allocated before the trace");
        unknown.note(&event(Traced::Free, (0, 0), 24));
        assert_eq!(unknown.missing[0], 2);
    }

    #[test]
    fn a_cpu_computes_while_a_task_runs_and_sleeps_while_none_does() {
        let switch = |time, argument| Event { argument, ..event(Traced::Switch, (time, 0), NO_PAGE) };
        let events = [
            event(Traced::Alloc, (1000, 0), 5),
            switch(2000, 0),
            Event { task: 0, ..event(Traced::Free, (5000, 0), 5) },
            Event { task: 0, ..switch(6000, 9) },
            event(Traced::Alloc, (7000, 0), 6),
        ];
        let mut own = program(&events, 1);
        let mut done = Vec::new();
        let mut now = 0;
        while let Some(operation) = own.operations.next(0, now) {
            match operation {
                Operation::Compute { nanoseconds } => now += nanoseconds,
                Operation::SleepUntil { nanoseconds } => now = nanoseconds,
                _ => {}
            }
            done.push(operation);
        }
        let migrate_type = MigrateType::Unmovable;
        let alloc = |block| Operation::AllocBlock { block, order: 0, migrate_type };
        let compute = Operation::Compute { nanoseconds: 1000 };
        let sleep = |nanoseconds| Operation::SleepUntil { nanoseconds };
        let expected = [
            Operation::Pin(Some(Affinity::Cpu(0))),
            // Before its first event, what runs there is that event's task.
            sleep(1000),
            alloc(0),
            compute,
            sleep(5000),
            Operation::FreeBlock { block: 0 },
            sleep(6000),
            compute,
            alloc(1),
        ];
        // It was not read yet who runs before the first event.
        let first = done.iter().position(|operation| *operation == alloc(0)).unwrap();
        assert_eq!(done[first..], expected[2..]);
        assert_eq!(done[0], expected[0]);
    }

    /// Events at times in order, on two CPUs, about a few page frames.
    fn any_events() -> impl Strategy<Value = Vec<Event>> {
        let kind = prop_oneof![Just(Traced::Alloc), Just(Traced::Free), Just(Traced::KernelStack)];
        let any = (kind, 0u64..2000, 0u16..2, 0u32..6, 0u8..3);
        prop::collection::vec(any, 1..60).prop_map(|mut all| {
            all.sort_by_key(|&(_, time, ..)| time);
            let event = |(kind, time, cpu, pfn, order)| match kind {
                Traced::KernelStack => Event { argument: 4, ..event(kind, (time, cpu), NO_PAGE) },
                _ => Event { order, ..event(kind, (time, cpu), pfn) },
            };
            all.into_iter().map(event).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whoever is ahead: as much is allocated and freed as was recorded, each block by its number, and nobody waits for ever.
        #[test]
        fn what_was_recorded_is_done(events in any_events(), turns in prop::collection::vec(0usize..4, 1..20)) {
            let mut own = program(&events, 2);
            let cpus = own.layout.threads.len() / 2;
            let mut held: BTreeMap<u32, u8> =
                own.layout.blocks.iter().enumerate().map(|(number, block)| (number as u32, block.order)).collect();
            let (mut allocated, mut freed) = (0, 0);
            let mut now = vec![0; 2 * cpus];
            let mut waiting = vec![None; 2 * cpus];
            let mut done = vec![false; 2 * cpus];
            // Each has its turn, and some have more.
            for (at, turn) in turns.iter().cycle().enumerate().take(20_000) {
                let thread = if at % 2 == 0 { at / 2 } else { *turn } % (2 * cpus);
                let next = waiting[thread].take().or_else(|| own.operations.next(thread, now[thread]));
                match next {
                    None => done[thread] = true,
                    Some(Operation::Compute { nanoseconds }) => now[thread] += nanoseconds,
                    Some(Operation::SleepUntil { nanoseconds }) => now[thread] = now[thread].max(nanoseconds),
                    Some(alloc @ Operation::AllocBlock { block, order, .. }) => match held.contains_key(&block) {
                        true => waiting[thread] = Some(alloc),
                        false => {
                            held.insert(block, order);
                            allocated += 1;
                        }
                    },
                    Some(free @ Operation::FreeBlock { block }) => match held.remove(&block) {
                        Some(_) => freed += 1,
                        None => waiting[thread] = Some(free),
                    },
                    Some(_) => {}
                }
            }
            prop_assert!(done.iter().all(|done| *done), "{waiting:?}");
            let count = |operation| events.iter().filter(|event| event.operation == operation).count();
            prop_assert_eq!(allocated, 2 * (count(Traced::Alloc) + 4 * count(Traced::KernelStack)));
            prop_assert_eq!(freed, 2 * count(Traced::Free));
        }
    }
}
