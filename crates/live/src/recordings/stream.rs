//! Decodes the event stream of a recording ("PGT1", see data/recordings/README.md) record by record.
//!
//! ```text
//!   K O        one byte per record each   kind, CPU, order, migratetype
//!   T I F N    varints                    time, task, argument, page frame
//!      \ | /
//!     Record   in the terms of a trace (workload::trace), and the lists as they were at the start
//! ```
//!
//! For any input, decoding ends in records or in an error that names the file and the record; memory use is
//! bounded by the size of the input.

use std::ops::Range;
use std::path::Path;

use workload::trace::{Event, NO_MIGRATETYPE, NO_PAGE, Operation};

use super::RecordingError;
use super::predictor::{Predictor, Shape};

const MAGIC: &[u8; 4] = b"PGT1";
const HEADER: usize = 20;
/// A stream that decompresses to more than this is refused: it is hundreds of times the size of a recording.
const MOST_BYTES: u64 = 1 << 30;
/// Largest order of the buddy allocator.
const MOST_ORDER: u8 = 10;
const LISTS: u8 = 14;

macro_rules! kinds {
    ($($kind:ident = $number:literal),* $(,)?) => {
        /// The kind of a record, by its number in the file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($kind = $number),* }

        impl Kind {
            /// Number of kinds.
            pub const COUNT: usize = 16;

            fn from_number(number: u8) -> Option<Kind> {
                match number { $($number => Some(Kind::$kind),)* _ => None }
            }
        }
    };
}

kinds! {
    Alloc = 1, Free = 2, FreeBatched = 3, PcpuDrain = 4, ZoneLocked = 5, Extfrag = 6, Fork = 7, Exit = 8, Exec = 9,
    VmstatBegin = 10, VmstatEnd = 11, Listed = 12, ListsEnd = 13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block on one of a CPU's lists when the recording began; blocks of a list come in order from its
    /// head.
    Listed {
        cpu: u16,
        /// Index of the zone.
        zone: u8,
        /// Index of the list in `pcp->lists`.
        list: u8,
        /// First page frame of the block.
        pfn: u32,
    },
    /// All lists of a CPU and zone have been listed; the events that follow start from them.
    ListsEnd {
        cpu: u16,
        /// Index of the zone.
        zone: u8,
    },
    /// An event. For the two vmstat operations, `argument` is the index of the zone.
    Event(Event),
}

pub struct Records {
    file: String,
    bytes: Vec<u8>,
    tasks: Vec<i32>,
    flags: Vec<u32>,
    kinds: Range<usize>,
    shapes: Range<usize>,
    times: Range<usize>,
    task_numbers: Range<usize>,
    arguments: Range<usize>,
    pages: Range<usize>,
    next: u32,
    records: u32,
    microseconds: u64,
    task: [i32; super::predictor::CPUS],
    predictor: Predictor,
    failed: bool,
}

impl Records {
    pub fn open(path: &Path) -> Result<Records, RecordingError> {
        let (file, bytes) = super::unpacked(path, MOST_BYTES)?;
        Records::parse(file, bytes)
    }

    /// Decodes the decompressed stream in `bytes`; `file` is for errors.
    pub fn parse(file: String, bytes: Vec<u8>) -> Result<Records, RecordingError> {
        let wrong =
            |problem: String| RecordingError::Stream { file: file.clone(), place: "header".into(), problem };
        if bytes.get(..4) != Some(MAGIC) {
            return Err(wrong("it does not begin with `PGT1`".into()));
        }
        let records = number_at(&bytes, 4).ok_or_else(|| wrong("it ends within the header".into()))?;
        let mut sections: [Option<Range<usize>>; 256] = [const { None }; 256];
        let mut at = HEADER;
        while at < bytes.len() {
            let length = number_at(&bytes, at + 1).map(|length| length as usize);
            let end =
                length.and_then(|length| (at + 5).checked_add(length)).filter(|&end| end <= bytes.len());
            let Some(end) = end else {
                return Err(wrong(format!(
                    "section `{}` goes beyond the end of the file",
                    char::from(bytes[at])
                )));
            };
            sections[usize::from(bytes[at])] = Some(at + 5..end);
            at = end;
        }
        let section = |letter: u8| {
            let missing = || wrong(format!("section `{}` is missing", char::from(letter)));
            sections[usize::from(letter)].clone().ok_or_else(missing)
        };
        let (kinds, shapes) = (section(b'K')?, section(b'O')?);
        if kinds.len() != records as usize || shapes.len() != records as usize {
            return Err(wrong(format!("sections `K` and `O` must have {records} bytes, one per record")));
        }
        let word = |chunk: &[u8]| chunk.first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        Ok(Records {
            tasks: bytes[section(b'P')?].chunks_exact(20).map(|task| word(task) as i32).collect(),
            flags: bytes[section(b'G')?].chunks_exact(4).map(word).collect(),
            kinds,
            shapes,
            times: section(b'T')?,
            task_numbers: section(b'I')?,
            arguments: section(b'F')?,
            pages: section(b'N')?,
            file,
            bytes,
            next: 0,
            records,
            microseconds: 0,
            task: Default::default(),
            predictor: Predictor::default(),
            failed: false,
        })
    }

    fn wrong(&self, problem: impl Into<String>) -> RecordingError {
        let place = format!("record {}", self.next);
        RecordingError::Stream { file: self.file.clone(), place, problem: problem.into() }
    }

