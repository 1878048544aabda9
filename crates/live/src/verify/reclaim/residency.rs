//! Which pages were resident when, whoever says so: the kernel or the twin.
//!
//! ```text
//!   accesses     a  b  a  c  d  b  a          a file page's stay begins with the access that misses it
//!   hits         .  .  x  .  .  .  x          and ends with its eviction
//!   evictions                b     c          = stays that began with accesses 1 and 3
//! ```
//!
//! An eviction is known by the access that its stay began with. So evictions of the kernel can be found again among the
//! twin's, whatever happened to the same page before or after.
//!
//! In files, hits are a bit an access, lowest bit first. An eviction is the number of its stay among all stays of file
//! pages, as a varint of the zigzag-coded difference to one more than the number before.

use workload::access::sequences::Operation;

/// What happened to the pages of a sequence of accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Whether the page of each access was resident just before it.
    pub hits: Vec<bool>,
    /// The file pages that were evicted, in order, each as the access that its stay began with.
    pub evictions: Vec<u32>,
}

/// The page, if it is one of the file.
fn file_page(operation: Operation) -> Option<u32> {
    match operation {
        Operation::Read(page) | Operation::MapLoad(page) | Operation::Write(page) => Some(page),
        Operation::AnonLoad(_) | Operation::AnonStore(_) => None,
    }
}

/// The accesses that missed a page of the file, with the pages.
fn stays<'a>(operations: &'a [Operation], hits: &'a [bool]) -> impl Iterator<Item = (u32, u32)> + 'a {
    let misses = (0u32..).zip(operations.iter().zip(hits)).filter(|(_, (_, hit))| !**hit);
    misses.filter_map(|(access, (&operation, _))| Some((access, file_page(operation)?)))
}

impl Residency {
    /// From the pages that were evicted, in order: the n-th eviction of a page ends its n-th stay.
    pub fn new(operations: &[Operation], hits: Vec<bool>, evicted: &[u32]) -> Result<Residency, String> {
        if hits.len() != operations.len() {
            return Err(format!("{} hits or misses for {} accesses", hits.len(), operations.len()));
        }
        let mut of_page: Vec<Vec<u32>> = Vec::new();
        for (access, page) in stays(operations, &hits) {
            let page = page as usize;
            if of_page.len() <= page {
                of_page.resize(page + 1, Vec::new());
            }
            of_page[page].push(access);
        }
        let mut ended = vec![0; of_page.len()];
        let evictions: Result<Vec<u32>, String> = evicted
            .iter()
            .map(|&page| {
                let stay = of_page.get(page as usize).zip(ended.get_mut(page as usize));
                let access = stay.and_then(|(stays, ended)| {
                    *ended += 1;
                    stays.get(*ended - 1).copied()
                });
                access.ok_or_else(|| format!("page {page} was evicted more often than it came in"))
            })
            .collect();
        Ok(Residency { hits, evictions: evictions? })
    }

    /// Misses of pages of the file, and of anonymous pages.
    pub fn misses(&self, operations: &[Operation]) -> [u64; 2] {
        let mut misses = [0; 2];
        for (&operation, &hit) in operations.iter().zip(&self.hits) {
            misses[usize::from(file_page(operation).is_none())] += u64::from(!hit);
        }
        misses
    }

