//! Removes what an anonymized recording must not contain, before it is written to disk.
//!
//! ```text
//!   sched_switch   common_pid 812  prev_comm "cc1"   prev_pid 812  next_comm "sshd"  prev_prio 120
//!   becomes        common_pid 812  prev_comm "\1"    prev_pid 812  next_comm "\2"    0
//! ```
//!
//! Only the fields that the trace is made from are kept. Names of tasks, devices and inodes are replaced by
//! numbers in order of first appearance, so that equal names stay equal. The mapping is lost when the
//! recorder exits.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use super::tracepoints::Tracepoint;
use crate::tracefs::{EventFormat, Field, FormatError, RingBufferError, SubBufferLayout};

/// Suffix of fields that hold a task name.
const NAME: &str = "comm";
/// Fields that hold a device, and fields that hold an inode.
const DEVICES: [&str; 2] = ["s_dev", "dev"];
const INODES: [&str; 2] = ["i_ino", "ino"];

/// Base of a number that replaces a name: each byte is a digit, except NUL, which terminates a name.
const DIGITS: usize = 255;

/// Anonymizes sub-buffers in place.
pub struct Anonymizer {
    layout: SubBufferLayout,
    /// Indexed by event type.
    events: Vec<Option<Fields>>,
    seen: Mutex<Seen>,
}

/// The fields of a record that are kept.
#[derive(Default)]
struct Fields {
    as_they_are: Vec<Field>,
    names: Vec<Field>,
    device: Option<Field>,
    inode: Option<Field>,
}

#[derive(Default)]
struct Seen {
    /// Numbers of names by their length, so that the number fits into the bytes of the name.
    names: HashMap<usize, Numbers<Vec<u8>>>,
    files: Numbers<(u64, u64)>,
}

struct Numbers<T>(HashMap<T, usize>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers(HashMap::new())
    }
}

impl<T: Eq + Hash> Numbers<T> {
    fn number(&mut self, value: T) -> usize {
        let next = self.0.len();
        *self.0.entry(value).or_insert(next)
    }
}

impl Anonymizer {
    /// Keeps the fields of `tracepoints`, whose locations are in `formats`.
    pub fn new<K>(
        layout: SubBufferLayout,
        tracepoints: &[Tracepoint<K>],
        formats: &[EventFormat],
    ) -> Result<Anonymizer, FormatError> {
        let mut events = Vec::new();
        for tracepoint in tracepoints {
            let Some(format) = formats.iter().find(|format| format.name == tracepoint.name) else { continue };
            let mut fields = Fields { as_they_are: vec![format.field("common_pid")?], ..Fields::default() };
            for name in tracepoint.fields {
                let field = format.field(name)?;
                match () {
                    () if name.ends_with(NAME) => fields.names.push(field),
                    () if DEVICES.contains(name) => fields.device = Some(field),
                    () if INODES.contains(name) => fields.inode = Some(field),
                    () => fields.as_they_are.push(field),
                }
            }
            let id = usize::from(format.id);
            if events.len() <= id {
                events.resize_with(id + 1, || None);
            }
            events[id] = Some(fields);
        }
        Ok(Anonymizer { layout, events, seen: Mutex::default() })
    }

    pub fn apply(&self, sub_buffer: &mut [u8]) -> Result<(), RingBufferError> {
        let places = self.layout.open(sub_buffer)?.places().collect::<Result<Vec<_>, _>>()?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places {
            self.record(&mut sub_buffer[place], &mut seen);
        }
        Ok(())
    }

    fn record(&self, record: &mut [u8], seen: &mut Seen) {
        let before = record.to_vec();
        record.fill(0);
        // Every record begins with its event type, `common_type`, in 16 bits.
        let Some(id) = before.first_chunk::<2>() else { return };
        record[..2].copy_from_slice(id);
        let fields = self.events.get(usize::from(u16::from_le_bytes(*id)));
        let Some(fields) = fields.and_then(Option::as_ref) else { return };
        for field in &fields.as_they_are {
            copy(record, &before, field.offset, field.size);
        }
        if let (Some(device), Some(inode)) = (fields.device, fields.inode)
            && let (Some(on), Some(file)) = (device.number(&before), inode.number(&before))
        {
            let number = seen.files.number((on, file)) as u64;
            put(record, inode.offset, &number.to_le_bytes()[..inode.size.min(8)]);
        }
        for field in &fields.names {
            let Some(name) = field.string(&before) else { continue };
            let start = match field.dynamic {
                true => {
                    copy(record, &before, field.offset, field.size);
                    field.number(&before).unwrap_or(0) as usize & 0xffff
                }
                false => field.offset,
            };
            let mut number = seen.names.entry(name.len()).or_default().number(name.to_vec());
            let digits = name.iter().map(|_| {
                let digit = 1 + (number % DIGITS) as u8;
                number /= DIGITS;
                digit
            });
            let digits: Vec<u8> = digits.collect();
            put(record, start, &digits);
        }
    }
}

fn copy(record: &mut [u8], before: &[u8], start: usize, length: usize) {
    let bytes = start.checked_add(length).and_then(|end| before.get(start..end));
    bytes.into_iter().for_each(|bytes| put(record, start, bytes));
}

fn put(record: &mut [u8], start: usize, bytes: &[u8]) {
    let place = start.checked_add(bytes.len()).and_then(|end| record.get_mut(start..end));
    place.into_iter().for_each(|place| place.copy_from_slice(bytes));
}
