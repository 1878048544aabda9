//! A sequence of page accesses by one task, through the twin's page cache, swap and reclaim.
//!
//! ```text
//!   operations ─► a boot of the twin, one task, perhaps in a memcg ─► hit or miss of each access,
//!                 devices that complete at once                        evicted pages in order; counters
//! ```
//!
//! The result is counts and orders, not times. `mmtwin verify reclaim` compares it with real kernels.

use machine::{Costs, Cpu, Machine, Node, Time, Topology};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::OutOfMemory;
use mm::allocator::request::{Placement, Request};
use mm::filemap::{Access, Read};
use mm::memcontrol::{Memcg, MemcgFile, MemcgStep};
use mm::memory::Touch;
use mm::memory_map::MemoryRange;
use mm::readahead::OpenFileId;
use mm::writeback::{Dirtier, Flush};
use mm::xarray::FileId;
use mm::{Counters, Features, Kernel, MemoryManager, MigrateType, Parts, SettingError, Settings};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use thiserror::Error;
pub use workload::access::sequences::Operation;

use crate::readahead::{FileFolio, read_request};

/// The machine and kernel of the task.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// Features of the kernel.
    pub features: &'a Features,
    pub settings: Settings,
    /// Number of CPUs; the task runs on the first.
    pub cpus: usize,
    pub memory: Vec<MemoryRange>,
    /// Pages in use from the start by the kernel and other programs.
    pub held: u64,
    /// `memory.max` of the task's memcg in pages; `None` if the task is in the root memcg and the machine
    /// itself runs short.
    pub memcg_max: Option<u64>,
    /// Writes to files of the memcg, in order of accesses.
    pub writes: Vec<MemcgWriteAt>,
    /// Blocks of metadata, a page each, that the file system reads first and keeps a reference to.
    pub metadata: u32,
    /// Pages of swap, on a device that the task does not wait for (zram).
    pub swap_pages: u64,
    /// Accesses between two readings of memory.stat, which flush the memcg's statistics; 0 for none.
    pub stat_reads: u32,
    /// Seed of the kernel's random numbers.
    pub seed: u64,
    /// Time from one access to the next; the task sleeps where memory.stat is read. Zero if nothing takes time.
    pub pace: Time,
    /// Whether the file mapping has `MADV_RANDOM`.
    pub random_mapping: bool,
    /// How the file is read; `None` for single pages without readahead.
    pub requests: Option<Requests>,
}

/// A write to a file of the task's memcg, before one of its accesses.
#[derive(Clone, Copy, Debug)]
pub struct MemcgWriteAt {
    /// Number of the access, from 0.
    pub access: u32,
    pub file: MemcgFile,
    pub bytes: u64,
}

/// Reads of several pages through one descriptor, with readahead. Each begins with the page of an
/// [`Operation::Read`].
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Pages per read.
    pub pages: u32,
    /// Length of the file in pages.
    pub file_pages: u32,
    /// Whether the file system uses large folios.
    pub large_folios: bool,
}

/// Results of a sequence.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// For each access, whether its page, or all pages of its request, were resident just before it.
    pub hits: Vec<bool>,
    /// For each request, the folios that it brought in, in order; empty if pages are read singly.
    pub brought: Vec<Vec<FileFolio>>,
    /// Pages of the file that were evicted from the page cache, in order.
    pub evicted: Vec<u32>,
    /// For each evicted page, the number of the access before or during which it was evicted. What a task reclaims on its way
    /// back to its program is before the next one.
    pub evicted_at: Vec<u32>,
    pub counters: Counters,
    /// XArray nodes of files that have only shadow entries at the end (`workingset_nodes`).
    pub workingset_nodes: u64,
    /// State of the task's multi-gen LRU at the end, in the format of debugfs (`lru_gen`).
    pub lru_gen: String,
}

impl Outcome {
    fn note_evicted(&mut self, replay: &mut Replay, access: usize) {
        for (_, page) in replay.mm.parts.page_cache.take_removals() {
            self.evicted.push(page);
            self.evicted_at.push(access as u32);
        }
    }
}

/// Why a sequence ended early.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The kernel refuses a setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Reclaim found nothing.
    #[error("access {access}: out of memory, the kernel would kill the task; give it more memory or swap")]
    OutOfMemory {
        /// Number of the access, from 0.
        access: usize,
    },
    /// The machine has less memory than `held`.
    #[error("the machine has too little memory for the {held} pages that are held from the start")]
    TooLittle { held: u64 },
}

struct Replay {
    mm: MemoryManager,
    machine: Machine<mm::Category>,
    memcg: Memcg,
    file: FileId,
    process: MmId,
    /// Where the process has mapped the file.
    mapping: Vpn,
    /// Where the process has anonymous memory.
    anonymous: Vpn,
    /// The page read by the last operation.
    last_read: Option<u32>,
    /// Dirtying state of the task.
    writer: Dirtier,
    /// The descriptor for requests, if the file is read by requests.
    descriptor: Option<(Requests, OpenFileId)>,
    /// The folios that the last request brought in.
    brought: Vec<FileFolio>,
}

