//! A hash of what a Parquet file says, kept in the file, so that a flipped bit is not read as another value.
//!
//! ```text
//!   writer   rows, texts ──► ContentHasher ──► ContentHash, in the file under the key `mmtwin.content_hash`:
//!                                              {"rows":3,"columns":{"time":"9f0c...","cpu":"41aa..."},
//!                                               "texts":{"mmtwin.trace":"77e0..."}}
//!   reader   rows, texts ──► ContentHasher ──► the same, or the file is damaged
//! ```
//!
//! Hashed are values, not the bytes that stand for them: a column has the same hash however its rows are cut into batches
//! and row groups, encoded and packed, and text has the same with and without a dictionary. Name, type, number of rows and
//! places of nulls count. There is one hash a column, so who reads some columns checks these. The texts are those of
//! the file's key-value metadata, each under its key.
//!
//! It is xxHash (XXH3, 128 bits): it finds what disks, copies and memory do to a file, not what a forger does.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use parquet::file::metadata::{FileMetaData, KeyValue};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

/// Key of the hash in a Parquet file's metadata.
pub const CONTENT_HASH_KEY: &str = "mmtwin.content_hash";

/// Why a file's hash cannot be made, or is not that of what was read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContentHashError {
    /// There is no rule for hashing a column of this type.
    #[error("column `{column}` is {found}, which has no content hash")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
    /// A batch lacks a column, or has it with another type than before.
    #[error("column `{0}` is missing or changes its type")]
    Column(String),
    /// The text in the file is no hash.
    #[error("its content hash cannot be read: {0}")]
    Unreadable(String),
    /// Other rows were written.
    #[error("{found} rows were read, {written} were written")]
    Rows {
        /// By the hash.
        written: u64,
        /// In the file.
        found: u64,
    },
    /// There is no hash, although the file's format has one.
    #[error("its content hash is missing")]
    Missing,
    /// Something was written otherwise.
    #[error("{0} is not what was written: its content hash differs")]
    Differs(String),
}

/// What a file says, hashed. See the module's text for what counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentHash {
    rows: u64,
    columns: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
}

impl ContentHash {
    /// For a writer to put into the file.
    pub fn key_value(&self) -> KeyValue {
        let text = serde_json::to_string(self).expect("numbers and texts are JSON");
        KeyValue::new(CONTENT_HASH_KEY.to_string(), text)
    }

    /// The hash that stands in a file, if one does.
    pub fn in_file(metadata: &FileMetaData) -> Result<Option<ContentHash>, ContentHashError> {
        let pairs = metadata.key_value_metadata().into_iter().flatten();
        let Some(pair) = pairs.into_iter().find(|pair| pair.key == CONTENT_HASH_KEY) else { return Ok(None) };
        serde_json::from_str(pair.value.as_deref().unwrap_or_default())
            .map(Some)
            .map_err(|error| ContentHashError::Unreadable(error.to_string()))
    }

    /// One hash for all of it, where many stand in one file.
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).expect("numbers and texts are JSON");
        format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
    }

    /// Compares this hash, the file's, with that of what was `read`: perhaps not all columns and texts, but all rows.
    pub fn check(&self, read: &ContentHash) -> Result<(), ContentHashError> {
        if self.rows != read.rows {
            return Err(ContentHashError::Rows { written: self.rows, found: read.rows });
        }
        match other(&self.columns, &read.columns) {
            Some(column) => Err(ContentHashError::Differs(format!("column `{column}`"))),
            None => self.check_texts(&read.texts),
        }
    }

    fn check_texts(&self, read: &BTreeMap<String, String>) -> Result<(), ContentHashError> {
        match other(&self.texts, read) {
            Some(text) => Err(ContentHashError::Differs(format!("the text `{text}`"))),
            None => Ok(()),
        }
    }
}

/// The first of those that were read which was not written so.
fn other<'a>(written: &BTreeMap<String, String>, read: &'a BTreeMap<String, String>) -> Option<&'a str> {
    read.iter().find(|(name, hash)| written.get(*name) != Some(*hash)).map(|(name, _)| name.as_str())
}

fn hashed<'a>(texts: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let hash = |text: &str| format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()));
    texts.map(|(key, text)| (key.to_string(), hash(text))).collect()
}

/// Holds the rows of a file that are read against the hash that stands there.
pub struct ContentCheck {
    /// Nothing where files have none.
    written: Option<ContentHash>,
    read: ContentHasher,
}

impl ContentCheck {
    /// Of a file with this `metadata`, of which `columns` are read. The texts under `keys` are checked now. With
    /// `required` a file without a hash is refused.
    pub fn begin(
        metadata: &FileMetaData,
        columns: &Schema,
        keys: &[&str],
        required: bool,
    ) -> Result<ContentCheck, ContentHashError> {
        let written = ContentHash::in_file(metadata)?;
        match &written {
            None if required => return Err(ContentHashError::Missing),
            None => {}
            Some(written) => {
                let pairs = metadata.key_value_metadata().into_iter().flatten();
                let texts = pairs.filter(|pair| keys.contains(&pair.key.as_str()));
                written.check_texts(&hashed(
                    texts.filter_map(|pair| Some((&*pair.key, pair.value.as_deref()?))),
                ))?;
            }
        }
        Ok(ContentCheck { written, read: ContentHasher::new(columns)? })
    }

