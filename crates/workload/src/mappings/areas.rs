//! The private VMAs of a recorded program: when each was mapped, and which of them each new page belongs to.
//!
//! ```text
//!   recorded    image ▪▪▪   heap ▪▪▪▪▪▪   ▪▪▪▪▪▪▪▪▪▪▪▪▪ mmap       mmap ▪▪▪▪▪▪▪▪▪▪▪        by address
//!   here        0 0 0 1 1 0 2 2 2 1 2 2 2 ... 3 3 3 2 3 3 ... 4 4 1 4 4               by first store
//!                     ▲     ▲                 ▲               ▲
//!                     VMAs are mapped
//! ```
//!
//! Memory that is not mapped as anonymous (stacks, and the data of programs and libraries) is area 0, which
//! exists from the start. The other areas are the anonymous mappings that the program makes. Adjacent
//! mappings are one area, as the kernel merges their VMAs: a heap is one area however often it grows. Pages
//! are numbered by their first store, without addresses. Left out are areas without pages, and unmapping,
//! which frees 2 percent of a compiler's pages before its exit and no area as a whole.

use super::{Mappings, Operation};
use std::collections::BTreeSet;
use std::ops::Range;

/// An area: a VMA, or several adjacent ones that the kernel merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Pages that the program had stored to when it mapped this area.
    pub begins: u64,
    /// Pages of the area that are stored to.
    pub pages: u64,
}

/// Pages with consecutive numbers that belong to one area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index into [`AddressSpace::areas`].
    pub area: u32,
    /// Number of the page after the last one.
    pub end: u64,
}

/// The address space of one program, from exec to exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSpace {
    /// Its areas, in the order in which they were mapped.
    pub areas: Vec<Area>,
    /// Its pages, in the order of their first store.
    pub runs: Vec<Run>,
}

impl AddressSpace {
    /// Number of pages that are stored to.
    pub fn pages(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// The same address space scaled to `pages` pages. Each area keeps its share of the pages, and is mapped
    /// after the same share of all pages.
    pub fn scaled(&self, pages: u64) -> AddressSpace {
        let scale = |page: u64| (page * pages).div_ceil(self.pages().max(1));
        let mut areas: Vec<Area> =
            self.areas.iter().map(|area| Area { begins: scale(area.begins), pages: 0 }).collect();
        let mut runs = Vec::new();
        let mut start = 0;
        for run in &self.runs {
            let end = scale(run.end);
            areas[run.area as usize].pages += end - start;
            push(&mut runs, run.area, end - start);
            start = end;
        }
        AddressSpace { areas, runs }.without_empty()
    }

    /// Removes areas without pages.
    fn without_empty(mut self) -> AddressSpace {
        let mut kept = 0;
        let number = |area: &Area| {
            kept += u32::from(area.pages > 0);
            kept.saturating_sub(1)
        };
        let numbers: Vec<u32> = self.areas.iter().map(number).collect();
        self.areas.retain(|area| area.pages > 0);
        for run in &mut self.runs {
            run.area = numbers[run.area as usize];
        }
        self
    }

    fn store(&mut self, area: u32) {
        self.areas[area as usize].pages += 1;
        push(&mut self.runs, area, 1);
    }
}

fn push(runs: &mut Vec<Run>, area: u32, pages: u64) {
    let end = runs.last().map_or(0, |run| run.end) + pages;
    match runs.last_mut() {
        Some(run) if run.area == area => run.end = end,
        _ if pages > 0 => runs.push(Run { area, end }),
        _ => {}
    }
}

/// State of a process while the rows of a recording are read.
#[derive(Default)]
struct Process {
    space: AddressSpace,
    /// Page ranges that it mapped as anonymous memory, with the number of their area.
    mapped: Vec<(Range<u64>, u32)>,
    /// Pages that have been stored to.
    stored: BTreeSet<u64>,
}

/// The area of everything that is not mapped as anonymous memory.
const IMAGE: u32 = 0;

impl Process {
    fn with(mapped: Vec<(Range<u64>, u32)>, areas: usize) -> Process {
        let space = AddressSpace { areas: vec![Area { begins: 0, pages: 0 }; areas], runs: Vec::new() };
        Process { space, mapped, stored: BTreeSet::new() }
    }

