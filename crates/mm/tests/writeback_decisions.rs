//! Throttling of tasks that dirty pages, compared with Linux 6.18.44: five runs with a slow disk
//! (`data/recordings/writeback-6.18.44`), event by event.
//!
//! An event has the inputs of a decision and its result, with two exceptions. A flusher's share of the limit
//! is rounded; each share that rounds to the recorded one is tried. The smoothed bandwidth is recorded only
//! where rates are estimated, which is also where it is used next; if the flusher has estimated rates in
//! between, one bandwidth has to explain the whole event.

use machine::PageSize;
use mm::jiffies::HZ;
use mm::sysctl::DirtySettings;
use mm::writeback::Dirtier;
use mm::writeback::policy::{self, DirtyThrottleControl, Rates};
use std::collections::HashMap;
use std::path::Path;

const CASES: [&str; 5] = ["one-writer", "two-writers", "eight-writers", "limit-changes", "fast-disk"];
const PAGE_SIZE: PageSize = PageSize::Kib4;
/// KiB of a page: events have rates in KiB a second.
const KIB: u64 = 4;

/// A line of a recording.
struct Event {
    pid: u32,
    kind: String,
    fields: HashMap<String, i64>,
}

impl Event {
    fn get(&self, field: &str) -> u64 {
        self.fields[field] as u64
    }

    /// A rate in pages a second.
    fn rate(&self, field: &str) -> u64 {
        self.get(field) / KIB
    }
}

fn events(case: &str) -> Vec<Event> {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/recordings/writeback-6.18.44");
    let file = std::fs::File::open(recordings.join(format!("{case}.trace.zst"))).unwrap();
    let text = std::io::read_to_string(zstd::Decoder::new(file).unwrap()).unwrap();
    let event = |line: &str| {
        let mut words = line.split(' ');
        let pid = words.next()?.parse().ok()?;
        let kind = words.nth(2)?.to_string();
        let number = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        Some(Event { pid, kind, fields: words.filter_map(number).collect() })
    };
    text.lines().filter_map(event).collect()
}

/// The smoothed bandwidths that are recorded near each event, the next one first.
fn bandwidths(events: &[Event]) -> Vec<Vec<u64>> {
    let told: Vec<(usize, u64)> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.kind == "bdi_dirty_ratelimit")
        .map(|(at, event)| (at, event.rate("awrite_bw")))
        .collect();
    let near = |at: usize| {
        let next = told.partition_point(|&(when, _)| when < at);
        let mut near: Vec<u64> =
            [next, next + 1].iter().filter_map(|&i| told.get(i)).map(|&(_, told)| told).collect();
        near.extend(next.checked_sub(1).map(|before| told[before].1));
        near.push(policy::initial_bandwidth(PAGE_SIZE));
        near
    };
    (0..events.len()).map(near).collect()
}

/// The possible states that a `balance_dirty_pages` event decided on, with the limits that the task saw just
/// before.
fn domains(event: &Event, limits: &Event) -> Vec<DirtyThrottleControl> {
    let (setpoint, thresh) = (event.get("setpoint"), limits.get("thresh"));
    let first = (event.get("wb_setpoint") * (thresh + 1)).div_ceil(setpoint);
    let domain = |wb_thresh| DirtyThrottleControl {
        avail: 0,
        dirty: event.get("dirty"),
        thresh,
        bg_thresh: limits.get("bg_thresh"),
        limit: event.get("limit"),
        wb_dirty: event.get("wb_dirty"),
        wb_thresh,
    };
    (first..)
        .take_while(|share| setpoint * share / (thresh + 1) == event.get("wb_setpoint"))
        .map(domain)
        .collect()
}

/// Whether the decision for the task of `event` is the recorded one with this smoothed bandwidth.
fn is_as_told(event: &Event, domain: &DirtyThrottleControl, bandwidth: u64) -> bool {
    let ratelimit = event.rate("dirty_ratelimit");
    let rates = Rates { avg_write_bandwidth: bandwidth, dirty_ratelimit: ratelimit, ..Rates::new(PAGE_SIZE) };
    let task_ratelimit = rates.task_ratelimit(domain.position_ratio(bandwidth));
    if task_ratelimit != event.rate("task_ratelimit") || domain.setpoint() != event.get("setpoint") {
        return false;
    }
    let pauses = policy::pauses(&rates, task_ratelimit, domain.wb_dirty, PAGE_SIZE);
    let (now, ms) = (1 << 32, 1000 / HZ);
    let mut task = Dirtier::new(PAGE_SIZE);
    task.nr_dirtied_pause = event.get("dirtied_pause");
    task.dirty_paused_when = (now as i64 - event.fields["think"] / ms as i64) as u64;
    let verdict = task.pause(now, event.get("dirtied"), task_ratelimit, &pauses);
    verdict.period * ms == event.get("period") && verdict.pause * ms as i64 == event.fields["pause"]
}

