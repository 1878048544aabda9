//! sysbench's `oltp_read_only` on MySQL: rows read through InnoDB's buffer pool.
//!
//! ```text
//!   transaction   10 × SELECT one row          in one table
//!                  4 × SELECT ... 100 rows     each in a table of its own choice    (and BEGIN, COMMIT)
//!
//!   row ──► leaf of the clustered index, 16 KiB ──► buffer pool ── hit ──► read the pages with the rows
//!                                                              └── miss ─► read the file, write all 16 KiB
//! ```
//!
//! If the buffer pool is as large as the limit of its memcg, pages of the pool are swapped out. If it is
//! smaller than the tables, misses also go through the page cache (MySQL's default `innodb_flush_method` on
//! Linux was `fsync` until 8.4, which does not bypass it). The inner levels of the indexes are a few pages
//! per table, always hot, and are left out.
//!
//! A row of sysbench's table has 4 + 4 + 120 + 60 bytes in four columns. With InnoDB's header of 5 to 7
//! bytes, 13 bytes of transaction id and rollback pointer, and the lengths of two CHAR columns, that is 206
//! bytes. Rows inserted in key order fill a page to 15/16: 73 rows.

use super::buffer_pool::{BufferPool, Found};
use super::distribution::SysbenchSpecial;
use super::{Demand, Descriptor, File, Layout, Operation, PAGE_SIZE, Process, Region, Thread, nanoseconds};
use crate::keys::{Bounds, MIB, SOME_NANOSECONDS, THREADS, Value};
use machine::WrongValue;
use machine::profile::Figure;
use mm::readahead::Advice;
use rand::RngExt;
use rand_distr::Distribution;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

crate::keys! {
    /// sysbench and MySQL, as in a scenario.
    pub struct SysbenchReadOnly {
        /// Number of tables (`--tables`).
        pub tables: u32 => Bounds::new(1.0, 100_000.0, "files that a server has open"),
        /// Rows per table (`--table-size`).
        pub table_size: u64 => Bounds::new(1.0, 19_595_788_215.0, "4 TiB, whose pages of InnoDB are numbered"),
        /// Connections (`--threads`), with a server thread each.
        pub threads: u32 => THREADS,
        /// Size of InnoDB's buffer pool in MiB.
        pub buffer_pool_mib: u64 => Bounds { most: 4_194_304.0, ..MIB },
        /// Distribution of the rows (`--rand-type`): `special` is the default of sysbench 1.0, `uniform` that
        /// of later versions.
        pub rand_type: RandType,
        /// CPU time of a query in nanoseconds, with the network but without memory management.
        pub query_ns: Figure => SOME_NANOSECONDS,
    }
}

/// Distribution of the rows that queries select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RandType {
    Uniform,
    /// Three of four draws from the hundredth of the range in its middle.
    Special,
}

crate::no_numbers!(RandType);

/// Pages of 4 KiB in an InnoDB page.
const LEAF_PAGES: u64 = 16384 / PAGE_SIZE;

/// Rows in an InnoDB page.
const LEAF_ROWS: u64 = 73;

/// Queries per transaction that read one row.
const POINT_SELECTS: u32 = 10;

/// Queries per transaction that read a range of rows.
const RANGES: u32 = 4;

/// BEGIN and COMMIT, which sysbench counts as queries too.
const BEGIN_AND_COMMIT: u32 = 2;

/// Rows in a range.
const RANGE_ROWS: u64 = 100;

/// Most leaves in all tables.
const MOST_LEAVES: u64 = 1 << 28;

/// Region of the buffer pool.
const POOL: u32 = 0;

struct Connection {
    random: Pcg64Mcg,
    /// Queries left in the current transaction.
    queries: u32,
    /// Table of the point selects.
    table: u32,
    /// Remaining operations of the current query; the next one is last.
    pending: Vec<Operation>,
}

