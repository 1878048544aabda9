//! TPC-C's STOCK_LEVEL on a MongoDB replica set: documents from all over two files, through WiredTiger's
//! cache.
//!
//! This is the demand of a published benchmark: py-tpcc, changed to run only STOCK_LEVEL, against three
//! replicas in memcgs of their own. What a transaction reads follows from the driver
//! (`pytpcc/drivers/mongodbdriver.py` of github.com/ryncsn/py-tpcc, commit 86e862c5cf3b) and from where its
//! loader (`pytpcc/runtime/loader.py`) put the documents:
//!
//! ```text
//!   1  district    one document                                       always cached: left out
//!   2  customer    all 30000 of the warehouse, ten runs of 3000       index on C_W_ID; no index has ORDERS.O_ID
//!                  └─► about 200 items in the last 20 orders of the district
//!   3  stock       of each item, its document in every warehouse      index on S_I_ID, one field at a time
//!                  └─► about 200 × warehouses documents, each in a block of its own
//! ```
//!
//! The driver creates an index for each field separately, so no index has both `S_W_ID` and `S_I_ID`, and
//! MongoDB must choose one. Both cost about 100,000 documents with 500 warehouses: by warehouse they lie
//! together, by item they are spread over the file. The planner tries both and keeps whichever finishes
//! first, which is a toss-up with these numbers. `stock_index` selects one. The published *baseline* run
//! shows `item`: it has 23.5 million refaults with some 8 million pages that fit, so pages return many times,
//! while 577 transactions over 500 warehouses visit each warehouse hardly more than once.
//!
//! **Order of documents.** The loader has one process for every `loaders` warehouses. Each inserts 3000
//! customers at a time, ten times, then 2500 stock documents at a time, forty times. The processes run at the
//! same pace, so the batches of `loaders` warehouses alternate in the file:
//!
//! ```text
//!   stock     │ w1 items 1-2500 │ w2 1-2500 │ ... │ w30 1-2500 │ w1 2501-5000 │ ...      then w31 to w60
//! ```
//!
//! **Blocks.** WiredTiger stores documents in blocks that it compresses (snappy), up to 32 KiB on disk, in
//! units of 4 KiB. Sizes of documents are those of the loader's rows in BSON, with `_id` and field names: 559
//! bytes for stock, 2479 for a customer with one order, ten order lines and a line of history. Random letters
//! hardly compress, field names do. The ratios are 0.61 and 0.44, computed with a greedy LZ77 in snappy's
//! format over documents made by the loader's rules.
//!
//! **Cache.** A block that is not in WiredTiger's cache is read from the file, through the page cache, and
//! decompressed into the process's own memory. The cache is a [`BufferPool`] of as many decompressed stock
//! blocks as fit; a customer block is slightly larger and counts as one. Reads go to the primary, pymongo's
//! default. The other replicas fill their memory and are idle from then on.
//!
//! **At the start** no file is cached. The published command has no `--no-load`, so the data might have been
//! loaded just before, but the published *baseline* counters show that they were not. Loading three replicas
//! would have left shadow entries all over some 100 GB of files, 25 million pages, whereas `workingset_nodes`
//! has 47860 nodes of 64 pages after the run, with 768 reclaimed. That is 12.5 GB. With the pages in memory
//! at the time, it is about the size of the primary's own files: nothing else was ever read.

use super::buffer_pool::{BufferPool, Found};
use super::{
    Demand, Descriptor, File, Layout, MIB_PAGES, Operation, PAGE_SIZE, Process, Region, Thread, nanoseconds,
};
use crate::keys::{Bounds, MIB, NANOSECONDS, SOME_NANOSECONDS, THREADS, Value};
use machine::WrongValue;
use machine::profile::Figure;
use mm::readahead::Advice;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;

