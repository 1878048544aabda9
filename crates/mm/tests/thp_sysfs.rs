//! The files of `transparent_hugepage`: their content and the values that they accept.

mod reclaim_machine;

use mm::{MemoryManager, Series, SettingError};
use proptest::prelude::*;

fn kernel() -> MemoryManager {
    let (_, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant("folios-7.2").unwrap());
    mm.set("transparent_hugepage/enabled", "madvise").unwrap();
    mm
}

fn read(mm: &MemoryManager, file: &str) -> String {
    mm.read_sysfs(&format!("transparent_hugepage/{file}")).unwrap()
}

#[test]
fn files_say_what_a_kernel_says_after_boot() {
    let mm = kernel();
    for (file, text) in [
        ("enabled", "always [madvise] never\n"),
        ("defrag", "always defer defer+madvise [madvise] never\n"),
        ("use_zero_page", "1\n"),
        ("shrink_underused", "1\n"),
        ("hpage_pmd_size", "2097152\n"),
        ("hugepages-64kB/enabled", "always inherit madvise [never]\n"),
        ("hugepages-2048kB/enabled", "always [inherit] madvise never\n"),
        ("hugepages-64kB/stats/anon_fault_alloc", "0\n"),
        ("khugepaged/defrag", "1\n"),
        ("khugepaged/pages_to_scan", "4096\n"),
        ("khugepaged/scan_sleep_millisecs", "10000\n"),
        ("khugepaged/alloc_sleep_millisecs", "60000\n"),
        ("khugepaged/max_ptes_none", "511\n"),
        ("khugepaged/max_ptes_swap", "64\n"),
        ("khugepaged/max_ptes_shared", "256\n"),
        ("khugepaged/pages_collapsed", "0\n"),
        ("khugepaged/full_scans", "0\n"),
    ] {
        assert_eq!(read(&mm, file), text, "{file}");
    }
    let sizes = |mm: &MemoryManager| {
        let files = mm.sysfs_files();
        files.iter().filter(|file| file.contains("kB/enabled")).count()
    };
    assert_eq!(sizes(&mm), 8, "16 KiB to 2 MiB");
}

#[test]
fn what_files_take() {
    let mut mm = kernel();
    for (file, value, taken) in [
        ("enabled", "always\n", true),
        ("enabled", "inherit", false),
        ("enabled", "always\n\n", false),
        ("hugepages-64kB/enabled", "inherit", true),
        ("hugepages-64kB/enabled", "1", false),
        ("use_zero_page", "0\n", true),
        ("use_zero_page", "2", false),
        ("use_zero_page", " 1", false),
        ("khugepaged/defrag", "0", true),
        ("khugepaged/defrag", "yes", false),
        ("khugepaged/max_ptes_none", "0", true),
        ("khugepaged/max_ptes_none", "512", false),
        ("khugepaged/max_ptes_none", "-1", false),
        ("khugepaged/pages_to_scan", "0", false),
        ("khugepaged/pages_to_scan", "4294967295", true),
        ("khugepaged/pages_to_scan", "4294967296", false),
        ("khugepaged/scan_sleep_millisecs", "0", true),
        ("khugepaged/scan_sleep_millisecs", "", false),
    ] {
        let before: Vec<String> = mm.sysfs_files().iter().map(|file| mm.read_sysfs(file).unwrap()).collect();
        let written = mm.write_sysfs(&format!("transparent_hugepage/{file}"), value);
        assert_eq!(written.is_ok(), taken, "{file} = {value:?}");
        if !taken {
            assert!(matches!(written, Err(SettingError::Invalid(_))), "{written:?}");
            let after: Vec<String> =
                mm.sysfs_files().iter().map(|file| mm.read_sysfs(file).unwrap()).collect();
            assert_eq!(before, after, "{file} = {value:?} changes nothing");
        }
    }
}

#[test]
fn what_there_is_not_and_what_is_only_read() {
    let mut mm = kernel();
    for file in ["hugepages-8kB/enabled", "hugepages-4096kB/enabled", "shrink", "khugepaged/"] {
        let path = format!("transparent_hugepage/{file}");
        assert!(matches!(mm.read_sysfs(&path), Err(SettingError::Unknown { .. })), "{file}");
        assert!(matches!(mm.write_sysfs(&path, "1"), Err(SettingError::Unknown { .. })), "{file}");
    }
    for file in ["hpage_pmd_size", "khugepaged/full_scans", "hugepages-16kB/stats/nr_anon"] {
        let path = format!("transparent_hugepage/{file}");
        let written = mm.write_sysfs(&path, "0");
        assert!(matches!(written, Err(SettingError::ReadOnly { .. })), "{file}");
    }
}

