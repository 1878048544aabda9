//! Columns and rows in memory: the values, and the definition levels that say which rows have one, as in
//! Parquet.

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::Values;

/// Values converted at a time, so that the results stay in the L1 cache.
pub(super) const AT_A_TIME: usize = 1 << 10;

impl Values {
    /// Passes the values to `take` as bytes, in pieces: numbers in little endian, texts preceded by their
    /// lengths, so that `ab`, `c` differs from `a`, `bc`.
    pub(crate) fn bytes(&self, mut take: impl FnMut(&[u8])) {
        match self {
            Values::U8(values) => take(values),
            Values::U16(values) => numbers(values, u16::to_le_bytes, take),
            Values::U32(values) => numbers(values, u32::to_le_bytes, take),
            Values::U64(values) => numbers(values, u64::to_le_bytes, take),
            Values::I8(values) => numbers(values, i8::to_le_bytes, take),
            Values::I32(values) => numbers(values, i32::to_le_bytes, take),
            Values::F64(values) => numbers(values, f64::to_le_bytes, take),
            Values::Bool(values) => numbers(values, |value| [u8::from(value)], take),
            Values::Text(texts) => texts.bytes(take),
        }
    }
}

fn numbers<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N], mut take: impl FnMut(&[u8])) {
    let mut piece = [[0; N]; AT_A_TIME];
    for values in values.chunks(AT_A_TIME) {
        let piece = &mut piece[..values.len()];
        piece.iter_mut().zip(values).for_each(|(place, &value)| *place = bytes(value));
        take(piece.as_flattened());
    }
}

/// A column of texts in which each distinct text is stored once.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// UTF-8. Clones share their memory, and static names take none.
    pub(super) distinct: Vec<Bytes>,
    pub(super) keys: Vec<u32>,
}

impl Texts {
    /// Texts from `names`; each key is an index into `names`.
    ///
    /// # Panics
    ///
    /// If a key is not an index into `names`.
    pub fn of_names(names: impl IntoIterator<Item = &'static str>, keys: Vec<u32>) -> Texts {
        let distinct: Vec<Bytes> =
            names.into_iter().map(|name| Bytes::from_static(name.as_bytes())).collect();
        assert!(keys.iter().all(|&key| (key as usize) < distinct.len()), "every text has a name");
        Texts { distinct, keys }
    }

    /// The texts that keys refer to. A text may occur twice.
    pub fn distinct(&self) -> impl Iterator<Item = &str> {
        self.distinct.iter().map(text_of)
    }

    /// For each text, its index in [`distinct`](Self::distinct).
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|&key| text_of(&self.distinct[key as usize]))
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    fn bytes(&self, mut take: impl FnMut(&[u8])) {
        let bytes = |text: &Bytes| [&(text.len() as u64).to_le_bytes(), &text[..]].concat();
        let bytes: Vec<Vec<u8>> = self.distinct.iter().map(bytes).collect();
        let mut piece = Vec::new();
        for keys in self.keys.chunks(AT_A_TIME) {
            piece.clear();
            keys.iter().for_each(|&key| piece.extend_from_slice(&bytes[key as usize]));
            take(&piece);
        }
    }
}

fn text_of(bytes: &Bytes) -> &str {
    str::from_utf8(bytes).expect("bytes that were taken as text are text")
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Texts {
        let mut keys_of: FxHashMap<Bytes, u32> = FxHashMap::default();
        let mut found = Texts::default();
        for text in texts {
            let text = text.as_ref().as_bytes();
            let key = keys_of.get(text).copied().unwrap_or_else(|| {
                let (key, text) = (found.distinct.len() as u32, Bytes::copy_from_slice(text));
                found.distinct.push(text.clone());
                keys_of.insert(text, key);
                key
            });
            found.keys.push(key);
        }
        found
    }
}

/// The values of a column, and which rows have one.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) values: Values,
    /// Parquet's definition levels: 1 for a row with a value, 0 for a null. `None` if no row is null.
    pub(super) levels: Option<Vec<i16>>,
}

impl From<Values> for Column {
    fn from(values: Values) -> Column {
        Column { values, levels: None }
    }
}

impl Column {
    /// A column from `rows`, some of which are null; `values` collects the values of the others.
    pub fn optional<T>(
        rows: impl Iterator<Item = Option<T>> + Clone,
        values: impl FnOnce(&mut dyn Iterator<Item = T>) -> Values,
    ) -> Column {
        let levels = rows.clone().map(|row| i16::from(row.is_some())).collect();
        Column::with_levels(values(&mut rows.flatten()), levels)
    }

    pub(super) fn with_levels(values: Values, levels: Vec<i16>) -> Column {
        let levels = Some(levels).filter(|levels| levels.contains(&0));
        Column { values, levels }
    }

    /// The values of the rows that are not null.
    pub fn values(&self) -> &Values {
        &self.values
    }

    pub(super) fn rows(&self) -> usize {
        self.levels.as_ref().map_or(self.values.len(), Vec::len)
    }

    /// Numbers of the rows that are null.
    pub(crate) fn nulls(&self) -> impl Iterator<Item = usize> {
        let levels = self.levels.iter().flatten().enumerate();
        levels.filter(|(_, level)| **level == 0).map(|(row, _)| row)
    }

    /// Spreads `values`, one for each row that is not null, over all rows.
    pub fn rows_of<T>(&self, mut values: impl Iterator<Item = T>) -> impl Iterator<Item = Option<T>> {
        let is_there = |row: usize| self.levels.as_ref().is_none_or(|levels| levels[row] == 1);
        (0..self.rows()).map(move |row| if is_there(row) { values.next() } else { None })
    }
}

/// Compares columns bit by bit, so a NaN is equal to itself.
impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        let bytes = |column: &Column| {
            let mut bytes = Vec::new();
            column.values.bytes(|piece| bytes.extend_from_slice(piece));
            bytes
        };
        self.levels == other.levels
            && self.values.column_type() == other.values.column_type()
            && bytes(self) == bytes(other)
    }
}

/// Rows of a table, column by column in the order of its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub(super) columns: Vec<Column>,
}

impl Rows {
    /// Makes rows from these columns.
    ///
    /// # Panics
    ///
    /// If the columns have different lengths.
    pub fn new<C: Into<Column>>(columns: impl IntoIterator<Item = C>) -> Rows {
        let columns: Vec<Column> = columns.into_iter().map(Into::into).collect();
        assert!(columns.windows(2).all(|pair| pair[0].rows() == pair[1].rows()), "columns of one length");
        Rows { columns }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.columns.first().map_or(0, Column::rows)
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The values of each column, without nulls.
    pub fn values(&self) -> Vec<&Values> {
        self.columns.iter().map(Column::values).collect()
    }

    /// The first column that has a null, and the first row in which it is null, as indices.
    pub fn first_null(&self) -> Option<(usize, usize)> {
        let mut nulls =
            self.columns.iter().enumerate().filter_map(|(at, column)| Some((at, column.nulls().next()?)));
        nulls.next()
    }
}
