//! The pages of a column, decompressed within bounds, with texts replaced by numbers.
//!
//! ```text
//!   in the file                        what the Parquet crate decodes
//!   a page packed with zstd       ──►  decompressed, if the result fits in the size that the column claims
//!   dictionary  "alloc" "free"    ──►  dictionary  0 1  ┐
//!   keys        0 1 1 0           ──►  the same         ├ texts  "alloc" "free" "{...}"
//!   plain       "{...}"           ──►  plain       2    ┘
//! ```
//!
//! The Parquet crate trusts page headers: a few wrong bytes make it allocate gigabytes. It is therefore told
//! that pages are not compressed and returns them as they are. They are decompressed here, into no more
//! memory than the column has left; a dictionary may have no more entries than its bytes have room for, and a
//! column no more texts than rows.
//!
//! The crate would return each text as a counted reference to its bytes. Numbers take an eighth of that
//! memory, and a reader looks up each distinct text once instead of once per row.

use std::str;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use parquet::basic::{CompressionCodec, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use zstd::bulk::Decompressor;

use super::input::Input;

/// The distinct texts in the pages of a column read so far.
#[derive(Clone)]
pub(super) struct PageTexts {
    texts: Arc<Mutex<Vec<Bytes>>>,
    most: usize,
}

impl PageTexts {
    /// No texts yet; at most `most` will be accepted.
    pub fn new(most: usize) -> PageTexts {
        PageTexts { texts: Arc::default(), most }
    }

    pub fn so_far(&self) -> Vec<Bytes> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the texts of `plain`, each preceded by its length. Returns their numbers, encoded as Parquet
    /// encodes numbers.
    fn add(&self, mut plain: Bytes) -> Result<Bytes> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut numbers = Vec::new();
        while !plain.is_empty() {
            let length = plain.try_get_u32_le().map_err(|_| cut_short())? as usize;
            if length > plain.len() {
                return Err(cut_short());
            }
            if texts.len() == self.most {
                return Err(ParquetError::General(format!("more texts than {} rows", self.most)));
            }
            let text = plain.split_to(length);
            str::from_utf8(&text).map_err(|error| ParquetError::General(error.to_string()))?;
            numbers.extend_from_slice(&(texts.len() as u32).to_le_bytes());
            texts.push(text);
        }
        Ok(numbers.into())
    }
}

fn cut_short() -> ParquetError {
    ParquetError::EOF("a page ends within a value".into())
}

/// The pages of a column chunk.
pub(super) struct Pages<R: ChunkReader> {
    pages: SerializedPageReader<Input<R>>,
    /// `None` if pages are not compressed.
    unpacker: Option<Decompressor<'static>>,
    /// Bytes that pages may still decompress to.
    room: usize,
    /// Only for columns of texts.
    texts: Option<PageTexts>,
    /// Whether pages contain definition levels, which say which rows have values.
    has_levels: bool,
}

impl<R: ChunkReader> Pages<R> {
    /// Reads the pages of a row group's `column`, which has this many `rows`.
    pub fn new(
        input: Arc<Input<R>>,
        column: &ColumnChunkMetaData,
        rows: usize,
        texts: Option<PageTexts>,
    ) -> Result<Pages<R>> {
        let unpacker = match column.compression_codec() {
            CompressionCodec::UNCOMPRESSED => None,
            CompressionCodec::ZSTD => Some(Decompressor::new()?),
            other => {
                return Err(ParquetError::NYI(format!("compressed with {other}, which is not supported")));
            }
        };
        let unpacked =
            column.clone().into_builder().set_compression_codec(CompressionCodec::UNCOMPRESSED).build()?;
        Ok(Pages {
            pages: SerializedPageReader::new(input, &unpacked, rows, None)?,
            unpacker,
            room: usize::try_from(column.uncompressed_size())?,
            texts,
            has_levels: column.column_descr().max_def_level() > 0,
        })
    }

