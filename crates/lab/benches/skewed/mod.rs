//! The replayed sequence: 20 M skewed accesses to 1.5 M pages, with memory for 1 M of them (hit ratio about
//! 0.86).

use lab::rulers::Sequence;
use std::sync::LazyLock;

pub const ACCESSES: u64 = 20_000_000;
pub const MEMORY: usize = 1_000_000;
const PAGES: u64 = 1_500_000;

fn mix(number: u64) -> u64 {
    let z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A product of two uniform numbers, spread over all pages.
pub static SEQUENCE: LazyLock<Sequence> = LazyLock::new(|| {
    let part = |number: u64, of: u64| (of * (mix(number) >> 32)) >> 32;
    let page = |i| (part(2 * i + 1, part(2 * i, PAGES)) * 7919 % PAGES) as u32;
    (0..ACCESSES).map(page).collect::<Vec<u32>>().into()
});
