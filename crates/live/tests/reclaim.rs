//! The twin against the recordings of reclaim.

use std::collections::BTreeMap;

use live::recordings::default_directory;
use live::verify::reclaim::{Lru, RIGHT_ACCESSES, Recording, Residency, Stay, entries, tolerance};
use live::verify::{Entry, RecordedKernel, Report, by_recordings};
use mm::Mechanism;

fn recordings() -> Vec<(String, Recording)> {
    Recording::list(&default_directory()).unwrap()
}

fn pages(stays: impl Iterator<Item = Stay>) -> u64 {
    stays.map(|stay| stay.folio.pages().len() as u64).sum()
}

#[test]
fn recordings_are_whole() {
    let mut cases = BTreeMap::new();
    for (name, recording) in recordings() {
        for case in &recording.cases {
            *cases.entry(recording.kernel.clone()).or_insert(0) += 1;
            let operations = recording.operations(case).unwrap();
            if case.is_damon() {
                let paged_out = case.counters["damon_reclaim.bytes_reclaimed_regions"] / 4096;
                let [misses, evictions] = ["misses", "evictions"].map(|name| case.counters[name]);
                assert!(misses > evictions && evictions <= paged_out, "{name}, {}", case.name);
                continue;
            }
            let residency = recording.residency(case, &operations).unwrap();
            let [misses, anon] = residency.misses(&operations);
            let evicted = pages(residency.evicted());
            let left = residency.pages_brought() - evicted;
            let place = format!("{name}, {}: {misses} misses, {evicted} pages evicted", case.name);
            if !case.writes.is_empty() {
                let steals: u64 = ["direct", "kswapd", "proactive"]
                    .iter()
                    .filter_map(|by| case.counters.get(&format!("pgsteal_{by}")))
                    .sum();
                assert_eq!(steals, evicted, "{place}");
                continue;
            }
            // The pages left at the end are within the limit, and memory was full.
            let most = case.memcg_max.map_or(case.free_pages, |max| Some(max - case.memcg_other)).unwrap();
            let swapped = case.counters["pswpout"] - case.counters["pswpin"];
            let other = if anon > 0 { 6000 - swapped } else { 0 };
            assert!(left + other <= most && left + other + most / 20 >= most, "{place}");
            // The kernel's own count. In one case, two stays began unobserved.
            let steals = case.counters["pgsteal_file"];
            assert!(steals.abs_diff(evicted) <= 2, "{place}, {steals} stolen");
            assert!(case.counters["pgscan_file"] >= steals, "{place}");
        }
    }
    let expected = [("6.1.192", 20), ("6.12.95", 26), ("6.18.15", 68), ("6.18.44", 3)];
    assert_eq!(cases, expected.map(|(kernel, n)| (kernel.to_string(), n)).into());
}

/// The sizes of generations as the kernel printed them, against the pages that remain after its evictions.
#[test]
fn generations_hold_the_pages_that_are_left() {
    for (name, recording) in recordings() {
        let of_limits = recording.cases.iter().filter(|case| case.writes.is_empty() && !case.is_damon());
        for case in of_limits.filter(|case| case.lru == Lru::MultiGen) {
            let generations = recording.generations(case).unwrap();
            let last = generations.last().unwrap().access;
            let operations = recording.operations(case).unwrap();
            assert_eq!(last as usize, operations.len(), "{name}, {}", case.name);
            let file: u64 = generations.iter().filter(|size| size.access == last).map(|size| size.file).sum();
            let residency = recording.residency(case, &operations).unwrap();
            let left = residency.misses(&operations)[0] - residency.evictions.len() as u64;
            // Up to a batch of pages is not on the lists yet; the machine has a few files of its own.
            assert!(left.abs_diff(file) <= 31 + 8, "{name}, {}: {left} left, {file} listed", case.name);
        }
    }
}

