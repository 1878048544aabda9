//! /proc files of the simulated kernel, in the kernel's format, so that one reader serves both the twin and a
//! real kernel.
//!
//! In the kernel: `zoneinfo_show_print`, `frag_show_print`, `vmstat_show` and `pagetypeinfo_showfree_print`
//! in mm/vmstat.c. Only lines that the twin models are printed.

use crate::allocator::page::MigrateType;
use crate::allocator::pcp::policy::zoneinfo_rows;
use crate::allocator::watermark::Mark;
use crate::allocator::zone::Zone;
use crate::counters::Event;
use crate::kernel::MemoryManager;
use std::fmt::Write;

/// /proc/zoneinfo.
pub fn zoneinfo(mm: &MemoryManager) -> String {
    let mut text = String::new();
    for zone in mm.parts.allocator.zones() {
        let _ = write_zone(&mut text, mm, zone);
    }
    text
}

fn write_zone(text: &mut String, mm: &MemoryManager, zone: &Zone) -> std::fmt::Result {
    writeln!(text, "Node {}, zone {:>8}", zone.node.0, zone.kind.name())?;
    writeln!(text, "  pages free     {}", zone.free_pages())?;
    let rows = [
        ("boost", zone.buddy.watermark_boost),
        ("min", zone.wmark(Mark::Min)),
        ("low", zone.wmark(Mark::Low)),
        ("high", zone.wmark(Mark::High)),
        ("promo", zone.wmark(Mark::Promo)),
        ("spanned", zone.spanned.len() as u64),
        ("present", zone.present),
        ("managed", zone.managed),
        ("cma", 0),
    ];
    for (name, value) in rows {
        writeln!(text, "        {name:<8} {value}")?;
    }
    let reserves = zone.lowmem_reserve.map(|pages| pages.to_string()).join(", ");
    writeln!(text, "        protection: ({reserves})")?;
    writeln!(text, "      nr_free_pages {}", zone.free_pages())?;
    writeln!(text, "  pagesets")?;
    for (cpu, pageset) in zone.pagesets.iter().enumerate() {
        writeln!(text, "    cpu: {cpu}")?;
        for (name, value) in zoneinfo_rows(mm.features(), &pageset.tuning) {
            writeln!(text, "              {name:<10}{value}")?;
        }
        writeln!(text, "  vm stats threshold: {}", zone.stat_threshold)?;
    }
    writeln!(text, "  node_unreclaimable:  0")?;
    writeln!(text, "  start_pfn:           {}", zone.spanned.start)
}

/// /proc/vmstat: the kernel's counters, then those that only the twin has.
pub fn vmstat(mm: &MemoryManager) -> String {
    let mut text =
        format!("nr_free_pages {}\n", mm.parts.allocator.zones().iter().map(|z| z.free_pages()).sum::<i64>());
    let vmemmap = &mm.parts.hugetlb.vmemmap;
    let _ = writeln!(text, "nr_memmap_pages {}", vmemmap.nr_memmap_pages());
    let _ = writeln!(text, "nr_memmap_boot_pages {}", vmemmap.nr_memmap_boot_pages());
    for &event in Event::ALL {
        let _ = writeln!(text, "{} {}", event.name(), mm.counters().get(event));
    }
    text
}

/// The huge-page lines of /proc/meminfo; `HugePages_*` are in pages of the default size.
pub fn meminfo(mm: &MemoryManager) -> String {
    let pools = mm.parts.hugetlb.hstates();
    let (default, pool) = (&pools[0], pools[0].counters());
    let all: u64 = pools.iter().map(|h| h.counters().nr * h.kib()).sum();
    let mut text = String::new();
    for (name, value, unit) in [
        ("HugePages_Total:", pool.nr, ""),
        ("HugePages_Free:", pool.free, ""),
        ("HugePages_Rsvd:", default.resv, ""),
        ("HugePages_Surp:", pool.surplus, ""),
        ("Hugepagesize:", default.kib(), " kB"),
        ("Hugetlb:", all, " kB"),
    ] {
        let _ = writeln!(text, "{name:<16}{value:>8}{unit}");
    }
    text
}

/// /proc/buddyinfo.
pub fn buddyinfo(mm: &MemoryManager) -> String {
    let mut text = String::new();
    for zone in mm.parts.allocator.zones() {
        let _ = write!(text, "Node {}, zone {:>8} ", zone.node.0, zone.kind.name());
        for order in 0..=mm.parts.allocator.geometry().max_page_order {
            let _ = write!(text, "{:>6} ", zone.buddy.nr_free(order));
        }
        text.push('\n');
    }
    text
}

/// The table of free blocks by migrate type and order in /proc/pagetypeinfo.
pub fn pagetypeinfo(mm: &MemoryManager) -> String {
    let mut text = format!("{:<43} ", "Free pages count per migrate type at order");
    for order in 0..=mm.parts.allocator.geometry().max_page_order {
        let _ = write!(text, "{order:>6} ");
    }
    text.push('\n');
    for zone in mm.parts.allocator.zones() {
        for migrate_type in MigrateType::ALL {
            let _ = write!(
                text,
                "Node {:>4}, zone {:>8}, type {:>12} ",
                zone.node.0,
                zone.kind.name(),
                migrate_type.name()
            );
            for order in 0..=mm.parts.allocator.geometry().max_page_order {
                let _ = write!(text, "{:>6} ", zone.buddy.nr_free_of(order, migrate_type));
            }
            text.push('\n');
        }
    }
    text
}
