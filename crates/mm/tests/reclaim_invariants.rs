//! What must hold after every step of reclaim, under random demand of several memory cgroups on a machine of two nodes
//! that is always short of memory, for every variant and release: no folio is in two places or lost, lists and counts
//! agree, generations are two to four, page tables, files and swap name folios that name them, groups are charged with
//! what they have.

mod reclaim_machine;

use machine::{Cpu, Machine, Node, PageSize, Time};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::filemap::Read;
use mm::folio::FolioId;
use mm::jiffies::TICK_NS;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::readahead::OpenFileId;
use mm::vmscan::OutOfMemory;
use mm::writeback::policy::MAX_PAUSE;
use mm::writeback::{Dirtier, Flush, Flusher};
use mm::xarray::FileId;
use mm::{Category, Event, MemoryManager, MigrateType, Pfn, Placement, Request, Series, Variant};
use proptest::prelude::*;
use reclaim_machine::{CPUS, boot};

/// Pages of a file, and of a mapping.
const FILE_PAGES: u32 = 3000;
const MAPPED_PAGES: u64 = 1500;
/// Processes at most.
const PROCESSES: usize = 6;
/// Mappings of a process: anonymous memory, a file that is shared, and a private copy of one.
const MAPPINGS: usize = 3;
/// Memory cgroups that exist from the start, the root included.
const GROUPS: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    Read {
        cpu: u16,
        memcg: u16,
        file: usize,
        from: u32,
        pages: u32,
        stride: u32,
    },
    /// With readahead, in large folios.
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
    /// Time passes, and flushers run for some requests each; all is to be written if it is `urgent`.
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
    /// What the process has is freed or mapped anew, its rights or the advice on it are changed.
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
enum Remap {
    DontNeed,
    Munmap,
    Again,
    Protect(VmFlags),
    Advise(Advice),
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Max,
    Low,
    Min,
    SwapMax,
}

fn variants() -> impl Strategy<Value = &'static Variant> {
    proptest::sample::select(Series::RECLAIM.variants().collect::<Vec<_>>())
}