#[test]
fn a_recording_can_be_written_and_read_and_errors_name_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let (_, original) = recordings().remove(0);
    let case = original.cases[0].clone();
    let operations = original.operations(&case).unwrap();
    let residency = original.residency(&case, &operations).unwrap();
    let mut copy = Recording::new(original.kernel.clone(), original.machine.clone(), original.cpus);
    copy.add(directory.path(), case.clone(), Some(&residency)).unwrap();
    let read = Recording::open(directory.path()).unwrap();
    assert_eq!(read.cases[..], original.cases[..1]);
    assert_eq!(read.residency(&case, &operations).unwrap(), residency);

    let path = directory.path().join("reclaim.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("lru = ", "lists = ")).unwrap();
    let error = Recording::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("reclaim.toml: TOML parse error at line") && error.contains("lists"), "{error}");
    std::fs::write(&path, text.replace("\"zipf\"", "\"zipfel\"")).unwrap();
    let read = Recording::open(directory.path()).unwrap();
    let error = read.operations(&read.cases[0]).unwrap_err().to_string();
    assert!(error.ends_with("zipf-classic: there is no sequence `zipfel`"), "{error}");
}

/// Recordings agree with themselves, but not with those of another kernel.
#[test]
fn the_judge_tells_kernels_apart() {
    let (_, recording) = recordings().remove(0);
    let case = |name: &str| recording.cases.iter().find(|case| case.name == name).unwrap();
    let (classic, multi_gen) = (case("zipf-classic"), case("zipf-multi-gen"));
    let operations = recording.operations(classic).unwrap();
    let residency = |case| -> Residency { recording.residency(case, &operations).unwrap() };
    let (classic, multi_gen) =
        ((&residency(classic), &classic.counters), (&residency(multi_gen), &multi_gen.counters));
    let same = entries("same", &operations, classic, classic);
    assert!(same.len() > 8 && same.iter().all(|entry| entry.error == Some(0.0)), "{same:?}");
    let other = entries("other", &operations, classic, multi_gen);
    let share = |counter: &str| {
        let entry = other.iter().find(|entry| entry.counter == counter).unwrap();
        entry.twin as f64 / entry.kernel as f64
    };
    assert!(share("misses") > 1.01, "{}", share("misses"));
    assert!(share("evictions, in order of batches") < 0.9, "{}", share("evictions, in order of batches"));
}

fn report() -> Report {
    by_recordings(Mechanism::Reclaim, &default_directory()).unwrap()
}

fn errors<'a>(report: &'a Report, counter: &'a str) -> impl Iterator<Item = (&'a Entry, f64)> {
    let single = report.entries.iter().filter(|entry| !entry.case.contains("mean of"));
    let entries = single.filter(move |entry| entry.counter == counter);
    entries.map(|entry| (entry, entry.error.unwrap().abs()))
}

#[test]
fn the_twin_misses_as_often_as_the_kernel() {
    let report = report();
    assert_eq!(report.kernel, "6.1.192, 6.12.95, 6.18.15, 6.18.44");
    for (entry, error) in errors(&report, "misses") {
        let lru = if entry.case.ends_with("classic") { Lru::Classic } else { Lru::MultiGen };
        assert!(error <= tolerance(lru), "{}: {} misses, {}", entry.case, entry.kernel, entry.twin);
    }
}

#[test]
fn the_twin_s_pages_are_the_kernel_s() {
    for (entry, error) in errors(&report(), "accesses, hit or miss") {
        assert!(error <= 1.0 - RIGHT_ACCESSES, "{}: {} of {}", entry.case, entry.twin, entry.kernel);
    }
}

/// With the multi-gen LRU to the last page, by memory.high, memory.reclaim and memory.max.
#[test]
fn files_of_a_group_evict_what_they_evict_in_the_kernel() {
    let report = report();
    let of_groups = report.entries.iter().filter(|entry| entry.case.contains("groups"));
    let (multi_gen, classic): (Vec<&Entry>, Vec<&Entry>) =
        of_groups.filter(|entry| entry.is_comparable()).partition(|entry| entry.case.ends_with("multi-gen"));
    let counted = |counter: &str| counter == "misses" || counter.contains("evictions");
    let exact: Vec<&&Entry> = multi_gen.iter().filter(|entry| counted(&entry.counter)).collect();
    assert_eq!(exact.len(), 12 * 5);
    assert!(exact.iter().all(|entry| entry.twin == entry.kernel), "{exact:?}");
    assert_eq!(classic.iter().filter(|entry| entry.counter == "misses").count(), 12);
}