const CPU: Cpu = Cpu(0);

/// Allocates pages that are never freed.
fn hold(kernel: &mut Kernel, held: u64) -> Result<(), ReplayError> {
    let request = Request::new(0, MigrateType::Unmovable, Placement::Local);
    for _ in 0..held {
        kernel.alloc(&request).ok_or(ReplayError::TooLittle { held })?;
    }
    Ok(())
}

/// The task's memcg: a new one with this `memory.max`, or the root memcg.
fn create_memcg(parts: &mut Parts, max: Option<u64>) -> Memcg {
    let Some(max) = max else { return Memcg::ROOT };
    let memcg = parts.lrus.create_memcg(Memcg::ROOT);
    parts.lrus.memcg_mut(memcg).max = max;
    memcg
}

/// Reads metadata blocks of the file system, which keeps a reference to them.
fn read_metadata(kernel: &mut Kernel, memcg: Memcg, blocks: u32) {
    let device = kernel.parts.page_cache.open_file();
    for block in 0..blocks {
        if let Ok(Read::Miss(id)) = kernel.read_page(memcg, device, block, Access::New) {
            kernel.parts.lrus.end_read(id);
            kernel.parts.lrus.hold(id);
            // The file system looks it up again once it is read, which marks it accessed a second time.
            kernel.folio_mark_accessed(id);
        }
    }
}

impl Replay {
    fn new(setup: &Setup, pages: u32, anonymous: u32) -> Result<Replay, ReplayError> {
        let topology = Topology { cores_per_socket: setup.cpus as u16, ..Topology::single() };
        let noise = Pcg64Mcg::seed_from_u64(setup.seed);
        let settings = setup.settings.clone();
        let mut mm = MemoryManager::new(&topology, &setup.memory, *setup.features, settings, noise);
        let mut machine = Machine::new(topology, Costs::FREE);
        let mut kernel = mm.enter(&mut machine, CPU);
        hold(&mut kernel, setup.held)?;
        let memcg = create_memcg(kernel.parts, setup.memcg_max);
        kernel.parts.swap.swapon(setup.swap_pages, Some(Time::ZERO));
        let file = kernel.parts.page_cache.open_file();
        let process = kernel.parts.create_mm(memcg);
        // A VMA is never empty; pages in it that are not accessed do not matter.
        let pages = u64::from(pages.max(1));
        let shared = VmFlags::PRIVATE.or(VmFlags::SHARED);
        let mapping = kernel.mmap(process, pages, Backing::File(file, 0), shared);
        let anonymous = kernel.mmap(process, anonymous.max(1).into(), Backing::Anonymous, VmFlags::PRIVATE);
        if setup.random_mapping {
            kernel.madvise(process, mapping..mapping + pages, Advice::Random);
        }
        read_metadata(&mut kernel, memcg, setup.metadata);
        kernel.parts.page_cache.watch_removals();
        let writer = Dirtier::new(mm.parts.allocator.page_size());
        let descriptor = setup.requests.map(|requests| {
            if requests.large_folios {
                mm.parts.page_cache.set_large_folios(file);
            }
            (requests, mm.open(file, requests.file_pages))
        });
        let (last_read, brought) = (None, Vec::new());
        Ok(Replay {
            mm,
            machine,
            memcg,
            file,
            process,
            mapping,
            anonymous,
            last_read,
            writer,
            descriptor,
            brought,
        })
    }

    /// The virtual page that an operation accesses.
    fn page(&self, operation: Operation) -> Vpn {
        match operation {
            Operation::Read(page) | Operation::MapLoad(page) | Operation::Write(page) => {
                self.mapping + u64::from(page)
            }
            Operation::AnonLoad(page) | Operation::AnonStore(page) => self.anonymous + u64::from(page),
        }
    }

    /// Whether everything that an operation accesses is in memory.
    fn is_resident(&self, operation: Operation) -> bool {
        match (operation, self.descriptor) {
            (Operation::Read(page), Some((Requests { pages, file_pages, .. }, _))) => {
                let mut asked = page..page.saturating_add(pages).min(file_pages);
                asked.all(|index| self.mm.parts.page_cache.files().folio(self.file, index).is_some())
            }
            _ => self.mm.parts.is_resident(self.process, self.page(operation)),
        }
    }

