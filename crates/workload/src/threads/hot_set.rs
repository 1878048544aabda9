//! A key-value store whose hot keys change.
//!
//! ```text
//!   memory   ├──────────▓▓▓▓▓▓▓▓▓▓──────────────────────────┤      hot pages get `hot_share` of all requests
//!                       └────► move on by `drift_mib` every `drift_milliseconds`
//! ```
//!
//! While the store is loaded, other memory is in use. Either it is freed afterwards, which leaves that much
//! of the fast tier free, or it stays allocated and idle, and must be demoted before anything can be
//! promoted.
//!
//! On a machine with a slower tier most of the store is in that tier. Hot pages should be promoted, and pages
//! that have become cold should not take up the fast tier. A request reads one value, a cache line that is in
//! no cache, and computes.

use super::{Layout, Operation, Threads, equal_processes};
use crate::demand::{MIB_PAGES, nanoseconds};
use crate::keys::{MIB, MILLISECONDS, NANOSECONDS, SHARE, THREADS, Value};
use machine::WrongValue;
use machine::profile::Figure;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// The key-value store, as in a scenario.
    pub struct HotSet {
        pub threads: Threads => THREADS,
        /// Memory of the store in MiB. One thread fills it before requests begin.
        pub mib: u64 => MIB,
        /// Memory in MiB that this thread uses before it fills the store: buffers, other data.
        #[serde(default)]
        pub loading_mib: u64 => MIB.or_none(),
        /// Whether that memory stays allocated afterwards.
        #[serde(default)]
        pub loading_stays: bool,
        /// Part of the store that is hot, in MiB.
        pub hot_mib: u64 => MIB,
        /// Share of requests to hot pages, 0 to 1.
        pub hot_share: Figure => SHARE,
        /// How far the hot part moves at a time, in MiB.
        pub drift_mib: u64 => MIB.or_none(),
        /// Time between moves in milliseconds.
        pub drift_milliseconds: u64 => MILLISECONDS,
        /// Share of requests that store, 0 to 1.
        pub write_share: Figure => SHARE,
        /// CPU time of a request in nanoseconds.
        pub compute_ns: Figure => NANOSECONDS,
    }
}

impl HotSet {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.hot_mib > self.mib {
            return Err(WrongValue::new("hot_mib", self.hot_mib, "no more than mib"));
        }
        Ok(())
    }

    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("hot_share".into(), &mut self.hot_share),
            ("write_share".into(), &mut self.write_share),
            ("compute_ns".into(), &mut self.compute_ns),
        ]
    }

    pub(super) fn start(&self, cpus: usize, random: impl Fn(u64) -> Pcg64Mcg) -> HotSetThreads {
        let threads = self.threads.on(cpus);
        let pages = self.mib * MIB_PAGES;
        HotSetThreads {
            layout: equal_processes(1, vec![pages, (self.loading_mib * MIB_PAGES).max(1)], threads),
            loading_pages: self.loading_mib * MIB_PAGES,
            loading_stays: self.loading_stays,
            pages,
            hot_pages: self.hot_mib * MIB_PAGES,
            hot_share: self.hot_share.value,
            drift_pages: self.drift_mib * MIB_PAGES,
            drift_ns: self.drift_milliseconds * 1_000_000,
            write_share: self.write_share.value,
            compute: nanoseconds(&self.compute_ns),
            filled: 0,
            threads: (0..threads).map(|thread| (Next::Load, random(thread.into()))).collect(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Load,
    Fill,
    Release,
    Look,
    Compute,
    End,
}

/// The store, running.
#[derive(Clone, Debug)]
pub struct HotSetThreads {
    layout: Layout,
    loading_pages: u64,
    loading_stays: bool,
    pages: u64,
    hot_pages: u64,
    hot_share: f64,
    drift_pages: u64,
    drift_ns: u64,
    write_share: f64,
    compute: u64,
    /// Pages filled so far by the first thread.
    filled: u64,
    threads: Vec<(Next, Pcg64Mcg)>,
}

impl HotSetThreads {
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The first hot page at time `now`.
    fn hot(&self, now: u64) -> u64 {
        (now / self.drift_ns).wrapping_mul(self.drift_pages) % self.pages
    }

    #[inline]
    pub(super) fn next(&mut self, thread: usize, now: u64) -> Operation {
        let hot = self.hot(now);
        let (next, random) = &mut self.threads[thread];
        match *next {
            Next::Load => {
                *next = Next::Fill;
                let pages = if thread == 0 { self.loading_pages } else { 0 };
                Operation::Stream { area: 1, first: 0, pages, write: true }
            }
            Next::Fill if thread == 0 && self.filled < self.pages => {
                let pages = (self.pages - self.filled).min(512);
                self.filled += pages;
                Operation::Stream { area: 0, first: self.filled - pages, pages, write: true }
            }
            Next::Fill => {
                *next = Next::Release;
                Operation::Barrier
            }
            Next::Release => {
                *next = Next::Look;
                if thread == 0 && !self.loading_stays {
                    Operation::Release { area: 1 }
                } else {
                    Operation::Compute { nanoseconds: 0 }
                }
            }
            Next::Look => {
                *next = Next::Compute;
                let page = match random.random::<f64>() < self.hot_share {
                    true => (hot + random.random_range(0..self.hot_pages)) % self.pages,
                    false => random.random_range(0..self.pages),
                };
                Operation::Touch { area: 0, page, write: random.random::<f64>() < self.write_share }
            }
            Next::Compute => {
                *next = Next::End;
                Operation::Compute { nanoseconds: self.compute }
            }
            Next::End => {
                *next = Next::Look;
                Operation::TransactionEnd
            }
        }
    }
}
