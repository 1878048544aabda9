//! Which pages were resident when, in the kernel or in the twin.
//!
//! ```text
//!   accesses     a  b  a  c  d  b  a          a file page's stay begins with the access that misses it
//!   hits         .  .  x  .  .  .  x          and ends with its eviction
//!   evictions                b     c          = stays that began with accesses 1 and 3
//! ```
//!
//! A stay is identified by its folio and the access that brought it in. So evictions of the kernel can be
//! found among those of the twin, whatever happened to the page before or after. With readahead an access
//! brings in several folios, most of them before they are accessed.
//!
//! In files, hits are one bit per access, lowest bit first. An eviction is the number of its stay among all
//! stays of folios of the file, stored as a zigzag varint of the difference to one more than the previous
//! number.
//!
//! A batch is what is evicted at a time: the evictions between the begin of one stay and that of the next. In
//! files a batch is two varints: how many stays began since the previous batch, and how many ended.

use sim::readahead::FileFolio;
use workload::access::sequences::Operation;

/// The time that a folio of the file is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stay {
    /// Number of the access that brought it in.
    pub access: u32,
    pub folio: FileFolio,
}

/// Evictions between the begin of one stay and that of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch {
    /// Number of stays that had begun.
    pub begun: u32,
    /// Number of folios of the file that were evicted.
    pub evictions: u32,
}

/// Hits, stays and evictions of a sequence of accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Whether the page of each access, or all pages that it requests, was resident just before it.
    pub hits: Vec<bool>,
    /// Stays of folios of the file, in the order in which they began.
    pub stays: Vec<Stay>,
    /// The stays that ended with an eviction, by index, in the order in which they ended.
    pub evictions: Vec<u32>,
    /// The sizes of batches of evictions; `None` if not known.
    pub batches: Option<Vec<Batch>>,
}

/// Groups evictions into batches; `begun` has the number of stays that had begun, for each eviction.
pub fn batches(begun: impl IntoIterator<Item = u32>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for begun in begun {
        match batches.last_mut() {
            Some(batch) if batch.begun == begun => batch.evictions += 1,
            _ => batches.push(Batch { begun, evictions: 1 }),
        }
    }
    batches
}

/// Appends `value` with seven bits per byte, lowest first.
fn push_varint(bytes: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Decodes a whole file of varints; `what` names them in errors.
fn varints(bytes: &[u8], what: &str) -> Result<Vec<u64>, String> {
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0u64, 0);
    for &byte in bytes {
        if shift > 56 {
            return Err(format!("{what} {} has too many digits", numbers.len()));
        }
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            numbers.push(value);
            (value, shift) = (0, 0);
        }
    }
    if shift == 0 { Ok(numbers) } else { Err(format!("the last {what} is cut off")) }
}

/// The page, if it is a page of the file.
fn file_page(operation: Operation) -> Option<u32> {
    match operation {
        Operation::Read(page) | Operation::MapLoad(page) | Operation::Write(page) => Some(page),
        Operation::AnonLoad(_) | Operation::AnonStore(_) => None,
    }
}

/// The stays if each page comes in by itself, when it is missed.
fn stays_of_misses(operations: &[Operation], hits: &[bool]) -> Vec<Stay> {
    let misses = (0u32..).zip(operations.iter().zip(hits)).filter(|(_, (_, hit))| !**hit);
    let stay = |(access, (&operation, _))| {
        Some(Stay { access, folio: FileFolio { index: file_page(operation)?, order: 0 } })
    };
    misses.filter_map(stay).collect()
}

/// The stays of the folios that came in with each access.
pub fn stays_of_folios<'a>(brought: impl IntoIterator<Item = &'a [FileFolio]>) -> Vec<Stay> {
    let with_access = (0u32..).zip(brought);
    with_access.flat_map(|(access, folios)| folios.iter().map(move |&folio| Stay { access, folio })).collect()
}

impl Residency {
    /// From the evicted pages in order: the n-th eviction of a page ends its n-th stay. `None` for the stays
    /// means that each page came in by itself.
    pub fn new(
        operations: &[Operation],
        hits: Vec<bool>,
        stays: Option<Vec<Stay>>,
        evicted: &[u32],
    ) -> Result<Residency, String> {
        if hits.len() != operations.len() {
            return Err(format!("{} hits or misses for {} accesses", hits.len(), operations.len()));
        }
        let stays = stays.unwrap_or_else(|| stays_of_misses(operations, &hits));
        let mut of_page: Vec<Vec<u32>> = Vec::new();
        for (number, stay) in (0u32..).zip(&stays) {
            let pages = stay.folio.pages();
            if of_page.len() < pages.end as usize {
                of_page.resize(pages.end as usize, Vec::new());
            }
            of_page[pages.start as usize..pages.end as usize].iter_mut().for_each(|stays| stays.push(number));
        }
        let mut ended = vec![0; of_page.len()];
        let mut evictions = Vec::new();
        for &page in evicted {
            let of_page = of_page.get(page as usize).zip(ended.get_mut(page as usize));
            let number = of_page.and_then(|(stays, ended)| {
                *ended += 1;
                stays.get(*ended - 1).copied()
            });
            let number =
                number.ok_or_else(|| format!("page {page} was evicted more often than it came in"))?;
            // All pages of a folio are evicted together.
            if stays[number as usize].folio.index == page {
                evictions.push(number);
            }
        }
        Ok(Residency { hits, stays, evictions, batches: None })
    }

