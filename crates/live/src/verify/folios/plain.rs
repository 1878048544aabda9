//! A simple model of page tables and folios, without fast paths: every page is handled by itself.
//!
//! ```text
//!   process   VMAs, and a PTE for each page that is mapped
//!   folio     order, number of PTEs that map each of its pages, whether it is on the deferred split list
//! ```
//!
//! The decisions are those of [`mm::huge_memory::policy`]; memory never runs out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

use mm::huge_memory::orders::Orders;
use mm::huge_memory::policy::{self, PmdStep, Unmapped, VmaState};
use mm::page::PMD_ORDER;
use mm::{Features, Settings};

use super::case::{self, Case, Configuration};
use super::outcome::{Mapped, Statistics, layout};
use super::script::{Memory, Process};

/// Number of base pages in a PMD-sized folio.
const HPAGE_PMD_NR: u64 = 1 << PMD_ORDER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Zeroes,
    Page { folio: usize, index: u64, writable: bool, exclusive: bool },
}

#[derive(Clone, Debug)]
struct Folio {
    order: u8,
    /// Number of PTEs that map each page.
    mapped: Vec<u32>,
    waits_for_split: bool,
}

#[derive(Clone, Debug, Default)]
struct AddressSpace {
    vmas: Vec<(Range<u64>, VmaState)>,
    entries: BTreeMap<u64, Entry>,
    /// 2 MiB ranges that have a page table.
    tables: Vec<u64>,
    /// 2 MiB ranges that are mapped by a PMD.
    huge: Vec<u64>,
    faults: u64,
}

/// A process with its memory, and the child that it may fork.
pub struct PlainMemory {
    features: Features,
    settings: Settings,
    folios: Vec<Folio>,
    parent: AddressSpace,
    child: Option<AddressSpace>,
    /// The pages of the VMA.
    area: Range<u64>,
    statistics: Statistics,
}

impl AddressSpace {
    /// Splits PMDs that map more than `pages`, because only these will change.
    fn change(&mut self, pages: &Range<u64>) {
        let size = HPAGE_PMD_NR;
        for stretch in std::mem::take(&mut self.huge) {
            let all = stretch * size..(stretch + 1) * size;
            if pages.end <= all.start || pages.start >= all.end {
                self.huge.push(stretch);
            } else if pages.start > all.start || pages.end < all.end {
                self.tables.push(stretch);
            }
        }
    }
}

impl PlainMemory {
    /// Memory without mappings.
    pub fn new(features: Features) -> PlainMemory {
        PlainMemory {
            features,
            settings: Settings::default(),
            folios: Vec::new(),
            parent: AddressSpace::default(),
            child: None,
            area: 0..0,
            statistics: Statistics::new(),
        }
    }

    fn process(&mut self, process: Process) -> &mut AddressSpace {
        match process {
            Process::Parent => &mut self.parent,
            Process::Child => self.child.as_mut().expect("a child was forked"),
        }
    }

    fn count(&mut self, order: u8, name: &str, change: i64) {
        if order >= 2 {
            *self.statistics.entry((4 << order, name.to_string())).or_default() += change;
        }
    }

    fn new_folio(&mut self, order: u8) -> usize {
        self.folios.push(Folio { order, mapped: vec![0; 1 << order], waits_for_split: false });
        self.count(order, "nr_anon", 1);
        self.folios.len() - 1
    }

    fn map_folio(&mut self, process: Process, order: u8, first: u64) {
        let folio = self.new_folio(order);
        self.folios[folio].mapped.fill(1);
        let space = self.process(process);
        for index in 0..1 << order {
            let entry = Entry::Page { folio, index, writable: true, exclusive: true };
            space.entries.insert(first + index, entry);
        }
    }

    fn access(&mut self, process: Process, page: u64, write: bool) {
        let found = self.process(process).entries.get(&page).copied();
        match found {
            Some(Entry::Page { writable: true, .. }) => return,
            Some(_) if !write => return,
            _ => self.process(process).faults += 1,
        }
        match found {
            None => self.first_touch(process, page, write),
            Some(Entry::Zeroes) => {
                self.process(process).change(&(page..page + 1));
                self.map_folio(process, 0, page);
            }
            Some(entry) => self.write_protected(process, page, entry),
        }
    }

