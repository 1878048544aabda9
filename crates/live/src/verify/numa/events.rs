//! What a kernel's probes say, put together to hint faults and other decisions.
//!
//! ```text
//!   of a thread   mis ─► should ─► shouldret ─► misret ─► (the page moves) ─► fault      one Fault
//!                 addr   source,   answer       node      last cpupid, node, flags
//!                        CPU
//!   of any        work, cpn, cpnret, setnuma, sched_*                                    a Decision each
//! ```
//!
//! Between the first and the last event of a fault its thread does nothing else that is watched, though it may sleep and
//! others run. Faults are put in the order in which they began, as each sees who was there last when it begins; where two threads
//! fault on a page, the one that began first may end last. A fault that was under way when the recording began has no beginning
//! and counts as lost.

use std::collections::BTreeMap;

use super::recording::{Decision, Fault, Filter, is_of_a_folio};
use crate::record::tracepoints::{Tracepoint, tracepoint};

/// The group of our probes.
pub const GROUP: &str = "mmtwin_numa";
/// Most fields that one has.
const MOST_FIELDS: usize = 9;

/// What an event is of a fault, if it is of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `mpol_misplaced` is called.
    Misplaced,
    /// `should_numa_migrate_memory` is called.
    Filter,
    /// It answers.
    FilterAnswer,
    /// `mpol_misplaced` answers.
    MisplacedAnswer,
    /// `task_numa_fault` is called.
    Fault,
    /// Something else that is kept as it is.
    Decision,
}

/// All that is watched: probes of our own, and tracepoints of the scheduler, the last of which is there from 6.7 on.
pub const WATCHED: [Tracepoint<Kind>; 14] = [
    tracepoint(GROUP, "mis", Kind::Misplaced, &["addr"]),
    tracepoint(GROUP, "should", Kind::Filter, &["src", "dst_cpu"]),
    tracepoint(GROUP, "shouldret", Kind::FilterAnswer, &["ret"]),
    tracepoint(GROUP, "misret", Kind::MisplacedAnswer, &["nid"]),
    tracepoint(GROUP, "fault", Kind::Fault, &["last_cpupid", "mem_node", "pages", "flags"]),
    tracepoint(GROUP, "setnuma", Kind::Decision, &["nid"]),
    tracepoint(GROUP, "cpn", Kind::Decision, &["start", "end"]),
    tracepoint(GROUP, "cpnret", Kind::Decision, &["n"]),
    tracepoint(
        GROUP,
        "work",
        Kind::Decision,
        &["seq", "period", "period_max", "pref", "total", "loc_remote", "loc_local", "loc_fail", "migrated"],
    ),
    tracepoint("sched", "sched_migrate_task", Kind::Decision, &["pid", "orig_cpu", "dest_cpu"]),
    tracepoint("sched", "sched_move_numa", Kind::Decision, &["src_nid", "dst_nid"]),
    tracepoint("sched", "sched_stick_numa", Kind::Decision, &["src_nid", "dst_nid"]),
    tracepoint("sched", "sched_swap_numa", Kind::Decision, &["src_nid", "dst_nid"]),
    tracepoint(
        "sched",
        "sched_skip_vma_numa",
        Kind::Decision,
        &["numa_scan_offset", "vm_start", "vm_end", "reason"],
    ),
];

/// One event of the trace.
#[derive(Clone, Copy)]
pub struct Event {
    /// When, nanoseconds.
    pub time: u64,
    /// Where.
    pub cpu: u16,
    /// The thread that ran.
    pub tid: u32,
    /// What.
    pub of: &'static Tracepoint<Kind>,
    /// Its fields, as many as there are.
    pub values: [u64; MOST_FIELDS],
}

/// What a trace came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Composed {
    /// Hint faults, in the order in which they began.
    pub faults: Vec<Fault>,
    /// Everything else.
    pub decisions: Vec<Decision>,
    /// Faults whose beginning is not there.
    pub incomplete: u64,
}

