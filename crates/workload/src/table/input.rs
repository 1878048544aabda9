//! A file that says so when there is nothing more to read.
//!
//! Where the header of a page has a list, the Parquet crate passes over as many elements as it claims, also where the file ended
//! long before: reading nothing is no error to it, and two billion times nothing take minutes.

use std::io::{self, Read};

use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

/// A file whose end is an error.
pub(super) struct Input<R>(pub R);

/// What is read of it from some place on.
pub(super) struct UntilEnd<R>(R);

impl<R: Length> Length for Input<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Input<R> {
    type T = UntilEnd<R::T>;

    fn get_read(&self, start: u64) -> Result<UntilEnd<R::T>> {
        Ok(UntilEnd(self.0.get_read(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

impl<R: Read> Read for UntilEnd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_an_error() {
        let input = Input(Bytes::from_static(b"abc"));
        assert_eq!((input.len(), input.get_bytes(1, 2).unwrap()), (3, Bytes::from_static(b"bc")));
        let mut rest = input.get_read(1).unwrap();
        let mut two = [0; 2];
        rest.read_exact(&mut two).unwrap();
        assert_eq!(rest.read(&mut []).unwrap(), 0);
        assert_eq!(rest.read(&mut two).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
