//! Which of `n` things: at random, each as benchmarks draw it.
//!
//! **Zipf as fio draws it** (`lib/zipf.c: zipf_next`, `hash.h: __hash_u64`; fio 3.35). The rank comes from the method of Gray et al. ("Quickly
//! generating billion-record synthetic databases", SIGMOD 1994): the two most popular ranks exactly, the others by
//! inverting an integral. Then rank `r` becomes block `(r * 0x61c8864680b583eb + offset) mod n`, so that hot blocks lie
//! all over the file. That map is not one to one: some blocks are several ranks, and the others nobody ever reads. In a
//! file of 1000 MiB that is 23 % of the blocks, in one of 1536 MiB 3 %, in one of 1024 MiB none.
//!
//! ```text
//!   rank    1 ████████████   2 █████   3 ███   4 ██ ...        p(r) ~ 1 / r^theta
//!              │               │
//!              └──────┐   ┌────┘        hash
//!   block   0   1   2   3   4   5 ...   n-1
//! ```
//!
//! **Special as sysbench draws it** (`src/sb_rand.c: sb_rand_special`; sysbench 1.0): three of four draws fall into the
//! hundredth of the range around its middle, the others have the shape of a bell (the mean of twelve uniform draws).

use rand::{Rng, RngExt};
use rand_distr::Distribution;

/// fio's multiplier for hashing 64 bits.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

/// Ranks by Zipf's law, and fio's map from ranks to blocks.
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
    /// Over `blocks` blocks with exponent `theta`, which must not be 1; `offset` moves the hot blocks.
    pub fn new(blocks: u64, theta: f64, offset: u64) -> FioZipf {
        let zeta: f64 = (1..=blocks).map(|rank| (rank as f64).powf(-theta)).sum();
        let first_two = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / blocks as f64).powf(1.0 - theta)) / (1.0 - first_two / zeta);
        FioZipf { blocks, theta, zeta, first_two, eta, offset }
    }

    /// The same law with other hot blocks.
    pub fn moved(&self, offset: u64) -> FioZipf {
        FioZipf { offset, ..self.clone() }
    }

    /// A rank, the most popular being 0.
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

    /// The block that a rank is.
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

/// Part of sysbench's draws that fall into the middle, and part of the range that the middle is.
const SPECIAL: (f64, f64) = (0.75, 0.01);

/// Uniform draws whose mean the other draws are.
const BELL_DRAWS: usize = 12;

/// sysbench's `special`, from 0 to `values - 1`.
#[derive(Clone, Copy, Debug)]
pub struct SysbenchSpecial {
    values: u64,
}

impl SysbenchSpecial {
    /// Over `values` values, at least one.
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

    /// Draws below `rank`, as a part of all.
    fn below(zipf: &FioZipf, rank: u64) -> f64 {
        let mut random = random();
        (0..DRAWS).filter(|_| zipf.rank(&mut random) < rank).count() as f64 / DRAWS as f64
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for (blocks, theta) in [(256_000, 1.2), (393_216, 1.2), (10_000, 0.8)] {
            let zipf = FioZipf::new(blocks, theta, 0);
            let exact = |rank: u64| (1..=rank).map(|r| (r as f64).powf(-theta)).sum::<f64>() / zipf.zeta;
            // The first two are exact but for chance, three standard deviations of which are 0.0015.
            for rank in [1, 2] {
                assert!((below(&zipf, rank) - exact(rank)).abs() < 0.0015);
            }
            // The integral is up to 3 % of all draws off the sum.
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
        // The bell's standard deviation is a twelfth of the range: 4.8 % of its draws fall into the middle hundredth.
        assert!((part(990_000, 1_010_000) - (0.75 + 0.25 * 0.048)).abs() < 0.003);
        assert!((part(0, 666_667) - 0.25 * 0.0228).abs() < 0.001);
        assert!(drawn.iter().all(|&value| value <= 2_000_000));
        assert_eq!(SysbenchSpecial::new(1).sample(&mut random), 0);
    }
}
