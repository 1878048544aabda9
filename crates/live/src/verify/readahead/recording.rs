//! What kernels read ahead, kept so that the twin can be judged without them.
//!
//! ```text
//!   data/recordings/readahead-6.18.44/
//!     readahead.toml               kernel, cases            Recording
//!     sequential-4k.reads.zst      a line a read            reads
//!
//!   0 32 1: 64-95 96-127/5         descriptor, first page, pages: what came in, the last 32 pages as one folio (2^5)
//!   0 96 1 load: 128-159           the same of loads or stores through the mapping, which is of the first descriptor
//! ```

use std::fs;
use std::io::{self};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim::readahead::{Access, By, FileFolio};

use super::Brought;
use super::case::Case;
use crate::recordings::{RecordingError, all_with_file, description, unpacked_text, write, write_packed};
use crate::verify::RecordedKernel;

const FILE: &str = "readahead.toml";
/// Tens of times what a recording has.
const MOST_BYTES: u64 = 1 << 26;

/// The content of `readahead.toml`, and where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Release of the kernel.
    pub kernel: String,
    /// What it ran on, for people.
    pub machine: String,
    /// What ran.
    pub cases: Vec<Case>,
    #[serde(skip)]
    directory: PathBuf,
}

impl Recording {
    /// Reads the recording in `directory`.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let recording: Recording = description(directory, FILE)?;
        Ok(Recording { directory: directory.to_path_buf(), ..recording })
    }

    /// Writes a new one into `directory`, which is made if it is not there.
    pub fn write(
        directory: &Path,
        kernel: String,
        machine: String,
        cases: &[(Case, Vec<Brought>)],
    ) -> Result<(), RecordingError> {
        let io = |source| RecordingError::Io { file: directory.display().to_string(), source };
        fs::create_dir_all(directory).map_err(io)?;
        for (case, reads) in cases {
            let lines: Vec<String> = reads.iter().map(line).collect();
            let file = directory.join(format!("{}.reads.zst", case.name));
            write_packed(&file, lines.join("\n").as_bytes(), zstd::DEFAULT_COMPRESSION_LEVEL).map_err(io)?;
        }
        let cases = cases.iter().map(|(case, _)| case.clone()).collect();
        let recording = Recording { kernel, machine, cases, directory: PathBuf::new() };
        let text = toml::to_string(&recording).map_err(|error| io(io::Error::other(error)))?;
        write(&directory.join(FILE), text.as_bytes()).map_err(io)
    }

    /// The reads of a case, and what each brought in.
    pub fn reads(&self, case: &Case) -> Result<Vec<Brought>, RecordingError> {
        let path = self.directory.join(format!("{}.reads.zst", case.name));
        let reads = read_back(&path, case.descriptors.len())?;
        let last = |access: &Access| access.index.checked_add(access.pages);
        let is_mapped = |access: &Access| {
            case.mapping.is_some() && last(access).is_some_and(|last| last <= case.file_pages)
        };
        let strays = |(access, _): &Brought| access.by != By::Read && !is_mapped(access);
        match reads.iter().position(strays) {
            None => Ok(reads),
            Some(number) => Err(RecordingError::Stream {
                file: path.display().to_string(),
                place: format!("line {}", number + 1),
                problem: format!("case {} of {FILE} has mapped no such pages", case.name),
            }),
        }
    }
}

/// The reads by so many descriptors that a file tells of, and what each brought in.
pub(in crate::verify) fn read_back(path: &Path, descriptors: usize) -> Result<Vec<Brought>, RecordingError> {
    let (file, text) = unpacked_text(path, MOST_BYTES)?;
    let parse = |(number, line): (usize, &str)| {
        let known = |(access, _): &Brought| (access.descriptor as usize) < descriptors;
        parse(line).filter(known).ok_or_else(|| RecordingError::Stream {
            file: file.clone(),
            place: format!("line {}", number + 1),
            problem: format!("`{line}`: expected descriptor, page, pages: folios that came in"),
        })
    };
    text.lines().enumerate().map(parse).collect()
}

fn line((access, brought): &Brought) -> String {
    let runs = brought.chunk_by(|a, b| a.pages().end == b.index && a.order == b.order);
    let run = |run: &[FileFolio]| {
        let (first, last) = (run[0], run[run.len() - 1]);
        let pages = format!(" {}-{}", first.index, last.pages().end - 1);
        if first.order == 0 { pages } else { format!("{pages}/{}", first.order) }
    };
    let runs: String = runs.map(run).collect();
    let by = match access.by {
        By::Read => "",
        By::Load => " load",
        By::Store => " store",
    };
    format!("{} {} {}{by}:{runs}", access.descriptor, access.index, access.pages)
}

fn parse(line: &str) -> Option<Brought> {
    let (access, runs) = line.split_once(':')?;
    let words: Vec<&str> = access.split(' ').collect();
    let (numbers, by) = match words[..] {
        [.., "load"] => (&words[..words.len() - 1], By::Load),
        [.., "store"] => (&words[..words.len() - 1], By::Store),
        _ => (&words[..], By::Read),
    };
    let numbers: Vec<u32> = numbers.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [descriptor, index, pages] = numbers[..] else { return None };
    if by != By::Read && descriptor > 0 {
        return None;
    }
    let mut brought = Vec::new();
    for run in runs.split_whitespace() {
        let (pages, order) = run.split_once('/').unwrap_or((run, "0"));
        let (first, last) = pages.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let order: u8 = order.parse().ok().filter(|&order| order < 16)?;
        let pages = last.checked_add(1)?.checked_sub(first)?;
        if !(1..=1 << 20).contains(&pages) || !pages.is_multiple_of(1 << order) {
            return None;
        }
        brought.extend((first..=last).step_by(1 << order).map(|index| FileFolio { index, order }));
    }
    Some((Access { by, descriptor, index, pages }, brought))
}

impl RecordedKernel for Recording {
    fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
        all_with_file(directory, FILE, Recording::open)
    }

    fn kernel(&self) -> &str {
        &self.kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let access = Access { by: By::Read, descriptor: 1, index: 32, pages: 7 };
        let single = |index| FileFolio { index, order: 0 };
        let four = |index| FileFolio { index, order: 2 };
        let mixed = vec![single(32), single(33), single(34), single(64), four(36), four(40), single(44)];
        for brought in [vec![], vec![single(5)], vec![single(64), single(63)], mixed.clone()] {
            let read = (access, brought);
            assert_eq!(parse(&line(&read)), Some(read));
        }
        assert_eq!(line(&(access, mixed)), "1 32 7: 32-34 64-64 36-43/2 44-44");
        for (by, word) in [(By::Load, "load"), (By::Store, "store")] {
            let touched = (Access { by, descriptor: 0, ..access }, vec![single(32)]);
            assert_eq!(line(&touched), format!("0 32 7 {word}: 32-32"));
            assert_eq!(parse(&line(&touched)), Some(touched));
        }
        let of_the_mapping = ["1 2 3 load: 4-5", "0 2 load: 4-5", "load: 4-5", "0 2 3 loads: 4-5"];
        assert_eq!(of_the_mapping.map(parse), [None, None, None, None]);
        let wrong = ["", "1 2: 3-4", "1 2 3 4-5", "1 2 3: 5-4", "1 2 3: x-4", "1 2 3: 0-4294967295"];
        for wrong in wrong.into_iter().chain([
            "1 2 3: 4-6/2",
            "1 2 3: 4-7/",
            "1 2 3: 0-65535/16",
            "1 2 3: 4294967295-4294967295",
        ]) {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
