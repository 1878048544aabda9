//! One event of a trace, and the operations there are.

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
    /// What else the operation says: see [`Operation`]. 0 where it says nothing.
    pub argument: u32,
    /// The task that ran on the CPU: its pid in the root namespace, 0 for the idle task. An interrupt is
    /// counted to the task that it interrupted.
    pub task: i32,
    /// The CPU it happened on.
    pub cpu: u16,
    /// What happened.
    pub operation: Operation,
    /// The block has `1 << order` pages. 0 for `free_batched`, whose tracepoint does not say.
    pub order: u8,
    /// 0 unmovable, 1 movable, 2 reclaimable, 3 high-order atomic, then CMA (where built in) and isolate;
    /// [`NO_MIGRATETYPE`] where the tracepoint has none.
    pub migratetype: i8,
    /// For `switch`: the task leaves the CPU to wait, rather than being preempted. Else false.
    pub blocked: bool,
}

/// What happened. The names are those in the file; the tracepoints are those of Linux 6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `kmem:mm_page_alloc`: a block was handed out. `argument`: gfp flags. `migratetype`: as requested.
    /// `pfn` is [`NO_PAGE`] if the allocation failed.
    Alloc,
    /// `kmem:mm_page_free`: a block was given back.
    Free,
    /// `kmem:mm_page_free_batched`: a page of a batch, already reported as freed, goes onto a per-CPU list.
    FreeBatched,
    /// `kmem:mm_page_pcpu_drain`: a block left a per-CPU list for the buddy lists. `migratetype`: the pageblock's.
    PcpuDrain,
    /// `kmem:mm_page_alloc_zone_locked`: a block was taken from the buddy lists. `migratetype`: as requested.
    /// `argument`: 1 if its kind of block may live on per-CPU lists.
    ZoneLocked,
    /// `kmem:mm_page_alloc_extfrag`: a block of another migratetype was taken. `order`: as requested.
    /// `argument`: order of the block found, requested migratetype << 8, its migratetype << 16,
    /// 1 << 24 if the whole pageblock changed owner.
    Extfrag,
    /// `sched:sched_process_fork`. `argument`: pid of the child.
    Fork,
    /// `sched:sched_process_exec`.
    Exec,
    /// `sched:sched_process_exit`.
    Exit,
    /// `sched:sched_switch`: `task` leaves the CPU. `argument`: pid of the task that gets it.
    Switch,
    /// `workqueue:workqueue_execute_start` of `vmstat_update`, which lets per-CPU list limits decay.
    VmstatUpdateStart,
    /// `workqueue:workqueue_execute_end` of `vmstat_update`.
    VmstatUpdateEnd,
}

impl Operation {
    /// Every operation, in the order of its number.
    pub const ALL: [Operation; 12] = [
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
    ];

    /// The name in the file.
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
        }
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }
}
