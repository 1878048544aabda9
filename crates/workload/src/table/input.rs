//! A file whose page headers are looked at before the Parquet crate believes them.
//!
//! ```text
//!   header   Thrift, compact: (field and type) value, (field and type) value, ... 0
//!            numbers, texts, booleans and structs of them: read
//!            lists, sets and maps: Parquet has none there, so a header with one is refused
//! ```
//!
//! The crate passes over as many elements of a list as its header claims, also of elements that take no bytes, and of lists of
//! lists: two billion times nothing take minutes. Nor is reading nothing an error to it where the file has ended; here it is.

use std::io::{self, Read};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Structs that lie in one another in a header, at most; Parquet has three.
const MOST_DEPTH: u32 = 8;

/// A file, of which the reader of pages reads headers bit by bit, and the rest as a whole.
pub(super) struct Input<R>(pub R);

/// What is read of a header, all of which is looked at before the first byte of it is handed out. The end of the file is an error.
pub(super) struct Header<R> {
    /// What has been looked at, and from where on it has not been handed out; none before.
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
                skip_struct(&mut noted, MOST_DEPTH).map_err(io::Error::other)?;
                none.insert(io::Cursor::new(noted.bytes))
            }
        };
        let read = match seen.read(buffer)? {
            0 => self.rest.read(buffer)?,
            read => read,
        };
        if read == 0 && !buffer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
    }
}

/// Keeps what is read.
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

/// Passes over a struct, in which there are `depth` more at most.
fn skip_struct(input: &mut impl Read, depth: u32) -> Result<()> {
    if depth == 0 {
        return Err(ParquetError::General("the header of a page has structs without end".into()));
    }
    loop {
        let field = byte(input)?;
        if field == 0 {
            return Ok(());
        }
        if field >> 4 == 0 {
            varint(input)?;
        }
        match field & 15 {
            // True, false.
            1 | 2 => {}
            3 => skip_bytes(input, 1)?,
            4..=6 => _ = varint(input)?,
            7 => skip_bytes(input, 8)?,
            8 => {
                let length = varint(input)?;
                skip_bytes(input, length)?;
            }
            12 => skip_struct(input, depth - 1)?,
            other => {
                let what =
                    format!("the header of a page has a list, or what is none of Thrift's types ({other})");
                return Err(ParquetError::General(what));
            }
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
        // A number, a text of two bytes, true, a struct with a byte, a double; then the end.
        let read = header(b"\x15\x80\x01\x18\x02ab\x11\x1c\x13\x07\x00\x17\0\0\0\0\0\0\0\0\x00");
        let end = read.unwrap().read(&mut [0]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        let error = |bytes: &'static [u8]| header(bytes).map(|_| ()).unwrap_err().to_string();
        assert!(error(b"\x19\xf1\xff\xff\xff\xff\x07\x00").contains("has a list"));
        assert!(error(b"\x1b\x01\x11\x00").contains("has a list"));
        assert!(error(&[0x1c; 100]).contains("structs without end"));
        assert!(error(b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00").contains("64 bits"));
        for cut in [&b"\x15"[..], b"\x18\x05ab", b"\x1c\x13\x07"] {
            assert!(header(cut).is_err());
        }
    }
}
