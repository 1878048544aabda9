//! Files of `/proc` from three kernels.

use std::fmt::Write;

use super::*;

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/proc/", $name))
    };
}

/// One line per zone and per CPU, which can be compared with the file by eye.
fn summary(info: &ZoneInfo) -> String {
    let mut text = String::new();
    for (node, counters) in &info.nodes {
        let _ = writeln!(text, "node {node}: {} counters", counters.len());
    }
    for zone in &info.zones {
        let Zone { node, name, free, boost, min, low, high, promo, spanned, present, managed, .. } = zone;
        let _ = writeln!(
            text,
            "{node} {name}: free {free} boost {boost} min {min} low {low} high {high} promo {promo:?} \
             spanned {spanned} present {present} managed {managed} protection {:?} start_pfn {:?} \
             nr_free_pages {:?} counters {}",
            zone.protection,
            zone.start_pfn,
            zone.counters.get("nr_free_pages"),
            zone.counters.len(),
        );
        for pageset in &zone.pagesets {
            let Pageset { cpu, count, high, batch, high_min, high_max, stat_threshold } = pageset;
            let _ = writeln!(
                text,
                "  cpu {cpu}: count {count} high {high} batch {batch} min {high_min:?} max {high_max:?} \
                 threshold {stat_threshold:?}"
            );
        }
    }
    text
}

#[test]
fn zoneinfo_of_three_kernels() {
    insta::assert_snapshot!("zoneinfo-6.1", summary(&parse_zoneinfo(data!("zoneinfo-6.1.txt")).unwrap()));
    insta::assert_snapshot!("zoneinfo-6.12", summary(&parse_zoneinfo(data!("zoneinfo-6.12.txt")).unwrap()));
    insta::assert_snapshot!("zoneinfo-6.18", summary(&parse_zoneinfo(data!("zoneinfo-6.18.txt")).unwrap()));
}

#[test]
fn zoneinfo_agrees_with_buddyinfo() {
    for (zones, free) in [
        (data!("zoneinfo-6.1.txt"), data!("buddyinfo-6.1.txt")),
        (data!("zoneinfo-6.12.txt"), data!("buddyinfo-6.12.txt")),
        (data!("zoneinfo-6.18.txt"), data!("buddyinfo-6.18.txt")),
    ] {
        let info = parse_zoneinfo(zones).unwrap();
        let free = parse_buddyinfo(free).unwrap();
        assert_eq!(info.populated().count(), free.len());
        for (zone, free) in info.populated().zip(free) {
            assert_eq!((zone.node, &zone.name), (free.node, &free.zone));
            let pages: u64 = free.blocks.iter().enumerate().map(|(order, count)| count << order).sum();
            // The two files were read one after the other on a running kernel.
            assert!(pages.abs_diff(zone.free) < zone.managed / 50, "{pages} and {}", zone.free);
        }
    }
}

#[test]
fn pagetypeinfo_counts() {
    let types = parse_pagetypeinfo(data!("pagetypeinfo-6.18.txt")).unwrap();
    assert_eq!(types.pageblock_order, 9);
    assert_eq!((types.free.len(), types.pageblocks.len()), (15, 3));
    let movable = &types.free[11];
    assert_eq!((movable.zone.as_str(), movable.migratetype.as_str()), ("Normal", "Movable"));
    assert_eq!(movable.blocks, [1, 1, 27, 19, 79, 5671, 3851, 2127, 1004, 470, 2394]);
    assert_eq!(types.pageblocks[2].by_migratetype[1], ("Movable".to_string(), 8180));

    let many = parse_pagetypeinfo("Node    0, zone   Normal, type      Movable >100000      3\n").unwrap();
    assert_eq!(many.free[0].blocks, [100_000, 3]);
}

#[test]
fn meminfo_has_amounts() {
    let amounts = parse_meminfo("MemFree:        23989248 kB\nHugePages_Total:     516\n").unwrap();
    assert_eq!((amounts["MemFree"], amounts["HugePages_Total"]), (23_989_248, 516));
}

#[test]
fn vmstat_counts() {
    let old = parse_vmstat(data!("vmstat-6.1.txt")).unwrap();
    let new = parse_vmstat(data!("vmstat-6.18.txt")).unwrap();
    assert_eq!(new["nr_free_pages"], 482_297);
    assert!(old.contains_key("nr_bounce") && !new.contains_key("nr_bounce"));
}

