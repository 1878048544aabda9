//! Which reads run, and what is said of them.

use mm::readahead::Advice;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};
use sim::readahead::Access;

/// One run of reads.
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
}

/// [`Advice`], as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// Nothing.
    Normal,
    /// `POSIX_FADV_SEQUENTIAL`.
    Sequential,
    /// `POSIX_FADV_RANDOM`.
    Random,
}

impl Case {
    /// What is said of each descriptor.
    pub fn advice(&self) -> Vec<Advice> {
        let advice = |said: &Said| match said {
            Said::Normal => Advice::Normal,
            Said::Sequential => Advice::Sequential,
            Said::Random => Advice::Random,
        };
        self.descriptors.iter().map(advice).collect()
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

/// What runs: names, what is said of each descriptor, reads.
pub fn cases() -> Vec<(&'static str, Vec<Said>, Vec<Access>)> {
    let mut random = Random(Pcg64Mcg::new(0x5eed));
    let read = |descriptor, index, pages| Access { descriptor, index, pages };
    let sequential =
        |pages: u32| (0..FILE_PAGES / pages).map(|n| read(0, n * pages, pages)).collect::<Vec<_>>();
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
    vec![
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
}
