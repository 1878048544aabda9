//! sysbench's `oltp_read_only` on MySQL: rows read through InnoDB's buffer pool.
//!
//! ```text
//!   transaction   10 × SELECT one row          in one table
//!                  4 × SELECT ... 100 rows     each in a table of its own choice    (and BEGIN, COMMIT)
//!
//!   row ──► leaf of the clustered index, 16 KiB ──► buffer pool ── hit ──► the rows' pages are read
//!                                                              └── miss ─► file is read, all of 16 KiB are written
//! ```
//!
//! With a pool that is as large as the limit of its control group, the pool's own pages go to swap; with one that is
//! smaller than the tables, misses go through the page cache as well (MySQL's default `innodb_flush_method` on Linux
//! was `fsync` until 8.4: files are read through the page cache). The inner levels of the indexes are a few pages a
//! table, always hot, and are left out.
//!
//! A row of sysbench's table has 4 + 4 + 120 + 60 bytes in four columns; with InnoDB's 5 to 7 bytes of header, 13 bytes
//! of transaction and rollback pointer and the lengths of two CHAR columns that is 206 bytes, and a page is filled to
//! 15/16 when rows come in order of their key: 73 rows.

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
    /// sysbench and MySQL as scenarios describe them.
    pub struct SysbenchReadOnly {
        /// Tables (`--tables`).
        pub tables: u32 => Bounds::new(1.0, 100_000.0, "files that a server has open"),
        /// Rows of each (`--table-size`).
        pub table_size: u64 => Bounds::new(1.0, 19_595_788_215.0, "4 TiB, whose pages of InnoDB are numbered"),
        /// Connections (`--threads`), with a thread each.
        pub threads: u32 => THREADS,
        /// InnoDB's buffer pool, MiB.
        pub buffer_pool_mib: u64 => Bounds { most: 4_194_304.0, ..MIB },
        /// Which rows (`--rand-type`): `special` is what sysbench 1.0 takes by itself, `uniform` what later versions do.
        pub rand_type: RandType,
        /// CPU time of a query outside memory management, network included, nanoseconds.
        pub query_ns: Figure => SOME_NANOSECONDS,
    }
}

/// How rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RandType {
    /// All alike.
    Uniform,
    /// Three of four from the hundredth in the middle.
    Special,
}

crate::no_numbers!(RandType);

/// Pages of 4 KiB in a page of InnoDB.
const LEAF_PAGES: u64 = 16384 / PAGE_SIZE;

/// Rows in a page of InnoDB.
const LEAF_ROWS: u64 = 73;

/// Queries of a transaction that read one row.
const POINT_SELECTS: u32 = 10;

/// Queries of a transaction that read a range of rows.
const RANGES: u32 = 4;

/// Statements around them, which sysbench counts as queries too.
const BEGIN_AND_COMMIT: u32 = 2;

/// Rows of a range.
const RANGE_ROWS: u64 = 100;

/// Most leaves that are numbered.
const MOST_LEAVES: u64 = 1 << 28;

/// Region of the buffer pool.
const POOL: u32 = 0;

struct Connection {
    random: Pcg64Mcg,
    /// Queries of the current transaction that are still to come.
    queries: u32,
    /// Table of the point selects.
    table: u32,
    /// What is left of the current query, the next operation last.
    pending: Vec<Operation>,
}

/// sysbench at work.
pub struct SysbenchDemand {
    spec: SysbenchReadOnly,
    layout: Layout,
    leaves: u64,
    pool: BufferPool,
    connections: Vec<Connection>,
}

impl SysbenchReadOnly {
    /// Refuses what no run can be made of.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.leaves().saturating_mul(self.tables.into()) > MOST_LEAVES {
            return Err(WrongValue::new("table_size", self.table_size, "at most 4 TiB in all tables"));
        }
        Ok(())
    }

    /// Figures with a source, by their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![("query_ns".into(), &mut self.query_ns)]
    }

    /// Leaves of a table.
    fn leaves(&self) -> u64 {
        self.table_size.div_ceil(LEAF_ROWS)
    }

    /// sysbench at work, with an empty buffer pool; `random` gives each thread a stream of its own.
    pub fn demand(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<SysbenchDemand, WrongValue> {
        self.check()?;
        let leaves = self.leaves();
        let slots = (self.buffer_pool_mib << 20) / 16384;
        // InnoDB opens a table's file once and gives no advice on it.
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
    /// Reads rows `first` to `last` of `table`, as far as they are in `leaf`.
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

    /// Operations of `transactions` transactions of connection 0: queries, reads, writes and reads of the pool.
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
        // Half the leaves fit: half the requests for a single leaf miss, and a little fewer of a range's.
        let (_, reads, _, hits) = run(&small(RandType::Uniform, 32), 20_000);
        let missed = reads as f64 / (reads + hits) as f64;
        assert!((0.47..0.51).contains(&missed), "{missed}");
        // The special rows are 42 of these leaves.
        let (_, reads, _, hits) = run(&small(RandType::Special, 32), 20_000);
        assert!((reads as f64 / (reads + hits) as f64) < 0.05);
    }
}
