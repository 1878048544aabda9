//! Timelines for Perfetto (<https://ui.perfetto.dev>): what every CPU did when, for several runs in one trace, and for the kernel that was
//! recorded where they replay it.
//!
//! ```text
//!   course ─► process "patch9, seed 1"
//!            ├─ CPUs ── CPU 0   ▮ database      ▮▮ [kswapd] ▮▮           by task, where several programs run
//!            │                  ▮ user ▮ fault  ▮▮ reclaim  ▮▮           by what the time went to
//!            │          CPU 1   ...            ◄── shoot-down: an arrow from the sender to each target
//!            ├─ Events  ▮ vm.nr_hugepages=2048   ▮ out of memory   ▮ memory stall of database
//!            ├─ Locks ─ zone->lock, node 0 Normal   long sections by holder; how much held, how many wait
//!            └─ Series: free pages, pagesets, generations, ...
//! ```
//!
//! Perfetto cannot compare two traces, so variants are process groups of one. Times count from the start of measuring.

mod messages;

use crate::event::told;
use crate::series::{title_of, unit_of};
use machine::timeline::{LockCourse, Section, Shootdown, Slice, Window};
use machine::{Cpu, Time};
use messages::{
    ChildOrdering, CounterDescriptor, DebugAnnotation, EventType, InternedData, Name, ProcessDescriptor,
    Trace, TracePacket, TrackDescriptor, TrackEvent,
};
use mm::Category;
use prost::Message;
use sim::outcome::Sample;
use sim::run_event::RunEvent;
use sim::timeline::RunTimeline;
use std::collections::BTreeMap;

/// All events are of one writer.
const SEQUENCE: u32 = 1;
/// Names by number are known from the first packet on.
const CLEARED: u32 = 1;
const NEEDS_NAMES: u32 = 2;
/// The least share of a slice, in percent, that is said.
const LEAST_SHARE: u64 = 1;

/// How a machine's time passed: in a run, or while a kernel was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    pub timeline: &'a RunTimeline,
    pub series: &'a [Sample],
    pub events: &'a [RunEvent],
}

/// A trace of courses, each with a title, in this order.
pub fn trace<'a>(courses: impl IntoIterator<Item = (String, Course<'a>)>) -> Vec<u8> {
    let mut writer = Writer::default();
    for (title, course) in courses {
        writer.course(title, course);
    }
    writer.finish().encode_to_vec()
}

/// A track, by its number.
type Track = u64;

/// The packets of a trace.
#[derive(Default)]
struct Writer {
    packets: Vec<TracePacket>,
    /// Numbers of names, from 1.
    names: BTreeMap<String, u64>,
    tracks: Track,
    processes: i32,
    flows: u64,
}

/// The tracks of a run.
struct Tracks {
    /// Where virtual time counts from.
    start: Time,
    window: Window,
    /// Of those that did something.
    cpus: BTreeMap<Cpu, Track>,
}

impl Tracks {
    /// A time as the trace has it.
    fn nanoseconds(&self, time: Time) -> u64 {
        time.saturating_sub(self.start).picoseconds() / 1000
    }
}

