//! The sub-buffers of the ring buffer, as read from `trace_pipe_raw`.
//!
//! ```text
//!   +-----------+----------------+--------------------------------------------+---------+
//!   | time (ns) | commit         | entry | entry | ...                        | unused  |
//!   +-----------+----------------+--------------------------------------------+---------+
//!                 bits 0-26 bytes of entries       bit 31: events were lost before this sub-buffer,
//!                                                  bit 30: their number follows the entries
//!   entry: 5 bits type and length, 27 bits time delta to the previous entry, then depending on the type
//!     1..28  a record of 4 x type bytes              29  padding (to the end if the time delta is 0)
//!     0      a record, its length in the next word   30  time extend: 27 low bits + next word
//!                                                    31  absolute time stamp: 59 bits
//! ```
//!
//! Little-endian machines only. The offsets of the time stamp and of `commit` are read from
//! `events/header_page`, because the kernel may be 32-bit. In the kernel: `kernel/trace/ring_buffer.c`
//! (6.18).

use std::ops::Range;

use super::Field;

const LENGTH_MASK: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// An absolute time stamp has 59 bits; the highest five are those of the previous time stamp.
const STORED_TIME_BITS: u32 = 59;

/// The bytes are not a valid sub-buffer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RingBufferError {
    /// `header_page` cannot be parsed.
    #[error("events/header_page: {0}")]
    Header(String),
    /// The header or an entry extends past the end of the sub-buffer.
    #[error("the sub-buffer is damaged at byte {0}")]
    Damaged(usize),
}

/// The layout of a sub-buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubBufferLayout {
    time: Field,
    commit: Field,
    data: usize,
    /// Size of a sub-buffer in bytes.
    pub size: usize,
}

/// A cursor over the records of one sub-buffer.
#[derive(Debug)]
pub struct SubBuffer<'a> {
    bytes: &'a [u8],
    position: usize,
    end: usize,
    time: u64,
    /// Number of events lost before the first one in this sub-buffer; at least 1 if events were lost and the
    /// kernel did not store how many.
    pub missed: u64,
}

impl SubBufferLayout {
    /// Parses the text of `events/header_page`.
    pub fn parse(text: &str) -> Result<SubBufferLayout, RingBufferError> {
        let (mut time, mut commit, mut data) = (None, None, None);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, field) = Field::parse(line).map_err(RingBufferError::Header)?;
            match name.as_str() {
                "timestamp" => time = Some(field),
                "commit" => commit = Some(field),
                "data" => data = Some(field),
                _ => {}
            }
        }
        let missing = |name: &str| RingBufferError::Header(format!("no field `{name}`"));
        let time = time.ok_or_else(|| missing("timestamp"))?;
        let commit = commit.ok_or_else(|| missing("commit"))?;
        let data = data.ok_or_else(|| missing("data"))?;
        let size = data.offset.saturating_add(data.size);
        if data.size == 0 || size > 1 << 24 {
            return Err(RingBufferError::Header(format!("a sub-buffer of {size} bytes")));
        }
        Ok(SubBufferLayout { time, commit, data: data.offset, size })
    }

    /// Parses the header of the sub-buffer in `bytes`.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<SubBuffer<'a>, RingBufferError> {
        let time = self.time.number(bytes).ok_or(RingBufferError::Damaged(self.time.offset))?;
        let commit = self.commit.number(bytes).ok_or(RingBufferError::Damaged(self.commit.offset))?;
        let end = self.data + (commit & LENGTH_MASK) as usize;
        if end > bytes.len() {
            return Err(RingBufferError::Damaged(self.commit.offset));
        }
        let stored = Field { offset: end, size: self.commit.size, signed: false, dynamic: false };
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => stored.number(bytes).map_or(1, |count| count.max(1)),
        };
        Ok(SubBuffer { bytes, position: self.data, end, time, missed })
    }
}

impl<'a> SubBuffer<'a> {
    /// Byte ranges of the records.
    pub fn places(mut self) -> impl Iterator<Item = Result<Range<usize>, RingBufferError>> {
        std::iter::from_fn(move || self.next_place().map(|place| place.map(|(_, place)| place)).transpose())
    }

    /// The time stamp of the next record, in nanoseconds of the trace clock, and its byte range.
    fn next_place(&mut self) -> Result<Option<(u64, Range<usize>)>, RingBufferError> {
        let place = self.find_place();
        if place.is_err() {
            self.position = self.end;
        }
        place
    }

