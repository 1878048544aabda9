//! A hash of the values in a Parquet file, stored in the file, so that a flipped bit is not read as another
//! value.
//!
//! ```text
//!   writer   rows, texts ──► ContentHasher ──► ContentHash, in the file under the key `mmtwin.content_hash`:
//!                                              {"rows":3,"columns":{"time":"9f0c...","cpu":"41aa..."},
//!                                               "texts":{"mmtwin.trace":"77e0..."}}
//!   reader   rows, texts ──► ContentHasher ──► equal, or the file is damaged
//! ```
//!
//! The hash covers values, not their encoding: a column has the same hash however its rows are cut into
//! batches and row groups, encoded and compressed, and text has the same hash with and without a dictionary.
//! A column's name, type, number of rows and positions of nulls are part of its hash. Each column has its own
//! hash, so a reader of some columns checks only those. `texts` are entries of the file's key-value metadata,
//! hashed under their keys.
//!
//! The hash is xxHash (XXH3, 128 bits): it detects corruption by disks, copies and memory, not forgery.

use std::collections::BTreeMap;

use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::table::{self, Field, Footer, Rows};

/// Key of the hash in a Parquet file's metadata.
pub const CONTENT_HASH_KEY: &str = "mmtwin.content_hash";

/// Why a file's content hash cannot be computed, or does not match the values that were read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContentHashError {
    /// The rows lack a column, or have it with a type other than the table's.
    #[error("column `{0}` is missing or changes its type")]
    Column(String),
    /// The metadata entry is not a content hash.
    #[error("its content hash cannot be read: {0}")]
    Unreadable(String),
    /// The file has another number of rows than its hash says.
    #[error("{found} rows were read, {written} were written")]
    Rows {
        /// According to the hash.
        written: u64,
        /// In the file.
        found: u64,
    },
    /// The file has no hash, although its format requires one.
    #[error("its content hash is missing")]
    Missing,
    /// A column or text does not match its hash; the string names which.
    #[error("{0} is not what was written: its content hash differs")]
    Differs(String),
}

/// The hash of a file's columns and metadata texts; the module's header says what it covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentHash {
    rows: u64,
    columns: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
}

impl ContentHash {
    /// The metadata entry that a writer stores in the file.
    pub fn key_value(&self) -> KeyValue {
        let text = serde_json::to_string(self).expect("numbers and texts are JSON");
        KeyValue::new(CONTENT_HASH_KEY.to_string(), text)
    }

    /// Reads the hash from the file's metadata; `None` if the file has none.
    pub fn in_file(footer: &Footer) -> Result<Option<ContentHash>, ContentHashError> {
        if !footer.has(CONTENT_HASH_KEY) {
            return Ok(None);
        }
        serde_json::from_str(footer.text(CONTENT_HASH_KEY).unwrap_or_default())
            .map(Some)
            .map_err(|error| ContentHashError::Unreadable(error.to_string()))
    }

    /// One hash over all columns and texts, for documents that list the hashes of many files.
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).expect("numbers and texts are JSON");
        format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
    }

    /// Compares this hash, stored in the file, with the hash of what was `read`, which may lack columns and
    /// texts but not rows.
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

/// The first column or text of `read` whose hash is not the one that was written.
fn other<'a>(written: &BTreeMap<String, String>, read: &'a BTreeMap<String, String>) -> Option<&'a str> {
    read.iter().find(|(name, hash)| written.get(*name) != Some(*hash)).map(|(name, _)| name.as_str())
}

fn hashed<'a>(texts: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let hash = |text: &str| format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()));
    texts.map(|(key, text)| (key.to_string(), hash(text))).collect()
}

/// Checks the rows that are read from a file against the content hash stored in it.
pub struct ContentCheck {
    /// `None` if the file has no hash.
    written: Option<ContentHash>,
    read: ContentHasher,
}

