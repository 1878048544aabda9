//! A trace as policies see it: page numbers in the order of their accesses.

use super::NextUses;
use std::sync::OnceLock;
use thiserror::Error;
use workload::access::{Access, AccessError, PageNumbers};

/// Page accesses that a sequence may have; each has a number of 32 bits, and one stands for "never".
const MOST_ACCESSES: usize = u32::MAX as usize - 1;

/// Pages that accesses may touch on average, 16 MiB, and beyond that in all: a few records may be of large objects, but no
/// short trace makes a long sequence.
const MOST_PAGES_EACH: usize = 4096;
const MORE_PAGES: usize = 1 << 22;

/// Why a trace is no sequence of page accesses.
#[derive(Debug, Error)]
pub enum SequenceError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] AccessError),
    /// There is nothing to replay.
    #[error("the trace has no access that touches a page; record it again")]
    Empty,
    /// Sizes that no recorder meant.
    #[error(
        "the first {accesses} accesses of the trace touch {pages} pages; more than {MOST_PAGES_EACH} each and {MORE_PAGES} besides \
         are taken for damage; are sizes in bytes?"
    )]
    TooLarge {
        /// Accesses so far.
        accesses: usize,
        /// Pages of these.
        pages: usize,
    },
    /// More than 32-bit numbers can count.
    #[error("the trace has more than {MOST_ACCESSES} page accesses; cut it into parts")]
    TooLong,
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// File, device or key.
    pub object: u64,
    /// The page within it.
    pub index: u64,
}

/// Page numbers in the order of accesses. Rulers need no more; a policy that treats files and their pages apart also
/// finds each page's [`Place`], at 16 bytes a distinct page, and which accesses write, at a bit each.
pub struct Sequence {
    pages: Vec<u32>,
    /// By page number.
    places: Vec<Place>,
    /// A bit for each access, up to the last one that writes.
    writes: Vec<u64>,
    next_uses: OnceLock<NextUses>,
}

impl Sequence {
    /// Reads a trace to its end. An access to several pages is one access to each.
    pub fn read(
        accesses: impl Iterator<Item = Result<Access, AccessError>>,
    ) -> Result<Sequence, SequenceError> {
        let mut numbers = PageNumbers::default();
        let (mut pages, mut places, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for (number, access) in accesses.enumerate() {
            let access = access?;
            let (accesses, after) = (number + 1, pages.len() + access.pages as usize);
            if after > MORE_PAGES + MOST_PAGES_EACH * accesses {
                return Err(SequenceError::TooLarge { accesses, pages: after });
            }
            if access.pages as usize > MOST_ACCESSES - pages.len() {
                return Err(SequenceError::TooLong);
            }
            if access.write {
                (pages.len()..pages.len() + access.pages as usize).for_each(|time| set(&mut writes, time));
            }
            let indices = access.index..access.index + u64::from(access.pages);
            pages.extend(indices.map(|index| {
                let number = numbers.number(access.object, index);
                if number as usize == places.len() {
                    places.push(Place { object: access.object, index });
                }
                number
            }));
        }
        if pages.is_empty() {
            return Err(SequenceError::Empty);
        }
        Ok(Sequence { pages, places, writes, next_uses: OnceLock::new() })
    }

    /// Page numbers, in the order of accesses. They are dense.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// How many different pages there are.
    pub fn distinct(&self) -> usize {
        self.places.len()
    }

    /// Where the page of this number is.
    pub fn place(&self, page: u32) -> Place {
        self.places[page as usize]
    }

    /// Whether access number `time` writes.
    pub fn writes(&self, time: usize) -> bool {
        self.writes.get(time / 64).is_some_and(|word| word & (1 << (time % 64)) != 0)
    }

    /// When each page is used next; computed once.
    pub(super) fn next_uses(&self) -> NextUses {
        self.next_uses.get_or_init(|| NextUses::of(&self.pages)).clone()
    }

    /// Up to `most` sequences, each with the accesses to a random part, `rate`, of the pages. No page is in two.
    pub(super) fn samples(&self, rate: f64, most: usize) -> Vec<Sequence> {
        // Slices of the range of a hash function.
        let width = (rate * 2f64.powi(64)) as u64;
        let count = most.min((1.0 / rate) as usize).max(1);
        let empty = || Sequence {
            pages: Vec::new(),
            places: Vec::new(),
            writes: Vec::new(),
            next_uses: OnceLock::new(),
        };
        let mut slices: Vec<Sequence> = (0..count).map(|_| empty()).collect();
        let mut numbers = vec![u32::MAX; self.distinct()];
        for (time, &page) in self.pages.iter().enumerate() {
            let Some(slice) = slices.get_mut((mix(page) / width.max(1)) as usize) else {
                continue;
            };
            let number = &mut numbers[page as usize];
            if *number == u32::MAX {
                *number = slice.places.len() as u32;
                slice.places.push(self.place(page));
            }
            if self.writes(time) {
                set(&mut slice.writes, slice.pages.len());
            }
            slice.pages.push(*number);
        }
        slices
    }
}

impl From<Vec<u32>> for Sequence {
    /// Reads of one object's pages, whose numbers are dense already.
    fn from(pages: Vec<u32>) -> Sequence {
        let distinct = pages.iter().max().map_or(0, |&page| u64::from(page) + 1);
        let places = (0..distinct).map(|index| Place { object: 0, index }).collect();
        Sequence { pages, places, writes: Vec::new(), next_uses: OnceLock::new() }
    }
}

fn set(bits: &mut Vec<u64>, bit: usize) {
    if bit / 64 >= bits.len() {
        bits.resize(bit / 64 + 1, 0);
    }
    bits[bit / 64] |= 1 << (bit % 64);
}

/// splitmix64's output function: numbers next to each other end up far apart.
fn mix(page: u32) -> u64 {
    let mut z = (u64::from(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
