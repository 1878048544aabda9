//! A file whose page headers are checked before the Parquet crate parses them.
//!
//! ```text
//!   header   Thrift, compact: (field and type) value, (field and type) value, ... 0
//!            numbers, texts, booleans and structs of them: accepted
//!            lists, sets and maps: Parquet has none in headers, so they are refused
//!            a field that Parquet knows, with a wrong type: refused
//! ```
//!
//! The Parquet crate skips as many elements of a list as the header claims, even elements of no bytes and
//! lists of lists: skipping two billion empty elements takes minutes. It also reads fields that it knows as
//! the type that they should have, whatever type the header gives, so a field of a wrong type could make it
//! parse as a list what was skipped here as something else. And it does not treat an empty read at the end of
//! the file as an error; this module does, and also refuses reads beyond the header.

use std::io::{self, Read};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Most levels of nested structs in a header; Parquet uses three.
const MOST_DEPTH: u32 = 8;

/// A file; page headers are read from it byte by byte, everything else as whole buffers.
pub(super) struct Input<R>(pub R);

/// Fields of a struct that the Parquet crate knows, by field number; it skips others by their types.
type Fields = &'static [(u64, Type)];

/// Type of a known field.
#[derive(Clone, Copy)]
enum Type {
    Number,
    Boolean,
    Struct(Fields),
}

/// `PageHeader` of Parquet's parquet.thrift and the structs in it. Statistics are skipped.
const PAGE_HEADER: Fields = {
    use Type::{Boolean, Number, Struct};
    const DATA_PAGE: Fields = &[(1, Number), (2, Number), (3, Number), (4, Number), (5, Struct(&[]))];
    const DICTIONARY_PAGE: Fields = &[(1, Number), (2, Number), (3, Boolean)];
    const DATA_PAGE_V2: Fields = &[
        (1, Number),
        (2, Number),
        (3, Number),
        (4, Number),
        (5, Number),
        (6, Number),
        (7, Boolean),
        (8, Struct(&[])),
    ];
    &[
        (1, Number),
        (2, Number),
        (3, Number),
        (4, Number),
        (5, Struct(DATA_PAGE)),
        (6, Struct(&[])),
        (7, Struct(DICTIONARY_PAGE)),
        (8, Struct(DATA_PAGE_V2)),
    ]
};

/// A header that is checked as a whole before its first byte is passed on; reads beyond it are errors.
pub(super) struct Header<R> {
    /// The checked bytes and how many of them have been passed on; `None` before the first read.
    seen: Option<io::Cursor<Vec<u8>>>,
    rest: R,
}

impl<R: Length> Length for Input<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Input<R> {
    type T = Header<R::T>;

    fn get_read(&self, start: u64) -> Result<Header<R::T>> {
        Ok(Header { seen: None, rest: self.0.get_read(start)? })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

impl<R: Read> Read for Header<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let seen = match &mut self.seen {
            Some(seen) => seen,
            none => {
                let mut noted = Noted { input: &mut self.rest, bytes: Vec::new() };
                skip_struct(&mut noted, PAGE_HEADER, MOST_DEPTH).map_err(io::Error::other)?;
                none.insert(io::Cursor::new(noted.bytes))
            }
        };
        let read = seen.read(buffer)?;
        if read == 0 && !buffer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
    }
}

/// A reader that keeps a copy of what it reads.
struct Noted<'a, R> {
    input: &'a mut R,
    bytes: Vec<u8>,
}

impl<R: Read> Read for Noted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

fn byte(input: &mut impl Read) -> Result<u8> {
    let mut byte = [0];
    input.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn varint(input: &mut impl Read) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(input)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ParquetError::General("the header of a page has a number of more than 64 bits".into()))
}

fn skip_bytes(input: &mut impl Read, bytes: u64) -> Result<()> {
    let skipped = io::copy(&mut input.take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(ParquetError::EOF("the header of a page is cut short".into())) }
}

/// Skips a struct with these known fields, which may contain at most `depth` more levels of structs.
fn skip_struct(input: &mut impl Read, fields: Fields, depth: u32) -> Result<()> {
    let refuse = |what: String| Err(ParquetError::General(format!("the header of a page has {what}")));
    if depth == 0 {
        return refuse("structs nested too deeply".into());
    }
    let mut id = 0_u64;
    loop {
        let field = byte(input)?;
        if field == 0 {
            return Ok(());
        }
        id = match u64::from(field >> 4) {
            // Zigzag encoding, as all numbers; Parquet has no negative field numbers.
            0 => varint(input)? / 2,
            step => id.saturating_add(step),
        };
        let known = fields.iter().find(|(known, _)| *known == id).map(|&(_, known)| known);
        match (field & 15, known) {
            // Booleans: true and false.
            (1 | 2, None | Some(Type::Boolean)) => {}
            (5, None | Some(Type::Number)) => _ = varint(input)?,
            (12, None) => skip_struct(input, &[], depth - 1)?,
            (12, Some(Type::Struct(fields))) => skip_struct(input, fields, depth - 1)?,
            (_, Some(_)) => return refuse(format!("field {id} with a type other than Parquet's")),
            (3, None) => skip_bytes(input, 1)?,
            (4 | 6, None) => _ = varint(input)?,
            (7, None) => skip_bytes(input, 8)?,
            (8, None) => {
                let length = varint(input)?;
                skip_bytes(input, length)?;
            }
            (other, None) => return refuse(format!("a list, or an unknown type ({other})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_no_lists() {
        let header = |bytes: &'static [u8]| {
            let mut read = Input(Bytes::from_static(bytes)).get_read(0).unwrap();
            read.read_exact(&mut vec![0; bytes.len()]).map(|()| read)
        };
        // Field 1 is a number. Fields 9 to 13 are unknown to Parquet: a text of two bytes, true, a struct
        // with a byte, a double.
        let read = header(b"\x15\x80\x01\x88\x02ab\x11\x1c\x13\x07\x00\x17\0\0\0\0\0\0\0\0\x00");
        let end = read.unwrap().read(&mut [0]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        let error = |bytes: &'static [u8]| header(bytes).map(|_| ()).unwrap_err().to_string();
        assert!(error(b"\xf9\xf1\xff\xff\xff\xff\x07\x00").contains("has a list"));
        assert!(error(b"\xfb\x01\x11\x00").contains("has a list"));
        assert!(error(&[0x9c; 100]).contains("structs nested too deeply"));
        assert!(error(b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00").contains("64 bits"));
        // A text instead of a number, a boolean in a data page, and a read beyond the header.
        assert!(error(b"\x18\x02\x19\xf1\x00").contains("field 1 with a type other"));
        assert!(error(b"\x5c\x11\x00\x00").contains("field 1 with a type other"));
        let mut read = Input(Bytes::from_static(b"\x15\x02\x00\x19\xf1")).get_read(0).unwrap();
        assert_eq!(io::copy(&mut read, &mut io::sink()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for cut in [&b"\x15"[..], b"\x88\x05ab", b"\x9c\x13\x07"] {
            assert!(header(cut).is_err());
        }
    }
}