/// DAMON_RECLAIM of 6.12 does nothing, and that of 6.18 as much as the twin's.
#[test]
fn damon_tries_as_much_as_the_kernel_s() {
    let report = report();
    let means: Vec<&Entry> = report.entries.iter().filter(|entry| entry.case.contains("mean of")).collect();
    let of = |kernel: &str, counter: &str| {
        let found = means.iter().filter(|entry| entry.case.contains(kernel) && entry.counter == counter);
        found.map(|entry| (entry.kernel, entry.twin, entry.error.unwrap().abs())).collect::<Vec<_>>()
    };
    assert!(
        of("6.12.95", "evictions").is_empty() && of("6.12.95", "misses").iter().all(|means| means.2 == 0.0)
    );
    for counter in
        ["misses", "damon_reclaim.nr_reclaim_tried_regions", "damon_reclaim.bytes_reclaim_tried_regions"]
    {
        let means = of("6.18.15", counter);
        assert!(means.len() == 6 && means.iter().all(|means| means.2 < 0.1), "{counter}: {means:?}");
    }
    let windows = of("6.18.15", "damon_reclaim.nr_quota_exceeds");
    assert!(windows.len() == 2 && windows.iter().all(|means| means.2 == 0.0), "{windows:?}");
}

/// All counters except those with a known cause of differences.
#[test]
fn scans_and_mapped_loads_on_a_real_processor_are_the_kernel_s_to_the_last_folio() {
    let report = report();
    for case in ["reclaim-6.18.44: zipfmmap-0.9-classic", "reclaim-6.18.44: scan-classic"] {
        let entries: Vec<&Entry> = report.entries.iter().filter(|entry| entry.case == case).collect();
        assert!(entries.len() > 8, "{case}");
        for entry in entries.into_iter().filter(|entry| entry.causes.iter().next().is_none()) {
            assert_eq!(entry.twin, entry.kernel, "{case}, {}", entry.counter);
        }
    }
}

#[test]
fn what_cannot_be_compared_is_said_to_be_so() {
    let report = report();
    let incomparable: Vec<&Entry> = report.entries.iter().filter(|entry| !entry.is_comparable()).collect();
    // Counters of mapped files with the multi-gen LRU in emulation, on three kernels.
    let (mapped, others): (Vec<&Entry>, Vec<&Entry>) =
        incomparable.into_iter().partition(|entry| entry.case.ends_with("mmap-multi-gen"));
    assert!(mapped.iter().filter(|entry| entry.counter == "misses").count() == 3, "{mapped:?}");
    let known = [
        "pgactivate",
        "pgscan_direct",
        "pgscan_kswapd",
        "pgsteal_direct",
        "pgsteal_kswapd",
        "workingset_nodes",
    ];
    assert!(others.len() > 12);
    assert!(others.iter().all(|entry| known.contains(&entry.counter.as_str())), "{others:?}");
}

#[test]
fn a_machine_without_cpus_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(default_directory().join("reclaim-6.18.44/reclaim.toml")).unwrap();
    assert!(text.contains("cpus = 2"));
    std::fs::write(directory.path().join("reclaim.toml"), text.replacen("cpus = 2", "cpus = 0", 1)).unwrap();
    let error = Recording::open(directory.path()).unwrap_err().to_string();
    assert!(error.ends_with("reclaim.toml: cpus = 0: expected 1 to 8"), "{error}");
}

#[test]
fn reads_that_are_not_as_the_case_says_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let original = default_directory().join("reclaim-6.18.44");
    for file in std::fs::read_dir(&original).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = directory.path().join("reclaim.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let error = |was: &str, becomes: &str| {
        assert!(text.contains(was));
        std::fs::write(&path, text.replace(was, becomes)).unwrap();
        let read = Recording::open(directory.path()).unwrap();
        read.operations(read.cases.last().unwrap()).unwrap_err().to_string()
    };
    let expected =
        "scan-classic.reads.zst, line 1: expected a read of 31 pages of 131072, as reclaim.toml says";
    let pages = error("request_pages = 32", "request_pages = 31");
    assert!(pages.contains(expected), "{pages}");
    // The 13th read reads ahead past the end of the file.
    let short = error("file_pages = 131072", "file_pages = 1024");
    assert!(
        short.contains("scan-classic.reads.zst, line 13: expected a read of 32 pages of 1024"),
        "{short}"
    );
}
