//! Object ids, one per line, as libCacheSim's `txt`: each line is an access to an object of one page.
//!
//! A line that is a number is the object's number. Other text is replaced by its 64-bit xxHash, so two texts
//! collide with a probability of 2^-64. Blank lines are skipped.

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

/// The object number of an id.
pub(super) fn object(id: &[u8]) -> u64 {
    number(id).unwrap_or_else(|| XxHash64::oneshot(0, id))
}