/// What is known of a fault that has begun.
#[derive(Clone, Copy, Default)]
struct Begun {
    /// Which event that was.
    number: usize,
    page: u64,
    asked: Option<(u64, u64)>,
    filter: Option<Filter>,
    misplaced: Option<Option<u8>>,
}

/// Puts events together, which are in the order of time. Faults are those of `threads`; what others do with their memory, such as
/// init with huge pages, is not judged.
pub fn compose(events: &[Event], threads: &[u32]) -> Result<Composed, String> {
    let start = events.first().map_or(0, |event| event.time);
    let mut faults = Faults::default();
    let mut decisions = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let time = (event.time - start) / 1000;
        if event.of.kind == Kind::Decision {
            let fields = event.of.fields.iter().zip(&event.values);
            let fields = fields.map(|(name, &value)| (name.to_string(), value));
            decisions.push(Decision::new(time, event.cpu, event.tid, event.of.name, fields));
        } else if threads.contains(&event.tid) {
            faults.add(number, time, event)?;
        }
    }
    let Faults { mut ended, incomplete, .. } = faults;
    ended.sort_unstable_by_key(|&(begun, _)| begun);
    let faults = ended.into_iter().map(|(_, fault)| fault).collect();
    Ok(Composed { faults, decisions, incomplete })
}

impl Event {
    fn wrong(&self) -> String {
        format!("`{}` of thread {} says {:?}", self.of.name, self.tid, self.values)
    }

    fn node(&self, value: u64) -> Result<u8, String> {
        u8::try_from(value).map_err(|_| self.wrong())
    }
}

/// Hint faults that are put together.
#[derive(Default)]
struct Faults {
    /// The fault that each thread is in.
    begun: BTreeMap<u32, Begun>,
    /// With the number of the event that each began with.
    ended: Vec<(usize, Fault)>,
    /// Those whose beginning is not there.
    incomplete: u64,
}

impl Faults {
    /// Adds event `number`, which was at `time`.
    fn add(&mut self, number: usize, time: u64, event: &Event) -> Result<(), String> {
        let [first, second, ..] = event.values;
        match event.of.kind {
            Kind::Misplaced => {
                self.begun.insert(event.tid, Begun { number, page: first >> 12, ..Begun::default() });
            }
            Kind::Filter => {
                if let Some(own) = self.begun.get_mut(&event.tid) {
                    own.asked = Some((first, second));
                }
            }
            Kind::FilterAnswer => {
                if let Some(own) = self.begun.get_mut(&event.tid)
                    && let Some((source, cpu)) = own.asked
                {
                    let cpu = u16::try_from(cpu).map_err(|_| event.wrong())?;
                    own.filter = Some(Filter { source: event.node(source)?, cpu, answer: first != 0 });
                }
            }
            Kind::MisplacedAnswer => {
                if let Some(own) = self.begun.get_mut(&event.tid) {
                    // Minus one: it stays.
                    own.misplaced = Some(if first as i64 == -1 { None } else { Some(event.node(first)?) });
                }
            }
            Kind::Fault => self.end(time, event)?,
            Kind::Decision => {}
        }
        Ok(())
    }

