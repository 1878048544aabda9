//! Output of valgrind's lackey: every load, store and instruction fetch of a program (`valgrind --tool=lackey
//! --trace-mem=yes --log-file=trace.txt COMMAND`).
//!
//! ```text
//!   ==4711== Lackey, an example Valgrind tool      left out, as are valgrind's warnings (`--4711-- ...`)
//!   I  0401ab70,3                                  instruction: address (hexadecimal), bytes
//!    L 1fff000740,8                                load
//!    S 1fff000748,8                                store
//!    M 04036a40,4                                  modify: load and store
//! ```
//!
//! The format is that of valgrind 3.19 (manual, "Lackey: an example tool"). The address space is one object,
//! number 0, and page numbers are virtual. Accesses have no time.

use super::lines::{LineFormat, number, shown};
use super::{Access, PAGE_SIZE, span};

pub(super) struct Lackey;

impl LineFormat for Lackey {
    const ENDS_LINES: bool = true;

    fn line(&mut self, line: &[u8], out: &mut Vec<Access>) -> Result<(), String> {
        if is_comment(line) || line.is_empty() {
            return Ok(());
        }
        let wrong = || {
            format!(
                "`{}` must be `I  ADDRESS,BYTES`, ` L ADDRESS,BYTES`, ` S ...` or ` M ...`; where a program's \
                 output is in between, record with --log-file",
                shown(line)
            )
        };
        out.push(access(line).ok_or_else(wrong)?);
        Ok(())
    }
}

fn is_comment(line: &[u8]) -> bool {
    line.starts_with(b"==") || line.starts_with(b"--")
}

fn access(line: &[u8]) -> Option<Access> {
    let (kind, place) = line.split_at_checked(3)?;
    let write = match kind {
        b"I  " | b" L " => false,
        b" S " | b" M " => true,
        _ => return None,
    };
    let comma = place.iter().position(|&byte| byte == b',')?;
    let address = u64::from_str_radix(std::str::from_utf8(&place[..comma]).ok()?, 16).ok()?;
    let (index, pages) = span(address, number(&place[comma + 1..])?, PAGE_SIZE)?;
    (pages > 0).then_some(Access { time_ns: 0, object: 0, index, pages, write })
}

/// Whether a line is an access or the heading that lackey prints.
pub(super) fn plausible(line: &[u8]) -> bool {
    access(line).is_some() || is_comment(line) && line.windows(6).any(|word| word == b"Lackey")
}
