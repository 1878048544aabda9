//! Sequences of accesses that any program can generate bit for bit, to run on a real kernel and in the twin.
//!
//! ```text
//!   splitmix64 ── uniform ───────────────────────────────┐
//!        └─ Zipf over ranks ── permutation of the pages ─┼─► shape ──► Operation, Operation, ...
//!                                                        │
//!   zipf       popular pages among rare ones             │   loop    one page after the other, again and again
//!   scanmix    a hot set and a scan that passes by       │   shift   one working set, another, the first again
//!   mix        files and anonymous memory together       │   g...    the same for a whole machine, without a memcg
//! ```
//!
//! All arithmetic is on integers. Rank `i` of Zipf's law with exponent 6/5 has the weight
//! `2^60 / floor(i^1.2 * 2^20)`, where the fifth root in `i^1.2` is an integer root. Pages are permuted with the
//! Fisher-Yates shuffle. The tests compare each sequence with the SHA-256 of its records, which a second program in
//! another language produced.

use std::cmp::Ordering;

/// One access to a page, given by its number in the file or in the anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `pread` of the page, without readahead.
    Read(u32),
    /// Load of a byte of the page through a shared mapping of the file.
    MapLoad(u32),
    /// Load of a byte of anonymous memory.
    AnonLoad(u32),
    /// Store of a byte of anonymous memory.
    AnonStore(u32),
    /// `pwrite` of the page.
    Write(u32),
}

/// A named sequence of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub name: &'static str,
    /// One line for lists.
    pub description: &'static str,
    /// Size of the file in pages.
    pub file_pages: u32,
    /// Size of the anonymous memory in pages.
    pub anon_pages: u32,
    /// `memory.max`, in pages, of the memcg that the sequence is meant to run in; `None` if it is meant to
    /// fill a machine's memory.
    pub memcg_max: Option<u64>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Pages of the file drawn by Zipf's law.
    Zipf { through: Way, accesses: u32 },
    /// The file from its first page to its last, `rounds` times.
    Loop { rounds: u32 },
    /// `accesses` drawn uniformly from `pages` pages from page 0 on, then as many from page `second` on, then
    /// from page 0 again.
    Shift { accesses: u32, pages: u32, second: u32 },
    /// Eight of ten accesses drawn uniformly from the first `hot` pages, the others sequential through the
    /// rest of the file.
    ScanMix { through: Way, accesses: u32, hot: u32 },
    /// Half of the accesses drawn by Zipf's law from the file, the others uniformly from anonymous memory.
    Mix { accesses: u32 },
    /// Like `Mix`, but three of four accesses to anonymous memory are drawn by Zipf's law too.
    PopularMix { accesses: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Pread,
    Mapping,
}

impl Way {
    fn to(self, page: u32) -> Operation {
        match self {
            Way::Pread => Operation::Read(page),
            Way::Mapping => Operation::MapLoad(page),
        }
    }
}

const fn of_file(
    name: &'static str,
    description: &'static str,
    file_pages: u32,
    memcg_max: Option<u64>,
    shape: Shape,
) -> Sequence {
    Sequence { name, description, file_pages, anon_pages: 0, memcg_max, shape }
}

pub const SEQUENCES: &[Sequence] = {
    use Shape::*;
    use Way::*;
    &[
        of_file(
            "zipf",
            "popular pages among rare ones",
            32_768,
            Some(4096),
            Zipf { through: Pread, accesses: 300_000 },
        ),
        of_file(
            "loop",
            "a file that does not quite fit, from end to end",
            10_000,
            Some(8192),
            Loop { rounds: 20 },
        ),
        of_file(
            "loop2",
            "a file twice as large as memory, from end to end",
            16_384,
            Some(8192),
            Loop { rounds: 12 },
        ),
        of_file(
            "shift",
            "a working set, another, the first again",
            26_000,
            Some(8192),
            Shift { accesses: 100_000, pages: 6000, second: 20_000 },
        ),
        of_file(
            "scanmix",
            "a hot set and a scan",
            32_000,
            Some(8192),
            ScanMix { through: Pread, accesses: 200_000, hot: 4000 },
        ),
        Sequence {
            name: "mix",
            description: "a file by popularity and anonymous memory uniformly",
            file_pages: 20_000,
            anon_pages: 6000,
            memcg_max: Some(8192),
            shape: Mix { accesses: 200_000 },
        },
        Sequence {
            name: "mix2",
            description: "a file and anonymous memory, both by popularity",
            file_pages: 20_000,
            anon_pages: 10_000,
            memcg_max: Some(8192),
            shape: PopularMix { accesses: 200_000 },
        },
        of_file(
            "zipfmmap",
            "zipf through a mapping",
            32_768,
            Some(4096),
            Zipf { through: Mapping, accesses: 300_000 },
        ),
        of_file(
            "scanmmap",
            "scanmix through a mapping",
            32_000,
            Some(8192),
            ScanMix { through: Mapping, accesses: 200_000, hot: 4000 },
        ),
        of_file(
            "gscan",
            "scanmix for a whole machine of about 45,000 free pages",
            120_000,
            None,
            ScanMix { through: Pread, accesses: 300_000, hot: 30_000 },
        ),
        of_file(
            "gshift",
            "shift for a whole machine of about 45,000 free pages",
            94_000,
            None,
            Shift { accesses: 200_000, pages: 34_000, second: 60_000 },
        ),
        of_file(
            "gloop",
            "loop for a whole machine of about 45,000 free pages",
            60_000,
            None,
            Loop { rounds: 5 },
        ),
    ]
};

