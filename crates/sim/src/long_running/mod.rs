//! A system that runs for long: processes map memory, use it and unmap it, until fragmentation is in
//! equilibrium.
//!
//! ```text
//!   areas    small ▪▪▪▪▪▪ short-lived      large ▬▬▬ long-lived       mapped at random addresses, touched page by
//!              │                                                       page in order or shuffled
//!              ▼
//!   total up to the target  ─► the area with the earliest end is unmapped ─► the next one is mapped
//!
//!   besides: unmovable pages of the kernel; files read through a page cache that takes what is free;
//!   swap in memory (zram), in single pages
//! ```
//!
//! The areas, their lifetimes and the order in which they are touched are the same for all variants of a
//! seed, whatever folios are used, so memory is short at the same times. The question is whether more
//! fallback orders bring the end of large folios sooner (Yu Zhao, 2023-07-05). It is measured by how many of
//! the faults that had room for the preferred order got it, window by window.
//!
//! Files are read in runs of pages at random positions. The twin's page cache has order-0 folios here, which
//! reclaim frees and compaction moves. Kernels since 5.18 read ahead in large folios. For them there is
//! instead a list of blocks in the order in which they were read, with orders that grow as in readahead; the
//! oldest are freed first when memory is short. Compaction does not move these blocks, so use them without
//! it.
//!
//! Areas and the preferred order are in pages of 4 KiB. On a machine with larger base pages, areas are
//! rounded up to whole pages, as mmap does, and the preferred order is the one with the same size in bytes.

#[cfg(test)]
mod tests;
mod windows;

use self::windows::{ATTEMPTS, Window, Windows};
use crate::metric;
use crate::outcome::{Outcome, Sample};
use crate::random::{Stream, stream};
use crate::{Boot, Misfit, RunError, System};
use machine::{Cpu, Node, PageSize, Time, WrongValue};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::Effort;
use mm::compaction::policy::unusable_free_index;
use mm::filemap::{Access, Read};
use mm::huge_memory::orders::Orders;
use mm::huge_memory::settings::ThpSettings;
use mm::huge_memory::stats::MthpStat;
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout_of;
use mm::xarray::FileId;
use mm::{Event, MigrateType, Pfn, Placement, Request};
use rand::RngExt;
use rand_distr::weighted::WeightedIndex;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use workload::keys::{Bounds, PROCESSES, SHARE};

/// Bounds of the pages of an area.
const AREA_PAGES: Bounds = Bounds::new(1.0, 16_777_216.0, "64 GiB, as much as memory can have");

workload::no_numbers!(Files, Compactor, Occupied);

workload::keys! {
    /// A class of areas.
    pub struct AreaClass {
        /// Smallest size in pages of 4 KiB.
        pub least: u64 => AREA_PAGES,
        /// Largest size in pages of 4 KiB.
        pub most: u64 => AREA_PAGES,
        /// Relative frequency of the class.
        pub weight: f64 => Bounds::new(0.0, 1e6, "of a hundred or so"),
        /// Mean lifetime, relative to that of other classes.
        pub life: f64 => Bounds::new(1e-6, 1e6, "a millionth to a million of another's"),
        /// Whether areas start at a multiple of their size, rounded up to a power of two.
        #[serde(default)]
        pub aligned: bool,
    }
}

/// How files that are read are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// No files are read.
    None,
    /// In the page cache, as order-0 folios.
    Pages,
    /// As blocks of growing orders.
    Blocks,
}

/// Who compacts memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compactor {
    /// No compaction.
    None,
    /// kcompactd, when kswapd wakes it and proactively.
    Kcompactd,
    /// Page faults (direct compaction), and kcompactd.
    Direct,
}

/// The quantity that is kept at the target while areas come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Occupied {
    /// The size of the areas. All variants have the same areas at the same times, whatever memory they use
    /// for them.
    #[default]
    Areas,
    /// The memory (RSS) of processes. Variants that use more memory for an area have fewer areas.
    Memory,
}