    /// The next rows.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), ContentHashError> {
        if self.written.is_some() { self.read.add(batch) } else { Ok(()) }
    }

    /// All rows were read: whether they are those that were written.
    pub fn finish(&self) -> Result<(), ContentHashError> {
        self.written.as_ref().map_or(Ok(()), |written| written.check(&self.read.finish(&[])))
    }
}

/// Makes a [`ContentHash`] while rows go by.
pub struct ContentHasher {
    rows: u64,
    columns: Vec<Column>,
    /// Bytes of a batch's column, where the batch does not have them in one piece.
    bytes: Vec<u8>,
}

struct Column {
    name: String,
    type_name: &'static str,
    values: XxHash3_128,
    /// The rows without a value.
    nulls: XxHash3_128,
}

impl ContentHasher {
    /// Hashes the columns of `schema`.
    pub fn new(schema: &Schema) -> Result<ContentHasher, ContentHashError> {
        let columns = schema.fields().iter().map(|field| {
            let (name, found) = (field.name().clone(), field.data_type());
            let type_name = type_name(found)
                .ok_or_else(|| ContentHashError::Type { column: name.clone(), found: found.to_string() })?;
            Ok(Column { name, type_name, values: XxHash3_128::new(), nulls: XxHash3_128::new() })
        });
        Ok(ContentHasher { rows: 0, columns: columns.collect::<Result<_, _>>()?, bytes: Vec::new() })
    }

    /// The next rows. Columns that the schema does not have do not count.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), ContentHashError> {
        for column in &mut self.columns {
            let array = batch
                .column_by_name(&column.name)
                .filter(|array| type_name(array.data_type()) == Some(column.type_name))
                .ok_or_else(|| ContentHashError::Column(column.name.clone()))?;
            column.add(self.rows, array.as_ref(), &mut self.bytes);
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// The hash of all rows so far, and of `texts`: keys of the file's metadata and what stands there.
    pub fn finish(&self, texts: &[(&str, &str)]) -> ContentHash {
        let columns = self.columns.iter().map(|column| (column.name.clone(), column.finish(self.rows)));
        ContentHash { rows: self.rows, columns: columns.collect(), texts: hashed(texts.iter().copied()) }
    }
}

impl Column {
    /// Hashes a batch's rows, the first of which is row `row`.
    fn add(&mut self, row: u64, array: &dyn Array, bytes: &mut Vec<u8>) {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = |index: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
        if nulls.is_some() {
            for index in (0..array.len()).filter(|&index| !valid(index)) {
                self.nulls.write(&(row + index as u64).to_le_bytes());
            }
        }
        bytes.clear();
        match array.data_type() {
            DataType::Boolean => bytes.extend(array.as_boolean().iter().flatten().map(u8::from)),
            DataType::Utf8 => array.as_string::<i32>().iter().flatten().for_each(|value| put(value, bytes)),
            DataType::Dictionary(..) => {
                let array = array.as_any_dictionary();
                let values: Vec<Vec<u8>> = array.values().as_string::<i32>().iter().map(encoded).collect();
                let keys = if values.is_empty() { Vec::new() } else { array.normalized_keys() };
                let rows = keys.into_iter().enumerate().filter(|(index, _)| valid(*index));
                rows.for_each(|(_, key)| bytes.extend_from_slice(&values[key]));
            }
            numbers => {
                let (data, width) = (array.to_data(), numbers.primitive_width().unwrap_or(1));
                let values = data.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
                let values = &values[data.offset() * width..][..array.len() * width];
                if nulls.is_none() {
                    return self.values.write(values);
                }
                let rows = values.chunks_exact(width).enumerate().filter(|(index, _)| valid(*index));
                rows.for_each(|(_, value)| bytes.extend_from_slice(value));
            }
        }
        self.values.write(bytes);
    }

    fn finish(&self, rows: u64) -> String {
        let mut all = XxHash3_128::new();
        for text in [self.name.as_str(), self.type_name] {
            all.write(&(text.len() as u64).to_le_bytes());
            all.write(text.as_bytes());
        }
        all.write(&rows.to_le_bytes());
        all.write(&self.values.finish_128().to_le_bytes());
        all.write(&self.nulls.finish_128().to_le_bytes());
        format!("{:032x}", all.finish_128())
    }
}

/// The name of a type, if columns of it can be hashed. It is part of the hash, so it is not the Arrow crate's.
fn type_name(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Boolean => "bool",
        DataType::UInt8 => "u8",
        DataType::UInt16 => "u16",
        DataType::UInt32 => "u32",
        DataType::UInt64 => "u64",
        DataType::Int8 => "i8",
        DataType::Int16 => "i16",
        DataType::Int32 => "i32",
        DataType::Int64 => "i64",
        DataType::Float32 => "f32",
        DataType::Float64 => "f64",
        DataType::Utf8 => "text",
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => "text",
        _ => return None,
    })
}

