//! Dependencies between the parts of the memory manager: a part must not name a part above it.
//!
//! ```text
//!   address_space ◄─► numa
//!     │    │
//!     │  swapfile
//!     │    │
//!     │  page_cache
//!     │    │
//!     └─► lru      hugetlb
//!          │         │
//!          └► allocator ◄┘   frames and zones; it never looks at what is in a frame
//! ```
//!
//! Code that crosses parts, such as page faults and direct reclaim, consists of methods of `Kernel` and may
//! name all parts, so files that name `kernel.rs` are not checked.

use crate::circles::Graph;
use crate::finding::Finding;
use crate::workspace::{Source, Workspace};

/// The crate of the memory manager.
const MM: &str = "crates/mm";

/// Each part, and the parts that it may name.
const BELOW: [(&str, &[&str]); 7] = [
    ("allocator", &[]),
    ("lru", &["allocator"]),
    ("page_cache", &["allocator", "lru"]),
    ("swapfile", &["allocator", "lru", "page_cache"]),
    ("hugetlb", &["allocator"]),
    ("address_space", &["allocator", "lru", "page_cache", "swapfile", "numa"]),
    ("numa", &["allocator", "lru", "address_space"]),
];

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let inside = format!("{MM}/src/");
    let is_of_mm = |source: &&Source| !source.is_test && source.path.starts_with(&inside);
    let sources: Vec<&Source> = workspace.sources.iter().filter(is_of_mm).collect();
    let kernel = format!("{inside}kernel.rs");
    let mut findings = Vec::new();
    for (file, needs) in Graph::of(MM, &sources).needs() {
        let Some((part, below)) = BELOW.iter().find(|(part, _)| part_of(file) == Some(part)) else {
            continue;
        };
        if needs.contains(&kernel) {
            continue;
        }
        for other in
            needs.iter().filter(|other| part_of(other).is_some_and(|of| of != *part && !below.contains(&of)))
        {
            findings.push(Finding {
                file: file.to_string(),
                line: 1,
                item: format!("needs {other}"),
                amount: 1,
                message: format!("{part} needs {other}, which is above it"),
            });
        }
    }
    findings
}

/// The part that a file belongs to.
fn part_of(file: &str) -> Option<&str> {
    let folder = file.strip_prefix(MM)?.strip_prefix("/src/")?.split_once('/')?.0;
    BELOW.iter().map(|(part, _)| *part).find(|part| *part == folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(zone: &str) -> Vec<String> {
        let files = [
            ("crates/mm/src/allocator/zone.rs", zone),
            ("crates/mm/src/lru/folio.rs", "use crate::allocator::zone::Zone; pub struct Folio;"),
            ("crates/mm/src/kernel.rs", "pub struct Kernel;"),
        ];
        check(&Workspace::of(&files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_part_names_those_below_it_only() {
        assert_eq!(found("pub struct Zone;"), [""; 0]);
        let above = "allocator needs crates/mm/src/lru/folio.rs, which is above it";
        assert_eq!(found("use crate::lru::folio::Folio; pub struct Zone;"), [above]);
        let crossing = "use crate::kernel::Kernel; use crate::lru::folio::Folio; pub struct Zone;";
        assert_eq!(found(crossing), [""; 0], "what crosses parts");
    }
}
