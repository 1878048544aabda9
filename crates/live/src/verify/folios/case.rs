//! A case: a VMA, how it is touched, and which folio sizes are enabled.
//!
//! ```text
//!   2 MiB boundary          offset                   the case's VMA, with nothing mapped next to it
//!   │◄─────────────────────►│■■■■■■■■■■■■■■■■■■■■│
//!                            0 1 2 ...             pages, touched in some order; some may be populated before
//! ```

use std::ops::Range;
use std::str::FromStr;

use mm::Settings;
use serde::{Deserialize, Serialize};

/// Folio sizes in KiB that have a directory `hugepages-*kB`.
pub const SIZES: [u64; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];

/// Which sizes are enabled; all others are set to `never`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Name in the report.
    pub name: String,
    /// `transparent_hugepage/enabled`.
    #[serde(default = "madvise")]
    pub enabled: String,
    /// Sizes in KiB that are set to `always`.
    #[serde(default)]
    pub always: Vec<u64>,
    /// Sizes in KiB that are set to `inherit`.
    #[serde(default)]
    pub inherit: Vec<u64>,
    /// Sizes in KiB that are set to `madvise`.
    #[serde(default)]
    pub madvise: Vec<u64>,
    /// `anon_beside_full`, if the kernel has it.
    #[serde(default)]
    pub beside_full: bool,
}

/// A file that no mainline kernel has.
pub const BESIDE_FULL: &str = "anon_beside_full";

fn madvise() -> String {
    "madvise".into()
}

/// The path below `transparent_hugepage` that enables a size.
pub fn enabled_file(kib: u64) -> String {
    format!("hugepages-{kib}kB/enabled")
}

impl Configuration {
    /// Refuses values that kernels do not accept.
    pub fn check(&self) -> Result<(), String> {
        let mut settings = Settings::default();
        for (file, value) in self.files() {
            let name = format!("transparent_hugepage/{file}");
            settings.set(&name, value).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The files below `transparent_hugepage` and their values.
    pub fn files(&self) -> Vec<(String, &str)> {
        let mode = |kib: &u64| match kib {
            kib if self.always.contains(kib) => "always",
            kib if self.inherit.contains(kib) => "inherit",
            kib if self.madvise.contains(kib) => "madvise",
            _ => "never",
        };
        let sizes = SIZES.iter().map(|kib| (enabled_file(*kib), mode(kib)));
        let of_all =
            [("enabled", self.enabled.as_str()), (BESIDE_FULL, if self.beside_full { "1" } else { "0" })];
        of_all.map(|(name, value)| (name.to_string(), value)).into_iter().chain(sizes).collect()
    }
}

/// The `madvise` call for the VMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Advice {
    /// No call.
    #[serde(rename = "-")]
    None,
    #[serde(rename = "huge")]
    Huge,
    #[serde(rename = "nohuge")]
    NoHuge,
}

/// The order in which pages are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Touch {
    /// `seq`: from the first page to the last.
    Forwards,
    /// `rev`: from the last page to the first.
    Backwards,
    /// `rnd`: in a fixed random order.
    Shuffled,
    /// `one:I`: only page I.
    One(u64),
    /// `stride:K`: every Kth page.
    Stride(u64),
}

impl Touch {
    /// The pages of a VMA of `pages` pages in the order in which they are touched.
    pub fn order(self, pages: u64) -> Vec<u64> {
        match self {
            Touch::Forwards => (0..pages).collect(),
            Touch::Backwards => (0..pages).rev().collect(),
            Touch::Shuffled => shuffled(pages),
            Touch::One(page) => vec![page],
            Touch::Stride(step) => (0..pages).step_by(step.max(1) as usize).collect(),
        }
    }
}

/// A Fisher-Yates shuffle with the random number generator of the program that made the first recording.
fn shuffled(pages: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..pages).collect();
    let mut state: u32 = 12_345;
    for i in (1..pages as usize).rev() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        order.swap(i, (state >> 8) as usize % (i + 1));
    }
    order
}

