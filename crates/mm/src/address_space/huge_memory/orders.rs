//! Sets of folio orders.
//!
//! ```text
//!   bit   9   8   7   6   5   4   3   2   1   0
//!         1   0   0   0   0   1   1   0   0   0        {9, 4, 3}: 2 MiB, 64 KiB, 32 KiB
//! ```
//!
//! Anonymous folios have order 0, or 2 to that of a huge page: a folio of order 1 has no third `struct page`
//! for the state of a large folio. In the kernel: `THP_ORDERS_ALL_ANON`, `highest_order` and `next_order` in
//! include/linux/huge_mm.h.

use crate::allocator::page::Geometry;

/// A set of orders from 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orders(u16);

impl Orders {
    /// The empty set.
    pub const NONE: Orders = Orders(0);

    /// All orders of large anonymous folios (`THP_ORDERS_ALL_ANON`).
    #[inline]
    pub const fn all_anon(geometry: Geometry) -> Orders {
        Orders::range(2, geometry.pmd_order)
    }

    /// The set of one order.
    pub const fn one(order: u8) -> Orders {
        Orders(1 << order)
    }

    /// The orders from `low` to `high`; empty if `high` is less than `low`.
    pub const fn range(low: u8, high: u8) -> Orders {
        Orders(((1u32 << (high + 1)) - 1) as u16 & !((1u32 << low) - 1) as u16)
    }

    /// The set of the given orders.
    pub const fn of(orders: &[u8]) -> Orders {
        let mut set = Orders::NONE;
        let mut i = 0;
        while i < orders.len() {
            set = set.or(Orders::one(orders[i]));
            i += 1;
        }
        set
    }

    /// Union.
    pub const fn or(self, other: Orders) -> Orders {
        Orders(self.0 | other.0)
    }

    /// Intersection.
    pub const fn and(self, other: Orders) -> Orders {
        Orders(self.0 & other.0)
    }

    /// Difference.
    pub const fn without(self, other: Orders) -> Orders {
        Orders(self.0 & !other.0)
    }

    /// The orders less than `order`.
    pub const fn below(self, order: u8) -> Orders {
        Orders(self.0 & ((1u32 << order) - 1) as u16)
    }

    /// Whether `order` is in the set.
    pub const fn has(self, order: u8) -> bool {
        self.0 >> order & 1 != 0
    }

    /// A bit for each order.
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The largest order (`highest_order`).
    pub fn highest(self) -> Option<u8> {
        (self.0 != 0).then(|| self.0.ilog2() as u8)
    }

    /// The orders, largest first (`next_order`).
    pub fn descending(self) -> impl Iterator<Item = u8> {
        std::iter::successors(self.highest(), move |&order| self.below(order).highest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::PageSize;

    #[test]
    fn orders_come_largest_first() {
        let orders = Orders::of(&[3, 9, 4]);
        assert_eq!(orders.descending().collect::<Vec<_>>(), [9, 4, 3]);
        assert_eq!(orders.below(9).highest(), Some(4));
        assert_eq!(orders.below(3), Orders::NONE);
        assert_eq!(Orders::NONE.descending().count(), 0);
        assert_eq!(Orders::range(2, 1), Orders::NONE);
        for (size, largest) in PageSize::ALL.into_iter().zip([9, 11, 13]) {
            let all = Orders::all_anon(Geometry::of(size));
            assert_eq!((all.highest(), all.descending().count()), (Some(largest), usize::from(largest) - 1));
            assert!(all.has(2) && !all.has(1));
        }
    }
}
