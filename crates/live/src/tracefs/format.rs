//! The `format` file of a tracepoint: where each field is in a record.
//!
//! ```text
//!   name: mm_page_free
//!   ID: 655
//!   format:
//!       field:int common_pid;       offset:4;  size:4;  signed:1;
//!       field:unsigned long pfn;    offset:8;  size:8;  signed:0;
//! ```
//!
//! Offsets and ids differ between kernels and even between boots, so they are always taken from here.

use std::collections::BTreeMap;

/// Why a format cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FormatError {
    /// The text is not in the format of a `format` file.
    #[error("event format, line {line}: {problem}")]
    Syntax {
        /// Line number, from 1.
        line: usize,
        problem: String,
    },
    /// The kernel's tracepoint lacks a field.
    #[error(
        "this kernel's event `{event}` has no field `{field}`; mmtwin knows the events of Linux 6.1 to 6.18"
    )]
    MissingField { event: String, field: String },
}

/// Location and type of a field in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Whether the number is signed.
    pub signed: bool,
    /// The field holds the location of its value: offset in the low, length in the high 16 bits
    /// (`__data_loc`).
    pub dynamic: bool,
}

/// The layout of a tracepoint's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the tracepoint.
    pub name: String,
    /// The event type, `common_type`, that its records begin with.
    pub id: u16,
    fields: BTreeMap<String, Field>,
}

impl Field {
    /// The field's number in `record`, sign-extended if it is signed; `None` if the record is too short.
    pub fn number(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let unused = 64 - 8 * bytes.len() as u32;
        let number = u64::from_le_bytes(wide);
        match (self.signed, unused) {
            (true, 1..64) => Some((((number << unused) as i64) >> unused) as u64),
            _ => Some(number),
        }
    }

    /// The field's string in `record`, without its terminator.
    pub fn string<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let (start, length) = if self.dynamic {
            let place = self.number(record)? as usize;
            (place & 0xffff, place >> 16 & 0xffff)
        } else {
            (self.offset, self.size)
        };
        let bytes = record.get(start..start.checked_add(length)?)?;
        Some(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Parses `field:TYPE NAME;  offset:N;  size:N;  signed:N;`.
    pub(super) fn parse(text: &str) -> Result<(String, Field), String> {
        let mut parts = text.trim().split(';').map(str::trim);
        let declaration = parts
            .next()
            .and_then(|part| part.strip_prefix("field:"))
            .ok_or_else(|| format!("expected `field:`, found `{}`", text.trim()))?;
        let mut number = |key: &str| -> Result<usize, String> {
            let part = parts.next().unwrap_or_default();
            let value = part.strip_prefix(key).and_then(|rest| rest.strip_prefix(':'));
            value
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| format!("expected `{key}:` and a number, found `{part}`"))
        };
        let (offset, size, signed) = (number("offset")?, number("size")?, number("signed")? != 0);
        let name = declaration.rsplit(' ').next().unwrap_or_default();
        let name = name.split('[').next().unwrap_or_default().to_string();
        let dynamic = declaration.starts_with("__data_loc");
        Ok((name, Field { offset, size, signed, dynamic }))
    }
}

impl EventFormat {
    /// Parses the text of a `format` file.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let (mut name, mut id, mut fields) = (None, None, BTreeMap::new());
        let syntax = |line: usize, problem: String| FormatError::Syntax { line: line + 1, problem };
        for (number, line) in text.lines().enumerate() {
            if let Some(value) = line.strip_prefix("name: ") {
                name = Some(value.trim().to_string());
            } else if let Some(value) = line.strip_prefix("ID: ") {
                let value = value.trim();
                id =
                    Some(value.parse().map_err(|_| {
                        syntax(number, format!("ID must be a number below 65536, is `{value}`"))
                    })?);
            } else if line.trim_start().starts_with("field:") {
                let (name, field) = Field::parse(line).map_err(|problem| syntax(number, problem))?;
                fields.insert(name, field);
            }
        }
        match (name, id) {
            (Some(name), Some(id)) => Ok(EventFormat { name, id, fields }),
            (None, _) => Err(syntax(0, "no `name:` line".to_string())),
            (_, None) => Err(syntax(0, "no `ID:` line".to_string())),
        }
    }

    pub fn field(&self, name: &str) -> Result<Field, FormatError> {
        self.fields
            .get(name)
            .copied()
            .ok_or_else(|| FormatError::MissingField { event: self.name.clone(), field: name.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &str = "name: sched_process_fork\nID: 366\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:__data_loc char[] child_comm;\toffset:4;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[4];\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t child_pid;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"pid=%d\", REC->pid\n";

    #[test]
    fn fields_are_found_and_read() {
        let format = EventFormat::parse(FORK).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_process_fork", 366));
        let record = b"\x6e\x01\0\0\x10\0\x04\0ab\0z\xfe\xff\xff\xffgcc\0";
        assert_eq!(format.field("common_type").unwrap().number(record), Some(366));
        assert_eq!(format.field("child_pid").unwrap().number(record), Some(-2i64 as u64));
        assert_eq!(format.field("comm").unwrap().string(record), Some(&b"ab"[..]));
        assert_eq!(format.field("child_comm").unwrap().string(record), Some(&b"gcc"[..]));
        assert_eq!(format.field("child_comm").unwrap().string(&record[..18]), None);
        assert_eq!(format.field("child_pid").unwrap().number(&record[..14]), None);
    }

    #[test]
    fn errors_name_line_event_and_field() {
        let message = |text: &str| EventFormat::parse(text).unwrap_err().to_string();
        assert_eq!(
            message(&FORK.replace("size:2", "size:x")),
            "event format, line 4: expected `size:` and a number, found `size:x`"
        );
        assert_eq!(
            message(&FORK.replace("366", "99999")),
            "event format, line 2: ID must be a number below 65536, is `99999`"
        );
        assert_eq!(message("ID: 3\n"), "event format, line 1: no `name:` line");
        assert_eq!(
            EventFormat::parse(FORK).unwrap().field("pfn").unwrap_err().to_string(),
            "this kernel's event `sched_process_fork` has no field `pfn`; mmtwin knows the events of Linux 6.1 to 6.18"
        );
    }
}
