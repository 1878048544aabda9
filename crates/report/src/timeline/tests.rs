//! Traces of small runs, read back as Perfetto reads them.

use super::messages::{EventType, Trace};
use super::{Course, trace};
use lab::scenario::{Scenario, load_machine};
use machine::Time;
use machine::timeline::Window;
use mm::Category;
use prost::Message;
use sim::Run;
use sim::outcome::Outcome;
use sim::progress::RunProgress;
use sim::run_event::{FileWrite, Happening, RunEvent};
use std::collections::{BTreeMap, BTreeSet};

/// A short run of a scenario's first variant.
fn short_run(name: &str) -> Run {
    let mut scenario = Scenario::load(name).unwrap();
    (scenario.workload.warm_milliseconds, scenario.workload.milliseconds) = (50, 200);
    let machine = load_machine(&scenario.machine).unwrap();
    scenario.run(&scenario.variants[0], 1, &machine, &BTreeMap::new()).unwrap()
}

fn with_timeline(run: &Run, resolution_ns: u64) -> Outcome {
    let resolution = Time::from_nanoseconds(resolution_ns);
    let window = Window { from: Time::ZERO, until: Time::NEVER, resolution };
    sim::run_with_timeline(run, window, &RunProgress::default()).unwrap()
}

fn of(outcome: &Outcome) -> Course<'_> {
    let Outcome { timeline, series, events, .. } = outcome;
    Course { timeline: timeline.as_ref().unwrap(), series, events }
}

/// What a trace has: process groups, and for each track the name and nanoseconds of its slices, by depth.
#[derive(Default)]
struct Read {
    processes: Vec<String>,
    tracks: BTreeMap<u64, String>,
    slices: BTreeMap<(String, usize), Vec<(String, u64)>>,
    counters: BTreeSet<String>,
    arrows: usize,
}

