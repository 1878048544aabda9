//! Files and memory that may have to come from a device: read and write calls, page faults, and the requests that they make.
//!
//! ```text
//!   read, write, touch ──► page cache, page tables (mm) ──► folios to read or to write
//!                                                               │ submit_reads, submit_swap_reads, submit_writes
//!   the caller waits until a folio is filled ◄── completions ◄── device
//! ```
//!
//! Who called waits for the pages that it asked for, not for those read ahead. RAM disks and zram do their work on the CPU that
//! submits; what they complete is complete at once. Flushers (writeback kworkers) submit what they have chosen as one request,
//! reclaim what it swaps out folio by folio.

use crate::System;
use crate::flushers::{DEPTH, Flushers, Written};
use crate::mapping::pay_for;
use machine::costs::PagingCosts;
use machine::profile::Figure;
use machine::storage::{Device, DeviceFigures, Direction, Service};
use machine::{Cpu, PageSize, Profile, Time};
use mm::address_space::{MmId, Vpn};
use mm::allocator::request::OutOfMemory;
use mm::delayacct::Cause;
use mm::filemap::Read;
use mm::folio::FolioId;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::prefetch::Foresight;
use mm::readahead::OpenFileId;
use mm::writeback::Dirtier;
use mm::xarray::FileId;
use mm::zswap::Compressor;
use mm::{Category, Event};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Why there is a device where files are read and written.
const NO_FILES: &str = "checked: programs with files name a device";

/// Whether the CPU that submits a request at `now` also does the device's work (zram, RAM disks).
fn is_done_by_cpu(service: Service, now: Time) -> bool {
    service.completion <= now + service.cpu
}

/// An I/O completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Completion {
    Filled(FolioId),
    Written(FolioId),
}

/// The read calls of a thread that are in flight.
#[derive(Clone, Debug)]
pub(crate) struct ReadsInFlight {
    /// How many there may be.
    most: usize,
    /// When they complete, earliest first.
    completions: BinaryHeap<Reverse<Wait>>,
}

impl ReadsInFlight {
    pub fn new(most: usize) -> ReadsInFlight {
        ReadsInFlight { most, completions: BinaryHeap::new() }
    }

