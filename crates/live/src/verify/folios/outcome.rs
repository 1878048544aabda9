//! What came of a case: faults, and what maps each page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// By how much counters moved, by size in KiB and name; those that stayed are not there.
pub type Statistics = BTreeMap<(u64, String), i64>;

/// `after - before` of counters.
pub fn change(before: &Statistics, after: &Statistics) -> Statistics {
    let value = |statistics: &Statistics, key| statistics.get(key).copied().unwrap_or(0);
    let keys = before.keys().chain(after.keys());
    let changes = keys.map(|key| (key.clone(), value(after, key) - value(before, key)));
    changes.filter(|(_, change)| *change != 0).collect()
}

/// As in a table: `64k.anon_fault_alloc=2;64k.nr_anon=2`.
pub fn print_statistics(statistics: &Statistics) -> String {
    let print = |((kib, name), change): (&(u64, String), &i64)| format!("{kib}k.{name}={change}");
    statistics.iter().map(print).collect::<Vec<_>>().join(";")
}

/// Reads what [`print_statistics`] wrote.
pub fn parse_statistics(text: &str) -> Result<Statistics, String> {
    let parse = |item: &str| {
        let (counter, change) = item.split_once('=')?;
        let (kib, name) = counter.split_once("k.")?;
        Some(((kib.parse().ok()?, name.to_string()), change.parse().ok()?))
    };
    let items = text.split(';').filter(|item| !item.is_empty());
    items.map(|item| parse(item).ok_or_else(|| format!("{item}: not a counter"))).collect()
}

/// What maps a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Nothing.
    None,
    /// A swap entry.
    Swap,
    /// The page of zeroes.
    Zeroes,
    /// A frame that the kernel says nothing of: its `struct page` has not been written yet.
    Unknown,
    /// Page `index` of a folio; `folio` tells folios apart.
    Page {
        /// The folio.
        folio: u64,
        /// Its order.
        order: u8,
        /// Which of its pages.
        index: u64,
    },
}

/// Large folios: order by number of the folio.
pub type Folios = BTreeMap<u64, u8>;

/// The large folios that pages are of.
pub fn folios(pages: &[Mapped]) -> Folios {
    let large = |page: &Mapped| match *page {
        Mapped::Page { folio, order, .. } if order > 0 => Some((folio, order)),
        _ => None,
    };
    pages.iter().filter_map(large).collect()
}

/// The pages of a VMA in the order of addresses, as runs of the same: `.x4` four with nothing, `zx4` with zeroes, `0x4`
/// four folios of order 0, `4x2` two whole ones of order 4, `4p:8+3` three pages from page 8 on of one that is not all
/// there.
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

/// What came of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Page faults.
    pub faults: u64,
    /// `Rss` of the VMA, or of its first part if it was split, KiB.
    pub rss_kib: u64,
    /// `THPeligible` of the same.
    pub eligible: bool,
    /// What maps its pages in the end.
    pub layout: String,
    /// By how much counters moved.
    pub statistics: Statistics,
    /// What mapped them before they were touched again, or by another process.
    pub first_layout: String,
    /// Page faults where a process was forked, from then on.
    pub second_faults: u64,
    /// What maps the child's pages in the end.
    pub second_layout: String,
    /// By how much counters moved from then on.
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
