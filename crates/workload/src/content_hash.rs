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

use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::table::{self, Field, Footer, Rows};

/// Key of the hash in a Parquet file's metadata.
pub const CONTENT_HASH_KEY: &str = "mmtwin.content_hash";

/// Why a file's hash cannot be made, or is not that of what was read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContentHashError {
    /// Rows lack a column, or have it with another type than the table has.
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
    pub fn in_file(footer: &Footer) -> Result<Option<ContentHash>, ContentHashError> {
        if !footer.has(CONTENT_HASH_KEY) {
            return Ok(None);
        }
        serde_json::from_str(footer.text(CONTENT_HASH_KEY).unwrap_or_default())
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
    /// Of a file with this `footer`, of which columns are read as `fields`. The texts under `keys` are checked now. With
    /// `required` a file without a hash is refused.
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

    /// The next rows.
    pub fn add(&mut self, rows: &Rows) -> Result<(), ContentHashError> {
        if self.written.is_some() { self.read.add(rows) } else { Ok(()) }
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
}

struct Column {
    field: Field,
    values: XxHash3_128,
    /// The rows without a value.
    nulls: XxHash3_128,
}

impl ContentHasher {
    /// Hashes the columns of a table of `fields`.
    pub fn new(fields: &[Field]) -> ContentHasher {
        let column = |&field: &Field| Column { field, values: XxHash3_128::new(), nulls: XxHash3_128::new() };
        ContentHasher { rows: 0, columns: fields.iter().map(column).collect() }
    }

    /// The next rows, whose columns are those of the table.
    pub fn add(&mut self, rows: &Rows) -> Result<(), ContentHashError> {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let found = rows.columns().get(at);
            let found = found.filter(|found| found.values().column_type() == column.field.column_type());
            column.add(self.rows, found.ok_or_else(|| ContentHashError::Column(column.field.name().into()))?);
        }
        self.rows += rows.count() as u64;
        Ok(())
    }

    /// The hash of all rows so far, and of `texts`: keys of the file's metadata and what stands there.
    pub fn finish(&self, texts: &[(&str, &str)]) -> ContentHash {
        let columns =
            self.columns.iter().map(|column| (column.field.name().into(), column.finish(self.rows)));
        ContentHash { rows: self.rows, columns: columns.collect(), texts: hashed(texts.iter().copied()) }
    }
}

impl Column {
    /// Hashes rows, the first of which is row `row`.
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

    /// Rows from one to before another of a table of four columns.
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
        // Files that were written with it are read by later versions.
        let text = hash(&table(), &[("document", "{}")]).key_value().value.unwrap();
        let expected = "{\"rows\":100,\"columns\":{\"name\":\"a1e55f61d9e0c588b0dd5b988c614f5a\",\
                        \"time\":\"0a93214eadc74a9c3829ed51cb5f27b2\",\
                        \"value\":\"beada3a629ee9acce818739583f8e4c6\",\
                        \"write\":\"ba376e7f2fcf498eb2993abc87015369\"},\
                        \"texts\":{\"document\":\"dc7048f8f8747f561349cde127705c16\"}}";
        assert_eq!(text, expected);
    }
}
