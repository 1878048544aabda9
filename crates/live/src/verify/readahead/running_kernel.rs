//! The cases on the kernel that runs here.
//!
//! ```text
//!   make a file of holes ─► nothing of it in memory ─► note what comes into the page cache
//!     time, pread, time, pread ...        the events between two times belong to the read between them
//! ```
//!
//! A hole is read without touching the disk, but its pages are read ahead as any others are. The file is on a disk whose
//! limits are looked up in sysfs; TMPDIR says where.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use mm::readahead::Advice;
use rustix::fs::{fadvise, major, minor};
use rustix::time::{ClockId, clock_gettime};
use sim::readahead::{Access, FileFolio};
use workload::access::PAGE_SIZE;

use super::Brought;
use super::case::{Case, FILE_PAGES, cases};
use crate::record::RecordError;
use crate::tracefs::Tracefs;
use crate::verify::VerifyError;
use crate::verify::failed;
use crate::verify::reclaim::page_events::{PageEvent, PageEvents};
use crate::verify::reclaim::{directory, reader::stay_on_one_cpu};

/// Why nothing can be recorded here.
pub fn obstacle() -> Option<String> {
    Tracefs::open().err().map(|error| error.to_string())
}

/// Runs all cases; `progress` is told what is going on.
pub fn record(progress: &mut dyn FnMut(&str)) -> Result<Vec<(Case, Vec<Brought>)>, VerifyError> {
    let tracefs = Tracefs::open().map_err(RecordError::from)?;
    let place = directory();
    let at = |source| failed(place.display().to_string(), source);
    stay_on_one_cpu().map_err(at)?;
    let mut recorded: Vec<(Case, Vec<Brought>)> = Vec::new();
    for (name, descriptors, reads) in cases() {
        progress(&format!("recording: {name}"));
        let file = tracefs.guard().file(&place).map_err(at)?;
        file.as_file().set_len(u64::from(FILE_PAGES) * PAGE_SIZE).map_err(at)?;
        let metadata = file.as_file().metadata().map_err(at)?;
        let limit = |name: &str| limit(metadata.dev(), name);
        let case = Case {
            name: name.into(),
            file_pages: FILE_PAGES,
            read_ahead_kb: limit("read_ahead_kb")?,
            max_sectors_kb: limit("max_sectors_kb")?,
            large_folios: false,
            descriptors,
        };
        let events = PageEvents::start(&tracefs, &metadata)?;
        let times = read(file.path(), &case.advice(), &reads).map_err(at)?;
        let mut brought: Vec<Brought> = reads.into_iter().map(|read| (read, Vec::new())).collect();
        for event in events.end_timed()? {
            let PageEvent::Added(index) = event.event else { continue };
            let read = times.partition_point(|&time| time <= event.time);
            let Some((_, folios)) = read.checked_sub(1).and_then(|read| brought.get_mut(read)) else {
                continue;
            };
            folios.push(FileFolio { index, order: event.order as u8 });
        }
        recorded.push((case, brought));
    }
    // A file system has large folios for all files or for none; reads at random do not show it.
    let large_folios = recorded.iter().flat_map(|(_, reads)| reads).flat_map(|(_, folios)| folios);
    let large_folios = large_folios.into_iter().any(|folio| folio.order > 0);
    recorded.iter_mut().for_each(|(case, _)| case.large_folios = large_folios);
    Ok(recorded)
}

/// A limit of the disk with number `device`; of a partition, that of the whole.
fn limit(device: u64, name: &str) -> Result<u64, VerifyError> {
    let block = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let own = format!("{block}/queue/{name}");
    let path = if Path::new(&own).exists() { own } else { format!("{block}/../queue/{name}") };
    let text = fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
    text.trim().parse().map_err(|error| failed(path, io::Error::other(error)))
}

/// Makes the reads; when each began, and when the last ended.
fn read(path: &Path, advice: &[Advice], reads: &[Access]) -> io::Result<Vec<u64>> {
    let mut descriptors = Vec::new();
    for advice in advice {
        let file = File::open(path)?;
        let said = match advice {
            Advice::Normal => rustix::fs::Advice::Normal,
            Advice::Sequential => rustix::fs::Advice::Sequential,
            Advice::Random => rustix::fs::Advice::Random,
        };
        fadvise(&file, 0, None, said)?;
        descriptors.push(file);
    }
    let most = reads.iter().map(|read| read.pages).max().unwrap_or(0);
    let mut buffer = vec![1; most as usize * PAGE_SIZE as usize];
    let mut times = Vec::with_capacity(reads.len() + 1);
    for read in reads {
        let buffer = &mut buffer[..read.pages as usize * PAGE_SIZE as usize];
        times.push(now());
        // Short at the end of the file.
        descriptors[read.descriptor as usize].read_at(buffer, u64::from(read.index) * PAGE_SIZE)?;
    }
    times.push(now());
    Ok(times)
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
