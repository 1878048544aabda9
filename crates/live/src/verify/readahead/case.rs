//! Which reads, loads and stores run, and what is said of them.

use mm::address_space;
use mm::readahead::Advice;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};
use sim::readahead::{Access, By};

/// One run of accesses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, with which its file begins.
    pub name: String,
    /// Length of the file.
    pub file_pages: u32,
    /// `queue/read_ahead_kb` of the device.
    pub read_ahead_kb: u64,
    /// `queue/max_sectors_kb` of the device.
    pub max_sectors_kb: u64,
    /// The file system has large folios.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub large_folios: bool,
    /// What is said of each descriptor: `normal`, `sequential` or `random`.
    pub descriptors: Vec<Said>,
    /// How the file is mapped, where it is loaded from or stored to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<MappedCase>,
}

/// What a case has besides where the file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappedCase {
    /// What `madvise` says of the mapping, which is of the first descriptor.
    pub said: Said,
    /// `fault_around_bytes`.
    pub fault_around_bytes: u64,
    /// Page faults of all accesses.
    pub page_faults: u64,
}

/// Advice, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// Nothing.
    Normal,
    /// `POSIX_FADV_SEQUENTIAL`, `MADV_SEQUENTIAL`.
    Sequential,
    /// `POSIX_FADV_RANDOM`, `MADV_RANDOM`.
    Random,
}

impl Said {
    /// The same of a descriptor.
    pub fn of_descriptor(self) -> Advice {
        match self {
            Said::Normal => Advice::Normal,
            Said::Sequential => Advice::Sequential,
            Said::Random => Advice::Random,
        }
    }

    /// The same of a mapping.
    pub fn of_mapping(self) -> address_space::Advice {
        match self {
            Said::Normal => address_space::Advice::Normal,
            Said::Sequential => address_space::Advice::Sequential,
            Said::Random => address_space::Advice::Random,
        }
    }
}

/// Pages of the file: 32 MiB.
pub const FILE_PAGES: u32 = 8192;

/// Random numbers for reads, always the same.
struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        self.0.next_u32() % most
    }
}

/// What runs.
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// What is said of each descriptor.
    pub descriptors: Vec<Said>,
    /// What is said of the mapping, if there is one.
    pub mapping: Option<Said>,
    /// One after the other.
    pub accesses: Vec<Access>,
}

/// All that runs.
pub fn plans() -> Vec<Plan> {
    let mut random = Random(Pcg64Mcg::new(0x5eed));
    let mut plans = of_reads(&mut random);
    plans.extend(of_mappings(&mut random));
    plans
}

fn read(descriptor: u32, index: u32, pages: u32) -> Access {
    Access { by: By::Read, descriptor, index, pages }
}

/// Requests of so many pages, from the beginning of the file to its end.
fn sequential(pages: u32) -> Vec<Access> {
    (0..FILE_PAGES / pages).map(|n| read(0, n * pages, pages)).collect()
}

