//! Writes to the files of a memory cgroup: limits, which reclaim what exceeds them, and `memory.reclaim`.
//!
//! ```text
//!   memory.low, min, swap.max, zswap.max, zswap.writeback     the new value, nothing else
//!   memory.high                   reclaim down to it, until reclaim finds nothing any more
//!   memory.max                    the same, then the OOM killer
//!   memory.reclaim                reclaim as much, in batches (policy in mm::vmscan); EAGAIN if it finds nothing any more
//! ```
//!
//! A write is done step by step, each of which is one call of reclaim, so that others run in between. In the kernel:
//! `memory_high_write`, `memory_max_write` and `memory_reclaim` in mm/memcontrol.c. `memory.reclaim` takes no `swappiness=` here.

use super::{Memcg, UNLIMITED};
use crate::kernel::Kernel;
use crate::lru::vmscan::policy::{MAX_RECLAIM_RETRIES, proactive_batch};
use crate::memparse::memparse;
use crate::oom_kill::OomKill;

/// A file of a memory cgroup that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcgFile {
    Max,
    High,
    Low,
    Min,
    SwapMax,
    ZswapMax,
    /// `memory.zswap.writeback`, 0 or 1.
    ZswapWriteback,
    Reclaim,
}

impl MemcgFile {
    /// All of them with their names.
    pub const ALL: [(&'static str, MemcgFile); 8] = [
        ("memory.max", MemcgFile::Max),
        ("memory.high", MemcgFile::High),
        ("memory.low", MemcgFile::Low),
        ("memory.min", MemcgFile::Min),
        ("memory.swap.max", MemcgFile::SwapMax),
        ("memory.zswap.max", MemcgFile::ZswapMax),
        ("memory.zswap.writeback", MemcgFile::ZswapWriteback),
        ("memory.reclaim", MemcgFile::Reclaim),
    ];

    /// The file of this name.
    pub fn find(name: &str) -> Option<MemcgFile> {
        MemcgFile::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, file)| file)
    }

    pub fn name(self) -> &'static str {
        MemcgFile::ALL.into_iter().find(|(_, file)| *file == self).map_or("", |(name, _)| name)
    }

    /// What values it takes.
    pub fn takes(self) -> &'static str {
        match self {
            MemcgFile::ZswapWriteback => "0 or 1",
            MemcgFile::Reclaim => "bytes, such as 4096 or 512M",
            _ => "bytes, such as 4096 or 512M, or max",
        }
    }

    /// Bytes of a value such as `512M`, or of `max` for limits; `None` if it is neither. A switch is 0 or 1.
    pub fn bytes(self, value: &str) -> Option<u64> {
        match self {
            MemcgFile::ZswapWriteback => {
                ["0", "1"].iter().position(|word| *word == value).map(|on| on as u64)
            }
            MemcgFile::Reclaim => memparse(value),
            _ if value == "max" => Some(UNLIMITED),
            _ => memparse(value),
        }
    }
}

/// A write in progress.
#[derive(Clone, Debug)]
pub struct MemcgWrite {
    memcg: Memcg,
    file: MemcgFile,
    /// The value in pages.
    pages: u64,
    reclaimed: u64,
    retries: u32,
    drained: bool,
}

/// What a step of a write came to.
#[derive(Clone, Debug)]
pub enum MemcgStep {
    Again,
    Done,
    /// `memory.reclaim` has found nothing more to reclaim (EAGAIN).
    Short,
    /// `memory.max` is below what can be reclaimed: these processes are killed. The write goes on.
    Kill(OomKill),
}

impl MemcgWrite {
    /// The pages that `memory.reclaim` is asked for, and those that it has reclaimed; `None` for other files.
    pub fn reclaimed(&self) -> Option<(u64, u64)> {
        (self.file == MemcgFile::Reclaim).then_some((self.pages, self.reclaimed))
    }
}

impl Kernel<'_> {
    /// Begins the write of so many `bytes` to a file of a memcg.
    pub fn begin_memcg_write(&mut self, memcg: Memcg, file: MemcgFile, bytes: u64) -> MemcgWrite {
        let page_size = self.parts.allocator.page_size();
        let pages = if bytes == UNLIMITED { UNLIMITED } else { bytes / page_size.bytes() };
        let group = self.parts.lrus.memcgs.get_mut(memcg);
        match file {
            MemcgFile::Max => group.max = pages,
            MemcgFile::High => group.high = pages,
            MemcgFile::Low => group.low = pages,
            MemcgFile::Min => group.min = pages,
            MemcgFile::SwapMax => group.swap_max = pages,
            MemcgFile::ZswapMax => group.zswap_max = pages,
            MemcgFile::ZswapWriteback => group.zswap_writeback = bytes != 0,
            MemcgFile::Reclaim => {}
        }
        MemcgWrite { memcg, file, pages, reclaimed: 0, retries: MAX_RECLAIM_RETRIES, drained: false }
    }

    /// Goes on with a write.
    pub fn step_memcg_write(&mut self, write: &mut MemcgWrite) -> MemcgStep {
        match write.file {
            MemcgFile::High | MemcgFile::Max => self.step_limit(write),
            MemcgFile::Reclaim => self.step_reclaim(write),
            _ => MemcgStep::Done,
        }
    }

    fn step_limit(&mut self, write: &mut MemcgWrite) -> MemcgStep {
        let current = self.parts.lrus.memcgs.get(write.memcg).current;
        if current <= write.pages {
            return MemcgStep::Done;
        }
        if !write.drained {
            self.parts.lrus.memcgs.drain_all_stock(write.memcg);
            write.drained = true;
            return MemcgStep::Again;
        }
        if write.retries > 0 {
            let reclaimed = self.try_to_free_mem_cgroup_pages(write.memcg, current - write.pages);
            write.retries -= u32::from(reclaimed == 0);
            return MemcgStep::Again;
        }
        match write.file {
            MemcgFile::Max => self.out_of_memory(write.memcg).map_or(MemcgStep::Done, MemcgStep::Kill),
            _ => MemcgStep::Done,
        }
    }

    fn step_reclaim(&mut self, write: &mut MemcgWrite) -> MemcgStep {
        if write.reclaimed >= write.pages {
            return MemcgStep::Done;
        }
        if write.retries == 0 {
            // More may become evictable from the batches of CPUs.
            self.lru_add_drain_all();
        }
        let batch = proactive_batch(&self.on.features.reclaim, write.pages - write.reclaimed);
        let reclaimed = self.try_to_free_mem_cgroup_pages(write.memcg, batch);
        write.reclaimed += reclaimed;
        if reclaimed == 0 {
            if write.retries == 0 {
                return MemcgStep::Short;
            }
            write.retries -= 1;
        }
        MemcgStep::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_kernel_reads_them() {
        assert_eq!(MemcgFile::High.bytes("512M"), Some(512 << 20));
        assert_eq!(MemcgFile::High.bytes("4096"), Some(4096));
        assert_eq!(MemcgFile::Max.bytes("max"), Some(UNLIMITED));
        for wrong in ["", "M", "-1", "1.5G", "max ", "99999999T", "é"] {
            assert_eq!(MemcgFile::High.bytes(wrong), None, "{wrong}");
        }
        assert_eq!(MemcgFile::Reclaim.bytes("max"), None);
        assert_eq!(
            ["0", "1", "2", "max"].map(|value| MemcgFile::ZswapWriteback.bytes(value)),
            [Some(0), Some(1), None, None]
        );
        assert_eq!(MemcgFile::find("memory.high"), Some(MemcgFile::High));
        assert_eq!(MemcgFile::find("memory.current"), None);
    }
}
