//! Bloom filters of the page tables that are worth a walk: the last walk, or the rmap since, found many young
//! PTEs in them.
//!
//! ```text
//!   walk for max_seq     tests filter[max_seq mod 2]      dense tables ─► filter[(max_seq + 1) mod 2]
//!   rmap, in between     a dense neighbourhood ─► filter[max_seq mod 2]
//! ```
//!
//! A filter has 2^15 bits and each table sets two of them, so with tens of thousands of tables some are
//! walked for nothing. In the kernel: `test_bloom_filter`, `update_bloom_filter`, `reset_bloom_filter`,
//! `suitable_to_scan` in mm/vmscan.c.

const BLOOM_FILTER_SHIFT: u32 = 15;

/// 2^64 divided by the golden ratio (`GOLDEN_RATIO_64`).
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

#[derive(Clone, Debug)]
struct Filter(Box<[u64]>);

impl Filter {
    fn new() -> Filter {
        Filter(vec![0; 1 << BLOOM_FILTER_SHIFT >> u64::BITS.ilog2()].into())
    }

    /// Word and bit of the two keys of a page table (`get_item_key`).
    fn keys(table: usize) -> [(usize, u64); 2] {
        let hash = (table as u64 + 1).wrapping_mul(GOLDEN_RATIO) >> (64 - 2 * BLOOM_FILTER_SHIFT);
        let key = |key: u64| ((key >> u64::BITS.ilog2()) as usize, 1 << (key % u64::from(u64::BITS)));
        [key(hash % (1 << BLOOM_FILTER_SHIFT)), key(hash >> BLOOM_FILTER_SHIFT)]
    }
}

/// The filter of the current walk and that of the next, indexed by `max_seq` modulo 2.
#[derive(Clone, Debug, Default)]
pub struct BloomFilters([Option<Filter>; 2]);

impl BloomFilters {
    /// Whether the walk for generation `seq` looks at this page table. Without a filter it looks at all.
    pub(super) fn test(&self, seq: u64, table: usize) -> bool {
        let has = |filter: &Filter| Filter::keys(table).iter().all(|&(word, bit)| filter.0[word] & bit != 0);
        self.0[(seq % 2) as usize].as_ref().is_none_or(has)
    }

    /// Adds a page table to the filter of the walk for generation `seq`, if there is one.
    pub(super) fn update(&mut self, seq: u64, table: usize) {
        if let Some(filter) = &mut self.0[(seq % 2) as usize] {
            Filter::keys(table).iter().for_each(|&(word, bit)| filter.0[word] |= bit);
        }
    }

    /// Empties the filter of the walk for generation `seq`, or makes it.
    pub(super) fn reset(&mut self, seq: u64) {
        match &mut self.0[(seq % 2) as usize] {
            Some(filter) => filter.0.fill(0),
            none => *none = Some(Filter::new()),
        }
    }
}

/// Whether so many of `total` PTEs are young that their table is worth a walk: one for each cache line on
/// average.
pub(super) fn suitable_to_scan(total: usize, young: usize) -> bool {
    const ENTRIES_OF_CACHE_LINE: usize = 8;
    young * ENTRIES_OF_CACHE_LINE >= total
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, StandardUniform};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn filters_take_turns() {
        let mut filters = BloomFilters::default();
        assert!(filters.test(4, 7), "no filter yet");
        filters.update(4, 7);
        filters.reset(4);
        assert!(!filters.test(4, 7), "what was noted before there was one is lost");
        filters.update(4, 7);
        assert!(filters.test(4, 7) && filters.test(6, 7) && !filters.test(4, 8));
        assert!(filters.test(5, 8), "the other one does not exist");
        filters.reset(6);
        assert!(!filters.test(6, 7));
    }

    /// The rates are those that the kernel's comment on its filters gives: about 1/5 with 10,000 tables and
    /// 1/2 with 20,000.
    #[test]
    fn some_tables_are_walked_for_nothing() {
        let mut random = Pcg64Mcg::new(1);
        for (tables, expected) in [(10_000, 0.2), (20_000, 0.5)] {
            let mut filters = BloomFilters::default();
            filters.reset(0);
            let mut table = || {
                let number: u32 = StandardUniform.sample(&mut random);
                number as usize
            };
            (0..tables).for_each(|_| filters.update(0, table()));
            let wrong = (0..100_000).filter(|_| filters.test(0, table()));
            let rate = wrong.count() as f64 / 100_000.0;
            assert!((rate - expected).abs() < 0.05, "{rate} of {tables}");
        }
    }

    #[test]
    fn one_of_eight_is_dense() {
        assert!(suitable_to_scan(512, 64) && !suitable_to_scan(512, 63) && suitable_to_scan(0, 0));
    }
}
