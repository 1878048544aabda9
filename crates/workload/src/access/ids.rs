//! One id a line, libCacheSim's `txt`: each line is one access to an object of one page.
//!
//! A line that is a number is the object's number; any other text stands for its 64-bit xxHash, so that two
//! texts are two objects but for a chance of one in 2^64. Blank lines are left out.

use twox_hash::XxHash64;

use super::Access;
use super::lines::{LineFormat, number};

pub(super) struct Ids;

impl LineFormat for Ids {
    const ENDS_LINES: bool = false;

    fn line(&mut self, line: &[u8], out: &mut Vec<Access>) -> Result<(), String> {
        let id = line.trim_ascii();
        if !id.is_empty() {
            out.push(Access { time_ns: 0, object: object(id), index: 0, pages: 1, write: false });
        }
        Ok(())
    }
}

/// The object that a text names.
pub(super) fn object(id: &[u8]) -> u64 {
    number(id).unwrap_or_else(|| XxHash64::oneshot(0, id))
}
