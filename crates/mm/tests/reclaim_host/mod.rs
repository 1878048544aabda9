//! Memory cgroups, processes and files on a machine that is always short of memory, and their random demand.

use crate::reclaim_machine::CPUS;
use machine::{Cpu, Machine, Node, PageSize, Time};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::OutOfMemory;
use mm::filemap::{Access, Read};
use mm::folio::FolioId;
use mm::jiffies::TICK_NS;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::readahead::OpenFileId;
use mm::writeback::policy::MAX_PAUSE;
use mm::writeback::{Dirtier, Flush, Flusher};
use mm::xarray::FileId;
use mm::{Category, MemoryManager, MigrateType, Pfn, Placement, Request};
use proptest::prelude::*;

/// Pages of a file, and of a mapping.
pub const FILE_PAGES: u32 = 3000;
pub const MAPPED_PAGES: u64 = 1500;
/// The most processes at a time.
pub const PROCESSES: usize = 6;
/// Mappings of a process: anonymous memory, a file mapped shared, and a file mapped private.
pub const MAPPINGS: usize = 3;
/// Memory cgroups that exist from the start, with the root.
pub const GROUPS: u16 = 4;

#[derive(Clone, Debug)]
pub enum Step {
    Read {
        cpu: u16,
        memcg: u16,
        file: usize,
        from: u32,
        pages: u32,
        stride: u32,
    },
    /// A read with readahead, in large folios.
    Stream {
        cpu: u16,
        memcg: u16,
        open: usize,
        from: u32,
        pages: u32,
    },
    Write {
        cpu: u16,
        memcg: u16,
        file: usize,
        from: u32,
        pages: u32,
    },
    /// Lets time pass and runs flushers for some requests each; with `urgent` they are asked to write
    /// everything.
    WriteBack {
        milliseconds: u64,
        urgent: bool,
        requests: usize,
    },
    Touch {
        cpu: u16,
        process: usize,
        mapping: usize,
        from: u64,
        pages: u64,
        write: bool,
    },
    /// Frees a mapping, maps it anew, or changes its rights or the advice on it.
    Remap {
        cpu: u16,
        process: usize,
        mapping: usize,
        from: u64,
        pages: u64,
        how: Remap,
    },
    Fork {
        cpu: u16,
        process: usize,
    },
    Exit {
        cpu: u16,
        process: usize,
    },
    CreateMemcg {
        parent: u16,
    },
    Limit {
        memcg: u16,
        limit: Limit,
        pages: u64,
    },
    Swapon {
        pages: u64,
    },
    Set {
        name: &'static str,
        value: &'static str,
    },
    EndReads {
        which: usize,
        times: usize,
    },
    EndWrites {
        cpu: u16,
        which: usize,
        times: usize,
    },
    Kswapd {
        cpu: u16,
        node: u8,
        steps: usize,
    },
    FlushStats,
    Alloc {
        cpu: u16,
        pages: usize,
    },
    Free {
        cpu: u16,
        pages: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Remap {
    DontNeed,
    Munmap,
    Again,
    Protect(VmFlags),
    Advise(Advice),
}

#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Max,
    Low,
    Min,
    SwapMax,
}

pub fn step() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS;
    let memcg = 0..GROUPS + 2;
    let limit = prop_oneof![
        4 => Just(Limit::Max), 1 => Just(Limit::Low), 1 => Just(Limit::Min), 1 => Just(Limit::SwapMax)
    ];
    let settings = prop_oneof![
        3 => Just(("lru_gen/enabled", "0")),
        3 => Just(("lru_gen/enabled", "7")),
        1 => Just(("vm.swappiness", "0")),
        1 => Just(("vm.swappiness", "1")),
        2 => Just(("vm.swappiness", "60")),
        1 => Just(("vm.swappiness", "200")),
        1 => Just(("vm.min_free_kbytes", "4000")),
        1 => Just(("vm.min_free_kbytes", "400")),
    ];
    let times = 1..2000usize;
    let mapped = (0..PROCESSES, 0..MAPPINGS, 0..MAPPED_PAGES, 1..MAPPED_PAGES);
    let remap = prop_oneof![
        3 => Just(Remap::DontNeed),
        1 => Just(Remap::Munmap),
        2 => Just(Remap::Again),
        1 => Just(Remap::Protect(VmFlags::READ)),
        2 => Just(Remap::Protect(VmFlags::PRIVATE)),
        1 => prop_oneof![Just(Advice::Normal), Just(Advice::Random), Just(Advice::Sequential)]
            .prop_map(Remap::Advise),
    ];
    prop_oneof![
        8 => (cpu.clone(), memcg.clone(), 0..3usize, 0..FILE_PAGES, 1..2000u32, 0..3u32).prop_map(
            |(cpu, memcg, file, from, pages, stride)| Step::Read { cpu, memcg, file, from, pages, stride }
        ),
        4 => (cpu.clone(), memcg.clone(), 0..2usize, 0..FILE_PAGES, 1..600u32).prop_map(
            |(cpu, memcg, open, from, pages)| Step::Stream { cpu, memcg, open, from, pages }
        ),
        3 => (cpu.clone(), memcg.clone(), 0..3usize, 0..FILE_PAGES, 1..600u32).prop_map(
            |(cpu, memcg, file, from, pages)| Step::Write { cpu, memcg, file, from, pages }
        ),
        3 => (0..2000u64, any::<bool>(), 1..100usize).prop_map(
            |(milliseconds, urgent, requests)| Step::WriteBack { milliseconds, urgent, requests }
        ),
        8 => (cpu.clone(), mapped.clone(), any::<bool>()).prop_map(
            |(cpu, (process, mapping, from, pages), write)| Step::Touch { cpu, process, mapping, from, pages, write }
        ),
        2 => (cpu.clone(), mapped, remap).prop_map(
            |(cpu, (process, mapping, from, pages), how)| Step::Remap { cpu, process, mapping, from, pages, how }
        ),
        2 => (cpu.clone(), 0..PROCESSES).prop_map(|(cpu, process)| Step::Fork { cpu, process }),
        1 => (cpu.clone(), 0..PROCESSES).prop_map(|(cpu, process)| Step::Exit { cpu, process }),
        1 => memcg.clone().prop_map(|parent| Step::CreateMemcg { parent }),
        2 => (memcg, limit, prop_oneof![40..3000u64, Just(u64::MAX)])
            .prop_map(|(memcg, limit, pages)| Step::Limit { memcg, limit, pages }),
        1 => (1..2000u64).prop_map(|pages| Step::Swapon { pages }),
        2 => settings.prop_map(|(name, value)| Step::Set { name, value }),
        2 => (any::<usize>(), times.clone()).prop_map(|(which, times)| Step::EndReads { which, times }),
        3 => (cpu.clone(), any::<usize>(), times).prop_map(
            |(cpu, which, times)| Step::EndWrites { cpu, which, times }
        ),
        3 => (cpu.clone(), 0..2u8, 1..20usize).prop_map(|(cpu, node, steps)| Step::Kswapd { cpu, node, steps }),
        1 => Just(Step::FlushStats),
        1 => (cpu.clone(), 1..800usize).prop_map(|(cpu, pages)| Step::Alloc { cpu, pages }),
        1 => (cpu, 1..800usize).prop_map(|(cpu, pages)| Step::Free { cpu, pages }),
    ]
}

