//! The events of a trace and their operations.

/// `pfn` of an event that names no page: forks, switches, and allocations that failed.
pub const NO_PAGE: u32 = u32::MAX;

/// `migratetype` of an event that names none.
pub const NO_MIGRATETYPE: i8 = -1;

/// One row of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the first event of the trace, on the monotonic clock.
    pub time: u64,
    /// First page frame of the block, or [`NO_PAGE`].
    pub pfn: u32,
    /// A further value, see [`Operation`]; 0 if the operation has none.
    pub argument: u32,
    /// Pid, in the root namespace, of the task that ran on the CPU; 0 for the idle task. Events in an
    /// interrupt have the pid of the interrupted task.
    pub task: i32,
    /// The CPU on which it happened.
    pub cpu: u16,
    pub operation: Operation,
    /// The block has `1 << order` pages. 0 for `free_batched`, whose tracepoint does not give it.
    pub order: u8,
    /// As in the kernel: 0 unmovable, 1 movable, 2 reclaimable, 3 high-order atomic, then CMA (if built in)
    /// and isolate; [`NO_MIGRATETYPE`] if the tracepoint has none.
    pub migratetype: i8,
    /// For `switch`: the task blocked instead of being preempted. False for other operations.
    pub blocked: bool,
}

impl Event {
    /// An event of which no more is known than what happened: on CPU 0, at time 0, about no page.
    pub const fn of(operation: Operation) -> Event {
        Event {
            time: 0,
            pfn: NO_PAGE,
            argument: 0,
            task: 0,
            cpu: 0,
            operation,
            order: 0,
            migratetype: NO_MIGRATETYPE,
            blocked: false,
        }
    }

    /// Pages of the stack of a [`Operation::KernelStack`]. A file can name any number; `THREAD_SIZE` is at
    /// most 64 KiB.
    pub fn stack_pages(&self) -> u32 {
        self.argument.min(16)
    }
}

/// What happened. The names are those in the file; the tracepoints are those of Linux 6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `kmem:mm_page_alloc`: a block was allocated. `argument`: gfp flags. `migratetype`: as requested. `pfn`
    /// is [`NO_PAGE`] if the allocation failed.
    Alloc,
    /// `kmem:mm_page_free`: a block was freed.
    Free,
    /// `kmem:mm_page_free_batched`: a page of a batch, already reported as freed, was put on a per-CPU list.
    FreeBatched,
    /// `kmem:mm_page_pcpu_drain`: a block went from a per-CPU list to the buddy lists. `migratetype`: that of
    /// the pageblock.
    PcpuDrain,
    /// `kmem:mm_page_alloc_zone_locked`: a block was taken from the buddy lists. `migratetype`: as requested.
    /// `argument`: 1 if blocks of this order and type may be on per-CPU lists.
    ZoneLocked,
    /// `kmem:mm_page_alloc_extfrag`: the allocation fell back to a block of another migratetype. `order`: as
    /// requested. `argument`: order of the block found, requested migratetype << 8, its migratetype << 16, 1
    /// << 24 if the whole pageblock changed its migratetype.
    Extfrag,
    /// `sched:sched_process_fork`. `argument`: pid of the child.
    Fork,
    /// `sched:sched_process_exec`.
    Exec,
    /// `sched:sched_process_exit`.
    Exit,
    /// `sched:sched_switch`: `task` leaves the CPU. `argument`: pid of the next task.
    Switch,
    /// `workqueue:workqueue_execute_start` of `vmstat_update`, which decays `pcp->high`.
    VmstatUpdateStart,
    /// `workqueue:workqueue_execute_end` of `vmstat_update`.
    VmstatUpdateEnd,
    /// `vmalloc:alloc_vmap_area` of a new task's kernel stack, for which `alloc_pages_bulk` takes unmovable
    /// pages of order 0 right after. That function has no tracepoint. `argument`: the number of pages.
    KernelStack,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub const ALL: [Operation; 13] = [
        Operation::Alloc,
        Operation::Free,
        Operation::FreeBatched,
        Operation::PcpuDrain,
        Operation::ZoneLocked,
        Operation::Extfrag,
        Operation::Fork,
        Operation::Exec,
        Operation::Exit,
        Operation::Switch,
        Operation::VmstatUpdateStart,
        Operation::VmstatUpdateEnd,
        Operation::KernelStack,
    ];

    /// The operation's name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Alloc => "alloc",
            Operation::Free => "free",
            Operation::FreeBatched => "free_batched",
            Operation::PcpuDrain => "pcpu_drain",
            Operation::ZoneLocked => "zone_locked",
            Operation::Extfrag => "extfrag",
            Operation::Fork => "fork",
            Operation::Exec => "exec",
            Operation::Exit => "exit",
            Operation::Switch => "switch",
            Operation::VmstatUpdateStart => "vmstat_update_start",
            Operation::VmstatUpdateEnd => "vmstat_update_end",
            Operation::KernelStack => "kernel_stack",
        }
    }

    /// The operation with this name.
    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }
}
