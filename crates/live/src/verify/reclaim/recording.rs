//! Recordings of access sequences on real kernels, so that the twin can be verified without these kernels.
//!
//! ```text
//!   data/recordings/reclaim-6.12.95/
//!     reclaim.toml                           kernel, cases, counters             Recording
//!     zipf-multi-gen.hits.zst                a bit per access                    residency
//!     zipf-multi-gen.evictions.zst           stays that ended, in order          residency
//!     zipf-multi-gen.batches.zst             how many ended at a time            residency
//!     zipf-multi-gen.generations.csv.zst     sizes at some of the accesses       Generation
//!     zipf-0.9-classic.accesses.zst          pages, if they are not those of a named sequence
//!     scan-classic.reads.zst                 with readahead: reads, and the folios that each brought in
//! ```

use std::fs::{self};
use std::io::{self};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use workload::access::sequences::{Operation, Sequence};

use super::case::{Case, Way};
use super::residency::{Residency, stays_of_folios};
use crate::recordings::{
    RecordingError, all_with_file, check_cpus, description, unpacked, write, write_packed,
};
use crate::verify::RecordedKernel;
use crate::verify::readahead::{Brought, read_back};

/// The file name of a recording, which has its own directory.
const FILE: &str = "reclaim.toml";
/// Size limit, tens of times the size of a recording.
const MOST_BYTES: u64 = 1 << 26;
/// Size limit, tens of times the size of a recorded file.
const MOST_PAGES: u32 = 1 << 22;

/// The contents of `reclaim.toml`, and the directory it is in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The kernel release.
    pub kernel: String,
    /// The machine, for reports.
    pub machine: String,
    /// Number of its CPUs.
    pub cpus: u16,
    pub cases: Vec<Case>,
    #[serde(skip)]
    directory: PathBuf,
}

/// The size of one generation at some time (`struct lru_gen_folio`, `nr_pages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Number of the access before which it was read.
    pub access: u32,
    /// Sequence number of the generation.
    pub seq: u64,
    /// Anonymous pages.
    pub anon: u64,
    /// File pages.
    pub file: u64,
}