#[test]
fn every_pause_is_the_kernels() {
    let (mut told, mut between) = (0, 0);
    for case in CASES {
        let events = events(case);
        let bandwidths = bandwidths(&events);
        let mut limits: HashMap<u32, &Event> = HashMap::new();
        for (at, event) in events.iter().enumerate() {
            if event.kind == "global_dirty_state" {
                limits.insert(event.pid, event);
            }
            if event.kind != "balance_dirty_pages" || !limits.contains_key(&event.pid) {
                continue;
            }
            let (domains, near) = (domains(event, limits[&event.pid]), &bandwidths[at]);
            let fits = |bandwidth: u64| domains.iter().any(|domain| is_as_told(event, domain, bandwidth));
            if near.iter().any(|&bandwidth| fits(bandwidth)) {
                told += 1;
            } else {
                let (least, most) = (near.iter().min().unwrap(), near.iter().max().unwrap());
                assert!((least / 4..=most * 4).any(fits), "{case} {at}: {:?}", event.fields);
                between += 1;
            }
        }
    }
    assert_eq!((told, between), (2614, 148));
}

#[test]
fn every_rate_and_every_limit_that_is_learned_is_the_kernels() {
    let (mut rates_seen, mut limits_seen) = (0, 0);
    for case in CASES {
        let events = events(case);
        let mut limits: HashMap<u32, &Event> = HashMap::new();
        let mut rates: Option<Rates> = None;
        let mut in_force: Option<(u64, u64)> = None;
        for (at, event) in events.iter().enumerate() {
            if event.kind == "global_dirty_state" {
                let (thresh, limit) = (event.get("thresh"), event.get("limit"));
                // A new setting is in force at once, except for a task that looks while it is being written.
                let (before, expected) = in_force.unwrap_or((thresh, thresh));
                assert!(limit == expected || limit == thresh && before != thresh, "{case} {at}: {limit}");
                in_force = Some((if limit == thresh { thresh } else { before }, limit));
                limits_seen += 1;
                limits.insert(event.pid, event);
            }
            if event.kind != "bdi_dirty_ratelimit" {
                continue;
            }
            // The inputs of the estimate are in the event after it.
            let after = |next: &&Event| next.pid == event.pid && next.kind == "balance_dirty_pages";
            let (Some(decision), Some(limits)) = (events[at..].iter().find(after), limits.get(&event.pid))
            else {
                break;
            };
            let (thresh, limit) = (limits.get("thresh"), limits.get("limit"));
            let limit = policy::follow(limit, thresh, decision.get("dirty"));
            in_force = Some((thresh, limit));
            let told = Rates {
                write_bandwidth: event.rate("write_bw"),
                avg_write_bandwidth: event.rate("awrite_bw"),
                dirty_ratelimit: event.rate("dirty_ratelimit"),
                balanced_dirty_ratelimit: event.rate("balanced_dirty_ratelimit"),
            };
            if let Some(before) = rates {
                let fits = |domain: &DirtyThrottleControl| {
                    let (write_bandwidth, avg_write_bandwidth) =
                        (told.write_bandwidth, told.avg_write_bandwidth);
                    let mut rates = Rates { write_bandwidth, avg_write_bandwidth, ..before };
                    let ratio = domain.position_ratio(avg_write_bandwidth);
                    let domain = DirtyThrottleControl { limit: thresh.max(limit), ..*domain };
                    let task_ratelimit = rates.note_dirtied(&domain, ratio, event.rate("dirty_rate"), HZ);
                    rates == told && task_ratelimit == event.rate("task_ratelimit")
                };
                assert!(domains(decision, limits).iter().any(fits), "{case} {at}: {:?}", event.fields);
                rates_seen += 1;
            }
            rates = Some(told);
        }
    }
    assert_eq!((rates_seen, limits_seen), (278, 10_270));
}

#[test]
fn every_slice_of_a_file_is_the_kernels() {
    let mut slices = 0;
    for case in CASES {
        let events = events(case);
        let bandwidths = bandwidths(&events);
        let mut limit = 0;
        for (at, event) in events.iter().enumerate() {
            match event.kind.as_str() {
                "global_dirty_state" => limit = event.get("limit"),
                "writeback_single_inode" => {
                    let chunk = |&bandwidth: &u64| policy::chunk(bandwidth, limit, u64::MAX, PAGE_SIZE);
                    let told = event.get("to_write");
                    assert!(
                        bandwidths[at].iter().map(chunk).any(|chunk| chunk == told),
                        "{case} {at}: {told}"
                    );
                    slices += 1;
                }
                _ => {}
            }
        }
    }
    assert_eq!(slices, 652);
}

#[test]
fn limits_in_bytes_take_the_place_of_ratios() {
    let ratios = DirtySettings::default();
    assert_eq!(policy::dirty_limits(&ratios, PAGE_SIZE, 1_000_000, None), (199_951, 99_853), "in 4096ths");
    let bytes = DirtySettings { dirty_bytes: 64 << 20, dirty_background_bytes: 96 << 20, ..ratios };
    assert_eq!(
        policy::dirty_limits(&bytes, PAGE_SIZE, 1_000_000, None),
        (16_384, 8192),
        "background is half at most"
    );
    // A quarter of the machine's memory, of which a quarter may be dirty, rounded to fractions of a page.
    let (thresh, _) = policy::dirty_limits(&bytes, PAGE_SIZE, 250_000, Some(1_000_000));
    assert_eq!(thresh, 68 * 250_000 / 4096);
}