    fn first_touch(&mut self, process: Process, page: u64, write: bool) {
        let (f, thp) = (self.features.folios, self.settings.transparent_hugepage);
        let space = self.process(process);
        let vma = space.vmas.iter().find(|(pages, _)| pages.contains(&page)).cloned();
        let (vma, state) = vma.expect("only pages of the VMA are touched");
        let stretch = page / HPAGE_PMD_NR;
        let mut step = PmdStep::Pass;
        let mut declined = Orders::NONE;
        if !space.tables.contains(&stretch) {
            let allowed = policy::allowed_orders(&f, &thp, &state);
            step = policy::pmd_step(&thp, allowed, &vma, page, write);
        }
        let order = match step {
            PmdStep::Zeroes => {
                space.huge.push(stretch);
                let pages = policy::window(page, PMD_ORDER);
                return space.entries.extend(pages.map(|page| (page, Entry::Zeroes)));
            }
            PmdStep::Folio => {
                space.huge.push(stretch);
                PMD_ORDER
            }
            PmdStep::Pass => {
                space.tables.push(stretch);
                if !write {
                    space.entries.insert(page, Entry::Zeroes);
                    return;
                }
                let orders = policy::candidates(&f, &thp, &state);
                let is_populated = |window: Range<u64>| space.entries.range(window).next().is_some();
                let mut orders = policy::fitting_in_fault(&f, orders, &vma, page, is_populated);
                if thp.anon_beside_full {
                    let is_full =
                        |mut window: Range<u64>| window.all(|page| space.entries.contains_key(&page));
                    let beside = policy::beside_full(&thp, orders, &vma, page, is_full);
                    declined = beside.declined;
                    orders = beside.kept;
                }
                orders.highest().unwrap_or(0)
            }
        };
        self.map_folio(process, order, policy::window(page, order).start);
        self.count(order, "anon_fault_alloc", 1);
        declined.descending().for_each(|order| self.count(order, "anon_fault_declined", 1));
    }

    fn write_protected(&mut self, process: Process, page: u64, entry: Entry) {
        let Entry::Page { folio, index, exclusive, .. } = entry else { unreachable!("a page") };
        let order = self.folios[folio].order;
        let whole = match order {
            0 => self.folios[folio].mapped[0] == 1,
            _ => self.folios[folio].mapped.iter().all(|&mapped| mapped <= 1) && self.is_of_one(folio),
        };
        let stretch = page / HPAGE_PMD_NR;
        if whole && self.process(process).huge.contains(&stretch) {
            // A PMD that only one process maps becomes writable as a whole (`do_huge_pmd_wp_page`).
            let first = stretch * HPAGE_PMD_NR;
            for entry in self.process(process).entries.range_mut(first..first + HPAGE_PMD_NR) {
                if let Entry::Page { writable, exclusive, .. } = entry.1 {
                    (*writable, *exclusive) = (true, true);
                }
            }
        } else if policy::is_reused(&self.features.folios, order == 0, exclusive, whole) {
            let entry = Entry::Page { folio, index, writable: true, exclusive: true };
            self.process(process).entries.insert(page, entry);
        } else {
            self.unmap(process, page..page + 1);
            self.map_folio(process, 0, page);
        }
    }

    /// Whether only one of the processes maps pages of the folio.
    fn is_of_one(&self, folio: usize) -> bool {
        let maps = |space: &AddressSpace| {
            space
                .entries
                .values()
                .any(|entry| matches!(entry, Entry::Page { folio: mapped, .. } if *mapped == folio))
        };
        !(maps(&self.parent) && self.child.as_ref().is_some_and(maps))
    }

    /// Unmaps pages that are mapped by PTEs, folio by folio.
    fn unmap(&mut self, process: Process, pages: Range<u64>) {
        self.process(process).change(&pages);
        let mut lost: BTreeMap<usize, u32> = BTreeMap::new();
        for page in pages {
            let Some(Entry::Page { folio, index, .. }) = self.process(process).entries.remove(&page) else {
                continue;
            };
            let mapped = &mut self.folios[folio].mapped[index as usize];
            *mapped -= 1;
            *lost.entry(folio).or_default() += u32::from(*mapped == 0);
        }
        for (id, lost) in lost {
            let folio = &mut self.folios[id];
            let order = folio.order;
            let mapped = folio.mapped.iter().filter(|&&mapped| mapped > 0).count() as u32;
            let unmapped = Unmapped { order, lost, mapped, in_swap_cache: false };
            if policy::defers_split(unmapped) && !folio.waits_for_split {
                folio.waits_for_split = true;
                self.count(order, "split_deferred", 1);
                self.count(order, "nr_anon_partially_mapped", 1);
            } else if mapped == 0 {
                let waited = std::mem::take(&mut folio.waits_for_split);
                self.count(order, "nr_anon", -1);
                self.count(order, "nr_anon_partially_mapped", -i64::from(waited));
            }
        }
    }

