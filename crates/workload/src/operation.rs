//! The vocabulary of programs: what their threads ask of a kernel, and what is there at their start.
//!
//! ```text
//!   Layout: processes with their memory, files, threads, sockets       Operations: the next Operation of each thread
//! ```
//!
//! What an operation costs, who waits and what else happens is up to the kernel and the machine.

use crate::demand::{self, File};
use crate::mappings::Change;
use crate::threads::Affinity;
use machine::WrongValue;
use mm::MigrateType;
use rand_pcg::Pcg64Mcg;

/// How much of each page a thread accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, with its bandwidth.
    Pages,
    /// A cache line that is in no cache.
    Lines,
    /// What it accesses takes no time of its own: the program's computing includes it.
    Nothing,
}

/// Where an area is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With page tables of its own, not adjacent to others.
    Apart,
    /// Behind all others, with a gap of so many base pages. If `aligned`, at the next multiple of its size, rounded up to a power of two.
    Behind { gap: u16, aligned: bool },
}

/// How large a process is, in pages of 4 KiB (`/proc/self/statm`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statm {
    /// All that is mapped.
    pub size: u64,
    /// What is in memory.
    pub resident: u64,
}

/// What a program whose memory comes and goes has used, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Size of the folios whose allocation is judged, in KiB.
    pub preferred_kib: u64,
    /// How much is mapped at a time.
    pub target: u64,
    /// Mapped so far.
    pub mapped: u64,
    /// Touched of what is mapped.
    pub touched: u64,
    /// Touched so far.
    pub touched_so_far: u64,
}

/// The next step of a thread. Pages are of 4 KiB; areas and files are numbered within the thread's process and program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes without touching memory.
    Compute { nanoseconds: u64 },
    /// Spends time in system calls that are not modelled.
    SystemCalls { nanoseconds: u64 },
    /// Reads pages of a file through the page cache, in one system call.
    Read { file: u32, index: u64, pages: u32 },
    /// Overwrites pages of a file through the page cache, in one system call.
    Write { file: u32, index: u64, pages: u32 },
    /// Accesses pages of an area in order.
    Access { area: u32, first: u64, pages: u64, write: bool, extent: Extent },
    /// Frees pages of an area (`madvise(MADV_DONTNEED)`); there are none behind its end.
    Release { area: u32, first: u64, pages: u64 },
    /// Replaces an area by an empty mapping (`mmap(MAP_FIXED)`).
    Map { area: u32 },
    /// Maps an area of this number, which no other has (`mmap`).
    Mmap { area: u32, pages: u64, place: Place },
    /// Unmaps an area, whose number is free then (`munmap`).
    Munmap { area: u32 },
    /// Reads how large the process is (`/proc/self/statm`); the program is told.
    ReadStatm,
    /// Restricts the thread to some CPUs, or lifts the restriction (`sched_setaffinity`).
    Pin(Option<Affinity>),
    /// Binds new memory of the thread to a node, or lifts that (`set_mempolicy`: MPOL_BIND, MPOL_DEFAULT).
    SetMempolicy(Option<u8>),
    /// Waits until all threads of the process are at the barrier.
    Barrier,
    /// Replaces the process, which has no other thread, by a new one without areas.
    Exec,
    /// Changes the address space of the process where a recording says, or touches pages there.
    Recorded(Change),
    /// Starts a process of the program, which does not run, with a copy of the address space (`fork`).
    Fork { process: u32 },
    /// Waits until a process of the program has exited (`wait`).
    Wait { process: u32 },
    /// Sleeps until this time after the program's start.
    SleepUntil { nanoseconds: u64 },
    /// Waits for a request that arrives at this time after the program's start, unless it has arrived. Its transaction begins then.
    Arrive { nanoseconds: u64 },
    /// Has the kernel allocate a block of pages of its own, which no cgroup is charged for and which the program knows by number, whichever
    /// of its threads frees it. Waits until the block that had the number before is freed.
    AllocBlock { block: u32, order: u8, migrate_type: MigrateType },
    /// Has the kernel free the block of this number, once it is allocated. One that found no memory is not there.
    FreeBlock { block: u32 },
    /// Has the kernel allocate blocks of pages of its own for the thread, such as buffers of a socket, not charged to a cgroup. What finds
    /// no memory goes without.
    AllocPages { order: u8, migrate_type: MigrateType, blocks: u32 },
    /// Has the kernel free all of them, as it does when the process of the thread ends.
    FreePages,
    /// Sends a message through a socket of the program, with so many thousandths of a call; waits while the socket is full.
    Send { socket: u32, calls: u32 },
    /// Reads a message; waits until there is one. Where nobody sends any more, the thread ends.
    Receive { socket: u32, calls: u32 },
    /// Writes to a file of the kernel: the write of this number among those that the program was started with.
    WriteFile { number: u32 },
    /// Begins a transaction, unless it begins where the one before ends.
    TransactionBegin,
    /// Ends a transaction, the unit that the benchmark counts.
    TransactionEnd,
}

