//! The cases on the kernel that runs here.
//!
//! ```text
//!   make a file of holes ─► nothing of it in memory ─► note what comes into the page cache
//!     time, pread, time, load ...         the events between two times belong to the access between them
//! ```
//!
//! A hole is read without touching the disk, but its pages are read ahead as any others are, and are there at once. The file
//! is on a disk whose limits are looked up in sysfs; TMPDIR says where. How much a page fault maps around itself is a file of
//! debugfs; where that is not to be seen, nobody can have changed it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use mm::readahead::FAULT_AROUND_BYTES;
use rustix::fs::{fadvise, major, minor};
use rustix::time::{ClockId, clock_gettime};
use sim::readahead::{Access, By, FileFolio};
use workload::access::PAGE_SIZE;

use super::Brought;
use super::case::{Case, FILE_PAGES, MappedCase, Plan, Said, plans};
use super::mapping::{Mapping, page_faults};
use crate::record::RecordError;
use crate::tracefs::Tracefs;
use crate::verify::VerifyError;
use crate::verify::failed;
use crate::verify::reclaim::page_events::{PageEvent, PageEvents};
use crate::verify::reclaim::{directory, reader::stay_on_one_cpu};

/// How much a page fault maps around itself.
const FAULT_AROUND: &str = "/sys/kernel/debug/fault_around_bytes";

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
    for plan in plans() {
        progress(&format!("recording: {}", plan.name));
        recorded.push(record_plan(&tracefs, plan, &place)?);
    }
    // A file system has large folios for all files or for none; reads at random do not show it.
    let large_folios = recorded.iter().flat_map(|(_, reads)| reads).flat_map(|(_, folios)| folios);
    let large_folios = large_folios.into_iter().any(|folio| folio.order > 0);
    recorded.iter_mut().for_each(|(case, _)| case.large_folios = large_folios);
    Ok(recorded)
}

/// Runs one case with a file in `place`.
fn record_plan(tracefs: &Tracefs, plan: Plan, place: &Path) -> Result<(Case, Vec<Brought>), VerifyError> {
    let at = |source| failed(place.display().to_string(), source);
    let Plan { name, descriptors, mapping, accesses } = plan;
    let file = tracefs.guard().file(place).map_err(at)?;
    file.as_file().set_len(u64::from(FILE_PAGES) * PAGE_SIZE).map_err(at)?;
    let metadata = file.as_file().metadata().map_err(at)?;
    let limit = |name: &str| limit(metadata.dev(), name);
    let (read_ahead_kb, max_sectors_kb) = (limit("read_ahead_kb")?, limit("max_sectors_kb")?);
    let fault_around_bytes = fault_around_bytes()?;
    let events = PageEvents::start(tracefs, &metadata)?;
    let (times, page_faults) = access(file.path(), &descriptors, mapping, &accesses).map_err(at)?;
    let mut brought: Vec<Brought> = accesses.into_iter().map(|access| (access, Vec::new())).collect();
    for event in events.end_timed()? {
        let PageEvent::Added(index) = event.event else { continue };
        let read = times.partition_point(|&time| time <= event.time);
        let Some((_, folios)) = read.checked_sub(1).and_then(|read| brought.get_mut(read)) else {
            continue;
        };
        folios.push(FileFolio { index, order: event.order as u8 });
    }
    let case = Case {
        name: name.into(),
        file_pages: FILE_PAGES,
        read_ahead_kb,
        max_sectors_kb,
        large_folios: false,
        descriptors,
        mapping: mapping.map(|said| MappedCase { said, fault_around_bytes, page_faults }),
    };
    Ok((case, brought))
}

/// `fault_around_bytes`. What cannot be read was not written either: debugfs is not mounted, or the kernel is locked down.
fn fault_around_bytes() -> Result<u64, VerifyError> {
    match fs::read_to_string(FAULT_AROUND) {
        Ok(text) => text.trim().parse().map_err(|error| failed(FAULT_AROUND, io::Error::other(error))),
        Err(_) => Ok(FAULT_AROUND_BYTES),
    }
}

/// A limit of the disk with number `device`; of a partition, that of the whole.
fn limit(device: u64, name: &str) -> Result<u64, VerifyError> {
    let block = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let own = format!("{block}/queue/{name}");
    let path = if Path::new(&own).exists() { own } else { format!("{block}/../queue/{name}") };
    let text = fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
    text.trim().parse().map_err(|error| failed(path, io::Error::other(error)))
}

/// Makes the accesses; when each began and when the last ended, and how many page faults there were.
fn access(
    path: &Path,
    descriptors: &[Said],
    mapping: Option<Said>,
    accesses: &[Access],
) -> io::Result<(Vec<u64>, u64)> {
    let descriptors = descriptors.iter().map(|&said| open(path, said)).collect::<io::Result<Vec<File>>>()?;
    let mapping = mapping.map(|said| Mapping::of(&descriptors[0], said)).transpose()?;
    let reads = accesses.iter().filter(|access| access.by == By::Read);
    let most = reads.map(|read| read.pages).max().unwrap_or(0);
    let mut buffer = vec![1; most as usize * PAGE_SIZE as usize];
    // Written to, so that noting a time is no page fault.
    let mut times = vec![1; accesses.len() + 1];
    let faults_before = page_faults()?;
    for (access, time) in accesses.iter().zip(&mut times) {
        *time = now();
        match &mapping {
            Some(mapping) if access.by != By::Read => {
                (access.index..access.index + access.pages)
                    .try_for_each(|page| mapping.touch(page, access.by))?;
            }
            _ => {
                let buffer = &mut buffer[..access.pages as usize * PAGE_SIZE as usize];
                // Short at the end of the file.
                descriptors[access.descriptor as usize]
                    .read_at(buffer, u64::from(access.index) * PAGE_SIZE)?;
            }
        }
    }
    times[accesses.len()] = now();
    Ok((times, page_faults()? - faults_before))
}

/// Opens the file and says what accesses are going to be like.
fn open(path: &Path, said: Said) -> io::Result<File> {
    let file = File::open(path)?;
    let advice = match said {
        Said::Normal => rustix::fs::Advice::Normal,
        Said::Sequential => rustix::fs::Advice::Sequential,
        Said::Random => rustix::fs::Advice::Random,
    };
    fadvise(&file, 0, None, advice)?;
    Ok(file)
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
