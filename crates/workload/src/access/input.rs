//! The bytes of a trace, decompressed, with the position for errors.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use super::AccessError;

/// Bytes read to detect the format.
const HEAD: usize = 1 << 14;
/// Bytes per read from the system.
const CAPACITY: usize = 1 << 17;

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Compressions that are detected but not read: magic bytes, name, and the command that decompresses them.
const PACKED: [(&[u8], &str, &str); 3] =
    [(b"\xfd7zXZ\0", "xz", "xz -dk"), (b"\x1f\x8b", "gzip", "gzip -dk"), (b"BZh", "bzip2", "bzip2 -dk")];

/// The bytes of a trace, decompressed if it is compressed with zstd.
pub(super) struct Input {
    /// Name of the trace for errors.
    pub file: String,
    reader: Chain<Cursor<Vec<u8>>, Box<dyn BufRead + Send>>,
    packed: bool,
}

impl Input {
    pub fn new(input: impl Read + Send + 'static, file: String) -> Result<Input, AccessError> {
        let io = |source| AccessError::Io { file: file.clone(), source };
        let mut plain = BufReader::with_capacity(CAPACITY, input);
        let start = head(&mut plain, 6).map_err(io)?;
        if start.is_empty() {
            return Err(AccessError::Empty { file });
        }
        if let Some((_, packing, unpack)) = PACKED.iter().find(|(magic, ..)| start.starts_with(magic)) {
            return Err(AccessError::Packed { file, packing, unpack });
        }
        let packed = start.starts_with(ZSTD);
        let plain = Cursor::new(start).chain(plain);
        let mut reader: Box<dyn BufRead + Send> = if packed {
            Box::new(BufReader::with_capacity(
                CAPACITY,
                zstd::stream::read::Decoder::with_buffer(plain).map_err(io)?,
            ))
        } else {
            Box::new(plain)
        };
        let mut start = Vec::new();
        if let Err(error) = reader.by_ref().take(HEAD as u64).read_to_end(&mut start) {
            // The error is returned after the bytes that were read before it.
            reader = Box::new(BufReader::new(Failed(Some(error))));
        }
        let empty = start.is_empty();
        let mut input = Input { file, reader: Cursor::new(start).chain(reader), packed };
        if empty {
            return Err(match input.reader.fill_buf() {
                Ok(_) => AccessError::Empty { file: input.file },
                Err(error) => input.unreadable(error),
            });
        }
        Ok(input)
    }

    /// The first bytes of the trace; valid until something is read.
    pub fn head(&self) -> &[u8] {
        self.reader.get_ref().0.get_ref()
    }

    /// Fills `block` as far as the input goes. Returns how many bytes were read and the error that stopped it
    /// early, if any.
    pub fn read_block(&mut self, block: &mut [u8]) -> (usize, Option<AccessError>) {
        let mut filled = 0;
        while filled < block.len() {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (filled, Some(self.unreadable(error))),
            }
        }
        (filled, None)
    }

    /// Reads all remaining bytes.
    pub fn read_all(&mut self) -> Result<Vec<u8>, AccessError> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// Reads the next line with its line end into `line`, at most `longest` bytes of it. False at the end of
    /// the input.
    pub fn read_line(&mut self, line: &mut Vec<u8>, longest: usize) -> Result<bool, AccessError> {
        line.clear();
        match self.reader.by_ref().take(longest as u64).read_until(b'\n', line) {
            Ok(read) => Ok(read > 0),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// The error for a failed read.
    pub fn unreadable(&self, source: io::Error) -> AccessError {
        let file = self.file.clone();
        // System errors have an error number; errors without one come from zstd.
        if self.packed && source.raw_os_error().is_none() {
            AccessError::Unpack { file, source }
        } else {
            AccessError::Io { file, source }
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// A reader that returns one error and then ends, standing in for the reader that failed.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The first `length` bytes, or fewer if the input is shorter.
fn head(input: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    input.take(length).read_to_end(&mut head)?;
    Ok(head)
}