impl Operation {
    /// Whether nobody else can see it, so that a CPU may do it ahead of the others.
    #[inline]
    pub fn is_private(&self) -> bool {
        matches!(
            self,
            Operation::Compute { .. }
                | Operation::SystemCalls { .. }
                | Operation::TransactionBegin
                | Operation::TransactionEnd
        )
    }
}

/// A process at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Number of its memory cgroup among those of its program.
    pub group: u32,
    /// Length in pages of each area of private anonymous memory.
    pub areas: Vec<u64>,
    /// Files of the program that the process maps to load from, each whole, as areas behind those of `areas`: executables, libraries.
    pub mapped_files: Vec<u32>,
    /// Whether there are gaps between the areas; the kernel merges adjacent VMAs.
    pub apart: bool,
    /// Whether the first thread touches all memory before it starts the others.
    pub touched: bool,
    /// Whether it is a thread of the kernel, which has no memory of its own and which NUMA balancing leaves alone.
    pub of_kernel: bool,
    /// Whether it begins when another process forks it.
    pub forked: bool,
}

/// A socket through which one thread sends messages to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Socket {
    /// The thread that sends.
    pub writer: u32,
    /// The thread that reads.
    pub reader: u32,
    /// Orders of the blocks of a message, in the order in which the kernel allocates and frees them.
    pub blocks: Vec<u8>,
    /// KiB copied into the blocks of a message, and out of them.
    pub copied_kib: u64,
    /// Messages that fit into it.
    pub in_flight: usize,
    /// Percentage of misses among cache references that do not concern messages.
    pub background_miss: f64,
}

/// A block of pages of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelBlock {
    pub order: u8,
    pub migrate_type: MigrateType,
}

/// What is known of a program's own CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnTime {
    /// Runs of the benchmark in a second of it.
    pub runs: f64,
    /// Page walks in a second of it, with order-0 pages only.
    pub walks: f64,
    /// Whether kernels before 6.9 use arm64's contiguous bit for runs of pages too.
    pub contiguous_entries: bool,
}

/// The processes, files and threads of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    pub processes: Vec<Process>,
    pub files: Vec<File>,
    pub threads: Vec<demand::Thread>,
    pub sockets: Vec<Socket>,
    /// Blocks that the kernel has allocated for it before, by number.
    pub blocks: Vec<KernelBlock>,
    /// How many CPUs its threads stay on, from the first one on; 0 if they run anywhere.
    pub stay_on_cpus: usize,
    /// Whether processes stay when their threads have nothing more to do, as a server does that is idle; they keep their memory.
    pub stays: bool,
    /// How its own CPU time depends on the folios that it has, if that is known.
    pub own_time: Option<OwnTime>,
}

/// A program with a file of its own.
pub(crate) trait OwnSpec {
    /// Checks how its keys go together.
    fn check(&self) -> Result<(), WrongValue> {
        Ok(())
    }

    /// Starts a copy; `seed`, from 1, selects one of several recordings, and `random` gives each thread a random stream of its own.
    fn start(&self, seed: u64, random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue>;
}

/// A program with a file of its own, started.
pub(crate) struct Own {
    pub layout: Layout,
    pub operations: Box<dyn Operations>,
}

/// What threads do.
pub(crate) trait Operations {
    /// The next operation of `thread` at `now`, in nanoseconds since the start; `None` when it is done.
    fn next(&mut self, thread: usize, now: u64) -> Option<Operation>;

    /// Whether it has an amount of work, and ends when that is done.
    fn ends(&self) -> bool {
        false
    }

    /// Tells `thread` how large its process is, which has asked.
    fn read_statm(&mut self, _thread: usize, _statm: Statm) {}

    /// What it has used, if its memory comes and goes.
    fn footprint(&self) -> Option<Footprint> {
        None
    }

    /// Whether it is a build, which takes as long as its last process.
    fn is_build(&self) -> bool {
        false
    }
}

/// Operations of one thread that are known from the start.
struct Listed(std::vec::IntoIter<Operation>);

impl Operations for Listed {
    fn next(&mut self, _thread: usize, _now: u64) -> Option<Operation> {
        self.0.next()
    }
}

impl Own {
    /// A program of one thread that does `operations` in order and ends.
    pub fn of_list(process: Process, operations: Vec<Operation>) -> Own {
        let threads = vec![demand::Thread::of(0)];
        let layout = Layout { processes: vec![process], threads, ..Layout::default() };
        Own { layout, operations: Box::new(Listed(operations.into_iter())) }
    }
}
