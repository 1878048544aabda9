//! What is touched, how, and with which sizes enabled.
//!
//! ```text
//!   2 MiB boundary          offset                   a VMA of its own, nothing mapped beside it
//!   │◄─────────────────────►│■■■■■■■■■■■■■■■■■■■■│
//!                            0 1 2 ...             pages, touched in some order, after some had been there already
//! ```

use std::ops::Range;
use std::str::FromStr;

use mm::Settings;
use serde::{Deserialize, Serialize};

/// Sizes of folios below 2 MiB and 2 MiB, that have a file, KiB.
pub const SIZES: [u64; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];

/// Which sizes are enabled; all others are at `never`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// What people call it.
    pub name: String,
    /// `transparent_hugepage/enabled`.
    #[serde(default = "madvise")]
    pub enabled: String,
    /// Sizes at `always`, KiB.
    #[serde(default)]
    pub always: Vec<u64>,
    /// Sizes at `inherit`, KiB.
    #[serde(default)]
    pub inherit: Vec<u64>,
    /// Sizes at `madvise`, KiB.
    #[serde(default)]
    pub madvise: Vec<u64>,
    /// `anon_beside_full`, where a kernel has it.
    #[serde(default)]
    pub beside_full: bool,
}

/// A file that no mainline kernel has.
pub const BESIDE_FULL: &str = "anon_beside_full";

fn madvise() -> String {
    "madvise".into()
}

/// The file of a size below `transparent_hugepage`.
pub fn enabled_file(kib: u64) -> String {
    format!("hugepages-{kib}kB/enabled")
}

impl Configuration {
    /// Refuses what no kernel takes.
    pub fn check(&self) -> Result<(), String> {
        let mut settings = Settings::default();
        for (file, value) in self.files() {
            let name = format!("transparent_hugepage/{file}");
            settings.set(&name, value).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Files below `transparent_hugepage`, and what they hold.
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

/// What `madvise` is told of the VMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Advice {
    /// Nothing.
    #[serde(rename = "-")]
    None,
    /// `MADV_HUGEPAGE`.
    #[serde(rename = "huge")]
    Huge,
    /// `MADV_NOHUGEPAGE`.
    #[serde(rename = "nohuge")]
    NoHuge,
}

/// In which order pages are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Touch {
    /// `seq`: from the first to the last.
    Forwards,
    /// `rev`: from the last to the first.
    Backwards,
    /// `rnd`: shuffled, the same way each time.
    Shuffled,
    /// `one:I`: this page alone.
    One(u64),
    /// `stride:K`: every Kth.
    Stride(u64),
}

impl Touch {
    /// The pages of a VMA of so many, as they are touched.
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

/// Fisher and Yates with the generator of the program that made the first recording.
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
    /// `w`: all are written.
    Write,
    /// `r`: all are read.
    Read,
    /// `rw`: all are read, then all are written.
    ReadWrite,
    /// `rhw`: the first half is read, then all are written.
    ReadHalfWrite,
    /// `pop`: `MAP_POPULATE`.
    Populate,
    /// `mlock`.
    Lock,
    /// `dn:A+L`: written, L pages from A on dropped by `MADV_DONTNEED`, and these written again.
    Drop(Range<u64>),
    /// `split:P`: the first P pages become a VMA of their own, then all are written.
    Split(u64),
    /// `fork`: written, then by a child too, which ends.
    ForkChildWrites,
    /// `forkparent`: written, then again after a child has come and gone.
    ForkChildGone,
    /// `forkalive`: written, then again while a child lives.
    ForkChildAlive,
    /// `forkfresh`: written by a child only, which ends.
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

/// One VMA and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What people call it.
    pub name: String,
    /// From the last boundary of 2 MiB to its start, pages.
    pub offset: u64,
    /// Its length, pages.
    pub pages: u64,
    /// What `madvise` is told.
    pub advice: Advice,
    /// In which order pages are touched.
    pub touch: Touch,
    /// What is done.
    pub operation: Operation,
    /// Pages that had been written before any size was enabled.
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
