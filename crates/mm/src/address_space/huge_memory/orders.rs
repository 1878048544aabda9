//! Sets of orders.
//!
//! ```text
//!   bit   9   8   7   6   5   4   3   2   1   0
//!         1   0   0   0   0   1   1   0   0   0        {9, 4, 3}: 2 MiB, 64 KiB, 32 KiB
//! ```
//!
//! Anonymous memory comes in orders from 2 to that of a huge page, beside single pages: a folio of order 1 has no room for
//! what a large folio keeps in its third page. In the kernel: `THP_ORDERS_ALL_ANON`, `highest_order` and `next_order` in
//! include/linux/huge_mm.h.

use crate::allocator::page::Geometry;

/// Some orders, 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orders(u16);

impl Orders {
    /// No order.
    pub const NONE: Orders = Orders(0);

    /// All that anonymous memory can have (`THP_ORDERS_ALL_ANON`).
    #[inline]
    pub const fn all_anon(geometry: Geometry) -> Orders {
        Orders::range(2, geometry.pmd_order)
    }

    /// One order.
    pub const fn one(order: u8) -> Orders {
        Orders(1 << order)
    }

    /// `low` to `high`; none if `high` is less.
    pub const fn range(low: u8, high: u8) -> Orders {
        Orders(((1u32 << (high + 1)) - 1) as u16 & !((1u32 << low) - 1) as u16)
    }

    /// Those given.
    pub const fn of(orders: &[u8]) -> Orders {
        let mut set = Orders::NONE;
        let mut i = 0;
        while i < orders.len() {
            set = set.or(Orders::one(orders[i]));
            i += 1;
        }
        set
    }

    /// Those in either.
    pub const fn or(self, other: Orders) -> Orders {
        Orders(self.0 | other.0)
    }

    /// Those in both.
    pub const fn and(self, other: Orders) -> Orders {
        Orders(self.0 & other.0)
    }

    /// Those of `self` that are not in `other`.
    pub const fn without(self, other: Orders) -> Orders {
        Orders(self.0 & !other.0)
    }

    /// Those less than `order`.
    pub const fn below(self, order: u8) -> Orders {
        Orders(self.0 & ((1u32 << order) - 1) as u16)
    }

    /// Whether it is one of them.
    pub const fn has(self, order: u8) -> bool {
        self.0 >> order & 1 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The largest.
    pub fn highest(self) -> Option<u8> {
        (self.0 != 0).then(|| self.0.ilog2() as u8)
    }

    /// All of them, largest first.
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