impl Sequence {
    pub fn named(name: &str) -> Option<&'static Sequence> {
        SEQUENCES.iter().find(|sequence| sequence.name == name)
    }

    /// The accesses of the sequence, in order.
    pub fn operations(&self) -> Vec<Operation> {
        match self.shape {
            Shape::Zipf { through, accesses } => {
                let (pages, mut random) = (Popularity::new(self.file_pages, 7), SplitMix64(1));
                (0..accesses).map(|_| through.to(pages.draw(&mut random))).collect()
            }
            Shape::Loop { rounds } => {
                (0..rounds).flat_map(|_| (0..self.file_pages).map(Operation::Read)).collect()
            }
            Shape::Shift { accesses, pages, second } => {
                let mut random = SplitMix64(2);
                let mut phase = |base: u32| -> Vec<Operation> {
                    (0..accesses).map(|_| Operation::Read(base + random.below(pages))).collect()
                };
                [0, second, 0].into_iter().flat_map(&mut phase).collect()
            }
            Shape::ScanMix { through, accesses, hot } => self.scan_and_hot_set(through, accesses, hot),
            Shape::Mix { accesses } => {
                let (pages, mut random) = (Popularity::new(self.file_pages, 8), SplitMix64(4));
                let mut next = || match random.below(4) {
                    0 => Operation::AnonLoad(random.below(self.anon_pages)),
                    1 => Operation::AnonStore(random.below(self.anon_pages)),
                    _ => Operation::Read(pages.draw(&mut random)),
                };
                (0..accesses).map(|_| next()).collect()
            }
            Shape::PopularMix { accesses } => {
                let anon = Popularity::new(self.anon_pages, 9);
                let (pages, mut random) = (Popularity::new(self.file_pages, 8), SplitMix64(5));
                let mut next = || match random.below(8) {
                    0 => Operation::AnonStore(random.below(self.anon_pages)),
                    1 | 2 => Operation::AnonLoad(anon.draw(&mut random)),
                    3 => Operation::AnonStore(anon.draw(&mut random)),
                    _ => Operation::Read(pages.draw(&mut random)),
                };
                (0..accesses).map(|_| next()).collect()
            }
        }
    }

    fn scan_and_hot_set(&self, through: Way, accesses: u32, hot: u32) -> Vec<Operation> {
        let (mut random, mut scanned) = (SplitMix64(3), hot);
        let mut next = || {
            if random.below(10) < 8 {
                return through.to(random.below(hot));
            }
            let page = scanned;
            scanned = if page + 1 < self.file_pages { page + 1 } else { hot };
            through.to(page)
        };
        (0..accesses).map(|_| next()).collect()
    }
}

/// The SplitMix64 generator of Steele, Lea and Flood: a counter whose value is mixed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A uniform number in `0..bound`: the upper 32 bits of a draw, scaled.
    fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// The pages of a file with their ranks in Zipf's law.
struct Popularity {
    /// Cumulative weights of the ranks.
    cumulated: Vec<u64>,
    /// The page of each rank.
    pages: Vec<u32>,
}

impl Popularity {
    fn new(pages: u32, seed: u64) -> Popularity {
        let weights = (1..=u64::from(pages)).map(|rank| (1 << 60) / scaled_power(rank));
        let cumulated = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Popularity { cumulated: cumulated.collect(), pages: permutation(pages, seed) }
    }

    fn draw(&self, random: &mut SplitMix64) -> u32 {
        let all = self.cumulated.last().copied().unwrap_or(0);
        let drawn = ((u128::from(random.next()) * u128::from(all)) >> 64) as u64;
        self.pages[self.cumulated.partition_point(|&sum| sum <= drawn)]
    }
}

fn permutation(pages: u32, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64(seed);
    let mut permuted: Vec<u32> = (0..pages).collect();
    for place in (1..pages).rev() {
        permuted.swap(place as usize, random.below(place + 1) as usize);
    }
    permuted
}