    fn mapped(&mut self, process: Process, page: u64) -> Mapped {
        match self.process(process).entries.get(&page).copied() {
            None => Mapped::None,
            Some(Entry::Zeroes) => Mapped::Zeroes,
            Some(Entry::Page { folio, index, .. }) => {
                Mapped::Page { folio: folio as u64, order: self.folios[folio].order, index }
            }
        }
    }
}

impl Memory for PlainMemory {
    type Error = Infallible;

    fn configure(&mut self, configuration: &Configuration) -> Result<(), Infallible> {
        for (file, value) in configuration.files() {
            let taken = self.settings.set(&format!("transparent_hugepage/{file}"), value);
            assert!(taken.is_ok(), "kernels accept {file} = {value}");
        }
        Ok(())
    }

    fn map(&mut self, case: &Case, populate: bool) -> Result<u64, Infallible> {
        let start = 4 * HPAGE_PMD_NR + case.offset;
        self.area = start..start + case.pages;
        let advice = match case.advice {
            case::Advice::None => policy::Advice::None,
            case::Advice::Huge => policy::Advice::Huge,
            case::Advice::NoHuge => policy::Advice::NoHuge,
        };
        let state = VmaState { advice, ..VmaState::default() };
        self.parent.vmas.push((self.area.clone(), state));
        if populate { self.lock() } else { Ok(0) }
    }

    fn touch(&mut self, process: Process, pages: &[u64], write: bool) -> Result<u64, Infallible> {
        let before = self.process(process).faults;
        for page in pages {
            self.access(process, self.area.start + page, write);
        }
        Ok(self.process(process).faults - before)
    }

    fn lock(&mut self) -> Result<u64, Infallible> {
        let pages: Vec<u64> = (0..self.area.end - self.area.start).collect();
        self.touch(Process::Parent, &pages, true)
    }

    fn drop_pages(&mut self, pages: Range<u64>) -> Result<(), Infallible> {
        self.unmap(Process::Parent, self.area.start + pages.start..self.area.start + pages.end);
        Ok(())
    }

    fn split(&mut self, pages: u64) -> Result<(), Infallible> {
        let (vma, state) = self.parent.vmas.pop().expect("the VMA is mapped");
        let at = vma.start + pages;
        self.parent.vmas = vec![(vma.start..at, state), (at..vma.end, state)];
        Ok(())
    }

    fn fork(&mut self) -> Result<(), Infallible> {
        for entry in self.parent.entries.values_mut() {
            if let Entry::Page { folio, index, writable, exclusive } = entry {
                (*writable, *exclusive) = (false, false);
                self.folios[*folio].mapped[*index as usize] += 1;
            }
        }
        self.child = Some(AddressSpace { faults: 0, ..self.parent.clone() });
        Ok(())
    }

    fn exit(&mut self) -> Result<(), Infallible> {
        self.unmap(Process::Child, self.area.clone());
        self.child = None;
        Ok(())
    }

    fn layout(&mut self, process: Process) -> Result<String, Infallible> {
        let pages: Vec<Mapped> = self.area.clone().map(|page| self.mapped(process, page)).collect();
        Ok(layout(&pages))
    }

    fn smaps(&mut self) -> Result<(u64, bool), Infallible> {
        let (vma, state) = self.parent.vmas[0].clone();
        let present = |page: &u64| matches!(self.parent.entries.get(page), Some(Entry::Page { .. }));
        let rss = 4 * vma.clone().filter(present).count() as u64;
        let thp = &self.settings.transparent_hugepage;
        Ok((rss, policy::is_thp_eligible(&self.features.folios, thp, &state, &vma)))
    }

    fn statistics(&mut self) -> Result<Statistics, Infallible> {
        Ok(self.statistics.clone())
    }
}
