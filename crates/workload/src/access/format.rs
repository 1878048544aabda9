//! The formats of access traces, and how they are detected.

use std::str::FromStr;

use super::input::Input;
use super::lines::{Lines, number, shown};
use super::page_cache::PageCache;
use super::table::{Columns, Table};
use super::{
    AccessError, BlockEvent, Decode, PARQUET_MAGIC, UnknownFormat, blkparse, damon, fio, ids, lackey, oracle,
    table,
};

/// A format of access traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// libCacheSim's records of 24 bytes: time, object, size, next access. Name: `oracle-general`.
    OracleGeneral,
    /// One object id per line. Name: `ids`.
    Ids,
    /// A table: CSV, or separated by tabs, semicolons, bars or blanks. Names: `csv`, and with columns
    /// `csv:time=1,object=2,size=3`.
    Csv(Columns),
    /// fio's iolog, version 2 or 3. Name: `fio`.
    Fio,
    /// The text output of blkparse. Names: `blkparse`, and `blkparse:D` for requests at issue.
    Blkparse(BlockEvent),
    /// The output of valgrind's lackey. Name: `lackey`.
    Lackey,
    /// The Parquet file that `mmtwin record --page-cache` writes. Name: `page-cache`.
    PageCache,
}

impl Format {
    /// The names that [`FromStr`] accepts, for errors and help.
    pub const NAMES: &str = "`oracle-general`, `ids`, `csv`, `csv:time=COLUMN,object=COLUMN,size=COLUMN,\
                             offset=COLUMN,op=COLUMN` (only `object` is needed; places from 1, or names of the \
                             header), `fio`, `blkparse`, `blkparse:D`, `lackey`, `page-cache`";

    /// The decoder of this format, which the user named or [`detect`] found.
    pub(super) fn decoder(&self, mut input: Input) -> Result<Box<dyn Decode>, AccessError> {
        let is_text = !matches!(self, Format::OracleGeneral | Format::PageCache);
        // Binary records contain zero bytes, text does not.
        if is_text && let Some(at) = input.head().iter().position(|&byte| byte == 0) {
            let line = line_of(input.head(), at) as u64;
            let problem = format!("a zero at byte {at}: this is not text; name another format, or none");
            return Err(AccessError::Line { file: input.file, line, problem });
        }
        Ok(match self {
            Format::OracleGeneral => Box::new(oracle::OracleGeneral::new(input)),
            Format::Ids => Box::new(Lines::new(input, ids::Ids)),
            Format::Csv(columns) => Box::new(Table::new(input, columns)?),
            Format::Fio => Box::new(Lines::new(input, fio::Fio::default())),
            Format::Blkparse(event) => Box::new(Lines::new(input, blkparse::Blkparse::new(*event))),
            Format::Lackey => Box::new(Lines::new(input, lackey::Lackey)),
            Format::PageCache => Box::new(PageCache::of_bytes(input.read_all()?, input.file)?),
        })
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        let unknown = || UnknownFormat { name: name.to_string() };
        Ok(match name {
            "oracle-general" => Format::OracleGeneral,
            "ids" => Format::Ids,
            "csv" => Format::Csv(Columns::default()),
            "fio" => Format::Fio,
            "blkparse" => Format::Blkparse(BlockEvent::Queue),
            "blkparse:D" => Format::Blkparse(BlockEvent::Issue),
            "lackey" => Format::Lackey,
            "page-cache" => Format::PageCache,
            _ => {
                let columns = name.strip_prefix("csv:").ok_or_else(unknown)?;
                Format::Csv(columns.parse().map_err(|()| unknown())?)
            }
        })
    }
}

/// Detects the format of a trace: of text by its first line, of other files by their name or by records that
/// make sense.
pub(super) fn detect(input: &Input) -> Result<Format, AccessError> {
    let head = input.head();
    let unrecognised = |found: String| AccessError::Unrecognised { file: input.file.clone(), found };
    if head.starts_with(PARQUET_MAGIC) {
        return Ok(Format::PageCache);
    }
    let regions = |what| AccessError::Regions { file: input.file.clone(), what };
    if let Some(what) = damon::recording(head) {
        return Err(regions(what));
    }
    if let Err(no_text) = check_text(head) {
        if input.file.to_ascii_lowercase().contains("oraclegeneral") {
            return Ok(Format::OracleGeneral);
        }
        return match oracle::check(head) {
            Ok(()) => Ok(Format::OracleGeneral),
            Err(_) if damon::is_packed(head) => {
                Err(regions("a recording of DAMON compressed with zlib, as damo writes it"))
            }
            Err(no_records) => Err(unrecognised(format!(
                "is neither text ({no_text}) nor records of oracleGeneral ({no_records})"
            ))),
        };
    }
    let mut lines = head.split(|&byte| byte == b'\n').enumerate();
    let (before, first) = lines
        .find(|(_, line)| !line.trim_ascii().is_empty())
        .ok_or_else(|| unrecognised("has blank lines only".to_string()))?;
    match first {
        _ if first.starts_with(b"fio version ") => Ok(Format::Fio),
        _ if lackey::plausible(first) => Ok(Format::Lackey),
        _ if blkparse::plausible(first) => Ok(Format::Blkparse(BlockEvent::Queue)),
        _ if table::plausible(first) => Ok(Format::Csv(Columns::default())),
        _ if number(first.trim_ascii()).is_some() => Ok(Format::Ids),
        // Any text could be a list of ids, but most text files are not.
        _ => Err(unrecognised(format!(
            "is text that does not begin like a trace: line {}, `{}`, has neither a number nor one of the columns {}",
            before + 1,
            shown(first.trim_ascii()),
            table::OBJECT.join(", ")
        ))),
    }
}

/// Checks that bytes are text: UTF-8, possibly cut at the end, without control characters. The error says
/// where and why they are not.
fn check_text(bytes: &[u8]) -> Result<(), String> {
    let valid = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => error.valid_up_to(),
        _ => bytes.len(),
    };
    let is_control = |&byte: &u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let at = bytes[..valid].iter().position(is_control).unwrap_or(valid);
    let Some(byte) = bytes.get(at) else { return Ok(()) };
    let what = if at < valid { "a control character" } else { "not UTF-8" };
    Err(format!("line {}: {byte:#04x} at byte {at} is {what}", line_of(bytes, at)))
}

/// The number of the line, from 1, that contains byte `at`.
fn line_of(bytes: &[u8], at: usize) -> usize {
    1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count()
}
