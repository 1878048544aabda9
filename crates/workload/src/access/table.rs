//! Tables with one access per line: CSV and its relatives, as libCacheSim's `csv` and CacheLib's traces.
//!
//! ```text
//!   op_time,block_id,io_size,io_offset,op_name      the header says which columns are used ...
//!   1702511878,12ce23ea,8192,4096,getChunk
//!
//!   5633898,42932745,512                            ... or, without one, time,object,size is assumed
//! ```
//!
//! | column | known by the names | without it |
//! |---|---|---|
//! | object | `object`, `object_id`, `obj_id`, `id`, `key`, `block_id` | refused |
//! | time, in seconds | `time`, `timestamp`, `op_time`, `clock_time`, `real_time` | 0 |
//! | size, in bytes | `size`, `obj_size`, `object_size`, `io_size` | one page |
//! | offset in the object, in bytes | `offset`, `io_offset` | 0 |
//! | operation | `op`, `operation`, `op_name` | read |
//!
//! [`Columns`] selects columns where names or order differ. The separator is whichever of comma, tab,
//! semicolon, bar and blank the first line has most of. Operations that remove an object (`delete...`,
//! `trim`, `discard`) are not accesses. Operations that start with a word of [`WRITES`] are writes, all
//! others reads.

use std::fmt;
use std::str::FromStr;

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};

use super::lines::{number, seconds, shown};
use super::{Access, AccessError, BLOCK, Decode, Input, PAGE_SIZE, ids, span};

const WRITES: [&[u8]; 10] =
    [b"w", b"put", b"set", b"add", b"cas", b"replace", b"append", b"prepend", b"insert", b"update"];
const REMOVALS: [&[u8]; 4] = [b"del", b"trim", b"discard", b"remove"];

/// Which columns of a table are used. [`Columns::default`] goes by the header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// In seconds.
    pub time: Option<Column>,
    /// What is accessed. If it is `None`, so must be all others, and all columns are found by their names.
    pub object: Option<Column>,
    /// In bytes.
    pub size: Option<Column>,
    /// In bytes from the start of the object.
    pub offset: Option<Column>,
    /// The operation.
    pub op: Option<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// By position, from 1.
    Place(usize),
    /// By name in the header.
    Name(String),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Column::Place(place) => write!(f, "{place}"),
            Column::Name(name) => write!(f, "`{name}`"),
        }
    }
}

impl FromStr for Columns {
    type Err = ();

    /// Parses `time=1,object=2,size=3`; column names may be given instead of positions.
    fn from_str(text: &str) -> Result<Columns, ()> {
        let mut columns = Columns::default();
        for assignment in text.split(',') {
            let (role, column) = assignment.split_once('=').ok_or(())?;
            let column = match column.parse() {
                Ok(0) => return Err(()),
                Ok(place) => Column::Place(place),
                Err(_) if column.is_empty() => return Err(()),
                Err(_) => Column::Name(column.to_string()),
            };
            let role = match role {
                "time" => &mut columns.time,
                "object" => &mut columns.object,
                "size" => &mut columns.size,
                "offset" => &mut columns.offset,
                "op" => &mut columns.op,
                _ => return Err(()),
            };
            if role.replace(column).is_some() {
                return Err(());
            }
        }
        if columns.object.is_some() { Ok(columns) } else { Err(()) }
    }
}

const TIME: [&str; 5] = ["time", "timestamp", "op_time", "clock_time", "real_time"];
pub(super) const OBJECT: [&str; 6] = ["object", "object_id", "obj_id", "id", "key", "block_id"];
const SIZE: [&str; 4] = ["size", "obj_size", "object_size", "io_size"];
const OFFSET: [&str; 2] = ["offset", "io_offset"];
const OP: [&str; 3] = ["op", "operation", "op_name"];

/// Positions of the columns in a record, from 0.
struct Places {
    time: Option<usize>,
    object: usize,
    size: Option<usize>,
    offset: Option<usize>,
    op: Option<usize>,
}

impl Places {
    /// Finds the columns by the names in the header, or by the default order if there is no header.
    fn found(first: &ByteRecord, header: bool) -> Result<Places, String> {
        let remedy = "name the columns that count by place or name, as in `csv:time=1,object=2,size=3`";
        if !header {
            return match first.len() {
                1 => Ok(Places { time: None, object: 0, size: None, offset: None, op: None }),
                3 => Ok(Places { time: Some(0), object: 1, size: Some(2), offset: None, op: None }),
                columns => Err(format!("{columns} columns without a header; {remedy}")),
            };
        }
        let place = |names: &[&str]| first.iter().position(|field| names.iter().any(|name| is(field, name)));
        let object = place(&OBJECT).ok_or_else(|| {
            let columns = shown(&first.iter().collect::<Vec<_>>().join(&b", "[..]));
            format!(
                "no column of the header ({columns}) names objects (one of {}); {remedy}",
                OBJECT.join(", ")
            )
        })?;
        Ok(Places { time: place(&TIME), object, size: place(&SIZE), offset: place(&OFFSET), op: place(&OP) })
    }

    /// Finds the columns that the user named.
    fn named(columns: &Columns, object: &Column, first: &ByteRecord) -> Result<Places, String> {
        let place = |column: &Column| {
            let place = match column {
                Column::Place(place) => place.checked_sub(1).filter(|&place| place < first.len()),
                Column::Name(name) => first.iter().position(|field| is(field, name)),
            };
            place.ok_or_else(|| {
                let there = shown(&first.iter().collect::<Vec<_>>().join(&b", "[..]));
                format!("no column {column}; the first line has {}: {there}", first.len())
            })
        };
        let optional = |column: &Option<Column>| column.as_ref().map(place).transpose();
        Ok(Places {
            time: optional(&columns.time)?,
            object: place(object)?,
            size: optional(&columns.size)?,
            offset: optional(&columns.offset)?,
            op: optional(&columns.op)?,
        })
    }
}

