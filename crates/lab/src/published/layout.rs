//! How C lays out a structure: `struct per_cpu_pages` before and after the series.
//!
//! ```text
//!   members in order, each aligned to its type ─► offsets and holes
//!   the whole padded to its own alignment      ─► size, padding, cache lines      (what pahole prints)
//! ```

use super::prediction::CellValue;
use super::tables::{Row, Table};

const CACHE_LINE: usize = 64;

/// A C type on a 64-bit machine.
#[derive(Clone, Copy)]
struct CType {
    name: &'static str,
    size: usize,
    align: usize,
}

const SPINLOCK: CType = CType { name: "spinlock_t", size: 4, align: 4 };
const INT: CType = CType { name: "int", size: 4, align: 4 };
const SHORT: CType = CType { name: "short int", size: 2, align: 2 };
const U8: CType = CType { name: "u8", size: 1, align: 1 };
const LIST_HEAD: CType = CType { name: "struct list_head", size: 16, align: 8 };

/// A member: name, type, how many.
type Member = (&'static str, CType, usize);

/// Three migrate types of four orders, and one list of huge pages.
const LISTS: Member = ("lists[13]", LIST_HEAD, 13);

const BASE: &[Member] = &[
    ("lock", SPINLOCK, 1),
    ("count", INT, 1),
    ("high", INT, 1),
    ("batch", INT, 1),
    ("free_factor", SHORT, 1),
    ("expire", SHORT, 1),
    LISTS,
];

/// After all ten patches: bytes replace short integers, the bounds and the two memories of auto-tuning are new.
const PATCHED: &[Member] = &[
    ("lock", SPINLOCK, 1),
    ("count", INT, 1),
    ("count_min", INT, 1),
    ("high", INT, 1),
    ("high_min", INT, 1),
    ("high_max", INT, 1),
    ("batch", INT, 1),
    ("flags", U8, 1),
    ("alloc_factor", U8, 1),
    ("expire", U8, 1),
    ("free_count", SHORT, 1),
    LISTS,
];

#[derive(Debug, Default, PartialEq)]
struct Layout {
    /// Name, type, offset, size.
    members: Vec<(&'static str, &'static str, usize, usize)>,
    holes: Vec<usize>,
    padding: usize,
    size: usize,
}

fn lay_out(members: &[Member]) -> Layout {
    let mut layout = Layout::default();
    let mut end: usize = 0;
    for &(name, kind, count) in members {
        let offset = end.next_multiple_of(kind.align);
        if offset > end {
            layout.holes.push(offset - end);
        }
        end = offset + kind.size * count;
        layout.members.push((name, kind.name, offset, kind.size * count));
    }
    layout.size = end.next_multiple_of(CACHE_LINE); // ____cacheline_aligned
    layout.padding = layout.size - end;
    layout
}

/// The structure that a table shows.
fn members(table: &str) -> Option<&'static [Member]> {
    match table {
        "pcp.per_cpu_pages.base" => Some(BASE),
        "pcp.per_cpu_pages.patched" => Some(PATCHED),
        _ => None,
    }
}

/// Whether `table` shows a layout.
pub(super) fn is_layout(table: &str) -> bool {
    members(table).is_some()
}

/// What a cell of a layout must be. Rows named `hole` are told apart by their order.
pub(super) fn predict(table: &Table, index: usize, column: &str) -> CellValue {
    let Some(members) = members(&table.id) else {
        return CellValue::Missing("no layout stands for this table".into());
    };
    let layout = lay_out(members);
    let row: &Row = &table.rows[index];
    let number = |value: usize| CellValue::Number(value as f64);
    let sum = || layout.members.iter().map(|member| member.3).sum();
    match (row.name.as_str(), column) {
        ("summary.size", "size") => number(layout.size),
        ("summary.size", "cachelines") => number(layout.size / CACHE_LINE),
        ("summary.size", "members") => number(layout.members.len()),
        ("summary.sum", "sum_members") => number(sum()),
        ("summary.sum", "holes") => number(layout.holes.len()),
        ("summary.sum", "sum_holes") => number(layout.holes.iter().sum()),
        ("summary.padding", "padding") => number(layout.padding),
        ("hole", "size") => {
            let before = table.rows[..index].iter().filter(|row| row.name == "hole").count();
            layout
                .holes
                .get(before)
                .map_or(CellValue::Missing("there is no such hole".into()), |&hole| number(hole))
        }
        (name, column) => match (layout.members.iter().find(|member| member.0 == name), column) {
            (Some(member), "type") => CellValue::Text(member.1.into()),
            (Some(member), "offset") => number(member.2),
            (Some(member), "size") => number(member.3),
            _ => CellValue::Missing("there is no such member".into()),
        },
    }
}