/// A machine and what runs on it.
pub struct Host {
    pub mm: MemoryManager,
    pub machine: Machine<Category>,
    pub files: Vec<FileId>,
    /// Open files of one of the files and of the one that is mapped shared; both have large folios.
    pub open: [OpenFileId; 2],
    pub processes: Vec<MmId>,
    /// The mappings that each process has: address, backing and flags.
    pub mappings: [(Vpn, Backing, VmFlags); MAPPINGS],
    pub held: Vec<Pfn>,
    /// Number of memory cgroups, with the root.
    pub groups: u16,
    pub swap_write: Option<Time>,
    /// Folios that devices are reading and writing.
    pub reads: Vec<FolioId>,
    pub writes: Vec<FolioId>,
    /// The writing task of each CPU.
    pub writers: [Dirtier; CPUS as usize],
    pub flushers: Vec<Flusher>,
}

/// Opens a file that may have large folios.
pub fn open_with_large_folios(mm: &mut MemoryManager, file: FileId) -> OpenFileId {
    mm.parts.page_cache.set_large_folios(file);
    mm.open(file, FILE_PAGES)
}

impl Host {
    /// Makes memcgs, files, processes with their mappings, and swap on a machine that has just booted.
    pub fn on((mut machine, mut mm): (Machine<Category>, MemoryManager), synchronous_swap: bool) -> Host {
        let groups: Vec<Memcg> = std::iter::once(Memcg::ROOT)
            .chain((1..GROUPS).map(|number| mm.parts.lrus.create_memcg(Memcg(number / 2))))
            .collect();
        let files: Vec<FileId> = (0..3).map(|_| mm.parts.page_cache.open_file()).collect();
        let [shared, private] = [(); 2].map(|()| mm.parts.page_cache.open_file());
        let open = [files[0], shared].map(|file| open_with_large_folios(&mut mm, file));
        let what = [
            (Backing::Anonymous, VmFlags::PRIVATE),
            (Backing::File(shared, 7), VmFlags::PRIVATE.or(VmFlags::SHARED)),
            (Backing::File(private, 0), VmFlags::PRIVATE),
        ];
        let processes: Vec<MmId> = groups.iter().take(3).map(|&memcg| mm.parts.create_mm(memcg)).collect();
        let mut mappings = what.map(|(backing, flags)| (0, backing, flags));
        for &process in &processes {
            for (start, backing, flags) in &mut mappings {
                *start = mm.enter(&mut machine, Cpu(0)).mmap(process, MAPPED_PAGES, *backing, *flags);
            }
        }
        let swap_write = synchronous_swap.then_some(Time::ZERO);
        mm.parts.swap.swapon(500, swap_write);
        Host {
            mm,
            machine,
            files,
            open,
            processes,
            mappings,
            swap_write,
            groups: GROUPS,
            held: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            writers: [Dirtier::new(PageSize::Kib4); CPUS as usize],
            flushers: Vec::new(),
        }
    }

