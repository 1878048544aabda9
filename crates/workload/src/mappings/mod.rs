//! Recorded mappings: the VMAs that processes map, change and unmap, and the first touch of each page.
//!
//! ```text
//!   process 0   exec   map-anon 100+64 rw   store 100, 101, 102 ...   fork ─► process 1   protect 110+4 none
//!   process 1                                                                store 100    exit
//! ```
//!
//! A recording has the system calls that change an address space, and the page faults, in order. The recorded
//! kernel used order-0 pages only, so the first touch of every page is a fault in the recording. The demand
//! is therefore the same for any sizes of folios in a replay. Later touches of a page that is present are not
//! recorded.
//!
//! | column | |
//! |---|---|
//! | `ms` | milliseconds since the row before |
//! | `process` | its number; in the order of their first rows |
//! | `operation` | see [`Operation`] |
//! | `page` | first page, relative to that of the process's previous row |
//! | `pages` | number of pages; for `fork`, the number of the child |
//! | `rights` | for `map-` and `protect`: 1 read, 2 write, 4 execute |

pub mod areas;
mod recorded_program;

pub use recorded_program::RecordedProgram;

use serde::Deserialize;
use std::io::Read;
use std::ops::Range;

/// A change of an address space, or a touch of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// The address space is replaced by that of another program.
    Exec,
    /// A child is created with a copy of the address space.
    Fork,
    /// The process exits.
    Exit,
    /// Private anonymous memory is mapped.
    MapAnon,
    /// A file is mapped privately.
    MapFile,
    /// A file or memory is mapped shared.
    MapShared,
    /// A range is unmapped.
    Unmap,
    /// Rights change (`mprotect`).
    Protect,
    /// Pages are dropped (`MADV_DONTNEED`).
    Dontneed,
    /// `MADV_HUGEPAGE`.
    Hugepage,
    /// `MADV_NOHUGEPAGE`.
    Nohugepage,
    /// Read faults on pages that are not present.
    Load,
    /// Write faults on pages that are not present or not writable.
    Store,
}

/// What a process does to its address space, in pages of 4 KiB at recorded addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub operation: Operation,
    /// The first page.
    pub page: u64,
    /// Number of pages; for a fork, the number of the child.
    pub pages: u64,
    /// Bits: 1 read, 2 write, 4 execute.
    pub rights: u8,
}

impl Change {
    /// The pages that it is about.
    pub fn range(&self) -> Range<u64> {
        self.page..self.page + self.pages
    }
}

/// A row of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Milliseconds since the recording began.
    pub milliseconds: u64,
    pub process: usize,
    pub change: Change,
}

/// A recording of all processes of a program.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// The rows in order.
    pub steps: Vec<Step>,
    /// Number of processes.
    pub processes: usize,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MappingsError {
    /// zstd cannot decompress it.
    #[error("recorded mappings: {0}")]
    Packed(#[from] std::io::Error),
    /// It decompresses to more than a recording of its size would.
    #[error(
        "recorded mappings: {packed} bytes decompress to more than {most}; the file is damaged or not a recording"
    )]
    TooLong {
        /// Size of the file in bytes.
        packed: usize,
        /// Most bytes that it may decompress to.
        most: u64,
    },
    /// A row is invalid.
    #[error("recorded mappings, row {row}: {problem}")]
    Row {
        /// Row number, from 1.
        row: usize,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Deserialize)]
struct Row {
    ms: u64,
    process: usize,
    operation: Operation,
    page: i64,
    pages: u64,
    rights: Option<u8>,
}

/// Most bytes of text per compressed byte; real recordings have a tenth of that. `ROOM` is added, so that
/// small files pass.
const TEXT_PER_BYTE: u64 = 200;
const ROOM: u64 = 1 << 20;
/// More bytes than any recording has.
const MOST_BYTES: u64 = 1 << 30;

/// Most pages that a row may touch on average (16 MiB), and how many more all rows together. Pages are
/// touched one by one, so their number decides how long a run takes.
const TOUCHED_PER_ROW: u64 = 4096;
const MORE_TOUCHED: u64 = 1 << 22;

