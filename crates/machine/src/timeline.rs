//! What each CPU did when, who held a lock while others waited, and which interrupts went where: for people who look at a run.
//!
//! ```text
//!   charged    ▮user▮▮fault▮▮user▮▮fault▮▮▮▮ clearing ▮▮▮▮▮▮▮▮▮▮▮▮       idle        ▮user▮▮▮▮▮▮▮▮▮
//!   slices     [ user 60 %, fault 40 % ][ clearing                 ]                [ user         ]
//!              └ at least the resolution                          a gap of at least the resolution ┘
//! ```
//!
//! Every picosecond of every CPU is charged to a category, in pieces of nanoseconds. A picture of a second of 224 CPUs has no room for
//! them, so pieces shorter than the resolution are put together, with the share of each; what lasts as long as the resolution is kept as it
//! was. So a timeline has at most two slices of a CPU in a resolution's time, and the sum of its parts is what the accounts say. A lock's
//! sections and the interrupts of a shoot-down are kept one by one where they last that long; how long a lock was held and waited for in
//! each span of the resolution is kept whatever their length.
//!
//! Noting costs a branch where no timeline is asked for, and changes no clock: the run is the same with it.

use crate::time::Time;
use crate::topology::Cpu;
use std::collections::BTreeMap;

/// Events that a timeline has at most: some hundred megabytes. What comes when there are more is not noted.
pub const MOST_EVENTS: usize = 2_000_000;

/// What of a run is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Time,
    pub until: Time,
    /// What is shorter is put together.
    pub resolution: Time,
}

impl Window {
    /// The same, so much later.
    pub fn later(self, by: Time) -> Window {
        let until = if self.until == Time::NEVER { Time::NEVER } else { self.until + by };
        Window { from: self.from + by, until, ..self }
    }
}

/// A span of a CPU's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub from: Time,
    pub until: Time,
    /// What it was spent on, the largest part first; never empty. Their sum is less than the span by gaps shorter than the resolution.
    pub parts: Vec<(u32, Time)>,
}

/// Slices of one CPU, the last of which still grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Strip {
    done: Vec<Slice>,
    /// None before the first piece, and in a gap.
    open: Option<Slice>,
}

impl Strip {
    /// Ends the slice that grows. Returns how many slices that makes.
    fn close(&mut self) -> usize {
        let Some(mut slice) = self.open.take() else { return 0 };
        slice.parts.sort_by_key(|&(what, time)| (std::cmp::Reverse(time), what));
        self.done.push(slice);
        1
    }

    /// Whether the slice that grows lasts as long as `resolution`.
    fn is_long(&self, resolution: Time) -> bool {
        self.open.as_ref().is_some_and(|open| open.until - open.from >= resolution)
    }

    /// Whether the slice that grows is of `what` alone.
    fn is_only(&self, what: u32) -> bool {
        self.open.as_ref().is_some_and(|open| matches!(open.parts.as_slice(), [(only, _)] if *only == what))
    }

    /// Adds a piece, to a slice of its own if it is long or the one before is. Returns how many slices that ends.
    fn put(&mut self, what: u32, (from, until): (Time, Time), resolution: Time) -> usize {
        let is_next = self.is_long(resolution) || until - from >= resolution;
        let ended = if is_next && !self.is_only(what) { self.close() } else { 0 };
        self.add(what, from, until);
        ended
    }

    fn add(&mut self, what: u32, from: Time, until: Time) {
        let open = self.open.get_or_insert_with(|| Slice { from, until, parts: Vec::new() });
        open.until = until;
        match open.parts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, time)) => *time += until - from,
            None => open.parts.push((what, until - from)),
        }
    }
}

/// What one CPU did.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Course {
    /// By task.
    tasks: Strip,
    /// By category; no slice goes beyond one of a task.
    categories: Strip,
    task: u32,
    /// The end of the last piece.
    until: Time,
}

impl Course {
    fn close(&mut self) -> usize {
        self.tasks.close() + self.categories.close()
    }
}

/// A lock that a timeline knows: the category of waiting for it, and a number among those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId {
    pub waiting: u32,
    pub number: u32,
}

/// A section under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    pub cpu: Cpu,
    /// When the CPU arrived at the lock.
    pub arrived: Time,
    /// When it had the lock.
    pub from: Time,
    pub until: Time,
}

/// How a lock was used in a span of the resolution's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub held: Time,
    /// The sum over all CPUs.
    pub waited: Time,
}

/// What happened at one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockCourse {
    /// Those whose wait or hold lasts as long as the resolution, as they were simulated: not always in order of time.
    pub sections: Vec<Section>,
    /// By the number of the span, from the start of the window.
    pub uses: BTreeMap<u64, Use>,
}

/// Interrupts that one CPU sent to others, and for which it waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shootdown {
    pub initiator: Cpu,
    /// What the initiator's time went to.
    pub category: u32,
    pub from: Time,
    pub until: Time,
    /// The targets, and when the interrupt came to each.
    pub targets: Vec<(Cpu, Time)>,
}

/// What was noted of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    window: Window,
    /// How much there is to draw: slices of tasks and of categories, sections and uses of locks, interrupts and their targets.
    events: usize,
    courses: Vec<Course>,
    locks: BTreeMap<LockId, LockCourse>,
    shootdowns: Vec<Shootdown>,
}