crate::keys! {
    /// STOCK_LEVEL on MongoDB, as in a scenario.
    pub struct StockLevel {
        /// Number of TPC-C warehouses (`--warehouses`).
        pub warehouses: u32 => Bounds::new(1.0, 40_000.0, "documents have numbers of 32 bits"),
        /// Clients (`--clients`), each with a thread of the primary.
        pub clients: u32 => THREADS,
        /// Processes that loaded the data.
        pub loaders: u32 => THREADS,
        /// The index used to look up stock.
        pub stock_index: StockIndex,
        /// WiredTiger's cache that is in use, in MiB.
        pub cache_mib: u64 => Bounds { most: 1_048_576.0, ..MIB },
        /// Size of a block on disk, in pages of 4 KiB.
        pub block_pages: Figure => Bounds::new(1.0, 32.0, "pages of a block of WiredTiger"),
        /// Bytes on disk per byte of compressed documents: headers, and the unused end of blocks of whole
        /// pages.
        pub block_overhead: Figure => Bounds::new(1.0, 4.0, "a block is at least a quarter full"),
        /// Replicas that serve no reads.
        pub secondaries: u32 => Bounds::new(0.0, 49.0, "members of a replica set"),
        /// Private memory of each secondary, in MiB.
        pub secondary_mib: Figure => MIB.or_none(),
        /// CPU time to fetch and examine a document, in nanoseconds.
        pub document_ns: Figure => SOME_NANOSECONDS,
        /// CPU time to decompress a block, in nanoseconds.
        pub unpack_ns: Figure => NANOSECONDS,
    }
}

/// An index of the stock collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StockIndex {
    /// On `S_I_ID`: the stock of some items in every warehouse.
    Item,
    /// On `S_W_ID`: the stock of all items in one warehouse.
    Warehouse,
}

crate::no_numbers!(StockIndex);

/// Items, and so stock documents per warehouse.
const ITEMS: u32 = 100_000;

/// Stock documents that the loader inserts at a time.
const STOCK_BATCH: u32 = 2500;

/// Districts per warehouse.
const DISTRICTS: u32 = 10;

/// Customers per district, which the loader inserts at a time.
const CUSTOMERS: u32 = 3000;

/// Orders that a transaction examines.
const ORDERS: usize = 20;

/// Lines per order.
const ORDER_LINES: std::ops::RangeInclusive<usize> = 5..=15;

/// Size of a stock document in WiredTiger in bytes: BSON, and three bytes for the cell.
const STOCK_BYTES: f64 = 562.0;

/// Size of stock documents after compression, relative to before.
const STOCK_RATIO: f64 = 0.61;

/// Size of a customer document in WiredTiger in bytes.
const CUSTOMER_BYTES: f64 = 2482.0;

/// Size of customer documents after compression, relative to before.
const CUSTOMER_RATIO: f64 = 0.44;

/// Size of an entry of the index on `S_I_ID` after prefix compression, in bytes: part of the item, the
/// record's number, a cell.
const INDEX_ENTRY_BYTES: f64 = 10.0;

/// Pages of an index block: 16 KiB, which is not compressed further.
const INDEX_BLOCK_PAGES: u32 = 4;

/// Files and region of the primary.
const CUSTOMER: u32 = 0;
const STOCK: u32 = 1;
const STOCK_INDEX: u32 = 2;
const CACHE: u32 = 0;

/// A file of the primary, divided into blocks.
#[derive(Clone, Copy, Debug)]
struct Collection {
    file: u32,
    /// Number of its first block in the cache.
    first_block: u32,
    blocks: u32,
    /// Documents or index entries per block.
    per_block: u32,
    block_pages: u32,
}

impl Collection {
    fn new(file: u32, after: u32, records: u64, record_bytes: f64, block_pages: u32) -> Collection {
        let per_block = ((f64::from(block_pages) * PAGE_SIZE as f64 / record_bytes) as u32).max(1);
        let blocks = records.div_ceil(per_block.into()) as u32;
        Collection { file, first_block: after, blocks, per_block, block_pages }
    }

    fn end(&self) -> u32 {
        self.first_block + self.blocks
    }

