//! `/proc/buddyinfo`: free blocks on the buddy lists.

use super::{ProcError, node_and_zone, numbers};

/// The free blocks of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeBlocks {
    pub node: u16,
    pub zone: String,
    /// Number of blocks of each order, from order 0.
    pub blocks: Vec<u64>,
}

/// Parses `/proc/buddyinfo`: the zones in the order of the file.
pub fn parse_buddyinfo(text: &str) -> Result<Vec<FreeBlocks>, ProcError> {
    let zone = |line: &str| {
        let (node, zone, rest) = node_and_zone(line)?;
        Ok(FreeBlocks { node, zone, blocks: numbers(rest.split_whitespace())? })
    };
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            zone(line).map_err(|problem| ProcError { file: "/proc/buddyinfo", line: index + 1, problem })
        })
        .collect()
}