impl Recording {
    /// A recording without cases.
    pub fn new(kernel: String, machine: String, cpus: u16) -> Recording {
        Recording { kernel, machine, cpus, cases: Vec::new(), directory: PathBuf::new() }
    }

    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let recording: Recording = description(directory, FILE)?;
        check_cpus(recording.cpus)
            .map_err(|problem| RecordingError::of_description(directory, FILE, problem))?;
        Ok(Recording { directory: directory.to_path_buf(), ..recording })
    }

    /// The accesses of a case.
    pub fn operations(&self, case: &Case) -> Result<Vec<Operation>, RecordingError> {
        if let Some(name) = &case.sequence {
            let unknown = || {
                let problem = format!("{}: there is no sequence `{name}`", case.name);
                RecordingError::of_description(&self.directory, FILE, problem)
            };
            return Ok(Sequence::named(name).ok_or_else(unknown)?.operations());
        }
        if let Some(reads) = self.reads(case)? {
            return Ok(reads.iter().map(|(read, _)| Operation::Read(read.index)).collect());
        }
        let access = if case.way == Way::RandomMapping { Operation::MapLoad } else { Operation::Read };
        let (file, bytes) = self.unpacked(case, "accesses")?;
        let words = bytes.chunks_exact(4).filter_map(|word| word.first_chunk());
        let pages: Vec<u32> = words.map(|word| u32::from_le_bytes(*word)).collect();
        match pages.iter().position(|&page| page >= MOST_PAGES) {
            None => Ok(pages.into_iter().map(access).collect()),
            Some(number) => Err(RecordingError::Stream {
                file,
                place: format!("access {number}"),
                problem: format!("page {}: a file has at most {MOST_PAGES} pages", pages[number]),
            }),
        }
    }

    /// The reads of a case, in the way that it says, with the folios that each brought in; `None` without
    /// readahead.
    fn reads(&self, case: &Case) -> Result<Option<Vec<Brought>>, RecordingError> {
        let Way::Readahead { request_pages, file_pages, .. } = case.way else { return Ok(None) };
        let path = self.file(case, "reads");
        let reads = read_back(&path, 1)?;
        let fits = |(read, folios): &Brought| {
            let (end, most) = (read.index.checked_add(request_pages), file_pages.min(MOST_PAGES));
            read.pages == request_pages
                && end.is_some_and(|end| end <= most)
                && folios.iter().all(|folio| folio.pages().end <= most)
        };
        match reads.iter().position(|read| !fits(read)) {
            None => Ok(Some(reads)),
            Some(number) => Err(RecordingError::Stream {
                file: path.display().to_string(),
                place: format!("line {}", number + 1),
                problem: format!("expected a read of {request_pages} pages of {file_pages}, as {FILE} says"),
            }),
        }
    }

    /// Hits, misses and evictions of a case.
    pub fn residency(&self, case: &Case, operations: &[Operation]) -> Result<Residency, RecordingError> {
        let reads = self.reads(case)?;
        let stays = reads.map(|reads| stays_of_folios(reads.iter().map(|(_, folios)| folios.as_slice())));
        let (_, hits) = self.unpacked(case, "hits")?;
        let (file, evictions) = self.unpacked(case, "evictions")?;
        let wrong = |file, problem| RecordingError::Stream { file, place: "with its hits".into(), problem };
        let mut residency = Residency::decode(operations, stays, &hits, &evictions)
            .map_err(|problem| wrong(file, problem))?;
        if case.batches {
            let (file, batches) = self.unpacked(case, "batches")?;
            residency.decode_batches(&batches).map_err(|problem| wrong(file, problem))?;
        }
        Ok(residency)
    }

    /// The sizes of the generations of a case on the multi-gen LRU.
    pub fn generations(&self, case: &Case) -> Result<Vec<Generation>, RecordingError> {
        let (file, bytes) = self.unpacked(case, "generations.csv")?;
        let text = String::from_utf8_lossy(&bytes);
        let mut generations = Vec::new();
        for (number, line) in text.lines().enumerate().skip(1) {
            let numbers: Option<Vec<u64>> = line.split(',').map(|cell| cell.parse().ok()).collect();
            let generation = numbers.and_then(|numbers| match numbers[..] {
                [access, seq, anon, file] => {
                    Some(Generation { access: access.try_into().ok()?, seq, anon, file })
                }
                _ => None,
            });
            generations.push(generation.ok_or_else(|| RecordingError::Stream {
                file: file.clone(),
                place: format!("line {}", number + 1),
                problem: "expected access, generation and pages of both types".into(),
            })?);
        }
        Ok(generations)
    }

    /// Writes a case of a named sequence and its residency, if that is known, into `directory`, which is created if necessary.
    pub fn add(
        &mut self,
        directory: &Path,
        mut case: Case,
        residency: Option<&Residency>,
    ) -> Result<(), RecordingError> {
        let io = |source| RecordingError::Io { file: directory.display().to_string(), source };
        fs::create_dir_all(directory).map_err(io)?;
        self.directory = directory.to_path_buf();
        if let Some(residency) = residency {
            let batches = residency.encode_batches();
            case.batches = batches.is_some();
            let files = residency.encode().into_iter().chain(batches).zip(["hits", "evictions", "batches"]);
            for (bytes, kind) in files {
                write_packed(&self.file(&case, kind), &bytes, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(io)?;
            }
        }
        self.cases.push(case);
        let text = toml::to_string(self).map_err(|error| io(io::Error::other(error)))?;
        write(&directory.join(FILE), text.as_bytes()).map_err(io)
    }

    fn file(&self, case: &Case, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}.zst", case.name))
    }

    fn unpacked(&self, case: &Case, kind: &str) -> Result<(String, Vec<u8>), RecordingError> {
        unpacked(&self.file(case, kind), MOST_BYTES)
    }
}

impl RecordedKernel for Recording {
    fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
        all_with_file(directory, FILE, Recording::open)
    }

    fn kernel(&self) -> &str {
        &self.kernel
    }
}