    pub fn evicted(&self) -> impl Iterator<Item = Stay> + '_ {
        self.evictions.iter().map(|&number| self.stays[number as usize])
    }

    /// Misses of file pages, and of anonymous pages.
    pub fn misses(&self, operations: &[Operation]) -> [u64; 2] {
        let mut misses = [0; 2];
        for (&operation, &hit) in operations.iter().zip(&self.hits) {
            misses[usize::from(file_page(operation).is_none())] += u64::from(!hit);
        }
        misses
    }

    /// Number of pages that came in.
    pub fn pages_brought(&self) -> u64 {
        self.stays.iter().map(|stay| stay.folio.pages().len() as u64).sum()
    }

    /// The contents of two files: hits and evictions.
    pub fn encode(&self) -> [Vec<u8>; 2] {
        let byte = |eight: &[bool]| eight.iter().rev().fold(0, |byte, &hit| byte << 1 | u8::from(hit));
        let hits = self.hits.chunks(8).map(byte).collect();
        let (mut evictions, mut expected) = (Vec::new(), 0);
        for &number in &self.evictions {
            let difference = i64::from(number) - expected;
            expected = i64::from(number) + 1;
            push_varint(&mut evictions, (difference << 1 ^ difference >> 63) as u64);
        }
        [hits, evictions]
    }

    /// The contents of the file of batches, if they are known.
    pub fn encode_batches(&self) -> Option<Vec<u8>> {
        let (mut bytes, mut begun) = (Vec::new(), 0);
        for batch in self.batches.as_ref()? {
            push_varint(&mut bytes, (batch.begun - begun).into());
            push_varint(&mut bytes, batch.evictions.into());
            begun = batch.begun;
        }
        Some(bytes)
    }

    /// Reverses [`Residency::encode_batches`].
    pub fn decode_batches(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (mut begun, mut evictions, mut batches) = (0u64, 0u64, Vec::new());
        for pair in varints(bytes, "number")?.chunks(2) {
            let &[since, of_batch] = pair else {
                return Err(format!("batch {} has no size", batches.len()));
            };
            begun = begun.saturating_add(since);
            evictions = evictions.saturating_add(of_batch);
            if begun > self.stays.len() as u64 || evictions > self.evictions.len() as u64 {
                return Err(format!(
                    "batch {} is after {begun} stays and {evictions} evictions",
                    batches.len()
                ));
            }
            batches.push(Batch { begun: begun as u32, evictions: of_batch as u32 });
        }
        if evictions != self.evictions.len() as u64 {
            return Err(format!("{evictions} evictions in batches, {} in all", self.evictions.len()));
        }
        self.batches = Some(batches);
        Ok(())
    }

    /// Reverses [`Residency::encode`]; stays as for [`Residency::new`].
    pub fn decode(
        operations: &[Operation],
        stays: Option<Vec<Stay>>,
        hits: &[u8],
        evictions: &[u8],
    ) -> Result<Residency, String> {
        let bytes = operations.len().div_ceil(8);
        if hits.len() != bytes {
            return Err(format!("{} bytes of hits, {} accesses need {bytes}", hits.len(), operations.len()));
        }
        let hits: Vec<bool> =
            (0..operations.len()).map(|access| hits[access / 8] >> (access % 8) & 1 != 0).collect();
        let stays = stays.unwrap_or_else(|| stays_of_misses(operations, &hits));
        let mut decoded = Vec::new();
        let mut expected = 0i64;
        for value in varints(evictions, "eviction")? {
            let number = expected + ((value >> 1) as i64 ^ -((value & 1) as i64));
            let known = u32::try_from(number).ok().filter(|&number| (number as usize) < stays.len());
            decoded.push(known.ok_or_else(|| {
                format!("eviction {}: stay {number}, there are {}", decoded.len(), stays.len())
            })?);
            expected = number + 1;
        }
        let mut ended = decoded.clone();
        ended.sort_unstable();
        match ended.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => {
                let Stay { access, .. } = stays[twice[0] as usize];
                Err(format!("the stay from access {access} on ends twice"))
            }
            None => Ok(Residency { hits, stays, evictions: decoded, batches: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The accesses of the picture above, and one to anonymous memory.
    fn operations() -> Vec<Operation> {
        let mut operations: Vec<Operation> = [0, 1, 0, 2, 3, 1, 0].map(Operation::Read).to_vec();
        operations.push(Operation::AnonStore(1));
        operations
    }

    const HITS: [bool; 8] = [false, false, true, false, false, false, true, false];

    fn residency(evicted: &[u32]) -> Result<Residency, String> {
        Residency::new(&operations(), HITS.to_vec(), None, evicted)
    }

    #[test]
    fn evictions_are_known_by_their_stay() {
        let twice = residency(&[1, 2, 1]).unwrap();
        assert_eq!(twice.evicted().map(|stay| stay.access).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!((twice.misses(&operations()), twice.pages_brought()), ([5, 1], 5));
        let error = |evicted: &[u32]| residency(evicted).unwrap_err();
        assert_eq!(error(&[2, 2]), "page 2 was evicted more often than it came in");
        assert_eq!(error(&[7]), "page 7 was evicted more often than it came in");
        let short = Residency::new(&operations(), vec![true], None, &[]).unwrap_err();
        assert_eq!(short, "1 hits or misses for 8 accesses");
    }

    /// Reads of two pages: the first brings in four pages and a folio of four more, the third the first
    /// again.
    #[test]
    fn a_folio_goes_as_one() {
        let operations = [0, 2, 0].map(Operation::Read);
        let brought = [
            vec![0, 1, 2, 3].into_iter().map(|index| FileFolio { index, order: 0 }).collect::<Vec<_>>(),
            vec![FileFolio { index: 4, order: 2 }],
            vec![FileFolio { index: 0, order: 0 }],
        ];
        let stays = stays_of_folios(brought.iter().map(Vec::as_slice));
        let hits = vec![false, true, false];
        let new = |evicted: &[u32]| Residency::new(&operations, hits.clone(), Some(stays.clone()), evicted);
        let residency = new(&[0, 4, 5, 6, 7, 0]).unwrap();
        assert_eq!((&residency.evictions, residency.pages_brought()), (&vec![0, 4, 5], 9));
        assert_eq!(
            residency.evicted().last(),
            Some(Stay { access: 2, folio: FileFolio { index: 0, order: 0 } })
        );
        let [hits, evictions] = residency.encode();
        assert_eq!(Residency::decode(&operations, Some(stays.clone()), &hits, &evictions), Ok(residency));
        assert_eq!(new(&[0, 0, 0]).unwrap_err(), "page 0 was evicted more often than it came in");
    }

    #[test]
    fn files_are_as_described() {
        let residency = residency(&[1, 2, 0]).unwrap();
        // Stays 1, 2 and 0: the first two in order of their begin, the last one three back.
        assert_eq!(residency.encode(), [vec![0b0100_0100], vec![2, 0, 5]]);
        let decode = |hits: &[u8], evictions: &[u8]| Residency::decode(&operations(), None, hits, evictions);
        assert_eq!(decode(&[0b0100_0100], &[2, 0, 5]), Ok(residency));
        let error = |evictions: &[u8]| decode(&[0b0100_0100], evictions).unwrap_err();
        assert_eq!(error(&[2, 40]), "eviction 1: stay 22, there are 5");
        assert_eq!(error(&[2, 1]), "the stay from access 1 on ends twice");
        assert_eq!(error(&[0x80]), "the last eviction is cut off");
        assert_eq!(error(&[0xff; 12]), "eviction 0 has too many digits");
        assert_eq!(decode(&[], &[]).unwrap_err(), "0 bytes of hits, 8 accesses need 1");
    }

    #[test]
    fn batches_are_evictions_between_two_stays() {
        let mut residency = residency(&[1, 2, 0]).unwrap();
        let found = batches([3, 3, 5]);
        assert_eq!(found, [Batch { begun: 3, evictions: 2 }, Batch { begun: 5, evictions: 1 }]);
        assert_eq!(residency.encode_batches(), None);
        residency.batches = Some(found);
        assert_eq!(residency.encode_batches(), Some(vec![3, 2, 2, 1]));
        let mut error = |bytes: &[u8]| residency.decode_batches(bytes).unwrap_err();
        assert_eq!(error(&[3, 2, 2]), "batch 1 has no size");
        assert_eq!(error(&[3, 2]), "2 evictions in batches, 3 in all");
        assert_eq!(error(&[9, 3]), "batch 0 is after 9 stays and 3 evictions");
        assert_eq!(error(&[3, 0x82]), "the last number is cut off");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            order in Just((0..60u32).collect::<Vec<_>>()).prop_shuffle(),
            gone in 0..60usize,
            mut begun in prop::collection::vec(0..60u32, 60),
        ) {
            let operations: Vec<Operation> = (0..60).map(Operation::Read).collect();
            let mut residency = Residency::new(&operations, vec![false; 60], None, &order[..gone]).unwrap();
            begun.truncate(gone);
            begun.sort_unstable();
            residency.batches = Some(batches(begun));
            let [hits, evictions] = residency.encode();
            let mut decoded = Residency::decode(&operations, None, &hits, &evictions).unwrap();
            decoded.decode_batches(&residency.encode_batches().unwrap()).unwrap();
            prop_assert_eq!(decoded, residency);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Residency::decode(&operations(), None, &[0b0100_0100], &bytes);
            let _ = residency(&[1, 2, 0]).unwrap().decode_batches(&bytes);
        }
    }
}