/// Pages of an address space: 2^47 bytes in pages of 4 KiB, and the vsyscall page.
const MOST_PAGES: u64 = 1 << 52;

/// Compressed recordings of one program doing the same work in separate runs.
pub type Recordings = &'static [&'static [u8]];

macro_rules! recordings {
    ($($name:literal),*) => {
        &[$(include_bytes!(concat!("../../../../data/", $name, ".mappings.zst"))),*]
    };
}

/// Chromium of 2023 on a page that does what Speedometer 2 does: to-do lists of eight frameworks are filled,
/// ticked off and emptied, each in a frame of its own. docs/src/workloads/speedometer.md says how this and
/// the others were recorded.
pub const CHROMIUM: Recordings = recordings!(
    "speedometer",
    "speedometer-2",
    "speedometer-3",
    "speedometer-4",
    "speedometer-5",
    "speedometer-6"
);

/// The same Chromium with a long table that is sorted, filtered and edited.
pub const CHROMIUM_TABLE: Recordings =
    recordings!("chromium-table-1", "chromium-table-2", "chromium-table-3", "chromium-table-4");

/// The same Chromium with a chart that is redrawn repeatedly, in SVG and on a canvas.
pub const CHROMIUM_CHART: Recordings =
    recordings!("chromium-chart-1", "chromium-chart-2", "chromium-chart-3", "chromium-chart-4");

/// The same Chromium with a text editor that undoes what was typed.
pub const CHROMIUM_EDITOR: Recordings =
    recordings!("chromium-editor-1", "chromium-editor-2", "chromium-editor-3", "chromium-editor-4");

/// Redis: a child writes three snapshots while the parent keeps storing to a tenth of its keys.
pub const REDIS: Recordings = recordings!("redis");

/// A Java program whose heap grows; most of its objects soon become garbage.
pub const JVM: Recordings = recordings!("jvm");

/// A build of a part of a kernel: make, shells, compilers and the programs that they start.
pub const KERNEL_BUILD: Recordings = recordings!("kernel-build");

