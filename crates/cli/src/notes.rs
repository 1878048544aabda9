//! What a reader of numbers must know of the runs that they come from: caveats, and what happened that should not.
//!
//! ```text
//!   the machine's profile has no [blocks] ...                                    all runs say so
//!   6.1, seeds 1, 3: 2 threads of build were cut off
//!   6.1, seeds 1, 2: out of memory 3 times, first at 3.204 s: box has a memory.max of 64.0 MiB ...
//! ```

use lab::results::Record;

/// The notes of runs, each under its variant. [`crate::events`] shows what happened.
pub fn of_runs(records: &[Record]) -> String {
    lines(said(&by_variant(records)))
}

/// Runs with the names of their variants.
pub fn by_variant(records: &[Record]) -> Vec<(&str, &Record)> {
    records.iter().map(|record| (record.run.variant.as_str(), record)).collect()
}

/// The notes of the runs of a comparison, each with the name of its arm, and what happened in them.
pub fn of_arms(named: &[(&str, &Record)]) -> String {
    lines(said(named).into_iter().chain(happened(named)))
}

/// Lines below a table.
fn lines(notes: impl IntoIterator<Item = String>) -> String {
    let text: String = notes.into_iter().map(|note| format!("\n{note}")).collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// The notes of runs. One that all runs have, or several seeds of one name, is there once.
fn said(named: &[(&str, &Record)]) -> Vec<String> {
    let of_all =
        |note: &&String| named.len() > 1 && named.iter().all(|(_, record)| record.notes.contains(*note));
    let shared = named.iter().take(1).flat_map(|(_, record)| &record.notes).filter(of_all);
    let mut groups: Vec<(&str, &str, Vec<u64>)> = Vec::new();
    for (name, Record { run, notes, .. }) in named {
        for note in notes.iter().filter(|note| !of_all(note)) {
            match groups.iter_mut().find(|(of, known, _)| of == name && known == note) {
                Some((.., seeds)) => seeds.push(run.seed),
                None => groups.push((name, note, vec![run.seed])),
            }
        }
    }
    let line = |(name, note, seeds): (&str, &str, Vec<u64>)| format!("{name}, {}: {note}", of_seeds(&seeds));
    shared.cloned().chain(groups.into_iter().map(line)).collect()
}

/// Events of one kind in the runs of one name.
struct Events<'n> {
    name: &'n str,
    what: String,
    seeds: Vec<u64>,
    times: u64,
    /// When the first one was, and the rest of it.
    first: (f64, String),
}

/// The events of runs that have a note, those of one kind together.
fn happened(named: &[(&str, &Record)]) -> Vec<String> {
    let mut kinds: Vec<Events> = Vec::new();
    for (name, Record { run, events, .. }) in named {
        for event in events {
            let Some((what, rest)) = event.note() else { continue };
            match kinds.iter_mut().find(|known| known.name == *name && known.what == what) {
                Some(known) => {
                    known.times += 1;
                    if known.seeds.last() != Some(&run.seed) {
                        known.seeds.push(run.seed);
                    }
                }
                None => kinds.push(Events {
                    name,
                    what,
                    seeds: vec![run.seed],
                    times: 1,
                    first: (event.seconds, rest),
                }),
            }
        }
    }
    let line = |Events { name, what, seeds, times, first: (seconds, rest) }: Events| {
        let often = if times == 1 { "".into() } else { format!(" {times} times, first") };
        format!("{name}, {}: {what}{often} at {seconds:.3} s: {rest}", of_seeds(&seeds))
    };
    kinds.into_iter().map(line).collect()
}

fn of_seeds(seeds: &[u64]) -> String {
    let noun = if seeds.len() == 1 { "seed" } else { "seeds" };
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    format!("{noun} {}", seeds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::{Scenario, load_machine};
    use sim::outcome::Outcome;
    use sim::run_event::{Happening, Killed, RunEvent};
    use std::collections::BTreeMap;

    fn record(seed: u64, notes: &[&str], events: Vec<RunEvent>) -> Record {
        let scenario = Scenario::load("page_fault1").unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let run = scenario.run("pcp-base", seed, &machine, &BTreeMap::new()).unwrap();
        let notes = notes.iter().map(|note| note.to_string()).collect();
        Record::new(String::new(), &run, &Outcome { notes, events, ..Outcome::default() })
    }

    #[test]
    fn what_all_runs_say_is_said_once() {
        let records = [record(1, &["a", "b"], Vec::new()), record(2, &["b"], Vec::new())];
        assert_eq!(of_runs(&records), "\n\nb\npcp-base, seed 1: a");
        assert_eq!(of_runs(&records[1..]), "\n\npcp-base, seed 2: b");
        assert_eq!(of_runs(&[record(1, &[], Vec::new())]), "");
    }

    #[test]
    fn what_happened_often_is_told_once() {
        let kill = |seconds| {
            let killed = vec![Killed { program: "app".into(), mib: 24.0, is_chosen: true }];
            let what = Happening::OomKill { cause: "no free page".into(), killed };
            RunEvent { seconds, took_seconds: None, what }
        };
        let records = [record(1, &[], vec![kill(1.25), kill(2.0)]), record(3, &["a"], vec![kill(0.5)])];
        let arms: Vec<(&str, &Record)> = records.iter().map(|record| ("6.1", record)).collect();
        let killed = "no free page; killed: a process of app (24.0 MiB in memory, the worst)";
        assert_eq!(
            of_arms(&arms),
            format!("\n\n6.1, seed 3: a\n6.1, seeds 1, 3: out of memory 3 times, first at 1.250 s: {killed}")
        );
        assert_eq!(
            of_arms(&arms[1..]),
            format!("\n\n6.1, seed 3: a\n6.1, seed 3: out of memory at 0.500 s: {killed}")
        );
        assert_eq!(of_runs(&records[..1]), "");
    }
}
