//! Benchmark of the host: clearing a block of memory and using it, by block size.
//!
//! ```text
//!   clear_only     clears a block that no cache holds, 4 KiB after 4 KiB, as kernels clear a large folio
//!   clear_and_use  clears, then reads every line once from the first page on, which costs what caches have lost
//! ```
//!
//! An item is a page. The difference between both rises if a block no longer fits the caches nearest to the
//! CPU.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

const PAGE: usize = 4096;
const LINE: usize = 64;
/// More than any cache holds.
const POOL: usize = 512 << 20;
const PAGES: [usize; 6] = [1, 4, 8, 16, 64, 512];

fn main() {
    divan::main();
}

/// Numbers below `end`, in a pseudo-random order.
struct Places {
    state: u64,
    end: usize,
}

impl Places {
    fn next(&mut self) -> usize {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) as usize % self.end
    }
}

fn pool(pages: usize) -> (Vec<u8>, Places) {
    (vec![1; POOL], Places { state: 1, end: POOL / (pages * PAGE) })
}

fn clear(block: &mut [u8]) {
    block.chunks_mut(PAGE).for_each(|page| black_box(page).fill(0));
}

fn lines(block: &[u8]) -> u64 {
    block.chunks(LINE).map(|line| u64::from(line[0])).sum()
}

/// Clears blocks at random places, and calls `then` with each.
fn measure(bencher: Bencher, pages: usize, then: fn(&[u8]) -> u64) {
    let (mut memory, mut places) = pool(pages);
    let size = pages * PAGE;
    bencher.counter(ItemsCount::new(pages)).bench_local(|| {
        let first = places.next() * size;
        let block = &mut memory[first..first + size];
        clear(block);
        then(black_box(block))
    });
}

#[divan::bench(args = PAGES, sample_count = 200)]
fn clear_only(bencher: Bencher, pages: usize) {
    measure(bencher, pages, |_| 0);
}

#[divan::bench(args = PAGES, sample_count = 200)]
fn clear_and_use(bencher: Bencher, pages: usize) {
    measure(bencher, pages, lines);
}
