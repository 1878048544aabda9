//! How fast rulers replay: 20 M accesses, skewed, to 1.5 M pages, with memory for 1 M of them (hit ratio about 0.9).
//!
//! The same accesses as an oracleGeneral file, for a peer, are written to the path that MMTWIN_BENCH_TRACE names.

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::rulers::{Policy, Sequence};
use std::io::Write;
use std::sync::LazyLock;

const ACCESSES: u64 = 20_000_000;
const PAGES: u64 = 1_500_000;
const MEMORY: usize = 1_000_000;

fn mix(number: u64) -> u64 {
    let z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A product of two uniform numbers, spread over all pages.
static SEQUENCE: LazyLock<Sequence> = LazyLock::new(|| {
    let part = |number: u64, of: u64| (of * (mix(number) >> 32)) >> 32;
    let page = |i| (part(2 * i + 1, part(2 * i, PAGES)) * 7919 % PAGES) as u32;
    (0..ACCESSES).map(page).collect::<Vec<u32>>().into()
});

#[divan::bench(args = Policy::ALL.iter().map(|policy| policy.name), sample_count = 3, sample_size = 1)]
fn replay(bencher: Bencher, policy: &str) {
    let policy = Policy::named(policy).unwrap();
    let sequence = &*SEQUENCE;
    bencher.counter(ItemsCount::new(ACCESSES)).bench_local(|| policy.misses(MEMORY, sequence));
}

fn main() {
    if let Some(path) = std::env::var_os("MMTWIN_BENCH_TRACE") {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        for (time, &page) in SEQUENCE.pages().iter().enumerate() {
            let mut record = [0; 24];
            record[..4].copy_from_slice(&((time / 1_000_000) as u32).to_le_bytes());
            record[4..12].copy_from_slice(&(u64::from(page) + 1).to_le_bytes());
            record[12..16].copy_from_slice(&1u32.to_le_bytes());
            record[16..].copy_from_slice(&(-1i64).to_le_bytes());
            file.write_all(&record).unwrap();
        }
    }
    divan::main();
}