    fn pages(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_pages)
    }
}

/// Adjacent records of one collection that are fetched in order.
#[derive(Clone, Debug)]
struct Fetch {
    collection: Collection,
    records: Range<u64>,
}

struct Client {
    random: Pcg64Mcg,
    /// What the transaction still has to fetch; the next is last.
    fetches: Vec<Fetch>,
    /// Operations of the current block; the next one is last.
    pending: Vec<Operation>,
    ends: bool,
}

/// A replica that serves no reads.
struct Secondary {
    region: u32,
    pages: u64,
    /// Pages touched so far.
    done: u64,
}

/// The replica set, running.
pub struct StockLevelDemand {
    warehouses: u32,
    loaders: u32,
    stock_index: StockIndex,
    layout: Layout,
    customer: Collection,
    stock: Collection,
    index: Collection,
    cache: BufferPool,
    image_pages: u32,
    /// Items of the last orders of each district, sorted and without duplicates.
    items: Vec<Vec<u32>>,
    clients: Vec<Client>,
    secondaries: Vec<Secondary>,
    document_ns: f64,
    unpack_ns: u64,
}

/// Pages that a secondary touches per operation at the start.
const START_PAGES: u64 = 32;

impl StockLevel {
    /// Checks the keys.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("block_pages".into(), &mut self.block_pages),
            ("block_overhead".into(), &mut self.block_overhead),
            ("secondary_mib".into(), &mut self.secondary_mib),
            ("document_ns".into(), &mut self.document_ns),
            ("unpack_ns".into(), &mut self.unpack_ns),
        ]
    }

    /// Starts the replica set with an empty cache; `random` gives each thread a random stream of its own, and
    /// the data one more.
    pub fn demand(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<StockLevelDemand, WrongValue> {
        self.check()?;
        let warehouses = u64::from(self.warehouses);
        let block_pages = self.block_pages.value.round() as u32;
        let customers = warehouses * u64::from(DISTRICTS * CUSTOMERS);
        let stocks = warehouses * u64::from(ITEMS);
        let on_disk = |compressed: f64| compressed * self.block_overhead.value;
        let customer =
            Collection::new(CUSTOMER, 0, customers, on_disk(CUSTOMER_BYTES * CUSTOMER_RATIO), block_pages);
        let stock =
            Collection::new(STOCK, customer.end(), stocks, on_disk(STOCK_BYTES * STOCK_RATIO), block_pages);
        let index = Collection::new(STOCK_INDEX, stock.end(), stocks, INDEX_ENTRY_BYTES, INDEX_BLOCK_PAGES);
        let image_pages = (f64::from(stock.per_block) * STOCK_BYTES / PAGE_SIZE as f64).ceil() as u32;
        let slots = (self.cache_mib * MIB_PAGES / u64::from(image_pages)) as u32;
        let mut layout = Layout {
            processes: (0..=self.secondaries).map(|group| Process { group }).collect(),
            files: [customer, stock, index].map(|collection| file(collection.pages())).to_vec(),
            regions: vec![Region { pages: u64::from(slots) * u64::from(image_pages), process: 0 }],
            threads: vec![Thread::of(0); self.clients as usize],
        };
        let secondaries = (1..=self.secondaries).map(|process| {
            let pages = self.secondary_mib.value.round() as u64 * MIB_PAGES;
            layout.regions.push(Region { pages, process });
            layout.threads.push(Thread::of(process));
            Secondary { region: layout.regions.len() as u32 - 1, pages, done: 0 }
        });
        let secondaries = secondaries.collect();
        let clients = (0..u64::from(self.clients)).map(|client| Client {
            random: random(client),
            fetches: Vec::new(),
            pending: Vec::new(),
            ends: false,
        });
        let mut data = random(layout.threads.len() as u64);
        Ok(StockLevelDemand {
            warehouses: self.warehouses,
            loaders: self.loaders,
            stock_index: self.stock_index,
            layout,
            customer,
            stock,
            index,
            cache: BufferPool::new(index.end(), slots),
            image_pages,
            items: (0..self.warehouses * DISTRICTS).map(|_| items_of_a_district(&mut data)).collect(),
            clients: clients.collect(),
            secondaries,
            document_ns: self.document_ns.value,
            unpack_ns: nanoseconds(&self.unpack_ns),
        })
    }
}