/// What is done with the pages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Operation {
    /// `w`: write all pages.
    Write,
    /// `r`: read all pages.
    Read,
    /// `rw`: read all pages, then write all.
    ReadWrite,
    /// `rhw`: read the first half, then write all pages.
    ReadHalfWrite,
    /// `pop`: map with `MAP_POPULATE`.
    Populate,
    /// `mlock`: lock the VMA.
    Lock,
    /// `dn:A+L`: write all pages, drop L pages from A on with `MADV_DONTNEED`, and write these again.
    Drop(Range<u64>),
    /// `split:P`: split the VMA after P pages, then write all pages.
    Split(u64),
    /// `fork`: write all pages, fork a child that writes them too, and let it exit.
    ForkChildWrites,
    /// `forkparent`: write all pages, let a child start and exit, and write them again.
    ForkChildGone,
    /// `forkalive`: write all pages, and write them again while a child is running.
    ForkChildAlive,
    /// `forkfresh`: fork a child that writes all pages, and let it exit; the parent writes none.
    ForkChildAlone,
}

impl TryFrom<String> for Touch {
    type Error = String;

    fn try_from(text: String) -> Result<Touch, String> {
        text.parse()
    }
}

impl FromStr for Touch {
    type Err = String;

    fn from_str(text: &str) -> Result<Touch, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("{text}: not a number of pages"));
        match text.split_once(':') {
            None if text == "seq" => Ok(Touch::Forwards),
            None if text == "rev" => Ok(Touch::Backwards),
            None if text == "rnd" => Ok(Touch::Shuffled),
            Some(("one", page)) => number(page).map(Touch::One),
            Some(("stride", step)) => number(step).map(Touch::Stride),
            _ => Err(format!("{text}: pages are touched in order seq, rev, rnd, one:I or stride:K")),
        }
    }
}

impl TryFrom<String> for Operation {
    type Error = String;

    fn try_from(text: String) -> Result<Operation, String> {
        text.parse()
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Operation, String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text}: not a number of pages"));
        Ok(match text {
            "w" => Operation::Write,
            "r" => Operation::Read,
            "rw" => Operation::ReadWrite,
            "rhw" => Operation::ReadHalfWrite,
            "pop" => Operation::Populate,
            "mlock" => Operation::Lock,
            "fork" => Operation::ForkChildWrites,
            "forkparent" => Operation::ForkChildGone,
            "forkalive" => Operation::ForkChildAlive,
            "forkfresh" => Operation::ForkChildAlone,
            _ => match text.split_once(':') {
                Some(("split", pages)) => Operation::Split(number(pages)?),
                Some(("dn", range)) => {
                    let (first, length) = range.split_once('+').ok_or("dn:A+L drops L pages from A on")?;
                    let first = number(first)?;
                    Operation::Drop(first..first.saturating_add(number(length)?))
                }
                _ => return Err(format!("{text}: no such operation")),
            },
        })
    }
}

/// One VMA and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name in the report.
    pub name: String,
    /// Number of pages between the previous 2 MiB boundary and the start of the VMA.
    pub offset: u64,
    /// Length of the VMA in pages.
    pub pages: u64,
    pub advice: Advice,
    pub touch: Touch,
    pub operation: Operation,
    /// Pages that are written before any size is enabled.
    pub prepopulated: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_has_every_page_once() {
        let mut order = Touch::Shuffled.order(64);
        assert_ne!(order, Touch::Forwards.order(64));
        order.sort_unstable();
        assert_eq!(order, Touch::Forwards.order(64));
    }

    #[test]
    fn operations_are_read() {
        assert_eq!("dn:4+8".parse(), Ok(Operation::Drop(4..12)));
        assert_eq!("split:3".parse(), Ok(Operation::Split(3)));
        assert_eq!("one:7".parse(), Ok(Touch::One(7)));
        for wrong in ["dn:4", "split:x", "forks", ""] {
            assert!(wrong.parse::<Operation>().is_err(), "{wrong}");
        }
        assert!("stride".parse::<Touch>().is_err());
    }
}
