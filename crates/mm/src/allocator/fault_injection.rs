//! Fault injection: allocations that fail because a test wants them to.
//!
//! ```text
//!   fail_page_alloc    pages for pools of huge pages and for their vmemmap
//!   failslab           a VMA's NUMA scan state, a memory cgroup's deferred split list
//!       nth            the nth allocation fails, from 1        ppm   failures per million, at random
//! ```
//!
//! Otherwise the kernel's small allocations that may reclaim do not fail. In the kernel: lib/fault-inject.c,
//! mm/fail_page_alloc.c, mm/failslab.c (with `ignore-gfp-wait` at N).

use rand_distr::{Bernoulli, Distribution};
use rand_pcg::Pcg64Mcg;

/// Which allocations of a kind fail (`struct fault_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultAttr {
    /// `nth`: the allocation with this number fails, counted from 1; 0 for none.
    pub nth: u64,
    /// `ppm`: failures in a million allocations, at random.
    pub ppm: u64,
}

/// The allocations of one kind so far, and the random stream for failures.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    calls: u64,
    random: Pcg64Mcg,
}

impl Injection {
    /// Starts counting at zero. `random` decides which allocations fail with `ppm`.
    pub(crate) fn new(random: Pcg64Mcg) -> Injection {
        Injection { calls: 0, random }
    }

    /// Counts an allocation; returns whether it fails.
    pub(crate) fn fails(&mut self, attr: FaultAttr) -> bool {
        self.calls += 1;
        let at_random = match Bernoulli::from_ratio(attr.ppm as u32, 1_000_000) {
            Ok(chance) if attr.ppm > 0 => chance.sample(&mut self.random),
            _ => false,
        };
        self.calls == attr.nth || at_random
    }

    /// How many allocations were counted.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }
}
