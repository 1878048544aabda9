//! Emptying every CPU's pagesets, to start from a known state.
//!
//! The kernel shows how many pages are on its per-CPU lists, not which. But it empties them before it takes a block
//! of memory offline: `offline_pages` calls `zone_pcp_disable` for the zone, and only then finds that a page of the
//! block cannot move and gives up. The lowest block of a zone is full of such pages, so the attempt costs
//! milliseconds and changes nothing, apart from a note in the kernel log. Should it succeed, the block goes online again.
//!
//! Tried and found wanting on 6.18: allocating gigantic pages (`drain_all_pages` runs only for the zone that has the
//! range), compaction and dropping caches (they drain the CPU they run on, if any).
//! In the kernel: `offline_pages` in mm/memory_hotplug.c, `zone_pcp_disable` in mm/page_alloc.c (5.10 to 6.18).

use std::fs;
use std::path::{Path, PathBuf};

const BLOCKS: &str = "/sys/devices/system/memory";

/// Empties the pagesets of the zones that have a block of memory of their own, on all CPUs. Needs root. Where the
/// kernel cannot take memory offline nothing happens, which shows in the recording.
pub fn drain_pagesets() {
    for state in states() {
        // Refused because a page cannot move: that is what was hoped for.
        if fs::write(&state, "offline").is_ok() {
            let _ = fs::write(&state, "online");
        }
    }
}

/// The files that say whether those blocks are online.
pub fn states() -> impl Iterator<Item = PathBuf> {
    ["Normal", "Movable"].into_iter().filter_map(lowest_block).map(|block| block.join("state"))
}

fn lowest_block(zone: &str) -> Option<PathBuf> {
    let read = |block: &Path, file: &str| fs::read_to_string(block.join(file)).unwrap_or_default();
    let numbered = |path: &Path| path.file_name()?.to_str()?.strip_prefix("memory")?.parse::<u32>().ok();
    let entries = fs::read_dir(BLOCKS).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let in_zone = |block: &PathBuf| {
        read(block, "valid_zones").split_whitespace().next() == Some(zone)
            && read(block, "state").trim() == "online"
    };
    let blocks = entries.filter_map(|path| Some((numbered(&path)?, path)));
    blocks.filter(|(_, block)| in_zone(block)).min().map(|(_, block)| block)
}