/// sysbench and MySQL, running.
pub struct SysbenchDemand {
    spec: SysbenchReadOnly,
    layout: Layout,
    leaves: u64,
    pool: BufferPool,
    connections: Vec<Connection>,
}

impl SysbenchReadOnly {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.leaves().saturating_mul(self.tables.into()) > MOST_LEAVES {
            return Err(WrongValue::new("table_size", self.table_size, "at most 4 TiB in all tables"));
        }
        Ok(())
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![("query_ns".into(), &mut self.query_ns)]
    }

    /// Leaves per table.
    fn leaves(&self) -> u64 {
        self.table_size.div_ceil(LEAF_ROWS)
    }

    /// Starts MySQL with an empty buffer pool; `random` gives each thread a random stream of its own.
    pub fn demand(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<SysbenchDemand, WrongValue> {
        self.check()?;
        let leaves = self.leaves();
        let slots = (self.buffer_pool_mib << 20) / 16384;
        // InnoDB opens the file of a table once and gives no advice.
        let file = File {
            pages: leaves * LEAF_PAGES,
            advice: Advice::Normal,
            descriptor: Descriptor::Shared,
            new: false,
        };
        Ok(SysbenchDemand {
            layout: Layout {
                processes: vec![Process { group: 0 }],
                files: vec![file; self.tables as usize],
                regions: vec![Region { pages: slots * LEAF_PAGES, process: 0 }],
                threads: vec![Thread::of(0); self.threads as usize],
            },
            leaves,
            pool: BufferPool::new((leaves * u64::from(self.tables)) as u32, slots as u32),
            connections: (0..u64::from(self.threads))
                .map(|thread| Connection {
                    random: random(thread),
                    queries: 0,
                    table: 0,
                    pending: Vec::new(),
                })
                .collect(),
            spec: self.clone(),
        })
    }
}

impl SysbenchDemand {
    /// Reads those of the rows `first` to `last` of `table` that are in `leaf`.
    fn read_leaf(&mut self, thread: usize, table: u32, leaf: u64, first: u64, last: u64) {
        let pending = &mut self.connections[thread].pending;
        let block = u64::from(table) * self.leaves + leaf;
        let touch = |index, pages, write| Operation::Touch { region: POOL, index, pages, write };
        match self.pool.request(block as u32) {
            Found::Hit(slot) => {
                let page = |row: u64| (row - leaf * LEAF_ROWS) * LEAF_PAGES / LEAF_ROWS;
                let from = page(first.max(leaf * LEAF_ROWS));
                let to = page(last.min(leaf * LEAF_ROWS + LEAF_ROWS - 1));
                pending.push(touch(u64::from(slot) * LEAF_PAGES + from, (to - from + 1) as u32, false));
            }
            Found::Miss(slot) => {
                let pages = LEAF_PAGES as u32;
                pending.push(Operation::Read { file: table, index: leaf * LEAF_PAGES, pages });
                pending.push(touch(u64::from(slot) * LEAF_PAGES, pages, true));
            }
        }
    }

    /// Plans the next query.
    fn query(&mut self, thread: usize) {
        let SysbenchReadOnly { tables, table_size, rand_type, .. } = self.spec;
        let connection = &mut self.connections[thread];
        if connection.queries == 0 {
            connection.queries = POINT_SELECTS + RANGES;
            connection.table = connection.random.random_range(0..tables);
        }
        let row = match rand_type {
            RandType::Uniform => connection.random.random_range(0..table_size),
            RandType::Special => SysbenchSpecial::new(table_size).sample(&mut connection.random),
        };
        connection.pending.push(Operation::Compute { nanoseconds: nanoseconds(&self.spec.query_ns) });
        let (table, last) = if connection.queries > RANGES {
            (connection.table, row)
        } else {
            (connection.random.random_range(0..tables), (row + RANGE_ROWS - 1).min(table_size - 1))
        };
        connection.queries -= 1;
        let done = connection.queries == 0;
        for leaf in row / LEAF_ROWS..=last / LEAF_ROWS {
            self.read_leaf(thread, table, leaf, row, last);
        }
        let pending = &mut self.connections[thread].pending;
        if done {
            pending.push(Operation::TransactionEnd);
        }
        pending.reverse();
    }
}