/// A text behind its length: `ab`, `c` is not `a`, `bc`.
fn put(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn encoded(text: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    text.iter().for_each(|text| put(text, &mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::UInt8Type;
    use arrow_array::{
        ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, StringArray, UInt64Array,
    };

    use super::*;

    fn hash(columns: &[(&str, ArrayRef)], cuts: &[usize], texts: &[(&str, &str)]) -> ContentHash {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.iter().map(|(name, array)| (*name, array.clone(), true)),
        )
        .unwrap();
        let mut hasher = ContentHasher::new(&batch.schema()).unwrap();
        let mut from = 0;
        for &to in cuts.iter().chain([&batch.num_rows()]) {
            hasher.add(&batch.slice(from, to - from)).unwrap();
            from = to;
        }
        hasher.finish(texts)
    }

    fn numbers(values: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<UInt64Array>())
    }

    fn names(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(values.iter().copied().collect::<StringArray>())
    }

    fn table() -> Vec<(&'static str, ArrayRef)> {
        vec![
            ("time", numbers((0..100).map(|row| (row % 7 != 0).then_some(row)))),
            ("value", Arc::new((0..100).map(|row| Some(f64::from(row) / 3.0)).collect::<Float64Array>())),
            ("write", Arc::new((0..100).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>())),
            (
                "name",
                names(&(0..100).map(|row| (row % 5 > 0).then_some(&"abcdef"[..row % 6])).collect::<Vec<_>>()),
            ),
        ]
    }

    #[test]
    fn cuts_and_dictionaries_do_not_count() {
        let mut table = table();
        let whole = hash(&table, &[], &[]);
        assert_eq!(hash(&table, &[1, 1, 8, 63, 99], &[]), whole);
        let plain = table[3].1.as_string::<i32>().clone();
        table[3].1 = Arc::new(plain.iter().collect::<DictionaryArray<UInt8Type>>());
        assert_eq!(hash(&table, &[7, 64], &[]), whole);
        assert_eq!(whole.check(&hash(&table[1..3], &[], &[])), Ok(()), "some columns are checked alone");
    }

    #[test]
    fn everything_else_does() {
        let one = |name: &str, array: ArrayRef| hash(&[(name, array)], &[], &[]);
        let different = [
            one("a", numbers([Some(1), Some(2)])),
            one("b", numbers([Some(1), Some(2)])),
            one("a", numbers([Some(2), Some(1)])),
            one("a", numbers([Some(1), None])),
            one("a", numbers([None, Some(1)])),
            one("a", numbers([Some(1), Some(0)])),
            one("a", numbers([Some(1)])),
            one("a", Arc::new(Int32Array::from(vec![1, 0, 2, 0]))),
            one("a", Arc::new(BooleanArray::from(vec![true, false]))),
            one("a", names(&[Some("ab"), Some("c")])),
            one("a", names(&[Some("a"), Some("bc")])),
            one("a", names(&[Some(""), None])),
        ];
        for (index, hash) in different.iter().enumerate() {
            assert!(different[..index].iter().all(|other| other.check(hash).is_err()), "{index}");
        }
    }

    #[test]
    fn what_differs_is_named() {
        let whole = hash(&table(), &[], &[("document", "{}")]);
        let mut other = table();
        other[1].1 =
            Arc::new((0..100).map(|row| Some(f64::from(row) / 3.0 + 1e-15)).collect::<Float64Array>());
        let differs = |read| whole.check(&read).unwrap_err().to_string();
        assert_eq!(
            differs(hash(&other, &[], &[])),
            "column `value` is not what was written: its content hash differs"
        );
        assert_eq!(
            differs(hash(&table(), &[], &[("document", "{ }")])),
            "the text `document` is not what was written: its content hash differs"
        );
        let short: Vec<_> = table().iter().map(|(name, array)| (*name, array.slice(0, 99))).collect();
        assert_eq!(differs(hash(&short, &[], &[])), "99 rows were read, 100 were written");
    }

    #[test]
    fn types_without_a_rule_are_refused() {
        let binary: ArrayRef = Arc::new(arrow_array::BinaryArray::from(vec![&b"x"[..]]));
        let schema = RecordBatch::try_from_iter([("a", binary)]).unwrap().schema();
        let error = ContentHasher::new(&schema).err().unwrap().to_string();
        assert_eq!(error, "column `a` is Binary, which has no content hash");
    }

    #[test]
    fn a_hash_is_what_it_was() {
        // Files that were written with it are read by later versions.
        let text = hash(&table(), &[], &[("document", "{}")]).key_value().value.unwrap();
        let expected = "{\"rows\":100,\"columns\":{\"name\":\"a1e55f61d9e0c588b0dd5b988c614f5a\",\
                        \"time\":\"0a93214eadc74a9c3829ed51cb5f27b2\",\
                        \"value\":\"beada3a629ee9acce818739583f8e4c6\",\
                        \"write\":\"ba376e7f2fcf498eb2993abc87015369\"},\
                        \"texts\":{\"document\":\"dc7048f8f8747f561349cde127705c16\"}}";
        assert_eq!(text, expected);
    }
}