/// `floor(rank^(6/5) * 2^20)`, computed as the largest number whose fifth power is at most `rank^6 * 2^100`.
fn scaled_power(rank: u64) -> u64 {
    let bound = product(&[rank, rank, rank, rank, rank, rank, 1 << 50, 1 << 50]);
    let fits = |root: u64| compare(&product(&[root; 5]), &bound) != Ordering::Greater;
    (0..50).rev().fold(0, |root, bit| if fits(root | 1 << bit) { root | 1 << bit } else { root })
}

/// A product of up to 256 bits, in 64-bit limbs, lowest first.
fn product(factors: &[u64]) -> [u64; 4] {
    let mut limbs = [1, 0, 0, 0];
    for &factor in factors {
        let mut carry = 0;
        for limb in &mut limbs {
            let wide = u128::from(*limb) * u128::from(factor) + carry;
            *limb = wide as u64;
            carry = wide >> 64;
        }
    }
    limbs
}

fn compare(a: &[u64; 4], b: &[u64; 4]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Encodes each access as a little-endian word with the kind in its upper four bits, with a marker before
    /// every 10,000th access.
    fn sha256_of_records(operations: &[Operation]) -> String {
        let mut hash = Sha256::new();
        let mut record = |kind: u32, argument: u32| hash.update((kind << 28 | argument).to_le_bytes());
        for (access, operation) in (0u32..).zip(operations) {
            if access % 10_000 == 0 {
                record(4, access / 10_000);
            }
            match *operation {
                Operation::Read(page) => record(0, page),
                Operation::MapLoad(page) => record(1, page),
                Operation::AnonLoad(page) => record(2, page),
                Operation::AnonStore(page) => record(3, page),
                Operation::Write(page) => record(7, page),
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn every_sequence_is_that_of_the_other_program() {
        let expected = [
            ("zipf", "632a9ab6159cbc92c61fac3722952aa3fe223e767fc8e0c00fb4af4dcc7e4449"),
            ("loop", "16a37ea49e8175492ffe9172d9d153bdcb3285e475e5b9f2256eb61930d23df9"),
            ("loop2", "a94c995fe437e33e8485bf0230dfbb0bba3d4daa1d152b98203eb72bfa5d2ba5"),
            ("shift", "581b848449926ada43b04dbe0fe9ef1b614b690283fbb5f9cc09dddd978772d3"),
            ("scanmix", "09ded7e3bac972191a1be020a3ffd9b24e01cffe4913d85e04df8989126343ef"),
            ("mix", "fda83e420b34f06ab079fc15f3bd6264290a86a882ab8eb506c7c310bb173169"),
            ("mix2", "6874c409ed8bd9313c0d3e5aa177ce1bca2c77c604859a31bbaacc4356b2f24f"),
            ("zipfmmap", "bd1bdb300503281d623fe7a364400ec2b19fd3075945aeb4ab88c45094374cae"),
            ("scanmmap", "c8ced9dca56cee0988fc2a378da6a16eb752172a979ecdbaa21321161ee1f3ca"),
            ("gscan", "cfc76f3c2ead50155e49ffc239c76bd264b52cd0454db1201566f0887eacbb21"),
            ("gshift", "bf66f86965a3ad53f1b92e67fe8b910094f4cb74c7d020049f57f4085bbe6ba6"),
            ("gloop", "c3a80f849e31bc21da1dcf9a37c7e9870315f6ef26ce05448b7ebd7a57ff5361"),
        ];
        assert!(SEQUENCES.iter().map(|sequence| sequence.name).eq(expected.map(|(name, _)| name)));
        for (name, hash) in expected {
            let sequence = Sequence::named(name).unwrap();
            assert_eq!(sha256_of_records(&sequence.operations()), hash, "{name}");
        }
    }

    #[test]
    fn pages_are_within_their_file_and_memory() {
        for sequence in SEQUENCES {
            for operation in sequence.operations() {
                let (page, pages) = match operation {
                    Operation::AnonLoad(page) | Operation::AnonStore(page) => (page, sequence.anon_pages),
                    Operation::Read(page) | Operation::MapLoad(page) | Operation::Write(page) => {
                        (page, sequence.file_pages)
                    }
                };
                assert!(page < pages, "{}: {operation:?}", sequence.name);
            }
        }
    }

    /// Compares with floating point, which is exact to 15 digits, where that is precise enough.
    #[test]
    fn weights_are_those_of_zipf_s_law() {
        assert_eq!(scaled_power(1), 1 << 20);
        assert_eq!(scaled_power(32), 1 << 26, "32^1.2 is 64 exactly");
        for rank in [2, 3, 1000, 32_768, 120_000] {
            let root = scaled_power(rank);
            let estimate = (rank as f64).powf(1.2) * f64::from(1 << 20);
            assert!((root as f64 - estimate).abs() <= 1.0 + estimate * 1e-14, "{rank}: {root}, {estimate}");
        }
    }
}