impl ContentCheck {
    /// Starts checking a file with this `footer` whose columns are read as `fields`. The metadata texts under
    /// `keys` are checked at once. If `required`, a file without a hash is an error.
    pub fn begin(
        footer: &Footer,
        fields: &[Field],
        keys: &[&str],
        required: bool,
    ) -> Result<ContentCheck, ContentHashError> {
        let written = ContentHash::in_file(footer)?;
        match &written {
            None if required => return Err(ContentHashError::Missing),
            None => {}
            Some(written) => {
                let texts = keys.iter().filter_map(|key| Some((*key, footer.text(key)?)));
                written.check_texts(&hashed(texts))?;
            }
        }
        Ok(ContentCheck { written, read: ContentHasher::new(fields) })
    }

    /// Hashes the next rows.
    pub fn add(&mut self, rows: &Rows) -> Result<(), ContentHashError> {
        if self.written.is_some() { self.read.add(rows) } else { Ok(()) }
    }

    /// Compares the hash of all rows read with the one in the file.
    pub fn finish(&self) -> Result<(), ContentHashError> {
        self.written.as_ref().map_or(Ok(()), |written| written.check(&self.read.finish(&[])))
    }
}

/// Computes a [`ContentHash`] row by row.
pub struct ContentHasher {
    rows: u64,
    columns: Vec<Column>,
}

struct Column {
    field: Field,
    values: XxHash3_128,
    /// The numbers of the rows that are null.
    nulls: XxHash3_128,
}

impl ContentHasher {
    /// Starts hashing a table with these columns.
    pub fn new(fields: &[Field]) -> ContentHasher {
        let column = |&field: &Field| Column { field, values: XxHash3_128::new(), nulls: XxHash3_128::new() };
        ContentHasher { rows: 0, columns: fields.iter().map(column).collect() }
    }

    /// Hashes the next rows, whose columns must be those of the table.
    pub fn add(&mut self, rows: &Rows) -> Result<(), ContentHashError> {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let found = rows.columns().get(at);
            let found = found.filter(|found| found.values().column_type() == column.field.column_type());
            column.add(self.rows, found.ok_or_else(|| ContentHashError::Column(column.field.name().into()))?);
        }
        self.rows += rows.count() as u64;
        Ok(())
    }

    /// The hash of all rows so far and of `texts`, pairs of metadata key and value.
    pub fn finish(&self, texts: &[(&str, &str)]) -> ContentHash {
        let columns =
            self.columns.iter().map(|column| (column.field.name().into(), column.finish(self.rows)));
        ContentHash { rows: self.rows, columns: columns.collect(), texts: hashed(texts.iter().copied()) }
    }
}

impl Column {
    /// Hashes a batch of rows; `row` is the number of the first.
    fn add(&mut self, row: u64, column: &table::Column) {
        column.nulls().for_each(|null| self.nulls.write(&(row + null as u64).to_le_bytes()));
        column.values().bytes(|bytes| self.values.write(bytes));
    }