#[test]
fn errors_name_file_line_and_remedy() {
    let zoneinfo = |text: &str| parse_zoneinfo(text).unwrap_err().to_string();
    let good = data!("zoneinfo-6.18.txt");
    assert_eq!(
        zoneinfo("  pages free 3\n"),
        "/proc/zoneinfo, line 1: expected `Node N, zone NAME`, found `  pages free 3`"
    );
    assert_eq!(
        zoneinfo("Node x, zone DMA\n"),
        "/proc/zoneinfo, line 1: expected `Node N, zone NAME`, found `Node x, zone DMA`"
    );
    let line = good.lines().position(|line| line.trim() == "spanned  4095").unwrap() + 1;
    assert_eq!(
        zoneinfo(&good.replace("spanned  4095", "spanned  lots")),
        format!("/proc/zoneinfo, line {line}: expected a whole number, found `lots`")
    );
    assert_eq!(
        zoneinfo(&good.replacen("        low      13\n", "", 1)),
        "/proc/zoneinfo, line 1: zone DMA has no `low`"
    );
    let message = zoneinfo(&good.replacen("              batch:    1\n", "", 1));
    assert!(message.ends_with("this CPU has no `batch`"), "{message}");

    assert_eq!(
        parse_buddyinfo("Node 0, zone DMA 1 2\nNode 0, zone DMA32 1 -2\n").unwrap_err().to_string(),
        "/proc/buddyinfo, line 2: expected a whole number, found `-2`"
    );
    assert_eq!(
        parse_vmstat("pgfault 3\npgmajfault\n").unwrap_err().to_string(),
        "/proc/vmstat, line 2: expected a name and a number, found `pgmajfault`"
    );
    assert_eq!(
        parse_meminfo("MemFree: 3 kB\nMemTotal: x kB\n").unwrap_err().to_string(),
        "/proc/meminfo, line 2: expected a whole number, found `x`"
    );
    assert_eq!(
        parse_pagetypeinfo("Number of blocks type A B\nNode 0, zone DMA 1\n").unwrap_err().to_string(),
        "/proc/pagetypeinfo, line 2: expected 2 numbers, one for each type, found 1"
    );
    assert_eq!(
        parse_pagetypeinfo("oops\n").unwrap_err().to_string(),
        "/proc/pagetypeinfo, line 1: unknown line `oops`"
    );
}

proptest::proptest! {
    /// Removing, doubling or cutting a line gives other numbers or an error, but no panic.
    #[test]
    fn damaged_texts_never_panic(start in 0usize..9000, length in 0usize..400) {
        for text in [data!("zoneinfo-6.18.txt"), data!("pagetypeinfo-6.18.txt"), data!("buddyinfo-6.18.txt")] {
            let start = start.min(text.len());
            let cut = format!("{}{}", &text[..start], &text[(start + length).min(text.len())..]);
            let _ = (parse_zoneinfo(&cut), parse_pagetypeinfo(&cut), parse_buddyinfo(&cut), parse_vmstat(&cut));
            let _ = parse_meminfo(&cut);
        }
    }
}

#[test]
fn pressure_is_a_total_by_line() {
    let text = "some avg10=0.12 avg60=0.00 avg300=0.00 total=5070678\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4834801\n";
    let totals = parse_pressure(text).unwrap();
    assert_eq!((totals["some"], totals["full"]), (5_070_678, 4_834_801));
    let error = parse_pressure("some avg10=0.12\n").unwrap_err();
    assert!(error.line == 1 && error.problem.contains("total=N"), "{error}");
    assert!(parse_pressure("some total=-1\n").is_err());
}

#[test]
fn swap_areas_have_a_size_and_what_is_used() {
    let text = "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 1048572 5120 100\n/swap (deleted) file 64 0 -2\n";
    let areas = parse_swaps(text).unwrap();
    let told: Vec<_> = areas
        .iter()
        .map(|area| (area.name.as_str(), area.size_kib, area.used_kib, area.is_memory()))
        .collect();
    assert_eq!(told, [("/dev/zram0", 1_048_572, 5120, true), ("/swap", 64, 0, false)]);
    assert_eq!(parse_swaps("").unwrap(), []);
    assert_eq!(parse_swaps("head\n/dev/sda2 partition all 0 -2\n").unwrap_err().line, 2);
}
