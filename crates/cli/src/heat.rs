//! The heat map of a NUMA run: which threads accessed, and which threads scanned, each VMA.
//!
//! ```text
//!   numa-base, seed 1: accesses and scans of each VMA, threads from left to right
//!   process 0, 0x50200000, 2 MiB  touched |▂▁█▃| 90000 pages, 812 hint faults, 12 % of them local
//!                                 scanned |█   | 512 pages; skipped: 7 pid_inactive
//! ```
//!
//! Each column is a thread, or several adjacent threads if there are more than [`WIDTH`]. Its height is
//! relative to the busiest column of the row.

use lab::results::Record;
use sim::outcome::{AreaHeat, ThreadHeat};

/// Maximum number of columns.
const WIDTH: usize = 64;
/// Bars, from the lowest to the highest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Heat maps of all runs that recorded one.
pub fn heat_maps(records: &[Record]) -> String {
    records.iter().filter(|record| !record.areas.is_empty()).map(heat_map).collect()
}

fn heat_map(record: &Record) -> String {
    let threads = record.areas.iter().flat_map(|area| &area.threads).map(|heat| heat.thread as usize + 1);
    let threads = threads.max().unwrap_or(1);
    let (variant, seed) = (&record.run.variant, record.run.seed);
    let mut text =
        format!("\n\n{variant}, seed {seed}: accesses and scans of each VMA, threads from left to right");
    if threads > WIDTH {
        text += &format!(", {} per column", threads.div_ceil(WIDTH));
    }
    for area in &record.areas {
        text += &format!("\n{}", lines(area, threads));
    }
    text
}

fn lines(area: &AreaHeat, threads: usize) -> String {
    let label = format!("process {}, {:#x}, {}", area.process, area.address, size(area.pages));
    let faults = area.faults();
    let local: u64 = area.threads.iter().map(|heat| heat.local_faults).sum();
    let touched = columns(area, threads, |heat| heat.touched);
    let scanned = columns(area, threads, |heat| heat.scanned);
    let width = label.len();
    let mut text = format!("{label}  touched |{touched}| {} pages, {faults} hint faults", area.touched());
    if let Some(percent) = (100 * local).checked_div(faults) {
        text += &format!(", {percent} % of them local");
    }
    text += &format!("\n{:width$}  scanned |{scanned}| {} pages", "", area.scanned());
    let skipped: Vec<String> =
        area.skipped.iter().map(|(reason, times)| format!("{times} {reason}")).collect();
    if !skipped.is_empty() {
        text += &format!("; skipped: {}", skipped.join(", "));
    }
    text
}

/// Size in MiB or KiB of `pages` pages of 4 KiB.
fn size(pages: u64) -> String {
    match pages * 4 {
        kib if kib % 1024 == 0 => format!("{} MiB", kib / 1024),
        kib => format!("{kib} KiB"),
    }
}

fn columns(area: &AreaHeat, threads: usize, of: impl Fn(&ThreadHeat) -> u64) -> String {
    let each = threads.div_ceil(WIDTH);
    let mut sums = vec![0; threads.div_ceil(each)];
    for heat in &area.threads {
        sums[heat.thread as usize / each] += of(heat);
    }
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let height = |&sum: &u64| match sum {
        0 => ' ',
        sum => HEIGHTS[(sum * HEIGHTS.len() as u64).div_ceil(most) as usize - 1],
    };
    sums.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_high_as_its_part_of_the_busiest() {
        let heat = |thread, touched, local_faults, scanned| ThreadHeat {
            thread,
            touched,
            scanned,
            local_faults,
            remote_faults: 0,
        };
        let area = |pages, threads| AreaHeat {
            process: 1,
            address: 0x1000,
            pages,
            skipped: Default::default(),
            threads,
        };
        let few = area(512, vec![heat(0, 800, 3, 0), heat(2, 100, 0, 512), heat(3, 400, 0, 0)]);
        let text = lines(&few, 4);
        let touched =
            "process 1, 0x1000, 2 MiB  touched |█ ▁▄| 1300 pages, 3 hint faults, 100 % of them local\n";
        assert!(text.starts_with(touched), "{text}");
        assert!(text.contains("|  █ | 512 pages"), "{text}");
        let starved = lines(&area(5, vec![heat(1, 7, 0, 0)]), 2);
        assert!(
            starved.starts_with("process 1, 0x1000, 20 KiB  touched | █| 7 pages, 0 hint faults\n"),
            "{starved}"
        );
        let many = area(1, (0..256).map(|thread| heat(thread, 1, 0, 0)).collect());
        assert_eq!(columns(&many, 256, |heat| heat.touched), "█".repeat(64));
    }
}