/// A file of WiredTiger. It is opened once for all threads and read with `pread` without advice
/// (`access_pattern_hint` is `none` by default; os_posix/os_fs.c, `__posix_open_file`).
fn file(pages: u64) -> File {
    File { pages, advice: Advice::Normal, descriptor: Descriptor::Shared, new: false }
}

/// Items in the last orders of a district.
fn items_of_a_district(data: &mut Pcg64Mcg) -> Vec<u32> {
    let mut items = BTreeSet::new();
    for _ in 0..ORDERS {
        for _ in 0..data.random_range(ORDER_LINES) {
            items.insert(data.random_range(0..ITEMS));
        }
    }
    items.into_iter().collect()
}

impl StockLevelDemand {
    /// Number of the first record in batch `batch` of `batches` that the loader inserted for `warehouse`,
    /// with `length` records per batch.
    fn batch(&self, warehouse: u32, batch: u32, batches: u32, length: u32) -> u64 {
        let (round, lane) = (warehouse / self.loaders, warehouse % self.loaders);
        let lanes = self.loaders.min(self.warehouses - round * self.loaders);
        let before = u64::from(round * self.loaders) * u64::from(batches);
        (before + u64::from(batch) * u64::from(lanes) + u64::from(lane)) * u64::from(length)
    }

    /// Number of the stock document of `item` in `warehouse`.
    fn stock_record(&self, warehouse: u32, item: u32) -> u64 {
        self.batch(warehouse, item / STOCK_BATCH, ITEMS / STOCK_BATCH, STOCK_BATCH)
            + u64::from(item % STOCK_BATCH)
    }

    /// Plans the fetches of a transaction.
    fn plan(&mut self, thread: usize) {
        let random = &mut self.clients[thread].random;
        let (warehouse, district) =
            (random.random_range(0..self.warehouses), random.random_range(0..DISTRICTS));
        let mut fetches = Vec::new();
        for district in 0..DISTRICTS {
            let first = self.batch(warehouse, district, DISTRICTS, CUSTOMERS);
            fetches.push(Fetch { collection: self.customer, records: first..first + u64::from(CUSTOMERS) });
        }
        match self.stock_index {
            StockIndex::Item => {
                for &item in &self.items[(warehouse * DISTRICTS + district) as usize] {
                    let entries = u64::from(item) * u64::from(self.warehouses);
                    let records = entries..entries + u64::from(self.warehouses);
                    fetches.push(Fetch { collection: self.index, records });
                    for warehouse in 0..self.warehouses {
                        let record = self.stock_record(warehouse, item);
                        fetches.push(Fetch { collection: self.stock, records: record..record + 1 });
                    }
                }
            }
            StockIndex::Warehouse => {
                for batch in 0..ITEMS / STOCK_BATCH {
                    let first = self.batch(warehouse, batch, ITEMS / STOCK_BATCH, STOCK_BATCH);
                    let records = first..first + u64::from(STOCK_BATCH);
                    fetches.push(Fetch { collection: self.stock, records });
                }
            }
        }
        fetches.reverse();
        self.clients[thread].fetches = fetches;
    }