    pub fn memcg(&self, number: u16) -> Memcg {
        Memcg(number.min(self.groups - 1))
    }

    /// Runs a step. If the task runs out of memory, it ends there, as the task would be killed.
    pub fn run(&mut self, step: &Step) -> Result<(), OutOfMemory> {
        let Host { mm, machine, .. } = self;
        match *step {
            Step::Read { cpu, memcg, file, from, pages, stride } => {
                let memcg = self.memcg(memcg);
                for page in 0..pages {
                    let index = (from + page * stride) % FILE_PAGES;
                    let read = self.mm.enter(&mut self.machine, Cpu(cpu)).read_page(
                        memcg,
                        self.files[file],
                        index,
                        Access::New,
                    )?;
                    if let Read::Miss(id) = read {
                        self.reads.push(id);
                    }
                    // The device completes reads in groups.
                    if self.reads.len() > 64 {
                        self.reads.drain(..).for_each(|id| self.mm.parts.lrus.end_read(id));
                    }
                }
            }
            Step::Stream { cpu, memcg, open, from, pages } => {
                let (memcg, open) = (self.memcg(memcg), self.open[open]);
                let Host { mm, machine, .. } = self;
                let mut request = mm.parts.page_cache.begin_read(memcg, open, from, pages);
                let mut folios = Vec::new();
                while mm.enter(machine, Cpu(cpu)).read_next(&mut request)?.is_some() {
                    while mm.parts.page_cache.take_submitted_read(&mut folios) {
                        folios.drain(..).for_each(|id| mm.parts.lrus.end_read(id));
                    }
                }
            }
            Step::Write { cpu, memcg, file, from, pages } => {
                let memcg = self.memcg(memcg);
                let (cpu, file) = (Cpu(cpu), self.files[file]);
                for index in (from..from + pages).map(|index| index % FILE_PAGES) {
                    let write = self.mm.enter(&mut self.machine, cpu).write_page(memcg, file, index)?;
                    let (writer, now) = (&mut self.writers[cpu.index()], self.machine.now(cpu));
                    let waits = self.mm.enter(&mut self.machine, Cpu(0)).balance_dirty_pages_ratelimited(
                        writer,
                        file,
                        write.dirtied,
                        now,
                    );
                    if let Some(until) = waits {
                        let longest = Time::from_nanoseconds((MAX_PAUSE + 2) * TICK_NS);
                        assert!(
                            until > now && until <= now + longest,
                            "a pause of {}",
                            until.saturating_sub(now)
                        );
                        break;
                    }
                }
            }
            Step::WriteBack { milliseconds, urgent, requests } => {
                for cpu in (0..CPUS).map(Cpu) {
                    machine.charge(cpu, Category::Program, Time::from_nanoseconds(milliseconds * 1_000_000));
                }
                if urgent {
                    mm.parts.page_cache.wakeup_flusher_threads();
                }
                let now = machine.now(Cpu(0));
                self.flushers.extend(std::iter::from_fn(|| mm.parts.page_cache.start_flusher(now)));
                let goes_on = |flusher: &mut Flusher| {
                    (0..requests).all(|_| flusher.step(&mut mm.enter(machine, Cpu(0)), 64) == Flush::Request)
                };
                self.flushers.retain_mut(goes_on);
            }
            Step::Touch { cpu, process, mapping, from, pages, write } => {
                let process = self.processes[process % self.processes.len()];
                let start = self.mappings[mapping].0;
                for page in (from..from + pages).map(|page| start + page % MAPPED_PAGES) {
                    let Some(vma) = mm.parts.address_spaces.mm(process).vmas.find(page) else { continue };
                    let write = write && vma.flags.has(VmFlags::WRITE);
                    match mm.enter(machine, Cpu(cpu)).touch(process, page, write)? {
                        Touch::ReadFile(id) => mm.parts.lrus.end_read(id),
                        // The device completes reads from swap some faults later.
                        Touch::ReadSwap(_) if page % 3 == 0 => {}
                        Touch::ReadSwap(_) | Touch::AwaitSwap(_) => mm.parts.end_swap_reads(),
                        Touch::Mapped | Touch::Minor => {}
                        Touch::Retry(_) => unreachable!("no file is mapped through an open file"),
                    }
                }
            }
            Step::Remap { cpu, process, mapping, from, pages, how } => {
                let process = self.processes[process % self.processes.len()];
                let (start, backing, flags) = self.mappings[mapping];
                let pages = start + from..start + (from + pages).min(MAPPED_PAGES);
                match how {
                    Remap::DontNeed => {
                        mm.enter(machine, Cpu(cpu)).madvise_dontneed(process, pages);
                    }
                    Remap::Munmap => {
                        mm.enter(machine, Cpu(cpu)).munmap(process, pages);
                    }
                    Remap::Again => {
                        mm.enter(machine, Cpu(cpu)).mmap_fixed(process, start, MAPPED_PAGES, backing, flags);
                    }
                    Remap::Protect(rights) => mm.parts.mprotect(process, pages, rights),
                    Remap::Advise(advice) => mm.enter(machine, Cpu(0)).madvise(process, pages, advice),
                }
            }
            Step::Fork { cpu, process } => {
                if self.processes.len() < PROCESSES {
                    let parent = self.processes[process % self.processes.len()];
                    self.processes.push(mm.enter(machine, Cpu(cpu)).fork_mm(parent));
                }
            }
            Step::Exit { cpu, process } => {
                if self.processes.len() > 1 {
                    let process = self.processes.swap_remove(process % self.processes.len());
                    mm.enter(machine, Cpu(cpu)).exit_mm(process);
                }
            }
            Step::CreateMemcg { parent } => {
                let parent = self.memcg(parent);
                self.mm.parts.lrus.create_memcg(parent);
                self.groups += 1;
            }
            Step::Limit { memcg, limit, pages } => {
                let memcg = self.memcg(memcg);
                let group = self.mm.parts.lrus.memcg_mut(memcg);
                match limit {
                    // The root has no limits.
                    Limit::Max if memcg != Memcg::ROOT => group.max = pages,
                    Limit::Low if memcg != Memcg::ROOT => group.low = pages.min(3000),
                    Limit::Min if memcg != Memcg::ROOT => group.min = pages.min(500),
                    Limit::SwapMax if memcg != Memcg::ROOT => group.swap_max = pages,
                    _ => {}
                }
            }
            Step::Swapon { pages } => mm.parts.swap.swapon(pages, self.swap_write),
            Step::Set { name, value } => mm.set(name, value).unwrap(),
            Step::EndReads { which, times } => {
                for _ in 0..times.min(self.reads.len()) {
                    mm.parts.lrus.end_read(self.reads.swap_remove(which % self.reads.len()));
                }
            }
            Step::EndWrites { cpu, which, times } => {
                self.writes.extend(mm.parts.page_cache.take_submitted_writes());
                for _ in 0..times.min(self.writes.len()) {
                    mm.enter(machine, Cpu(cpu)).end_write(self.writes.swap_remove(which % self.writes.len()));
                }
            }
            Step::Kswapd { cpu, node, steps } => {
                if let Some(mut kswapd) = mm.enter(machine, Cpu(0)).start_kswapd(Node(node)) {
                    (0..steps).any(|_| !kswapd.step(&mut mm.enter(machine, Cpu(cpu))));
                }
            }
            Step::FlushStats => mm.parts.lrus.flush_stats(machine.now(Cpu(0))),
            Step::Alloc { cpu, pages } => {
                let request = Request::new(0, MigrateType::Unmovable, Placement::Local);
                for _ in 0..pages {
                    // Leaves some memory for the others.
                    if self.held.len() < 3000
                        && let Some(pfn) = mm.enter(machine, Cpu(cpu)).alloc(&request)
                    {
                        self.held.push(pfn);
                    }
                }
            }
            Step::Free { cpu, pages } => {
                let from = self.held.len().saturating_sub(pages);
                self.held.drain(from..).for_each(|pfn| mm.enter(machine, Cpu(cpu)).free(pfn, 0));
            }
        }
        Ok(())
    }
}