    /// A process after exec.
    fn new() -> Process {
        Process::with(Vec::new(), 1)
    }

    /// A child after fork, which has not stored to any page.
    fn child(&self) -> Process {
        Process::with(self.mapped.clone(), self.space.areas.len())
    }

    fn unmap(&mut self, pages: &Range<u64>) {
        let left = self.mapped.drain(..).flat_map(|(range, area)| {
            let before = range.start..range.end.min(pages.start);
            let behind = range.start.max(pages.end)..range.end;
            [(before, area), (behind, area)]
        });
        self.mapped = left.filter(|(range, _)| !range.is_empty()).collect();
        for page in self.stored.range(pages.clone()).copied().collect::<Vec<_>>() {
            self.stored.remove(&page);
        }
    }

    fn map(&mut self, pages: Range<u64>) {
        self.unmap(&pages);
        let mut mapped = self.mapped.iter_mut();
        if let Some((before, _)) = mapped.find(|(range, _)| range.end == pages.start) {
            before.end = pages.end;
        } else if let Some((behind, _)) = self.mapped.iter_mut().find(|(range, _)| range.start == pages.end) {
            behind.start = pages.start;
        } else {
            self.mapped.push((pages, self.space.areas.len() as u32));
            self.space.areas.push(Area { begins: self.space.pages(), pages: 0 });
        }
    }