impl Mappings {
    /// Parses a recording that is compressed with zstd.
    pub fn parse(packed: &[u8]) -> Result<Mappings, MappingsError> {
        let mut text = Vec::new();
        let most = MOST_BYTES.min(packed.len() as u64 * TEXT_PER_BYTE + ROOM);
        if zstd::Decoder::new(packed)?.take(most + 1).read_to_end(&mut text)? as u64 > most {
            return Err(MappingsError::TooLong { packed: packed.len(), most });
        }
        let mut mappings = Mappings::default();
        let mut last: Vec<u64> = Vec::new();
        let (mut milliseconds, mut touched) = (0u64, 0u64);
        for (number, row) in csv::Reader::from_reader(&text[..]).deserialize::<Row>().enumerate() {
            let wrong = |problem: String| MappingsError::Row { row: number + 1, problem };
            let row = row.map_err(|error| wrong(error.to_string()))?;
            let known = |process: usize| process <= last.len() && process < 1 << 16;
            let child = if row.operation == Operation::Fork { row.pages as usize } else { row.process };
            if !known(row.process) || child > last.len() + 1 {
                return Err(wrong(format!("process {}: numbers ascend from 0", row.process)));
            }
            for process in [row.process, child] {
                if process == last.len() {
                    let page = last.get(row.process).copied().unwrap_or(0);
                    last.push(page);
                }
            }
            let page = last[row.process].checked_add_signed(row.page);
            let page = page.filter(|page| page.saturating_add(row.pages) <= MOST_PAGES);
            let page = page.ok_or_else(|| wrong("pages outside of any address space".into()))?;
            last[row.process] = page;
            if row.operation == Operation::Fork {
                last[child] = page;
            }
            milliseconds = milliseconds.saturating_add(row.ms);
            if matches!(row.operation, Operation::Load | Operation::Store) {
                touched = touched.saturating_add(row.pages);
            }
            if touched > MORE_TOUCHED + TOUCHED_PER_ROW * (number as u64 + 1) {
                return Err(wrong(format!(
                    "rows up to here touch {touched} pages, more than {TOUCHED_PER_ROW} each"
                )));
            }
            let Row { process, operation, pages, rights, .. } = row;
            let change = Change { operation, page, pages, rights: rights.unwrap_or(0) };
            mappings.steps.push(Step { milliseconds, process, change });
        }
        mappings.processes = last.len();
        Ok(mappings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rows: &str) -> Result<Mappings, MappingsError> {
        let text = format!("ms,process,operation,page,pages,rights\n{rows}");
        Mappings::parse(&zstd::encode_all(text.as_bytes(), 1).unwrap())
    }

    #[test]
    fn places_are_relative_to_a_process_s_row_before() {
        let mappings = parse("1,0,map-anon,100,8,3\n0,0,fork,0,1,\n2,1,store,3,1,\n0,0,load,1,2,\n").unwrap();
        let pages: Vec<(usize, u64)> =
            mappings.steps.iter().map(|step| (step.process, step.change.page)).collect();
        assert_eq!(pages, [(0, 100), (0, 100), (1, 103), (0, 101)]);
        assert_eq!((mappings.processes, mappings.steps[3].milliseconds), (2, 3));
    }

    #[test]
    fn nonsense_is_refused() {
        for rows in
            ["1,1,exec,0,0,\n", "1,0,load,-1,1,\n", "1,0,jump,0,0,\n", "1,0,fork,0,9,\n", "x,0,exec,0,0,\n"]
        {
            assert!(parse(rows).is_err(), "{rows}");
        }
        assert!(Mappings::parse(b"no zstd").is_err());
    }

    #[test]
    fn a_short_file_is_no_long_work() {
        let zeroes = zstd::encode_all(&vec![b'0'; 1 << 26][..], 1).unwrap();
        let refused = Mappings::parse(&zeroes).unwrap_err();
        assert!(
            matches!(refused, MappingsError::TooLong { packed, .. } if packed == zeroes.len()),
            "{refused}"
        );
        let refused =
            parse("0,0,map-anon,0,1099511627776,3\n0,0,load,0,1099511627776,\n").unwrap_err().to_string();
        assert!(refused.contains("row 2: rows up to here touch 1099511627776 pages"), "{refused}");
    }

    #[test]
    fn recordings_are_whole() {
        let whole = |packed: &&[u8]| {
            let mappings = Mappings::parse(packed).unwrap();
            let changes = mappings.steps.iter().map(|step| step.change);
            let stores = changes.filter(|change| change.operation == Operation::Store);
            (mappings.processes, mappings.steps.len(), stores.map(|change| change.pages).sum::<u64>())
        };
        let of = |recordings: Recordings| recordings.iter().map(whole).collect::<Vec<_>>();
        assert_eq!(
            of(CHROMIUM),
            [
                (6, 113_444, 257_634),
                (6, 119_710, 270_268),
                (6, 120_007, 259_540),
                (6, 121_108, 267_936),
                (6, 113_133, 247_536),
                (6, 111_680, 247_389)
            ]
        );
        assert_eq!(
            of(CHROMIUM_TABLE),
            [(6, 86_926, 177_911), (6, 87_014, 176_186), (6, 90_006, 182_243), (6, 86_452, 176_376)]
        );
        assert_eq!(
            of(CHROMIUM_CHART),
            [(6, 68_962, 156_554), (6, 70_385, 158_363), (6, 67_651, 156_838), (6, 65_081, 156_664)]
        );
        assert_eq!(
            of(CHROMIUM_EDITOR),
            [(6, 72_695, 123_001), (6, 72_743, 123_915), (6, 72_758, 124_550), (6, 69_611, 117_920)]
        );
        assert_eq!(of(REDIS), [(4, 30_938, 38_148)]);
        assert_eq!(of(JVM), [(1, 5_097, 70_155)]);
        assert_eq!(of(KERNEL_BUILD), [(599, 354_271, 742_717)]);
    }
}