    /// Plans the operations for the next block of the current fetch.
    fn fetch_block(&mut self, thread: usize) {
        let client = &mut self.clients[thread];
        let Some(fetch) = client.fetches.last_mut() else { return };
        let collection = fetch.collection;
        let per_block = u64::from(collection.per_block);
        let (first, block) = (fetch.records.start, fetch.records.start / per_block);
        let end = fetch.records.end.min((block + 1) * per_block);
        fetch.records.start = end;
        if fetch.records.is_empty() {
            client.fetches.pop();
        }
        let pending = &mut client.pending;
        let touch = |index, pages, write| Operation::Touch { region: CACHE, index, pages, write };
        let image_pages = u64::from(self.image_pages);
        match self.cache.request(collection.first_block + block as u32) {
            Found::Hit(slot) => {
                let page = |record: u64| record % per_block * image_pages / per_block;
                let pages = (page(end - 1) - page(first) + 1) as u32;
                pending.push(touch(u64::from(slot) * image_pages + page(first), pages, false));
            }
            Found::Miss(slot) => {
                let pages = collection.block_pages;
                pending.push(Operation::Read {
                    file: collection.file,
                    index: block * u64::from(pages),
                    pages,
                });
                // Index blocks are not compressed.
                if collection.file != STOCK_INDEX {
                    pending.push(Operation::Compute { nanoseconds: self.unpack_ns });
                }
                pending.push(touch(u64::from(slot) * image_pages, self.image_pages, true));
            }
        }
        if collection.file != STOCK_INDEX {
            let nanoseconds = (self.document_ns * (end - first) as f64).round() as u64;
            pending.push(Operation::Compute { nanoseconds });
        }
        pending.reverse();
    }

    /// The next operation of a secondary.
    fn start_secondary(&mut self, secondary: usize) -> Option<Operation> {
        let Secondary { region, pages, done } = &mut self.secondaries[secondary];
        let (index, count) = (*done, START_PAGES.min(*pages - *done) as u32);
        *done += u64::from(count);
        (count > 0).then_some(Operation::Touch { region: *region, index, pages: count, write: true })
    }
}

impl Demand for StockLevelDemand {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn next(&mut self, thread: usize) -> Option<Operation> {
        let Some(client) = self.clients.get_mut(thread) else {
            return self.start_secondary(thread - self.clients.len());
        };
        if let Some(operation) = client.pending.pop() {
            return Some(operation);
        }
        if client.fetches.is_empty() {
            if std::mem::take(&mut client.ends) {
                return Some(Operation::TransactionEnd);
            }
            client.ends = true;
            self.plan(thread);
        }
        self.fetch_block(thread);
        self.clients[thread].pending.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn figure(value: f64) -> Figure {
        Figure { value, range: None, source: "made up".into() }
    }

    fn spec(warehouses: u32, stock_index: StockIndex) -> StockLevel {
        StockLevel {
            warehouses,
            clients: 2,
            loaders: 30,
            stock_index,
            cache_mib: 4096,
            block_pages: figure(7.0),
            block_overhead: figure(1.0),
            secondaries: 2,
            secondary_mib: figure(3.0),
            document_ns: figure(1000.0),
            unpack_ns: figure(77_777.0),
        }
    }

    fn stream(thread: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(thread)
    }

    #[test]
    fn files_have_the_published_size() {
        let demand = spec(500, StockIndex::Item).demand(stream).unwrap();
        let gb = |file: usize| (demand.layout().files[file].pages * PAGE_SIZE) as f64 / 1e9;
        // 15 million customers of 1092 bytes, 50 million stock documents of 343 bytes, and as many index
        // entries of 10 bytes.
        assert!((16.3..16.8).contains(&gb(0)), "{}", gb(0));
        assert!((17.1..17.5).contains(&gb(1)), "{}", gb(1));
        assert!((0.49..0.51).contains(&gb(2)), "{}", gb(2));
        assert_eq!(demand.image_pages, 12);
    }

    #[test]
    fn every_document_has_its_place() {
        for warehouses in [1, 29, 30, 31, 67] {
            let demand = spec(warehouses, StockIndex::Item).demand(stream).unwrap();
            let mut batches: Vec<u64> = (0..warehouses)
                .flat_map(|w| (0..ITEMS).step_by(STOCK_BATCH as usize).map(move |item| (w, item)))
                .map(|(w, item)| demand.stock_record(w, item))
                .collect();
            batches.sort();
            let expected = (0..u64::from(warehouses) * 40).map(|batch| batch * u64::from(STOCK_BATCH));
            assert!(batches.into_iter().eq(expected));
        }
    }