    /// A thread counts its fault.
    fn end(&mut self, time: u64, event: &Event) -> Result<(), String> {
        let whole = self.begun.remove(&event.tid).and_then(|own| Some((own, own.misplaced?)));
        let Some((own, misplaced)) = whole.filter(|(own, _)| own.asked.is_some() == own.filter.is_some())
        else {
            self.incomplete += 1;
            return Ok(());
        };
        let [last, on, pages, flags, ..] = event.values;
        let pages = u32::try_from(pages).ok().filter(|&pages| is_of_a_folio(pages.into()));
        let fault = Fault {
            time,
            cpu: event.cpu,
            tid: event.tid,
            page: own.page,
            misplaced,
            filter: own.filter,
            last: last as u32,
            node: event.node(on)?,
            flags: u8::try_from(flags).map_err(|_| event.wrong())?,
            pages: pages.ok_or_else(|| event.wrong())?,
        };
        self.ended.push((own.number, fault));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(microseconds: u64, tid: u32, name: &str, values: &[i64]) -> Event {
        let of = WATCHED.iter().find(|of| of.name == name).unwrap();
        assert_eq!(values.len(), of.fields.len());
        let mut all = [0; MOST_FIELDS];
        all.iter_mut().zip(values).for_each(|(all, &value)| *all = value as u64);
        Event { time: 5_000_999 + 1000 * microseconds, cpu: (tid % 4) as u16, tid, of, values: all }
    }

    #[test]
    fn events_of_threads_become_faults_and_decisions() {
        let events = [
            event(0, 1, "mis", &[0x7000]),
            event(0, 1, "misret", &[-1]),
            event(0, 1, "fault", &[0, 0, 512, 8]),
            event(0, 7, "mis", &[0x1000_0000_1000]),
            event(1, 6, "mis", &[0x5000]),
            event(2, 7, "should", &[0, 3]),
            event(3, 7, "shouldret", &[1]),
            event(4, 6, "misret", &[-1]),
            event(5, 7, "misret", &[1]),
            event(6, 6, "fault", &[0x1f_ffff, 1, 1, 8]),
            event(7, 0, "sched_migrate_task", &[7, 2, 3]),
            event(9, 7, "fault", &[0x205, 1, 512, 1]),
            event(9, 7, "setnuma", &[1]),
        ];
        let composed = compose(&events, &[6, 7]);
        let filter = Some(Filter { source: 0, cpu: 3, answer: true });
        let local = Fault {
            time: 6,
            cpu: 2,
            tid: 6,
            page: 5,
            misplaced: None,
            filter: None,
            last: 0x1f_ffff,
            node: 1,
            flags: 8,
            pages: 1,
        };
        let moved = Fault {
            time: 9,
            cpu: 3,
            tid: 7,
            page: 0x1_0000_0001,
            misplaced: Some(1),
            filter,
            last: 0x205,
            flags: 1,
            pages: 512,
            ..local
        };
        let fields = |fields: &[(&str, u64)]| -> Vec<(String, u64)> {
            fields.iter().map(|&(name, value)| (name.into(), value)).collect()
        };
        let decisions = vec![
            Decision::new(
                7,
                0,
                0,
                "sched_migrate_task",
                fields(&[("pid", 7), ("orig_cpu", 2), ("dest_cpu", 3)]),
            ),
            Decision::new(9, 3, 7, "setnuma", fields(&[("nid", 1)])),
        ];
        assert_eq!(composed, Ok(Composed { faults: vec![moved, local], decisions, incomplete: 0 }));
    }

    #[test]
    fn what_lacks_a_part_is_incomplete() {
        let incomplete = |events: &[Event]| compose(events, &[7]).map(|composed| composed.incomplete);
        let (mis, fault) = (event(0, 7, "mis", &[0x1000]), event(9, 7, "fault", &[0, 1, 1, 8]));
        let (asked, misret) = (event(1, 7, "should", &[0, 3]), event(5, 7, "misret", &[-1]));
        assert_eq!(incomplete(&[mis, misret, fault]), Ok(0));
        assert_eq!(incomplete(&[misret, fault]), Ok(1));
        assert_eq!(incomplete(&[mis, fault]), Ok(1));
        assert_eq!(incomplete(&[mis, asked, misret, fault]), Ok(1));
        assert_eq!(incomplete(&[event(9, 7, "shouldret", &[1]), fault, fault]), Ok(2));
    }

    #[test]
    fn what_no_kernel_says_is_refused() {
        let mis = event(0, 7, "mis", &[0x1000]);
        let far = [mis, event(1, 7, "misret", &[256])];
        assert!(compose(&far, &[7]).unwrap_err().starts_with("`misret` of thread 7 says [256, "));
        let large = [mis, event(1, 7, "misret", &[-1]), event(2, 7, "fault", &[0, 1, 15, 8])];
        assert!(compose(&large, &[7]).unwrap_err().starts_with("`fault` of thread 7 says [0, 1, 15, 8, "));
    }
}