    fn decode(&mut self) -> Result<Record, RecordingError> {
        let first = self.bytes[self.kinds.start + self.next as usize];
        let second = self.bytes[self.shapes.start + self.next as usize];
        let kind = Kind::from_number(first & 15)
            .ok_or_else(|| self.wrong(format!("unknown kind {}", first & 15)))?;
        let cpu = usize::from(first >> 4 & 7);
        if first & 0x80 != 0 {
            let index = varint(&self.bytes, &mut self.task_numbers);
            let index = index.ok_or_else(|| self.wrong("section `I` is too short"))?;
            let task = self.tasks.get(index as usize).copied();
            self.task[cpu] = task.ok_or_else(|| self.wrong(format!("there is no task number {index}")))?;
        }
        let order = second & 15;
        let most = if kind == Kind::Listed { LISTS - 1 } else { MOST_ORDER };
        if order > most {
            return Err(self.wrong(format!("order or list {order} is beyond the maximum of {most}")));
        }
        let waits = kind == Kind::Free && second >> 4 == 15;
        let migratetype = if kind == Kind::Free { NO_MIGRATETYPE } else { (second >> 4) as i8 - 1 };
        let passed =
            varint(&self.bytes, &mut self.times).ok_or_else(|| self.wrong("section `T` is too short"))?;
        self.microseconds = self.microseconds.saturating_add(passed);
        let argument = self.argument(kind)?;
        let shape = Shape { kind, cpu, order, migratetype, waits };
        let pfn = self.page(shape)?;
        self.predictor.update(shape, pfn);
        self.record(shape, argument, pfn)
    }

    fn argument(&mut self, kind: Kind) -> Result<u32, RecordingError> {
        use Kind::*;
        if !matches!(kind, Alloc | ZoneLocked | Extfrag | Fork | Exit | Exec | ListsEnd) {
            return Ok(0);
        }
        let number = varint(&self.bytes, &mut self.arguments);
        let number = number.ok_or_else(|| self.wrong("section `F` is too short"))?;
        let value = match kind {
            Alloc => self.flags.get(number as usize).copied(),
            _ => u32::try_from(number).ok(),
        };
        value.ok_or_else(|| self.wrong(format!("argument {number} is out of range")))
    }

    fn page(&mut self, shape: Shape) -> Result<u32, RecordingError> {
        let coded =
            varint(&self.bytes, &mut self.pages).ok_or_else(|| self.wrong("section `N` is too short"))?;
        let Some(zigzag) = coded.checked_sub(1) else {
            return self
                .predictor
                .predict(shape)
                .ok_or_else(|| self.wrong("its page frame cannot be predicted"));
        };
        let difference = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let pfn = i64::from(self.predictor.last(shape)).checked_add(difference);
        let pfn = pfn.and_then(|pfn| u32::try_from(pfn).ok());
        pfn.ok_or_else(|| self.wrong("its page frame is out of range"))
    }

    fn record(&self, shape: Shape, argument: u32, pfn: u32) -> Result<Record, RecordingError> {
        let Shape { kind, cpu, order, migratetype, .. } = shape;
        let cpu_number = cpu as u16;
        let zone = |number: u32| {
            u8::try_from(number)
                .ok()
                .filter(|&zone| zone < 8)
                .ok_or_else(|| self.wrong(format!("zone {number}")))
        };
        let (operation, pfn, argument) = match kind {
            Kind::Listed => {
                let zone = zone(migratetype.max(0) as u32)?;
                return Ok(Record::Listed { cpu: cpu_number, zone, list: order, pfn });
            }
            Kind::ListsEnd => return Ok(Record::ListsEnd { cpu: cpu_number, zone: zone(pfn)? }),
            Kind::Alloc => (Operation::Alloc, pfn, argument),
            Kind::Free => (Operation::Free, pfn, 0),
            Kind::FreeBatched => (Operation::FreeBatched, pfn, 0),
            Kind::PcpuDrain => (Operation::PcpuDrain, pfn, 0),
            Kind::ZoneLocked => (Operation::ZoneLocked, pfn, argument),
            Kind::Extfrag => (Operation::Extfrag, pfn, argument),
            Kind::Fork => (Operation::Fork, NO_PAGE, argument),
            Kind::Exit => (Operation::Exit, NO_PAGE, 0),
            Kind::Exec => (Operation::Exec, NO_PAGE, 0),
            Kind::VmstatBegin => (Operation::VmstatUpdateStart, NO_PAGE, zone(pfn)?.into()),
            Kind::VmstatEnd => (Operation::VmstatUpdateEnd, NO_PAGE, zone(pfn)?.into()),
        };
        Ok(Record::Event(Event {
            time: self.microseconds.saturating_mul(1000),
            pfn,
            argument,
            task: self.task[cpu],
            cpu: cpu_number,
            operation,
            order,
            migratetype,
            blocked: false,
        }))
    }
}

impl Iterator for Records {
    type Item = Result<Record, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.next == self.records {
            return None;
        }
        let record = self.decode();
        self.failed = record.is_err();
        self.next += 1;
        Some(record)
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Takes one number off the front of a section.
fn varint(bytes: &[u8], section: &mut Range<usize>) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let at = section.next()?;
        let byte = bytes[at];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
