//! Recorded accesses: which pages of which objects a program touched, in order.
//!
//! Replacement policies are compared by replaying accesses. Many traces exist in the formats of other tools;
//! a reader here turns each format into one stream of [`Access`].
//!
//! ```text
//!   24-byte records ─┐
//!   ids, CSV ────────┤                 object 7 (a file, a device, a key)
//!   fio iolog ───────┼─► Accesses ──►  page   0   1   2   3   4   5
//!   blkparse text ───┤                             └───────┘  index 2, pages 3
//!   lackey ──────────┤                 ──► PageNumbers ──►  0, 1, 2, ... in order of first appearance
//!   page cache ──────┘
//! ```
//!
//! An object is whatever the format names: the file of an iolog, the device of a block trace, the key of a
//! cache trace. Objects and transfers larger than a page become several pages, so a policy only sees pages of
//! [`PAGE_SIZE`] bytes. A record of size 0 is not an access; libCacheSim skips such records too.
//!
//! [`open`] detects the format from the contents, through zstd if needed; [`Format`] names it where detection
//! fails. Each format is a file beside this one that implements `Decode`, which reads a block of input and
//! appends accesses to a buffer, so the indirect call is paid once per block. If a trace is damaged, the
//! accesses before the damage are returned before the error.
//!
//! The accesses of [`sequences`] are generated instead of recorded: the same ones on a real kernel and in the
//! twin.

mod blkparse;
mod damon;
mod error;
mod fio;
mod format;
mod ids;
mod input;
mod lackey;
mod lines;
mod oracle;
mod page_cache;
mod pages;
pub mod sequences;
mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

pub use blkparse::BlockEvent;
pub use error::{AccessError, UnknownFormat};
pub use format::Format;
use input::Input;
pub use page_cache::{
    PAGE_CACHE_FORMAT, PAGE_CACHE_KEY, PageCacheDocument, PageCacheEvent, PageCacheKind, PageCacheObject,
    PageCacheWriter,
};
pub use pages::PageNumbers;
pub use table::{Column, Columns};

/// Size of a page in bytes, whatever the base page of the simulated machine is.
pub const PAGE_SIZE: u64 = 4096;

/// One access to page cache or memory: `pages` pages of object `object`, starting with page `index`.
///
/// `index + pages` never overflows, and `pages` is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Nanoseconds since an origin that the trace defines; 0 throughout if the format has no time.
    pub time_ns: u64,
    /// Number of the file, device or key.
    pub object: u64,
    /// First page, counted from the start of the object.
    pub index: u64,
    /// Number of pages.
    pub pages: u32,
    pub write: bool,
}

/// Decoder of one format: turns blocks of input into accesses.
trait Decode: Send {
    /// Appends the next accesses to `out`, about [`BLOCK`] of them. Appends none only at the end of the
    /// input. It is not called again after an error.
    fn decode(&mut self, out: &mut Vec<Access>) -> Result<(), AccessError>;

    /// See [`Accesses::beyond_end`].
    fn beyond_end(&self) -> Option<u64> {
        None
    }
}

/// Accesses decoded at a time; the input and output of one block fit in a CPU's L2 cache.
const BLOCK: usize = 1 << 12;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The name of the trace at `path`, for messages.
pub fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "standard input".to_string() } else { path.display().to_string() }
}

/// Opens the access trace at `path`, which may be a pipe; `-` is standard input. If `format` is `None`, it is
/// detected from the contents and the name.
pub fn open(path: impl AsRef<Path>, format: Option<Format>) -> Result<Accesses, AccessError> {
    let path = path.as_ref();
    let file = name(path);
    if path == Path::new(STANDARD_INPUT) {
        return Accesses::from_reader(std::io::stdin(), file, format);
    }
    let io = |source| AccessError::Io { file: file.clone(), source };
    let mut input = File::open(path).map_err(io)?;
    let is_file = input.metadata().map_err(io)?.is_file();
    let mut magic = Vec::new();
    input.by_ref().take(PARQUET_MAGIC.len() as u64).read_to_end(&mut magic).map_err(io)?;
    // Parquet is read from several offsets at once, which works on a file but not on a pipe.
    if is_file && magic == PARQUET_MAGIC && matches!(format, None | Some(Format::PageCache)) {
        return Ok(Accesses::new(Box::new(page_cache::PageCache::new(input, file)?)));
    }
    Accesses::from_reader(Cursor::new(magic).chain(input), file, format)
}

/// The first bytes of a Parquet file.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// The accesses of a trace, as an iterator or in batches.
pub struct Accesses {
    decoder: Box<dyn Decode>,
    batch: Vec<Access>,
    next: usize,
    /// The error met while `batch` was read; returned after the accesses of `batch`.
    error: Option<AccessError>,
    ended: bool,
}

impl Accesses {
    /// Reads the trace in `input`; `file` names it in errors.
    pub fn from_reader(
        input: impl Read + Send + 'static,
        file: String,
        format: Option<Format>,
    ) -> Result<Accesses, AccessError> {
        let input = Input::new(input, file)?;
        let format = match format {
            Some(format) => format,
            None => format::detect(&input)?,
        };
        Ok(Accesses::new(format.decoder(input)?))
    }

    fn new(decoder: Box<dyn Decode>) -> Accesses {
        Accesses { decoder, batch: Vec::new(), next: 0, error: None, ended: false }
    }

    /// The next accesses, or an empty slice at the end. Accesses that the iterator has returned are not
    /// repeated.
    pub fn next_batch(&mut self) -> Result<&[Access], AccessError> {
        if self.next == self.batch.len() {
            self.refill()?;
        }
        let start = std::mem::replace(&mut self.next, self.batch.len());
        Ok(&self.batch[start..])
    }

    /// After the end of the trace: the largest record number, from 1, that a record names as its next access,
    /// if the trace has fewer records. The trace is then only a part of a longer one.
    pub fn beyond_end(&self) -> Option<u64> {
        self.decoder.beyond_end()
    }

    fn refill(&mut self) -> Result<(), AccessError> {
        self.next = 0;
        self.batch.clear();
        if !self.ended {
            match self.decoder.decode(&mut self.batch) {
                Ok(()) => self.ended = self.batch.is_empty(),
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                }
            }
        }
        match self.error.take_if(|_| self.batch.is_empty()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Iterator for Accesses {
    type Item = Result<Access, AccessError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.batch.len()
            && let Err(error) = self.refill()
        {
            return Some(Err(error));
        }
        let access = *self.batch.get(self.next)?;
        self.next += 1;
        Some(Ok(access))
    }
}

/// First page and number of pages that `length` units from unit `start` on touch, with `per_page` units in a
/// page; 0 pages for no units. `None` if the end exceeds 64 bits or the number of pages 32 bits.
fn span(start: u64, length: u64, per_page: u64) -> Option<(u64, u32)> {
    let index = start / per_page;
    if length == 0 {
        return Some((index, 0));
    }
    let last = start.checked_add(length - 1)? / per_page;
    Some((index, u32::try_from(last - index + 1).ok()?))
}