fn of_reads(random: &mut Random) -> Vec<Plan> {
    let mut random_blocks = |pages: u32, count: usize| -> Vec<Access> {
        (0..count).map(|_| read(0, random.below(FILE_PAGES / pages) * pages, pages)).collect()
    };
    let (single, blocks, odd) = (random_blocks(1, 8000), random_blocks(8, 3000), random_blocks(7, 4000));
    let interleaved = |descriptors: u32| -> Vec<Access> {
        (0..2000).flat_map(|n| [read(0, n, 1), read(1 % descriptors, 5000 + n, 1)]).collect()
    };
    let mixed = (0..4000).map(|_| match random.below(4) {
        0 => read(0, random.below(FILE_PAGES), 1 + random.below(400)),
        1 => read(0, random.below(FILE_PAGES), 1),
        _ => read(random.below(2), random.below(FILE_PAGES), 1 + random.below(40)),
    });
    let mixed = mixed.collect();
    let plan = |(name, descriptors, accesses)| Plan { name, descriptors, mapping: None, accesses };
    [
        ("sequential-4k", vec![Said::Normal], sequential(1)),
        ("sequential-4k-advised", vec![Said::Sequential], sequential(1)),
        ("sequential-4k-random", vec![Said::Random], sequential(1)),
        ("sequential-32k", vec![Said::Normal], sequential(8)),
        ("sequential-28k", vec![Said::Normal], sequential(7)),
        ("sequential-2m", vec![Said::Normal], sequential(512)),
        ("backwards-4k", vec![Said::Normal], sequential(1).into_iter().rev().collect()),
        ("strided", vec![Said::Normal], (0..FILE_PAGES / 16).map(|n| read(0, n * 16, 4)).collect()),
        ("random-4k", vec![Said::Normal], single.clone()),
        ("random-4k-advised", vec![Said::Random], single),
        ("random-32k", vec![Said::Normal], blocks.clone()),
        ("random-32k-advised", vec![Said::Random], blocks),
        ("random-28k", vec![Said::Normal], odd),
        ("interleaved-one-descriptor", vec![Said::Normal], interleaved(1)),
        ("interleaved-two-descriptors", vec![Said::Normal; 2], interleaved(2)),
        ("mixed", vec![Said::Normal, Said::Sequential], mixed),
    ]
    .map(plan)
    .into()
}

/// Loads and stores. Loads map pages around them, which stores do not, so that only stores miss more often than they hit.
fn of_mappings(random: &mut Random) -> Vec<Plan> {
    let loads = |accesses: Vec<Access>| accesses.into_iter().map(|access| Access { by: By::Load, ..access });
    let at = |by, index| Access { by, descriptor: 0, index, pages: 1 };
    let mut random_pages =
        |by, count: usize| -> Vec<Access> { (0..count).map(|_| at(by, random.below(FILE_PAGES))).collect() };
    let (single, stores) = (random_pages(By::Load, 4000), random_pages(By::Store, 4000));
    // No two of them in one window, then loads of what is in memory by chance, then the rest.
    let apart = (0..FILE_PAGES / 40).map(|n| at(By::Store, n * 40));
    let given_up: Vec<Access> = apart.chain(random_pages(By::Load, 300)).collect();
    let given_up = given_up.into_iter().chain(loads(sequential(1))).collect();
    let mixed = (0..4000).map(|_| match random.below(4) {
        0 => read(random.below(2), random.below(FILE_PAGES), 1 + random.below(40)),
        1 => at(By::Store, random.below(FILE_PAGES)),
        _ => Access { pages: 1 + random.below(20), ..at(By::Load, random.below(FILE_PAGES - 20)) },
    });
    let mixed = mixed.collect();
    let strided = (0..FILE_PAGES / 24).map(|n| Access { pages: 4, ..at(By::Load, n * 24) });
    let plan = |(name, said, accesses)| Plan {
        name,
        descriptors: vec![Said::Normal; 2],
        mapping: Some(said),
        accesses,
    };
    [
        ("mapped-sequential", Said::Normal, loads(sequential(1)).collect()),
        ("mapped-sequential-advised", Said::Sequential, loads(sequential(1)).collect()),
        ("mapped-sequential-random", Said::Random, loads(sequential(1)).collect()),
        ("mapped-backwards", Said::Normal, loads(sequential(1)).rev().collect()),
        ("mapped-strided", Said::Normal, strided.clone().collect()),
        ("mapped-strided-advised", Said::Sequential, strided.collect()),
        ("mapped-random", Said::Normal, single.clone()),
        ("mapped-random-advised", Said::Random, single),
        ("mapped-stores", Said::Normal, stores),
        ("mapped-stores-apart", Said::Normal, given_up),
        ("mapped-mixed", Said::Normal, mixed),
    ]
    .map(plan)
    .into()
}