impl Writer {
    fn course(&mut self, title: String, Course { timeline, series, events }: Course) {
        self.processes += 1;
        let process = ProcessDescriptor { pid: self.processes, process_name: title };
        let run = self.track(TrackDescriptor {
            process: Some(process),
            child_ordering: ChildOrdering::Explicit as i32,
            ..TrackDescriptor::default()
        });
        let all = self.child(run, "CPUs", 0);
        let noted = &timeline.noted;
        let targets = noted.shootdowns().iter().flat_map(|of| of.targets.iter().map(|target| target.0));
        let mut is_shown: Vec<bool> = noted.cpus().map(|cpu| !noted.tasks(cpu).is_empty()).collect();
        let senders = noted.shootdowns().iter().map(|of| of.initiator);
        targets.chain(senders).for_each(|cpu| is_shown[cpu.index()] = true);
        let shown = noted.cpus().filter(|cpu| is_shown[cpu.index()]);
        let tracks = Tracks {
            start: timeline.start,
            window: noted.window(),
            cpus: shown.map(|cpu| (cpu, self.child(all, &format!("CPU {}", cpu.0), cpu.0.into()))).collect(),
        };
        for (&cpu, &track) in &tracks.cpus {
            self.cpu(&tracks, timeline, (cpu, track));
        }
        for shootdown in noted.shootdowns() {
            self.shootdown(&tracks, shootdown);
        }
        let of_events = self.child(run, "Events", 1);
        self.events(&tracks, of_events, events);
        let locks = self.child(run, "Locks", 2);
        for (id, course) in noted.locks() {
            self.lock(&tracks, locks, &timeline.locks[id], course);
        }
        let of_series = self.child(run, "Series", 3);
        self.series(&tracks, of_series, series);
    }

    /// Adds a track, and returns its number.
    fn track(&mut self, described: TrackDescriptor) -> Track {
        self.tracks += 1;
        let described = TrackDescriptor { uuid: self.tracks, ..described };
        self.packet(TracePacket { track_descriptor: Some(described), ..TracePacket::default() });
        self.tracks
    }

    /// Adds a track below another, at a place among those.
    fn child(&mut self, parent: Track, name: &str, place: i32) -> Track {
        self.track(TrackDescriptor {
            name: name.into(),
            parent_uuid: Some(parent),
            child_ordering: ChildOrdering::Explicit as i32,
            sibling_order_rank: place,
            ..TrackDescriptor::default()
        })
    }

    /// Adds a track of values below another.
    fn counter(&mut self, parent: Track, name: &str, unit: &str) -> Track {
        self.track(TrackDescriptor {
            name: name.into(),
            parent_uuid: Some(parent),
            counter: Some(CounterDescriptor { unit_name: unit.into() }),
            ..TrackDescriptor::default()
        })
    }

    fn packet(&mut self, packet: TracePacket) {
        self.packets.push(TracePacket {
            trusted_packet_sequence_id: SEQUENCE,
            sequence_flags: NEEDS_NAMES,
            ..packet
        });
    }

