//! Settings of large folios: the sysfs files of `transparent_hugepage`, and boot parameters.
//!
//! ```text
//!   transparent_hugepage/
//!     enabled  defrag  use_zero_page  shrink_underused       for all sizes
//!     hugepages-16kB/enabled ... hugepages-2048kB/enabled    for one size (sizes depend on the page size)
//!     khugepaged/pages_to_scan ...                           for khugepaged
//! ```
//!
//! In the kernel: `anon_enabled_store`, `defrag_store`, `setup_thp_anon` in mm/huge_memory.c; the files of khugepaged in
//! mm/khugepaged.c.

use super::features::FolioSize;
use super::orders::Orders;
use crate::allocator::page::{Geometry, NR_PAGE_ORDERS};
use crate::memparse::memparse;
use machine::PageSize;

/// The setting `transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enabled {
    /// In all VMAs.
    Always,
    /// In VMAs with `MADV_HUGEPAGE`.
    #[default]
    Madvise,
    /// In no VMA.
    Never,
}

/// The setting `transparent_hugepage/hugepages-<size>kB/enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In all VMAs.
    Always,
    /// As `transparent_hugepage/enabled` says.
    Inherit,
    /// In VMAs with `MADV_HUGEPAGE`.
    Madvise,
    /// In no VMA.
    #[default]
    Never,
}

/// The setting `transparent_hugepage/defrag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defrag {
    /// Every fault reclaims and compacts directly.
    Always,
    /// Every fault wakes kswapd and kcompactd.
    Defer,
    /// Faults with `MADV_HUGEPAGE` reclaim and compact directly, others wake kswapd and kcompactd.
    DeferMadvise,
    /// Faults with `MADV_HUGEPAGE` reclaim and compact directly.
    #[default]
    Madvise,
    /// No fault reclaims or compacts.
    Never,
}

/// The settings in `transparent_hugepage/khugepaged/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Khugepaged {
    /// `defrag`: khugepaged reclaims and compacts directly for a huge page.
    pub defrag: bool,
    /// `pages_to_scan`: PTEs to scan in one round.
    pub pages_to_scan: u32,
    /// `scan_sleep_millisecs`: pause between two rounds.
    pub scan_sleep_millisecs: u32,
    /// `alloc_sleep_millisecs`: pause after a failed allocation.
    pub alloc_sleep_millisecs: u32,
    /// `max_ptes_none`: how many PTEs of a huge page's range may be empty.
    pub max_ptes_none: u32,
    /// `max_ptes_swap`: how many of them may be swap entries.
    pub max_ptes_swap: u32,
    /// `max_ptes_shared`: how many of them may map pages shared with other processes.
    pub max_ptes_shared: u32,
}

/// All settings of large anonymous folios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThpSettings {
    /// The page size that the kernel was built for.
    pub page_size: PageSize,
    pub enabled: Enabled,
    pub defrag: Defrag,
    /// `use_zero_page`: read faults map the huge zero folio.
    pub use_zero_page: bool,
    /// `shrink_underused`: huge pages that are mostly zero are split when memory is short.
    pub shrink_underused: bool,
    /// `hugepages-<size>kB/enabled` by order. Orders 0 and 1, which large anonymous folios never have, stay
    /// at `never`.
    pub modes: [Mode; NR_PAGE_ORDERS],
    pub khugepaged: Khugepaged,
    /// `anon_beside_full`: faults allocate large folios only beside windows that are fully mapped. No
    /// mainline kernel has it.
    pub anon_beside_full: bool,
    /// Boot parameter `flexthp_unhinted_max` of v3 as an order: 0, or 2 and more. The default is 64 KiB, or a
    /// page if that is larger.
    pub flexthp_unhinted_max: u8,
}

impl Default for ThpSettings {
    fn default() -> ThpSettings {
        ThpSettings::new(PageSize::default())
    }
}

impl ThpSettings {
    /// The defaults of a kernel with pages of this size.
    pub fn new(page_size: PageSize) -> ThpSettings {
        let geometry = Geometry::of(page_size);
        let mut modes = [Mode::Never; NR_PAGE_ORDERS];
        modes[usize::from(geometry.pmd_order)] = Mode::Inherit;
        let huge = geometry.hpage_pmd_nr();
        ThpSettings {
            page_size,
            enabled: Enabled::Madvise,
            defrag: Defrag::Madvise,
            use_zero_page: true,
            shrink_underused: true,
            modes,
            khugepaged: Khugepaged {
                defrag: true,
                pages_to_scan: 8 * huge,
                scan_sleep_millisecs: 10_000,
                alloc_sleep_millisecs: 60_000,
                max_ptes_none: huge - 1,
                max_ptes_swap: huge / 8,
                max_ptes_shared: huge / 2,
            },
            anon_beside_full: false,
            flexthp_unhinted_max: FolioSize::UNHINTED.order(page_size),
        }
    }
}