workload::keys! {
    /// The system, as in a scenario.
    pub struct LongRunning {
        /// Memory of the machine's only node in MiB.
        pub memory_mib: u64 => Bounds::new(64.0, 65_536.0, "the smallest machine to 64 GiB on one CPU"),
        /// Size of all areas together, as a percentage of the machine's pages; more than 100 with zram.
        pub occupancy: f64 => Bounds::new(1.0, 200.0, "per cent"),
        /// The quantity that `occupancy` refers to.
        #[serde(default)]
        pub occupied: Occupied,
        /// How many times areas as large as all memory are mapped.
        pub turnovers: u64 => Bounds::new(1.0, 100_000.0, "some equilibrium is long reached"),
        /// Processes that map areas.
        pub processes: u64 => PROCESSES,
        /// Classes of areas.
        pub areas: Vec<AreaClass>,
        /// Share of areas that are touched only from their first page to a random one.
        pub partly_touched: f64 => SHARE,
        /// Unmovable pages of the kernel, as a percentage of memory.
        pub unmovable: f64 => Bounds::new(0.0, 50.0, "per cent, half of all memory"),
        /// How files fill the memory that areas leave.
        pub page_cache: Files,
        /// Swap on zram, as a percentage of memory; 0 for none.
        pub zram: f64 => Bounds::new(0.0, 200.0, "per cent"),
        /// Who compacts memory.
        pub compaction: Compactor,
        /// The preferred order, in pages of 4 KiB.
        pub order: u8 => Bounds::new(1.0, 9.0, "2 pages to 2 MiB"),
    }
}

/// Compression ratio of zram with lzo-rle, from "Zram Performance Analysis" (gokawiil.com/article/193372), as
/// in the machine profile i7-9700.
const ZRAM_RATIO: f64 = 2.74;

/// An area and when it ends. Kept small, because the earliest end is looked up among thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Area {
    /// Bits of the time at which it ends. No time is negative, so they sort like the times.
    end: u64,
    process: u32,
    start: Vpn,
    pages: u32,
    touched: u32,
}

struct LongRun<'a> {
    spec: &'a LongRunning,
    /// Base pages of the machine.
    memory: u64,
    system: System,
    random: Pcg64Mcg,
    processes: Vec<MmId>,
    /// For each process, the end of its mappings.
    ends: Vec<Vpn>,
    living: BinaryHeap<Reverse<Area>>,
    /// The order in which pages of an area are touched; kept to reuse its allocation.
    order: Vec<u64>,
    now: f64,
    /// Pages of living areas.
    mapped: u64,
    /// Pages of living areas that were touched.
    in_use: u64,
    /// Pages touched so far in all areas.
    touched: u64,
    /// Areas that ended early because memory ran out.
    killed: u64,
    unmovable: Vec<Pfn>,
    cache: VecDeque<(Pfn, u8)>,
    file: FileId,
    /// Pages of the file read so far.
    read: u64,
    zram: Vec<Pfn>,
    probes: (i64, i64),
    next_proactive: u64,
}

const CPU: Cpu = Cpu(0);

/// Runs the system of `spec`.
pub fn run(boot: &Boot, spec: &LongRunning) -> Result<Outcome, RunError> {
    let spec = &spec.in_pages_of(boot)?;
    let system = spec.system(boot)?;
    LongRun::new(spec, system, boot.seed).run().ok_or(RunError::OutOfMemory)
}

impl LongRunning {
    /// Whether kswapd could reclaim anything.
    fn can_reclaim(&self) -> bool {
        self.zram > 0.0 || self.page_cache == Files::Pages
    }