    fn find_place(&mut self) -> Result<Option<(u64, Range<usize>)>, RingBufferError> {
        while self.position < self.end {
            let header = self.word()?;
            let (kind, delta) = (header & 31, u64::from(header >> 5));
            match kind {
                29 if delta == 0 => self.position = self.end,
                29 => {
                    self.time = self.time.wrapping_add(delta);
                    // The length includes its own word.
                    let length = self.word()?;
                    self.take((length as usize).saturating_sub(4))?;
                }
                30 => {
                    let high = u64::from(self.word()?);
                    self.time = self.time.wrapping_add(delta | high << 27);
                }
                31 => {
                    let stored = delta | u64::from(self.word()?) << 27;
                    let high = self.time >> STORED_TIME_BITS << STORED_TIME_BITS;
                    self.time = high | stored & ((1 << STORED_TIME_BITS) - 1);
                }
                _ => {
                    self.time = self.time.wrapping_add(delta);
                    let length = match kind {
                        0 => (self.word()? as usize).saturating_sub(4),
                        words => words as usize * 4,
                    };
                    return Ok(Some((self.time, self.take(length)?)));
                }
            }
        }
        Ok(None)
    }

    fn word(&mut self) -> Result<u32, RingBufferError> {
        let at = self.position;
        let place = self.take(4)?;
        self.bytes[place].try_into().map(u32::from_le_bytes).map_err(|_| RingBufferError::Damaged(at))
    }

    fn take(&mut self, length: usize) -> Result<Range<usize>, RingBufferError> {
        let damaged = RingBufferError::Damaged(self.position);
        // Entries are aligned to words.
        let next = self.position.checked_add(length.next_multiple_of(4)).filter(|next| *next <= self.end);
        let next = next.ok_or(damaged)?;
        let place = self.position..self.position + length;
        self.position = next;
        Ok(place)
    }
}

impl<'a> Iterator for SubBuffer<'a> {
    type Item = Result<(u64, &'a [u8]), RingBufferError>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.next_place().transpose()?;
        Some(place.map(|(time, place)| (time, &self.bytes[place])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn sub_buffer(time: u64, commit_flags: u64, words: &[u32], after: &[u8]) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend(((words.len() as u64 * 4) | commit_flags).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(after);
        bytes.resize(4096, 0);
        bytes
    }

    fn entry(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn every_kind_of_entry() {
        let layout = SubBufferLayout::parse(HEADER).unwrap();
        assert_eq!(layout.size, 4096);
        let words = [
            entry(1, 10),
            0xaa, // a record of 4 bytes
            entry(30, 5),
            1, // time passes: 5 + 2^27
            entry(0, 1),
            12,
            0xbb,
            0xcc, // a record of 8 bytes, length in front
            entry(29, 7),
            8,
            0, // a discarded record
            entry(31, 3),
            2, // time as such: 3 + 2^28
            entry(2, 0),
            0xdd,
            0xee, // a record of 8 bytes
            entry(29, 0),
            0x77, // padding to the end
        ];
        let time = 1 << 60 | 1 << 29;
        let bytes = sub_buffer(time, 0, &words, &[]);
        let sub_buffer = layout.open(&bytes).unwrap();
        assert_eq!(sub_buffer.missed, 0);
        let records: Vec<_> =
            sub_buffer.map(|record| record.map(|(t, r)| (t, r.len(), r[0])).unwrap()).collect();
        let long = time + 10 + 5 + (1 << 27) + 1;
        assert_eq!(records, [(time + 10, 4, 0xaa), (long, 8, 0xbb), (1 << 60 | 3 | 2 << 27, 8, 0xdd)]);
    }

    #[test]
    fn lost_events_are_seen() {
        let layout = SubBufferLayout::parse(HEADER).unwrap();
        let words = [entry(1, 10), 0xaa];
        let missed = |flags, after: &[u8]| layout.open(&sub_buffer(0, flags, &words, after)).unwrap().missed;
        assert_eq!(missed(MISSED, &[]), 1);
        assert_eq!(missed(MISSED | MISSED_STORED, &1234u64.to_le_bytes()), 1234);
    }

    #[test]
    fn damage_is_an_error() {
        let layout = SubBufferLayout::parse(HEADER).unwrap();
        assert_eq!(layout.open(&[0; 12]).unwrap_err(), RingBufferError::Damaged(8));
        let long = sub_buffer(0, 5000, &[], &[]);
        assert_eq!(layout.open(&long).unwrap_err(), RingBufferError::Damaged(8));
        let bytes = sub_buffer(0, 0, &[entry(3, 1), 0], &[]);
        let items: Vec<_> = layout.open(&bytes).unwrap().collect();
        assert_eq!(items, [Err(RingBufferError::Damaged(20))]);
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_records_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 16..4096)) {
            bytes[9..16].fill(0);
            let layout = SubBufferLayout::parse(HEADER).unwrap();
            if let Ok(sub_buffer) = layout.open(&bytes) {
                prop_assert!(sub_buffer.count() <= bytes.len() / 4);
            }
        }
    }
}
