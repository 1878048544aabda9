//! A trace as policies see it: page numbers in the order of their accesses.

use super::NextUses;
use std::sync::OnceLock;
use thiserror::Error;
use workload::access::{Access, AccessError, PageNumbers};

/// Page accesses that a sequence may have; each has a number of 32 bits, and one stands for "never".
const MOST_ACCESSES: usize = u32::MAX as usize - 1;

/// Why a trace is no sequence of page accesses.
#[derive(Debug, Error)]
pub enum SequenceError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] AccessError),
    /// There is nothing to replay.
    #[error("the trace has no access that touches a page; record it again")]
    Empty,
    /// More than 32-bit numbers can count.
    #[error("the trace has more than {MOST_ACCESSES} page accesses; cut it into parts")]
    TooLong,
}

/// Page numbers in the order of accesses.
pub struct Sequence {
    pages: Vec<u32>,
    distinct: usize,
    next_uses: OnceLock<NextUses>,
}

impl Sequence {
    /// Reads a trace to its end. An access to several pages is one access to each.
    pub fn read(
        accesses: impl Iterator<Item = Result<Access, AccessError>>,
    ) -> Result<Sequence, SequenceError> {
        let mut numbers = PageNumbers::default();
        let mut pages = Vec::new();
        for access in accesses {
            let access = access?;
            if access.pages as usize > MOST_ACCESSES - pages.len() {
                return Err(SequenceError::TooLong);
            }
            let indices = access.index..access.index + u64::from(access.pages);
            pages.extend(indices.map(|index| numbers.number(access.object, index)));
        }
        if pages.is_empty() {
            return Err(SequenceError::Empty);
        }
        Ok(Sequence::of(pages, numbers.len()))
    }

    fn of(pages: Vec<u32>, distinct: usize) -> Sequence {
        Sequence { pages, distinct, next_uses: OnceLock::new() }
    }

    /// Page numbers, in the order of accesses. They are dense.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// How many different pages there are.
    pub fn distinct(&self) -> usize {
        self.distinct
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
        let mut slices = vec![(Vec::new(), 0u32); count];
        let mut numbers = vec![u32::MAX; self.distinct];
        for &page in &self.pages {
            let Some((pages, distinct)) = slices.get_mut((mix(page) / width.max(1)) as usize) else {
                continue;
            };
            let number = &mut numbers[page as usize];
            if *number == u32::MAX {
                *number = *distinct;
                *distinct += 1;
            }
            pages.push(*number);
        }
        slices.into_iter().map(|(pages, distinct)| Sequence::of(pages, distinct as usize)).collect()
    }
}

impl From<Vec<u32>> for Sequence {
    /// Numbers that are dense already.
    fn from(pages: Vec<u32>) -> Sequence {
        let distinct = pages.iter().max().map_or(0, |&page| page as usize + 1);
        Sequence::of(pages, distinct)
    }
}

/// splitmix64's output function: numbers next to each other end up far apart.
fn mix(page: u32) -> u64 {
    let mut z = (u64::from(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