/// Whether a field of the header is `name`, without case. The header may start with `#`.
fn is(field: &[u8], name: &str) -> bool {
    let field = field.trim_ascii();
    let field = field.strip_prefix(b"#").unwrap_or(field).trim_ascii_start();
    field.eq_ignore_ascii_case(name.as_bytes())
}

/// Whether the first line of a table is a header: none of its fields is a number.
fn is_header(first: &ByteRecord) -> bool {
    first.iter().all(|field| seconds(field.trim_ascii()).is_none())
}

pub(super) struct Table {
    reader: Reader<Input>,
    places: Places,
    /// The record read last; `ahead` if it was read by `new` and is an access, not a header.
    record: ByteRecord,
    ahead: bool,
}

impl Table {
    pub fn new(input: Input, columns: &Columns) -> Result<Table, AccessError> {
        let line = input.head().split(|&byte| byte == b'\n').next().unwrap_or_default();
        let delimiter = delimiter(line).unwrap_or(b',');
        let mut reader = ReaderBuilder::new().has_headers(false).delimiter(delimiter).from_reader(input);
        let mut record = ByteRecord::new();
        if let Err(error) = reader.read_byte_record(&mut record) {
            return Err(unread(&reader, error));
        }
        let header = is_header(&record);
        let places = match &columns.object {
            Some(object) => Places::named(columns, object, &record),
            None => Places::found(&record, header),
        };
        let places = places.map_err(|problem| wrong(&reader, 1, problem))?;
        Ok(Table { reader, places, record, ahead: !header })
    }

    /// The access of the current record, or `None` if it is not an access.
    fn access(&self) -> Result<Option<Access>, String> {
        let field = |place: usize| self.record.get(place).unwrap_or_default().trim_ascii();
        let bytes = |place: Option<usize>, what: &str| {
            let read = |place| {
                number(field(place))
                    .ok_or_else(|| format!("{what} `{}` must be a number of bytes", shown(field(place))))
            };
            place.map(read).transpose()
        };
        let op = self.places.op.map(field).unwrap_or_default();
        let starts = |words: &[&[u8]]| {
            words
                .iter()
                .any(|word| op.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
        };
        let time_ns = match self.places.time {
            None => 0,
            Some(place) => seconds(field(place)).ok_or_else(|| {
                format!(
                    "time `{}` must be seconds, below 18446744073; where it is not, leave the column out",
                    shown(field(place))
                )
            })?,
        };
        let id = field(self.places.object);
        if id.is_empty() {
            return Err("the object is missing".to_string());
        }
        let size = bytes(self.places.size, "size")?;
        let offset = bytes(self.places.offset, "offset")?.unwrap_or(0);
        // Without a size, the access is to the page that contains the offset.
        let (index, pages) = span(offset, size.unwrap_or(1), PAGE_SIZE)
            .ok_or_else(|| format!("size `{}` is more than 2^32 pages", size.unwrap_or(1)))?;
        if pages == 0 || starts(&REMOVALS) {
            return Ok(None);
        }
        Ok(Some(Access { time_ns, object: ids::object(id), index, pages, write: starts(&WRITES) }))
    }
}

impl Decode for Table {
    fn decode(&mut self, out: &mut Vec<Access>) -> Result<(), AccessError> {
        while out.len() < BLOCK {
            if !std::mem::take(&mut self.ahead) {
                match self.reader.read_byte_record(&mut self.record) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) => return Err(unread(&self.reader, error)),
                }
            }
            let line = self.record.position().map_or(1, csv::Position::line);
            out.extend(self.access().map_err(|problem| wrong(&self.reader, line, problem))?);
        }
        Ok(())
    }
}

fn wrong(reader: &Reader<Input>, line: u64, problem: String) -> AccessError {
    AccessError::Line { file: reader.get_ref().file.clone(), line, problem }
}

fn unread(reader: &Reader<Input>, error: csv::Error) -> AccessError {
    let line = error.position().map_or(1, csv::Position::line);
    match error.into_kind() {
        ErrorKind::Io(source) => reader.get_ref().unreadable(source),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let problem =
                format!("{len} fields, where the first line has {expected_len}: the line is cut or damaged");
            wrong(reader, line, problem)
        }
        kind => wrong(reader, line, format!("{kind:?}")),
    }
}

/// The separator of a line: whichever of the candidates it has most of.
fn delimiter(line: &[u8]) -> Option<u8> {
    let line = line.trim_ascii();
    let count = |delimiter: u8| line.iter().filter(|&&byte| byte == delimiter).count();
    // Of several maxima, `max_by_key` returns the last, so comma is preferred.
    let most = [b' ', b'|', b';', b'\t', b','].into_iter().max_by_key(|&delimiter| count(delimiter))?;
    (count(most) > 0).then_some(most)
}

/// Whether the first line of a text looks like a table rather than an id or prose: it has several fields with
/// a number among them, or a column that names objects.
pub(super) fn plausible(line: &[u8]) -> bool {
    let delimiter = delimiter(line);
    let mut reader =
        ReaderBuilder::new().has_headers(false).delimiter(delimiter.unwrap_or(b',')).from_reader(line);
    let mut first = ByteRecord::new();
    if reader.read_byte_record(&mut first).is_err() {
        return false;
    }
    let names_objects = first.iter().any(|field| OBJECT.iter().any(|name| is(field, name)));
    names_objects || delimiter.is_some() && !is_header(&first)
}
