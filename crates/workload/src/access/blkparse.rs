//! The text output of `blkparse`: requests to a block device, below the page cache.
//!
//! ```text
//!     7,0    0        2     0.000000000 19919  Q  RS 988 + 4 [fio]
//!   device  CPU  sequence   seconds      pid   │   │  sector + sectors of 512 bytes
//!                                          event  R read, W write, D discard, N none; F before: flush
//! ```
//!
//! The default output format of blkparse 1.3 (manual, "Default output format"). A request passes several
//! events, one of which is counted as the access: [`BlockEvent::Queue`] unless the other one is named. The
//! device is the object, numbered as in the kernel (`MKDEV`, major << 20 | minor), and indices are pages of
//! the device. Flushes without data and discards touch no page. The summary, from `CPU0 (...):` or `Total
//! (...):` on, is skipped.

use super::lines::{LineFormat, number, seconds, shown, words};
use super::{Access, PAGE_SIZE, span};

/// Which event of a block request counts as its access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEvent {
    /// Q: the request was queued by a file system or program.
    Queue,
    /// D: the request was issued to the driver, after merging and splitting.
    Issue,
}

const SECTOR: u64 = 512;
const FORM: &str = "`MAJOR,MINOR CPU SEQUENCE SECONDS PID EVENT RWBS SECTOR + SECTORS [COMMAND]`, as blkparse prints by default";

pub(super) struct Blkparse {
    event: BlockEvent,
    counted: u64,
    other: u64,
    summary: bool,
}

impl Blkparse {
    pub fn new(event: BlockEvent) -> Blkparse {
        Blkparse { event, counted: 0, other: 0, summary: false }
    }
}

impl LineFormat for Blkparse {
    const ENDS_LINES: bool = true;

    fn line(&mut self, line: &[u8], out: &mut Vec<Access>) -> Result<(), String> {
        self.summary |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
        if self.summary || line.is_empty() || line.starts_with(b"Input file ") {
            return Ok(());
        }
        let wrong = || format!("`{}` must be {FORM}", shown(line));
        let event = Event::parse(line).ok_or_else(wrong)?;
        let (wanted, other) = match self.event {
            BlockEvent::Queue => (&b"Q"[..], &b"D"[..]),
            BlockEvent::Issue => (&b"D"[..], &b"Q"[..]),
        };
        self.counted += u64::from(event.action == wanted);
        self.other += u64::from(event.action == other);
        if event.action != wanted {
            return Ok(());
        }
        let mut rest = words(event.rest);
        let rwbs = rest.next().ok_or_else(wrong)?;
        let (flush, kind) = match rwbs {
            [b'F', kind, ..] => (true, *kind),
            [kind, ..] => (false, *kind),
            [] => return Err(wrong()),
        };
        let write = match kind {
            b'R' => false,
            b'W' => true,
            _ => return Ok(()),
        };
        let Some(sector) = rest.next().filter(|word| !(flush && word.starts_with(b"["))) else {
            return if flush { Ok(()) } else { Err(wrong()) };
        };
        let sector = number(sector).ok_or_else(wrong)?;
        if rest.next() != Some(b"+") {
            return Err(wrong());
        }
        let sectors = rest.next().and_then(number).ok_or_else(wrong)?;
        let (index, pages) = span(sector, sectors, PAGE_SIZE / SECTOR).ok_or_else(wrong)?;
        if pages > 0 {
            out.push(Access { time_ns: event.time_ns, object: event.device, index, pages, write });
        }
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        if self.counted > 0 || self.other == 0 {
            return Ok(());
        }
        let (missing, there, name) = match self.event {
            BlockEvent::Queue => ("queued (Q)", "issued (D)", "blkparse:D"),
            BlockEvent::Issue => ("issued (D)", "queued (Q)", "blkparse"),
        };
        Err(format!("no {missing} requests, but {} {there}; read it as `{name}`", self.other))
    }
}

/// The fields that all events have.
struct Event<'a> {
    device: u64,
    time_ns: u64,
    action: &'a [u8],
    rest: &'a [u8],
}

impl Event<'_> {
    fn parse(line: &[u8]) -> Option<Event<'_>> {
        let mut words = words(line);
        let device = words.next()?;
        let comma = device.iter().position(|&byte| byte == b',')?;
        let (major, minor) = (number(&device[..comma])?, number(&device[comma + 1..])?);
        let (_cpu, _sequence) = (number(words.next()?)?, number(words.next()?)?);
        let time_ns = seconds(words.next()?)?;
        number(words.next()?)?;
        let action = words.next()?;
        // `words` returns parts of the line, so the rest starts where the last word ends.
        let rest = &line[action.as_ptr() as usize + action.len() - line.as_ptr() as usize..];
        let device = major.checked_mul(1 << 20)?.checked_add(minor)?;
        Some(Event { device, time_ns, action, rest })
    }
}

pub(super) fn plausible(line: &[u8]) -> bool {
    Event::parse(line).is_some()
}