/// The files that each kernel has and the one before it has not.
#[test]
fn files_come_with_kernels() {
    let files =
        |variant: &str| reclaim_machine::boot(Series::FOLIOS.variant(variant).unwrap()).1.sysfs_files();
    let kernels = [
        (
            "folios-base",
            vec!["enabled", "defrag", "use_zero_page", "hpage_pmd_size", "khugepaged/max_ptes_none"],
        ),
        ("folios-v9", vec!["hugepages-64kB/enabled", "hugepages-2048kB/enabled"]),
        (
            "mainline-6.10",
            vec!["anon_fault_alloc", "anon_fault_fallback_charge", "swpout", "swpout_fallback"],
        ),
        ("mainline-6.11", vec!["split", "split_failed", "split_deferred", "shmem_alloc", "shmem_fallback"]),
        ("mainline-6.12", vec!["nr_anon", "nr_anon_partially_mapped", "shrink_underused"]),
        ("mainline-6.13", vec!["zswpout", "swpin"]),
        ("mainline-6.14", vec!["swpin_fallback", "swpin_fallback_charge"]),
        ("mainline-7.2", vec!["collapse_alloc", "collapse_alloc_failed", "collapse_exceed_none_pte"]),
    ];
    let mut before: Vec<String> = Vec::new();
    for (kernel, new) in kernels {
        let now = files(kernel);
        assert!(before.iter().all(|file| now.contains(file)), "{kernel} has what was there before");
        for name in new {
            let is_it = |file: &&String| {
                let stat = file.split_once("hugepages-64kB/stats/").map(|(_, name)| name);
                stat == Some(name) || **file == format!("transparent_hugepage/{name}")
            };
            assert!(now.iter().any(|file| is_it(&file)), "{kernel}: {name}");
            assert!(!before.iter().any(|file| is_it(&file)), "before {kernel}: {name}");
        }
        before = now;
    }
    assert_eq!(files("folios-6.8"), files("folios-v9"));
    assert_eq!(files("folios-6.12"), files("mainline-6.12"));
    assert_eq!(files("mainline-7.0"), files("mainline-6.18"));
}

/// An older kernel answers that there is no such file; the message adds which kernel has it.
#[test]
fn files_of_later_kernels_are_not_there() {
    let (_, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant("folios-6.12").unwrap());
    let path = "transparent_hugepage/hugepages-64kB/stats/collapse_alloc";
    let said = "transparent_hugepage/hugepages-64kB/stats/collapse_alloc: no such file (ENOENT) in this kernel; it came with 7.2";
    assert_eq!(mm.read_sysfs(path).unwrap_err().to_string(), said);
    assert_eq!(mm.write_sysfs(path, "0").unwrap_err().to_string(), said);
    let (_, mut mm) = reclaim_machine::boot(Series::FOLIOS.variant("folios-base").unwrap());
    let path = "transparent_hugepage/hugepages-64kB/enabled";
    let written = mm.write_sysfs(path, "always");
    assert!(matches!(written, Err(SettingError::NoFile { .. })), "{written:?}");
    assert!(mm.read_sysfs(path).unwrap_err().to_string().ends_with("it came with 6.8"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A file accepts its own content, which it then still has; no other file changes.
    #[test]
    fn files_take_what_they_say(which in any::<prop::sample::Index>(), number in 0u32..2000, word in 0usize..5) {
        let mut mm = kernel();
        let files = mm.sysfs_files();
        let file = which.get(&files);
        let said = mm.read_sysfs(file).unwrap();
        let words: Vec<&str> = said.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
        let value = match words.len() {
            1 => number.to_string(),
            _ => words[word % words.len()].to_string(),
        };
        let others = |mm: &MemoryManager| {
            let others = files.iter().filter(|&other| other != file);
            others.map(|other| mm.read_sysfs(other).unwrap()).collect::<Vec<_>>()
        };
        let before = others(&mm);
        if mm.write_sysfs(file, &value).is_ok() {
            let says = mm.read_sysfs(file).unwrap();
            let holds = says.split_whitespace().find(|word| word.starts_with('[')).unwrap_or(says.trim());
            prop_assert_eq!(holds.trim_matches(['[', ']']), value.as_str());
        }
        prop_assert_eq!(before, others(&mm));
    }
}