    fn store(&mut self, pages: Range<u64>) {
        for page in pages {
            if self.stored.insert(page) {
                let own = self.mapped.iter().find(|(range, _)| range.contains(&page));
                self.space.store(own.map_or(IMAGE, |&(_, area)| area));
            }
        }
    }
}

impl Mappings {
    /// The address space of each program in the recording that stored to memory.
    pub fn address_spaces(&self) -> Vec<AddressSpace> {
        let mut processes: Vec<Process> = (0..self.processes).map(|_| Process::new()).collect();
        let mut ended = Vec::new();
        for step in &self.steps {
            let process = &mut processes[step.process];
            let pages = step.change.range();
            match step.change.operation {
                Operation::Exec | Operation::Exit => {
                    ended.push(std::mem::replace(process, Process::new()));
                }
                Operation::Fork => {
                    let child = process.child();
                    processes[step.change.pages as usize] = child;
                }
                Operation::MapAnon => process.map(pages),
                Operation::MapFile | Operation::MapShared | Operation::Unmap => process.unmap(&pages),
                Operation::Store => process.store(pages),
                Operation::Protect
                | Operation::Dontneed
                | Operation::Hugepage
                | Operation::Nohugepage
                | Operation::Load => {}
            }
        }
        ended.extend(processes);
        let spaces = ended.into_iter().map(|process| process.space.without_empty());
        spaces.filter(|space| space.pages() > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, KERNEL_BUILD, Step};
    use super::*;

    fn recording(steps: &[(usize, Operation, Range<u64>)]) -> Mappings {
        let step = |(process, operation, pages): &(usize, Operation, Range<u64>)| Step {
            milliseconds: 0,
            process: *process,
            change: Change {
                operation: *operation,
                page: pages.start,
                pages: pages.end - pages.start,
                rights: 3,
            },
        };
        Mappings { steps: steps.iter().map(step).collect(), processes: 2 }
    }

    fn runs(space: &AddressSpace) -> Vec<(u32, u64)> {
        space.runs.iter().map(|run| (run.area, run.end)).collect()
    }

    fn areas(space: &AddressSpace) -> Vec<(u64, u64)> {
        space.areas.iter().map(|area| (area.begins, area.pages)).collect()
    }

    #[test]
    fn areas_begin_when_they_are_mapped_and_grow_by_their_neighbours() {
        let spaces = recording(&[
            (0, Operation::Exec, 0..0),
            (0, Operation::Store, 900..902),
            (0, Operation::MapAnon, 100..110),
            (0, Operation::MapAnon, 500..510), // The second area has no page.
            (0, Operation::Store, 100..103),
            (0, Operation::Store, 102..103), // not the first one
            (0, Operation::MapAnon, 110..120),
            (0, Operation::MapAnon, 300..310),
            (0, Operation::MapAnon, 290..300),
            (0, Operation::Store, 111..112),
            (0, Operation::Store, 299..301),
            (0, Operation::Exit, 0..0),
        ])
        .address_spaces();
        assert_eq!(spaces.len(), 1);
        assert_eq!(areas(&spaces[0]), [(0, 2), (2, 4), (5, 2)]);
        assert_eq!(runs(&spaces[0]), [(0, 2), (1, 6), (2, 8)]);
    }

    #[test]
    fn a_child_has_its_parent_s_areas_until_it_runs_another_program() {
        let spaces = recording(&[
            (0, Operation::MapAnon, 100..110),
            (0, Operation::Store, 100..104),
            (0, Operation::Fork, 1..2),
            (1, Operation::Store, 103..104),
            (1, Operation::Exec, 0..0),
            (1, Operation::Store, 103..104),
        ])
        .address_spaces();
        let all: Vec<_> = spaces.iter().map(areas).collect();
        assert_eq!(all, [[(0, 1)], [(0, 4)], [(0, 1)]]);
    }

    #[test]
    fn scaling_keeps_pages_order_and_shares() {
        let areas_of =
            vec![Area { begins: 0, pages: 10 }, Area { begins: 4, pages: 89 }, Area { begins: 60, pages: 1 }];
        let run = |area, end| Run { area, end };
        let space =
            AddressSpace { areas: areas_of, runs: vec![run(0, 10), run(1, 70), run(2, 71), run(1, 100)] };
        assert_eq!(space.scaled(100), space);
        let tenth = space.scaled(10);
        assert_eq!(
            (areas(&tenth), runs(&tenth)),
            (vec![(0, 1), (1, 8), (6, 1)], vec![(0, 1), (1, 7), (2, 8), (1, 10)])
        );
        let few = space.scaled(1);
        assert_eq!((areas(&few), runs(&few)), (vec![(0, 1)], vec![(0, 1)]));
        for pages in 0..300 {
            let scaled = space.scaled(pages);
            assert_eq!(scaled.pages(), pages);
            assert_eq!(scaled.areas.iter().map(|area| area.pages).sum::<u64>(), pages);
            // No page is stored to before its area is mapped.
            for (number, area) in scaled.areas.iter().enumerate() {
                let mut start = 0;
                for run in &scaled.runs {
                    assert!(run.area as usize != number || start >= area.begins, "{pages}: {scaled:?}");
                    start = run.end;
                }
            }
        }
        assert_eq!(AddressSpace::default().scaled(7).pages(), 0);
    }

    #[test]
    fn compilers_map_memory_as_they_go() {
        let mut spaces = Mappings::parse(KERNEL_BUILD[0]).unwrap().address_spaces();
        spaces.sort_by_key(|space| std::cmp::Reverse(space.pages()));
        assert_eq!(spaces.len(), 797);
        // The largest program is a compiler: its heap, then areas for its trees as it needs them.
        let pages = spaces[0].pages();
        assert_eq!((pages, spaces[0].areas.len()), (21_132, 11));
        let large: Vec<_> = areas(&spaces[0]).into_iter().filter(|area| area.1 > 1000).collect();
        assert_eq!(large, [(46, 1643), (93, 1928), (2397, 6017), (8634, 10_589)]);
    }
}
