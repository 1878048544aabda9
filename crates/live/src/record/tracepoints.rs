//! The recorded tracepoints, and the conversion of their records to events of the trace.
//!
//! To add a tracepoint, add a line with its fields to [`TRACEPOINTS`], and an arm to [`Decoder::decode`] that
//! puts the fields into an [`Event`]. The tracepoints of the page cache are in [`super::page_cache`].

use workload::trace::{Event, NO_PAGE, Operation};

use super::names::TaskNames;
use crate::tracefs::{EventFormat, Field, FormatError};

/// A tracepoint and the fields that are taken from it.
#[derive(Clone, Copy)]
pub struct Tracepoint<K: 'static = Operation> {
    /// The tracepoint's directory below `events/`.
    pub system: &'static str,
    pub name: &'static str,
    /// What its records become in a trace.
    pub kind: K,
    /// Names of the fields in its `format` file.
    pub fields: &'static [&'static str],
}

/// Constructs a [`Tracepoint`]; for tables.
pub const fn tracepoint<K>(
    system: &'static str,
    name: &'static str,
    kind: K,
    fields: &'static [&'static str],
) -> Tracepoint<K> {
    Tracepoint { system, name, kind, fields }
}

impl<K> Tracepoint<K> {
    /// `system:name`, as trace-cmd and perf print it.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }
}

/// All tracepoints that are recorded. The first [`REQUIRED`] must exist.
pub const TRACEPOINTS: [Tracepoint; 13] = [
    tracepoint("kmem", "mm_page_alloc", Operation::Alloc, &["pfn", "order", "gfp_flags", "migratetype"]),
    tracepoint("kmem", "mm_page_free", Operation::Free, &["pfn", "order"]),
    tracepoint("kmem", "mm_page_free_batched", Operation::FreeBatched, &["pfn"]),
    tracepoint("kmem", "mm_page_pcpu_drain", Operation::PcpuDrain, &["pfn", "order", "migratetype"]),
    tracepoint(
        "kmem",
        "mm_page_alloc_zone_locked",
        Operation::ZoneLocked,
        &["pfn", "order", "migratetype", "percpu_refill"],
    ),
    tracepoint(
        "kmem",
        "mm_page_alloc_extfrag",
        Operation::Extfrag,
        &[
            "pfn",
            "alloc_order",
            "fallback_order",
            "alloc_migratetype",
            "fallback_migratetype",
            "change_ownership",
        ],
    ),
    tracepoint("sched", "sched_process_fork", Operation::Fork, &["child_pid", "child_comm"]),
    tracepoint("sched", "sched_process_exec", Operation::Exec, &[]),
    tracepoint("sched", "sched_process_exit", Operation::Exit, &["pid", "comm"]),
    tracepoint(
        "sched",
        "sched_switch",
        Operation::Switch,
        &["prev_pid", "prev_comm", "prev_state", "next_pid", "next_comm"],
    ),
    tracepoint("workqueue", "workqueue_execute_start", Operation::VmstatUpdateStart, &["function"]),
    tracepoint("workqueue", "workqueue_execute_end", Operation::VmstatUpdateEnd, &["function"]),
    // Since Linux 6.3.
    tracepoint("vmalloc", "alloc_vmap_area", Operation::KernelStack, &["size", "align", "failed"]),
];

/// Without the others, a trace says too little to be replayed.
pub const REQUIRED: usize = 12;

/// Areas whose alignment is that of a kernel stack, and not that of a page or of a huge mapping. A stack is
/// aligned to its size or to twice its size (`THREAD_ALIGN`): 16 to 64 KiB.
pub const STACK_FILTER: &str = "align > 4096 && align <= 65536 && failed == 0";
/// The page that `VM_MAP` areas have behind their memory, and by which an area is larger than its stack.
const GUARD_PAGE: u64 = 4096;

/// Workqueue events are filtered to work items with this function.
pub const WORK_FUNCTION: &str = "vmstat_update";

/// `prev_state` of a task that sleeps has one of the bits below `TASK_REPORT_MAX`; that bit says that the
/// task was preempted (include/linux/sched.h, unchanged from 4.14 to 6.18).
const WAITING: u64 = 0xff;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The record ends before its fields.
    #[error("a record of `{0}` is too short")]
    Short(&'static str),
    /// The trace format has no representation of a value.
    #[error("a record of `{event}` has {field} {value}")]
    Value {
        /// The tracepoint's name.
        event: &'static str,
        field: &'static str,
        value: i64,
    },
}

/// Converts records to events, according to the `format` files of the kernel that wrote them.
pub struct Decoder<K: 'static = Operation> {
    /// Indexed by event type.
    layouts: Vec<Option<Layout<K>>>,
}

/// A tracepoint and the location of its fields in the records of one kernel.
pub struct Layout<K: 'static> {
    tracepoint: &'static Tracepoint<K>,
    task: Field,
    fields: Vec<Field>,
}

impl<K> Decoder<K> {
    /// Selects the formats of `tracepoints` from `formats`, and ignores all others.
    pub fn new(
        tracepoints: &'static [Tracepoint<K>],
        formats: &[EventFormat],
    ) -> Result<Decoder<K>, FormatError> {
        let mut layouts = Vec::new();
        for tracepoint in tracepoints {
            let Some(format) = formats.iter().find(|format| format.name == tracepoint.name) else { continue };
            let fields = tracepoint.fields.iter().map(|name| format.field(name)).collect::<Result<_, _>>()?;
            let task = format.field("common_pid")?;
            let id = usize::from(format.id);
            if layouts.len() <= id {
                layouts.resize_with(id + 1, || None);
            }
            layouts[id] = Some(Layout { tracepoint, task, fields });
        }
        Ok(Decoder { layouts })
    }