fn step() -> impl Strategy<Value = Step> {
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

/// A machine with what runs on it.
struct Host {
    mm: MemoryManager,
    machine: Machine<Category>,
    files: Vec<FileId>,
    /// Of one of them and of the file that is mapped shared, both with large folios.
    open: [OpenFileId; 2],
    processes: Vec<MmId>,
    /// Where each process has its mappings, and what is mapped.
    mappings: [(Vpn, Backing, VmFlags); MAPPINGS],
    held: Vec<Pfn>,
    /// Memory cgroups, the root included.
    groups: u16,
    swap_write: Option<Time>,
    /// What devices are reading and writing.
    reads: Vec<FolioId>,
    writes: Vec<FolioId>,
    /// By CPU.
    writers: [Dirtier; CPUS as usize],
    flushers: Vec<Flusher>,
}

/// Opens a file whose pages may be in large folios.
fn open_with_large_folios(mm: &mut MemoryManager, file: FileId) -> OpenFileId {
    mm.set_large_folios(file);
    mm.open(file, FILE_PAGES)
}

impl Host {
    fn new(variant: &Variant, synchronous_swap: bool) -> Host {
        let (machine, mut mm) = boot(variant);
        let groups: Vec<Memcg> = std::iter::once(Memcg::ROOT)
            .chain((1..GROUPS).map(|number| mm.create_memcg(Memcg(number / 2))))
            .collect();
        let files: Vec<FileId> = (0..3).map(|_| mm.open_file()).collect();
        let [shared, private] = [(); 2].map(|()| mm.open_file());
        let open = [files[0], shared].map(|file| open_with_large_folios(&mut mm, file));
        let what = [
            (Backing::Anonymous, VmFlags::PRIVATE),
            (Backing::File(shared, 7), VmFlags::PRIVATE.or(VmFlags::SHARED)),
            (Backing::File(private, 0), VmFlags::PRIVATE),
        ];
        let processes: Vec<MmId> = groups.iter().take(3).map(|&memcg| mm.create_mm(memcg)).collect();
        let mut mappings = what.map(|(backing, flags)| (0, backing, flags));
        for &process in &processes {
            for (start, backing, flags) in &mut mappings {
                *start = mm.mmap(process, MAPPED_PAGES, *backing, *flags);
            }
        }
        let swap_write = synchronous_swap.then_some(Time::ZERO);
        mm.swapon(500, swap_write);
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

    fn memcg(&self, number: u16) -> Memcg {
        Memcg(number.min(self.groups - 1))
    }

    /// Running out of memory ends a step, as the task would be killed.
    fn run(&mut self, step: &Step) -> Result<(), OutOfMemory> {
        let Host { mm, machine, .. } = self;
        match *step {
            Step::Read { cpu, memcg, file, from, pages, stride } => {
                let memcg = self.memcg(memcg);
                for page in 0..pages {
                    let index = (from + page * stride) % FILE_PAGES;
                    let read = self.mm.read_page(
                        &mut self.machine,
                        Cpu(cpu),
                        memcg,
                        self.files[file],
                        index,
                        false,
                    )?;
                    if let Read::Miss(id) = read {
                        self.reads.push(id);
                    }
                    // A device reads so much at a time.
                    if self.reads.len() > 64 {
                        self.reads.drain(..).for_each(|id| self.mm.end_read(id));
                    }
                }
            }
            Step::Stream { cpu, memcg, open, from, pages } => {
                let (memcg, open) = (self.memcg(memcg), self.open[open]);
                let Host { mm, machine, .. } = self;
                let mut request = mm.begin_read(memcg, open, from, pages);
                let mut folios = Vec::new();
                while mm.read_next(machine, Cpu(cpu), &mut request)?.is_some() {
                    while mm.take_submitted_read(&mut folios) {
                        folios.drain(..).for_each(|id| mm.end_read(id));
                    }
                }
            }
            Step::Write { cpu, memcg, file, from, pages } => {
                let memcg = self.memcg(memcg);
                let (cpu, file) = (Cpu(cpu), self.files[file]);
                for index in (from..from + pages).map(|index| index % FILE_PAGES) {
                    let write = self.mm.write_page(&mut self.machine, cpu, memcg, file, index)?;
                    let (writer, now) = (&mut self.writers[cpu.index()], self.machine.now(cpu));
                    let waits = self.mm.balance_dirty_pages_ratelimited(writer, file, write.dirtied, now);
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
                    mm.wakeup_flusher_threads();
                }
                let now = machine.now(Cpu(0));
                self.flushers.extend(std::iter::from_fn(|| mm.start_flusher(now)));
                let goes_on = |flusher: &mut Flusher| {
                    (0..requests).all(|_| flusher.step(mm, now, 64) == Flush::Request)
                };
                self.flushers.retain_mut(goes_on);
            }
            Step::Touch { cpu, process, mapping, from, pages, write } => {
                let process = self.processes[process % self.processes.len()];
                let start = self.mappings[mapping].0;
                for page in (from..from + pages).map(|page| start + page % MAPPED_PAGES) {
                    let Some(vma) = mm.mm(process).vmas.find(page) else { continue };
                    let write = write && vma.flags.has(VmFlags::WRITE);
                    match mm.touch(machine, Cpu(cpu), process, page, write)? {
                        Touch::ReadFile(id) => mm.end_read(id),
                        // What is read from swap is there some faults later.
                        Touch::ReadSwap(_) if page % 3 == 0 => {}
                        Touch::ReadSwap(_) | Touch::AwaitSwap(_) => mm.end_swap_reads(),
                        Touch::Mapped | Touch::Minor => {}
                    }
                }
            }
            Step::Remap { cpu, process, mapping, from, pages, how } => {
                let process = self.processes[process % self.processes.len()];
                let (start, backing, flags) = self.mappings[mapping];
                let pages = start + from..start + (from + pages).min(MAPPED_PAGES);
                match how {
                    Remap::DontNeed => {
                        mm.madvise_dontneed(machine, Cpu(cpu), process, pages);
                    }
                    Remap::Munmap => {
                        mm.munmap(machine, Cpu(cpu), process, pages);
                    }
                    Remap::Again => {
                        mm.mmap_fixed(machine, Cpu(cpu), process, start, MAPPED_PAGES, backing, flags);
                    }
                    Remap::Protect(rights) => mm.mprotect(process, pages, rights),
                    Remap::Advise(advice) => mm.madvise(process, pages, advice),
                }
            }
            Step::Fork { cpu, process } => {
                if self.processes.len() < PROCESSES {
                    let parent = self.processes[process % self.processes.len()];
                    self.processes.push(mm.fork_mm(machine, Cpu(cpu), parent));
                }
            }
            Step::Exit { cpu, process } => {
                if self.processes.len() > 1 {
                    let process = self.processes.swap_remove(process % self.processes.len());
                    mm.exit_mm(machine, Cpu(cpu), process);
                }
            }
            Step::CreateMemcg { parent } => {
                let parent = self.memcg(parent);
                self.mm.create_memcg(parent);
                self.groups += 1;
            }
            Step::Limit { memcg, limit, pages } => {
                let memcg = self.memcg(memcg);
                let group = self.mm.memcg_mut(memcg);
                match limit {
                    // The root has no limits.
                    Limit::Max if memcg != Memcg::ROOT => group.max = pages,
                    Limit::Low if memcg != Memcg::ROOT => group.low = pages.min(3000),
                    Limit::Min if memcg != Memcg::ROOT => group.min = pages.min(500),
                    Limit::SwapMax if memcg != Memcg::ROOT => group.swap_max = pages,
                    _ => {}
                }
            }
            Step::Swapon { pages } => mm.swapon(pages, self.swap_write),
            Step::Set { name, value } => mm.set(name, value).unwrap(),
            Step::EndReads { which, times } => {
                for _ in 0..times.min(self.reads.len()) {
                    mm.end_read(self.reads.swap_remove(which % self.reads.len()));
                }
            }
            Step::EndWrites { cpu, which, times } => {
                self.writes.extend(mm.take_submitted_writes());
                for _ in 0..times.min(self.writes.len()) {
                    mm.end_write(machine, Cpu(cpu), self.writes.swap_remove(which % self.writes.len()));
                }
            }
            Step::Kswapd { cpu, node, steps } => {
                if let Some(mut kswapd) = mm.start_kswapd(Node(node)) {
                    (0..steps).any(|_| !kswapd.step(mm, machine, Cpu(cpu)));
                }
            }
            Step::FlushStats => mm.flush_stats(machine.now(Cpu(0))),
            Step::Alloc { cpu, pages } => {
                let request = Request::new(0, MigrateType::Unmovable, Placement::Local);
                for _ in 0..pages {
                    // Leave something for the others.
                    if self.held.len() < 3000
                        && let Some(pfn) = mm.alloc(machine, Cpu(cpu), &request)
                    {
                        self.held.push(pfn);
                    }
                }
            }
            Step::Free { cpu, pages } => {
                let from = self.held.len().saturating_sub(pages);
                self.held.drain(from..).for_each(|pfn| mm.free(machine, Cpu(cpu), pfn, 0));
            }
        }
        Ok(())
    }

    /// Sequence numbers of all lruvecs.
    fn generations(&self) -> Vec<[u64; 3]> {
        let groups = (0..self.groups).map(Memcg);
        let lruvecs = groups.flat_map(|memcg| [0, 1].map(|node| self.mm.lruvec(memcg, Node(node))));
        lruvecs
            .map(|lruvec| {
                let generations = &lruvec.generations;
                [generations.max_seq, generations.min_seq[0], generations.min_seq[1]]
            })
            .collect()
    }

    /// What differs between two kernels that decide differently.
    fn outcome(&self) -> (Vec<u64>, Vec<[u64; 3]>, Vec<u64>) {
        let counts = Event::ALL.iter().map(|&event| self.mm.counters().get(event)).collect();
        let groups = (0..self.groups).map(Memcg);
        let lists = groups.flat_map(|memcg| [0, 1].map(|node| self.mm.lruvec(memcg, Node(node)).stat.nr_lru));
        (counts, self.generations(), lists.flatten().collect())
    }
}

/// That of a kernel of the series after some steps.
fn outcome(variant: &str, steps: &[Step]) -> (Vec<u64>, Vec<[u64; 3]>, Vec<u64>) {
    let mut host = Host::new(Series::RECLAIM.variant(variant).unwrap(), true);
    for step in steps {
        let _ = host.run(step);
    }
    host.outcome()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hold_after_every_step(
        variant in variants(),
        synchronous_swap in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut host = Host::new(variant, synchronous_swap);
        for step in &steps {
            let before = host.generations();
            let _ = host.run(step);
            host.mm.validate(host.held.len() as u64);
            for (before, after) in before.iter().zip(host.generations()) {
                let forward = before.iter().zip(after).all(|(&before, after)| before <= after);
                prop_assert!(forward, "generations only begin and end: {:?}, then {:?}", before, after);
            }
            check_ages(&host.mm, host.groups)?;
            check_counters(&host.mm)?;
        }
        // Everything that processes had is gone with them.
        for id in host.reads.drain(..) {
            host.mm.end_read(id);
        }
        for process in host.processes.drain(..) {
            host.mm.exit_mm(&mut host.machine, Cpu(0), process);
        }
        host.writes.extend(host.mm.take_submitted_writes());
        for id in std::mem::take(&mut host.writes) {
            host.mm.end_write(&mut host.machine, Cpu(1), id);
        }
        host.mm.validate(host.held.len() as u64);
        prop_assert_eq!(host.mm.swap().used(), 0, "swap after all processes are gone");
    }

    /// Patches that change no decision.
    #[test]
    fn equal_variants_have_equal_outcomes(steps in proptest::collection::vec(step(), 1..40)) {
        for (one, other) in [("rfc1", "rfc2"), ("rfc2", "rfc3"), ("rfc4", "rfc5")] {
            prop_assert_eq!(outcome(one, &steps), outcome(other, &steps));
        }
    }

    /// With the classic LRU only the first patch of the series changes a decision.
    #[test]
    fn later_patches_leave_the_classic_lru_alone(steps in proptest::collection::vec(step(), 1..40)) {
        let mut steps = steps;
        steps.retain(|step| !matches!(step, Step::Set { name: "lru_gen/enabled", .. }));
        prop_assert_eq!(outcome("rfc1-cls", &steps), outcome("rfc6-cls", &steps));
    }

    /// With the multi-gen LRU, swappiness 0 swaps nothing, nor does a swap with fewer than 64 free pages.
    #[test]
    fn multi_gen_does_not_swap_without_swappiness_or_room(
        variant in variants(),
        swap in prop_oneof![Just(None), (1..64u64).prop_map(Some)],
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let (machine, mm) = boot(variant);
        let mut host = Host { mm, machine, ..Host::new(variant, true) };
        host.mm.set("lru_gen/enabled", "7").unwrap();
        let groups: Vec<Memcg> = (1..GROUPS).map(|_| host.mm.create_memcg(Memcg::ROOT)).collect();
        host.files = (0..3).map(|_| host.mm.open_file()).collect();
        host.open[0] = open_with_large_folios(&mut host.mm, host.files[0]);
        host.processes = groups.iter().map(|&memcg| host.mm.create_mm(memcg)).collect();
        for &process in &host.processes {
            for (start, backing, flags) in &mut host.mappings {
                if let Backing::File(file, _) = backing {
                    *file = host.mm.open_file();
                    if flags.has(VmFlags::SHARED) {
                        host.open[1] = open_with_large_folios(&mut host.mm, *file);
                    }
                }
                *start = host.mm.mmap(process, MAPPED_PAGES, *backing, *flags);
            }
        }
        match swap {
            Some(pages) => host.mm.swapon(pages, Some(Time::ZERO)),
            None => {
                host.mm.swapon(5000, Some(Time::ZERO));
                host.mm.set("vm.swappiness", "0").unwrap();
            }
        }
        for step in steps.iter().filter(|step| !matches!(step, Step::Set { .. } | Step::Swapon { .. })) {
            let _ = host.run(step);
        }
        prop_assert_eq!(host.mm.counters().get(Event::Pswpout), 0);
    }
}

/// The age of a group counts what its own and the groups below it have lost.
fn check_ages(mm: &MemoryManager, groups: u16) -> Result<(), TestCaseError> {
    for node in [0, 1].map(Node) {
        let mut below = vec![0; groups.into()];
        for memcg in (0..groups).rev().map(Memcg) {
            let age = mm.lruvec(memcg, node).nonresident_age;
            prop_assert!(age >= below[memcg.index()], "the age of {:?} on {:?}", memcg, node);
            if let Some(parent) = mm.memcg(memcg).parent {
                below[parent.index()] += age;
            }
        }
    }
    Ok(())
}

fn check_counters(mm: &MemoryManager) -> Result<(), TestCaseError> {
    let count = |event| mm.counters().get(event);
    for [scanned, stolen] in
        [[Event::PgscanAnon, Event::PgstealAnon], [Event::PgscanFile, Event::PgstealFile]]
    {
        prop_assert!(count(stolen) <= count(scanned), "{:?} {} of {}", stolen, count(stolen), count(scanned));
    }
    // Nothing truncates files, so only reclaim takes pages from the page cache.
    prop_assert_eq!(count(Event::PageCacheRemoved), count(Event::PgstealFile));
    prop_assert_eq!(count(Event::PageCacheAdded) - count(Event::PageCacheRemoved), mm.files().nr_folios(),);
    prop_assert!(count(Event::WorkingsetRefaultFile) <= count(Event::PageCacheAdded));
    prop_assert!(count(Event::WorkingsetRefaultAnon) <= count(Event::Pswpin));
    prop_assert!(count(Event::Pswpin) <= count(Event::Pgmajfault));
    Ok(())
}

/// From 6.3 on, accesses through a mapping that was given `MADV_RANDOM` do not keep a page.
#[test]
fn accesses_without_recency_keep_no_page() {
    for (variant, has_recency, stays) in [
        ("cls", true, true),
        ("cls", false, false),
        ("g65", true, true),
        ("g65", false, false),
        ("mainline-6.18", true, true),
        ("mainline-6.18", false, false),
        ("mainline-6.1", false, true),
    ] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let memcg = mm.create_memcg(Memcg::ROOT);
        mm.memcg_mut(memcg).max = 500;
        let file = mm.open_file();
        let process = mm.create_mm(memcg);
        let page_0 = mm.mmap(process, 1, Backing::File(file, 0), VmFlags::READ.or(VmFlags::SHARED));
        if !has_recency {
            mm.madvise(process, page_0..page_0 + 1, Advice::Random);
        }
        let mut faults = 0;
        for page in 1..3000 {
            if let Touch::ReadFile(id) = mm.touch(&mut machine, Cpu(0), process, page_0, false).unwrap() {
                faults += 1;
                mm.end_read(id);
            }
            // A scan of the rest.
            if let Read::Miss(id) = mm.read_page(&mut machine, Cpu(0), memcg, file, page, false).unwrap() {
                mm.end_read(id);
            }
        }
        assert_eq!(faults == 1, stays, "{variant}, recency {has_recency}: read {faults} times");
    }
}

/// Reads pages of a file, one after the other, on behalf of a group.
fn read_pages(
    machine: &mut Machine<Category>,
    mm: &mut MemoryManager,
    memcg: Memcg,
    file: FileId,
    pages: std::ops::Range<u32>,
) {
    for page in pages {
        if let Read::Miss(id) = mm.read_page(machine, Cpu(0), memcg, file, page, false).unwrap() {
            mm.end_read(id);
        }
    }
}

/// Two groups claim all that protects their parent, so each has half of it.
#[test]
fn nested_groups_share_the_protection_of_their_parent() {
    for variant in ["cls", "g65", "mainline-6.18"] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let limited = mm.create_memcg(Memcg::ROOT);
        mm.memcg_mut(limited).max = 1000;
        let parent = mm.create_memcg(limited);
        mm.memcg_mut(parent).min = 400;
        let children = [mm.create_memcg(parent), mm.create_memcg(parent)];
        for child in children {
            mm.memcg_mut(child).min = 400;
        }
        let neighbour = mm.create_memcg(limited);
        let file = mm.open_file();
        let mut next = 0;
        let mut read = |mm: &mut MemoryManager, memcg, pages| {
            read_pages(&mut machine, mm, memcg, file, next..next + pages);
            next += pages;
        };
        children.iter().for_each(|&child| read(&mut mm, child, 400));
        read(&mut mm, neighbour, 5000);
        let left = children.map(|child| mm.memcg(child).current);
        // Stocks and batches of a CPU are not exact.
        assert!(left.iter().all(|left| (180..=330).contains(left)), "{variant}: {left:?}");
    }
}

