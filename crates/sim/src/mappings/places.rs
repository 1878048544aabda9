//! Where the pages of a recording lie in an address space whose pages are larger.
//!
//! ```text
//!   recorded     │▪▪▪▪▪▪│▪▪│        │▪▪▪▪▪▪▪▪▪▪▪▪▪│▪▪▪      areas, in pages of 4 KiB; the last one grows
//!                 └──┐   └──┐        └──┐
//!   twin         │■■■■ ■■□□│ │■■□□│ │■■■■ ■■■■ ■■■■ ■■■■│   in pages of 16 KiB: each begins with a page of its own
//! ```
//!
//! Programs ask for memory in pages, so a kernel with larger ones gives them more: an area that is mapped begins with a page
//! of its own and is rounded up to whole pages. Two areas never share a page. One that begins where another one ends, of
//! the same kind, is that one grown (`brk`), and goes on in its last page. What is mapped inside an area stays inside.
//! Addresses keep their remainder by 2 MiB, rounded down to a page, so that what was aligned up to there still is.
//!
//! What is done to a part of a page only gives: the page gets the rights that the part gets. Its contents go when those of
//! all parts that were stored to have gone, and it is unmapped when nothing of it is mapped any more. A program that knows
//! how large pages are would not ask for less.
//!
//! With pages of 4 KiB all is where it was recorded.

use machine::PageSize;
use mm::address_space::Vpn;
use std::collections::BTreeMap;
use std::ops::Range;

/// Recorded pages that were mapped together, or what is left of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    recorded: Range<u64>,
    /// A recorded page at which a page of the twin begins, and which one that is.
    anchor: (u64, Vpn),
    /// The end of the room that it may grow into.
    room: Vpn,
}

/// Pages that a range of recorded ones stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    /// Those of which all that is mapped lies in the range.
    pub whole: Range<Vpn>,
    /// The first and the last one, where the range has only a part of what is mapped of them. They may be the same.
    pub parts: [Option<Vpn>; 2],
}

impl Pages {
    /// All of them.
    pub fn all(&self) -> Range<Vpn> {
        let [first, last] = self.parts;
        first.unwrap_or(self.whole.start)..last.map_or(self.whole.end, |last| last + 1)
    }
}

/// The pages of one address space.
#[derive(Clone, Debug)]
pub(super) struct Places {
    page_size: PageSize,
    /// In the order of recorded pages.
    areas: Vec<Area>,
    /// Behind all room that was ever given.
    end: Vpn,
    /// Which parts of pages the program has stored to, a bit each.
    stored: BTreeMap<Vpn, u16>,
}

impl Places {
    /// An empty address space with pages of this size.
    pub fn new(page_size: PageSize) -> Places {
        Places { page_size, areas: Vec::new(), end: page_size.pages_of_mib(2), stored: BTreeMap::new() }
    }

    fn is_recorded_size(&self) -> bool {
        self.page_size == PageSize::Kib4
    }

    fn page_in(&self, area: &Area, recorded: u64) -> Vpn {
        let (anchor, first) = area.anchor;
        first + (recorded - anchor) / self.page_size.parts()
    }

    /// The last page of an area.
    fn last_page(&self, area: &Area) -> Vpn {
        self.page_in(area, area.recorded.end - 1)
    }

    /// The first area that ends behind a recorded page.
    fn area_from(&self, recorded: u64) -> usize {
        self.areas.partition_point(|area| area.recorded.end <= recorded)
    }

    /// The page that a recorded one lies in, if it is mapped.
    pub fn page(&self, recorded: u64) -> Option<Vpn> {
        if self.is_recorded_size() {
            return Some(recorded);
        }
        let area =
            self.areas.get(self.area_from(recorded)).filter(|area| area.recorded.contains(&recorded))?;
        Some(self.page_in(area, recorded))
    }

    /// The pages that are mapped of a range, area by area. A page that something was cut out of may come twice.
    pub fn pages(&self, range: Range<u64>) -> Vec<Pages> {
        if self.is_recorded_size() {
            return vec![Pages { whole: range, parts: [None; 2] }];
        }
        let from = self.area_from(range.start);
        let areas = self.areas[from..].iter().take_while(|area| area.recorded.start < range.end);
        areas.zip(from..).map(|(_, at)| self.pages_in(at, &range)).collect()
    }

    /// The pages of one area of a range, which has some of it.
    fn pages_in(&self, at: usize, range: &Range<u64>) -> Pages {
        let area = &self.areas[at];
        let (start, end) = (range.start.max(area.recorded.start), range.end.min(area.recorded.end));
        let (first, last) = (self.page_in(area, start), self.page_in(area, end - 1));
        let has_before = self.is_mapped(first, self.parts_of(area, first).start..range.start);
        let has_behind = self.is_mapped(last, range.end..self.parts_of(area, last).end);
        let whole = first + u64::from(has_before)..last + 1 - u64::from(has_behind);
        let parts = [has_before.then_some(first), has_behind.then_some(last)];
        Pages { whole: whole.start..whole.end.max(whole.start), parts }
    }

    /// The recorded pages that lie in a page of an area, or would.
    fn parts_of(&self, area: &Area, page: Vpn) -> Range<u64> {
        let (anchor, first) = area.anchor;
        let start = anchor + (page - first) * self.page_size.parts();
        start..start + self.page_size.parts()
    }

    /// Whether any of some recorded pages is mapped in this page.
    fn is_mapped(&self, page: Vpn, recorded: Range<u64>) -> bool {
        let areas = self.areas[self.area_from(recorded.start)..].iter();
        let mut areas = areas.take_while(|area| area.recorded.start < recorded.end);
        !recorded.is_empty()
            && areas.any(|area| self.page_in(area, area.recorded.start.max(recorded.start)) == page)
    }