    fn finish(&self, rows: u64) -> String {
        let mut all = XxHash3_128::new();
        for text in [self.field.name(), self.field.column_type().hashed_name()] {
            all.write(&(text.len() as u64).to_le_bytes());
            all.write(text.as_bytes());
        }
        all.write(&rows.to_le_bytes());
        all.write(&self.values.finish_128().to_le_bytes());
        all.write(&self.nulls.finish_128().to_le_bytes());
        format!("{:032x}", all.finish_128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Texts, Type, Values};

    type Table = Vec<(Field, Column)>;

    fn hash(table: &Table, texts: &[(&str, &str)]) -> ContentHash {
        let fields: Vec<Field> = table.iter().map(|(field, _)| *field).collect();
        let mut hasher = ContentHasher::new(&fields);
        hasher.add(&Rows::new(table.iter().map(|(_, column)| column.clone()))).unwrap();
        hasher.finish(texts)
    }

    fn numbers(values: &[Option<u64>]) -> Column {
        Column::optional(values.iter().copied(), |values| Values::U64(values.collect()))
    }

    fn names(values: &[Option<&str>]) -> Column {
        Column::optional(values.iter().copied(), |values| Values::Text(values.collect()))
    }

    /// Rows `from..to` of a table of four columns.
    fn rows(from: u32, to: u32) -> Table {
        let rows = from..to;
        let time = rows.clone().map(|row| (row % 7 != 0).then_some(u64::from(row)));
        let name = rows.clone().map(|row| (row % 5 > 0).then_some(&"abcdef"[..row as usize % 6]));
        vec![
            (Field::new("time", Type::U64).optional(), numbers(&time.collect::<Vec<_>>())),
            (
                Field::new("value", Type::F64),
                Values::F64(rows.clone().map(|row| f64::from(row) / 3.0).collect()).into(),
            ),
            (Field::new("write", Type::Bool), Values::Bool(rows.map(|row| row % 3 == 0).collect()).into()),
            (Field::new("name", Type::Text).optional(), names(&name.collect::<Vec<_>>())),
        ]
    }

    fn table() -> Table {
        rows(0, 100)
    }

    #[test]
    fn cuts_and_dictionaries_do_not_count() {
        let whole = hash(&table(), &[]);
        let fields: Vec<Field> = table().iter().map(|(field, _)| *field).collect();
        let mut hasher = ContentHasher::new(&fields);
        for (from, to) in [(0, 1), (1, 1), (1, 8), (8, 63), (63, 99), (99, 100)] {
            hasher.add(&Rows::new(rows(from, to).into_iter().map(|(_, column)| column))).unwrap();
        }
        assert_eq!(hasher.finish(&[]), whole);
        assert_eq!(
            whole.check(&hash(&table()[1..3].to_vec(), &[])),
            Ok(()),
            "some columns are checked alone"
        );
        let name =
            |texts: Texts| hash(&vec![(Field::new("name", Type::Text), Values::Text(texts).into())], &[]);
        let keyed = Texts::of_names(["b", "a", "b"], vec![1, 0, 2, 0]);
        assert_eq!(name(keyed), name(["a", "b", "b", "b"].into_iter().collect()));
    }

    #[test]
    fn everything_else_does() {
        let one = |name, column: Column| {
            hash(&vec![(Field::new(name, column.values().column_type()).optional(), column)], &[])
        };
        let different = [
            one("a", numbers(&[Some(1), Some(2)])),
            one("b", numbers(&[Some(1), Some(2)])),
            one("a", numbers(&[Some(2), Some(1)])),
            one("a", numbers(&[Some(1), None])),
            one("a", numbers(&[None, Some(1)])),
            one("a", numbers(&[Some(1), Some(0)])),
            one("a", numbers(&[Some(1)])),
            one("a", Values::I32(vec![1, 0, 2, 0]).into()),
            one("a", Values::Bool(vec![true, false]).into()),
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
        let whole = hash(&table(), &[("document", "{}")]);
        let mut other = table();
        other[1].1 = Values::F64((0..100).map(|row| f64::from(row) / 3.0 + 1e-15).collect()).into();
        let differs = |read| whole.check(&read).unwrap_err().to_string();
        assert_eq!(
            differs(hash(&other, &[])),
            "column `value` is not what was written: its content hash differs"
        );
        assert_eq!(
            differs(hash(&table(), &[("document", "{ }")])),
            "the text `document` is not what was written: its content hash differs"
        );
        assert_eq!(differs(hash(&rows(0, 99), &[])), "99 rows were read, 100 were written");
    }

    #[test]
    fn rows_of_another_table_are_refused() {
        let mut hasher = ContentHasher::new(&[Field::new("a", Type::U64)]);
        for other in [Rows::new([Values::U32(vec![1])]), Rows::new(Vec::<Values>::new())] {
            assert_eq!(hasher.add(&other), Err(ContentHashError::Column("a".into())));
        }
    }

    #[test]
    fn a_hash_is_what_it_was() {
        // Later versions must be able to check files written with this version.
        let text = hash(&table(), &[("document", "{}")]).key_value().value.unwrap();
        let expected = "{\"rows\":100,\"columns\":{\"name\":\"a1e55f61d9e0c588b0dd5b988c614f5a\",\
                        \"time\":\"0a93214eadc74a9c3829ed51cb5f27b2\",\
                        \"value\":\"beada3a629ee9acce818739583f8e4c6\",\
                        \"write\":\"ba376e7f2fcf498eb2993abc87015369\"},\
                        \"texts\":{\"document\":\"dc7048f8f8747f561349cde127705c16\"}}";
        assert_eq!(text, expected);
    }
}
