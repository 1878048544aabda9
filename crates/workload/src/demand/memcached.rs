//! memcached filled by memtier_benchmark: every key is written once, in order, into memory that is far too
//! small.
//!
//! ```text
//!   set key n  ──► hash table: bucket of the key ──► the items in its chain, anywhere in memory: compare keys
//!              ──► evict the oldest item: its bucket, half of the chain before it
//!              ──► write its chunk                                  └─ random pages ─┘
//!
//!   memory, -m  │ 1 MiB: 1394 chunks of 752 bytes │ 1 MiB │ ...  filled round robin
//! ```
//!
//! The values are written as one sequential stream. The swapping comes from the rest: a set looks up its key,
//! which reads the header of each item in the bucket, and the item that is evicted to make room is looked up
//! too (`assoc.c: assoc_find, assoc_delete`; memcached 1.6). The hash makes these random pages.
//!
//! Sizes (`slabs.c`, `memcached.h: ITEM_ntotal`): a slab page of 1 MiB holds chunks of one class; classes
//! grow from 96 bytes by a quarter each, rounded up to 8 bytes. An item has a header of 48 bytes, 8 for
//! `cas`, the key and a zero, and the value with two bytes at its end. The table doubles at more than 1.5
//! items per bucket. The oldest items are evicted first, which is how the segmented LRU treats keys that
//! nobody reads.

use super::{Demand, Layout, MIB_PAGES, Operation, PAGE_SIZE, Process, Region, Thread, nanoseconds};
use crate::keys::{Bounds, MIB, SOME_NANOSECONDS, THREADS, Value};
use machine::WrongValue;
use machine::profile::Figure;
use rand::RngExt;
use rand_distr::{Distribution, Poisson};
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// memcached and its clients, as in a scenario.
    pub struct Memcached {
        /// Worker threads (`-t`), with one client each.
        pub threads: u32 => THREADS,
        /// Memory for items in MiB (`-m`).
        pub memory_mib: u64 => Bounds { most: 4_194_304.0, ..MIB },
        /// Size of a value in bytes (memtier's `-d`).
        pub value_bytes: u64 => Bounds::new(0.0, 524_288.0, "half a slab page of 1 MiB"),
        /// Size of a key in bytes.
        pub key_bytes: u64 => Bounds::new(0.0, 250.0, "memcached's KEY_MAX_LENGTH"),
        /// CPU time of a set in nanoseconds, with the network but without memory management.
        pub set_ns: Figure => SOME_NANOSECONDS,
    }
}

/// Bytes of an item besides key and value.
const ITEM_OVERHEAD: u64 = 48 + 8 + 1 + 2;

/// Size of a slab page in bytes.
const SLAB: u64 = 1 << 20;

/// Size of a bucket in bytes.
const BUCKET: u64 = 8;

/// log2 of the buckets of a new table.
const FIRST_POWER: u32 = 16;

/// Region of the items.
const ITEMS: u32 = 0;

/// Region of the hash table.
const TABLE: u32 = 1;

struct Worker {
    random: Pcg64Mcg,
    /// Remaining operations of the current set; the next one is last.
    pending: Vec<Operation>,
}

/// memcached, running.
pub struct MemcachedDemand {
    layout: Layout,
    workers: Vec<Worker>,
    set_ns: u64,
    chunk: u64,
    chunks: u64,
    sets: u64,
}

impl Memcached {
    /// Checks the keys.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![("set_ns".into(), &mut self.set_ns)]
    }

    /// Size in bytes of the chunk that holds an item.
    pub fn chunk_bytes(&self) -> u64 {
        let item = ITEM_OVERHEAD + self.key_bytes + self.value_bytes;
        let mut chunk = 96;
        while chunk < item {
            chunk = (chunk + chunk / 4).next_multiple_of(8);
        }
        chunk
    }

    /// Number of items that fit.
    pub fn items(&self) -> u64 {
        self.memory_mib * (SLAB / self.chunk_bytes()).max(1)
    }

    /// Starts an empty memcached; `random` gives each thread a random stream of its own.
    pub fn demand(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<MemcachedDemand, WrongValue> {
        self.check()?;
        let chunks = self.items();
        let region = |pages| Region { pages, process: 0 };
        Ok(MemcachedDemand {
            layout: Layout {
                processes: vec![Process { group: 0 }],
                files: Vec::new(),
                regions: vec![
                    region(self.memory_mib * MIB_PAGES),
                    region((BUCKET << power(chunks)).div_ceil(PAGE_SIZE)),
                ],
                threads: vec![Thread::of(0); self.threads as usize],
            },
            workers: (0..u64::from(self.threads))
                .map(|thread| Worker { random: random(thread), pending: Vec::new() })
                .collect(),
            set_ns: nanoseconds(&self.set_ns),
            chunk: self.chunk_bytes(),
            chunks,
            sets: 0,
        })
    }
}

/// log2 of the buckets for this many items.
fn power(items: u64) -> u32 {
    let mut power = FIRST_POWER;
    while items > (3 << power) / 2 {
        power += 1;
    }
    power
}