    /// Runs a transaction of client 0. Returns the blocks read of customers, index and stock, and the
    /// documents examined.
    fn transaction(demand: &mut StockLevelDemand) -> ([u64; 3], u64) {
        let (mut reads, mut documents) = ([0; 3], 0);
        loop {
            match demand.next(0).unwrap() {
                Operation::Read { file, index, pages } => {
                    let file_pages = demand.layout().files[file as usize].pages;
                    assert!(index % u64::from(pages) == 0 && index + u64::from(pages) <= file_pages);
                    reads[file as usize] += 1;
                }
                Operation::Touch { region, index, pages, .. } => {
                    assert!(index + u64::from(pages) <= demand.layout().regions[region as usize].pages);
                }
                Operation::Compute { nanoseconds: 77_777 } => {}
                Operation::Compute { nanoseconds } => documents += nanoseconds / 1000,
                Operation::TransactionEnd => return (reads, documents),
                operation => panic!("{operation:?}"),
            }
        }
    }

    #[test]
    fn by_item_it_reads_all_over_the_file_and_by_warehouse_in_one_place() {
        let mut demand = spec(60, StockIndex::Item).demand(stream).unwrap();
        let ([customers, stock, index], documents) = transaction(&mut demand);
        // 30000 customers, 26 per block, in ten runs.
        assert!((1154..1165).contains(&customers), "{customers}");
        // About 200 items in each of 60 warehouses; two of them are sometimes in the same one of a
        // warehouse's 1190 blocks.
        let items = (documents - 30_000) / 60;
        assert_eq!((documents - 30_000) % 60, 0);
        assert!((150..250).contains(&items), "{items}");
        assert!(stock > items * 60 * 8 / 10 && stock <= items * 60, "{stock}");
        assert!(index <= 2 * items && index > items / 2, "{index}");

        let mut demand = spec(60, StockIndex::Warehouse).demand(stream).unwrap();
        let ([customers, stock, index], documents) = transaction(&mut demand);
        assert_eq!(documents, 130_000);
        // 83 documents per block, in forty runs of 2500.
        assert!((1204..1250).contains(&stock) && index == 0, "{stock}");
        assert!((1154..1165).contains(&customers));
    }

    #[test]
    fn a_cache_that_holds_everything_reads_once() {
        let mut demand = spec(1, StockIndex::Warehouse).demand(stream).unwrap();
        let first = transaction(&mut demand);
        assert_eq!(first.0, [1154, 1205, 0]);
        assert_eq!(transaction(&mut demand), ([0; 3], 130_000));
    }

    #[test]
    fn secondaries_fill_their_memory_and_are_idle() {
        let mut demand = spec(1, StockIndex::Item).demand(stream).unwrap();
        assert_eq!(demand.layout().processes, [0, 1, 2].map(|group| Process { group }));
        for thread in [2, 3] {
            let mut touched = 0;
            while let Some(operation) = demand.next(thread) {
                let Operation::Touch { region, index, pages, write } = operation else {
                    panic!("{operation:?}")
                };
                assert_eq!((region as usize, index, write), (thread - 1, touched, true));
                touched += u64::from(pages);
            }
            assert_eq!(touched, 3 * 256);
        }
    }

    #[test]
    fn the_same_streams_are_the_same_demand() {
        let take =
            |mut demand: StockLevelDemand| (0..5000).map(|step| demand.next(step % 4)).collect::<Vec<_>>();
        let one = spec(3, StockIndex::Item);
        assert_eq!(take(one.demand(stream).unwrap()), take(one.demand(stream).unwrap()));
        assert_ne!(take(one.demand(stream).unwrap()), take(one.demand(|thread| stream(thread + 9)).unwrap()));
    }
}