/// Before 7.2 what a group's limit has reclaimed is nobody's but the types'.
#[test]
fn who_reclaims_for_a_limit_is_counted_from_7_2_on() {
    for (variant, is_counted) in [("cls", false), ("g614", false), ("g72", true)] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let memcg = mm.create_memcg(Memcg::ROOT);
        mm.memcg_mut(memcg).max = 500;
        let file = mm.open_file();
        read_pages(&mut machine, &mut mm, memcg, file, 0..2000);
        let [direct, of_files] =
            [Event::PgstealDirect, Event::PgstealFile].map(|event| mm.counters().get(event));
        assert!(of_files >= 1500, "{variant}: {of_files}");
        assert_eq!(direct, if is_counted { of_files } else { 0 }, "{variant}");
    }
}

/// From 6.12 on the classic LRU deactivates by statistics as old as the last flush; before, it has them flushed.
#[test]
fn reclaim_flushes_statistics_until_6_11() {
    for (release, flushes) in [("mainline-6.11", true), ("mainline-6.12", false), ("mainline-6.18", false)] {
        let classic = Series::RECLAIM.variant("cls").unwrap().settings;
        let variant = Variant { settings: classic, ..*Series::PCP.variant(release).unwrap() };
        let (mut machine, mut mm) = boot(&variant);
        let memcg = mm.create_memcg(Memcg::ROOT);
        mm.memcg_mut(memcg).max = 1000;
        let file = mm.open_file();
        // More active pages than inactive ones, which nobody has added up yet.
        (0..3).for_each(|_| read_pages(&mut machine, &mut mm, memcg, file, 0..800));
        let mut deactivated = |mm: &mut MemoryManager, pages| {
            read_pages(&mut machine, mm, memcg, file, pages);
            mm.counters().get(Event::Pgdeactivate)
        };
        let early = deactivated(&mut mm, 800..1300);
        assert_eq!(early > 0, flushes, "{release}: {early}");
        mm.flush_stats(Time::ZERO);
        let late = deactivated(&mut mm, 1300..1800);
        assert!(late > 0, "{release}");
        mm.validate(0);
    }
}

