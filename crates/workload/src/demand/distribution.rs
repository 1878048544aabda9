//! Random distributions over `n` values, drawn exactly as the benchmarks draw them.
//!
//! **Zipf as in fio** (`lib/zipf.c: zipf_next`, `hash.h: __hash_u64`; fio 3.35). The rank is drawn by the
//! method of Gray et al. ("Quickly generating billion-record synthetic databases", SIGMOD 1994): the two most
//! popular ranks exactly, the others by inverting an integral. Rank `r` then becomes block
//! `(r * 0x61c8864680b583eb + offset) mod n`, which spreads the hot blocks over the file. The map is not one
//! to one: some blocks have several ranks, others none and are never read. These are 23 % of the blocks of a
//! file of 1000 MiB, 3 % for 1536 MiB, and none for 1024 MiB.
//!
//! ```text
//!   rank    1 ████████████   2 █████   3 ███   4 ██ ...        p(r) ~ 1 / r^theta
//!              │               │
//!              └──────┐   ┌────┘        hash
//!   block   0   1   2   3   4   5 ...   n-1
//! ```
//!
//! **Special as in sysbench** (`src/sb_rand.c: sb_rand_special`; sysbench 1.0): three of four draws are from
//! the hundredth of the range around its middle; the others are bell-shaped (the mean of twelve uniform
//! draws).

use rand::{Rng, RngExt};
use rand_distr::Distribution;

/// Multiplier of fio's 64-bit hash.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

/// Ranks drawn by Zipf's law, and fio's map from ranks to blocks.
#[derive(Clone, Debug)]
pub struct FioZipf {
    blocks: u64,
    theta: f64,
    zeta: f64,
    first_two: f64,
    eta: f64,
    offset: u64,
}

impl FioZipf {
    /// A distribution over `blocks` blocks with exponent `theta`, which must not be 1; `offset` moves the hot
    /// blocks.
    pub fn new(blocks: u64, theta: f64, offset: u64) -> FioZipf {
        let zeta: f64 = (1..=blocks).map(|rank| (rank as f64).powf(-theta)).sum();
        let first_two = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / blocks as f64).powf(1.0 - theta)) / (1.0 - first_two / zeta);
        FioZipf { blocks, theta, zeta, first_two, eta, offset }
    }

    /// The same distribution with other hot blocks.
    pub fn moved(&self, offset: u64) -> FioZipf {
        FioZipf { offset, ..self.clone() }
    }

    /// Draws a rank; 0 is the most popular.
    #[inline]
    pub fn rank(&self, random: &mut impl Rng) -> u64 {
        let uniform: f64 = random.random();
        let z = uniform * self.zeta;
        if z < 1.0 {
            0
        } else if z < self.first_two {
            1
        } else {
            let power = 1.0 / (1.0 - self.theta);
            (self.blocks as f64 * (self.eta * uniform - self.eta + 1.0).powf(power)) as u64
        }
    }

    /// The block of a rank.
    #[inline]
    pub fn block(&self, rank: u64) -> u64 {
        rank.wrapping_mul(GOLDEN_RATIO).wrapping_add(self.offset) % self.blocks
    }
}

impl Distribution<u64> for FioZipf {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, mut random: &mut R) -> u64 {
        self.block(self.rank(&mut random))
    }
}

/// The share of sysbench's draws from the middle, and the share of the range that counts as the middle.
const SPECIAL: (f64, f64) = (0.75, 0.01);

/// Number of uniform draws whose mean gives the other draws.
const BELL_DRAWS: usize = 12;

/// sysbench's distribution `special`, over `0..values`.
#[derive(Clone, Copy, Debug)]
pub struct SysbenchSpecial {
    values: u64,
}

impl SysbenchSpecial {
    /// A distribution over `values` values, at least one.
    pub fn new(values: u64) -> SysbenchSpecial {
        SysbenchSpecial { values }
    }
}

impl Distribution<u64> for SysbenchSpecial {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> u64 {
        let range = (self.values - 1) as f64;
        let (part, width) = SPECIAL;
        let place = if random.random::<f64>() < part {
            0.5 + width * (random.random::<f64>() - 0.5)
        } else {
            (0..BELL_DRAWS).map(|_| random.random::<f64>()).sum::<f64>() / BELL_DRAWS as f64
        };
        (place * range) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    const DRAWS: usize = 1_000_000;

    fn random() -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(1)
    }

    /// The share of draws with a rank below `rank`.
    fn below(zipf: &FioZipf, rank: u64) -> f64 {
        let mut random = random();
        (0..DRAWS).filter(|_| zipf.rank(&mut random) < rank).count() as f64 / DRAWS as f64
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for (blocks, theta) in [(256_000, 1.2), (393_216, 1.2), (10_000, 0.8)] {
            let zipf = FioZipf::new(blocks, theta, 0);
            let exact = |rank: u64| (1..=rank).map(|r| (r as f64).powf(-theta)).sum::<f64>() / zipf.zeta;
            // The first two ranks are exact; three standard deviations of their share are 0.0015.
            for rank in [1, 2] {
                assert!((below(&zipf, rank) - exact(rank)).abs() < 0.0015);
            }
            // The integral differs from the sum by up to 3 % of all draws.
            for rank in [10, 100, 1000, blocks / 10, blocks / 2, blocks] {
                let (drawn, exact) = (below(&zipf, rank), exact(rank));
                assert!((drawn - exact).abs() < 0.03, "{theta}: {drawn} and not {exact} below rank {rank}");
            }
        }
    }

    #[test]
    fn hashing_leaves_blocks_out() {
        let unused = |blocks: u64| {
            let zipf = FioZipf::new(blocks, 1.2, 12_345);
            let mut ranks = vec![0u32; blocks as usize];
            (0..blocks).for_each(|rank| ranks[zipf.block(rank) as usize] += 1);
            ranks.iter().filter(|&&ranks| ranks == 0).count()
        };
        assert_eq!((unused(256_000), unused(262_144), unused(393_216)), (59_660, 0, 12_852));
        let zipf = FioZipf::new(256_000, 1.2, 12_345);
        assert_eq!(zipf.moved(12_346).block(7), (zipf.block(7) + 1) % 256_000);
    }

    #[test]
    fn special_values_are_in_the_middle() {
        let (special, mut random) = (SysbenchSpecial::new(2_000_001), random());
        let drawn: Vec<u64> = (0..DRAWS).map(|_| special.sample(&mut random)).collect();
        let part = |from: u64, to: u64| {
            drawn.iter().filter(|&&value| (from..to).contains(&value)).count() as f64 / DRAWS as f64
        };
        // The standard deviation of the bell is a twelfth of the range, so 4.8 % of its draws are in the
        // middle hundredth.
        assert!((part(990_000, 1_010_000) - (0.75 + 0.25 * 0.048)).abs() < 0.003);
        assert!((part(0, 666_667) - 0.25 * 0.0228).abs() < 0.001);
        assert!(drawn.iter().all(|&value| value <= 2_000_000));
        assert_eq!(SysbenchSpecial::new(1).sample(&mut random), 0);
    }
}