    /// Adds a call that completes then, or has completed if it is `None`. Returns what the thread waits for; it goes on as long as it may
    /// have more in flight.
    pub fn add(&mut self, call: Option<Wait>) -> Option<Wait> {
        self.completions.push(Reverse(call?));
        if self.completions.len() < self.most {
            return None;
        }
        self.completions.pop().map(|Reverse(earliest)| earliest)
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait {
    pub until: Time,
    /// Why it does not go on; absent if it does not want to.
    pub cause: Option<Cause>,
}

impl Wait {
    pub fn new(cause: Cause, until: Time) -> Wait {
        Wait { until, cause: Some(cause) }
    }

    /// A wait for a folio that is being read.
    fn for_folio(system: &System, id: FolioId, until: Time) -> Wait {
        let refault = system.mm.parts.lrus.is_workingset(id);
        Wait::new(if refault { Cause::Refault } else { Cause::Device }, until)
    }

    /// Notes for the task on a CPU, which goes to sleep now, how long that is.
    pub fn delay(self, system: &mut System, cpu: Cpu) {
        let now = system.machine.now(cpu);
        if let Some(cause) = self.cause {
            system.mm.parts.delays.add(cpu, cause, (now, self.until.saturating_sub(now)));
        }
    }
}

/// The devices of a machine's files and swap, with what they are doing.
pub(crate) struct BlockIo {
    page_size: PageSize,
    /// Pages of the largest request.
    request_pages: u64,
    file_device: Option<Device>,
    swap_device: Option<Device>,
    /// When the writes to swap in flight were submitted, and when they complete.
    swap_writes: Vec<(Time, Time)>,
    /// For each folio being read, the time at which it is filled.
    filled_at: Vec<Time>,
    /// Folios of the request being submitted.
    request: Vec<FolioId>,
    completions: BinaryHeap<Reverse<(Time, Completion)>>,
    costs: PagingCosts,
    /// Pages of which a fault has started reading, and which are touched once more when they are read ([`Touch::Retry`]).
    retries: Vec<(MmId, Vpn)>,
    /// What threads will read and write next.
    foresight: Foresight,
    /// Bytes read from the device of files since [`Self::start_measuring`].
    file_bytes_read: u64,
    /// The flushers, whose requests complete with the others.
    pub flushers: Flushers,
}

fn note_filling(filled_at: &mut Vec<Time>, id: FolioId, completion: Time) {
    let index = id.index();
    if filled_at.len() <= index {
        filled_at.resize(index + 1, Time::ZERO);
    }
    filled_at[index] = completion;
}

impl BlockIo {
    /// The devices of these names in the machine's profile: of files, and of swap with its size in MiB. A run is checked to name
    /// only devices that the machine has.
    pub fn new(
        machine: &Profile,
        files: Option<&str>,
        swap: Option<(&str, u64)>,
        system: &mut System,
    ) -> BlockIo {
        let device = |name: &str| machine.devices.get(name).map(|figures| figures.device());
        let page_size = system.mm.parts.allocator.page_size();
        let swap_device = swap.and_then(|(name, mib)| {
            let device = device(name)?;
            swapon(system, &device, mib);
            Some(device)
        });
        if let Some(compressor) = compressor(machine, page_size) {
            system.mm.parts.zswap.set_compressor(compressor);
        }
        BlockIo {
            page_size,
            request_pages: (system.mm.settings().max_sectors_kb * 1024 / page_size.bytes()).max(1),
            file_device: files.and_then(device),
            swap_device,
            swap_writes: Vec::new(),
            filled_at: Vec::new(),
            request: Vec::new(),
            completions: BinaryHeap::new(),
            costs: system.machine.costs.paging(),
            retries: Vec::new(),
            foresight: Foresight::default(),
            file_bytes_read: 0,
            flushers: Flushers::default(),
        }
    }

    /// Whether there is a device, of files or of swap.
    pub fn has_devices(&self) -> bool {
        self.file_device.is_some() || self.swap_device.is_some()
    }

    /// Memory in bytes that `bytes` of files take on their device, which is more than none for a RAM disk.
    pub fn memory_of_files(&self, bytes: u64) -> u64 {
        self.file_device.as_ref().map_or(0, |device| device.memory(bytes))
    }

    /// Memory in bytes that the contents of swap take now on their device; `None` without swap.
    pub fn memory_of_swap(&self, system: &System) -> Option<u64> {
        let device = self.swap_device.as_ref()?;
        Some(device.memory(system.mm.parts.swap.used() * self.page_size.bytes()))
    }

    /// Starts counting what is read.
    pub fn start_measuring(&mut self) {
        self.file_bytes_read = 0;
    }

    /// Bytes read from the device of files since measuring began.
    pub fn file_bytes_read(&self) -> u64 {
        self.file_bytes_read
    }

    /// When the next request completes, if one is in flight.
    pub fn next_completion(&self) -> Option<Time> {
        self.completions.peek().map(|&Reverse((time, _))| time)
    }

    /// Handles all completions up to `now`, before which nobody submits any more.
    pub fn complete(&mut self, system: &mut System, cpu: Cpu, now: Time) {
        self.file_device.iter_mut().chain(&mut self.swap_device).for_each(|device| device.forget_before(now));
        while let Some(&Reverse((time, completion))) = self.completions.peek()
            && time <= now
        {
            self.completions.pop();
            match completion {
                Completion::Filled(id) => system.mm.parts.lrus.end_read(id),
                Completion::Written(id) => system.mm.enter(&mut system.machine, cpu).end_write(id),
            }
        }
    }

    /// Lets a flusher on `cpu` that can go on choose its next request, and submits it.
    pub fn step_flushers(&mut self, system: &mut System, cpu: Cpu) {
        self.flushers.step(system, cpu, self.request_pages);
        self.submit_writes(system, cpu);
    }

    /// Submits writes to devices: swapped-out folios one by one, the folios of a flusher as one request.
    pub fn submit_writes(&mut self, system: &mut System, cpu: Cpu) {
        let writes = system.mm.parts.page_cache.take_submitted_writes();
        if writes.is_empty() {
            return;
        }
        let page = self.page_size.bytes();
        let bytes = |system: &System, id: FolioId| page << system.mm.parts.lrus.folio_order(id);
        let (files, swap): (Vec<FolioId>, Vec<FolioId>) =
            writes.iter().partition(|&&id| system.mm.parts.lrus.is_of_file(id));
        for id in swap {
            self.await_swap_slot(system, cpu);
            let device = self.swap_device.as_mut().expect("what is written to swap has a device");
            let now = system.machine.now(cpu);
            let service = device.submit(now, Direction::Write, bytes(system, id));
            system.machine.charge(cpu, Category::BlockLayer, self.costs.io_submit + service.cpu);
            self.swap_writes.push((now, service.completion));
            self.completions.push(Reverse((service.completion, Completion::Written(id))));
        }
        if files.is_empty() {
            return;
        }
        let now = system.machine.now(cpu);
        let bytes = files.iter().map(|&id| bytes(system, id)).sum();
        let device = self.file_device.as_mut().expect(NO_FILES);
        let service = device.submit(now, Direction::Write, bytes);
        system.machine.charge(cpu, Category::BlockLayer, self.costs.io_submit + service.cpu);
        if is_done_by_cpu(service, now) {
            files.into_iter().for_each(|id| system.mm.enter(&mut system.machine, cpu).end_write(id));
        } else {
            let Written { folios, at } = self.flushers.submitted(files, service.completion);
            self.completions.extend(folios.into_iter().map(|id| Reverse((at, Completion::Written(id)))));
        }
    }

    /// Waits until a write to swap has a slot: writeback throttling lets reclaim have no more in flight than it lets kswapd, so
    /// that memory is not full of pages that are being written (`wbt_wait`). What else the CPU could do meanwhile is not done.
    fn await_swap_slot(&mut self, system: &mut System, cpu: Cpu) {
        let now = system.machine.now(cpu);
        self.swap_writes.retain(|&(_, completion)| completion > now);
        let settings = system.mm.settings();
        let most = if settings.wbt_lat_usec == 0 { settings.nr_requests as usize } else { DEPTH };
        // Those of CPUs whose clocks are ahead are not there yet.
        let in_flight = self.swap_writes.iter().filter(|&&(submitted, _)| submitted <= now);
        let mut completions: Vec<Time> = in_flight.map(|&(_, completion)| completion).collect();
        if let Some(freed) = completions.len().checked_sub(most) {
            completions.sort_unstable();
            Wait::new(Cause::DirectReclaim, completions[freed]).delay(system, cpu);
            system.machine.idle_until(cpu, completions[freed]);
        }
    }

    /// Submits the swap reads of page faults and khugepaged.
    pub fn submit_swap_reads(&mut self, system: &mut System, cpu: Cpu) {
        while system.mm.parts.swap.take_submitted_swap_read(&mut self.request) {
            let insert = self.costs.swap_in * self.request.len() as u64;
            system.machine.charge(cpu, Category::PageFault, insert);
            let bytes = self.request_bytes(system);
            let device = self.swap_device.as_mut().expect("what was written to swap has a device");
            let now = system.machine.now(cpu);
            let service = device.submit(now, Direction::Read, bytes);
            self.await_request(system, cpu, now, service);
        }
    }

    /// Submits reads of the pages found missing; adjacent pages are one request.
    fn submit_reads(&mut self, system: &mut System, cpu: Cpu) {
        while system.mm.parts.page_cache.take_submitted_read(&mut self.request) {
            let insert = self.costs.file_insert * self.request.len() as u64;
            system.machine.charge(cpu, Category::FileRead, insert);
            let now = system.machine.now(cpu);
            let bytes = self.request_bytes(system);
            let device = self.file_device.as_mut().expect(NO_FILES);
            let service = device.submit(now, Direction::Read, bytes);
            self.file_bytes_read += bytes;
            self.await_request(system, cpu, now, service);
        }
    }

    /// Bytes of the request being submitted.
    fn request_bytes(&self, system: &System) -> u64 {
        let pages = |&id: &FolioId| self.page_size.bytes() << system.mm.parts.lrus.folio_order(id);
        self.request.iter().map(pages).sum()
    }

    /// Notes when the folios of a request submitted at `now` will be filled.
    fn await_request(&mut self, system: &mut System, cpu: Cpu, now: Time, service: Service) {
        system.machine.charge(cpu, Category::BlockLayer, self.costs.io_submit + service.cpu);
        let at_once = is_done_by_cpu(service, now);
        for id in self.request.drain(..) {
            if at_once {
                system.mm.parts.lrus.end_read(id);
            } else {
                note_filling(&mut self.filled_at, id, service.completion);
                self.completions.push(Reverse((service.completion, Completion::Filled(id))));
            }
        }
    }

    /// Charges for entering and leaving a read or write call.
    pub fn begin_write_call(&self, system: &mut System, cpu: Cpu) {
        system.machine.charge(cpu, Category::FileWrite, self.costs.file_read_call);
    }

    /// Prefetches for a read or write at `part`, in pages of 4 KiB, that waits until its CPU is the furthest behind: others run
    /// before that.
    pub fn foresee(&mut self, system: &System, file: FileId, part: u64) {
        let page = (part / self.page_size.parts()) as u32;
        system.mm.parts.foresee_reads(&mut self.foresight, file, &[page]);
    }

    /// Makes a read call of a task in `memcg`: copies cached pages and submits reads for missing ones. `parts` is the range in
    /// pages of 4 KiB. Returns the wait for the last page; `None` if all were cached.
    pub fn read(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        (memcg, open): (Memcg, OpenFileId),
        parts: Range<u64>,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let costs = self.costs;
        let pages = self.page_size.pages_of_parts(parts.clone());
        let count = (pages.end - pages.start) as u32;
        let mut request = system.mm.parts.page_cache.begin_read(memcg, open, pages.start as u32, count);
        let mut begin = parts.start;
        let mut latest = None;
        let mut previous = None;
        system.machine.charge(cpu, Category::FileRead, costs.file_read_call);
        while let Some(read) = system.mm.enter(&mut system.machine, cpu).read_next(&mut request)? {
            self.submit_reads(system, cpu);
            let (Read::Hit(id) | Read::Miss(id)) = read;
            if system.mm.parts.lrus.is_locked(id) {
                latest = latest.max(Some(Wait::for_folio(system, id, self.filled_at[id.index()])));
            }
            // Of the first and the last page, only the requested part is copied.
            let end = parts.end.min((begin / self.page_size.parts() + 1) * self.page_size.parts());
            let copy = system.machine.costs.page_copy.fraction(end - begin, self.page_size.parts());
            begin = end;
            // A folio is looked up once for all its pages.
            let lookup = if previous == Some(id) { Time::ZERO } else { costs.file_lookup };
            previous = Some(id);
            let copied = lookup + copy;
            system.machine.work(cpu, Category::FileRead, copied);
        }
        Ok(latest)
    }

    /// Overwrites a page of 4 KiB of a file, for a task in `memcg`. Returns the wait of a task that is throttled for dirtying too much.
    pub fn write(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        (memcg, file, part): (Memcg, FileId, u64),
        dirtier: &mut Dirtier,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let index = (part / self.page_size.parts()) as u32;
        let write = system.mm.enter(&mut system.machine, cpu).write_page(memcg, file, index)?;
        let insert = if write.was_there { Time::ZERO } else { self.costs.file_insert };
        let copy = system.machine.costs.page_copy.fraction(1, self.page_size.parts());
        system.machine.work(cpu, Category::FileWrite, self.costs.file_write + insert + copy);
        let now = system.machine.now(cpu);
        let throttled = system.mm.enter(&mut system.machine, Cpu(0)).balance_dirty_pages_ratelimited(
            dirtier,
            file,
            write.dirtied,
            now,
        );
        self.submit_writes(system, cpu);
        Ok(throttled.map(|until| Wait::new(Cause::DirtyPages, until)))
    }

    /// Touches a page of memory. Returns the wait for it, if there is one.
    pub fn touch(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        place: (MmId, Vpn),
        write: bool,
    ) -> Result<Option<Wait>, OutOfMemory> {
        let (mm, page) = place;
        let mut is_retried = self.take_retry(place);
        loop {
            let hints = system.mm.counters().get(Event::NumaHintFaults);
            let mapped = system.mm.parts.address_spaces.mm(mm).anon_pages();
            let mut kernel = system.mm.enter(&mut system.machine, cpu);
            let touch = match is_retried {
                true => kernel.retry_touch(mm, page, write)?,
                false => kernel.touch(mm, page, write)?,
            };
            // Hint faults have a cost of their own, which was charged.
            let was_hint = system.mm.counters().get(Event::NumaHintFaults) > hints;
            let folio = match touch {
                Touch::Mapped => return Ok(None),
                Touch::Minor if was_hint => return Ok(None),
                // Somebody else may be reading the page of a file.
                Touch::Minor => system.mm.parts.address_spaces.pte(mm, page).folio(),
                Touch::ReadSwap(id) | Touch::AwaitSwap(id) | Touch::ReadFile(id) | Touch::Retry(id) => {
                    Some(id)
                }
            };
            // Both attempts are one fault.
            if !is_retried {
                let pages = system.mm.parts.address_spaces.mm(mm).anon_pages().saturating_sub(mapped);
                let costs = &system.machine.costs;
                let cost = costs.page_fault + costs.further_pages(pages);
                system.machine.work(cpu, Category::PageFault, cost);
            }
            match touch {
                Touch::Minor => {}
                // A file that no device has is in memory.
                Touch::ReadFile(id) if !is_retried => system.mm.parts.lrus.end_read(id),
                _ => {
                    self.submit_swap_reads(system, cpu);
                    self.submit_reads(system, cpu);
                }
            }
            let read = folio.filter(|&id| system.mm.parts.lrus.is_locked(id));
            let waits = read.map(|id| Wait::for_folio(system, id, self.filled_at[id.index()]));
            is_retried = matches!(touch, Touch::Retry(_));
            if !is_retried {
                return Ok(waits);
            }
            if waits.is_some() {
                self.retries.push(place);
                return Ok(waits);
            }
        }
    }

    /// Whether a task that waits has to touch a page once more then.
    pub fn is_retried(&self, place: (MmId, Vpn)) -> bool {
        self.retries.contains(&place)
    }

    /// Whether this touch is a retry. Who comes first to a page that several wait for takes the place of the first.
    fn take_retry(&mut self, place: (MmId, Vpn)) -> bool {
        let found = self.retries.iter().position(|of| *of == place);
        found.map(|at| self.retries.swap_remove(at)).is_some()
    }

    /// Frees pages of a process, as by `madvise(MADV_DONTNEED)`.
    pub fn release(&self, system: &mut System, cpu: Cpu, mm: MmId, pages: Range<Vpn>) {
        let freed = system.mm.enter(&mut system.machine, cpu).madvise_dontneed(mm, pages);
        pay_for(system, cpu, &freed);
    }

    /// Frees all memory of a process that ends. Returns how many pages that were.
    pub fn exit(&mut self, system: &mut System, cpu: Cpu, mm: MmId) -> u64 {
        self.retries.retain(|(of, _)| *of != mm);
        let freed = system.mm.enter(&mut system.machine, cpu).exit_mm(mm);
        pay_for(system, cpu, &freed);
        freed.pages()
    }

    /// Charges for a task that goes to sleep for I/O, and for the interrupt and the switch back to it.
    pub fn charge_wait(&self, system: &mut System, cpu: Cpu) {
        system.machine.charge(cpu, Category::BlockLayer, self.costs.task_switch + self.costs.io_complete);
    }
}

/// What zswap's compression of a page takes on a machine: what its zram takes for 4 KiB.
fn compressor(machine: &Profile, page_size: PageSize) -> Option<Compressor> {
    machine.devices.values().find_map(|device| {
        let DeviceFigures::Zram(zram) = device else { return None };
        let time = |figure: &Figure| Time::from_nanoseconds_f64(figure.value) * page_size.parts();
        Some(Compressor {
            compress: time(&zram.compress_ns),
            decompress: time(&zram.decompress_ns),
            bytes: (page_size.bytes() as f64 / zram.ratio.value) as u32,
        })
    })
}

/// Adds a swap area on a device.
fn swapon(system: &mut System, device: &Device, mib: u64) {
    let page_size = system.mm.parts.allocator.page_size();
    let service = device.clone().submit(Time::ZERO, Direction::Write, page_size.bytes());
    let itself = is_done_by_cpu(service, Time::ZERO).then_some(service.cpu);
    system.mm.parts.swap.swapon(page_size.pages_of_mib(mib), itself);
}