    /// Boots the machine with the memory of this system, of which the kernel itself holds only its unmovable
    /// pages. If nothing can be reclaimed, watermark boosting is off: on a system with caches, kswapd soon
    /// undoes a boost caused by a fallback, but here it would give up after some failures and the boost would
    /// stay forever.
    fn system(&self, boot: &Boot) -> Result<System, RunError> {
        let memory = memory_layout_of(boot.machine.page_size, 1, self.memory_mib);
        let mut system = boot.system_with(&memory)?;
        if !self.can_reclaim() {
            system.mm.set("vm.watermark_boost_factor", "0")?;
        }
        Ok(system)
    }

    /// The same system in pages of the machine.
    fn in_pages_of(&self, boot: &Boot) -> Result<LongRunning, Misfit> {
        let page_size = boot.machine.page_size;
        let order = ThpSettings::new(page_size).order_of(PageSize::Kib4.bytes() << self.order);
        let order = order.ok_or_else(|| {
            let expected = format!(
                "an order that folios of anonymous memory have on machine {}, whose pages have {} KiB",
                boot.machine.name,
                page_size.kib()
            );
            Misfit::OutOfRange(WrongValue::new("workload.order", self.order, expected))
        })?;
        let pages = |parts: u64| page_size.pages_of_parts(0..parts).end;
        let areas = self.areas.iter().map(|class| AreaClass {
            least: pages(class.least),
            most: pages(class.most),
            ..class.clone()
        });
        Ok(LongRunning { areas: areas.collect(), order, ..self.clone() })
    }
}