impl Timeline {
    /// An empty timeline of so many CPUs.
    pub fn new(window: Window, cpus: usize) -> Timeline {
        let course =
            Course { tasks: Strip::default(), categories: Strip::default(), task: 0, until: Time::ZERO };
        Timeline {
            window,
            events: 0,
            courses: vec![course; cpus],
            locks: BTreeMap::new(),
            shootdowns: Vec::new(),
        }
    }

    pub fn window(&self) -> Window {
        self.window
    }

    /// The part of a span that is within the window.
    fn within(&self, from: Time, until: Time) -> Option<(Time, Time)> {
        let (from, until) = (from.max(self.window.from), until.min(self.window.until));
        (from < until).then_some((from, until))
    }

    /// Notes what `cpu` spent on a category.
    #[cold]
    pub(crate) fn spend(&mut self, cpu: Cpu, category: u32, from: Time, until: Time) {
        let Some((from, until)) = self.noted(cpu, from, until) else { return };
        let course = &mut self.courses[cpu.index()];
        self.events += course.categories.put(category, (from, until), self.window.resolution);
        course.tasks.add(course.task, from, until);
    }

    /// Notes that `task` ran on `cpu`, where it is not known what its time went to.
    pub fn run(&mut self, cpu: Cpu, task: u32, from: Time, until: Time) {
        let Some((from, until)) = self.noted(cpu, from, until) else { return };
        let course = &mut self.courses[cpu.index()];
        self.events += course.tasks.put(task, (from, until), self.window.resolution);
    }

    /// The part of what `cpu` did that is noted, if any. What grew until now ends where the CPU did nothing for long.
    fn noted(&mut self, cpu: Cpu, from: Time, until: Time) -> Option<(Time, Time)> {
        if self.is_full() {
            return None;
        }
        let (from, until) = self.within(from, until)?;
        let course = &mut self.courses[cpu.index()];
        if from.saturating_sub(course.until) >= self.window.resolution {
            self.events += course.close();
        }
        course.until = until;
        Some((from, until))
    }

    /// Notes that what `cpu` does from now on is done for `task`.
    pub fn switch(&mut self, cpu: Cpu, task: u32) {
        let course = &mut self.courses[cpu.index()];
        if std::mem::replace(&mut course.task, task) != task && course.tasks.is_long(self.window.resolution) {
            self.events += course.close();
        }
    }

    /// Notes a section under a lock.
    #[cold]
    pub(crate) fn hold(&mut self, lock: LockId, section: Section) {
        let Window { resolution, .. } = self.window;
        let (held, waited) =
            (self.within(section.from, section.until), self.within(section.arrived, section.from));
        if self.is_full() || (held.is_none() && waited.is_none()) {
            return;
        }
        let course = self.locks.entry(lock).or_default();
        let before = course.sections.len() + course.uses.len();
        let of_window = self.window.from;
        let parts = |span: Option<(Time, Time)>| {
            span.into_iter().flat_map(move |(from, until)| spans(of_window, resolution, from, until))
        };
        parts(held).for_each(|(span, time)| course.uses.entry(span).or_default().held += time);
        parts(waited).for_each(|(span, time)| course.uses.entry(span).or_default().waited += time);
        let is_long = |(from, until): (Time, Time)| until - from >= resolution;
        if held.is_some_and(is_long) || waited.is_some_and(is_long) {
            course.sections.push(section);
        }
        self.events += course.sections.len() + course.uses.len() - before;
    }

    /// Notes interrupts.
    pub(crate) fn shoot_down(&mut self, shootdown: Shootdown) {
        let shown = self.within(shootdown.from, shootdown.until);
        if !self.is_full() && shown.is_some_and(|(from, until)| until - from >= self.window.resolution) {
            self.events += 1 + shootdown.targets.len();
            self.shootdowns.push(shootdown);
        }
    }

    /// Ends what still grows.
    pub fn close(&mut self) {
        self.events += self.courses.iter_mut().map(Course::close).sum::<usize>();
    }

    pub fn cpus(&self) -> impl Iterator<Item = Cpu> + use<> {
        (0..self.courses.len() as u16).map(Cpu)
    }

    /// What a CPU did by task, in order.
    pub fn tasks(&self, cpu: Cpu) -> &[Slice] {
        &self.courses[cpu.index()].tasks.done
    }

    /// What it did by category, in order; each slice is within one of [`Timeline::tasks`].
    pub fn categories(&self, cpu: Cpu) -> &[Slice] {
        &self.courses[cpu.index()].categories.done
    }

    /// How much there is to draw: slices of tasks and of categories, sections and uses of locks, interrupts and their targets.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Whether there are so many that what came later was not noted.
    pub fn is_full(&self) -> bool {
        self.events >= MOST_EVENTS
    }

    pub fn locks(&self) -> &BTreeMap<LockId, LockCourse> {
        &self.locks
    }

    pub fn shootdowns(&self) -> &[Shootdown] {
        &self.shootdowns
    }
}

/// The spans of `resolution`, counted from `start`, in which a time lies, and how much of it in each.
fn spans(start: Time, resolution: Time, from: Time, until: Time) -> impl Iterator<Item = (u64, Time)> {
    let number = move |time: Time| (time - start).picoseconds() / resolution.picoseconds().max(1);
    let last = number(Time::max(from, until.saturating_sub(Time::PICOSECOND)));
    (number(from)..=last).map(move |span| {
        let begin = start + resolution * span;
        (span, until.min(begin + resolution) - from.max(begin))
    })
}