impl Enabled {
    /// The modes in the order of [`Enabled::WORDS`].
    pub(crate) const ALL: [Enabled; 3] = [Enabled::Always, Enabled::Madvise, Enabled::Never];
    /// The words of the file, in the order in which it shows them.
    pub(crate) const WORDS: [&'static str; 3] = ["always", "madvise", "never"];
}

impl Defrag {
    /// The modes in the order of [`Defrag::WORDS`].
    pub(crate) const ALL: [Defrag; 5] =
        [Defrag::Always, Defrag::Defer, Defrag::DeferMadvise, Defrag::Madvise, Defrag::Never];
    /// The words of the file, in the order in which it shows them.
    pub(crate) const WORDS: [&'static str; 5] = ["always", "defer", "defer+madvise", "madvise", "never"];
}

impl Mode {
    /// The modes in the order of [`Mode::WORDS`].
    pub(crate) const ALL: [Mode; 4] = [Mode::Always, Mode::Inherit, Mode::Madvise, Mode::Never];
    /// The words of the file, in the order in which it shows them.
    pub(crate) const WORDS: [&'static str; 4] = ["always", "inherit", "madvise", "never"];

    fn of_word(word: &str) -> Option<Mode> {
        Mode::WORDS.iter().position(|other| *other == word).map(|at| Mode::ALL[at])
    }
}

impl ThpSettings {
    /// The page size and the orders that follow from it.
    #[inline]
    pub const fn geometry(&self) -> Geometry {
        Geometry::of(self.page_size)
    }

    /// The order that a PMD entry maps (`HPAGE_PMD_ORDER`).
    #[inline]
    pub const fn pmd_order(&self) -> u8 {
        self.geometry().pmd_order
    }

    /// The pages that a PMD entry maps (`HPAGE_PMD_NR`).
    #[inline]
    pub const fn hpage_pmd_nr(&self) -> u32 {
        self.geometry().hpage_pmd_nr()
    }

    /// All orders of large anonymous folios.
    #[inline]
    pub const fn all_anon(&self) -> Orders {
        Orders::all_anon(self.geometry())
    }

    /// The orders that are mapped by PTEs.
    #[inline]
    pub const fn pte_mapped(&self) -> Orders {
        self.all_anon().below(self.pmd_order())
    }

    /// The order of anonymous folios of `bytes` bytes, if there is one.
    pub fn order_of(&self, bytes: u64) -> Option<u8> {
        let order = bytes.is_power_of_two().then(|| bytes.ilog2())?.checked_sub(self.page_size.shift())?;
        (order <= self.pmd_order().into() && self.all_anon().has(order as u8)).then_some(order as u8)
    }

    /// Size of a huge page in bytes (`hpage_pmd_size`).
    pub(crate) fn hpage_pmd_size(&self) -> u64 {
        u64::from(self.hpage_pmd_nr()) * self.page_size.bytes()
    }

    pub fn mode(&self, order: u8) -> Mode {
        self.modes.get(usize::from(order)).copied().unwrap_or_default()
    }

    /// Sets the mode of an order. Panics if anonymous folios cannot have the order.
    pub fn set_mode(&mut self, order: u8, mode: Mode) {
        assert!(self.all_anon().has(order), "there is no directory for order {order}");
        self.modes[usize::from(order)] = mode;
    }

    /// The orders that have this mode.
    pub fn orders(&self, mode: Mode) -> Orders {
        let of_mode = self.all_anon().descending().filter(|&order| self.mode(order) == mode);
        of_mode.fold(Orders::NONE, |orders, order| orders.or(Orders::one(order)))
    }

    /// Applies the boot parameter `thp_anon`: sizes and ranges of sizes with a mode each, such as
    /// `16K-64K:always;2M:inherit`. Later parts override earlier ones, and orders not named become `never`.
    /// An invalid value changes nothing. Returns whether it was valid.
    pub fn boot_thp_anon(&mut self, value: &str) -> bool {
        let mut modes = [Mode::Never; NR_PAGE_ORDERS];
        let mut parse = || {
            for part in value.split(';') {
                let (sizes, mode) = part.split_once(':')?;
                let mode = Mode::of_word(mode)?;
                for range in sizes.split(',') {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    let order = |size| self.order_of(memparse(size)?);
                    let (first, last) = (order(first)?, order(last)?);
                    if first > last {
                        return None;
                    }
                    modes[usize::from(first)..=usize::from(last)].fill(mode);
                }
            }
            Some(())
        };
        let parsed = parse().is_some();
        if parsed {
            self.modes = modes;
        }
        parsed
    }

    /// Applies the boot parameter `flexthp_unhinted_max` of v3, a power of two from a page to a huge page, in bytes. Two pages count
    /// as one, because anonymous memory has no folios of order 1.
    pub(crate) fn boot_flexthp_unhinted_max(&mut self, bytes: u64) {
        let order = (bytes >> self.page_size.shift()).ilog2() as u8;
        self.flexthp_unhinted_max = if order == 1 { 0 } else { order };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_kernel_s() {
        let thp = ThpSettings::default();
        assert_eq!(thp.orders(Mode::Inherit), Orders::one(9));
        assert_eq!(thp.orders(Mode::Never), thp.pte_mapped());
        let Khugepaged { pages_to_scan, max_ptes_none, max_ptes_swap, max_ptes_shared, .. } = thp.khugepaged;
        assert_eq!((pages_to_scan, max_ptes_none, max_ptes_swap, max_ptes_shared), (4096, 511, 64, 256));
    }

    #[test]
    fn thp_anon_replaces_all_defaults() {
        let mut thp = ThpSettings::default();
        assert!(thp.boot_thp_anon("16K-64K:always;32K:madvise;1M,128K:inherit"));
        assert_eq!(thp.orders(Mode::Always), Orders::of(&[2, 4]));
        assert_eq!(thp.orders(Mode::Madvise), Orders::of(&[3]));
        assert_eq!(thp.orders(Mode::Inherit), Orders::of(&[5, 8]));
        let before = thp;
        for wrong in
            ["", "64K", "8K:always", "64K:sometimes", "64K-16K:always", "48K:always", "4M:always", "x:never"]
        {
            assert!(!thp.boot_thp_anon(wrong), "{wrong}");
            assert_eq!(thp, before, "{wrong} changes nothing");
        }
    }
}
