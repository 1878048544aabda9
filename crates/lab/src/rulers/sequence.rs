//! A trace as policies see it: page numbers in the order of accesses.

use super::NextUses;
use std::sync::OnceLock;
use thiserror::Error;
use workload::access::{Access, AccessError, PageNumbers};

/// Most page accesses of a sequence; each has a 32-bit number, and one number stands for "never".
const MOST_ACCESSES: usize = u32::MAX as usize - 1;

/// Most pages that accesses may touch on average (16 MiB), and how many more all of them together. A few
/// records may be of large objects, but a short trace must not make a long sequence.
const MOST_PAGES_EACH: usize = 4096;
const MORE_PAGES: usize = 1 << 22;

/// Why a trace is not a sequence of page accesses.
#[derive(Debug, Error)]
pub enum SequenceError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] AccessError),
    /// The trace has no page accesses.
    #[error("the trace has no access that touches a page; record it again")]
    Empty,
    /// Sizes are so large that they are taken for damage.
    #[error(
        "the first {accesses} accesses of the trace touch {pages} pages; more than {MOST_PAGES_EACH} each and {MORE_PAGES} besides \
         are taken for damage; are sizes in bytes?"
    )]
    TooLarge {
        /// Number of accesses so far.
        accesses: usize,
        /// Number of pages that they touch.
        pages: usize,
    },
    /// The trace has more accesses than 32-bit numbers can count.
    #[error("the trace has more than {MOST_ACCESSES} page accesses; cut it into parts")]
    TooLong,
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the file, device or key.
    pub object: u64,
    /// Index of the page within it.
    pub index: u64,
}

/// Page numbers in the order of accesses, which is all that rulers need. For policies that distinguish files
/// and their pages, it also has the [`Place`] of each page, 16 bytes per distinct page, and which accesses
/// write, a bit each.
pub struct Sequence {
    pages: Vec<u32>,
    /// By page number.
    places: Vec<Place>,
    /// A bit for each access, up to the last one that writes.
    writes: Vec<u64>,
    next_uses: OnceLock<NextUses>,
}

impl Sequence {
    /// Reads a trace to its end. An access to several pages becomes one access to each.
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

    /// Page numbers in the order of accesses. They are dense.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Number of different pages.
    pub fn distinct(&self) -> usize {
        self.places.len()
    }

    /// Where a page is.
    pub fn place(&self, page: u32) -> Place {
        self.places[page as usize]
    }

    /// Whether access number `time` writes.
    pub fn writes(&self, time: usize) -> bool {
        self.writes.get(time / 64).is_some_and(|word| word & (1 << (time % 64)) != 0)
    }

    /// The next use of each access's page; computed on first use.
    pub(super) fn next_uses(&self) -> NextUses {
        self.next_uses.get_or_init(|| NextUses::of(&self.pages)).clone()
    }

    /// Up to `most` disjoint samples of the pages at this `rate`, each with all accesses to its pages.
    pub(super) fn samples(&self, rate: f64, most: usize) -> Vec<Sequence> {
        // Each sample is a slice of the range of a hash function.
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
    /// Reads of the pages of one object; the numbers must be dense already.
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

/// The output function of SplitMix64, which spreads adjacent numbers.
fn mix(page: u32) -> u64 {
    let mut z = (u64::from(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
