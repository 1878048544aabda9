//! The observed process: reads a file in a memory cgroup, one page at a time.
//!
//! This program is started again with a hidden subcommand that calls [`run`]. Everything that it needs is in
//! memory before it joins the cgroup, so that only pages of the file, and what the kernel needs for them, are
//! charged to the cgroup.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use workload::access::PAGE_SIZE;
use workload::access::sequences::{Operation, Sequence};

use super::memcg::STATISTICS;
use crate::verify::end_with_parent;

/// The hidden subcommand that calls [`run`].
pub const READER: &str = "reader";

/// Reads `file` in the order of `sequence` within the cgroup at `group`, and reads memory.stat every
/// `stat_reads` accesses.
pub fn run(sequence: &str, file: &Path, group: &Path, stat_reads: u32) -> io::Result<()> {
    end_with_parent()?;
    let unknown = || io::Error::other(format!("there is no sequence `{sequence}`"));
    let offsets: Option<Vec<u64>> = Sequence::named(sequence)
        .ok_or_else(unknown)?
        .operations()
        .into_iter()
        .map(|operation| match operation {
            Operation::Read(page) => Some(u64::from(page) * PAGE_SIZE),
            _ => None,
        })
        .collect();
    let offsets =
        offsets.ok_or_else(|| io::Error::other(format!("{sequence} has accesses other than reads")))?;
    stay_on_one_cpu()?;
    let file = File::open(file)?;
    // One page per miss: no readahead.
    fadvise(&file, 0, None, Advice::Random)?;
    let statistics = File::open(group.join(STATISTICS))?;
    let (mut page, mut text) = (vec![1; PAGE_SIZE as usize], vec![1; 4 * PAGE_SIZE as usize]);
    fs::write(group.join("cgroup.procs"), "0")?;
    for (access, offset) in (0u32..).zip(offsets) {
        file.read_exact_at(&mut page, offset)?;
        if stat_reads > 0 && access % stat_reads == 0 {
            let _ = statistics.read_at(&mut text, 0)?;
        }
    }
    Ok(())
}

/// Binds the process to one CPU: pages wait in that CPU's folio batch before they are added to the LRU.
pub(in crate::verify) fn stay_on_one_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
    let mut only = CpuSet::new();
    only.set(first.ok_or_else(|| io::Error::other("there is no CPU"))?);
    Ok(sched_setaffinity(None, &only)?)
}