    /// Maps a range. What lies in areas that are there stays there; for the rest there are new ones, or one that grows, if
    /// `grows` says so of its last page. The pages, those of areas that grow or are new being whole.
    pub fn map(&mut self, range: Range<u64>, grows: impl Fn(Vpn) -> bool) -> Vec<Pages> {
        if self.is_recorded_size() {
            return self.pages(range);
        }
        let mut mapped = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let next = self.area_from(at);
            let known = self.areas.get(next).map_or(range.end..range.end, |area| area.recorded.clone());
            if known.contains(&at) {
                let end = known.end.min(range.end);
                mapped.push(self.pages_in(next, &(at..end)));
                at = end;
            } else {
                let end = known.start.min(range.end);
                mapped.push(self.map_new(next, at..end, &grows));
                at = end;
            }
        }
        mapped
    }

    /// Maps a range of which nothing is mapped, before the area `next`.
    fn map_new(&mut self, next: usize, range: Range<u64>, grows: impl Fn(Vpn) -> bool) -> Pages {
        let length = range.end - range.start;
        if let Some(before) = next.checked_sub(1)
            && self.areas[before].recorded.end == range.start
        {
            let area = &self.areas[before];
            let (page, last) = (self.last_page(area), self.page_in(area, range.end - 1));
            if last < area.room && grows(page) {
                self.areas[before].recorded.end = range.end;
                let continued = self.page_in(&self.areas[before], range.start) == page;
                return Pages { whole: page + 1..last + 1, parts: [continued.then_some(page), None] };
            }
        }
        let alignment = self.page_size.pages_of_mib(2);
        let remainder = range.start / self.page_size.parts() % alignment;
        let first = self.end.next_multiple_of(alignment) + remainder;
        let pages = length.div_ceil(self.page_size.parts());
        let room = first + pages + self.page_size.pages_of_mib(1024);
        self.end = room;
        self.areas.insert(next, Area { anchor: (range.start, first), recorded: range, room });
        Pages { whole: first..first + pages, parts: [None; 2] }
    }

    /// Maps what exec mapped around a recorded page of which nothing is mapped: as much of an aligned page as nobody has.
    pub fn map_image(&mut self, recorded: u64) -> Range<Vpn> {
        let next = self.area_from(recorded);
        let start = recorded / self.page_size.parts() * self.page_size.parts();
        let end = start + self.page_size.parts();
        let before = next.checked_sub(1).map_or(0, |before| self.areas[before].recorded.end);
        let after = self.areas.get(next).map_or(end, |area| area.recorded.start);
        self.map_new(next, start.max(before)..end.min(after), |_| false).whole
    }

    /// Unmaps a range. Of whole pages nothing is mapped any more.
    pub fn unmap(&mut self, range: Range<u64>) -> Vec<Pages> {
        let gone = self.discard(range.clone());
        if self.is_recorded_size() {
            return gone;
        }
        let from = self.area_from(range.start);
        let cut = self.areas[from..].iter().take_while(|area| area.recorded.start < range.end).count();
        let cut: Vec<Area> = self.areas.drain(from..from + cut).collect();
        let left = cut.iter().flat_map(|area| {
            let behind =
                Area { recorded: range.end.max(area.recorded.start)..area.recorded.end, ..area.clone() };
            // It grows at its end, which has moved.
            let before = Area {
                recorded: area.recorded.start..range.start.min(area.recorded.end),
                room: 0,
                ..area.clone()
            };
            [before, behind].into_iter().filter(|area| !area.recorded.is_empty())
        });
        let left: Vec<Area> = left.collect();
        self.areas.splice(from..from, left);
        gone
    }

    /// The program stores to a recorded page.
    pub fn note_store(&mut self, recorded: u64) {
        if self.is_recorded_size() {
            return;
        }
        let Some(area) = self.areas.get(self.area_from(recorded)) else { return };
        let (page, part) =
            (self.page_in(area, recorded), (recorded - area.anchor.0) % self.page_size.parts());
        *self.stored.entry(page).or_default() |= 1 << part;
    }

    /// The contents of a range go, area by area: of whole pages, and of those parts whose pages hold nothing else.
    pub fn discard(&mut self, range: Range<u64>) -> Vec<Pages> {
        let mut discarded = self.pages(range.clone());
        if self.is_recorded_size() {
            return discarded;
        }
        let from = self.area_from(range.start);
        for (at, Pages { whole, parts }) in (from..).zip(&mut discarded) {
            let gone: Vec<Vpn> = self.stored.range(whole.clone()).map(|(&page, _)| page).collect();
            gone.iter().for_each(|page| {
                self.stored.remove(page);
            });
            for part in parts {
                *part = part.filter(|&page| {
                    let mask = self.parts_of(&self.areas[at], page).zip(0..);
                    let mask = mask.filter(|(recorded, _)| range.contains(recorded));
                    let mask = mask.fold(0, |mask, (_, part)| mask | 1u16 << part);
                    let Some(stored) = self.stored.get_mut(&page) else { return true };
                    *stored &= !mask;
                    let is_empty = *stored == 0;
                    if is_empty {
                        self.stored.remove(&page);
                    }
                    is_empty
                });
            }
        }
        discarded
    }

    /// Of pages that are not of the recorded size, how many parts the program has stored to.
    pub fn stored_parts(&self) -> u64 {
        self.stored.values().map(|parts| u64::from(parts.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests;