/// Of a group that is protected in part less is scanned: by the classic LRU, and by the multi-gen LRU from 7.2 on.
#[test]
fn protection_in_part_is_in_proportion() {
    let lost = |variant| {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let limited = mm.create_memcg(Memcg::ROOT);
        mm.memcg_mut(limited).max = 4200;
        let [protected, plain, neighbour] = [(); 3].map(|()| mm.create_memcg(limited));
        mm.memcg_mut(protected).low = 1500;
        let file = mm.open_file();
        let mut next = 0;
        let mut read = |mm: &mut MemoryManager, memcg, pages| {
            read_pages(&mut machine, mm, memcg, file, next..next + pages);
            next += pages;
        };
        [protected, plain].iter().for_each(|&memcg| read(&mut mm, memcg, 2000));
        read(&mut mm, neighbour, 1000);
        [protected, plain].map(|memcg| 2000i64 - mm.memcg(memcg).current as i64)
    };
    for variant in ["cls", "g72"] {
        let [protected, plain] = lost(variant);
        assert!(plain > 200 && protected < plain / 2, "{variant}: {protected}, {plain}");
    }
    let [protected, plain] = lost("g614");
    assert!(protected > plain / 2, "g614: {protected}, {plain}");
}

/// A group that streams keeps shadows for eight times what it has in memory, as nodes of files are charged to it; its neighbour
/// keeps all of its own.
#[test]
fn shadows_of_a_group_are_limited_by_its_memory() {
    const LIMIT: u32 = 2000;
    for variant in ["cls", "g65", "mainline-6.18"] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let [streaming, neighbour] = [(); 2].map(|()| mm.create_memcg(Memcg::ROOT));
        let files = [streaming, neighbour].map(|memcg| {
            mm.memcg_mut(memcg).max = LIMIT.into();
            (memcg, mm.open_file())
        });
        let mut read = |mm: &mut MemoryManager, (memcg, file), pages| {
            read_pages(&mut machine, mm, memcg, file, 0..pages);
        };
        read(&mut mm, files[1], 5 * LIMIT);
        assert_eq!(mm.counters().get(Event::WorkingsetNodereclaim), 0, "{variant}");
        let of_neighbour = mm.files().workingset_nodes();
        read(&mut mm, files[0], 40 * LIMIT);
        let nodes = mm.files().workingset_nodes() - of_neighbour;
        // Half of what is too much is freed, if that is a batch of 128; what nodes themselves take counts as memory too.
        let most = u64::from(LIMIT) / 8;
        assert!((most..most + 2 * 128 + most / 16).contains(&nodes), "{variant}: {nodes} nodes");
        let reclaimed = mm.counters().get(Event::WorkingsetNodereclaim);
        // A node or two have both pages and shadows.
        let left = u64::from(39 * LIMIT) / 64;
        assert!((nodes + reclaimed).abs_diff(left) < 3, "{variant}: {nodes} and {reclaimed} of {left}");
        mm.validate(0);
    }
}