impl<'a> LongRun<'a> {
    fn new(spec: &'a LongRunning, mut system: System, seed: u64) -> LongRun<'a> {
        let memory = system.mm.parts.allocator.page_size().pages_of_mib(spec.memory_mib);
        if spec.zram > 0.0 {
            let pages = (memory as f64 * spec.zram / 100.0) as u64;
            system.mm.parts.swap.swapon(pages, Some(Time::ZERO));
        }
        let processes: Vec<MmId> =
            (0..spec.processes).map(|_| system.mm.parts.create_mm(Memcg::ROOT)).collect();
        let file = system.mm.parts.page_cache.open_file();
        LongRun {
            memory,
            file,
            read: 0,
            ends: vec![1 << 9; processes.len()],
            spec,
            system,
            random: stream(seed, Stream::Demand, 0),
            processes,
            living: BinaryHeap::new(),
            order: Vec::new(),
            now: 0.0,
            mapped: 0,
            in_use: 0,
            touched: 0,
            killed: 0,
            unmovable: Vec::new(),
            cache: VecDeque::new(),
            zram: Vec::new(),
            probes: (0, 0),
            next_proactive: 0,
        }
    }

    fn run(mut self) -> Option<Outcome> {
        let memory = self.memory;
        let target = (memory as f64 * self.spec.occupancy / 100.0) as u64;
        let wanted = (memory as f64 * self.spec.unmovable / 100.0) as usize;
        let classes = WeightedIndex::new(self.spec.areas.iter().map(|class| class.weight)).ok()?;
        let (mut windows, mut before) = (Vec::new(), self.attempts());
        let mut total = 0;
        while total < memory * self.spec.turnovers {
            let class = &self.spec.areas[classes.sample(&mut self.random)];
            let pages = self.random.random_range(class.least..=class.most);
            let life: f64 = Exp1.sample(&mut self.random);
            let end = self.now + class.life * life;
            while self.occupied() + pages > target {
                self.end_first()?;
            }
            let alignment = if class.aligned { pages.next_power_of_two() } else { 1 };
            self.map(pages, alignment, end.max(self.now))?;
            total += pages;
            self.make_noise(wanted);
            self.read_files(total);
            self.run_daemons();
            let now = self.attempts();
            if now.0 - before.0 >= ATTEMPTS || total >= memory * self.spec.turnovers {
                windows.push(self.window(total, now.0 - before.0, now.1 - before.1));
                before = now;
            }
        }
        Some(self.outcome(&Windows::new(windows)))
    }

    /// Pages that count towards the target.
    fn occupied(&self) -> u64 {
        match self.spec.occupied {
            Occupied::Areas => self.mapped,
            Occupied::Memory => self.rss(),
        }
    }

    fn rss(&self) -> u64 {
        self.processes.iter().map(|&id| self.system.mm.parts.address_spaces.mm(id).rss()).sum()
    }

    /// Ends the area with the earliest end.
    fn end_first(&mut self) -> Option<()> {
        let Reverse(area) = self.living.pop()?;
        self.now = f64::from_bits(area.end);
        let pages = area.start..area.start + u64::from(area.pages);
        self.mapped -= u64::from(area.pages);
        self.in_use -= u64::from(area.touched);
        self.system
            .mm
            .enter(&mut self.system.machine, CPU)
            .munmap(self.processes[area.process as usize], pages);
        Some(())
    }

    /// Maps an area and touches it.
    fn map(&mut self, pages: u64, alignment: u64, end: f64) -> Option<()> {
        let process = self.random.random_range(0..self.processes.len());
        let start = self.ends[process] + self.random.random_range(1..=16);
        let start = start.next_multiple_of(alignment);
        self.ends[process] = start + pages;
        let mm = self.processes[process];
        let System { machine, mm: manager, .. } = &mut self.system;
        manager.enter(machine, CPU).mmap_fixed(mm, start, pages, Backing::Anonymous, VmFlags::PRIVATE);
        let touched = match self.random.random_bool(self.spec.partly_touched) {
            true => self.random.random_range(1..=pages),
            false => pages,
        };
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..touched);
        if self.random.random_bool(0.5) {
            for i in (1..order.len()).rev() {
                order.swap(i, self.random.random_range(0..=i));
            }
        }
        let area = Area {
            end: end.to_bits(),
            process: process as u32,
            start,
            pages: u32::try_from(pages).ok()?,
            touched: touched as u32,
        };
        self.living.push(Reverse(area));
        self.mapped += pages;
        self.in_use += touched;
        self.touched += touched;
        'touched: for &page in &order {
            while self.touch(mm, start + page).is_none() {
                // The OOM killer kills a process, perhaps this one.
                self.end_first()?;
                self.killed += 1;
                if self.living.is_empty() {
                    return None;
                }
                if self.system.mm.parts.address_spaces.mm(mm).vmas.find(start).is_none() {
                    break 'touched;
                }
            }
        }
        self.order = order;
        self.probe(start..start + pages);
        Some(())
    }

    fn touch(&mut self, mm: MmId, page: Vpn) -> Option<()> {
        let System { machine, mm: manager, .. } = &mut self.system;
        let touch = manager.enter(machine, CPU).touch(mm, page, true);
        manager.parts.end_swap_reads();
        self.run_kswapd();
        touch.ok().map(drop)
    }

    /// Runs kswapd on a CPU of its own; it finishes before anybody needs another page. It also wakes
    /// kcompactd.
    fn run_kswapd(&mut self) {
        if self.spec.can_reclaim() || self.spec.compaction != Compactor::None {
            let System { machine, mm, .. } = &mut self.system;
            mm.enter(machine, CPU).run_kswapd(Node(0));
        }
    }

    /// For a kernel without large folios, tries whether a fault in this range could have allocated one.
    fn probe(&mut self, pages: std::ops::Range<Vpn>) {
        let size = 1 << self.spec.order;
        let fits = pages.start.next_multiple_of(size) + size <= pages.end;
        if !fits || !self.makes_none() {
            return;
        }
        let effort = Effort::LIGHT;
        let request =
            Request { effort, ..Request::new(self.spec.order, MigrateType::Movable, Placement::Local) };
        self.probes.0 += 1;
        let System { machine, mm, .. } = &mut self.system;
        if let Some(pfn) = mm.enter(machine, CPU).alloc(&request) {
            self.probes.1 += 1;
            mm.enter(machine, CPU).free(pfn, self.spec.order);
        }
    }

    fn makes_none(&self) -> bool {
        let (stats, orders) = (
            self.system.mm.parts.address_spaces.mthp_stats(),
            Orders::all_anon(self.system.mm.parts.allocator.geometry()),
        );
        orders.descending().all(|order| {
            stats.get(order, MthpStat::AnonFaultAlloc) + stats.get(order, MthpStat::AnonFaultFallback) == 0
        })
    }

    /// Numbers of faults that had room for the preferred order or a larger one, and of those that got it.
    fn attempts(&self) -> (i64, i64) {
        let stats = self.system.mm.parts.address_spaces.mthp_stats();
        let preferred = Orders::all_anon(self.system.mm.parts.allocator.geometry())
            .without(Orders::range(0, self.spec.order - 1));
        let made: i64 = preferred.descending().map(|order| stats.get(order, MthpStat::AnonFaultAlloc)).sum();
        let failed = stats.get(self.spec.order, MthpStat::AnonFaultFallback);
        (made + failed + self.probes.0, made + self.probes.1)
    }

    fn window(&self, total: u64, attempts: i64, successes: i64) -> Window {
        let mm = &self.system.mm;
        let mut blocks = [0; mm::page::NR_PAGE_ORDERS];
        for z in 0..mm.parts.allocator.zones().len() {
            blocks.iter_mut().zip(mm.parts.allocator.free_blocks(z)).for_each(|(sum, free)| *sum += free);
        }
        let rss = self.rss();
        Window {
            end: total as f64 / self.memory as f64,
            attempts,
            successes,
            unusable: unusable_free_index(&blocks, self.spec.order) as f64,
            folios: mm.parts.address_spaces.mthp_stats().get(self.spec.order, MthpStat::NrAnon) as f64,
            rss: rss as f64,
            untouched: rss.saturating_sub(self.in_use) as f64,
        }
    }

    /// Allocates and frees unmovable pages of the kernel at random.
    fn make_noise(&mut self, wanted: usize) {
        let request = Request::new(0, MigrateType::Unmovable, Placement::Local);
        let System { machine, mm, .. } = &mut self.system;
        if self.unmovable.len() >= wanted && !self.unmovable.is_empty() && self.random.random_bool(0.1) {
            let place = self.random.random_range(0..self.unmovable.len());
            mm.enter(machine, CPU).free(self.unmovable.swap_remove(place), 0);
        }
        if self.unmovable.len() < wanted {
            self.unmovable.extend(mm.enter(machine, CPU).alloc(&request));
        }
    }

    /// Reads some consecutive pages of files; called when `mapped` pages have been mapped in all.
    fn read_files(&mut self, mapped: u64) {
        match self.spec.page_cache {
            Files::None => {}
            Files::Pages if self.read >= mapped => {}
            Files::Pages => self.read_pages(),
            Files::Blocks => self.read_blocks(),
        }
    }

    /// Reads through the page cache, as many pages as are mapped; reclaim makes room.
    fn read_pages(&mut self) {
        let pages = self.random.random_range(1..=64);
        self.read += u64::from(pages);
        // The file is four times as large as memory, so some of it is read again.
        let first = self.random.random_range(0..4 * self.memory as u32);
        let System { machine, mm, .. } = &mut self.system;
        for index in first..first + pages {
            match mm.enter(machine, CPU).read_page(Memcg::ROOT, self.file, index, Access::New) {
                Ok(Read::Miss(folio)) => mm.parts.lrus.end_read(folio),
                Ok(Read::Hit(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// Reads blocks of growing order while there is room; the oldest blocks are freed first.
    fn read_blocks(&mut self) {
        let System { machine, mm, .. } = &mut self.system;
        let reserve = self.memory / 50;
        while mm.parts.allocator.free_pages() < 2 * reserve {
            let Some((pfn, order)) = self.cache.pop_front() else { return };
            mm.enter(machine, CPU).free(pfn, order);
        }
        let pages: u64 = self.random.random_range(1..=64);
        let (mut read, mut order) = (0, 0);
        while read < pages && mm.parts.allocator.free_pages() > reserve {
            let largest = order.min((pages - read).ilog2() as u8);
            let found = (0..=largest).rev().find_map(|order| {
                let request = Request::new(order, MigrateType::Movable, Placement::Local);
                let request = Request { effort: Effort::LIGHT, ..request };
                Some((mm.enter(machine, CPU).alloc(&request)?, order))
            });
            let Some(block) = found else { return };
            self.cache.push_back(block);
            read += 1 << block.1;
            order = (order + 2).min(5);
        }
    }

    /// Runs kswapd and kcompactd, and allocates the memory of zram.
    fn run_daemons(&mut self) {
        self.run_kswapd();
        let System { machine, mm, .. } = &mut self.system;
        if self.spec.compaction != Compactor::None {
            mm.enter(machine, CPU).run_kcompactd(Node(0));
            self.next_proactive += 1;
            if self.next_proactive.is_multiple_of(512) {
                mm.enter(machine, CPU).run_proactive_compaction(Node(0));
            }
        }
        let wanted = (mm.parts.swap.used() as f64 / ZRAM_RATIO) as usize;
        while self.zram.len() > wanted {
            let Some(pfn) = self.zram.pop() else { break };
            mm.enter(machine, CPU).free(pfn, 0);
        }
        let request = Request::new(0, MigrateType::Movable, Placement::Local);
        while self.zram.len() < wanted {
            let Some(pfn) = mm.enter(machine, CPU).alloc(&request) else { break };
            self.zram.push(pfn);
        }
    }

    fn outcome(self, windows: &Windows) -> Outcome {
        let mut outcome = Outcome::default();
        let memory = self.memory as f64;
        let rates = [
            (metric::PREFERRED_SUCCESS, windows.settled()),
            (metric::PREFERRED_SUCCESS_EARLY, windows.early()),
            (metric::PREFERRED_DRIFT, windows.drift()),
        ];
        for (metric, rate) in rates {
            if let Some(rate) = rate {
                outcome.set(metric, 100.0 * rate);
            }
        }
        if let Some(turnovers) = windows.equilibrium_time() {
            outcome.set(metric::EQUILIBRIUM_TIME, turnovers);
        }
        outcome.set(metric::PREFERRED_FOLIOS, windows.mean(|window| window.folios));
        outcome.set(metric::UNUSABLE_FREE, windows.mean(|window| window.unusable));
        outcome.set(metric::ANON_MEMORY, 100.0 * windows.mean(|window| window.rss) / memory);
        // Whether swapped-out pages were touched is unknown.
        if self.spec.zram == 0.0 {
            outcome.set(metric::UNTOUCHED_MEMORY, 100.0 * windows.mean(|window| window.untouched) / memory);
        }
        let counters = self.system.mm.counters();
        outcome
            .set(metric::FAULTS_PER_PAGE, counters.get(Event::Pgfault) as f64 / self.touched.max(1) as f64);
        outcome.set(metric::PAGES_MIGRATED, counters.get(Event::PgmigrateSuccess) as f64);
        outcome.counters = counters.clone();
        outcome.mthp = self.system.mm.parts.address_spaces.mthp_stats().clone();
        outcome.page_operations = counters.page_operations();
        outcome.notes.extend(self.system.note_of_sizes());
        if self.killed > 0 {
            let note = format!("areas that ended early, as no memory was left for others: {}", self.killed);
            outcome.notes.push(note);
        }
        for window in windows.all() {
            if let Some(rate) = window.rate() {
                let (seconds, value) = (window.end, 100.0 * rate);
                outcome.series.push(Sample { seconds, name: "preferred_success", value });
            }
        }
        outcome
    }
}
