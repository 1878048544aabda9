//! The size of a base page.
//!
//! ```text
//!   4 KiB    x86-64, arm64       figures of a page are for this size
//!   16 KiB   arm64               the profile says which (`page_size_kib`)
//!   64 KiB   arm64
//! ```
//!
//! Every conversion between bytes and pages goes through this type.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The size of a base page; in files, a number of KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub enum PageSize {
    #[default]
    Kib4,
    Kib16,
    Kib64,
}

impl PageSize {
    /// All page sizes.
    pub const ALL: [PageSize; 3] = [PageSize::Kib4, PageSize::Kib16, PageSize::Kib64];

    /// The page size of `kib` KiB; `None` if there is none.
    pub fn from_kib(kib: u64) -> Option<PageSize> {
        PageSize::ALL.into_iter().find(|size| size.kib() == kib)
    }

    /// log2 of the size in bytes (`PAGE_SHIFT`).
    pub const fn shift(self) -> u32 {
        match self {
            PageSize::Kib4 => 12,
            PageSize::Kib16 => 14,
            PageSize::Kib64 => 16,
        }
    }

    /// Size in bytes (`PAGE_SIZE`).
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Size in KiB.
    pub const fn kib(self) -> u64 {
        self.bytes() >> 10
    }

    /// 4 KiB parts of a page, in which recorded and described demand is counted.
    pub const fn parts(self) -> u64 {
        self.bytes() / PageSize::Kib4.bytes()
    }

    /// The pages that contain a range of parts.
    pub const fn pages_of_parts(self, parts: Range<u64>) -> Range<u64> {
        parts.start / self.parts()..parts.end.div_ceil(self.parts())
    }

    /// Number of pages in `mib` MiB.
    pub const fn pages_of_mib(self, mib: u64) -> u64 {
        mib << (20 - self.shift())
    }

    /// Size of `pages` pages in MiB.
    pub fn mib_of_pages(self, pages: u64) -> f64 {
        pages as f64 / self.pages_of_mib(1) as f64
    }

    /// Time for a page at a rate in 10^9 bytes per second.
    pub fn time_at(self, gb_per_second: f64) -> Time {
        Time::from_nanoseconds_f64(self.bytes() as f64 / gb_per_second)
    }
}

impl TryFrom<u64> for PageSize {
    type Error = &'static str;

    fn try_from(kib: u64) -> Result<PageSize, &'static str> {
        PageSize::from_kib(kib).ok_or("a base page has 4, 16 or 64 KiB")
    }
}

impl From<PageSize> for u64 {
    fn from(size: PageSize) -> u64 {
        size.kib()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_their_names() {
        assert_eq!(PageSize::ALL.map(PageSize::kib), [4, 16, 64]);
        assert_eq!(PageSize::ALL.map(PageSize::parts), [1, 4, 16]);
        assert_eq!(PageSize::ALL.map(|size| size.pages_of_mib(2)), [512, 128, 32]);
        assert_eq!(PageSize::ALL.map(|size| PageSize::from_kib(size.kib())), PageSize::ALL.map(Some));
        assert_eq!(PageSize::Kib16.pages_of_parts(3..9), 0..3);
        assert_eq!([0, 1, 8, 32].map(PageSize::from_kib), [None; 4]);
        assert_eq!(PageSize::Kib64.mib_of_pages(24), 1.5);
    }
}