impl Demand for SysbenchDemand {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn queries_per_transaction(&self) -> Option<u32> {
        Some(POINT_SELECTS + RANGES + BEGIN_AND_COMMIT)
    }

    fn next(&mut self, thread: usize) -> Option<Operation> {
        if self.connections[thread].pending.is_empty() {
            self.query(thread);
        }
        self.connections[thread].pending.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn small(rand_type: RandType, buffer_pool_mib: u64) -> SysbenchReadOnly {
        SysbenchReadOnly {
            tables: 3,
            table_size: 100_000,
            threads: 2,
            buffer_pool_mib,
            rand_type,
            query_ns: Figure { value: 50_000.0, range: None, source: "made up".into() },
        }
    }

    #[test]
    fn tables_have_the_size_that_mysql_gives_them() {
        let published =
            SysbenchReadOnly { tables: 48, table_size: 2_000_000, ..small(RandType::Special, 15360) };
        let demand = published.demand(Pcg64Mcg::seed_from_u64).unwrap();
        let gib = |pages: u64| pages as f64 * PAGE_SIZE as f64 / f64::from(1 << 30);
        assert!((gib(demand.layout().files[0].pages) - 0.418).abs() < 0.001);
        assert_eq!(gib(demand.layout().regions[0].pages), 15.0);
    }

    /// Runs transactions on connection 0. Returns numbers of queries, file reads, writes to the pool and
    /// reads of the pool.
    fn run(spec: &SysbenchReadOnly, transactions: usize) -> (u64, u64, u64, u64) {
        let mut demand = spec.demand(Pcg64Mcg::seed_from_u64).unwrap();
        let layout = demand.layout().clone();
        let (mut queries, mut reads, mut fills, mut hits, mut ended) = (0, 0, 0, 0, 0);
        while ended < transactions {
            match demand.next(0).unwrap() {
                Operation::Compute { .. } => queries += 1,
                Operation::Read { file, index, pages } => {
                    assert!(index + u64::from(pages) <= layout.files[file as usize].pages);
                    reads += 1;
                }
                Operation::Touch { index, pages, write, .. } => {
                    assert!(index + u64::from(pages) <= layout.regions[0].pages);
                    if write { fills += 1 } else { hits += 1 }
                }
                Operation::TransactionEnd => ended += 1,
                operation => panic!("{operation:?}"),
            }
        }
        (queries, reads, fills, hits)
    }

    #[test]
    fn a_pool_that_holds_all_is_filled_once_and_a_small_one_by_its_share() {
        // 3 tables of 1370 leaves are 64.2 MiB.
        let (queries, reads, fills, hits) = run(&small(RandType::Uniform, 65), 20_000);
        assert_eq!((queries, reads, fills), (14 * 20_000, 4110, 4110));
        // A range of 100 rows touches 2.36 leaves.
        let leaves = (reads + hits) as f64 / 20_000.0;
        assert!((leaves - (10.0 + 4.0 * (1.0 + 99.0 / 73.0))).abs() < 0.05, "{leaves}");
        // Half of the leaves fit, so half of the requests for a single leaf miss, and slightly fewer of those
        // for a range.
        let (_, reads, _, hits) = run(&small(RandType::Uniform, 32), 20_000);
        let missed = reads as f64 / (reads + hits) as f64;
        assert!((0.47..0.51).contains(&missed), "{missed}");
        // The special rows are in 42 of these leaves.
        let (_, reads, _, hits) = run(&small(RandType::Special, 32), 20_000);
        assert!((reads as f64 / (reads + hits) as f64) < 0.05);
    }
}
