//! Recorded accesses: which page of which object a program touched, in order.
//!
//! Policies that choose what stays in memory are judged by replaying accesses. Others have recorded plenty
//! of them, in formats of their own; a reader here turns each into one stream of [`Access`].
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
//! cache trace. An object or a transfer larger than a page is several pages, so that a policy only ever sees
//! pages of [`PAGE_SIZE`] bytes. A record that touches no byte (size 0) is no access; libCacheSim leaves such
//! records out too.
//!
//! [`open`] recognises the format by what is in the file, through zstd if need be; [`Format`] names it where
//! that fails. Each format is one file beside this one that implements `Decode`: it reads a block of the
//! input and appends accesses to a buffer, so that the one indirect call is paid once a block. What was read
//! before a damaged place is given out before the error.
//!
//! [`sequences`] are not recorded but made, the same ones on a real kernel and in the twin.

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

/// Bytes of a page.
pub const PAGE_SIZE: u64 = 4096;

/// One access to page cache or memory: `pages` pages of object `object` from page `index` on.
///
/// `index + pages` never overflows, and `pages` is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// When, from an origin that is the trace's own; 0 throughout if the format does not say.
    pub time_ns: u64,
    /// File, device or key.
    pub object: u64,
    /// First page within the object.
    pub index: u64,
    /// How many pages.
    pub pages: u32,
    /// Whether it writes.
    pub write: bool,
}

/// One format: how blocks of input become accesses.
trait Decode: Send {
    /// Appends the next accesses to `out`, about [`BLOCK`] of them; none at the end of the input only.
    /// After an error it is not called again.
    fn decode(&mut self, out: &mut Vec<Access>) -> Result<(), AccessError>;

    /// See [`Accesses::beyond_end`].
    fn beyond_end(&self) -> Option<u64> {
        None
    }
}

/// Accesses decoded at a time: input and output of a block stay in a CPU's second cache.
const BLOCK: usize = 1 << 12;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// What the trace at `path` is called.
pub fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "standard input".to_string() } else { path.display().to_string() }
}

/// Opens the access trace at `path`, which may be a pipe; `-` is standard input. Without a `format` it is recognised by
/// its contents and name.
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
    // Of all formats, this one is read from several places at once, which a file can and a pipe cannot.
    if is_file && magic == PARQUET_MAGIC && matches!(format, None | Some(Format::PageCache)) {
        return Ok(Accesses::new(Box::new(page_cache::PageCache::new(input, file)?)));
    }
    Accesses::from_reader(Cursor::new(magic).chain(input), file, format)
}

/// How a Parquet file begins.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// The accesses of a trace, as an iterator or in batches.
pub struct Accesses {
    decoder: Box<dyn Decode>,
    batch: Vec<Access>,
    next: usize,
    /// Met while `batch` was read; comes after it.
    error: Option<AccessError>,
    ended: bool,
}

impl Accesses {
    /// Reads the trace that `input` holds; `file` is its name in errors.
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

    /// The next accesses, or an empty slice at the end. Those that the iterator has given out do not come
    /// again.
    pub fn next_batch(&mut self) -> Result<&[Access], AccessError> {
        if self.next == self.batch.len() {
            self.refill()?;
        }
        let start = std::mem::replace(&mut self.next, self.batch.len());
        Ok(&self.batch[start..])
    }

    /// After the end: the number, from 1, of the last record that others name as an access to come, if the trace has
    /// fewer records. It is a part of a longer one then.
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

/// First page and number of pages that `length` units from unit `start` on touch, where `per_page` units
/// make a page. None if they end past what 64 bits count or are more pages than 32 bits count; 0 pages for
/// no units.
fn span(start: u64, length: u64, per_page: u64) -> Option<(u64, u32)> {
    let index = start / per_page;
    if length == 0 {
        return Some((index, 0));
    }
    let last = start.checked_add(length - 1)? / per_page;
    Some((index, u32::try_from(last - index + 1).ok()?))
}
