//! What is on a machine beside the programs that one asks about, as far as it shifts them: a thread of the kernel that is busy, memory
//! of a program that has touched it and sleeps.

use crate::keys::{Bounds, MILLISECONDS};
use crate::operation::{Extent, Operation, Own, OwnSpec, Process};
use machine::WrongValue;
use rand_pcg::Pcg64Mcg;

/// Bounds of pages that are touched once.
const PAGES: Bounds = Bounds::new(0.0, 1e9, "pages that one process touches");

crate::keys! {
    /// A thread of the kernel that computes, uses no memory, and ends.
    #[derive(Copy, Eq)]
    pub struct KernelThread {
        /// Its work in milliseconds of CPU time.
        pub milliseconds: u64 => MILLISECONDS.or_none(),
    }
}

impl OwnSpec for KernelThread {
    fn start(&self, _seed: u64, _random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let nanoseconds = self.milliseconds.saturating_mul(1_000_000);
        let process = Process { of_kernel: true, ..Process::default() };
        Ok(Own::of_list(process, vec![Operation::SystemCalls { nanoseconds }]))
    }
}

crate::keys! {
    /// A process that touches memory once and sleeps. Its last pages stay in the LRU batch of the CPU (`lru_add`) until others fill
    /// that batch, and cannot be migrated meanwhile.
    #[derive(Copy, Eq)]
    pub struct TouchOnce {
        /// Pages of 4 KiB.
        pub pages: u64 => PAGES,
    }
}

impl OwnSpec for TouchOnce {
    fn start(&self, _seed: u64, _random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        // A VMA is never empty.
        let process = Process { areas: vec![self.pages.max(1)], ..Process::default() };
        let touch =
            Operation::Access { area: 0, first: 0, pages: self.pages, write: true, extent: Extent::Nothing };
        let mut own = Own::of_list(process, vec![touch]);
        own.layout.stays = true;
        Ok(own)
    }
}