    fn event(&mut self, nanoseconds: u64, event_type: EventType, event: TrackEvent) {
        let event = TrackEvent { r#type: event_type as i32, ..event };
        self.packet(TracePacket {
            timestamp: Some(nanoseconds),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    /// The number of a name.
    fn name(&mut self, name: &str) -> u64 {
        match self.names.get(name) {
            Some(&number) => number,
            None => {
                let number = self.names.len() as u64 + 1;
                self.names.insert(name.into(), number);
                number
            }
        }
    }

    fn begin(&mut self, track: Track, nanoseconds: u64, name: &str, debug_annotations: Vec<DebugAnnotation>) {
        let name_iid = self.name(name);
        let event = TrackEvent { track_uuid: track, name_iid, debug_annotations, ..TrackEvent::default() };
        self.event(nanoseconds, EventType::SliceBegin, event);
    }

    fn end(&mut self, track: Track, nanoseconds: u64) {
        let event = TrackEvent { track_uuid: track, ..TrackEvent::default() };
        self.event(nanoseconds, EventType::SliceEnd, event);
    }

    fn value(&mut self, track: Track, nanoseconds: u64, value: f64) {
        let event =
            TrackEvent { track_uuid: track, double_counter_value: Some(value), ..TrackEvent::default() };
        self.event(nanoseconds, EventType::Counter, event);
    }

    /// What a CPU did: the slices of tasks, and within each those of categories.
    fn cpu(&mut self, tracks: &Tracks, timeline: &RunTimeline, (cpu, track): (Cpu, Track)) {
        let category = |what: u32| Category::ALL[what as usize].name();
        let mut categories = timeline.noted.categories(cpu).iter().peekable();
        for task in timeline.noted.tasks(cpu) {
            let is_named = !timeline.tasks.is_empty();
            if is_named {
                let name = |what: u32| timeline.tasks[what as usize].as_str();
                self.begin_slice(track, tracks.nanoseconds(task.from), task, &name);
            }
            while let Some(slice) = categories.next_if(|slice| slice.until <= task.until) {
                self.begin_slice(track, tracks.nanoseconds(slice.from), slice, &category);
                self.end(track, tracks.nanoseconds(slice.until));
            }
            if is_named {
                self.end(track, tracks.nanoseconds(task.until));
            }
        }
    }

    /// Begins a slice that is called by its largest part, and says the shares if there are several.
    fn begin_slice<'n>(
        &mut self,
        track: Track,
        nanoseconds: u64,
        slice: &Slice,
        name: &dyn Fn(u32) -> &'n str,
    ) {
        let Some(&(largest, most)) = slice.parts.first() else { return };
        let whole = (slice.until - slice.from).picoseconds().max(1);
        let percent = |time: Time| (100 * time.picoseconds() + whole / 2) / whole;
        // What is in no part is a gap too short to be left out.
        let idle = whole - slice.parts.iter().map(|(_, time)| time.picoseconds()).sum::<u64>().min(whole);
        let idle = Time::PICOSECOND * idle;
        let parts = slice.parts.iter().map(|&(what, time)| (name(what), percent(time)));
        let parts = parts.chain([("idle", percent(idle))]);
        let parts: Vec<(&str, u64)> = parts.filter(|&(_, share)| share >= LEAST_SHARE).collect();
        let shares = parts.iter().map(|&(what, share)| DebugAnnotation {
            name_iid: self.name(&format!("{what}, %")),
            uint_value: Some(share),
        });
        let shares: Vec<DebugAnnotation> = shares.collect();
        let title = match (parts.as_slice(), slice.parts.len()) {
            ([] | [_], _) => return self.begin(track, nanoseconds, name(largest), Vec::new()),
            (_, 1) => name(largest).to_string(),
            _ => format!("{} and others", name(largest)),
        };
        let title = if idle > most { format!("mostly idle, {title}") } else { title };
        self.begin(track, nanoseconds, &title, shares);
    }

    /// An arrow from the sender of interrupts to each target.
    fn shootdown(&mut self, tracks: &Tracks, shootdown: &Shootdown) {
        let &Shootdown { initiator, category, from, until, ref targets } = shootdown;
        let first = self.flows + 1;
        self.flows += targets.len() as u64;
        let cause = Category::ALL[category as usize].name();
        let [sends, took] = [&format!("{cause}: interrupts sent"), "took, ns"].map(|name| self.name(name));
        let duration =
            DebugAnnotation { name_iid: took, uint_value: Some((until - from).picoseconds() / 1000) };
        let sent = TrackEvent {
            name_iid: sends,
            track_uuid: tracks.cpus[&initiator],
            flow_ids: (first..=self.flows).collect(),
            debug_annotations: vec![duration],
            ..TrackEvent::default()
        };
        self.event(tracks.nanoseconds(from), EventType::Instant, sent);
        let name_iid = self.name("interrupt received");
        for (flow, &(cpu, arrival)) in (first..).zip(targets) {
            let received = TrackEvent {
                name_iid,
                track_uuid: tracks.cpus[&cpu],
                terminating_flow_ids: vec![flow],
                ..TrackEvent::default()
            };
            self.event(tracks.nanoseconds(arrival), EventType::Instant, received);
        }
    }

    /// What happened in the window; what begins while something else goes on is on another track.
    fn events(&mut self, tracks: &Tracks, parent: Track, events: &[RunEvent]) {
        let Window { from, until, .. } = tracks.window;
        // Each with the time from which on it is free.
        let mut lanes: Vec<(Track, Time)> = Vec::new();
        for event in events {
            let began = Time::from_seconds(event.seconds);
            let ended = began + Time::from_seconds(event.took_seconds.unwrap_or_default());
            if ended < from || began >= until {
                continue;
            }
            let free = lanes.iter().position(|&(_, free_from)| free_from <= began);
            let lane = free.unwrap_or_else(|| {
                lanes.push((self.child(parent, "events", lanes.len() as i32), Time::ZERO));
                lanes.len() - 1
            });
            let (track, free_from) = &mut lanes[lane];
            *free_from = ended;
            let (what, rest) = told(event);
            let name = if rest.is_empty() { what } else { format!("{what}: {rest}") };
            self.begin(*track, tracks.nanoseconds(began.max(from)), &name, Vec::new());
            self.end(*track, tracks.nanoseconds(ended.min(until)));
        }
    }

    /// Long sections of a lock, how much of the time it is held, and how many CPUs wait for it.
    fn lock(&mut self, tracks: &Tracks, parent: Track, name: &str, course: &LockCourse) {
        let own = self.child(parent, name, 0);
        let mut sections: Vec<&Section> = course.sections.iter().collect();
        sections.sort_by_key(|section| (section.from, section.until));
        // Two sections overlap only if an interrupt lengthens one; slices of a track do not.
        let mut free_from = 0;
        for section in sections {
            let [from, until] = [section.from, section.until].map(|time| tracks.nanoseconds(time));
            let from = from.max(free_from);
            if from >= until {
                continue;
            }
            let waited = (section.from - section.arrived).picoseconds() / 1000;
            let waited =
                DebugAnnotation { name_iid: self.name("waited before, ns"), uint_value: Some(waited) };
            self.begin(own, from, &format!("held by CPU {}", section.cpu.0), vec![waited]);
            self.end(own, until);
            free_from = until;
        }
        let held = self.counter(own, "held", "%");
        let waiting = self.counter(own, "CPUs that wait", "CPUs");
        let Window { from, resolution, .. } = tracks.window;
        let whole = resolution.picoseconds().max(1) as f64;
        let at = |span: u64| tracks.nanoseconds(from + resolution * span);
        for (&span, of) in &course.uses {
            self.value(held, at(span), 100.0 * of.held.picoseconds() as f64 / whole);
            self.value(waiting, at(span), of.waited.picoseconds() as f64 / whole);
            if !course.uses.contains_key(&(span + 1)) {
                self.value(held, at(span + 1), 0.0);
                self.value(waiting, at(span + 1), 0.0);
            }
        }
    }

    /// What runs sample, but for what is 0 all the time; the value that a series has when the window begins is the last before it.
    fn series(&mut self, tracks: &Tracks, parent: Track, samples: &[Sample]) {
        let mut all: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            all.entry(sample.name).or_default().push(sample);
        }
        let Window { from, until, .. } = tracks.window;
        for (name, samples) in all {
            let before = samples.iter().take_while(|of| of.seconds < from.seconds()).count();
            let shown = samples[before.saturating_sub(1)..].iter();
            let shown = shown.take_while(|of| of.seconds <= until.seconds());
            if shown.clone().all(|sample| sample.value == 0.0) {
                continue;
            }
            let track = self.counter(parent, &title_of(name), unit_of(name).name());
            for sample in shown {
                let time = Time::from_seconds(sample.seconds).max(from);
                self.value(track, tracks.nanoseconds(time), sample.value);
            }
        }
    }

    /// The trace, which begins with all names.
    fn finish(mut self) -> Trace {
        let names: Vec<Name> =
            self.names.iter().map(|(name, &iid)| Name { iid, name: name.clone() }).collect();
        let first = TracePacket {
            trusted_packet_sequence_id: SEQUENCE,
            sequence_flags: CLEARED | NEEDS_NAMES,
            interned_data: Some(InternedData { event_names: names.clone(), debug_annotation_names: names }),
            ..TracePacket::default()
        };
        self.packets.insert(0, first);
        Trace { packet: self.packets }
    }
}

#[cfg(test)]
mod tests;
