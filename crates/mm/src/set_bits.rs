//! The bits that are set in a word (`for_each_set_bit` in include/linux/find.h).

use std::iter::successors;

/// Their positions, lowest first.
#[inline]
pub(crate) fn set_bits(word: u64) -> impl Iterator<Item = usize> {
    let some = |word: u64| (word != 0).then_some(word);
    successors(some(word), move |word| some(word & (word - 1))).map(|word| word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_from_the_lowest_to_the_highest() {
        assert_eq!(set_bits(1 << 63 | 0b10_0001).collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(set_bits(0).count(), 0);
        assert_eq!(set_bits(u64::MAX).count(), 64);
    }
}