impl MemcachedDemand {
    /// The first page of a chunk, and the number of pages that it touches.
    fn pages(&self, chunk: u64) -> (u64, u32) {
        let in_slab = SLAB / self.chunk;
        let start = chunk / in_slab * SLAB + chunk % in_slab * self.chunk;
        let (first, last) = (start / PAGE_SIZE, (start + self.chunk - 1) / PAGE_SIZE);
        (first, (last - first + 1) as u32)
    }

    /// Reads the headers of as many random items as a chain has on average (Poisson).
    fn walk_chain(&mut self, thread: usize, live: u64, average: f64) {
        let Ok(length) = Poisson::new(average) else { return };
        let items = length.sample(&mut self.workers[thread].random) as u64;
        for _ in 0..items {
            let chunk = self.workers[thread].random.random_range(0..live);
            let (index, _) = self.pages(chunk);
            self.workers[thread].pending.push(Operation::Touch {
                region: ITEMS,
                index,
                pages: 1,
                write: false,
            });
        }
    }

    /// Touches a random bucket, to write to it.
    fn find_bucket(&mut self, thread: usize, buckets: u64) {
        let worker = &mut self.workers[thread];
        let index = worker.random.random_range(0..buckets) * BUCKET / PAGE_SIZE;
        worker.pending.push(Operation::Touch { region: TABLE, index, pages: 1, write: true });
    }

    /// Plans the next set.
    fn set(&mut self, thread: usize) {
        let (chunk, live) = (self.sets % self.chunks, self.sets.min(self.chunks));
        self.sets += 1;
        let buckets = 1 << power(live);
        let chain = live as f64 / buckets as f64;
        self.workers[thread].pending.push(Operation::Compute { nanoseconds: self.set_ns });
        self.find_bucket(thread, buckets);
        self.walk_chain(thread, live, chain);
        if live == self.chunks {
            // On average, the evicted item is in the middle of its chain.
            self.find_bucket(thread, buckets);
            self.walk_chain(thread, live, chain / 2.0);
        }
        let (index, pages) = self.pages(chunk);
        let pending = &mut self.workers[thread].pending;
        pending.push(Operation::Touch { region: ITEMS, index, pages, write: true });
        pending.push(Operation::TransactionEnd);
        pending.reverse();
    }
}

impl Demand for MemcachedDemand {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn next(&mut self, thread: usize) -> Option<Operation> {
        if self.workers[thread].pending.is_empty() {
            self.set(thread);
        }
        self.workers[thread].pending.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn published() -> Memcached {
        Memcached {
            threads: 16,
            memory_mib: 16384,
            value_bytes: 600,
            key_bytes: 16,
            set_ns: Figure { value: 20_000.0, range: None, source: "made up".into() },
        }
    }

    #[test]
    fn chunks_are_of_memcacheds_classes() {
        assert_eq!(published().chunk_bytes(), 752);
        assert_eq!(published().items(), 16384 * 1394);
        assert_eq!(Memcached { value_bytes: 5, ..published() }.chunk_bytes(), 96);
        assert_eq!((power(1), power(98_304), power(98_305), power(22_839_296)), (16, 16, 17, 24));
        assert!(Memcached { value_bytes: 1 << 20, ..published() }.check().is_err());
    }

    /// Totals of `sets` sets: pages of items written, pages of items read, pages of the table touched.
    fn run(spec: &Memcached, sets: usize) -> (Vec<u64>, u64, u64) {
        let mut demand = spec.demand(Pcg64Mcg::seed_from_u64).unwrap();
        let regions = demand.layout().regions.clone();
        let (mut written, mut read, mut table) = (Vec::new(), 0, 0);
        for set in 0..sets {
            let thread = set % spec.threads as usize;
            loop {
                match demand.next(thread).unwrap() {
                    Operation::Touch { region, index, pages, write } => {
                        assert!(index + u64::from(pages) <= regions[region as usize].pages);
                        match (region, write) {
                            (ITEMS, true) => written.extend(index..index + u64::from(pages)),
                            (ITEMS, false) => read += 1,
                            _ => table += 1,
                        }
                    }
                    Operation::TransactionEnd => break,
                    operation => assert_eq!(operation, Operation::Compute { nanoseconds: 20_000 }),
                }
            }
        }
        (written, read, table)
    }

    #[test]
    fn values_are_one_stream_around_memory_and_lookups_go_everywhere() {
        let spec = Memcached { memory_mib: 96, ..published() };
        let items = spec.items() as usize;
        let (written, read, table) = run(&spec, items);
        assert!(written.is_sorted() && written.last() == Some(&(95 * 256 + 255)));
        // Each set touches one bucket until memory is full.
        assert_eq!(table, items as u64);
        // Chains grow with the items and are halved when the table doubles: 133824 items end with 1.02 per
        // bucket.
        let chains: f64 = (0..items as u64).map(|live| live as f64 / (1u64 << power(live)) as f64).sum();
        assert!((read as f64 / chains - 1.0).abs() < 0.02, "{read} and not {chains}");
        let (again, read_again, table_again) = run(&spec, 2 * items);
        assert_eq!(again[written.len()], 0);
        assert_eq!(table_again - table, 2 * items as u64);
        let chain = items as f64 / (1u64 << power(items as u64)) as f64;
        let walked = (read_again - read) as f64 / items as f64;
        assert!((walked / (1.5 * chain) - 1.0).abs() < 0.02, "{walked}");
    }
}
