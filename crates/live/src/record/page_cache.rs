//! Records the page cache: lookups of file pages, and folios that the kernel adds and removes.
//!
//! ```text
//!   sys_enter_read  count 131072                              remembered, no row
//!   get_pages       file 7, pages 0-31                        a row, held back
//!   fault           file 9, page 3        (another task)      a row, queued behind it
//!   get_pages       file 7, pages 31-31                       continues the same read: no row
//!   sys_exit_read   ret 5120                                  only two pages existed: the row is cut to 2
//! ```
//!
//! A read looks up its pages in several calls of `filemap_get_pages`, and the event of each call names all
//! pages up to the requested end, even past the end of the file, whose size the event does not have. So the
//! calls of one read are merged into one row, and a read that returned less than requested is cut to what it
//! returned. That takes the events of the system calls. For reads without them (readv, sendfile, io_uring,
//! reads by the kernel itself) spans are not cut, and calls of the same read are recognised by task, file and
//! end.
//!
//! A row is held back until its read has ended, and so are the rows behind it, so that rows stay ordered by
//! time. In the kernel: `filemap_read`, `filemap_get_pages`, `filemap_fault`, `filemap_map_pages` in
//! mm/filemap.c (Linux 6.18).

use std::collections::{BTreeMap, HashMap, VecDeque};

use workload::access::{
    PAGE_SIZE, PageCacheDocument, PageCacheEvent, PageCacheKind, PageCacheObject, PageCacheWriter,
};
use workload::output::OutputFile;

use super::convert::{Converted, merge, metadata, occurred};
use super::spool::{Manifest, Spool};
use super::tracepoints::{DecodeError, Decoder, Layout, Tracepoint, tracepoint};
use super::{Progress, RecordError};

/// What a tracepoint's event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A range of pages, both ends included.
    Pages(PageCacheKind),
    Page(PageCacheKind),
    /// A folio of 2^order pages.
    Folio(PageCacheKind),
    /// A range of bytes in a file.
    Bytes(PageCacheKind),
    /// Entry of a read system call.
    Asked,
    /// Exit of a read system call.
    Got,
}

const LOOKUP: &[&str] = &["s_dev", "i_ino", "index", "last_index"];
const FAULT: &[&str] = &["s_dev", "i_ino", "index"];
const FOLIO: &[&str] = &["s_dev", "i_ino", "index", "order"];
const EXT4: &[&str] = &["dev", "ino", "pos", "len"];
const XFS: &[&str] = &["dev", "ino", "offset", "count"];

/// The first this many tracepoints are required; Linux 6.12 and later have all of them.
pub const REQUIRED: usize = 5;

/// All recorded tracepoints, required ones first. Without the others, writes are missing, or reads are not
/// cut at the end of the file.
pub const TRACEPOINTS: [Tracepoint<What>; 12] = [
    tracepoint("filemap", "mm_filemap_get_pages", What::Pages(PageCacheKind::Read), LOOKUP),
    tracepoint("filemap", "mm_filemap_fault", What::Page(PageCacheKind::Fault), FAULT),
    tracepoint("filemap", "mm_filemap_map_pages", What::Pages(PageCacheKind::Map), LOOKUP),
    tracepoint("filemap", "mm_filemap_add_to_page_cache", What::Folio(PageCacheKind::Add), FOLIO),
    tracepoint("filemap", "mm_filemap_delete_from_page_cache", What::Folio(PageCacheKind::Delete), FOLIO),
    tracepoint("ext4", "ext4_da_write_begin", What::Bytes(PageCacheKind::Write), EXT4),
    tracepoint("ext4", "ext4_write_begin", What::Bytes(PageCacheKind::Write), EXT4),
    tracepoint("xfs", "xfs_file_buffered_write", What::Bytes(PageCacheKind::Write), XFS),
    tracepoint("syscalls", "sys_enter_read", What::Asked, &["count"]),
    tracepoint("syscalls", "sys_exit_read", What::Got, &["ret"]),
    tracepoint("syscalls", "sys_enter_pread64", What::Asked, &["count"]),
    tracepoint("syscalls", "sys_exit_pread64", What::Got, &["ret"]),
];

/// Maximum number of bytes that a read returns, however many are requested (`MAX_RW_COUNT`).
const MOST_READ: u64 = 0x7fff_f000;

/// Number of bits of a device number for its minor number (`MINORBITS`).
const MINOR_BITS: u32 = 20;

/// Maximum number of held-back rows. A task that is killed within a read never ends it.
const MOST_WAITING: usize = 1 << 16;

/// A decoded record.
#[derive(Clone, Copy, Debug)]
struct Record {
    cpu: u16,
    task: i32,
    what: Doing,
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Pages { kind: PageCacheKind, file: (u32, u64), index: u64, pages: u32 },
    Asked(u64),
    Got(i64),
}

