//! Compares the committed profile with the totals of the recording from which it was made, and with the page
//! of the manual that shows both.

use std::collections::BTreeMap;
use workload::process::{Operation, ProcessProfile, Quantiles, Summary};

/// Kinds with fewer processes are too small to compare a sample of them.
const ENOUGH: u64 = 300;

fn profile() -> ProcessProfile {
    ProcessProfile::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/kbuild.profile")).unwrap()
}

fn kept(profile: &ProcessProfile) -> BTreeMap<&str, Summary> {
    profile.summary(0..profile.len() as u32)
}

/// Pages allocated per CPU second; the shares of them that the process frees itself, and that it frees of
/// other processes.
fn rates(summary: &Summary) -> [f64; 3] {
    let pages = summary.allocated_pages as f64;
    [
        pages / summary.cpu_seconds,
        summary.freed_own_pages as f64 / pages,
        summary.freed_shared_pages as f64 / pages,
    ]
}

/// The share of allocations of the kind `name`.
fn share_of<'a>(name: &str, kinds: impl Iterator<Item = &'a Summary>) -> f64 {
    let (mut named, mut all) = (0, 0);
    for summary in kinds {
        named += summary.allocations.get(name).copied().unwrap_or(0);
        all += summary.allocations.values().sum::<u64>();
    }
    named as f64 / all as f64
}

#[test]
fn every_kind_asks_for_pages_at_the_recorded_rate() {
    let profile = profile();
    let kept = kept(&profile);
    let mut compared = 0;
    for (kind, recorded) in &profile.totals().kinds {
        let Some(kept) = kept.get(kind.as_str()).filter(|_| recorded.processes >= ENOUGH) else { continue };
        compared += 1;
        let ([pages, own, shared], [of_pages, of_own, of_shared]) = (rates(kept), rates(recorded));
        assert!(
            (pages / of_pages - 1.0).abs() < 0.05,
            "{kind}: {pages} pages a CPU second, {of_pages} recorded"
        );
        assert!((own - of_own).abs() < 0.03, "{kind}: {own} of its pages freed by itself, {of_own} recorded");
        assert!(
            (shared - of_shared).abs() < 0.04 + 0.05 * of_shared,
            "{kind}: {shared} of others' freed, {of_shared} recorded"
        );
    }
    assert!(compared >= 10, "{compared} kinds compared");
}

#[test]
fn jobs_of_all_kinds_and_lengths_are_there() {
    let profile = profile();
    let totals = profile.totals();
    let share = profile.units().len() as f64 / totals.units as f64;
    let expected = totals.cpu_seconds - totals.left_out.cpu_seconds;
    let in_units = profile.summary(profile.units().iter().flatten().copied());
    let cpu_seconds: f64 = in_units.values().map(|summary| summary.cpu_seconds).sum();
    assert!(
        (cpu_seconds / expected / share - 1.0).abs() < 0.02,
        "{cpu_seconds} of {expected} CPU s, {share} of the units"
    );
    for kind in ["cc1", "as", "objtool", "nm", "fixdep", "gcc", "make", "sh", "rm"] {
        let of_recorded = in_units[kind].processes as f64 / totals.kinds[kind].processes as f64;
        assert!(
            (of_recorded / share - 1.0).abs() < 0.1,
            "{of_recorded} of the {kind} processes, {share} of the units"
        );
    }
    let tail = profile.summary(profile.tail().iter().copied());
    assert!(tail["ld"].cpu_seconds > 1.0 && tail["kallsyms"].cpu_seconds > 0.1, "the tail links: {tail:?}");
}

