//! The outcome of a case: faults, counters, and what is mapped at each page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Changes of counters by size in KiB and name, without those that did not change.
pub type Statistics = BTreeMap<(u64, String), i64>;

/// `after - before` of counters.
pub fn change(before: &Statistics, after: &Statistics) -> Statistics {
    let value = |statistics: &Statistics, key| statistics.get(key).copied().unwrap_or(0);
    let keys = before.keys().chain(after.keys());
    let changes = keys.map(|key| (key.clone(), value(after, key) - value(before, key)));
    changes.filter(|(_, change)| *change != 0).collect()
}

/// Formats changes for a table: `64k.anon_fault_alloc=2;64k.nr_anon=2`.
pub fn print_statistics(statistics: &Statistics) -> String {
    let print = |((kib, name), change): (&(u64, String), &i64)| format!("{kib}k.{name}={change}");
    statistics.iter().map(print).collect::<Vec<_>>().join(";")
}

/// Reverses [`print_statistics`].
pub fn parse_statistics(text: &str) -> Result<Statistics, String> {
    let parse = |item: &str| {
        let (counter, change) = item.split_once('=')?;
        let (kib, name) = counter.split_once("k.")?;
        Some(((kib.parse().ok()?, name.to_string()), change.parse().ok()?))
    };
    let items = text.split(';').filter(|item| !item.is_empty());
    items.map(|item| parse(item).ok_or_else(|| format!("{item}: not a counter"))).collect()
}

/// What is mapped at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    None,
    /// A swap entry.
    Swap,
    /// The zero page.
    Zeroes,
    /// A frame whose `struct page` is not initialised yet, so that the kernel reports nothing about it.
    Unknown,
    /// A page of a folio.
    Page {
        /// Identifies the folio.
        folio: u64,
        order: u8,
        /// Number of the page in the folio.
        index: u64,
    },
}

/// Order of large folios by their number.
pub type Folios = BTreeMap<u64, u8>;

/// The large folios that the pages belong to.
pub fn folios(pages: &[Mapped]) -> Folios {
    let large = |page: &Mapped| match *page {
        Mapped::Page { folio, order, .. } if order > 0 => Some((folio, order)),
        _ => None,
    };
    pages.iter().filter_map(large).collect()
}

/// The pages of a VMA in the order of addresses, run-length encoded: `.x4` four unmapped pages, `zx4` four
/// times the zero page, `0x4` four folios of order 0, `4x2` two whole folios of order 4, `4p:8+3` three pages
/// from page 8 on of an order-4 folio that is mapped only in part.
pub fn layout(pages: &[Mapped]) -> String {
    let mut runs: Vec<(String, u64)> = Vec::new();
    let mut add = |word: String, joins: bool| match runs.last_mut() {
        Some((last, count)) if joins && *last == word => *count += 1,
        _ => runs.push((word, u64::from(joins))),
    };
    let mut at = 0;
    while let Some(&page) = pages.get(at) {
        let mut length = 1;
        match page {
            Mapped::None => add(".".into(), true),
            Mapped::Swap => add("swap".into(), true),
            Mapped::Zeroes => add("z".into(), true),
            Mapped::Unknown => add("?".into(), true),
            Mapped::Page { order: 0, .. } => add("0".into(), true),
            Mapped::Page { folio, order, index } => {
                let follows =
                    |&(i, next): &(u64, &Mapped)| *next == Mapped::Page { folio, order, index: index + i };
                length = (0..).zip(&pages[at..]).take_while(follows).count();
                if index == 0 && length == 1 << order {
                    add(order.to_string(), true);
                } else {
                    add(format!("{order}p:{index}+{length}"), false);
                }
            }
        }
        at += length;
    }
    let mut text = String::new();
    for (i, (word, count)) in runs.iter().enumerate() {
        let space = if i == 0 { "" } else { " " };
        let _ = match count {
            0 => write!(text, "{space}{word}"),
            _ => write!(text, "{space}{word}x{count}"),
        };
    }
    text
}

/// The outcome of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of page faults.
    pub faults: u64,
    /// `Rss` in KiB of the VMA, or of its first part if it was split.
    pub rss_kib: u64,
    /// `THPeligible` of the same.
    pub eligible: bool,
    /// The layout at the end.
    pub layout: String,
    /// Changes of counters.
    pub statistics: Statistics,
    /// The layout before the pages were touched again, or by another process.
    pub first_layout: String,
    /// Number of page faults after the fork, if there was one.
    pub second_faults: u64,
    /// The layout of the child at the end.
    pub second_layout: String,
    /// Changes of counters after the fork.
    pub second_statistics: Statistics,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_runs() {
        let page = |folio, order, index| Mapped::Page { folio, order, index };
        let mut pages = vec![Mapped::None, page(1, 0, 0), page(2, 0, 0)];
        pages.extend((0..4).map(|index| page(3, 2, index)));
        pages.extend((0..4).map(|index| page(4, 2, index)));
        pages.extend((1..3).map(|index| page(5, 2, index)));
        pages.push(Mapped::Zeroes);
        assert_eq!(layout(&pages), ".x1 0x2 2x2 2p:1+2 zx1");
        assert_eq!(layout(&[]), "");
        assert_eq!(folios(&pages), [(3, 2), (4, 2), (5, 2)].into());
    }

    #[test]
    fn statistics_are_read_as_they_are_written() {
        let text = "16k.nr_anon=-1;64k.anon_fault_alloc=2";
        assert_eq!(print_statistics(&parse_statistics(text).unwrap()), text);
        assert_eq!(parse_statistics("").unwrap(), Statistics::new());
        assert!(parse_statistics("64k.nr_anon").is_err() && parse_statistics("64.nr_anon=1").is_err());
    }
}
