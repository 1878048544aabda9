//! Offsets of the members of kernel structures, from the kernel's type information (BTF),
//! `/sys/kernel/btf/vmlinux`.
//!
//! ```text
//!   header   magic, offsets of types and strings
//!   types    name │ kind, number of members │ size or type │ members    one type after the other
//!                                                            of a struct: name │ type │ offset in bits
//!   strings  NUL-terminated names
//! ```
//!
//! Little-endian machines only. The format is that of `Documentation/bpf/btf.rst`.

use std::collections::BTreeMap;
use std::path::Path;

/// The kernel's type information; exists if it was built with CONFIG_DEBUG_INFO_BTF.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u64 = 0xeb9f;
const STRUCT: u32 = 4;
const BITS: u32 = 8;

/// Why an offset is not known.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BtfError {
    /// The type information is damaged, or in a newer format.
    #[error("cannot parse the kernel's type information (BTF) at byte {0}")]
    Damaged(usize),
    /// There is no structure of that name with that member.
    #[error("the kernel's `struct {structure}` does not exist or has no member `{member}`")]
    Missing { structure: String, member: String },
}

/// Byte offsets of `members` of `structure`, according to the BTF data in `bytes`.
pub fn member_offsets(bytes: &[u8], structure: &str, members: &[&str]) -> Result<Vec<usize>, BtfError> {
    let found = structures(bytes, structure)?;
    let offset = |member: &&str| {
        let missing = || BtfError::Missing { structure: structure.into(), member: member.to_string() };
        found.get(*member).copied().ok_or_else(missing)
    };
    members.iter().map(offset).collect()
}

/// Byte offsets of all members of the structures of that name, except bit-fields.
fn structures<'a>(bytes: &'a [u8], structure: &str) -> Result<BTreeMap<&'a str, usize>, BtfError> {
    let file = Part { bytes, start: 0 };
    if file.number(0, 2)? != MAGIC {
        return Err(BtfError::Damaged(0));
    }
    let header = file.word(4)? as usize;
    let part = |at: usize| -> Result<Part, BtfError> {
        let start = header.saturating_add(file.word(at)? as usize);
        let end = start.saturating_add(file.word(at + 4)? as usize);
        bytes.get(start..end).map(|bytes| Part { bytes, start }).ok_or(BtfError::Damaged(at))
    };
    let (types, strings) = (part(8)?, part(16)?);
    let mut members = BTreeMap::new();
    let mut at = 0;
    while at < types.bytes.len() {
        let (name, info) = (types.word(at)?, types.word(at + 4)?);
        let (kind, parts) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let has_bit_fields = info >> 31 != 0;
        let parts_at = at + 12;
        if kind == STRUCT && strings.text(name)? == structure {
            for part in (0..parts).map(|number| parts_at + 12 * number) {
                let offset = types.word(part + 8)?;
                // With the kind flag, the upper 8 bits of the offset are the size of a bit-field.
                if !has_bit_fields || offset >> 24 == 0 {
                    members.insert(strings.text(types.word(part)?)?, (offset / BITS) as usize);
                }
            }
        }
        at = parts_at + size_of_parts(kind, parts).ok_or(BtfError::Damaged(types.start + at))?;
    }
    Ok(members)
}

/// Size of the data that follows the three common words of a type.
fn size_of_parts(kind: u32, parts: usize) -> Option<usize> {
    Some(match kind {
        // PTR, FWD, TYPEDEF, qualifiers, FUNC, FLOAT, TYPE_TAG.
        2 | 7..=12 | 16 | 18 => 0,
        // INT, VAR, DECL_TAG.
        1 | 14 | 17 => 4,
        // ARRAY.
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64.
        4 | 5 | 15 | 19 => 12 * parts,
        // ENUM, FUNC_PROTO.
        6 | 13 => 8 * parts,
        _ => return None,
    })
}

/// A section of the BTF data with its offset in the whole, for error messages.
struct Part<'a> {
    bytes: &'a [u8],
    start: usize,
}

impl<'a> Part<'a> {
    fn number(&self, at: usize, size: usize) -> Result<u64, BtfError> {
        let bytes = at.checked_add(size).and_then(|end| self.bytes.get(at..end));
        let bytes = bytes.ok_or(BtfError::Damaged(self.start.saturating_add(at)))?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn word(&self, at: usize) -> Result<u32, BtfError> {
        Ok(self.number(at, 4)? as u32)
    }

    fn text(&self, at: u32) -> Result<&'a str, BtfError> {
        let bytes = self.bytes.get(at as usize..).ok_or(BtfError::Damaged(self.start))?;
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| BtfError::Damaged(self.start + at as usize))
    }
}

/// Like [`member_offsets`], for the running kernel.
pub fn of_this_kernel(structure: &str, members: &[&str]) -> std::io::Result<Vec<usize>> {
    let error = |source: String| std::io::Error::other(format!("{VMLINUX}: {source}"));
    let bytes = std::fs::read(Path::new(VMLINUX)).map_err(|source| error(source.to_string()))?;
    member_offsets(&bytes, structure, members).map_err(|source| error(source.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// BTF data with an int, `struct task` with members at bytes 8 and 16 and a bit-field, and a pointer.
    fn description() -> Vec<u8> {
        let strings = b"\0int\0task\0seq\0bit\0work\0";
        let types: [u32; 22] = [
            [1, 1 << 24, 4, 32].as_slice(),
            &[5, 1 << 31 | STRUCT << 24 | 3, 24],
            &[10, 1, 64],
            &[14, 1, 3 << 24 | 96],
            &[18, 1, 128],
            &[0, 2 << 24, 1],
            &[0, 7 << 24, 0],
        ]
        .concat()
        .try_into()
        .unwrap();
        let (length, after) = (types.len() as u32 * 4, strings.len() as u32);
        let header = [MAGIC as u32 | 1 << 16, 24, 0, length, length, after];
        let words = header.iter().chain(&types).flat_map(|word| word.to_le_bytes());
        words.chain(strings.iter().copied()).collect()
    }

    #[test]
    fn members_are_found() {
        let offsets = |members: &[&str]| member_offsets(&description(), "task", members);
        assert_eq!(offsets(&["work", "seq"]), Ok(vec![16, 8]));
        let missing = |member: &str| BtfError::Missing { structure: "task".into(), member: member.into() };
        assert_eq!(offsets(&["seq", "bit"]), Err(missing("bit")));
        let other = member_offsets(&description(), "int", &["seq"]).unwrap_err();
        assert_eq!(other.to_string(), "the kernel's `struct int` does not exist or has no member `seq`");
    }

    #[test]
    fn what_is_no_description_is_refused() {
        let mut bytes = description();
        bytes[24 + 7] = 31;
        assert_eq!(member_offsets(&bytes, "task", &["seq"]), Err(BtfError::Damaged(24)));
        assert_eq!(member_offsets(b"ELF", "task", &["seq"]), Err(BtfError::Damaged(0)));
    }

    proptest! {
        #[test]
        fn damage_is_an_error_and_no_panic(cut in 0usize..140, at in 0usize..140, byte in any::<u8>()) {
            let mut bytes = description();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            let _ = member_offsets(&bytes, "task", &["seq", "work"]);
            if cut < description().len() {
                let cut = member_offsets(&description()[..cut], "task", &["seq"]);
                prop_assert!(matches!(cut, Err(BtfError::Damaged(_))));
            }
        }
    }
}
