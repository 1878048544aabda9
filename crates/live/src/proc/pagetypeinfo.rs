//! `/proc/pagetypeinfo`: free blocks and pageblocks by migratetype.
//!
//! ```text
//!   Page block order: 9
//!   Pages per block:  512
//!
//!   Free pages count per migrate type at order       0      1      2 ...
//!   Node    0, zone      DMA, type    Unmovable      0      0      1 ...
//!
//!   Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate
//!   Node 0, zone      DMA            1            7            0            0            0
//! ```
//!
//! The kernel stops counting the blocks of a list at 100,000 and prints `>100000`.

use super::{ProcError, node_and_zone, number, numbers};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageTypes {
    /// A pageblock has `1 << pageblock_order` pages.
    pub pageblock_order: u8,
    /// The free blocks, by node, zone and migratetype.
    pub free: Vec<MigratetypeFreeBlocks>,
    /// The pageblocks, by node and zone.
    pub pageblocks: Vec<Pageblocks>,
}

/// The free blocks of one migratetype in a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigratetypeFreeBlocks {
    pub node: u16,
    pub zone: String,
    /// The kernel's name of the migratetype.
    pub migratetype: String,
    /// Number of blocks of each order, from order 0; 100,000 means that many or more.
    pub blocks: Vec<u64>,
}

/// The pageblocks of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pageblocks {
    pub node: u16,
    pub zone: String,
    /// Number of pageblocks of each migratetype, by the kernel's name for it.
    pub by_migratetype: Vec<(String, u64)>,
}

pub fn parse_pagetypeinfo(text: &str) -> Result<PageTypes, ProcError> {
    let mut types = PageTypes::default();
    let mut migratetypes: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("Number of mixed blocks") {
            // Kernels with page_owner append a table in a different format.
            break;
        }
        parse_line(line, &mut types, &mut migratetypes).map_err(|problem| ProcError {
            file: "/proc/pagetypeinfo",
            line: index + 1,
            problem,
        })?;
    }
    Ok(types)
}

fn parse_line<'a>(
    line: &'a str,
    types: &mut PageTypes,
    migratetypes: &mut Vec<&'a str>,
) -> Result<(), String> {
    if let Some(order) = line.strip_prefix("Page block order:") {
        let order = number(order.trim())?;
        types.pageblock_order =
            u8::try_from(order).map_err(|_| format!("an order of {order}; at most 255"))?;
    } else if let Some(names) = line.strip_prefix("Number of blocks type") {
        *migratetypes = names.split_whitespace().collect();
    } else if line.starts_with("Node") {
        let (node, zone, rest) = node_and_zone(line)?;
        if let Some(rest) = rest.trim_start_matches(',').trim_start().strip_prefix("type") {
            let mut words = rest.split_whitespace();
            let migratetype = words.next().ok_or("expected a migratetype after `type`")?.to_string();
            let blocks = numbers(words.map(|word| word.trim_start_matches('>')))?;
            types.free.push(MigratetypeFreeBlocks { node, zone, migratetype, blocks });
        } else {
            let counts = numbers(rest.split_whitespace())?;
            if counts.len() != migratetypes.len() {
                let (expected, found) = (migratetypes.len(), counts.len());
                return Err(format!("expected {expected} numbers, one for each type, found {found}"));
            }
            let names = migratetypes.iter().map(|name| name.to_string());
            types.pageblocks.push(Pageblocks { node, zone, by_migratetype: names.zip(counts).collect() });
        }
    } else if !line.is_empty()
        && !line.starts_with("Pages per block:")
        && !line.starts_with("Free pages count")
    {
        return Err(format!("unknown line `{line}`"));
    }
    Ok(())
}
