//! The observed process: reads a file in a memory cgroup, one page at a time, at once or in time with the clock.
//!
//! This program is started again with a hidden subcommand that calls [`run`]. Everything that it needs is in
//! memory before it joins the cgroup, so that only pages of the file, and what the kernel needs for them, are
//! charged to the cgroup.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::thread::{
    ClockId, CpuSet, Timespec, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity,
};
use rustix::time::clock_gettime;
use workload::access::PAGE_SIZE;
use workload::access::sequences::{Operation, Sequence};

use super::group_write::GroupWrite;
use super::memcg::STATISTICS;
use crate::verify::end_with_parent;

/// The hidden subcommand that calls [`run`].
pub const READER: &str = "reader";

/// What it does besides reading.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// Number of accesses between two readings of memory.stat; 0 for none.
    pub stat_reads: u32,
    /// Microseconds from an access to the next; it waits where it reads memory.stat.
    pub pace_us: u64,
    /// Writes to files of the group.
    pub writes: &'a [GroupWrite],
}

/// Reads `file` in the order of `sequence` within the cgroup at `group`.
pub fn run(sequence: &str, file: &Path, group: &Path, manner: Manner) -> io::Result<()> {
    let Manner { stat_reads, pace_us, writes } = manner;
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
    let open = |write: &GroupWrite| {
        let written = File::options().write(true).open(group.join(write.file.name()))?;
        Ok((write.access, written, write.bytes.to_string()))
    };
    let writes: Vec<(u32, File, String)> = writes.iter().map(open).collect::<io::Result<_>>()?;
    let mut writes = writes.iter().peekable();
    let (mut page, mut text) = (vec![1; PAGE_SIZE as usize], vec![1; 4 * PAGE_SIZE as usize]);
    fs::write(group.join("cgroup.procs"), "0")?;
    let begin = clock_gettime(ClockId::Monotonic);
    for (access, offset) in (0u32..).zip(offsets) {
        while let Some((_, written, bytes)) = writes.next_if(|(before, ..)| *before <= access) {
            (&*written).write_all(bytes.as_bytes())?;
        }
        file.read_exact_at(&mut page, offset)?;
        if stat_reads > 0 && access % stat_reads == 0 {
            let _ = statistics.read_at(&mut text, 0)?;
            sleep_until(begin, Duration::from_micros(pace_us * u64::from(access)))?;
        }
    }
    Ok(())
}

/// Sleeps until so long after `begin`, if that is still to come.
fn sleep_until(begin: Timespec, after: Duration) -> io::Result<()> {
    let until = Duration::new(begin.tv_sec as u64, begin.tv_nsec as u32) + after;
    let until = Timespec { tv_sec: until.as_secs() as i64, tv_nsec: until.subsec_nanos().into() };
    Ok(clock_nanosleep_absolute(ClockId::Monotonic, &until)?)
}

/// Binds the process to one CPU: pages wait in that CPU's folio batch before they are added to the LRU.
pub(in crate::verify) fn stay_on_one_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
    let mut only = CpuSet::new();
    only.set(first.ok_or_else(|| io::Error::other("there is no CPU"))?);
    Ok(sched_setaffinity(None, &only)?)
}
