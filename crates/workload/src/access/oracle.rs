//! libCacheSim's `oracleGeneral`: little-endian records of 24 bytes, without header or footer.
//!
//! ```text
//!   byte  0       4               12      16              24
//!         ├───────┼───────────────┼───────┼───────────────┤
//!         │ time  │ object        │ size  │ next access   │
//!         │ u32 s │ u64           │ u32 B │ i64 record    │  -1 or i64::MAX: never
//! ```
//!
//! The layout is that of libCacheSim's `traceReader/customizedReader/oracle/oracleGeneralBin.h` (version
//! 0.3). The field "next access" is the number of the record that accesses the same object next; offline
//! policies need it. It is not part of an [`Access`], but helps to detect the format, as it is never below
//! -2. Records are numbered from 1, so a next access above the number of records shows that the trace is a
//! part of a longer one.

use super::{Access, AccessError, BLOCK, Decode, Input, PAGE_SIZE};

const RECORD: usize = 24;
const SECOND: u64 = 1_000_000_000;

pub(super) struct OracleGeneral {
    input: Input,
    block: Vec<u8>,
    offset: u64,
    /// The largest "next access" so far.
    last: i64,
}

impl OracleGeneral {
    pub fn new(input: Input) -> OracleGeneral {
        OracleGeneral { input, block: vec![0; BLOCK * RECORD], offset: 0, last: 0 }
    }
}

impl Decode for OracleGeneral {
    fn decode(&mut self, out: &mut Vec<Access>) -> Result<(), AccessError> {
        // All records of a block may have size 0.
        while out.is_empty() {
            let (filled, failed) = self.input.read_block(&mut self.block);
            if filled == 0 && failed.is_none() {
                return Ok(());
            }
            let (records, rest) = self.block[..filled].as_chunks::<RECORD>();
            let mut lowest = 0;
            for record in records.iter().map(Record::from) {
                lowest = lowest.min(record.next);
                if record.next != NEVER {
                    self.last = self.last.max(record.next);
                }
                if record.size != 0 {
                    out.push(record.access());
                }
            }
            let wrong = |at: usize, problem: String| AccessError::Record {
                file: self.input.file.clone(),
                offset: self.offset + (at * RECORD) as u64,
                problem,
            };
            if lowest < LOWEST_NEXT {
                let at =
                    records.iter().position(|record| Record::from(record).next < LOWEST_NEXT).unwrap_or(0);
                out.clear();
                out.extend(
                    records[..at]
                        .iter()
                        .map(Record::from)
                        .filter(|record| record.size != 0)
                        .map(|record| record.access()),
                );
                let next = Record::from(&records[at]).next;
                let problem = format!(
                    "next access {next}, which must be the number of a record, or -1 for none: these are not \
                     records of oracleGeneral"
                );
                return Err(wrong(at, problem));
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if !rest.is_empty() {
                let problem = format!(
                    "the last record has {} bytes instead of {RECORD}: the trace is cut short; copy it again",
                    rest.len()
                );
                return Err(wrong(records.len(), problem));
            }
            self.offset += filled as u64;
        }
        Ok(())
    }

    fn beyond_end(&self) -> Option<u64> {
        let last = self.last as u64;
        (last > self.offset / RECORD as u64).then_some(last)
    }
}

/// The lowest "next access" that libCacheSim writes; -2 means "not computed".
const LOWEST_NEXT: i64 = -2;

/// "No next access" as some writers encode it; others write -1.
const NEVER: i64 = i64::MAX;

struct Record {
    time: u32,
    object: u64,
    size: u32,
    next: i64,
}

impl From<&[u8; RECORD]> for Record {
    #[inline]
    fn from(bytes: &[u8; RECORD]) -> Record {
        fn field<const N: usize>(bytes: &[u8; RECORD], at: usize) -> [u8; N] {
            std::array::from_fn(|index| bytes[at + index])
        }
        Record {
            time: u32::from_le_bytes(field(bytes, 0)),
            object: u64::from_le_bytes(field(bytes, 4)),
            size: u32::from_le_bytes(field(bytes, 12)),
            next: i64::from_le_bytes(field(bytes, 16)),
        }
    }
}

impl Record {
    #[inline]
    fn access(&self) -> Access {
        Access {
            time_ns: u64::from(self.time) * SECOND,
            object: self.object,
            index: 0,
            pages: self.size.div_ceil(PAGE_SIZE as u32),
            write: false,
        }
    }
}

/// Checks that the first bytes of a trace can be records: times do not fall, and each "next access" is a
/// later record or none. The error says why they cannot.
pub(super) fn check(head: &[u8]) -> Result<(), String> {
    let (records, rest) = head.as_chunks::<RECORD>();
    if records.is_empty() {
        return Err(format!("{} bytes are less than a record of {RECORD}", rest.len()));
    }
    let mut before = 0;
    for (at, Record { time, next, .. }) in records.iter().map(Record::from).enumerate() {
        let offset = at * RECORD;
        if next != -1 && next <= at as i64 {
            return Err(format!(
                "at byte {offset}: next access {next}, which must be a record after {at}, or -1 for none"
            ));
        }
        if time < before {
            return Err(format!("at byte {offset}: time {time}, which must not be before {before}"));
        }
        before = time;
    }
    Ok(())
}