    fn access(&mut self, operation: Operation) -> Result<(), OutOfMemory> {
        let last = self.last_read.take();
        if let Operation::Read(page) = operation {
            self.last_read = Some(page);
        }
        let is_again = last.is_some() && last == self.last_read;
        let access = if is_again { Access::Again } else { Access::New };
        let at = self.page(operation);
        if let (Operation::Read(page), Some((requests, open))) = (operation, self.descriptor) {
            let pages = page..page.saturating_add(requests.pages);
            read_request(
                &mut self.mm.enter(&mut self.machine, CPU),
                (self.memcg, open),
                pages,
                &mut self.brought,
            )?;
            self.work_behind();
            return Ok(());
        }
        let Replay { mm, machine, process, .. } = self;
        let filled = match operation {
            Operation::Read(page) => {
                match mm.enter(machine, CPU).read_page(self.memcg, self.file, page, access)? {
                    Read::Hit(_) => None,
                    Read::Miss(id) => Some(id),
                }
            }
            Operation::Write(page) => {
                let write = mm.enter(machine, CPU).write_page(self.memcg, self.file, page)?;
                let now = machine.now(CPU);
                // The task is not throttled, as a sequence has no times.
                mm.enter(machine, CPU).balance_dirty_pages_ratelimited(
                    &mut self.writer,
                    self.file,
                    write.dirtied,
                    now,
                );
                None
            }
            Operation::MapLoad(_) | Operation::AnonLoad(_) => {
                filled_by(mm.enter(machine, CPU).touch(*process, at, false)?)
            }
            Operation::AnonStore(_) => filled_by(mm.enter(machine, CPU).touch(*process, at, true)?),
        };
        if let Some(id) = filled {
            mm.parts.lrus.end_read(id);
        }
        self.work_behind();
        Ok(())
    }

    /// Sleeps, while kdamond does what it has to.
    fn sleep_until(&mut self, until: Time) {
        let Replay { mm, machine, .. } = self;
        while mm.kdamond_due() <= until {
            machine.idle_until(CPU, mm.kdamond_due());
            while mm.enter(machine, CPU).kdamond() {}
        }
        machine.idle_until(CPU, until);
    }

    /// Writes to a file of the memcg, as another task does while this one waits.
    fn write(&mut self, write: MemcgWriteAt) {
        let Replay { mm, machine, memcg, .. } = self;
        let mut kernel = mm.enter(machine, CPU);
        let mut begun = kernel.begin_memcg_write(*memcg, write.file, write.bytes);
        while !matches!(kernel.step_memcg_write(&mut begun), MemcgStep::Done | MemcgStep::Short) {}
    }

    /// Returns to the program: above memory.high the task reclaims first. It does not sleep, as a sequence has no times.
    fn return_to_program(&mut self) {
        if self.mm.parts.is_over_high(CPU) {
            let _ = self.mm.enter(&mut self.machine, CPU).return_over_high(self.memcg);
        }
    }

    /// What devices, flushers and kswapd do before the next access.
    fn work_behind(&mut self) {
        let Replay { mm, machine, .. } = self;
        mm.parts.end_swap_reads();
        if let Some(mut flusher) = mm.parts.page_cache.start_flusher(machine.now(CPU)) {
            while flusher.step(&mut mm.enter(machine, CPU), u64::MAX) == Flush::Request {
                for id in mm.parts.page_cache.take_submitted_writes() {
                    mm.enter(machine, CPU).end_write(id);
                }
            }
        }
        mm.enter(machine, CPU).run_kswapd(Node(0));
    }
}

fn filled_by(touch: Touch) -> Option<mm::folio::FolioId> {
    match touch {
        Touch::ReadFile(id) => Some(id),
        Touch::Mapped | Touch::Minor | Touch::ReadSwap(_) | Touch::AwaitSwap(_) => None,
        Touch::Retry(_) => unreachable!("no file is mapped through an open file"),
    }
}

/// Runs a sequence. `progress` is called from time to time with the number of accesses made.
pub fn replay(
    setup: &Setup,
    operations: &[Operation],
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, ReplayError> {
    let (mut pages, mut anonymous) = (0, 0);
    for operation in operations {
        match *operation {
            Operation::Read(page) | Operation::MapLoad(page) | Operation::Write(page) => {
                pages = pages.max(page + 1);
            }
            Operation::AnonLoad(page) | Operation::AnonStore(page) => anonymous = anonymous.max(page + 1),
        }
    }
    let mut replay = Replay::new(setup, pages, anonymous)?;
    let mut outcome = Outcome { hits: Vec::with_capacity(operations.len()), ..Outcome::default() };
    let mut writes = setup.writes.iter().peekable();
    for (access, &operation) in operations.iter().enumerate() {
        while let Some(write) = writes.next_if(|write| write.access as usize <= access) {
            replay.write(*write);
        }
        outcome.note_evicted(&mut replay, access);
        outcome.hits.push(replay.is_resident(operation));
        replay.access(operation).map_err(|_| ReplayError::OutOfMemory { access })?;
        if setup.requests.is_some() {
            outcome.brought.push(std::mem::take(&mut replay.brought));
        }
        outcome.note_evicted(&mut replay, access);
        replay.return_to_program();
        if setup.stat_reads > 0 && (access as u32).is_multiple_of(setup.stat_reads) {
            replay.mm.parts.lrus.flush_stats_if_needed(Time::ZERO, setup.cpus);
            replay.sleep_until(setup.pace * access as u64);
        }
        if access % 65_536 == 0 {
            progress(access as u64);
        }
    }
    outcome.note_evicted(&mut replay, operations.len());
    outcome.counters = replay.mm.counters().clone();
    outcome.workingset_nodes = replay.mm.parts.page_cache.files().workingset_nodes();
    outcome.lru_gen = replay.mm.parts.lru_gen_text(replay.memcg, replay.machine.now(CPU));
    Ok(outcome)
}
