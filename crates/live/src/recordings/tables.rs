//! The tables that go with an event stream: samples of the per-CPU lists, and operations that have no
//! tracepoint.

use std::path::Path;

use super::RecordingError;

const MOST_BYTES: u64 = 1 << 28;

/// `struct per_cpu_pages` of a CPU and zone, sampled within the event of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Number of the record.
    pub record: u32,
    pub cpu: u16,
    /// Index of the zone.
    pub zone: u8,
    /// Pages of 4 KiB on the lists.
    pub count: i32,
    /// The lists are drained to the buddy lists above this.
    pub high: i32,
    /// Number of consecutively freed pages.
    pub free_count: i32,
    /// log2 of the number of batches that the next refill takes.
    pub alloc_factor: u8,
    /// Bit 0: `PCPF_PREV_FREE_HIGH_ORDER`; bit 1: `PCPF_FREE_HIGH_BATCH`.
    pub flags: u8,
}

/// An operation that has no tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// The free of this record bypassed the per-CPU lists.
    FreeToBuddy,
    /// The allocation of this record bypassed the per-CPU lists. Not in the files: inferred.
    AllocFromBuddy,
    /// This many pages had been removed from some list in bulk before this record.
    BulkAlloc(u32),
    /// This many pages had been removed from the list of the block that this record allocates.
    Skipped(u32),
}

/// An operation without a tracepoint, and the record at which it becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Number of the record.
    pub record: u32,
    pub cpu: u16,
    pub hidden: Hidden,
}

/// Reads `states.csv.zst`, which is ordered by record.
pub fn states(path: &Path) -> Result<Vec<State>, RecordingError> {
    let (file, text) = super::unpacked_text(path, MOST_BYTES)?;
    let mut states = Vec::new();
    for (line, cells) in rows(&file, &text, 9)? {
        let state = || {
            Some(State {
                record: cells[0].parse().ok()?,
                cpu: cells[2].parse().ok()?,
                zone: cells[3].parse().ok()?,
                count: cells[4].parse().ok()?,
                high: cells[5].parse().ok()?,
                free_count: cells[6].parse().ok()?,
                alloc_factor: cells[7].parse().ok()?,
                flags: cells[8].parse().ok()?,
            })
        };
        states.push(state().ok_or_else(|| wrong(&file, line, "expected whole numbers after the kind"))?);
        ascending(&file, line, states.iter().rev().map(|state| state.record))?;
    }
    Ok(states)
}

/// Reads `annotations.csv.zst`, which is ordered by record.
pub fn annotations(path: &Path) -> Result<Vec<Annotation>, RecordingError> {
    let (file, text) = super::unpacked_text(path, MOST_BYTES)?;
    let mut annotations = Vec::new();
    for (line, cells) in rows(&file, &text, 4)? {
        let annotation = || {
            let pages = cells[3].parse().ok()?;
            let hidden = match cells[1] {
                "free_to_buddy" => Hidden::FreeToBuddy,
                "bulk_alloc_before" => Hidden::BulkAlloc(pages),
                "skipped_before" => Hidden::Skipped(pages),
                _ => return None,
            };
            Some(Annotation { record: cells[0].parse().ok()?, cpu: cells[2].parse().ok()?, hidden })
        };
        let problem = "expected record, free_to_buddy, bulk_alloc_before or skipped_before, CPU, pages";
        annotations.push(annotation().ok_or_else(|| wrong(&file, line, problem))?);
        ascending(&file, line, annotations.iter().rev().map(|annotation| annotation.record))?;
    }
    Ok(annotations)
}

/// The rows after the heading, with their line numbers.
fn rows<'a>(file: &str, text: &'a str, cells: usize) -> Result<Vec<(usize, Vec<&'a str>)>, RecordingError> {
    let numbered = text.lines().enumerate().skip(1);
    let rows = numbered.map(|(index, line)| (index + 1, line.split(',').collect::<Vec<_>>()));
    rows.map(|(line, row)| {
        if row.len() == cells {
            Ok((line, row))
        } else {
            Err(wrong(file, line, &format!("expected {cells} cells")))
        }
    })
    .collect()
}

/// Checks that the newest record is not before the previous one.
fn ascending(
    file: &str,
    line: usize,
    mut newest_first: impl Iterator<Item = u32>,
) -> Result<(), RecordingError> {
    match (newest_first.next(), newest_first.next()) {
        (Some(newest), Some(before)) if newest < before => {
            Err(wrong(file, line, &format!("record {newest} comes after record {before}")))
        }
        _ => Ok(()),
    }
}

fn wrong(file: &str, line: usize, problem: &str) -> RecordingError {
    RecordingError::Stream {
        file: file.to_string(),
        place: format!("line {line}"),
        problem: problem.to_string(),
    }
}
