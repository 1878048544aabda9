//! Parsers of the memory manager's files in `/proc`.
//!
//! Each function takes the text of a file and nothing else, so that the same code reads the running kernel, the snapshots
//! in a trace, and the text that the twin renders for its simulated kernel. All of them accept the formats of Linux 6.1 to
//! 6.18; counters that a kernel adds are kept, not refused.
//!
//! | file | function | gives |
//! |---|---|---|
//! | `/proc/zoneinfo` | [`parse_zoneinfo`] | zones: watermarks, sizes, reserves, per-CPU lists; nodes: counters |
//! | `/proc/buddyinfo` | [`parse_buddyinfo`] | free blocks by zone and order |
//! | `/proc/pagetypeinfo` | [`parse_pagetypeinfo`] | free blocks by migratetype too; pageblocks by migratetype |
//! | `/proc/vmstat` | [`parse_vmstat`] | counters |
//! | `/proc/meminfo` | [`parse_meminfo`] | amounts of memory |
//! | `/proc/pressure/*` | [`parse_pressure`] | time that tasks waited for memory, devices, CPUs |
//! | `/proc/swaps` | [`parse_swaps`] | swap areas |

mod buddyinfo;
mod meminfo;
mod pagetypeinfo;
mod pressure;
mod swaps;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::{FreeBlocks, parse_buddyinfo};
pub use meminfo::parse_meminfo;
pub use pagetypeinfo::{MigratetypeFreeBlocks, PageTypes, Pageblocks, parse_pagetypeinfo};
pub use pressure::parse_pressure;
pub use swaps::{SwapArea, parse_swaps};
pub use vmstat::parse_vmstat;
pub use zoneinfo::{Pageset, Zone, ZoneInfo, parse_zoneinfo};

/// A line that does not match the format of its file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {problem}")]
pub struct ProcError {
    pub file: &'static str,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    words.map(number).collect()
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("expected a whole number, found `{word}`"))
}

/// Parses `Node N, zone NAME`; the third value is the rest of the line.
fn node_and_zone(line: &str) -> Result<(u16, String, &str), String> {
    let parsed = || {
        let (node, rest) = line.trim().strip_prefix("Node")?.split_once(',')?;
        let node = node.trim().parse().ok()?;
        let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
        let end = rest.find(|letter: char| letter.is_whitespace() || letter == ',').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        (!name.is_empty()).then(|| (node, name.to_string(), rest))
    };
    parsed().ok_or_else(|| format!("expected `Node N, zone NAME`, found `{}`", line.trim()))
}

#[cfg(test)]
mod tests;
