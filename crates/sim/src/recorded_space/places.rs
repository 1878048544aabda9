//! Where the recorded 4-KiB pages are mapped in an address space with a larger base page.
//!
//! ```text
//!   recorded     │▪▪▪▪▪▪│▪▪│        │▪▪▪▪▪▪▪▪▪▪▪▪▪│▪▪▪      areas, in pages of 4 KiB; the last one grows
//!                 └──┐   └──┐        └──┐
//!   twin         │■■■■ ■■□□│ │■■□□│ │■■■■ ■■■■ ■■■■ ■■■■│   in pages of 16 KiB: each area begins with a new page
//! ```
//!
//! A kernel with larger base pages gives programs more memory than they ask for: a new area begins at a page
//! boundary and is rounded up to whole pages. Two areas never share a page. An area that begins where another
//! one of the same kind ends is that area grown (`brk`), and continues in its last page. A mapping inside an
//! existing area stays inside it. Addresses keep their offset within 2 MiB, rounded down to a page, so
//! alignment up to 2 MiB is kept.
//!
//! Operations on a part of a page never take anything from the rest: the page gets the rights of the part in
//! addition to its own, its contents are discarded once all parts that were stored to have been discarded,
//! and it is unmapped once all its parts are. A program that knows the page size would not ask for less.
//!
//! With base pages of 4 KiB, every page is mapped where it was recorded.

use machine::PageSize;
use mm::address_space::Vpn;
use std::collections::BTreeMap;
use std::ops::Range;

/// Recorded pages that were mapped together, or what is left of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    recorded: Range<u64>,
    /// A recorded page that begins a page of the twin, and the number of that page.
    anchor: (u64, Vpn),
    /// End of the address range into which it may grow.
    room: Vpn,
}

/// The pages that hold a range of recorded pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    /// Pages of which all mapped parts are in the range.
    pub whole: Range<Vpn>,
    /// The first and the last page if only some of their mapped parts are in the range. They may be the same
    /// page.
    pub parts: [Option<Vpn>; 2],
}

impl Pages {
    /// All pages, whole and partial.
    pub fn all(&self) -> Range<Vpn> {
        let [first, last] = self.parts;
        first.unwrap_or(self.whole.start)..last.map_or(self.whole.end, |last| last + 1)
    }
}

/// The layout of one address space.
#[derive(Clone, Debug)]
pub(super) struct Places {
    page_size: PageSize,
    /// Sorted by recorded page.
    areas: Vec<Area>,
    /// End of all address ranges handed out so far.
    end: Vpn,
    /// For each page a bit mask of the parts that the program has stored to.
    stored: BTreeMap<Vpn, u16>,
}

impl Places {
    /// An empty address space with this page size.
    pub fn new(page_size: PageSize) -> Places {
        Places { page_size, areas: Vec::new(), end: page_size.pages_of_mib(2), stored: BTreeMap::new() }
    }

    /// An empty address space with the page size of this one.
    pub fn empty(&self) -> Places {
        Places::new(self.page_size)
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

    /// Index of the first area that ends after a recorded page.
    fn area_from(&self, recorded: u64) -> usize {
        self.areas.partition_point(|area| area.recorded.end <= recorded)
    }

    /// The page that holds a recorded page, if it is mapped.
    pub fn page(&self, recorded: u64) -> Option<Vpn> {
        if self.is_recorded_size() {
            return Some(recorded);
        }
        let area =
            self.areas.get(self.area_from(recorded)).filter(|area| area.recorded.contains(&recorded))?;
        Some(self.page_in(area, recorded))
    }

    /// The mapped pages of a range, area by area. A page may appear twice if a hole was unmapped in it.
    pub fn pages(&self, range: Range<u64>) -> Vec<Pages> {
        if self.is_recorded_size() {
            return vec![Pages { whole: range, parts: [None; 2] }];
        }
        let from = self.area_from(range.start);
        let areas = self.areas[from..].iter().take_while(|area| area.recorded.start < range.end);
        areas.zip(from..).map(|(_, at)| self.pages_in(at, &range)).collect()
    }

    /// The pages of a range within one area, which intersects it.
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

    /// The recorded pages that a page of an area holds, mapped or not.
    fn parts_of(&self, area: &Area, page: Vpn) -> Range<u64> {
        let (anchor, first) = area.anchor;
        let start = anchor + (page - first) * self.page_size.parts();
        start..start + self.page_size.parts()
    }

    /// Whether any of these recorded pages is mapped in this page.
    fn is_mapped(&self, page: Vpn, recorded: Range<u64>) -> bool {
        let areas = self.areas[self.area_from(recorded.start)..].iter();
        let mut areas = areas.take_while(|area| area.recorded.start < recorded.end);
        !recorded.is_empty()
            && areas.any(|area| self.page_in(area, area.recorded.start.max(recorded.start)) == page)
    }

    /// Maps a range. Parts within existing areas stay there; the rest becomes new areas, or extends the
    /// previous one if `grows` allows that for its last page. Returns the pages; those of new and grown areas
    /// are whole.
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

    /// Maps a range that is not mapped yet; `next` is the area after it.
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

    /// Maps the surroundings of a recorded page that exec mapped: the part of its aligned page that belongs
    /// to no area.
    pub fn map_image(&mut self, recorded: u64) -> Range<Vpn> {
        let next = self.area_from(recorded);
        let start = recorded / self.page_size.parts() * self.page_size.parts();
        let end = start + self.page_size.parts();
        let before = next.checked_sub(1).map_or(0, |before| self.areas[before].recorded.end);
        let after = self.areas.get(next).map_or(end, |area| area.recorded.start);
        self.map_new(next, start.max(before)..end.min(after), |_| false).whole
    }

    /// Unmaps a range. Nothing is left of the pages returned as whole.
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
            // An area only grows at its end, which has moved.
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

    /// Notes a store to a recorded page.
    pub fn note_store(&mut self, recorded: u64) {
        if self.is_recorded_size() {
            return;
        }
        let Some(area) = self.areas.get(self.area_from(recorded)) else { return };
        let (page, part) =
            (self.page_in(area, recorded), (recorded - area.anchor.0) % self.page_size.parts());
        *self.stored.entry(page).or_default() |= 1 << part;
    }

    /// Discards the contents of a range, area by area: of whole pages, and of partial pages without other
    /// contents.
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

    /// Parts stored to in pages larger than the recorded ones.
    pub fn stored_parts(&self) -> u64 {
        self.stored.values().map(|parts| u64::from(parts.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests;