fn decode(layout: &Layout<What>, cpu: u16, record: &[u8]) -> Result<Record, DecodeError> {
    let number = |field| layout.number(record, field);
    let file = || -> Result<(u32, u64), DecodeError> { Ok((number(0)? as u32, number(1)?)) };
    let span = |kind, first: u64, last: u64| {
        let pages = last.checked_sub(first).and_then(|more| u32::try_from(more).ok()?.checked_add(1));
        let pages = pages.filter(|&pages| first.checked_add(pages.into()).is_some());
        let pages = pages.ok_or_else(|| layout.value("a last page of", last))?;
        Ok(Doing::Pages { kind, file: file()?, index: first, pages })
    };
    let what = match layout.tracepoint().kind {
        What::Pages(kind) => span(kind, number(2)?, number(3)?)?,
        What::Page(kind) => span(kind, number(2)?, number(2)?)?,
        What::Folio(kind) => {
            let order = number(3)?;
            let pages = u32::try_from(order).ok().and_then(|order| 1u64.checked_shl(order));
            let last = pages.and_then(|pages| number(2).ok()?.checked_add(pages - 1));
            span(kind, number(2)?, last.ok_or_else(|| layout.value("order", order))?)?
        }
        What::Bytes(kind) => {
            let (from, bytes) = (number(2)?, number(3)?.max(1));
            let last = from.checked_add(bytes - 1).ok_or_else(|| layout.value("a length of", bytes))?;
            span(kind, from / PAGE_SIZE, last / PAGE_SIZE)?
        }
        What::Asked => Doing::Asked(number(0)?),
        What::Got => Doing::Got(number(0)? as i64),
    };
    Ok(Record { cpu, task: layout.task(record)?, what })
}