    /// The bytes of the two files: hits, evictions.
    pub fn encode(&self, operations: &[Operation]) -> [Vec<u8>; 2] {
        let byte = |eight: &[bool]| eight.iter().rev().fold(0, |byte, &hit| byte << 1 | u8::from(hit));
        let hits = self.hits.chunks(8).map(byte).collect();
        let mut number = vec![0i64; operations.len()];
        for (of_file, (access, _)) in stays(operations, &self.hits).enumerate() {
            number[access as usize] = of_file as i64;
        }
        let (mut evictions, mut expected) = (Vec::new(), 0);
        for &access in &self.evictions {
            let difference = number[access as usize] - expected;
            expected = number[access as usize] + 1;
            let mut rest = (difference << 1 ^ difference >> 63) as u64;
            while rest >= 0x80 {
                evictions.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            evictions.push(rest as u8);
        }
        [hits, evictions]
    }

    /// Undoes [`Residency::encode`].
    pub fn decode(operations: &[Operation], hits: &[u8], evictions: &[u8]) -> Result<Residency, String> {
        let bytes = operations.len().div_ceil(8);
        if hits.len() != bytes {
            return Err(format!("{} bytes of hits, {} accesses need {bytes}", hits.len(), operations.len()));
        }
        let hits: Vec<bool> =
            (0..operations.len()).map(|access| hits[access / 8] >> (access % 8) & 1 != 0).collect();
        let stays: Vec<u32> = stays(operations, &hits).map(|(access, _)| access).collect();
        let mut decoded = Vec::new();
        let (mut expected, mut value, mut shift) = (0i64, 0u64, 0);
        for &byte in evictions {
            if shift > 56 {
                return Err(format!("eviction {} has too many digits", decoded.len()));
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 != 0 {
                continue;
            }
            let number = expected + ((value >> 1) as i64 ^ -((value & 1) as i64));
            let stay = usize::try_from(number).ok().and_then(|number| stays.get(number));
            let stay = stay.ok_or_else(|| {
                format!("eviction {}: stay {number}, there are {}", decoded.len(), stays.len())
            })?;
            decoded.push(*stay);
            (expected, value, shift) = (number + 1, 0, 0);
        }
        let mut ended = decoded.clone();
        ended.sort_unstable();
        if shift != 0 {
            return Err("the last eviction is cut off".into());
        }
        match ended.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(format!("the stay from access {} on ends twice", twice[0])),
            None => Ok(Residency { hits, evictions: decoded }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The accesses of the picture above, with one to anonymous memory.
    fn operations() -> Vec<Operation> {
        let mut operations: Vec<Operation> = [0, 1, 0, 2, 3, 1, 0].map(Operation::Read).to_vec();
        operations.push(Operation::AnonStore(1));
        operations
    }

    const HITS: [bool; 8] = [false, false, true, false, false, false, true, false];

    #[test]
    fn evictions_are_known_by_their_stay() {
        let residency = Residency::new(&operations(), HITS.to_vec(), &[1, 2, 1]).unwrap();
        assert_eq!(residency.evictions, [1, 3, 5]);
        assert_eq!(residency.misses(&operations()), [5, 1]);
        let error = |evicted: &[u32]| Residency::new(&operations(), HITS.to_vec(), evicted).unwrap_err();
        assert_eq!(error(&[2, 2]), "page 2 was evicted more often than it came in");
        assert_eq!(error(&[7]), "page 7 was evicted more often than it came in");
        let short = Residency::new(&operations(), vec![true], &[]).unwrap_err();
        assert_eq!(short, "1 hits or misses for 8 accesses");
    }

    #[test]
    fn files_are_as_described() {
        let residency = Residency { hits: HITS.to_vec(), evictions: vec![1, 3, 0] };
        // Stays 1, 2 and 0: the first two in the order of their beginning, the last three back.
        assert_eq!(residency.encode(&operations()), [vec![0b0100_0100], vec![2, 0, 5]]);
        let decode = |hits: &[u8], evictions: &[u8]| Residency::decode(&operations(), hits, evictions);
        assert_eq!(decode(&[0b0100_0100], &[2, 0, 5]), Ok(residency));
        let error = |evictions: &[u8]| decode(&[0b0100_0100], evictions).unwrap_err();
        assert_eq!(error(&[2, 40]), "eviction 1: stay 22, there are 5");
        assert_eq!(error(&[2, 1]), "the stay from access 1 on ends twice");
        assert_eq!(error(&[0x80]), "the last eviction is cut off");
        assert_eq!(error(&[0xff; 12]), "eviction 0 has too many digits");
        assert_eq!(decode(&[], &[]).unwrap_err(), "0 bytes of hits, 8 accesses need 1");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(order in Just((0..60u32).collect::<Vec<_>>()).prop_shuffle(), gone in 0..60usize) {
            let operations: Vec<Operation> = (0..60).map(Operation::Read).collect();
            let residency = Residency { hits: vec![false; 60], evictions: order[..gone].to_vec() };
            let [hits, evictions] = residency.encode(&operations);
            prop_assert_eq!(Residency::decode(&operations, &hits, &evictions), Ok(residency));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Residency::decode(&operations(), &[0b0100_0100], &bytes);
        }
    }
}