/// Reads a trace, and holds what Perfetto expects of one.
fn read(bytes: &[u8]) -> Read {
    let trace = Trace::decode(bytes).unwrap();
    assert_eq!(trace.encode_to_vec(), bytes, "a round trip");
    let mut read = Read::default();
    let interned = trace.packet[0].interned_data.as_ref().unwrap();
    let names: BTreeMap<u64, &str> =
        interned.event_names.iter().map(|name| (name.iid, name.name.as_str())).collect();
    let mut open: BTreeMap<u64, Vec<(&str, u64)>> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut flows: BTreeSet<u64> = BTreeSet::new();
    for packet in &trace.packet {
        if let Some(track) = &packet.track_descriptor {
            assert!(track.parent_uuid.is_none_or(|parent| read.tracks.contains_key(&parent)));
            assert!(read.tracks.insert(track.uuid, track.name.clone()).is_none());
            read.processes.extend(track.process.iter().map(|process| process.process_name.clone()));
        }
        let Some(event) = &packet.track_event else { continue };
        let now = packet.timestamp.unwrap();
        let track = &read.tracks[&event.track_uuid];
        let of_track = open.entry(event.track_uuid).or_default();
        match EventType::try_from(event.r#type).unwrap() {
            EventType::SliceBegin => {
                assert!(last.insert(event.track_uuid, now).is_none_or(|last| last <= now));
                of_track.push((names[&event.name_iid], now));
            }
            EventType::SliceEnd => {
                assert!(last.insert(event.track_uuid, now).is_none_or(|last| last <= now));
                let (name, from) = of_track.pop().expect("a slice that began");
                let slices = read.slices.entry((track.clone(), of_track.len())).or_default();
                slices.push((name.into(), now - from));
            }
            EventType::Instant => {
                flows.extend(&event.flow_ids);
                assert!(event.terminating_flow_ids.iter().all(|flow| flows.remove(flow)));
                read.arrows += event.terminating_flow_ids.len();
            }
            EventType::Counter => {
                assert!(event.double_counter_value.is_some_and(|value| value >= 0.0));
                read.counters.insert(track.clone());
            }
            EventType::Unspecified => panic!("{event:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    assert!(flows.is_empty(), "every arrow arrives");
    read
}

/// The largest piece that a slice is called by.
fn largest(name: &str) -> &str {
    name.trim_start_matches("mostly idle, ").trim_end_matches(" and others")
}

#[test]
fn a_run_is_the_same_with_a_timeline() {
    for name in ["page_fault1", "working-set-shift-1g"] {
        let run = short_run(name);
        let mut outcome = with_timeline(&run, 10_000);
        assert!(outcome.timeline.take().is_some());
        assert_eq!(outcome, sim::run(&run).unwrap(), "{name}");
    }
}

#[test]
fn runs_are_groups_of_one_trace() {
    let host = with_timeline(&short_run("working-set-shift-1g"), 10_000);
    let page_fault = with_timeline(&short_run("page_fault1"), 10_000);
    let both = read(&trace([("one".to_string(), of(&host)), ("two".to_string(), of(&page_fault))]));
    assert_eq!(both.processes, ["one", "two"]);
    let read = read(&trace([("one".to_string(), of(&host))]));
    let programs: BTreeSet<&str> = host.programs.iter().map(|of| of.name.as_str()).collect();
    let is_program = |(name, _): &(String, u64)| programs.contains(largest(name));
    let of_cpus = |depth| {
        let cpus =
            read.slices.iter().filter(move |((track, at), _)| track.starts_with("CPU ") && *at == depth);
        cpus.flat_map(|(_, slices)| slices)
    };
    assert!(of_cpus(0).count() > 0 && of_cpus(0).all(is_program));
    let is_category = |(name, _): &(String, u64)| Category::find(largest(name)).is_some();
    assert!(of_cpus(1).count() > 0 && of_cpus(1).all(is_category), "what a task's time goes to");
    for counter in ["held", "CPUs that wait", "memory in pagesets (pcp_pages)"] {
        assert!(read.counters.contains(counter), "{counter} of {:?}", read.counters);
    }
    assert!(read.tracks.values().any(|name| name == "zone->lock, node 0 Normal"), "{:?}", read.tracks);
}

/// With a fine resolution, slices of a CPU come to its time by cause.
#[test]
fn slices_add_up_to_the_time_by_cause() {
    let mut run = short_run("working-set-shift-1g");
    let host = &mut run.workload;
    host.milliseconds = 20;
    let outcome = with_timeline(&run, 1);
    let read = read(&trace([("one".to_string(), of(&outcome))]));
    for (category, seconds) in outcome.cpu_seconds.iter().filter(|(name, _)| **name != "idle") {
        let slices = read.slices.values().flatten().filter(|(name, _)| name == category);
        assert!(slices.clone().count() > 0 || *seconds == 0.0, "{category}");
        let shown = slices.clone().map(|(_, nanoseconds)| nanoseconds).sum::<u64>() as f64 / 1e9;
        // The ends of slices are whole nanoseconds.
        let off = slices.count() as f64 * 1e-9;
        assert!((shown - seconds).abs() <= off + 0.01 * seconds, "{category}: {shown} of {seconds} s");
    }
}

/// With a coarse resolution, a CPU that works now and then has slices with gaps in them, which do not pass for work.
#[test]
fn gaps_that_are_put_together_are_said() {
    let outcome = with_timeline(&short_run("working-set-shift-1g"), 5_000_000);
    let bytes = trace([("one".to_string(), of(&outcome))]);
    let slices = read(&bytes).slices;
    let all = || slices.iter().filter(|((track, depth), _)| track.starts_with("CPU ") && *depth == 1);
    let of = |is_idle: bool| {
        let slices = all().flat_map(|(_, slices)| slices);
        let wanted = slices.filter(|(name, _)| name.starts_with("mostly idle, ") == is_idle);
        wanted.map(|(_, nanoseconds)| nanoseconds).sum::<u64>() as f64 / 1e9
    };
    let busy: f64 = outcome.cpu_seconds.iter().filter(|(name, _)| **name != "idle").map(|of| of.1).sum();
    assert!(
        of(false) <= 2.0 * busy,
        "{} of slices that are busy for half of their time, {busy} s busy",
        of(false)
    );
    assert!(of(true) + of(false) >= 0.99 * busy);
}

#[test]
fn an_empty_trace_is_one() {
    assert_eq!(read(&trace([])).processes.len(), 0);
}

#[test]
fn events_are_slices_that_do_not_overlap() {
    let write = |seconds, took_seconds| {
        let write = FileWrite { file: "vm.nr_hugepages".into(), value: "8".into(), ..FileWrite::default() };
        RunEvent { seconds, took_seconds, what: Happening::Write(write) }
    };
    let mut outcome = with_timeline(&short_run("page_fault1"), 10_000);
    // Measuring begins after 50 ms. The first ends before, the third has not ended.
    outcome.events = vec![write(0.01, Some(0.02)), write(0.06, Some(0.04)), write(0.07, None)];
    let read = read(&trace([("one".to_string(), of(&outcome))]));
    let slices: Vec<_> =
        read.slices.values().flatten().filter(|(name, _)| name.starts_with("vm.nr_hugepages=8")).collect();
    let [whole, cut_off] = slices[..] else { panic!("{slices:?}") };
    assert_eq!((&*whole.0, whole.1), ("vm.nr_hugepages=8", 40_000_000));
    assert_eq!((&*cut_off.0, cut_off.1), ("vm.nr_hugepages=8: cut off by the end of the run", 0));
}