#[test]
fn allocations_have_the_recorded_orders_types_and_runs() {
    let profile = profile();
    let totals = profile.totals();
    let kept = kept(&profile);
    for name in totals.allocations.keys() {
        let (kept, recorded) = (share_of(name, kept.values()), share_of(name, totals.kinds.values()));
        // Kinds of allocation that a build makes only a few hundred of vary widely.
        let tolerance = (0.02 * recorded).max(0.000_05);
        assert!(
            (kept - recorded).abs() < tolerance,
            "{name}: {kept} of the allocations, {recorded} recorded"
        );
    }
    // The distributions are steep: a tenth of a compiler's frees are in runs of 30 pages, the next tenth in
    // runs of 10,000.
    let close =
        |kept: u32, recorded: u32| f64::from(kept.abs_diff(recorded)) <= 3.0 + 0.2 * f64::from(recorded);
    for kind in ["cc1", "nm", "objtool", "as", "sh", "gcc", "fixdep"] {
        let (kept, recorded) = (&kept[kind], &totals.kinds[kind]);
        for (name, kept, recorded) in [
            ("allocation", kept.allocation_runs, recorded.allocation_runs),
            ("free", kept.free_runs, recorded.free_runs),
        ] {
            let Quantiles { median, p90, p99, .. } = kept;
            let same = close(median, recorded.median) && close(p90, recorded.p90) && close(p99, recorded.p99);
            assert!(same, "{kind}: {name} runs {kept:?}, recorded {recorded:?}");
        }
    }
}

#[test]
fn what_is_left_behind_is_what_others_free() {
    let totals = profile().totals().clone();
    let left = totals.allocated_pages - totals.freed_own_pages;
    let balance = totals.freed_shared_pages as f64 / left as f64;
    // The rest is page cache of the files that the build wrote.
    assert!((0.85..=1.0).contains(&balance), "{} of {left} pages", totals.freed_shared_pages);
}

#[test]
fn no_allocation_is_freed_twice() {
    let profile = profile();
    for index in 0..profile.len() as u32 {
        let mut is_held: Vec<bool> = Vec::new();
        for &operation in profile.process(index) {
            match operation {
                Operation::Allocate { count, .. } => is_held.resize(is_held.len() + count as usize, true),
                Operation::Free { first, count, .. } => {
                    let freed = &mut is_held[first as usize..(first + count) as usize];
                    assert!(freed.iter().all(|&held| held), "process {index}, allocation {first}..+{count}");
                    freed.fill(false);
                }
                _ => {}
            }
        }
    }
}

/// The table in the manual: recorded / in the profile.
fn table(profile: &ProcessProfile) -> String {
    let kept = kept(profile);
    let mut kinds: Vec<_> = profile.totals().kinds.iter().collect();
    kinds.sort_by(|a, b| b.1.cpu_seconds.total_cmp(&a.1.cpu_seconds));
    let titles = [
        "process",
        "how many",
        "CPU ms each",
        "pages / CPU s",
        "freed by itself",
        "others' freed",
        "allocations in a row",
        "frees in a row",
    ];
    let mut lines =
        vec![format!("| {} |", titles.join(" | ")), "|---|---|---|---|---|---|---|---|".to_string()];
    for (kind, recorded) in kinds.into_iter().take(12) {
        let kept = &kept[kind.as_str()];
        let pair = |text: &dyn Fn(&Summary) -> String| format!("{} / {}", text(recorded), text(kept));
        let runs = |runs: Quantiles| format!("{} {} {}", runs.median, runs.p90, runs.p99);
        lines.push(format!(
            "| {kind} | {} | {} | {} | {} | {} | {} | {} |",
            pair(&|s| s.processes.to_string()),
            pair(&|s| format!("{:.1}", 1e3 * s.cpu_seconds / s.processes as f64)),
            pair(&|s| format!("{:.0}", rates(s)[0])),
            pair(&|s| format!("{:.1} %", 100.0 * rates(s)[1])),
            pair(&|s| format!("{:.1} %", 100.0 * rates(s)[2])),
            pair(&|s| runs(s.allocation_runs)),
            pair(&|s| runs(s.free_runs)),
        ));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_manual_shows_these_numbers() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/workloads/kbuild.md");
    let manual = std::fs::read_to_string(page).unwrap_or_default();
    let table = table(&profile());
    assert!(manual.contains(&table), "docs/src/workloads/kbuild.md should have this table:\n{table}");
}
