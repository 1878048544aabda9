//! Timelines for Perfetto (<https://ui.perfetto.dev>): what every CPU did when, for several runs in one trace.
//!
//! ```text
//!   run ─► process "patch9, seed 1"
//!            ├─ CPUs ── CPU 0   ▮ database      ▮▮ [kswapd] ▮▮           by task, where several programs run
//!            │                  ▮ user ▮ fault  ▮▮ reclaim  ▮▮           by what the time went to
//!            │          CPU 1   ...            ◄── shoot-down: an arrow from the sender to each target
//!            ├─ Locks ─ zone->lock, node 0 Normal   long sections by holder; how much held, how many wait
//!            └─ Series: free pages, pagesets, generations, ...
//! ```
//!
//! Perfetto cannot compare two traces, so variants are process groups of one. Times count from the start of measuring.

mod messages;

use crate::series::kind_of;
use machine::timeline::{LockCourse, Section, Shootdown, Slice, Window};
use machine::{Cpu, Time};
use messages::{
    ChildOrdering, CounterDescriptor, DebugAnnotation, EventType, InternedData, Name, ProcessDescriptor,
    Trace, TracePacket, TrackDescriptor, TrackEvent,
};
use mm::Category;
use prost::Message;
use sim::outcome::{Outcome, Sample};
use sim::timeline::RunTimeline;
use std::collections::BTreeMap;

/// All events are of one writer.
const SEQUENCE: u32 = 1;
/// Names by number are known from the first packet on.
const CLEARED: u32 = 1;
const NEEDS_NAMES: u32 = 2;
/// The least share of a slice, in percent, that is said.
const LEAST_SHARE: u64 = 1;

/// A trace of runs, each with a title. Runs without a timeline are left out.
pub fn trace<'a>(runs: impl IntoIterator<Item = (String, &'a Outcome)>) -> Vec<u8> {
    let mut writer = Writer::default();
    for (title, outcome) in runs {
        if let Some(timeline) = &outcome.timeline {
            writer.run(title, timeline, outcome);
        }
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
    cpus: Vec<Track>,
}

impl Tracks {
    /// A time as the trace has it.
    fn nanoseconds(&self, time: Time) -> u64 {
        time.saturating_sub(self.start).picoseconds() / 1000
    }
}

impl Writer {
    fn run(&mut self, title: String, timeline: &RunTimeline, outcome: &Outcome) {
        self.processes += 1;
        let process = ProcessDescriptor { pid: self.processes, process_name: title };
        let run = self.track(TrackDescriptor {
            process: Some(process),
            child_ordering: ChildOrdering::Explicit as i32,
            ..TrackDescriptor::default()
        });
        let all = self.child(run, "CPUs", 0);
        let cpus = timeline.noted.cpus();
        let tracks = Tracks {
            start: timeline.start,
            window: timeline.noted.window(),
            cpus: cpus.map(|cpu| self.child(all, &format!("CPU {}", cpu.0), cpu.0.into())).collect(),
        };
        for cpu in timeline.noted.cpus() {
            self.cpu(&tracks, timeline, cpu);
        }
        for shootdown in timeline.noted.shootdowns() {
            self.shootdown(&tracks, shootdown);
        }
        let locks = self.child(run, "Locks", 1);
        for (id, course) in timeline.noted.locks() {
            self.lock(&tracks, locks, &timeline.locks[id], course);
        }
        let series = self.child(run, "Series", 2);
        self.series(&tracks, series, &outcome.series);
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
    fn cpu(&mut self, tracks: &Tracks, timeline: &RunTimeline, cpu: Cpu) {
        let track = tracks.cpus[cpu.index()];
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
        let Some(&(largest, _)) = slice.parts.first() else { return };
        let whole = (slice.until - slice.from).picoseconds().max(1);
        let percent = |time: Time| (100 * time.picoseconds() + whole / 2) / whole;
        let parts = slice.parts.iter().map(|&(what, time)| (what, percent(time)));
        let parts: Vec<(u32, u64)> = parts.filter(|&(_, share)| share >= LEAST_SHARE).collect();
        match parts.as_slice() {
            [] | [_] => self.begin(track, nanoseconds, name(largest), Vec::new()),
            _ => {
                let shares = parts.iter().map(|&(what, share)| DebugAnnotation {
                    name_iid: self.name(&format!("{}, %", name(what))),
                    uint_value: share,
                });
                let shares = shares.collect();
                self.begin(track, nanoseconds, &format!("{} and others", name(largest)), shares);
            }
        }
    }

    /// An arrow from the sender of interrupts to each target.
    fn shootdown(&mut self, tracks: &Tracks, shootdown: &Shootdown) {
        let &Shootdown { initiator, category, from, until, ref targets } = shootdown;
        let first = self.flows + 1;
        self.flows += targets.len() as u64;
        let cause = Category::ALL[category as usize].name();
        let [sends, took] = [&format!("{cause}: interrupts sent"), "took, ns"].map(|name| self.name(name));
        let duration = DebugAnnotation { name_iid: took, uint_value: (until - from).picoseconds() / 1000 };
        let sent = TrackEvent {
            name_iid: sends,
            track_uuid: tracks.cpus[initiator.index()],
            flow_ids: (first..=self.flows).collect(),
            debug_annotations: vec![duration],
            ..TrackEvent::default()
        };
        self.event(tracks.nanoseconds(from), EventType::Instant, sent);
        let name_iid = self.name("interrupt received");
        for (flow, &(cpu, arrival)) in (first..).zip(targets) {
            let received = TrackEvent {
                name_iid,
                track_uuid: tracks.cpus[cpu.index()],
                terminating_flow_ids: vec![flow],
                ..TrackEvent::default()
            };
            self.event(tracks.nanoseconds(arrival), EventType::Instant, received);
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
            let waited = DebugAnnotation { name_iid: self.name("waited before, ns"), uint_value: waited };
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

    /// What runs sample.
    fn series(&mut self, tracks: &Tracks, parent: Track, samples: &[Sample]) {
        let mut known: BTreeMap<&str, Track> = BTreeMap::new();
        let window = tracks.window.from.seconds()..=tracks.window.until.seconds();
        for sample in samples.iter().filter(|sample| window.contains(&sample.seconds)) {
            let track = match known.get(sample.name) {
                Some(&track) => track,
                None => {
                    let kind = kind_of(sample.name);
                    let title = match kind.title {
                        "" => sample.name.into(),
                        title => format!("{title} ({})", sample.name),
                    };
                    let track = self.counter(parent, &title, kind.unit.name());
                    known.insert(sample.name, track);
                    track
                }
            };
            self.value(track, tracks.nanoseconds(Time::from_seconds(sample.seconds)), sample.value);
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