    /// The layout of `record`, or `None` if it belongs to another tracepoint.
    pub fn layout(&self, record: &[u8]) -> Option<&Layout<K>> {
        // Every record begins with its event type, `common_type`, in 16 bits.
        let [low, high] = record.first_chunk()?;
        self.layouts.get(usize::from(u16::from_le_bytes([*low, *high])))?.as_ref()
    }
}

impl Decoder {
    /// The event in `record`, or `None` if it belongs to another tracepoint. Task names in the record are
    /// added to `names`.
    pub fn decode(
        &self,
        cpu: u16,
        time: u64,
        record: &[u8],
        names: &mut TaskNames,
    ) -> Result<Option<Event>, DecodeError> {
        self.layout(record).map(|layout| layout.decode(cpu, time, record, names)).transpose()
    }
}

impl<K> Layout<K> {
    pub fn tracepoint(&self) -> &'static Tracepoint<K> {
        self.tracepoint
    }

    /// The task that wrote `record` (`common_pid`).
    pub fn task(&self, record: &[u8]) -> Result<i32, DecodeError> {
        let short = DecodeError::Short(self.tracepoint.name);
        self.task.number(record).map(|task| task as i32).ok_or(short)
    }

    /// The value of a field of `record`; `field` is its index in [`Tracepoint::fields`].
    pub fn number(&self, record: &[u8], field: usize) -> Result<u64, DecodeError> {
        let short = DecodeError::Short(self.tracepoint.name);
        self.fields.get(field).and_then(|field| field.number(record)).ok_or(short)
    }

    /// The error for a value that the trace format cannot represent.
    pub fn value(&self, field: &'static str, value: u64) -> DecodeError {
        DecodeError::Value { event: self.tracepoint.name, field, value: value as i64 }
    }
}

impl Layout<Operation> {
    fn decode(
        &self,
        cpu: u16,
        time: u64,
        record: &[u8],
        names: &mut TaskNames,
    ) -> Result<Event, DecodeError> {
        let mut event = Event { time, task: self.task(record)?, cpu, ..Event::of(self.tracepoint.kind) };
        self.fill(&mut event, record)?;
        self.see_names(time, record, names)?;
        Ok(event)
    }

    /// Enters what `record` says of pages and tasks.
    fn fill(&self, event: &mut Event, record: &[u8]) -> Result<(), DecodeError> {
        match event.operation {
            Operation::Alloc => {
                event.pfn = self.page(record)?;
                event.order = self.order(record, 1)?;
                event.argument = self.number(record, 2)? as u32;
                event.migratetype = self.migratetype(record, 3)?;
            }
            Operation::Free => {
                event.pfn = self.page(record)?;
                event.order = self.order(record, 1)?;
            }
            Operation::FreeBatched => event.pfn = self.page(record)?,
            Operation::PcpuDrain | Operation::ZoneLocked => {
                event.pfn = self.page(record)?;
                event.order = self.order(record, 1)?;
                event.migratetype = self.migratetype(record, 2)?;
                if event.operation == Operation::ZoneLocked {
                    event.argument = self.number(record, 3)? as u32;
                }
            }
            Operation::Extfrag => {
                event.pfn = self.page(record)?;
                event.order = self.order(record, 1)?;
                event.migratetype = self.migratetype(record, 3)?;
                let found = [
                    self.order(record, 2)?,
                    self.migratetype(record, 3)? as u8,
                    self.migratetype(record, 4)? as u8,
                    u8::from(self.number(record, 5)? != 0),
                ];
                event.argument = u32::from_le_bytes(found);
            }
            Operation::Fork => event.argument = self.number(record, 0)? as u32,
            Operation::Switch => {
                event.blocked = self.number(record, 2)? & WAITING != 0;
                event.argument = self.number(record, 3)? as u32;
            }
            Operation::KernelStack => {
                let bytes = self.number(record, 0)?.saturating_sub(GUARD_PAGE);
                event.argument = (bytes / GUARD_PAGE) as u32;
            }
            Operation::Exec | Operation::Exit | Operation::VmstatUpdateStart | Operation::VmstatUpdateEnd => {
            }
        }
        Ok(())
    }

    /// Enters the names of tasks that `record` tells.
    fn see_names(&self, time: u64, record: &[u8], names: &mut TaskNames) -> Result<(), DecodeError> {
        let pids_and_comms: &[(usize, usize)] = match self.tracepoint.kind {
            Operation::Fork | Operation::Exit => &[(0, 1)],
            Operation::Switch => &[(0, 1), (3, 4)],
            _ => &[],
        };
        for &(pid, comm) in pids_and_comms {
            let task = self.number(record, pid)? as i32;
            let comm = self.fields.get(comm).and_then(|field| field.string(record));
            names.see(task, time, comm.ok_or(DecodeError::Short(self.tracepoint.name))?);
        }
        Ok(())
    }

    fn page(&self, record: &[u8]) -> Result<u32, DecodeError> {
        match self.number(record, 0)? {
            u64::MAX => Ok(NO_PAGE),
            pfn if pfn < u64::from(NO_PAGE) => Ok(pfn as u32),
            pfn => Err(self.value("pfn", pfn)),
        }
    }

    fn order(&self, record: &[u8], field: usize) -> Result<u8, DecodeError> {
        let order = self.number(record, field)?;
        u8::try_from(order).map_err(|_| self.value("order", order))
    }

    fn migratetype(&self, record: &[u8], field: usize) -> Result<i8, DecodeError> {
        let migratetype = self.number(record, field)?;
        i8::try_from(migratetype as i64).map_err(|_| self.value("migratetype", migratetype))
    }
}