/// Converts `spool` to the trace `output`.
pub fn convert(
    spool: &Spool,
    manifest: &Manifest,
    output: OutputFile,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted, RecordError> {
    let formats = manifest.parsed_formats()?;
    let decoder = Decoder::new(&TRACEPOINTS, &formats)?;
    let mut writer = PageCacheWriter::to(output)?;
    let mut counts = [0; PageCacheKind::ALL.len()];
    let mut rows = Rows::default();
    let recorder = &manifest.metadata.recorder_tasks;
    let mut write = |rows: &mut Rows, all: bool| -> Result<(), RecordError> {
        while let Some(row) = rows.next(all) {
            counts[row.kind as usize] += 1;
            writer.push(row)?;
        }
        Ok(())
    };
    let merged = merge(
        spool,
        manifest,
        |cpu, _, record| decoder.layout(record).map(|layout| decode(layout, cpu, record)).transpose(),
        |time, record: Record| {
            // Events of the recorder itself, which writes its spool, are not part of the recorded demand.
            if !recorder.contains(&record.task) {
                rows.enter(time, record);
            }
            write(&mut rows, false)
        },
        progress,
    )?;
    write(&mut rows, true)?;
    let lacks = |tracepoint: &&Tracepoint<What>| formats.iter().all(|format| format.name != tracepoint.name);
    let document = PageCacheDocument {
        metadata: metadata(manifest, merged),
        objects: if manifest.anonymize { Vec::new() } else { rows.files },
        missing: TRACEPOINTS.iter().filter(lacks).map(Tracepoint::full_name).collect(),
    };
    let (document, bytes) = writer.finish(document)?;
    let by_operation = occurred(PageCacheKind::ALL.map(PageCacheKind::name), counts);
    Ok(Converted { metadata: document.metadata, bytes, by_operation })
}

/// The current read of a task.
#[derive(Clone, Copy)]
struct Read {
    object: u32,
    /// First page of its last `filemap_get_pages` call.
    index: u64,
    /// End of the requested range, exclusive.
    end: u64,
    /// The number of its row in the trace.
    row: u64,
}

#[derive(Default)]
struct Task {
    /// Requested bytes, while the system call runs.
    asked: Option<u64>,
    read: Option<Read>,
}

/// Rows that have not been written to the trace yet.
#[derive(Default)]
struct Rows {
    numbers: HashMap<(u32, u64), u32>,
    files: Vec<PageCacheObject>,
    tasks: BTreeMap<i32, Task>,
    /// Rows in order, with whether each waits for its read to end.
    waiting: VecDeque<(PageCacheEvent, bool)>,
    /// Number of rows returned by [`Self::next`].
    written: u64,
}

impl Rows {
    fn enter(&mut self, time: u64, Record { cpu, task, what }: Record) {
        match what {
            Doing::Asked(bytes) => {
                self.end_read(task, None);
                self.tasks.insert(task, Task { asked: Some(bytes.min(MOST_READ)), read: None });
            }
            Doing::Got(bytes) => self.end_read(task, u64::try_from(bytes).ok()),
            Doing::Pages { kind, file, index, pages } => {
                let object = self.number(file);
                let row = PageCacheEvent { time, cpu, task, object, index, pages, kind };
                if kind == PageCacheKind::Read {
                    self.enter_read(row);
                } else {
                    self.waiting.push_back((row, false));
                }
            }
        }
    }

    /// Handles a `filemap_get_pages` event of a read: adds a row, unless the event continues the task's
    /// current read.
    fn enter_read(&mut self, row: PageCacheEvent) {
        let PageCacheEvent { object, index, .. } = row;
        let end = index + u64::from(row.pages);
        let task = self.tasks.entry(row.task).or_default();
        match &mut task.read {
            Some(read) if read.object == object && read.end == end && read.index < index => {
                read.index = index;
            }
            read => {
                let number = self.written + self.waiting.len() as u64;
                let before = read.replace(Read { object, index, end, row: number });
                self.waiting.push_back((row, task.asked.is_some()));
                if let Some(before) = before.and_then(|before| self.waiting_row(before.row)) {
                    before.1 = false;
                }
            }
        }
    }

    /// Ends the task's current read, which returned `got` bytes if that is known.
    fn end_read(&mut self, task: i32, got: Option<u64>) {
        let Some(Task { asked: Some(asked), read: Some(read) }) = self.tasks.remove(&task) else { return };
        if let Some((row, held)) = self.waiting_row(read.row) {
            *held = false;
            if let Some(got) = got.filter(|&got| got < asked) {
                row.pages = pages_got(row.pages, asked, got);
            }
        }
    }

    fn waiting_row(&mut self, row: u64) -> Option<&mut (PageCacheEvent, bool)> {
        self.waiting.get_mut(row.checked_sub(self.written)? as usize)
    }

    /// The next row if it is complete; with `all`, the next row in any case.
    fn next(&mut self, all: bool) -> Option<PageCacheEvent> {
        let &(_, held) = self.waiting.front()?;
        if held && !all && self.waiting.len() <= MOST_WAITING {
            return None;
        }
        self.written += 1;
        self.waiting.pop_front().map(|(row, _)| row)
    }

    /// The number that the trace uses for a file, given its device and inode.
    fn number(&mut self, file: (u32, u64)) -> u32 {
        *self.numbers.entry(file).or_insert_with(|| {
            let (device, inode) = file;
            let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
            self.files.push(PageCacheObject { major, minor, inode });
            self.files.len() as u32 - 1
        })
    }
}

/// How many of `pages` looked-up pages the `got` bytes returned are in, if `asked` bytes span all of them.
/// The offset of the read within its first page is not traced; the smallest possible one is assumed.
fn pages_got(pages: u32, asked: u64, got: u64) -> u32 {
    let begin = (u64::from(pages - 1) * PAGE_SIZE + 1).saturating_sub(asked);
    ((begin + got).div_ceil(PAGE_SIZE) as u32).clamp(1, pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(records: &[(i32, Doing)]) -> Vec<(u64, i32, u64, u32)> {
        let mut rows = Rows::default();
        let mut written = Vec::new();
        for (time, &(task, what)) in records.iter().enumerate() {
            rows.enter(time as u64, Record { cpu: 0, task, what });
            written.extend(std::iter::from_fn(|| rows.next(false)));
        }
        written.extend(std::iter::from_fn(|| rows.next(true)));
        written.iter().map(|row| (row.time, row.task, row.index, row.pages)).collect()
    }

    fn read(index: u64, pages: u32) -> Doing {
        Doing::Pages { kind: PageCacheKind::Read, file: (8 << MINOR_BITS, 12), index, pages }
    }

    #[test]
    fn portions_of_a_read_are_one_row_cut_to_what_was_got() {
        let fault = Doing::Pages { kind: PageCacheKind::Fault, file: (0, 9), index: 3, pages: 1 };
        let records = [
            (1, Doing::Asked(131072)),
            (1, read(0, 32)),
            (2, fault),
            (1, read(31, 1)),
            (1, Doing::Got(5120)),
            (1, read(5, 2)),
            (1, read(6, 1)),
            (1, Doing::Asked(8192)),
            (1, read(6, 2)),
            (1, Doing::Got(-14)),
            (3, Doing::Asked(1)),
            (3, read(9, 1)),
        ];
        let expected = [(1, 1, 0, 2), (2, 2, 3, 1), (5, 1, 5, 2), (8, 1, 6, 2), (11, 3, 9, 1)];
        assert_eq!(rows(&records), expected);
    }

    #[test]
    fn a_read_that_never_ends_does_not_hold_everything_back() {
        let mut rows = Rows::default();
        rows.enter(0, Record { cpu: 0, task: 1, what: Doing::Asked(4096) });
        rows.enter(1, Record { cpu: 0, task: 1, what: read(0, 1) });
        for time in 0..MOST_WAITING as u64 {
            assert_eq!(rows.next(false), None);
            rows.enter(2 + time, Record { cpu: 0, task: 2, what: read(time * 2, 1) });
        }
        assert_eq!(rows.next(false).unwrap().task, 1);
        rows.enter(1 << 20, Record { cpu: 0, task: 1, what: Doing::Got(0) });
        assert_eq!(rows.next(false).unwrap().task, 2);
    }

    #[test]
    fn bytes_are_in_as_many_pages_as_they_touch() {
        // Aligned reads of 32 pages that reach the end of the file.
        for (got, pages) in [(0, 1), (1, 1), (4096, 1), (4097, 2), (131071, 32)] {
            assert_eq!(pages_got(32, 131072, got), pages, "{got}");
        }
        // 32 pages of bytes span 33 pages: the read began after the first byte of a page.
        assert_eq!((pages_got(33, 131072, 4095), pages_got(33, 131072, 4096)), (1, 2));
    }
}