    fn unpack(&mut self, page: &mut Page) -> Result<()> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(()) };
        let levels = match page {
            Page::DataPageV2 { is_compressed: false, .. } => return Ok(()),
            ref page => levels_before(page),
        };
        let bytes = bytes_of(page);
        let (levels, packed) = bytes.split_at_checked(levels).ok_or_else(cut_short)?;
        let values = if packed.is_empty() { Vec::new() } else { unpacker.decompress(packed, self.room)? };
        self.room -= values.len();
        *bytes = if levels.is_empty() { values.into() } else { [levels, &values].concat().into() };
        Ok(())
    }

    /// Replaces the texts in a page by their numbers.
    fn number(&self, page: &mut Page, texts: &PageTexts) -> Result<()> {
        let levels = match page {
            Page::DictionaryPage { buf, num_values, .. } => {
                *buf = texts.add(buf.clone())?;
                *num_values = u32::try_from(buf.len() / size_of::<u32>())?;
                return Ok(());
            }
            page if matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY) => {
                return Ok(());
            }
            page if page.encoding() != Encoding::PLAIN => {
                return Err(ParquetError::NYI(format!(
                    "texts are encoded as {}, which is not supported",
                    page.encoding()
                )));
            }
            Page::DataPage { buf, .. } if self.has_levels => {
                let length = buf.first_chunk().ok_or_else(cut_short)?;
                size_of::<u32>() + u32::from_le_bytes(*length) as usize
            }
            ref page => levels_before(page),
        };
        let bytes = bytes_of(page);
        if levels > bytes.len() {
            return Err(cut_short());
        }
        let plain = bytes.split_off(levels);
        *bytes = [&bytes[..], &texts.add(plain)?].concat().into();
        Ok(())
    }
}

/// Refuses a dictionary of numbers with more entries than its bytes have room for.
fn check_dictionary(page: &Page) -> Result<()> {
    let (entries, bytes) = (page.num_values() as usize, page.buffer().len());
    if page.is_dictionary_page() && entries > bytes / size_of::<i32>() {
        return Err(ParquetError::General(format!("a dictionary of {entries} numbers in {bytes} bytes")));
    }
    Ok(())
}

/// Number of bytes before the compressed part of a page; version 2 pages store levels uncompressed.
fn levels_before(page: &Page) -> usize {
    match page {
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            *def_levels_byte_len as usize + *rep_levels_byte_len as usize
        }
        _ => 0,
    }
}

fn bytes_of(page: &mut Page) -> &mut Bytes {
    match page {
        Page::DataPage { buf, .. } | Page::DataPageV2 { buf, .. } | Page::DictionaryPage { buf, .. } => buf,
    }
}

impl<R: ChunkReader> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.pages.get_next_page()? else { return Ok(None) };
        self.unpack(&mut page)?;
        match &self.texts {
            Some(texts) => self.number(&mut page, texts)?,
            None => check_dictionary(&page)?,
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl<R: ChunkReader> Iterator for Pages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Field, Rows, TableWriter, Type, Values};
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::metadata::ParquetMetaDataReader;
    use parquet::file::properties::WriterProperties;

    /// The first page of a column of `zeroes` zeroes whose footer claims `unpacked` decompressed bytes.
    fn first_page(zeroes: usize, unpacked: i64) -> Result<Page> {
        let fields = [Field::new("zero", Type::U32).distinct()];
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_data_page_row_count_limit(usize::MAX);
        let mut writer = TableWriter::new(Vec::new(), &fields, properties)?;
        writer.write(&[&Rows::new([Values::U32(vec![0; zeroes])])])?;
        let file = Bytes::from(writer.finish([])?);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file)?;
        let column = metadata.row_group(0).column(0).clone().into_builder();
        let column = column.set_total_uncompressed_size(unpacked).build()?;
        Pages::new(Arc::new(Input(file)), &column, zeroes, None)?.get_next_page().map(Option::unwrap)
    }

    #[test]
    fn pages_unpack_to_no_more_than_their_column_claims() {
        assert_eq!(first_page(1000, 4000).unwrap().buffer(), &vec![0; 4000]);
        let error = first_page(1000, 3999).unwrap_err().to_string();
        assert!(error.contains("4000 bytes needed, 3999 given"), "{error}");
        assert!(first_page(1000, -1).is_err());
    }

    #[test]
    fn dictionaries_have_no_more_entries_than_room() {
        let dictionary = |num_values| {
            let (buf, encoding) = (vec![0; 8].into(), Encoding::PLAIN);
            check_dictionary(&Page::DictionaryPage { buf, num_values, encoding, is_sorted: false })
        };
        assert!(dictionary(2).is_ok());
        assert!(dictionary(1 << 31).is_err());
    }

    #[test]
    fn texts_that_are_cut_or_not_utf_8_are_refused() {
        let texts = PageTexts::new(2);
        assert_eq!(
            texts.add(Bytes::from_static(b"\x01\0\0\0a\0\0\0\0")).unwrap(),
            &b"\0\0\0\0\x01\0\0\0"[..]
        );
        assert_eq!(texts.so_far(), ["a", ""]);
        assert!(texts.add(Bytes::from_static(b"\x01\0\0\0b")).is_err(), "a third one");
        let texts = PageTexts::new(2);
        for wrong in [&b"\x01\0\0"[..], b"\x02\0\0\0a", b"\xff\xff\xff\xffa", b"\x01\0\0\0\xff"] {
            assert!(texts.add(Bytes::from_static(wrong)).is_err());
        }
    }
}
