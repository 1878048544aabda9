//! The areas that a process has mapped, as a list by address, and which of them keeps its record when areas
//! are split or merged.
//!
//! ```text
//!   other rights, advice or policy for a part      │ new │ the area │ new │
//!   a neighbour is equal then                      │ the area │ ◄─ the neighbour grows ─ │
//!   unmapped, to 6.5 (p4)                          │ the area │      │ new │
//!   unmapped, from 6.6 on (m4)                     │ new │           │ new │
//! ```

use super::Kernel;
use super::scan::Record;
use std::ops::Range;

/// The rights of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    pub read: bool,
    pub write: bool,
    pub exec: bool,
}

/// A range of pages with the same rights (a VMA).
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    pub rights: Rights,
    /// Advised with `MADV_RANDOM`.
    pub is_random: bool,
    /// Bound to node 0, with a policy without MPOL_F_MOF.
    pub is_bound: bool,
    /// The page of the file at the start of the area; `None` for anonymous memory.
    pub file: Option<u64>,
    pub record: Option<Record>,
}

impl Area {
    pub fn pages(&self) -> Range<u64> {
        self.start..self.end
    }

    fn is_like(&self, other: &Area) -> bool {
        self.rights == other.rights && self.is_random == other.is_random && self.is_bound == other.is_bound
    }

    fn goes_on_in(&self, next: &Area) -> bool {
        let of_file = self.file.map(|first| first + (self.end - self.start));
        self.end == next.start && self.is_like(next) && of_file == next.file
    }

    fn part(&self, start: u64, end: u64, record: Option<Record>) -> Area {
        let file = self.file.map(|first| first + (start - self.start));
        Area { start, end, file, record, ..self.clone() }
    }
}

/// Adds an area where nothing is mapped.
pub fn map(areas: &mut Vec<Area>, area: Area) {
    let at = areas.iter().take_while(|other| other.start < area.start).count();
    let joins_before = at > 0 && areas[at - 1].goes_on_in(&area);
    let joins_next = at < areas.len() && area.goes_on_in(&areas[at]);
    match (joins_before, joins_next) {
        (true, true) => areas[at - 1].end = areas.remove(at).end,
        (true, false) => areas[at - 1].end = area.end,
        (false, true) => (areas[at].start, areas[at].file) = (area.start, area.file),
        (false, false) => areas.insert(at, area),
    }
}

pub fn unmap(kernel: Kernel, areas: &mut Vec<Area>, pages: &Range<u64>) {
    let mut left = Vec::new();
    for area in areas.drain(..) {
        if area.end <= pages.start || pages.end <= area.start {
            left.push(area);
            continue;
        }
        if area.start < pages.start {
            let record = area.record.filter(|_| kernel <= Kernel::VmaScanning4);
            left.push(area.part(area.start, pages.start, record));
        }
        if pages.end < area.end {
            left.push(area.part(pages.end, area.end, None));
        }
    }
    *areas = left;
}

/// Splits areas at the ends of `pages` and calls `change` for those inside.
pub fn change(areas: &mut Vec<Area>, pages: &Range<u64>, change: impl Fn(&mut Area)) {
    let mut at = 0;
    while at < areas.len() {
        let area = areas[at].clone();
        let (start, end) = (area.start.max(pages.start), area.end.min(pages.end));
        if start >= end {
            at += 1;
            continue;
        }
        let mut changed = area.part(start, end, area.record);
        change(&mut changed);
        if changed.is_like(&area) {
            at += 1;
            continue;
        }
        let joins_before = start == area.start && at > 0 && areas[at - 1].goes_on_in(&changed);
        let joins_next = end == area.end && at + 1 < areas.len() && changed.goes_on_in(&areas[at + 1]);
        let before = (area.start < start).then(|| area.part(area.start, start, area.record));
        let behind = (end < area.end).then(|| area.part(end, area.end, area.record));
        if joins_before {
            areas[at - 1].end = if joins_next { areas.remove(at + 1).end } else { end };
            areas.splice(at..=at, behind);
        } else if joins_next {
            (areas[at + 1].start, areas[at + 1].file) = (changed.start, changed.file);
            areas.splice(at..=at, before);
        } else {
            let fresh = |piece: Area| Area { record: None, ..piece };
            let pieces: Vec<Area> =
                before.map(fresh).into_iter().chain([changed]).chain(behind.map(fresh)).collect();
            at += pieces.len();
            areas.splice(at - pieces.len()..=at - pieces.len(), pieces);
        }
    }
}
