//! Iologs of fio, versions 2 and 3: the I/O of a job on its files.
//!
//! ```text
//!   fio version 2 iolog                 fio version 3 iolog
//!   /data/db add                        21 /data/db add
//!   /data/db open                       136 /data/db open
//!   /data/db read 28672 4096            141 /data/db read 28672 4096
//!   /data/db wait 500 0                 microseconds, file, action, byte, bytes
//! ```
//!
//! The formats are described in fio's manual ("Trace file format v2" and "v3"); its `iolog.c` (3.33) shows
//! that version 3 has times in microseconds. A `wait` in version 2 gives the microseconds since the previous
//! `wait`. The files are the objects, numbered from 0 in the order of their `add`. `sync`, `datasync` and
//! `trim` touch no page.

use rustc_hash::FxHashMap;

use super::lines::{LineFormat, number, shown, words};
use super::{Access, PAGE_SIZE, span};

#[derive(Default)]
pub(super) struct Fio {
    version: Option<Version>,
    files: FxHashMap<Vec<u8>, u64>,
    /// Current time in microseconds.
    time: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl LineFormat for Fio {
    const ENDS_LINES: bool = true;

    fn line(&mut self, line: &[u8], out: &mut Vec<Access>) -> Result<(), String> {
        let Some(version) = self.version else {
            self.version = Some(match line {
                b"fio version 2 iolog" => Version::Two,
                b"fio version 3 iolog" => Version::Three,
                _ => {
                    return Err(format!(
                        "`{}`, where a log starts with `fio version 2 iolog` or `fio version 3 iolog`",
                        shown(line)
                    ));
                }
            });
            return Ok(());
        };
        let form = match version {
            Version::Two => "`FILE add|open|close` or `FILE read|write|trim|sync|datasync|wait BYTE BYTES`",
            Version::Three => {
                "`TIME FILE add|open|close` or `TIME FILE read|write|trim|sync|datasync BYTE BYTES`"
            }
        };
        let wrong = || format!("`{}` must be {form}", shown(line));
        let mut words = words(line);
        if version == Version::Three {
            self.time = words.next().and_then(number).ok_or_else(wrong)?;
        }
        let time_ns = self.time.checked_mul(1000).ok_or_else(wrong)?;
        let file = words.next().ok_or_else(wrong)?;
        let action = words.next().ok_or_else(wrong)?;
        let extent = match words.next() {
            None => None,
            Some(offset) => {
                let length = words.next().and_then(number).ok_or_else(wrong)?;
                Some((number(offset).ok_or_else(wrong)?, length))
            }
        };
        match (action, extent) {
            (b"add", None) => {
                let object = self.files.len() as u64;
                self.files.entry(file.to_vec()).or_insert(object);
            }
            (b"open" | b"close", None) | (b"trim" | b"sync" | b"datasync", Some(_)) => {}
            (b"wait", Some((microseconds, _))) if version == Version::Two => {
                self.time = self.time.checked_add(microseconds).ok_or_else(wrong)?;
            }
            (b"read" | b"write", Some((offset, length))) => {
                let Some(&object) = self.files.get(file) else {
                    return Err(format!("`{}` is used, but no line before adds it", shown(file)));
                };
                let (index, pages) = span(offset, length, PAGE_SIZE).ok_or_else(|| {
                    format!("{length} bytes from byte {offset} on are more than a file can have")
                })?;
                if pages > 0 {
                    out.push(Access { time_ns, object, index, pages, write: action == b"write" });
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}
