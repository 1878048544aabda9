//! What a tree's functions were asked last, in a file that two processes map: it tells what crashed, or does not end.
//!
//! ```text
//!   child   mmtwin_decide_X(state) ─► number, count, state ─► sequence + 1 ─► X ─► sequence + 1
//!   parent  polls sequence: odd and the same for seconds ─► X does not end; the child is dead ─► X crashed if it is odd
//! ```
//!
//! `c/mmtwin.h` has the same structure. Noting costs a copy of the record, some nanoseconds; a process that nobody watches does not.
#![allow(unsafe_code)]

use crate::decision::{DECISIONS, Decision};
use memmap2::{MmapMut, MmapOptions};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of the state: more than the largest record has, that of watermarks.
pub const WORDS: usize = 2048;
/// As many decisions as there is room for counting; a constant of its own, so that an object is good as long as it is not changed.
pub const MOST_DECISIONS: usize = 128;
const _: () = assert!(DECISIONS.len() <= MOST_DECISIONS);

/// Words before the state: the sequence, the decision, and how often each was asked.
const HEAD: usize = 2 + MOST_DECISIONS;
/// The size of the structure in the shared file.
pub(crate) const BYTES: usize = (HEAD + WORDS) * size_of::<u64>();

/// What a tree's functions are asked, as two processes see it.
pub struct Note(MmapMut);

/// A decision that was asked, with the state that it was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The name of the function in the kernel.
    pub function: &'static str,
    /// The fields of the record that it was asked with, by name.
    pub state: String,
}

impl Note {
    /// Maps the file at `path`, which is made if it is not there.
    pub fn map(path: &Path) -> io::Result<Note> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(BYTES as u64)?;
        // SAFETY: the file is private to this run and only ever as long as it is now; both sides write whole words or bytes of a
        // record, and what a reader makes of them is checked.
        let map = unsafe { MmapOptions::new().len(BYTES).map_mut(&file)? };
        Ok(Note(map))
    }

    /// The address, for the object of a tree. The map lives as long as the process, as the object does.
    pub(crate) fn leak(self) -> *mut u8 {
        Box::leak(Box::new(self.0)).as_mut_ptr()
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = &self.0[at * 8..at * 8 + 8];
        // SAFETY: the map begins at a page, so the word is aligned, and it is there as long as `self` is.
        unsafe { AtomicU64::from_ptr(bytes.as_ptr().cast_mut().cast()) }.load(Ordering::Acquire)
    }

    /// How often a decision began or ended.
    pub fn sequence(&self) -> u64 {
        self.word(0)
    }

    /// How often a decision was asked.
    pub fn times_asked(&self, decision: &Decision) -> u64 {
        self.word(2 + decision.number())
    }

    /// The decision that is being made, if one is.
    pub fn asked(&self) -> Option<Asked> {
        if self.sequence().is_multiple_of(2) {
            return None;
        }
        let decision = DECISIONS.get(usize::try_from(self.word(1)).ok()?)?;
        let mut at = HEAD * size_of::<u64>();
        let mut state = Vec::new();
        for field in decision.slot.fields() {
            let size = if field.c_type.ends_with("long long") { 8 } else { 4 };
            at = at.next_multiple_of(size);
            let count = field.elements.unwrap_or(1);
            let values: Vec<String> =
                (0..count).filter_map(|n| number(self.0.get(at + n * size..)?, field.c_type)).collect();
            at += count * size;
            // Of long arrays the first entries say what they are.
            let (shown, rest) = values.split_at(values.len().min(SHOWN));
            let more = if rest.is_empty() { "" } else { " ..." };
            state.push(match field.elements {
                None => format!("{} = {}", field.name, shown.concat()),
                Some(_) => format!("{} = [{}{more}]", field.name, shown.join(", ")),
            });
        }
        Some(Asked { function: decision.name, state: state.join(", ") })
    }
}

/// How many elements of an array are shown.
const SHOWN: usize = 8;

fn number(bytes: &[u8], c_type: &str) -> Option<String> {
    let four = || <[u8; 4]>::try_from(bytes.get(..4)?).ok();
    let eight = || <[u8; 8]>::try_from(bytes.get(..8)?).ok();
    Some(match c_type {
        "int" => i32::from_ne_bytes(four()?).to_string(),
        "unsigned int" => u32::from_ne_bytes(four()?).to_string(),
        "long long" => i64::from_ne_bytes(eight()?).to_string(),
        _ => u64::from_ne_bytes(eight()?).to_string(),
    })
}
